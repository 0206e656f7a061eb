//! Many tables in one process: `start_many`, `await_all`, `stop_all`. One task a table; a table that fails stops alone, and is
//! started again alone.

mod expand;
mod shard;
mod stores;
mod upkeep;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::board::{Board, STEP};
use crate::checkpoint::CheckpointError;
use crate::config::{ConfigError, OnStartError, Settings, TableSettings};
use crate::error::{Classify, ErrorKind, chain};
use crate::facts::FactsTable;
use crate::identity::{CaptureInstance, host_id};
use crate::lake::LakeError;
use crate::report::{Event, TableSummary};
use crate::scheduler::{Scheduler, Share};
use crate::source::{AskPool, Catalog, PollState, Poller, SourceError, StreamPool, persist};
use crate::table_stream::{FactsHub, Hosts, Opened, Purpose, Shared, StreamError, run_table};
use crate::transform::{Engine, KeyError, KeyRing, Lookups, TransformError};
use crate::verdict::ControlTable;

pub use expand::{expand, expand_from_disk};
pub use shard::Shard;

pub(crate) use stores::expect_stores;

use stores::opened_at_once;

/// How to start.
#[derive(Debug, Clone, Default)]
pub struct StartOptions {
    /// Every table catches up to where the source is at the start, then stops.
    pub once: bool,
    /// What the tables are opened for.
    pub purpose: Purpose,
    /// What a table that cannot be opened means for the others.
    pub on_start_error: OnStartError,
    /// The first table that fails stops all others, at the end of their batches.
    pub fail_fast: bool,
    /// Only the tables of this share.
    pub shard: Option<Shard>,
}

/// Why nothing could be started. A problem of one table is among these only with [`OnStartError::Stop`]: otherwise that table
/// fails alone.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The source cannot be reached, or refuses.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A shared Delta table cannot be opened.
    #[error(transparent)]
    Lake(#[from] LakeError),
    /// The lock file cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The component engine cannot start.
    #[error(transparent)]
    Transform(#[from] TransformError),
    /// A key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The lease of this process cannot be taken.
    #[error(transparent)]
    Lease(#[from] CheckpointError),
    /// A table cannot be opened, and the others are not to run without it.
    #[error(
        "{capture_instance} cannot start, so that the {started} that had started were stopped (on_start_error = \"stop\"); take \
         it out of the configuration, or leave it out with --table, to run the others meanwhile"
    )]
    Table {
        /// The table.
        capture_instance: CaptureInstance,
        /// Tables that had started.
        started: usize,
        /// Why it cannot.
        source: Arc<StreamError>,
    },
}

impl Classify for StartError {
    fn kind(&self) -> ErrorKind {
        match self {
            StartError::Source(error) => error.kind(),
            StartError::Lake(error) => error.kind(),
            StartError::Config(error) => error.kind(),
            StartError::Transform(error) => error.kind(),
            StartError::Key(_) => ErrorKind::Config,
            StartError::Lease(error) => error.kind(),
            StartError::Table { source, .. } => source.kind(),
        }
    }
}

/// The state of one stream.
#[derive(Debug, Clone)]
pub enum StreamStatus {
    /// It waits to be opened, or is being opened.
    Starting,
    /// It runs.
    Running,
    /// It ended well.
    Ended(Box<TableSummary>),
    /// It stopped with an error.
    Failed(Arc<StreamError>),
}

/// Why a stream is not started again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestartError {
    /// There is no such table among those that were started.
    #[error("{0} is none of the tables that were started")]
    Unknown(CaptureInstance),
    /// Its stream has not ended.
    #[error("the stream of {0} still runs: a checkpoint has one owner")]
    Running(CaptureInstance),
    /// All were asked to stop.
    #[error("all streams were asked to stop; start them anew")]
    Stopping,
}

/// The running streams.
pub struct Streams {
    events: mpsc::UnboundedReceiver<Event>,
    shared: Arc<Shared>,
    tables: Vec<TableSettings>,
    states: States,
    /// Streams that have not ended.
    running: watch::Sender<usize>,
    fail_fast: bool,
}

type States = Arc<Mutex<BTreeMap<CaptureInstance, StreamStatus>>>;

