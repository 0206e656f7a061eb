//! One poller for the whole database: how far capture is, and which tables moved. An idle table costs a line of one
//! statement, and no connection; a database in which nothing is committed costs one statement a poll.
//!
//! The newest change of each table is asked for whenever `max_lsn` moved. The first LSN that is left of it costs the server
//! more, and says little that a read does not find out by itself (`bounds`): it is asked for when a stream wants to pass what
//! has no changes, which takes both answers, and of all tables after some polls.

mod tables;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Instants, Repeated, Zone};
use crate::config::SourceSettings;
use crate::identity::CaptureInstance;
use crate::lsn::{Lsn, Offset, UtcMicros};
use crate::source::ask::{self, Asker};
use crate::source::catalog;
use crate::source::error::SourceError;
use crate::source::listing::{self, Listed};
use crate::source::mapping;
use crate::source::server_clock;
use crate::source::table::SourceTable;

use tables::{Asked, is_final, tables};

const DOING: &str = "polling";
/// Everything is asked about every table after so many polls, at least every minute and at most every second: a grant that goes
/// away shows in no other way while nothing is committed.
const POLLS_PER_LOOK: u32 = 30;
const LOOKS_AT_MOST: Duration = Duration::from_secs(1);
const LOOKS_AT_LEAST: Duration = Duration::from_secs(60);
/// From one look at the list of capture instances to the next, where no table joined meanwhile.
const LIST_EVERY: Duration = Duration::from_secs(5);
/// The longest pause between attempts while the source is away.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What one poll saw.
#[derive(Debug)]
pub struct Poll {
    /// Counts polls, from 1.
    pub number: u64,
    /// The last commit that capture has processed.
    pub max: Offset,
    /// The server's clock.
    pub clock: Clock,
    /// What it showed, in UTC.
    pub server_now: UtcMicros,
    /// For how long `max` has not moved, as far as this process saw.
    pub still_for: Duration,
    /// Whether this process saw it move at all.
    pub has_moved: bool,
    /// Round trip of the shortest statement, in milliseconds.
    pub rtt_ms: f64,
    /// The capture instances of the database, and up to which commit that list is whole.
    pub listed: Listing,
    tables: Arc<HashMap<CaptureInstance, TablePoll>>,
}

/// The capture instances that this login sees. One that is not in it begins after `up_to`.
#[derive(Debug, Clone)]
pub struct Listing {
    /// `max_lsn` before the list was read: an instance that begins at or below it had been made, so it is in the list.
    pub up_to: Offset,
    instances: Arc<Vec<Listed>>,
    /// The server's clock, where its zone is known.
    clock: Option<Clock>,
}

impl Listing {
    /// The instances that a table has now, in the order in which they take over: name, when it was made, and whether it is
    /// known where it begins.
    pub fn of(&self, table: &SourceTable) -> Vec<(CaptureInstance, i64, bool)> {
        let of_table = |listed: &&Listed| listed.schema == table.schema && listed.table == table.table;
        let mut instances: Vec<_> = self
            .instances
            .iter()
            .filter(of_table)
            .map(|listed| listed.instance.clone())
            .collect();
        let known = listing::Known {
            clock: self.clock,
            begins: &table.begins(),
        };
        listing::sort(&mut instances, known);
        instances
            .into_iter()
            .map(|instance| (instance.name.clone(), instance.created, instance.start_lsn.is_some()))
            .collect()
    }
}

/// What a poll saw of one table.
#[derive(Debug, Clone)]
pub enum TablePoll {
    /// It can be read.
    Ready {
        /// The first LSN that is left, as of when it was asked last. `None`: the server answers zeros.
        min_lsn: Option<Lsn>,
        /// When that commit was made.
        min_commit_ts: Option<UtcMicros>,
        /// Its newest change. `None`: the change table is empty.
        last_lsn: Option<Lsn>,
        /// `min_lsn` was asked after `last_lsn`, at this `max_lsn`: only then do the two say together that there was no change.
        confirmed: bool,
    },
    /// The question about it failed.
    Failed(Arc<SourceError>),
}

/// The state of polling.
#[derive(Debug, Clone)]
pub enum PollState {
    /// Nothing yet.
    Waiting,
    /// The newest poll.
    Seen(Arc<Poll>),
    /// The newest poll failed, and this many before it in a row.
    Failing(Arc<SourceError>, u32),
}

impl Poll {
    /// What was seen of a table that the poller was told of.
    pub fn table(&self, capture_instance: &CaptureInstance) -> Option<&TablePoll> {
        self.tables.get(capture_instance)
    }

