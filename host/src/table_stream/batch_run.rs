//! One batch, from its plan to its commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use tokio::sync::mpsc;

use crate::batch::{Chunk, CommitTimes};
use crate::checkpoint::{CommitRecord, InstanceRange, PlannedBatch};
use crate::clock::{Clock, Repeated};
use crate::facts::FactsRow;
use crate::failpoint;
use crate::identity::BatchId;
use crate::lake::{CommitOutcome, LakeError, StagedFiles};
use crate::lsn::{Lsn, Offset, UtcMicros};
use crate::report::Event;
use crate::source::{
    ChangeReader, ChunkLimits, Poll, RangeLimits, RangePlan, ReadStats, SourceError, Wanted, plan_range, replay_times,
};
use crate::transform::{Chain, Together};

use super::bounds::bounds;
use super::open::{OpenTable, blocking};
use super::publish::Committed;
use super::quarantine::QuarantineLimit;
use super::record::{Seen, Timing};
use super::schema::Told;
use super::staging::Staging;
use super::tally::Tally;
use super::{StreamError, millis};

/// Chunks that are read and wait: one is read while another is transformed and staged.
const CHUNKS_WAITING: usize = 1;

/// Batches from one look at what the checkpoint can lose to the next.
const PRUNE_EVERY: i64 = 50;

impl OpenTable {
    /// Ends the batch that an earlier run began, under its pins.
    pub(super) async fn finish_open_batch(&mut self) -> Result<(), StreamError> {
        let Some(planned) = self.open_batch.clone() else {
            return Ok(());
        };
        if planned.retry.is_some() {
            return self.abandon_retry(planned).await;
        }
        let timing = Timing::start();
        let Some(range) = planned.ranges.first() else {
            // An idle position: nothing is read, so nothing of it can be lost.
            let (tally, stats) = (Tally::default(), ReadStats::default());
            let facts = self.facts_row(&planned, &tally, stats, Seen::default(), timing);
            return self.finish(&planned, facts, None, true).await;
        };
        let wanted = Wanted {
            from: range.from,
            to: planned.end.lsn,
            after: planned.start,
        };
        let clock = planned.clock().ok_or(StreamError::Task {
            doing: "reading the clock of its plan",
        })?;
        let instance = &range.capture_instance;
        let times = self
            .retried(|| async {
                let mut asker = self.shared.asks.get().await?;
                Ok(replay_times(&mut asker, instance, wanted, clock, &planned.repeated_hours).await?)
            })
            .await?;
        self.execute(planned, times, Seen::default(), timing, true).await
    }

    /// Plans the batch that begins at `from` and runs it; where there is no change, the position moves.
    pub(super) async fn run_range(&mut self, from: Lsn, max: Offset, poll: &Poll) -> Result<(), StreamError> {
        if !self.run_up_to(from, max.lsn, poll).await? {
            self.advance_idle(max);
        }
        Ok(())
    }

    /// Plans the batch that begins at `from` and ends at most at `to`, and runs it. Whether there was a change.
    pub(super) async fn run_up_to(&mut self, from: Lsn, to: Lsn, poll: &Poll) -> Result<bool, StreamError> {
        let mut timing = Timing::start();
        self.heed_plugins().await?;
        let ddl = self.look().await?;
        let plan = self.plan(from, to, poll).await?;
        timing.plan = timing.started.elapsed();
        if let Some(first) = &self.first_change {
            first.expect(&self.source, plan.as_ref().map(|plan| plan.first))?;
        }
        let Some(plan) = plan else {
            return Ok(false);
        };
        let ranges: Vec<InstanceRange> = plan
            .parts
            .iter()
            .map(|part| InstanceRange {
                capture_instance: self.source.instances[part.instance].name.clone(),
                from: part.from,
                to: part.to,
            })
            .collect();
        let told = self.tell_source(&ddl, &plan.parts, from, plan.end);
        let planned = PlannedBatch {
            repeated_hours: plan.repeated,
            ..self.pin(from, plan.end, ranges, poll.clock, told)
        };
        self.write_plan(&planned).await?;
        for event in &planned.events {
            self.warn_of(event);
        }
        self.open_batch = Some(planned.clone());
        let commits = plan.commit_times.commits().len();
        let before = self.summary.rows;
        self.execute(planned, plan.commit_times, self.seen(poll), timing, false)
            .await?;
        self.rows_per_commit = Some((self.summary.rows - before) as f64 / commits.max(1) as f64);
        Ok(true)
    }

