//! `bucket`: the range that a number lies in.

use std::fmt::{self, Write};

use serde::Deserialize;
use serde_json::Value;
use sluice_plugin::text::write_decimal_short;
use sluice_plugin::{AnyView, ApplyError, Column, DataType, FixedBuilder, OpenError, Utf8Builder};

use crate::numbers::{FLOAT_SCALE, exact, fits, scale};
use crate::rejects::Rejects;

const OUT_OF_RANGE: &str = "bucket-out-of-range";
const BELOW_FIRST: &str = "bucket-below-first-edge";

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    pub width: Option<Value>,
    pub start: Option<Value>,
    pub edges: Option<Vec<Value>>,
    #[serde(default)]
    pub result: Shown,
}

/// What stands in place of the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shown {
    /// The range as text: `[20,30)`, `<18`, `>=65`.
    #[default]
    Text,
    /// Its lower bound, in the column's type.
    Lower,
}

impl Options {
    pub(crate) fn check(&self, path: &str) -> Result<(), OpenError> {
        match (&self.width, &self.edges) {
            (Some(_), Some(_)) | (None, None) => {
                Err(OpenError::config(path, "`bucket` needs either `width` or `edges`"))
            }
            (None, Some(_)) if self.start.is_some() => {
                Err(OpenError::config(format!("{path}.start"), "it goes with `width` only"))
            }
            (None, Some(edges)) if edges.is_empty() => {
                Err(OpenError::config(format!("{path}.edges"), "expected a number or more"))
            }
            _ => Ok(()),
        }
    }
}

/// All numbers are in units of 10^-scale.
#[derive(Debug)]
pub(crate) struct Bucket {
    ranges: Ranges,
    scale: u8,
    shown: Shown,
}

#[derive(Debug)]
enum Ranges {
    Width {
        start: i128,
        width: i128,
    },
    /// Ascending.
    Edges(Vec<i128>),
}

/// Without a lower bound below the first edge, without an upper one from the last edge on.
type Range = (Option<i128>, Option<i128>);

impl Bucket {
    /// The error says what would fit the column.
    pub(crate) fn new(options: &Options, data_type: DataType) -> Result<Self, &'static str> {
        let scale = scale(data_type).ok_or("works on columns of numbers only")?;
        let number = |value: &Value| exact(value, scale);
        let ranges = match (&options.width, &options.edges) {
            (Some(width), _) => Ranges::Width {
                start: match &options.start {
                    Some(start) => {
                        number(start).ok_or("needs `start` to be a number that the column can hold exactly")?
                    }
                    None => 0,
                },
                width: match number(width).filter(|width| *width > 0) {
                    Some(1) => {
                        return Err(
                            "needs a `width` of more than one unit of the column's last digit, which would \
                                    leave every number as it is",
                        );
                    }
                    Some(width) => width,
                    None => return Err("needs `width` to be a number above 0 that the column can hold exactly"),
                },
            },
            (None, edges) => {
                let edges: Option<Vec<i128>> = edges.iter().flatten().map(number).collect();
                let ascending = |edges: &Vec<i128>| edges.is_sorted_by(|a, b| a < b);
                Ranges::Edges(
                    edges
                        .filter(ascending)
                        .ok_or("needs `edges` to be ascending numbers that the column can hold exactly")?,
                )
            }
        };
        Ok(Self {
            ranges,
            scale,
            shown: options.result,
        })
    }

    pub(crate) fn how(&self) -> &'static str {
        match self.shown {
            Shown::Text => "the range it lies in",
            Shown::Lower => "lower bound of the range it lies in",
        }
    }

    /// The type of the result.
    pub(crate) fn data_type(&self, source: DataType) -> DataType {
        match self.shown {
            Shown::Text => DataType::Utf8,
            Shown::Lower => source,
        }
    }

    pub(crate) fn column(
        &self,
        values: AnyView<'_>,
        data_type: DataType,
        rows: usize,
        rejects: &mut Rejects<'_>,
    ) -> Result<Column, ApplyError> {
        let mut ranges = Found {
            values,
            digits: String::new(),
            bucket: self,
        };
        let mut lower = |row: usize| -> Option<i128> {
            let found = ranges.of(row)?.map_err(|Unfit| OUT_OF_RANGE);
            let bound = found.and_then(|(low, _)| low.ok_or(BELOW_FIRST));
            let bound = bound.and_then(|low| fits(low, data_type).then_some(low).ok_or(OUT_OF_RANGE));
            Some(bound.unwrap_or_else(|code| {
                rejects.push(row, code);
                0
            }))
        };
        if self.shown == Shown::Text {
            return self.texts(&mut ranges, rows, rejects);
        }
        // The bounds were found to fit.
        macro_rules! fixed {
            ($of:expr) => {{
                let mut column = FixedBuilder::with_capacity(rows);
                (0..rows).for_each(|row| column.push_option(lower(row).map($of)));
                column.finish()
            }};
        }
        let power = 10_f64.powi(FLOAT_SCALE.into());
        Ok(match data_type {
            DataType::Int16 => fixed!(|low| i16::try_from(low).unwrap_or_default()),
            DataType::Int32 => fixed!(|low| i32::try_from(low).unwrap_or_default()),
            DataType::Int64 => fixed!(|low| i64::try_from(low).unwrap_or_default()),
            DataType::Float32 => fixed!(|low| (low as f64 / power) as f32),
            DataType::Float64 => fixed!(|low| low as f64 / power),
            _ => fixed!(|low: i128| low),
        })
    }

    fn texts(&self, ranges: &mut Found<'_>, rows: usize, rejects: &mut Rejects<'_>) -> Result<Column, ApplyError> {
        let mut texts = Utf8Builder::with_capacity(rows, rows * 8);
        for row in 0..rows {
            match ranges.of(row) {
                None => texts.push_null(),
                Some(Ok(range)) => {
                    self.write(&mut texts, range)
                        .map_err(|fmt::Error| ApplyError::new("internal", "a text could not be written"))?;
                    texts.end_row();
                }
                Some(Err(Unfit)) => {
                    rejects.push(row, OUT_OF_RANGE);
                    texts.push("");
                }
            }
        }
        texts.finish()
    }

    fn write(&self, to: &mut Utf8Builder, range: Range) -> fmt::Result {
        let mut number = |before: &str, number: i128, after: &str| {
            to.append(before);
            write_decimal_short(to, number, self.scale)?;
            to.append(after);
            Ok(())
        };
        match range {
            (Some(low), Some(high)) => {
                number("[", low, ",")?;
                number("", high, ")")
            }
            (Some(low), None) => number(">=", low, ""),
            (None, Some(high)) => number("<", high, ""),
            (None, None) => Ok(()),
        }
    }

    fn range(&self, value: i128) -> Option<Range> {
        match &self.ranges {
            Ranges::Width { start, width } => {
                let number = value.checked_sub(*start)?.div_euclid(*width);
                let low = number.checked_mul(*width)?.checked_add(*start)?;
                Some((Some(low), Some(low.checked_add(*width)?)))
            }
            Ranges::Edges(edges) => {
                let above = edges.partition_point(|edge| *edge <= value);
                let low = above.checked_sub(1).and_then(|index| edges.get(index).copied());
                Some((low, edges.get(above).copied()))
            }
        }
    }
}

