//! The verdict: up to which instant a table is complete.
//!
//! The control table has one row per table. `finalized_until` only moves forward, whatever is handed in, and only after
//! the data (bronze) and the facts of the batch are committed; the loop keeps that order. The table is small, so a change
//! rewrites it: the rows are read from the version that the commit builds on, merged, and written as one new file.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, Int64Type, TimestampMicrosecondType};
use deltalake::kernel::{Action, Add, Remove};
use deltalake::protocol::{DeltaOperation, SaveMode};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::lake::{
    Column, DeltaLog, Ended, Entry, Fit, Group, LakeError, Layout, Location, NewTable, Proposal, Propose, Sink,
    TIMESTAMP_NTZ, commit, delta_schema, discard, fit, read_all, write_one,
};
use crate::lsn::{Lsn, Offset, UtcMicros};

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

/// A row of the control table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ControlRow {
    /// The table.
    pub table_name: String,
    /// Every period that ends at or before this is complete.
    pub finalized_until: Option<UtcMicros>,
    /// The offset's LSN when the row was written.
    pub end_lsn: Option<Lsn>,
    /// The offset's commit time when the row was written.
    pub end_commit_ts: Option<UtcMicros>,
    /// When the row was written.
    pub updated_at: Option<UtcMicros>,
    /// Up to where silver was brought.
    pub applied_lsn: Option<String>,
    /// The live generation's snapshot.
    pub snapshot_lsn: Option<String>,
    /// The snapshot that is being read.
    pub open_snapshot_lsn: Option<String>,
    /// Its wave.
    pub snapshot_wave: Option<i32>,
    /// Why the verdict does not move.
    pub status: Option<String>,
    /// Rows that are in quarantine.
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

struct Cached {
    version: u64,
    rows: BTreeMap<String, ControlRow>,
    /// What a rewrite takes out.
    files: Vec<Remove>,
}

impl ControlTable {
    /// Opens the table, after creating it when there is none.
    pub async fn open_or_create(location: &str) -> Result<ControlTable, LakeError> {
        let location = Location::parse(location)?;
        let columns = columns();
        let table = location.to_string();
        let schema = delta_schema(&table, &columns)?;
        let comment = "verdicts of sluice: one row per table, saying up to which instant it is complete".to_owned();
        let log = DeltaLog::open_or_create(
            &location,
            NewTable {
                schema: &schema,
                comment,
            },
        )
        .await?;
        fit(&table, log.schema(), &columns, columns.len())?;
        Ok(ControlTable {
            inner: Arc::new(Mutex::new(Inner { log, cache: None })),
            layout: Layout::new(&table, columns.into()),
        })
    }

    /// The rows of a control table, by name; none when there is no such table. Changes nothing.
    pub async fn read(location: &str) -> Result<Vec<ControlRow>, LakeError> {
        let Some(log) = DeltaLog::open(&Location::parse(location)?).await? else {
            return Ok(Vec::new());
        };
        let (batches, _) = read_all(&log).await?;
        Ok(rows_of(log.name(), &batches)?.into_values().collect())
    }

    /// Starts the task that writes the table for this process.
    pub fn writer(&self) -> VerdictWriter {
        VerdictWriter {
            group: Group::spawn("control", WINDOW, self.clone()),
        }
    }
}

/// Writes verdicts. Clones share one task; it ends when the last is gone.
#[derive(Clone)]
pub struct VerdictWriter {
    group: Group<VerdictUpdate>,
}

impl VerdictWriter {
    /// Moves a table's verdict forward, together with those of other tables, about once a second. Returns when the
    /// control table says so. Nothing is written when neither the verdict, the status nor the number of quarantined rows
    /// moves, and nothing ever takes the verdict back.
    pub async fn advance(&self, update: VerdictUpdate) -> Result<(), LakeError> {
        self.group.append(update).await
    }

    /// Has what was handed in so far written at once, and waits for it.
    pub async fn flush(&self) -> Result<(), LakeError> {
        self.group.flush().await
    }
}

