//! Facts: one row per batch, snapshot and event of every stream, in one Delta table.
//!
//! Rows of many streams share a commit, which carries one transaction id per stream (`<app_id>#facts` = batch id,
//! `<app_id>#events` = the stream's running number). An entry that the table has already is dropped and counts as done,
//! so a stream hands its row in again after a crash or an error without a second thought.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::DataType;
use deltalake::kernel::{Action, Add};
use deltalake::protocol::{DeltaOperation, SaveMode};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::identity::{AppId, BatchId};
use crate::lake::{
    Column, DeltaLog, Ended, Entry, Fit, Group, LakeError, Layout, Location, NewTable, Proposal, Propose, Sink,
    TIMESTAMP_NTZ, commit, delta_schema, discard, fit, txn, write_one,
};
use crate::lsn::{Lsn, UtcMicros};

/// How long the first entry of a group waits for others.
const WINDOW: Duration = Duration::from_secs(1);

/// One row of the facts table. `written_at` is set when it is written. No source values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FactsRow {
    /// The stream.
    pub app_id: String,
    /// The batch; NULL for an event that belongs to none.
    pub batch_id: Option<i64>,
    /// Rows written to the target.
    pub rows: Option<i64>,
    /// First LSN among the rows.
    pub min_lsn: Option<Lsn>,
    /// Last LSN among the rows.
    pub max_lsn: Option<Lsn>,
    /// First commit time among the rows.
    pub min_commit_ts: Option<UtcMicros>,
    /// Last commit time among the rows.
    pub max_commit_ts: Option<UtcMicros>,
    /// Deletes.
    pub deletes: Option<i64>,
    /// Inserts.
    pub inserts: Option<i64>,
    /// Updates; the two rows of one count once.
    pub updates: Option<i64>,
    /// When the batch began.
    pub started_at: Option<UtcMicros>,
    /// How long it took, in milliseconds.
    pub duration_ms: Option<i64>,
    /// A round trip to the source, in milliseconds.
    pub source_rtt_ms: Option<f64>,
    /// Time spent reading, in seconds.
    pub read_seconds: Option<f64>,
    /// Data read, in megabytes.
    pub read_mb: Option<f64>,
    /// Time spent waiting for the source, in milliseconds.
    pub network_wait_ms: Option<i64>,
    /// Commit time of the oldest change that the source still has.
    pub retention_watermark_ts: Option<UtcMicros>,
    /// Hours between that and the end of the batch.
    pub retention_headroom_hours: Option<f64>,
    /// What kind of event this row is; NULL for a batch.
    pub event: Option<String>,
    /// Begin of a gap.
    pub lost_from_ts: Option<UtcMicros>,
    /// End of a gap.
    pub lost_to_ts: Option<UtcMicros>,
    /// Commit time of the newest change on the source.
    pub source_max_commit_ts: Option<UtcMicros>,
    /// How far capture is behind now, in seconds.
    pub capture_lag_seconds: Option<f64>,
    /// How far the batch's end is behind capture, in seconds.
    pub ingestion_lag_seconds: Option<f64>,
    /// The offset's LSN after the batch.
    pub end_lsn: Option<Lsn>,
    /// The offset's commit time after the batch.
    pub end_commit_ts: Option<UtcMicros>,
    /// More about an event, for people.
    pub detail: Option<String>,
    /// Location of the bronze table.
    pub target: Option<String>,
    /// Provenance of the transforms, as JSON.
    pub transform: Option<String>,
    /// Time spent in transforms, in milliseconds.
    pub transform_ms: Option<i64>,
    /// Time spent planning, in milliseconds.
    pub plan_ms: Option<i64>,
    /// Time spent in the Delta commit, in milliseconds.
    pub commit_ms: Option<i64>,
    /// Rows put into quarantine.
    pub rows_quarantined: Option<i64>,
    /// Rows that a transform filtered out.
    pub rows_filtered: Option<i64>,
    /// The bronze version that the batch is; NULL for a batch of 0 rows.
    pub delta_version: Option<i64>,
    /// The host that ran the batch.
    pub host: Option<String>,
}

/// Which of its two running numbers an entry has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FactsKey {
    /// A batch.
    Batch(BatchId),
    /// An event, by the stream's own running number of events.
    Event(i64),
}

/// A row to be written.
#[derive(Clone, Debug)]
pub struct FactsEntry {
    /// The stream.
    pub app_id: AppId,
    /// Its number, by which a repetition is known.
    pub key: FactsKey,
    /// The row.
    pub row: FactsRow,
}

