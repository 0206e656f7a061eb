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
mod bounds;
mod committed;
mod compacting;
mod course;
mod described;
mod error;
mod idle;
mod kept;
mod lost_plan;
mod omitted;
mod open;
mod position;
mod publish;
mod quarantine;
mod quarantine_kept;
mod record;
mod reload;
mod replaced;
mod retry_quarantined;
mod retrying;
mod schema;
mod skip;
mod staging;
mod stall;
mod standing;
mod status;
mod takeover;
mod tally;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::board::Board;
use crate::config::{Limits, MaintenanceSettings, TableSettings, Trigger};
use crate::error::{Classify, chain};
use crate::facts::{FactsTable, FactsWriter};
use crate::identity::{BatchId, CaptureInstance};
use crate::lsn::Offset;
use crate::report::{Event, TableSummary};
use crate::retry;
use crate::scheduler::{Scheduler, Share};
use crate::source::{
    AskPool, Catalog, LONGEST_POLL_PAUSE, Poll, PollState, Poller, Registration, SourceError, StreamPool,
};
use crate::storage::Place;
use crate::transform::{Engine, KeyRing};
use crate::verdict::VerdictWriter;

pub(crate) use course::Course;
pub(crate) use described::plugin_name;
pub use error::StreamError;
use open::OpenTable;
pub(crate) use open::{recorded_position, specs};
use position::Next;
pub(crate) use quarantine_kept::{expect_kept, recorded_in_quarantine};
pub(crate) use standing::{Open, Standing, standing};
pub use takeover::Hosts;

/// What all streams of a process share.
pub struct Shared {
    /// Components.
    pub engine: Arc<Engine>,
    /// Keys, which stay in the host.
    pub keys: KeyRing,
    /// Who is next.
    pub scheduler: Scheduler,
    /// What each table gets of what they share.
    pub shares: BTreeMap<CaptureInstance, Share>,
    /// The place for a table that is being compacted.
    pub compacting: Semaphore,
    /// Places for tables that are being opened.
    pub opening: Arc<Semaphore>,
    /// Connections for questions.
    pub asks: AskPool,
    /// Connections for rows.
    pub pool: StreamPool,
    /// The database, as it was at the start.
    pub catalog: Catalog,
    /// Who moved.
    pub poller: Poller,
    /// Facts tables by location.
    pub facts: BTreeMap<Place, FactsHub>,
    /// Control tables by location.
    pub verdicts: BTreeMap<Place, VerdictWriter>,
    /// Bounds of the process.
    pub limits: Limits,
    /// How each table does, for those who look.
    pub board: Board,
    /// What is done to tables beside writing them.
    pub maintenance: MaintenanceSettings,
    /// Where events go.
    pub events: mpsc::UnboundedSender<Event>,
    /// Asks every stream to end.
    pub stop: CancellationToken,
    /// Streams end when they have caught up.
    pub once: bool,
    /// What streams are opened for.
    pub purpose: Purpose,
    /// What this process calls itself.
    pub host: String,
    /// Its lease, where streams are owned by leases.
    pub hosts: Option<Hosts>,
}

/// What streams are opened for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To follow their tables.
    #[default]
    Follow,
    /// To read rows again that are in quarantine: of these batches, or of all when none is named.
    RetryQuarantined(Vec<BatchId>),
}

impl Shared {
    /// Tells an event, if anybody listens.
    pub(crate) fn tell(&self, event: Event) {
        self.board.note(&event);
        let _ = self.events.send(event);
    }
}

