//! Facts, then the verdict, for batches that are committed: behind the stream, in order, many streams in one commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::error::{Classify, chain};
use crate::facts::{FactsEntry, FactsKey, FactsWriter};
use crate::failpoint;
use crate::identity::BatchId;
use crate::lake::LakeError;
use crate::lsn::UtcMicros;
use crate::report::Event;
use crate::retry;
use crate::verdict::{VerdictUpdate, VerdictWriter};

use super::{Shared, StreamError, millis};

/// Batches that may wait for their facts; more than these, and the stream waits too.
const WAITING: usize = 64;

/// One committed batch.
pub(super) struct Committed {
    /// Its facts row, and the rows of events that belong to it.
    pub(super) entries: Vec<FactsEntry>,
    /// Where the verdict may go.
    pub(super) verdict: VerdictUpdate,
}

/// The stream's end of the publisher.
pub(super) struct Publisher {
    queue: Option<mpsc::Sender<Committed>>,
    task: Option<JoinHandle<Result<Option<UtcMicros>, StreamError>>>,
    closing: CancellationToken,
    /// The newest batch whose facts are written; −1 before the first.
    published: Arc<AtomicI64>,
}

impl Publisher {
    /// `finalized` is the verdict that the table has.
    pub(super) fn start(
        shared: Arc<Shared>,
        instance: crate::identity::CaptureInstance,
        facts: FactsWriter,
        verdicts: VerdictWriter,
        finalized: Option<UtcMicros>,
    ) -> Publisher {
        let (queue, waiting) = mpsc::channel(WAITING);
        let closing = CancellationToken::new();
        let published = Arc::new(AtomicI64::new(-1));
        let work = Work {
            shared,
            instance,
            facts,
            verdicts,
            finalized,
            closing: closing.clone(),
            published: Arc::clone(&published),
        };
        Publisher {
            queue: Some(queue),
            task: Some(tokio::spawn(work.run(waiting))),
            closing,
            published,
        }
    }

    /// The newest batch of this run whose facts are written.
    pub(super) fn published(&self) -> Option<BatchId> {
        Some(BatchId(self.published.load(Ordering::Acquire))).filter(|batch| batch.0 >= 0)
    }

    /// Hands a batch over. An error is the one that stopped the publisher.
    pub(super) async fn publish(&mut self, committed: Committed) -> Result<(), StreamError> {
        let sent = match &self.queue {
            Some(queue) => queue.send(committed).await.is_ok(),
            None => false,
        };
        if sent {
            return Ok(());
        }
        self.close().await?;
        Err(StreamError::Task {
            doing: "writing its facts",
        })
    }

    /// Waits until everything is written. How far the table is final.
    pub(super) async fn close(&mut self) -> Result<Option<UtcMicros>, StreamError> {
        self.queue = None;
        self.closing.cancel();
        match self.task.take() {
            Some(task) => task.await.unwrap_or(Err(StreamError::Task {
                doing: "writing its facts",
            })),
            None => Ok(None),
        }
    }
}

struct Work {
    shared: Arc<Shared>,
    instance: crate::identity::CaptureInstance,
    facts: FactsWriter,
    verdicts: VerdictWriter,
    finalized: Option<UtcMicros>,
    /// The stream ends: groups are written now, not when their second is over.
    closing: CancellationToken,
    published: Arc<AtomicI64>,
}

impl Work {
    async fn run(mut self, mut waiting: mpsc::Receiver<Committed>) -> Result<Option<UtcMicros>, StreamError> {
        let mut group = Vec::new();
        // Everything that waits goes together: its rows in one commit, its last verdict instead of each.
        while waiting.recv_many(&mut group, WAITING).await > 0 {
            let mut last = None;
            let mut entries = Vec::new();
            for committed in group.drain(..) {
                entries.extend(committed.entries);
                last = Some(committed.verdict);
            }
            let newest = entries.iter().filter_map(batch_of).max();
            self.record(entries).await?;
            if let Some(newest) = newest {
                self.published.store(newest.0, Ordering::Release);
            }
            failpoint::pass(failpoint::AFTER_FACTS);
            if let Some(update) = last {
                self.advance(update).await?;
            }
            failpoint::pass(failpoint::AFTER_VERDICT);
        }
        Ok(self.finalized)
    }

    /// Writes facts as one, and again as one: a later batch that got in first would make the earlier count as written.
    async fn record(&self, entries: Vec<FactsEntry>) -> Result<(), StreamError> {
        if entries.is_empty() {
            return Ok(());
        }
        let facts = &self.facts;
        let record = self.retried(move || facts.append(entries.clone()));
        self.unless_closing(record, facts.flush()).await
    }

    async fn advance(&mut self, update: VerdictUpdate) -> Result<(), StreamError> {
        let verdicts = &self.verdicts;
        let open_quarantined = update.open_quarantined;
        let advance = self.retried(move || verdicts.advance(update.clone()));
        let until = self.unless_closing(advance, self.verdicts.flush()).await?;
        if until > self.finalized
            && let Some(finalized_until) = until
        {
            self.finalized = until;
            self.shared.tell(Event::Verdict {
                capture_instance: self.instance.clone(),
                finalized_until,
                open_quarantined,
            });
        }
        Ok(())
    }

    /// Waits for a group's own time; when the stream ends meanwhile, asks for it at once.
    async fn unless_closing<T>(
        &self,
        written: impl Future<Output = T>,
        flush: impl Future<Output = Result<(), LakeError>>,
    ) -> T {
        tokio::pin!(written);
        tokio::select! {
            biased;
            done = &mut written => return done,
            () = self.closing.cancelled() => {}
        }
        // What the flush cannot do, the write itself reports.
        let (done, _) = tokio::join!(written, flush);
        done
    }

    /// Facts and verdicts can be written again from the checkpoint, so a store that is away only delays them.
    async fn retried<T, F: Future<Output = Result<T, LakeError>>>(
        &self,
        write: impl Fn() -> F,
    ) -> Result<T, StreamError> {
        let mut failures = 0;
        loop {
            let error = match write().await {
                Ok(written) => return Ok(written),
                Err(error) => error,
            };
            failures += 1;
            let Some(pause) = retry::pause(error.kind(), failures) else {
                return Err(error.into());
            };
            self.shared.tell(Event::Retrying {
                capture_instance: self.instance.clone(),
                error: chain(&error),
                failures,
                pause_ms: millis(pause),
            });
            tokio::time::sleep(pause).await;
        }
    }
}

/// The batch that an entry is about; `None` for an event.
fn batch_of(entry: &FactsEntry) -> Option<BatchId> {
    match entry.key {
        FactsKey::Batch(batch) => Some(batch),
        FactsKey::Event(_) => None,
    }
}
