//! Where the stream is, and what comes next.

use crate::checkpoint::PlannedBatch;
use crate::config::StartingLsn;
use crate::identity::CaptureInstance;
use crate::lsn::{Lsn, Offset};
use crate::source::{Poll, SourceError, SourceTable, TablePoll, Wanted};

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
    /// No change of this table is seen up to this commit, and none may have been cleaned up: that has to be asked for before the
    /// position moves.
    Unconfirmed(Offset),
    /// The stream begins after this commit.
    Begin(Offset),
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
    pub(super) fn expect(&self, table: &SourceTable, found: Option<Lsn>) -> Result<(), StreamError> {
        let instance = &table.instances[table.in_force(self.lsn)].name;
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

/// What a stream goes by.
pub(super) struct Bearings<'a> {
    /// Its table.
    pub(super) table: &'a SourceTable,
    /// The capture instance that gives the stream its name.
    pub(super) named: &'a CaptureInstance,
    /// The last commit in bronze; `None` at the very beginning.
    pub(super) position: Option<Offset>,
    /// The first change of the next batch, where an earlier plan found it.
    pub(super) first: Option<&'a FirstChange>,
    /// No commit lies between the position and this LSN.
    pub(super) floor: Option<Lsn>,
    /// Where a stream without a position begins.
    pub(super) starting: StartingLsn,
}

impl Bearings<'_> {
    /// Decides, by what a poll saw. `max` is the last commit to read now.
    pub(super) fn next(&self, poll: &Poll, max: Offset) -> Result<Next, StreamError> {
        let known = self.position.map(|position| position.lsn);
        let known = known.max(self.first.map(|first| first.lsn));
        if let Some(known) = known.filter(|known| poll.max.lsn < *known) {
            return Err(SourceError::WentBack {
                capture_instance: self.named.clone(),
                max_lsn: poll.max.lsn,
                position: known,
            }
            .into());
        }
        let first_lsn = self.first.map(|first| first.lsn);
        let (from, instance) = match (self.position, first_lsn, self.starting) {
            (Some(position), first, _) => {
                let from = position.lsn.next().max(first.unwrap_or(Lsn::ZERO));
                let from = from.max(self.floor.unwrap_or(Lsn::ZERO));
                (from, self.table.in_force(from))
            }
            (None, Some(first), _) => (first, self.table.in_force(first)),
            (None, None, StartingLsn::Latest) => return Ok(Next::Begin(poll.max)),
            (None, None, StartingLsn::At(lsn)) => (lsn, self.table.in_force(lsn)),
            (None, None, StartingLsn::Earliest) => (Lsn::ZERO, 0),
        };
        let Some(Seen { min_lsn, .. }) = seen(poll, &self.table.instances[instance].name)? else {
            return Ok(Next::Nothing);
        };
        // Capture has not reached it, or a grant went away. Neither is a position.
        let Some(min_lsn) = min_lsn else {
            return Ok(Next::NotReached);
        };
        let from = match from == Lsn::ZERO {
            true => self.table.instances[instance]
                .start_lsn
                .map_or(min_lsn, |start| start.max(min_lsn)),
            false => from,
        };
        if from < min_lsn {
            return Err(self.lost(from, min_lsn, poll, max));
        }
        if self.position.is_none()
            && first_lsn.is_none()
            && from > poll.max.lsn
            && self.starting != StartingLsn::Earliest
        {
            return Err(self.refused("lies after the last commit that is captured", min_lsn, poll));
        }
        if max.lsn < from {
            return Ok(Next::Nothing);
        }
        let mut newest = None;
        // What cleanup took from an instance that takes over is not to be seen in its last change.
        let mut is_whole = true;
        let mut is_confirmed = true;
        for piece in self.table.pieces(from, max.lsn) {
            match seen(poll, &self.table.instances[piece.instance].name)? {
                Some(seen) => {
                    newest = newest.max(seen.last_lsn);
                    is_whole &= seen.min_lsn.is_some_and(|min_lsn| min_lsn <= piece.from);
                    is_confirmed &= seen.confirmed;
                }
                // The poller was not told of it yet.
                None => return Ok(Next::Nothing),
            }
        }
        if newest.is_some_and(|last| last >= from) || !is_whole {
            return Ok(Next::Range { from });
        }
        if let Some(first) = self.first
            && is_confirmed
        {
            first.expect(self.table, None)?;
        }
        // An instance that takes over can have changes that the others do not: up to where all are known, there is none.
        let known = match poll.listed.up_to {
            up_to if up_to.lsn < max.lsn => up_to,
            _ => max,
        };
        match self.position {
            Some(position) if known.lsn <= position.lsn => Ok(Next::Nothing),
            _ if known.lsn < from => Ok(Next::Nothing),
            _ if !is_confirmed => Ok(Next::Unconfirmed(known)),
            _ => Ok(Next::Idle(known)),
        }
    }

    fn lost(&self, from: Lsn, min_lsn: Lsn, poll: &Poll, max: Offset) -> StreamError {
        if self.position.is_none() && self.first.is_none() {
            return self.refused("lies before the first change that is left", min_lsn, poll);
        }
        let wanted = Wanted {
            from,
            to: max.lsn,
            after: self.position,
        };
        wanted.purged(self.named, min_lsn).into()
    }

    fn refused(&self, problem: &'static str, min_lsn: Lsn, poll: &Poll) -> StreamError {
        SourceError::StartingLsn {
            capture_instance: self.named.clone(),
            starting: match self.starting {
                StartingLsn::At(lsn) => lsn,
                StartingLsn::Earliest | StartingLsn::Latest => min_lsn,
            },
            problem,
            min_lsn,
            max_lsn: poll.max.lsn,
        }
        .into()
    }
}

