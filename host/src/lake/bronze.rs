//! Bronze: one row per change, append only.

use std::sync::Arc;

use deltalake::kernel::{Action, Add, Transaction};
use deltalake::protocol::{DeltaOperation, SaveMode};
use tokio::sync::Mutex;

use super::LakeError;
use super::columns::{Column, Fit, delta_schema, fit, refused_name};
use super::commit::{Ended, Entry, Proposal, Propose, commit};
use super::compact::{Compaction, Looked, compact};
use super::encode::Layout;
use super::files;
use super::kind::Kind;
use super::log::{DeltaLog, Recorded};
use super::staging::{OMITTED, StagedFiles, bronze_columns};
use crate::failpoint::{self, planted};
use crate::identity::{AppId, BatchId, CaptureInstance};
use crate::shape::{META_AFTER, META_BEFORE};
use crate::storage::Place;

/// What tells a bronze table from others.
const KIND: Kind = Kind {
    name: "bronze",
    always: &["_start_lsn", "_seqval", "_operation"],
};

/// What a stream writes to bronze.
#[derive(Clone, Debug)]
pub struct BronzeSpec {
    /// The instance that it is read through, for the table's comment.
    pub capture_instance: CaptureInstance,
    /// The id under which batches are recorded.
    pub app_id: AppId,
    /// The captured columns after the transforms, in order, each with a comment.
    pub columns: Vec<Column>,
    /// Whether rows can have values that CDC did not record (`_omitted`).
    pub omitted: bool,
}

/// The bronze table of one stream.
pub struct BronzeTable {
    state: Mutex<State>,
    app_id: AppId,
    location: Place,
    layout: Layout,
    columns: Arc<[Column]>,
    /// Position of the first column after the captured ones.
    tail: usize,
}

/// What changes as the stream goes on.
struct State {
    log: DeltaLog,
    /// The newest batch that this process knows to be in the table: what it found there, and then its own.
    known: Option<i64>,
    /// The fencing number that this process has in the table.
    claimed: Option<i64>,
    /// Marks the commits by which this process claims a number.
    claimant: String,
}

/// A batch that is in the table.
#[derive(Clone, Debug, PartialEq)]
pub struct CommittedBatch {
    /// The version that brought it, and the `userMetadata` that it was given; `None` when the table's log no longer goes
    /// back that far.
    pub commit: Option<(i64, serde_json::Value)>,
}

/// How a commit of a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The batch is in the table, in this version of it.
    Committed {
        /// The Delta version.
        version: i64,
    },
    /// The table had a batch of this number, or a later one, already. The staged files were removed. Whether it is this
    /// batch says its commit: [`BronzeTable::find`].
    AlreadyApplied {
        /// The newest batch in the table.
        recorded: BatchId,
        /// The version that brought it, unless it is older than the table's log.
        version: Option<i64>,
    },
}

impl BronzeTable {
    /// Opens the table, after creating it when there is none. Columns that are new are added by the next commit.
    ///
    /// Fails with kind `config` for names and types that Delta refuses, `schema_changed` where a column has another type
    /// in the table, and `state` for a table that sluice did not make or that a newer sluice wrote.
    pub async fn open(location: &Place, spec: BronzeSpec) -> Result<BronzeTable, LakeError> {
        let table = location.to_string();
        check_names(&table, &spec.columns)?;
        let (columns, tail) = bronze_columns(&spec.columns, spec.omitted);
        let comment = format!(
            "changes of capture instance {}, one row per change, append only; written by sluice, ordered by _start_lsn, \
             _command_id, _seqval, _operation",
            spec.capture_instance
        );
        let mut log = KIND.open_or_create(location, &columns, comment).await?;
        let ids = [spec.app_id.0.clone(), owner_id(&spec.app_id)];
        log.follow(&ids).await?;
        expect_own(&log, &spec.app_id, &table).await?;
        fit(&table, log.schema(), &columns, tail)?;
        let columns: Arc<[Column]> = columns.into();
        let known = log.recorded(&spec.app_id.0).map(|recorded| recorded.version);
        Ok(BronzeTable {
            state: Mutex::new(State {
                log,
                known,
                claimed: None,
                claimant: uuid::Uuid::new_v4().to_string(),
            }),
            app_id: spec.app_id,
            location: location.clone(),
            layout: Layout::new(&table, columns.clone()),
            columns,
            tail,
        })
    }

