//! CAST, CONVERT, implicit conversion and assignment.

mod from_text;

use super::{
    CodePage, Collation, DAYS_MAX, TICKS_PER_DAY, TICKS_PER_SECOND, arithmetic::integer_range, decimal::pow10,
    decode_utf16, encode_utf16, rescale, round_to_datetime, to_text, units_of,
};
use crate::{
    error::{SqlResult, conversion_error, date_out_of_range, explicit_conversion, not_supported, overflow, sql_error},
    value::{Length, SqlType, Value},
};

/// 1900-01-01, to which a time without a date belongs.
const EPOCH_1900: i64 = 693_595 * TICKS_PER_DAY;
/// The first day of `datetime`, 1753-01-01.
const DATETIME_MIN: i64 = 639_905 * TICKS_PER_DAY;
/// The day after the last of every type.
const END: i64 = (DAYS_MAX as i64 + 1) * TICKS_PER_DAY;

/// `CAST(value AS to)`: text and bytes that are too long are cut.
///
/// # Errors
/// SQL Server's number for what does not convert: 245, 8114, 8115, 220, 241, 242, 529, 8169.
pub fn convert(value: &Value, from: SqlType, to: SqlType) -> SqlResult<Value> {
    convert_styled(value, from, to, 0)
}

/// `CONVERT(to, value, style)`.
///
/// # Errors
/// As [`convert`], and 281 for a style that the types do not have.
pub fn convert_styled(value: &Value, from: SqlType, to: SqlType, style: i64) -> SqlResult<Value> {
    convert_in(value, from, to, style, None)
}

/// The same, with the code page of `to`, if that is known. Else code page text stays in the one it has.
fn convert_in(value: &Value, from: SqlType, to: SqlType, style: i64, page: Option<CodePage>) -> SqlResult<Value> {
    if *value == Value::Null {
        return Ok(Value::Null);
    }
    if from == to && style == 0 && (page.is_none() || !to.is_code_page()) {
        return Ok(value.clone());
    }
    if from == SqlType::Variant || to == SqlType::Variant {
        return Err(not_supported("sql_variant"));
    }
    match to {
        SqlType::Bit | SqlType::TinyInt | SqlType::SmallInt | SqlType::Int | SqlType::BigInt => {
            to_integer(value, from, to)
        }
        SqlType::Decimal { .. } | SqlType::Money | SqlType::SmallMoney => to_decimal(value, from, to),
        SqlType::Real | SqlType::Float => to_float(value, from, to),
        SqlType::Date
        | SqlType::Time(_)
        | SqlType::DateTime
        | SqlType::SmallDateTime
        | SqlType::DateTime2(_)
        | SqlType::DateTimeOffset(_) => to_temporal(value, from, to, style),
        SqlType::Char(_)
        | SqlType::VarChar(_)
        | SqlType::NChar(_)
        | SqlType::NVarChar(_)
        | SqlType::Text
        | SqlType::NText
        | SqlType::Xml => text_of(value, from, to, style, page),
        SqlType::Json => match text_of(value, from, to, style, page)? {
            Value::Text(text) => from_text::json(text),
            other => Ok(other),
        },
        SqlType::Vector(dimensions) => match text_of(value, from, to, style, page)? {
            Value::Text(text) => from_text::vector(&text, dimensions),
            other => Ok(other),
        },
        SqlType::Binary(_)
        | SqlType::VarBinary(_)
        | SqlType::Image
        | SqlType::RowVersion
        | SqlType::HierarchyId
        | SqlType::Geometry
        | SqlType::Geography => to_bytes(value, from, to, style),
        SqlType::Variant => Err(not_supported("sql_variant")),
        SqlType::UniqueIdentifier => match value {
            Value::Guid(_) => Ok(value.clone()),
            Value::Text(text) => from_text::guid(text),
            Value::Bytes(bytes) => {
                let mut raw = [0; 16];
                for (to, from) in raw.iter_mut().zip(bytes) {
                    *to = *from;
                }
                Ok(Value::Guid(from_text::swapped(raw)))
            }
            _ => Err(explicit_conversion(&from.to_string(), &to.to_string())),
        },
    }
}

