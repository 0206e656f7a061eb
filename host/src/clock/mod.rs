//! The source's clock. `cdc.lsn_time_mapping` has the times of commits in the server's local time, without a zone; here
//! they become UTC.
//!
//! Where the zone is known (the server names it, or the configuration does), each commit is converted by the rules that
//! held at its own time. An hour that the clock repeats in autumn is told apart by LSN order: see [`Repeated`]. Where the
//! zone is not known, all there is is the server's present distance from UTC, which is read with every batch.

mod repeated;
mod zone;

pub use repeated::{Repeated, RepeatedHour};
pub use zone::{Zone, ZoneError};

use chrono::{MappedLocalTime, Offset as _, TimeZone as _};
use chrono_tz::Tz;

use crate::lsn::{Lsn, UtcMicros};

const MICROS_PER_SECOND: i64 = 1_000_000;

/// How local times of the server become UTC: for one batch, and pinned by its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// By the rules of a zone.
    Zone(Tz),
    /// By a distance from UTC, in minutes: what the server's clock had when it was asked.
    Fixed(i32),
}

/// The instants that a local time can mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instants {
    /// One.
    One(UtcMicros),
    /// Two: the clock showed this time twice.
    Two {
        /// The first pass.
        first: UtcMicros,
        /// The second.
        second: UtcMicros,
        /// The hour.
        hour: RepeatedHour,
    },
}

impl Clock {
    /// What a local time, in microseconds since 1970 on the server's clock, means. A time that the clock left out in
    /// spring is taken by the distance from UTC before the gap.
    pub fn instants(self, local_micros: i64) -> Instants {
        let tz = match self {
            Clock::Fixed(minutes) => return Instants::One(UtcMicros(local_micros - offset_micros(minutes * 60))),
            Clock::Zone(tz) => tz,
        };
        let at = |offset: i32| UtcMicros(local_micros - offset_micros(offset));
        match offsets(tz, local_micros) {
            MappedLocalTime::Single(offset) => Instants::One(at(offset)),
            MappedLocalTime::Ambiguous(a, b) => {
                // The clock goes back, so the distance from UTC is the larger one before.
                let (before, after) = (a.max(b), a.min(b));
                let (first, second) = (at(before), at(after));
                let change = change_between(tz, first, second);
                Instants::Two {
                    first,
                    second,
                    hour: RepeatedHour {
                        from_local: change.0 + offset_micros(after),
                        to_local: change.0 + offset_micros(before),
                        change,
                    },
                }
            }
            MappedLocalTime::None => {
                // No change of a zone is larger than a day.
                let before = local_micros - 24 * 3600 * MICROS_PER_SECOND;
                match offsets(tz, before) {
                    MappedLocalTime::Single(offset) | MappedLocalTime::Ambiguous(offset, _) => {
                        Instants::One(at(offset))
                    }
                    MappedLocalTime::None => Instants::One(UtcMicros(local_micros)),
                }
            }
        }
    }

    /// The instant, where nothing says which pass of a repeated hour is meant: the first, so that no verdict is ever ahead.
    pub fn earliest(self, local_micros: i64) -> UtcMicros {
        match self.instants(local_micros) {
            Instants::One(at) | Instants::Two { first: at, .. } => at,
        }
    }

    /// The instant of a commit.
    pub fn instant(self, lsn: Lsn, local_micros: i64, repeated: &Repeated) -> UtcMicros {
        match self.instants(local_micros) {
            Instants::One(at) => at,
            Instants::Two { first, second, hour } => match repeated.is_second_pass(lsn, hour) {
                true => second,
                false => first,
            },
        }
    }

    /// The zone's name, in the spelling of the IANA database; `None` where only the distance is known.
    pub fn zone_name(self) -> Option<&'static str> {
        match self {
            Clock::Zone(tz) => Some(tz.name()),
            Clock::Fixed(_) => None,
        }
    }

    /// The distance from UTC at an instant, in minutes.
    pub fn offset_minutes(self, at: UtcMicros) -> i32 {
        match self {
            Clock::Zone(tz) => offset_at(tz, at) / 60,
            Clock::Fixed(minutes) => minutes,
        }
    }
}

/// The zone's distance from UTC at a local time, in seconds.
fn offsets(tz: Tz, local_micros: i64) -> MappedLocalTime<i32> {
    match chrono::DateTime::from_timestamp_micros(local_micros) {
        Some(local) => tz
            .offset_from_local_datetime(&local.naive_utc())
            .map(|offset| offset.fix().local_minus_utc()),
        // No time of a server.
        None => MappedLocalTime::Single(0),
    }
}

fn offset_at(tz: Tz, at: UtcMicros) -> i32 {
    chrono::DateTime::from_timestamp_micros(at.0).map_or(0, |at| {
        tz.offset_from_utc_datetime(&at.naive_utc()).fix().local_minus_utc()
    })
}

/// The second at which the distance from UTC changes, between two instants that differ in it.
fn change_between(tz: Tz, before: UtcMicros, after: UtcMicros) -> UtcMicros {
    let seconds = |at: UtcMicros| at.0.div_euclid(MICROS_PER_SECOND);
    let old = offset_at(tz, before);
    let (mut low, mut high) = (seconds(before), seconds(after));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match offset_at(tz, UtcMicros(middle * MICROS_PER_SECOND)) == old {
            true => low = middle,
            false => high = middle,
        }
    }
    UtcMicros(high * MICROS_PER_SECOND)
}

fn offset_micros(seconds: i32) -> i64 {
    i64::from(seconds) * MICROS_PER_SECOND
}

#[cfg(test)]
mod tests;