    /// The newest version of the table that was seen.
    pub async fn version(&self) -> u64 {
        self.state.lock().await.log.version()
    }

    /// Makes one file of small ones, where there are enough. The stream's own commits wait meanwhile.
    pub async fn compact(&self, which: Compaction) -> Result<Looked, LakeError> {
        let mut state = self.state.lock().await;
        compact(&mut state.log, &self.layout, which).await
    }

    /// The newest batch of the table, in a `Some` of its own where the table is there. It has to be one that
    /// [`BronzeTable::open`] would take; nothing is written.
    pub async fn look(location: &Place, spec: &BronzeSpec) -> Result<Option<Option<BatchId>>, LakeError> {
        let table = location.to_string();
        check_names(&table, &spec.columns)?;
        let (columns, tail) = bronze_columns(&spec.columns, spec.omitted);
        delta_schema(&table, &columns)?;
        let Some(mut log) = DeltaLog::open(location).await? else {
            return Ok(None);
        };
        KIND.check(&log)?;
        log.follow(&[spec.app_id.0.clone(), owner_id(&spec.app_id)]).await?;
        expect_own(&log, &spec.app_id, &table).await?;
        fit(&table, log.schema(), &columns, tail)?;
        Ok(Some(
            log.recorded(&spec.app_id.0).map(|recorded| BatchId(recorded.version)),
        ))
    }

    /// Where the table is.
    pub fn location(&self) -> &Place {
        &self.location
    }

    /// The newest batch that the table has, as of now. The caller compares it with its checkpoint; from here on, whatever
    /// else than this process's own commits moves it is an error.
    pub async fn last_batch(&self) -> Result<Option<BatchId>, LakeError> {
        let mut state = self.state.lock().await;
        state.log.refresh().await?;
        state.known = state.log.recorded(&self.app_id.0).map(|recorded| recorded.version);
        Ok(state.known.map(BatchId))
    }

    /// Whether the table has a batch of this number, as of now, and what its commit says of it. A commit whose reply was
    /// lost is found here, be it of this process or of one that died.
    ///
    /// Fails with kind `state` when the table has a later batch.
    pub async fn find(&self, batch_id: BatchId) -> Result<Option<CommittedBatch>, LakeError> {
        let mut state = self.state.lock().await;
        let State { log, known, .. } = &mut *state;
        log.refresh().await?;
        let recorded = log.recorded(&self.app_id.0).map(|recorded| recorded.version);
        if recorded < Some(batch_id.0) || planted::is(planted::NO_FRESH_TXN_CHECK) {
            return Ok(None);
        }
        if recorded > Some(batch_id.0) {
            return Err(self.moved(log, *known, recorded));
        }
        let found = log.find(&self.app_id.0, batch_id.0).await?;
        // Whoever asks for this batch knows of it from here on.
        *known = recorded;
        Ok(Some(CommittedBatch {
            commit: found.map(|(version, text)| {
                let value = text.and_then(|text| serde_json::from_str(&text).ok());
                (as_i64(version), value.unwrap_or(serde_json::Value::Null))
            }),
        }))
    }

    /// The highest fencing number that the table has, as of now.
    pub async fn owner(&self) -> Result<Option<i64>, LakeError> {
        let mut state = self.state.lock().await;
        state.log.refresh().await?;
        Ok(state
            .log
            .recorded(&owner_id(&self.app_id))
            .map(|recorded| recorded.version))
    }

