//! What a process finds out about its source, for all of its connections.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::connect::Target;
use super::token::TokenCache;
use super::verify::Verified;

/// The user that a database has for logins without one of their own, where that is allowed.
const GUEST: &str = "guest";

/// One for all clones of a [`crate::config::SourceSettings`].
#[derive(Debug, Default)]
pub struct Learned {
    /// A login of this process was in the database.
    entered: AtomicBool,
    /// The login's name as a user of the database.
    principal: Mutex<Option<String>>,
    /// Where the server sends logins on to.
    route: Mutex<Option<Target>>,
    /// The access token in use.
    pub(super) tokens: TokenCache,
    /// Server certificates that an authority of `ca_file` has signed.
    pub(super) verified: Verified,
}

impl Learned {
    /// Whether this process was in the database before. Then a database that cannot be opened is away, and its name and
    /// the grant are right.
    pub(super) fn was_in(&self) -> bool {
        self.entered.load(Ordering::Acquire)
    }

    pub(super) fn came_in(&self) {
        self.entered.store(true, Ordering::Release);
    }

    /// The login's name as a user of the database; `None` before the first login, and when the login is no user there.
    pub(super) fn principal(&self) -> Option<String> {
        lock(&self.principal).clone()
    }

    /// The server that the last login was sent on to, if it was.
    pub(super) fn at(&self) -> Option<Target> {
        lock(&self.route).clone()
    }

    pub(super) fn is_at(&self, target: Option<Target>) {
        *lock(&self.route) = target;
    }

    /// The last login came in under this name. As `guest` it is no user of the database: what is granted to `guest`, every
    /// login of the server may.
    pub(super) fn is_principal(&self, name: &str) {
        *lock(&self.principal) = (name != GUEST).then(|| name.to_owned());
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while a value was copied leaves a usable value.
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
