//! `sluice status --watch`: the same, again and again, in a form that is read at a glance.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

use console::{Style, Term, measure_text_width, truncate_str};

use crate::checkpoint::CheckpointReader;
use crate::cli::Failure;
use crate::cli::show::grouped;
use crate::config::Settings;
use crate::error::ErrorKind;
use crate::identity::{BatchId, CaptureInstance};
use crate::lsn::UtcMicros;
use crate::storage::side_by_side;
use crate::verdict;

use super::{TableStatus, look};

/// From one look to the next, at least.
const EVERY: Duration = Duration::from_secs(2);
/// And at least so many times what a look takes, so that watching costs little.
const TIMES: u32 = 10;
/// Hours of CDC's retention below which a table that is behind is marked.
const SHORT_HOURS: f64 = 12.0;

pub(super) async fn watch(settings: &Settings) -> Result<(), Failure> {
    let term = Term::stdout();
    // From here on, so that none is missed while tables are looked at.
    let mut interrupt = signal(SignalKind::interrupt())
        .map_err(|error| Failure::new(ErrorKind::Internal, format!("cannot listen for signals: {error}")))?;
    let mut before: Option<(Instant, BTreeMap<CaptureInstance, BatchId>)> = None;
    loop {
        let began = Instant::now();
        let (all, _) = look(settings).await?;
        let rates = match &before {
            Some((then, batches)) => rates(settings, batches, then.elapsed()),
            None => BTreeMap::new(),
        };
        let batches = all
            .iter()
            .filter_map(|table| Some((table.capture_instance.clone(), table.batch_id?)));
        before = Some((began, batches.collect()));
        let (height, width) = term.size();
        let screen = screen(
            &all,
            &rates,
            UtcMicros::now(),
            (usize::from(width), usize::from(height)),
        );
        let shown = match term.is_term() {
            // Over what stood there, so that it does not flicker.
            true => format!("\x1b[H{}\x1b[J", screen.replace('\n', "\x1b[K\n")),
            false => screen,
        };
        let written = term.write_str(&shown).and_then(|()| term.flush());
        written.map_err(|error| Failure::new(ErrorKind::Internal, format!("cannot write to the terminal: {error}")))?;
        let pause = EVERY.max(began.elapsed() * TIMES);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = interrupt.recv() => return Ok(()),
        }
    }
}

/// Rows a second that were committed since.
fn rates(
    settings: &Settings,
    since: &BTreeMap<CaptureInstance, BatchId>,
    elapsed: Duration,
) -> BTreeMap<CaptureInstance, f64> {
    let of = |table: &crate::config::TableSettings| {
        let name = &table.capture_instance;
        let reader = CheckpointReader::new(&table.checkpoint);
        let records = reader.commits_after(since.get(name).copied()).ok()?;
        let rows: i64 = records.iter().filter_map(|record| record.facts.rows).sum();
        Some((name.clone(), rows as f64 / elapsed.as_secs_f64()))
    };
    let all = side_by_side(&settings.tables, |table| &table.checkpoint, of);
    all.into_iter().flatten().collect()
}

/// What a person looks at first.
fn rank(table: &TableStatus) -> u8 {
    let status = |known: verdict::TableStatus| table.status == known.as_str();
    match () {
        () if table.error.is_some() => 0,
        () if table.has_failed() => 1,
        () if status(verdict::TableStatus::CaptureStalled) => 2,
        () if status(verdict::TableStatus::Behind) => 3,
        () if table.owner.is_none() => 4,
        () => 5,
    }
}

fn screen(
    all: &[TableStatus],
    rates: &BTreeMap<CaptureInstance, f64>,
    now: UtcMicros,
    (width, height): (usize, usize),
) -> String {
    let mut counts: BTreeMap<(u8, &str), usize> = BTreeMap::new();
    for table in all {
        *counts.entry((rank(table), &table.status)).or_default() += 1;
    }
    let counts: Vec<String> = counts
        .into_iter()
        .map(|((rank, status), count)| {
            style(rank)
                .apply_to(format!("{} {status}", grouped(count as u64)))
                .to_string()
        })
        .collect();
    let mut lines = vec![
        format!("{}   {}", now, counts.join("   ")),
        Style::new()
            .dim()
            .apply_to(format!(
                "{:<32} {:<16} {:>9} {:>9} {:>9}  {:<24} {:>6}  running",
                "table", "status", "lag", "headroom", "rows/s", "complete until", "quar."
            ))
            .to_string(),
    ];
    let mut sorted: Vec<&TableStatus> = all.iter().collect();
    sorted.sort_by_key(|table| rank(table));
    // The last line stays free, or the screen would move.
    let room = height.saturating_sub(lines.len() + 2).max(1);
    let mut used = 0;
    let mut told = 0;
    for table in &sorted {
        let error = table.stopped.as_ref().or(table.error.as_ref());
        let needed = 1 + usize::from(error.is_some());
        if used + needed > room {
            break;
        }
        used += needed;
        told += 1;
        lines.push(line(table, rates.get(&table.capture_instance).copied()));
        if let Some(error) = error {
            lines.push(format!("    {}", Style::new().red().apply_to(error)));
        }
    }
    if told < sorted.len() {
        lines.push(format!("… and {} more", grouped((sorted.len() - told) as u64)));
    }
    lines.iter().fold(String::new(), |mut screen, line| {
        // Writing to a String cannot fail.
        let _ = writeln!(screen, "{}", truncate_str(line, width.max(20), "…"));
        screen
    })
}