/// Whether T-SQL converts between two types without being asked.
pub fn implicit_allowed(from: SqlType, to: SqlType) -> bool {
    if std::mem::discriminant(&from) == std::mem::discriminant(&to) {
        return true;
    }
    let old = |ty| matches!(ty, SqlType::DateTime | SqlType::SmallDateTime);
    if from.is_text() {
        return !to.is_bytes();
    }
    if from.is_bytes() {
        return !(to.is_float() || to.is_temporal() && !old(to));
    }
    if to.is_text() {
        return true;
    }
    if to.is_bytes() {
        return from.is_integer() || from.is_decimal() || old(from) || from == SqlType::UniqueIdentifier;
    }
    if from.is_number() {
        return to.is_number() || old(to);
    }
    if from.is_temporal() {
        return match (from, to) {
            (SqlType::Date, SqlType::Time(_)) | (SqlType::Time(_), SqlType::Date) => false,
            _ => to.is_temporal(),
        };
    }
    false
}

/// The value for a column or variable of type `to`, in the code page of its collation where it has one: as [`convert`], but
/// what is too long is an error unless only blanks or zero bytes are lost. `None` means that it would be cut.
///
/// # Errors
/// As [`convert`].
pub fn assign_in(value: &Value, from: SqlType, to: SqlType, page: CodePage) -> SqlResult<Option<Value>> {
    match value {
        Value::Text(text) if to.is_text() => {
            let limit = match to {
                SqlType::Char(n) | SqlType::VarChar(Length::Limited(n)) => usize::from(n),
                SqlType::NChar(n) | SqlType::NVarChar(Length::Limited(n)) => usize::from(n),
                _ => usize::MAX,
            };
            let kept = text.trim_end_matches(' ');
            if text.len() > limit && text_length(kept, to, page) > limit {
                return Ok(None);
            }
        }
        Value::Bytes(bytes) => {
            let limit = match to {
                SqlType::Binary(n) | SqlType::VarBinary(Length::Limited(n)) => usize::from(n),
                _ => usize::MAX,
            };
            if to.is_bytes() && bytes.len() > limit {
                return Ok(None);
            }
        }
        _ => {}
    }
    convert_in(value, from, to, 0, Some(page)).map(Some)
}

/// Ticks at a number of fractional digits, rounded half up.
pub fn round_ticks(ticks: i64, digits: u8) -> i64 {
    let unit = 10_i64.pow(7 - u32::from(digits.min(7)));
    (ticks + unit / 2).div_euclid(unit) * unit
}

/// Length as the type counts it: UTF-16 units for national text, bytes for code page text.
fn text_length(text: &str, ty: SqlType, page: CodePage) -> usize {
    if text.is_ascii() {
        text.len()
    } else if ty.is_national() {
        text.chars().map(units_of).sum()
    } else {
        page.length(text)
    }
}

fn to_integer(value: &Value, from: SqlType, to: SqlType) -> SqlResult<Value> {
    let number = match value {
        Value::Int(v) => i128::from(*v),
        Value::Decimal(v) => {
            let scale = pow10(u32::from(from.scale())).as_i128();
            // Money rounds, decimal is cut.
            if from == SqlType::Money || from == SqlType::SmallMoney {
                rescale(*v, 4, 0).unwrap_or(0)
            } else {
                v / scale
            }
        }
        Value::Float(v) => {
            if to == SqlType::Bit {
                return Ok(Value::Int(i64::from(*v != 0.0)));
            }
            if v.abs() >= 9.3e18 {
                return Err(overflow("expression", &to.to_string()));
            }
            v.trunc() as i128
        }
        Value::Text(text) => return from_text::integer(text, from, to),
        Value::Bytes(bytes) => {
            let width = match to {
                SqlType::BigInt => 8,
                SqlType::Int => 4,
                SqlType::SmallInt => 2,
                _ => 1,
            };
            let tail = &bytes[bytes.len().saturating_sub(width)..];
            let raw = tail.iter().fold(0_i64, |n, b| n << 8 | i64::from(*b));
            let shift = 64 - 8 * width as u32;
            return Ok(Value::Int(match to {
                SqlType::Bit => i64::from(raw != 0),
                SqlType::TinyInt => raw,
                _ => raw << shift >> shift,
            }));
        }
        Value::DateTime(ticks) if matches!(from, SqlType::DateTime | SqlType::SmallDateTime) => {
            i128::from((ticks - EPOCH_1900 + TICKS_PER_DAY / 2).div_euclid(TICKS_PER_DAY))
        }
        _ => return Err(explicit_conversion(&from.to_string(), &to.to_string())),
    };
    if to == SqlType::Bit {
        return Ok(Value::Int(i64::from(number != 0)));
    }
    let (low, high) = integer_range(to);
    match i64::try_from(number) {
        Ok(v) if (low..=high).contains(&v) => Ok(Value::Int(v)),
        _ if from.is_integer() && matches!(to, SqlType::SmallInt | SqlType::TinyInt) => Err(sql_error(
            220,
            16,
            format!("Arithmetic overflow error for data type {to}, value = {number}."),
        )),
        _ => Err(overflow(
            if from.is_decimal() { "numeric" } else { "expression" },
            &to.to_string(),
        )),
    }
}

