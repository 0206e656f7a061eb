//! What goes in and comes out of one call.

use std::fmt;

use crate::builders::Native;
use crate::plan::DataType;
use crate::views::{AnyView, BinaryView, BooleanView, FixedView, Utf8View};

/// One column of one batch, as plain buffers. All numbers are little-endian. Read it through a view, write it with a
/// builder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Bit i (least significant first) is 1 where row i has a value; `None` when every row has one.
    pub validity: Option<Vec<u8>>,
    /// `rows + 1` offsets for text and binary, from 0, never falling; empty for other types.
    pub offsets: Vec<i32>,
    /// The values, in the layout of the column's type. What stands under a NULL is ignored.
    pub values: Vec<u8>,
}

/// The rows of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// How many rows.
    pub rows: u32,
    /// The operation of each row, as [`Operation`] reads it.
    pub operations: Vec<u8>,
    /// The columns of `plan.reads`, in that order.
    pub columns: Vec<Column>,
}

/// What happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read by a snapshot.
    Snapshot,
    /// Deleted: the row as it was.
    Delete,
    /// Inserted.
    Insert,
    /// The row before an update.
    UpdateBefore,
    /// The row after an update.
    UpdateAfter,
}

impl Batch {
    /// The operation of a row; `None` beyond the last row, and for a number that this version does not know.
    pub fn operation(&self, row: usize) -> Option<Operation> {
        Some(match self.operations.get(row)? {
            0 => Operation::Snapshot,
            1 => Operation::Delete,
            2 => Operation::Insert,
            3 => Operation::UpdateBefore,
            4 => Operation::UpdateAfter,
            _ => return None,
        })
    }

    /// The text column at a position of `plan.reads`.
    ///
    /// # Errors
    /// `malformed-input` where there is no such column or its buffers are not those of a text column.
    pub fn utf8(&self, index: usize) -> Result<Utf8View<'_>, ApplyError> {
        self.view(index, Utf8View::new)
    }

    /// The binary column at a position of `plan.reads`.
    ///
    /// # Errors
    /// As [`Batch::utf8`].
    pub fn binary(&self, index: usize) -> Result<BinaryView<'_>, ApplyError> {
        self.view(index, BinaryView::new)
    }

    /// The boolean column at a position of `plan.reads`.
    ///
    /// # Errors
    /// As [`Batch::utf8`].
    pub fn boolean(&self, index: usize) -> Result<BooleanView<'_>, ApplyError> {
        self.view(index, BooleanView::new)
    }

    /// The fixed-width column at a position of `plan.reads`: `i32` for `int` and `date`, `i64` for `bigint` and the
    /// timestamps, `i128` for decimals, and so on.
    ///
    /// # Errors
    /// As [`Batch::utf8`].
    pub fn fixed<T: Native>(&self, index: usize) -> Result<FixedView<'_, T>, ApplyError> {
        self.view(index, FixedView::new)
    }

    /// The column at a position of `plan.reads`, whose type the caller knows from the table.
    ///
    /// # Errors
    /// As [`Batch::utf8`].
    pub fn any(&self, index: usize, data_type: DataType) -> Result<AnyView<'_>, ApplyError> {
        self.view(index, |column, rows| AnyView::new(column, rows, data_type))
    }

    fn view<'a, V>(&'a self, index: usize, new: impl FnOnce(&'a Column, usize) -> Option<V>) -> Result<V, ApplyError> {
        self.columns
            .get(index)
            .and_then(|column| new(column, self.rows as usize))
            .ok_or_else(|| {
                ApplyError::new(
                    "malformed-input",
                    format!("column {index} of the batch is not what the plan reads"),
                )
            })
    }
}

/// What comes out of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The computed columns of the plan, in order, each with one value a row.
    pub columns: Vec<Column>,
    /// Bit i (least significant first) is 1 where row i is dropped; `None` when none is. Of the two rows of an update one
    /// may be dropped alone: where the row after it is dropped, the row before it is written as a delete; where the row
    /// before it is dropped, the row after it is written as an insert.
    pub dropped: Option<Vec<u8>>,
    /// Rows that could not be transformed.
    pub rejects: Vec<Reject>,
}

impl Outcome {
    /// Columns, with no row dropped or rejected.
    pub fn of(columns: Vec<Column>) -> Self {
        Self {
            columns,
            ..Self::default()
        }
    }
}

/// A row that could not be transformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The row's position in the batch, from 0.
    pub row: u32,
    /// The input column at fault.
    pub column: String,
    /// A short code: lower-case letters, digits and hyphens, at most 64. Never a value.
    pub code: String,
}

/// Why a whole batch cannot be transformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyError {
    /// A short code, as in [`Reject`].
    pub code: String,
    /// The input column at fault, where there is one.
    pub column: Option<String>,
    /// The row at fault, where there is one.
    pub row: Option<u32>,
    /// More, for a developer. The host treats it as sensitive and does not show it; `sluice plugin test` does, since rows
    /// of a test are made up.
    pub message: String,
}

impl ApplyError {
    /// An error of the whole batch.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            column: None,
            row: None,
            message: message.into(),
        }
    }

    /// The same error, of this column.
    #[must_use]
    pub fn in_column(mut self, column: impl Into<String>) -> Self {
        self.column = Some(column.into());
        self
    }
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for ApplyError {}
