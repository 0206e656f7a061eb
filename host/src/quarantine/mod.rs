//! Quarantine: rows that a table's transforms could not transform, in a Delta table beside bronze. It names them and holds
//! none of their values.
//!
//! # When a row counts
//! The rows of an attempt at a batch are written before the batch is committed to bronze, once, under the transaction id
//! `<app_id>#quarantine` = batch × 1000 + attempt. If bronze never takes that attempt, they count for nothing: the
//! stream appends one row with state `void` for the attempt as soon as it knows. So nothing is ever rewritten, and
//! whoever reads the table needs nothing else: a row is open when its attempt is not void and no row with state
//! `retried`, of an attempt that is not void, names the same change after it. Only `quarantine_retention` removes rows.

mod columns;
mod retention;
mod row;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use deltalake::kernel::{Action, Add};
use deltalake::protocol::{DeltaOperation, SaveMode};

use columns::{columns, record_batch, rows_of};
pub use row::{QuarantineRow, RowState, open_rows};

use crate::checkpoint::ATTEMPTS;
use crate::failpoint;
use crate::identity::{AppId, BatchId};
use crate::lake::{
    DeltaLog, Ended, Entry, Kind, LakeError, Layout, Location, Proposal, Propose, commit, discard, read_all, txn,
    write_one,
};
use crate::lsn::UtcMicros;

const KIND: Kind = Kind {
    name: "quarantine",
    always: &["app_id", "batch_id", "attempt", "_start_lsn", "code", "state"],
};

/// Where the quarantine of a bronze table is.
pub fn location_of(target: &str) -> String {
    format!("{}__quarantine", target.trim_end_matches('/'))
}

/// An attempt at a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptAt {
    /// The batch.
    pub batch: BatchId,
    /// The attempt, from 0.
    pub attempt: u32,
}

impl AttemptAt {
    /// As the transaction id has it.
    fn version(self) -> i64 {
        self.batch.0 * i64::from(ATTEMPTS) + i64::from(self.attempt)
    }

    fn of_version(version: i64) -> AttemptAt {
        AttemptAt {
            batch: BatchId(version.div_euclid(i64::from(ATTEMPTS))),
            attempt: u32::try_from(version.rem_euclid(i64::from(ATTEMPTS))).unwrap_or(0),
        }
    }
}

/// What became of rows that were handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// They are in the table now.
    Now,
    /// The table had rows of this attempt. Whether they are the same is for the caller to see.
    Before,
    /// The table has rows of a later attempt or batch.
    Passed(AttemptAt),
}

/// The quarantine of one stream.
pub struct QuarantineTable {
    log: DeltaLog,
    layout: Layout,
    app_id: AppId,
}

impl QuarantineTable {
    /// Opens the table, if there is one.
    ///
    /// # Errors
    /// With kind `state` when it is no quarantine, or one that a newer sluice wrote.
    pub async fn open(location: &str, app_id: &AppId) -> Result<Option<QuarantineTable>, LakeError> {
        match DeltaLog::open(&Location::parse(location)?).await? {
            Some(log) => {
                KIND.check(&log)?;
                QuarantineTable::of(log, app_id).await.map(Some)
            }
            None => Ok(None),
        }
    }

    /// Opens the table, after creating it when there is none.
    ///
    /// # Errors
    /// As [`QuarantineTable::open`], and what keeps a table from being created.
    pub async fn open_or_create(location: &str, app_id: &AppId) -> Result<QuarantineTable, LakeError> {
        let comment =
            "quarantine of sluice: one row per change that could not be transformed; it holds no values of them";
        let log = KIND
            .open_or_create(&Location::parse(location)?, &columns(), comment.to_owned())
            .await?;
        QuarantineTable::of(log, app_id).await
    }

    async fn of(mut log: DeltaLog, app_id: &AppId) -> Result<QuarantineTable, LakeError> {
        log.follow(&[txn_id(app_id)]).await?;
        Ok(QuarantineTable {
            layout: Layout::new(log.name(), columns().into()),
            log,
            app_id: app_id.clone(),
        })
    }

    /// The name of the table in messages.
    pub fn name(&self) -> &str {
        self.log.name()
    }

