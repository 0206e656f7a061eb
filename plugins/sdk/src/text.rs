//! One way to write and to read each kind of value as text. No locale, no exponent, nothing that two versions of a
//! library could do differently.

use std::fmt::{self, Write};

use chrono::{Datelike, NaiveDate};

/// Microseconds in a day.
pub const DAY_US: i64 = 86_400_000_000;
/// Days from 0001-01-01 (day 1 of the common era) to 1970-01-01.
const EPOCH_FROM_CE: i32 = 719_163;

/// Why a text is not a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is not written as such a value.
    #[error("it is not written as such a value")]
    Invalid,
    /// It is out of the type's range.
    #[error("it is out of the type's range")]
    Overflow,
    /// It has digits that the type cannot hold.
    #[error("it has digits that the type cannot hold")]
    Precision,
}

/// The calendar date of a day number; `None` far outside the years 1 to 9999.
pub fn date_of_days(days: i32) -> Option<NaiveDate> {
    NaiveDate::from_num_days_from_ce_opt(days.checked_add(EPOCH_FROM_CE)?)
}

/// The day number (days since 1970-01-01) of a date.
pub fn days_of_date(date: NaiveDate) -> i32 {
    date.num_days_from_ce() - EPOCH_FROM_CE
}

/// Writes a decimal with all digits of its scale: `-1.50`.
///
/// # Errors
/// Those of the writer.
pub fn write_decimal(to: &mut impl Write, unscaled: i128, scale: u8) -> fmt::Result {
    if scale == 0 {
        return write!(to, "{unscaled}");
    }
    if unscaled < 0 {
        to.write_char('-')?;
    }
    let digits = unscaled.unsigned_abs();
    // A scale beyond 38 digits does not occur in a checked column; it would only ask for more zeros.
    let power = 10_u128.checked_pow(u32::from(scale)).unwrap_or(u128::MAX);
    write!(
        to,
        "{}.{:0width$}",
        digits / power,
        digits % power,
        width = usize::from(scale)
    )
}

/// Writes a decimal without zeros that do not change its value: 1.50 as `1.5`, 1.00 as `1`.
///
/// # Errors
/// Those of the writer.
pub fn write_decimal_short(to: &mut impl Write, mut unscaled: i128, mut scale: u8) -> fmt::Result {
    while scale > 0 && unscaled % 10 == 0 {
        unscaled /= 10;
        scale -= 1;
    }
    write_decimal(to, unscaled, scale)
}

/// Writes a date as `YYYY-MM-DD`; `false` (and nothing written) far outside the years 1 to 9999.
///
/// # Errors
/// Those of the writer.
pub fn write_date(to: &mut impl Write, days: i32) -> Result<bool, fmt::Error> {
    let Some(date) = date_of_days(days) else {
        return Ok(false);
    };
    write!(to, "{:04}-{:02}-{:02}", date.year(), date.month(), date.day())?;
    Ok(true)
}

/// Writes a time stamp as `YYYY-MM-DDTHH:MM:SS`, and the fraction of the second without trailing zeros where there is
/// one; `false` (and nothing written) far outside the years 1 to 9999.
///
/// # Errors
/// Those of the writer.
pub fn write_timestamp(to: &mut impl Write, micros: i64) -> Result<bool, fmt::Error> {
    let (days, rest) = (micros.div_euclid(DAY_US), micros.rem_euclid(DAY_US));
    let Ok(days) = i32::try_from(days) else {
        return Ok(false);
    };
    if !write_date(to, days)? {
        return Ok(false);
    }
    let (seconds, mut fraction) = (rest / 1_000_000, rest % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    write!(to, "T{hour:02}:{minute:02}:{second:02}")?;
    if fraction > 0 {
        let mut width = 6;
        while fraction % 10 == 0 {
            fraction /= 10;
            width -= 1;
        }
        write!(to, ".{fraction:0width$}")?;
    }
    Ok(true)
}

/// Reads `[+-]digits`.
///
/// # Errors
/// `Invalid`, `Overflow`.
pub fn parse_int(text: &str) -> Result<i64, ParseError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ParseError::Invalid);
    }
    text.parse().map_err(|_| ParseError::Overflow)
}

