//! Many tables in one process: `start_many`, `await_all`, `stop_all`. One task a table; a table that fails stops alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::checkpoint::CheckpointError;
use crate::config::{ConfigError, Settings};
use crate::error::{Classify, ErrorKind};
use crate::facts::FactsTable;
use crate::identity::{CaptureInstance, host_id};
use crate::lake::LakeError;
use crate::report::{Event, TableSummary};
use crate::source::{AskPool, Catalog, Poller, SourceError, StreamPool, persist};
use crate::table_stream::{FactsHub, Hosts, Purpose, Shared, StreamError, run_table};
use crate::transform::{Engine, KeyError, KeyRing, Lookups, TransformError};
use crate::verdict::ControlTable;

/// How to start.
#[derive(Debug, Clone, Default)]
pub struct StartOptions {
    /// Every table catches up to where the source is at the start, then stops.
    pub once: bool,
    /// What the tables are opened for.
    pub purpose: Purpose,
}

/// Why nothing could be started. A problem of one table is not among these: that table fails alone.
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
        }
    }
}

/// The state of one stream.
#[derive(Debug, Clone)]
pub enum StreamStatus {
    /// It runs.
    Running,
    /// It ended well.
    Ended(TableSummary),
    /// It stopped with an error.
    Failed(Arc<StreamError>),
}

/// The running streams.
pub struct Streams {
    events: mpsc::UnboundedReceiver<Event>,
    tasks: BTreeMap<CaptureInstance, JoinHandle<()>>,
    states: Arc<Mutex<BTreeMap<CaptureInstance, StreamStatus>>>,
    stop: CancellationToken,
}

/// Starts one stream per table of the settings. What they share is set up first, once: the login, the facts and control
/// tables (writers that create one Delta table at the same time would conflict), the poller, the component engine.
pub async fn start_many(settings: &Settings, options: StartOptions) -> Result<Streams, StartError> {
    let engine = engine(settings)?;
    let keys = key_ring(settings)?;
    let asks = AskPool::new(settings.source.clone(), settings.limits.connections.clamp(1, 4));
    let catalog = persist(|| async { Catalog::read(&mut *asks.get().await?).await }).await?;
    let pool = StreamPool::new(settings.source.clone(), settings.limits.connections);
    persist(|| pool.warm_up()).await?;
    let mut facts = BTreeMap::new();
    let mut verdicts = BTreeMap::new();
    for table in &settings.tables {
        if !facts.contains_key(&table.facts_table) {
            let opened = FactsTable::open_or_create(&table.facts_table.display().to_string()).await?;
            let writer = opened.writer();
            facts.insert(table.facts_table.clone(), FactsHub { table: opened, writer });
        }
        if !verdicts.contains_key(&table.control_table) {
            let opened = ControlTable::open_or_create(&table.control_table.display().to_string()).await?;
            verdicts.insert(table.control_table.clone(), opened.writer());
        }
    }
    let (sender, events) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let hosts = Hosts::start(&settings.ownership).await?;
    if let Some(hosts) = &hosts {
        let (lost, stop) = (hosts.lease.lost(), stop.clone());
        tokio::spawn(async move {
            // Each stream then finds out by itself why it ends.
            if lost.await.is_some() {
                stop.cancel();
            }
        });
    }
    for message in &catalog.warnings {
        let _ = sender.send(Event::SourceWarning {
            message: message.clone(),
        });
    }
    let poller = Poller::start(settings.source.clone(), catalog.zone, settings.poll_interval());
    let shared = Arc::new(Shared {
        engine,
        keys,
        asks,
        pool,
        catalog,
        poller,
        facts,
        verdicts,
        limits: settings.limits,
        events: sender,
        stop: stop.clone(),
        once: options.once,
        purpose: options.purpose,
        host: host_id(),
        hosts,
    });
    let states = Arc::new(Mutex::new(BTreeMap::new()));
    let mut tasks = BTreeMap::new();
    for table in &settings.tables {
        let name = table.capture_instance.clone();
        lock(&states).insert(name.clone(), StreamStatus::Running);
        let task = run_and_report(Arc::clone(&shared), table.clone(), Arc::clone(&states));
        tasks.insert(name, tokio::spawn(task));
    }
    Ok(Streams {
        events,
        tasks,
        states,
        stop,
    })
}

impl Streams {
    /// The next thing that happens to any table; `None` when all have ended.
    pub async fn next_event(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Asks every stream to stop at the end of its batch.
    pub fn stop_all(&self) {
        self.stop.cancel();
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
        let (events, tasks) = (&mut self.events, &mut self.tasks);
        let all = async {
            for task in tasks.values_mut() {
                while !task.is_finished() {
                    tokio::select! {
                        // The outcome is in `states`; a panic is recorded there as well.
                        _ = &mut *task => break,
                        Some(_) = events.recv() => {}
                    }
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
        self.stop.cancel();
    }
}

/// Runs one table in a task of its own, so that even a panic in it stops that table alone.
async fn run_and_report(
    shared: Arc<Shared>,
    table: crate::config::TableSettings,
    states: Arc<Mutex<BTreeMap<CaptureInstance, StreamStatus>>>,
) {
    let name = table.capture_instance.clone();
    let events = shared.events.clone();
    let outcome = match tokio::spawn(run_table(shared, table)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(StreamError::Task {
            doing: "running its stream",
        }),
    };
    let (state, event) = match outcome {
        Ok(summary) => (StreamStatus::Ended(summary.clone()), Event::Table(summary)),
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
    lock(&states).insert(name, state);
    // Nobody listens any more: the state is kept all the same.
    let _ = events.send(event);
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

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A panic while a map was changed leaves a usable map.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