/// Runs one table's stream to its end: stopped, caught up, or failed. When the source table gets other instances or columns,
/// or a plugin another file that may take effect, the stream is opened again.
pub async fn run_table(
    shared: Arc<Shared>,
    settings: TableSettings,
    opened: Opened,
) -> Result<TableSummary, StreamError> {
    let mut first = Some(opened);
    let mut before: Option<TableSummary> = None;
    let mut reopened = Reopened::default();
    loop {
        let opened = open_table(&shared, &settings, &mut first).await;
        let mut table = match opened? {
            Some(table) => table,
            None => return Ok(before.unwrap_or_else(|| open::summary(&settings, Vec::new()))),
        };
        if let Some(before) = before.take() {
            table.summary.add(&before);
        }
        let streamed = match stream(&shared, &settings, &mut table).await {
            // What was begun is finished by the next run.
            Err(StreamError::Stopped) => Ok(()),
            Err(changed @ (StreamError::TableChanged | StreamError::PluginsChanged { .. }))
                if reopened.once_more(table.next_batch) =>
            {
                shared.tell(Event::Warning {
                    capture_instance: settings.capture_instance.clone(),
                    message: match changed {
                        StreamError::PluginsChanged { what } => {
                            format!("{what}; the stream is opened again with what is there now")
                        }
                        _ => "the source table has other capture instances or columns now; its stream is opened again"
                            .to_owned(),
                    },
                });
                before = Some(table.close().await?);
                continue;
            }
            streamed => streamed,
        };
        let streamed = takeover::ended(&table.checkpoint, streamed).await;
        if let Err(error) = &streamed {
            kept::tell(&shared, &settings, error).await;
            // How the table does is for the process to say that has it now.
            if !matches!(error, StreamError::TakenOver { .. }) {
                table.tell_failed(error).await;
            }
        }
        // Whatever ended the stream, what is committed gets its facts and its verdict.
        let closed = table.close().await;
        streamed?;
        return closed;
    }
}

/// Whom to tell how the first opening of a stream goes: once that it is over, so that others may be opened, and that it
/// succeeded if it ever does.
pub struct Opened {
    place: Option<OwnedSemaphorePermit>,
    tell: Box<dyn FnOnce() + Send>,
}

impl Opened {
    /// The place among those that are opened, which is free again when the first attempt is over.
    pub fn new(place: OwnedSemaphorePermit, tell: impl FnOnce() + Send + 'static) -> Opened {
        Opened {
            place: Some(place),
            tell: Box::new(tell),
        }
    }

    fn failed(&mut self) {
        self.place = None;
    }

    fn succeeded(self) {
        drop(self.place);
        (self.tell)();
    }
}

/// How often a stream was opened again without a batch between: a table cannot change for ever.
#[derive(Default)]
struct Reopened {
    at: Option<BatchId>,
    times: u32,
}

impl Reopened {
    const MOST: u32 = 5;

    fn once_more(&mut self, next: BatchId) -> bool {
        if self.at != Some(next) {
            *self = Reopened {
                at: Some(next),
                times: 0,
            };
        }
        self.times += 1;
        self.times <= Reopened::MOST
    }
}

/// Opens a table; `None` when the stream was asked to end meanwhile.
async fn open_table(
    shared: &Arc<Shared>,
    settings: &TableSettings,
    first: &mut Option<Opened>,
) -> Result<Option<OpenTable>, StreamError> {
    let mut failures = 0;
    loop {
        let mut waited = false;
        let standing_by = takeover::stand_by(shared, settings, || {
            waited = true;
            // It has started, for whoever waits for that.
            if let Some(opened) = first.take() {
                opened.succeeded();
            }
        });
        let stood_by = standing_by.await;
        // After the process that ran them, many may be opened.
        let place = match waited {
            true => shared.opening.acquire().await.ok(),
            false => None,
        };
        let opened = match stood_by {
            Ok(()) => OpenTable::open(shared, settings).await,
            Err(error) => Err(error),
        };
        drop(place);
        let error = match opened {
            Ok(table) => {
                if let Some(opened) = first.take() {
                    opened.succeeded();
                }
                return Ok(Some(table));
            }
            Err(error) => error,
        };
        // Another process was quicker.
        if shared.stands_by() && matches!(&error, StreamError::Checkpoint(held) if held.is_held()) {
            continue;
        }
        // Others need not wait for one that is tried again.
        if let Some(opened) = first {
            opened.failed();
        }
        let error = match shared.pause(&settings.capture_instance, error, &mut failures).await {
            Ok(()) => continue,
            // All streams are also asked to stop when this process loses its lease.
            Err(StreamError::Stopped) => match takeover::expect_own_lease(shared).await {
                Ok(()) => return Ok(None),
                Err(lost) => lost,
            },
            Err(error) => error,
        };
        kept::tell(shared, settings, &error).await;
        status::tell_unopened(shared, settings, &error).await;
        return Err(error);
    }
}

