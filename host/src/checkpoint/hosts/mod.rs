//! Leases, for checkpoints that several machines share: one file a process, `hosts/<id>.json`.
//!
//! A process raises the `beat` in its file three times a lease. Who wants a stream whose owner does not do so looks at the
//! file for a whole lease by its own clock; when the beat stayed the same, it ends the lease in the file. The clocks of two
//! machines are never compared. Both write by compare-and-replace, so the owner learns of its end at its next renewal.
//!
//! A lease only decides who may try. It can be ended while its process sleeps and wakes up later, and a store that shows
//! old content can mislead both sides: what keeps bronze right is the fence (`docs/decisions/0009`).
//!
//! On one machine nobody needs to wait for a process that is dead: for its life a process holds the operating system's
//! lock on `hosts/<id>.lock`. A free lock is believed only when the process ran since the same start of the same kernel,
//! and saw the folder through the same mount: elsewhere a lock need not be seen.

mod held;
mod lease;
#[cfg(test)]
mod tests;
mod watch;

pub use held::{LeaseLost, ProcessLease};
pub use lease::{Ended, Lease, LeaseState, look};
pub use watch::{HostWatcher, Outcome};

pub(crate) use lease::others;
pub(in crate::checkpoint) use lease::{lease_file, lease_of_owner};
