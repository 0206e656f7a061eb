//! A plan that is gone after its batch left rows in quarantine: these say that there was one. What it pinned cannot be told, so the
//! batch is planned anew, as an attempt after all that left rows. Where whoever planned it may still end it, it is closed without
//! rows, as every open batch is then.

use crate::checkpoint::{ATTEMPTS, Resume, StateError};
use crate::identity::BatchId;
use crate::quarantine::AttemptAt;

/// What becomes of the next batch, which has no plan and has rows in quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LostPlan {
    /// It is planned anew, as this attempt.
    Anew(AttemptAt),
    /// It is closed without rows.
    Closed(BatchId),
}

impl LostPlan {
    /// By the newest attempt that has rows. `alone`: whoever planned it is gone, and has written what it ever will.
    pub(super) fn of(newest: AttemptAt, resume: &Resume, alone: bool) -> Result<Option<LostPlan>, StateError> {
        let next = match resume {
            Resume::Fresh => BatchId(0),
            Resume::Continue { next, .. } => *next,
            // An attempt at it is planned, and its course says what becomes of it.
            Resume::Replay { .. } => return Ok(None),
        };
        if newest.batch != next {
            return Ok(None);
        }
        if !alone {
            return Ok(Some(LostPlan::Closed(next)));
        }
        let attempt = newest.attempt + 1;
        if attempt >= ATTEMPTS {
            return Err(StateError::TooManyAttempts {
                batch: next,
                attempts: ATTEMPTS,
            });
        }
        Ok(Some(LostPlan::Anew(AttemptAt { batch: next, attempt })))
    }
}

/// Why a batch is planned anew as this attempt.
pub(super) fn reason(anew: AttemptAt) -> String {
    format!(
        "its plan is lost, and attempt {} had put rows into quarantine",
        anew.attempt.saturating_sub(1)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::samples::{offset, planned};

    fn at(batch: i64, attempt: u32) -> AttemptAt {
        AttemptAt {
            batch: BatchId(batch),
            attempt,
        }
    }

    #[test]
    fn rows_of_the_next_batch_say_that_it_was_planned() {
        let next = |batch| Resume::Continue {
            next: BatchId(batch),
            from: offset(70),
        };
        for (newest, resume, lost) in [
            (at(7, 2), next(7), Some(LostPlan::Anew(at(7, 3)))),
            (at(0, 0), Resume::Fresh, Some(LostPlan::Anew(at(0, 1)))),
            // It is done, or it cannot have been planned.
            (at(6, 0), next(7), None),
            (at(8, 0), next(7), None),
            (at(1, 0), Resume::Fresh, None),
        ] {
            assert_eq!(LostPlan::of(newest, &resume, true).unwrap(), lost, "{newest}");
            let closed = lost.map(|_| LostPlan::Closed(newest.batch));
            assert_eq!(LostPlan::of(newest, &resume, false).unwrap(), closed, "{newest}");
        }
        let planned = Resume::Replay {
            planned: Box::new(planned(7, 0)),
            already_in_bronze: false,
        };
        assert_eq!(LostPlan::of(at(7, 1), &planned, true).unwrap(), None);
        let too_many = LostPlan::of(at(7, 999), &next(7), true).unwrap_err().to_string();
        assert!(too_many.contains("batch 7 has had 1000 attempts"), "{too_many}");
        assert_eq!(
            reason(at(7, 3)),
            "its plan is lost, and attempt 2 had put rows into quarantine"
        );
    }
}
