//! Rows in quarantine, read again by their LSNs and passed through the chain of today. What can be transformed now goes to
//! bronze in a batch of its own, which reads no range and leaves the position where it is.
//!
//! The quarantine table is told before bronze has the batch, as with every batch. A retry that was interrupted is not gone on
//! with: what it wrote to quarantine is void, and the rows are open as before.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, AsArray, BooleanArray, StringArray};
use arrow::compute::{cast, filter_record_batch};
use arrow::datatypes::{DataType, Int32Type};
use tokio::sync::mpsc;

use crate::batch::{Chunk, CommitTimes};
use crate::checkpoint::{PlannedBatch, RETRY_DETAIL, RETRY_EVENT, RETRY_INTERRUPTED, Retry};
use crate::facts::FactsRow;
use crate::failpoint::{self, planted};
use crate::identity::BatchId;
use crate::lake::{LakeError, StagedFiles};
use crate::lsn::{Lsn, Offset};
use crate::quarantine::{AttemptAt, Change, QuarantineRow, RowState};

use crate::report::Event;
use crate::shape::META_BEFORE;
use crate::source::{ChangeReader, ChunkLimits, Poll, ReadStats, TablePoll, Wanted, commit_time};
use crate::transform::Together;

use super::StreamError;
use super::open::{OpenTable, blocking};
use super::quarantine::{QuarantineLimit, by_code, rows_of};
use super::record::{Seen, Timing};
use super::schema::Told;
use super::staging::Staging;
use super::tally::Tally;

/// One commit of the source that has rows in quarantine.
struct Commit {
    lsn: Lsn,
    reader: Arc<ChangeReader>,
    times: Arc<CommitTimes>,
}

/// Rows that were read again, staged.
struct Again {
    staged: StagedFiles,
    tally: Tally,
    stats: ReadStats,
    /// The rows that the change tables gave.
    seen: HashSet<Change>,
}

/// The changes that are wanted, by `_start_lsn` and `_seqval`. Whole changes: an update is transformed as one.
type Changes = HashSet<(String, Option<String>)>;

impl OpenTable {
    /// Reads the rows again that are in quarantine, of these batches or of all.
    pub(super) async fn retry_quarantined(&mut self, batches: &[BatchId], poll: &Poll) -> Result<(), StreamError> {
        if self.attempt > 0 {
            // Its rows are still to come, and a retry under its number would take its place.
            return Err(StreamError::RetryWaits { batch: self.next_batch });
        }
        let mut open = self.quarantine.lock().await.open_rows(self.next_batch).await?;
        open.retain(|row| batches.is_empty() || batches.contains(&BatchId(row.batch_id)));
        // They name no change that could be looked for.
        open.retain(|row| !row.is_lost());
        let mut by_commit: BTreeMap<Lsn, Vec<QuarantineRow>> = BTreeMap::new();
        let mut gone = 0_u64;
        for row in open {
            let lsn = row.start_lsn.as_deref().and_then(|lsn| lsn.parse::<Lsn>().ok());
            match lsn.filter(|lsn| self.is_left(&row, *lsn, poll)) {
                Some(lsn) => by_commit.entry(lsn).or_default().push(row),
                None => gone += 1,
            }
        }
        if gone > 0 {
            self.warn(format!(
                "{gone} of the rows in quarantine are no longer in the change table (cleanup took them, or their capture instance is \
                 gone): they cannot be read again, and stay in quarantine as the record of what bronze lacks"
            ));
        }
        if by_commit.is_empty() {
            self.tell_retried(None, 0, 0, &[]);
        }
        let mut commits = by_commit.into_iter().peekable();
        while commits.peek().is_some() && !self.shared.stop.is_cancelled() {
            let most = self.settings.max_commits_per_batch as usize;
            let some: Vec<(Lsn, Vec<QuarantineRow>)> = commits.by_ref().take(most).collect();
            self.retry_commits(some, poll).await?;
        }
        Ok(())
    }

    /// Whether the source still has the change.
    fn is_left(&self, row: &QuarantineRow, lsn: Lsn, poll: &Poll) -> bool {
        self.readers
            .iter()
            .filter(|(name, _)| Some(&name.0) == row.capture_instance.as_ref())
            .any(|(name, _)| {
                matches!(poll.table(name), Some(TablePoll::Ready { min_lsn: Some(min_lsn), .. }) if *min_lsn <= lsn)
            })
    }

