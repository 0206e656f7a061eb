//! Why a table stopped.

use std::sync::Arc;

use crate::checkpoint::{CheckpointError, StateError};
use crate::error::{Classify, ErrorKind, chain};
use crate::identity::{AppId, BatchId};
use crate::lake::LakeError;
use crate::lsn::Lsn;
use crate::quarantine::AttemptAt;
use crate::source::SourceError;
use crate::transform::TransformError;

/// The failure of one table's stream. The other tables go on.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// On the way from the source.
    #[error("{0}")]
    Source(#[source] Arc<SourceError>),
    /// In a component, or with its answer.
    #[error(transparent)]
    Transform(#[from] TransformError),
    /// On the way to Delta.
    #[error(transparent)]
    Lake(#[from] LakeError),
    /// With the checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The checkpoint and the tables do not belong together.
    #[error(transparent)]
    State(#[from] StateError),
    /// The chain is another than the one that the stream last ran with.
    #[error(
        "the transform chain changed since batch {batch}{what}: it was {was}, and now is {is}. bronze holds rows of the \
         former. set on_transform_change = \"continue\" to go on with the new chain from the next batch{}, or restore the \
         former",
        .open.map(|open| format!(" (batch {open} was planned and not written; it is planned anew then)")).unwrap_or_default()
    )]
    TransformChanged {
        /// The last batch with the former chain.
        batch: i64,
        /// A batch that was planned with the former chain or another, and that bronze does not have.
        open: Option<i64>,
        /// The former chain, with its digests.
        was: String,
        /// The chain now.
        is: String,
        /// What is another in it, in brackets; empty when its plugins are others.
        what: String,
    },
    /// The facts table has rows of the stream and has lost the numbers by which a repetition is known.
    #[error(
        "{facts_table} has facts rows of app_id {app_id} and no transaction id of it, so the rows would be written twice: the \
         facts table was rewritten by another writer, or its transaction ids expired \
         (delta.setTransactionRetentionDuration). `sluice doctor` says how to go on (nothing was written)"
    )]
    FactsUnnumbered {
        /// The table.
        facts_table: String,
        /// The stream.
        app_id: AppId,
    },
    /// The quarantine table has rows of a batch that the checkpoint does not know of.
    #[error(
        "{table} has rows of batch {batch} of app_id {app_id}, and the checkpoint has no such batch: the checkpoint is older than \
         the table, or another stream's. put the checkpoint back, or, for a stream that begins anew, move the quarantine table \
         away"
    )]
    QuarantineAhead {
        /// The table.
        table: String,
        /// The stream.
        app_id: AppId,
        /// The batch.
        batch: BatchId,
    },
    /// The quarantine table lacks rows that batches put there.
    #[error(
        "{table} {there}, and {recorded} of app_id {app_id} has put rows there, as the checkpoint or bronze says: the table was \
         deleted, replaced or restored to an older version, or its transaction ids expired. its rows are changes that bronze \
         lacks, and nothing else says which. restore the table; without a backup, `sluice doctor` says what is lost, and records \
         that you accept it (nothing was read)"
    )]
    QuarantineBehind {
        /// The table.
        table: String,
        /// The stream.
        app_id: AppId,
        /// The newest attempt that had rows there.
        recorded: AttemptAt,
        /// What the table has.
        there: String,
    },
    /// The same attempt at a batch would put other rows into quarantine than it did.
    #[error(
        "batch {batch} was to put {before} rows into quarantine, and {now} rows when it was transformed once more, or others: a \
         component of this table gives other answers for the same rows. nothing of the batch is in bronze. mend the component \
         (`sluice plugin test` finds what differs); with another component the batch is planned anew"
    )]
    QuarantineDiffers {
        /// The batch.
        batch: BatchId,
        /// Rows that are in quarantine.
        before: usize,
        /// Rows that would be.
        now: usize,
    },
    /// A retry of quarantine, while a batch is to be planned anew.
    #[error(
        "batch {batch} was begun and is planned anew, and the rows in quarantine may be its own: bring the table up to date with \
         `sluice run --once` first, then retry"
    )]
    RetryWaits {
        /// The batch.
        batch: BatchId,
    },
    /// Another process has the stream now.
    #[error(
        "{by} has taken this table over{}; the table stays with that process until it ends", match at_once {
            true => ", because both started at once; this process has stopped it, and nothing is lost or doubled",
            false => ", because the lease of this process was not renewed in time (a pause of the machine, a folder that did not \
                      answer), or because the file of its lease or owner.json was removed or put back; this process has stopped \
                      it, and nothing is lost or doubled",
        }
    )]
    TakenOver {
        /// The process that has it.
        by: String,
        /// The two counted to the same number, so neither slept.
        at_once: bool,
        /// How this process came to know.
        #[source]
        error: Box<StreamError>,
    },
    /// DDL that `schema_change_policy` refuses.
    #[error(
        "the source table was changed by DDL at {lsn}: {statement}. schema_change_policy = \"fail\" stops there, and nothing \
         after it was read. set it to \"classify\" to go on: what is captured goes on, and what bronze cannot follow is an \
         error of its own"
    )]
    Ddl {
        /// Where it stands in the log.
        lsn: Lsn,
        /// Its text, without literals.
        statement: String,
    },
    /// The table has other instances or columns than when the stream opened it. No failure: [`super::run_table`] opens it again.
    #[error("the source table changed while its stream was open")]
    TableChanged,
    /// A plugin of the chain has another file than when the stream opened it. No failure: [`super::run_table`] opens it again.
    #[error("{what}, again and again while the stream was open; leave the file alone until a batch is done")]
    PluginsChanged {
        /// Which plugins, from which file to which.
        what: String,
    },
    /// The stream was asked to end while it waited to try again. No failure: [`super::run_table`] ends well then.
    #[error("stopped while waiting to try again")]
    Stopped,
    /// A task of this process ended without saying why.
    #[error("a task of this table ended abruptly while {doing}; this is a fault of sluice")]
    Task {
        /// What it was doing.
        doing: &'static str,
    },
}

