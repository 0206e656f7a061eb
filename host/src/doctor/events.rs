//! The events that came with a batch, so that a record which is written again has them, and counts on from them.
//!
//! An event has the end of its batch. More than one batch can end there: a retry of quarantine leaves the position where it is, and
//! comes with an event of its own and, where it was the first to run a chain, with that chain's.

use super::evidence::events_id;
use super::ledger::{Ledger, chain_of};
use crate::checkpoint::{CommitRecord, RETRY_DETAIL, RETRY_EVENT, RETRY_INTERRUPTED};
use crate::facts::FactsRow;
use crate::lsn::Offset;

impl Ledger<'_> {
    /// The events that came with a batch, and the newest event's number then.
    pub(super) fn events_of(
        &self,
        batch: i64,
        facts: &FactsRow,
        end: Offset,
        chain: &str,
        before: Option<&CommitRecord>,
    ) -> (Option<i64>, Vec<FactsRow>) {
        let events = match Some(batch) <= self.by_facts {
            true => self.events_in_facts(batch, facts, end, chain, before),
            false => self.events_by_plan(batch, facts, chain, before),
        };
        let count = |rows: usize| i64::try_from(rows).unwrap_or(0);
        let newest = match before {
            Some(before) => before.last_event.unwrap_or(-1) + count(events.len()),
            None if batch == 0 => count(events.len()) - 1,
            None => match self.evidence.recorded.get(&events_id(self.subject)).copied() {
                Some(newest) if Some(batch) <= self.by_facts => newest - count(self.later_events(batch, end)),
                Some(newest) => newest + count(events.len()),
                // Nobody counted them: each chain that is not the one before it was an event, and so was each retry.
                None => self.chains_up_to(batch) - 1,
            },
        };
        (Some(newest).filter(|newest| *newest >= 0), events)
    }

    fn events_in_table(&self) -> &[FactsRow] {
        self.evidence.rows.as_ref().map_or(&[], |rows| &rows.events)
    }

    /// Those of a batch that has its facts.
    fn events_in_facts(
        &self,
        batch: i64,
        facts: &FactsRow,
        end: Offset,
        chain: &str,
        before: Option<&CommitRecord>,
    ) -> Vec<FactsRow> {
        let at = Some(end.lsn);
        let here = || self.events_in_table().iter().filter(move |row| row.end_lsn == at);
        if tells_of_retry(facts) {
            let mut retries = here().filter(|row| is_of_retry(row));
            let retried = retries.nth(self.retries_before(batch, end));
            let is_new = self.chain_before(batch, before).as_deref() != Some(chain);
            let ran = here().find(|row| is_of_chain(row) && chain_of(row).as_deref() == Some(chain));
            return retried.into_iter().chain(ran.filter(|_| is_new)).cloned().collect();
        }
        if self.end_of(batch - 1).is_some_and(|before| before.lsn == end.lsn) {
            return Vec::new();
        }
        let of_another = |row: &FactsRow| is_of_chain(row) && chain_of(row).is_some_and(|ran| ran != chain);
        let own = here().filter(|row| !is_of_retry(row) && !of_another(row));
        own.cloned().collect()
    }

    /// Those of a batch whose facts are still to be written.
    fn events_by_plan(
        &self,
        batch: i64,
        facts: &FactsRow,
        chain: &str,
        before: Option<&CommitRecord>,
    ) -> Vec<FactsRow> {
        let planned = match (self.plan(batch), tells_of_retry(facts)) {
            // A retry that was interrupted has none.
            (Some(plan), told) if plan.retry.is_none() || told => plan.events.clone(),
            (None, true) => vec![retry_event(facts)],
            _ => Vec::new(),
        };
        let of_chain = self.chain_event(batch, facts, chain, before);
        planned.into_iter().chain(of_chain).collect()
    }

    /// How many events are of batches after this one.
    fn later_events(&self, batch: i64, end: Offset) -> usize {
        let after = self.events_in_table().iter().filter(|row| row.end_lsn > Some(end.lsn));
        let ends_here = |later: &i64| {
            Some(*later) <= self.by_facts && self.end_of(*later).is_some_and(|there| there.lsn == end.lsn)
        };
        let here = (batch + 1..).take_while(ends_here).filter_map(|later| {
            let facts = self.facts_of(later)?;
            let chain = chain_of(&facts)?;
            Some(self.events_in_facts(later, &facts, end, &chain, None).len())
        });
        after.count() + here.sum::<usize>()
    }

    /// How many retries ended there before this one.
    fn retries_before(&self, batch: i64, end: Offset) -> usize {
        let ends_here = |earlier: &i64| self.end_of(*earlier).is_some_and(|there| there.lsn == end.lsn);
        let earlier = (0..batch).rev().take_while(ends_here);
        let told = earlier.filter(|earlier| self.facts_of(*earlier).as_ref().is_some_and(tells_of_retry));
        told.count()
    }

    /// How many events of chains and retries there were up to a batch.
    fn chains_up_to(&self, batch: i64) -> i64 {
        let mut last = None;
        let mut changes = 0;
        for facts in (0..=batch).filter_map(|batch| self.facts_of(batch)) {
            changes += i64::from(tells_of_retry(&facts));
            if let Some(chain) = chain_of(&facts) {
                changes += i64::from(last.as_ref() != Some(&chain));
                last = Some(chain);
            }
        }
        changes
    }

    /// The chain that ran before a batch.
    fn chain_before(&self, batch: i64, before: Option<&CommitRecord>) -> Option<String> {
        match before {
            Some(before) => Some(before.chain.clone()),
            None => self.facts_of(batch - 1).as_ref().and_then(chain_of),
        }
    }

    /// The event of a chain that a batch was the first to run, when the facts table does not have it yet.
    fn chain_event(
        &self,
        batch: i64,
        facts: &FactsRow,
        chain: &str,
        before: Option<&CommitRecord>,
    ) -> Option<FactsRow> {
        let event = match self.chain_before(batch, before) {
            Some(last) if last == chain => return None,
            Some(_) => "transform_changed",
            None if batch == 0 => "transform_set",
            None => return None,
        };
        let first = self.plan(batch).map(|plan| plan.first_lsn).or(facts.min_lsn);
        Some(FactsRow {
            app_id: facts.app_id.clone(),
            event: Some(event.to_owned()),
            min_lsn: first,
            end_lsn: facts.end_lsn,
            end_commit_ts: facts.end_commit_ts,
            detail: Some(format!(
                "from {} on, which begins a batch of {} rows",
                first.or(facts.end_lsn).map(|lsn| lsn.to_string()).unwrap_or_default(),
                facts.rows.unwrap_or(0)
            )),
            target: facts.target.clone(),
            transform: facts.transform.clone(),
            host: facts.host.clone(),
            ..FactsRow::default()
        })
    }
}

