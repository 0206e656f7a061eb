//! Text as numbers, dates, GUIDs and bytes.

use super::super::{
    TICKS_PER_DAY, TICKS_PER_SECOND, arithmetic::integer_range, days_from_civil, parse_decimal, rescale,
};
use crate::{
    error::{SqlResult, conversion_error, conversion_failed, date_conversion, date_out_of_range, overflow, sql_error},
    value::{SqlType, Value},
};

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];

pub(super) fn integer(text: &str, from: SqlType, to: SqlType) -> SqlResult<Value> {
    let trimmed = text.trim();
    if to == SqlType::Bit {
        match trimmed.to_ascii_lowercase().as_str() {
            "true" => return Ok(Value::Int(1)),
            "false" => return Ok(Value::Int(0)),
            _ => {}
        }
    }
    if trimmed.is_empty() {
        return Ok(Value::Int(0));
    }
    let digits = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return if to == SqlType::BigInt {
            Err(conversion_error(&from.to_string(), "bigint"))
        } else {
            Err(conversion_failed(&from.to_string(), text, &to.to_string()))
        };
    }
    let value = trimmed.parse::<i64>().ok();
    if to == SqlType::Bit {
        return Ok(Value::Int(i64::from(value != Some(0))));
    }
    let (low, high) = integer_range(to);
    match value {
        Some(v) if (low..=high).contains(&v) => Ok(Value::Int(v)),
        _ if to == SqlType::Int => Err(sql_error(
            248,
            16,
            format!("The conversion of the {from} value '{text}' overflowed an int column."),
        )),
        _ if to == SqlType::BigInt => Err(overflow("expression", "bigint")),
        _ => Err(sql_error(
            244,
            16,
            format!(
                "The conversion of the {from} value '{text}' overflowed an {} column. Use a larger integer column.",
                if to == SqlType::TinyInt { "INT1" } else { "INT2" }
            ),
        )),
    }
}

pub(super) fn decimal(text: &str, from: SqlType, to: SqlType, name: &str) -> SqlResult<i128> {
    let mut trimmed = text.trim().to_owned();
    let money = !matches!(to, SqlType::Decimal { .. });
    if money {
        trimmed.retain(|c| c != ',' && c != '$' && c != '€' && c != '£');
        if trimmed.is_empty() {
            return Ok(0);
        }
    }
    let bad = || {
        if money {
            sql_error(
                235,
                16,
                "Cannot convert a char value to money. The char value has incorrect syntax.",
            )
        } else {
            conversion_error(&from.to_string(), name)
        }
    };
    let (digits, _, scale) = match parse_decimal(&trimmed) {
        Some(parsed) => parsed,
        None if trimmed.bytes().all(|b| b.is_ascii_digit() || b"+-.".contains(&b)) && trimmed.len() > 38 => {
            return Err(overflow(&from.to_string(), name));
        }
        None => return Err(bad()),
    };
    rescale(digits, scale, to.scale()).ok_or_else(|| overflow(&from.to_string(), name))
}

pub(super) fn float(text: &str, from: SqlType) -> SqlResult<f64> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Ok(0.0);
    }
    // Rust also reads "inf" and "nan", which T-SQL does not have.
    trimmed
        .parse::<f64>()
        .ok()
        .filter(|v| v.is_finite() && trimmed.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)))
        .ok_or_else(|| conversion_error(&from.to_string(), "float"))
}

pub(super) fn guid(text: &str) -> SqlResult<Value> {
    let bad = || {
        let mut e = sql_error(
            8169,
            16,
            "Conversion failed when converting from a character string to uniqueidentifier.",
        );
        e.state = 2;
        e
    };
    let inner = text.trim_start_matches('{');
    let bytes = inner.as_bytes();
    if bytes.len() < 36 {
        return Err(bad());
    }
    let mut guid = [0_u8; 16];
    let mut at = 0;
    for (i, slot) in guid.iter_mut().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            if bytes[at] != b'-' {
                return Err(bad());
            }
            at += 1;
        }
        let digit = |b: u8| (b as char).to_digit(16).ok_or_else(bad);
        *slot = (digit(bytes[at])? << 4 | digit(bytes[at + 1])?) as u8;
        at += 2;
    }
    Ok(Value::Guid(guid))
}

/// The text order of GUID bytes from the wire's mixed-endian order, or back.
pub(super) fn swapped(bytes: [u8; 16]) -> [u8; 16] {
    let mut out = bytes;
    out[..4].reverse();
    out[4..6].reverse();
    out[6..8].reverse();
    out
}

pub(super) fn hex(text: &str, from: SqlType, style: i64) -> SqlResult<Vec<u8>> {
    let bad = || conversion_error(&from.to_string(), "varbinary");
    let digits = if style == 1 {
        text.strip_prefix("0x")
            .or_else(|| text.strip_prefix("0X"))
            .ok_or_else(bad)?
    } else {
        text
    };
    if digits.len() % 2 == 1 || !digits.is_ascii() {
        return Err(bad());
    }
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| {
            let digit = |b: u8| (b as char).to_digit(16).ok_or_else(bad);
            Ok((digit(pair[0])? << 4 | digit(pair[1])?) as u8)
        })
        .collect()
}

