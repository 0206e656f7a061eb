//! The last look before anything is written: do the raw values of protected columns stand anywhere in their row's output?
//!
//! Text is compared with text and binary columns without outer white space and whatever the case of its ASCII letters,
//! binary values byte by byte. A value is found when it is the whole of a cell, and, from six characters on, when it is a
//! part of one. Of protected integers and decimals those with eight digits and more are looked for in text, where no
//! digit stands beside them. An encoding of the value (hex, base64, UTF-16, digits in groups) is not found. Values that
//! change their type otherwise are [`super::watch`]'s. Empty values and NULL are no values.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Decimal128Type, Int32Type, Int64Type};
use arrow::error::ArrowError;
use memchr::{memchr, memmem};

/// From this many characters (bytes of a binary value) on, a value is looked for inside cells.
const MIN_PART_CHARS: usize = 6;

/// From this many digits on, a number is looked for in text.
const MIN_DIGITS: usize = 8;

/// A cell of so many hex digits and nothing else is a digest, in which any number stands by chance some day.
const MIN_DIGEST_CHARS: usize = 32;

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

/// Looks through every row for the first leak in it, and ends at the `most`-th row that has one. `protected` are input
/// columns, before the chain; `origin` says which input row each output row was, and is absent when none was dropped.
pub(crate) fn search(protected: &[ArrayRef], outputs: &[ArrayRef], origin: Option<&[u32]>, most: usize) -> Vec<LeakAt> {
    let raws: Vec<(usize, Kind, ArrayRef)> = protected
        .iter()
        .enumerate()
        .filter_map(|(index, array)| {
            let (kind, raw) = searched_for(array)?;
            Some((index, kind, raw))
        })
        .collect();
    let outputs: Vec<(usize, Cells<'_>)> = outputs
        .iter()
        .enumerate()
        .filter_map(|(index, array)| Some((index, Cells::new(array)?)))
        .collect();
    let rows = outputs.first().map_or(0, |(_, cells)| cells.len());
    let mut leaks = Vec::new();
    let mut leaking = BTreeSet::new();
    for (protected, kind, raw) in &raws {
        let Some(raw) = Cells::new(raw) else {
            continue;
        };
        for row in 0..rows {
            if leaks.len() >= most {
                return leaks;
            }
            if leaking.contains(&row) {
                continue;
            }
            let input_row = origin.map_or(row, |origin| origin[row] as usize);
            let Some(needle) = Needle::new(&raw, input_row, *kind) else {
                continue;
            };
            if let Some((output, _)) = outputs.iter().find(|(_, cells)| needle.is_in(cells, row)) {
                leaking.insert(row);
                leaks.push(LeakAt {
                    protected: *protected,
                    output: *output,
                    row,
                });
            }
        }
    }
    leaks
}

/// How a protected column's values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Binary,
    Number,
}

/// The values of a protected column as bytes that can be looked for.
fn searched_for(array: &ArrayRef) -> Option<(Kind, ArrayRef)> {
    match array.data_type() {
        DataType::Utf8 => Some((Kind::Text, Arc::clone(array))),
        DataType::Binary => Some((Kind::Binary, Arc::clone(array))),
        _ => Some((Kind::Number, Arc::new(numbers(array)?))),
    }
}

/// Integers and decimals of enough digits as text; NULL in place of the others.
fn numbers(array: &ArrayRef) -> Option<StringArray> {
    match array.data_type() {
        DataType::Int32 => {
            let values = array.as_primitive_opt::<Int32Type>()?.iter();
            Some(values.map(|value| number_text(i128::from(value?), 0)).collect())
        }
        DataType::Int64 => {
            let values = array.as_primitive_opt::<Int64Type>()?.iter();
            Some(values.map(|value| number_text(i128::from(value?), 0)).collect())
        }
        DataType::Decimal128(_, scale) => {
            let scale = usize::try_from(*scale).ok()?;
            let values = array.as_primitive_opt::<Decimal128Type>()?.iter();
            Some(values.map(|value| number_text(value?, scale)).collect())
        }
        _ => None,
    }
}

