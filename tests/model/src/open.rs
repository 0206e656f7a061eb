//! Taking a stream, and where the process before left it.

use crate::owner::Owner;
use crate::planted::Planted;
use crate::stores::{
    Done, FactsKey, Key, Lease, LogId, Object, Owner as OwnerFile, Plan, Snapshot, Stream, Txn, recorded,
};
use crate::world::{Hands, Mode, Put, Stop};

/// Looks at a checkpoint that another process may still write to.
const LOOKS: u32 = 4;

/// A checkpoint as it was read.
struct Checkpoint {
    done: Vec<Done>,
    open: Option<Plan>,
}

/// A stream that was taken.
struct Taken {
    fencing: i64,
    /// Its claim goes first, because the process before may wake up.
    claim_first: bool,
    /// The lease before was ended by its own process.
    ended_cleanly: bool,
}

impl Owner {
    /// Takes the stream and finds out where it is. With the batch that is open, when it is to be run.
    pub(crate) async fn open(hands: Hands, mode: Mode, stream: Stream) -> Result<(Owner, Option<Plan>), Stop> {
        let taken = match mode {
            Mode::Lock => take_lock(&hands, stream).await?,
            Mode::Lease => take_lease(&hands, stream).await?,
        };
        // Before the checkpoint: another process may record a batch and publish it in between.
        let facts = hands
            .read_on("facts", |world| {
                let log = world.stores.log(LogId::Facts);
                (recorded(&log, Txn::Facts(stream)), recorded(&log, Txn::Events(stream)))
            })
            .await;
        let mut owner = Owner {
            hands: hands.clone(),
            mode,
            stream,
            fencing: taken.fencing,
            claimed: false,
            known: None,
            opened: Snapshot::default(),
            position: None,
            recorded: None,
            next_batch: 0,
            next_event: 0,
            last_chain: None,
            last_with_rows: None,
            attempt: 0,
            first: None,
            began: 1,
        };
        let early = match hands.is(Planted::ReadBeforeClaim) {
            true => Some(owner.read_checkpoint(facts.0).await?),
            false => None,
        };
        if taken.claim_first {
            owner.claim(false).await?;
        }
        if hands.memory.asked.get() {
            return Err(Stop::Asked);
        }
        let checkpoint = match early {
            Some(early) => early,
            None => owner.read_checkpoint(facts.0).await?,
        };
        owner.opened = hands
            .read_on("bronze", |world| world.stores.log(LogId::Bronze(stream)))
            .await;
        owner.known = recorded(&owner.opened, Txn::Batch(stream));
        if taken.claim_first && !hands.is(Planted::ClosesUnfenced) {
            // After the checkpoint: an open batch that was read then is of a process before this one, or this is where a
            // process that stood still finds out that the batch is of one after it.
            owner.check_fence(&owner.opened, true)?;
        }
        owner.reconcile(&checkpoint, facts.0)?;
        if let Some(last) = checkpoint.done.last() {
            owner.position = Some(last.end);
            if hands.is(Planted::ClosedForgetsFirst) && last.end == 0 {
                owner.position = None;
            }
            owner.recorded = owner.position;
            owner.next_batch = last.batch + 1;
            owner.next_event = last.last_event.map_or(0, |newest| newest + 1);
            owner.last_chain = last.chain;
            owner.last_with_rows = last.last_with_rows;
        }
        owner.publish_missing(&checkpoint.done, facts);
        let open = owner.settle_open(checkpoint.open, &taken, facts.0).await?;
        Ok((owner, open))
    }

