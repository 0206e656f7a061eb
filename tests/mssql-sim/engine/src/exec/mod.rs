//! Sessions: running batches, transactions, and what each statement does.

mod computed;
mod control;
mod ddl;
mod dml;
mod insert;
mod procedures;
mod query;
mod security;
mod session;
mod transaction;
mod update;
mod writer;

pub use session::Session;

pub(crate) use control::Frame;
pub(crate) use procedures::Arguments;
pub(crate) use query::collect;
pub(crate) use writer::append;

use crate::result::{SinkClosed, SqlError};

/// Why a statement did not run to its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The client is gone or cancelled.
    Closed(SinkClosed),
    Error(Box<SqlError>),
}

impl From<SinkClosed> for Stop {
    fn from(closed: SinkClosed) -> Stop {
        Stop::Closed(closed)
    }
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Stop {
        Stop::Error(Box::new(error))
    }
}

pub(crate) type Run<T> = Result<T, Stop>;

/// A SQLite error as SQL Server's: the one that a function raised, a busy file as a deadlock victim, or the storage's.
pub(crate) fn storage(error: rusqlite::Error) -> SqlError {
    if let Some(raised) = crate::functions::take_error() {
        return raised;
    }
    if let rusqlite::Error::SqliteFailure(code, _) = &error
        && matches!(
            code.code,
            rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked
        )
    {
        return crate::error::sql_error(
            1205,
            13,
            "Transaction was deadlocked on lock resources with another process and has been chosen as the deadlock victim. Rerun the transaction.",
        );
    }
    crate::error::storage_fault(&error)
}

#[cfg(test)]
mod tests;
