//! `[maintenance]`: what a run does to its tables beside writing them.

use std::time::Duration;

use crate::lake::Compaction;
use crate::lsn::UtcMicros;

use super::ConfigError;
use super::section::Section;
use super::units::{DAY, MIB};

/// `[maintenance]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaintenanceSettings {
    /// Whether small files of bronze and facts are made one, and which.
    pub compact: Option<Compaction>,
    /// How long the facts of batches are kept; `None`: for ever.
    pub facts_retention: Option<Duration>,
    /// When, in UTC.
    pub window: Window,
}

impl Default for MaintenanceSettings {
    fn default() -> MaintenanceSettings {
        MaintenanceSettings {
            compact: None,
            facts_retention: None,
            window: Window { from: 0, to: 0 },
        }
    }
}

/// A part of the day, in minutes since midnight UTC; all of it where both are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    from: u32,
    to: u32,
}

const MINUTES_PER_DAY: i64 = 24 * 60;

impl Window {
    /// Whether it is open.
    pub fn is_open(self, now: UtcMicros) -> bool {
        let minute = (now.0.div_euclid(60_000_000)).rem_euclid(MINUTES_PER_DAY);
        let (from, to) = (i64::from(self.from), i64::from(self.to));
        match from < to {
            true => (from..to).contains(&minute),
            // Over midnight, or all day.
            false => minute >= from || minute < to,
        }
    }

    fn parse(text: &str) -> Option<Window> {
        let minute = |text: &str| {
            let (hour, minute) = text.trim().split_once(':')?;
            let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
            (hour < 24 && minute < 60).then_some(hour * 60 + minute)
        };
        let (from, to) = text.split_once('-')?;
        Some(Window {
            from: minute(from)?,
            to: minute(to)?,
        })
    }
}

impl MaintenanceSettings {
    pub(super) fn parse(mut section: Section<'_>) -> Result<MaintenanceSettings, ConfigError> {
        let compact = section.boolean("compact")?.unwrap_or(false);
        let which = Compaction {
            smaller_than: section.bytes("small_file", MIB / 64..=1024 * MIB)?.unwrap_or(16 * MIB),
            at_least: section.integer("small_files", 2..=100_000)?.unwrap_or(50) as usize,
            older_than: section
                .duration("min_age", Duration::ZERO..=365 * DAY)?
                .unwrap_or(Duration::from_secs(300)),
            up_to: section.bytes("file_size", MIB..=1024 * MIB)?.unwrap_or(128 * MIB),
        };
        let window = match section.string("window")? {
            None => MaintenanceSettings::default().window,
            Some(text) => Window::parse(text).ok_or_else(|| {
                section.error(
                    "window",
                    "must be a part of the day in UTC, such as \"01:00-05:00\" or \"22:00-04:00\"",
                )
            })?,
        };
        let facts_retention = section.duration("facts_retention", DAY..=36_500 * DAY)?;
        section.finish()?;
        Ok(MaintenanceSettings {
            compact: compact.then_some(which),
            facts_retention,
            window,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_a_part_of_the_day_also_over_midnight() {
        let at = |hour: i64, minute: i64| UtcMicros((20_000 * 24 * 60 + hour * 60 + minute) * 60_000_000);
        for (window, open, closed) in [
            ("01:00-05:30", [at(1, 0), at(5, 29)], [at(0, 59), at(5, 30)]),
            ("22:00-04:00", [at(23, 0), at(3, 59)], [at(21, 59), at(4, 0)]),
        ] {
            let window = Window::parse(window).unwrap();
            assert!(open.iter().all(|at| window.is_open(*at)) && !closed.iter().any(|at| window.is_open(*at)));
        }
        assert!(MaintenanceSettings::default().window.is_open(at(12, 0)));
        for wrong in ["", "1-5", "24:00-01:00", "01:60-02:00", "01:00"] {
            assert_eq!(Window::parse(wrong), None, "{wrong}");
        }
    }
}
