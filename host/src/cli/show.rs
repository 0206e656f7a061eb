//! How events look: one JSON object a line, plain lines in a pipe, or a line per table that moves on a terminal.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::out::{complain, say};
use crate::identity::CaptureInstance;
use crate::kit::counted;
use crate::report::{Event, TableSummary};

/// More tables than this share one line.
const TABLE_LINES: usize = 24;
/// Codes that are told of rows in quarantine.
const MOST_CODES: usize = 8;

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

    /// Where the status page is.
    pub(super) fn serving(&mut self, address: SocketAddr) {
        let line = format!("status page: http://{address}/");
        match &self.mode {
            Mode::Json => say!("{}", serde_json::json!({"type": "http", "address": address})),
            Mode::Plain => complain!("{line}"),
            Mode::Terminal(terminal) => terminal.line(line),
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
                "{capture_instance}: batch {batch_id}{}: {}{} up to {end_lsn} ({end_commit_ts}){} in {duration_ms} ms",
                if *replayed { " (replayed)" } else { "" },
                match rows {
                    0 => "no rows".to_owned(),
                    rows => counted(*rows, "row"),
                },
                into_quarantine(*quarantined),
                delta_version
                    .map(|version| format!(", Delta version {version},"))
                    .unwrap_or_default()
            )
        }
        Event::Retried {
            capture_instance,
            rows,
            into_bronze,
            still_quarantined,
            still_codes,
            ..
        } => {
            let what = retried(*rows, *into_bronze, *still_quarantined, still_codes);
            format!("{capture_instance}: {what}")
        }
        Event::Verdict {
            capture_instance,
            finalized_until,
            open_quarantined,
        } => {
            format!(
                "{capture_instance}: complete until {finalized_until}{}",
                but_for(*open_quarantined)
            )
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
        Event::Table(summary) => match in_quarantine(summary) {
            Some(line) => format!("{}\n{line}", summary_line(summary)),
            None => summary_line(summary),
        },
    })
}

/// Nothing where nothing did.
fn into_quarantine(rows: u64) -> String {
    match rows {
        0 => String::new(),
        rows => format!(" written, {} put into quarantine", grouped(rows)),
    }
}

/// What completeness does not hold for.
fn but_for(open_quarantined: Option<i64>) -> String {
    match open_quarantined.and_then(|rows| u64::try_from(rows).ok()) {
        None | Some(0) => String::new(),
        Some(1) => " but for 1 row in quarantine".to_owned(),
        Some(rows) => format!(" but for {} rows in quarantine", grouped(rows)),
    }
}

/// That rows are in quarantine, and why.
fn in_quarantine(summary: &TableSummary) -> Option<String> {
    let rows = u64::try_from(summary.open_quarantined?).ok().filter(|rows| *rows > 0)?;
    let are = match rows {
        1 => "1 row is".to_owned(),
        rows => format!("{} rows are", grouped(rows)),
    };
    Some(format!(
        "{}: {are} in quarantine ({}): `sluice quarantine list` shows them",
        summary.capture_instance,
        codes(&summary.open_codes)
    ))
}

/// What became of rows that were read again.
fn retried(rows: u64, into_bronze: u64, still: u64, still_codes: &BTreeMap<String, u64>) -> String {
    let were = match rows {
        0 => return "no rows in quarantine that could be read again".to_owned(),
        1 => "1 row was".to_owned(),
        rows => format!("{} rows were", grouped(rows)),
    };
    let mut text = format!(
        "{were} read again: {} into bronze, {} still in quarantine",
        grouped(into_bronze),
        grouped(still)
    );
    match still_codes.first_key_value() {
        Some((code, _)) if still_codes.len() == 1 => text.push_str(&format!(" ({code})")),
        Some(_) => text.push_str(&format!(" ({})", codes(still_codes))),
        None => {}
    }
    match rows.saturating_sub(into_bronze).saturating_sub(still) {
        0 => {}
        left_out => text.push_str(&format!(", {} left out by the transforms", grouped(left_out))),
    }
    text
}

/// `40 trap, 2 no-at-sign`: rows by their codes, the most first.
fn codes(codes: &BTreeMap<String, u64>) -> String {
    let mut by_rows: Vec<(&String, &u64)> = codes.iter().collect();
    by_rows.sort_by_key(|(_, rows)| Reverse(**rows));
    let more = by_rows.len().saturating_sub(MOST_CODES);
    let mut told: Vec<String> = by_rows
        .into_iter()
        .take(MOST_CODES)
        .map(|(code, rows)| format!("{} {code}", grouped(*rows)))
        .collect();
    if more > 0 {
        told.push(format!("{more} more codes"));
    }
    told.join(", ")
}