/// Whether a batch was a retry of quarantine, be it one that was interrupted.
pub(super) fn is_retry(facts: &FactsRow) -> bool {
    let detail = facts.detail.as_deref();
    detail.is_some_and(|detail| detail.starts_with(RETRY_DETAIL))
}

/// Whether an event tells of the batch, because it was a retry of quarantine.
pub(super) fn tells_of_retry(facts: &FactsRow) -> bool {
    is_retry(facts) && facts.detail.as_deref() != Some(RETRY_INTERRUPTED)
}

/// The event of a retry, by its facts.
pub(super) fn retry_event(facts: &FactsRow) -> FactsRow {
    FactsRow {
        app_id: facts.app_id.clone(),
        event: Some(RETRY_EVENT.to_owned()),
        end_lsn: facts.end_lsn,
        end_commit_ts: facts.end_commit_ts,
        detail: facts.detail.clone(),
        target: facts.target.clone(),
        transform: facts.transform.clone(),
        host: facts.host.clone(),
        ..FactsRow::default()
    }
}

fn is_of_retry(event: &FactsRow) -> bool {
    event.event.as_deref() == Some(RETRY_EVENT)
}

fn is_of_chain(event: &FactsRow) -> bool {
    matches!(event.event.as_deref(), Some("transform_set" | "transform_changed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::samples::offset;
    use crate::doctor::tests::{subject, whole};

    fn event(name: &str) -> FactsRow {
        FactsRow {
            app_id: "orders".into(),
            event: Some(name.to_owned()),
            end_lsn: Some(offset(80).lsn),
            ..FactsRow::default()
        }
    }

    #[test]
    fn a_retry_has_its_event_and_the_batch_that_ended_there_first_the_others() {
        let mut evidence = whole(9);
        evidence.checkpoint.commits.clear();
        let rows = evidence.rows.as_mut().expect("facts");
        // Batch 7 ended there, and two retries followed.
        for (batch, detail) in [
            (8, "a retry of quarantine: 1 rows"),
            (9, "a retry of quarantine: 0 rows"),
        ] {
            let facts = &mut rows.batches.get_mut(&batch).expect("a row")[0];
            facts.end_lsn = Some(offset(80).lsn);
            facts.end_commit_ts = Some(offset(80).commit_ts);
            facts.detail = Some(detail.to_owned());
        }
        rows.events = ["schema_change", RETRY_EVENT, RETRY_EVENT].map(event).to_vec();
        let subject = subject();
        let told = |evidence: &crate::doctor::evidence::Evidence| -> Vec<(i64, usize, Option<i64>)> {
            let records = Ledger::new(&subject, evidence).rebuild().into_values();
            let records = records.map(|record| record.expect("it can be written again"));
            records
                .filter(|record| !record.events.is_empty())
                .map(|record| (record.batch_id.0, record.events.len(), record.last_event))
                .collect()
        };
        assert_eq!(told(&evidence), [(7, 1, Some(0)), (8, 1, Some(1)), (9, 1, Some(2))]);
        // One that was interrupted has none.
        let rows = evidence.rows.as_mut().expect("facts");
        rows.batches.get_mut(&8).expect("a row")[0].detail = Some(RETRY_INTERRUPTED.to_owned());
        rows.events.pop();
        assert_eq!(told(&evidence), [(7, 1, Some(0)), (9, 1, Some(1))]);
    }

    #[test]
    fn a_retry_of_which_only_bronze_tells_has_its_event_all_the_same() {
        let mut evidence = whole(9);
        evidence.recorded.insert("orders#facts".into(), 8);
        let rows = evidence.rows.as_mut().expect("facts");
        let facts = &mut rows.batches.get_mut(&9).expect("a row")[0];
        facts.detail = Some("a retry of quarantine: 1 rows".to_owned());
        evidence.checkpoint.commits.remove(&9);
        let subject = subject();
        let record = Ledger::new(&subject, &evidence).rebuild().remove(&9);
        let record = record.expect("it is gone").expect("it can be written again");
        let names: Vec<_> = record.events.iter().map(|event| event.event.as_deref()).collect();
        assert_eq!(names, [Some(RETRY_EVENT)]);
    }
}
