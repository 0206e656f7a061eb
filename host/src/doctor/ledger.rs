//! The batches of a stream, joined from all that tells of them: `commits/`, `offsets/`, facts and bronze's log.
//!
//! The same facts row is in three places, so a commit record that is lost can be written again from either of the others.
//! What is rebuilt has to join what it stands between: a batch begins where the one before it ends, or later.

use std::collections::BTreeMap;

use serde_json::Value;

use super::evidence::{Evidence, facts_id};
use super::subject::Subject;
use crate::checkpoint::{BEFORE_THE_FIRST, CLOSED, CLOSED_DETAIL, CommitRecord, FORMAT, KEPT, PlannedBatch};
use crate::facts::{FactsRow, facts_from_id};
use crate::identity::BatchId;
use crate::lsn::{Offset, UtcMicros};
use crate::quarantine::{AttemptAt, IN_METADATA};
use crate::transform::digest_of;

/// A batch as bronze's commit tells it.
#[derive(Clone, Debug)]
pub(super) struct BronzeBatch {
    pub(super) version: i64,
    pub(super) attempt: Option<u32>,
    /// `Some(None)` for the first batch of a stream.
    pub(super) start: Option<Option<Offset>>,
    pub(super) end: Option<Offset>,
    pub(super) provenance: Value,
    /// The newest attempt that had rows in quarantine by then.
    pub(super) in_quarantine: Option<AttemptAt>,
    pub(super) facts: Option<FactsRow>,
}

