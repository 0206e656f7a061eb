//! How a stream goes on after a start: its checkpoint against what bronze and the facts table have.

use super::CheckpointState;
use super::records::PlannedBatch;
use crate::error::{Classify, ErrorKind};
use crate::identity::BatchId;
use crate::lsn::Offset;

/// How the stream goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum Resume {
    /// Nothing was ever done under this app_id.
    Fresh,
    /// Everything that was planned is done.
    Continue {
        /// The next batch.
        next: BatchId,
        /// The offset that it starts after.
        from: Offset,
    },
    /// A batch is planned and not done: it runs again under its plan.
    Replay {
        /// The plan.
        planned: Box<PlannedBatch>,
        /// Whether bronze has its rows, so that only its commit record and facts are missing.
        already_in_bronze: bool,
    },
}

/// The checkpoint and the tables do not belong together. None of these mends itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// A table has batches that the checkpoint does not know.
    #[error(
        "the {table} table has batch {recorded} of this app_id, and the checkpoint ends at {known}: the checkpoint was \
         deleted or set back. restore it, or let `sluice doctor --repair` write again what bronze and facts tell, or start \
         over with a new app_id, checkpoint and target (nothing was written)"
    )]
    Rewound {
        /// `bronze` or `facts`.
        table: &'static str,
        /// The newest batch that the table has.
        recorded: BatchId,
        /// Where the checkpoint ends: `batch n` or `no batch`.
        known: String,
    },
    /// Bronze lacks batches that the checkpoint says are done.
    #[error(
        "the checkpoint says that batch {done} is in bronze, and bronze has {recorded} as the newest of this app_id: the \
         table was replaced or restored to an older version, or its transaction ids expired. restore the table, or start \
         over with a new app_id, checkpoint and target (nothing was written)"
    )]
    BronzeBehind {
        /// The newest batch with rows that is done.
        done: BatchId,
        /// What bronze has: `batch n` or `no batch`.
        recorded: String,
    },
    /// Bronze has a batch of that number, and it is not the one that was planned here.
    #[error(
        "bronze has a batch {batch} of this app_id that is not the one planned in this checkpoint ({what} is {there} in \
         bronze and {planned} here): another process ran the stream with another checkpoint, or the checkpoint was \
         set back. stop the other process and go on with the checkpoint that bronze was written from, or start over with \
         a new app_id, checkpoint and target"
    )]
    OtherBatch {
        /// The batch.
        batch: BatchId,
        /// What differs: a key of the commit's `userMetadata`.
        what: &'static str,
        /// As it is in bronze, as JSON.
        there: String,
        /// As it was planned, as JSON.
        planned: String,
    },
    /// Bronze has a batch of that number, and nothing says any more what it holds.
    #[error(
        "bronze has batch {batch} of this app_id, which was planned and not recorded as done, and the table's log no \
         longer says what it holds: it was cleaned up since. compare the rows with _batch_id = {batch} with the plan in \
         offsets/, then start over with a new app_id, checkpoint and target"
    )]
    CommitForgotten {
        /// The batch.
        batch: BatchId,
    },
    /// A batch that the facts table lacks has lost its record, and later ones have theirs.
    #[error(
        "the checkpoint has lost commits/{batch}.json, and the facts table lacks that batch too, so its row would be lost for \
         good: `sluice doctor --repair` writes the file again from bronze's commit, or restore it from a backup"
    )]
    RecordGone {
        /// The batch.
        batch: BatchId,
    },
    /// The facts table has nothing of the stream, and the checkpoint no longer keeps the first records.
    #[error(
        "the facts table has nothing of this app_id: it is new or was deleted, and the checkpoint keeps no records before \
         batch {oldest}. facts are taken in order only, so `sluice doctor --repair` has to write the older rows from bronze \
         first; then run again"
    )]
    FactsNew {
        /// The oldest batch whose record is kept.
        oldest: BatchId,
    },
    /// The facts table tells of a batch that is open by the checkpoint and that bronze does not have.
    #[error(
        "batch {batch} is done, as the facts table says, and bronze does not have it: it had no rows, and the checkpoint has lost \
         commits/{batch}.json, or bronze was set back. `sluice doctor` says which, and `--repair` writes the file again (nothing \
         was written)"
    )]
    RecordLost {
        /// The batch.
        batch: BatchId,
    },
    /// A record that does not agree with itself.
    #[error(
        "commits/{batch}.json names another chain of transforms than its own facts: the file was changed by hand. `sluice doctor \
         --repair` writes it again from bronze or the facts, or restore it from a backup"
    )]
    RecordOfTwo {
        /// The batch.
        batch: BatchId,
    },
    /// A batch was begun anew as often as its numbers allow.
    #[error(
        "batch {batch} has had {attempts} attempts, and there can be no more: restore the configuration that its newest \
         attempt was planned with (`sluice status` shows it), and run again"
    )]
    TooManyAttempts {
        /// The batch.
        batch: BatchId,
        /// How many attempts there can be.
        attempts: u32,
    },
    /// Bronze has rows of a batch that the checkpoint says had none.
    #[error(
        "bronze has rows of batch {recorded}, which had none by the checkpoint: another stream writes under the same \
         app_id. give each stream an app_id of its own"
    )]
    ForeignBatch {
        /// The batch.
        recorded: BatchId,
    },
}