    async fn plan(&mut self, from: Lsn, to: Lsn, poll: &Poll) -> Result<Option<RangePlan>, StreamError> {
        let wanted = Wanted {
            from,
            to,
            after: self.position,
        };
        let limits = RangeLimits {
            commits: self.settings.max_commits_per_batch,
            parts: self.parts,
            rows_per_commit: self.rows_per_commit,
        };
        self.retried(|| async {
            let mut asker = self.shared.asks.get().await?;
            Ok(plan_range(&mut asker, &self.source, wanted, limits, poll.clock).await?)
        })
        .await
    }

    pub(super) async fn write_plan(&mut self, planned: &PlannedBatch) -> Result<(), StreamError> {
        failpoint::pass(failpoint::BEFORE_OFFSET);
        // The bytes of a component are written once a stream: the checkpoint keeps them.
        let components = if self.components_saved {
            Vec::new()
        } else {
            self.chain.component_bytes()
        };
        let (components, planned) = (Arc::new(components), Arc::new(planned.clone()));
        self.retried(|| async {
            let (checkpoint, components, planned) =
                (self.checkpoint.clone(), Arc::clone(&components), Arc::clone(&planned));
            blocking(move || {
                for (_, bytes) in components.iter() {
                    checkpoint.save_component(bytes)?;
                }
                checkpoint.plan(&planned)
            })
            .await
        })
        .await?;
        failpoint::pass(failpoint::AFTER_OFFSET);
        self.components_saved = true;
        Ok(())
    }

    /// What the batch's result depends on.
    pub(super) fn pin(
        &self,
        from: Lsn,
        end: Offset,
        ranges: Vec<InstanceRange>,
        clock: Clock,
        told: Told,
    ) -> PlannedBatch {
        PlannedBatch {
            format: crate::checkpoint::FORMAT,
            batch_id: self.next_batch,
            attempt: self.attempt,
            start: self.position,
            first_lsn: from,
            end,
            ranges,
            chunk_rows: self.shared.limits.chunk_rows as u64,
            chunk_bytes: self.shared.limits.chunk_bytes as u64,
            clock_offset_minutes: match clock {
                Clock::Fixed(minutes) => Some(minutes),
                Clock::Zone(_) => None,
            },
            clock_zone: clock.zone_name().map(str::to_owned),
            repeated_hours: Repeated::default(),
            retry: None,
            events: told.events,
            source: Some(told.seen),
            chain: self.chain.digest().to_owned(),
            bounds: Some(bounds(&self.settings)),
            components: self
                .chain
                .component_bytes()
                .into_iter()
                .map(|(sha256, _)| sha256)
                .collect(),
            provenance: provenance_json(&self.chain),
            reason: self.reason.clone(),
            planned_at: UtcMicros::now(),
        }
    }

    async fn execute(
        &mut self,
        planned: PlannedBatch,
        times: Arc<CommitTimes>,
        seen: Seen,
        timing: Timing,
        replayed: bool,
    ) -> Result<(), StreamError> {
        let mut failures = 0;
        // An attempt whose reply was lost may be in bronze.
        let mut look = replayed;
        let mut moved = false;
        let (facts, warning) = loop {
            let done = async {
                if look && let Some(facts) = self.in_bronze(&planned).await? {
                    return Ok((facts, None));
                }
                self.attempt(&planned, &times, seen, timing).await
            };
            match done.await {
                Ok(done) => break done,
                // The late commit of an attempt of this batch, of a process that is gone: the look at bronze tells.
                Err(StreamError::Lake(LakeError::Moved { .. })) if replayed && !moved => moved = true,
                Err(error) => self.pause(error, &mut failures).await?,
            }
            look = true;
        };
        self.finish(&planned, facts, warning, replayed).await
    }

