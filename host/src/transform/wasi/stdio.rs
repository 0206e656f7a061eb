//! Standard output and standard error: lines for the debug log of guests, which may hold values of rows. They share the
//! number of messages that a call may leave with the `log` capability; the rest is dropped.

use std::sync::Arc;

use crate::transform::log::{LogBudget, guest_text};

/// Bytes of a line that are kept. A longer one is cut, and the rest of it dropped.
const MAX_LINE_BYTES: usize = 1024;

/// Where a component writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Stdout,
    Stderr,
}

impl Output {
    /// The number behind its handle.
    pub(super) fn rep(self) -> u32 {
        match self {
            Output::Stdout => 1,
            Output::Stderr => 2,
        }
    }

    pub(super) fn of(rep: u32) -> Output {
        if rep == Output::Stdout.rep() {
            Output::Stdout
        } else {
            Output::Stderr
        }
    }

    fn name(self) -> &'static str {
        match self {
            Output::Stdout => "stdout",
            Output::Stderr => "stderr",
        }
    }
}

/// The lines of one instance that are not ended yet.
pub(super) struct Lines {
    label: Arc<str>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Lines {
    pub(super) fn new(label: Arc<str>) -> Lines {
        Lines {
            label,
            stdout: Vec::new(),
            stderr: Vec::new(),
        }
    }

    /// Takes what was written and logs each line that it ends.
    pub(super) fn write(&mut self, output: Output, bytes: &[u8], budget: &mut LogBudget) {
        let Lines { label, stdout, stderr } = self;
        let line = match output {
            Output::Stdout => stdout,
            Output::Stderr => stderr,
        };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            let room = MAX_LINE_BYTES.saturating_sub(line.len());
            line.extend_from_slice(&text[..text.len().min(room)]);
            if ends {
                let written = std::mem::take(line);
                if budget.take().is_some() {
                    guest_text(label, output.name(), &String::from_utf8_lossy(&written));
                } else {
                    // The rest of these bytes would be looked through for nothing.
                    return;
                }
            }
        }
    }
}

impl Drop for Lines {
    /// The instance is over: what it did not end with a line feed is a line too.
    fn drop(&mut self) {
        for (output, line) in [(Output::Stdout, &self.stdout), (Output::Stderr, &self.stderr)] {
            if !line.is_empty() {
                guest_text(&self.label, output.name(), &String::from_utf8_lossy(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_cut_and_counted() {
        let mut lines = Lines::new("t".into());
        let mut budget = LogBudget::default();
        lines.write(Output::Stdout, b"one ", &mut budget);
        lines.write(Output::Stderr, b"other", &mut budget);
        lines.write(Output::Stdout, b"line\nnext", &mut budget);
        assert_eq!(
            (lines.stdout.as_slice(), lines.stderr.as_slice()),
            (&b"next"[..], &b"other"[..])
        );
        lines.write(Output::Stderr, &[b'x'; 5000], &mut budget);
        assert_eq!(lines.stderr.len(), MAX_LINE_BYTES);
        // One message of the hundred went to the first line.
        lines.write(Output::Stderr, &[b'\n'; 98], &mut budget);
        assert!(budget.take().is_some());
        assert!(budget.take().is_none());
        lines.write(Output::Stdout, b"\nnever kept", &mut budget);
        assert!(lines.stdout.is_empty());
    }
}
