//! One batch, from its plan to its commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::batch::{Chunk, CommitTimes};
use crate::checkpoint::{CommitRecord, InstanceRange, PlannedBatch};
use crate::error::{Classify, chain};
use crate::facts::FactsRow;
use crate::failpoint;
use crate::identity::BatchId;
use crate::lake::{CommitOutcome, StagedFiles};
use crate::lsn::{Lsn, Offset, UtcMicros};
use crate::report::Event;
use crate::retry;
use crate::source::{
    ChunkLimits, Poll, RangePlan, ReadStats, SourceError, TablePoll, min_lsn, plan_range, replay_times,
};
use crate::transform::Chain;
use crate::verdict::TableStatus;

use super::open::{OpenTable, blocking, hours_between};
use super::publish::Committed;
use super::{StreamError, millis, position};

/// Chunks that are read and wait: one is read while another is transformed and staged.
const CHUNKS_WAITING: usize = 1;

/// Batches from one look at what the checkpoint can lose to the next.
const PRUNE_EVERY: i64 = 50;

/// What a batch's rows were, and what they cost.
#[derive(Debug, Default)]
struct Tally {
    rows: u64,
    inserts: u64,
    updates: u64,
    deletes: u64,
    filtered: u64,
    replaced_texts: u64,
    first: Option<(Lsn, UtcMicros)>,
    last: Option<(Lsn, UtcMicros)>,
    transform: Duration,
}

/// What is known of the source when a batch runs. A replay knows less.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    rtt_ms: Option<f64>,
    max: Option<Offset>,
    min_commit_ts: Option<UtcMicros>,
}

/// When each part of a batch began or how long it took.
#[derive(Debug, Clone, Copy)]
struct Timing {
    started_at: UtcMicros,
    started: Instant,
    plan: Duration,
    commit: Duration,
}

impl OpenTable {
    /// Ends the batch that an earlier run began, under its pins.
    pub(super) async fn finish_open_batch(&mut self) -> Result<(), StreamError> {
        let Some(planned) = self.open_batch.take() else {
            return Ok(());
        };
        let timing = Timing::start();
        let times = if planned.start.is_some_and(|start| start.lsn == planned.end.lsn) {
            Arc::new(CommitTimes::default())
        } else {
            let mut asker = self.shared.asks.get().await?;
            let after = planned.start.map(|start| start.commit_ts);
            replay_times(
                &mut asker,
                planned.first_lsn,
                planned.end.lsn,
                planned.clock_offset_minutes.unwrap_or(0),
                after,
            )
            .await?
        };
        self.execute(planned, times, Seen::default(), timing, true).await
    }

    /// Plans the batch that begins at `from` and runs it.
    pub(super) async fn run_range(&mut self, from: Lsn, max: Offset, poll: &Poll) -> Result<(), StreamError> {
        let mut timing = Timing::start();
        let plan = self.plan(from, max, poll).await?;
        timing.plan = timing.started.elapsed();
        let Some(plan) = plan else {
            return self.advance_idle(max, poll).await;
        };
        let planned = self.pin(from, plan.end, poll.offset_minutes);
        failpoint::pass(failpoint::BEFORE_OFFSET);
        self.write_plan(&planned).await?;
        failpoint::pass(failpoint::AFTER_OFFSET);
        self.execute(planned, plan.commit_times, self.seen(poll), timing, false)
            .await
    }

    /// No change of this table up to here. The position moves; the checkpoint and the facts hear of it now and then.
    pub(super) async fn advance_idle(&mut self, to: Offset, poll: &Poll) -> Result<(), StreamError> {
        let floor = self.position.map_or(to.commit_ts, |position| position.commit_ts);
        self.position = Some(Offset {
            lsn: to.lsn,
            commit_ts: to.commit_ts.max(floor),
        });
        if self.idle_since.elapsed() >= self.settings.idle_interval {
            self.record_idle(self.seen(poll)).await?;
        }
        Ok(())
    }

    /// The stream is about to stop: what it passed without rows is recorded.
    pub(super) async fn rest(&mut self) -> Result<(), StreamError> {
        if self.position != self.recorded {
            self.record_idle(Seen::default()).await?;
        }
        Ok(())
    }

