//! The verdict: up to which instant a table is complete.
//!
//! The control table has one row per table. `finalized_until` only moves forward, whatever is handed in, and only after
//! the data (bronze) and the facts of the batch are committed; the loop keeps that order. The table is small, so a change
//! rewrites it: the rows are read from the version that the commit builds on, merged, and written as one new file.

mod rows;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use deltalake::kernel::{Action, Add, Remove};
use deltalake::protocol::{DeltaOperation, SaveMode};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

pub use rows::ControlRow;
use rows::{columns, record_batch, rows_of};

use crate::failpoint;
use crate::lake::{
    DeltaLog, Ended, Entry, Fit, Group, Kind, LakeError, Layout, Proposal, Propose, Sink, commit, discard, fit,
    read_all, write_one,
};
use crate::lsn::{Offset, UtcMicros};
use crate::storage::Place;

const KIND: Kind = Kind {
    name: "control",
    always: &["table_name", "finalized_until", "end_lsn"],
};

/// How long the first verdict of a group waits for others.
const WINDOW: Duration = Duration::from_secs(1);

/// The periods that a consumer reads by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Granularity {
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    #[default]
    Hour,
    /// 24 hours of UTC.
    Day,
}

impl Granularity {
    /// Length of a period in microseconds.
    pub fn period_us(self) -> i64 {
        match self {
            Granularity::Minute => 60_000_000,
            Granularity::Hour => 3_600_000_000,
            Granularity::Day => 86_400_000_000,
        }
    }
}

/// Why a verdict does not move, or that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableStatus {
    /// The table follows its source.
    Current,
    /// There is more on the source than was read yet.
    Behind,
    /// Capture on the source does not move.
    CaptureStalled,
    /// The table has stopped and waits for a person.
    Failed,
    /// A snapshot is being read.
    SnapshotOpen,
}

impl TableStatus {
    /// As the control table has it.
    pub fn as_str(self) -> &'static str {
        match self {
            TableStatus::Current => "current",
            TableStatus::Behind => "behind",
            TableStatus::CaptureStalled => "capture_stalled",
            TableStatus::Failed => "failed",
            TableStatus::SnapshotOpen => "snapshot_open",
        }
    }
}

/// What a stream says about its table after a batch.
#[derive(Clone, Debug)]
pub struct VerdictUpdate {
    /// The table, by the name that consumers know.
    pub table_name: String,
    /// Up to where its changes are committed; `None` leaves the verdict as it is.
    pub end: Option<Offset>,
    /// How the table does.
    pub status: TableStatus,
    /// The periods of `finalized_until`.
    pub granularity: Granularity,
    /// Rows that are in quarantine; `None` leaves the number as it is.
    pub open_quarantined: Option<i64>,
}

/// The control table. Clones share one view of its log.
#[derive(Clone)]
pub struct ControlTable {
    inner: Arc<Mutex<Inner>>,
    layout: Layout,
}

struct Inner {
    log: DeltaLog,
    /// The rows as of a version, so that a verdict that does not move costs no read.
    cache: Option<Cached>,
}

/// The rows of the table by name.
type Rows = Arc<BTreeMap<String, ControlRow>>;

struct Cached {
    version: u64,
    rows: Rows,
    /// What a rewrite takes out.
    files: Vec<Remove>,
}

impl ControlTable {
    /// Opens the table, after creating it when there is none.
    pub async fn open_or_create(location: &Place) -> Result<ControlTable, LakeError> {
        let columns = columns();
        let table = location.to_string();
        let comment = "verdicts of sluice: one row per table, saying up to which instant it is complete".to_owned();
        let log = KIND.open_or_create(location, &columns, comment).await?;
        // Columns that it lacks come with the first row that is written.
        fit(&table, log.schema(), &columns, columns.len())?;
        Ok(ControlTable {
            inner: Arc::new(Mutex::new(Inner { log, cache: None })),
            layout: Layout::new(&table, columns.into()),
        })
    }