impl Classify for StateError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::State
    }
}

/// Whether the records of batches that the facts table lacks are all there: it takes them in order, and one that is written
/// after a later one would count as written. `facts` is its newest batch, `kept` what the checkpoint knows after it.
pub fn expect_whole(facts: Option<BatchId>, kept: impl IntoIterator<Item = BatchId>) -> Result<(), StateError> {
    let kept: Vec<BatchId> = kept.into_iter().collect();
    let first = match (facts, kept.first()) {
        (Some(facts), _) => BatchId(facts.0 + 1),
        (None, Some(oldest)) if oldest.0 > 0 => return Err(StateError::FactsNew { oldest: *oldest }),
        (None, _) => BatchId(0),
    };
    for (batch, next) in kept.into_iter().zip(first.0..) {
        if batch.0 != next {
            return Err(StateError::RecordGone { batch: BatchId(next) });
        }
    }
    Ok(())
}

/// Compares a checkpoint with the newest batch that bronze and the facts table have under the app_id.
pub fn reconcile(
    state: &CheckpointState,
    bronze: Option<BatchId>,
    facts: Option<BatchId>,
) -> Result<Resume, StateError> {
    let done = state.last_committed.as_ref().map(|commit| commit.batch_id);
    let open = state.open.as_ref().map(|plan| plan.batch_id);
    let known = open.max(done);
    for (table, recorded) in [("bronze", bronze), ("facts", facts)] {
        if let Some(recorded) = recorded.filter(|recorded| Some(*recorded) > known) {
            return Err(StateError::Rewound {
                table,
                recorded,
                known: in_words(known),
            });
        }
    }
    let already_in_bronze = open.is_some() && bronze == open;
    if !already_in_bronze {
        // It was done, without rows or closed, and what it was then need not be what it would be now.
        if let Some(batch) = open.filter(|open| facts >= Some(*open)) {
            return Err(StateError::RecordLost { batch });
        }
        match (state.last_with_rows, bronze) {
            (Some(done), recorded) if recorded < Some(done) => {
                return Err(StateError::BronzeBehind {
                    done,
                    recorded: in_words(recorded),
                });
            }
            // The batch is one that we know, and it is not the last with rows.
            (last, Some(recorded)) if last != Some(recorded) && Some(recorded) >= state.oldest_kept => {
                return Err(StateError::ForeignBatch { recorded });
            }
            _ => {}
        }
    }
    Ok(match (&state.open, &state.last_committed) {
        (Some(plan), _) => Resume::Replay {
            planned: Box::new(plan.clone()),
            already_in_bronze,
        },
        (None, Some(commit)) => Resume::Continue {
            next: BatchId(commit.batch_id.0 + 1),
            from: commit.end,
        },
        (None, None) => Resume::Fresh,
    })
}

