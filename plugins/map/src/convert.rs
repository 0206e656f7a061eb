//! Conversions of single values. None loses anything in silence, but for the rounding that is in the nature of
//! floating point.

use std::fmt::Write;

use sluice_plugin::text::{
    DAY_US, ParseError, fits, parse_date, parse_decimal, parse_int, parse_timestamp, write_date, write_decimal,
    write_timestamp,
};
use sluice_plugin::{DataType, Utf8Builder, Value};

/// Why a value cannot be cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CastError {
    /// It is not written as, or has no counterpart in, the target type.
    Invalid,
    /// It is out of the target's range.
    Overflow,
    /// Digits or a part of the time would be lost.
    Precision,
}

impl CastError {
    /// The code of the reject.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::Invalid => "cast-invalid",
            Self::Overflow => "cast-overflow",
            Self::Precision => "cast-precision",
        }
    }
}

impl From<ParseError> for CastError {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Invalid => Self::Invalid,
            ParseError::Overflow => Self::Overflow,
            ParseError::Precision => Self::Precision,
        }
    }
}

/// Whether there is a cast between two different types.
pub(crate) fn supported(from: DataType, to: DataType) -> bool {
    use DataType as T;
    let number = |data_type| {
        matches!(
            data_type,
            T::Int16 | T::Int32 | T::Int64 | T::Float32 | T::Float64 | T::Decimal { .. }
        )
    };
    let integer = |data_type| matches!(data_type, T::Int16 | T::Int32 | T::Int64);
    match (from, to) {
        (_, T::Timestamp) => false,
        (_, T::Utf8) | (T::Utf8, _) => true,
        (T::Boolean, to) => integer(to),
        (from, T::Boolean) => integer(from),
        (T::Date, to) => to == T::TimestampNtz,
        (T::Timestamp | T::TimestampNtz, to) => matches!(to, T::Date | T::TimestampNtz),
        (from, to) => number(from) && number(to),
    }
}

pub(crate) fn int(value: Value<'_>) -> Result<i64, CastError> {
    match value {
        Value::Int(value) => Ok(value),
        Value::Boolean(value) => Ok(value.into()),
        Value::Decimal(unscaled, scale) => {
            let whole = rescale(unscaled, scale, 0)?;
            i64::try_from(whole).map_err(|_| CastError::Overflow)
        }
        Value::Float32(value) => float_to_int(value.into()),
        Value::Float64(value) => float_to_int(value),
        Value::Utf8(text) => Ok(parse_int(text.trim())?),
        _ => Err(CastError::Invalid),
    }
}

pub(crate) fn narrow<T: TryFrom<i64>>(value: Value<'_>) -> Result<T, CastError> {
    T::try_from(int(value)?).map_err(|_| CastError::Overflow)
}

pub(crate) fn float64(value: Value<'_>) -> Result<f64, CastError> {
    match value {
        Value::Int(value) => Ok(value as f64),
        Value::Float32(value) => Ok(value.into()),
        Value::Float64(value) => Ok(value),
        // Through text, which rounds once; a division of two rounded numbers would round three times.
        Value::Decimal(unscaled, scale) => decimal_text(unscaled, scale)?.parse().map_err(|_| CastError::Invalid),
        Value::Utf8(text) => finite(parse_float::<f64>(text)?, f64::is_finite),
        _ => Err(CastError::Invalid),
    }
}

pub(crate) fn float32(value: Value<'_>) -> Result<f32, CastError> {
    match value {
        Value::Int(value) => Ok(value as f32),
        Value::Float32(value) => Ok(value),
        Value::Float64(value) if value.is_finite() => finite(value as f32, f32::is_finite),
        Value::Float64(value) => Ok(value as f32),
        Value::Decimal(unscaled, scale) => {
            let value = decimal_text(unscaled, scale)?.parse();
            finite(value.map_err(|_| CastError::Invalid)?, f32::is_finite)
        }
        Value::Utf8(text) => finite(parse_float::<f32>(text)?, f32::is_finite),
        _ => Err(CastError::Invalid),
    }
}