async fn stream(shared: &Arc<Shared>, settings: &TableSettings, table: &mut OpenTable) -> Result<(), StreamError> {
    table.begin().await?;
    let _registrations: Vec<Registration> = table
        .source
        .instances
        .iter()
        .map(|instance| shared.poller.register(instance.name.clone()))
        .collect();
    let once = shared.once || settings.trigger == Trigger::AvailableNow;
    let mut polls = shared.poller.subscribe();
    // One from before the stream began says nothing of where the source is now.
    let mut seen = shared.poller.newest();
    let mut target: Option<Offset> = None;
    let mut unreached = None;
    if let Err(error) = table.finish_open_batch().await {
        let error = table.explained(error).await;
        let Some(poll) = next_poll(shared, table, &mut polls, &mut seen, once).await? else {
            return Err(error);
        };
        table.skip_loss(error, &poll).await?;
    }
    'polls: loop {
        let Some(poll) = next_poll(shared, table, &mut polls, &mut seen, once).await? else {
            return table.rest().await;
        };
        table.saw(&poll);
        table.heed_listing(&poll).await?;
        if let Purpose::RetryQuarantined(batches) = &shared.purpose {
            table.retry_quarantined(batches, &poll).await?;
            return table.rest().await;
        }
        // A table that capture has not reached may begin after this poll: where to end is not known yet.
        if once && target.is_none() && table.is_reached(&poll) {
            target = Some(poll.max);
        }
        let max = match target {
            Some(target) if target.lsn < poll.max.lsn => target,
            _ => poll.max,
        };
        // The next poll answers what this stream asked: it is not slept through.
        let mut awaits = false;
        while !shared.stop.is_cancelled() {
            let step = match table.next(&poll, max) {
                Ok(Next::Nothing) => break,
                Ok(Next::NotReached) => {
                    table.wait_for_capture(&mut unreached, once).await?;
                    continue 'polls;
                }
                Ok(Next::Unconfirmed(up_to)) => {
                    let asked = table.confirm(up_to, once);
                    // Where to end is not known before that.
                    if once {
                        continue 'polls;
                    }
                    awaits = asked;
                    break;
                }
                Ok(Next::Idle(offset)) => {
                    table.advance_idle(offset);
                    Ok(())
                }
                Ok(Next::Begin(offset)) => table.begin_at(offset, &poll).await,
                Ok(Next::Range { from }) => table.run_range(from, max, &poll).await,
                Err(error) => Err(error),
            };
            if let Err(error) = step {
                if table.is_false_alarm(&error).await? {
                    continue;
                }
                let error = table.explained(error).await;
                table.skip_loss(error, &poll).await?;
            }
        }
        unreached = None;
        table.tell_progress(&poll);
        // Without a position, the table's first commit is after the target.
        let is_there = |target: Offset| table.position().is_none_or(|position| position.lsn >= target.lsn);
        if shared.stop.is_cancelled() || target.is_some_and(is_there) {
            table.tell_stall(&poll).await?;
            return table.rest().await;
        }
        table.settle(&poll).await?;
        table.compact_when_due().await;
        if let Trigger::Every(interval) = settings.trigger
            && !once
            && !awaits
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
    once: bool,
) -> Result<Option<Arc<Poll>>, StreamError> {
    loop {
        if shared.stop.is_cancelled() {
            return Ok(None);
        }
        let state = polls.borrow_and_update().clone();
        match state {
            PollState::Seen(poll) if poll.number > *seen && table.is_in(&poll) => {
                *seen = poll.number;
                return Ok(Some(poll));
            }
            PollState::Failing(error, failures) => match retry::pause(error.kind(), failures) {
                Some(pause) => table.tell_retrying(&chain(error.as_ref()), failures, pause),
                // As with a table that capture has not reached: only a run that is to end does not wait for it.
                None if !once && matches!(*error, SourceError::NotCaptured { .. }) => {
                    table.tell_retrying(&chain(error.as_ref()), failures, LONGEST_POLL_PAUSE);
                }
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
    /// What a table gets of what all share.
    pub(crate) fn share_of(&self, settings: &TableSettings) -> Share {
        self.shares
            .get(&settings.capture_instance)
            .copied()
            .unwrap_or(Share::of(0))
    }

    /// Whether a table that another process runs is waited for.
    fn stands_by(&self) -> bool {
        !self.once && self.hosts.as_ref().is_some_and(|hosts| hosts.standby)
    }

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