fn in_words(batch_id: Option<BatchId>) -> String {
    batch_id.map_or_else(|| "no batch".to_owned(), |batch_id| format!("batch {batch_id}"))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{commit_record, planned};
    use super::*;

    fn state(done: Option<i64>, with_rows: Option<i64>, oldest: Option<i64>, open: Option<i64>) -> CheckpointState {
        CheckpointState {
            last_committed: done.map(|n| commit_record(n, (with_rows == Some(n)).then_some(1))),
            last_with_rows: with_rows.map(BatchId),
            with_rows: None,
            oldest_kept: oldest.map(BatchId),
            open: open.map(|n| planned(n, 0)),
        }
    }

    #[test]
    fn every_combination_of_traces_has_one_answer() {
        let text = |result: Result<Resume, StateError>| match result {
            Ok(Resume::Fresh) => "fresh".to_owned(),
            Ok(Resume::Continue { next, .. }) => format!("continue {next}"),
            Ok(Resume::Replay {
                planned,
                already_in_bronze,
            }) => format!("replay {} {already_in_bronze}", planned.batch_id),
            Err(StateError::Rewound { table, .. }) => format!("rewound {table}"),
            Err(StateError::BronzeBehind { .. }) => "behind".to_owned(),
            Err(StateError::ForeignBatch { .. }) => "foreign".to_owned(),
            Err(error) => error.to_string(),
        };
        // done, with rows, oldest kept, open | bronze, facts | answer
        #[rustfmt::skip]
        #[allow(clippy::type_complexity, reason = "a table of a test")]
        let table: &[(Option<i64>, Option<i64>, Option<i64>, Option<i64>, Option<i64>, Option<i64>, &str)] = &[
            (None, None, None, None, None, None, "fresh"),
            (None, None, None, Some(0), None, None, "replay 0 false"),
            (None, None, None, Some(0), Some(0), None, "replay 0 true"),
            (Some(6), Some(6), Some(0), None, Some(6), Some(6), "continue 7"),
            // Facts lag: they are written again from the commits.
            (Some(6), Some(6), Some(0), None, Some(6), Some(3), "continue 7"),
            (Some(6), Some(6), Some(0), Some(7), Some(6), Some(6), "replay 7 false"),
            (Some(6), Some(6), Some(0), Some(7), Some(7), Some(6), "replay 7 true"),
            // Batches without rows leave no trace in bronze.
            (Some(6), Some(4), Some(0), None, Some(4), Some(6), "continue 7"),
            (Some(6), None, Some(0), None, None, Some(6), "continue 7"),
            (Some(206), None, Some(107), None, Some(90), Some(206), "continue 207"),
            (Some(206), Some(90), Some(107), None, Some(90), Some(206), "continue 207"),
            (Some(206), Some(90), Some(107), None, None, Some(206), "behind"),
            // The checkpoint was deleted, or set back.
            (None, None, None, None, Some(6), Some(6), "rewound bronze"),
            (None, None, None, None, None, Some(6), "rewound facts"),
            (Some(3), Some(3), Some(0), None, Some(6), Some(6), "rewound bronze"),
            (Some(3), Some(3), Some(0), Some(4), Some(5), Some(3), "rewound bronze"),
            (Some(3), Some(3), Some(0), Some(4), Some(3), Some(5), "rewound facts"),
            // The table was replaced or restored, or its ids expired.
            (Some(6), Some(6), Some(0), None, None, Some(6), "behind"),
            (Some(6), Some(6), Some(0), None, Some(5), Some(6), "behind"),
            (Some(6), Some(6), Some(0), Some(7), Some(5), Some(6), "behind"),
            // Somebody else writes under our id.
            (Some(6), Some(4), Some(0), None, Some(5), Some(6), "foreign"),
            (Some(6), None, Some(0), None, Some(5), Some(6), "foreign"),
        ];
        for (done, rows, oldest, open, bronze, facts, answer) in table {
            let state = state(*done, *rows, *oldest, *open);
            let result = reconcile(&state, bronze.map(BatchId), facts.map(BatchId));
            assert_eq!(
                text(result),
                *answer,
                "{done:?} {rows:?} {oldest:?} {open:?} | {bronze:?} {facts:?}"
            );
        }
    }

    #[test]
    fn records_that_facts_lack_have_to_be_there_one_after_the_other() {
        let whole = |facts: Option<i64>, kept: &[i64]| {
            expect_whole(facts.map(BatchId), kept.iter().copied().map(BatchId)).map_err(|error| match error {
                StateError::RecordGone { batch } => batch.0,
                StateError::FactsNew { oldest } => -oldest.0,
                other => panic!("{other}"),
            })
        };
        assert_eq!(whole(Some(6), &[]), Ok(()));
        assert_eq!(whole(Some(6), &[7, 8]), Ok(()));
        assert_eq!(whole(Some(6), &[8]), Err(7));
        assert_eq!(whole(Some(6), &[7, 9]), Err(8));
        assert_eq!(whole(None, &[0, 1]), Ok(()));
        assert_eq!(whole(None, &[0, 2]), Err(1));
        // A new facts table takes what is older first, whether it is lost or was no longer needed.
        assert_eq!(whole(None, &[1, 2]), Err(-1));
        assert_eq!(whole(None, &(7..107).collect::<Vec<_>>()), Err(-7));
        assert_eq!(whole(None, &[]), Ok(()));
    }

    #[test]
    fn a_deleted_checkpoint_is_refused_with_advice() {
        let error = reconcile(&CheckpointState::default(), Some(BatchId(41)), None)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("batch 41") && error.contains("no batch") && error.contains("new app_id"),
            "{error}"
        );
    }
}
