//! One table: plan → read → transform → commit → facts → verdict, batch after batch. This is the only place that knows
//! the source, the transforms and the lake.
//!
//! What makes a crash harmless, step by step:
//! * `offsets/<n>` is written before anything is read, and pins what the result depends on;
//! * staged files are nothing until the one Delta commit names them, together with `txn(app_id, n)`;
//! * `commits/<n>` holds the whole facts row, so facts can be written again from it;
//! * the verdict moves after the facts, and only forward.
//!
//! So each later step is redone from the one before it, and a batch that bronze already has is never written again.

mod batch_run;
mod committed;
mod course;
mod error;
mod idle;
mod kept;
mod omitted;
mod open;
mod position;
mod publish;
mod record;
mod replaced;
mod retrying;
mod standing;
mod takeover;
mod tally;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::config::{Limits, TableSettings, Trigger};
use crate::error::{Classify, chain};
use crate::facts::{FactsTable, FactsWriter};
use crate::lsn::Offset;
use crate::report::{Event, TableSummary};
use crate::retry;
use crate::source::{AskPool, Catalog, Poll, PollState, Poller, StreamPool};
use crate::transform::{Engine, KeyRing};
use crate::verdict::VerdictWriter;

pub(crate) use course::{Course, plugin_name};
pub use error::StreamError;
use open::OpenTable;
pub(crate) use open::specs;
use position::Next;
pub(crate) use standing::{Open, Standing, standing};
pub use takeover::Hosts;

/// What all streams of a process share.
pub struct Shared {
    /// Components.
    pub engine: Arc<Engine>,
    /// Keys, which stay in the host.
    pub keys: KeyRing,
    /// Connections for questions.
    pub asks: AskPool,
    /// Connections for rows.
    pub pool: StreamPool,
    /// The database, as it was at the start.
    pub catalog: Catalog,
    /// Who moved.
    pub poller: Poller,
    /// Facts tables by location.
    pub facts: BTreeMap<PathBuf, FactsHub>,
    /// Control tables by location.
    pub verdicts: BTreeMap<PathBuf, VerdictWriter>,
    /// Bounds of the process.
    pub limits: Limits,
    /// Where events go.
    pub events: mpsc::UnboundedSender<Event>,
    /// Asks every stream to end.
    pub stop: CancellationToken,
    /// Streams end when they have caught up.
    pub once: bool,
    /// What this process calls itself.
    pub host: String,
    /// Its lease, where streams are owned by leases.
    pub hosts: Option<Hosts>,
}

impl Shared {
    /// Tells an event, if anybody listens.
    pub(crate) fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }
}

/// Runs one table's stream to its end: stopped, caught up, or failed.
pub async fn run_table(shared: Arc<Shared>, settings: TableSettings) -> Result<TableSummary, StreamError> {
    let mut failures = 0;
    let mut table = loop {
        match OpenTable::open(&shared, &settings).await {
            Ok(table) => break table,
            Err(error) => {
                let error = match shared.pause(&settings.capture_instance, error, &mut failures).await {
                    Ok(()) => continue,
                    // All streams are also asked to stop when this process loses its lease.
                    Err(StreamError::Stopped) => match takeover::expect_own_lease(&shared).await {
                        Ok(()) => return Ok(open::summary(&settings, Vec::new())),
                        Err(lost) => lost,
                    },
                    Err(error) => error,
                };
                kept::tell(&shared, &settings, &error).await;
                return Err(error);
            }
        }
    };
    let streamed = match stream(&shared, &settings, &mut table).await {
        // What was begun is finished by the next run.
        Err(StreamError::Stopped) => Ok(()),
        streamed => streamed,
    };
    let streamed = takeover::ended(&table.checkpoint, streamed).await;
    if let Err(error) = &streamed {
        kept::tell(&shared, &settings, error).await;
        // How the table does is for the process to say that has it now.
        if !matches!(error, StreamError::TakenOver { .. }) {
            table.tell_failed().await;
        }
    }
    // Whatever ended the stream, what is committed gets its facts and its verdict.
    let closed = table.close().await;
    streamed?;
    closed
}