    async fn retry_commits(&mut self, commits: Vec<(Lsn, Vec<QuarantineRow>)>, poll: &Poll) -> Result<(), StreamError> {
        let Some(position) = self.position else {
            return Ok(());
        };
        let timing = Timing::start();
        let rows: Vec<&QuarantineRow> = commits.iter().flat_map(|(_, rows)| rows).collect();
        let batches: BTreeSet<i64> = rows.iter().map(|row| row.batch_id).collect();
        let wanted: Changes = rows
            .iter()
            .filter_map(|row| Some((row.start_lsn.clone()?, row.seqval.clone())))
            .collect();
        let asked: Vec<QuarantineRow> = rows.into_iter().cloned().collect();
        let planned = PlannedBatch {
            retry: Some(Retry {
                rows: asked.len() as u64,
                batches: batches.iter().copied().map(BatchId).collect(),
            }),
            ..self.pin(
                position.lsn,
                position,
                Vec::new(),
                poll.clock,
                self.told_of_retry(position, &asked, &batches),
            )
        };
        self.write_plan(&planned).await?;
        self.open_batch = Some(planned.clone());
        let mut failures = 0;
        let mut look = false;
        let (facts, warning, missing) = loop {
            let done = async {
                if look && let Some(facts) = self.in_bronze(&planned).await? {
                    return Ok((facts, None, HashSet::new()));
                }
                let commits = self.located(&commits, poll).await?;
                self.attempt_retry(&planned, commits, &wanted, &asked, timing).await
            };
            match done.await {
                Ok(done) => break done,
                Err(error) => self.pause(error, &mut failures).await?,
            }
            look = true;
        };
        let into_bronze = facts.rows.and_then(|rows| u64::try_from(rows).ok()).unwrap_or(0);
        self.finish(&planned, facts, warning, false).await?;
        let read_again: HashSet<Change> = asked
            .iter()
            .map(QuarantineRow::change)
            .filter(|change| !missing.contains(change))
            .collect();
        let next = self.next_batch;
        let mut still = self
            .retried(|| async { self.quarantine.lock().await.open_rows(next).await })
            .await?;
        still.retain(|row| read_again.contains(&row.change()));
        self.tell_retried(Some(planned.batch_id), read_again.len() as u64, into_bronze, &still);
        Ok(())
    }

    fn tell_retried(&self, batch_id: Option<BatchId>, rows: u64, into_bronze: u64, still: &[QuarantineRow]) {
        self.shared.tell(Event::Retried {
            capture_instance: self.settings.capture_instance.clone(),
            batch_id,
            rows,
            into_bronze,
            still_quarantined: still.len() as u64,
            still_codes: by_code(still),
        });
    }

    fn told_of_retry(&self, position: Offset, asked: &[QuarantineRow], batches: &BTreeSet<i64>) -> Told {
        let batches: Vec<String> = batches.iter().map(i64::to_string).collect();
        let event = FactsRow {
            app_id: self.settings.app_id.0.clone(),
            event: Some(RETRY_EVENT.to_owned()),
            end_lsn: Some(position.lsn),
            end_commit_ts: Some(position.commit_ts),
            detail: Some(format!(
                "{} rows in quarantine of batches {} were read again",
                asked.len(),
                batches.join(", ")
            )),
            target: Some(self.settings.target.display().to_string()),
            transform: serde_json::to_string(self.chain.provenance()).ok(),
            host: Some(self.shared.host.clone()),
            ..FactsRow::default()
        };
        Told {
            events: vec![event],
            seen: self.seen_now(),
        }
    }

    /// What reads each commit, and when it was made.
    async fn located(&self, commits: &[(Lsn, Vec<QuarantineRow>)], poll: &Poll) -> Result<Vec<Commit>, StreamError> {
        let mut located = Vec::with_capacity(commits.len());
        let mut asker = self.shared.asks.get().await?;
        for (lsn, rows) in commits {
            let instances: BTreeSet<&str> = rows.iter().filter_map(|row| row.capture_instance.as_deref()).collect();
            for (name, reader) in self
                .readers
                .iter()
                .filter(|(name, _)| instances.contains(name.0.as_str()))
            {
                let times = commit_time(&mut asker, name, *lsn, poll.clock).await?;
                located.push(Commit {
                    lsn: *lsn,
                    reader: Arc::clone(reader),
                    times,
                });
            }
        }
        Ok(located)
    }

