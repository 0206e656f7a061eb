//! The last look before anything is written: do the raw values of protected columns stand anywhere in their row's output?
//!
//! A value is found when it is the whole of a cell, and, from six characters on, when it is a part of one. Text and binary
//! columns are compared, as bytes; an encoding of the value (hex, base64, UTF-16, another case) is not found. Values
//! that change their type are [`super::watch`]'s. Empty values and NULL are no values.

use std::cell::OnceCell;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, StringArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use memchr::memmem;

/// From this many characters (bytes of a binary value) on, a value is looked for inside cells.
const MIN_PART_CHARS: usize = 6;

/// Of [`LeakCheck::Sampled`]: one row of so many of a chunk as it was read, from the first on.
pub(crate) const SAMPLED_EVERY: u32 = 32;

/// Which rows are looked through for raw values of protected columns. Whatever it is, a protected column that the chain
/// would pass untouched does not open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeakCheck {
    /// All.
    #[default]
    Full,
    /// Those at fixed positions in the chunk, so that a replay looks at the same ones.
    Sampled,
    /// None.
    Off,
}

/// The sampled rows of a chunk, as chunks of their own.
pub(crate) struct Sample {
    pub(crate) protected: Vec<ArrayRef>,
    pub(crate) outputs: Vec<ArrayRef>,
    /// The output row of each.
    pub(crate) rows: Vec<u32>,
}

impl Sample {
    /// Samples by the position in the input, so that it does not matter which rows a transform dropped.
    pub(crate) fn of(
        protected: &[ArrayRef],
        outputs: &[ArrayRef],
        origin: Option<&[u32]>,
        output_rows: usize,
    ) -> Result<Sample, ArrowError> {
        let rows: u32 = u32::try_from(output_rows).map_err(|_| ArrowError::OffsetOverflowError(output_rows))?;
        let came_from = |row: u32| origin.map_or(Some(row), |origin| origin.get(row as usize).copied());
        let (rows, inputs): (Vec<u32>, Vec<u32>) = (0..rows)
            .filter_map(|row| Some((row, came_from(row)?)))
            .filter(|(_, input)| input % SAMPLED_EVERY == 0)
            .unzip();
        let pick = |columns: &[ArrayRef], rows: &UInt32Array| {
            columns
                .iter()
                .map(|column| take(column, rows, None))
                .collect::<Result<Vec<ArrayRef>, ArrowError>>()
        };
        Ok(Sample {
            protected: pick(protected, &UInt32Array::from(inputs))?,
            outputs: pick(outputs, &UInt32Array::from(rows.clone()))?,
            rows,
        })
    }
}

/// Where a raw value was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeakAt {
    /// Position among the protected columns that were given.
    pub(crate) protected: usize,
    /// Position among the output columns.
    pub(crate) output: usize,
    /// Row of the output.
    pub(crate) row: usize,
}

