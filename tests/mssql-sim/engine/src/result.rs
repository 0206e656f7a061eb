//! What a batch answers, event by event, in the order in which TDS tells it.

use crate::types::Collation;
use crate::value::{SqlType, Value};

/// One column of a result set.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnMeta {
    /// Empty for an expression without a name.
    pub name: String,
    /// The declared or inferred type.
    pub ty: SqlType,
    /// Whether a row may hold NULL in it.
    pub nullable: bool,
    /// The collation of text; absent for the database's.
    pub collation: Option<Collation>,
}

/// An error or message as SQL Server numbers it. Class 10 and below is information.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Msg {number}, Level {class}, State {state}: {message}")]
pub struct SqlError {
    /// As in `sys.messages`; 50000 for a user's own.
    pub number: i32,
    /// Where in the server it was raised.
    pub state: u8,
    /// Severity.
    pub class: u8,
    /// The text.
    pub message: String,
    /// Line in the batch, from 1.
    pub line: u32,
    /// The procedure it came from, or empty.
    pub procedure: String,
}

/// Why a sink takes no more: the client is gone, or it sent an attention.
#[derive(Debug)]
pub enum SinkClosed {
    /// The connection is broken.
    Broken(std::io::Error),
    /// The client asked to cancel.
    Cancelled,
}

/// Where a session's answers go. The wire encodes them as tokens; tests collect them.
pub trait ResultSink {
    /// A result set begins.
    fn columns(&mut self, columns: &[ColumnMeta]) -> Result<(), SinkClosed>;
    /// A row of the result set that began last.
    fn row(&mut self, row: &[Value]) -> Result<(), SinkClosed>;
    /// A statement ended, with the number of rows that it returned or changed (absent under `SET NOCOUNT ON` and for
    /// statements that count none).
    fn statement_done(&mut self, rows: Option<u64>) -> Result<(), SinkClosed>;
    /// A message of class 10 or lower (`PRINT`, `USE`).
    fn info(&mut self, message: &SqlError) -> Result<(), SinkClosed>;
    /// An error.
    fn error(&mut self, error: &SqlError) -> Result<(), SinkClosed>;
    /// The session's database changed.
    fn database_changed(&mut self, old: &str, new: &str) -> Result<(), SinkClosed>;
    /// A stored procedure returned.
    fn return_status(&mut self, status: i32) -> Result<(), SinkClosed>;
    /// Asked every few milliseconds by a statement that works long without an answer (`WAITFOR`, a scan that finds
    /// nothing, a loop), so that an attention or a broken connection ends it. Sends nothing by itself.
    fn still_wanted(&mut self) -> Result<(), SinkClosed> {
        Ok(())
    }
}

/// A typed parameter of `sp_executesql`.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    /// With the leading `@`.
    pub name: String,
    /// The declared type.
    pub ty: SqlType,
    /// Its value.
    pub value: Value,
}
