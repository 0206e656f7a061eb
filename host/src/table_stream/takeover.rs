//! Whose the stream is: waiting for the owner before to be gone, taking the stream over from it, and what this process says
//! when the stream was taken from it. `docs/decisions/0009` has the argument.

use std::sync::Arc;

use crate::checkpoint::{
    BEFORE_THE_FIRST, CLOSED, CLOSED_DETAIL, Checkpoint, CheckpointError, CheckpointReader, CheckpointState,
    CommitRecord, FORMAT, HostWatcher, LeaseState, Outcome, Owner, ProcessLease, Resume, StreamIdentity, others,
    owner_unknown, reconcile,
};
use crate::config::{OwnershipSettings, TableSettings};
use crate::error::{Classify as _, ErrorKind};
use crate::facts::FactsRow;
use crate::identity::BatchId;
use crate::lake::{BronzeTable, LakeError};
use crate::lsn::{Offset, UtcMicros};
use crate::quarantine::AttemptAt;
use crate::report::Event;

use super::committed;
use super::lost_plan::LostPlan;
use super::open::{OpenTable, blocking};
use super::position::FirstChange;
use super::quarantine::Quarantine;
use super::{Shared, StreamError};

/// How often a claim is tried again because the owner before committed a batch meanwhile.
const MOVES: u32 = 3;

/// What a process has that runs its streams under a lease.
#[derive(Debug)]
pub struct Hosts {
    /// Its own lease.
    pub lease: Arc<ProcessLease>,
    /// What it knows of those of others.
    pub watcher: HostWatcher,
    /// A table that another process runs is waited for.
    pub standby: bool,
}

impl Hosts {
    /// Takes a lease, where the settings say so.
    pub async fn start(settings: &OwnershipSettings) -> Result<Option<Hosts>, CheckpointError> {
        let OwnershipSettings::Lease { hosts, lease, standby } = settings.clone() else {
            return Ok(None);
        };
        let lease = tokio::task::spawn_blocking(move || ProcessLease::start(&hosts, lease))
            .await
            .map_err(|_| LakeError::Internal("the task that takes the lease ended abruptly".to_owned()))??;
        Ok(Some(Hosts {
            lease: Arc::new(lease),
            watcher: HostWatcher::default(),
            standby,
        }))
    }
}

/// Waits as long as another process runs the table, where this one stands by. Whether it had to wait: what limits how many tables
/// are opened at a time is not held meanwhile.
pub(super) async fn stand_by(
    shared: &Shared,
    settings: &TableSettings,
    mut not_now: impl FnMut(),
) -> Result<(), StreamError> {
    let Some(hosts) = shared.hosts.as_ref().filter(|hosts| hosts.standby && !shared.once) else {
        return Ok(());
    };
    let mut told: Option<String> = None;
    loop {
        let (place, folder) = (settings.checkpoint.clone(), hosts.lease.hosts().clone());
        let looked = blocking(move || {
            let reader = CheckpointReader::new(&place).with_hosts(Some(&folder));
            match reader.owner()? {
                Some(owner) => Ok(reader.lease_of(&owner)?.map(|lease| (owner, lease))),
                None => Ok(None),
            }
        })
        .await;
        // What cannot be read is for the opening to say.
        let Ok(Some((owner, (folder, LeaseState::Held(lease))))) = looked else {
            return Ok(());
        };
        if lease.id == hosts.lease.id() {
            return Ok(());
        }
        not_now();
        shared.board.stands_by(&settings.capture_instance);
        if told.as_deref() != Some(&lease.id) {
            told = Some(lease.id.clone());
            shared.tell(Event::Warning {
                capture_instance: settings.capture_instance.clone(),
                message: format!("owned by {owner}: standing by, to take it over when that process is gone"),
            });
        }
        let outcome = tokio::select! {
            outcome = hosts.watcher.watch(&folder, &lease.id) => outcome?,
            () = shared.stop.cancelled() => return Err(StreamError::Stopped),
        };
        if !matches!(outcome, Outcome::Renewed(_)) {
            return Ok(());
        }
        // One look a lease: that is how long the next take-over takes at least.
        tokio::select! {
            () = tokio::time::sleep(lease.duration()) => {}
            () = shared.stop.cancelled() => return Err(StreamError::Stopped),
        }
    }
}

