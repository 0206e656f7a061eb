//! Quarantine: rows that a table's transforms could not transform, in a Delta table beside bronze. It names them and holds
//! none of their values.
//!
//! # When a row counts
//! The rows of an attempt at a batch are written before the batch is committed to bronze, once, under the transaction id
//! `<app_id>#quarantine` = batch × 1000 + attempt. If bronze never takes that attempt, they count for nothing: the
//! stream appends one row with state `void` for the attempt as soon as it knows. So nothing is ever rewritten, and
//! whoever reads the table needs nothing else: a row is open when its attempt is not void and no row with state
//! `retried`, of an attempt that is not void, names the same change after it. Only `quarantine_retention` removes rows.

//!
//! Each write has the owner's fencing number (`<app_id>#owner`, as in bronze). A process that takes a stream over under a lease claims
//! it here before it looks for attempts to void, so that what a process writes that slept meanwhile is refused, or seen.

mod columns;
mod retention;
mod row;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use deltalake::kernel::{Action, Add};
use deltalake::protocol::{DeltaOperation, SaveMode};

use columns::{columns, record_batch, rows_of};
pub use row::{Change, LOST, QuarantineRow, RowState, open_rows};

use crate::checkpoint::ATTEMPTS;
use crate::failpoint;
use crate::identity::{AppId, BatchId};
use crate::lake::{
    DeltaLog, Ended, Entry, Kind, LakeError, Layout, Proposal, Propose, commit, discard, read_all, txn, write_one,
};
use crate::lsn::UtcMicros;
use crate::storage::Place;

const KIND: Kind = Kind {
    name: "quarantine",
    always: &["app_id", "batch_id", "attempt", "_start_lsn", "code", "state"],
};

/// What the `userMetadata` of a commit to bronze calls the transaction id that the quarantine table had by then.
pub const IN_METADATA: &str = "in_quarantine";

/// Where the quarantine of a bronze table is.
pub fn location_of(target: &Place) -> Place {
    target.beside(&format!("{}__quarantine", target.name().unwrap_or_default()))
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
    pub fn version(self) -> i64 {
        self.batch.0 * i64::from(ATTEMPTS) + i64::from(self.attempt)
    }

    /// The attempt that a transaction id names.
    pub fn of_version(version: i64) -> AttemptAt {
        AttemptAt {
            batch: BatchId(version.div_euclid(i64::from(ATTEMPTS))),
            attempt: u32::try_from(version.rem_euclid(i64::from(ATTEMPTS))).unwrap_or(0),
        }
    }
}

