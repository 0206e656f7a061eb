//! The checkpoint of a stream: where it is, and under which pins an open batch is to be replayed.
//!
//! A batch leaves two traces here: `offsets/<n>.a<k>.json` before anything of it is read, `commits/<n>.json` when it is
//! in bronze (or had no rows). What is in between is open and is replayed as it was planned; whether its rows are in
//! bronze already is bronze's word alone (the transaction id), never this folder's. Files appear whole or not at all, and
//! plans and commits are never replaced, so a crash at any point leaves a state that [`reconcile`] can read.

mod error;
pub(crate) mod files;
mod hold;
mod hosts;
mod reader;
mod records;
mod resume;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
mod writer;

pub use error::CheckpointError;
pub(crate) use hold::{lock_unowned, may_still_wake, owner_unknown};
pub(crate) use hosts::others;
pub use hosts::{Ended, HostWatcher, Lease, LeaseLost, LeaseState, Outcome, ProcessLease, look};
pub(crate) use reader::UNNAMED;
pub use reader::{CheckpointReader, CheckpointState, Running};
pub use records::{
    ATTEMPTS, BEFORE_THE_FIRST, Begin, CLOSED, CLOSED_DETAIL, CommitRecord, FORMAT, InstanceRange, Owner, PlannedBatch,
    RETRY_DETAIL, RETRY_EVENT, RETRY_INTERRUPTED, Retry, SourceSeen, Stopped, StreamIdentity, Unsettled,
};
pub use resume::{Resume, StateError, expect_whole, reconcile};
pub(crate) use writer::KEPT;
pub use writer::{Checkpoint, stopped_unopened};