/// Takes the checkpoint for this process. Under a lease this can take as long as a lease of the owner before.
pub(super) async fn take(
    shared: &Shared,
    settings: &TableSettings,
    identity: StreamIdentity,
) -> Result<Checkpoint, StreamError> {
    let location = settings.checkpoint.clone();
    let Some(hosts) = &shared.hosts else {
        return blocking(move || Checkpoint::open(&location, &identity)).await;
    };
    loop {
        let (place, wanted) = (location.clone(), identity.clone());
        let folder = hosts.lease.hosts().clone();
        let (reader, owner, is_lost) = blocking(move || {
            let reader = CheckpointReader::new(&place).with_hosts(Some(&folder));
            reader.expect(&wanted)?;
            let owner = reader.owner()?;
            let is_lost = owner.is_none() && reader.has_batches()?;
            Ok((reader, owner, is_lost))
        })
        .await?;
        let may_wake = match &owner {
            Some(owner) => expect_over(shared, hosts, settings, reader, owner).await?,
            None if is_lost => expect_all_over(shared, hosts, settings, reader).await?,
            None => false,
        };
        let (place, wanted, lease) = (location.clone(), identity.clone(), Arc::clone(&hosts.lease));
        let taken =
            blocking(move || Checkpoint::open_leased(&place, &wanted, &lease, owner.as_ref(), may_wake)).await?;
        // Otherwise another process was quicker; it is the owner to look at now.
        if let Some(checkpoint) = taken {
            return Ok(checkpoint);
        }
    }
}

/// The owner's hold on the stream has to be over. Whether its process may wake up.
async fn expect_over(
    shared: &Shared,
    hosts: &Hosts,
    settings: &TableSettings,
    reader: CheckpointReader,
    owner: &Owner,
) -> Result<bool, StreamError> {
    if owner.lease.as_deref() == Some(hosts.lease.id()) {
        // An earlier try of this process to open the stream, with which it settles like with any other.
        return Ok(false);
    }
    let whose = owner.clone();
    let place = reader.root().display().to_string();
    let looked = blocking(move || reader.lease_of(&whose)).await?;
    let (folder, lease) = match looked {
        // The lock says whether an owner without a lease runs.
        None | Some((_, LeaseState::Missing | LeaseState::Dead(_))) => return Ok(false),
        Some((_, LeaseState::Ended(_))) => return Ok(true),
        Some((folder, LeaseState::Held(lease))) => (folder, lease),
    };
    shared.tell(Event::Warning {
        capture_instance: settings.capture_instance.clone(),
        message: format!(
            "owned by {owner}: waiting to see whether its lease is renewed; if it is not, it is taken over in at most {:?} \
             ({})",
            lease.duration(),
            folder.join(&format!("{}.json", lease.id))
        ),
    });
    let outcome = tokio::select! {
        outcome = hosts.watcher.watch(&folder, &lease.id) => outcome?,
        () = shared.stop.cancelled() => return Err(StreamError::Stopped),
    };
    match outcome {
        Outcome::Gone => Ok(false),
        Outcome::RanOut(_) => Ok(true),
        Outcome::Renewed(lease) => Err(CheckpointError::LeaseHeld {
            place,
            owner: owner.to_string(),
            file: folder.join(&format!("{}.json", lease.id)),
        }
        .into()),
    }
}