    /// Takes the stream over: commits the fencing number, above the one that the table has, so that whoever held a lower
    /// one cannot commit any more. Once a process; to repeat it costs nothing.
    ///
    /// Fails with kind `state` when another process has this number or a higher one, or has moved the stream on.
    pub async fn claim(&self, fencing: i64) -> Result<(), LakeError> {
        self.claim_in(&mut *self.state.lock().await, fencing).await
    }

    /// Fails with kind `state` when another process has taken the stream over, as of now. For what is recorded without a
    /// commit to this table.
    pub async fn check_owner(&self, fencing: i64) -> Result<(), LakeError> {
        let mut state = self.state.lock().await;
        let State {
            log, known, claimed, ..
        } = &mut *state;
        log.refresh().await?;
        self.check_fence(log, fencing, *claimed)?;
        self.check_known(log, *known)
    }

    async fn claim_in(&self, state: &mut State, fencing: i64) -> Result<(), LakeError> {
        if state.claimed == Some(fencing) {
            return Ok(());
        }
        let mut claim = Claim {
            table: self,
            fencing,
            known: state.known,
            claimant: &state.claimant,
        };
        commit(&mut state.log, &mut claim).await?;
        failpoint::pass(failpoint::AFTER_CLAIM);
        state.claimed = Some(fencing);
        Ok(())
    }

    /// Whether this process may write under its number.
    fn check_fence(&self, log: &DeltaLog, held: i64, claimed: Option<i64>) -> Result<(), LakeError> {
        let recorded = log.recorded(&owner_id(&self.app_id)).map(|recorded| recorded.version);
        let others = |recorded: &i64| *recorded > held || (*recorded == held && claimed != Some(held));
        match recorded.filter(others) {
            _ if planted::is(planted::FENCE_NOT_COMPARED) => Ok(()),
            None => Ok(()),
            Some(recorded) => Err(LakeError::Fenced {
                table: log.name().to_owned(),
                app_id: self.app_id.0.clone(),
                held,
                recorded,
            }),
        }
    }

    /// Whether nobody but this process committed batches of the stream.
    fn check_known(&self, log: &DeltaLog, known: Option<i64>) -> Result<(), LakeError> {
        let recorded = log.recorded(&self.app_id.0).map(|recorded| recorded.version);
        match recorded == known {
            _ if planted::is(planted::NO_FRESH_TXN_CHECK) => Ok(()),
            true => Ok(()),
            false => Err(self.moved(log, known, recorded)),
        }
    }

    fn moved(&self, log: &DeltaLog, known: Option<i64>, recorded: Option<i64>) -> LakeError {
        let in_words = |batch: Option<i64>| batch.map_or_else(|| "no batch".to_owned(), |n| format!("batch {n}"));
        LakeError::Moved {
            table: log.name().to_owned(),
            app_id: self.app_id.0.clone(),
            known: in_words(known),
            recorded: in_words(recorded),
        }
    }

    /// Starts to write the files of an attempt at a batch.
    pub async fn stage(&self, batch_id: BatchId, attempt: u32) -> Result<StagedFiles, LakeError> {
        let store = self.state.lock().await.log.store().object_store(None);
        StagedFiles::new(store, self.location.clone(), self.layout.clone(), batch_id, attempt)
    }

