//! Facts, then the verdict, for the batches of all streams of a process.

use std::collections::{BTreeMap, BTreeSet};

use crate::commit::{Proposal, commit};
use crate::planted::Planted;
use crate::stores::{Body, FactsKey, FactsRow, LogId, Lsn, Stream, Txn, recorded};
use crate::world::{Hands, Stop};

/// Writes what is handed in until the last stream has ended.
pub async fn publish(hands: Hands) -> Result<(), Stop> {
    loop {
        hands.publishing.set(false);
        hands.wait().await;
        hands.publishing.set(true);
        let group: Vec<_> = hands.memory.queue.borrow_mut().drain(..).collect();
        hands.observe(&group);
        if group.is_empty() {
            return Ok(());
        }
        let mut verdicts: BTreeMap<Stream, Lsn> = BTreeMap::new();
        let mut entries = Vec::new();
        for committed in group {
            entries.extend(committed.entries);
            verdicts.insert(committed.stream, committed.verdict);
        }
        let verdict_first = hands.is(Planted::VerdictBeforeFacts);
        if verdict_first {
            advance(&hands, &verdicts).await;
        }
        record(&hands, &entries).await;
        if !verdict_first {
            advance(&hands, &verdicts).await;
        }
    }
}

fn id(entry: &FactsRow) -> (Txn, i64) {
    match entry.key {
        FactsKey::Batch(n) => (Txn::Facts(entry.stream), n),
        FactsKey::Event(n) => (Txn::Events(entry.stream), n),
    }
}

/// As one, and again as one, until it is there.
async fn record(hands: &Hands, entries: &[FactsRow]) {
    loop {
        let done = commit(hands, LogId::Facts, |seen| {
            let mut taken = BTreeSet::new();
            let new = entries.iter().filter(|entry| {
                let (id, version) = id(entry);
                recorded(seen, id) < Some(version) && taken.insert((id, version))
            });
            let new: Vec<FactsRow> = new.cloned().collect();
            if new.is_empty() {
                return Ok(Proposal::Settled(()));
            }
            let mut txns = BTreeMap::new();
            for (id, version) in new.iter().map(id) {
                let highest = txns.entry(id).or_insert(version);
                *highest = version.max(*highest);
            }
            Ok(Proposal::Commit(txns, Body::Facts(new)))
        });
        if done.await.is_ok() {
            return;
        }
    }
}

/// Only forward, on the version that the commit builds on.
async fn advance(hands: &Hands, verdicts: &BTreeMap<Stream, Lsn>) {
    loop {
        let done = commit(hands, LogId::Control, |seen| {
            let before = match seen.last().map(|entry| &entry.body) {
                Some(Body::Control(rows)) => rows.clone(),
                _ => BTreeMap::new(),
            };
            let mut after = before.clone();
            for (stream, end) in verdicts {
                let row = after.entry(*stream).or_insert(*end);
                *row = (*row).max(*end);
            }
            match after == before {
                true => Ok(Proposal::Settled(())),
                false => Ok(Proposal::Commit(BTreeMap::new(), Body::Control(after))),
            }
        });
        if done.await.is_ok() {
            return;
        }
    }
}
