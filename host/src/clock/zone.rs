//! The server's zone, by the names that servers and people give it.

use chrono_tz::Tz;
use icu_time::zone::WindowsParser;
use icu_time::zone::iana::IanaParserExtended;

use super::Clock;
use crate::lsn::UtcMicros;

/// What is known of the server's zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// `source.source_time_zone` names it.
    Configured(Tz),
    /// The server names it (`CURRENT_TIMEZONE_ID()`).
    Named(Tz),
    /// Nobody does: the server is older than SQL Server 2022, or its name is not known here.
    Unknown,
}

/// A name that no zone has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name:?} is no time zone: write its IANA name, such as \"Europe/Berlin\", or its Windows name, such as \"W. Europe Standard Time\""
)]
pub struct ZoneError {
    /// The name.
    pub name: String,
}

impl Zone {
    /// A zone by its IANA or its Windows name, ignoring case. Windows names are those of Unicode's CLDR, each with the zone
    /// that CLDR gives for the whole world.
    ///
    /// # Errors
    /// No zone has this name.
    pub fn parse(name: &str) -> Result<Tz, ZoneError> {
        let name = name.trim();
        iana(name)
            .or_else(|| windows(name))
            .ok_or_else(|| ZoneError { name: name.to_owned() })
    }

    /// The clock of a server whose zone is known.
    pub fn named(self) -> Option<Clock> {
        match self {
            Zone::Configured(tz) | Zone::Named(tz) => Some(Clock::Zone(tz)),
            Zone::Unknown => None,
        }
    }

    /// The clock of a server whose distance from UTC is, at an instant of its own, what it says. `None`: the zone's rules say
    /// something else.
    pub fn clock(self, at: UtcMicros, offset_minutes: i32) -> Option<Clock> {
        match self {
            Zone::Unknown => Some(Clock::Fixed(offset_minutes)),
            Zone::Configured(tz) | Zone::Named(tz) => {
                Some(Clock::Zone(tz)).filter(|clock| clock.offset_minutes(at) == offset_minutes)
            }
        }
    }
}

fn iana(name: &str) -> Option<Tz> {
    chrono_tz::TZ_VARIANTS
        .iter()
        .find(|zone| zone.name().eq_ignore_ascii_case(name))
        .copied()
}

fn windows(name: &str) -> Option<Tz> {
    let zone = WindowsParser::new().parse(name, None)?;
    let names = IanaParserExtended::new();
    let canonical = names.iter().find(|entry| entry.time_zone == zone)?.canonical;
    iana(canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_iana_and_windows_names() {
        for (name, iana) in [
            ("Europe/Berlin", "Europe/Berlin"),
            ("europe/berlin", "Europe/Berlin"),
            ("W. Europe Standard Time", "Europe/Berlin"),
            ("Eastern Standard Time", "America/New_York"),
            ("Lord Howe Standard Time", "Australia/Lord_Howe"),
            ("Morocco Standard Time", "Africa/Casablanca"),
            ("India Standard Time", "Asia/Kolkata"),
            ("UTC-02", "Etc/GMT+2"),
            (" UTC ", "UTC"),
        ] {
            let zone = Zone::parse(name).unwrap();
            // India's zone has two names in the database.
            let same = zone.name() == iana || (iana == "Asia/Kolkata" && zone.name() == "Asia/Calcutta");
            assert!(same, "{name}: {}", zone.name());
        }
        let error = Zone::parse("Mars").unwrap_err().to_string();
        assert!(error.contains("\"Mars\"") && error.contains("Europe/Berlin"), "{error}");
    }

    #[test]
    fn every_zone_name_of_windows_is_known() {
        let windows_names = include_str!("windows_names.txt");
        for name in windows_names.lines().filter(|line| !line.is_empty()) {
            assert!(Zone::parse(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_zone_that_the_servers_clock_contradicts_gives_no_clock() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        // 2026-07-01 and 2026-12-01, at noon in UTC.
        let (summer, winter) = (UtcMicros(1_782_907_200_000_000), UtcMicros(1_796_126_400_000_000));
        assert_eq!(Zone::Named(berlin).clock(summer, 120), Some(Clock::Zone(berlin)));
        assert_eq!(Zone::Named(berlin).clock(winter, 120), None);
        assert_eq!(Zone::Configured(berlin).clock(winter, 60), Some(Clock::Zone(berlin)));
        assert_eq!(Zone::Unknown.clock(winter, -210), Some(Clock::Fixed(-210)));
    }
}
