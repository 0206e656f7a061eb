//! One writer at a time, with a timeout: SQLite's own lock is never waited for in a busy loop, and never fails.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::interrupt::Interrupt;

/// How often a waiting session looks at its client.
const LOOK: Duration = Duration::from_millis(20);

/// How waiting for a gate ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locked {
    Yes,
    TimedOut,
    Interrupted,
}

/// A lock that is not bound to a scope: a session takes it at its first write and gives it back at commit.
#[derive(Default)]
pub struct Gate {
    held: Mutex<bool>,
    freed: Condvar,
}

impl Gate {
    /// Waits for the gate, however long.
    pub fn lock(&self) {
        let mut held = self.held.lock();
        while *held {
            self.freed.wait(&mut held);
        }
        *held = true;
    }

    /// Waits for the gate until the timeout (`None` waits for ever), or until the client wants no more.
    pub fn lock_for(&self, timeout: Option<Duration>, interrupt: &Interrupt) -> Locked {
        let mut held = self.held.lock();
        let deadline = timeout.map(|t| Instant::now() + t);
        while *held {
            let now = Instant::now();
            if deadline.is_some_and(|at| at <= now) {
                return Locked::TimedOut;
            }
            let look = now + LOOK;
            self.freed
                .wait_until(&mut held, deadline.map_or(look, |at| at.min(look)));
            if *held && interrupt.asked() {
                return Locked::Interrupted;
            }
        }
        *held = true;
        Locked::Yes
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