/// `owner.json` is lost, and each process that has a lease may be the one that it named: all of them have to be over. Whether
/// one of them may wake up.
async fn expect_all_over(
    shared: &Shared,
    hosts: &Hosts,
    settings: &TableSettings,
    reader: CheckpointReader,
) -> Result<bool, StreamError> {
    let (folder, own) = (hosts.lease.hosts().clone(), hosts.lease.id().to_owned());
    let others = blocking(move || others(&folder, Some(&own))).await?;
    let folder = hosts.lease.hosts();
    let mut may_wake = false;
    let mut held = Vec::new();
    for state in others {
        match state {
            LeaseState::Held(lease) => held.push(lease),
            LeaseState::Ended(_) => may_wake = true,
            LeaseState::Missing | LeaseState::Dead(_) => {}
        }
    }
    if !held.is_empty() {
        shared.tell(Event::Warning {
            capture_instance: settings.capture_instance.clone(),
            message: format!(
                "the checkpoint does not say who ran this table: waiting to see which of {} leases in {} are renewed",
                held.len(),
                folder.display()
            ),
        });
    }
    let watched = futures::future::join_all(held.iter().map(|lease| hosts.watcher.watch(folder, &lease.id)));
    let outcomes = tokio::select! {
        outcomes = watched => outcomes,
        () = shared.stop.cancelled() => return Err(StreamError::Stopped),
    };
    let mut alive = Vec::new();
    for outcome in outcomes {
        match outcome? {
            Outcome::Gone => {}
            Outcome::RanOut(_) => may_wake = true,
            Outcome::Renewed(lease) => alive.push(LeaseState::Held(lease)),
        }
    }
    match alive.is_empty() {
        true => Ok(may_wake),
        false => Err(owner_unknown(&reader, folder, &alive).into()),
    }
}

/// Takes the stream over from owners that may still write: their number in bronze is overtaken first, then checkpoint and
/// bronze are read, and a batch that is open then and that bronze lacks is closed. Until all that is done, and quarantine is
/// settled as well, `owner.json` says that it is to be done.
pub(super) async fn settle(
    shared: &Shared,
    settings: &TableSettings,
    bronze: &BronzeTable,
    checkpoint: &Checkpoint,
    facts: Option<BatchId>,
) -> Result<(CheckpointState, Resume), StreamError> {
    let mut moves = 0;
    loop {
        // Nobody is fenced off for a checkpoint that cannot go on. Until the claim the owner before may write, and what is
        // read one after the other need not fit.
        let fits = async {
            let (state, resume) = compare(checkpoint, bronze, facts).await?;
            committed::expect_same(bronze, &state, &resume).await
        };
        match fits.await {
            Err(error) if error.kind() == ErrorKind::State && moves < MOVES => {
                moves += 1;
                continue;
            }
            fits => fits?,
        }
        match bronze.claim(checkpoint.fencing()).await {
            Err(LakeError::Moved { .. }) if moves < MOVES => moves += 1,
            claimed => {
                claimed?;
                break;
            }
        }
    }
    let (mut state, mut resume) = compare(checkpoint, bronze, facts).await?;
    // One after the other: an owner before that lives may have ended one and planned the next.
    while let Resume::Replay {
        planned,
        already_in_bronze: false,
    } = &resume
    {
        let closing = Closing {
            batch: planned.batch_id,
            start: planned.start,
            what: "was planned and is not in bronze",
            state: &state,
        };
        close(shared, settings, bronze, checkpoint, closing).await?;
        (state, resume) = compare(checkpoint, bronze, facts).await?;
    }
    Ok((state, resume))
}

