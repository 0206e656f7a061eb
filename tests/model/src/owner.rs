//! One stream in one process: what it knows, and its loop.

use crate::commit::{Ended, Proposal, commit};
use crate::planted::Planted;
use crate::stores::{
    Body, Done, FactsKey, FactsRow, Key, LogId, Lsn, Object, Pid, Plan, Snapshot, Stream, Txn, recorded,
};
use crate::takeover::is_taken_over;
use crate::world::{Committed, Hands, Mode, Put, Stop};

/// Commits with changes that a batch takes at most.
const COMMITS: usize = 2;

/// What a process knows of a stream that it runs.
pub(crate) struct Owner {
    pub(crate) hands: Hands,
    pub(crate) stream: Stream,
    pub(crate) leased: bool,
    /// Tells this opening's claim from others.
    pub(crate) claimant: (Pid, u32),
    pub(crate) fencing: i64,
    pub(crate) claimed: bool,
    /// The newest batch in bronze that this process knows.
    pub(crate) known: Option<i64>,
    /// Bronze as it was at the opening.
    pub(crate) opened: Snapshot,
    pub(crate) position: Option<Lsn>,
    pub(crate) recorded: Option<Lsn>,
    pub(crate) next_batch: i64,
    pub(crate) next_event: i64,
    pub(crate) last_chain: Option<u8>,
    pub(crate) last_with_rows: Option<i64>,
    /// The attempt at the next batch, and where an earlier one began to read.
    pub(crate) attempt: i64,
    pub(crate) first: Option<Lsn>,
    /// Where the stream begins, while it has no position.
    pub(crate) began: Lsn,
}

/// Runs a stream until it has caught up.
pub async fn run(hands: Hands, mode: Mode, stream: Stream) -> Result<(), Stop> {
    let ended = async {
        let (mut owner, open) = Owner::open(hands.clone(), mode, stream).await?;
        if let Some(plan) = open {
            owner.finish_open(plan).await?;
        }
        owner.follow().await
    };
    let ended = match ended.await {
        Err(stop) if stop.is_alarm() && mode == Mode::Lease => Err(is_taken_over(&hands, stream, stop).await),
        ended => ended,
    };
    hands.memory.running.set(hands.memory.running.get() - 1);
    ended
}

impl Owner {
    async fn follow(&mut self) -> Result<(), Stop> {
        loop {
            if self.hands.memory.lease_ended.get() {
                return Err(Stop::LeaseEnded);
            }
            if self.hands.memory.asked.get() {
                return Err(Stop::Asked);
            }
            let stream = self.stream;
            let source = self
                .hands
                .read_on("the source", |world| world.stores.source.clone())
                .await;
            let from = match self.position {
                Some(position) => position + 1,
                None => self.first.unwrap_or(source.min.max(1)),
            };
            if self.position.is_none() {
                self.began = from;
            }
            if from < source.min {
                return Err(Stop::DataLoss);
            }
            let idle = source.changes(stream, from, source.max()).is_empty();
            if source.max() >= from && !idle {
                self.run_range(from, source.offset).await?;
                continue;
            }
            if source.max() >= from {
                self.position = Some(source.max());
            }
            // An idle position is recorded now and then, and when the stream stops.
            let stops = {
                let world = &mut *self.hands.world.borrow_mut();
                world.stops_at_once || world.choose.pick(&[3, 1]) == 0
            };
            if self.position != self.recorded {
                self.record_idle().await?;
            }
            if stops {
                return Ok(());
            }
        }
    }

    async fn run_range(&mut self, from: Lsn, offset: i8) -> Result<(), Stop> {
        let stream = self.stream;
        let planned = self.hands.read_on("the range", |world| {
            let source = &world.stores.source;
            let changes = source.changes(stream, from, source.max());
            (from < source.min, changes)
        });
        let (is_purged, changes) = planned.await;
        if is_purged {
            return Err(Stop::DataLoss);
        }
        let Some(end) = changes.iter().copied().take(COMMITS).max() else {
            return Ok(());
        };
        let plan = self.pin(from, end, Some((changes[0], end)), offset);
        self.write_plan(&plan).await?;
        self.execute(plan, false).await
    }

