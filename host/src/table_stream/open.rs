//! Opening a table: its columns, its chain, its checkpoint and its bronze table, and where the last run ended.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::checkpoint::{
    Begin, Checkpoint, CheckpointError, CheckpointReader, CommitRecord, PlannedBatch, Resume, SourceSeen,
    StreamIdentity, expect_whole, reconcile,
};
use crate::config::TableSettings;
use crate::error::{Classify as _, ErrorKind};
use crate::facts::{FactsEntry, FactsKey, RecordedFacts};
use crate::failpoint::{self, planted};
use crate::identity::{BatchId, CaptureInstance};
use crate::lake::{BronzeSpec, BronzeTable, Column};
use crate::lsn::{Lsn, Offset, UtcMicros};
use crate::report::{Event, TableSummary};
use crate::scheduler::Share;
use crate::shape::TableShape;
use crate::source::{ChangeReader, Poll, SourceTable, TablePoll, TableSource, check_history};
use crate::transform::{Chain, OutputColumn, Route, TransformSpec};
use crate::verdict::{TableStatus, VerdictUpdate};

use super::committed;
use super::course::{Course, Left, Ran, chain_changed, course};
use super::described::plugin_name;
use super::omitted::Omitted;

use super::position::{Bearings, FirstChange, Next};
use super::publish::{Committed, Publisher};
use super::quarantine::Quarantine;
use super::quarantine_kept::by_record_or_bronze;
use super::reload::PluginRefused;
use super::{Shared, StreamError, lost_plan, millis, takeover};

/// A table that is ready to stream.
pub(super) struct OpenTable {
    pub(super) shared: Arc<Shared>,
    pub(super) settings: TableSettings,
    pub(super) share: Share,
    pub(super) shape: Arc<TableShape>,
    /// The table as it was seen last.
    pub(super) source: Arc<SourceTable>,
    pub(super) chain: Arc<Chain>,
    /// What reads each of its instances.
    pub(super) readers: Vec<(CaptureInstance, Arc<ChangeReader>)>,
    /// Parts of a batch that are read at the same time, at most.
    pub(super) parts: NonZeroU32,
    /// Which columns of bronze can lack values; `None` where every row has all.
    pub(super) omitted: Option<Arc<Omitted>>,
    pub(super) bronze: BronzeTable,
    pub(super) checkpoint: Checkpoint,
    pub(super) publisher: Publisher,
    pub(super) quarantine: Mutex<Quarantine>,
    /// The last commit that is accounted for, in bronze or as idle.
    pub(super) position: Option<Offset>,
    /// The last commit that the checkpoint knows of.
    pub(super) recorded: Option<Offset>,
    pub(super) next_batch: BatchId,
    pub(super) next_event: i64,
    /// The last batch that is done, and what the facts table has, as they were at the opening.
    last_commit: Option<CommitRecord>,
    last_facts: RecordedFacts,
    /// The facts of what earlier runs recorded are on their way: the verdict may follow them.
    pub(super) facts_handed_over: bool,
    /// The newest batch with rows that is done.
    pub(super) last_with_rows: Option<BatchId>,
    /// The source's `max_lsn`, as of the newest poll.
    pub(super) known_max: Option<Lsn>,
    /// No change after the position is seen up to here.
    pub(super) quiet_up_to: Option<Offset>,
    /// What the control table was told last.
    pub(super) status: Option<TableStatus>,
    /// An earlier run planned this batch and did not end it.
    pub(super) open_batch: Option<PlannedBatch>,
    /// The attempt at the next batch, and why it is not the first.
    pub(super) attempt: u32,
    pub(super) reason: Option<String>,
    /// What is told of the source.
    pub(super) seen_source: SourceSeen,
    /// Rows that a commit of the last batch had on average.
    pub(super) rows_per_commit: Option<f64>,
    /// No commit lies between the position and this LSN.
    pub(super) floor: Option<Lsn>,
    /// Capture stands still, as of the newest poll.
    pub(super) stalled: bool,
    /// Where it was told last that capture stands still.
    pub(super) stalled_at: Option<Lsn>,
    /// The first change of the next batch, where an earlier attempt at it found it.
    pub(super) first_change: Option<FirstChange>,
    /// The chain that the last batch ran with.
    pub(super) last_chain: Option<String>,
    pub(super) idle_since: Instant,
    /// The version of bronze from which on there may be enough small files to make one of.
    pub(super) compact_at: u64,
    /// And when those that are there may be old enough.
    pub(super) compact_after: Instant,
    /// The chain's components are in the checkpoint.
    pub(super) components_saved: bool,
    /// What was told of plugin files that cannot be used.
    pub(super) plugins_refused: Vec<PluginRefused>,
    pub(super) summary: TableSummary,
}

