//! The hour that a clock shows twice when it goes back, and which pass a commit belongs to.
//!
//! The local time of a commit in that hour means two instants. LSNs rise with time, so in LSN order the local times of the
//! mapping rise, fall back once by nearly the length of the repetition, and rise again; from that fall on, commits are of the
//! second pass. A database that is read has an entry at least every five minutes, so the fall is seen. Where there is none
//! (capture or the server stood still for one of the passes), nothing tells: the first pass is taken, so that no verdict is
//! ahead of a commit that is still to come.

use serde::{Deserialize, Serialize};

use crate::lsn::{Lsn, UtcMicros};

/// An hour that is shown twice (half an hour on Lord Howe Island): local times from `from_local` up to, and without,
/// `to_local`, in microseconds since 1970 on the server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepeatedHour {
    /// The first local time of it.
    pub from_local: i64,
    /// The first after it.
    pub to_local: i64,
    /// When the second pass begins.
    pub change: UtcMicros,
}

/// Where second passes begin, as far as commits of a range lie in repeated hours. A plan pins it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Repeated {
    second_passes: Vec<SecondPass>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct SecondPass {
    /// The change of the clock.
    change: UtcMicros,
    /// The first commit after it. `None`: none is known.
    from: Option<Lsn>,
}

impl Repeated {
    /// Whether it is known where, or that nowhere, the second pass of an hour begins.
    pub fn knows(&self, hour: RepeatedHour) -> bool {
        self.second_passes.iter().any(|pass| pass.change == hour.change)
    }

    /// Notes where a second pass begins; `None` where no commit tells.
    pub fn note(&mut self, hour: RepeatedHour, from: Option<Lsn>) {
        self.second_passes.retain(|pass| pass.change != hour.change);
        self.second_passes.push(SecondPass {
            change: hour.change,
            from,
        });
    }

    /// Whether a commit whose local time lies in the hour was made in its second pass.
    pub fn is_second_pass(&self, lsn: Lsn, hour: RepeatedHour) -> bool {
        self.second_passes
            .iter()
            .any(|pass| pass.change == hour.change && pass.from.is_some_and(|from| lsn >= from))
    }

    /// No commit of the range lies in a repeated hour.
    pub fn is_empty(&self) -> bool {
        self.second_passes.is_empty()
    }
}