    /// Commits a batch, once: its files, the transaction id, the fencing number of the owner if there is one (claimed
    /// before, if it is not yet), and `user_metadata` as the commit's `userMetadata`.
    ///
    /// After an error the files are removed, except after [`LakeError::CommitUnknown`], where they may be in the table.
    pub async fn commit(
        &self,
        mut staged: StagedFiles,
        fencing: Option<i64>,
        user_metadata: serde_json::Value,
    ) -> Result<CommitOutcome, LakeError> {
        staged.finish().await?;
        if staged.rows() == 0 {
            let batch_id = staged.batch_id();
            let text = format!(
                "batch {batch_id} of {} has no rows, and nothing is committed for such a batch",
                self.location
            );
            return Err(LakeError::Internal(text));
        }
        let mut state = self.state.lock().await;
        if let Some(fencing) = fencing {
            self.claim_in(&mut state, fencing).await?;
        }
        let State {
            log, known, claimed, ..
        } = &mut *state;
        let mut append = Append {
            table: self,
            batch_id: staged.batch_id(),
            known: *known,
            fencing,
            claimed: *claimed,
            adds: staged.finished(),
            user_metadata: user_metadata.to_string(),
        };
        match commit(log, &mut append).await {
            Ok(Ended::Committed(version)) => {
                *known = Some(staged.batch_id().0);
                staged.keep();
                Ok(CommitOutcome::Committed {
                    version: as_i64(version),
                })
            }
            Ok(Ended::Settled(recorded)) => {
                // Our names are new and random, so they are in the table only if a commit of ours arrived that we took
                // for another's. That must not happen; files that readers need are worth the second look.
                match files::any_active(log, staged.finished()).await {
                    Ok(false) => staged.abort().await,
                    Ok(true) | Err(_) => staged.keep(),
                }
                // A table that was opened after the commit has not seen it go by.
                let version = match recorded.at {
                    Some(version) => Some(version),
                    None => log
                        .find(&self.app_id.0, recorded.version)
                        .await?
                        .map(|(version, _)| version),
                };
                Ok(CommitOutcome::AlreadyApplied {
                    recorded: BatchId(recorded.version),
                    version: version.map(as_i64),
                })
            }
            Err(error) => {
                if matches!(error, LakeError::CommitUnknown { .. }) {
                    staged.keep();
                }
                Err(error)
            }
        }
    }
}

#[cfg(test)]
impl BronzeTable {
    pub(crate) async fn failpoint(&self) -> Arc<std::sync::Mutex<Vec<super::log::FailPoint>>> {
        self.state.lock().await.log.failpoint.clone()
    }
}

struct Append<'a> {
    table: &'a BronzeTable,
    batch_id: BatchId,
    known: Option<i64>,
    fencing: Option<i64>,
    claimed: Option<i64>,
    adds: &'a [Add],
    user_metadata: String,
}

impl Propose for Append<'_> {
    type Settled = Recorded;

    const PUT: failpoint::Put = failpoint::Put::BATCH;

    async fn propose(&mut self, log: &mut DeltaLog) -> Result<Proposal<Recorded>, LakeError> {
        let app_id = &self.table.app_id;
        // The fence comes first: what a stale owner finds under its number may be the new one's.
        self.table.check_fence(log, self.fencing.unwrap_or(0), self.claimed)?;
        if let Some(recorded) = log
            .recorded(&app_id.0)
            .filter(|recorded| recorded.version >= self.batch_id.0 && !planted::is(planted::NO_FRESH_TXN_CHECK))
        {
            return Ok(Proposal::Settled(recorded));
        }
        self.table.check_known(log, self.known)?;
        files::expect_there(log, self.adds).await?;
        let mut txns = vec![txn(app_id.0.clone(), self.batch_id.0)];
        txns.extend(self.fencing.map(|held| txn(owner_id(app_id), held)));
        let mut actions = Vec::with_capacity(self.adds.len() + 1);
        if let Fit::Evolves(schema) = fit(log.name(), log.schema(), &self.table.columns, self.table.tail)? {
            actions.push(log.with_schema(&schema)?);
        }
        actions.extend(self.adds.iter().cloned().map(Action::Add));
        Ok(Proposal::Commit(Box::new(Entry {
            actions,
            txns,
            operation: DeltaOperation::Write {
                mode: SaveMode::Append,
                partition_by: None,
                predicate: None,
            },
            user_metadata: Some(self.user_metadata.clone()),
        })))
    }
}

