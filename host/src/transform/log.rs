//! The `log` capability: messages of a component, for whoever debugs it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use super::bindings::v0_3::sluice::transform::log::{Host, Level};
use super::sandbox::HostState;

/// Messages that one call may leave; the rest is dropped.
const MAX_MESSAGES: u32 = 100;
/// Bytes of one message that are kept.
const MAX_MESSAGE_BYTES: usize = 1024;
/// Bytes of one message that a listener keeps: a whole traceback.
const MAX_HEARD_BYTES: usize = 8192;
/// Messages that a listener keeps: the last ones.
const MAX_HEARD: usize = 64;

/// Traces that are remembered, so that each is logged once.
const TRACES: usize = 64;

/// The traces that were logged last, by their hashes.
static TRACED: Mutex<VecDeque<u64>> = Mutex::new(VecDeque::new());

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

/// Whether it is a trace that was logged lately. A chunk is tried again, and looked through for the rows that a component
/// fails on; some log what they put into the error as well.
fn is_told(plugin: &str, what: &str, text: &str) -> bool {
    let is_trace = match what {
        "failure" | "apply-error" => true,
        "error" => text.contains('\n'),
        _ => false,
    };
    if !is_trace {
        return false;
    }
    let mut hasher = DefaultHasher::new();
    (plugin, text).hash(&mut hasher);
    !note(
        &mut TRACED.lock().unwrap_or_else(PoisonError::into_inner),
        hasher.finish(),
    )
}

/// Notes a trace. Whether it was not there yet.
fn note(traced: &mut VecDeque<u64>, trace: u64) -> bool {
    if traced.contains(&trace) {
        return false;
    }
    if traced.len() == TRACES {
        traced.pop_front();
    }
    traced.push_back(trace);
    true
}

/// A message of a component, as a listener hears it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// A level of the log, `stdout`, `stderr`, `apply-error`, or `failure`: what the engine says of a call that it ended.
    pub(crate) what: &'static str,
    pub(crate) text: String,
}

thread_local! {
    /// What components say on this thread while somebody listens. Their calls are made on the thread of the chunk.
    static HEARD: RefCell<Option<VecDeque<Said>>> = const { RefCell::new(None) };
}

/// Does some work, and gives what components said in it, the last messages of it. Only for rows that are made up: a
/// message may hold their values.
pub(crate) fn listen<T>(work: impl FnOnce() -> T) -> (T, Vec<Said>) {
    HEARD.replace(Some(VecDeque::new()));
    let done = work();
    let heard = HEARD.replace(None);
    (done, heard.into_iter().flatten().collect())
}

/// Hands text that a component wrote to the debug log, cut and escaped, and to who listens. It is never shown in any other
/// way.
pub(crate) fn guest_text(plugin: &str, what: &'static str, text: &str) {
    if tracing::enabled!(target: "sluice::guest", tracing::Level::DEBUG) && !is_told(plugin, what, text) {
        tracing::debug!(target: "sluice::guest", plugin, what, text = ?cut(text, MAX_MESSAGE_BYTES));
    }
    // A thread that ends has nobody who listens.
    let _ = HEARD.try_with(|heard| {
        if let Some(heard) = heard.borrow_mut().as_mut() {
            if heard.len() == MAX_HEARD {
                heard.pop_front();
            }
            heard.push_back(Said {
                what,
                text: cut(text, MAX_HEARD_BYTES).to_owned(),
            });
        }
    });
}

fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_told_once_until_many_others_came() {
        let mut traced = VecDeque::new();
        assert!(note(&mut traced, 7) && !note(&mut traced, 7));
        assert!((100..163).all(|other| note(&mut traced, other)));
        assert!(!note(&mut traced, 7), "one of 64");
        assert!(note(&mut traced, 163) && note(&mut traced, 7));
        assert_eq!(traced.len(), TRACES);
    }

    #[test]
    fn what_is_logged_and_put_into_the_error_is_one_trace_and_messages_are_none() {
        let trace = "Traceback:\nKeyError";
        assert!(!is_told("t 1 told-once", "error", trace));
        assert!(is_told("t 1 told-once", "apply-error", trace));
        assert!(!is_told("t 2 told-once", "apply-error", trace), "of another transform");
        for _ in 0..2 {
            assert!(!is_told("t 1 told-once", "error", "skipped a row"));
            assert!(!is_told("t 1 told-once", "debug", trace));
        }
    }

    #[test]
    fn messages_are_counted_and_cut() {
        let mut budget = LogBudget::default();
        assert_eq!((0..200).filter(|_| budget.take().is_some()).count(), 100);
        assert_eq!(cut(&"ä".repeat(1000), MAX_MESSAGE_BYTES).len(), 1024);
        assert_eq!(cut(&format!("x{}", "ä".repeat(1000)), MAX_MESSAGE_BYTES).len(), 1023);
        assert_eq!(cut("", MAX_MESSAGE_BYTES), "");
    }

    #[test]
    fn who_listens_hears_the_last_messages_of_this_thread_and_nothing_before_or_after() {
        guest_text("a", "info", "before");
        let (done, said) = listen(|| {
            std::thread::spawn(|| guest_text("a", "info", "on another thread"))
                .join()
                .unwrap();
            for number in 0..100 {
                guest_text("a", "debug", &number.to_string());
            }
            guest_text("a", "error", &"x".repeat(10_000));
            7
        });
        guest_text("a", "info", "after");
        assert_eq!((done, said.len()), (7, MAX_HEARD));
        assert_eq!((said[0].what, said[0].text.as_str()), ("debug", "37"));
        assert_eq!(said[63].text.len(), MAX_HEARD_BYTES);
        assert!(listen(|| ()).1.is_empty());
    }
}