    /// A poll that saw this.
    #[cfg(test)]
    pub(crate) fn for_test(max: Offset, tables: Vec<(CaptureInstance, TablePoll)>) -> Poll {
        Poll {
            number: 1,
            server_now: max.commit_ts,
            still_for: Duration::ZERO,
            has_moved: false,
            max,
            clock: Clock::Fixed(0),
            listed: Listing {
                up_to: max,
                instances: Arc::default(),
                clock: None,
            },
            rtt_ms: 0.0,
            tables: Arc::new(tables.into_iter().collect()),
        }
    }
}

/// Asks until it is dropped.
pub struct Poller {
    state: watch::Receiver<PollState>,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

/// Keeps a table in the poller's question until it is dropped.
pub struct Registration {
    capture_instance: CaptureInstance,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// How many streams ask about each: two can read one instance.
    tables: Mutex<BTreeMap<CaptureInstance, usize>>,
    /// Of which tables the low end is wanted.
    low_ends: Mutex<BTreeSet<CaptureInstance>>,
    /// A table joined since the instances were listed.
    joined: AtomicBool,
    wake: Notify,
}

impl Poller {
    /// Starts polling; tables join by [`Poller::register`].
    pub fn start(settings: SourceSettings, zone: Zone, interval: Duration) -> Poller {
        let (sender, state) = watch::channel(PollState::Waiting);
        let shared = Arc::new(Shared::default());
        let stop = CancellationToken::new();
        let clock = ServerClock {
            zone,
            repeated: Repeated::default(),
            moved: None,
        };
        let asker = Asker::new(settings);
        tokio::spawn(run(asker, clock, interval, sender, Arc::clone(&shared), stop.clone()));
        Poller { state, shared, stop }
    }

    /// Asks about this table too, from now on. The name is spelled as the server has it.
    pub fn register(&self, capture_instance: CaptureInstance) -> Registration {
        *self.shared.lock().entry(capture_instance.clone()).or_default() += 1;
        self.shared.joined.store(true, Ordering::Release);
        self.shared.wake.notify_one();
        Registration {
            capture_instance,
            shared: Arc::clone(&self.shared),
        }
    }

    /// Asks for the low end of these with the next poll; `now`: which is to come at once.
    pub fn confirm<'a>(&self, capture_instances: impl Iterator<Item = &'a CaptureInstance>, now: bool) {
        let mut wanted = self.shared.low_ends.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.extend(capture_instances.cloned());
        if now {
            self.shared.wake.notify_one();
        }
    }

    /// The number of the newest poll; 0 before the first.
    pub fn newest(&self) -> u64 {
        match &*self.state.borrow() {
            PollState::Seen(poll) => poll.number,
            PollState::Waiting | PollState::Failing(..) => 0,
        }
    }

