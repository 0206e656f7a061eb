//! How events look: one JSON object a line, plain lines in a pipe, or a line per table that moves on a terminal.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::out::{complain, say};
use crate::identity::CaptureInstance;
use crate::report::{Event, TableSummary};

/// More tables than this share one line.
const TABLE_LINES: usize = 24;

/// Shows events.
pub(super) struct Show {
    mode: Mode,
}

enum Mode {
    Json,
    Plain,
    Terminal(Terminal),
}

impl Show {
    pub(super) fn new(json: bool) -> Show {
        let mode = if json {
            Mode::Json
        } else if std::io::stdout().is_terminal() {
            Mode::Terminal(Terminal::new())
        } else {
            Mode::Plain
        };
        Show { mode }
    }

    pub(super) fn warning(&mut self, message: &str) {
        match &self.mode {
            Mode::Json => say!("{}", serde_json::json!({"type": "warning", "message": message})),
            Mode::Plain => complain!("warning: {message}"),
            Mode::Terminal(terminal) => terminal.line(format!("warning: {message}")),
        }
    }

    /// The tables are about to be opened, which takes a moment where a component has to be compiled.
    pub(super) fn opening<'t>(&mut self, tables: impl Iterator<Item = &'t CaptureInstance>) {
        if let Mode::Terminal(terminal) = &mut self.mode {
            for table in tables {
                terminal.bar(table).set_message(format!("{:<28} opening", table.0));
            }
        }
    }

    pub(super) fn stopping(&mut self) {
        if let Mode::Terminal(terminal) = &self.mode {
            terminal.line("stopping: each table finishes its batch …".to_owned());
        } else {
            complain!("stopping: each table finishes its batch …");
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        match &mut self.mode {
            Mode::Json => {
                if let Ok(line) = serde_json::to_string(event) {
                    say!("{line}");
                }
            }
            Mode::Plain => {
                if let Some(line) = plain(event) {
                    say!("{line}");
                }
            }
            Mode::Terminal(terminal) => terminal.event(event),
        }
    }

    pub(super) fn finish(&mut self) {
        if let Mode::Terminal(terminal) = &self.mode {
            terminal.finish();
        }
    }
}

/// An event as a line of text.
fn plain(event: &Event) -> Option<String> {
    Some(match event {
        Event::Opened {
            capture_instance,
            position,
            next_batch,
            transform,
            ..
        } => format!(
            "{capture_instance}: open at batch {next_batch}{}{}",
            position
                .map(|lsn| format!(" after {lsn}"))
                .unwrap_or_else(|| " from the first recorded change (older rows are not copied)".to_owned()),
            if transform.is_empty() {
                String::new()
            } else {
                format!(", through {}", transform.join(", "))
            }
        ),
        Event::Batch {
            capture_instance,
            batch_id,
            rows,
            end_lsn,
            end_commit_ts,
            duration_ms,
            delta_version,
            quarantined,
            replayed,
            ..
        } => {
            format!(
                "{capture_instance}: batch {batch_id}{}: {rows} rows{} up to {end_lsn} ({end_commit_ts}){} in {duration_ms} ms",
                if *replayed { " (replayed)" } else { "" },
                into_quarantine(*quarantined),
                delta_version
                    .map(|version| format!(", Delta version {version},"))
                    .unwrap_or_default()
            )
        }
        Event::Verdict {
            capture_instance,
            finalized_until,
        } => {
            format!("{capture_instance}: complete until {finalized_until}")
        }
        Event::Retrying {
            capture_instance,
            error,
            failures,
            pause_ms,
        } => {
            format!("{capture_instance}: failure {failures}, again in {pause_ms} ms: {error}")
        }
        Event::Warning {
            capture_instance,
            message,
        } => format!("{capture_instance}: warning: {message}"),
        Event::SourceWarning { message } => format!("warning: {message}"),
        Event::Failed {
            capture_instance,
            error,
            ..
        } => format!("{capture_instance}: stopped: {error}"),
        Event::Table(summary) => summary_line(summary),
    })
}

