//! What can be wrong with rows as they arrive.

use crate::error::{Classify, ErrorKind};
use crate::lsn::Lsn;

/// Why rows could not become a chunk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The wire's type is not the type that the column had when the table was opened.
    #[error(
        "column {column} arrives as {found}, but was {expected} when the table was opened; its type changed on the source: start sluice again, and see whether bronze can take the new type"
    )]
    TypeChanged {
        /// The column.
        column: String,
        /// Its declared type.
        expected: String,
        /// What the driver pushed.
        found: &'static str,
    },
    /// A row's commit has no entry among the commit times.
    #[error("commit {lsn} has no row in cdc.lsn_time_mapping; cleanup may have removed it while the batch was read")]
    UnknownCommit {
        /// The commit.
        lsn: Lsn,
    },
    /// A metadata column of a change row is NULL or has the wrong length.
    #[error("a change row has an invalid {column} after commit {after:?}")]
    InvalidMetadata {
        /// The column.
        column: &'static str,
        /// The last commit that was whole.
        after: Option<Lsn>,
    },
    /// A value is outside what the Delta type can hold.
    #[error("column {column} of a row of commit {lsn:?} has a value outside the range of {data_type}")]
    OutOfRange {
        /// The column.
        column: String,
        /// The row's commit.
        lsn: Option<Lsn>,
        /// The type that cannot hold it.
        data_type: String,
    },
    /// A text or binary column outgrew the 2 GiB that one chunk can hold.
    #[error("column {column} has more than 2 GiB in one chunk; lower limits.chunk_rows")]
    TooLarge {
        /// The column.
        column: String,
    },
    /// Arrow refused the columns. A fault of sluice.
    #[error("arrow refused a chunk: {0}")]
    Arrow(String),
}

impl Classify for BatchError {
    fn kind(&self) -> ErrorKind {
        match self {
            BatchError::TypeChanged { .. } => ErrorKind::SchemaChanged,
            BatchError::UnknownCommit { .. } => ErrorKind::DataLoss,
            BatchError::OutOfRange { .. } => ErrorKind::SchemaChanged,
            BatchError::TooLarge { .. } => ErrorKind::Config,
            BatchError::InvalidMetadata { .. } | BatchError::Arrow(_) => ErrorKind::Internal,
        }
    }
}
