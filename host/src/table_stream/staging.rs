//! The chunks of a batch through the chain and into files, while the next ones are read.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::batch::Chunk;
use crate::failpoint;
use crate::lake::{LakeError, StagedFiles};
use crate::transform::{Applied, Chain, Together};

use super::StreamError;
use super::omitted::Omitted;
use super::quarantine::QuarantineLimit;
use super::tally::Tally;

/// What happens to the chunks of a batch.
pub(super) struct Staging {
    pub(super) chain: Arc<Chain>,
    pub(super) omitted: Option<Arc<Omitted>>,
    /// What ties rows for quarantine to rows of other chunks.
    pub(super) known: Arc<Together>,
    pub(super) limit: QuarantineLimit,
    /// The rows were read before, and only some of each chunk come again.
    pub(super) again: bool,
}

impl Staging {
    /// Transforms and stages chunks as they come, on threads for CPU work.
    pub(super) async fn stage(
        self,
        mut chunks: mpsc::Receiver<Chunk>,
        mut staged: StagedFiles,
    ) -> Result<(StagedFiles, Tally), StreamError> {
        let mut tally = Tally::default();
        while let Some(chunk) = chunks.recv().await {
            failpoint::pass(failpoint::CHUNK_READ);
            tally.replaced.add(&chunk.replaced);
            if self.chain.quarantines() {
                tally.note_edges(chunk.first_lsn, chunk.last_lsn);
            }
            let (files, outcome) = self.chunk(chunk, staged, self.limit.left(&tally)).await?;
            staged = files;
            let noted = outcome
                .and_then(|applied| tally.note(applied).map_err(misfit))
                .and_then(|()| self.limit.expect_so_far(&tally));
            if let Err(error) = noted {
                staged.abort().await;
                return Err(error);
            }
        }
        match self.limit.expect_whole(&tally) {
            Ok(()) => Ok((staged, tally)),
            Err(error) => {
                staged.abort().await;
                Err(error)
            }
        }
    }

    async fn chunk(
        &self,
        chunk: Chunk,
        staged: StagedFiles,
        most: u64,
    ) -> Result<(StagedFiles, Result<Applied, StreamError>), StreamError> {
        let (chain, omitted, known) = (Arc::clone(&self.chain), self.omitted.clone(), Arc::clone(&self.known));
        let again = self.again;
        tokio::task::spawn_blocking(move || {
            let mut staged = staged;
            let applied = match again {
                true => chain.apply_again(&chunk.batch, &known, most),
                false => chain.apply_among(&chunk.batch, &known, most),
            };
            let outcome = applied.map_err(StreamError::from).and_then(|applied| {
                failpoint::pass(failpoint::CHUNK_TRANSFORMED);
                match &omitted {
                    Some(omitted) => {
                        let batch = omitted.add_to(&applied, &chunk.omitted);
                        staged.write(&batch.map_err(|error| LakeError::Internal(error.to_string()))?)?;
                    }
                    None => staged.write(&applied.batch)?,
                }
                Ok(applied)
            });
            (staged, outcome)
        })
        .await
        .map_err(|_| StreamError::Task {
            doing: "transforming and staging a chunk",
        })
    }
}

/// A chunk that came out of the chain without a metadata column that it had.
fn misfit(column: &str) -> StreamError {
    LakeError::Internal(format!("a chunk lost its column {column} in the transforms")).into()
}