/// Looks through every row. `protected` are input columns, before the chain; `origin` says which input row each output
/// row was, and is absent when none was dropped. The first find ends the search.
pub(crate) fn find(protected: &[ArrayRef], outputs: &[ArrayRef], origin: Option<&[u32]>) -> Option<LeakAt> {
    let protected: Vec<(usize, Cells<'_>)> = searchable(protected);
    let outputs: Vec<(usize, Cells<'_>)> = searchable(outputs);
    let rows = outputs.first().map_or(0, |(_, cells)| cells.len());
    for (protected_index, raw) in &protected {
        for row in 0..rows {
            let input_row = origin.map_or(row, |origin| origin[row] as usize);
            let Some(value) = raw.get(input_row) else {
                continue;
            };
            let needle = Needle::new(value, raw.is_text());
            let found = outputs
                .iter()
                .find(|(_, cells)| cells.get(row).is_some_and(|cell| needle.is_in(cell)));
            if let Some((output, _)) = found {
                return Some(LeakAt {
                    protected: *protected_index,
                    output: *output,
                    row,
                });
            }
        }
    }
    None
}

/// The text and binary columns among `columns`, with their positions.
fn searchable(columns: &[ArrayRef]) -> Vec<(usize, Cells<'_>)> {
    columns
        .iter()
        .enumerate()
        .filter_map(|(index, array)| Some((index, Cells::new(array)?)))
        .collect()
}

enum Cells<'a> {
    Text(&'a StringArray),
    Binary(&'a BinaryArray),
}

impl<'a> Cells<'a> {
    fn new(array: &'a ArrayRef) -> Option<Cells<'a>> {
        match array.data_type() {
            DataType::Utf8 => array.as_string_opt().map(Cells::Text),
            DataType::Binary => array.as_binary_opt().map(Cells::Binary),
            _ => None,
        }
    }

    fn len(&self) -> usize {
        match self {
            Cells::Text(array) => array.len(),
            Cells::Binary(array) => array.len(),
        }
    }

    fn is_text(&self) -> bool {
        matches!(self, Cells::Text(_))
    }

    /// The value, unless it is NULL or empty.
    fn get(&self, row: usize) -> Option<&'a [u8]> {
        let value = match self {
            Cells::Text(array) => array.is_valid(row).then(|| array.value(row).as_bytes()),
            Cells::Binary(array) => array.is_valid(row).then(|| array.value(row)),
        };
        value.filter(|value| !value.is_empty())
    }
}

/// A raw value that is looked for in the cells of its row.
struct Needle<'a> {
    value: &'a [u8],
    /// Whether it is long enough to be looked for inside a cell.
    in_parts: bool,
    /// Made only when a cell is longer than the value.
    finder: OnceCell<memmem::Finder<'a>>,
}

impl<'a> Needle<'a> {
    fn new(value: &'a [u8], is_text: bool) -> Needle<'a> {
        let chars = |value: &[u8]| value.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        let in_parts = value.len() >= MIN_PART_CHARS && (!is_text || chars(value) >= MIN_PART_CHARS);
        Needle {
            value,
            in_parts,
            finder: OnceCell::new(),
        }
    }

    fn is_in(&self, cell: &[u8]) -> bool {
        match cell.len().cmp(&self.value.len()) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => cell == self.value,
            std::cmp::Ordering::Greater => {
                self.in_parts
                    && self
                        .finder
                        .get_or_init(|| memmem::Finder::new(self.value))
                        .find(cell)
                        .is_some()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int32Array;

    use super::*;

    fn text(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    fn leak(raw: &str, cell: &str) -> bool {
        find(&[text(&[Some(raw)])], &[text(&[Some(cell)])], None).is_some()
    }

    #[test]
    fn whole_cells_and_parts_from_six_characters_on() {
        assert!(leak("a", "a"));
        assert!(!leak("a", "ab"));
        assert!(!leak("abcde", "xabcdex"));
        assert!(leak("abcdef", "xabcdefx"));
        assert!(leak("anna@example.org", "mail to anna@example.org, please"));
        assert!(!leak("anna@example.org", "mail to ANNA@example.org, please"));
        assert!(!leak("", ""));
        // Five characters in seven bytes are still five.
        assert!(!leak("ää\u{e4}bc", "xää\u{e4}bcx"));
        assert!(leak("äääbcd", "xäääbcdx"));
    }

    #[test]
    fn binary_and_text_are_one_to_the_search() {
        let raw = text(&[Some("secret-number")]);
        let binary: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"\x00secret-number\x00"]));
        assert!(find(&[Arc::clone(&raw)], &[Arc::clone(&binary)], None).is_some());
        assert!(find(&[binary], &[raw], None).is_none());
    }

    #[test]
    fn rows_are_compared_with_the_row_that_they_came_from() {
        let raw = text(&[Some("first-value"), Some("second-value"), None]);
        let number: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let out = text(&[Some("first-value"), Some("x")]);
        // Row 0 was dropped: output row 0 came from input row 1.
        assert_eq!(
            find(
                &[Arc::clone(&raw)],
                &[Arc::clone(&number), Arc::clone(&out)],
                Some(&[1, 2])
            ),
            None
        );
        assert_eq!(
            find(&[raw], &[number, out], Some(&[0, 1])),
            Some(LeakAt {
                protected: 0,
                output: 1,
                row: 0
            })
        );
    }

    #[test]
    fn a_sample_has_the_rows_at_fixed_positions_of_the_input_whatever_was_dropped() {
        let inputs = SAMPLED_EVERY * 3 + 1;
        let value = |row: u32| Some(format!("value-{row:03}"));
        let raw: ArrayRef = Arc::new((0..inputs).map(value).collect::<StringArray>());
        let whole = Sample::of(&[Arc::clone(&raw)], &[Arc::clone(&raw)], None, inputs as usize).unwrap();
        let every = SAMPLED_EVERY;
        assert_eq!(whole.rows, [0, every, 2 * every, 3 * every]);
        // Row 0 was dropped: every output row is one before its input.
        let origin: Vec<u32> = (1..inputs).collect();
        let out = raw.slice(1, inputs as usize - 1);
        let cut = Sample::of(&[raw], &[out], Some(&origin), origin.len()).unwrap();
        assert_eq!(cut.rows, [every - 1, 2 * every - 1, 3 * every - 1]);
        let leak = find(&cut.protected, &cut.outputs, None).unwrap();
        assert_eq!((cut.rows[leak.row], leak.protected, leak.output), (every - 1, 0, 0));
        assert_eq!(
            cut.protected[0].as_string::<i32>().value(0),
            format!("value-{every:03}")
        );
    }

    #[test]
    fn no_rows_and_no_columns_are_no_leak() {
        assert_eq!(find(&[], &[text(&[Some("x")])], None), None);
        assert_eq!(find(&[text(&[Some("x")])], &[], None), None);
        assert_eq!(find(&[text(&[])], &[text(&[])], None), None);
    }
}
