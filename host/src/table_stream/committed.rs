//! A batch that is in bronze, or that had no rows, becomes `commits/<n>`: after its attempt, or because it is found there.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use crate::checkpoint::{CheckpointState, CommitRecord, PlannedBatch, Resume, StateError};
use crate::facts::FactsRow;
use crate::failpoint;
use crate::identity::BatchId;
use crate::lake::BronzeTable;
use crate::lsn::UtcMicros;
use crate::quarantine::{AttemptAt, IN_METADATA};
use crate::report::Event;

use super::StreamError;
use super::open::{OpenTable, blocking};
use super::position::FirstChange;

impl OpenTable {
    /// The facts of a batch that bronze has already: an attempt whose reply was lost, or after which the process died.
    /// Nothing of it is read again, so it does not matter whether the source still has it.
    pub(super) async fn in_bronze(&self, planned: &PlannedBatch) -> Result<Option<FactsRow>, StreamError> {
        find(&self.bronze, planned).await
    }

    /// Ends the batch that an earlier run began, when bronze has it: before the source or the chain matter.
    pub(super) async fn end_what_bronze_has(&mut self) -> Result<Option<Arc<CommitRecord>>, StreamError> {
        let Some(planned) = self.open_batch.clone() else {
            return Ok(None);
        };
        let Some(facts) = self.retried(|| self.in_bronze(&planned)).await? else {
            return Ok(None);
        };
        let record = self.record(&planned, facts).await?;
        Ok(Some(record))
    }

    /// Gives an open batch up as it was planned; the stream then plans it again, as another attempt. With the claim, every
    /// version that a request of the earlier attempt can aim at is taken, so what bronze says after it stays true. The
    /// batch's record, when bronze has it after all.
    pub(super) async fn plan_anew(
        &mut self,
        attempt: u32,
        reason: String,
    ) -> Result<Option<Arc<CommitRecord>>, StreamError> {
        let fencing = self.checkpoint.fencing();
        self.retried(|| async { Ok(self.bronze.claim(fencing).await?) }).await?;
        let ended = self.end_what_bronze_has().await?;
        if ended.is_some() {
            return Ok(ended);
        }
        let Some(planned) = self.open_batch.take() else {
            return Ok(None);
        };
        self.shared.tell(Event::Warning {
            capture_instance: self.settings.capture_instance.clone(),
            message: format!(
                "batch {} is planned anew (attempt {attempt}); nothing of it was written: {reason}",
                planned.batch_id
            ),
        });
        self.attempt = attempt;
        self.reason = Some(reason);
        self.first_change = FirstChange::of(&planned);
        Ok(None)
    }

    /// Writes `commits/<n>` and moves on.
    pub(super) async fn record(
        &mut self,
        planned: &PlannedBatch,
        facts: FactsRow,
    ) -> Result<Arc<CommitRecord>, StreamError> {
        if facts.delta_version.is_none() {
            // Bronze hears nothing of this batch, so the fence is looked at here.
            let fencing = self.checkpoint.fencing();
            self.retried(|| async { Ok(self.bronze.check_owner(fencing).await?) })
                .await?;
        } else {
            self.last_with_rows = Some(planned.batch_id);
        }
        let mut events = planned.events.clone();
        events.extend(self.chain_event(planned, number(facts.rows)));
        let source = planned.source.clone().or_else(|| Some(self.seen_source.clone()));
        let newest_event = self.next_event + i64::try_from(events.len()).unwrap_or(0);
        let in_quarantine = self.quarantine.get_mut().known();
        let record = Arc::new(CommitRecord {
            format: crate::checkpoint::FORMAT,
            batch_id: planned.batch_id,
            attempt: planned.attempt,
            end: planned.end,
            delta_version: facts.delta_version,
            last_with_rows: self.last_with_rows,
            chain: planned.chain.clone(),
            last_event: newest_event.checked_sub(1).filter(|newest| *newest >= 0),
            events,
            source: source.clone(),
            in_quarantine: in_quarantine.map(AttemptAt::version),
            facts,
            committed_at: UtcMicros::now(),
        });
        // Another attempt may have put rows into quarantine that this one did not.
        self.retried(|| async {
            let mut quarantine = self.quarantine.lock().await;
            quarantine.done_by(planned.batch_id, planned.attempt).await
        })
        .await?;
        failpoint::pass(failpoint::BEFORE_COMMIT_FILE);
        self.retried(|| async {
            let (checkpoint, record) = (self.checkpoint.clone(), Arc::clone(&record));
            blocking(move || checkpoint.commit(&record)).await
        })
        .await?;
        failpoint::pass(failpoint::AFTER_COMMIT_FILE);
        self.position = Some(planned.end);
        self.recorded = Some(planned.end);
        self.next_batch = BatchId(planned.batch_id.0 + 1);
        self.quarantine.get_mut().count_batch(planned.batch_id);
        self.open_batch = None;
        (self.attempt, self.reason, self.first_change) = (0, None, None);
        self.next_event = newest_event;
        self.last_chain = Some(record.chain.clone());
        self.seen_source = source.unwrap_or_default();
        self.idle_since = Instant::now();
        let facts = &record.facts;
        self.summary.rows += number(facts.rows);
        self.summary.inserts += number(facts.inserts);
        self.summary.updates += number(facts.updates);
        self.summary.deletes += number(facts.deletes);
        self.summary.quarantined += number(facts.rows_quarantined);
        self.summary.batches += u64::from(facts.rows > Some(0));
        Ok(record)
    }