/// A number without its sign and without zeros that mean nothing.
fn number_text(unscaled: i128, scale: usize) -> Option<String> {
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let fraction = fraction.trim_end_matches('0');
    let meaningful = format!("{whole}{fraction}").trim_start_matches('0').len();
    if meaningful < MIN_DIGITS {
        return None;
    }
    Some(match fraction.is_empty() {
        true => whole.to_owned(),
        false => format!("{whole}.{fraction}"),
    })
}

/// A text or binary column.
struct Cells<'a> {
    nulls: Option<&'a NullBuffer>,
    /// Where each value begins in `data`, and where the last one ends.
    offsets: &'a [i32],
    data: &'a [u8],
    is_text: bool,
    /// The same values with ASCII letters in lower case; made once, when it is asked for, and only where there are others.
    folded: OnceCell<Cow<'a, [u8]>>,
}

impl<'a> Cells<'a> {
    fn new(array: &'a ArrayRef) -> Option<Cells<'a>> {
        let (offsets, data, is_text) = match array.data_type() {
            DataType::Utf8 => {
                let array = array.as_string_opt::<i32>()?;
                (array.value_offsets(), array.value_data(), true)
            }
            DataType::Binary => {
                let array = array.as_binary_opt::<i32>()?;
                (array.value_offsets(), array.value_data(), false)
            }
            _ => return None,
        };
        Some(Cells {
            nulls: array.nulls(),
            offsets,
            data,
            is_text,
            folded: OnceCell::new(),
        })
    }

    fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.is_some_and(|nulls| nulls.is_null(row))
    }

    /// The value, unless it is NULL or empty.
    fn get(&self, row: usize) -> Option<&[u8]> {
        let value = &self.data[self.offset(row)..self.offset(row + 1)];
        (!self.is_null(row) && !value.is_empty()).then_some(value)
    }

    /// The same without outer white space, and with ASCII letters in lower case.
    fn folded(&self, row: usize) -> Option<&[u8]> {
        if self.is_null(row) {
            return None;
        }
        let first = self.offset(0);
        let folded = self
            .folded
            .get_or_init(|| in_lower_case(&self.data[first..self.offset(self.len())]));
        let value = trimmed(&folded[self.offset(row) - first..self.offset(row + 1) - first]);
        (!value.is_empty()).then_some(value)
    }

    fn offset(&self, row: usize) -> usize {
        // Arrow has no offset below 0.
        self.offsets[row] as usize
    }
}

/// With ASCII letters in lower case. Most masked columns have no others, and are not copied.
fn in_lower_case(data: &[u8]) -> Cow<'_, [u8]> {
    // Without an end in the middle of a piece, a piece is looked at many bytes at a time.
    let has_upper = |piece: &[u8]| piece.iter().fold(false, |any, byte| any | byte.is_ascii_uppercase());
    match data.chunks(1024).any(has_upper) {
        true => Cow::Owned(data.to_ascii_lowercase()),
        false => Cow::Borrowed(data),
    }
}

/// Without outer white space.
fn trimmed(value: &[u8]) -> &[u8] {
    let plain = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_graphic);
    if plain(value.first()) && plain(value.last()) {
        return value;
    }
    match std::str::from_utf8(value) {
        Ok(text) => text.trim().as_bytes(),
        Err(_) => value.trim_ascii(),
    }
}

/// A raw value that is looked for in the cells of its row.
struct Needle<'a> {
    value: &'a [u8],
    kind: Kind,
    /// A byte of the value that a cell is likely not to have.
    rare: Option<u8>,
    /// Whether it is long enough to be looked for inside a cell.
    in_parts: OnceCell<bool>,
    /// Made only for a cell that is longer than the value and has its rare byte: a look for one byte costs less.
    finder: OnceCell<memmem::Finder<'a>>,
}