/// The number or its bounds are beyond what can be counted.
struct Unfit;

/// The ranges of a column's numbers.
struct Found<'a> {
    values: AnyView<'a>,
    /// Of one floating-point number, to use the memory again.
    digits: String,
    bucket: &'a Bucket,
}

impl Found<'_> {
    fn of(&mut self, row: usize) -> Option<Result<Range, Unfit>> {
        use sluice_plugin::Value as V;
        let unscaled = match self.values.get(row)? {
            V::Int(value) => Some(i128::from(value)),
            V::Decimal(value, _) => Some(value),
            V::Float32(value) => self.floor(format_args!("{value}")),
            V::Float64(value) => self.floor(format_args!("{value}")),
            _ => None,
        };
        Some(unscaled.and_then(|value| self.bucket.range(value)).ok_or(Unfit))
    }

    /// A floating-point number as its shortest digits say it, so that 0.3 lies in the range from 0.3; digits after the
    /// ninth go downwards, which crosses no bound.
    fn floor(&mut self, number: fmt::Arguments<'_>) -> Option<i128> {
        self.digits.clear();
        self.digits.write_fmt(number).ok()?;
        floor(&self.digits)
    }
}

/// `-12.5` in units of the ninth digit after the point; `None` for infinities, no number, and what is too large.
fn floor(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let (near, far) = fraction.split_at_checked(FLOAT_SCALE.into()).unwrap_or((fraction, ""));
    let mut unscaled = 0_i128;
    let zeros = std::iter::repeat_n(b'0', usize::from(FLOAT_SCALE) - near.len());
    for digit in whole.bytes().chain(near.bytes()).chain(zeros) {
        let digit = digit.is_ascii_digit().then(|| i128::from(digit - b'0'))?;
        unscaled = unscaled.checked_mul(10)?.checked_add(digit)?;
    }
    if !negative {
        return Some(unscaled);
    }
    let below = far.bytes().any(|digit| digit != b'0');
    Some(-unscaled - i128::from(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floating_point_goes_downwards() {
        for (text, unscaled) in [
            ("0.3", Some(300_000_000)),
            ("-0.3", Some(-300_000_000)),
            ("12", Some(12_000_000_000)),
            ("0.0000000019", Some(1)),
            ("-0.0000000011", Some(-2)),
            ("-0", Some(0)),
            ("inf", None),
            ("NaN", None),
            ("-inf", None),
        ] {
            assert_eq!(floor(text), unscaled, "{text}");
        }
        assert_eq!(floor(&format!("{}", 1e29)), Some(10_i128.pow(38)));
        assert_eq!(floor(&format!("{}", 1e30)), None);
    }
}
