//! The server's clock: UTC, which a test may set, and the zone in which local time is told.

mod zone;

use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::types::{TICKS_PER_DAY, TICKS_PER_SECOND};

pub use zone::{UnknownZone, Zone};

/// Ticks of 1970-01-01.
pub(crate) const UNIX_TICKS: i64 = 719_162 * TICKS_PER_DAY;
const TICKS_PER_MS: i64 = TICKS_PER_SECOND / 1000;

/// Where UTC comes from. All numbers are ticks of 100 ns.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// The system's clock, so far ahead of it.
    Running { ahead: i64 },
    /// A moment that stays.
    Frozen { at: i64 },
}

/// The clock of a server. All its databases tell the time by it.
///
/// What it is set to shows in everything that the server dates. Lags, timeouts and intervals are real time, and LSNs
/// rise whatever it is set to.
#[derive(Debug)]
pub struct ServerClock {
    zone: Zone,
    source: Mutex<Source>,
}

/// A moment, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) local: i64,
    pub(crate) utc: i64,
}

impl ServerClock {
    pub(crate) fn new(zone: Zone) -> ServerClock {
        ServerClock {
            zone,
            source: Mutex::new(Source::Running { ahead: 0 }),
        }
    }

    /// The zone of local time.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Sets UTC, in milliseconds since 1970. A clock that runs goes on from there; one that is frozen stays there.
    pub fn set_unix_ms(&self, ms: i64) {
        self.set_utc(UNIX_TICKS + ms * TICKS_PER_MS);
    }

    /// Stops the clock where it is.
    pub fn freeze(&self) {
        let mut source = self.source.lock();
        *source = Source::Frozen { at: source.utc() };
    }

    /// Lets a frozen clock run on from where it is.
    pub fn unfreeze(&self) {
        let mut source = self.source.lock();
        *source = Source::Running {
            ahead: source.utc() - system_ticks(),
        };
    }

    /// Moves the clock on, or back when `ms` is negative, whether it runs or not.
    pub fn advance_ms(&self, ms: i64) {
        let by = ms.saturating_mul(TICKS_PER_MS);
        match &mut *self.source.lock() {
            Source::Running { ahead } => *ahead = ahead.saturating_add(by),
            Source::Frozen { at } => *at = at.saturating_add(by),
        }
    }

    /// Goes back to the system's clock.
    pub fn reset(&self) {
        *self.source.lock() = Source::Running { ahead: 0 };
    }

    pub(crate) fn set_utc(&self, ticks: i64) {
        let mut source = self.source.lock();
        *source = match *source {
            Source::Running { .. } => Source::Running {
                ahead: ticks - system_ticks(),
            },
            Source::Frozen { .. } => Source::Frozen { at: ticks },
        };
    }

    /// Now.
    pub(crate) fn now(&self) -> Moment {
        let utc = self.source.lock().utc();
        Moment {
            local: utc + self.zone.offset_ticks(utc),
            utc,
        }
    }
}

impl Source {
    fn utc(self) -> i64 {
        let utc = match self {
            Source::Running { ahead } => system_ticks().saturating_add(ahead),
            Source::Frozen { at } => at,
        };
        // A day's distance from both ends, so that every zone's local time is a date as well.
        utc.clamp(TICKS_PER_DAY, 3_652_058 * TICKS_PER_DAY)
    }
}

/// The system's UTC in ticks, which no test sets: what waits and lags are measured by.
pub(crate) fn system_ticks() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_TICKS + (since.as_nanos() / 100) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-10-25T00:30:00Z.
    const BEFORE_FALL_BACK_MS: i64 = 1_792_888_200_000;

    #[test]
    fn a_clock_is_set_frozen_moved_and_let_go() {
        let clock = ServerClock::new(Zone::named("W. Europe Standard Time").unwrap());
        clock.freeze();
        clock.set_unix_ms(BEFORE_FALL_BACK_MS);
        let first = clock.now();
        assert_eq!(first, clock.now());
        assert_eq!(first.local - first.utc, 7200 * TICKS_PER_SECOND);
        clock.advance_ms(3_600_000);
        let second = clock.now();
        assert_eq!(second.utc - first.utc, 3600 * TICKS_PER_SECOND);
        assert_eq!(second.local, first.local, "the hour is told twice");
        clock.advance_ms(-3_600_000);
        assert_eq!(clock.now(), first);
        clock.unfreeze();
        assert!(clock.now().utc >= first.utc);
        clock.reset();
        assert!((clock.now().utc - system_ticks()).abs() < 60 * TICKS_PER_SECOND);
    }
}