/// The batches of one stream.
pub(super) struct Ledger<'a> {
    pub(super) subject: &'a Subject,
    pub(super) evidence: &'a Evidence,
    /// What bronze's log has, as far back as it goes.
    pub(super) bronze: BTreeMap<i64, BronzeBatch>,
    /// The newest batch in bronze, in facts, and among the whole files of `commits/`.
    pub(super) by_bronze: Option<i64>,
    pub(super) by_facts: Option<i64>,
    /// The oldest batch whose facts its retention has left.
    pub(super) facts_from: i64,
    pub(super) by_checkpoint: Option<i64>,
    /// The newest of all.
    pub(super) done: Option<i64>,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(subject: &'a Subject, evidence: &'a Evidence) -> Ledger<'a> {
        let mut bronze = BTreeMap::new();
        for (version, entry) in evidence.bronze.whole() {
            let ours = entry.txns.iter().filter(|(id, _)| *id == subject.app_id.0);
            let metadata = entry.metadata.as_ref().unwrap_or(&Value::Null);
            for (_, batch) in ours {
                let version = i64::try_from(version).unwrap_or(i64::MAX);
                bronze.insert(*batch, bronze_batch(metadata, version));
            }
        }
        let by_bronze = evidence.recorded.get(&subject.app_id.0).copied();
        let by_facts = evidence.recorded.get(&facts_id(subject)).copied();
        let facts_from = evidence.recorded.get(&facts_from_id(&subject.app_id.0)).copied();
        let whole = |(batch, _): (&i64, _)| evidence.checkpoint.commit(*batch).map(|_| *batch);
        let by_checkpoint = evidence.checkpoint.commits.iter().rev().find_map(whole);
        Ledger {
            subject,
            evidence,
            bronze,
            by_bronze,
            by_facts,
            facts_from: facts_from.unwrap_or(0),
            by_checkpoint,
            done: by_bronze.max(by_facts).max(by_checkpoint),
        }
    }

    /// The facts of a batch, from whatever has them.
    pub(super) fn facts_of(&self, batch: i64) -> Option<FactsRow> {
        let of_commit = self
            .evidence
            .checkpoint
            .commit(batch)
            .map(|commit| commit.facts.clone());
        let of_table = || self.evidence.rows.as_ref()?.batch(batch).cloned();
        let of_bronze = || self.bronze.get(&batch)?.facts.clone();
        of_commit.or_else(of_table).or_else(of_bronze)
    }

    /// Where a batch ends.
    pub(super) fn end_of(&self, batch: i64) -> Option<Offset> {
        if let Some(commit) = self.evidence.checkpoint.commit(batch) {
            return Some(commit.end);
        }
        if let Some(end) = self.bronze.get(&batch).and_then(|found| found.end) {
            return Some(end);
        }
        let facts = self.facts_of(batch)?;
        match (facts.end_lsn, facts.end_commit_ts) {
            (Some(lsn), Some(commit_ts)) => Some(Offset { lsn, commit_ts }),
            // Closed without being read, where the stream began.
            (None, None) if facts.rows == Some(0) => Some(BEFORE_THE_FIRST),
            _ => None,
        }
    }

    /// The rows of a batch; `None` when nothing tells of it.
    pub(super) fn rows_of(&self, batch: i64) -> Option<i64> {
        self.facts_of(batch)?.rows
    }

    /// The newest batch with rows by checkpoint and facts.
    pub(super) fn last_with_rows(&self) -> Option<i64> {
        let commits = self.evidence.checkpoint.commits.keys().rev();
        let by_checkpoint = commits
            .filter_map(|batch| self.evidence.checkpoint.commit(*batch))
            .find_map(|commit| {
                let with_rows = commit.delta_version.is_some() || commit.facts.rows > Some(0);
                with_rows
                    .then_some(commit.batch_id.0)
                    .or(commit.last_with_rows.map(|batch| batch.0))
            });
        let rows = self.evidence.rows.as_ref();
        let by_facts = rows.and_then(|rows| {
            let with_rows = |row: &FactsRow| row.rows > Some(0);
            // Above the number that the facts table has for the stream, rows are somebody else's.
            let newest = self.by_facts.unwrap_or(i64::MAX);
            let mut newest = rows.batches.range(..=newest).rev();
            newest.find_map(|(batch, found)| found.iter().any(with_rows).then_some(*batch))
        });
        by_checkpoint.max(by_facts)
    }

    /// The newest attempt at a batch, when its file is whole.
    pub(super) fn plan(&self, batch: i64) -> Option<&PlannedBatch> {
        self.evidence.checkpoint.attempts(batch).last()?.1.whole()
    }

    /// The newest batch of bronze, when it was planned here and neither recorded nor published: a run ends it.
    pub(super) fn open_in_bronze(&self) -> Option<&PlannedBatch> {
        let done = self.done.filter(|done| Some(*done) > self.by_checkpoint)?;
        let next = self.by_checkpoint.map_or(0, |known| known + 1);
        let begun = done == next && Some(done) > self.by_facts && !self.evidence.checkpoint.commits.contains_key(&done);
        self.plan(done).filter(|_| begun)
    }

    /// The commits that a run would have left and that are not there whole: each rebuilt, or why it cannot be.
    pub(super) fn rebuild(&self) -> BTreeMap<i64, Result<CommitRecord, String>> {
        let mut rebuilt: BTreeMap<i64, Result<CommitRecord, String>> = BTreeMap::new();
        let Some(done) = self.done else {
            return rebuilt;
        };
        let oldest = self.evidence.checkpoint.commits.keys().next().copied().unwrap_or(0);
        // As many are written again as a run keeps.
        let kept = oldest.max(done - KEPT as i64 + 1).max(0);
        // A run writes the facts of each batch that they lack from its record, so none of those may be missing.
        let first = self.by_facts.map_or(kept, |newest| kept.min(newest + 1));
        for batch in first..=done {
            if self.evidence.checkpoint.commit(batch).is_none() {
                let before = self.evidence.checkpoint.commit(batch - 1);
                let before = before.or_else(|| rebuilt.get(&(batch - 1))?.as_ref().ok());
                let record = self.rebuild_one(batch, before);
                rebuilt.insert(batch, record);
            }
        }
        rebuilt
    }

    fn rebuild_one(&self, batch: i64, before: Option<&CommitRecord>) -> Result<CommitRecord, String> {
        let facts = self
            .facts_of(batch)
            .or_else(|| self.without_rows(batch))
            .ok_or_else(|| format!("neither the facts table nor bronze's log says what batch {batch} was"))?;
        let found = self.bronze.get(&batch);
        let facts = FactsRow {
            delta_version: facts.delta_version.or(found.map(|found| found.version)),
            ..facts
        };
        let end = self
            .end_of(batch)
            .or_else(|| self.start_of(batch + 1))
            .ok_or_else(|| format!("nothing says where batch {batch} ends"))?;
        self.joins(batch)?;
        // A batch that was closed without being read ran no chain of its own.
        let closed = || {
            facts
                .transform
                .is_none()
                .then(|| before.map(|before| before.chain.clone()).unwrap_or_default())
        };
        let chain = chain_of(&facts)
            .or_else(closed)
            .ok_or_else(|| format!("the transforms of batch {batch} cannot be read"))?;
        let (last_event, events) = self.events_of(batch, &facts, end, &chain, before);
        let attempt = self.attempt_of(batch, &facts, end);
        let in_quarantine = self.quarantined_up_to(batch, attempt, &facts, before);
        Ok(CommitRecord {
            format: FORMAT,
            batch_id: BatchId(batch),
            attempt,
            delta_version: facts.delta_version,
            last_with_rows: self.with_rows_up_to(batch, &facts, before),
            end,
            chain,
            last_event,
            events,
            source: self
                .plan(batch)
                .and_then(|plan| plan.source.clone())
                .or_else(|| before.and_then(|before| before.source.clone())),
            in_quarantine: in_quarantine.map(AttemptAt::version),
            committed_at: committed_at(&facts),
            facts,
        })
    }

    /// Where a batch begins, by its plan or by bronze.
    fn start_of(&self, batch: i64) -> Option<Offset> {
        let planned = self.plan(batch).and_then(|plan| plan.start);
        planned.or_else(|| self.bronze.get(&batch)?.start?)
    }

    /// The facts of a batch of which only its neighbours tell: where it ended, and that it had no rows.
    fn without_rows(&self, batch: i64) -> Option<FactsRow> {
        let end = self.start_of(batch + 1)?;
        let after = self.evidence.checkpoint.commit(batch + 1);
        let by_next = after
            .and_then(|after| after.last_with_rows)
            .is_some_and(|last| last.0 < batch);
        let by_log = self.evidence.bronze.tells_everything() && !self.bronze.contains_key(&batch);
        let before = self.facts_of(batch - 1).and_then(|facts| facts.transform);
        let planned = self.plan(batch).map(|plan| plan.provenance.to_string());
        (by_next || by_log).then(|| FactsRow {
            app_id: self.subject.app_id.0.clone(),
            batch_id: Some(batch),
            rows: Some(0),
            deletes: Some(0),
            inserts: Some(0),
            updates: Some(0),
            end_lsn: Some(end.lsn),
            end_commit_ts: Some(end.commit_ts),
            detail: Some("its record was lost, and was written again from what is around it".to_owned()),
            target: Some(self.subject.table_name.clone()),
            transform: planned.or(before),
            rows_quarantined: Some(0),
            ..FactsRow::default()
        })
    }

    /// Whether a batch begins at or after the end of the one before it, as far as both are known.
    pub(super) fn joins(&self, batch: i64) -> Result<(), String> {
        let Some(before) = self.end_of(batch - 1) else {
            return Ok(());
        };
        let start = self.bronze.get(&batch).and_then(|found| found.start);
        // A stream moves over ranges without its changes in memory, so a batch may begin after the one before it ended.
        if let Some(start) = start
            && start.map(|start| start.lsn) < Some(before.lsn).filter(|lsn| !lsn.is_zero())
        {
            let start = start.map_or_else(|| "the beginning".to_owned(), |start| start.lsn.to_string());
            return Err(format!(
                "batch {batch} in bronze begins at {start}, and batch {} ends at {}",
                batch - 1,
                before.lsn
            ));
        }
        let facts = self.facts_of(batch);
        let first = facts.as_ref().and_then(|facts| facts.min_lsn);
        // A retry of quarantine has rows from before the position, and leaves it where it is.
        let is_retry = self.end_of(batch).is_some_and(|end| end.lsn == before.lsn);
        if let Some(first) = first.filter(|first| *first <= before.lsn && !is_retry) {
            return Err(format!(
                "batch {batch} has a change at {first}, and batch {} ends at {}",
                batch - 1,
                before.lsn
            ));
        }
        match self.end_of(batch) {
            Some(end) if end.lsn < before.lsn => Err(format!(
                "batch {batch} ends at {}, before batch {} does ({})",
                end.lsn,
                batch - 1,
                before.lsn
            )),
            _ => Ok(()),
        }
    }

    /// Bronze's own id is the newest batch with rows; below it, the batch with rows that is next.
    fn with_rows_up_to(&self, batch: i64, facts: &FactsRow, before: Option<&CommitRecord>) -> Option<BatchId> {
        if facts.rows > Some(0) || facts.delta_version.is_some() {
            return Some(BatchId(batch));
        }
        let in_bronze = self.by_bronze.filter(|newest| *newest <= batch);
        let in_log = || self.bronze.range(..=batch).next_back().map(|(batch, _)| *batch);
        in_bronze
            .map(BatchId)
            .or_else(|| before.and_then(|before| before.last_with_rows))
            .or_else(|| in_log().map(BatchId))
    }

    /// The newest attempt that had rows in quarantine when a batch was recorded. The table itself says it of the newest batch
    /// with rows there; of earlier ones it is at least what is told of them.
    fn quarantined_up_to(
        &self,
        batch: i64,
        attempt: u32,
        facts: &FactsRow,
        before: Option<&CommitRecord>,
    ) -> Option<AttemptAt> {
        let recorded = before.and_then(CommitRecord::quarantined).map(AttemptAt::of_version);
        let told = recorded.or_else(|| self.told_in_facts(batch - 1));
        // Whoever closed the batch did not look.
        if attempt == CLOSED {
            return told;
        }
        let own = (facts.rows_quarantined > Some(0)).then_some(AttemptAt {
            batch: BatchId(batch),
            attempt,
        });
        let in_bronze = self.bronze.get(&batch).and_then(|found| found.in_quarantine);
        let there = self.evidence.quarantine.newest.filter(|newest| newest.batch.0 <= batch);
        told.max(own).max(in_bronze).max(there)
    }

    /// The newest attempt up to a batch that put rows into quarantine, by the facts table.
    fn told_in_facts(&self, up_to: i64) -> Option<AttemptAt> {
        let rows = self.evidence.rows.as_ref()?;
        let puts_aside = |row: &FactsRow| row.rows_quarantined > Some(0);
        // Above the number that the facts table has for the stream, rows are somebody else's.
        let up_to = up_to.min(self.by_facts.unwrap_or(up_to));
        let mut told = rows.batches.range(..=up_to).rev();
        let (batch, _) = told.find(|(_, found)| found.iter().any(puts_aside))?;
        Some(AttemptAt {
            batch: BatchId(*batch),
            attempt: self.attempt_done(*batch).unwrap_or(0),
        })
    }

    /// The newest attempt that has to have rows in quarantine, by whatever tells of batches that are done.
    pub(super) fn in_quarantine(&self) -> Option<AttemptAt> {
        let by_bronze = self.bronze.values().filter_map(|found| found.in_quarantine).max();
        let by_facts = self.done.and_then(|done| self.told_in_facts(done));
        self.in_quarantine_by_records().max(by_bronze).max(by_facts)
    }

    /// The same by what a run goes by: the records, and bronze's commit of a batch that it is to record.
    pub(super) fn in_quarantine_for_run(&self) -> Option<AttemptAt> {
        let begun = self.open_in_bronze();
        let by_bronze = begun.and_then(|plan| self.bronze.get(&plan.batch_id.0)?.in_quarantine);
        self.in_quarantine_by_records().max(by_bronze)
    }

    fn in_quarantine_by_records(&self) -> Option<AttemptAt> {
        let checkpoint = &self.evidence.checkpoint;
        let records = checkpoint.commits.keys().filter_map(|batch| checkpoint.commit(*batch));
        let newest = records.filter_map(CommitRecord::quarantined).max();
        newest.map(AttemptAt::of_version)
    }

    /// The attempt by which a batch is done; `None` when nothing tells of the batch.
    pub(super) fn attempt_done(&self, batch: i64) -> Option<u32> {
        let recorded = self.evidence.checkpoint.commit(batch).map(|commit| commit.attempt);
        let in_bronze = || self.bronze.get(&batch)?.attempt;
        let told = || self.facts_of(batch).map(|facts| attempt_told(&facts).unwrap_or(0));
        recorded.or_else(in_bronze).or_else(told)
    }

    fn attempt_of(&self, batch: i64, facts: &FactsRow, end: Offset) -> u32 {
        let in_bronze = self.bronze.get(&batch).and_then(|found| found.attempt);
        let planned = || {
            let whole = self
                .evidence
                .checkpoint
                .attempts(batch)
                .filter_map(|(_, plan)| plan.whole());
            whole
                .filter(|plan| plan.end.lsn == end.lsn)
                .map(|plan| plan.attempt)
                .last()
        };
        match attempt_told(facts) {
            Some(CLOSED) => CLOSED,
            told => in_bronze.or_else(planned).or(told).unwrap_or(0),
        }
    }
}