/// Starts one stream per table of the settings. What they share is set up first, once: the login, the facts and control
/// tables (writers that create one Delta table at the same time would conflict), the poller, the component engine.
pub async fn start_many(settings: &Settings, options: StartOptions) -> Result<Streams, StartError> {
    let engine = engine(settings)?;
    let keys = key_ring(settings)?;
    let asks = AskPool::new(settings.source.clone(), settings.limits.connections.clamp(1, 4));
    let catalog = persist(|| async { Catalog::read(&mut *asks.get().await?).await }).await?;
    let scheduler = Scheduler::new(&settings.limits);
    let told = settings.warnings.len();
    let mut expanded = expand(settings, &catalog)?;
    if let Some(shard) = options.shard {
        expanded.tables.retain(|table| shard.has(&table.app_id));
    }
    let settings = &expanded;
    expect_stores(settings).await?;
    let pool = StreamPool::new(settings.source.clone(), &scheduler);
    persist(|| pool.warm_up()).await?;
    let mut facts = BTreeMap::new();
    let mut verdicts = BTreeMap::new();
    for table in &settings.tables {
        if !facts.contains_key(&table.facts_table) {
            let opened = FactsTable::open_or_create(&table.facts_table).await?;
            let writer = opened.writer();
            facts.insert(table.facts_table.clone(), FactsHub { table: opened, writer });
        }
        if !verdicts.contains_key(&table.control_table) {
            let opened = ControlTable::open_or_create(&table.control_table).await?;
            verdicts.insert(table.control_table.clone(), opened.writer());
        }
    }
    let (sender, events) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let hosts = Hosts::start(&settings.ownership).await?;
    if let Some(hosts) = &hosts {
        let (lost, stop, told) = (hosts.lease.lost(), stop.clone(), sender.clone());
        tokio::spawn(async move {
            // Each stream then finds out by itself why it ends, which can take as long as a store takes that does not answer.
            if let Some(lost) = lost.await {
                let _ = told.send(Event::SourceWarning {
                    message: format!("{lost}: all tables of this process stop"),
                });
                stop.cancel();
            }
        });
    }
    // Those of the file alone were told before.
    for message in catalog.warnings.iter().chain(settings.warnings.iter().skip(told)) {
        let _ = sender.send(Event::SourceWarning {
            message: message.clone(),
        });
    }
    let poller = Poller::start(settings.source.clone(), catalog.zone, settings.poll_interval());
    let board = Board::new(&settings.tables);
    tokio::spawn(watch_source(poller.subscribe(), board.clone(), stop.clone()));
    for hub in facts.values() {
        if options.once {
            upkeep::remove_old(&hub.table, settings.maintenance).await;
        } else {
            tokio::spawn(upkeep::keep_up(hub.table.clone(), settings.maintenance, stop.clone()));
        }
    }
    let shared = Arc::new(Shared {
        engine,
        keys,
        scheduler,
        compacting: Semaphore::new(1),
        opening: Arc::new(Semaphore::new(opened_at_once(settings))),
        shares: shares(&settings.tables),
        asks,
        pool,
        catalog,
        poller,
        facts,
        verdicts,
        limits: settings.limits,
        board: board.clone(),
        maintenance: settings.maintenance,
        events: sender,
        stop: stop.clone(),
        once: options.once,
        purpose: options.purpose,
        host: host_id(),
        hosts,
    });
    let mut streams = Streams {
        events,
        shared,
        tables: settings.tables.clone(),
        states: Arc::default(),
        running: watch::Sender::new(0),
        fail_fast: options.fail_fast,
    };
    let opened = streams.start(settings.tables.clone());
    if options.on_start_error == OnStartError::Stop {
        streams.expect_opened(opened).await?;
    }
    Ok(streams)
}

impl Streams {
    /// Starts streams in this order: so many are opened at a time, and the next when one of them is open or has failed. What
    /// comes of each opening.
    fn start(&self, tables: Vec<TableSettings>) -> Vec<(CaptureInstance, oneshot::Receiver<()>)> {
        let mut opened = Vec::with_capacity(tables.len());
        let mut go = Vec::with_capacity(tables.len());
        for table in tables {
            let name = table.capture_instance.clone();
            let (tell_opened, is_opened) = oneshot::channel();
            let (tell_go, may_open) = oneshot::channel();
            opened.push((name.clone(), is_opened));
            go.push(tell_go);
            self.shared.board.starts(&name);
            lock(&self.states).insert(name, StreamStatus::Starting);
            self.running.send_modify(|running| *running += 1);
            let one = OneStream {
                shared: Arc::clone(&self.shared),
                table,
                states: Arc::clone(&self.states),
                running: self.running.clone(),
                fail_fast: self.fail_fast,
            };
            tokio::spawn(one.run(may_open, tell_opened));
        }
        let (stop, places) = (self.shared.stop.clone(), Arc::clone(&self.shared.opening));
        tokio::spawn(async move {
            for go in go {
                let place = tokio::select! {
                    place = Arc::clone(&places).acquire_owned() => place,
                    // Those that are not open are not opened any more: they see that nobody will tell them to.
                    () = stop.cancelled() => return,
                };
                if let Ok(place) = place {
                    let _ = go.send(place);
                }
            }
        });
        opened
    }

