//! One writer at a time, with a timeout: SQLite's own lock is never waited for in a busy loop, and never fails.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// A lock that is not bound to a scope: a session takes it at its first write and gives it back at commit.
#[derive(Default)]
pub struct Gate {
    held: Mutex<bool>,
    freed: Condvar,
}

impl Gate {
    /// Waits for the gate; `None` waits for ever. Whether it was had in time.
    pub fn lock(&self, timeout: Option<Duration>) -> bool {
        let mut held = self.held.lock();
        let deadline = timeout.map(|t| Instant::now() + t);
        while *held {
            match deadline {
                None => self.freed.wait(&mut held),
                Some(at) => {
                    if self.freed.wait_until(&mut held, at).timed_out() && *held {
                        return false;
                    }
                }
            }
        }
        *held = true;
        true
    }

    /// Takes the gate if it is free.
    pub fn try_lock(&self) -> bool {
        let mut held = self.held.lock();
        !std::mem::replace(&mut *held, true)
    }

    /// Gives the gate back. Only its holder may.
    pub fn unlock(&self) {
        *self.held.lock() = false;
        self.freed.notify_one();
    }
}
