//! Is what a component answered an answer to what it was asked? Columns are checked in `columns.rs`; here are the rows
//! that it drops and rejects, and every text that it may have put a value into.

use std::fmt;

use arrow::buffer::{BooleanBuffer, Buffer};

use super::bindings::v0_3::exports::sluice::transform::transform as wit;

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
const DELETE: i32 = 1;
const INSERT: i32 = 2;

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
    #[error("{}", values_by_offsets(*got, *expected))]
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
    /// Values, where the host made the column.
    #[error("the host was asked to make it, and it came with values of its own")]
    MadeTwice,
    /// A column of another type, where the host made texts.
    #[error("the host was asked to make it, which makes texts, and the plan says another type")]
    MadeType,
    /// The host was asked for a column that is not there.
    #[error("the host was asked to make an output column beyond the {computed} that the plan computes")]
    MadeBeyond {
        /// Computed columns of the plan.
        computed: usize,
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
    #[error("it rejects a row beyond the batch's {rows} (rows count from 0)")]
    RejectRow {
        /// Rows of the batch.
        rows: usize,
    },
}

/// A person counts values, one a row. There is one offset more.
fn values_by_offsets(got: usize, expected: usize) -> String {
    match (got.checked_sub(1), expected.saturating_sub(1)) {
        (Some(values), rows) => format!("it has {values} values instead of {rows}, one a row (offsets: {got})"),
        (None, _) => format!("it has no offsets instead of {expected}, one more than rows"),
    }
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

/// The rows that stay after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// One bit a row.
    pub(crate) rows: BooleanBuffer,
    /// Rows that stay as another operation: what is left of an update of which one row was dropped.
    pub(crate) turned: Vec<(usize, i32)>,
}

impl Kept {
    /// All rows, as they are.
    pub(crate) fn all(rows: usize) -> Kept {
        Kept {
            rows: BooleanBuffer::new_set(rows),
            turned: Vec::new(),
        }
    }

    /// Takes rows out.
    pub(crate) fn take_out(&mut self, rows: impl Iterator<Item = usize>) {
        let mut bits: Vec<bool> = self.rows.iter().collect();
        for row in rows {
            bits[row] = false;
        }
        self.rows = BooleanBuffer::from(bits);
    }
}

/// The rows that stay; `None` when all of them do. `same_change(i)` tells whether rows i and i + 1 have one `_start_lsn`
/// and one `_seqval`, `may_split` whether one row of an update may be dropped without the other.
///
/// # Errors
/// A bitmap of the wrong length, or one that drops one row of an update where that is not allowed.
pub(crate) fn kept_rows(
    dropped: Option<Vec<u8>>,
    operations: &[u8],
    same_change: impl Fn(usize) -> bool,
    may_split: bool,
) -> Result<Option<Kept>, Invalid> {
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
    let mut turned = Vec::new();
    for (row, pair) in operations.windows(2).enumerate() {
        if pair == [BEFORE_UPDATE, AFTER_UPDATE] && dropped.value(row) != dropped.value(row + 1) && same_change(row) {
            match dropped.value(row) {
                _ if !may_split => return Err(What::SplitUpdate { row }.into()),
                true => turned.push((row + 1, INSERT)),
                false => turned.push((row, DELETE)),
            }
        }
    }
    Ok(Some(Kept {
        rows: !&dropped,
        turned,
    }))
}

/// A rejected row, with a column and a code that are safe to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reject {
    /// Position in the batch that the component was given.
    pub(crate) row: usize,
    pub(crate) column: Option<String>,
    pub(crate) code: String,
}