fn line(table: &TableStatus, rate: Option<f64>) -> String {
    let dash = || "-".to_owned();
    let behind = table.lag_seconds.is_some_and(|lag| lag > 0.0);
    let headroom = table.headroom_hours.map_or_else(dash, |hours| format!("{hours:.1} h"));
    let headroom = match table.headroom_hours {
        Some(hours) if behind && hours < SHORT_HOURS => Style::new().red().apply_to(padded(&headroom, 9)).to_string(),
        _ => padded(&headroom, 9),
    };
    let quarantined = match table.open_quarantined {
        Some(rows @ 1..) => rows.to_string(),
        _ => dash(),
    };
    format!(
        "{} {} {:>9} {headroom} {:>9}  {:<24} {quarantined:>6}  {}",
        fitted(&table.capture_instance.0, 32),
        style(rank(table)).apply_to(fitted(&table.status, 16)),
        table.lag_seconds.map_or_else(dash, span),
        rate.filter(|rate| *rate > 0.0)
            .map_or_else(dash, |rate| format!("{rate:.1}")),
        table.finalized_until.map_or_else(dash, |until| until.to_string()),
        table.owner.clone().unwrap_or_else(dash),
    )
}

fn style(rank: u8) -> Style {
    match rank {
        0 | 1 => Style::new().red().bold(),
        2 => Style::new().magenta(),
        3 => Style::new().yellow(),
        4 => Style::new().dim(),
        _ => Style::new().green(),
    }
}

/// Exactly so wide, whatever letters it has.
fn fitted(text: &str, width: usize) -> String {
    let cut = truncate_str(text, width, "…");
    let missing = width.saturating_sub(measure_text_width(&cut));
    format!("{cut}{}", " ".repeat(missing))
}

fn padded(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

/// `0.4 s`, `12 min`, `3.5 h`, `2.1 d`.
fn span(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s if s < 48.0 * 3600.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} d", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::AppId;

    fn table(name: &str, status: &str) -> TableStatus {
        TableStatus {
            kind: "status",
            capture_instance: CaptureInstance(name.to_owned()),
            app_id: AppId(name.to_owned()),
            target: name.to_owned(),
            batch_id: Some(BatchId(3)),
            end_lsn: None,
            end_commit_ts: None,
            open_batch: None,
            open_attempt: None,
            open_reason: None,
            finalized_until: Some(UtcMicros(0)),
            status: status.to_owned(),
            last_rows: None,
            lag_seconds: Some(0.0),
            headroom_hours: Some(71.5),
            open_quarantined: None,
            owner: Some("host".to_owned()),
            stopped_at: None,
            stopped: None,
            stopped_kind: None,
            error: None,
        }
    }

    #[test]
    fn the_worst_come_first_and_what_does_not_fit_is_counted() {
        console::set_colors_enabled(false);
        let mut all: Vec<TableStatus> = (0..50).map(|i| table(&format!("dbo_t{i}"), "current")).collect();
        all[40].stopped = Some("no grant: GRANT SELECT ON dbo.t40".to_owned());
        all[40].status = "failed".to_owned();
        all[45] = table("dbo_Größe", "behind");
        all[45].lag_seconds = Some(300.0);
        let rates = BTreeMap::from([(CaptureInstance("dbo_Größe".to_owned()), 12.5)]);
        let text = screen(&all, &rates, UtcMicros(0), (120, 12));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("1 failed   1 behind   48 current"), "{text}");
        assert!(
            lines[2].starts_with("dbo_t40 ") && lines[2].contains("failed"),
            "{text}"
        );
        assert!(lines[3].contains("GRANT SELECT"), "{text}");
        assert!(lines[4].contains("5 min") && lines[4].contains("12.5"), "{text}");
        assert!(
            lines.len() <= 11 && lines.last().unwrap().starts_with("… and 4"),
            "{text}"
        );
        // Columns stand under each other, whatever letters a name has.
        let at = |line: &str| line.split("71.5").next().map(|before| before.chars().count());
        assert_eq!(at(lines[4]), at(lines[5]));
        assert!(lines.iter().all(|line| measure_text_width(line) <= 120), "{text}");
    }
}
