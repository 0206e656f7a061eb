//! Where a table stands by what earlier runs left, and whether it may go on from there. Nothing is written.

use crate::checkpoint::{CheckpointReader, CheckpointState, Resume, Running, Stopped, reconcile};
use crate::config::{OwnershipSettings, TableSettings};
use crate::identity::BatchId;
use crate::lake::BronzeTable;
use crate::lsn::Offset;
use crate::quarantine::{AttemptAt, QuarantineTable, location_of};
use crate::shape::TableShape;
use crate::source::TableSource;
use crate::transform::Chain;

use super::StreamError;
use super::course::{Course, Left, Ran, chain_changed, course};
use super::lost_plan::{self, LostPlan};
use super::open::{blocking, bronze_spec, identity};
use super::quarantine_kept::expect_kept;

/// What a run would go on from.
#[derive(Debug, PartialEq)]
pub(crate) struct Standing {
    /// The last batch that is done, and its end; `None` when the stream is still where it begins.
    pub(crate) last: Option<(BatchId, Option<Offset>)>,
    /// A batch that was begun and is not done, and what becomes of it.
    pub(crate) open: Option<(BatchId, Open)>,
    /// Why the last run stopped, and when.
    pub(crate) stopped: Option<Stopped>,
    /// The process that runs the table now.
    pub(crate) owner: Option<String>,
    /// Whether the bronze table is there.
    pub(crate) has_bronze: bool,
    /// That the next batch begins with another chain.
    pub(crate) chain_changed: Option<String>,
}

/// What becomes of a batch that was begun and is not done.
#[derive(Debug, PartialEq)]
pub(crate) enum Open {
    /// The process that runs the table is doing it.
    InHand,
    /// Bronze has its rows, so that only its record is missing: the next run writes it.
    Recorded,
    /// It is closed without rows, and the next batch reads its range: the rule under leases.
    Closed,
    /// It goes on.
    GoesOn(Course),
}

/// What is there at a moment.
struct Seen {
    state: CheckpointState,
    /// Why the last run stopped, if it did.
    stopped: Option<Stopped>,
    /// The newest batch of bronze, where the table is there.
    bronze: Option<Option<BatchId>>,
    /// The newest attempt that has put rows into quarantine by the records.
    in_quarantine: Option<AttemptAt>,
    /// The newest attempt that has rows in quarantine, where the table is there.
    quarantine: Option<Option<AttemptAt>>,
    /// The process that runs the table.
    owner: Option<String>,
    /// Whether a run settles with the owners before.
    settles: bool,
}

