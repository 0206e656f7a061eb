//! One commit to a log, at most once: `lake/commit.rs` in the model's terms.

use std::collections::BTreeMap;

use crate::planted::Planted;
use crate::stores::{Body, Entry, LogId, Snapshot, Txn};
use crate::world::{Hands, Put, Stop};

/// Attempts at one commit.
const ATTEMPTS: u32 = 3;

/// What is to be done on top of a version.
pub enum Proposal<R> {
    /// Commit this.
    Commit(BTreeMap<Txn, i64>, Body),
    /// It is there already.
    Settled(R),
}

/// How a commit ended.
pub enum Ended<R> {
    /// It is in the log.
    Committed,
    /// It did not have to be made.
    Settled(R),
}

/// Commits what `propose` says for the newest version, once.
pub async fn commit<R>(
    hands: &Hands,
    log: LogId,
    mut propose: impl FnMut(&Snapshot) -> Result<Proposal<R>, Stop>,
) -> Result<Ended<R>, Stop> {
    let token = hands.token();
    let mut unanswered: Option<usize> = None;
    let unknown = |unanswered: Option<usize>, stop| if unanswered.is_some() { Stop::Unknown } else { stop };
    let mut first: Option<(BTreeMap<Txn, i64>, Body)> = None;
    for _ in 0..ATTEMPTS {
        let Ok(seen) = hands.log(log).await else {
            continue;
        };
        if let Some(entry) = unanswered.and_then(|version| seen.get(version)) {
            if entry.token == token {
                hands.count("lost reply found in the log");
                return Ok(Ended::Committed);
            }
            hands.count("conflict in a log");
            unanswered = None;
        }
        let kept = first
            .take()
            .filter(|_| log == LogId::Facts && hands.is(Planted::GroupNotRebuilt));
        let (txns, body) = match kept {
            Some(kept) => kept,
            None => match propose(&seen) {
                Ok(Proposal::Commit(txns, body)) => (txns, body),
                Ok(Proposal::Settled(reason)) if unanswered.is_none() => return Ok(Ended::Settled(reason)),
                // It may be on its way: the version is still free, so ask again.
                Ok(Proposal::Settled(_)) => continue,
                Err(stop) => return Err(unknown(unanswered, stop)),
            },
        };
        first = Some((txns.clone(), body.clone()));
        unanswered = Some(seen.len());
        if let Ok(Put::Written) = hands.append(log, seen.len(), Entry { token, txns, body }).await {
            return Ok(Ended::Committed);
        }
    }
    Err(unknown(unanswered, Stop::Store))
}