impl<'a> Needle<'a> {
    fn new(raw: &'a Cells<'_>, row: usize, kind: Kind) -> Option<Needle<'a>> {
        let value = match kind {
            Kind::Text => raw.folded(row)?,
            Kind::Binary | Kind::Number => raw.get(row)?,
        };
        // What protected values are replaced by is mostly the hexadecimal digits of a hash.
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let rare = value.iter().find(|byte| !is_digit(byte)).or(value.first());
        Some(Needle {
            value,
            kind,
            rare: rare.copied(),
            in_parts: OnceCell::new(),
            finder: OnceCell::new(),
        })
    }

    fn in_parts(&self) -> bool {
        let chars = |value: &[u8]| value.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        *self.in_parts.get_or_init(|| {
            self.value.len() >= MIN_PART_CHARS && (self.kind != Kind::Text || chars(self.value) >= MIN_PART_CHARS)
        })
    }

    fn is_in(&self, cells: &Cells<'_>, row: usize) -> bool {
        let cell = match self.kind {
            Kind::Text => cells.folded(row),
            Kind::Binary => cells.get(row),
            Kind::Number if cells.is_text => cells.get(row),
            Kind::Number => None,
        };
        let Some(cell) = cell else {
            return false;
        };
        match cell.len().cmp(&self.value.len()) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => cell == self.value,
            std::cmp::Ordering::Greater if self.kind == Kind::Number => self.is_number_of(cell),
            std::cmp::Ordering::Greater => {
                self.rare.is_some_and(|rare| memchr(rare, cell).is_some())
                    && self.in_parts()
                    && self.finder().find(cell).is_some()
            }
        }
    }

    /// Whether it stands in `cell` as a number of its own.
    fn is_number_of(&self, cell: &[u8]) -> bool {
        if is_digest(cell) {
            return false;
        }
        let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
        self.finder().find_iter(cell).any(|at| {
            let (before, after) = (&cell[..at], &cell[at + self.value.len()..]);
            // Zeros that mean nothing are the number's own.
            let before = before.iter().rev().find(|byte| **byte != b'0');
            let after = match self.value.contains(&b'.') {
                true => after.iter().find(|byte| **byte != b'0'),
                false => after.first(),
            };
            !is_digit(before) && !is_digit(after)
        })
    }

    fn finder(&self) -> &memmem::Finder<'a> {
        self.finder.get_or_init(|| memmem::Finder::new(self.value))
    }
}

