//! `sluice status`: how far each table is, from its checkpoint and the control table. Needs no source.

mod watch;

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use super::out::say;
use super::run::worst;
use super::{ConfigArgs, Failure};
use crate::checkpoint::{CheckpointError, CheckpointReader, Running};
use crate::config::{Settings, TableSettings};
use crate::error::{Classify, ErrorKind, chain};
use crate::fanout::expand_from_disk;
use crate::identity::{AppId, BatchId, CaptureInstance};
use crate::lsn::{Lsn, UtcMicros};
use crate::storage::{Place, side_by_side};
use crate::verdict::{self, ControlRow, ControlTable};

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Print one JSON object a line (docs/reference/json.md).
    #[arg(long)]
    pub(super) json: bool,
    /// Show it again and again, the worst first, until Ctrl-C.
    #[arg(long, conflicts_with = "json")]
    watch: bool,
}

/// How far one table is.
#[derive(Debug, Serialize)]
pub(super) struct TableStatus {
    #[serde(rename = "type")]
    kind: &'static str,
    capture_instance: CaptureInstance,
    app_id: AppId,
    target: String,
    /// The last batch that is done.
    batch_id: Option<BatchId>,
    end_lsn: Option<Lsn>,
    end_commit_ts: Option<UtcMicros>,
    /// A batch that was begun and is not done.
    open_batch: Option<BatchId>,
    /// The attempt at it, from 0.
    open_attempt: Option<u32>,
    /// Why it is not the first attempt.
    open_reason: Option<String>,
    finalized_until: Option<UtcMicros>,
    /// Of the control table: `current`, `behind`, …; `not started` before the first batch.
    status: String,
    /// Rows in bronze by the last batch's account.
    last_rows: Option<i64>,
    /// How far the last batch was behind what capture had processed.
    lag_seconds: Option<f64>,
    /// From the oldest change that the source had then to the end of the last batch.
    headroom_hours: Option<f64>,
    /// Rows that are in quarantine; null where the table never had one.
    open_quarantined: Option<i64>,
    /// The process that runs it now, if one does; or the one whose lease ran out and that nobody followed yet.
    owner: Option<String>,
    /// When a run stopped with an error; null once one has gone on.
    stopped_at: Option<UtcMicros>,
    /// That error.
    stopped: Option<String>,
    /// Its kind.
    stopped_kind: Option<ErrorKind>,
    error: Option<String>,
}

pub(super) async fn run(args: StatusArgs) -> Result<(), Failure> {
    let mut settings = Settings::load_without_secrets(&args.config.config)?;
    settings.select(&args.config.tables)?;
    let settings = expand_from_disk(&settings)?;
    if args.watch {
        return watch::watch(&settings).await;
    }
    let (all, failed) = look(&settings).await?;
    if args.json {
        for status in &all {
            if let Ok(line) = serde_json::to_string(status) {
                say!("{line}");
            }
        }
    } else {
        print(&all);
    }
    let mut problems = Vec::new();
    let mut kinds: Vec<ErrorKind> = failed.iter().map(|(kind, _)| *kind).collect();
    let names = |of: Vec<&str>, what: &str| match of.as_slice() {
        [] => None,
        of => Some(format!(
            "{} of {} tables {what}: {}",
            of.len(),
            all.len(),
            of.join(", ")
        )),
    };
    let unreadable = failed.iter().map(|(_, name)| name.as_str()).collect();
    problems.extend(names(unreadable, "have a checkpoint that cannot be read"));
    let stopped: Vec<&TableStatus> = all.iter().filter(|table| table.has_failed()).collect();
    kinds.extend(
        stopped
            .iter()
            .map(|table| table.stopped_kind.unwrap_or(ErrorKind::State)),
    );
    problems.extend(names(by_name(&stopped), "stopped with an error"));
    let stalled: Vec<&TableStatus> = all
        .iter()
        .filter(|table| table.status == verdict::TableStatus::CaptureStalled.as_str())
        .collect();
    kinds.extend(stalled.iter().map(|_| ErrorKind::Retryable));
    problems.extend(names(by_name(&stalled), "wait for capture, which stands still"));
    match worst(kinds.iter().copied()) {
        None => Ok(()),
        Some(kind) => Err(Failure {
            kind,
            message: problems.join("; "),
            shown: true,
        }),
    }
}

fn by_name<'a>(tables: &[&'a TableStatus]) -> Vec<&'a str> {
    tables.iter().map(|table| table.capture_instance.0.as_str()).collect()
}

impl TableStatus {
    /// Whether a run stopped with an error, and none has gone on since.
    fn has_failed(&self) -> bool {
        self.stopped.is_some() || self.status == verdict::TableStatus::Failed.as_str()
    }
}