/// What a poll saw of an instance.
struct Seen {
    /// The first LSN that is left, as of when it was asked last.
    min_lsn: Option<Lsn>,
    /// The newest change.
    last_lsn: Option<Lsn>,
    /// The one was asked after the other.
    confirmed: bool,
}

/// `None`: it was not asked about.
fn seen(poll: &Poll, instance: &CaptureInstance) -> Result<Option<Seen>, StreamError> {
    match poll.table(instance) {
        Some(TablePoll::Ready {
            min_lsn,
            last_lsn,
            confirmed,
            ..
        }) => Ok(Some(Seen {
            min_lsn: *min_lsn,
            last_lsn: *last_lsn,
            confirmed: *confirmed,
        })),
        Some(TablePoll::Failed(error)) => Err(std::sync::Arc::clone(error).into()),
        None => Ok(None),
    }
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
        decide_from(StartingLsn::Earliest, position, first, min, last, max)
    }

    fn decide_from(
        starting: StartingLsn,
        position: Option<u8>,
        first: Option<u8>,
        min: Option<u8>,
        last: Option<u8>,
        max: u8,
    ) -> Result<Next, StreamError> {
        let named = CaptureInstance("dbo_t".to_owned());
        let first = first.map(|n| FirstChange {
            lsn: lsn(n),
            through: named.clone(),
        });
        let bearings = Bearings {
            table: &SourceTable::for_test(&[("dbo_t", None)]),
            named: &named,
            position: position.map(at),
            first: first.as_ref(),
            floor: None,
            starting,
        };
        bearings.next(&polled(&[("dbo_t", min, last)], max), at(max))
    }

    fn polled(instances: &[(&str, Option<u8>, Option<u8>)], max: u8) -> Poll {
        let of = |(name, min, last): &(&str, Option<u8>, Option<u8>)| {
            let ready = TablePoll::Ready {
                min_lsn: min.map(lsn),
                min_commit_ts: None,
                last_lsn: last.map(lsn),
                confirmed: true,
            };
            (CaptureInstance((*name).to_owned()), ready)
        };
        Poll::for_test(at(max), instances.iter().map(of).collect())
    }

    #[test]
    fn a_stream_begins_where_the_configuration_says() {
        let begin = |starting, min, max| decide_from(starting, None, None, Some(min), Some(8), max);
        assert_eq!(begin(StartingLsn::Latest, 3, 9).unwrap(), Next::Begin(at(9)));
        assert_eq!(
            begin(StartingLsn::At(lsn(5)), 3, 9).unwrap(),
            Next::Range { from: lsn(5) }
        );
        for (starting, min, max) in [(2, 3, 9), (10, 3, 9)] {
            let error = begin(StartingLsn::At(lsn(starting)), min, max).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(!error.is_data_loss());
        }
        // With a position, it says nothing.
        for starting in [StartingLsn::Latest, StartingLsn::At(lsn(2))] {
            assert_eq!(
                decide_from(starting, Some(5), None, Some(3), Some(8), 9).unwrap(),
                Next::Range { from: lsn(5).next() }
            );
        }
    }

    #[test]
    fn below_the_switch_the_older_instance_counts_and_from_it_on_the_newer() {
        let named = CaptureInstance("v1".to_owned());
        let table = SourceTable::for_test(&[("v1", Some(lsn(1))), ("v2", Some(lsn(6)))]);
        let decide = |position: u8, v1: (Option<u8>, Option<u8>), v2: (Option<u8>, Option<u8>)| {
            let bearings = Bearings {
                table: &table,
                named: &named,
                position: Some(at(position)),
                first: None,
                floor: None,
                starting: StartingLsn::Earliest,
            };
            bearings.next(&polled(&[("v1", v1.0, v1.1), ("v2", v2.0, v2.1)], 9), at(9))
        };
        let range = |position: u8| Next::Range {
            from: lsn(position).next(),
        };
        assert_eq!(decide(3, (Some(1), Some(3)), (Some(6), Some(8))).unwrap(), range(3));
        // What the older one has from the switch on is in the newer one too.
        assert_eq!(
            decide(7, (Some(1), Some(8)), (Some(6), Some(7))).unwrap(),
            Next::Idle(at(9))
        );
        assert_eq!(decide(7, (None, None), (Some(6), Some(8))).unwrap(), range(7));
        assert_eq!(decide(3, (None, None), (Some(6), Some(8))).unwrap(), Next::NotReached);
        assert!(
            decide(3, (Some(5), Some(8)), (Some(6), Some(8)))
                .unwrap_err()
                .is_data_loss()
        );
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
    fn a_position_passes_what_has_no_changes_only_when_both_ends_were_asked_for() {
        let table = SourceTable::for_test(&[("t", None)]);
        let named = CaptureInstance("t".to_owned());
        let first = FirstChange {
            lsn: lsn(8),
            through: named.clone(),
        };
        let decide = |position: Option<u8>, first: Option<&FirstChange>, last: Option<u8>, confirmed: bool| {
            let ready = TablePoll::Ready {
                min_lsn: Some(lsn(3)),
                min_commit_ts: None,
                last_lsn: last.map(lsn),
                confirmed,
            };
            let bearings = Bearings {
                table: &table,
                named: &named,
                position: position.map(at),
                first,
                floor: None,
                starting: StartingLsn::Earliest,
            };
            bearings.next(&Poll::for_test(at(9), vec![(named.clone(), ready)]), at(9))
        };
        for position in [Some(5), None] {
            assert_eq!(decide(position, None, None, false).unwrap(), Next::Unconfirmed(at(9)));
            assert_eq!(decide(position, None, None, true).unwrap(), Next::Idle(at(9)));
            // That the first change of an earlier plan is gone is no other history before that either.
            assert_eq!(
                decide(position, Some(&first), None, false).unwrap(),
                Next::Unconfirmed(at(9))
            );
            assert!(decide(position, Some(&first), None, true).is_err());
        }
        // What is there is read, and the read asks for both ends itself.
        assert_eq!(
            decide(Some(5), None, Some(7), false).unwrap(),
            Next::Range { from: lsn(5).next() }
        );
        assert_eq!(decide(Some(9), None, Some(7), false).unwrap(), Next::Nothing);
    }

    #[test]
    fn what_is_found_first_has_to_be_what_an_earlier_plan_found() {
        let of = |name: &str| SourceTable::for_test(&[(name, None)]);
        let first = FirstChange {
            lsn: lsn(8),
            through: CaptureInstance("dbo_t".to_owned()),
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
