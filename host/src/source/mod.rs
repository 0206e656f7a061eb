//! SQL Server: what is asked of it, and how its rows are read.
//!
//! Two drivers, one job each: tiberius *asks* (everything whose answer is a few rows), `mssql-tds` *streams* (change
//! rows go off the wire straight into the column sink). Both are built from [`crate::config::SourceSettings`] in
//! `connect.rs`.
//!
//! Why a read is consistent: a batch is a closed range of commit LSNs whose end is at most `max_lsn`, so every commit
//! in it has been captured whole; `min_lsn` and `max_lsn` are compared on the connection that reads, before and after, so
//! cleanup that ran in between and a copy that lags are seen (`bounds.rs`); and the change table is read in its clustered
//! order, so the order of rows is commit order.

mod ask;
mod bounds;
mod browser;
mod catalog;
mod changes;
mod code_page;
mod connect;
mod error;
mod grants;
mod learned;
mod listing;
mod login;
mod look;
mod mapping;
mod plan;
mod poller;
mod pool;
mod prelogin;
mod quote;
mod recorded;
mod redact;
mod retry_policy;
mod row_sink;
mod server_clock;
mod session;
mod stream_pool;
mod survey;
mod table;
mod token;
mod types;
mod verify;

pub use ask::{AskPool, Asker, PooledAsker};
pub use bounds::{Bounds, Wanted, expect_left};
pub use catalog::{Catalog, InstanceName, TableSource};
pub use changes::{ChangeReader, ChunkLimits, ReadStats};
pub use error::{SourceError, UnknownInstance};
pub use grants::{GrantScript, Grants};
pub use learned::Learned;
pub use look::{Ddl, TableLook, look};
pub use mapping::{Skipped, check_history, is_nothing_between, skip_to};
pub use plan::{RangeLimits, RangePlan, commit_time, plan_range, replay_times};
pub use poller::{LONGEST_PAUSE as LONGEST_POLL_PAUSE, Listing, Poll, PollState, Poller, Registration, TablePoll};
pub(crate) use quote::change_table;
pub use retry_policy::persist;
pub use row_sink::RowSink;
pub use stream_pool::StreamPool;
pub use survey::{SurveyedColumn, SurveyedTable, survey};
pub use table::{CapturedColumn, Piece, SourceInstance, SourceTable};
pub(crate) use types::DeclaredType;