/// Settles with what is in quarantine, where this process's number is by now if there is anybody to settle with. Where the stream
/// is after that, and the attempt that the next batch has to be planned as, if its plan is lost.
pub(super) async fn settle_quarantine(
    shared: &Shared,
    settings: &TableSettings,
    bronze: &BronzeTable,
    quarantine: &mut Quarantine,
    checkpoint: &Checkpoint,
    (mut state, mut resume): (CheckpointState, Resume),
    facts: Option<BatchId>,
) -> Result<(CheckpointState, Resume, Option<AttemptAt>), StreamError> {
    loop {
        match quarantine.settle(checkpoint, &resume).await? {
            None => return Ok((state, resume, None)),
            Some(LostPlan::Anew(attempt)) => {
                // As before every attempt that is not the first.
                bronze.claim(checkpoint.fencing()).await?;
                return Ok((state, resume, Some(attempt)));
            }
            Some(LostPlan::Closed(batch)) => {
                let closing = Closing {
                    batch,
                    start: state.last_committed.as_ref().and_then(CommitRecord::position),
                    what: "left rows in quarantine without a plan",
                    state: &state,
                };
                close(shared, settings, bronze, checkpoint, closing).await?;
                (state, resume) = compare(checkpoint, bronze, facts).await?;
            }
        }
    }
}

/// There is nobody any more to settle with.
pub(super) async fn settled(mut checkpoint: Checkpoint) -> Result<Checkpoint, StreamError> {
    blocking(move || checkpoint.settled().map(|()| checkpoint)).await
}

/// A batch that bronze lacks and that an owner before may still end.
struct Closing<'a> {
    batch: BatchId,
    /// Where the stream was before it.
    start: Option<Offset>,
    /// What is known of it.
    what: &'static str,
    state: &'a CheckpointState,
}

/// Closes a batch without rows, unless it was recorded meanwhile.
async fn close(
    shared: &Shared,
    settings: &TableSettings,
    bronze: &BronzeTable,
    checkpoint: &Checkpoint,
    closing: Closing<'_>,
) -> Result<(), StreamError> {
    // Only what was planned under a lower number may be closed, because only its planner can no longer commit. This
    // process may itself have slept since its claim, and the plan, or the rows in quarantine, be its successor's.
    bronze.check_owner(checkpoint.fencing()).await?;
    let from: Vec<String> = checkpoint.unsettled().iter().map(ToString::to_string).collect();
    let from = from.join(", and ");
    let record = closed(shared, settings, &closing, &from);
    let message = format!(
        "taken over from {from}: batch {} {}, and is closed without rows; the next batch reads the same range",
        closing.batch, closing.what
    );
    let checkpoint = checkpoint.clone();
    if blocking(move || checkpoint.close(&record)).await? {
        shared.tell(Event::Warning {
            capture_instance: settings.capture_instance.clone(),
            message,
        });
    }
    Ok(())
}

/// The first change of the next batch, where the plan of a batch that was closed found it: it has to be there still.
pub(super) async fn first_change(
    checkpoint: &Checkpoint,
    last: Option<&CommitRecord>,
) -> Result<Option<FirstChange>, StreamError> {
    let Some(last) = last.cloned() else {
        return Ok(None);
    };
    let checkpoint = checkpoint.clone();
    let closed = blocking(move || checkpoint.reader().closed_plan(&last)).await?;
    Ok(closed.as_ref().and_then(FirstChange::of))
}

async fn compare(
    checkpoint: &Checkpoint,
    bronze: &BronzeTable,
    facts: Option<BatchId>,
) -> Result<(CheckpointState, Resume), StreamError> {
    let reading = checkpoint.clone();
    let compared = async {
        let state = blocking(move || reading.latest()).await?;
        let resume = reconcile(&state, bronze.last_batch().await?, facts)?;
        Ok((state, resume))
    };
    match compared.await {
        // What does not fit may be the successor's of a process that slept, and `owner.json` need not name it. Its claim was
        // there before all else.
        Err(error) if StreamError::kind(&error) == ErrorKind::State => {
            match bronze.check_owner(checkpoint.fencing()).await {
                Err(fenced @ LakeError::Fenced { .. }) => Err(fenced.into()),
                _ => Err(error),
            }
        }
        compared => compared,
    }
}

