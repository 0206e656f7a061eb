//! What can be wrong with rows as they arrive.

use std::fmt;

use crate::error::{Classify, ErrorKind};
use crate::identity::CaptureInstance;
use crate::lsn::Lsn;

/// A row that is at fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowAt {
    /// The table.
    pub capture_instance: CaptureInstance,
    /// Its place among the rows of the batch, from 1.
    pub row: u64,
    /// Its commit, when that is known.
    pub lsn: Option<Lsn>,
}

impl fmt::Display for RowAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} of {}", self.row, self.capture_instance)?;
        match self.lsn {
            Some(lsn) => write!(f, " (commit {lsn})"),
            None => Ok(()),
        }
    }
}

/// Why rows could not become a chunk. Texts name table, column, row and commit, never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The wire's type is not the type that the column had when the table was opened.
    #[error(
        "column {column} of {at} arrives as {found}, but was {expected} when the table was opened; its type changed on the source: start sluice again, and see whether bronze can take the new type"
    )]
    TypeChanged {
        /// The row.
        at: RowAt,
        /// The column.
        column: String,
        /// Its declared type.
        expected: String,
        /// What the driver pushed.
        found: &'static str,
    },
    /// A row's commit has no entry among the commit times.
    #[error(
        "commit {lsn} of {capture_instance} has no row in cdc.lsn_time_mapping; cleanup may have removed it while the batch was read: start sluice again, which compares its position with what is left and says what is lost, if anything is"
    )]
    UnknownCommit {
        /// The table.
        capture_instance: CaptureInstance,
        /// The commit.
        lsn: Lsn,
    },
    /// A metadata column of a change row is NULL or has the wrong length.
    #[error("{at} has an invalid {column}: read that row of the change table, and report it with what it holds there")]
    InvalidMetadata {
        /// The row.
        at: RowAt,
        /// The column.
        column: &'static str,
    },
    /// A value is outside what the Delta type can hold.
    #[error("column {column} of {at} has a value outside the range of {data_type}")]
    OutOfRange {
        /// The row.
        at: RowAt,
        /// The column.
        column: String,
        /// The type that cannot hold it.
        data_type: String,
    },
    /// A text column's collation has a code page that sluice does not know.
    #[error(
        "column {column} of {at} has a collation whose code page sluice does not know: make a capture instance without it (EXEC sys.sp_cdc_enable_table … @captured_column_list) and name that one, and report the column's collation"
    )]
    UnknownCollation {
        /// The row.
        at: RowAt,
        /// The column.
        column: String,
    },
    /// A text or binary column outgrew the 2 GiB that one chunk can hold.
    #[error("column {column} of {capture_instance} has more than 2 GiB in one chunk; lower limits.chunk_rows")]
    TooLarge {
        /// The table.
        capture_instance: CaptureInstance,
        /// The column.
        column: String,
    },
    /// Arrow refused the columns. A fault of sluice.
    #[error("arrow refused a chunk of {capture_instance}: {reason}")]
    Arrow {
        /// The table.
        capture_instance: CaptureInstance,
        /// What it said.
        reason: String,
    },
}

impl Classify for BatchError {
    fn kind(&self) -> ErrorKind {
        match self {
            BatchError::TypeChanged { .. } => ErrorKind::SchemaChanged,
            BatchError::UnknownCommit { .. } => ErrorKind::DataLoss,
            BatchError::OutOfRange { .. } => ErrorKind::SchemaChanged,
            BatchError::TooLarge { .. } | BatchError::UnknownCollation { .. } => ErrorKind::Config,
            BatchError::InvalidMetadata { .. } | BatchError::Arrow { .. } => ErrorKind::Internal,
        }
    }
}