pub(crate) fn decimal(value: Value<'_>, precision: u8, scale: u8) -> Result<i128, CastError> {
    let unscaled = match value {
        Value::Int(value) => rescale(value.into(), 0, scale)?,
        Value::Decimal(unscaled, from) => rescale(unscaled, from, scale)?,
        // The shortest digits that read back as the same number are what was meant: 0.1, not 0.1000000000000000055….
        Value::Float32(value) => return float_to_decimal(value.is_nan(), value, precision, scale),
        Value::Float64(value) => return float_to_decimal(value.is_nan(), value, precision, scale),
        Value::Utf8(text) => return Ok(parse_decimal(text.trim(), precision, scale)?),
        _ => return Err(CastError::Invalid),
    };
    if fits(unscaled, precision) {
        Ok(unscaled)
    } else {
        Err(CastError::Overflow)
    }
}

pub(crate) fn date(value: Value<'_>) -> Result<i32, CastError> {
    match value {
        Value::Date(days) => Ok(days),
        Value::Timestamp(micros) | Value::TimestampNtz(micros) => {
            if micros.rem_euclid(DAY_US) != 0 {
                return Err(CastError::Precision);
            }
            i32::try_from(micros / DAY_US).map_err(|_| CastError::Overflow)
        }
        Value::Utf8(text) => Ok(parse_date(text.trim())?),
        _ => Err(CastError::Invalid),
    }
}

pub(crate) fn timestamp_ntz(value: Value<'_>) -> Result<i64, CastError> {
    match value {
        Value::Date(days) => i64::from(days).checked_mul(DAY_US).ok_or(CastError::Overflow),
        Value::Timestamp(micros) | Value::TimestampNtz(micros) => Ok(micros),
        Value::Utf8(text) => Ok(parse_timestamp(text.trim())?),
        _ => Err(CastError::Invalid),
    }
}

pub(crate) fn boolean(value: Value<'_>) -> Result<bool, CastError> {
    match value {
        Value::Boolean(value) => Ok(value),
        Value::Int(0) => Ok(false),
        Value::Int(1) => Ok(true),
        Value::Utf8(text) => match text.trim() {
            "0" => Ok(false),
            "1" => Ok(true),
            text if text.eq_ignore_ascii_case("false") => Ok(false),
            text if text.eq_ignore_ascii_case("true") => Ok(true),
            _ => Err(CastError::Invalid),
        },
        _ => Err(CastError::Invalid),
    }
}

pub(crate) fn bytes(value: Value<'_>) -> Result<&[u8], CastError> {
    match value {
        Value::Binary(bytes) => Ok(bytes),
        Value::Utf8(text) => Ok(text.as_bytes()),
        _ => Err(CastError::Invalid),
    }
}

/// Appends the text of a value; of one that cannot be cast, nothing.
pub(crate) fn text(to: &mut Utf8Builder, value: Value<'_>) -> Result<(), CastError> {
    let written = match value {
        Value::Boolean(value) => write!(to, "{value}"),
        Value::Int(value) => write!(to, "{value}"),
        Value::Float32(value) => write!(to, "{value}"),
        Value::Float64(value) => write!(to, "{value}"),
        Value::Decimal(unscaled, scale) => write_decimal(to, unscaled, scale),
        Value::Date(days) => return on_calendar(write_date(to, days)),
        Value::TimestampNtz(micros) => return on_calendar(write_timestamp(to, micros)),
        Value::Timestamp(micros) => {
            on_calendar(write_timestamp(to, micros))?;
            to.append("Z");
            Ok(())
        }
        Value::Utf8(text) => {
            to.append(text);
            Ok(())
        }
        Value::Binary(bytes) => {
            to.append(std::str::from_utf8(bytes).map_err(|_| CastError::Invalid)?);
            Ok(())
        }
    };
    written.map_err(|_| CastError::Invalid)
}

