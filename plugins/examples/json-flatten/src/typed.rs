//! JSON values as values of a type.

use serde_json::value::RawValue;
use sluice_plugin::text::{ParseError, parse_date, parse_decimal, parse_timestamp};
use sluice_plugin::{ApplyError, BooleanBuilder, Column, DataType, FixedBuilder, Utf8Builder};

/// Digits that a whole number of 64 bits can have.
const INT_DIGITS: u8 = 19;
const MINUTE_US: i64 = 60_000_000;

/// Why a JSON value is not a value of the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    Type,
    Overflow,
    Precision,
}

impl Mismatch {
    pub(crate) fn code(self) -> &'static str {
        match self {
            Mismatch::Type => "json-type",
            Mismatch::Overflow => "json-overflow",
            Mismatch::Precision => "json-precision",
        }
    }
}

impl From<ParseError> for Mismatch {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Invalid => Mismatch::Type,
            ParseError::Overflow => Mismatch::Overflow,
            ParseError::Precision => Mismatch::Precision,
        }
    }
}

/// Builds a column of the type that a field has.
#[derive(Debug)]
pub(crate) enum TypedBuilder {
    Boolean(BooleanBuilder),
    Int16(FixedBuilder<i16>),
    Int32(FixedBuilder<i32>),
    Int64(FixedBuilder<i64>),
    Float64(FixedBuilder<f64>),
    Decimal(FixedBuilder<i128>, u8, u8),
    Date(FixedBuilder<i32>),
    Timestamp(FixedBuilder<i64>),
    TimestampNtz(FixedBuilder<i64>),
    Text(Utf8Builder),
}

impl TypedBuilder {
    pub(crate) fn new(data_type: DataType, rows: usize) -> Self {
        match data_type {
            DataType::Boolean => Self::Boolean(BooleanBuilder::with_capacity(rows)),
            DataType::Int16 => Self::Int16(FixedBuilder::with_capacity(rows)),
            DataType::Int32 => Self::Int32(FixedBuilder::with_capacity(rows)),
            DataType::Int64 => Self::Int64(FixedBuilder::with_capacity(rows)),
            DataType::Float64 => Self::Float64(FixedBuilder::with_capacity(rows)),
            DataType::Decimal { precision, scale } => {
                Self::Decimal(FixedBuilder::with_capacity(rows), precision, scale)
            }
            DataType::Date => Self::Date(FixedBuilder::with_capacity(rows)),
            DataType::Timestamp => Self::Timestamp(FixedBuilder::with_capacity(rows)),
            DataType::TimestampNtz => Self::TimestampNtz(FixedBuilder::with_capacity(rows)),
            // The configuration has no other types.
            DataType::Utf8 | DataType::Float32 | DataType::Binary => Self::Text(Utf8Builder::with_capacity(rows, 0)),
        }
    }

    /// Adds a row with the value, unless it is none of the type: then nothing is added.
    pub(crate) fn push(&mut self, value: &RawValue) -> Result<(), Mismatch> {
        match self {
            Self::Boolean(builder) => builder.push_option(Some(match value.get() {
                "true" => true,
                "false" => false,
                _ => return Err(Mismatch::Type),
            })),
            Self::Int16(builder) => builder.push_option(Some(whole(value)?)),
            Self::Int32(builder) => builder.push_option(Some(whole(value)?)),
            Self::Int64(builder) => builder.push_option(Some(whole(value)?)),
            Self::Float64(builder) => builder.push_option(Some(double(value)?)),
            Self::Decimal(builder, precision, scale) => {
                builder.push_option(Some(parse_decimal(&number(value)?, *precision, *scale)?));
            }
            Self::Date(builder) => builder.push_option(Some(parse_date(&string(value)?)?)),
            Self::Timestamp(builder) => builder.push_option(Some(moment(&string(value)?)?)),
            Self::TimestampNtz(builder) => builder.push_option(Some(parse_timestamp(&string(value)?)?)),
            Self::Text(builder) => match value.get().starts_with('"') {
                true => builder.push(&string(value)?),
                false => builder.push(value.get()),
            },
        }
        Ok(())
    }

    pub(crate) fn push_null(&mut self) {
        match self {
            Self::Boolean(builder) => builder.push_option(None),
            Self::Int16(builder) => builder.push_option(None),
            Self::Int32(builder) | Self::Date(builder) => builder.push_option(None),
            Self::Int64(builder) | Self::Timestamp(builder) | Self::TimestampNtz(builder) => builder.push_option(None),
            Self::Float64(builder) => builder.push_option(None),
            Self::Decimal(builder, ..) => builder.push_option(None),
            Self::Text(builder) => builder.push_null(),
        }
    }

