//! Where the stream is, and what comes next.

use crate::checkpoint::PlannedBatch;
use crate::identity::CaptureInstance;
use crate::lsn::{Lsn, Offset};
use crate::source::{Poll, SourceError, TablePoll, Wanted};

use super::StreamError;

/// What the stream does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing to read and nowhere to go.
    Nothing,
    /// The server answers zeros for the table's low end.
    NotReached,
    /// No change of this table up to this commit: the position moves, nothing is read.
    Idle(Offset),
    /// Changes from this LSN on.
    Range {
        /// The first LSN to read.
        from: Lsn,
    },
}

/// The first change after the position, where an earlier plan found it: nothing is before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FirstChange {
    pub(super) lsn: Lsn,
    /// The instance that it was found through. Another one of the table need not have this change: it may capture other
    /// columns.
    pub(super) through: CaptureInstance,
}

impl FirstChange {
    /// As a plan has it; `None` of one that reads nothing.
    pub(super) fn of(planned: &PlannedBatch) -> Option<FirstChange> {
        planned.ranges.first().map(|range| FirstChange {
            lsn: range.from,
            through: range.capture_instance.clone(),
        })
    }

    /// What the source finds first now has to be that change. Without it, this is another history.
    pub(super) fn expect(&self, instance: &CaptureInstance, found: Option<Lsn>) -> Result<(), StreamError> {
        if self.through != *instance || found == Some(self.lsn) {
            return Ok(());
        }
        Err(SourceError::OtherHistory {
            capture_instance: instance.clone(),
            end: self.lsn,
        }
        .into())
    }
}

