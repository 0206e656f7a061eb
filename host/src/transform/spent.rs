//! Where the time of a chunk goes. Wall time of the thread that takes it through the chain; it says nothing of what comes
//! out, and a replay spends other times.

use std::ops::AddAssign;
use std::time::Duration;

/// Wall time of the parts of one chunk, all transforms together. What is left of [`super::Applied::elapsed`] is taking the
/// chunk apart and putting it together again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Making instances, opening them for the table, and throwing them away.
    pub instances: Duration,
    /// Calls of `apply`: the component's own code, the copies of columns that go in and come out, and [`Spent::keyed`].
    pub calls: Duration,
    /// What the host computed with keys during the calls, without the copies of columns.
    pub keyed: Duration,
    /// Checking what came back, and making arrays of it.
    pub checks: Duration,
    /// Looking for raw values of protected columns.
    pub leak_check: Duration,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Spent) {
        self.instances += other.instances;
        self.calls += other.calls;
        self.keyed += other.keyed;
        self.checks += other.checks;
        self.leak_check += other.leak_check;
    }
}
