//! SQL Server: what is asked of it, and how its rows are read.
//!
//! Two drivers, one job each: tiberius *asks* (everything whose answer is a few rows), `mssql-tds` *streams* (change
//! rows go off the wire straight into the column sink). Both are built from [`crate::config::SourceSettings`] in
//! `connect.rs`.
//!
//! Why a read is consistent: a batch is a closed range of commit LSNs whose end is at most `max_lsn`, so every commit
//! in it has been captured whole; `min_lsn` is compared before the range is read and again after, so cleanup that ran
//! in between is seen; and the change table is read in its clustered order, so the order of rows is commit order.

mod ask;
mod catalog;
mod changes;
mod connect;
mod error;
mod plan;
mod poller;
mod quote;
mod types;

pub use ask::{AskPool, Asker, PooledAsker};
pub use catalog::{Catalog, TableSource};
pub use changes::{ChangeReader, ChunkLimits, ReadStats};
pub use connect::StreamPool;
pub use error::{SourceError, UnknownInstance};
pub use plan::{RangePlan, min_lsn, plan_range, replay_times};
pub use poller::{Poll, PollState, Poller, Registration, TablePoll};
