//! Rows that cannot be masked.

use sluice_plugin::Reject;

/// Where the rejects of one step go.
pub(crate) struct Rejects<'a> {
    pub column: &'a str,
    pub to: &'a mut Vec<Reject>,
}

impl Rejects<'_> {
    /// Rejects a row for the step's own column.
    pub(crate) fn push(&mut self, row: usize, code: &str) {
        self.push_for(row, self.column.to_owned(), code);
    }

    /// Rejects a row for another column.
    pub(crate) fn push_for(&mut self, row: usize, column: String, code: &str) {
        self.to.push(Reject {
            row: row as u32,
            column,
            code: code.to_owned(),
        });
    }
}
