//! The proleptic Gregorian calendar, counted in days and 100 ns ticks since 0001-01-01.

/// 100 ns units in a second.
pub const TICKS_PER_SECOND: i64 = 10_000_000;
/// 100 ns units in a day.
pub const TICKS_PER_DAY: i64 = 86_400 * TICKS_PER_SECOND;
/// The day number of 9999-12-31.
pub const DAYS_MAX: i32 = 3_652_058;

/// Day number of a date, or nothing when there is no such day between 0001-01-01 and 9999-12-31.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> Option<i32> {
    if !(1..=9999).contains(&year)
        || !(1..=12).contains(&month)
        || day < 1
        || day > i64::from(last_day_of_month(year, month))
    {
        return None;
    }
    let before = year - 1;
    let mut days = before * 365 + before / 4 - before / 100 + before / 400;
    for m in 1..month {
        days += i64::from(last_day_of_month(year, m));
    }
    i32::try_from(days + day - 1).ok()
}

/// Year, month and day of a day number.
pub fn civil_from_days(days: i32) -> (i64, i64, i64) {
    let days = i64::from(days);
    // 400 years hold 146,097 days; within them the year is found by estimate and corrected by at most one.
    let mut year = days * 400 / 146_097 + 1;
    let start = |y: i64| (y - 1) * 365 + (y - 1) / 4 - (y - 1) / 100 + (y - 1) / 400;
    while start(year) > days {
        year -= 1;
    }
    while start(year + 1) <= days {
        year += 1;
    }
    let mut rest = days - start(year);
    let mut month = 1;
    while rest >= i64::from(last_day_of_month(year, month)) {
        rest -= i64::from(last_day_of_month(year, month));
        month += 1;
    }
    (year, month, rest + 1)
}

/// 28 to 31.
pub fn last_day_of_month(year: i64, month: i64) -> i32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 => 29,
        2 => 28,
        _ => 31,
    }
}

/// 1 for Sunday to 7 for Saturday, as `DATEPART(weekday, …)` counts under `DATEFIRST 7`.
pub fn weekday(days: i32) -> i64 {
    // 0001-01-01 was a Monday.
    (i64::from(days) + 1) % 7 + 1
}

/// Ticks rounded to what `datetime` can hold: whole 1/300 of a second, which show as .000, .003 and .007.
pub fn round_to_datetime(ticks: i64) -> i64 {
    let day = ticks.div_euclid(TICKS_PER_DAY);
    let of_day = ticks.rem_euclid(TICKS_PER_DAY);
    // 3 ticks of 1/300 s are 100,000 units of 100 ns.
    let thirds = (of_day * 3 + 50_000) / 100_000;
    day * TICKS_PER_DAY + thirds_to_ticks(thirds)
}

/// A count of 1/300 s as 100 ns ticks, rounded to the millisecond in which SQL Server shows it.
fn thirds_to_ticks(thirds: i64) -> i64 {
    let millis = (thirds * 10 + 1) / 3;
    millis * 10_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_the_calendar_round_trips() {
        assert_eq!(days_from_civil(1, 1, 1), Some(0));
        assert_eq!(days_from_civil(9999, 12, 31), Some(DAYS_MAX));
        assert_eq!(days_from_civil(1900, 2, 29), None);
        assert_eq!(days_from_civil(2000, 2, 29), Some(730_178));
        for days in (0..=DAYS_MAX).step_by(13) {
            let (y, m, d) = civil_from_days(days);
            assert_eq!(days_from_civil(y, m, d), Some(days));
        }
    }

    #[test]
    fn datetime_rounds_to_thirds() {
        let at = |ms: i64| ms * 10_000;
        assert_eq!(round_to_datetime(at(1)), at(0));
        assert_eq!(round_to_datetime(at(2)), at(3));
        assert_eq!(round_to_datetime(at(4)), at(3));
        assert_eq!(round_to_datetime(at(5)), at(7));
        assert_eq!(round_to_datetime(at(9)), at(10));
        assert_eq!(round_to_datetime(at(998)), at(997));
        assert_eq!(round_to_datetime(at(999)), at(1000));
    }
}
