//! Opening a stream: where the process before left it, and what becomes of the batch that is open.

use crate::owner::Owner;
use crate::planted::Planted;
use crate::stores::{Done, FactsKey, LogId, Plan, Snapshot, Stream, Txn, recorded};
use crate::takeover::{fence_above, take};
use crate::world::{Hands, Mode, Stop};

/// How often a take-over reads or claims again because the process before still writes.
const MOVES: u32 = 3;

/// A checkpoint as it was read.
struct Checkpoint {
    done: Vec<Done>,
    open: Option<Plan>,
}

impl Owner {
    /// Takes the stream and finds out where it is. With the batch that is open, when it is to be run.
    pub(crate) async fn open(hands: Hands, mode: Mode, stream: Stream) -> Result<(Owner, Option<Plan>), Stop> {
        let taken = take(&hands, mode, stream).await?;
        hands.counted.set(Some(taken));
        // Before the checkpoint: another process may record a batch and publish it in between.
        let facts = hands
            .read_on("facts", |world| {
                let log = world.stores.log(LogId::Facts);
                (recorded(&log, Txn::Facts(stream)), recorded(&log, Txn::Events(stream)))
            })
            .await;
        let mine = fence_above(&hands, stream, taken).await?;
        hands.counted.set(Some(mine));
        let mut owner = Owner {
            claimant: hands.token(),
            hands: hands.clone(),
            stream,
            leased: mode == Mode::Lease,
            fencing: mine.fencing,
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
        let checkpoint = match mine.owes {
            true => owner.settle(facts.0).await?,
            false => owner.compare(facts.0).await?,
        };
        if mine.fencing > taken.fencing {
            owner.claim(true).await?;
        }
        // What still has to be read may fail.
        hands.turn().await;
        hands.opening.set(false);
        owner.publish_missing(&checkpoint.done, facts);
        let open = owner.go_on_with(checkpoint.open, facts.0).await?;
        Ok((owner, open))
    }

    /// Takes over from whoever may still write: their number is overtaken, then what is open is closed.
    async fn settle(&mut self, facts: Option<i64>) -> Result<Checkpoint, Stop> {
        let hands = self.hands.clone();
        let mut moves = if hands.is(Planted::CheckpointReadOnce) {
            MOVES
        } else {
            0
        };
        loop {
            // Until the claim the process before may write, and what is read one after the other need not fit.
            let compared = self.compare(facts).await;
            if compared.as_ref().is_err_and(|stop| stop.is_alarm()) && moves < MOVES {
                hands.count("checkpoint moved while it was read");
                moves += 1;
                continue;
            }
            compared?;
            match self.claim(true).await {
                Err(Stop::Moved) if moves < MOVES => moves += 1,
                claimed => {
                    claimed?;
                    break;
                }
            }
        }
        if hands.memory.asked.get() {
            return Err(Stop::Asked);
        }
        let mut checkpoint = self.compare(facts).await?;
        // A process that slept at a record plans the next batch before it finds out.
        while let Some(plan) = checkpoint.open.as_ref().filter(|plan| self.known != Some(plan.batch)) {
            if hands.is(Planted::TakeOverReplays) {
                break;
            }
            if self.was_done(plan, facts) {
                return Err(Stop::Damaged);
            }
            if !hands.is(Planted::ClosesUnfenced) {
                // After the plan was read: it is of a process before this one, or this is where a process that stood
                // still finds out that the plan is of one after it.
                self.check_owner().await?;
            }
            self.close(plan).await?;
            checkpoint = self.compare(facts).await?;
        }
        self.settled().await?;
        Ok(checkpoint)
    }

    /// The facts table has the batch, so it was recorded, and its record was lost.
    fn was_done(&self, plan: &Plan, facts: Option<i64>) -> bool {
        facts >= Some(plan.batch) && !self.hands.is(Planted::FactsNotAsked)
    }

    /// What becomes of the open batch, and whether the chain may go on. The batch, when it is to be run as it was planned.
    async fn go_on_with(&mut self, open: Option<Plan>, facts: Option<i64>) -> Result<Option<Plan>, Stop> {
        let hands = self.hands.clone();
        let mut open = open;
        if let Some(plan) = open.take_if(|plan| self.known == Some(plan.batch)) {
            let rows = self.in_bronze(&plan).await?.ok_or(Stop::Moved)?;
            hands.count("open batch ended from bronze");
            self.finish(&plan, rows).await?;
        }
        // It may have been closed, which its plan does not tell.
        if open.as_ref().is_some_and(|plan| self.was_done(plan, facts)) {
            return Err(Stop::Damaged);
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

    /// Reads checkpoint and bronze: where the stream is.
    async fn compare(&mut self, facts: Option<i64>) -> Result<Checkpoint, Stop> {
        let stream = self.stream;
        let checkpoint = self.read_checkpoint(facts).await?;
        self.opened = self
            .hands
            .read_on("bronze", |world| world.stores.log(LogId::Bronze(stream)))
            .await;
        self.known = recorded(&self.opened, Txn::Batch(stream));
        self.reconcile(&checkpoint, facts)?;
        if let Some(last) = checkpoint.done.last() {
            let forgets = self.hands.is(Planted::ClosedForgetsFirst) && last.end == 0;
            self.position = Some(last.end).filter(|_| !forgets);
            self.recorded = self.position;
            self.next_batch = last.batch + 1;
            self.next_event = last.last_event.map_or(0, |newest| newest + 1);
            self.last_chain = last.chain;
            self.last_with_rows = last.last_with_rows;
        }
        Ok(checkpoint)
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
        // Plans first: the process before may end a batch and plan the next one in between.
        let plans = self.hands.read_on("offsets", |world| world.stores.plans(stream)).await;
        let read = self.hands.read_on("commits", |world| {
            (world.stores.done(stream), world.stores.is_torn(stream))
        });
        let (done, is_torn) = read.await;
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
        match open.as_ref().is_none_or(|plan| plan.batch == newest + 1) {
            true => Ok(Checkpoint { done, open }),
            false => Err(Stop::Damaged),
        }
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