    /// The facts of the batch, what there is to warn of, and which rows were not there.
    async fn attempt_retry(
        &self,
        planned: &PlannedBatch,
        commits: Vec<Commit>,
        wanted: &Changes,
        asked: &[QuarantineRow],
        mut timing: Timing,
    ) -> Result<(FactsRow, Option<String>, HashSet<Change>), StreamError> {
        self.bronze.claim(self.checkpoint.fencing()).await?;
        let at = AttemptAt {
            batch: planned.batch_id,
            attempt: planned.attempt,
        };
        let started = Instant::now();
        let Again {
            staged,
            tally,
            stats,
            seen,
        } = self.read_again(planned, commits, wanted).await?;
        timing.read = started.elapsed().saturating_sub(tally.transform);
        let warning = tally
            .replaced
            .warning(&self.shape, &format!("batch {}", planned.batch_id));
        let mut rows = rows_of(&self.chain, &self.settings.app_id, at, &tally);
        let still_open = rows.len();
        let again: HashSet<_> = rows.iter().map(QuarantineRow::change).collect();
        let out = asked.iter().filter(|row| !again.contains(&row.change()));
        // What the change table did not give is not in bronze, whatever the reason.
        let (out, missing): (Vec<&QuarantineRow>, Vec<&QuarantineRow>) =
            out.partition(|row| seen.contains(&row.change()));
        let retried: Vec<QuarantineRow> = out.into_iter().map(|row| row.retried(at)).collect();
        let missing: HashSet<Change> = missing.into_iter().map(QuarantineRow::change).collect();
        let (done, not_there) = (retried.len(), missing.len());
        if not_there > 0 {
            self.warn(format!(
                "{not_there} of the rows in quarantine were not in the change table any more, though their commit is: they stay in \
                 quarantine"
            ));
        }
        if !planted::is(planted::RETRIED_NOT_TOLD) {
            rows.extend(retried);
        }
        let mut staged = staged;
        staged.finish().await?;
        self.quarantine.lock().await.put(at, rows).await?;
        failpoint::pass(failpoint::AFTER_QUARANTINE);
        let facts = self.facts_row(planned, &tally, stats, Seen::default(), timing);
        let facts = FactsRow {
            // They were counted when they went into quarantine.
            rows_quarantined: Some(0),
            detail: Some(format!(
                "{RETRY_DETAIL}: {done} rows are out of it, {still_open} still cannot be transformed, {not_there} were not there"
            )),
            ..facts
        };
        if tally.rows == 0 {
            staged.abort().await;
            return Ok((facts, warning, missing));
        }
        Ok((self.commit(planned, staged, facts, timing).await?, warning, missing))
    }

    /// Reads the commits one after the other, and passes the wanted changes of them through the chain: once more where a row
    /// that stays in quarantine takes along rows of other chunks.
    async fn read_again(
        &self,
        planned: &PlannedBatch,
        commits: Vec<Commit>,
        wanted: &Changes,
    ) -> Result<Again, StreamError> {
        let limits = ChunkLimits {
            rows: planned.chunk_rows as usize,
            bytes: planned.chunk_bytes as usize,
        };
        let commits = Arc::new(commits);
        let mut known = Together::default();
        loop {
            let (sender, chunks) = mpsc::channel(1);
            let reading = tokio::spawn(read_commits(Arc::clone(&commits), wanted.clone(), limits, sender));
            let staged = self.bronze.stage(planned.batch_id, planned.attempt).await?;
            let staging = Staging {
                turns: self.shared.scheduler.cpu.clone(),
                share: self.share,
                chain: Arc::clone(&self.chain),
                omitted: self.omitted.clone(),
                known: Arc::new(known.clone()),
                limit: QuarantineLimit::none(self.instance(), planned.batch_id),
                again: true,
            };
            let staged = staging.stage(chunks, staged).await;
            let read = reading.await.map_err(|_| StreamError::Task {
                doing: "reading change rows",
            })?;
            let (staged, tally, (stats, seen)) = match (read, staged) {
                (Ok(read), Ok((staged, tally))) => (staged, tally, read),
                (Err(error), Ok((files, _))) => {
                    files.abort().await;
                    return Err(error);
                }
                (_, Err(error)) => return Err(error),
            };
            let Some(spread) = tally.spread(&known) else {
                return Ok(Again {
                    staged,
                    tally,
                    stats,
                    seen,
                });
            };
            known.add(spread);
            staged.abort().await;
        }
    }

    /// Ends a retry that an earlier process began and that bronze does not have: nothing of it counts.
    pub(super) async fn abandon_retry(&mut self, planned: PlannedBatch) -> Result<(), StreamError> {
        let fencing = self.checkpoint.fencing();
        self.retried(|| async { Ok(self.bronze.claim(fencing).await?) }).await?;
        if let Some(record) = self.end_what_bronze_has().await? {
            self.tell_batch(&record, true);
            return self.publish_record(&record).await;
        }
        self.retried(|| async { self.quarantine.lock().await.abandon(planned.batch_id).await })
            .await?;
        self.warn(format!(
            "a retry of quarantine (batch {}) was interrupted before bronze had it, and counts for nothing: its rows are in \
             quarantine as before",
            planned.batch_id
        ));
        // It ran no chain: bronze's rows are of the one before it.
        let checkpoint = self.checkpoint.clone();
        let last = blocking(move || checkpoint.latest()).await?.last_committed;
        let provenance = last.as_ref().and_then(|last| last.facts.transform.as_deref());
        let planned = PlannedBatch {
            events: Vec::new(),
            chain: last.as_ref().map(|last| last.chain.clone()).unwrap_or_default(),
            provenance: provenance
                .and_then(|text| serde_json::from_str(text).ok())
                .unwrap_or_default(),
            ..planned
        };
        let (tally, stats) = (Tally::default(), ReadStats::default());
        let facts = FactsRow {
            detail: Some(RETRY_INTERRUPTED.to_owned()),
            ..self.facts_row(&planned, &tally, stats, Seen::default(), Timing::start())
        };
        self.finish(&planned, facts, None, true).await
    }

