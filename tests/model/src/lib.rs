//! The exactly-once protocol (`docs/decisions/0009-exactly-once.md`), played by two owners on stores that fail.
//!
//! # What is modelled
//! * A source that grows and is cleaned up, whose clock's offset can change, with rows of two streams; chains that keep,
//!   quarantine or filter a row, always the same ([`stores::fate`]).
//! * What outlives a process ([`stores`]): the checkpoint's files, the hosts' leases, and the logs of bronze, quarantine,
//!   facts and control. A write succeeds, succeeds and says nothing, does nothing, arrives later (also after its process
//!   died, or another took the stream), or is answered with "exists" though nothing is there. A read gives no answer. Files
//!   of a checkpoint are lost or torn, in schedules of their own: then a refusal is right, and wrong rows are not.
//! * Processes ([`play`]), two at a time: a task a stream and one that publishes facts and verdicts for all of them. A
//!   process is an `async` function that is polled once a step, and a step is one interaction with a store. Between any
//!   two it can be killed (which loses its memory), stand still, wake up, be asked to stop, or fail while it opens a stream
//!   and open it again; the other can take a step, and the configuration can change.
//! * Ownership by lock and by lease. Under a lease `owner.json` is replaced blindly: between the look at it and the write
//!   another machine can write it, two count to one number, and an earlier write can replace a later one. A lease is given
//!   back, or it runs out, or its process is killed where that is seen, or where it looks as if the process slept. Taking
//!   over, closing of what is open, new attempts (mode "lock"), idle positions, events.
//!
//! # What is not
//! Snapshots, generations, capture instances, components' bytes, pruning, two checkpoints on one lake, a lost `owner.json`,
//! a stream that changes between lock and lease, repairs (so `taken_from` is written, and nobody relies on it), a folder of
//! leases that is not seen, two machines that write one lease's file at once, and what is inside of a step: a read of a
//! range is whole or refused (`source/bounds.rs`), a put is atomic (`lake/durable.rs`).
//!
//! # How it is used
//! [`schedule`] plays what a seed says and checks after every step ([`check`]), and then lets both owners run undisturbed:
//! everything has to be delivered, or to be refused for a reason that the protocol has. [`exhaustive`] plays every order of
//! small configurations; under leases, processes change turns, are killed and stand still at the moments that matter
//! ([`config::Config::moments`]). [`planted`] lists rules and assumptions that can be left out; each is missed by some seed, or in some order.
//!
//! A schedule that fails prints its seed and its steps. `SLUICE_SEED=<seed> cargo nextest run -p sluice-model
//! --no-capture replays_one_seed` plays it again; `SLUICE_PLANTED=<name>` beside it leaves a rule out.
//! `SLUICE_MODEL_SCHEDULES=<n>` says how many seeds the tests play.

pub mod check;
pub mod choice;
mod commit;
pub mod config;
#[cfg(test)]
mod directed;
mod disturb;
pub mod exhaustive;
mod open;
mod owner;
pub mod planted;
pub mod play;
mod publish;
pub mod schedule;
pub mod stores;
mod takeover;
pub mod world;