    /// What polls see from now on.
    pub fn subscribe(&self) -> watch::Receiver<PollState> {
        self.state.clone()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<CaptureInstance, usize>> {
        // A panic while a plain map was changed leaves a usable map.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut tables = self.shared.lock();
        if let Some(streams) = tables.get_mut(&self.capture_instance) {
            *streams -= 1;
            if *streams == 0 {
                tables.remove(&self.capture_instance);
            }
        }
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn run(
    mut asker: Asker,
    mut clock: ServerClock,
    interval: Duration,
    sender: watch::Sender<PollState>,
    shared: Arc<Shared>,
    stop: CancellationToken,
) {
    let mut number = 0;
    let mut failures: u32 = 0;
    let mut newest: Option<Arc<Poll>> = None;
    let look_every = (interval * POLLS_PER_LOOK).clamp(LOOKS_AT_MOST, LOOKS_AT_LEAST);
    let mut looked = Instant::now();
    let mut list = ListOf {
        clock: clock.zone.named(),
        ..ListOf::default()
    };
    loop {
        // Before the tables are taken: one that joins in between is listed with the next poll.
        let joined = shared.joined.swap(false, Ordering::AcqRel);
        list.is_old |= joined;
        let tables: Vec<CaptureInstance> = shared.lock().keys().cloned().collect();
        let wanted = shared.low_ends.lock().map(|mut wanted| std::mem::take(&mut *wanted));
        let asked = Asked {
            tables: &tables,
            low_ends: wanted.unwrap_or_default(),
            everything: looked.elapsed() >= look_every,
            before: newest.as_deref(),
        };
        if asked.everything {
            looked = Instant::now();
        }
        let polled = match poll(&mut asker, &mut clock, &mut list, &asked, number + 1).await {
            // What the question reads goes with CDC. That it was disabled says more.
            Err(error) if is_final(&error) => Err(catalog::expect_cdc(&mut asker).await.err().unwrap_or(error)),
            polled => polled,
        };
        let pause = match polled {
            Ok(poll) => {
                number += 1;
                failures = 0;
                let poll = Arc::new(poll);
                newest = Some(Arc::clone(&poll));
                sender.send_replace(PollState::Seen(poll));
                interval
            }
            Err(error) => {
                // What it listed may be of a server that lags, and so may what it saw.
                list.is_old = true;
                newest = None;
                failures = failures.saturating_add(1);
                tracing::debug!(failures, %error, "poll failed");
                sender.send_replace(PollState::Failing(Arc::new(error), failures));
                (Duration::from_millis(200) * 2u32.saturating_pow(failures.min(8))).min(LONGEST_PAUSE)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.wake.notified(), if failures == 0 => {}
            () = stop.cancelled() => return,
        }
    }
}

/// What is known of the server's clock from one poll to the next.
struct ServerClock {
    zone: Zone,
    /// Where second passes begin of hours that polls fell into.
    repeated: Repeated,
    /// The newest `max_lsn`, since when, and whether there was another before it.
    moved: Option<(Lsn, Instant, bool)>,
}

impl ServerClock {
    /// For how long it has been this one, and whether it was another before.
    fn still_for(&mut self, max_lsn: Lsn) -> (Duration, bool) {
        match self.moved {
            Some((known, since, moved)) if known == max_lsn => (since.elapsed(), moved),
            before => {
                self.moved = Some((max_lsn, Instant::now(), before.is_some()));
                (Duration::ZERO, before.is_some())
            }
        }
    }

    /// The time of a commit in UTC. In a repeated hour, the server is asked which pass it is.
    async fn instant(
        &mut self,
        asker: &mut Asker,
        clock: Clock,
        lsn: Lsn,
        local_micros: i64,
    ) -> Result<UtcMicros, SourceError> {
        // A second pass that has begun begins where it did; one that has not may do so by now.
        if let Instants::Two { hour, .. } = clock.instants(local_micros)
            && !self.repeated.is_second_pass(lsn, hour)
        {
            let from = mapping::second_pass(asker, hour).await?;
            self.repeated.note(hour, from);
        }
        Ok(clock.instant(lsn, local_micros, &self.repeated))
    }
}

/// The list of instances from one poll to the next.
#[derive(Default)]
struct ListOf {
    newest: Option<(Listing, Instant)>,
    is_old: bool,
    clock: Option<Clock>,
}

impl ListOf {
    async fn get(&mut self, asker: &mut Asker, max: Offset) -> Result<Listing, SourceError> {
        match &self.newest {
            Some((listing, at)) if !self.is_old && at.elapsed() < LIST_EVERY => Ok(listing.clone()),
            _ => {
                let listing = Listing {
                    up_to: max,
                    instances: Arc::new(listing::list(asker).await?),
                    clock: self.clock,
                };
                self.newest = Some((listing.clone(), Instant::now()));
                self.is_old = false;
                Ok(listing)
            }
        }
    }
}

async fn poll(
    asker: &mut Asker,
    server: &mut ServerClock,
    list: &mut ListOf,
    wanted: &Asked<'_>,
    number: u64,
) -> Result<Poll, SourceError> {
    let asked = Instant::now();
    // Into a variable: in one expression the server could call the function twice, and give an LSN the time of a later one.
    let rows = asker
        .query(
            "DECLARE @max binary(10) = sys.fn_cdc_get_max_lsn(); \
             SELECT @max, sys.fn_cdc_map_lsn_to_time(@max), SYSDATETIMEOFFSET()",
            &[],
            DOING,
        )
        .await?;
    let rtt_ms = asked.elapsed().as_secs_f64() * 1e3;
    let row = rows.first().ok_or_else(|| SourceError::Unexpected {
        doing: DOING.to_owned(),
        reason: "no row about max_lsn".to_owned(),
    })?;
    let max_lsn = ask::lsn(row, 0, DOING)?
        .filter(|lsn| !lsn.is_zero())
        .ok_or_else(|| SourceError::NotCaptured {
            database: asker.settings().database.clone(),
        })?;
    let local = ask::local_micros(row, 1, DOING)?.ok_or_else(|| SourceError::Unexpected {
        doing: DOING.to_owned(),
        reason: "max_lsn has no time".to_owned(),
    })?;
    let (server_now, offset_minutes) = server_clock::now(row, 2, DOING)?;
    // A zone whose rules the clock does not follow (yet) says less than the clock itself.
    let clock = server
        .zone
        .clock(server_now, offset_minutes)
        .unwrap_or(Clock::Fixed(offset_minutes));
    let max = Offset {
        lsn: max_lsn,
        commit_ts: server.instant(asker, clock, max_lsn, local).await?,
    };
    let listed = list.get(asker, max).await?;
    let tables = tables(asker, wanted, max_lsn, clock).await?;
    let (still_for, has_moved) = server.still_for(max_lsn);
    Ok(Poll {
        number,
        max,
        listed,
        clock,
        still_for,
        has_moved,
        server_now,
        rtt_ms,
        tables,
    })
}
