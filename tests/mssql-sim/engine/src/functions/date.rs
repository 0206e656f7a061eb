//! Functions of dates and times.

use super::Func;
use crate::{
    clock::Zone,
    error::{SqlResult, overflow, sql_error},
    types::{
        DAYS_MAX, TICKS_PER_DAY, TICKS_PER_SECOND, civil_from_days, convert, days_from_civil, last_day_of_month,
        weekday,
    },
    value::{Length, SqlType, Value},
};

/// A part of a date, as DATEADD and its like name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
pub enum DatePart {
    Year,
    Quarter,
    Month,
    DayOfYear,
    Day,
    Week,
    WeekDay,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
    TzOffset,
    IsoWeek,
}

impl DatePart {
    /// A part by name or abbreviation.
    ///
    /// # Errors
    /// 155 for a name that is none.
    pub fn by_name(name: &str, function: &str) -> SqlResult<DatePart> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "year" | "yy" | "yyyy" => DatePart::Year,
            "quarter" | "qq" | "q" => DatePart::Quarter,
            "month" | "mm" | "m" => DatePart::Month,
            "dayofyear" | "dy" | "y" => DatePart::DayOfYear,
            "day" | "dd" | "d" => DatePart::Day,
            "week" | "wk" | "ww" => DatePart::Week,
            "weekday" | "dw" | "w" => DatePart::WeekDay,
            "hour" | "hh" => DatePart::Hour,
            "minute" | "mi" | "n" => DatePart::Minute,
            "second" | "ss" | "s" => DatePart::Second,
            "millisecond" | "ms" => DatePart::Millisecond,
            "microsecond" | "mcs" => DatePart::Microsecond,
            "nanosecond" | "ns" => DatePart::Nanosecond,
            "tzoffset" | "tz" => DatePart::TzOffset,
            "iso_week" | "isowk" | "isoww" => DatePart::IsoWeek,
            _ => {
                return Err(sql_error(
                    155,
                    15,
                    format!("'{name}' is not a recognized {} option.", function.to_lowercase()),
                ));
            }
        })
    }

    fn of(value: &Value) -> DatePart {
        const ALL: [DatePart; 15] = [
            DatePart::Year,
            DatePart::Quarter,
            DatePart::Month,
            DatePart::DayOfYear,
            DatePart::Day,
            DatePart::Week,
            DatePart::WeekDay,
            DatePart::Hour,
            DatePart::Minute,
            DatePart::Second,
            DatePart::Millisecond,
            DatePart::Microsecond,
            DatePart::Nanosecond,
            DatePart::TzOffset,
            DatePart::IsoWeek,
        ];
        match value {
            Value::Int(code) => ALL.get(*code as usize).copied().unwrap_or(DatePart::Day),
            _ => DatePart::Day,
        }
    }

    /// 100 ns ticks of one such part, for those of fixed length.
    fn ticks(self) -> Option<i64> {
        Some(match self {
            DatePart::Week => 7 * TICKS_PER_DAY,
            DatePart::Day | DatePart::DayOfYear | DatePart::WeekDay => TICKS_PER_DAY,
            DatePart::Hour => 3600 * TICKS_PER_SECOND,
            DatePart::Minute => 60 * TICKS_PER_SECOND,
            DatePart::Second => TICKS_PER_SECOND,
            DatePart::Millisecond => 10_000,
            DatePart::Microsecond => 10,
            _ => return None,
        })
    }
}