    pub(crate) fn finish(self) -> Result<Column, ApplyError> {
        Ok(match self {
            Self::Boolean(builder) => builder.finish(),
            Self::Int16(builder) => builder.finish(),
            Self::Int32(builder) | Self::Date(builder) => builder.finish(),
            Self::Int64(builder) | Self::Timestamp(builder) | Self::TimestampNtz(builder) => builder.finish(),
            Self::Float64(builder) => builder.finish(),
            Self::Decimal(builder, ..) => builder.finish(),
            Self::Text(builder) => builder.finish()?,
        })
    }
}

/// The text of a JSON string.
fn string(value: &RawValue) -> Result<String, Mismatch> {
    // A half of a surrogate pair is JSON by its grammar, and no text.
    serde_json::from_str(value.get()).map_err(|_| Mismatch::Type)
}

/// The digits of a JSON number, or of a string with one: producers quote decimals so that nobody rounds them.
fn number(value: &RawValue) -> Result<String, Mismatch> {
    match value.get().as_bytes().first() {
        Some(b'"') => string(value),
        Some(b'-' | b'0'..=b'9') => Ok(value.get().to_owned()),
        _ => Err(Mismatch::Type),
    }
}

fn whole<T: TryFrom<i128>>(value: &RawValue) -> Result<T, Mismatch> {
    let whole = parse_decimal(&number(value)?, INT_DIGITS, 0)?;
    T::try_from(whole).map_err(|_| Mismatch::Overflow)
}

fn double(value: &RawValue) -> Result<f64, Mismatch> {
    let text = number(value)?;
    // Rust would read `inf` and `nan` as well.
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let double: f64 = text.parse().ok().filter(|_| plain).ok_or(Mismatch::Type)?;
    match double.is_finite() {
        true => Ok(double),
        false => Err(Mismatch::Overflow),
    }
}

/// Microseconds in UTC of a moment with `Z` or an offset such as `+02:00`.
fn moment(text: &str) -> Result<i64, Mismatch> {
    if let Some(local) = text.strip_suffix(['Z', 'z']) {
        return Ok(parse_timestamp(local)?);
    }
    let at = text.len().checked_sub(6).ok_or(Mismatch::Type)?;
    let offset = text.get(at..).ok_or(Mismatch::Type)?.as_bytes();
    let two = |digits: &[u8]| match digits {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => Ok(i64::from(tens - b'0') * 10 + i64::from(ones - b'0')),
        _ => Err(Mismatch::Type),
    };
    let (hours, minutes) = (two(&offset[1..3])?, two(&offset[4..])?);
    let sign = match (offset[0], offset[3]) {
        (b'+', b':') => 1,
        (b'-', b':') => -1,
        _ => return Err(Mismatch::Type),
    };
    if hours > 14 || minutes > 59 {
        return Err(Mismatch::Type);
    }
    // A date alone has no zone: `2024-02-29+01:00` is nothing that JSON's producers write.
    let local = text.get(..at).filter(|local| local.len() > 10).ok_or(Mismatch::Type)?;
    Ok(parse_timestamp(local)? - sign * (hours * 60 + minutes) * MINUTE_US)
}

#[cfg(test)]
mod tests {
    use sluice_plugin::{AnyView, Value};

    use super::*;

