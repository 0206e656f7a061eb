//! Is what a component answered an answer to what it was asked? Columns are checked in `columns.rs`; here are the rows
//! that it drops and rejects, and every text that it may have put a value into.

use std::fmt;

use arrow::buffer::{BooleanBuffer, Buffer};

use super::bindings::v0_1::exports::sluice::transform::transform as wit;

/// What stands in messages for a code that does not follow the rules.
pub(crate) const INVALID_CODE: &str = "invalid-code";
/// What stands in messages for a code that is, or holds, a value of the batch.
pub(crate) const WITHHELD_CODE: &str = "withheld-code";
/// What stands in messages for a column that the table does not have.
pub(crate) const UNKNOWN_COLUMN: &str = "(unknown)";

const MAX_CODE_BYTES: usize = 64;
/// `_operation` of the row before an update, and of the row after it.
const BEFORE_UPDATE: u8 = 3;
const AFTER_UPDATE: u8 = 4;

/// An answer that does not follow the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The output column at fault; absent when it is the answer as a whole.
    pub column: Option<String>,
    /// What is wrong.
    pub what: What,
}

/// What is wrong with an answer. Rows are positions in the batch that the component was given, from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum What {
    /// Too few or too many columns.
    #[error("{expected} computed columns are expected and {got} came")]
    ColumnCount {
        /// As the plan says.
        expected: usize,
        /// As it was.
        got: usize,
    },
    /// The validity bitmap is too short or too long.
    #[error("its validity bitmap has {got} bytes instead of {expected}")]
    ValidityLength {
        /// Bytes for the batch's rows.
        expected: usize,
        /// Bytes that came.
        got: usize,
    },
    /// Too few or too many values.
    #[error("its values have {got} bytes instead of {expected}")]
    ValuesLength {
        /// Bytes for the batch's rows.
        expected: usize,
        /// Bytes that came.
        got: usize,
    },
    /// Too few or too many offsets.
    #[error("it has {got} offsets instead of {expected}")]
    OffsetsLength {
        /// Rows and one.
        expected: usize,
        /// Offsets that came.
        got: usize,
    },
    /// Offsets for a type of fixed width.
    #[error("it has offsets, and its type has none")]
    OffsetsNotWanted,
    /// Offsets that do not start at 0, fall, or do not end at the length of the values.
    #[error("its offsets do not rise from 0 to the length of its values")]
    Offsets,
    /// Text that is not UTF-8, or cut inside a character.
    #[error("its text is not valid UTF-8")]
    Utf8,
    /// A NULL where the plan promises none.
    #[error("it has a NULL, and the plan says that it has none")]
    NullInNonNull,
    /// A decimal beyond its precision, or a date or time before year 1 or after year 9999.
    #[error("its value in row {row} is beyond what its type can hold")]
    OutOfRange {
        /// The row.
        row: usize,
    },
    /// The buffers do not make an array of the type.
    #[error("its buffers do not fit its type")]
    Type,
    /// The bitmap of dropped rows is too short or too long.
    #[error("the bitmap of dropped rows has {got} bytes instead of {expected}")]
    DroppedLength {
        /// Bytes for the batch's rows.
        expected: usize,
        /// Bytes that came.
        got: usize,
    },
    /// One row of an update is dropped and the other is not.
    #[error("it drops one of the two rows of the update in rows {row} and {}; drop both or none", row + 1)]
    SplitUpdate {
        /// The row before the update.
        row: usize,
    },
    /// A reject of a row that is not there.
    /// Its number is not shown: a component that mixes up row and value would show a value.
    #[error("it rejects a row beyond the batch's {rows}")]
    RejectRow {
        /// Rows of the batch.
        rows: usize,
    },
}

impl Invalid {
    /// A fault of one column.
    pub(crate) fn new(column: &str, what: What) -> Invalid {
        Invalid {
            column: Some(column.to_owned()),
            what,
        }
    }
}

impl From<What> for Invalid {
    fn from(what: What) -> Invalid {
        Invalid { column: None, what }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.column {
            Some(column) => write!(f, "column `{column}`: {}", self.what),
            None => fmt::Display::fmt(&self.what, f),
        }
    }
}

