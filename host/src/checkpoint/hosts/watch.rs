//! Is it over? One watch for each other process, shared by all streams of this one: a thousand streams of a dead process
//! wait for one lease and not for a thousand.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::lease::{self, Lease, LeaseState, Swap};
use crate::checkpoint::CheckpointError;
use crate::identity::host_name;
use crate::lake::LakeError;
use crate::storage::Place;

/// From one look to the next, at most.
const LOOK: Duration = Duration::from_millis(250);

/// What became of a lease that was watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its process is surely gone.
    Gone,
    /// It was ended. Its process may sleep and wake up.
    RanOut(Lease),
    /// Its process renewed it.
    Renewed(Lease),
}

/// The watches of this process, by lease.
#[derive(Debug, Default)]
pub struct HostWatcher {
    watched: Mutex<HashMap<(Place, String), Watched>>,
}

/// The newest outcome, and when it was found out. Who asks while one is being found out waits for it.
type Watched = Arc<tokio::sync::Mutex<Option<(Outcome, Instant)>>>;

impl HostWatcher {
    /// Watches a lease until it is renewed or over; at most for the time of the lease, which it ends then.
    pub async fn watch(&self, hosts: &Place, id: &str) -> Result<Outcome, CheckpointError> {
        let asked = Instant::now();
        let key = (hosts.clone(), id.to_owned());
        let watched = {
            let mut all = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(key).or_default())
        };
        let mut known = watched.lock().await;
        match &*known {
            Some((outcome, at)) if *at >= asked || !matches!(outcome, Outcome::Renewed(_)) => Ok(outcome.clone()),
            _ => {
                let outcome = watch(hosts, id).await?;
                *known = Some((outcome.clone(), Instant::now()));
                Ok(outcome)
            }
        }
    }
}

async fn watch(hosts: &Place, id: &str) -> Result<Outcome, CheckpointError> {
    let mut beat: Option<Beat> = None;
    loop {
        let looked = Instant::now();
        let (state, bytes) = {
            let (hosts, id) = (hosts.clone(), id.to_owned());
            blocking(move || lease::read(&hosts, &id)).await?
        };
        let lease = match state {
            LeaseState::Missing | LeaseState::Dead(_) => return Ok(Outcome::Gone),
            LeaseState::Ended(lease) => return Ok(Outcome::RanOut(lease)),
            LeaseState::Held(lease) => lease,
        };
        let left = match &beat {
            None => lease.duration(),
            Some(beat) => match beat.seen(lease.beat, looked, lease.duration()) {
                Seen::Renewed => return Ok(Outcome::Renewed(lease)),
                Seen::Same { left } if !left.is_zero() => left,
                Seen::Same { .. } => return end(hosts, lease, bytes).await,
            },
        };
        beat.get_or_insert_with(|| Beat {
            beat: lease.beat,
            since: Instant::now(),
        });
        tokio::time::sleep(left.min(LOOK).min(lease.duration() / 10)).await;
    }
}

/// A beat, and when it had been read.
#[derive(Debug)]
struct Beat {
    beat: u64,
    since: Instant,
}

/// What a further look says.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Renewed,
    /// The same beat; how long it has to be seen further.
    Same {
        left: Duration,
    },
}

impl Beat {
    /// A look that began at `looked` found `beat`.
    fn seen(&self, beat: u64, looked: Instant, lease: Duration) -> Seen {
        if beat != self.beat {
            return Seen::Renewed;
        }
        Seen::Same {
            left: lease.saturating_sub(looked.saturating_duration_since(self.since)),
        }
    }
}

/// Ends a lease that ran out, unless it is renewed in this instant.
async fn end(hosts: &Place, lease: Lease, read: Vec<u8>) -> Result<Outcome, CheckpointError> {
    let hosts = hosts.clone();
    blocking(move || {
        let by = format!("process {} on host {}", std::process::id(), host_name());
        if let Swap::Done(_) = lease::end(&hosts, &lease, &read, by)? {
            return Ok(Outcome::RanOut(lease));
        }
        Ok(match lease::look(&hosts, &lease.id)? {
            LeaseState::Missing | LeaseState::Dead(_) => Outcome::Gone,
            LeaseState::Ended(lease) => Outcome::RanOut(lease),
            LeaseState::Held(lease) => Outcome::Renewed(lease),
        })
    })
    .await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CheckpointError> + Send + 'static,
) -> Result<T, CheckpointError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| LakeError::Internal("a task that looked at a lease ended abruptly".to_owned()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    #[test]
    fn a_lease_is_over_when_the_same_beat_was_seen_for_the_whole_of_it() {
        let since = Instant::now();
        let beat = Beat { beat: 7, since };
        let seen = |beat_now, after| beat.seen(beat_now, since + Duration::from_secs(after), LEASE);
        let left = |seconds| Seen::Same {
            left: Duration::from_secs(seconds),
        };
        assert_eq!(seen(7, 0), left(15));
        assert_eq!(seen(7, 14), left(1));
        assert_eq!(seen(7, 15), left(0));
        assert_eq!(seen(7, 900), left(0));
    }

    #[test]
    fn another_beat_is_life_however_late_it_is_seen() {
        let since = Instant::now();
        let beat = Beat { beat: 7, since };
        for after in [0, 14, 900] {
            assert_eq!(beat.seen(8, since + Duration::from_secs(after), LEASE), Seen::Renewed);
        }
    }

    #[test]
    fn a_look_that_began_before_the_first_was_done_counts_as_no_time() {
        let looked = Instant::now();
        let beat = Beat {
            beat: 7,
            since: looked + Duration::from_secs(20),
        };
        assert_eq!(beat.seen(7, looked, LEASE), Seen::Same { left: LEASE });
    }
}
