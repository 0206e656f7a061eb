//! When each commit of a range happened, in UTC.

use crate::clock::{Clock, Repeated};
use crate::lsn::{Lsn, UtcMicros};

/// The commits of a range in LSN order. Times never go back, whatever the server's clock did: each is the later of the
/// previous commit's and its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitTimes {
    commits: Vec<(Lsn, UtcMicros)>,
}

impl CommitTimes {
    /// From rows of `cdc.lsn_time_mapping`: `(start_lsn, tran_end_time)`, the time in microseconds since 1970 on the
    /// server's clock, which is `clock`. `repeated` tells the passes of an hour apart that it showed twice; `after` is the
    /// time of the commit before.
    pub fn new(mut rows: Vec<(Lsn, i64)>, clock: Clock, repeated: &Repeated, after: Option<UtcMicros>) -> CommitTimes {
        rows.sort_unstable_by_key(|(lsn, _)| *lsn);
        let mut floor = after.map_or(i64::MIN, |time| time.0);
        let commits = rows
            .into_iter()
            .map(|(lsn, local)| {
                floor = floor.max(clock.instant(lsn, local, repeated).0);
                (lsn, UtcMicros(floor))
            })
            .collect();
        CommitTimes { commits }
    }

    /// The commits in order.
    pub fn commits(&self) -> &[(Lsn, UtcMicros)] {
        &self.commits
    }

    /// The time of the last commit.
    pub fn last(&self) -> Option<(Lsn, UtcMicros)> {
        self.commits.last().copied()
    }

    /// The time of a commit. `cursor` is where the last look-up ended: rows come in order, so the next is close.
    pub(crate) fn find(&self, lsn: Lsn, cursor: &mut usize) -> Option<UtcMicros> {
        let ahead = &self.commits[(*cursor).min(self.commits.len())..];
        let found = match ahead.first() {
            Some((first, _)) if *first == lsn => *cursor,
            _ => *cursor + ahead.partition_point(|(candidate, _)| *candidate < lsn),
        };
        match self.commits.get(found) {
            Some((candidate, time)) if *candidate == lsn => {
                *cursor = found;
                Some(*time)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lsn(n: u8) -> Lsn {
        Lsn([0, 0, 0, 1, 0, 0, 0, 0, 0, n])
    }

    #[test]
    fn local_time_becomes_utc() {
        // 16:26:36.387 at -07:00 is 23:26:36.387 UTC.
        let local = ((16 * 60 + 26) * 60 + 36) * 1_000_000 + 387_000;
        let times = CommitTimes::new(vec![(lsn(1), local)], Clock::Fixed(-7 * 60), &Repeated::default(), None);
        assert_eq!(times.commits()[0].1.to_string(), "1970-01-01T23:26:36.387Z");
    }

    #[test]
    fn a_clock_that_steps_back_does_not_take_times_along() {
        let times = CommitTimes::new(
            vec![(lsn(2), 50), (lsn(1), 100), (lsn(3), 120)],
            Clock::Fixed(0),
            &Repeated::default(),
            Some(UtcMicros(110)),
        );
        let micros: Vec<i64> = times.commits().iter().map(|(_, t)| t.0).collect();
        assert_eq!(micros, [110, 110, 120]);
    }

    #[test]
    fn the_cursor_finds_commits_in_order_and_misses_unknown_ones() {
        let times = CommitTimes::new(
            (1..=9).step_by(2).map(|n| (lsn(n), i64::from(n))).collect(),
            Clock::Fixed(0),
            &Repeated::default(),
            None,
        );
        let mut cursor = 0;
        assert_eq!(times.find(lsn(1), &mut cursor), Some(UtcMicros(1)));
        assert_eq!(times.find(lsn(7), &mut cursor), Some(UtcMicros(7)));
        assert_eq!(times.find(lsn(8), &mut cursor), None);
        assert_eq!(times.find(lsn(9), &mut cursor), Some(UtcMicros(9)));
        assert_eq!(times.find(lsn(10), &mut cursor), None);
    }
}
