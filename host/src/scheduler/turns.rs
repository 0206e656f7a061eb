//! Start-time fair queueing (Goyal, Vin, Cheng 1996) over a number of units.
//!
//! Each request gets a start tag: where the stream's last request ended or, if that is past, where the queue is now. Its end
//! is the start plus its units divided by the stream's weight. Requests are served by their start tags. So a stream that asks
//! for the first time in a while comes before everything that a stream with a backlog asks for after its next turn: between
//! its request and its turn, no stream of equal weight gets more than two.
//!
//! A request that does not fit yet is waited for: smaller ones behind it do not pass it, or it would starve. Only the last
//! units, where some are kept for short requests, are not given to those that say they are long.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::Share;

/// What one unit of weight 1 takes on the queue's scale, so that weights divide it well.
const SCALE: u128 = 1 << 20;
/// Streams that are remembered though they wait for nothing, at most.
const REMEMBERED: usize = 4096;

/// Something that streams take turns at. Clones share it.
#[derive(Clone)]
pub struct Turns {
    shared: Arc<Shared>,
}

struct Shared {
    units: u64,
    /// Of these, units that long requests do not get.
    kept_for_short: u64,
    queue: Mutex<Queue>,
}

struct Queue {
    free: u64,
    /// Units that long turns have.
    long_taken: u64,
    /// Start tag of the request that was served last.
    now: u128,
    /// Requests by start tag, then by arrival.
    short: BTreeMap<Place, Waiter>,
    long: BTreeMap<Place, Waiter>,
    arrivals: u64,
    /// Where the last request of each stream ends.
    ends: HashMap<u32, u128>,
    #[cfg(test)]
    served: Vec<u32>,
    /// The most turns that any stream got while a request of each stream waited.
    #[cfg(test)]
    overtaken: HashMap<u32, usize>,
}

/// Start tag and arrival.
type Place = (u128, u64);

struct Waiter {
    units: u64,
    share: Share,
    turn: oneshot::Sender<Turn>,
    /// How many were served when this was asked.
    #[cfg(test)]
    asked_at: usize,
}

/// The right to some units, until it is dropped.
pub struct Turn {
    shared: Arc<Shared>,
    units: u64,
    share: Share,
    long: bool,
}

impl std::fmt::Debug for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Turn({} of {})", self.units, self.shared.units)
    }
}

impl Turns {
    /// Turns at so many units; at least one.
    pub fn new(units: u64) -> Turns {
        Turns::keeping(units, 0)
    }

    /// Turns at so many units, some of which long requests do not get.
    pub fn keeping(units: u64, kept_for_short: u64) -> Turns {
        let units = units.max(1);
        Turns {
            shared: Arc::new(Shared {
                units,
                kept_for_short: kept_for_short.min(units - 1),
                queue: Mutex::new(Queue {
                    free: units,
                    long_taken: 0,
                    now: 0,
                    short: BTreeMap::new(),
                    long: BTreeMap::new(),
                    arrivals: 0,
                    ends: HashMap::new(),
                    #[cfg(test)]
                    served: Vec::new(),
                    #[cfg(test)]
                    overtaken: HashMap::new(),
                }),
            }),
        }
    }

    /// Waits for a turn at so many units; more than there are count as all of them.
    ///
    /// Cancel safe: a request that is dropped leaves the queue.
    pub async fn take(&self, share: Share, units: u64) -> Turn {
        self.wait(share, units, false).await
    }

    /// The same for a turn that will take long.
    pub async fn take_long(&self, share: Share, units: u64) -> Turn {
        self.wait(share, units, true).await
    }

