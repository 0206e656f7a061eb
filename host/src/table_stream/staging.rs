//! The chunks of a batch through the chain and into files, while the next ones are read.

use std::sync::Arc;

use arrow::array::RecordBatch;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::batch::Chunk;
use crate::failpoint;
use crate::lake::{LakeError, StagedFiles};
use crate::scheduler::{Share, Turn, Turns};
use crate::transform::{Applied, Chain, Together};

use super::StreamError;
use super::omitted::Omitted;
use super::quarantine::QuarantineLimit;
use super::tally::Tally;

/// What happens to the chunks of a batch.
pub(super) struct Staging {
    /// Turns at the processor.
    pub(super) turns: Turns,
    pub(super) share: Share,
    pub(super) chain: Arc<Chain>,
    pub(super) omitted: Option<Arc<Omitted>>,
    /// What ties rows for quarantine to rows of other chunks.
    pub(super) known: Arc<Together>,
    pub(super) limit: QuarantineLimit,
    /// The rows were read before, and only some of each chunk come again.
    pub(super) again: bool,
}

impl Staging {
    /// Transforms and stages chunks as they come, on threads for CPU work: a chunk is transformed while the one before it is
    /// written. On an error the files are gone. The chunks end as well where reading fails: whether too large a share of them
    /// went into quarantine is for the caller to ask, when all were read.
    pub(super) async fn stage(
        self,
        mut chunks: mpsc::Receiver<Chunk>,
        staged: StagedFiles,
    ) -> Result<(StagedFiles, Tally), StreamError> {
        let mut tally = Tally::default();
        let mut files = Files::Idle(Box::new(staged));
        while let Some(chunk) = chunks.recv().await {
            failpoint::pass(failpoint::CHUNK_READ);
            tally.replaced.add(&chunk.replaced);
            let memory = chunk.memory.clone();
            if self.chain.quarantines() {
                tally.note_edges(chunk.first_lsn, chunk.last_lsn);
            }
            let noted = self.transform(chunk, self.limit.left(&tally)).await;
            let noted = noted.and_then(|(applied, rows)| {
                tally.note(applied).map_err(misfit)?;
                self.limit.expect_so_far(&tally)?;
                Ok(rows)
            });
            let staged = files.idle().await?;
            match noted {
                Ok(rows) => {
                    let turn = self.turns.take(self.share, 1).await;
                    files = Files::write(staged, rows, (turn, memory));
                }
                Err(error) => {
                    staged.abort().await;
                    return Err(error);
                }
            }
        }
        Ok((files.idle().await?, tally))
    }

    /// What the chain makes of a chunk, and that as bronze gets it.
    async fn transform(&self, chunk: Chunk, most: u64) -> Result<(Applied, RecordBatch), StreamError> {
        let (chain, omitted, known) = (Arc::clone(&self.chain), self.omitted.clone(), Arc::clone(&self.known));
        let again = self.again;
        let turn = self.turns.take(self.share, 1).await;
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let applied = match again {
                true => chain.apply_again(&chunk.batch, &known, most),
                false => chain.apply_among(&chunk.batch, &known, most),
            }?;
            failpoint::pass(failpoint::CHUNK_TRANSFORMED);
            let rows = match &omitted {
                Some(omitted) => {
                    let rows = omitted.add_to(&applied, &chunk.omitted);
                    rows.map_err(|error| LakeError::Internal(error.to_string()))?
                }
                None => applied.batch.clone(),
            };
            Ok((applied, rows))
        })
        .await
        .map_err(|_| StreamError::Task {
            doing: "transforming a chunk",
        })?
    }
}

/// The files of a batch, to which one chunk at a time is written.
enum Files {
    Idle(Box<StagedFiles>),
    /// Written to on a thread for CPU work, by the files' only owner.
    Busy(JoinHandle<(StagedFiles, Result<(), LakeError>)>),
}

impl Files {
    /// The turns are over when the rows are written.
    fn write(mut staged: StagedFiles, rows: RecordBatch, turns: (Turn, Option<Arc<Turn>>)) -> Files {
        Files::Busy(tokio::task::spawn_blocking(move || {
            let _turns = turns;
            let written = staged.write(&rows);
            drop(rows);
            (staged, written)
        }))
    }

    /// Waits until what was to be written is.
    ///
    /// # Errors
    /// It could not be written, and the files are gone.
    async fn idle(self) -> Result<StagedFiles, StreamError> {
        let writing = match self {
            Files::Idle(staged) => return Ok(*staged),
            Files::Busy(writing) => writing,
        };
        let (staged, written) = writing.await.map_err(|_| StreamError::Task {
            doing: "staging a chunk",
        })?;
        match written {
            Ok(()) => Ok(staged),
            Err(error) => {
                staged.abort().await;
                Err(error.into())
            }
        }
    }
}

/// A chunk that came out of the chain without a metadata column that it had.
fn misfit(column: &str) -> StreamError {
    LakeError::Internal(format!("a chunk lost its column {column} in the transforms")).into()
}