/// The rejected rows in their order, each once: of several rejects of a row the first counts.
///
/// # Errors
/// A reject of a row that the batch does not have.
pub(crate) fn rejects(rejects: &[wit::Reject], rows: usize, columns: &[&str]) -> Result<Vec<Reject>, Invalid> {
    let mut each = rejects
        .iter()
        .map(|reject| {
            let row = usize::try_from(reject.row).ok().filter(|row| *row < rows);
            Ok((row.ok_or(What::RejectRow { rows })?, reject))
        })
        .collect::<Result<Vec<_>, Invalid>>()?;
    // Before a text is copied: a component may reject a row a million times.
    each.sort_by_key(|(row, _)| *row);
    each.dedup_by_key(|(row, _)| *row);
    let checked = each.into_iter().map(|(row, reject)| Reject {
        row,
        column: Some(column(&reject.column, columns).to_owned()),
        code: code(&reject.code).to_owned(),
    });
    Ok(checked.collect())
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

/// The column as it may be shown: one of those that were known before a row was seen, since a guest could write anything
/// there.
pub(crate) fn column<'a>(name: &'a str, columns: &[&str]) -> &'a str {
    if columns.contains(&name) { name } else { UNKNOWN_COLUMN }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(dropped: Vec<u8>, operations: &[u8]) -> Result<Option<Vec<bool>>, Invalid> {
        kept_rows(Some(dropped), operations, |_| true, false).map(|kept| {
            kept.map(|kept| {
                assert_eq!(kept.turned, []);
                kept.rows.iter().collect()
            })
        })
    }

    #[test]
    fn a_column_that_is_too_short_is_told_in_values() {
        for (got, expected) in [
            (4, "it has 3 values instead of 4, one a row (offsets: 4)"),
            (1, "it has 0 values instead of 4, one a row (offsets: 1)"),
            (0, "it has no offsets instead of 5, one more than rows"),
        ] {
            assert_eq!(What::OffsetsLength { expected: 5, got }.to_string(), expected);
        }
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
        for may_split in [false, true] {
            let apart = kept_rows(Some(vec![0b01]), &[3, 4], |_| false, may_split)
                .unwrap()
                .unwrap();
            assert_eq!(apart.rows.iter().collect::<Vec<_>>(), [false, true]);
            assert_eq!(apart.turned, []);
        }
    }

    #[test]
    fn an_update_that_leaves_a_filter_is_a_delete_and_one_that_enters_it_an_insert() {
        let split = |dropped| {
            kept_rows(Some(vec![dropped]), &[2, 3, 4, 1], |_| true, true)
                .unwrap()
                .unwrap()
        };
        let left = split(0b0100);
        assert_eq!(left.rows.iter().collect::<Vec<_>>(), [true, true, false, true]);
        assert_eq!(left.turned, [(1, 1)]);
        let entered = split(0b0010);
        assert_eq!(entered.rows.iter().collect::<Vec<_>>(), [true, false, true, true]);
        assert_eq!(entered.turned, [(2, 2)]);
        assert_eq!(split(0b0110).turned, []);
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
        let checked = super::rejects(&rejects, 6, &["email"]).unwrap();
        let shown: Vec<_> = checked
            .iter()
            .map(|reject| (reject.row, reject.column.as_deref(), reject.code.as_str()))
            .collect();
        assert_eq!(
            shown,
            [(1, Some(UNKNOWN_COLUMN), INVALID_CODE), (5, Some("email"), "too-long")]
        );
        assert_eq!(
            super::rejects(&rejects, 5, &["email"]).unwrap_err().what,
            What::RejectRow { rows: 5 }
        );
        assert_eq!(super::rejects(&[], 0, &[]).unwrap(), []);
    }

    #[test]
    fn of_several_rejects_of_a_row_the_first_counts() {
        let reject = |code: &str| wit::Reject {
            row: 0,
            column: "a".to_owned(),
            code: code.to_owned(),
        };
        let checked = super::rejects(&[reject("one"), reject("two")], 1, &["a"]).unwrap();
        assert_eq!(checked.len(), 1);
        assert_eq!(checked[0].code, "one");
        let at = |row, code: &str| wit::Reject { row, ..reject(code) };
        let mixed = [at(1, "b"), at(0, "a"), at(1, "c"), at(0, "d")];
        let codes: Vec<String> = super::rejects(&mixed, 2, &["a"])
            .unwrap()
            .into_iter()
            .map(|reject| reject.code)
            .collect();
        assert_eq!(codes, ["a", "b"]);
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