fn on_calendar(written: Result<bool, std::fmt::Error>) -> Result<(), CastError> {
    match written {
        Ok(true) => Ok(()),
        Ok(false) => Err(CastError::Overflow),
        Err(_) => Err(CastError::Invalid),
    }
}

fn rescale(unscaled: i128, from: u8, to: u8) -> Result<i128, CastError> {
    let power = |digits: u8| 10_i128.checked_pow(digits.into()).ok_or(CastError::Overflow);
    if to >= from {
        return unscaled.checked_mul(power(to - from)?).ok_or(CastError::Overflow);
    }
    let power = power(from - to)?;
    if unscaled % power == 0 {
        Ok(unscaled / power)
    } else {
        Err(CastError::Precision)
    }
}

fn float_to_int(value: f64) -> Result<i64, CastError> {
    // 2^63, the first number above the range, which a double holds exactly.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if value.is_nan() {
        Err(CastError::Invalid)
    } else if !(-LIMIT..LIMIT).contains(&value) {
        Err(CastError::Overflow)
    } else if value.fract() != 0.0 {
        Err(CastError::Precision)
    } else {
        Ok(value as i64)
    }
}

fn float_to_decimal(is_nan: bool, value: impl std::fmt::Display, precision: u8, scale: u8) -> Result<i128, CastError> {
    if is_nan {
        return Err(CastError::Invalid);
    }
    let text = value.to_string();
    if text.ends_with("inf") {
        return Err(CastError::Overflow);
    }
    Ok(parse_decimal(&text, precision, scale)?)
}

/// Reads digits, a point and an exponent; not the names that Rust also takes for numbers (`inf`, `nan`).
fn parse_float<T: std::str::FromStr>(text: &str) -> Result<T, CastError> {
    let text = text.trim();
    let numeric = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    if !text.bytes().all(numeric) {
        return Err(CastError::Invalid);
    }
    text.parse().map_err(|_| CastError::Invalid)
}

fn finite<T: Copy>(value: T, is_finite: impl Fn(T) -> bool) -> Result<T, CastError> {
    if is_finite(value) {
        Ok(value)
    } else {
        Err(CastError::Overflow)
    }
}