    async fn record_idle(&mut self, seen: Seen) -> Result<(), StreamError> {
        let Some(position) = self.position else {
            return Ok(());
        };
        let timing = Timing::start();
        let from = self.recorded.map_or(position.lsn, |recorded| recorded.lsn.next());
        let planned = PlannedBatch {
            start: self.recorded,
            ..self.pin(from, position, 0)
        };
        self.write_plan(&planned).await?;
        self.finish(
            &planned,
            Tally::default(),
            ReadStats::default(),
            None,
            seen,
            timing,
            false,
        )
        .await
    }

    async fn plan(&mut self, from: Lsn, max: Offset, poll: &Poll) -> Result<Option<RangePlan>, StreamError> {
        let mut failures = 0;
        loop {
            let planned = async {
                let mut asker = self.shared.asks.get().await?;
                plan_range(
                    &mut asker,
                    self.instance(),
                    from,
                    max.lsn,
                    self.settings.max_commits_per_batch,
                    poll.offset_minutes,
                    self.position.map(|position| position.commit_ts),
                )
                .await
            };
            match planned.await {
                Ok(plan) => return Ok(plan),
                Err(error) => self.pause_or_fail(error.into(), &mut failures).await?,
            }
        }
    }

    async fn write_plan(&mut self, planned: &PlannedBatch) -> Result<(), StreamError> {
        let checkpoint = self.checkpoint.clone();
        // The bytes of a component are written once a stream: the checkpoint keeps them.
        let components = if self.components_saved {
            Vec::new()
        } else {
            self.chain.component_bytes()
        };
        let planned = planned.clone();
        blocking(move || {
            for (_, bytes) in components {
                checkpoint.save_component(&bytes)?;
            }
            checkpoint.plan(&planned)
        })
        .await?;
        self.components_saved = true;
        Ok(())
    }

    /// What the batch's result depends on.
    fn pin(&self, from: Lsn, end: Offset, clock_offset_minutes: i32) -> PlannedBatch {
        PlannedBatch {
            format: crate::checkpoint::FORMAT,
            batch_id: self.next_batch,
            attempt: 0,
            start: self.position,
            first_lsn: from,
            end,
            ranges: vec![InstanceRange {
                capture_instance: self.instance().clone(),
                from,
                to: end.lsn,
            }],
            chunk_rows: self.shared.limits.chunk_rows as u64,
            chunk_bytes: self.shared.limits.chunk_bytes as u64,
            clock_offset_minutes: Some(clock_offset_minutes),
            chain: self.chain.digest().to_owned(),
            components: self
                .chain
                .component_bytes()
                .into_iter()
                .map(|(sha256, _)| sha256)
                .collect(),
            provenance: provenance_json(&self.chain),
            reason: None,
            planned_at: UtcMicros::now(),
        }
    }

    async fn execute(
        &mut self,
        planned: PlannedBatch,
        times: Arc<CommitTimes>,
        seen: Seen,
        mut timing: Timing,
        replayed: bool,
    ) -> Result<(), StreamError> {
        let mut failures = 0;
        loop {
            match self.attempt(&planned, &times, &mut timing).await {
                Ok((tally, stats, version)) => {
                    return self
                        .finish(&planned, tally, stats, version, seen, timing, replayed)
                        .await;
                }
                Err(error) => self.pause_or_fail(error, &mut failures).await?,
            }
        }
    }