/// The attempt that a facts row tells of: the detail of one after the first begins with `attempt k: `.
fn attempt_told(facts: &FactsRow) -> Option<u32> {
    let detail = facts.detail.as_deref()?;
    if detail.starts_with(CLOSED_DETAIL) {
        return Some(CLOSED);
    }
    detail.strip_prefix("attempt ")?.split_once(':')?.0.parse().ok()
}

/// The digest of the chain that a batch ran with.
pub(super) fn chain_of(facts: &FactsRow) -> Option<String> {
    digest_of(facts.transform.as_deref()?)
}

fn committed_at(facts: &FactsRow) -> UtcMicros {
    let ended = facts
        .started_at
        .map(|started| UtcMicros(started.0 + facts.duration_ms.unwrap_or(0) * 1000));
    ended.unwrap_or_else(UtcMicros::now)
}

fn bronze_batch(metadata: &Value, version: i64) -> BronzeBatch {
    let read = |name: &str| metadata.get(name).cloned();
    let facts = FactsRow::from_metadata(metadata)
        .ok()
        .filter(|facts| facts.batch_id.is_some());
    BronzeBatch {
        version,
        attempt: read("attempt").and_then(|value| serde_json::from_value(value).ok()),
        start: read("start").and_then(|value| serde_json::from_value(value).ok()),
        end: read("end").and_then(|value| serde_json::from_value(value).ok()),
        provenance: read("transform").unwrap_or_default(),
        in_quarantine: read(IN_METADATA)
            .and_then(|value| value.as_i64())
            .map(AttemptAt::of_version),
        facts: facts.map(|facts| FactsRow {
            delta_version: Some(version),
            ..facts
        }),
    }
}