    /// The rows of a control table, by name; none when there is no such table. Changes nothing.
    pub async fn read(location: &Place) -> Result<Vec<ControlRow>, LakeError> {
        let Some(log) = DeltaLog::open(location).await? else {
            return Ok(Vec::new());
        };
        let (batches, _) = read_all(&log).await?;
        Ok(rows_of(log.name(), &batches)?.into_values().collect())
    }

    /// The verdict of a table, as of now.
    async fn finalized_until(&self, table_name: &str) -> Result<Option<UtcMicros>, LakeError> {
        let mut inner = self.inner.lock().await;
        let Inner { log, cache } = &mut *inner;
        log.refresh().await?;
        let cached = current(cache, log).await?;
        Ok(cached.rows.get(table_name).and_then(|row| row.finalized_until))
    }

    /// Starts the task that writes the table for this process.
    pub fn writer(&self) -> VerdictWriter {
        VerdictWriter {
            group: Group::spawn("control", WINDOW, self.clone()),
            table: self.clone(),
        }
    }
}

/// Writes verdicts. Clones share one task; it ends when the last is gone.
#[derive(Clone)]
pub struct VerdictWriter {
    group: Group<VerdictUpdate, Rows>,
    table: ControlTable,
}

impl VerdictWriter {
    /// Moves a table's verdict forward, together with those of other tables, about once a second. Returns when the
    /// control table says so: with the verdict that it has then, which may be later than this one. Nothing is written when
    /// neither the verdict, the status nor the number of quarantined rows moves, and nothing ever takes the verdict back.
    pub async fn advance(&self, update: VerdictUpdate) -> Result<Option<UtcMicros>, LakeError> {
        let table_name = update.table_name.clone();
        let rows = self.group.append(vec![update]).await?;
        Ok(rows.get(&table_name).and_then(|row| row.finalized_until))
    }

    /// The verdict of a table, as of now.
    pub async fn finalized_until(&self, table_name: &str) -> Result<Option<UtcMicros>, LakeError> {
        self.table.finalized_until(table_name).await
    }

    /// Has what was handed in so far written at once, and waits for it.
    pub async fn flush(&self) -> Result<(), LakeError> {
        self.group.flush().await
    }
}

impl Sink<VerdictUpdate> for ControlTable {
    type Answer = Rows;

    async fn commit(&mut self, updates: Vec<VerdictUpdate>) -> Result<Rows, LakeError> {
        let mut inner = self.inner.lock().await;
        let Inner { log, cache } = &mut *inner;
        if let Some(cached) = cache
            && merged(&cached.rows, &updates, UtcMicros::now()).is_none()
        {
            return Ok(Arc::clone(&cached.rows));
        }
        let mut rewrite = Rewrite {
            layout: &self.layout,
            updates: &updates,
            cache,
            staged: None,
            staged_on: None,
        };
        let outcome = commit(log, &mut rewrite).await;
        let staged = rewrite.staged.take();
        match (&outcome, staged) {
            (Ok(Ended::Committed(version)), Some((rows, file))) => {
                *cache = Some(Cached {
                    version: *version,
                    rows: Arc::new(rows),
                    files: vec![remove_of(&file)],
                });
            }
            // It may be in the table.
            (Err(LakeError::CommitUnknown { .. }), _) => *cache = None,
            (_, Some((_, file))) => discard(log, &file).await,
            _ => {}
        }
        outcome?;
        Ok(cache
            .as_ref()
            .map(|cached| Arc::clone(&cached.rows))
            .unwrap_or_default())
    }
}

/// The rows at the log's version, read when what is known is older.
async fn current<'a>(cache: &'a mut Option<Cached>, log: &DeltaLog) -> Result<&'a Cached, LakeError> {
    let cached = match cache.take().filter(|cached| cached.version == log.version()) {
        Some(cached) => cached,
        None => {
            let (batches, files) = read_all(log).await?;
            Cached {
                version: log.version(),
                rows: Arc::new(rows_of(log.name(), &batches)?),
                files,
            }
        }
    };
    Ok(cache.insert(cached))
}

