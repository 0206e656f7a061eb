//! How often, and after which pause, a transient failure is tried again.

use std::time::Duration;

use crate::error::ErrorKind;

/// Attempts at one step before its failure becomes the table's.
pub const MAX_ATTEMPTS: u32 = 8;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// The pause before the next attempt, after `failures` failures in a row. `None`: no further attempt.
pub fn pause(kind: ErrorKind, failures: u32) -> Option<Duration> {
    if kind != ErrorKind::Retryable || failures >= MAX_ATTEMPTS {
        return None;
    }
    let pause = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1)));
    // A little randomness keeps many tables from coming back in step.
    Some(pause.min(LONGEST_PAUSE).mul_f64(rand::random_range(0.75..1.25)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_transient_failures_are_retried_and_not_for_ever() {
        assert!(pause(ErrorKind::Retryable, 1).is_some_and(|p| p < Duration::from_secs(1)));
        assert!(pause(ErrorKind::Retryable, MAX_ATTEMPTS - 1).is_some_and(|p| p <= Duration::from_secs(19)));
        assert_eq!(pause(ErrorKind::Retryable, MAX_ATTEMPTS), None);
        for kind in [
            ErrorKind::Config,
            ErrorKind::DataLoss,
            ErrorKind::SchemaChanged,
            ErrorKind::ComponentRefused,
            ErrorKind::State,
            ErrorKind::Internal,
        ] {
            assert_eq!(pause(kind, 1), None, "{kind:?}");
        }
    }
}