/// Nothing where nothing did.
fn into_quarantine(rows: u64) -> String {
    match rows {
        0 => String::new(),
        rows => format!(", {} into quarantine", grouped(rows)),
    }
}

fn summary_line(summary: &TableSummary) -> String {
    format!(
        "{}: {} rows ({} inserts, {} updates, {} deletes){} in {} batches, up to {}, complete until {}",
        summary.capture_instance,
        summary.rows,
        summary.inserts,
        summary.updates,
        summary.deletes,
        into_quarantine(summary.quarantined),
        summary.batches,
        summary
            .end_lsn
            .map_or_else(|| "the beginning".to_owned(), |lsn| lsn.to_string()),
        summary
            .finalized_until
            .map_or_else(|| "nothing yet".to_owned(), |until| until.to_string())
    )
}

/// A line per table.
struct Terminal {
    all: MultiProgress,
    bars: BTreeMap<CaptureInstance, ProgressBar>,
    rows: BTreeMap<CaptureInstance, u64>,
    shared: Option<ProgressBar>,
}

impl Terminal {
    fn new() -> Terminal {
        Terminal {
            all: MultiProgress::new(),
            bars: BTreeMap::new(),
            rows: BTreeMap::new(),
            shared: None,
        }
    }

    fn line(&self, text: String) {
        // The terminal is gone: there is nobody to tell.
        let _ = self.all.println(text);
    }

    fn bar(&mut self, table: &CaptureInstance) -> ProgressBar {
        if let Some(bar) = self.bars.get(table) {
            return bar.clone();
        }
        let bar = if self.bars.len() < TABLE_LINES {
            spinner(&self.all)
        } else {
            self.shared.get_or_insert_with(|| spinner(&self.all)).clone()
        };
        self.bars.insert(table.clone(), bar.clone());
        bar
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Opened {
                capture_instance,
                transform,
                ..
            } => {
                let through = if transform.is_empty() {
                    String::new()
                } else {
                    format!("  through {}", transform.join(", "))
                };
                self.bar(capture_instance)
                    .set_message(format!("{:<28} waiting for changes{through}", capture_instance.0));
            }
            Event::Batch {
                capture_instance,
                batch_id,
                rows,
                end_commit_ts,
                ..
            } => {
                let total = self.rows.entry(capture_instance.clone()).or_default();
                *total += rows;
                let message = format!(
                    "{:<28} {:>12} rows   batch {:<6} up to {end_commit_ts}",
                    capture_instance.0,
                    grouped(*total),
                    batch_id.0,
                );
                self.bar(capture_instance).set_message(message);
            }
            Event::Verdict { .. } => {}
            Event::Table(summary) => {
                let until = summary
                    .finalized_until
                    .map_or_else(|| "nothing yet".to_owned(), |until| until.to_string());
                self.bar(&summary.capture_instance).finish_with_message(format!(
                    "{:<28} {:>12} rows{}   complete until {until}",
                    summary.capture_instance.0,
                    grouped(summary.rows),
                    into_quarantine(summary.quarantined),
                ));
            }
            Event::Failed { capture_instance, .. } => {
                let bar = self.bar(capture_instance);
                bar.set_style(ending_with("✗"));
                bar.finish_with_message(format!("{:<28} failed", capture_instance.0));
                if let Some(line) = plain(event) {
                    self.line(line);
                }
            }
            Event::Retrying { .. } | Event::Warning { .. } | Event::SourceWarning { .. } => {
                if let Some(line) = plain(event) {
                    self.line(line);
                }
            }
        }
    }

    fn finish(&self) {
        for bar in self.bars.values() {
            if !bar.is_finished() {
                bar.abandon();
            }
        }
    }
}

fn spinner(all: &MultiProgress) -> ProgressBar {
    let bar = all.add(ProgressBar::new_spinner());
    bar.set_style(ending_with("✓"));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// A line with a spinner, which becomes `end` when its table has ended.
fn ending_with(end: &str) -> ProgressStyle {
    let style =
        ProgressStyle::with_template("{spinner:.cyan} {msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    style.tick_strings(&["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏", end])
}

/// `1234567` as `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