/// A commit of nothing but the fencing number.
struct Claim<'a> {
    table: &'a BronzeTable,
    fencing: i64,
    known: Option<i64>,
    claimant: &'a str,
}

impl Propose for Claim<'_> {
    type Settled = ();

    const PUT: failpoint::Put = failpoint::Put::CLAIM;

    async fn propose(&mut self, log: &mut DeltaLog) -> Result<Proposal<()>, LakeError> {
        let app_id = &self.table.app_id;
        let owner = owner_id(app_id);
        if log
            .recorded(&owner)
            .is_some_and(|recorded| recorded.version == self.fencing)
        {
            // Two checkpoints can count to the same number. It is ours if an earlier attempt arrived.
            let found = log.find(&owner, self.fencing).await?;
            let ours = found.is_some_and(|(_, text)| text.is_some_and(|text| text.contains(self.claimant)));
            if ours {
                return Ok(Proposal::Settled(()));
            }
        }
        self.table.check_fence(log, self.fencing, None)?;
        // Nobody is fenced off by a process that cannot go on from here.
        self.table.check_known(log, self.known)?;
        let metadata = serde_json::json!({
            "app_id": app_id,
            "event": "owner_claimed",
            "fencing": self.fencing,
            "claim": self.claimant,
        });
        Ok(Proposal::Commit(Box::new(Entry {
            actions: Vec::new(),
            txns: vec![txn(owner, self.fencing)],
            operation: DeltaOperation::Write {
                mode: SaveMode::Append,
                partition_by: None,
                predicate: None,
            },
            user_metadata: Some(metadata.to_string()),
        })))
    }
}

/// A transaction id with the time of day, by which retention would be counted if somebody set one.
pub(crate) fn txn(app_id: String, version: i64) -> Transaction {
    Transaction::new_with_last_update(app_id, version, Some(chrono::Utc::now().timestamp_millis()))
}

/// A table of which a stream has nothing must be nobody else's. `<app_id>.g<k>` is a generation of the same stream.
async fn expect_own(log: &DeltaLog, app_id: &AppId, table: &str) -> Result<(), LakeError> {
    if log.recorded(&app_id.0).is_some() || log.recorded(&owner_id(app_id)).is_some() {
        return Ok(());
    }
    let generation = format!("{app_id}.g");
    let stream = |id: &str| id.split_once('#').map_or(id, |(stream, _)| stream).to_owned();
    let is_own = |id: &str| stream(id) == app_id.0 || stream(id).starts_with(&generation);
    match log.other_txn(is_own).await? {
        None => Ok(()),
        Some(other) => Err(LakeError::OtherStream {
            table: table.to_owned(),
            other: stream(&other),
            app_id: app_id.to_string(),
        }),
    }
}

fn owner_id(app_id: &AppId) -> String {
    format!("{app_id}#owner")
}

fn as_i64(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}

fn check_names(table: &str, columns: &[Column]) -> Result<(), LakeError> {
    let refuse = |column: &str, reason: String| {
        Err(LakeError::ColumnName {
            table: table.to_owned(),
            column: column.to_owned(),
            reason,
        })
    };
    let own: Vec<&str> = META_BEFORE.into_iter().chain(META_AFTER).chain([OMITTED]).collect();
    let mut seen: Vec<(String, &str)> = Vec::with_capacity(columns.len());
    for column in columns {
        let name = column.name.as_str();
        if let Some(reason) = refused_name(name) {
            return refuse(name, reason);
        }
        let lower = name.to_lowercase();
        if let Some(own) = own.iter().find(|own| **own == lower) {
            return refuse(name, format!("has the name of sluice's own column {own}"));
        }
        if let Some((_, other)) = seen.iter().find(|(seen, _)| *seen == lower) {
            return refuse(
                name,
                format!("has the name of column {other}, which Delta does not tell apart by case"),
            );
        }
        seen.push((lower, name));
    }
    Ok(())
}