    async fn record_idle(&mut self) -> Result<(), Stop> {
        let Some(end) = self.position else {
            return Ok(());
        };
        let from = self.recorded.map_or(self.began, |recorded| recorded + 1);
        let plan = Plan {
            start: self.recorded,
            ..self.pin(from, end, None, 0)
        };
        self.write_plan(&plan).await?;
        self.hands.count("idle position");
        self.finish(&plan, 0).await
    }

    fn pin(&self, first: Lsn, end: Lsn, range: Option<(Lsn, Lsn)>, offset: i8) -> Plan {
        Plan {
            batch: self.next_batch,
            attempt: self.attempt,
            start: self.position,
            first,
            end,
            range,
            offset,
            chain: self.hands.memory.settings.chain,
            planner: self.hands.memory.pid,
        }
    }

    async fn write_plan(&mut self, plan: &Plan) -> Result<(), Stop> {
        let key = Key::Plan(self.stream, plan.batch, plan.attempt);
        loop {
            match self.hands.put_new(key, Object::Plan(plan.clone())).await {
                Ok(Put::Written) => break,
                Ok(Put::Exists) => {}
                Err(_) => continue,
            }
            match self
                .hands
                .read_on(&format!("{key:?}"), |world| world.stores.objects.get(&key).cloned())
                .await
            {
                Some(Object::Plan(there)) if there == *plan => break,
                // Of a process that is not gone: we are the old one, or it is fenced off already.
                Some(_) => {
                    self.hands.count("plan of another found under the name");
                    return Err(Stop::Conflict);
                }
                None => {}
            }
        }
        if plan.attempt > 0 {
            self.hands.count("attempt planned");
        }
        Ok(())
    }

    pub(crate) async fn finish_open(&mut self, plan: Plan) -> Result<(), Stop> {
        self.hands.count("open batch run again");
        match plan.range {
            Some(_) => self.execute(plan, true).await,
            None => self.finish(&plan, 0).await,
        }
    }

    async fn execute(&mut self, plan: Plan, replayed: bool) -> Result<(), Stop> {
        let mut look = replayed && !self.hands.is(Planted::NoFreshTxn);
        let mut failures = 0;
        loop {
            match self.attempt_at(&plan, look).await {
                Ok(rows) => return self.finish(&plan, rows).await,
                Err(Stop::Store | Stop::Unknown) if failures < 2 => failures += 1,
                Err(stop) => return Err(stop),
            }
            look = !self.hands.is(Planted::NoFreshTxn);
        }
    }

    /// Reads, transforms and commits. How many rows bronze got.
    async fn attempt_at(&mut self, plan: &Plan, look: bool) -> Result<usize, Stop> {
        if look && let Some(rows) = self.in_bronze(plan).await? {
            return Ok(rows);
        }
        self.claim(true).await?;
        let stream = self.stream;
        let (from, to) = plan.range.unwrap_or((plan.end, plan.end));
        let read = self.hands.read_on("rows", |world| {
            let source = &world.stores.source;
            let rows = source.rows(stream, from, to, plan.chain, plan.offset);
            (from >= source.min).then(|| {
                let of = |wanted| {
                    rows.iter()
                        .filter(move |(_, fate)| *fate == wanted)
                        .map(|(row, _)| *row)
                };
                use crate::stores::Fate;
                let kept: Vec<_> = of(Fate::Kept).collect();
                let rejected: Vec<_> = of(Fate::Quarantined).collect();
                (kept, rejected)
            })
        });
        let (kept, rejected) = read.await.ok_or(Stop::DataLoss)?;
        if !rejected.is_empty() {
            let id = plan.batch * 1000 + plan.attempt;
            let done = commit(&self.hands, LogId::Quarantine(stream), |seen| {
                Ok(match recorded(seen, Txn::Quarantine(stream)) >= Some(id) {
                    true => Proposal::Settled(()),
                    false => Proposal::Commit(
                        [(Txn::Quarantine(stream), id)].into(),
                        Body::Quarantine(plan.batch, plan.attempt, rejected.clone()),
                    ),
                })
            });
            done.await?;
            self.hands.count("rows quarantined");
        }
        if kept.is_empty() {
            self.hands.count("range without rows");
            return Ok(0);
        }
        let (rows, opened) = (kept.len(), self.opened.clone());
        let stale = self.hands.is(Planted::NoFreshTxn);
        let done = commit(&self.hands, LogId::Bronze(stream), |seen| {
            self.check_fence(seen, self.claimed)?;
            let fresh = if stale { &opened } else { seen };
            if recorded(fresh, Txn::Batch(stream)) >= Some(plan.batch) {
                return Ok(Proposal::Settled(()));
            }
            if !stale {
                self.check_known(seen)?;
            }
            let txns = [(Txn::Batch(stream), plan.batch), (Txn::Owner(stream), self.fencing)];
            Ok(Proposal::Commit(txns.into(), Body::Rows(plan.clone(), kept.clone())))
        });
        match done.await? {
            Ended::Committed => {
                self.known = Some(plan.batch);
                Ok(rows)
            }
            Ended::Settled(()) => self.in_bronze(plan).await?.ok_or(Stop::Moved),
        }
    }