fn to_decimal(value: &Value, from: SqlType, to: SqlType) -> SqlResult<Value> {
    let name = if matches!(to, SqlType::Decimal { .. }) {
        "numeric".to_owned()
    } else {
        to.to_string()
    };
    let scale = to.scale();
    let bound: i128 = match to {
        SqlType::Decimal { precision, .. } => pow10(u32::from(precision)).as_i128() - 1,
        SqlType::SmallMoney => i128::from(i32::MAX),
        _ => i128::from(i64::MAX),
    };
    let too_big = || {
        let from = match from {
            SqlType::Decimal { .. } => "numeric".to_owned(),
            other if other.is_integer() => {
                if name == "numeric" {
                    other.to_string()
                } else {
                    "expression".to_owned()
                }
            }
            other => other.to_string(),
        };
        overflow(&from, &name)
    };
    let digits = match value {
        Value::Int(v) => rescale(i128::from(*v), 0, scale).ok_or_else(too_big)?,
        Value::Decimal(v) => rescale(*v, from.scale(), scale).ok_or_else(too_big)?,
        Value::Float(v) => {
            let text = format!("{:.*}", usize::from(scale) + 2, v);
            match super::parse_decimal(&text) {
                Some((digits, _, own)) => rescale(digits, own, scale).ok_or_else(too_big)?,
                None => return Err(too_big()),
            }
        }
        Value::Text(text) => from_text::decimal(text, from, to, &name)?,
        Value::Bytes(_) => return Err(conversion_error(&from.to_string(), &name)),
        Value::DateTime(_) => match to_float(value, from, SqlType::Float)? {
            Value::Float(v) => return to_decimal(&Value::Float(v), SqlType::Float, to),
            other => return Ok(other),
        },
        _ => return Err(explicit_conversion(&from.to_string(), &name)),
    };
    // Money reaches one unit further below zero than above.
    let low = if matches!(to, SqlType::Decimal { .. }) {
        -bound
    } else {
        -bound - 1
    };
    if digits < low || digits > bound {
        return Err(too_big());
    }
    Ok(Value::Decimal(digits))
}

fn to_float(value: &Value, from: SqlType, to: SqlType) -> SqlResult<Value> {
    let number = match value {
        Value::Int(v) => *v as f64,
        Value::Float(v) => *v,
        // Through text: dividing by a power of ten would round twice.
        Value::Decimal(v) => format!("{v}e-{}", from.scale()).parse().unwrap_or(0.0),
        Value::Text(text) => from_text::float(text, from)?,
        Value::DateTime(ticks) if matches!(from, SqlType::DateTime | SqlType::SmallDateTime) => {
            (ticks - EPOCH_1900) as f64 / TICKS_PER_DAY as f64
        }
        _ => return Err(explicit_conversion(&from.to_string(), &to.to_string())),
    };
    if to == SqlType::Real {
        let short = number as f32;
        if !short.is_finite() {
            return Err(overflow("expression", "real"));
        }
        return Ok(Value::Float(f64::from(short)));
    }
    Ok(Value::Float(number))
}