    /// What becomes of the open batch, and whether the chain may go on. The batch, when it is to be run as it was planned.
    async fn settle_open(
        &mut self,
        open: Option<Plan>,
        taken: &Taken,
        facts: Option<i64>,
    ) -> Result<Option<Plan>, Stop> {
        let hands = self.hands.clone();
        let mut open = open;
        if let Some(plan) = open.take_if(|plan| self.known == Some(plan.batch)) {
            let rows = self.in_bronze(&plan).await?.ok_or(Stop::Moved)?;
            hands.count("open batch ended from bronze");
            self.finish(&plan, rows).await?;
        }
        // The facts table has it, so it was recorded, and its record was lost.
        let was_done = |plan: &Plan| facts >= Some(plan.batch) && !hands.is(Planted::FactsNotAsked);
        let trusts = hands.is(Planted::TakeOverReplays) || (hands.is(Planted::TrustsCleanEnd) && taken.ended_cleanly);
        if self.mode == Mode::Lease
            && !trusts
            && let Some(plan) = open.take()
        {
            if was_done(&plan) {
                return Err(Stop::Damaged);
            }
            self.close(&plan).await?;
        }
        let chain = hands.memory.settings.chain;
        let reads = open.as_ref().filter(|plan| plan.range.is_some());
        let planned_so = reads.is_some_and(|plan| plan.chain == chain);
        let changed = self.last_chain.is_some_and(|last| last != chain);
        if !planned_so && changed && !hands.memory.settings.go_on && self.last_with_rows.is_some() {
            return Err(Stop::Chain);
        }
        let Some(plan) = open.take_if(|plan| plan.range.is_some() && plan.chain != chain) else {
            return Ok(open);
        };
        if was_done(&plan) {
            return Err(Stop::Damaged);
        }
        if !hands.is(Planted::AttemptWithoutClaim) {
            self.claim(true).await?;
            if let Some(rows) = self.in_bronze(&plan).await? {
                hands.count("open batch ended from bronze after the claim");
                self.finish(&plan, rows).await?;
                return Ok(None);
            }
        }
        self.attempt = plan.attempt + 1;
        self.first = plan.range.map(|(from, _)| from);
        Ok(None)
    }

    /// The checkpoint against the newest batch of bronze and facts: `checkpoint/resume.rs`.
    fn reconcile(&self, checkpoint: &Checkpoint, facts: Option<i64>) -> Result<(), Stop> {
        let done = checkpoint.done.last().map(|done| done.batch);
        let open = checkpoint.open.as_ref().map(|plan| plan.batch);
        let bronze = self.known;
        if bronze.max(facts) > open.max(done) {
            return Err(Stop::Rewound);
        }
        if open.is_some() && bronze == open {
            return Ok(());
        }
        let with_rows = checkpoint.done.last().and_then(|done| done.last_with_rows);
        if bronze < with_rows {
            return Err(Stop::BronzeBehind);
        }
        if bronze.is_some() && bronze != with_rows {
            return Err(Stop::Foreign);
        }
        Ok(())
    }

    async fn read_checkpoint(&self, facts: Option<i64>) -> Result<Checkpoint, Stop> {
        let stream = self.stream;
        let once = self.mode == Mode::Lock || self.hands.is(Planted::CheckpointReadOnce);
        let looks = if once { 1 } else { LOOKS };
        for _ in 0..looks {
            let read = self.hands.read_on("commits", |world| {
                (world.stores.done(stream), world.stores.is_torn(stream))
            });
            let (done, is_torn) = read.await;
            let plans = self.hands.read_on("offsets", |world| world.stores.plans(stream)).await;
            if is_torn {
                return Err(Stop::Damaged);
            }
            let newest = done.last().map_or(-1, |done| done.batch);
            let open = plans.into_iter().rfind(|plan| plan.batch > newest);
            // From the first batch that the facts table lacks, every commit has to be there.
            let needed = facts.map_or(0, |facts| facts + 1)..=newest;
            let gap = needed.into_iter().any(|n| done.iter().all(|done| done.batch != n));
            if gap && !self.hands.is(Planted::GapsPassedOver) {
                return Err(Stop::Damaged);
            }
            if open.as_ref().is_none_or(|plan| plan.batch == newest + 1) {
                return Ok(Checkpoint { done, open });
            }
            self.hands.count("checkpoint moved while it was read");
        }
        Err(Stop::Damaged)
    }

    fn publish_missing(&self, done: &[Done], facts: (Option<i64>, Option<i64>)) {
        if self.hands.is(Planted::FactsNotCaughtUp) {
            return;
        }
        for done in done {
            let mut entries = self.entries(done);
            entries.retain(|entry| match entry.key {
                FactsKey::Batch(n) => Some(n) > facts.0,
                FactsKey::Event(n) => Some(n) > facts.1,
            });
            if !entries.is_empty() {
                self.hands.count("facts caught up");
                self.hands.memory.queue.borrow_mut().push_back(crate::world::Committed {
                    stream: self.stream,
                    entries,
                    verdict: done.end,
                });
            }
        }
        if let Some(last) = done.last() {
            // The verdict may be missing though the facts are there.
            self.hands.memory.queue.borrow_mut().push_back(crate::world::Committed {
                stream: self.stream,
                entries: Vec::new(),
                verdict: last.end,
            });
        }
    }
}

async fn read_owner(hands: &Hands, stream: Stream) -> Result<Option<OwnerFile>, Stop> {
    let key = Key::Owner(stream);
    let read = hands.read_on("owner.json", |world| {
        (
            world.stores.objects.get(&key).cloned(),
            world.stores.torn.contains(&key),
        )
    });
    match read.await {
        (_, true) => Err(Stop::Damaged),
        (Some(Object::Owner(owner)), _) => Ok(Some(owner)),
        _ => Ok(None),
    }
}

