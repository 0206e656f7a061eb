//! The shape of a table as it flows through sluice: its columns on the source and their Arrow types.

use arrow::datatypes::DataType;

use crate::identity::CaptureInstance;

/// The names of the metadata columns that come before the captured ones in every chunk, in order.
pub const META_BEFORE: [&str; 6] = [
    "_capture_instance",
    "_start_lsn",
    "_seqval",
    "_operation",
    "_command_id",
    "_commit_ts",
];

/// The names of the metadata columns that bronze has after the captured ones, in order.
pub const META_AFTER: [&str; 3] = ["_batch_id", "_snapshot", "_chunk"];

/// A table's captured columns, in the order of its capture instance.
#[derive(Clone, Debug, PartialEq)]
pub struct TableShape {
    /// Source schema, such as `dbo`.
    pub schema: String,
    /// Source table.
    pub table: String,
    /// The capture instance that it is read through.
    pub capture_instance: CaptureInstance,
    /// Captured columns.
    pub columns: Vec<ColumnShape>,
}

/// One captured column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnShape {
    /// Its name on the source.
    pub name: String,
    /// The declared type, such as `nvarchar(100)`.
    pub source_type: String,
    /// The type that it has from the reader on.
    pub data_type: DataType,
    /// Its position in the table's key, from 1.
    pub key: Option<u32>,
}