impl fmt::Display for AttemptAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {} at batch {}", self.attempt, self.batch)
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
    pub async fn open(location: &Place, app_id: &AppId) -> Result<Option<QuarantineTable>, LakeError> {
        match DeltaLog::open(location).await? {
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
    pub async fn open_or_create(location: &Place, app_id: &AppId) -> Result<QuarantineTable, LakeError> {
        let comment =
            "quarantine of sluice: one row per change that could not be transformed; it holds no values of them";
        let log = KIND.open_or_create(location, &columns(), comment.to_owned()).await?;
        QuarantineTable::of(log, app_id).await
    }

    async fn of(mut log: DeltaLog, app_id: &AppId) -> Result<QuarantineTable, LakeError> {
        log.follow(&[txn_id(app_id), owner_id(app_id)]).await?;
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

    /// The newest attempt that has rows, as of the last look at the table.
    pub fn known(&self) -> Option<AttemptAt> {
        recorded(&self.log, &self.app_id)
    }

    /// The newest attempt that has rows, as of now.
    pub async fn newest(&mut self) -> Result<Option<AttemptAt>, LakeError> {
        self.log.refresh().await?;
        Ok(self.known())
    }

    /// The version of the table as of the last look at it.
    pub fn version(&self) -> u64 {
        self.log.version()
    }

    /// The highest fencing number that the table has, as of the last look at it.
    pub fn owner(&self) -> Option<i64> {
        let recorded = self.log.recorded(&owner_id(&self.app_id));
        recorded.map(|recorded| recorded.version)
    }

    /// Takes the table over: whoever has a lower fencing number cannot write to it any more.
    ///
    /// # Errors
    /// With kind `state` when another process has a higher number.
    pub async fn claim(&mut self, fencing: i64) -> Result<(), LakeError> {
        let mut claim = Append {
            layout: &self.layout,
            app_id: &self.app_id,
            fencing,
            what: What::Claim,
            staged: None,
        };
        commit(&mut self.log, &mut claim).await.map(|_| ())
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

    /// Writes the rows of an attempt, once, under the fencing number of the stream's owner.
    ///
    /// # Errors
    /// With kind `state` when another process has taken the stream over.
    pub async fn put(&mut self, at: AttemptAt, rows: &[QuarantineRow], fencing: i64) -> Result<Written, LakeError> {
        let mut append = Append {
            layout: &self.layout,
            app_id: &self.app_id,
            fencing,
            what: What::Rows(at, rows),
            staged: None,
        };
        let outcome = commit(&mut self.log, &mut append).await;
        let staged = append.staged.take();
        self.discard_unless_committed(&outcome, staged).await;
        Ok(match outcome? {
            Ended::Committed(_) => Written::Now,
            Ended::Settled(there) => match there.filter(|there| *there > at) {
                None => Written::Before,
                Some(there) => Written::Passed(there),
            },
        })
    }

    /// Says that attempts count for nothing. Whoever said so before, to say it twice does no harm.
    pub async fn void(&mut self, attempts: &BTreeSet<AttemptAt>, fencing: i64) -> Result<(), LakeError> {
        let now = UtcMicros::now();
        let rows: Vec<QuarantineRow> = attempts
            .iter()
            .map(|at| QuarantineRow::void(&self.app_id, *at, now))
            .collect();
        let mut append = Append {
            layout: &self.layout,
            app_id: &self.app_id,
            fencing,
            what: What::Void(&rows),
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
    fencing: i64,
    what: What<'a>,
    staged: Option<Add>,
}

/// What is to be committed.
#[derive(Clone, Copy)]
enum What<'a> {
    /// The rows of an attempt.
    Rows(AttemptAt, &'a [QuarantineRow]),
    /// Rows about other attempts.
    Void(&'a [QuarantineRow]),
    /// Nothing but the fencing number.
    Claim,
}

impl Propose for Append<'_> {
    type Settled = Option<AttemptAt>;

    const PUT: failpoint::Put = failpoint::Put::QUARANTINE;

    async fn propose(&mut self, log: &mut DeltaLog) -> Result<Proposal<Option<AttemptAt>>, LakeError> {
        let owner = owner_id(self.app_id);
        let claimed = log.recorded(&owner).map(|recorded| recorded.version);
        if let Some(recorded) = claimed.filter(|recorded| *recorded > self.fencing) {
            return Err(LakeError::Fenced {
                table: log.name().to_owned(),
                app_id: self.app_id.0.clone(),
                held: self.fencing,
                recorded,
            });
        }
        let there = recorded(log, self.app_id);
        let (rows, at) = match self.what {
            What::Rows(at, _) if there >= Some(at) => return Ok(Proposal::Settled(there)),
            What::Claim if claimed == Some(self.fencing) => return Ok(Proposal::Settled(there)),
            What::Rows(at, rows) => (rows, Some(at)),
            What::Void(rows) => (rows, None),
            What::Claim => (&[][..], None),
        };
        if !rows.is_empty() && self.staged.is_none() {
            self.staged = Some(write_one(log, self.layout, &record_batch(self.layout, rows)?).await?);
        }
        let mut txns = vec![txn(owner, self.fencing)];
        txns.extend(at.map(|at| txn(txn_id(self.app_id), at.version())));
        Ok(Proposal::Commit(Box::new(Entry {
            actions: self.staged.iter().cloned().map(Action::Add).collect(),
            txns,
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

fn owner_id(app_id: &AppId) -> String {
    format!("{app_id}#owner")
}

fn txn_id(app_id: &AppId) -> String {
    format!("{app_id}#quarantine")
}
