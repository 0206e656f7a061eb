//! Output columns that the host makes for a component.

use std::collections::BTreeMap;

use arrow::array::ArrayRef;

/// What the host has made in one call of `apply`.
pub(crate) struct Made {
    /// By their places among the computed columns.
    pub(crate) columns: BTreeMap<u32, ArrayRef>,
    /// Bytes that may still be made.
    left: u64,
}

/// More than a component may put out.
#[derive(Debug, thiserror::Error)]
#[error("the columns that the host makes are larger than the output may be")]
pub(crate) struct OutputSpent;

impl Made {
    /// At most so many bytes.
    pub(crate) fn within(output_bytes: u64) -> Made {
        Made {
            columns: BTreeMap::new(),
            left: output_bytes,
        }
    }

    /// Says how large a column will be, before it is made. One that replaces another counts as well.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), OutputSpent> {
        self.left = self.left.checked_sub(bytes as u64).ok_or(OutputSpent)?;
        Ok(())
    }
}