    /// Tells of a batch that is recorded.
    pub(super) fn tell_batch(&self, record: &CommitRecord, replayed: bool) {
        let facts = &record.facts;
        self.shared.board.spent(&self.settings.capture_instance, facts);
        self.shared.tell(Event::Batch {
            capture_instance: self.settings.capture_instance.clone(),
            batch_id: record.batch_id,
            rows: number(facts.rows),
            inserts: number(facts.inserts),
            updates: number(facts.updates),
            deletes: number(facts.deletes),
            quarantined: number(facts.rows_quarantined),
            end_lsn: record.end.lsn,
            end_commit_ts: record.end.commit_ts,
            delta_version: record.delta_version,
            duration_ms: number(facts.duration_ms),
            replayed,
        });
    }
}

/// The facts of a batch that bronze has. An error when bronze has another one under its number.
pub(super) async fn find(bronze: &BronzeTable, planned: &PlannedBatch) -> Result<Option<FactsRow>, StreamError> {
    let Some(found) = bronze.find(planned.batch_id).await? else {
        return Ok(None);
    };
    let forgotten = || StateError::CommitForgotten {
        batch: planned.batch_id,
    };
    let (version, metadata) = found.commit.ok_or_else(forgotten)?;
    check_same(planned, &metadata)?;
    let facts = FactsRow::from_metadata(&metadata).map_err(|_| forgotten())?;
    Ok(Some(FactsRow {
        delta_version: Some(version),
        ..facts
    }))
}

/// The newest attempt that had rows in quarantine when bronze got the batch, as its commit says.
pub(super) async fn told_of_quarantine(bronze: &BronzeTable, batch: BatchId) -> Result<Option<AttemptAt>, StreamError> {
    let commit = bronze.find(batch).await?.and_then(|found| found.commit);
    let told = commit.and_then(|(_, metadata)| metadata[IN_METADATA].as_i64());
    Ok(told.map(AttemptAt::of_version))
}

/// Whether the newest batch of bronze is what the checkpoint says of it, by its plan or by its record.
pub(super) async fn expect_same(
    bronze: &BronzeTable,
    state: &CheckpointState,
    resume: &Resume,
) -> Result<(), StreamError> {
    match (resume, &state.with_rows) {
        (
            Resume::Replay {
                planned,
                already_in_bronze: true,
            },
            _,
        ) => find(bronze, planned).await.map(|_| ()),
        (_, Some(record)) => expect_as_recorded(bronze, record).await,
        (_, None) => Ok(()),
    }
}

/// Whether the newest batch with rows is in bronze what it is by its record: two checkpoints can count to the same number,
/// and files of another time can be put into one.
async fn expect_as_recorded(bronze: &BronzeTable, record: &CommitRecord) -> Result<(), StreamError> {
    let found = bronze.find(record.batch_id).await?.and_then(|found| found.commit);
    // What the table's log no longer tells cannot be compared.
    let Some((_, metadata)) = found else {
        return Ok(());
    };
    let wanted = [
        ("batch_id", json!(record.batch_id)),
        ("attempt", json!(record.attempt)),
        ("end", json!(record.end)),
    ];
    Ok(compare(record.batch_id, wanted, &metadata)?)
}

/// Whether the batch that bronze has is the one that was planned: two checkpoints can count to the same number.
fn check_same(planned: &PlannedBatch, metadata: &Value) -> Result<(), StateError> {
    let wanted = [
        ("batch_id", json!(planned.batch_id)),
        ("attempt", json!(planned.attempt)),
        ("start", json!(planned.start)),
        ("end", json!(planned.end)),
        ("transform", planned.provenance.clone()),
    ];
    compare(planned.batch_id, wanted, metadata)
}

fn compare<const N: usize>(
    batch: BatchId,
    wanted: [(&'static str, Value); N],
    metadata: &Value,
) -> Result<(), StateError> {
    for (what, planned_as) in wanted {
        let there = &metadata[what];
        if *there != planned_as {
            return Err(StateError::OtherBatch {
                batch,
                what,
                there: there.to_string(),
                planned: planned_as.to_string(),
            });
        }
    }
    Ok(())
}

/// A count of a facts row.
fn number(count: Option<i64>) -> u64 {
    count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
}