/// Decides. `position` is the last commit in bronze (`None` at the very beginning), `max` the last to read now.
pub(super) fn next(
    instance: &CaptureInstance,
    position: Option<Offset>,
    start_lsn: Option<Lsn>,
    first: Option<&FirstChange>,
    poll: &Poll,
    max: Offset,
) -> Result<Next, StreamError> {
    let (min_lsn, last_lsn) = match poll.table(instance) {
        Some(TablePoll::Ready { min_lsn, last_lsn, .. }) => (*min_lsn, *last_lsn),
        Some(TablePoll::Failed(error)) => return Err(std::sync::Arc::clone(error).into()),
        None => return Ok(Next::Nothing),
    };
    let known = position.map(|position| position.lsn).max(first.map(|first| first.lsn));
    if let Some(known) = known.filter(|known| poll.max.lsn < *known) {
        return Err(SourceError::WentBack {
            capture_instance: instance.clone(),
            max_lsn: poll.max.lsn,
            position: known,
        }
        .into());
    }
    let first_lsn = first.map(|first| first.lsn);
    let from = match (position, min_lsn) {
        // Capture has not reached it, or a grant went away. Neither is a position.
        (_, None) => return Ok(Next::NotReached),
        (Some(position), Some(_)) => position.lsn.next().max(first_lsn.unwrap_or(Lsn::ZERO)),
        (None, Some(min_lsn)) => first_lsn.unwrap_or_else(|| start_lsn.map_or(min_lsn, |start| start.max(min_lsn))),
    };
    if let Some(min_lsn) = min_lsn.filter(|min_lsn| from < *min_lsn) {
        let wanted = Wanted {
            from,
            to: max.lsn,
            after: position,
        };
        return Err(wanted.purged(instance, min_lsn).into());
    }
    if max.lsn < from {
        return Ok(Next::Nothing);
    }
    if last_lsn.is_some_and(|last| last >= from) {
        return Ok(Next::Range { from });
    }
    if let Some(first) = first {
        first.expect(instance, None)?;
    }
    Ok(Next::Idle(max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Classify as _, ErrorKind};
    use crate::lsn::UtcMicros;

    fn lsn(n: u8) -> Lsn {
        Lsn([0, 0, 0, 1, 0, 0, 0, 0, 0, n])
    }

    fn at(n: u8) -> Offset {
        Offset {
            lsn: lsn(n),
            commit_ts: UtcMicros(i64::from(n)),
        }
    }

    fn decide(position: Option<u8>, min: Option<u8>, last: Option<u8>, max: u8) -> Result<Next, StreamError> {
        decide_after_a_plan(position, None, min, last, max)
    }

    fn decide_after_a_plan(
        position: Option<u8>,
        first: Option<u8>,
        min: Option<u8>,
        last: Option<u8>,
        max: u8,
    ) -> Result<Next, StreamError> {
        let instance = CaptureInstance("dbo_t".to_owned());
        let table = TablePoll::Ready {
            min_lsn: min.map(lsn),
            min_commit_ts: None,
            last_lsn: last.map(lsn),
        };
        let poll = Poll::for_test(at(max), vec![(instance.clone(), table)]);
        let first = first.map(|n| FirstChange {
            lsn: lsn(n),
            through: instance.clone(),
        });
        next(&instance, position.map(at), None, first.as_ref(), &poll, at(max))
    }

    #[test]
    fn a_table_without_changes_advances_and_is_not_lost() {
        assert_eq!(decide(Some(5), Some(3), Some(5), 9).unwrap(), Next::Idle(at(9)));
        assert_eq!(decide(Some(9), Some(3), Some(5), 9).unwrap(), Next::Nothing);
        assert_eq!(decide(None, Some(3), None, 9).unwrap(), Next::Idle(at(9)));
    }

    #[test]
    fn changes_are_read_from_the_next_lsn_or_from_the_first_that_is_left() {
        assert_eq!(
            decide(Some(5), Some(3), Some(7), 9).unwrap(),
            Next::Range { from: lsn(5).next() }
        );
        assert_eq!(decide(None, Some(3), Some(7), 9).unwrap(), Next::Range { from: lsn(3) });
    }

    #[test]
    fn zeros_are_no_position() {
        assert_eq!(decide(None, None, None, 9).unwrap(), Next::NotReached);
        assert_eq!(decide(Some(5), None, None, 9).unwrap(), Next::NotReached);
        assert_eq!(decide(None, Some(9), None, 5).unwrap(), Next::Nothing);
    }

    #[test]
    fn a_purged_range_is_data_loss() {
        assert!(decide(Some(5), Some(7), Some(9), 9).unwrap_err().is_data_loss());
        assert!(decide(Some(5), Some(6), Some(9), 9).is_ok());
    }

    #[test]
    fn what_an_earlier_plan_found_is_neither_looked_for_again_nor_forgotten() {
        // Nothing lies between 5 and 8, so it does not matter that it was cleaned up.
        let from_8 = || Next::Range { from: lsn(8) };
        assert_eq!(
            decide_after_a_plan(Some(5), Some(8), Some(8), Some(9), 9).unwrap(),
            from_8()
        );
        assert_eq!(
            decide_after_a_plan(None, Some(8), Some(3), Some(9), 9).unwrap(),
            from_8()
        );
        // The first change of the plan is gone, also at the very beginning.
        for position in [Some(5), None] {
            let error = decide_after_a_plan(position, Some(8), Some(9), Some(9), 9).unwrap_err();
            assert!(error.is_data_loss(), "{error}");
            // There is nothing of the table from it on, or the whole server ends before it: another history.
            for (last, max) in [(Some(5), 9), (None, 9), (Some(5), 7)] {
                let error = decide_after_a_plan(position, Some(8), Some(3), last, max).unwrap_err();
                assert!(!error.is_data_loss(), "{error}");
                assert_eq!(error.kind(), ErrorKind::State, "{error}");
            }
        }
    }

    #[test]
    fn what_is_found_first_has_to_be_what_an_earlier_plan_found() {
        let of = |name: &str| CaptureInstance(name.to_owned());
        let first = FirstChange {
            lsn: lsn(8),
            through: of("dbo_t"),
        };
        assert!(first.expect(&of("dbo_t"), Some(lsn(8))).is_ok());
        for found in [Some(lsn(9)), None] {
            assert_eq!(first.expect(&of("dbo_t"), found).unwrap_err().kind(), ErrorKind::State);
            // An instance that captures other columns may not have it.
            assert!(first.expect(&of("dbo_t_v2"), found).is_ok());
        }
    }

    #[test]
    fn a_server_that_went_back_is_not_loss() {
        let error = decide(Some(9), Some(3), Some(5), 5).unwrap_err();
        assert!(!error.is_data_loss());
        assert!(error.to_string().contains("below the position"), "{error}");
    }
}