fn summary_line(summary: &TableSummary) -> String {
    // Batches without rows do not count, so there may be none.
    let what = match summary.rows {
        0 => "no rows".to_owned(),
        rows => format!(
            "{} ({}, {}, {})",
            counted(rows, "row"),
            counted(summary.inserts, "insert"),
            counted(summary.updates, "update"),
            counted(summary.deletes, "delete")
        ),
    };
    let batches = match summary.batches {
        0 => String::new(),
        batches => format!(" in {}", counted(batches, "batch")),
    };
    format!(
        "{}: {what}{}{batches}, up to {}, complete until {}{}",
        summary.capture_instance,
        into_quarantine(summary.quarantined),
        summary
            .end_lsn
            .map_or_else(|| "the beginning".to_owned(), |lsn| lsn.to_string()),
        summary
            .finalized_until
            .map_or_else(|| "nothing yet".to_owned(), |until| until.to_string()),
        but_for(summary.open_quarantined.filter(|_| summary.finalized_until.is_some()))
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
                    "{:<28} {:>12} rows{}   complete until {until}{}",
                    summary.capture_instance.0,
                    grouped(summary.rows),
                    into_quarantine(summary.quarantined),
                    but_for(summary.open_quarantined.filter(|_| summary.finalized_until.is_some())),
                ));
                if let Some(line) = in_quarantine(summary) {
                    self.line(line);
                }
            }
            Event::Failed { capture_instance, .. } => {
                let bar = self.bar(capture_instance);
                bar.set_style(ending_with("✗"));
                bar.finish_with_message(format!("{:<28} failed", capture_instance.0));
                if let Some(line) = plain(event) {
                    self.line(line);
                }
            }
            Event::Retrying { .. } | Event::Retried { .. } | Event::Warning { .. } | Event::SourceWarning { .. } => {
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
    use crate::storage::Place;

    fn by_code(codes: &[(&str, u64)]) -> BTreeMap<String, u64> {
        codes.iter().map(|(code, rows)| ((*code).to_owned(), *rows)).collect()
    }

    #[test]
    fn a_summary_says_what_is_in_quarantine_and_what_the_verdict_does_not_hold_for() {
        let mut summary = TableSummary::new(CaptureInstance("dbo_t".to_owned()), Place::local("t"), Vec::new());
        summary.finalized_until = Some(crate::lsn::UtcMicros(0));
        let line = |summary: &TableSummary| plain(&Event::Table(summary.clone())).unwrap();
        assert!(line(&summary).ends_with("complete until 1970-01-01T00:00:00.000Z"));
        summary.open_quarantined = Some(0);
        assert!(line(&summary).ends_with("complete until 1970-01-01T00:00:00.000Z"));
        summary.open_quarantined = Some(1042);
        summary.open_codes = by_code(&[("no-at-sign", 2), ("trap", 1040)]);
        let text = line(&summary);
        let (summed, more) = text.split_once('\n').unwrap();
        assert!(
            summed.ends_with("complete until 1970-01-01T00:00:00.000Z but for 1,042 rows in quarantine"),
            "{summed}"
        );
        assert_eq!(
            more,
            "dbo_t: 1,042 rows are in quarantine (1,040 trap, 2 no-at-sign): `sluice quarantine list` shows them"
        );
        let many: BTreeMap<String, u64> = (0..10).map(|code| (format!("c{code}"), 1)).collect();
        assert!(codes(&many).ends_with("1 c7, 2 more codes"), "{}", codes(&many));
    }

    #[test]
    fn one_is_told_as_one() {
        let mut summary = TableSummary::new(CaptureInstance("dbo_t".to_owned()), Place::local("t"), Vec::new());
        (summary.rows, summary.inserts, summary.batches) = (1, 1, 1);
        let line = summary_line(&summary);
        let start = "dbo_t: 1 row (1 insert, 0 updates, 0 deletes) in 1 batch, up to the beginning";
        assert!(line.starts_with(start), "{line}");
    }

    #[test]
    fn a_run_without_rows_names_no_batches() {
        let mut summary = TableSummary::new(CaptureInstance("dbo_t".to_owned()), Place::local("t"), Vec::new());
        assert!(summary_line(&summary).starts_with("dbo_t: no rows, up to the beginning"));
        summary.quarantined = 5;
        assert!(
            summary_line(&summary).starts_with("dbo_t: no rows written, 5 put into quarantine, up to the beginning")
        );
    }

    #[test]
    fn a_retry_says_what_became_of_the_rows() {
        let one = by_code(&[("no-at-sign", 2)]);
        for (told, expected) in [
            (
                retried(2, 0, 2, &one),
                "2 rows were read again: 0 into bronze, 2 still in quarantine (no-at-sign)",
            ),
            (
                retried(5, 1, 3, &by_code(&[("trap", 1), ("with-another-row", 2)])),
                "5 rows were read again: 1 into bronze, 3 still in quarantine (2 with-another-row, 1 trap), 1 left out by the \
                 transforms",
            ),
            (
                retried(1, 1, 0, &BTreeMap::new()),
                "1 row was read again: 1 into bronze, 0 still in quarantine",
            ),
            (
                retried(0, 0, 0, &BTreeMap::new()),
                "no rows in quarantine that could be read again",
            ),
        ] {
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