    /// Reads, transforms, stages and commits. The Delta version, when there were rows.
    async fn attempt(
        &mut self,
        planned: &PlannedBatch,
        times: &Arc<CommitTimes>,
        timing: &mut Timing,
    ) -> Result<(Tally, ReadStats, Option<i64>), StreamError> {
        if times.last().is_none() {
            return Ok((Tally::default(), ReadStats::default(), None));
        }
        let (sender, chunks) = mpsc::channel(CHUNKS_WAITING);
        let limits = ChunkLimits {
            rows: planned.chunk_rows as usize,
            bytes: planned.chunk_bytes as usize,
        };
        let reading = {
            let (reader, times) = (Arc::clone(&self.reader), Arc::clone(times));
            let (from, to) = (planned.first_lsn, planned.end.lsn);
            tokio::spawn(async move { reader.read(from, to, times, limits, sender).await })
        };
        let staged = self.bronze.stage(planned.batch_id, planned.attempt).await?;
        let staged = stage(Arc::clone(&self.chain), chunks, staged).await;
        // The reader's error comes first: when it failed, the chunks just ended.
        let stats = reading.await.map_err(|_| StreamError::Task {
            doing: "reading change rows",
        })?;
        let (stats, (mut staged, tally)) = match (stats, staged) {
            (Ok(stats), Ok(staged)) => (stats, staged),
            (Err(error), Ok((files, _))) => {
                files.abort().await;
                return Err(error.into());
            }
            (_, Err(error)) => return Err(error),
        };
        self.check_retention(planned).await?;
        if tally.rows == 0 {
            staged.abort().await;
            return Ok((tally, stats, None));
        }
        staged.finish().await?;
        failpoint::pass(failpoint::FILES_STAGED);
        let metadata = self.user_metadata(planned, &tally);
        let committing = Instant::now();
        let outcome = self
            .bronze
            .commit(staged, Some(self.checkpoint.fencing()), metadata)
            .await?;
        timing.commit = committing.elapsed();
        failpoint::pass(failpoint::AFTER_COMMIT);
        let version = match outcome {
            CommitOutcome::Committed { version } => Some(version),
            CommitOutcome::AlreadyApplied { version, .. } => version,
        };
        Ok((tally, stats, version))
    }

    /// Cleanup may have run while the range was read, and a direct read of a purged range does not fail.
    async fn check_retention(&self, planned: &PlannedBatch) -> Result<(), StreamError> {
        let mut asker = self.shared.asks.get().await?;
        let left = min_lsn(&mut asker, self.instance()).await?;
        match (left, planned.start) {
            (Some(min_lsn), _) if min_lsn <= planned.first_lsn => Ok(()),
            (Some(min_lsn), Some(start)) => Err(position::purged(self.instance(), start, min_lsn).into()),
            (Some(min_lsn), None) => Err(SourceError::Purged {
                capture_instance: self.instance().clone(),
                from: planned.first_lsn,
                up_to: "its beginning".to_owned(),
                min_lsn,
            }
            .into()),
            (None, _) => Err(SourceError::Unexpected {
                doing: format!("checking what is left of {}", self.instance()),
                reason: "min_lsn is zero: the capture instance was disabled, or a grant was taken away".to_owned(),
            }
            .into()),
        }
    }