    /// Reads, transforms, stages and commits. The batch's facts, and what there is to warn of.
    async fn attempt(
        &self,
        planned: &PlannedBatch,
        times: &Arc<CommitTimes>,
        seen: Seen,
        mut timing: Timing,
    ) -> Result<(FactsRow, Option<String>), StreamError> {
        // Before anything is read, whoever ran the stream before cannot commit any more.
        self.bronze.claim(self.checkpoint.fencing()).await?;
        let Transformed {
            mut staged,
            tally,
            stats,
            read,
        } = self.transformed(planned, times).await?;
        timing.read = read.saturating_sub(stats.handing_over);
        let warning = tally
            .replaced
            .warning(&self.shape, &format!("batch {}", planned.batch_id));
        if tally.rows == 0 {
            staged.abort().await;
            self.put_into_quarantine(planned, &tally).await?;
            let facts = self.facts_row(planned, &tally, stats, seen, timing);
            return Ok((facts, warning));
        }
        failpoint::pass(failpoint::BEFORE_FILES_STAGED);
        staged.finish().await?;
        failpoint::pass(failpoint::FILES_STAGED);
        self.put_into_quarantine(planned, &tally).await?;
        let facts = self.facts_row(planned, &tally, stats, seen, timing);
        Ok((self.commit(planned, staged, facts, timing).await?, warning))
    }

    /// Commits the staged rows of a batch. Its facts, with what that cost.
    pub(super) async fn commit(
        &self,
        planned: &PlannedBatch,
        staged: StagedFiles,
        facts: FactsRow,
        timing: Timing,
    ) -> Result<FactsRow, StreamError> {
        let in_quarantine = self.quarantine.lock().await.known();
        let metadata = self.user_metadata(planned, &facts, in_quarantine);
        let committing = Instant::now();
        let outcome = self
            .bronze
            .commit(staged, Some(self.checkpoint.fencing()), metadata)
            .await?;
        failpoint::pass(failpoint::AFTER_COMMIT);
        match outcome {
            CommitOutcome::Committed { version } => Ok(FactsRow {
                delta_version: Some(version),
                commit_ms: i64::try_from(millis(committing.elapsed())).ok(),
                duration_ms: i64::try_from(millis(timing.started.elapsed())).ok(),
                ..facts
            }),
            // By an earlier attempt, or by somebody else: its commit tells.
            CommitOutcome::AlreadyApplied { .. } => self.in_bronze(planned).await?.ok_or(StreamError::Task {
                doing: "looking for its batch in bronze",
            }),
        }
    }

    /// Reads, transforms and stages. Where a row for quarantine takes along rows of other chunks, the batch is gone through
    /// once more with that known.
    async fn transformed(&self, planned: &PlannedBatch, times: &Arc<CommitTimes>) -> Result<Transformed, StreamError> {
        let mut known = Together::default();
        loop {
            failpoint::pass(failpoint::BEFORE_READ);
            let (sender, chunks) = mpsc::channel(CHUNKS_WAITING);
            let reading = tokio::spawn(self.readers(planned, times)?.read(sender));
            let staged = self.bronze.stage(planned.batch_id, planned.attempt).await?;
            let limit = QuarantineLimit {
                most: self.settings.max_quarantined,
                table: self.instance().to_string(),
                batch: planned.batch_id.0,
            };
            let staging = Staging {
                turns: self.shared.scheduler.cpu.clone(),
                share: self.share,
                chain: Arc::clone(&self.chain),
                omitted: self.omitted.clone(),
                known: Arc::new(known.clone()),
                limit: limit.clone(),
                again: false,
            };
            let staged = staging.stage(chunks, staged).await;
            // The reader's error comes first: when it failed, the chunks just ended.
            let (stats, read) = reading.await.map_err(|_| StreamError::Task {
                doing: "reading change rows",
            })?;
            let (stats, (staged, tally)) = match (stats, staged) {
                (Ok(stats), Ok(staged)) => (stats, staged),
                (Err(error), Ok((files, _))) => {
                    files.abort().await;
                    return Err(error.into());
                }
                (_, Err(error)) => return Err(error),
            };
            if let Err(error) = limit.expect_whole(&tally) {
                staged.abort().await;
                return Err(error);
            }
            match tally.spread(&known) {
                Some(spread) => known.add(spread),
                None => {
                    return Ok(Transformed {
                        staged,
                        tally,
                        stats,
                        read,
                    });
                }
            }
            staged.abort().await;
        }
    }

    /// Whether a batch is known to be many chunks, by the rows that commits of the last one had.
    fn is_long(&self, planned: &PlannedBatch, times: &CommitTimes) -> bool {
        let expected = self.rows_per_commit.unwrap_or(0.0) * times.commits().len() as f64;
        expected > planned.chunk_rows as f64
    }