/// The rows that stay, one bit a row; `None` when all of them do. `same_change(i)` tells whether rows i and i + 1 have
/// one `_start_lsn` and one `_seqval`.
///
/// # Errors
/// A bitmap of the wrong length, or one that drops one row of an update.
pub(crate) fn kept_rows(
    dropped: Option<Vec<u8>>,
    operations: &[u8],
    same_change: impl Fn(usize) -> bool,
) -> Result<Option<BooleanBuffer>, Invalid> {
    let rows = operations.len();
    let Some(dropped) = dropped else {
        return Ok(None);
    };
    let expected = rows.div_ceil(8);
    if dropped.len() != expected {
        return Err(What::DroppedLength {
            expected,
            got: dropped.len(),
        }
        .into());
    }
    let dropped = BooleanBuffer::new(Buffer::from_vec(dropped), 0, rows);
    if dropped.count_set_bits() == 0 {
        return Ok(None);
    }
    for (row, pair) in operations.windows(2).enumerate() {
        if pair == [BEFORE_UPDATE, AFTER_UPDATE] && dropped.value(row) != dropped.value(row + 1) && same_change(row) {
            return Err(What::SplitUpdate { row }.into());
        }
    }
    Ok(Some(!&dropped))
}

/// The first rejected row, with a code and a column that are safe to show.
///
/// # Errors
/// A reject of a row that the batch does not have.
pub(crate) fn first_reject(
    rejects: &[wit::Reject],
    rows: usize,
    columns: &[&str],
) -> Result<Option<(usize, String, String)>, Invalid> {
    let in_batch = |row: u32| usize::try_from(row).ok().filter(|row| *row < rows);
    if rejects.iter().any(|reject| in_batch(reject.row).is_none()) {
        return Err(What::RejectRow { rows }.into());
    }
    let first = rejects.iter().min_by_key(|reject| reject.row);
    Ok(first.and_then(|reject| {
        let row = in_batch(reject.row)?;
        Some((
            row,
            column(&reject.column, columns).to_owned(),
            code(&reject.code).to_owned(),
        ))
    }))
}

/// The code as it may be shown.
pub(crate) fn code(code: &str) -> &str {
    let well_formed = !code.is_empty()
        && code.len() <= MAX_CODE_BYTES
        && code
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if well_formed { code } else { INVALID_CODE }
}

/// The column as it may be shown: one that the table has, since a guest could write anything there.
pub(crate) fn column<'a>(name: &'a str, columns: &[&str]) -> &'a str {
    if columns.contains(&name) { name } else { UNKNOWN_COLUMN }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(dropped: Vec<u8>, operations: &[u8]) -> Result<Option<Vec<bool>>, Invalid> {
        kept_rows(Some(dropped), operations, |_| true).map(|kept| kept.map(|kept| kept.iter().collect()))
    }

    #[test]
    fn both_rows_of_an_update_go_or_stay() {
        assert_eq!(
            kept(vec![0b0110], &[2, 3, 4, 1]).unwrap().unwrap(),
            [true, false, false, true]
        );
        for split in [0b0010, 0b0100] {
            assert_eq!(
                kept(vec![split], &[2, 3, 4, 1]).unwrap_err().what,
                What::SplitUpdate { row: 1 }
            );
        }
        // Rows of different changes are no pair.
        let apart = kept_rows(Some(vec![0b01]), &[3, 4], |_| false).unwrap().unwrap();
        assert_eq!(apart.iter().collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn a_bitmap_of_another_length_is_refused() {
        for bad in [vec![], vec![0, 0]] {
            assert!(matches!(
                kept(bad, &[2, 2]).unwrap_err().what,
                What::DroppedLength { expected: 1, .. }
            ));
        }
        // Bits after the last row mean nothing.
        assert_eq!(kept(vec![0b1111_1100], &[2, 2]).unwrap(), None);
        assert_eq!(kept(vec![], &[]).unwrap(), None);
    }

    #[test]
    fn rejects_show_no_text_of_the_guest() {
        let reject = |row, column: &str, code: &str| wit::Reject {
            row,
            column: column.to_owned(),
            code: code.to_owned(),
        };
        let rejects = [
            reject(5, "email", "too-long"),
            reject(1, "anna@example.org", "Anna said"),
        ];
        let (row, column, code) = first_reject(&rejects, 6, &["email"]).unwrap().unwrap();
        assert_eq!((row, column.as_str(), code.as_str()), (1, UNKNOWN_COLUMN, INVALID_CODE));
        assert_eq!(
            first_reject(&rejects, 5, &["email"]).unwrap_err().what,
            What::RejectRow { rows: 5 }
        );
        assert_eq!(first_reject(&[], 0, &[]).unwrap(), None);
    }

    #[test]
    fn codes_have_an_alphabet_and_a_length() {
        assert_eq!(code("cast-overflow-2"), "cast-overflow-2");
        for bad in ["", "Cast", "a b", "ä", "a_b", "a@b.co"] {
            assert_eq!(code(bad), INVALID_CODE, "{bad}");
        }
        assert_eq!(code(&"a".repeat(64)).len(), 64);
        assert_eq!(code(&"a".repeat(65)), INVALID_CODE);
    }
}