async fn stream(shared: &Arc<Shared>, settings: &TableSettings, table: &mut OpenTable) -> Result<(), StreamError> {
    table.begin().await?;
    table.finish_open_batch().await?;
    let _registration = shared.poller.register(table.instance().clone());
    let once = shared.once || settings.trigger == Trigger::AvailableNow;
    let mut polls = shared.poller.subscribe();
    let mut seen = 0;
    let mut target: Option<Offset> = None;
    let mut unreached = None;
    'polls: loop {
        let Some(poll) = next_poll(shared, table, &mut polls, &mut seen).await? else {
            return table.rest().await;
        };
        table.saw(&poll);
        // A table that capture has not reached may begin after this poll: where to end is not known yet.
        if once && target.is_none() && table.is_reached(&poll) {
            target = Some(poll.max);
        }
        let max = match target {
            Some(target) if target.lsn < poll.max.lsn => target,
            _ => poll.max,
        };
        while !shared.stop.is_cancelled() {
            match table.next(&poll, max)? {
                Next::Nothing => break,
                Next::NotReached => {
                    table.wait_for_capture(&mut unreached, once).await?;
                    continue 'polls;
                }
                Next::Idle(offset) => table.advance_idle(offset),
                Next::Range { from } => table.run_range(from, max, &poll).await?,
            }
        }
        unreached = None;
        // Without a position, the table's first commit is after the target.
        let is_there = |target: Offset| table.position().is_none_or(|position| position.lsn >= target.lsn);
        if shared.stop.is_cancelled() || target.is_some_and(is_there) {
            return table.rest().await;
        }
        table.settle(&poll).await?;
        if let Trigger::Every(interval) = settings.trigger
            && !once
        {
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = shared.stop.cancelled() => {}
            }
        }
    }
}

/// The next poll that knows this table; `None` when the stream is to end.
async fn next_poll(
    shared: &Shared,
    table: &OpenTable,
    polls: &mut watch::Receiver<PollState>,
    seen: &mut u64,
) -> Result<Option<Arc<Poll>>, StreamError> {
    loop {
        if shared.stop.is_cancelled() {
            return Ok(None);
        }
        let state = polls.borrow_and_update().clone();
        match state {
            PollState::Seen(poll) if poll.number > *seen && poll.table(table.instance()).is_some() => {
                *seen = poll.number;
                return Ok(Some(poll));
            }
            PollState::Failing(error, failures) => match retry::pause(error.kind(), failures) {
                Some(pause) => table.tell_retrying(&chain(error.as_ref()), failures, pause),
                None => return Err(error.into()),
            },
            PollState::Seen(_) | PollState::Waiting => {}
        }
        tokio::select! {
            changed = polls.changed() => {
                if changed.is_err() {
                    return Ok(None);
                }
            }
            () = shared.stop.cancelled() => return Ok(None),
        }
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Shared {
    /// The facts table of a table's settings: `start_many` opened one for each location.
    pub(crate) fn facts_of(&self, settings: &TableSettings) -> Result<&FactsHub, StreamError> {
        self.facts.get(&settings.facts_table).ok_or(StreamError::Task {
            doing: "looking for its facts table",
        })
    }

    /// The control table of a table's settings.
    pub(crate) fn verdicts_of(&self, settings: &TableSettings) -> Result<&VerdictWriter, StreamError> {
        self.verdicts.get(&settings.control_table).ok_or(StreamError::Task {
            doing: "looking for its control table",
        })
    }
}

/// A facts table and the task that writes to it.
pub struct FactsHub {
    /// The table.
    pub table: FactsTable,
    /// Its writer.
    pub writer: FactsWriter,
}
