//! Protected values that change their type on the way: a number written as text, text cast to a number, a date in a
//! timestamp. [`super::leaks`] compares text with text; this compares everything else, by a text that is one for equal
//! values of different types.
//!
//! Small numbers and dates are equal by chance, and a date that is cut to its year often is what it was. So a pair of a
//! protected column and an output column is watched over all chunks of a stream, and is a leak only while no row told them
//! apart: at once when six characters of text came out as something else, and at the fourth distinct value otherwise. One row
//! that differs ends the watch of its pair. NULL on either side says nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimestampMicrosecondType};

use super::leaks::LeakAt;

/// A text value of so many characters does not come out as an equal number or date by chance.
const CERTAIN_CHARS: usize = 6;
/// Of shorter ones, and of values that were no text, so many distinct ones.
const CERTAIN_VALUES: usize = 4;
/// Columns that are not the same differ soon, so the texts of later rows are made only for a pair that did not by then.
const FIRST_ROWS: usize = 64;

/// The pairs that no row has told apart yet.
#[derive(Debug)]
pub(crate) struct Watch {
    pairs: Mutex<Vec<Pair>>,
}

#[derive(Debug)]
struct Pair {
    protected: usize,
    output: usize,
    /// Whether the raw values are text.
    text: bool,
    /// Digests of the values that were equal, up to [`CERTAIN_VALUES`]: raw values are not kept.
    equal: BTreeSet<u64>,
}

impl Watch {
    /// Watches all pairs of types that [`super::leaks`] does not compare.
    pub(crate) fn new(protected: &[DataType], outputs: &[DataType]) -> Watch {
        let searched = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::Binary);
        let mut pairs = Vec::new();
        for (p, raw) in protected.iter().enumerate() {
            for (o, output) in outputs.iter().enumerate() {
                if !(searched(raw) && searched(output)) && has_text(raw) && has_text(output) {
                    pairs.push(Pair {
                        protected: p,
                        output: o,
                        text: *raw == DataType::Utf8,
                        equal: BTreeSet::new(),
                    });
                }
            }
        }
        Watch {
            pairs: Mutex::new(pairs),
        }
    }

    /// Looks through the rows of a chunk, as [`super::leaks::search`] does.
    pub(crate) fn find(&self, protected: &[ArrayRef], outputs: &[ArrayRef], origin: Option<&[u32]>) -> Option<LeakAt> {
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        if pairs.is_empty() {
            return None;
        }
        let rows = outputs.first().map_or(0, |column| column.len());
        let mut certain = vec![None; pairs.len()];
        for part in [0..rows.min(FIRST_ROWS), rows.min(FIRST_ROWS)..rows] {
            let rows = Rows::new(part, origin);
            let mut raw = Texts::new(protected, rows.raw.clone());
            let mut out = Texts::new(outputs, rows.out.clone());
            let mut still = Vec::with_capacity(certain.len());
            let mut nth = 0;
            pairs.retain_mut(|pair| {
                let before = certain[nth];
                nth += 1;
                let seen = pair.look_at(&mut raw, &mut out, &rows);
                let keeps = !matches!(seen, Seen::Different);
                if keeps {
                    still.push(match seen {
                        Seen::Equal { row } if before.is_none() => Some(row),
                        _ => before,
                    });
                }
                keeps
            });
            certain = still;
            if pairs.is_empty() {
                return None;
            }
        }
        pairs.iter().zip(certain).find_map(|(pair, row)| {
            Some(LeakAt {
                protected: pair.protected,
                output: pair.output,
                row: row?,
            })
        })
    }
}

/// Some rows of a chunk, of its output and of what it was made of.
struct Rows<'a> {
    out: Range<usize>,
    /// The span that they came from.
    raw: Range<usize>,
    origin: Option<&'a [u32]>,
}

