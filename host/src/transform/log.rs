//! The `log` capability: messages of a component, for whoever debugs it.

use super::bindings::v0_2::sluice::transform::log::{Host, Level};
use super::sandbox::HostState;

/// Messages that one call may leave; the rest is dropped.
const MAX_MESSAGES: u32 = 100;
/// Bytes of one message that are kept.
const MAX_MESSAGE_BYTES: usize = 1024;

/// How many messages a call has left.
#[derive(Debug)]
pub(crate) struct LogBudget {
    left: u32,
}

impl Default for LogBudget {
    fn default() -> LogBudget {
        LogBudget { left: MAX_MESSAGES }
    }
}

impl LogBudget {
    /// Takes one message from the budget. `None` when it is spent.
    pub(crate) fn take(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        Some(())
    }
}

impl Host for HostState {
    /// A message may hold a value of the table, whatever its level says, so all of them go out at debug level, under a
    /// target of their own that a filter can name.
    fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        if self.log.take().is_some() {
            let level = match level {
                Level::Debug => "debug",
                Level::Info => "info",
                Level::Warn => "warn",
                Level::Error => "error",
            };
            guest_text(&self.label, level, &message);
        }
        Ok(())
    }
}

/// Hands text that a component wrote to the debug log, cut and escaped. It is never shown in any other way.
pub(crate) fn guest_text(plugin: &str, what: &str, text: &str) {
    tracing::debug!(target: "sluice::guest", plugin, what, text = ?cut(text));
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_MESSAGE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_and_cut() {
        let mut budget = LogBudget::default();
        assert_eq!((0..200).filter(|_| budget.take().is_some()).count(), 100);
        assert_eq!(cut(&"ä".repeat(1000)).len(), 1024);
        assert_eq!(cut(&format!("x{}", "ä".repeat(1000))).len(), 1023);
        assert_eq!(cut(""), "");
    }
}