impl Classify for StreamError {
    fn kind(&self) -> ErrorKind {
        match self {
            StreamError::Source(error) => error.kind(),
            StreamError::Transform(error) => error.kind(),
            StreamError::Lake(error) => error.kind(),
            StreamError::Checkpoint(error) => error.kind(),
            StreamError::State(error) => error.kind(),
            StreamError::TakenOver { .. }
            | StreamError::FactsUnnumbered { .. }
            | StreamError::QuarantineAhead { .. }
            | StreamError::QuarantineBehind { .. } => ErrorKind::State,
            StreamError::QuarantineDiffers { .. } => ErrorKind::ComponentRefused,
            StreamError::TransformChanged { .. }
            | StreamError::PluginsChanged { .. }
            | StreamError::RetryWaits { .. } => ErrorKind::Config,
            StreamError::Ddl { .. } | StreamError::TableChanged => ErrorKind::SchemaChanged,
            StreamError::Stopped => ErrorKind::Retryable,
            StreamError::Task { .. } => ErrorKind::Internal,
        }
    }
}

impl StreamError {
    /// What a person is told of it: what happened, and of a component that failed also where to look.
    pub(crate) fn told(&self) -> String {
        let text = chain(self);
        let hint = match self {
            StreamError::Transform(error) => error.hint(),
            _ => None,
        };
        match hint {
            Some(hint) => format!("{text}. {hint}"),
            None => text,
        }
    }

    /// Changes were lost before they were read: a person decides how to go on.
    pub fn is_data_loss(&self) -> bool {
        self.kind() == ErrorKind::DataLoss
    }

    /// What is on disk is damaged, foreign or somebody else's. A source that is another one than it was is none of the
    /// table's: what is on disk is well.
    pub fn is_on_disk(&self) -> bool {
        self.kind() == ErrorKind::State && !matches!(self, StreamError::Source(_))
    }

    /// The source's schema no longer fits.
    pub fn is_schema_changed(&self) -> bool {
        self.kind() == ErrorKind::SchemaChanged
    }
}

impl From<SourceError> for StreamError {
    fn from(error: SourceError) -> StreamError {
        StreamError::Source(Arc::new(error))
    }
}

impl From<Arc<SourceError>> for StreamError {
    fn from(error: Arc<SourceError>) -> StreamError {
        StreamError::Source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::CaptureInstance;

    #[test]
    fn another_history_of_the_source_is_no_matter_of_what_is_on_disk() {
        let other = StreamError::from(SourceError::OtherHistory {
            capture_instance: CaptureInstance("dbo_t".to_owned()),
            end: Lsn::MAX,
        });
        assert_eq!(other.kind(), ErrorKind::State);
        assert!(!other.is_on_disk());
        let ahead = StreamError::QuarantineAhead {
            table: "t".to_owned(),
            app_id: AppId("a".to_owned()),
            batch: BatchId(1),
        };
        assert!(ahead.is_on_disk());
        assert!(!StreamError::Stopped.is_on_disk());
    }
}
