//! Output columns that the host makes for a component.

use std::collections::BTreeMap;

use arrow::array::ArrayRef;

/// What the host has made in one call of `apply`, and what it may make.
pub(crate) struct Made {
    /// By their places among the computed columns.
    columns: BTreeMap<u32, ArrayRef>,
    /// Computed columns of the plan.
    places: u32,
    /// Rows of the batch.
    pub(crate) rows: u32,
    /// Whether a column was asked for that the plan does not have.
    pub(crate) beyond: bool,
    /// Bytes that may still come out, this way or another.
    pub(crate) left: u64,
}

/// More than a component may put out.
#[derive(Debug, thiserror::Error)]
#[error("the columns that the host makes are larger than the output may be")]
pub(crate) struct OutputSpent;

impl Made {
    /// At most so many bytes. Until a batch is begun there is no place for a column.
    pub(crate) fn within(output_bytes: u64) -> Made {
        Made {
            columns: BTreeMap::new(),
            places: 0,
            rows: 0,
            beyond: false,
            left: output_bytes,
        }
    }

    /// A batch of so many rows begins, of which so many columns are computed.
    pub(crate) fn begin(&mut self, rows: u32, computed: usize) {
        self.rows = rows;
        self.places = u32::try_from(computed).unwrap_or(u32::MAX);
    }

    /// Whether the plan has a computed column there. What is asked for beside it is kept in mind, and not kept.
    pub(crate) fn has_place(&mut self, place: u32) -> bool {
        self.beyond |= place >= self.places;
        place < self.places
    }

    /// Says how large a column will be, before it is made. One that replaces another counts as well.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), OutputSpent> {
        self.left = self.left.checked_sub(bytes as u64).ok_or(OutputSpent)?;
        Ok(())
    }

    /// Keeps a column in its place.
    pub(crate) fn put(&mut self, place: u32, column: ArrayRef) {
        self.columns.insert(place, column);
    }

    /// The column of a place, if it was made.
    pub(crate) fn take(&mut self, place: u32) -> Option<ArrayRef> {
        self.columns.remove(&place)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;

    use super::*;

    #[test]
    fn a_column_has_a_place_of_the_plan_and_fits_into_the_output() {
        let mut made = Made::within(10);
        assert!(!made.has_place(0));
        let mut made = Made { beyond: false, ..made };
        made.begin(1, 2);
        assert!(made.has_place(0) && made.has_place(1) && !made.beyond);
        assert!(!made.has_place(2) && made.beyond);
        assert!(made.reserve(7).is_ok());
        assert!(made.reserve(4).is_err());
        assert!(made.reserve(3).is_ok());
        assert!(made.reserve(1).is_err());
        made.put(1, Arc::new(StringArray::from(vec!["a"])));
        made.put(1, Arc::new(StringArray::from(vec!["b"])));
        assert!(made.take(0).is_none());
        assert_eq!(
            &made.take(1).unwrap(),
            &(Arc::new(StringArray::from(vec!["b"])) as ArrayRef)
        );
        assert!(made.take(1).is_none());
    }
}
