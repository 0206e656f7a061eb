//! Rows that cannot be transformed.

use sluice_plugin::{ApplyError, Column, Reject};

/// Collects the rejects of one column.
#[derive(Debug)]
pub(crate) struct Rejects<'a> {
    column: &'a str,
    list: &'a mut Vec<Reject>,
}

impl<'a> Rejects<'a> {
    pub(crate) fn new(column: &'a str, list: &'a mut Vec<Reject>) -> Self {
        Self { column, list }
    }

    /// The same list, for another column.
    pub(crate) fn of<'b>(&'b mut self, column: &'b str) -> Rejects<'b> {
        Rejects {
            column,
            list: self.list,
        }
    }

    pub(crate) fn push(&mut self, row: usize, code: &str) {
        self.list.push(Reject {
            // A batch has no more rows than a u32 counts.
            row: u32::try_from(row).unwrap_or(u32::MAX),
            column: self.column.to_owned(),
            code: code.to_owned(),
        });
    }
}

/// Gives the rejected rows of a finished column the zero or empty value that stands under their NULL: the plan may
/// have promised that there is no NULL.
pub(crate) fn without_nulls(column: &mut Column, rejects: &[Reject]) {
    if let Some(bits) = &mut column.validity {
        for reject in rejects {
            let row = reject.row as usize;
            if let Some(byte) = bits.get_mut(row / 8) {
                *byte |= 1 << (row % 8);
            }
        }
    }
}

/// A column that is not what the plan reads.
pub(crate) fn malformed() -> ApplyError {
    ApplyError::new("malformed-input", "a column of the batch is not what the plan reads")
}