fn to_temporal(value: &Value, from: SqlType, to: SqlType, style: i64) -> SqlResult<Value> {
    // Everything passes through local ticks and an offset.
    let (ticks, offset) = match value {
        Value::Date(days) => (i64::from(*days) * TICKS_PER_DAY, 0),
        Value::DateTime(ticks) => (*ticks, 0),
        Value::DateTimeOffset(utc, offset) => (utc + i64::from(*offset) * 60 * TICKS_PER_SECOND, *offset),
        Value::Time(ticks) => (EPOCH_1900 + ticks, 0),
        Value::Text(text) => from_text::temporal(text, from, to, style)?,
        Value::Int(_) | Value::Decimal(_) | Value::Float(_)
            if matches!(to, SqlType::DateTime | SqlType::SmallDateTime) =>
        {
            let Value::Float(days) = to_float(value, from, SqlType::Float)? else {
                return Ok(Value::Null);
            };
            let span = days * TICKS_PER_DAY as f64;
            if span.abs() > END as f64 {
                return Err(overflow("expression", &to.to_string()));
            }
            (EPOCH_1900 + span.round() as i64, 0)
        }
        _ => return Err(explicit_conversion(&from.to_string(), &to.to_string())),
    };
    let out = || date_out_of_range(&from.to_string(), &to.to_string());
    match to {
        SqlType::Date => {
            if matches!(value, Value::Time(_)) {
                return Err(explicit_conversion("time", "date"));
            }
            Ok(Value::Date(ticks.div_euclid(TICKS_PER_DAY) as i32))
        }
        SqlType::Time(digits) => {
            // Half a unit before midnight rounds up to midnight, of which the date is forgotten.
            let of_day = ticks.rem_euclid(TICKS_PER_DAY);
            Ok(Value::Time(round_ticks(of_day, digits) % TICKS_PER_DAY))
        }
        SqlType::DateTime => {
            let rounded = round_to_datetime(ticks);
            if (DATETIME_MIN..END).contains(&rounded) {
                Ok(Value::DateTime(rounded))
            } else {
                Err(out())
            }
        }
        SqlType::SmallDateTime => {
            let minute = 60 * TICKS_PER_SECOND;
            let rounded = (ticks + minute / 2).div_euclid(minute) * minute;
            // 2079-06-06 is the last day.
            if (EPOCH_1900..EPOCH_1900 + 65_536 * TICKS_PER_DAY).contains(&rounded) {
                Ok(Value::DateTime(rounded))
            } else {
                Err(out())
            }
        }
        SqlType::DateTime2(digits) => {
            let rounded = round_ticks(ticks, digits);
            // The last fraction of the last day is cut: there is no year 10000 to round into.
            let unit = 10_i64.pow(7 - u32::from(digits.min(7)));
            Ok(Value::DateTime(if rounded >= END { END - unit } else { rounded }))
        }
        SqlType::DateTimeOffset(digits) => {
            let utc = ticks - i64::from(offset) * 60 * TICKS_PER_SECOND;
            // Both the instant in UTC and the local time have to be within the years 1 to 9999.
            if !(0..END).contains(&utc) || !(0..END).contains(&ticks) {
                return Err(out());
            }
            let unit = 10_i64.pow(7 - u32::from(digits.min(7)));
            let last = END - unit - i64::from(offset.max(0)) * 60 * TICKS_PER_SECOND;
            Ok(Value::DateTimeOffset(round_ticks(utc, digits).min(last), offset))
        }
        _ => Err(out()),
    }
}