struct Rewrite<'a> {
    layout: &'a Layout,
    updates: &'a [VerdictUpdate],
    cache: &'a mut Option<Cached>,
    /// The rows of the new file.
    staged: Option<(BTreeMap<String, ControlRow>, Add)>,
    /// The version that it builds on.
    staged_on: Option<u64>,
}

impl Propose for Rewrite<'_> {
    type Settled = ();

    const PUT: failpoint::Put = failpoint::Put::VERDICT;

    async fn propose(&mut self, log: &mut DeltaLog) -> Result<Proposal<()>, LakeError> {
        let cached = current(self.cache, log).await?;
        let Some(rows) = merged(&cached.rows, self.updates, UtcMicros::now()) else {
            return Ok(Proposal::Settled(()));
        };
        // An entry that was sent and not answered may still arrive, as long as nothing else is seen under its version: the
        // file that it names stays, and is proposed again.
        let staged_before = self.staged.take();
        let (rows, file) = match staged_before {
            Some((rows, file)) if self.staged_on == Some(log.version()) => (rows, file),
            outdated => {
                if let Some((_, file)) = outdated {
                    discard(log, &file).await;
                }
                let batch = record_batch(self.layout, &rows)?;
                let file = write_one(log, self.layout, &batch).await?;
                (rows, file)
            }
        };
        self.staged_on = Some(log.version());
        let mut actions: Vec<Action> = Vec::new();
        if let Fit::Evolves(schema) = fit(
            log.name(),
            log.schema(),
            self.layout.columns(),
            self.layout.columns().len(),
        )? {
            actions.push(log.with_schema(&schema)?);
        }
        let now_ms = UtcMicros::now().0 / 1000;
        actions.extend(cached.files.iter().cloned().map(|remove| {
            Action::Remove(Remove {
                deletion_timestamp: Some(now_ms),
                ..remove
            })
        }));
        actions.push(Action::Add(file.clone()));
        self.staged = Some((rows, file));
        Ok(Proposal::Commit(Box::new(Entry {
            actions,
            txns: Vec::new(),
            operation: DeltaOperation::Write {
                mode: SaveMode::Overwrite,
                partition_by: None,
                predicate: None,
            },
            user_metadata: None,
        })))
    }
}

fn remove_of(file: &Add) -> Remove {
    Remove {
        path: file.path.clone(),
        data_change: true,
        extended_file_metadata: Some(true),
        partition_values: Some(file.partition_values.clone()),
        size: Some(file.size),
        ..Remove::default()
    }
}

/// The rows after the updates, or `None` when nothing that is worth a commit moves.
fn merged(
    rows: &BTreeMap<String, ControlRow>,
    updates: &[VerdictUpdate],
    now: UtcMicros,
) -> Option<BTreeMap<String, ControlRow>> {
    let mut after = rows.clone();
    let mut moved = false;
    for update in updates {
        let fresh = || ControlRow {
            table_name: update.table_name.clone(),
            ..ControlRow::default()
        };
        let row = after.entry(update.table_name.clone()).or_insert_with(fresh);
        moved |= apply(row, update, now);
    }
    moved.then_some(after)
}

/// Whether the row moved in a way that is worth a commit.
fn apply(row: &mut ControlRow, update: &VerdictUpdate, now: UtcMicros) -> bool {
    let mut moved = row.updated_at.is_none();
    if let Some(end) = update.end {
        let until = end.commit_ts.truncated(update.granularity.period_us());
        // `None` sorts below every instant.
        moved |= Some(until) > row.finalized_until;
        row.finalized_until = row.finalized_until.max(Some(until));
        row.end_lsn = row.end_lsn.max(Some(end.lsn));
        row.end_commit_ts = row.end_commit_ts.max(Some(end.commit_ts));
    }
    let status = Some(update.status.as_str());
    if row.status.as_deref() != status {
        row.status = status.map(str::to_owned);
        moved = true;
    }
    if update.open_quarantined.is_some() && row.open_quarantined != update.open_quarantined {
        row.open_quarantined = update.open_quarantined;
        moved = true;
    }
    if moved {
        row.updated_at = Some(now);
    }
    moved
}