impl OpenTable {
    /// Opens everything, in an order in which nothing is written before this process owns the stream.
    pub(super) async fn open(shared: &Arc<Shared>, settings: &TableSettings) -> Result<OpenTable, StreamError> {
        let (position, begins) = recorded_position(settings).await?;
        let TableSource { shape, table } = {
            let mut asker = shared.asks.get().await?;
            shared
                .catalog
                .open_table(
                    &mut asker,
                    &settings.capture_instance,
                    position,
                    &begins,
                    settings.columns.as_deref(),
                )
                .await?
        };
        let shape = Arc::new(shape);
        let chain = {
            let (shared, shape, settings) = (Arc::clone(shared), Arc::clone(&shape), settings.clone());
            // Compiling a component is CPU work of up to a second.
            tokio::task::spawn_blocking(move || {
                Chain::open(
                    &shared.engine,
                    &shape,
                    &specs(&settings),
                    &shared.keys,
                    &settings.protect,
                )
                .map(|chain| chain.with_leak_check(settings.leak_check))
            })
            .await
            .map_err(|_| StreamError::Task {
                doing: "opening its components",
            })??
        };
        let identity = identity(settings, &shared.catalog.database, &shape);
        let checkpoint = takeover::take(shared, settings, identity).await?;
        failpoint::pass(failpoint::OWNER_WRITTEN);
        let taken = checkpoint.clone();
        match OpenTable::of(shared, settings, (shape, table), chain, checkpoint).await {
            Ok(table) => Ok(table),
            Err(error) => Err(takeover::told(&taken, error).await),
        }
    }

