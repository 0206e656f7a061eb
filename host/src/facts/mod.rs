//! Facts: one row per batch, snapshot and event of every stream, in one Delta table.
//!
//! Rows of many streams share a commit, which carries one transaction id per stream (`<app_id>#facts` = batch id,
//! `<app_id>#events` = the stream's running number). An entry that the table has already is dropped and counts as done,
//! so a stream hands its row in again after a crash or an error without a second thought.

mod columns;
mod retention;
mod row;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use deltalake::kernel::{Action, Add};
use deltalake::protocol::{DeltaOperation, SaveMode};
use tokio::sync::{Mutex, OnceCell};

use columns::{columns, record_batch};
pub use retention::Removed;
pub(crate) use retention::facts_from_id;
pub use row::FactsRow;
use rows::streams_with_batches;
pub(crate) use rows::{FactsRows, read_facts};

use crate::failpoint;
use crate::identity::{AppId, BatchId};
use crate::lake::{
    Column, Compaction, DeltaLog, Ended, Entry, Fit, Group, Kind, LakeError, Layout, Looked, Proposal, Propose, Sink,
    commit, compact, discard, fit, read_all, txn, write_one,
};
use crate::lsn::UtcMicros;
use crate::storage::Place;

const KIND: Kind = Kind {
    name: "facts",
    always: &["app_id", "batch_id", "event", "end_lsn"],
};

/// How long the first entry of a group waits for others.
const WINDOW: Duration = Duration::from_secs(1);

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
    with_rows: Arc<OnceCell<HashSet<String>>>,
}

impl FactsTable {
    /// Opens the table, after creating it or adding the columns that it lacks. Once per process, before any stream starts.
    pub async fn open_or_create(location: &Place) -> Result<FactsTable, LakeError> {
        let columns = columns();
        let table = location.to_string();
        let comment = "facts of sluice: one row per batch, snapshot and event of every stream".to_owned();
        let mut log = KIND.open_or_create(location, &columns, comment).await?;
        commit(&mut log, &mut AddColumns { columns: &columns }).await?;
        Ok(FactsTable {
            log: Arc::new(Mutex::new(log)),
            layout: Layout::new(&table, columns.into()),
            with_rows: Arc::default(),
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

    /// What the table has of a stream, as a run begins with it. `None` when it has rows of the stream's batches and no number
    /// of them: to write the rows again would double them.
    pub(crate) async fn expect_numbered(&self, app_id: &AppId) -> Result<Option<RecordedFacts>, LakeError> {
        let recorded = self.recorded(app_id).await?;
        if recorded.facts.is_some() {
            return Ok(Some(recorded));
        }
        let with_rows = self.with_rows.get_or_try_init(|| self.streams_with_rows()).await?;
        if !with_rows.contains(&app_id.0) {
            return Ok(Some(recorded));
        }
        // An owner before can have written its first rows since the numbers were read.
        Ok(Some(self.recorded(app_id).await?).filter(|recorded| recorded.facts.is_some()))
    }

    /// The streams that have rows of batches. Read once: at a start, all streams ask, and rows that come later come with
    /// their numbers.
    async fn streams_with_rows(&self) -> Result<HashSet<String>, LakeError> {
        let batches = read_all(&*self.log.lock().await).await?.0;
        Ok(streams_with_batches(&batches))
    }

    /// Makes one file of small ones, where there are enough. Writers wait meanwhile.
    pub async fn compact(&self, which: Compaction) -> Result<Looked, LakeError> {
        compact(&mut *self.log.lock().await, &self.layout, which).await
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
    /// Writes rows together with those of other streams, about once a second. Returns when they are in the table, be it
    /// by this call or by an earlier one. They go into one commit. After an error all of them may be handed in again,
    /// and have to be before later ones of the stream: an entry below the newest that the table has counts as written.
    pub async fn append(&self, entries: Vec<FactsEntry>) -> Result<(), LakeError> {
        self.group.append(entries).await
    }

    /// Has what was handed in so far written at once, and waits for it.
    pub async fn flush(&self) -> Result<(), LakeError> {
        self.group.flush().await
    }
}

impl Sink<FactsEntry> for FactsTable {
    type Answer = ();

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

    const PUT: failpoint::Put = failpoint::Put::FACTS;

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
