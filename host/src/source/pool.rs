//! Connections that are lent out, for either driver: at most so many at a time, and kept for the next user when the one
//! before left them clean. What is not given back is closed: a cancelled or half-read connection never serves again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::SourceError;

/// A connection that was idle for longer is not used again: a firewall may have forgotten it without a word.
const LONGEST_IDLE: Duration = Duration::from_secs(60);

/// Idle connections, and places for those in use.
pub(super) struct Pool<C> {
    shelf: Arc<Shelf<C>>,
    places: Arc<Semaphore>,
}

struct Shelf<C> {
    idle: Mutex<Vec<(C, Instant)>>,
}

/// The right to one connection. The place is free again when this is dropped.
pub(super) struct Place<C> {
    shelf: Arc<Shelf<C>>,
    _permit: OwnedSemaphorePermit,
}

impl<C> Clone for Pool<C> {
    fn clone(&self) -> Pool<C> {
        Pool {
            shelf: Arc::clone(&self.shelf),
            places: Arc::clone(&self.places),
        }
    }
}

impl<C> Pool<C> {
    /// A pool of at most `size` connections.
    pub(super) fn new(size: usize) -> Pool<C> {
        Pool {
            shelf: Arc::new(Shelf {
                idle: Mutex::new(Vec::new()),
            }),
            places: Arc::new(Semaphore::new(size)),
        }
    }

    /// Waits for a place. An idle connection comes with it, if there is one; its user makes one otherwise.
    pub(super) async fn place(&self) -> Result<(Place<C>, Option<C>), SourceError> {
        let permit = Arc::clone(&self.places)
            .acquire_owned()
            .await
            .map_err(|_| SourceError::Broken {
                doing: "waiting for a connection".to_owned(),
                reason: "the pool is closed".to_owned(),
            })?;
        let place = Place {
            shelf: Arc::clone(&self.shelf),
            _permit: permit,
        };
        let idle = {
            let mut idle = place.shelf.lock();
            idle.retain(|(_, since)| since.elapsed() < LONGEST_IDLE);
            idle.pop()
        };
        Ok((place, idle.map(|(connection, _)| connection)))
    }
}

impl<C> Place<C> {
    /// Keeps a connection that is clean for the next user.
    pub(super) fn keep(&self, connection: C) {
        self.shelf.lock().push((connection, Instant::now()));
    }
}

impl<C> Shelf<C> {
    fn lock(&self) -> MutexGuard<'_, Vec<(C, Instant)>> {
        // A panic while a plain list was pushed or popped leaves a usable list.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_place_is_taken_by_one_and_what_is_not_kept_is_gone() {
        let pool: Pool<u8> = Pool::new(2);
        let (first, none) = pool.place().await.unwrap();
        let (second, _) = pool.place().await.unwrap();
        assert_eq!(none, None);
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { pool.place().await.map(|(_, idle)| idle) }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        first.keep(7);
        drop(first);
        assert_eq!(waiting.await.unwrap().unwrap(), Some(7));
        drop(second);
        assert_eq!(pool.place().await.unwrap().1, None);
    }
}