    async fn wait(&self, share: Share, units: u64, long: bool) -> Turn {
        let most = match long {
            true => self.shared.units - self.shared.kept_for_short,
            false => self.shared.units,
        };
        let units = units.clamp(1, most);
        let (turn, mine) = oneshot::channel();
        {
            let mut queue = self.shared.lock();
            let start = queue
                .ends
                .get(&share.stream)
                .map_or(queue.now, |end| queue.now.max(*end));
            let end = start + length(units, share);
            queue.ends.insert(share.stream, end);
            queue.arrivals += 1;
            let at = (start, queue.arrivals);
            let waiter = Waiter {
                units,
                share,
                turn,
                #[cfg(test)]
                asked_at: queue.served.len(),
            };
            match long {
                true => queue.long.insert(at, waiter),
                false => queue.short.insert(at, waiter),
            };
        }
        serve(&self.shared);
        match mine.await {
            Ok(turn) => turn,
            // Nobody drops the sender of a request that waits, short of a panic in here: then the units are not counted.
            Err(_) => Turn {
                shared: Arc::clone(&self.shared),
                units: 0,
                share,
                long,
            },
        }
    }

    /// All units.
    pub fn units(&self) -> u64 {
        self.shared.units
    }

    /// Units that are taken now.
    pub fn taken(&self) -> u64 {
        self.shared.units - self.shared.lock().free
    }

    /// Requests that wait now.
    pub fn waiting(&self) -> usize {
        let queue = self.shared.lock();
        queue.short.len() + queue.long.len()
    }
}