    /// What a JSON text becomes as a value of a type, written with `Debug`, or the code of why not.
    fn as_type(data_type: DataType, json: &str) -> Result<String, &'static str> {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        let mut builder = TypedBuilder::new(data_type, 1);
        builder.push(raw).map_err(Mismatch::code)?;
        let column = builder.finish().unwrap();
        let view = AnyView::new(&column, 1, data_type).unwrap();
        Ok(match view.get(0).unwrap() {
            Value::Boolean(value) => value.to_string(),
            Value::Int(value) | Value::Timestamp(value) | Value::TimestampNtz(value) => value.to_string(),
            Value::Decimal(value, scale) => format!("{value}e-{scale}"),
            Value::Date(value) => value.to_string(),
            Value::Float64(value) => format!("{value:?}"),
            Value::Utf8(value) => value.to_owned(),
            other => format!("{other:?}"),
        })
    }

    fn all(data_type: DataType, cases: &[(&str, Result<&str, &'static str>)]) {
        for (json, expected) in cases {
            assert_eq!(
                as_type(data_type, json),
                expected.map(str::to_owned),
                "{json} as {data_type}"
            );
        }
    }

    #[test]
    fn whole_numbers_are_held_exactly_or_refused() {
        all(
            DataType::Int64,
            &[
                ("9223372036854775807", Ok("9223372036854775807")),
                ("-9223372036854775808", Ok("-9223372036854775808")),
                ("9223372036854775808", Err("json-overflow")),
                ("\"42\"", Ok("42")),
                ("1.0", Ok("1")),
                ("1e3", Ok("1000")),
                ("1.5", Err("json-precision")),
                ("true", Err("json-type")),
                ("\"\"", Err("json-type")),
                ("[1]", Err("json-type")),
            ],
        );
        all(
            DataType::Int32,
            &[("2147483648", Err("json-overflow")), ("-2147483648", Ok("-2147483648"))],
        );
        all(
            DataType::Int16,
            &[("32768", Err("json-overflow")), ("32767", Ok("32767"))],
        );
    }

    #[test]
    fn a_decimal_has_the_digits_that_were_written() {
        let money = DataType::Decimal {
            precision: 38,
            scale: 2,
        };
        all(
            money,
            &[
                // Of these digits a double holds the first half.
                (
                    "123456789012345678901234567890.12",
                    Ok("12345678901234567890123456789012e-2"),
                ),
                ("0.1", Ok("10e-2")),
                ("\"-7.5\"", Ok("-750e-2")),
                ("0.125", Err("json-precision")),
                ("1e40", Err("json-overflow")),
                ("\"7,5\"", Err("json-type")),
                ("{}", Err("json-type")),
            ],
        );
    }

    #[test]
    fn doubles_are_finite() {
        all(
            DataType::Float64,
            &[
                ("0.1", Ok("0.1")),
                ("-1e300", Ok("-1e300")),
                ("\"2.5\"", Ok("2.5")),
                ("1e400", Err("json-overflow")),
                ("\"inf\"", Err("json-type")),
                ("\"NaN\"", Err("json-type")),
            ],
        );
    }

    #[test]
    fn booleans_are_true_and_false_alone() {
        all(
            DataType::Boolean,
            &[
                ("true", Ok("true")),
                ("false", Ok("false")),
                ("1", Err("json-type")),
                ("\"true\"", Err("json-type")),
            ],
        );
    }

    #[test]
    fn moments_are_in_utc_and_need_their_offset() {
        // date -u -d '2024-02-29 12:30:00.5' +%s%6N
        all(
            DataType::Timestamp,
            &[
                ("\"2024-02-29T12:30:00.5Z\"", Ok("1709209800500000")),
                ("\"2024-02-29T14:30:00.500+02:00\"", Ok("1709209800500000")),
                ("\"2024-02-29 07:00-05:30\"", Ok("1709209800000000")),
                ("\"2024-02-29T12:30:00\"", Err("json-type")),
                ("\"2024-02-29+01:00\"", Err("json-type")),
                ("\"2024-02-30T12:30:00Z\"", Err("json-type")),
                ("\"2024-02-29T12:30:00+15:00\"", Err("json-type")),
                ("\"2024-02-29T12:30:00.0000001Z\"", Err("json-precision")),
                ("\"Z\"", Err("json-type")),
                ("\"ééé+01:00\"", Err("json-type")),
                ("1709209800", Err("json-type")),
            ],
        );
        all(
            DataType::TimestampNtz,
            &[
                ("\"2024-02-29T12:30\"", Ok("1709209800000000")),
                ("\"2024-02-29T12:30Z\"", Err("json-type")),
            ],
        );
        all(
            DataType::Date,
            &[
                ("\"2024-02-29\"", Ok("19782")),
                ("\"29.02.2024\"", Err("json-type")),
                ("20240229", Err("json-type")),
            ],
        );
    }

    #[test]
    fn as_text_a_string_is_its_text_and_all_else_as_it_is_written() {
        all(
            DataType::Utf8,
            &[
                (r#""a\"\u00e9\n""#, Ok("a\"é\n")),
                ("1.50", Ok("1.50")),
                ("{ \"a\": [1] }", Ok("{ \"a\": [1] }")),
                ("\"\"", Ok("")),
                (r#""\ud800""#, Err("json-type")),
            ],
        );
    }
}