    fn warn(&self, message: String) {
        self.shared.tell(Event::Warning {
            capture_instance: self.settings.capture_instance.clone(),
            message,
        });
    }
}

/// The range of one commit.
fn only(lsn: Lsn) -> Wanted {
    Wanted {
        from: lsn,
        to: lsn,
        after: None,
    }
}

async fn read_commits(
    commits: Arc<Vec<Commit>>,
    wanted: Changes,
    limits: ChunkLimits,
    out: mpsc::Sender<Chunk>,
) -> Result<(ReadStats, HashSet<Change>), StreamError> {
    let mut stats = ReadStats::default();
    let mut seen = HashSet::new();
    for commit in commits.iter() {
        let (sender, mut chunks) = mpsc::channel::<Chunk>(1);
        let times = Arc::clone(&commit.times);
        let reading = commit.reader.read(only(commit.lsn), times, limits, false, sender);
        let (wanted, seen, out) = (&wanted, &mut seen, &out);
        // It owns the chunks: when it ends early, the reader finds that nobody takes any more.
        let filtering = async move {
            while let Some(chunk) = chunks.recv().await {
                let chunk = kept(chunk, wanted, seen)?;
                if chunk.batch.num_rows() > 0 && out.send(chunk).await.is_err() {
                    break;
                }
            }
            Ok::<(), StreamError>(())
        };
        let (read, filtered) = tokio::join!(reading, filtering);
        // Waits of commits that are read one after the other are added up.
        let part = read?;
        let waited = stats.network_wait + part.network_wait;
        stats.add(part);
        stats.network_wait = waited;
        filtered?;
    }
    Ok((stats, seen))
}

/// The rows of wanted changes. What is read of them is noted.
fn kept(chunk: Chunk, wanted: &Changes, seen: &mut HashSet<Change>) -> Result<Chunk, StreamError> {
    let misfit =
        |reason: String| StreamError::from(LakeError::Internal(format!("a chunk cannot be filtered: {reason}")));
    let text = |position: usize| -> Result<StringArray, StreamError> {
        let column = chunk
            .batch
            .columns()
            .get(position)
            .ok_or_else(|| misfit(format!("it has no {}", META_BEFORE[position])))?;
        let text = cast(column, &DataType::Utf8).map_err(|error| misfit(error.to_string()))?;
        Ok(text.as_string::<i32>().clone())
    };
    let (lsns, seqvals) = (text(1)?, text(2)?);
    let operations = chunk
        .batch
        .columns()
        .get(3)
        .and_then(|column| column.as_primitive_opt::<Int32Type>());
    let operations = operations.ok_or_else(|| misfit(format!("its {} is no INT", META_BEFORE[3])))?;
    let mask: BooleanArray = (0..chunk.batch.num_rows())
        .map(|row| {
            let seqval = seqvals.is_valid(row).then(|| seqvals.value(row).to_owned());
            let change = (lsns.value(row).to_owned(), seqval);
            let is_wanted = wanted.contains(&change);
            if is_wanted {
                seen.insert((Some(change.0), change.1, Some(operations.value(row))));
            }
            Some(is_wanted)
        })
        .collect();
    let batch = filter_record_batch(&chunk.batch, &mask).map_err(|error| misfit(error.to_string()))?;
    let rows = mask.values();
    let omitted = chunk
        .omitted
        .iter()
        .map(|(column, bits)| (*column, rows.set_indices().map(|row| bits.value(row)).collect()))
        .collect();
    Ok(Chunk {
        batch,
        omitted,
        ..chunk
    })
}

impl QuarantineRow {
    /// The row that says of this one's change that it is out of quarantine.
    fn retried(&self, at: AttemptAt) -> QuarantineRow {
        QuarantineRow {
            batch_id: at.batch.0,
            attempt: i32::try_from(at.attempt).unwrap_or(i32::MAX),
            state: RowState::Retried,
            quarantined_at: Some(crate::lsn::UtcMicros::now()),
            ..self.clone()
        }
    }
}