    /// Rows of the batch, when bronze has it.
    pub(crate) async fn in_bronze(&mut self, plan: &Plan) -> Result<Option<usize>, Stop> {
        let stream = self.stream;
        let log = self
            .hands
            .read_on("bronze for its batch", |world| world.stores.log(LogId::Bronze(stream)))
            .await;
        let newest = recorded(&log, Txn::Batch(stream));
        if newest < Some(plan.batch) {
            return Ok(None);
        }
        if newest > Some(plan.batch) {
            return Err(Stop::Moved);
        }
        let found = log.iter().rev().find_map(|entry| match &entry.body {
            Body::Rows(of, rows) if of.batch == plan.batch => Some((of, rows.len())),
            _ => None,
        });
        let (there, rows) = found.ok_or(Stop::OtherBatch)?;
        if (there.attempt, there.start, there.end, there.chain) != (plan.attempt, plan.start, plan.end, plan.chain) {
            return Err(Stop::OtherBatch);
        }
        self.known = newest;
        self.hands.count("batch found in bronze");
        Ok(Some(rows))
    }

    /// Ends an open batch without rows, at its start: the next one reads its range again.
    pub(crate) async fn close(&self, plan: &Plan) -> Result<(), Stop> {
        let forgets = self.hands.is(Planted::ClosedForgetsFirst);
        let end = match plan.start {
            Some(start) => start,
            None if forgets => 0,
            None => plan.first - 1,
        };
        let done = Done {
            batch: plan.batch,
            attempt: self.hands.is(Planted::ClosedNamesAttempt).then_some(plan.attempt),
            end,
            rows: 0,
            chain: match self.hands.is(Planted::ClosedNamesChain) {
                true => Some(plan.chain),
                false => self.last_chain,
            },
            events: Vec::new(),
            last_event: self.next_event.checked_sub(1).filter(|newest| *newest >= 0),
            last_with_rows: self.last_with_rows,
        };
        self.hands.count("batch closed");
        self.put_done(done, true).await?;
        Ok(())
    }

    /// Writes `commits/<n>` and hands the batch to the publisher.
    pub(crate) async fn finish(&mut self, plan: &Plan, rows: usize) -> Result<(), Stop> {
        if rows == 0 {
            // Bronze hears nothing of this batch, so the fence is looked at here.
            self.check_owner().await?;
        } else {
            self.last_with_rows = Some(plan.batch);
        }
        let events: Vec<u8> = Some(plan.chain)
            .filter(|chain| self.last_chain != Some(*chain))
            .into_iter()
            .collect();
        let next_event = self.next_event + events.len() as i64;
        let done = Done {
            batch: plan.batch,
            attempt: Some(plan.attempt),
            end: plan.end,
            rows,
            chain: Some(plan.chain),
            events,
            last_event: next_event.checked_sub(1).filter(|newest| *newest >= 0),
            last_with_rows: self.last_with_rows,
        };
        let done = self.put_done(done, false).await?;
        self.stay_named().await?;
        self.publish(&done);
        self.go_on(&done);
        Ok(())
    }