/// The record of a batch that is not read: the stream is after it where it was before it. Everything that only a batch that
/// ran can change stays as it was, its chain too.
fn closed(shared: &Shared, settings: &TableSettings, closing: &Closing<'_>, from: &str) -> CommitRecord {
    let Closing {
        batch, start, state, ..
    } = *closing;
    let last = state.last_committed.as_ref();
    let now = UtcMicros::now();
    let facts = FactsRow {
        app_id: settings.app_id.0.clone(),
        batch_id: Some(batch.0),
        rows: Some(0),
        deletes: Some(0),
        inserts: Some(0),
        updates: Some(0),
        started_at: Some(now),
        duration_ms: Some(0),
        end_lsn: start.map(|start| start.lsn),
        end_commit_ts: start.map(|start| start.commit_ts),
        detail: Some(format!("{CLOSED_DETAIL}taken over from {from}")),
        target: Some(settings.target.display().to_string()),
        transform: last.and_then(|record| record.facts.transform.clone()),
        rows_quarantined: Some(0),
        rows_filtered: Some(0),
        host: Some(shared.host.clone()),
        ..FactsRow::default()
    };
    CommitRecord {
        format: FORMAT,
        batch_id: batch,
        attempt: CLOSED,
        delta_version: None,
        last_with_rows: state.last_with_rows,
        end: start.unwrap_or(BEFORE_THE_FIRST),
        chain: last.map(|record| record.chain.clone()).unwrap_or_default(),
        last_event: last.and_then(|record| record.last_event),
        events: Vec::new(),
        source: last.and_then(|record| record.source.clone()),
        in_quarantine: last.and_then(CommitRecord::quarantined),
        facts,
        committed_at: now,
    }
}

/// The end of a stream, told as what it is when another process has the stream now, or is free to take it.
pub(super) async fn ended(checkpoint: &Checkpoint, streamed: Result<(), StreamError>) -> Result<(), StreamError> {
    match streamed {
        Ok(()) if checkpoint.is_leased() => {
            let holding = checkpoint.clone();
            match blocking(move || holding.check_lease()).await {
                Ok(()) => Ok(()),
                Err(error) => Err(told(checkpoint, error).await),
            }
        }
        Ok(()) => Ok(()),
        Err(error) => Err(told(checkpoint, error).await),
    }
}

/// An error of a process under a lease that may have slept: what it finds then are its successor's files and tables.
pub(super) async fn told(checkpoint: &Checkpoint, error: StreamError) -> StreamError {
    if !checkpoint.is_leased() {
        return error;
    }
    let refused = matches!(
        &error,
        StreamError::Lake(LakeError::Fenced { .. } | LakeError::Moved { .. })
            | StreamError::Checkpoint(CheckpointError::Conflict { .. } | CheckpointError::TakenOver { .. })
    );
    let (checkpoint, fencing) = (checkpoint.clone(), checkpoint.fencing());
    // Whatever ended the stream: a process that lost it says nothing about the table. Where `owner.json` cannot be read,
    // the error at hand says enough.
    match blocking(move || checkpoint.successor()).await {
        // Of two that counted to one number, bronze refused one.
        Ok(Some(owner)) if owner.fencing > fencing || refused => StreamError::TakenOver {
            by: owner.to_string(),
            at_once: owner.fencing <= fencing,
            error: Box::new(error),
        },
        _ => error,
    }
}

/// This process may go on with its streams: under a lease, as long as it is its own.
pub(super) async fn expect_own_lease(shared: &Shared) -> Result<(), StreamError> {
    let Some(hosts) = &shared.hosts else {
        return Ok(());
    };
    let lease = Arc::clone(&hosts.lease);
    blocking(move || lease.check().map_err(CheckpointError::LeaseLost)).await
}

impl OpenTable {
    /// Under a lease, another process may have taken the stream over. For what is written before the fence is compared
    /// anyway.
    pub(super) async fn expect_not_taken_over(&self) -> Result<(), StreamError> {
        if !self.checkpoint.is_leased() {
            return Ok(());
        }
        let fencing = self.checkpoint.fencing();
        self.retried(|| async { Ok(self.bronze.check_owner(fencing).await?) })
            .await
    }
}