    /// Writes `commits/<n>`, then hands facts and verdict on.
    #[allow(
        clippy::too_many_arguments,
        reason = "each is one of the parts that a facts row is made of"
    )]
    async fn finish(
        &mut self,
        planned: &PlannedBatch,
        tally: Tally,
        stats: ReadStats,
        delta_version: Option<i64>,
        seen: Seen,
        timing: Timing,
        replayed: bool,
    ) -> Result<(), StreamError> {
        let duration = timing.started.elapsed();
        let facts = self.facts_row(planned, &tally, stats, delta_version, seen, timing, duration);
        let events = self.chain_event(planned, tally.rows);
        let newest_event = self.next_event + i64::try_from(events.len()).unwrap_or(0);
        let record = CommitRecord {
            format: crate::checkpoint::FORMAT,
            batch_id: planned.batch_id,
            attempt: planned.attempt,
            end: planned.end,
            delta_version,
            chain: planned.chain.clone(),
            last_event: newest_event.checked_sub(1).filter(|newest| *newest >= 0),
            events,
            facts,
            committed_at: UtcMicros::now(),
        };
        let checkpoint = self.checkpoint.clone();
        let record = blocking(move || checkpoint.commit(&record).map(|()| record)).await?;
        failpoint::pass(failpoint::AFTER_COMMIT_FILE);
        self.position = Some(planned.end);
        self.recorded = Some(planned.end);
        self.next_batch = BatchId(planned.batch_id.0 + 1);
        self.next_event = newest_event;
        self.last_chain = Some(record.chain.clone());
        self.idle_since = Instant::now();
        self.count(&tally);
        if tally.replaced_texts > 0 {
            self.shared.tell(Event::Warning {
                capture_instance: self.settings.capture_instance.clone(),
                message: format!(
                    "{} texts of batch {} held invalid sequences, which were replaced by U+FFFD",
                    tally.replaced_texts, planned.batch_id
                ),
            });
        }
        self.shared.tell(Event::Batch {
            capture_instance: self.settings.capture_instance.clone(),
            batch_id: planned.batch_id,
            rows: tally.rows,
            inserts: tally.inserts,
            updates: tally.updates,
            deletes: tally.deletes,
            end_lsn: planned.end.lsn,
            end_commit_ts: planned.end.commit_ts,
            delta_version,
            duration_ms: millis(duration),
            replayed,
        });
        let status = match seen.max {
            Some(max) if max.lsn > planned.end.lsn => TableStatus::Behind,
            _ => TableStatus::Current,
        };
        let committed = Committed {
            entries: self.entries(&record),
            verdict: self.verdict(planned.end, status),
        };
        self.publisher.publish(committed).await?;
        self.prune(planned.batch_id).await
    }

    /// Now and then, what the checkpoint no longer needs is removed. Commits whose facts are not written stay.
    async fn prune(&self, newest: BatchId) -> Result<(), StreamError> {
        if newest.0 == 0 || newest.0 % PRUNE_EVERY != 0 {
            return Ok(());
        }
        let published = self.publisher.published();
        let checkpoint = self.checkpoint.clone();
        blocking(move || checkpoint.prune(published)).await
    }

    fn count(&mut self, tally: &Tally) {
        self.summary.rows += tally.rows;
        self.summary.inserts += tally.inserts;
        self.summary.updates += tally.updates;
        self.summary.deletes += tally.deletes;
        self.summary.batches += u64::from(tally.rows > 0);
    }

    async fn pause_or_fail(&self, error: StreamError, failures: &mut u32) -> Result<(), StreamError> {
        *failures += 1;
        let Some(pause) = retry::pause(error.kind(), *failures) else {
            return Err(error);
        };
        self.tell_retrying(&chain(&error), *failures, pause);
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            () = self.shared.stop.cancelled() => Err(error),
        }
    }

    fn seen(&self, poll: &Poll) -> Seen {
        Seen {
            rtt_ms: Some(poll.rtt_ms),
            max: Some(poll.max),
            min_commit_ts: match poll.table(self.instance()) {
                Some(TablePoll::Ready { min_commit_ts, .. }) => *min_commit_ts,
                _ => None,
            },
        }
    }

    /// The event of a chain that runs for the first time in this stream, the empty one included.
    fn chain_event(&self, planned: &PlannedBatch, rows: u64) -> Vec<FactsRow> {
        let event = match &self.last_chain {
            Some(last) if *last == planned.chain => return Vec::new(),
            Some(_) => "transform_changed",
            None => "transform_set",
        };
        vec![FactsRow {
            app_id: self.settings.app_id.0.clone(),
            event: Some(event.to_owned()),
            min_lsn: Some(planned.first_lsn),
            end_lsn: Some(planned.end.lsn),
            end_commit_ts: Some(planned.end.commit_ts),
            detail: Some(format!(
                "from {} on, which begins a batch of {rows} rows",
                planned.first_lsn
            )),
            target: Some(self.settings.target.display().to_string()),
            transform: Some(planned.provenance.to_string()),
            host: Some(self.shared.host.clone()),
            ..FactsRow::default()
        }]
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "each is one of the parts that a facts row is made of"
    )]
    fn facts_row(
        &self,
        planned: &PlannedBatch,
        tally: &Tally,
        stats: ReadStats,
        delta_version: Option<i64>,
        seen: Seen,
        timing: Timing,
        duration: Duration,
    ) -> FactsRow {
        let count = |number: u64| Some(i64::try_from(number).unwrap_or(i64::MAX));
        let ms = |duration: Duration| count(millis(duration));
        let end = planned.end;
        FactsRow {
            app_id: self.settings.app_id.0.clone(),
            batch_id: Some(planned.batch_id.0),
            rows: count(tally.rows),
            min_lsn: tally.first.map(|(lsn, _)| lsn),
            max_lsn: tally.last.map(|(lsn, _)| lsn),
            min_commit_ts: tally.first.map(|(_, time)| time),
            max_commit_ts: tally.last.map(|(_, time)| time),
            deletes: count(tally.deletes),
            inserts: count(tally.inserts),
            updates: count(tally.updates),
            started_at: Some(timing.started_at),
            duration_ms: ms(duration),
            source_rtt_ms: seen.rtt_ms,
            read_seconds: Some(duration.saturating_sub(timing.plan + timing.commit).as_secs_f64()),
            read_mb: Some(stats.bytes as f64 / 1e6),
            network_wait_ms: ms(stats.network_wait),
            retention_watermark_ts: seen.min_commit_ts,
            retention_headroom_hours: seen.min_commit_ts.map(|oldest| hours_between(oldest, end.commit_ts)),
            source_max_commit_ts: seen.max.map(|max| max.commit_ts),
            capture_lag_seconds: seen
                .max
                .map(|max| hours_between(max.commit_ts, UtcMicros::now()) * 3600.0),
            ingestion_lag_seconds: seen.max.map(|max| hours_between(end.commit_ts, max.commit_ts) * 3600.0),
            end_lsn: Some(end.lsn),
            end_commit_ts: Some(end.commit_ts),
            target: Some(self.settings.target.display().to_string()),
            transform: Some(planned.provenance.to_string()),
            transform_ms: ms(tally.transform),
            plan_ms: ms(timing.plan),
            commit_ms: ms(timing.commit),
            rows_quarantined: Some(0),
            rows_filtered: count(tally.filtered),
            delta_version,
            host: Some(self.shared.host.clone()),
            ..FactsRow::default()
        }
    }

    /// What the Delta commit says of itself: the batch's facts, and what made it.
    fn user_metadata(&self, planned: &PlannedBatch, tally: &Tally) -> serde_json::Value {
        serde_json::json!({
            "app_id": self.settings.app_id,
            "batch_id": planned.batch_id,
            "attempt": planned.attempt,
            "capture_instance": self.instance(),
            "start": planned.start,
            "end": planned.end,
            "rows": tally.rows,
            "inserts": tally.inserts,
            "updates": tally.updates,
            "deletes": tally.deletes,
            "rows_filtered": tally.filtered,
            "min_lsn": tally.first.map(|(lsn, _)| lsn),
            "max_lsn": tally.last.map(|(lsn, _)| lsn),
            "transform": planned.provenance,
            "host": self.shared.host,
        })
    }
}