/// The newest numbers of a stream that the facts table has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedFacts {
    /// The newest batch.
    pub facts: Option<i64>,
    /// The newest event.
    pub events: Option<i64>,
}

/// The facts table. Clones share one view of its log.
#[derive(Clone)]
pub struct FactsTable {
    log: Arc<Mutex<DeltaLog>>,
    layout: Layout,
}

impl FactsTable {
    /// Opens the table, after creating it or adding the columns that it lacks. Once per process, before any stream starts.
    pub async fn open_or_create(location: &str) -> Result<FactsTable, LakeError> {
        let location = Location::parse(location)?;
        let columns = columns();
        let table = location.to_string();
        let schema = delta_schema(&table, &columns)?;
        let comment = "facts of sluice: one row per batch, snapshot and event of every stream".to_owned();
        let mut log = DeltaLog::open_or_create(
            &location,
            NewTable {
                schema: &schema,
                comment,
            },
        )
        .await?;
        commit(&mut log, &mut AddColumns { columns: &columns }).await?;
        Ok(FactsTable {
            log: Arc::new(Mutex::new(log)),
            layout: Layout::new(&table, columns.into()),
        })
    }

    /// What the table has of a stream, as of now.
    pub async fn recorded(&self, app_id: &AppId) -> Result<RecordedFacts, LakeError> {
        let [facts, events] = [facts_id(app_id), events_id(app_id)];
        let mut log = self.log.lock().await;
        log.follow(&[facts.clone(), events.clone()]).await?;
        log.refresh().await?;
        let version = |id: &str| log.recorded(id).map(|recorded| recorded.version);
        Ok(RecordedFacts {
            facts: version(&facts),
            events: version(&events),
        })
    }

    /// Starts the task that writes the table for this process.
    pub fn writer(&self) -> FactsWriter {
        FactsWriter {
            group: Group::spawn("facts", WINDOW, self.clone()),
        }
    }
}

/// Writes facts. Clones share one task; it ends when the last is gone.
#[derive(Clone)]
pub struct FactsWriter {
    group: Group<FactsEntry>,
}

impl FactsWriter {
    /// Writes a row together with those of other streams, about once a second. Returns when the row is in the table, be
    /// it by this call or by an earlier one. After an error the same entry may be handed in again.
    pub async fn append(&self, entry: FactsEntry) -> Result<(), LakeError> {
        self.group.append(entry).await
    }

    /// Has what was handed in so far written at once, and waits for it.
    pub async fn flush(&self) -> Result<(), LakeError> {
        self.group.flush().await
    }
}

impl Sink<FactsEntry> for FactsTable {
    async fn commit(&mut self, entries: Vec<FactsEntry>) -> Result<(), LakeError> {
        let mut log = self.log.lock().await;
        let ids: HashSet<String> = entries.iter().map(|entry| txn_id(entry).0).collect();
        log.follow(&ids.into_iter().collect::<Vec<_>>()).await?;
        let mut append = Append {
            layout: &self.layout,
            entries: &entries,
            staged: None,
        };
        let outcome = commit(&mut log, &mut append).await;
        let unused = match &outcome {
            Ok(Ended::Committed(_)) | Err(LakeError::CommitUnknown { .. }) => None,
            Ok(Ended::Settled(())) | Err(_) => append.staged.take(),
        };
        if let Some((_, file)) = unused {
            discard(&log, &file).await;
        }
        outcome.map(|_| ())
    }
}

struct Append<'a> {
    layout: &'a Layout,
    entries: &'a [FactsEntry],
    /// The entries, by position, that the file holds.
    staged: Option<(Vec<usize>, Add)>,
}