impl<'a> Rows<'a> {
    fn new(out: Range<usize>, origin: Option<&'a [u32]>) -> Rows<'a> {
        let origin = origin.map(|origin| &origin[out.clone()]);
        let raw = match origin {
            None => out.clone(),
            Some(origin) => {
                let first = origin.iter().min().map_or(0, |row| *row as usize);
                let last = origin.iter().max().map_or(0, |row| *row as usize + 1);
                first..last
            }
        };
        Rows { out, raw, origin }
    }

    /// Where a row of the output came from; both positions count from the beginning of their span.
    fn came_from(&self, row: usize) -> usize {
        self.origin.map_or(row, |origin| origin[row] as usize - self.raw.start)
    }
}

enum Seen {
    NothingNew,
    /// A row tells the two columns apart.
    Different,
    /// They are certainly the same, as of this row.
    Equal {
        row: usize,
    },
}

impl Pair {
    /// Looks at some rows. Texts are made only where both columns have values.
    fn look_at(&mut self, raw: &mut Texts<'_>, out: &mut Texts<'_>, rows: &Rows<'_>) -> Seen {
        if !raw.has_values(self.protected) || !out.has_values(self.output) {
            return Seen::NothingNew;
        }
        match (raw.of(self.protected), out.of(self.output)) {
            (Some(raw), Some(out)) => self.look(raw, out, rows),
            _ => Seen::NothingNew,
        }
    }