/// Reads `[+-]digits[.digits]`, with an exponent or without, as a decimal of this type, exactly.
///
/// # Errors
/// `Invalid`; `Precision` where digits other than 0 would have to go; `Overflow` where there are too many before the
/// point.
pub fn parse_decimal(text: &str, precision: u8, scale: u8) -> Result<i128, ParseError> {
    let (negative, rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, parse_int(exponent)?),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if digits().next().is_none() || !digits().all(|byte| byte.is_ascii_digit()) {
        return Err(ParseError::Invalid);
    }
    // The value is the digits, times 10^shift once scaled.
    let shift = exponent
        .saturating_add(i64::from(scale))
        .saturating_sub(fraction.len() as i64);
    let count = digits().count() as i64;
    let kept = if shift < 0 {
        count.saturating_add(shift).max(0)
    } else {
        count
    };
    let mut unscaled: i128 = 0;
    for (index, byte) in digits().enumerate() {
        if index as i64 >= kept {
            if byte != b'0' {
                return Err(ParseError::Precision);
            }
            continue;
        }
        unscaled = unscaled
            .checked_mul(10)
            .and_then(|value| value.checked_add(i128::from(byte - b'0')))
            .ok_or(ParseError::Overflow)?;
    }
    if shift > 0 && unscaled != 0 {
        unscaled = u32::try_from(shift)
            .ok()
            .and_then(|shift| 10_i128.checked_pow(shift))
            .and_then(|power| unscaled.checked_mul(power))
            .ok_or(ParseError::Overflow)?;
    }
    if !fits(unscaled, precision) {
        return Err(ParseError::Overflow);
    }
    Ok(if negative { -unscaled } else { unscaled })
}

/// Whether a decimal has at most this many digits.
pub fn fits(unscaled: i128, precision: u8) -> bool {
    10_u128
        .checked_pow(u32::from(precision))
        .is_none_or(|limit| unscaled.unsigned_abs() < limit)
}

/// Reads `YYYY-MM-DD`, years 1 to 9999.
///
/// # Errors
/// `Invalid`, also for a day that the calendar does not have.
pub fn parse_date(text: &str) -> Result<i32, ParseError> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return Err(ParseError::Invalid);
    }
    let year = number(&bytes[..4])?;
    let date = NaiveDate::from_ymd_opt(year as i32, number(&bytes[5..7])?, number(&bytes[8..])?);
    match date {
        Some(date) if year > 0 => Ok(days_of_date(date)),
        _ => Err(ParseError::Invalid),
    }
}

/// Reads `YYYY-MM-DD`, alone (midnight) or followed by `T` or a blank and `HH:MM`, `HH:MM:SS` or `HH:MM:SS.fraction`.
///
/// # Errors
/// `Invalid`; `Precision` for a fraction that microseconds cannot hold.
pub fn parse_timestamp(text: &str) -> Result<i64, ParseError> {
    let date = text.get(..10).ok_or(ParseError::Invalid)?;
    let midnight = i64::from(parse_date(date)?) * DAY_US;
    let rest = &text[10..];
    if rest.is_empty() {
        return Ok(midnight);
    }
    let time = rest.strip_prefix(['T', ' ']).ok_or(ParseError::Invalid)?;
    let (clock, fraction) = match time.split_once('.') {
        Some((_, "")) => return Err(ParseError::Invalid),
        Some((clock, fraction)) if clock.len() == 8 => (clock, fraction),
        Some(_) => return Err(ParseError::Invalid),
        None => (time, ""),
    };
    let bytes = clock.as_bytes();
    let shaped = matches!(bytes.len(), 5 | 8) && bytes[2] == b':' && (bytes.len() == 5 || bytes[5] == b':');
    if !shaped {
        return Err(ParseError::Invalid);
    }
    let (hour, minute) = (number(&bytes[..2])?, number(&bytes[3..5])?);
    let second = if bytes.len() == 8 { number(&bytes[6..])? } else { 0 };
    if hour > 23 || minute > 59 || second > 59 {
        return Err(ParseError::Invalid);
    }
    let micros = if fraction.is_empty() {
        0
    } else {
        parse_fraction(fraction)?
    };
    let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    Ok(midnight + seconds * 1_000_000 + micros)
}

fn parse_fraction(text: &str) -> Result<i64, ParseError> {
    let digits = text.as_bytes();
    let (kept, rest) = digits.split_at(digits.len().min(6));
    if number(rest)? != 0 {
        return Err(ParseError::Precision);
    }
    // `number` of at most six digits; missing ones are zeros.
    let power = 10_i64.pow(6 - kept.len() as u32);
    Ok(i64::from(number(kept)?) * power)
}