pub(super) fn call(func: Func, args: &[(Value, SqlType)], result: SqlType) -> SqlResult<Value> {
    let int = |i: usize| -> SqlResult<i64> {
        match convert(&args[i].0, args[i].1, SqlType::BigInt)? {
            Value::Int(n) => Ok(n),
            _ => Ok(0),
        }
    };
    match func {
        Func::DateAdd => {
            let part = DatePart::of(&args[0].0);
            let value = convert(&args[2].0, args[2].1, result)?;
            let sum = add(part, int(1)?, local_ticks(&value), result)?;
            match value {
                Value::DateTimeOffset(_, offset) => Ok(Value::DateTimeOffset(
                    sum - i64::from(offset) * 60 * TICKS_PER_SECOND,
                    offset,
                )),
                Value::Time(_) => Ok(Value::Time(sum.rem_euclid(TICKS_PER_DAY))),
                _ => convert(&Value::DateTime(sum), SqlType::DateTime2(7), result),
            }
        }
        Func::DateDiff => {
            let part = DatePart::of(&args[0].0);
            let (a, b) = (utc_ticks(&args[1])?, utc_ticks(&args[2])?);
            let count = difference(part, a, b);
            i32::try_from(count).map(|n| Value::Int(i64::from(n))).map_err(|_| {
                sql_error(
                    535,
                    16,
                    "The datediff function resulted in an overflow. The number of dateparts separating two date/time instances is too large. Try to use datediff with a less precise datepart.",
                )
            })
        }
        Func::DatePart => Ok(Value::Int(part_of(DatePart::of(&args[0].0), &args[1])?)),
        Func::DateName => {
            let part = DatePart::of(&args[0].0);
            let n = part_of(part, &args[1])?;
            let name = match part {
                DatePart::Month => [
                    "January",
                    "February",
                    "March",
                    "April",
                    "May",
                    "June",
                    "July",
                    "August",
                    "September",
                    "October",
                    "November",
                    "December",
                ][(n - 1) as usize % 12]
                    .to_owned(),
                DatePart::WeekDay => [
                    "Sunday",
                    "Monday",
                    "Tuesday",
                    "Wednesday",
                    "Thursday",
                    "Friday",
                    "Saturday",
                ][(n - 1) as usize % 7]
                    .to_owned(),
                _ => n.to_string(),
            };
            Ok(Value::Text(name))
        }
        Func::EoMonth => {
            if args[0].0 == Value::Null {
                return Ok(Value::Null);
            }
            let months = if args.len() > 1 && args[1].0 != Value::Null {
                int(1)?
            } else {
                0
            };
            let ticks = add(DatePart::Month, months, utc_ticks(&args[0])?, SqlType::Date)?;
            let (y, m, _) = civil_from_days(ticks.div_euclid(TICKS_PER_DAY) as i32);
            Ok(days_from_civil(y, m, i64::from(last_day_of_month(y, m))).map_or(Value::Null, Value::Date))
        }
        Func::DateFromParts => days_from_civil(int(0)?, int(1)?, int(2)?)
            .map(Value::Date)
            .ok_or_else(|| {
                sql_error(
                    289,
                    16,
                    "Cannot construct data type date, some of the arguments have values which are not valid.",
                )
            }),
        Func::SwitchOffset | Func::ToDateTimeOffset => {
            let offset = offset_minutes(&args[1])?;
            let value = convert(&args[0].0, args[0].1, result)?;
            let Value::DateTimeOffset(utc, old) = value else {
                return Ok(Value::Null);
            };
            Ok(if func == Func::SwitchOffset {
                Value::DateTimeOffset(utc, offset)
            } else {
                let local = utc + i64::from(old) * 60 * TICKS_PER_SECOND;
                Value::DateTimeOffset(local - i64::from(offset) * 60 * TICKS_PER_SECOND, offset)
            })
        }
        // x AT TIME ZONE name
        _ => {
            let name = match convert(&args[1].0, args[1].1, SqlType::NVarChar(Length::Max))? {
                Value::Text(name) => name,
                _ => return Ok(Value::Null),
            };
            let Value::DateTimeOffset(utc, _) = convert(&args[0].0, args[0].1, result)? else {
                return Ok(Value::Null);
            };
            let zone = Zone::windows(&name).ok_or_else(|| {
                sql_error(
                    9820,
                    16,
                    format!("The time zone parameter '{name}' provided to AT TIME ZONE clause is invalid."),
                )
            })?;
            let utc = if matches!(args[0].1, SqlType::DateTimeOffset(_)) {
                utc
            } else {
                zone.utc_of_local(utc)
            };
            Ok(Value::DateTimeOffset(
                utc,
                (zone.offset_ticks(utc) / (60 * TICKS_PER_SECOND)) as i16,
            ))
        }
    }
}

fn offset_minutes(arg: &(Value, SqlType)) -> SqlResult<i16> {
    if let Value::Text(text) = &arg.0
        && let Some((hours, minutes)) = text.split_once(':')
        && let (Ok(h), Ok(m)) = (hours.parse::<i16>(), minutes.parse::<i16>())
    {
        let sign = if hours.starts_with('-') { -1 } else { 1 };
        return Ok(h * 60 + sign * m);
    }
    match convert(&arg.0, arg.1, SqlType::SmallInt)? {
        Value::Int(n) => Ok(n as i16),
        _ => Ok(0),
    }
}

/// Ticks as the clock on the wall shows them.
fn local_ticks(value: &Value) -> i64 {
    match value {
        Value::Date(days) => i64::from(*days) * TICKS_PER_DAY,
        Value::DateTime(t) => *t,
        Value::Time(t) => 693_595 * TICKS_PER_DAY + t,
        Value::DateTimeOffset(utc, offset) => utc + i64::from(*offset) * 60 * TICKS_PER_SECOND,
        _ => 0,
    }
}

fn utc_ticks(arg: &(Value, SqlType)) -> SqlResult<i64> {
    Ok(match &arg.0 {
        Value::DateTimeOffset(utc, _) => *utc,
        value if arg.1.is_temporal() => local_ticks(value),
        value if arg.1.is_text() => local_ticks(&convert(value, arg.1, SqlType::DateTime2(7))?),
        value => local_ticks(&convert(value, arg.1, SqlType::DateTime)?),
    })
}

