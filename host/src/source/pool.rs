//! Connections that are lent out, for either driver: at most so many at a time, and kept for the next user when the one
//! before left them clean. What is not given back is closed: a cancelled or half-read connection never serves again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::scheduler::{Share, Turn, Turns};

/// A connection that was idle for longer is not used again: a firewall may have forgotten it without a word.
const LONGEST_IDLE: Duration = Duration::from_secs(60);

/// Idle connections, and places for those in use.
pub(super) struct Pool<C> {
    shelf: Arc<Shelf<C>>,
    places: Turns,
}

struct Shelf<C> {
    idle: Mutex<Vec<(C, Instant)>>,
}

/// The right to one connection. The place is free again when this is dropped.
pub(super) struct Place<C> {
    shelf: Arc<Shelf<C>>,
    _turn: Turn,
}

impl<C> Clone for Pool<C> {
    fn clone(&self) -> Pool<C> {
        Pool {
            shelf: Arc::clone(&self.shelf),
            places: self.places.clone(),
        }
    }
}

impl<C> Pool<C> {
    /// A pool of as many connections as there are units.
    pub(super) fn new(places: Turns) -> Pool<C> {
        Pool {
            shelf: Arc::new(Shelf {
                idle: Mutex::new(Vec::new()),
            }),
            places,
        }
    }

    /// Waits for a place. An idle connection comes with it, if there is one; its user makes one otherwise.
    pub(super) async fn place(&self, share: Share, long: bool) -> (Place<C>, Option<C>) {
        let turn = match long {
            true => self.places.take_long(share, 1).await,
            false => self.places.take(share, 1).await,
        };
        let place = Place {
            shelf: Arc::clone(&self.shelf),
            _turn: turn,
        };
        let idle = {
            let mut idle = place.shelf.lock();
            idle.retain(|(_, since)| since.elapsed() < LONGEST_IDLE);
            idle.pop()
        };
        (place, idle.map(|(connection, _)| connection))
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
        let pool: Pool<u8> = Pool::new(Turns::new(2));
        let (first, none) = pool.place(Share::of(0), false).await;
        let (second, _) = pool.place(Share::of(0), false).await;
        assert_eq!(none, None);
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { pool.place(Share::of(0), true).await.1 }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        first.keep(7);
        drop(first);
        assert_eq!(waiting.await.unwrap(), Some(7));
        drop(second);
        assert_eq!(pool.place(Share::of(0), false).await.1, None);
    }
}