/// A number of a few digits; of more than nine, only whether it is 0 can be told.
fn number(digits: &[u8]) -> Result<u32, ParseError> {
    digits.iter().try_fold(0_u32, |sum, byte| {
        if byte.is_ascii_digit() {
            Ok(sum.saturating_mul(10).saturating_add(u32::from(byte - b'0')))
        } else {
            Err(ParseError::Invalid)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(unscaled: i128, scale: u8) -> (String, String) {
        let (mut long, mut short) = (String::new(), String::new());
        write_decimal(&mut long, unscaled, scale).unwrap();
        write_decimal_short(&mut short, unscaled, scale).unwrap();
        (long, short)
    }

    #[test]
    fn decimals_as_text() {
        let pair = |long: &str, short: &str| (long.to_owned(), short.to_owned());
        assert_eq!(decimal(150, 2), pair("1.50", "1.5"));
        assert_eq!(decimal(-5, 4), pair("-0.0005", "-0.0005"));
        assert_eq!(decimal(0, 4), pair("0.0000", "0"));
        assert_eq!(decimal(100, 0), pair("100", "100"));
        assert_eq!(decimal(-9_223_372_036_854_775_808, 4).0, "-922337203685477.5808");
        let most = 10_i128.pow(38) - 1;
        assert_eq!(decimal(most, 38).0, format!("0.{}", "9".repeat(38)));
    }

    #[test]
    fn decimals_from_text() {
        assert_eq!(parse_decimal("1.5", 5, 2), Ok(150));
        assert_eq!(parse_decimal("-.5", 5, 2), Ok(-50));
        assert_eq!(parse_decimal("5.", 5, 2), Ok(500));
        assert_eq!(parse_decimal("1.500", 5, 2), Ok(150));
        assert_eq!(parse_decimal("1e2", 5, 2), Ok(10_000));
        assert_eq!(parse_decimal("12e-1", 5, 2), Ok(120));
        assert_eq!(parse_decimal("1.505", 5, 2), Err(ParseError::Precision));
        assert_eq!(parse_decimal("1e-3", 5, 2), Err(ParseError::Precision));
        assert_eq!(parse_decimal("1000", 5, 2), Err(ParseError::Overflow));
        assert_eq!(parse_decimal("1e99999999999", 5, 2), Err(ParseError::Overflow));
        assert_eq!(parse_decimal("0e99999", 5, 2), Ok(0));
        for text in ["", "-", ".", "1 ", "1,5", "--1", "1e", "0x1", "١"] {
            assert_eq!(parse_decimal(text, 5, 2), Err(ParseError::Invalid), "{text}");
        }
        let most = "9".repeat(38);
        assert_eq!(parse_decimal(&most, 38, 0), Ok(10_i128.pow(38) - 1));
        assert_eq!(parse_decimal(&format!("{most}0"), 38, 0), Err(ParseError::Overflow));
    }

    #[test]
    fn dates_of_the_whole_range() {
        for (text, days) in [
            ("0001-01-01", -719_162),
            ("1969-12-31", -1),
            ("1970-01-01", 0),
            ("2024-02-29", 19_782),
            ("9999-12-31", 2_932_896),
        ] {
            assert_eq!(parse_date(text), Ok(days));
            let mut written = String::new();
            assert_eq!(write_date(&mut written, days), Ok(true));
            assert_eq!(written, text);
        }
        for text in ["2023-02-29", "0000-01-01", "2023-2-09", "2023-13-01", "", "20230101"] {
            assert_eq!(parse_date(text), Err(ParseError::Invalid), "{text}");
        }
        let mut written = String::new();
        assert_eq!(write_date(&mut written, i32::MAX), Ok(false));
        assert_eq!(written, "");
    }

    #[test]
    fn timestamps_both_ways() {
        for (text, micros) in [
            ("1970-01-01T00:00:00", 0),
            ("1969-12-31T23:59:59.999999", -1),
            ("2024-01-02T03:04:05.1", 1_704_164_645_100_000),
            ("9999-12-31T23:59:59.999999", 253_402_300_799_999_999),
        ] {
            assert_eq!(parse_timestamp(text), Ok(micros));
            let mut written = String::new();
            assert_eq!(write_timestamp(&mut written, micros), Ok(true));
            assert_eq!(written, text);
        }
        assert_eq!(parse_timestamp("1970-01-02"), Ok(DAY_US));
        assert_eq!(parse_timestamp("1970-01-01 00:01"), Ok(60_000_000));
        assert_eq!(
            parse_timestamp("1970-01-01 00:00:00.1234567"),
            Err(ParseError::Precision)
        );
        assert_eq!(parse_timestamp("1970-01-01 00:00:00.1000000"), Ok(100_000));
        for text in [
            "1970-01-01T",
            "1970-01-01T24:00",
            "1970-01-01T00:00:00.",
            "1970-01-01T00:00.5",
            "1970-01-01T00:00:00Z",
            "1970-01-01x00:00",
            "1970-01-0é",
            "1970-01-01T00:00:00.1e2",
        ] {
            assert_eq!(parse_timestamp(text), Err(ParseError::Invalid), "{text}");
        }
        let mut written = String::new();
        assert_eq!(write_timestamp(&mut written, i64::MIN), Ok(false));
        assert_eq!(written, "");
    }
}