    fn go_on(&mut self, done: &Done) {
        self.position = Some(done.end);
        self.recorded = self.position;
        self.next_batch = done.batch + 1;
        self.next_event = done.last_event.map_or(0, |newest| newest + 1);
        self.last_chain = done.chain;
        self.last_with_rows = done.last_with_rows;
        (self.attempt, self.first) = (0, None);
    }

    /// Put-if-absent, asked again until it is known who has the name. Who closes takes what is there.
    async fn put_done(&self, done: Done, closes: bool) -> Result<Done, Stop> {
        let key = Key::Done(self.stream, done.batch);
        loop {
            match self.hands.put_new(key, Object::Done(done.clone())).await {
                Ok(Put::Written) => return Ok(done),
                Ok(Put::Exists) => {}
                Err(_) => continue,
            }
            match self
                .hands
                .read_on(&format!("{key:?}"), |world| world.stores.objects.get(&key).cloned())
                .await
            {
                Some(Object::Done(there)) if (there.attempt, there.end) == (done.attempt, done.end) => {
                    return Ok(there);
                }
                Some(Object::Done(there)) if closes => {
                    self.hands.count("batch to be closed was recorded");
                    return Ok(there);
                }
                Some(_) => {
                    self.hands.count("record of another found under the name");
                    return Err(Stop::Conflict);
                }
                None => {}
            }
        }
    }

    /// The facts rows of a recorded batch.
    pub(crate) fn entries(&self, done: &Done) -> Vec<FactsRow> {
        let first = done.last_event.unwrap_or(-1) + 1 - done.events.len() as i64;
        let row = |key| FactsRow {
            stream: self.stream,
            key,
            rows: done.rows,
            attempt: done.attempt,
            end: done.end,
        };
        let events = done
            .events
            .iter()
            .zip(first..)
            .map(|(_, number)| row(FactsKey::Event(number)));
        events.chain([row(FactsKey::Batch(done.batch))]).collect()
    }

    fn publish(&self, done: &Done) {
        self.hands.memory.queue.borrow_mut().push_back(Committed {
            stream: self.stream,
            entries: self.entries(done),
            verdict: done.end,
        });
    }

    pub(crate) fn check_fence(&self, log: &Snapshot, claimed: bool) -> Result<(), Stop> {
        if self.hands.is(Planted::FenceNotCompared) {
            return Ok(());
        }
        match recorded(log, Txn::Owner(self.stream)) {
            Some(there) if there > self.fencing || (there == self.fencing && !claimed) => Err(Stop::Fenced),
            _ => Ok(()),
        }
    }

    fn check_known(&self, log: &Snapshot) -> Result<(), Stop> {
        match recorded(log, Txn::Batch(self.stream)) == self.known {
            true => Ok(()),
            false => Err(Stop::Moved),
        }
    }

    pub(crate) async fn check_owner(&self) -> Result<(), Stop> {
        let stream = self.stream;
        let log = self
            .hands
            .read_on("the fence", |world| world.stores.log(LogId::Bronze(stream)))
            .await;
        self.check_fence(&log, self.claimed)?;
        match self.hands.is(Planted::NoFreshTxn) {
            true => Ok(()),
            false => self.check_known(&log),
        }
    }

    /// Commits the fencing number, once a process.
    pub(crate) async fn claim(&mut self, compare_known: bool) -> Result<(), Stop> {
        if self.claimed {
            return Ok(());
        }
        let (stream, claimant) = (self.stream, self.claimant);
        let compare_known = compare_known && !self.hands.is(Planted::NoFreshTxn);
        let done = commit(&self.hands, LogId::Bronze(stream), |seen| {
            if recorded(seen, Txn::Owner(stream)) == Some(self.fencing)
                && seen.iter().any(|entry| entry.body == Body::Claim(claimant))
            {
                return Ok(Proposal::Settled(()));
            }
            self.check_fence(seen, false)?;
            if compare_known {
                self.check_known(seen)?;
            }
            Ok(Proposal::Commit(
                [(Txn::Owner(stream), self.fencing)].into(),
                Body::Claim(claimant),
            ))
        });
        done.await?;
        self.claimed = true;
        self.hands.claimed.set(true);
        self.hands.count("claim");
        Ok(())
    }
}