impl Turn {
    /// Gives units back that turned out not to be needed: the stream is charged for what it keeps.
    pub fn keep_only(&mut self, units: u64) {
        let surplus = self.units.saturating_sub(units);
        if surplus > 0 {
            self.units -= surplus;
            if let Some(end) = self.shared.lock().ends.get_mut(&self.share.stream) {
                *end = end.saturating_sub(length(surplus, self.share));
            }
            self.shared.give_back(surplus, self.long);
            serve(&self.shared);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.units > 0 {
            self.shared.give_back(self.units, self.long);
            serve(&self.shared);
        }
    }
}

impl Shared {
    fn give_back(&self, units: u64, long: bool) {
        let mut queue = self.lock();
        queue.free += units;
        if long {
            queue.long_taken -= units;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // A panic while plain numbers and maps were changed leaves a usable queue.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far a turn takes its stream on the queue's scale.
fn length(units: u64, share: Share) -> u128 {
    u128::from(units) * SCALE / u128::from(share.weight.get())
}

/// Serves whoever is next, as long as there is enough.
fn serve(shared: &Arc<Shared>) {
    loop {
        let Some((waiter, long)) = shared.lock().next(shared.units - shared.kept_for_short) else {
            return;
        };
        let units = waiter.units;
        let granted = Turn {
            shared: Arc::clone(shared),
            units,
            share: waiter.share,
            long,
        };
        if let Err(mut refused) = waiter.turn.send(granted) {
            // Whoever asked is gone: the next one is served by this loop, not by the turn's drop within it.
            refused.units = 0;
            shared.give_back(units, long);
        }
    }
}

impl Queue {
    /// The request that is served now. `for_long`: units that long turns may have together; what short ones have does not count
    /// against them.
    fn next(&mut self, for_long: u64) -> Option<(Waiter, bool)> {
        let short = head(&mut self.short);
        let long_taken = self.long_taken;
        let long = head(&mut self.long).filter(|(_, units)| long_taken + units <= for_long);
        let (place, units, is_long) = match (short, long) {
            (Some((place, units)), Some((other, _))) if place < other => (place, units, false),
            (_, Some((place, units))) => (place, units, true),
            (Some((place, units)), None) => (place, units, false),
            (None, None) => return None,
        };
        if units > self.free {
            return None;
        }
        let waiting = match is_long {
            true => &mut self.long,
            false => &mut self.short,
        };
        let waiter = waiting.remove(&place)?;
        let (start, _) = place;
        self.free -= waiter.units;
        if is_long {
            self.long_taken += waiter.units;
        }
        self.now = self.now.max(start);
        #[cfg(test)]
        self.note(&waiter);
        if self.ends.len() > REMEMBERED {
            // Who ended before now begins at now, remembered or not.
            let now = self.now;
            self.ends.retain(|_, end| *end > now);
        }
        Some((waiter, is_long))
    }

    #[cfg(test)]
    fn note(&mut self, waiter: &Waiter) {
        let mut others: HashMap<u32, usize> = HashMap::new();
        for other in self.served[waiter.asked_at..]
            .iter()
            .filter(|other| **other != waiter.share.stream)
        {
            *others.entry(*other).or_default() += 1;
        }
        let most = others.into_values().max().unwrap_or(0);
        let worst = self.overtaken.entry(waiter.share.stream).or_default();
        *worst = most.max(*worst);
        self.served.push(waiter.share.stream);
    }
}

/// The first request that somebody still waits for.
fn head(waiting: &mut BTreeMap<Place, Waiter>) -> Option<(Place, u64)> {
    loop {
        let first = waiting.first_entry()?;
        match first.get().turn.is_closed() {
            true => drop(first.remove()),
            false => return Some((*first.key(), first.get().units)),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};
    use std::num::NonZeroU32;

    use super::*;

    fn weighing(stream: u32, weight: u32) -> Share {
        Share {
            stream,
            weight: NonZeroU32::new(weight).unwrap(),
        }
    }

    fn served(turns: &Turns) -> Vec<u32> {
        turns.shared.lock().served.clone()
    }

    /// A request that waits in the queue.
    async fn ask(turns: &Turns, share: Share, units: u64) -> tokio::task::JoinHandle<Turn> {
        let (own, before) = (turns.clone(), turns.waiting());
        let asked = tokio::spawn(async move { own.take(share, units).await });
        while turns.waiting() == before && !asked.is_finished() {
            tokio::task::yield_now().await;
        }
        asked
    }

    #[tokio::test]
    async fn a_backlog_does_not_come_before_who_asks_now_and_then() {
        let turns = Turns::new(1);
        let held = turns.take(Share::of(1), 1).await;
        let mut backlog = Vec::new();
        for _ in 0..50 {
            backlog.push(ask(&turns, Share::of(1), 1).await);
        }
        let small = ask(&turns, Share::of(2), 1).await;
        drop(held);
        drop(small.await.unwrap());
        for turn in backlog {
            drop(turn.await.unwrap());
        }
        let order = served(&turns);
        let at = order.iter().position(|stream| *stream == 2).unwrap();
        assert!(at <= 2, "behind the turn that was held and at most one more: {order:?}");
        assert_eq!((turns.taken(), turns.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn weights_divide_what_all_want() {
        let turns = Turns::new(1);
        let held = turns.take(Share::of(9), 1).await;
        let mut waiting = Vec::new();
        for _ in 0..80 {
            for share in [weighing(1, 1), weighing(4, 4)] {
                let (own, before) = (turns.clone(), turns.waiting());
                waiting.push(tokio::spawn(async move { drop(own.take(share, 1).await) }));
                while turns.waiting() == before {
                    tokio::task::yield_now().await;
                }
            }
        }
        drop(held);
        for ended in waiting {
            ended.await.unwrap();
        }
        // While both want more: 16 of the first and 64 of the other.
        let heavy = served(&turns)[1..81].iter().filter(|stream| **stream == 4).count();
        assert!((63..=65).contains(&heavy), "{heavy}");
    }

    #[tokio::test]
    async fn a_large_request_is_waited_for() {
        let turns = Turns::new(10);
        let held = turns.take(Share::of(1), 4).await;
        let large = ask(&turns, Share::of(2), 99).await;
        let small = ask(&turns, Share::of(3), 1).await;
        assert!(!small.is_finished(), "it does not pass the large one");
        drop(held);
        let mut large = large.await.unwrap();
        assert_eq!(turns.taken(), 10);
        large.keep_only(9);
        drop(small.await.unwrap());
        drop(large);
        assert_eq!(turns.taken(), 0);
    }

    #[tokio::test]
    async fn a_stream_is_charged_for_what_it_keeps() {
        let turns = Turns::new(100);
        // Each asks for all, and needs one: the one that asked often before is not behind the other for that.
        for _ in 0..10 {
            turns.take(Share::of(1), 100).await.keep_only(1);
        }
        let held = turns.take(Share::of(3), 100).await;
        let first = ask(&turns, Share::of(2), 20).await;
        let second = ask(&turns, Share::of(1), 20).await;
        let third = ask(&turns, Share::of(2), 90).await;
        drop(held);
        drop(first.await.unwrap());
        drop(second.await.unwrap());
        drop(third.await.unwrap());
        assert_eq!(served(&turns)[11..], [2, 1, 2]);
    }

    #[tokio::test]
    async fn the_last_units_are_for_short_requests() {
        let turns = Turns::keeping(3, 1);
        let long = |stream: u32| {
            let turns = turns.clone();
            tokio::spawn(async move { turns.take_long(Share::of(stream), 1).await })
        };
        let (first, second) = (long(1).await.unwrap(), long(2).await.unwrap());
        let third = long(3);
        while turns.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        let short = turns.take(Share::of(4), 1).await;
        assert_eq!((turns.taken(), turns.waiting()), (3, 1));
        drop(short);
        assert_eq!(
            (turns.taken(), turns.waiting()),
            (2, 1),
            "the third long one does not get it"
        );
        drop(first);
        drop(third.await.unwrap());
        drop(second);
        assert_eq!(turns.taken(), 0);
    }

    #[tokio::test]
    async fn a_long_request_has_its_turn_among_short_ones_that_never_end() {
        let turns = Turns::keeping(4, 1);
        let mut held: Vec<Turn> = Vec::new();
        for stream in 0..4 {
            held.push(turns.take(Share::of(stream), 1).await);
        }
        let long = {
            let turns = turns.clone();
            tokio::spawn(async move { turns.take_long(Share::of(9), 1).await })
        };
        while turns.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        // As soon as one ends, the next is asked for: there is never more than one unit free.
        for stream in 10..20 {
            let own = turns.clone();
            let next = tokio::spawn(async move { own.take(Share::of(stream), 1).await });
            while turns.waiting() < 2 && !next.is_finished() {
                tokio::task::yield_now().await;
            }
            held.remove(0);
            while !long.is_finished() && !next.is_finished() {
                tokio::task::yield_now().await;
            }
            if long.is_finished() {
                next.abort();
                break;
            }
            held.push(next.await.unwrap());
        }
        drop(long.await.unwrap());
    }

    #[tokio::test]
    async fn a_request_that_is_given_up_costs_nothing() {
        let turns = Turns::new(1);
        let held = turns.take(Share::of(1), 1).await;
        let given_up = ask(&turns, Share::of(2), 1).await;
        let next = ask(&turns, Share::of(3), 1).await;
        given_up.abort();
        let _ = given_up.await;
        drop(held);
        drop(next.await.unwrap());
        assert_eq!((turns.taken(), turns.waiting()), (0, 0));
        assert_eq!(served(&turns), [1, 3]);
    }

    /// A table with an endless backlog that is read in parts, and 99 that ask now and then: in whatever order tasks run, none of
    /// the 99 waits for more than its fair turn.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_table_waits_longer_than_its_fair_turn() {
        const CORES: u64 = 2;
        const PARTS: u32 = 6;
        let seed = rand::random::<u64>();
        println!("seed {seed}");
        let turns = Turns::new(CORES);
        let backlog = |_| {
            let turns = turns.clone();
            tokio::spawn(async move {
                loop {
                    let turn = turns.take(Share::of(0), 1).await;
                    tokio::task::yield_now().await;
                    drop(turn);
                }
            })
        };
        let backlog: Vec<_> = (0..PARTS).map(backlog).collect();
        let small = (1..100u32).map(|stream| {
            let turns = turns.clone();
            tokio::spawn(async move {
                let mut random = StdRng::seed_from_u64(seed ^ u64::from(stream));
                for _ in 0..100 {
                    for _ in 0..random.random_range(0..20) {
                        tokio::task::yield_now().await;
                    }
                    drop(turns.take(Share::of(stream), 1).await);
                }
            })
        });
        for ended in futures::future::join_all(small).await {
            ended.unwrap();
        }
        backlog.iter().for_each(tokio::task::JoinHandle::abort);
        let queue = turns.shared.lock();
        let worst = (1..100u32).map(|stream| queue.overtaken[&stream]).max();
        // One that was asked for at the same moment, and one while its own last turn is accounted for.
        assert!(worst <= Some(2), "{worst:?} turns of one other, seed {seed}");
        assert!(queue.overtaken[&0] >= 1, "the others had turns");
    }
}