impl Sink<VerdictUpdate> for ControlTable {
    async fn commit(&mut self, updates: Vec<VerdictUpdate>) -> Result<(), LakeError> {
        let mut inner = self.inner.lock().await;
        let Inner { log, cache } = &mut *inner;
        if let Some(cached) = cache
            && merged(&cached.rows, &updates, UtcMicros::now()).is_none()
        {
            return Ok(());
        }
        let mut rewrite = Rewrite {
            layout: &self.layout,
            updates: &updates,
            cache,
            staged: None,
        };
        let outcome = commit(log, &mut rewrite).await;
        let staged = rewrite.staged.take();
        match (&outcome, staged) {
            (Ok(Ended::Committed(version)), Some((rows, file))) => {
                *cache = Some(Cached {
                    version: *version,
                    rows,
                    files: vec![remove_of(&file)],
                });
            }
            // It may be in the table.
            (Err(LakeError::CommitUnknown { .. }), _) => *cache = None,
            (_, Some((_, file))) => discard(log, &file).await,
            _ => {}
        }
        outcome.map(|_| ())
    }
}

struct Rewrite<'a> {
    layout: &'a Layout,
    updates: &'a [VerdictUpdate],
    cache: &'a mut Option<Cached>,
    /// The rows of the new file.
    staged: Option<(BTreeMap<String, ControlRow>, Add)>,
}

