//! Values as text: what `CAST(x AS varchar)` and `CONVERT` with a style give.

use super::{TICKS_PER_DAY, TICKS_PER_SECOND, civil_from_days};
use crate::value::{SqlType, Value};

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The text of a value under style 0 (money with two digits, dates in ISO form except `datetime`).
pub fn type_default_text(value: &Value, ty: SqlType) -> String {
    to_text(value, ty, 0).unwrap_or_default()
}

/// The text of a value under a `CONVERT` style; nothing for NULL and for a style that the type does not have.
pub fn to_text(value: &Value, ty: SqlType, style: i64) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Int(v) => v.to_string(),
        Value::Float(v) => float_text(*v, ty, style),
        Value::Decimal(v) => match ty {
            SqlType::Money | SqlType::SmallMoney if style == 0 => {
                decimal_text(super::rescale(*v, 4, 2).unwrap_or(*v), 2)
            }
            _ => decimal_text(*v, ty.scale()),
        },
        Value::Text(v) => v.clone(),
        Value::Bytes(v) => match style {
            1 => format!("0x{}", hex(v)),
            2 => hex(v),
            _ => super::Collation::default().page.decode(v),
        },
        Value::Guid(v) => {
            let h = hex(v);
            format!("{}-{}-{}-{}-{}", &h[..8], &h[8..12], &h[12..16], &h[16..20], &h[20..])
        }
        Value::Date(days) => date_text(*days, style)?,
        Value::Time(ticks) => time_text(*ticks, digits_of(ty)),
        Value::DateTime(ticks) => datetime_text(*ticks, ty, style)?,
        Value::DateTimeOffset(utc, offset) => {
            let local = utc + i64::from(*offset) * 60 * TICKS_PER_SECOND;
            let sign = if *offset < 0 { '-' } else { '+' };
            let minutes = offset.unsigned_abs();
            format!(
                "{} {} {sign}{:02}:{:02}",
                date_text((local.div_euclid(TICKS_PER_DAY)) as i32, 0)?,
                time_text(local.rem_euclid(TICKS_PER_DAY), digits_of(ty)),
                minutes / 60,
                minutes % 60
            )
        }
    })
}

fn digits_of(ty: SqlType) -> u8 {
    match ty {
        SqlType::Time(n) | SqlType::DateTime2(n) | SqlType::DateTimeOffset(n) => n,
        SqlType::DateTime => 3,
        _ => 0,
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut s, b| {
        let _ = write!(s, "{b:02X}");
        s
    })
}

fn decimal_text(value: i128, scale: u8) -> String {
    let digits = format!("{:0width$}", value.unsigned_abs(), width = usize::from(scale) + 1);
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    let sign = if value < 0 { "-" } else { "" };
    if scale == 0 {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{fraction}")
    }
}

fn float_text(v: f64, ty: SqlType, style: i64) -> String {
    if v == 0.0 {
        return "0".into();
    }
    // Style 0 shows 6 significant digits, 1 shows 8, 2 shows 16, 3 shows 17.
    let significant: usize = match (style, ty) {
        (1, _) => 8,
        (2, _) => 16,
        (3, SqlType::Real) => 9,
        (3, _) => 17,
        _ => 6,
    };
    let scientific = format!("{:.*e}", significant - 1, v);
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if style == 0 && (-5..significant as i32 + 9).contains(&exponent) && exponent < 6 {
        let decimals = (significant as i32 - 1 - exponent).max(0) as usize;
        let plain = format!("{v:.decimals$}");
        return if plain.contains('.') {
            plain.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            plain
        };
    }
    let mantissa = if style == 0 && mantissa.contains('.') {
        mantissa.trim_end_matches('0').trim_end_matches('.')
    } else {
        mantissa
    };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:03}", exponent.abs())
}