    /// What reads the ranges of a plan.
    fn readers(&self, planned: &PlannedBatch, times: &Arc<CommitTimes>) -> Result<Readers, StreamError> {
        let ranges = planned
            .ranges
            .iter()
            .map(|range| {
                let reader = self
                    .readers
                    .iter()
                    .find(|(name, _)| *name == range.capture_instance)
                    .ok_or(StreamError::Task {
                        doing: "looking for the instance of its plan",
                    })?;
                let wanted = Wanted {
                    from: range.from,
                    to: range.to,
                    after: planned.start,
                };
                Ok((Arc::clone(&reader.1), wanted))
            })
            .collect::<Result<Vec<_>, StreamError>>()?;
        Ok(Readers {
            ranges,
            times: Arc::clone(times),
            limits: ChunkLimits {
                rows: planned.chunk_rows as usize,
                bytes: planned.chunk_bytes as usize,
            },
            at_once: self.parts.get() as usize,
            long: self.is_long(planned, times),
        })
    }

    /// Writes `commits/<n>`, then hands facts and verdict on.
    pub(super) async fn finish(
        &mut self,
        planned: &PlannedBatch,
        facts: FactsRow,
        warning: Option<String>,
        replayed: bool,
    ) -> Result<(), StreamError> {
        let record = self.record(planned, facts).await?;
        if let Some(message) = warning {
            self.shared.tell(Event::Warning {
                capture_instance: self.settings.capture_instance.clone(),
                message,
            });
        }
        self.tell_batch(&record, replayed);
        self.publish_record(&record).await?;
        self.prune(planned.batch_id).await
    }

    /// Hands the facts and the verdict of a batch on that is recorded.
    pub(super) async fn publish_record(&mut self, record: &CommitRecord) -> Result<(), StreamError> {
        let status = self.status_at(record.end.lsn);
        self.status = Some(status);
        let committed = Committed {
            entries: self.entries(record),
            verdict: self.verdict(record.position(), status),
        };
        self.publisher.publish(committed).await
    }

    /// Now and then, what the checkpoint no longer needs is removed. Commits whose facts are not written stay.
    async fn prune(&self, newest: BatchId) -> Result<(), StreamError> {
        if newest.0 == 0 || newest.0 % PRUNE_EVERY != 0 {
            return Ok(());
        }
        let published = self.publisher.published();
        self.retried(|| async {
            let checkpoint = self.checkpoint.clone();
            blocking(move || checkpoint.prune(published)).await
        })
        .await
    }
}

/// The ranges of a batch, and what reads each. The first begins at the batch's first change: what lies between the position
/// and that was found empty when the batch was planned.
struct Readers {
    ranges: Vec<(Arc<ChangeReader>, Wanted)>,
    times: Arc<CommitTimes>,
    limits: ChunkLimits,
    at_once: usize,
    long: bool,
}

impl Readers {
    /// Reads the ranges, some at once, each over its own connection. Their chunks mix; rows say by themselves where they
    /// belong. What the reading cost, and how long it took.
    async fn read(self, out: mpsc::Sender<Chunk>) -> (Result<ReadStats, SourceError>, Duration) {
        let started = Instant::now();
        let (times, limits, long) = (self.times, self.limits, self.long);
        let mut reading = futures::stream::iter(self.ranges)
            .map(move |(reader, wanted)| {
                let (times, out) = (Arc::clone(&times), out.clone());
                // On a task of its own: decoding is CPU work.
                AbortOnDrop(tokio::spawn(async move {
                    reader.read(wanted, times, limits, long, out).await
                }))
            })
            .buffer_unordered(self.at_once);
        let mut stats = ReadStats::default();
        while let Some(read) = reading.next().await {
            match read {
                Ok(Ok(part)) => stats.add(part),
                Ok(Err(error)) => return (Err(error), started.elapsed()),
                Err(_) => {
                    let error = SourceError::Unexpected {
                        doing: "reading change rows".to_owned(),
                        reason: "the task that read them ended abruptly".to_owned(),
                    };
                    return (Err(error), started.elapsed());
                }
            }
        }
        (Ok(stats), started.elapsed())
    }
}

/// A task that ends with the one that waits for it: the other ranges of a batch that failed are void.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, tokio::task::JoinError>;

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The rows of a batch, staged.
struct Transformed {
    staged: StagedFiles,
    tally: Tally,
    stats: ReadStats,
    read: Duration,
}

fn provenance_json(chain: &Chain) -> serde_json::Value {
    serde_json::to_value(chain.provenance()).unwrap_or_default()
}