    /// Opens the tables of a stream that is this process's, and settles how it goes on.
    async fn of(
        shared: &Arc<Shared>,
        settings: &TableSettings,
        (shape, source): (Arc<TableShape>, Arc<SourceTable>),
        chain: Chain,
        mut checkpoint: Checkpoint,
    ) -> Result<OpenTable, StreamError> {
        let spec = bronze_spec(settings, &shape, &chain);
        let bronze = BronzeTable::open(&settings.target, spec).await?;
        let facts = shared.facts_of(settings)?;
        let verdicts = shared.verdicts_of(settings)?;
        let recorded_facts = facts.table.expect_numbered(&settings.app_id).await?;
        let recorded_facts = recorded_facts.ok_or_else(|| StreamError::FactsUnnumbered {
            facts_table: settings.facts_table.display().to_string(),
            app_id: settings.app_id.clone(),
        })?;
        let finalized = verdicts.finalized_until(&settings.target.display().to_string()).await?;
        let mut quarantine = Quarantine::open(settings).await?;
        // Either table may know of more owners than the other: each is claimed at another moment.
        let fenced = bronze.owner().await?.max(quarantine.owner());
        let (checkpoint, state, taken_over) = blocking(move || {
            let own = checkpoint.fencing();
            let fenced = fenced.filter(|_| !planted::is(planted::FENCE_NOT_COMPARED));
            let taken_over = checkpoint.fence_above(fenced)? > own;
            let state = checkpoint.latest()?;
            Ok((checkpoint, state, taken_over))
        })
        .await?;
        let newest_facts = recorded_facts.facts.map(BatchId);
        let mut source = source;
        let (state, resume) = if !checkpoint.unsettled().is_empty() {
            takeover::settle(shared, settings, &bronze, &checkpoint, newest_facts).await?
        } else {
            let resume = reconcile(&state, bronze.last_batch().await?, newest_facts)?;
            // Nobody is fenced off for a checkpoint that cannot go on.
            committed::expect_same(&bronze, &state, &resume).await?;
            // Bronze knows a number that this checkpoint did not count to, so its owner may be alive. Otherwise the number
            // is claimed before the first read; a table without changes gets no commit.
            if taken_over {
                bronze.claim(checkpoint.fencing()).await?;
            }
            (state, resume)
        };
        let in_quarantine = by_record_or_bronze(&bronze, &checkpoint, &resume).await?;
        quarantine.expect_kept(in_quarantine).await?;
        quarantine.take(&checkpoint, &chain).await?;
        let known = (state, resume);
        let (state, resume, anew) = takeover::settle_quarantine(
            shared,
            settings,
            &bronze,
            &mut quarantine,
            &checkpoint,
            known,
            newest_facts,
        )
        .await?;
        let checkpoint = takeover::settled(checkpoint).await?;
        let last = state.last_committed;
        let recorded = last.as_ref().and_then(CommitRecord::position);
        if let Some(seen) = last.as_ref().and_then(|record| record.source.as_ref()) {
            Arc::make_mut(&mut source).remember(&seen.begins);
        }
        let first_change = takeover::first_change(&checkpoint, last.as_ref()).await?;
        let (next_batch, open_batch) = match resume {
            Resume::Fresh => (BatchId(0), None),
            Resume::Continue { next, .. } => (next, None),
            Resume::Replay { planned, .. } => (planned.batch_id, Some(*planned)),
        };
        // What an open batch wrote may yet be void.
        if open_batch.is_none() {
            quarantine.forget(settings).await?;
        }
        quarantine.count(next_batch);
        let share = shared.share_of(settings);
        shared
            .board
            .stands(&settings.capture_instance, recorded, finalized, quarantine.open_count());
        Ok(OpenTable {
            quarantine: Mutex::new(quarantine),
            publisher: Publisher::start(
                Arc::clone(shared),
                settings.capture_instance.clone(),
                facts.writer.clone(),
                verdicts.clone(),
                finalized,
            ),
            readers: source
                .instances
                .iter()
                .enumerate()
                .map(|(at, instance)| {
                    let reader = ChangeReader::new(shared.pool.of(share), &source, at, &shape);
                    (instance.name.clone(), Arc::new(reader))
                })
                .collect(),
            parts: settings.reading.num_partitions.resolve(shared.limits.connections),
            seen_source: SourceSeen::of(last.as_ref()),
            rows_per_commit: None,
            floor: last
                .as_ref()
                .and_then(|record| record.source.as_ref())
                .and_then(|seen| seen.floor),
            stalled: false,
            stalled_at: SourceSeen::of(last.as_ref())
                .stalled
                .then_some(recorded)
                .flatten()
                .map(|position| position.lsn),
            summary: summary(settings, chain.provenance().iter().map(plugin_name).collect()),
            position: recorded,
            recorded,
            next_batch,
            next_event: last
                .as_ref()
                .and_then(|record| record.last_event)
                .map_or(0, |newest| newest + 1),
            last_chain: last.as_ref().and_then(|record| record.chain_run().map(str::to_owned)),
            last_commit: last,
            last_facts: recorded_facts,
            facts_handed_over: false,
            last_with_rows: state.last_with_rows,
            known_max: None,
            quiet_up_to: None,
            status: None,
            open_batch,
            attempt: anew.map_or(0, |anew| anew.attempt),
            reason: anew.map(lost_plan::reason),
            first_change,
            idle_since: Instant::now(),
            compact_at: 0,
            compact_after: Instant::now(),
            components_saved: false,
            plugins_refused: Vec::new(),
            shared: Arc::clone(shared),
            settings: settings.clone(),
            share,
            omitted: Omitted::new(&shape, chain.output()).map(Arc::new),
            shape,
            source,
            chain: Arc::new(chain),
            bronze,
            checkpoint,
        })
    }

    /// Checks that the chain may go on, and catches facts and verdict up with the checkpoint.
    pub(super) async fn begin(&mut self) -> Result<(), StreamError> {
        let mut ended = self.end_what_bronze_has().await?;
        let last = self.last_commit.take();
        self.publish_what_is_missing(ended.as_deref().or(last.as_ref())).await?;
        if let Some(position) = self.position {
            self.retried(|| async {
                let mut asker = self.shared.asks.get().await?;
                Ok(check_history(&mut asker, self.instance(), position, self.shared.catalog.zone.named()).await?)
            })
            .await?;
        }
        let in_quarantine = self.quarantine.get_mut().newest();
        let left = Left {
            open: self.open_batch.as_ref(),
            last: ended.as_deref().or(last.as_ref()).map(Ran::recorded),
            last_with_rows: self.last_with_rows,
            in_quarantine,
        };
        let changed = chain_changed(&self.settings, &self.chain, &left);
        if let Course::Anew { attempt, reason } = course(&self.settings, &self.instances(), &self.chain, left)? {
            // Bronze may have it after all.
            if let Some(late) = self.plan_anew(attempt, reason).await? {
                self.publish_what_is_missing(Some(&late)).await?;
                ended = Some(late);
            }
        }
        if let Some(message) = changed {
            self.shared.tell(Event::Warning {
                capture_instance: self.settings.capture_instance.clone(),
                message,
            });
        }
        self.shared.tell(Event::Opened {
            capture_instance: self.settings.capture_instance.clone(),
            target: self.settings.target.clone(),
            app_id: self.settings.app_id.clone(),
            position: self.position.map(|offset| offset.lsn),
            next_batch: self.next_batch,
            transform: self.summary.transform.clone(),
        });
        if let Some(record) = &ended {
            self.tell_batch(record, true);
        }
        Ok(())
    }

