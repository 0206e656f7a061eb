//! What always holds, and what holds at the end.

use std::collections::BTreeSet;

use crate::planted::Planted;
use crate::stores::{Body, Done, FactsKey, Fate, Key, LogId, Lsn, Object, Plan, Row, Snapshot, Stores, Stream, Txn};

/// A rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub invariant: &'static str,
    /// What was found.
    pub found: String,
}

fn fail(invariant: &'static str, found: String) -> Result<(), Violation> {
    Err(Violation { invariant, found })
}

/// What holds after every step. `verdicts` are those of the step before.
pub fn always(stores: &Stores, planted: Option<Planted>, verdicts: &mut [Option<Lsn>; 2]) -> Result<(), Violation> {
    for (stream, before) in verdicts.iter_mut().enumerate() {
        numbers_only_rise(stream, &stores.log(LogId::Bronze(stream)))?;
        let reached = rows_exactly_once(stores, stream, planted)?;
        facts_agree(stores, stream)?;
        events_tell_the_chain(stores, stream)?;
        let verdict = stores.verdict(stream);
        if verdict < *before {
            return fail("the verdict never goes back", format!("stream {stream}: {verdict:?}"));
        }
        *before = verdict;
        if verdict > reached {
            return fail(
                "the verdict is not ahead of bronze",
                format!("stream {stream}: {verdict:?}, and rows are there up to {reached:?}"),
            );
        }
        let facts = stores.facts(stream).iter().map(|row| row.end).max();
        if verdict > facts {
            return fail(
                "the verdict is not ahead of facts",
                format!("stream {stream}: {verdict:?}, facts end at {facts:?}"),
            );
        }
    }
    Ok(())
}

/// Who has claimed a number in bronze is who `owner.json` names for it, so that everybody asks for the right lease.
pub fn owners(stores: &Stores) -> Result<(), Violation> {
    for stream in 0..2 {
        let log = stores.log(LogId::Bronze(stream));
        let claim = log.iter().rev().find_map(|entry| match entry.body {
            Body::Claim((pid, _)) => entry.txns.get(&Txn::Owner(stream)).map(|fencing| (pid, *fencing)),
            _ => None,
        });
        let (Some((pid, claimed)), Some(Object::Owner(named))) = (claim, stores.objects.get(&Key::Owner(stream)))
        else {
            continue;
        };
        if named.fencing < claimed || (named.fencing == claimed && named.pid != pid) {
            return fail(
                "owner.json names who has claimed",
                format!("stream {stream}: {pid} has {claimed}, and {named:?} is named"),
            );
        }
    }
    Ok(())
}

/// What holds when everything had its time. `stopped` streams wait for a person.
pub fn finally(stores: &Stores, stopped: &BTreeSet<Stream>, streams: usize) -> Result<(), Violation> {
    for stream in (0..streams).filter(|stream| !stopped.contains(stream)) {
        let end = stores.done(stream).last().map_or(0, |done| done.end);
        // A stream that began when everything was purged has nothing to deliver.
        let has_begun = end > 0 || stores.source.min <= stores.source.max();
        if end < stores.source.max() && has_begun {
            return fail(
                "everything is delivered",
                format!("stream {stream} is at {end} of {}", stores.source.max()),
            );
        }
        let facts = stores.facts(stream);
        let (batches, events) = (
            facts.iter().filter(|row| matches!(row.key, FactsKey::Batch(_))).count(),
            facts.iter().filter(|row| matches!(row.key, FactsKey::Event(_))).count(),
        );
        let newest = stores.done(stream).last().cloned();
        let wanted = newest.as_ref().map_or(0, |done| done.batch + 1) as usize;
        let numbered = newest.and_then(|done| done.last_event).map_or(0, |newest| newest + 1) as usize;
        if (batches, events) != (wanted, numbered) {
            return fail(
                "every batch and event has its facts row",
                format!("stream {stream}: {batches} of {wanted}, events {events} of {numbered}"),
            );
        }
        if stores.verdict(stream).unwrap_or(0) != end {
            return fail(
                "the verdict arrives",
                format!(
                    "stream {stream}: {:?}, the checkpoint is at {end}",
                    stores.verdict(stream)
                ),
            );
        }
    }
    Ok(())
}

fn numbers_only_rise(stream: Stream, log: &Snapshot) -> Result<(), Violation> {
    let (mut owner, mut batch) = (None, None);
    for entry in log.iter() {
        if let Some(there) = entry.txns.get(&Txn::Owner(stream)) {
            if Some(*there) < owner {
                return fail(
                    "#owner never goes down",
                    format!("stream {stream}: {owner:?}, then {there}"),
                );
            }
            owner = Some(*there);
        }
        if let Some(there) = entry.txns.get(&Txn::Batch(stream)) {
            if Some(*there) <= batch {
                return fail(
                    "a batch is committed once, in order",
                    format!("stream {stream}: {batch:?}, then {there}"),
                );
            }
            batch = Some(*there);
        }
    }
    Ok(())
}