fn text_of(value: &Value, from: SqlType, to: SqlType, style: i64, page: Option<CodePage>) -> SqlResult<Value> {
    let keeps_page = page.is_none() && from.is_code_page();
    let page = page.unwrap_or_else(|| Collation::default().page);
    let text = match value {
        Value::Text(text) => text.clone(),
        Value::Bytes(bytes) if style == 0 && to.is_national() => decode_utf16(bytes),
        Value::Bytes(bytes) if style == 0 => page.decode(bytes),
        other => to_text(other, from, style).ok_or_else(|| {
            sql_error(
                281,
                16,
                format!("{style} is not a valid style number when converting from {from} to a character string."),
            )
        })?,
    };
    let text = if to.is_national() || keeps_page {
        text
    } else {
        page.hold(text)
    };
    let limit = match to {
        SqlType::Char(n) | SqlType::VarChar(Length::Limited(n)) => usize::from(n),
        SqlType::NChar(n) | SqlType::NVarChar(Length::Limited(n)) => usize::from(n),
        _ => usize::MAX,
    };
    let mut text = if text.len() > limit && text_length(&text, to, page) > limit {
        if from.is_number() && !matches!(value, Value::Text(_)) {
            // A number that does not fit shows as an asterisk (integers) or is an error (the rest).
            if from.is_integer() && !to.is_national() {
                "*".to_owned()
            } else {
                return Err(overflow("expression", &to.to_string()));
            }
        } else if *value != Value::Null && from == SqlType::UniqueIdentifier {
            return Err(sql_error(
                8170,
                16,
                "Insufficient result space to convert uniqueidentifier value to char.",
            ));
        } else {
            cut(&text, limit, to, page)
        }
    } else {
        text
    };
    if let SqlType::Char(n) | SqlType::NChar(n) = to {
        let length = text_length(&text, to, page);
        text.extend(std::iter::repeat_n(' ', usize::from(n).saturating_sub(length)));
    }
    Ok(Value::Text(text))
}

/// The first `limit` units of a text; a character that would be cut in two is left out.
fn cut(text: &str, limit: usize, ty: SqlType, page: CodePage) -> String {
    let mut used = 0;
    text.chars()
        .take_while(|c| {
            used += text_length(c.encode_utf8(&mut [0; 4]), ty, page);
            used <= limit
        })
        .collect()
}

fn to_bytes(value: &Value, from: SqlType, to: SqlType, style: i64) -> SqlResult<Value> {
    // Numbers keep their low bytes when they are cut or padded, text and bytes their first ones.
    let (mut bytes, from_right) = match value {
        Value::Bytes(bytes) => (bytes.clone(), false),
        Value::Text(text) if style == 1 || style == 2 => (from_text::hex(text, from, style)?, false),
        Value::Text(text) => {
            let mut bytes = Vec::new();
            if from.is_national() {
                encode_utf16(text, &mut bytes);
            } else {
                Collation::default().page.encode(text, &mut bytes);
            }
            (bytes, false)
        }
        Value::Guid(guid) => (from_text::swapped(*guid).to_vec(), false),
        Value::Int(v) => {
            let raw = v.to_be_bytes();
            let width = match from {
                SqlType::BigInt => 8,
                SqlType::Int => 4,
                SqlType::SmallInt => 2,
                _ => 1,
            };
            (raw[8 - width..].to_vec(), true)
        }
        Value::Decimal(v) if from == SqlType::Money => ((*v as i64).to_be_bytes().to_vec(), true),
        Value::Decimal(v) if from == SqlType::SmallMoney => ((*v as i32).to_be_bytes().to_vec(), true),
        Value::DateTime(ticks) if from == SqlType::DateTime => {
            let days = (ticks - EPOCH_1900).div_euclid(TICKS_PER_DAY) as i32;
            let thirds = (ticks.rem_euclid(TICKS_PER_DAY) * 3 + 50_000) / 100_000;
            let mut raw = days.to_be_bytes().to_vec();
            raw.extend_from_slice(&(thirds as i32).to_be_bytes());
            (raw, true)
        }
        _ => return Err(explicit_conversion(&from.to_string(), &to.to_string())),
    };
    let (limit, fixed) = match to {
        SqlType::Binary(n) => (usize::from(n), true),
        SqlType::RowVersion => (8, true),
        SqlType::VarBinary(Length::Limited(n)) => (usize::from(n), false),
        _ => (usize::MAX, false),
    };
    if bytes.len() > limit {
        if from_right {
            bytes.drain(..bytes.len() - limit);
        } else {
            bytes.truncate(limit);
        }
    }
    if fixed && bytes.len() < limit {
        let pad = limit - bytes.len();
        if from_right {
            bytes.splice(0..0, std::iter::repeat_n(0, pad));
        } else {
            bytes.resize(limit, 0);
        }
    }
    Ok(Value::Bytes(bytes))
}

#[cfg(test)]
mod tests;