    /// The capture instance, as the server spells it.
    pub(super) fn instance(&self) -> &CaptureInstance {
        &self.shape.capture_instance
    }

    /// The instances that the stream reads.
    fn instances(&self) -> Vec<&CaptureInstance> {
        self.source.instances.iter().map(|instance| &instance.name).collect()
    }

    /// The instance that has what comes next.
    pub(super) fn instance_in_force(&self) -> &CaptureInstance {
        let next = self.position.map_or(Lsn::ZERO, |position| position.lsn.next());
        &self.source.instances[self.source.in_force(next)].name
    }

    pub(super) fn position(&self) -> Option<Offset> {
        self.position
    }

    /// What comes next.
    pub(super) fn next(&self, poll: &Poll, max: Offset) -> Result<Next, StreamError> {
        let bearings = Bearings {
            table: &self.source,
            named: self.instance(),
            position: self.position,
            first: self.first_change.as_ref(),
            floor: self.floor,
            starting: self.settings.reading.starting_lsn,
        };
        bearings.next(poll, max)
    }

    /// Whether a poll was asked about every instance of the table.
    pub(super) fn is_in(&self, poll: &Poll) -> bool {
        self.source
            .instances
            .iter()
            .all(|instance| poll.table(&instance.name).is_some())
    }

    /// Whether a poll found that capture has reached the table.
    pub(super) fn is_reached(&self, poll: &Poll) -> bool {
        matches!(
            poll.table(self.instance_in_force()),
            Some(TablePoll::Ready { min_lsn: Some(_), .. })
        )
    }

    /// Notes how far the source is.
    pub(super) fn saw(&mut self, poll: &Poll) {
        // Positions without rows move only as far as all instances are known.
        self.known_max = Some(poll.max.lsn.min(poll.listed.up_to.lsn));
        self.stalled = self.is_stalled(poll);
        self.tell_progress(poll);
    }

    pub(super) fn tell_retrying(&self, error: &str, failures: u32, pause: Duration) {
        self.shared.tell(Event::Retrying {
            capture_instance: self.settings.capture_instance.clone(),
            error: error.to_owned(),
            failures,
            pause_ms: millis(pause),
        });
    }

    /// Ends the stream: everything committed gets its facts and its verdict.
    pub(super) async fn close(mut self) -> Result<TableSummary, StreamError> {
        self.summary.finalized_until = self.publisher.close().await?;
        self.summary.at(self.recorded);
        let quarantine = self.quarantine.get_mut();
        self.summary.open_quarantined = quarantine.open_count();
        self.summary.open_codes.clone_from(quarantine.open_codes());
        Ok(self.summary)
    }

    /// Facts and events that a crash kept from the facts table are written again from the checkpoint, and the verdict after
    /// them.
    async fn publish_what_is_missing(&mut self, last: Option<&CommitRecord>) -> Result<(), StreamError> {
        if planted::is(planted::FACTS_NOT_REBUILT) {
            self.facts_handed_over = true;
            return Ok(());
        }
        let facts = self.last_facts;
        let newest_event = last.and_then(|record| record.last_event);
        // Batches and events are written together; a table that an older sluice wrote may lack events of old batches.
        let after = match facts.events < newest_event {
            true => None,
            false => facts.facts.map(BatchId),
        };
        let kept = self
            .retried(|| async {
                let checkpoint = self.checkpoint.clone();
                blocking(move || checkpoint.reader().commits_after(after)).await
            })
            .await?;
        let lacking = kept.iter().map(|record| record.batch_id);
        let newest = facts.facts.map(BatchId);
        expect_whole(newest, lacking.filter(|batch| Some(*batch) > newest))?;
        for record in kept {
            let is_new = |entry: &FactsEntry| match entry.key {
                FactsKey::Batch(batch) => Some(batch.0) > facts.facts,
                FactsKey::Event(event) => Some(event) > facts.events,
            };
            let entries: Vec<FactsEntry> = self.entries(&record).into_iter().filter(is_new).collect();
            if entries.is_empty() {
                continue;
            }
            let verdict = self.verdict(record.position(), TableStatus::Behind);
            self.publisher.publish(Committed { entries, verdict }).await?;
            self.status = Some(TableStatus::Behind);
        }
        self.facts_handed_over = true;
        if facts.facts.is_some() && self.recorded.is_some() {
            // The verdict may be missing though the facts are there.
            self.status = None;
            self.publish_status(TableStatus::Behind).await?;
        }
        Ok(())
    }