fn add(part: DatePart, count: i64, ticks: i64, ty: SqlType) -> SqlResult<i64> {
    let too_far = || {
        sql_error(
            517,
            16,
            format!("Adding a value to a '{ty}' column caused an overflow."),
        )
    };
    if i32::try_from(count).is_err() {
        return Err(overflow("expression", "int"));
    }
    let sum = match part {
        DatePart::Year | DatePart::Quarter | DatePart::Month => {
            let months = count
                * match part {
                    DatePart::Year => 12,
                    DatePart::Quarter => 3,
                    _ => 1,
                };
            let (y, m, d) = civil_from_days(ticks.div_euclid(TICKS_PER_DAY) as i32);
            let total = y * 12 + m - 1 + months;
            let (y, m) = (total.div_euclid(12), total.rem_euclid(12) + 1);
            if !(1..=9999).contains(&y) {
                return Err(too_far());
            }
            let day = d.min(i64::from(last_day_of_month(y, m)));
            let days = days_from_civil(y, m, day).ok_or_else(too_far)?;
            i64::from(days) * TICKS_PER_DAY + ticks.rem_euclid(TICKS_PER_DAY)
        }
        DatePart::Nanosecond => ticks + (count as f64 / 100.0).round() as i64,
        other => match other.ticks() {
            Some(unit) => unit
                .checked_mul(count)
                .and_then(|t| ticks.checked_add(t))
                .ok_or_else(too_far)?,
            None => {
                return Err(sql_error(
                    9810,
                    16,
                    "The datepart is not supported by date function dateadd.",
                ));
            }
        },
    };
    if matches!(ty, SqlType::Time(_)) || (0..(i64::from(DAYS_MAX) + 1) * TICKS_PER_DAY).contains(&sum) {
        Ok(sum)
    } else {
        Err(too_far())
    }
}

/// How many boundaries of a part lie between two instants.
fn difference(part: DatePart, a: i64, b: i64) -> i64 {
    let months = |t: i64| {
        let (y, m, _) = civil_from_days(t.div_euclid(TICKS_PER_DAY) as i32);
        y * 12 + m - 1
    };
    match part {
        DatePart::Year => months(b).div_euclid(12) - months(a).div_euclid(12),
        DatePart::Quarter => months(b).div_euclid(3) - months(a).div_euclid(3),
        DatePart::Month => months(b) - months(a),
        DatePart::Week => {
            // Weeks begin on Sunday, whatever DATEFIRST says.
            let week = |t: i64| (t.div_euclid(TICKS_PER_DAY) + 1).div_euclid(7);
            week(b) - week(a)
        }
        DatePart::Nanosecond => (b - a).saturating_mul(100),
        other => match other.ticks() {
            Some(unit) => b.div_euclid(unit) - a.div_euclid(unit),
            None => 0,
        },
    }
}

fn part_of(part: DatePart, arg: &(Value, SqlType)) -> SqlResult<i64> {
    let value = if arg.1.is_temporal() {
        arg.0.clone()
    } else {
        convert(&arg.0, arg.1, SqlType::DateTime2(7))?
    };
    let ticks = local_ticks(&value);
    let days = ticks.div_euclid(TICKS_PER_DAY) as i32;
    let of_day = ticks.rem_euclid(TICKS_PER_DAY);
    let (y, m, d) = civil_from_days(days);
    let first = days_from_civil(y, 1, 1).unwrap_or(0);
    Ok(match part {
        DatePart::Year => y,
        DatePart::Quarter => (m - 1) / 3 + 1,
        DatePart::Month => m,
        DatePart::Day => d,
        DatePart::DayOfYear => i64::from(days - first) + 1,
        DatePart::Week => (i64::from(days - first) + weekday(first) - 1) / 7 + 1,
        DatePart::WeekDay => weekday(days),
        DatePart::IsoWeek => {
            // The ISO week belongs to the year of its Thursday.
            let thursday = days - days.rem_euclid(7) + 3;
            let (year, _, _) = civil_from_days(thursday);
            i64::from(thursday - days_from_civil(year, 1, 1).unwrap_or(0)) / 7 + 1
        }
        DatePart::Hour => of_day / (3600 * TICKS_PER_SECOND),
        DatePart::Minute => of_day / (60 * TICKS_PER_SECOND) % 60,
        DatePart::Second => of_day / TICKS_PER_SECOND % 60,
        DatePart::Millisecond => of_day % TICKS_PER_SECOND / 10_000,
        DatePart::Microsecond => of_day % TICKS_PER_SECOND / 10,
        DatePart::Nanosecond => of_day % TICKS_PER_SECOND * 100,
        DatePart::TzOffset => match value {
            Value::DateTimeOffset(_, offset) => i64::from(offset),
            _ => 0,
        },
    })
}