/// Reads a table's checkpoint, and the schema and the newest batch of its bronze table.
///
/// # Errors
/// What a run would stop at: a checkpoint of another stream, one that is damaged, a changed chain, a bronze table that
/// does not fit, or has other batches than the checkpoint says, a quarantine table that lacks rows.
pub(crate) async fn standing(
    settings: &TableSettings,
    ownership: &OwnershipSettings,
    database: &str,
    source: &TableSource,
    chain: &Chain,
) -> Result<Standing, StreamError> {
    let wanted = identity(settings, database, &source.shape);
    let location = settings.checkpoint.clone();
    let hosts = ownership.hosts().cloned();
    let reader = blocking(move || {
        let reader = CheckpointReader::new(&location).with_hosts(hosts.as_ref());
        reader.expect(&wanted)?;
        Ok(reader)
    })
    .await?;
    let mut seen = see(settings, &source.shape, chain, &reader).await?;
    // A look at the facts is the run's.
    let fits = |seen: &Seen| reconcile(&seen.state, seen.bronze.flatten(), None);
    let mut resume = fits(&seen);
    // What is read one after the other need not fit, if a process wrote meanwhile.
    if resume.is_err() && seen.owner.is_none() {
        seen = see(settings, &source.shape, chain, &reader).await?;
        resume = fits(&seen);
    }
    let open = match (&seen.owner, resume) {
        (Some(_), _) => {
            let planned = seen.state.open.as_ref();
            planned.map(|planned| (planned.batch_id, Open::InHand))
        }
        (None, resume) => begun(&resume?, &seen)?,
    };
    // The records were read before the table, which had the rows first.
    let place = location_of(&settings.target);
    expect_kept(&place, &settings.app_id, seen.in_quarantine, seen.quarantine)?;
    let planned = seen.state.open.as_ref();
    let left = match (&open, planned) {
        // A run records it first, and looks at the chain after that.
        (Some((_, Open::Recorded)), Some(planned)) => Left {
            open: None,
            last: Some(Ran::planned(planned)),
            last_with_rows: Some(planned.batch_id),
            in_quarantine: None,
        },
        (open, planned) => Left {
            open: planned.filter(|_| !matches!(open, Some((_, Open::Closed)))),
            last: seen.state.last_committed.as_ref().map(Ran::recorded),
            last_with_rows: seen.state.last_with_rows,
            in_quarantine: seen.quarantine.flatten(),
        },
    };
    let instances: Vec<_> = source.table.instances.iter().map(|instance| &instance.name).collect();
    let chain_changed = chain_changed(settings, chain, &left);
    let course = course(settings, &instances, chain, left)?;
    let open = open.map(|(batch, open)| match open {
        Open::GoesOn(Course::AsPlanned) => (batch, Open::GoesOn(course)),
        open => (batch, open),
    });
    Ok(Standing {
        open,
        last: seen
            .state
            .last_committed
            .map(|record| (record.batch_id, record.position())),
        stopped: seen.stopped,
        owner: seen.owner,
        has_bronze: seen.bronze.is_some(),
        chain_changed,
    })
}

/// The batch that was begun and is not done. Of one that goes on, its course is still to be found.
fn begun(resume: &Resume, seen: &Seen) -> Result<Option<(BatchId, Open)>, StreamError> {
    if let Resume::Replay {
        planned,
        already_in_bronze,
    } = resume
    {
        let open = match already_in_bronze {
            true => Open::Recorded,
            false if seen.settles => Open::Closed,
            false => Open::GoesOn(Course::AsPlanned),
        };
        return Ok(Some((planned.batch_id, open)));
    }
    let Some(newest) = seen.quarantine.flatten() else {
        return Ok(None);
    };
    let lost = LostPlan::of(newest, resume, !seen.settles)?;
    Ok(lost.map(|lost| match lost {
        LostPlan::Closed(batch) => (batch, Open::Closed),
        LostPlan::Anew(anew) => {
            let (attempt, reason) = (anew.attempt, lost_plan::reason(anew));
            (anew.batch, Open::GoesOn(Course::Anew { attempt, reason }))
        }
    }))
}

async fn see(
    settings: &TableSettings,
    shape: &TableShape,
    chain: &Chain,
    reader: &CheckpointReader,
) -> Result<Seen, StreamError> {
    let reading = reader.clone();
    let (state, in_quarantine, stopped) = blocking(move || {
        let state = reading.latest()?;
        let stopped = reading.stopped(&state);
        Ok((state, reading.quarantined()?, stopped))
    })
    .await?;
    let target = settings.target.clone();
    let bronze = BronzeTable::look(&target, &bronze_spec(settings, shape, chain)).await?;
    let quarantine = QuarantineTable::open(&location_of(&target), &settings.app_id).await?;
    let reader = reader.clone();
    let (running, owner, configured) = blocking(move || {
        let (running, owner) = (reader.running()?, reader.owner()?);
        if let (Running::Unseen(_), Some(owner)) = (&running, &owner) {
            reader.lease_of(owner)?;
        }
        Ok((running, owner, reader.hosts().is_some()))
    })
    .await?;
    Ok(Seen {
        state,
        stopped,
        bronze,
        in_quarantine: in_quarantine.map(AttemptAt::of_version),
        quarantine: quarantine.as_ref().map(QuarantineTable::known),
        owner: match running {
            Running::By(owner) => Some(owner),
            Running::Nobody | Running::RanOut(_) | Running::Unseen(_) => None,
        },
        settles: configured || owner.is_some_and(|owner| owner.lease.is_some() || !owner.unsettled.is_empty()),
    })
}