fn is_digest(cell: &[u8]) -> bool {
    cell.len() >= MIN_DIGEST_CHARS && cell.iter().all(u8::is_ascii_hexdigit) && cell.iter().any(u8::is_ascii_alphabetic)
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryArray, Decimal128Array, Int32Array, Int64Array};

    use super::*;

    fn find(protected: &[ArrayRef], outputs: &[ArrayRef], origin: Option<&[u32]>) -> Option<LeakAt> {
        search(protected, outputs, origin, 1).pop()
    }

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
        assert!(!leak("", ""));
        // Five characters in seven bytes are still five.
        assert!(!leak("ää\u{e4}bc", "xää\u{e4}bcx"));
        assert!(leak("äääbcd", "xäääbcdx"));
    }

    /// Values with and without a byte that hashes do not have, in cells with and without it.
    #[test]
    fn a_value_of_any_bytes_is_found_at_any_place_of_a_cell() {
        for raw in [
            "deadbeef",
            "123456",
            "+49 30 123",
            "anna@x.org",
            "a\u{e9}\u{e9}\u{e9}bc",
            "00000+",
            "+00000",
        ] {
            for cell in ["{}", "0f{}", "{}0f", "+{}@", "00000{}", "{}00000"] {
                let cell = cell.replace("{}", raw);
                assert!(leak(raw, &cell), "{raw} {cell}");
            }
            // The same bytes in another order, and all but the last.
            let turned: String = raw.chars().rev().collect();
            let cut: String = raw.chars().take(raw.chars().count() - 1).collect();
            assert!(!leak(raw, &format!("x{turned}x{cut}x")), "{raw}");
        }
        assert!(!leak("+4930123", "8b1a9953c4611296a827abf8c47804d7"));
    }

    #[test]
    fn outer_white_space_and_the_case_of_ascii_letters_hide_nothing() {
        assert!(leak("anna@example.org", "mail to ANNA@Example.org, please"));
        assert!(leak("ANNA", "anna"));
        assert!(leak("12-34  ", "12-34"));
        assert!(leak(" 12-34", "12-34   "));
        assert!(leak("\u{a0}secret-number\t", "the secret-number"));
        // Seven characters with the blanks, five without.
        assert!(!leak(" abcde ", "x abcde x"));
        assert!(!leak("   ", "   "));
        // Only the case of ASCII letters: ä and Ä are two.
        assert!(!leak("ärger", "Ärger"));
        // Binary values are compared as they are.
        let bytes = |value: &'static [u8]| -> ArrayRef { Arc::new(BinaryArray::from_vec(vec![value])) };
        assert_eq!(find(&[bytes(b"Secret ")], &[text(&[Some("secret")])], None), None);
        assert!(find(&[text(&[Some("Secret ")])], &[bytes(b"sECRET")], None).is_some());
    }

    #[test]
    fn numbers_of_eight_digits_are_found_in_text_where_no_digit_is_beside_them() {
        let found = |raw: &ArrayRef, cell: &str| find(&[Arc::clone(raw)], &[text(&[Some(cell)])], None).is_some();
        let id: ArrayRef = Arc::new(Int64Array::from(vec![-12_345_678]));
        for cell in [
            "12345678",
            "no. 12345678, paid",
            "id12345678",
            "0012345678",
            "12345678.00",
        ] {
            assert!(found(&id, cell), "{cell}");
        }
        for cell in ["123456789", "912345678", "9012345678", "1234567", "12 345 678"] {
            assert!(!found(&id, cell), "{cell}");
        }
        // A digest in hex holds every number some day.
        let digest = format!("a12345678b{}", "0".repeat(54));
        assert!(!found(&id, &digest));
        let seven: ArrayRef = Arc::new(Int32Array::from(vec![1_234_567]));
        assert!(!found(&seven, "no. 1234567"));
        let decimal = |unscaled| -> ArrayRef {
            let array = Decimal128Array::from(vec![unscaled]);
            Arc::new(array.with_precision_and_scale(19, 4).unwrap())
        };
        // 123456.7800 and 12345678.0000; 1500.0000 has four digits.
        assert!(found(&decimal(1_234_567_800), "EUR 123456.78"));
        assert!(found(&decimal(1_234_567_800), "EUR 123456.7800"));
        assert!(!found(&decimal(1_234_567_800), "EUR 123456.785"));
        assert!(found(&decimal(123_456_780_000), "no. 12345678"));
        assert!(!found(&decimal(15_000_000), "EUR 1500"));
        // A number in a number is the watch's.
        assert_eq!(find(&[Arc::clone(&id)], &[id], None), None);
    }

    #[test]
    fn one_leak_of_each_row_is_told_up_to_as_many_as_are_asked_for() {
        let first = text(&[Some("London"), Some("x"), Some("Paris")]);
        let last = text(&[Some("London"), Some("y"), None]);
        let city = text(&[Some("London"), Some("y"), Some("Paris")]);
        let leaks = |most| {
            search(
                &[Arc::clone(&first), Arc::clone(&last)],
                &[Arc::clone(&city)],
                None,
                most,
            )
        };
        let at = |protected, row| LeakAt {
            protected,
            output: 0,
            row,
        };
        assert_eq!(leaks(usize::MAX), [at(0, 0), at(0, 2), at(1, 1)]);
        assert_eq!(leaks(2), [at(0, 0), at(0, 2)]);
        assert_eq!(leaks(0), []);
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
