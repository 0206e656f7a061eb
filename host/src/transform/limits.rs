//! What one call of a component may use, and the limiter that holds a store to it.

use std::time::Duration;

use wasmtime::ResourceLimiter;

/// Linear memory of one instance, unless a table says otherwise.
pub const DEFAULT_MEMORY_BYTES: u64 = 256 << 20;
/// Wall time of one chunk in one component, unless a table says otherwise.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);
/// Linear memory of one instance of a transform with `wasi = true`, unless a table says otherwise. CPython starts in 24 MiB;
/// its objects take several times what the values of a chunk take.
pub const DEFAULT_WASI_MEMORY_BYTES: u64 = 512 << 20;
/// Wall time of one chunk in one component of a transform with `wasi = true`, unless a table says otherwise. An interpreter
/// is tens of times slower than compiled code.
pub const DEFAULT_WASI_DEADLINE: Duration = Duration::from_secs(60);
/// What a component may hand over in one call, unless a table says otherwise.
pub const DEFAULT_OUTPUT_BYTES: u64 = 256 << 20;
/// Stack of a component. Well below the 2 MiB that a thread of the runtime has, host frames included.
pub(crate) const STACK_BYTES: usize = 512 << 10;

/// Enough for a language runtime that is linked from many modules; a plain component has one memory and one table.
pub(super) const MAX_INSTANCES: usize = 200;
pub(super) const MAX_TABLES: usize = 100;
pub(super) const MAX_MEMORIES: usize = 16;
pub(super) const MAX_TABLE_ELEMENTS: usize = 1 << 20;

/// Limits of one call. A call covers instantiation, `open` and `apply`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of the instance, all its memories together.
    pub memory_bytes: u64,
    /// Wall time.
    pub deadline: Duration,
    /// Bytes that the component may hand over: its answer, and each argument to a function of the host.
    pub output_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            memory_bytes: DEFAULT_MEMORY_BYTES,
            deadline: DEFAULT_DEADLINE,
            output_bytes: DEFAULT_OUTPUT_BYTES,
        }
    }
}

impl Limits {
    /// The limits of a transform with `wasi = true`, unless a table says otherwise.
    pub fn with_wasi() -> Limits {
        Limits {
            memory_bytes: DEFAULT_WASI_MEMORY_BYTES,
            deadline: DEFAULT_WASI_DEADLINE,
            ..Limits::default()
        }
    }
}

/// Counts what a store has, over all its memories and tables (wasmtime's own limiter counts each memory for itself), and
/// remembers a refusal, so that the trap which usually follows it can be called by its right name.
///
/// Growth that was allowed here and then failed in the system stays counted: wasmtime reports failures also of growth that
/// it never asked about (memories with pages of one byte), so giving bytes back would let a guest lift its own limit.
#[derive(Debug)]
pub(crate) struct Limiter {
    memory_limit: usize,
    memory_used: usize,
    memory_refused: bool,
    table_used: usize,
    table_refused: bool,
}

impl Limiter {
    pub(crate) fn new(memory_bytes: u64) -> Limiter {
        Limiter {
            memory_limit: usize::try_from(memory_bytes).unwrap_or(usize::MAX),
            memory_used: 0,
            memory_refused: false,
            table_used: 0,
            table_refused: false,
        }
    }

    /// Whether more memory was asked for than the limit allows.
    pub(crate) fn memory_refused(&self) -> bool {
        self.memory_refused
    }

    /// Whether `bytes` more could never fit, as the answer of a call to the host. That counts as a refusal.
    pub(crate) fn refuses(&mut self, bytes: usize) -> bool {
        let refused = bytes > self.memory_limit;
        self.memory_refused |= refused;
        refused
    }

    /// Whether more table elements were asked for than the limit allows.
    pub(crate) fn table_refused(&self) -> bool {
        self.table_refused
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let more = desired.saturating_sub(current);
        let allowed = self
            .memory_used
            .checked_add(more)
            .is_some_and(|total| total <= self.memory_limit);
        if allowed {
            self.memory_used += more;
        } else {
            self.memory_refused = true;
        }
        Ok(allowed)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let more = desired.saturating_sub(current);
        let allowed = self
            .table_used
            .checked_add(more)
            .is_some_and(|total| total <= MAX_TABLE_ELEMENTS);
        if allowed {
            self.table_used += more;
        } else {
            self.table_refused = true;
        }
        Ok(allowed)
    }

    fn instances(&self) -> usize {
        MAX_INSTANCES
    }

    fn tables(&self) -> usize {
        MAX_TABLES
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_are_counted_together() {
        let mut limiter = Limiter::new(100);
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_refused());
        assert!(!limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_refused());
        assert!(limiter.memory_growing(60, 100, None).unwrap());
    }

    #[test]
    fn growth_over_a_memorys_own_maximum_is_no_refusal_of_ours() {
        let mut limiter = Limiter::new(100);
        assert!(!limiter.memory_growing(0, 60, Some(50)).unwrap());
        assert!(!limiter.memory_refused());
        assert!(limiter.memory_growing(0, 100, None).unwrap());
    }

    #[test]
    fn no_size_overflows() {
        let mut limiter = Limiter::new(u64::MAX);
        assert!(limiter.memory_growing(0, usize::MAX, None).unwrap());
        assert!(!limiter.memory_growing(0, 1, None).unwrap());
        assert!(!limiter.table_growing(0, usize::MAX, None).unwrap());
        assert!(limiter.table_refused());
    }
}