async fn bronze_owner(hands: &Hands, stream: Stream) -> Option<i64> {
    let read = hands.read_on("bronze's owner", |world| {
        recorded(&world.stores.log(LogId::Bronze(stream)), Txn::Owner(stream))
    });
    read.await
}

async fn take_lock(hands: &Hands, stream: Stream) -> Result<Taken, Stop> {
    let pid = hands.memory.pid;
    let locked = hands.read_on("the lock", |world| *world.stores.locks.entry(stream).or_insert(pid));
    if locked.await != pid {
        return Err(Stop::Owned);
    }
    let before = read_owner(hands, stream).await?;
    let counted = before.map_or(0, |owner| owner.fencing) + 1;
    let fenced = bronze_owner(hands, stream).await;
    let fencing = counted.max(fenced.unwrap_or(0) + 1);
    write_owner(hands, stream, before, fencing, true).await?;
    Ok(Taken {
        fencing,
        claim_first: fencing > counted,
        ended_cleanly: true,
    })
}

async fn take_lease(hands: &Hands, stream: Stream) -> Result<Taken, Stop> {
    let pid = hands.memory.pid;
    let own = Lease {
        beat: 0,
        ended_by: None,
    };
    // Ours alone: whatever the answer, it is there once it is seen.
    loop {
        let _ = hands.put_new(Key::Lease(pid), Object::Lease(own)).await;
        if read_lease(hands, pid).await.is_some() {
            break;
        }
    }
    let before = read_owner(hands, stream).await?;
    let mut ended_cleanly = false;
    if let Some(owner) = before
        && let Some(lease) = read_lease(hands, owner.pid).await
    {
        match lease.ended_by {
            Some(by) => ended_cleanly = by == owner.pid,
            None => end_lease(hands, owner.pid, lease).await?,
        }
    }
    let fencing = before
        .map_or(0, |owner| owner.fencing)
        .max(bronze_owner(hands, stream).await.unwrap_or(0))
        + 1;
    write_owner(hands, stream, before, fencing, hands.is(Planted::OwnerNotCompared)).await?;
    hands.count("stream taken by lease");
    Ok(Taken {
        fencing,
        claim_first: true,
        ended_cleanly,
    })
}

async fn read_lease(hands: &Hands, pid: u32) -> Option<Lease> {
    let key = Key::Lease(pid);
    match hands
        .read_on("a lease", |world| world.stores.objects.get(&key).cloned())
        .await
    {
        Some(Object::Lease(lease)) => Some(lease),
        _ => None,
    }
}

/// Ends the lease of another, if it ran out.
async fn end_lease(hands: &Hands, pid: u32, seen: Lease) -> Result<(), Stop> {
    let is_over = {
        let world = &mut *hands.world.borrow_mut();
        let lives = !world.still.contains(&pid);
        let may = world.budget.expiries > 0 && !world.quiet;
        let is_over = !lives || (may && world.choose.pick(&[2, 1]) == 1);
        if is_over && lives {
            world.budget.expiries -= 1;
            world.count("lease of a living process ran out");
        }
        is_over
    };
    if !is_over {
        return Err(Stop::Owned);
    }
    let ended = Object::Lease(Lease {
        ended_by: Some(hands.memory.pid),
        ..seen
    });
    loop {
        match hands
            .replace(Key::Lease(pid), Some(Object::Lease(seen)), ended.clone())
            .await
        {
            Ok(Put::Written) => break,
            Ok(Put::Exists) | Err(_) => match read_lease(hands, pid).await {
                Some(there) if there == seen => {}
                Some(there) if there.ended_by.is_some() => break,
                _ => return Err(Stop::Owned),
            },
        }
    }
    hands.count("lease ended by another");
    Ok(())
}

async fn write_owner(
    hands: &Hands,
    stream: Stream,
    before: Option<OwnerFile>,
    fencing: i64,
    blindly: bool,
) -> Result<(), Stop> {
    let mine = OwnerFile {
        pid: hands.memory.pid,
        fencing,
    };
    let mut before = before;
    loop {
        let answer = hands
            .replace(Key::Owner(stream), before.map(Object::Owner), Object::Owner(mine))
            .await;
        if answer == Ok(Put::Written) {
            return Ok(());
        }
        let there = read_owner(hands, stream).await?;
        if there == Some(mine) {
            return Ok(());
        }
        if there != before {
            if !blindly {
                return Err(Stop::Owned);
            }
            before = there;
        }
    }
}
