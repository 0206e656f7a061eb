//! What a function of the host is held to while it works for a component: the epoch acts in WebAssembly only, so the host
//! watches its own work; and an answer has to fit into the component, so none is made for one that could not take it.

use std::time::Instant;

use super::limits::Limiter;
use super::sandbox::DeadlinePassed;

/// Rows between two looks at the clock, where a row is little work.
const ROWS_PER_LOOK: usize = 1024;

/// The bounds of one call to the host.
pub(crate) struct HostCall<'a> {
    pub(crate) deadline: Instant,
    pub(crate) limiter: &'a mut Limiter,
}

impl HostCall<'_> {
    /// Looks at the clock.
    ///
    /// # Errors
    /// [`DeadlinePassed`].
    pub(crate) fn look(&self) -> wasmtime::Result<()> {
        if Instant::now() >= self.deadline {
            return Err(DeadlinePassed.into());
        }
        Ok(())
    }

    /// Looks at the clock before the first of many rows, and now and then after it.
    ///
    /// # Errors
    /// [`DeadlinePassed`].
    pub(crate) fn look_at_row(&self, row: usize) -> wasmtime::Result<()> {
        if row.is_multiple_of(ROWS_PER_LOOK) {
            self.look()?;
        }
        Ok(())
    }

    /// Says how large the answer is, or has become.
    ///
    /// # Errors
    /// The component has not as much memory, and the limiter knows.
    pub(crate) fn room_for(&mut self, bytes: usize) -> wasmtime::Result<()> {
        if self.limiter.refuses(bytes) {
            return Err(wasmtime::Error::msg("the answer is larger than the component's memory"));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::time::{Duration, Instant};

    use super::HostCall;
    use crate::transform::limits::Limiter;

    /// Runs `call` with a minute and a megabyte.
    pub(crate) fn bounded<T>(call: impl FnOnce(&mut HostCall<'_>) -> T) -> T {
        within(Duration::from_secs(60), 1 << 20, call)
    }

    /// Runs `call` with so much time and memory.
    pub(crate) fn within<T>(time: Duration, bytes: u64, call: impl FnOnce(&mut HostCall<'_>) -> T) -> T {
        let mut limiter = Limiter::new(bytes);
        call(&mut HostCall {
            deadline: Instant::now() + time,
            limiter: &mut limiter,
        })
    }
}