    /// The newest attempt that has rows, as of now.
    pub async fn newest(&mut self) -> Result<Option<AttemptAt>, LakeError> {
        self.log.refresh().await?;
        Ok(recorded(&self.log, &self.app_id))
    }

    /// All rows of the stream, as of the last look at the table, in the order in which they were written.
    pub async fn rows(&self) -> Result<Vec<QuarantineRow>, LakeError> {
        let (batches, _) = read_all(&self.log).await?;
        let mut rows = rows_of(self.log.name(), &batches)?;
        rows.retain(|row| row.app_id == self.app_id.0);
        // Files come in no order, and two of them can have one time.
        rows.sort_by_key(|row| (row.quarantined_at, row.batch_id, row.attempt, row.state));
        Ok(rows)
    }

    /// Writes the rows of an attempt, once.
    pub async fn put(&mut self, at: AttemptAt, rows: &[QuarantineRow]) -> Result<Written, LakeError> {
        let mut append = Append {
            layout: &self.layout,
            app_id: &self.app_id,
            at: Some(at),
            rows,
            staged: None,
        };
        let outcome = commit(&mut self.log, &mut append).await;
        let staged = append.staged.take();
        self.discard_unless_committed(&outcome, staged).await;
        Ok(match outcome? {
            Ended::Committed(_) => Written::Now,
            Ended::Settled(there) if there == at => Written::Before,
            Ended::Settled(there) => Written::Passed(there),
        })
    }

    /// Says that attempts count for nothing. Whoever said so before, to say it twice does no harm.
    pub async fn void(&mut self, attempts: &BTreeSet<AttemptAt>) -> Result<(), LakeError> {
        let now = UtcMicros::now();
        let rows: Vec<QuarantineRow> = attempts
            .iter()
            .map(|at| QuarantineRow::void(&self.app_id, *at, now))
            .collect();
        let mut append = Append {
            layout: &self.layout,
            app_id: &self.app_id,
            at: None,
            rows: &rows,
            staged: None,
        };
        let outcome = commit(&mut self.log, &mut append).await;
        let staged = append.staged.take();
        self.discard_unless_committed(&outcome, staged).await;
        outcome.map(|_| ())
    }

    async fn discard_unless_committed<R>(&self, outcome: &Result<Ended<R>, LakeError>, staged: Option<Add>) {
        let may_be_there = matches!(outcome, Ok(Ended::Committed(_)) | Err(LakeError::CommitUnknown { .. }));
        if let (false, Some(file)) = (may_be_there, staged) {
            discard(&self.log, &file).await;
        }
    }
}

struct Append<'a> {
    layout: &'a Layout,
    app_id: &'a AppId,
    /// The attempt that the rows are of; none for rows about other attempts.
    at: Option<AttemptAt>,
    rows: &'a [QuarantineRow],
    staged: Option<Add>,
}

impl Propose for Append<'_> {
    type Settled = AttemptAt;

    const PUT: failpoint::Put = failpoint::Put::QUARANTINE;

    async fn propose(&mut self, log: &mut DeltaLog) -> Result<Proposal<AttemptAt>, LakeError> {
        if let (Some(at), Some(there)) = (self.at, recorded(log, self.app_id))
            && there >= at
        {
            return Ok(Proposal::Settled(there));
        }
        let file = match self.staged.take() {
            Some(file) => file,
            None => write_one(log, self.layout, &record_batch(self.layout, self.rows)?).await?,
        };
        self.staged = Some(file.clone());
        Ok(Proposal::Commit(Box::new(Entry {
            actions: vec![Action::Add(file)],
            txns: self
                .at
                .map(|at| txn(txn_id(self.app_id), at.version()))
                .into_iter()
                .collect(),
            operation: DeltaOperation::Write {
                mode: SaveMode::Append,
                partition_by: None,
                predicate: None,
            },
            user_metadata: None,
        })))
    }
}

fn recorded(log: &DeltaLog, app_id: &AppId) -> Option<AttemptAt> {
    let recorded = log.recorded(&txn_id(app_id))?;
    Some(AttemptAt::of_version(recorded.version))
}

fn txn_id(app_id: &AppId) -> String {
    format!("{app_id}#quarantine")
}