    fn look(&mut self, raw: &StringArray, out: &StringArray, rows: &Rows<'_>) -> Seen {
        let mut certain = None;
        for row in 0..out.len() {
            let from = rows.came_from(row);
            if raw.is_null(from) || out.is_null(row) {
                continue;
            }
            let value = raw.value(from);
            if value.is_empty() {
                continue;
            }
            if value != out.value(row) {
                return Seen::Different;
            }
            if self.equal.len() < CERTAIN_VALUES {
                self.equal.insert(digest(value));
            }
            let enough = self.equal.len() >= CERTAIN_VALUES || self.text && value.chars().count() >= CERTAIN_CHARS;
            if enough && certain.is_none() {
                certain = Some(rows.out.start + row);
            }
        }
        certain.map_or(Seen::NothingNew, |row| Seen::Equal { row })
    }
}

fn digest(value: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Whether values of the type have a text here. A boolean has two values: it cannot tell columns apart.
fn has_text(data_type: &DataType) -> bool {
    data_type.is_numeric()
        || matches!(
            data_type,
            DataType::Utf8 | DataType::Date32 | DataType::Timestamp(_, _) | DataType::Time64(_)
        )
}

/// Some rows of columns as canonical text, made when they are first asked for.
struct Texts<'a> {
    columns: &'a [ArrayRef],
    rows: Range<usize>,
    made: BTreeMap<usize, Option<StringArray>>,
}

impl<'a> Texts<'a> {
    fn new(columns: &'a [ArrayRef], rows: Range<usize>) -> Texts<'a> {
        Texts {
            columns,
            rows,
            made: BTreeMap::new(),
        }
    }

    fn has_values(&self, index: usize) -> bool {
        part(self.columns, &self.rows, index).is_some_and(|part| part.null_count() < part.len())
    }

    fn of(&mut self, index: usize) -> Option<&StringArray> {
        let Texts { columns, rows, made } = self;
        made.entry(index)
            .or_insert_with(|| part(columns, rows, index).as_ref().and_then(canonical))
            .as_ref()
    }
}

fn part(columns: &[ArrayRef], rows: &Range<usize>, index: usize) -> Option<ArrayRef> {
    let column = columns.get(index)?;
    Some(column.slice(rows.start, rows.len()))
}

fn canonical(array: &ArrayRef) -> Option<StringArray> {
    let text = match array.data_type() {
        DataType::Utf8 => array.clone(),
        // Instants are UTC: their zone needs no database of zones to be written.
        DataType::Timestamp(_, Some(_)) => {
            let local: ArrayRef = std::sync::Arc::new(
                array
                    .as_primitive_opt::<TimestampMicrosecondType>()?
                    .clone()
                    .with_timezone_opt(None::<std::sync::Arc<str>>),
            );
            cast(&local, &DataType::Utf8).ok()?
        }
        _ => cast(array, &DataType::Utf8).ok()?,
    };
    let text = text.as_string_opt::<i32>()?;
    Some(text.iter().map(|value| value.map(canonical_value)).collect())
}

/// One text for equal values: without blanks around, zeros that mean nothing, and a time of midnight.
fn canonical_value(text: &str) -> String {
    let text = text.trim();
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => ("-", &text[1..]),
        Some(b'+') => ("", &text[1..]),
        _ => ("", text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !whole.is_empty() && all_digits(whole) && all_digits(fraction) {
        let whole = whole.trim_start_matches('0');
        let fraction = fraction.trim_end_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        return if fraction.is_empty() {
            format!("{sign}{whole}")
        } else {
            format!("{sign}{whole}.{fraction}")
        };
    }
    if text.len() > 10 && text.is_ascii() && matches!(text.as_bytes()[10], b'T' | b' ') {
        let time = text[11..].trim_end_matches('Z');
        let time = match time.split_once('.') {
            Some((seconds, fraction)) if fraction.bytes().all(|byte| byte == b'0') => seconds,
            Some(_) => time.trim_end_matches('0'),
            None => time,
        };
        return if matches!(time, "00:00:00" | "00:00") {
            text[..10].to_owned()
        } else {
            format!("{} {time}", &text[..10])
        };
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Date32Array, Decimal128Array, Int64Array, TimestampMicrosecondArray};

    use super::*;

    fn text(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    fn numbers(values: &[i64]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    fn watch(raw: &ArrayRef, out: &ArrayRef) -> Watch {
        Watch::new(&[raw.data_type().clone()], &[out.data_type().clone()])
    }

    fn leak(raw: ArrayRef, out: ArrayRef) -> Option<usize> {
        watch(&raw, &out).find(&[raw], &[out], None).map(|leak| leak.row)
    }

    #[test]
    fn equal_values_have_one_text() {
        for (a, b) in [
            ("012345678", "12345678"),
            ("+5.50", "5.5"),
            ("-0010", "-10"),
            ("000", "0.00"),
            ("1990-05-17T00:00:00", "1990-05-17"),
            ("1990-05-17 10:30:00.500", "1990-05-17T10:30:00.5Z"),
            (" abc ", "abc"),
        ] {
            assert_eq!(canonical_value(a), canonical_value(b));
        }
        for (a, b) in [
            ("1.5", "15"),
            ("-1", "1"),
            ("1990-05-17T00:00:01", "1990-05-17"),
            ("", "0"),
        ] {
            assert_ne!(canonical_value(a), canonical_value(b));
        }
    }

    #[test]
    fn text_that_was_cast_to_a_number_is_found_in_its_first_row() {
        assert_eq!(
            leak(text(&[None, Some("012345678")]), numbers(&[0, 12_345_678])),
            Some(1)
        );
        // Four digits may be equal by chance, four of them in a row are not.
        assert_eq!(leak(text(&[Some("1234")]), numbers(&[1234])), None);
        let pins = [Some("1234"), Some("1234"), Some("2345"), Some("3456"), Some("4567")];
        assert_eq!(leak(text(&pins), numbers(&[1234, 1234, 2345, 3456, 4567])), Some(4));
    }

    #[test]
    fn a_number_or_a_date_written_as_text_is_found_over_many_chunks() {
        let raw = numbers(&[100_000]);
        let out = text(&[Some("100000")]);
        let watch = watch(&raw, &out);
        for n in 1..=3 {
            let found = watch.find(&[numbers(&[n])], &[text(&[Some(&n.to_string())])], None);
            assert_eq!(found, None, "{n}");
        }
        assert!(watch.find(&[raw], &[out], None).is_some());

        let days: ArrayRef = Arc::new(Date32Array::from(vec![0, 1, 2, 7305]));
        let moments: ArrayRef = Arc::new(
            TimestampMicrosecondArray::from(vec![0, 86_400_000_000, 172_800_000_000, 7305 * 86_400_000_000])
                .with_timezone("UTC"),
        );
        assert_eq!(leak(Arc::clone(&days), moments), Some(3));
        let written = text(&[
            Some("1970-01-01"),
            Some("1970-01-02"),
            Some("1970-01-03"),
            Some("1990-01-01"),
        ]);
        assert_eq!(leak(days, written), Some(3));
        let money: ArrayRef = Arc::new(
            Decimal128Array::from(vec![1500, 2500, 3500, 4500])
                .with_precision_and_scale(19, 4)
                .unwrap(),
        );
        assert_eq!(
            leak(money, text(&[Some("0.15"), Some("0.25"), Some("0.35"), Some("0.45")])),
            Some(3)
        );
    }

    #[test]
    fn one_row_that_differs_ends_the_watch() {
        // Dates cut to their year: the first two were on that day.
        let raw: ArrayRef = Arc::new(Date32Array::from(vec![0, 365, 400]));
        let out: ArrayRef = Arc::new(Date32Array::from(vec![0, 365, 365]));
        let watch = watch(&raw, &out);
        assert_eq!(watch.find(&[raw], &[out], None), None);
        let more: ArrayRef = Arc::new(Date32Array::from(vec![730, 1096, 1461, 1826, 2191]));
        assert_eq!(watch.find(&[Arc::clone(&more)], &[more], None), None);
    }

    #[test]
    fn rows_are_compared_with_the_row_that_they_came_from() {
        let raw = text(&[Some("1111111"), Some("2222222")]);
        let found = watch(&raw, &numbers(&[1])).find(&[Arc::clone(&raw)], &[numbers(&[2_222_222])], Some(&[1]));
        assert!(found.is_some());
        assert_eq!(
            watch(&raw, &numbers(&[1])).find(&[raw], &[numbers(&[2_222_222])], Some(&[0])),
            None
        );
    }

    #[test]
    fn rows_beyond_the_first_ones_count_as_well() {
        let many = FIRST_ROWS as i64 + 10;
        let numbers_to = |last: i64| numbers(&(100_000..100_000 + many).chain([last]).collect::<Vec<_>>());
        let texts_to = |last: i64| -> ArrayRef {
            let values = (100_000..100_000 + many).chain([last]);
            Arc::new(values.map(|n| Some(n.to_string())).collect::<StringArray>())
        };
        // The fourth value makes it certain; the last row tells the columns apart.
        assert_eq!(leak(texts_to(7), numbers_to(7)), Some(0));
        assert_eq!(leak(numbers_to(7), texts_to(7)), Some(3));
        assert_eq!(leak(numbers_to(7), texts_to(8)), None);
        // Nothing but NULL at first.
        let nulls = FIRST_ROWS + 5;
        let late: ArrayRef = Arc::new(
            std::iter::repeat_n(None, nulls)
                .chain([Some("012345678")])
                .collect::<StringArray>(),
        );
        let mut found = vec![0; nulls];
        found.push(12_345_678);
        assert_eq!(leak(late, numbers(&found)), Some(nulls));
    }

    #[test]
    fn rows_of_every_part_are_compared_with_the_row_that_they_came_from() {
        let inputs = 3 * FIRST_ROWS as i64;
        let raw: ArrayRef = Arc::new(
            (0..inputs)
                .map(|n| Some((1_000_000 + n).to_string()))
                .collect::<StringArray>(),
        );
        // Every second row was dropped, and all that came out but the last is NULL, which says nothing.
        let origin: Vec<u32> = (0..inputs as u32).filter(|row| row % 2 == 1).collect();
        let last = origin.len() - 1;
        let kept: Vec<i64> = origin.iter().map(|row| 1_000_000 + i64::from(*row)).collect();
        let found = |out: &[Option<i64>]| {
            let out: ArrayRef = Arc::new(Int64Array::from(out.to_vec()));
            let found = watch(&raw, &out).find(&[Arc::clone(&raw)], &[out], Some(&origin));
            found.map(|leak| leak.row)
        };
        let mut out: Vec<Option<i64>> = vec![None; origin.len()];
        out[last] = Some(kept[last]);
        assert_eq!(found(&out), Some(last));
        out[last] = Some(kept[last] - 1);
        assert_eq!(found(&out), None);
    }

    #[test]
    fn text_with_text_and_booleans_are_not_watched() {
        for (raw, out) in [
            (DataType::Utf8, DataType::Utf8),
            (DataType::Binary, DataType::Utf8),
            (DataType::Boolean, DataType::Int64),
        ] {
            assert!(Watch::new(&[raw], &[out]).pairs.into_inner().unwrap().is_empty());
        }
    }
}
