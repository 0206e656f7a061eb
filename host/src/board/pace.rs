//! Whether a table keeps up and, when it does not, what takes the time.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::facts::FactsRow;

/// How long a table is watched before it is said to fall behind.
const WATCHED: Duration = Duration::from_secs(60);
/// How much of that time its lag has to grow by. A table that works through a backlog is behind, and comes nearer.
const GROWS_BY: f64 = 0.1;
/// A lag that nobody minds.
const SMALL_SECONDS: f64 = 5.0;

/// A part of a batch's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Asking which commits there are.
    Plan,
    /// Reading rows.
    Read,
    /// Passing them through components.
    Transform,
    /// Committing them to Delta.
    Commit,
}

impl Phase {
    /// Every phase, in the order of a batch.
    pub const ALL: [Phase; 4] = [Phase::Plan, Phase::Read, Phase::Transform, Phase::Commit];

    /// As JSON and metrics have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Plan => "plan",
            Phase::Read => "read",
            Phase::Transform => "transform",
            Phase::Commit => "commit",
        }
    }

    /// Seconds that a batch spent, by phase.
    pub(super) fn of(facts: &FactsRow) -> [f64; 4] {
        let ms = |ms: Option<i64>| ms.unwrap_or(0) as f64 / 1e3;
        [
            ms(facts.plan_ms),
            facts.read_seconds.unwrap_or(0.0),
            ms(facts.transform_ms),
            ms(facts.commit_ms),
        ]
    }
}

/// What is new about how a table keeps up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Progress {
    /// It falls behind.
    FallsBehind {
        /// By how much it is behind now.
        lag_seconds: f64,
        /// What takes the time.
        reason: Phase,
    },
    /// It keeps up again.
    KeepsUp,
}

/// How a table keeps up.
#[derive(Default)]
pub(super) struct Pace {
    /// Since when it is behind without a pause, and by how much it was then.
    behind: Option<(Instant, f64)>,
    /// What its batches spent since.
    spent: [f64; 4],
    told: Option<Phase>,
}

impl Pace {
    pub(super) fn spent(&mut self, parts: [f64; 4]) {
        for (sum, part) in self.spent.iter_mut().zip(parts) {
            *sum += part;
        }
    }

    /// What takes the time of a table that falls behind.
    pub(super) fn reason(&self) -> Option<Phase> {
        self.told
    }

    pub(super) fn look(&mut self, lag: f64, caught_up: bool, now: Instant) -> Option<Progress> {
        if caught_up || lag < SMALL_SECONDS {
            self.behind = None;
            self.spent = [0.0; 4];
            return self.told.take().map(|_| Progress::KeepsUp);
        }
        let (since, then) = *self.behind.get_or_insert((now, lag));
        let watched = now.duration_since(since);
        if watched < WATCHED {
            return None;
        }
        let grew = lag - then;
        let (spent, told) = (self.spent, self.told);
        // The next span is looked at by itself: what it was an hour ago says nothing of now.
        self.behind = Some((now, lag));
        self.spent = [0.0; 4];
        if grew < watched.as_secs_f64() * GROWS_BY {
            self.told = None;
            return told.map(|_| Progress::KeepsUp);
        }
        let most = Phase::ALL
            .into_iter()
            .zip(spent)
            .max_by(|one, other| one.1.total_cmp(&other.1))
            .filter(|(_, seconds)| *seconds > 0.0);
        // Without a batch that ended, it waits for rows.
        let reason = most.map_or(Phase::Read, |(phase, _)| phase);
        self.told = Some(reason);
        told.is_none().then_some(Progress::FallsBehind {
            lag_seconds: lag,
            reason,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_that_grows_for_a_minute_is_told_once_with_what_takes_the_time() {
        let mut pace = Pace::default();
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert_eq!(pace.look(10.0, false, at(0)), None);
        pace.spent([0.1, 0.4, 20.0, 0.5]);
        assert_eq!(pace.look(30.0, false, at(40)), None);
        let told = Progress::FallsBehind {
            lag_seconds: 60.0,
            reason: Phase::Transform,
        };
        assert_eq!(pace.look(60.0, false, at(61)), Some(told));
        pace.spent([0.1, 30.0, 20.0, 0.5]);
        assert_eq!(pace.look(120.0, false, at(122)), None, "once");
        assert_eq!(pace.reason(), Some(Phase::Read), "what takes the time may change");
        assert_eq!(pace.look(0.0, true, at(130)), Some(Progress::KeepsUp));
        assert_eq!(pace.reason(), None);
    }

    #[test]
    fn a_backlog_that_is_worked_through_is_no_falling_behind() {
        let mut pace = Pace::default();
        let start = Instant::now();
        for second in 0..600u64 {
            let lag = 10_000.0 - 10.0 * second as f64;
            assert_eq!(pace.look(lag, false, start + Duration::from_secs(second)), None);
        }
        assert_eq!(pace.look(1.0, false, start + Duration::from_secs(600)), None);
    }
}
