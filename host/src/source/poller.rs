//! One poller for the whole database: how far capture is, and which tables moved. An idle table costs a line of one
//! statement, and no connection.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::ask::{self, Asker};
use super::error::SourceError;
use super::quote;
use crate::config::SourceSettings;
use crate::error::{Classify, ErrorKind};
use crate::identity::CaptureInstance;
use crate::lsn::{Lsn, Offset, UtcMicros};

const DOING: &str = "polling";
/// Tables asked about in one statement.
const TABLES_PER_STATEMENT: usize = 100;
/// The longest pause between attempts while the source is away.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What one poll saw.
#[derive(Debug)]
pub struct Poll {
    /// Counts polls, from 1.
    pub number: u64,
    /// The last commit that capture has processed, by the server's clock and offset of this poll.
    pub max: Offset,
    /// The server clock's distance from UTC.
    pub offset_minutes: i32,
    /// Round trip of the shortest statement, in milliseconds.
    pub rtt_ms: f64,
    tables: HashMap<CaptureInstance, TablePoll>,
}

/// What a poll saw of one table.
#[derive(Debug, Clone)]
pub enum TablePoll {
    /// It can be read.
    Ready {
        /// The first LSN that is left. `None`: the server answers zeros.
        min_lsn: Option<Lsn>,
        /// When that commit was made.
        min_commit_ts: Option<UtcMicros>,
        /// Its newest change. `None`: the change table is empty.
        last_lsn: Option<Lsn>,
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
            max,
            offset_minutes: 0,
            rtt_ms: 0.0,
            tables: tables.into_iter().collect(),
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
    tables: Mutex<BTreeSet<CaptureInstance>>,
    wake: Notify,
}

impl Poller {
    /// Starts polling; tables join by [`Poller::register`].
    pub fn start(settings: SourceSettings, interval: Duration) -> Poller {
        let (sender, state) = watch::channel(PollState::Waiting);
        let shared = Arc::new(Shared::default());
        let stop = CancellationToken::new();
        tokio::spawn(run(settings, interval, sender, Arc::clone(&shared), stop.clone()));
        Poller { state, shared, stop }
    }

    /// Asks about this table too, from now on. The name is spelled as the server has it.
    pub fn register(&self, capture_instance: CaptureInstance) -> Registration {
        self.shared.lock().insert(capture_instance.clone());
        self.shared.wake.notify_one();
        Registration {
            capture_instance,
            shared: Arc::clone(&self.shared),
        }
    }

    /// What polls see from now on.
    pub fn subscribe(&self) -> watch::Receiver<PollState> {
        self.state.clone()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<CaptureInstance>> {
        // A panic while a plain set was changed leaves a usable set.
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.lock().remove(&self.capture_instance);
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn run(
    settings: SourceSettings,
    interval: Duration,
    sender: watch::Sender<PollState>,
    shared: Arc<Shared>,
    stop: CancellationToken,
) {
    let mut asker = Asker::new(settings);
    let mut number = 0;
    let mut failures: u32 = 0;
    loop {
        let tables: Vec<CaptureInstance> = shared.lock().iter().cloned().collect();
        let pause = match poll(&mut asker, &tables, number + 1).await {
            Ok(poll) => {
                number += 1;
                failures = 0;
                sender.send_replace(PollState::Seen(Arc::new(poll)));
                interval
            }
            Err(error) => {
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

async fn poll(asker: &mut Asker, tables: &[CaptureInstance], number: u64) -> Result<Poll, SourceError> {
    let asked = Instant::now();
    let rows = asker
        .query(
            "SELECT m.max_lsn, sys.fn_cdc_map_lsn_to_time(m.max_lsn), DATEPART(TZOFFSET, SYSDATETIMEOFFSET()) \
             FROM (SELECT sys.fn_cdc_get_max_lsn() AS max_lsn) AS m",
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
    let offset_minutes: i32 = row.try_get(2).map_err(|e| ask::unexpected(e, DOING))?.unwrap_or(0);
    let mut seen = HashMap::with_capacity(tables.len());
    for group in tables.chunks(TABLES_PER_STATEMENT) {
        match ask_group(asker, group, offset_minutes).await {
            Ok(answers) => seen.extend(answers),
            // One table without a grant fails the statement for all: ask each alone.
            Err(error) if error.kind() == ErrorKind::Config => {
                for table in group {
                    match ask_group(asker, std::slice::from_ref(table), offset_minutes).await {
                        Ok(answers) => seen.extend(answers),
                        Err(error) if error.kind() == ErrorKind::Config => {
                            seen.insert(table.clone(), TablePoll::Failed(Arc::new(error)));
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Poll {
        number,
        max: Offset {
            lsn: max_lsn,
            commit_ts: UtcMicros(local - i64::from(offset_minutes) * 60_000_000),
        },
        offset_minutes,
        rtt_ms,
        tables: seen,
    })
}

async fn ask_group(
    asker: &mut Asker,
    tables: &[CaptureInstance],
    offset_minutes: i32,
) -> Result<Vec<(CaptureInstance, TablePoll)>, SourceError> {
    let mut sql = String::new();
    for (i, table) in tables.iter().enumerate() {
        let name = quote::literal(&table.0);
        let change_table = quote::change_table(&table.0);
        let separator = if i == 0 { "" } else { " UNION ALL " };
        // Writing to a String cannot fail.
        let _ = write!(
            sql,
            "{separator}SELECT {i}, sys.fn_cdc_get_min_lsn({name}), \
             sys.fn_cdc_map_lsn_to_time(sys.fn_cdc_get_min_lsn({name})), \
             (SELECT MAX([__$start_lsn]) FROM {change_table})"
        );
    }
    asker
        .batch(&sql, DOING)
        .await?
        .iter()
        .flatten()
        .map(|row| {
            let index: Option<i32> = row.try_get(0).map_err(|e| ask::unexpected(e, DOING))?;
            let table = index
                .and_then(|i| usize::try_from(i).ok())
                .and_then(|i| tables.get(i))
                .ok_or_else(|| SourceError::Unexpected {
                    doing: DOING.to_owned(),
                    reason: "a row about no table".to_owned(),
                })?;
            Ok((
                table.clone(),
                TablePoll::Ready {
                    min_lsn: ask::lsn(row, 1, DOING)?.filter(|lsn| !lsn.is_zero()),
                    min_commit_ts: ask::local_micros(row, 2, DOING)?
                        .map(|local| UtcMicros(local - i64::from(offset_minutes) * 60_000_000)),
                    last_lsn: ask::lsn(row, 3, DOING)?,
                },
            ))
        })
        .collect()
}