impl Propose for Append<'_> {
    type Settled = ();

    async fn propose(&mut self, log: &mut DeltaLog) -> Result<Proposal<()>, LakeError> {
        let mut seen = HashSet::new();
        let new = self.entries.iter().enumerate().filter(|(_, entry)| {
            let (id, version) = txn_id(entry);
            let recorded = log.recorded(&id).is_some_and(|recorded| recorded.version >= version);
            !recorded && seen.insert((id, version))
        });
        let new: Vec<usize> = new.map(|(position, _)| position).collect();
        if new.is_empty() {
            return Ok(Proposal::Settled(()));
        }
        if self.staged.as_ref().is_none_or(|(positions, _)| *positions != new) {
            if let Some((_, file)) = self.staged.take() {
                discard(log, &file).await;
            }
            let rows: Vec<&FactsRow> = new.iter().map(|position| &self.entries[*position].row).collect();
            let batch = record_batch(self.layout, &rows, UtcMicros::now())?;
            let file = write_one(log, self.layout, &batch).await?;
            self.staged = Some((new.clone(), file));
        }
        let mut versions = BTreeMap::new();
        for (id, version) in new.iter().map(|position| txn_id(&self.entries[*position])) {
            let highest = versions.entry(id).or_insert(version);
            *highest = version.max(*highest);
        }
        let add = self.staged.iter().map(|(_, file)| Action::Add(file.clone()));
        Ok(Proposal::Commit(Box::new(Entry {
            actions: add.collect(),
            txns: versions.into_iter().map(|(id, version)| txn(id, version)).collect(),
            operation: DeltaOperation::Write {
                mode: SaveMode::Append,
                partition_by: None,
                predicate: None,
            },
            user_metadata: None,
        })))
    }
}

/// Brings the schema of a table that an older sluice made up to date.
struct AddColumns<'a> {
    columns: &'a [Column],
}

impl Propose for AddColumns<'_> {
    type Settled = ();

    async fn propose(&mut self, log: &mut DeltaLog) -> Result<Proposal<()>, LakeError> {
        match fit(log.name(), log.schema(), self.columns, self.columns.len())? {
            Fit::Fits => Ok(Proposal::Settled(())),
            Fit::Evolves(schema) => Ok(Proposal::Commit(Box::new(Entry {
                actions: vec![log.with_schema(&schema)?],
                txns: Vec::new(),
                operation: DeltaOperation::AddColumn {
                    fields: schema.fields().cloned().collect(),
                },
                user_metadata: None,
            }))),
        }
    }
}

fn facts_id(app_id: &AppId) -> String {
    format!("{app_id}#facts")
}

fn events_id(app_id: &AppId) -> String {
    format!("{app_id}#events")
}

fn txn_id(entry: &FactsEntry) -> (String, i64) {
    match entry.key {
        FactsKey::Batch(BatchId(n)) => (facts_id(&entry.app_id), n),
        FactsKey::Event(n) => (events_id(&entry.app_id), n),
    }
}

fn columns() -> Vec<Column> {
    let text = |name: &str, comment: &str| Column::new(name, DataType::Utf8, comment);
    let long = |name: &str, comment: &str| Column::new(name, DataType::Int64, comment);
    let real = |name: &str, comment: &str| Column::new(name, DataType::Float64, comment);
    let time = |name: &str, comment: &str| Column::new(name, TIMESTAMP_NTZ, comment);
    vec![
        text("app_id", "stream that the row is about"),
        long("batch_id", "batch; NULL for an event that belongs to none").with_statistics(),
        long("rows", "rows written to the target"),
        text("min_lsn", "first commit LSN among the rows"),
        text("max_lsn", "last commit LSN among the rows"),
        time("min_commit_ts", "first commit time among the rows, UTC"),
        time("max_commit_ts", "last commit time among the rows, UTC"),
        long("deletes", "deletes among the changes"),
        long("inserts", "inserts among the changes"),
        long(
            "updates",
            "updates among the changes; the two rows of an update count once",
        ),
        time("started_at", "when the batch began, UTC"),
        long("duration_ms", "how long the batch took, in milliseconds"),
        real("source_rtt_ms", "a round trip to the source, in milliseconds"),
        real("read_seconds", "time spent reading, in seconds"),
        real("read_mb", "data read, in megabytes"),
        long("network_wait_ms", "time spent waiting for the source, in milliseconds"),
        time(
            "retention_watermark_ts",
            "commit time of the oldest change that the source still had, UTC",
        ),
        real(
            "retention_headroom_hours",
            "end_commit_ts minus the watermark, in hours",
        ),
        text("event", "kind of event; NULL for a batch"),
        time("lost_from_ts", "begin of a gap, UTC"),
        time("lost_to_ts", "end of a gap, UTC"),
        time(
            "source_max_commit_ts",
            "commit time of the newest change on the source, UTC",
        ),
        real("capture_lag_seconds", "now minus source_max_commit_ts, in seconds"),
        real(
            "ingestion_lag_seconds",
            "source_max_commit_ts minus end_commit_ts, in seconds",
        ),
        text("end_lsn", "LSN of the offset after the batch"),
        time("end_commit_ts", "commit time of the offset after the batch, UTC").with_statistics(),
        text("detail", "more about an event, for people"),
        text("target", "location of the bronze table"),
        time("written_at", "when the row was written, UTC").with_statistics(),
        text("transform", "provenance of the transforms, as JSON"),
        long("transform_ms", "time spent in transforms, in milliseconds"),
        long("plan_ms", "time spent planning, in milliseconds"),
        long("commit_ms", "time spent in the Delta commit, in milliseconds"),
        long("rows_quarantined", "rows put into quarantine"),
        long("rows_filtered", "rows that a transform filtered out"),
        long("delta_version", "bronze version that the batch is; NULL for 0 rows"),
        text("host", "host that ran the batch"),
    ]
}

