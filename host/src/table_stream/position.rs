//! Where the stream is, and what comes next.

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

/// Decides. `position` is the last commit in bronze (`None` at the very beginning), `max` the last to read now.
pub(super) fn next(
    instance: &CaptureInstance,
    position: Option<Offset>,
    start_lsn: Option<Lsn>,
    poll: &Poll,
    max: Offset,
) -> Result<Next, StreamError> {
    let (min_lsn, last_lsn) = match poll.table(instance) {
        Some(TablePoll::Ready { min_lsn, last_lsn, .. }) => (*min_lsn, *last_lsn),
        Some(TablePoll::Failed(error)) => return Err(std::sync::Arc::clone(error).into()),
        None => return Ok(Next::Nothing),
    };
    let from = match (position, min_lsn) {
        (Some(position), _) if poll.max.lsn < position.lsn => {
            return Err(SourceError::WentBack {
                capture_instance: instance.clone(),
                max_lsn: poll.max.lsn,
                position: position.lsn,
            }
            .into());
        }
        (Some(position), Some(min_lsn)) if position.lsn.next() < min_lsn => {
            let wanted = Wanted {
                from: position.lsn.next(),
                to: max.lsn,
                after: Some(position),
            };
            return Err(wanted.purged(instance, min_lsn).into());
        }
        // Capture has not reached it, or a grant went away. Neither is a position.
        (_, None) => return Ok(Next::NotReached),
        (Some(position), Some(_)) => position.lsn.next(),
        (None, Some(min_lsn)) => start_lsn.map_or(min_lsn, |start| start.max(min_lsn)),
    };
    if max.lsn < from {
        return Ok(Next::Nothing);
    }
    Ok(match last_lsn {
        Some(last) if last >= from => Next::Range { from },
        _ => Next::Idle(max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let instance = CaptureInstance("dbo_t".to_owned());
        let table = TablePoll::Ready {
            min_lsn: min.map(lsn),
            min_commit_ts: None,
            last_lsn: last.map(lsn),
        };
        let poll = Poll::for_test(at(max), vec![(instance.clone(), table)]);
        next(&instance, position.map(at), None, &poll, at(max))
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
    fn a_server_that_went_back_is_not_loss() {
        let error = decide(Some(9), Some(3), Some(5), 5).unwrap_err();
        assert!(!error.is_data_loss());
        assert!(error.to_string().contains("below the position"), "{error}");
    }
}
