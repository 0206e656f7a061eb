//! Time zones by their Windows and IANA names, and fixed offsets.

use std::str::FromStr;

use chrono::{DateTime, NaiveDateTime, Offset, TimeDelta, TimeZone};
use chrono_tz::{OffsetComponents, Tz};
use icu_time::zone::{WindowsParser, iana::IanaParserExtended};

use super::UNIX_TICKS;
use crate::types::TICKS_PER_SECOND;

const MINUTE: i64 = 60 * TICKS_PER_SECOND;

/// A time zone that local time is told in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    id: String,
    rules: Rules,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// Minutes east of UTC.
    Fixed(i16),
    Named(Tz),
}

/// A name that is neither a Windows zone's nor an IANA zone's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no time zone {0:?}; give a Windows name such as \"W. Europe Standard Time\" or an IANA name such as \"Europe/Berlin\""
)]
pub struct UnknownZone(pub String);

/// Windows zones that keep one offset all the year, by minutes east of UTC, from CLDR's `windowsZones`.
const FIXED: &[(i16, &str)] = &[
    (-720, "Dateline Standard Time"),
    (-660, "UTC-11"),
    (-600, "Hawaiian Standard Time"),
    (-540, "UTC-09"),
    (-480, "UTC-08"),
    (-420, "US Mountain Standard Time"),
    (-360, "Canada Central Standard Time"),
    (-300, "SA Pacific Standard Time"),
    (-240, "SA Western Standard Time"),
    (-180, "SA Eastern Standard Time"),
    (-120, "UTC-02"),
    (-60, "Cape Verde Standard Time"),
    (0, "UTC"),
    (60, "W. Central Africa Standard Time"),
    (120, "South Africa Standard Time"),
    (180, "Arab Standard Time"),
    (240, "Arabian Standard Time"),
    (270, "Afghanistan Standard Time"),
    (300, "West Asia Standard Time"),
    (330, "India Standard Time"),
    (345, "Nepal Standard Time"),
    (360, "Bangladesh Standard Time"),
    (390, "Myanmar Standard Time"),
    (420, "SE Asia Standard Time"),
    (480, "Singapore Standard Time"),
    (540, "Tokyo Standard Time"),
    (570, "AUS Central Standard Time"),
    (600, "E. Australia Standard Time"),
    (660, "Central Pacific Standard Time"),
    (720, "UTC+12"),
    (780, "UTC+13"),
    (840, "Line Islands Standard Time"),
];

impl Zone {
    /// A zone that is always so many minutes ahead of UTC. Its id is that of a Windows zone with this offset, if there is
    /// one.
    pub fn fixed(minutes: i16) -> Zone {
        let known = FIXED.iter().find(|(offset, _)| *offset == minutes);
        Zone {
            id: known.map_or_else(|| shown_offset(minutes), |(_, name)| (*name).to_owned()),
            rules: Rules::Fixed(minutes),
        }
    }

    /// A zone by its Windows or IANA name.
    ///
    /// # Errors
    /// [`UnknownZone`].
    pub fn named(name: &str) -> Result<Zone, UnknownZone> {
        if let Some(zone) = Zone::windows(name) {
            return Ok(zone);
        }
        let tz = Tz::from_str(name).map_err(|_| UnknownZone(name.to_owned()))?;
        Ok(Zone {
            id: name.to_owned(),
            rules: Rules::Named(tz),
        })
    }

    /// A zone by its Windows name, as it stands for region "001" in CLDR's `windowsZones`.
    pub(crate) fn windows(name: &str) -> Option<Zone> {
        if name.eq_ignore_ascii_case("utc") {
            return Some(Zone::fixed(0));
        }
        let zone = WindowsParser::new().parse(name, None)?;
        let known = IanaParserExtended::new().iter().find(|known| known.time_zone == zone)?;
        Some(Zone {
            id: name.to_owned(),
            rules: Rules::Named(Tz::from_str(known.canonical).ok()?),
        })
    }

    /// What `CURRENT_TIMEZONE_ID()` answers: the Windows name, or the name that the zone was asked by.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What `CURRENT_TIMEZONE()` answers: the standard offset and a name.
    pub fn display_name(&self) -> String {
        if self.id == "UTC" {
            return "(UTC) Coordinated Universal Time".to_owned();
        }
        let standard = match self.rules {
            Rules::Fixed(minutes) => minutes,
            Rules::Named(tz) => {
                let now = DateTime::UNIX_EPOCH.naive_utc() + TimeDelta::days(20_454);
                tz.offset_from_utc_datetime(&now).base_utc_offset().num_minutes() as i16
            }
        };
        format!("({}) {}", shown_offset(standard), self.id)
    }