fn date_text(days: i32, style: i64) -> Option<String> {
    let (y, m, d) = civil_from_days(days);
    Some(match style {
        0 | 20 | 21 | 23 | 25 | 120 | 121 | 126 | 127 => format!("{y:04}-{m:02}-{d:02}"),
        101 => format!("{m:02}/{d:02}/{y:04}"),
        102 => format!("{y:04}.{m:02}.{d:02}"),
        103 => format!("{d:02}/{m:02}/{y:04}"),
        104 => format!("{d:02}.{m:02}.{y:04}"),
        105 => format!("{d:02}-{m:02}-{y:04}"),
        106 => format!("{d:02} {} {y:04}", MONTHS[(m - 1) as usize % 12]),
        110 => format!("{m:02}-{d:02}-{y:04}"),
        111 => format!("{y:04}/{m:02}/{d:02}"),
        112 => format!("{y:04}{m:02}{d:02}"),
        _ => return None,
    })
}

fn time_text(ticks: i64, digits: u8) -> String {
    let seconds = ticks / TICKS_PER_SECOND;
    let mut text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if digits > 0 {
        let fraction = format!("{:07}", ticks % TICKS_PER_SECOND);
        text.push('.');
        text.push_str(&fraction[..usize::from(digits.min(7))]);
    }
    text
}

fn datetime_text(ticks: i64, ty: SqlType, style: i64) -> Option<String> {
    let days = ticks.div_euclid(TICKS_PER_DAY) as i32;
    let of_day = ticks.rem_euclid(TICKS_PER_DAY);
    let digits = digits_of(ty);
    let old = !matches!(ty, SqlType::DateTime2(_));
    Some(match style {
        0 | 100 if old => {
            let (y, m, d) = civil_from_days(days);
            let minutes = of_day / TICKS_PER_SECOND / 60;
            let (hour, half) = ((minutes / 60 + 11) % 12 + 1, if minutes < 720 { "AM" } else { "PM" });
            format!(
                "{} {d:>2} {y:04} {hour:>2}:{:02}{half}",
                MONTHS[(m - 1) as usize % 12],
                minutes % 60
            )
        }
        20 | 120 => format!("{} {}", date_text(days, 0)?, time_text(of_day, 0)),
        0 | 21 | 25 | 121 => {
            format!(
                "{} {}",
                date_text(days, 0)?,
                time_text(of_day, if old { 3 } else { digits })
            )
        }
        126 | 127 => {
            let digits = if old && of_day % TICKS_PER_SECOND == 0 {
                0
            } else {
                digits
            };
            format!("{}T{}", date_text(days, 0)?, time_text(of_day, digits))
        }
        108 | 8 => time_text(of_day, 0),
        114 | 14 => time_text(of_day, 3).replacen('.', ":", 1),
        other => date_text(days, other)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::days_from_civil;

    #[test]
    fn values_show_as_in_sql_server() {
        let at = i64::from(days_from_civil(2024, 2, 9).unwrap()) * TICKS_PER_DAY + 13 * 3600 * TICKS_PER_SECOND;
        let text = |v, ty, style| to_text(&v, ty, style).unwrap();
        assert_eq!(text(Value::DateTime(at), SqlType::DateTime, 0), "Feb  9 2024  1:00PM");
        assert_eq!(
            text(Value::DateTime(at), SqlType::DateTime, 121),
            "2024-02-09 13:00:00.000"
        );
        assert_eq!(
            text(Value::DateTime(at), SqlType::DateTime2(7), 0),
            "2024-02-09 13:00:00.0000000"
        );
        assert_eq!(
            text(Value::Decimal(-5), SqlType::Decimal { precision: 5, scale: 2 }, 0),
            "-0.05"
        );
        assert_eq!(text(Value::Decimal(12_345_678), SqlType::Money, 0), "1234.57");
        assert_eq!(text(Value::Decimal(12_345_678), SqlType::Money, 2), "1234.5678");
        assert_eq!(text(Value::Bytes(vec![0xAB, 1]), SqlType::Binary(2), 1), "0xAB01");
        assert_eq!(text(Value::Float(1.5), SqlType::Float, 0), "1.5");
        assert_eq!(text(Value::Float(1e10), SqlType::Float, 0), "1e+010");
        assert_eq!(text(Value::Float(100_000.0), SqlType::Float, 0), "100000");
    }
}