impl Timing {
    fn start() -> Timing {
        Timing {
            started_at: UtcMicros::now(),
            started: Instant::now(),
            plan: Duration::ZERO,
            commit: Duration::ZERO,
        }
    }
}

/// Transforms and stages chunks as they come, on threads for CPU work, while the next one is read.
async fn stage(
    transforms: Arc<Chain>,
    mut chunks: mpsc::Receiver<Chunk>,
    mut staged: StagedFiles,
) -> Result<(StagedFiles, Tally), StreamError> {
    let mut tally = Tally::default();
    while let Some(chunk) = chunks.recv().await {
        failpoint::pass(failpoint::CHUNK_READ);
        tally.note(&chunk);
        let transforms = Arc::clone(&transforms);
        let (files, outcome) = tokio::task::spawn_blocking(move || {
            let mut staged = staged;
            let outcome = transforms
                .apply(&chunk.batch)
                .map_err(StreamError::from)
                .and_then(|applied| {
                    failpoint::pass(failpoint::CHUNK_TRANSFORMED);
                    staged.write(&applied.batch)?;
                    Ok((applied.batch.num_rows(), applied.filtered, applied.elapsed))
                });
            (staged, outcome)
        })
        .await
        .map_err(|_| StreamError::Task {
            doing: "transforming and staging a chunk",
        })?;
        staged = files;
        match outcome {
            Ok((rows, filtered, elapsed)) => {
                tally.rows += rows as u64;
                tally.filtered += filtered;
                tally.transform += elapsed;
            }
            Err(error) => {
                staged.abort().await;
                return Err(error);
            }
        }
    }
    Ok((staged, tally))
}

impl Tally {
    fn note(&mut self, chunk: &Chunk) {
        self.inserts += chunk.inserts;
        self.updates += chunk.updates;
        self.deletes += chunk.deletes;
        self.replaced_texts += chunk.replaced_texts;
        self.first.get_or_insert((chunk.first_lsn, chunk.first_commit_ts));
        self.last = Some((chunk.last_lsn, chunk.last_commit_ts));
    }
}

fn provenance_json(chain: &Chain) -> serde_json::Value {
    serde_json::to_value(chain.provenance()).unwrap_or_default()
}
