//! Rows become Arrow here. One decoder serves change rows and, later, snapshot rows, so that the same source row gives
//! the same values whichever way it was read.
//!
//! The driver pushes typed values into a [`ChunkBuilder`]; no row object exists in between. A chunk is a
//! `RecordBatch` of the six metadata columns of [`crate::shape::META_BEFORE`] and then the captured columns, in the
//! order of the change table; which values CDC did not record is kept beside it.

mod chunk;
mod column;
mod commit_times;
mod error;
mod meta;
mod sink;
#[cfg(test)]
mod tests;
mod text;

pub use chunk::Chunk;
pub use commit_times::CommitTimes;
pub use error::{BatchError, RowAt};
pub use sink::{ChunkBuilder, LEADING_COLUMNS, UPDATE_MASK};
pub use text::TextEncoding;
