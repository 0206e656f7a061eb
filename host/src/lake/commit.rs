//! One commit, at most once. See the module documentation of [`super`] for why it holds.

use std::time::Duration;

use deltalake::kernel::{Action, Transaction, Version};
use deltalake::protocol::DeltaOperation;
use rand::Rng as _;

use super::LakeError;
use super::log::{DeltaLog, Put};
use crate::error::{Classify as _, ErrorKind};
use crate::failpoint;

/// Attempts at one commit before giving up: together about ten seconds of waiting.
const MAX_ATTEMPTS: u32 = 12;
const FIRST_PAUSE_MS: u64 = 10;
const LONGEST_PAUSE_MS: u64 = 2_000;

/// What a commit consists of.
pub struct Entry {
    /// Files added and removed, and a new schema.
    pub actions: Vec<Action>,
    /// Transaction ids that it records.
    pub txns: Vec<Transaction>,
    /// The operation that `DESCRIBE HISTORY` shows.
    pub operation: DeltaOperation,
    /// `userMetadata` of the commit.
    pub user_metadata: Option<String>,
}

/// What is to be done, seen from a fresh state of the log.
pub enum Proposal<R> {
    /// Commit this.
    Commit(Box<Entry>),
    /// Commit nothing: the log already says so.
    Settled(R),
}

/// Somebody who wants to commit. It is asked before every attempt, against the newest version, and only what it answers
/// for that version is written.
pub trait Propose: Send {
    /// Why nothing was to be committed.
    type Settled: Send;

    /// What tests call the write of its entry.
    const PUT: failpoint::Put = failpoint::Put::UNNAMED;

    /// What to commit on top of `log.version()`.
    fn propose(
        &mut self,
        log: &mut DeltaLog,
    ) -> impl Future<Output = Result<Proposal<Self::Settled>, LakeError>> + Send;
}

/// How a commit ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended<R> {
    /// It is in the table, in this version.
    Committed(Version),
    /// It did not have to be made.
    Settled(R),
}

/// Commits what `proposer` wants, once.
pub async fn commit<P: Propose>(log: &mut DeltaLog, proposer: &mut P) -> Result<Ended<P::Settled>, LakeError> {
    let token = uuid::Uuid::new_v4().to_string();
    // The version that we sent and have no certain answer for. There is never more than one: a later version can only
    // be tried once a refresh has shown that this one is taken, and then it shows by whom.
    let mut unanswered: Option<Version> = None;
    let mut last_error = None;
    for attempt in 0..MAX_ATTEMPTS {
        pause(attempt).await;
        let seen = match log.refresh().await {
            Ok(seen) => seen,
            Err(error) if error.kind() == ErrorKind::Retryable => {
                last_error = Some(Box::new(error));
                continue;
            }
            Err(error) => return Err(unknown(log, unanswered, error)),
        };
        if let Some(version) = unanswered.filter(|version| *version <= log.version()) {
            let found = match seen.get(&version) {
                Some(found) => Some(found.clone()),
                None => match log.token_at(version).await {
                    Ok(found) => found,
                    Err(error) => return Err(unknown(log, unanswered, error)),
                },
            };
            match found {
                Some(Some(found)) if found == token => return Ok(Ended::Committed(version)),
                Some(_) => unanswered = None,
                // Cleaned up since: only a replay, which asks the transaction id, can tell.
                None => {
                    return Err(LakeError::CommitUnknown {
                        table: log.name().to_owned(),
                        version,
                        source: last_error,
                    });
                }
            }
        }
        let entry = match proposer.propose(log).await {
            Ok(Proposal::Commit(entry)) => entry,
            Ok(Proposal::Settled(reason)) if unanswered.is_none() => return Ok(Ended::Settled(reason)),
            // Not in the log, yet possibly on its way: the version is still free, so ask again.
            Ok(Proposal::Settled(_)) => continue,
            Err(error) => return Err(unknown(log, unanswered, error)),
        };
        let Entry {
            actions,
            txns,
            operation,
            user_metadata,
        } = *entry;
        let bytes = log
            .entry(&actions, &txns, operation, &token, user_metadata)
            .map_err(|error| unknown(log, unanswered, error))?;
        let version = log.version() + 1;
        unanswered = Some(version);
        if let Some(name) = P::PUT.before {
            failpoint::pass(name);
        }
        match log.put(P::PUT.site, &bytes).await {
            Ok(Put::Written) => {
                let all: Vec<Action> = actions.into_iter().chain(txns.into_iter().map(Action::Txn)).collect();
                // The commit stands whatever happens to our notes of it. A schema that could not be read back is read
                // by the next refresh.
                if let Err(error) = log.applied(&all).await {
                    tracing::warn!(table = log.name(), version, %error, "committed, but could not read the table back");
                }
                log.maintain().await;
                return Ok(Ended::Committed(version));
            }
            // Another writer's, or our own from an attempt whose reply was lost (a store may also repeat a request by
            // itself, and then answer that the object is there): the refresh tells.
            Ok(Put::Exists) => {}
            Err(error) if error.kind() == ErrorKind::Retryable => last_error = Some(Box::new(error)),
            Err(error) => return Err(unknown(log, unanswered, error)),
        }
    }
    match unanswered {
        Some(version) => Err(LakeError::CommitUnknown {
            table: log.name().to_owned(),
            version,
            source: last_error,
        }),
        None => match last_error {
            Some(error) => Err(*error),
            None => Err(LakeError::Contention {
                table: log.name().to_owned(),
                attempts: MAX_ATTEMPTS,
            }),
        },
    }
}

/// An error, unless a version is unanswered: then that is what the caller has to know.
fn unknown(log: &DeltaLog, unanswered: Option<Version>, error: LakeError) -> LakeError {
    match unanswered {
        None => error,
        Some(version) => LakeError::CommitUnknown {
            table: log.name().to_owned(),
            version,
            source: Some(Box::new(error)),
        },
    }
}

async fn pause(attempt: u32) {
    if attempt == 0 {
        return;
    }
    let longest = (FIRST_PAUSE_MS << attempt.min(16)).min(LONGEST_PAUSE_MS);
    let pause_ms = rand::rng().random_range(longest / 2..=longest);
    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
}
