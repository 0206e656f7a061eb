//! `date`: a date or time stamp cut to the first moment of its period.

use std::fmt;

use chrono::Datelike;
use serde::Deserialize;
use sluice_plugin::text::{DAY_US, date_of_days, days_of_date};
use sluice_plugin::{Column, DataType, FixedBuilder, FixedView, Reject};

const OUT_OF_RANGE: &str = "date-out-of-range";

/// The period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    Year,
    Quarter,
    Month,
    Day,
    Hour,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Year => "year",
            Self::Quarter => "quarter",
            Self::Month => "month",
            Self::Day => "day",
            Self::Hour => "hour",
        })
    }
}

impl Unit {
    /// Whether something is cut off from values of this type.
    pub(crate) fn check(self, data_type: DataType) -> Result<(), &'static str> {
        match (data_type, self) {
            (DataType::Timestamp | DataType::TimestampNtz, _)
            | (DataType::Date, Self::Year | Self::Quarter | Self::Month) => Ok(()),
            (DataType::Date, _) => Err("to the day or hour would leave a date as it is"),
            _ => Err("works on date and timestamp columns only"),
        }
    }

    pub(crate) fn dates(self, values: FixedView<'_, i32>, column: &str, rejects: &mut Vec<Reject>) -> Column {
        let mut cut = FixedBuilder::<i32>::with_capacity(values.len());
        for (row, days) in values.iter().enumerate() {
            let result = days.map(|days| self.first_day(days));
            cut.push_option(accept(result, row, column, rejects));
        }
        cut.finish()
    }

    pub(crate) fn timestamps(self, values: FixedView<'_, i64>, column: &str, rejects: &mut Vec<Reject>) -> Column {
        let mut cut = FixedBuilder::<i64>::with_capacity(values.len());
        for (row, micros) in values.iter().enumerate() {
            let result = micros.map(|micros| self.first_micro(micros));
            cut.push_option(accept(result, row, column, rejects));
        }
        cut.finish()
    }

    fn first_day(self, days: i32) -> Option<i32> {
        let date = date_of_days(days)?.with_day(1)?;
        let first = match self {
            Self::Year => date.with_month(1)?,
            Self::Quarter => date.with_month(date.month0() / 3 * 3 + 1)?,
            Self::Month => date,
            Self::Day | Self::Hour => return Some(days),
        };
        Some(days_of_date(first))
    }

    fn first_micro(self, micros: i64) -> Option<i64> {
        const HOUR_US: i64 = DAY_US / 24;
        if self == Self::Hour {
            return micros.div_euclid(HOUR_US).checked_mul(HOUR_US);
        }
        let days = i32::try_from(micros.div_euclid(DAY_US)).ok()?;
        i64::from(self.first_day(days)?).checked_mul(DAY_US)
    }
}

/// A value that has no first moment (a day that no calendar has) rejects its row, in which a zero then stands.
fn accept<T: Default>(result: Option<Option<T>>, row: usize, column: &str, rejects: &mut Vec<Reject>) -> Option<T> {
    let result = result?;
    if result.is_none() {
        rejects.push(Reject {
            row: row as u32,
            column: column.to_owned(),
            code: OUT_OF_RANGE.to_owned(),
        });
    }
    Some(result.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use sluice_plugin::text::{parse_date, parse_timestamp};

    use super::*;

    #[test]
    fn first_days_of_periods() {
        for (unit, date, first) in [
            (Unit::Year, "2024-02-29", "2024-01-01"),
            (Unit::Quarter, "2024-05-31", "2024-04-01"),
            (Unit::Quarter, "2024-12-31", "2024-10-01"),
            (Unit::Month, "1969-12-31", "1969-12-01"),
            (Unit::Year, "0001-12-31", "0001-01-01"),
            (Unit::Month, "0001-01-01", "0001-01-01"),
            (Unit::Year, "9999-12-31", "9999-01-01"),
            (Unit::Month, "9999-12-31", "9999-12-01"),
        ] {
            let days = parse_date(date).unwrap();
            assert_eq!(unit.first_day(days), Some(parse_date(first).unwrap()), "{date}");
        }
        assert_eq!(Unit::Year.first_day(i32::MAX), None);
        assert_eq!(Unit::Year.first_day(i32::MIN), None);
    }

    #[test]
    fn first_moments_of_periods() {
        for (unit, at, first) in [
            (Unit::Year, "2024-02-29 12:34:56.789", "2024-01-01"),
            (Unit::Month, "0001-01-31 23:59:59.999999", "0001-01-01"),
            (Unit::Day, "1969-12-31 23:59:59.999999", "1969-12-31"),
            (Unit::Hour, "1969-12-31 23:59:59.999999", "1969-12-31 23:00"),
            (Unit::Hour, "9999-12-31 23:59:59.999999", "9999-12-31 23:00"),
            (Unit::Year, "9999-12-31 23:59:59.999999", "9999-01-01"),
        ] {
            let micros = parse_timestamp(at).unwrap();
            assert_eq!(unit.first_micro(micros), Some(parse_timestamp(first).unwrap()), "{at}");
        }
        assert_eq!(Unit::Year.first_micro(i64::MAX), None);
        assert_eq!(Unit::Hour.first_micro(i64::MIN), None);
    }
}
