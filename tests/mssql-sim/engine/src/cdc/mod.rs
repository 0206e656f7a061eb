//! Change Data Capture: the log, capture into change tables, cleanup, and the procedures.
//!
//! A transaction's changes of tracked tables go to a log in the same SQLite file, and so commit or vanish with it.
//! Capture reads committed transactions from it, in commit order, and writes change rows and `cdc.lsn_time_mapping` into
//! the file of the change tables, together with how far it came: it is idempotent across crashes.

pub mod agent;
mod capture;
mod cleanup;
mod instances;
mod lsn;
pub mod procedures;
mod record;

pub use lsn::{Lsn, LsnClock};
pub use record::{Image, Op, read_image, write_image};

/// Column ids of a change table: the system columns come first and have fixed ids, captured columns follow.
pub(crate) mod column {
    pub(crate) const START_LSN: i64 = 1;
    pub(crate) const END_LSN: i64 = 2;
    pub(crate) const SEQVAL: i64 = 3;
    pub(crate) const OPERATION: i64 = 4;
    pub(crate) const UPDATE_MASK: i64 = 5;
    pub(crate) const COMMAND_ID: i64 = 6;
    pub(crate) const FIRST_CAPTURED: i64 = 7;
}
