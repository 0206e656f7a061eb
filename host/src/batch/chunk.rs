//! What the sink makes: a chunk of rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::BooleanBuffer;

use crate::lsn::{Lsn, UtcMicros};
use crate::scheduler::Turn;

/// A chunk of rows, ready for the transforms.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Metadata columns, then captured ones.
    pub batch: RecordBatch,
    /// Commit of the first row.
    pub first_lsn: Lsn,
    /// Commit of the last row.
    pub last_lsn: Lsn,
    /// Time of the first row's commit.
    pub first_commit_ts: UtcMicros,
    /// Time of the last row's commit.
    pub last_commit_ts: UtcMicros,
    /// Rows with operation 1.
    pub deletes: u64,
    /// Rows with operation 2.
    pub inserts: u64,
    /// Rows with operation 4: an update counts once.
    pub updates: u64,
    /// Text values in which an invalid sequence was replaced, for each captured column.
    pub replaced: Vec<u64>,
    /// The captured columns that CDC did not record in some row, by their position among the captured ones, each with
    /// those rows.
    pub omitted: Vec<(usize, BooleanBuffer)>,
    /// Bytes of the rows, before encoding.
    pub bytes: u64,
    /// The turn at memory that it has, until the last copy of it is gone.
    pub memory: Option<Arc<Turn>>,
}