    /// Waits until all are open. The first that cannot be opened stops the others.
    async fn expect_opened(&mut self, opened: Vec<(CaptureInstance, oneshot::Receiver<()>)>) -> Result<(), StartError> {
        let mut started = 0;
        // In whatever order they are open: one that is tried again for minutes does not hide one that failed.
        let mut opened: FuturesUnordered<_> = opened
            .into_iter()
            .map(|(name, opened)| async move { (name, opened.await.is_ok()) })
            .collect();
        while let Some((name, is_open)) = opened.next().await {
            if is_open {
                started += 1;
                continue;
            }
            // It ended before it was open: asked to, or with an error, which is noted by then.
            if let Some(StreamStatus::Failed(source)) = self.status(&name) {
                self.stop_all();
                self.await_all(None).await;
                return Err(StartError::Table {
                    capture_instance: name,
                    started,
                    source,
                });
            }
        }
        Ok(())
    }

    /// The tables, in the order in which they were started.
    pub fn tables(&self) -> &[TableSettings] {
        &self.tables
    }

    /// How each table does.
    pub fn board(&self) -> Board {
        self.shared.board.clone()
    }

    /// What the tables share, and how much of it is taken.
    pub fn scheduler(&self) -> &Scheduler {
        &self.shared.scheduler
    }

    /// The next thing that happens to any table; `None` when all have ended.
    pub async fn next_event(&mut self) -> Option<Event> {
        let mut running = self.running.subscribe();
        tokio::select! {
            biased;
            Some(event) = self.events.recv() => Some(event),
            _ = running.wait_for(|running| *running == 0) => self.events.try_recv().ok(),
        }
    }

    /// Starts a stream again that ended or failed, from its checkpoint.
    pub fn restart(&mut self, capture_instance: &CaptureInstance) -> Result<(), RestartError> {
        if self.shared.stop.is_cancelled() {
            return Err(RestartError::Stopping);
        }
        let same = |table: &&TableSettings| table.capture_instance == *capture_instance;
        match (self.tables.iter().find(same), self.status(capture_instance)) {
            (Some(table), Some(StreamStatus::Failed(_) | StreamStatus::Ended(_))) => {
                self.start(vec![table.clone()]);
                Ok(())
            }
            (Some(_), _) => Err(RestartError::Running(capture_instance.clone())),
            (None, _) => Err(RestartError::Unknown(capture_instance.clone())),
        }
    }

    /// Starts those again that failed, in the order of the configuration; none where all were asked to stop.
    pub fn restart_failed(&mut self) -> Vec<CaptureInstance> {
        if self.shared.stop.is_cancelled() {
            return Vec::new();
        }
        let failed = self
            .tables
            .iter()
            .filter(|table| matches!(self.status(&table.capture_instance), Some(StreamStatus::Failed(_))));
        let failed: Vec<TableSettings> = failed.cloned().collect();
        let names = failed.iter().map(|table| table.capture_instance.clone()).collect();
        self.start(failed);
        names
    }

    /// Asks every stream to stop at the end of its batch.
    pub fn stop_all(&self) {
        self.shared.stop.cancel();
    }

    /// The state of one stream.
    pub fn status(&self, capture_instance: &CaptureInstance) -> Option<StreamStatus> {
        lock(&self.states).get(capture_instance).cloned()
    }

