//! How many levels the types of a plugin may have.
//!
//! The parsers, validators and compilers of components recurse along types: into component and instance types that stand
//! in each other (three bytes a level), and from an instance type to the ones that it exports. They bound the depth of
//! value types and of function bodies, and not this, so that a file of a few kilobytes could end the process by a stack
//! overflow. Each level takes a component type, an instance type, a component or an instance: their number, which is
//! counted before anything recurses, bounds every depth. What is admitted is then read on a thread with a stack that is
//! ample for it.

use std::thread;

use wasmparser::{BinaryReaderError, ComponentType, Payload};

/// How many component types, instance types, components and instances a file may hold. A component with a whole
/// language runtime inside has about a hundred.
pub(crate) const MAX_LEVELS: usize = 1_000;
/// More than 64 KiB a level; a debug build needs about 2.
const STACK_BYTES: usize = 64 << 20;

/// Counts what can be nested or chained.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    seen: usize,
}

impl Levels {
    /// Counts what a section adds. `bytes` is what its parser reads, from offset 0.
    ///
    /// # Errors
    /// A sentence for an error message: the section is damaged, or there are too many.
    pub(crate) fn add(&mut self, bytes: &[u8], payload: &Payload<'_>) -> Result<(), String> {
        match payload {
            Payload::ComponentSection { .. } => self.count(1),
            Payload::ComponentInstanceSection(instances) => self.count(instances.count() as usize),
            Payload::ComponentTypeSection(types) => {
                let section = bytes
                    .get(types.range())
                    .ok_or("the file is cut: a type section ends after it")?;
                self.count(nested(section))?;
                for ty in types.clone() {
                    if let ComponentType::Component(_) | ComponentType::Instance(_) = ty.map_err(damaged)? {
                        self.count(1)?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self, more: usize) -> Result<(), String> {
        self.seen = self.seen.saturating_add(more);
        if self.seen <= MAX_LEVELS {
            return Ok(());
        }
        Err(format!(
            "it holds more than {MAX_LEVELS} component types, instance types, components and instances, which may be \
             nested too deeply to be read; build it again from its sources, with fewer"
        ))
    }
}

/// At least the number of component and instance types inside others in a type section: one that stands in another
/// begins with the byte of a type declaration (0x01) and its own (0x41 or 0x42).
fn nested(section: &[u8]) -> usize {
    section
        .windows(2)
        .filter(|pair| matches!(pair, [0x01, 0x41 | 0x42]))
        .count()
}

/// The sentence for bytes that a parser refuses.
pub(crate) fn damaged(error: BinaryReaderError) -> String {
    format!("the file is cut or damaged: {error}")
}

/// Runs `work` on a thread whose stack is ample for [`MAX_LEVELS`].
///
/// # Errors
/// A sentence for an error message: there is no thread, or `work` panicked.
pub(crate) fn on_ample_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, String> {
    thread::scope(|scope| {
        thread::Builder::new()
            .name("sluice-plugin".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)
            .map_err(|error| format!("no thread can be started to read it: {error}"))?
            .join()
            .map_err(|_| "it makes the WebAssembly compiler panic; build it again from its sources".to_owned())
    })
}