/// Local ticks and offset in minutes of a date, a time, or both. Understood: ISO 8601, `yyyymmdd`, `mm/dd/yyyy` (the
/// order of us_english; day first under styles 103 to 105), `Mon dd yyyy hh:mmAM`, with fractions to seven digits.
pub(super) fn temporal(text: &str, from: SqlType, to: SqlType, style: i64) -> SqlResult<(i64, i16)> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Ok((693_595 * TICKS_PER_DAY, 0));
    }
    let (rest, offset) = split_offset(trimmed).ok_or_else(date_conversion)?;
    let (date, time) = split_time(rest);
    let days = if date.is_empty() {
        693_595
    } else {
        let (y, m, d) = date_parts(date, style).ok_or_else(date_conversion)?;
        days_from_civil(y, m, d).ok_or_else(|| {
            if matches!(to, SqlType::DateTime | SqlType::SmallDateTime) {
                date_out_of_range(&from.to_string(), &to.to_string())
            } else {
                date_conversion()
            }
        })?
    };
    let time = match time {
        "" => 0,
        text => time_ticks(text).ok_or_else(date_conversion)?,
    };
    Ok((i64::from(days) * TICKS_PER_DAY + time, offset))
}

fn split_offset(text: &str) -> Option<(&str, i16)> {
    if let Some(rest) = text.strip_suffix(['Z', 'z']) {
        return Some((rest.trim_end(), 0));
    }
    let bytes = text.as_bytes();
    if bytes.len() > 6 && text.is_ascii() && text.contains(':') {
        let at = bytes.len() - 6;
        if matches!(bytes[at], b'+' | b'-') && bytes[at + 3] == b':' {
            let hours: i16 = text[at + 1..at + 3].parse().ok()?;
            let minutes: i16 = text[at + 4..].parse().ok()?;
            let total = hours * 60 + minutes;
            if total > 14 * 60 || minutes > 59 {
                return None;
            }
            let signed = if bytes[at] == b'-' { -total } else { total };
            return Some((text[..at].trim_end(), signed));
        }
    }
    Some((text, 0))
}

/// The date part and the time part; either may be empty.
fn split_time(text: &str) -> (&str, &str) {
    let Some(colon) = text.find(':') else {
        return (text, "");
    };
    match text[..colon].rfind([' ', 'T', 't']) {
        Some(at) => (text[..at].trim(), text[at + 1..].trim()),
        None => ("", text),
    }
}

fn date_parts(text: &str, style: i64) -> Option<(i64, i64, i64)> {
    if text.len() == 8 && text.bytes().all(|b| b.is_ascii_digit()) {
        return Some((
            text[..4].parse().ok()?,
            text[4..6].parse().ok()?,
            text[6..].parse().ok()?,
        ));
    }
    let parts: Vec<&str> = text
        .split(['-', '/', '.', ' ', ','])
        .filter(|p| !p.is_empty())
        .collect();
    let [a, b, c] = parts.as_slice() else {
        return None;
    };
    let number = |t: &str| t.parse::<i64>().ok();
    let month = |t: &str| {
        let lower = t.to_ascii_lowercase();
        MONTHS
            .iter()
            .position(|m| lower.len() >= 3 && lower.starts_with(m))
            .map(|i| i as i64 + 1)
    };
    let century = |y: i64, t: &str| {
        if t.len() <= 2 {
            if y < 50 { 2000 + y } else { 1900 + y }
        } else {
            y
        }
    };
    if let Some(m) = month(a) {
        return Some((century(number(c)?, c), m, number(b)?));
    }
    if let Some(m) = month(b) {
        return Some((century(number(c)?, c), m, number(a)?));
    }
    if a.len() == 4 {
        return Some((number(a)?, number(b)?, number(c)?));
    }
    let year = century(number(c)?, c);
    if (103..=105).contains(&style) {
        Some((year, number(b)?, number(a)?))
    } else {
        Some((year, number(a)?, number(b)?))
    }
}

fn time_ticks(text: &str) -> Option<i64> {
    let lower = text.to_ascii_lowercase();
    let (clock, half) = if let Some(t) = lower.strip_suffix("am") {
        (t.trim_end(), Some(0))
    } else if let Some(t) = lower.strip_suffix("pm") {
        (t.trim_end(), Some(12))
    } else {
        (lower.as_str(), None)
    };
    let mut parts = clock.splitn(3, ':');
    let mut hour: i64 = parts.next()?.parse().ok()?;
    let minute: i64 = parts.next()?.parse().ok()?;
    let seconds = parts.next().unwrap_or("0");
    let (whole, fraction) = seconds.split_once(['.', ':']).unwrap_or((seconds, ""));
    let second: i64 = whole.parse().ok()?;
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let nanos: i64 = format!("{fraction:0<9}").parse().ok()?;
    if let Some(half) = half {
        if !(1..=12).contains(&hour) {
            return None;
        }
        hour = hour % 12 + half;
    }
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..60).contains(&second) {
        return None;
    }
    Some((hour * 3600 + minute * 60 + second) * TICKS_PER_SECOND + (nanos + 50) / 100)
}

/// JSON, checked and kept as it is.
pub(super) fn json(text: String) -> SqlResult<Value> {
    match serde_json::from_str::<serde::de::IgnoredAny>(&text) {
        Ok(_) => Ok(Value::Text(text)),
        Err(error) => Err(sql_error(
            13609,
            16,
            format!(
                "JSON text is not properly formatted. Unexpected character is found at position {}.",
                error.column()
            ),
        )),
    }
}

/// A vector as a JSON array of 32-bit numbers.
pub(super) fn vector(text: &str, dimensions: u16) -> SqlResult<Value> {
    let numbers: Vec<f32> = serde_json::from_str(text).map_err(|_| {
        sql_error(
            13609,
            16,
            "JSON text is not properly formatted. Unexpected character is found.",
        )
    })?;
    if numbers.len() != usize::from(dimensions) {
        return Err(sql_error(
            42204,
            16,
            format!("The vector dimensions {dimensions} and {} do not match.", numbers.len()),
        ));
    }
    let numbers: Vec<String> = numbers.iter().map(|number| format!("{number:?}")).collect();
    Ok(Value::Text(format!("[{}]", numbers.join(","))))
}