impl Propose for Rewrite<'_> {
    type Settled = ();

    async fn propose(&mut self, log: &mut DeltaLog) -> Result<Proposal<()>, LakeError> {
        let cached = match self.cache.take().filter(|cached| cached.version == log.version()) {
            Some(cached) => cached,
            None => {
                let (batches, files) = read_all(log).await?;
                Cached {
                    version: log.version(),
                    rows: rows_of(log.name(), &batches)?,
                    files,
                }
            }
        };
        let cached = self.cache.insert(cached);
        let Some(rows) = merged(&cached.rows, self.updates, UtcMicros::now()) else {
            return Ok(Proposal::Settled(()));
        };
        if let Some((_, file)) = self.staged.take() {
            discard(log, &file).await;
        }
        let batch = record_batch(self.layout, &rows)?;
        let file = write_one(log, self.layout, &batch).await?;
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

fn columns() -> Vec<Column> {
    let text = |name: &str, comment: &str| Column::new(name, DataType::Utf8, comment);
    let time = |name: &str, comment: &str| Column::new(name, TIMESTAMP_NTZ, comment);
    vec![
        text("table_name", "table that the row is about"),
        time(
            "finalized_until",
            "every period that ends at or before this is complete, UTC; it only moves forward",
        ),
        text("end_lsn", "LSN of the offset when the row was written"),
        time(
            "end_commit_ts",
            "commit time of the offset when the row was written, UTC",
        ),
        time("updated_at", "when the row was written, UTC"),
        text("applied_lsn", "LSN up to which silver was brought"),
        text("snapshot_lsn", "LSN of the live generation's snapshot"),
        text("open_snapshot_lsn", "LSN of the snapshot that is being read"),
        Column::new(
            "snapshot_wave",
            DataType::Int32,
            "wave of the snapshot that is being read",
        ),
        text(
            "status",
            "why the verdict does not move: current, behind, capture_stalled, failed or snapshot_open",
        ),
        Column::new(
            "open_quarantined",
            DataType::Int64,
            "rows at or before finalized_until that are in quarantine",
        ),
    ]
}

/// The rows in the columns of [`columns`].
fn record_batch(layout: &Layout, rows: &BTreeMap<String, ControlRow>) -> Result<RecordBatch, LakeError> {
    let text = |get: fn(&ControlRow) -> Option<&str>| -> ArrayRef {
        Arc::new(rows.values().map(get).collect::<StringArray>())
    };
    let time = |get: fn(&ControlRow) -> Option<UtcMicros>| -> ArrayRef {
        Arc::new(
            rows.values()
                .map(|row| get(row).map(|at| at.0))
                .collect::<TimestampMicrosecondArray>(),
        )
    };
    let arrays: Vec<ArrayRef> = vec![
        text(|row| Some(&row.table_name)),
        time(|row| row.finalized_until),
        Arc::new(
            rows.values()
                .map(|row| row.end_lsn.map(|lsn| lsn.to_string()))
                .collect::<StringArray>(),
        ),
        time(|row| row.end_commit_ts),
        time(|row| row.updated_at),
        text(|row| row.applied_lsn.as_deref()),
        text(|row| row.snapshot_lsn.as_deref()),
        text(|row| row.open_snapshot_lsn.as_deref()),
        Arc::new(rows.values().map(|row| row.snapshot_wave).collect::<Int32Array>()),
        text(|row| row.status.as_deref()),
        Arc::new(rows.values().map(|row| row.open_quarantined).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(layout.file_schema(&arrays), arrays)
        .map_err(|error| LakeError::Internal(format!("the columns of control do not fit: {error}")))
}

fn rows_of(table: &str, batches: &[RecordBatch]) -> Result<BTreeMap<String, ControlRow>, LakeError> {
    let misfit = |name: &str| LakeError::Chunk {
        table: table.to_owned(),
        reason: format!("its column {name} cannot be read"),
    };
    let wanted = columns();
    let mut rows = BTreeMap::new();
    for batch in batches {
        // Another writer (OPTIMIZE, a person) may have stored a column in another form, or not at all.
        let column = |name: &str| -> Result<ArrayRef, LakeError> {
            let data_type = wanted
                .iter()
                .find(|c| c.name == name)
                .map(|c| &c.data_type)
                .ok_or_else(|| misfit(name))?;
            match batch.column_by_name(name) {
                Some(array) => cast(array, data_type).map_err(|_| misfit(name)),
                None => Ok(arrow::array::new_null_array(data_type, batch.num_rows())),
            }
        };
        let text = |name: &str| -> Result<StringArray, LakeError> { Ok(column(name)?.as_string::<i32>().clone()) };
        let time = |name: &str| -> Result<TimestampMicrosecondArray, LakeError> {
            Ok(column(name)?.as_primitive::<TimestampMicrosecondType>().clone())
        };
        let (names, finalized, end_lsn) = (text("table_name")?, time("finalized_until")?, text("end_lsn")?);
        let (end_commit_ts, updated_at, status) = (time("end_commit_ts")?, time("updated_at")?, text("status")?);
        let (applied, snapshot, open) = (text("applied_lsn")?, text("snapshot_lsn")?, text("open_snapshot_lsn")?);
        let wave = column("snapshot_wave")?.as_primitive::<Int32Type>().clone();
        let quarantined = column("open_quarantined")?.as_primitive::<Int64Type>().clone();
        let text_at = |array: &StringArray, i: usize| array.is_valid(i).then(|| array.value(i).to_owned());
        let time_at =
            |array: &TimestampMicrosecondArray, i: usize| array.is_valid(i).then(|| UtcMicros(array.value(i)));
        for i in 0..batch.num_rows() {
            let table_name = text_at(&names, i).ok_or_else(|| misfit("table_name"))?;
            let end_lsn = text_at(&end_lsn, i)
                .map(|text| text.parse())
                .transpose()
                .map_err(|_| misfit("end_lsn"))?;
            let row = ControlRow {
                table_name: table_name.clone(),
                finalized_until: time_at(&finalized, i),
                end_lsn,
                end_commit_ts: time_at(&end_commit_ts, i),
                updated_at: time_at(&updated_at, i),
                applied_lsn: text_at(&applied, i),
                snapshot_lsn: text_at(&snapshot, i),
                open_snapshot_lsn: text_at(&open, i),
                snapshot_wave: wave.is_valid(i).then(|| wave.value(i)),
                status: text_at(&status, i),
                open_quarantined: quarantined.is_valid(i).then(|| quarantined.value(i)),
            };
            rows.insert(table_name, row);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const HOUR_US: i64 = 3_600_000_000;

    fn offset(n: u8, commit_us: i64) -> Offset {
        Offset {
            lsn: Lsn([n; 10]),
            commit_ts: UtcMicros(commit_us),
        }
    }

    fn update(table: &str, end: Option<Offset>, status: TableStatus) -> VerdictUpdate {
        VerdictUpdate {
            table_name: table.into(),
            end,
            status,
            granularity: Granularity::Hour,
            open_quarantined: None,
        }
    }

    fn versions(folder: &Path) -> usize {
        let log = std::fs::read_dir(folder.join("_delta_log")).unwrap();
        log.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".json"))
            .count()
    }

    async fn stored(folder: &Path) -> Vec<ControlRow> {
        ControlTable::read(folder.to_str().unwrap()).await.unwrap()
    }

    async fn table(folder: &Path) -> ControlTable {
        ControlTable::open_or_create(folder.to_str().unwrap()).await.unwrap()
    }

    #[test]
    fn an_instant_is_truncated_to_its_period() {
        let at = UtcMicros(25 * HOUR_US + 61_000_001);
        assert_eq!(
            at.truncated(Granularity::Minute.period_us()),
            UtcMicros(25 * HOUR_US + 60_000_000)
        );
        assert_eq!(at.truncated(Granularity::Hour.period_us()), UtcMicros(25 * HOUR_US));
        assert_eq!(at.truncated(Granularity::Day.period_us()), UtcMicros(24 * HOUR_US));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_verdict_moves_forward_only_and_is_written_only_when_it_moves() {
        let folder = tempfile::tempdir().unwrap();
        let mut control = table(folder.path()).await;
        let step =
            async |control: &mut ControlTable, updates: Vec<VerdictUpdate>| control.commit(updates).await.unwrap();
        use TableStatus::{Behind, CaptureStalled, Current};
        step(
            &mut control,
            vec![
                update("a", None, Behind),
                update("b", Some(offset(5, 3 * HOUR_US + 7)), Current),
            ],
        )
        .await;
        let rows = stored(folder.path()).await;
        assert_eq!(
            rows.iter().map(|row| row.finalized_until).collect::<Vec<_>>(),
            [None, Some(UtcMicros(3 * HOUR_US))]
        );
        assert_eq!(rows[1].end_lsn, Some(Lsn([5; 10])));
        let before = versions(folder.path());
        // Later in the same hour; a clock that steps back; a replayed batch.
        for end in [offset(6, 3 * HOUR_US + 99), offset(7, 2 * HOUR_US), offset(4, HOUR_US)] {
            step(&mut control, vec![update("b", Some(end), Current)]).await;
        }
        assert_eq!(versions(folder.path()), before);
        step(
            &mut control,
            vec![update("b", Some(offset(7, 2 * HOUR_US)), CaptureStalled)],
        )
        .await;
        let row = stored(folder.path()).await.remove(1);
        assert_eq!(row.status.as_deref(), Some("capture_stalled"));
        assert_eq!(row.finalized_until, Some(UtcMicros(3 * HOUR_US)));
        assert_eq!(row.end_commit_ts, Some(UtcMicros(3 * HOUR_US + 7)));
        // A process that starts anew knows only the table, and cannot take the verdict back either.
        let mut restarted = table(folder.path()).await;
        step(&mut restarted, vec![update("b", Some(offset(5, HOUR_US)), Current)]).await;
        step(&mut restarted, vec![update("b", Some(offset(9, 8 * HOUR_US)), Current)]).await;
        step(&mut control, vec![update("b", Some(offset(8, 7 * HOUR_US)), Behind)]).await;
        let row = stored(folder.path()).await.remove(1);
        assert_eq!(row.finalized_until, Some(UtcMicros(8 * HOUR_US)));
        assert_eq!(stored(folder.path()).await.len(), 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn processes_that_rewrite_the_table_together_lose_no_row() {
        let folder = tempfile::tempdir().unwrap();
        let mut tasks = Vec::new();
        for process in 0..3u8 {
            let mut control = table(folder.path()).await;
            tasks.push(tokio::spawn(async move {
                for hour in 1..6u8 {
                    let end = Some(offset(hour, i64::from(hour) * HOUR_US));
                    let updates = vec![update(&format!("t{process}"), end, TableStatus::Current)];
                    control.commit(updates).await.unwrap();
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let rows = stored(folder.path()).await;
        assert_eq!(
            rows.iter().map(|row| row.table_name.as_str()).collect::<Vec<_>>(),
            ["t0", "t1", "t2"]
        );
        assert!(
            rows.iter()
                .all(|row| row.finalized_until == Some(UtcMicros(5 * HOUR_US)))
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_task_groups_and_flushes_and_a_missing_table_reads_as_empty() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(stored(&folder.path().join("none")).await, []);
        assert!(!folder.path().join("none").exists());
        let control = table(folder.path()).await;
        let writer = control.writer();
        let sent = (0..10).map(|i| writer.advance(update(&format!("t{i}"), None, TableStatus::Current)));
        futures::future::join_all(sent)
            .await
            .into_iter()
            .for_each(|outcome| outcome.unwrap());
        assert_eq!((stored(folder.path()).await.len(), versions(folder.path())), (10, 2));
        writer.flush().await.unwrap();
    }
}