/// How far all tables are, and the checkpoints that cannot be read.
async fn look(settings: &Settings) -> Result<(Vec<TableStatus>, Vec<(ErrorKind, String)>), Failure> {
    let mut control: BTreeMap<Place, Vec<ControlRow>> = BTreeMap::new();
    for table in &settings.tables {
        let location = &table.control_table;
        if !control.contains_key(location) {
            control.insert(location.clone(), ControlTable::read(location).await?);
        }
    }
    let looked = side_by_side(
        &settings.tables,
        |table| &table.checkpoint,
        |table| {
            let rows = control.get(&table.control_table).map(Vec::as_slice).unwrap_or_default();
            status_of(table, settings.ownership.hosts(), rows)
        },
    );
    let (all, failed): (Vec<TableStatus>, Vec<Option<(ErrorKind, String)>>) = looked.into_iter().unzip();
    Ok((all, failed.into_iter().flatten().collect()))
}

fn status_of(
    table: &TableSettings,
    hosts: Option<&Place>,
    control: &[ControlRow],
) -> (TableStatus, Option<(ErrorKind, String)>) {
    let target = table.target.display().to_string();
    let row = control.iter().find(|row| row.table_name == target);
    let mut status = TableStatus {
        kind: "status",
        capture_instance: table.capture_instance.clone(),
        app_id: table.app_id.clone(),
        batch_id: None,
        end_lsn: None,
        end_commit_ts: None,
        open_batch: None,
        open_attempt: None,
        open_reason: None,
        finalized_until: row.and_then(|row| row.finalized_until),
        status: row
            .and_then(|row| row.status.clone())
            .unwrap_or_else(|| "not started".to_owned()),
        last_rows: None,
        lag_seconds: None,
        headroom_hours: None,
        open_quarantined: row.and_then(|row| row.open_quarantined),
        owner: None,
        stopped_at: None,
        stopped: None,
        stopped_kind: None,
        error: None,
        target,
    };
    let read = read_checkpoint(table, hosts, &mut status);
    let failed = read.err().map(|error| {
        status.status = "unreadable".to_owned();
        status.error = Some(chain(&error));
        (error.kind(), table.capture_instance.0.clone())
    });
    (status, failed)
}

fn read_checkpoint(
    table: &TableSettings,
    hosts: Option<&Place>,
    status: &mut TableStatus,
) -> Result<(), CheckpointError> {
    let reader = CheckpointReader::new(&table.checkpoint).with_hosts(hosts);
    if reader.identity()?.is_none() {
        return Ok(());
    }
    let state = reader.latest()?;
    if let Some(stopped) = reader.stopped(&state) {
        status.stopped_at = Some(stopped.at);
        status.stopped = Some(stopped.error);
        status.stopped_kind = stopped.kind;
    }
    if let Some(last) = &state.last_committed {
        status.batch_id = Some(last.batch_id);
        status.end_lsn = last.position().map(|end| end.lsn);
        status.end_commit_ts = last.position().map(|end| end.commit_ts);
        status.last_rows = last.facts.rows;
        status.lag_seconds = last.facts.ingestion_lag_seconds;
        status.headroom_hours = last.facts.retention_headroom_hours;
    }
    if let Some(open) = state.open {
        status.open_batch = Some(open.batch_id);
        status.open_attempt = Some(open.attempt);
        status.open_reason = open.reason;
    }
    status.owner = match reader.running()? {
        Running::Nobody => None,
        Running::By(owner) | Running::RanOut(owner) | Running::Unseen(owner) => Some(owner),
    };
    Ok(())
}

fn print(all: &[TableStatus]) {
    say!(
        "{:<28} {:>8}  {:<24} {:<24} {:<24} {:<12} running",
        "table",
        "batch",
        "up to (LSN)",
        "up to (commit)",
        "complete until",
        "status"
    );
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for table in all {
        say!(
            "{:<28} {:>8}  {:<24} {:<24} {:<24} {:<12} {}",
            table.capture_instance.0,
            or_dash(table.batch_id.map(|id| id.to_string())),
            or_dash(table.end_lsn.map(|lsn| lsn.to_string())),
            or_dash(table.end_commit_ts.map(|at| at.to_string())),
            or_dash(table.finalized_until.map(|at| at.to_string())),
            table.status,
            or_dash(table.owner.clone()),
        );
        if let Some(open) = table.open_batch {
            let anew = match (table.open_attempt, &table.open_reason) {
                (Some(attempt), Some(reason)) => format!(" (attempt {attempt}: {reason})"),
                _ => String::new(),
            };
            say!("    batch {open} was begun and is not done{anew}: `sluice check` says how the next run goes on");
        }
        if let (Some(at), Some(error)) = (table.stopped_at, &table.stopped) {
            say!("    stopped at {at}: {error}");
        } else if table.status == verdict::TableStatus::Failed.as_str() {
            say!(
                "    it stopped, and the last lines of `sluice run` said why; `sluice check` looks whether it can run"
            );
        }
        if let Some(rows @ 1..) = table.open_quarantined {
            say!("    {rows} rows are in quarantine: `sluice quarantine list` shows them");
        }
        if let Some(error) = &table.error {
            say!("    {error}");
        }
    }
}