/// The rows in the columns of [`columns`].
fn record_batch(layout: &Layout, rows: &[&FactsRow], written_at: UtcMicros) -> Result<RecordBatch, LakeError> {
    let text = |get: fn(&FactsRow) -> Option<&str>| -> ArrayRef {
        Arc::new(rows.iter().map(|row| get(row)).collect::<StringArray>())
    };
    let lsn = |get: fn(&FactsRow) -> Option<Lsn>| -> ArrayRef {
        Arc::new(
            rows.iter()
                .map(|row| get(row).map(|lsn| lsn.to_string()))
                .collect::<StringArray>(),
        )
    };
    let long = |get: fn(&FactsRow) -> Option<i64>| -> ArrayRef {
        Arc::new(rows.iter().map(|row| get(row)).collect::<Int64Array>())
    };
    let real = |get: fn(&FactsRow) -> Option<f64>| -> ArrayRef {
        Arc::new(rows.iter().map(|row| get(row)).collect::<Float64Array>())
    };
    let time = |get: fn(&FactsRow) -> Option<UtcMicros>| -> ArrayRef {
        Arc::new(
            rows.iter()
                .map(|row| get(row).map(|at| at.0))
                .collect::<TimestampMicrosecondArray>(),
        )
    };
    let arrays = vec![
        text(|row| Some(&row.app_id)),
        long(|row| row.batch_id),
        long(|row| row.rows),
        lsn(|row| row.min_lsn),
        lsn(|row| row.max_lsn),
        time(|row| row.min_commit_ts),
        time(|row| row.max_commit_ts),
        long(|row| row.deletes),
        long(|row| row.inserts),
        long(|row| row.updates),
        time(|row| row.started_at),
        long(|row| row.duration_ms),
        real(|row| row.source_rtt_ms),
        real(|row| row.read_seconds),
        real(|row| row.read_mb),
        long(|row| row.network_wait_ms),
        time(|row| row.retention_watermark_ts),
        real(|row| row.retention_headroom_hours),
        text(|row| row.event.as_deref()),
        time(|row| row.lost_from_ts),
        time(|row| row.lost_to_ts),
        time(|row| row.source_max_commit_ts),
        real(|row| row.capture_lag_seconds),
        real(|row| row.ingestion_lag_seconds),
        lsn(|row| row.end_lsn),
        time(|row| row.end_commit_ts),
        text(|row| row.detail.as_deref()),
        text(|row| row.target.as_deref()),
        Arc::new(TimestampMicrosecondArray::from_value(written_at.0, rows.len())),
        text(|row| row.transform.as_deref()),
        long(|row| row.transform_ms),
        long(|row| row.plan_ms),
        long(|row| row.commit_ms),
        long(|row| row.rows_quarantined),
        long(|row| row.rows_filtered),
        long(|row| row.delta_version),
        text(|row| row.host.as_deref()),
    ];
    let schema = layout.file_schema(&arrays);
    RecordBatch::try_new(schema, arrays)
        .map_err(|error| LakeError::Internal(format!("the columns of facts do not fit: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lake::read_all;
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use std::path::Path;

    fn entry(app_id: &str, n: i64) -> FactsEntry {
        FactsEntry {
            app_id: AppId(app_id.into()),
            key: FactsKey::Batch(BatchId(n)),
            row: FactsRow {
                app_id: app_id.into(),
                batch_id: Some(n),
                rows: Some(10 + n),
                ..FactsRow::default()
            },
        }
    }

    async fn table(folder: &Path) -> FactsTable {
        FactsTable::open_or_create(folder.to_str().unwrap()).await.unwrap()
    }

    async fn stored(folder: &Path) -> Vec<(String, Option<i64>)> {
        let location = Location::parse(folder.to_str().unwrap()).unwrap();
        let (batches, _) = read_all(&DeltaLog::open(&location).await.unwrap().unwrap())
            .await
            .unwrap();
        let mut rows = Vec::new();
        for batch in batches {
            let app_ids = batch.column_by_name("app_id").unwrap().as_string::<i32>().clone();
            let batch_ids = batch
                .column_by_name("batch_id")
                .unwrap()
                .as_primitive::<Int64Type>()
                .clone();
            rows.extend(
                app_ids
                    .iter()
                    .zip(&batch_ids)
                    .map(|(app_id, id)| (app_id.unwrap().to_owned(), id)),
            );
        }
        rows.sort();
        rows
    }

    fn commits(folder: &Path) -> usize {
        let log = std::fs::read_dir(folder.join("_delta_log")).unwrap();
        log.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".json"))
            .count()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn many_streams_share_a_commit_and_repetitions_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let facts = table(folder.path()).await;
        let writer = facts.writer();
        let streams = (0..20).map(|i| {
            let writer = writer.clone();
            async move { writer.append(entry(&format!("s{i:02}"), 0)).await }
        });
        for outcome in futures::future::join_all(streams).await {
            outcome.unwrap();
        }
        assert_eq!(commits(folder.path()), 2, "the table's creation and one group");
        // Handed in again, alone and beside a new one.
        let again = futures::future::join3(
            writer.append(entry("s00", 0)),
            writer.append(entry("s00", 1)),
            writer.append(entry("s00", 1)),
        );
        let (a, b, c) = again.await;
        a.and(b).and(c).unwrap();
        assert_eq!(stored(folder.path()).await.len(), 21);
        assert_eq!(
            facts.recorded(&AppId("s00".into())).await.unwrap(),
            RecordedFacts {
                facts: Some(1),
                events: None
            }
        );
        let before = commits(folder.path());
        writer.append(entry("s00", 1)).await.unwrap();
        assert_eq!(commits(folder.path()), before, "nothing new, nothing committed");
        let event = FactsEntry {
            key: FactsKey::Event(0),
            row: FactsRow {
                app_id: "s00".into(),
                event: Some("transform_set".into()),
                ..FactsRow::default()
            },
            ..entry("s00", 0)
        };
        // A flush does not wait for the window: this one would not end before the test is given up.
        let slow = FactsWriter {
            group: Group::spawn("facts", Duration::from_secs(86_400), facts.clone()),
        };
        let (appended, flushed) = tokio::join!(slow.append(event), slow.flush());
        appended.and(flushed).unwrap();
        assert_eq!(
            facts.recorded(&AppId("s00".into())).await.unwrap(),
            RecordedFacts {
                facts: Some(1),
                events: Some(0)
            }
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_competing_process_costs_no_row_and_adds_none() {
        let folder = tempfile::tempdir().unwrap();
        // Each opens the table by itself, as processes do; "shared" is run by both by mistake.
        let mut tasks = Vec::new();
        for process in 0..3 {
            let mut facts = table(folder.path()).await;
            tasks.push(tokio::spawn(async move {
                for n in 0..8 {
                    let own = entry(&format!("p{process}"), n);
                    Sink::commit(&mut facts, vec![own, entry("shared", n)]).await.unwrap();
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let mut wanted: Vec<(String, Option<i64>)> = Vec::new();
        for name in ["p0", "p1", "p2", "shared"] {
            wanted.extend((0..8).map(|n| (name.to_owned(), Some(n))));
        }
        assert_eq!(stored(folder.path()).await, wanted);
        let files = std::fs::read_dir(folder.path()).unwrap();
        let files = files
            .filter(|entry| {
                entry
                    .as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .ends_with(".parquet")
            })
            .count();
        assert_eq!(files, commits(folder.path()) - 1, "no file is left that no commit took");
    }

    #[test]
    fn a_row_survives_the_checkpoint() {
        let row = FactsRow {
            app_id: "orders".into(),
            batch_id: Some(3),
            min_lsn: Some(Lsn([7; 10])),
            min_commit_ts: Some(UtcMicros(1_700_000_000_123_000)),
            retention_headroom_hours: Some(71.5),
            transform: Some("[]".into()),
            ..FactsRow::default()
        };
        let json = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<FactsRow>(&json).unwrap(), row);
        let fields = serde_json::to_value(&row).unwrap();
        let mut names: Vec<String> = fields
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .chain(["written_at".to_owned()])
            .collect();
        let mut table: Vec<String> = columns().into_iter().map(|column| column.name).collect();
        names.sort();
        table.sort();
        assert_eq!(names, table);
    }
}