    /// How far local time is ahead of UTC at a moment of UTC, both in ticks: whole minutes, as SQL Server's offsets are.
    pub(crate) fn offset_ticks(&self, utc: i64) -> i64 {
        match self.rules {
            Rules::Fixed(minutes) => i64::from(minutes) * MINUTE,
            Rules::Named(tz) => {
                let seconds = tz.offset_from_utc_datetime(&civil(utc)).fix().local_minus_utc();
                i64::from(seconds / 60) * MINUTE
            }
        }
    }

    /// UTC of a local time, both in ticks. A local time that occurs twice is taken for the first, one that never occurs is
    /// moved on by as much as the clock was: so `AT TIME ZONE` is documented.
    pub(crate) fn utc_of_local(&self, local: i64) -> i64 {
        match self.rules {
            Rules::Fixed(minutes) => local - i64::from(minutes) * MINUTE,
            Rules::Named(tz) => {
                let first = tz.offset_from_local_datetime(&civil(local)).earliest();
                match first {
                    Some(offset) => local - i64::from(offset.fix().local_minus_utc() / 60) * MINUTE,
                    // The offset from before the gap takes the time past it.
                    None => local - self.offset_ticks(local - 86_400 * TICKS_PER_SECOND),
                }
            }
        }
    }
}

fn civil(ticks: i64) -> NaiveDateTime {
    DateTime::UNIX_EPOCH.naive_utc() + TimeDelta::microseconds((ticks - UNIX_TICKS).div_euclid(10))
}

fn shown_offset(minutes: i16) -> String {
    let (sign, size) = (if minutes < 0 { '-' } else { '+' }, minutes.unsigned_abs());
    format!("UTC{sign}{:02}:{:02}", size / 60, size % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks of a moment in seconds since 1970.
    fn at(seconds: i64) -> i64 {
        UNIX_TICKS + seconds * TICKS_PER_SECOND
    }

    fn offset_hours(zone: &str, seconds: i64) -> f64 {
        Zone::named(zone).unwrap().offset_ticks(at(seconds)) as f64 / (3600 * TICKS_PER_SECOND) as f64
    }

    #[test]
    fn windows_and_iana_names_follow_their_rules() {
        // 2026-10-25T00:59:59Z and a second later.
        for zone in ["W. Europe Standard Time", "Europe/Berlin"] {
            assert_eq!(offset_hours(zone, 1_792_889_999), 2.0, "{zone}");
            assert_eq!(offset_hours(zone, 1_792_890_000), 1.0, "{zone}");
        }
        // 2026-03-08T09:59:59Z and a second later.
        assert_eq!(offset_hours("Pacific Standard Time", 1_772_963_999), -8.0);
        assert_eq!(offset_hours("Pacific Standard Time", 1_772_964_000), -7.0);
        assert_eq!(offset_hours("India Standard Time", 0), 5.5);
        assert_eq!(
            Zone::named("Mars/Olympus").unwrap_err().to_string(),
            "there is no time zone \"Mars/Olympus\"; give a Windows name such as \"W. Europe Standard Time\" or an IANA name such as \"Europe/Berlin\""
        );
    }

    #[test]
    fn every_fixed_offset_is_that_of_the_zone_that_names_it() {
        for (minutes, name) in FIXED {
            let zone = Zone::named(name).unwrap();
            // January and July 2026.
            for seconds in [1_768_000_000, 1_783_000_000] {
                assert_eq!(zone.offset_ticks(at(seconds)), i64::from(*minutes) * MINUTE, "{name}");
            }
        }
    }

    #[test]
    fn local_times_that_are_twice_or_never() {
        let zone = Zone::named("W. Europe Standard Time").unwrap();
        // 02:30 on 2026-10-25 is 00:30Z the first time.
        assert_eq!(zone.utc_of_local(at(1_792_895_400)), at(1_792_888_200));
        // 02:30 on 2026-03-29 never is: 03:30+02:00, 01:30Z.
        assert_eq!(zone.utc_of_local(at(1_774_751_400)), at(1_774_747_800));
    }

    #[test]
    fn zones_are_shown_as_the_server_shows_them() {
        assert_eq!(Zone::fixed(0).display_name(), "(UTC) Coordinated Universal Time");
        assert_eq!(
            Zone::named("W. Europe Standard Time").unwrap().display_name(),
            "(UTC+01:00) W. Europe Standard Time"
        );
        assert_eq!(Zone::fixed(-420).id(), "US Mountain Standard Time");
        assert_eq!(Zone::fixed(7).id(), "UTC+00:07");
    }
}