    /// Waits until every stream has ended, or the time is over; the failures so far, by capture instance. Raises
    /// nothing: the caller decides.
    ///
    /// Events are kept until they are taken, without a limit. Those that nobody took until this is called, or that come
    /// while it waits, are dropped: who wants them calls [`Streams::next_event`] until it answers `None`, and this then.
    pub async fn await_all(&mut self, timeout: Option<Duration>) -> BTreeMap<CaptureInstance, Arc<StreamError>> {
        let (events, mut running) = (&mut self.events, self.running.subscribe());
        let all = async {
            loop {
                tokio::select! {
                    biased;
                    Some(_) = events.recv() => {}
                    _ = running.wait_for(|running| *running == 0) => break,
                }
            }
            while events.try_recv().is_ok() {}
        };
        match timeout {
            Some(timeout) => {
                let _ = tokio::time::timeout(timeout, all).await;
            }
            None => all.await,
        }
        lock(&self.states)
            .iter()
            .filter_map(|(name, state)| match state {
                StreamStatus::Failed(error) => Some((name.clone(), Arc::clone(error))),
                _ => None,
            })
            .collect()
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

/// One stream of many.
struct OneStream {
    shared: Arc<Shared>,
    table: TableSettings,
    states: States,
    running: watch::Sender<usize>,
    fail_fast: bool,
}

impl OneStream {
    /// Runs the table in a task of its own, so that even a panic in it stops that table alone.
    async fn run(self, may_open: oneshot::Receiver<OwnedSemaphorePermit>, tell_opened: oneshot::Sender<()>) {
        let name = self.table.capture_instance.clone();
        // Kept until the end: whoever waits for the opening and is told nothing finds out there what became of it.
        let tell_opened = Arc::new(Mutex::new(Some(tell_opened)));
        let (shared, table) = (Arc::clone(&self.shared), self.table.clone());
        let outcome = match may_open.await {
            Err(_) => Ok(TableSummary::new(name.clone(), table.target.clone(), Vec::new())),
            Ok(place) => {
                let (states, opening) = (Arc::clone(&self.states), self.table.capture_instance.clone());
                let tell_opened = Arc::clone(&tell_opened);
                let opened = Opened::new(place, move || {
                    lock(&states).insert(opening, StreamStatus::Running);
                    if let Some(tell) = lock(&tell_opened).take() {
                        let _ = tell.send(());
                    }
                });
                match tokio::spawn(run_table(shared, table, opened)).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err(StreamError::Task {
                        doing: "running its stream",
                    }),
                }
            }
        };
        let (state, event) = match outcome {
            Ok(summary) => (StreamStatus::Ended(Box::new(summary.clone())), Event::Table(summary)),
            Err(error) => {
                let event = Event::Failed {
                    capture_instance: name.clone(),
                    kind: error.kind(),
                    error: error.told(),
                    on_disk: error.is_on_disk(),
                };
                (StreamStatus::Failed(Arc::new(error)), event)
            }
        };
        let failed = matches!(state, StreamStatus::Failed(_));
        // Told first: a stream that is started again by then tells its own events after this one.
        self.shared.tell(event);
        lock(&self.states).insert(name, state);
        if failed && self.fail_fast {
            self.shared.stop.cancel();
        }
        self.running.send_modify(|running| *running -= 1);
    }
}

/// The engine, with the components and the reference tables that the configuration names.
pub(crate) fn engine(settings: &Settings) -> Result<Arc<Engine>, StartError> {
    let lookups = settings
        .lookups
        .iter()
        .map(|lookup| (lookup.name.clone(), lookup.file.clone()));
    let plugins = settings.plugins.accepted()?;
    let cache = settings.plugins.cache.clone();
    Ok(Engine::with(
        plugins,
        crate::BUILT_IN_COMPONENTS,
        Lookups::new(lookups),
        cache,
    )?)
}

/// The keys of the configuration, for the engine.
pub(crate) fn key_ring(settings: &Settings) -> Result<KeyRing, KeyError> {
    let mut keys = KeyRing::default();
    for key in &settings.keys {
        keys.insert(&key.name, &key.version, key.secret.reveal().as_bytes().to_vec())?;
    }
    if let Some((one, other)) = keys.twins() {
        tracing::warn!(
            one,
            other,
            "two keys have one secret, so that what is made with one can be matched with what is made with the other; give each \
             its own"
        );
    }
    Ok(keys)
}

/// Has the board know what polls see, and remember it point by point.
async fn watch_source(mut polls: watch::Receiver<PollState>, board: Board, stop: CancellationToken) {
    let mut points = tokio::time::interval(STEP);
    points.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            changed = polls.changed() => {
                if changed.is_err() {
                    return;
                }
                match &*polls.borrow_and_update() {
                    PollState::Seen(poll) => board.polled(poll.max, poll.server_now, poll.rtt_ms),
                    PollState::Failing(error, _) => board.poll_failed(chain(error.as_ref())),
                    PollState::Waiting => {}
                }
            }
            _ = points.tick() => board.sample(),
            () = stop.cancelled() => return,
        }
    }
}

/// A share for each table; 0 is nobody's.
fn shares(tables: &[TableSettings]) -> BTreeMap<CaptureInstance, Share> {
    let share = |(stream, table): (u32, &TableSettings)| {
        let share = Share {
            stream,
            weight: table.weight,
        };
        (table.capture_instance.clone(), share)
    };
    (1..).zip(tables).map(share).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A panic while a map was changed leaves a usable map.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