/// Rows in bronze, those in quarantine that count and those that were filtered are the source's, once each, in order. Up
/// to where.
fn rows_exactly_once(stores: &Stores, stream: Stream, planted: Option<Planted>) -> Result<Option<Lsn>, Violation> {
    const RULE: &str = "every source row is there once, in order, under one chain and offset";
    let bronze = stores.log(LogId::Bronze(stream));
    let batches: Vec<(&Plan, &Vec<Row>)> = bronze
        .iter()
        .filter_map(|entry| match &entry.body {
            Body::Rows(plan, rows) => Some((plan, rows)),
            _ => None,
        })
        .collect();
    let Some(Object::Plan(first)) = stores.ever.get(&Key::Plan(stream, 0, 0)) else {
        return Ok(None);
    };
    let mut position = first.first - 1;
    let mut reached = None;
    for n in 0.. {
        let done = match stores.ever.get(&Key::Done(stream, n)) {
            Some(Object::Done(done)) => Some(done),
            _ => None,
        };
        let rows = batches.iter().find(|(plan, _)| plan.batch == n);
        let (end, attempt) = match (done, rows) {
            (Some(done), _) => (done.end, done.attempt),
            (None, Some((plan, _))) => (plan.end, Some(plan.attempt)),
            (None, None) => break,
        };
        if let (Some(done), Some((plan, found))) = (done, rows)
            && (done.attempt, done.end, done.rows) != (Some(plan.attempt), plan.end, found.len())
        {
            fail(
                "commits/<n> is what bronze has",
                format!("stream {stream}: {done:?} and {plan:?}"),
            )?;
        }
        if let (Some(done), None) = (done, rows)
            && done.rows > 0
        {
            fail(
                "commits/<n> is what bronze has",
                format!("stream {stream}: {done:?} and nothing"),
            )?;
        }
        if end < position {
            fail(
                "the position never goes back",
                format!("stream {stream}: batch {n} ends at {end}"),
            )?;
        }
        let pins = attempt.and_then(|attempt| match stores.ever.get(&Key::Plan(stream, n, attempt)) {
            Some(Object::Plan(plan)) => Some(plan),
            _ => None,
        });
        let (chain, offset) = pins.map_or((0, 0), |plan| (plan.chain, plan.offset));
        let wanted = stores.source.rows(stream, position + 1, end, chain, offset);
        let of = |fate| wanted.iter().filter(move |(_, of)| *of == fate).map(|(row, _)| *row);
        let kept: Vec<Row> = of(Fate::Kept).collect();
        let found = rows.map(|(_, rows)| (*rows).clone()).unwrap_or_default();
        if found != kept {
            fail(
                RULE,
                format!("stream {stream}, batch {n}: bronze has {found:?}, it should be {kept:?}"),
            )?;
        }
        let rejected: Vec<Row> = of(Fate::Quarantined).collect();
        let counted = quarantined(
            stores,
            stream,
            n,
            attempt,
            planted == Some(Planted::AnyAttemptsQuarantine),
        );
        if counted != rejected {
            fail(
                RULE,
                format!("stream {stream}, batch {n}: quarantine has {counted:?}, it should be {rejected:?}"),
            )?;
        }
        position = end;
        reached = Some(position);
    }
    if let Some((plan, _)) = batches.iter().find(|(plan, _)| Some(plan.end) > reached) {
        fail("no batch is ahead", format!("stream {stream}: {plan:?}"))?;
    }
    Ok(reached)
}

/// Rows in quarantine that count for a batch of which that attempt was committed.
fn quarantined(stores: &Stores, stream: Stream, batch: i64, attempt: Option<i64>, any: bool) -> Vec<Row> {
    let mut found = Vec::new();
    for entry in stores.log(LogId::Quarantine(stream)).iter() {
        if let Body::Quarantine(n, k, rows) = &entry.body
            && *n == batch
            && (any || Some(*k) == attempt)
        {
            found.extend(rows.iter().copied());
        }
    }
    found
}

/// Every batch that ran with another chain than the one before has an event, and no other.
fn events_tell_the_chain(stores: &Stores, stream: Stream) -> Result<(), Violation> {
    let (mut in_force, mut newest) = (None, None);
    for n in 0.. {
        let Some(Object::Done(done)) = stores.ever.get(&Key::Done(stream, n)) else {
            break;
        };
        let changed = done.attempt.is_some() && done.chain != in_force;
        let wanted: Vec<u8> = done.chain.filter(|_| changed).into_iter().collect();
        let number = match wanted.is_empty() {
            true => newest,
            false => Some(newest.map_or(0, |newest| newest + 1)),
        };
        if (&done.events, done.last_event) != (&wanted, number) {
            fail(
                "every change of the chain has its event",
                format!("stream {stream}: {done:?} after chain {in_force:?}"),
            )?;
        }
        newest = number;
        if done.attempt.is_some() {
            in_force = done.chain;
        }
    }
    Ok(())
}

fn facts_agree(stores: &Stores, stream: Stream) -> Result<(), Violation> {
    let (mut batch, mut event) = (-1, -1);
    for row in stores.facts(stream) {
        let last = match row.key {
            FactsKey::Batch(_) => &mut batch,
            FactsKey::Event(_) => &mut event,
        };
        let (FactsKey::Batch(n) | FactsKey::Event(n)) = row.key;
        if n != *last + 1 {
            fail(
                "facts are numbered without gap or double",
                format!("stream {stream}: {:?} after {last}", row.key),
            )?;
        }
        *last = n;
        let FactsKey::Batch(n) = row.key else {
            continue;
        };
        let done: Option<&Done> = match stores.ever.get(&Key::Done(stream, n)) {
            Some(Object::Done(done)) => Some(done),
            _ => None,
        };
        let same = done.is_some_and(|done| (done.rows, done.end, done.attempt) == (row.rows, row.end, row.attempt));
        if !same {
            fail(
                "facts are what commits/<n> says",
                format!("stream {stream}: {row:?} and {done:?}"),
            )?;
        }
    }
    Ok(())
}