fn decimal_text(unscaled: i128, scale: u8) -> Result<String, CastError> {
    let mut text = String::with_capacity(42);
    write_decimal(&mut text, unscaled, scale).map_err(|_| CastError::Invalid)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::CastError::{Invalid, Overflow, Precision};
    use super::*;

    #[test]
    fn integers() {
        assert_eq!(int(Value::Utf8(" -42 ")), Ok(-42));
        assert_eq!(int(Value::Utf8("9223372036854775808")), Err(Overflow));
        assert_eq!(int(Value::Utf8("1.0")), Err(Invalid));
        assert_eq!(int(Value::Utf8("")), Err(Invalid));
        assert_eq!(int(Value::Decimal(200, 2)), Ok(2));
        assert_eq!(int(Value::Decimal(201, 2)), Err(Precision));
        assert_eq!(int(Value::Decimal(i128::from(i64::MAX) + 1, 0)), Err(Overflow));
        assert_eq!(int(Value::Float64(-9_223_372_036_854_775_808.0)), Ok(i64::MIN));
        assert_eq!(int(Value::Float64(9_223_372_036_854_775_808.0)), Err(Overflow));
        assert_eq!(int(Value::Float64(0.5)), Err(Precision));
        assert_eq!(int(Value::Float64(f64::NAN)), Err(Invalid));
        assert_eq!(int(Value::Float32(f32::INFINITY)), Err(Overflow));
        assert_eq!(int(Value::Boolean(true)), Ok(1));
        assert_eq!(narrow::<i16>(Value::Int(32_768)), Err(Overflow));
        assert_eq!(narrow::<i32>(Value::Int(-2_147_483_648)), Ok(i32::MIN));
    }

    #[test]
    fn floats_are_rounded_once_and_never_infinite() {
        assert_eq!(float64(Value::Decimal(1, 1)), Ok(0.1));
        assert_eq!(
            float64(Value::Decimal(9_007_199_254_740_993, 0)),
            Ok(9_007_199_254_740_992.0)
        );
        assert_eq!(float64(Value::Utf8("1e400")), Err(Overflow));
        assert_eq!(float64(Value::Utf8("inf")), Err(Invalid));
        assert_eq!(float64(Value::Utf8("NaN")), Err(Invalid));
        assert_eq!(float64(Value::Utf8("1e5")), Ok(100_000.0));
        assert_eq!(float32(Value::Float64(1e39)), Err(Overflow));
        assert_eq!(float32(Value::Float64(0.1)), Ok(0.1));
        assert_eq!(float32(Value::Decimal(1, 1)), Ok(0.1));
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal(Value::Int(12), 5, 2), Ok(1_200));
        assert_eq!(decimal(Value::Int(1_000), 5, 2), Err(Overflow));
        assert_eq!(decimal(Value::Decimal(1_500, 3), 5, 2), Ok(150));
        assert_eq!(decimal(Value::Decimal(1_505, 3), 5, 2), Err(Precision));
        assert_eq!(decimal(Value::Decimal(10_i128.pow(37), 0), 38, 10), Err(Overflow));
        assert_eq!(decimal(Value::Float64(0.1), 5, 2), Ok(10));
        assert_eq!(decimal(Value::Float32(0.1), 5, 2), Ok(10));
        assert_eq!(decimal(Value::Float64(0.125), 5, 2), Err(Precision));
        assert_eq!(decimal(Value::Float64(1e300), 38, 0), Err(Overflow));
        assert_eq!(decimal(Value::Float64(f64::NEG_INFINITY), 5, 2), Err(Overflow));
        assert_eq!(decimal(Value::Utf8("1,5"), 5, 2), Err(Invalid));
        let money = Value::Decimal(-9_223_372_036_854_775_808, 4);
        assert_eq!(decimal(money, 19, 4), Ok(-9_223_372_036_854_775_808));
        assert_eq!(decimal(money, 18, 4), Err(Overflow));
    }

    #[test]
    fn days_and_times() {
        assert_eq!(date(Value::TimestampNtz(-DAY_US)), Ok(-1));
        assert_eq!(date(Value::TimestampNtz(1)), Err(Precision));
        assert_eq!(date(Value::Utf8("2024-02-30")), Err(Invalid));
        assert_eq!(timestamp_ntz(Value::Date(1)), Ok(DAY_US));
        assert_eq!(timestamp_ntz(Value::Date(i32::MAX)), Err(Overflow));
        assert_eq!(timestamp_ntz(Value::Timestamp(5)), Ok(5));
        assert_eq!(
            timestamp_ntz(Value::Utf8("1970-01-01 00:00:00.0000001")),
            Err(Precision)
        );
    }

    #[test]
    fn booleans_and_bytes() {
        assert_eq!(boolean(Value::Utf8(" TRUE")), Ok(true));
        assert_eq!(boolean(Value::Utf8("yes")), Err(Invalid));
        assert_eq!(boolean(Value::Int(2)), Err(Invalid));
        assert_eq!(bytes(Value::Utf8("ä")), Ok("ä".as_bytes()));
    }

    #[test]
    fn texts() {
        let shown = |value| {
            let mut to = Utf8Builder::with_capacity(1, 0);
            text(&mut to, value).map(|()| {
                to.end_row();
                String::from_utf8(to.finish().unwrap().values).unwrap()
            })
        };
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(shown(Value::Decimal(150, 2)), ok("1.50"));
        assert_eq!(shown(Value::Boolean(false)), ok("false"));
        assert_eq!(shown(Value::Timestamp(0)), ok("1970-01-01T00:00:00Z"));
        assert_eq!(shown(Value::Float64(1e21)), ok("1000000000000000000000"));
        assert_eq!(shown(Value::Binary(b"abc")), ok("abc"));
        assert_eq!(shown(Value::Binary(&[0xff])), Err(Invalid));
        assert_eq!(shown(Value::Date(i32::MAX)), Err(Overflow));
    }
}