    /// The facts entries of a committed batch: its own, and those of its events.
    pub(super) fn entries(&self, record: &CommitRecord) -> Vec<FactsEntry> {
        let app_id = &self.settings.app_id;
        let batch = FactsEntry {
            app_id: app_id.clone(),
            key: FactsKey::Batch(record.batch_id),
            row: record.facts.clone(),
        };
        let newest = record.last_event.unwrap_or(-1);
        let first_event = newest + 1 - i64::try_from(record.events.len()).unwrap_or(0);
        let events = record.events.iter().zip(first_event..).map(|(row, number)| FactsEntry {
            app_id: app_id.clone(),
            key: FactsKey::Event(number),
            row: row.clone(),
        });
        events.chain(std::iter::once(batch)).collect()
    }

    pub(super) fn verdict(&self, end: Option<Offset>, status: TableStatus) -> VerdictUpdate {
        VerdictUpdate {
            table_name: self.settings.target.display().to_string(),
            end,
            status,
            granularity: self.settings.granularity,
            // Nobody holds it while a verdict is made: batches and verdicts of a stream come one after the other.
            open_quarantined: self
                .quarantine
                .try_lock()
                .ok()
                .and_then(|quarantine| quarantine.open_count()),
        }
    }
}

/// The summary of a table that has done nothing yet.
pub(super) fn summary(settings: &TableSettings, transform: Vec<String>) -> TableSummary {
    TableSummary::new(settings.capture_instance.clone(), settings.target.clone(), transform)
}

/// The chain's configuration, for the engine.
pub(crate) fn specs(settings: &TableSettings) -> Vec<TransformSpec> {
    settings
        .transforms
        .iter()
        .map(|transform| TransformSpec {
            plugin: transform.plugin.clone(),
            sha256: transform.sha256.clone(),
            config: transform.config.clone(),
            keys: transform.keys.clone(),
            wasi: transform.wasi,
            lookups: transform.lookups.clone(),
            memory_bytes: transform.memory_bytes,
            output_bytes: transform.output_bytes,
            deadline: transform.deadline,
            on_error: transform.on_error,
        })
        .collect()
}

/// Whose checkpoint it is.
pub(super) fn identity(settings: &TableSettings, database: &str, shape: &TableShape) -> StreamIdentity {
    StreamIdentity::new(settings.app_id.clone(), database, &shape.schema, &shape.table)
}

/// The bronze table that the chain needs.
pub(super) fn bronze_spec(settings: &TableSettings, shape: &TableShape, chain: &Chain) -> BronzeSpec {
    BronzeSpec {
        capture_instance: settings.capture_instance.clone(),
        app_id: settings.app_id.clone(),
        columns: chain.output().iter().map(bronze_column).collect(),
        omitted: Omitted::new(shape, chain.output()).is_some(),
    }
}

fn bronze_column(column: &OutputColumn) -> Column {
    let comment = match &column.from {
        Route::Passed { source } => format!("column {source} of the source, unchanged"),
        Route::Computed { how, .. } => format!("computed: {how}"),
    };
    Column::new(&column.name, column.data_type.clone(), comment)
}

/// The position that the checkpoint has, and where instances begin, by a look at it from outside; nothing where it has none or
/// is damaged, which the opening of the checkpoint says then.
///
/// # Errors
/// What can be over the next time, so that the opening would not say it: a stream that has a position is not looked at as one
/// that has none.
pub(crate) async fn recorded_position(settings: &TableSettings) -> Result<(Option<Lsn>, Vec<Begin>), StreamError> {
    let place = settings.checkpoint.clone();
    let state = match blocking(move || CheckpointReader::new(&place).latest()).await {
        Err(error) if error.kind() == ErrorKind::Retryable => return Err(error),
        state => state.ok(),
    };
    let Some(last) = state.and_then(|state| state.last_committed) else {
        return Ok((None, Vec::new()));
    };
    let begins = last.source.as_ref().map(|seen| seen.begins.clone());
    Ok((last.position().map(|position| position.lsn), begins.unwrap_or_default()))
}

/// Runs what blocks on files and objects off the runtime's threads.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CheckpointError> + Send + 'static,
) -> Result<T, StreamError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| StreamError::Task {
            doing: "writing its checkpoint",
        })?
        .map_err(StreamError::from)
}

/// Hours from one instant to another.
pub(super) fn hours_between(from: UtcMicros, to: UtcMicros) -> f64 {
    (to.0 - from.0) as f64 / 3.6e9
}
