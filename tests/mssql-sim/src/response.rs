//! One response: what the engine answers, turned into tokens, with the faults that rows run into.

use std::io;
use std::time::{Duration, Instant};

use mssql_sim_engine::result::{ColumnMeta, ResultSink, SinkClosed, SqlError};
use mssql_sim_engine::value::Value;

use crate::faults::{FaultKind, RowFault};
use crate::server::Shared;
use crate::wire::tokens::{self, Done, DoneKind, EnvChange, Knows, WireColumn};
use crate::wire::transport::Transport;
use crate::wire::writer::ResponseWriter;

/// How often a busy request looks for an attention.
const POLL_EVERY: Duration = Duration::from_millis(20);
/// Errors of this class and above end the connection.
const FATAL_CLASS: u8 = 20;

/// What every response of a connection needs.
pub(crate) struct Out<'a> {
    pub(crate) transport: &'a mut Transport,
    pub(crate) writer: &'a mut ResponseWriter,
    pub(crate) shared: &'a Shared,
    pub(crate) user: &'a str,
    /// The client knows rows that leave out NULLs.
    pub(crate) null_bitmap: bool,
    pub(crate) knows: Knows,
}

/// The response to one request. Its last DONE is held back until it is known whether more follows.
pub(crate) struct Response<'a> {
    out: Out<'a>,
    /// The text that runs, for faults that look at it.
    text: String,
    in_procedure: bool,
    columns: Vec<WireColumn>,
    in_result_set: bool,
    pending: Option<Done>,
    failed: bool,
    status: Option<i32>,
    last_error: i32,
    fatal: bool,
    fault: Option<RowFault>,
    rows: u64,
    last_poll: Instant,
}

impl<'a> Response<'a> {
    pub(crate) fn new(out: Out<'a>) -> Response<'a> {
        Response {
            out,
            text: String::new(),
            in_procedure: false,
            columns: Vec::new(),
            in_result_set: false,
            pending: None,
            failed: false,
            status: None,
            last_error: 0,
            fatal: false,
            fault: None,
            rows: 0,
            last_poll: Instant::now(),
        }
    }

    /// A statement's text is about to run; `in_procedure` for remote procedure calls.
    pub(crate) fn begin(&mut self, text: &str, in_procedure: bool) {
        text.clone_into(&mut self.text);
        self.in_procedure = in_procedure;
        self.failed = false;
        self.status = None;
        self.last_error = 0;
    }

    /// Whether the text that runs has met an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.last_error != 0
    }

    /// Says that something of the session changed.
    pub(crate) fn env_change(&mut self, change: EnvChange<'_>) {
        self.release(true);
        tokens::env_change(&mut self.out.writer.tokens, change);
    }

    /// A change that the statement which ended last brought about: it stands before that statement's DONE.
    pub(crate) fn env_change_of_last(&mut self, change: EnvChange<'_>) {
        let done = self.pending.take();
        tokens::env_change(&mut self.out.writer.tokens, change);
        self.pending = done;
    }

    /// Forgets the DONE of the statement that ended last: it is part of a request that has one DONE in all.
    pub(crate) fn forget_done(&mut self) {
        self.pending = None;
    }

    /// Ends a procedure call: its status, its output handle, and DONEPROC, which waits like every DONE.
    pub(crate) fn end_procedure(&mut self, handle: Option<(u16, &str, i32)>) {
        self.release(true);
        let status = self.status.take().unwrap_or(self.last_error);
        tokens::return_status(&mut self.out.writer.tokens, status);
        if let Some((ordinal, name, value)) = handle {
            tokens::return_int(&mut self.out.writer.tokens, ordinal, name, value);
        }
        self.pending = Some(Done {
            kind: DoneKind::Procedure,
            rows: None,
            select: false,
            error: self.failed,
        });
        self.failed = false;
    }

    /// Ends the response. Returns whether the connection may go on.
    pub(crate) fn finish(mut self) -> io::Result<bool> {
        if self.failed || self.pending.is_none() {
            self.release(true);
            self.pending = Some(Done {
                kind: DoneKind::Statement,
                rows: None,
                select: false,
                error: self.failed,
            });
        }
        self.release(false);
        self.out.writer.finish(self.out.transport)?;
        Ok(!self.fatal)
    }

    /// Ends the response early, as the client wished.
    pub(crate) fn finish_cancelled(self) -> io::Result<()> {
        tokens::done_attention(&mut self.out.writer.tokens);
        self.out.writer.finish(self.out.transport)
    }

    /// Writes the DONE that was held back.
    fn release(&mut self, more: bool) {
        if let Some(done) = self.pending.take() {
            tokens::done(&mut self.out.writer.tokens, done, more);
        }
    }

    fn after_token(&mut self) -> Result<(), SinkClosed> {
        self.out
            .writer
            .flush_full_packets(self.out.transport)
            .map_err(SinkClosed::Broken)?;
        self.still_wanted()
    }

    fn poll(&mut self) -> Result<(), SinkClosed> {
        self.last_poll = Instant::now();
        match self.out.transport.poll_attention() {
            Ok(false) => Ok(()),
            Ok(true) => Err(SinkClosed::Cancelled),
            Err(error) => Err(SinkClosed::Broken(error)),
        }
    }

    /// Lets the fault of this result set happen when its row is reached.
    fn run_into_fault(&mut self) -> Result<(), SinkClosed> {
        let Some(fault) = &self.fault else {
            return Ok(());
        };
        let slow = matches!(fault.kind, FaultKind::SlowRows(_));
        if self.rows < fault.after_rows() || (!slow && !self.out.shared.faults.claim(fault)) {
            return Ok(());
        }
        let kind = fault.kind.clone();
        if slow {
            if self.rows == 0 && !self.out.shared.faults.claim(fault) {
                self.fault = None;
                return Ok(());
            }
        } else {
            self.fault = None;
        }
        let broken = |what: &str| Err(SinkClosed::Broken(io::Error::other(format!("sim.fault: {what}"))));
        match kind {
            FaultKind::SlowRows(pause) => {
                self.flush()?;
                std::thread::sleep(pause);
                self.poll()
            }
            FaultKind::DropAfterRows(_) => {
                self.flush()?;
                self.out.transport.cut();
                broken("connection dropped")
            }
            FaultKind::SilentAfterRows(_) => {
                self.flush()?;
                self.out.transport.swallow_until_closed();
                broken("connection silent")
            }
            FaultKind::ResetInRow(_) => {
                // Half a row: its token and the first bytes of what would follow.
                self.out.writer.tokens.extend([0xD1, 0x01]);
                self.flush()?;
                self.out.transport.reset_on_close().map_err(SinkClosed::Broken)?;
                broken("connection reset")
            }
            FaultKind::SqlAfterRows { database, sql, .. } => {
                self.flush()?;
                if let Err(error) = self.out.shared.run_as_admin(database.as_deref(), &sql) {
                    return broken(&format!("the batch of sql_after_rows failed: {error}"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), SinkClosed> {
        self.out
            .writer
            .flush_partial(self.out.transport)
            .map_err(SinkClosed::Broken)
    }
}

impl ResultSink for Response<'_> {
    fn columns(&mut self, columns: &[ColumnMeta]) -> Result<(), SinkClosed> {
        self.release(true);
        self.columns.clear();
        self.columns
            .extend(columns.iter().map(|column| WireColumn::new(column, self.out.knows)));
        self.in_result_set = true;
        self.rows = 0;
        tokens::column_metadata(&mut self.out.writer.tokens, columns, &self.columns);
        self.fault = self.out.shared.faults.for_result_set(self.out.user, &self.text);
        self.run_into_fault()?;
        self.after_token()
    }

    fn row(&mut self, row: &[Value]) -> Result<(), SinkClosed> {
        tokens::row(&mut self.out.writer.tokens, &self.columns, row, self.out.null_bitmap)
            .map_err(|error| SinkClosed::Broken(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        self.rows += 1;
        if self.fault.is_some() {
            self.run_into_fault()?;
        }
        if self
            .out
            .writer
            .flush_full_packets(self.out.transport)
            .map_err(SinkClosed::Broken)?
        {
            self.poll()?;
        }
        Ok(())
    }

    fn statement_done(&mut self, rows: Option<u64>) -> Result<(), SinkClosed> {
        self.release(true);
        let kind = if self.in_procedure {
            DoneKind::InProcedure
        } else {
            DoneKind::Statement
        };
        self.pending = Some(Done {
            kind,
            rows,
            select: self.in_result_set,
            error: self.failed,
        });
        self.in_result_set = false;
        self.failed = false;
        self.fault = None;
        self.after_token()
    }

    fn info(&mut self, message: &SqlError) -> Result<(), SinkClosed> {
        self.release(true);
        tokens::info(&mut self.out.writer.tokens, message, &self.out.shared.server_name);
        self.after_token()
    }

    fn error(&mut self, error: &SqlError) -> Result<(), SinkClosed> {
        self.release(true);
        tokens::error(&mut self.out.writer.tokens, error, &self.out.shared.server_name);
        self.failed = true;
        self.last_error = error.number;
        self.fatal |= error.class >= FATAL_CLASS;
        self.in_result_set = false;
        self.after_token()
    }

    fn database_changed(&mut self, old: &str, new: &str) -> Result<(), SinkClosed> {
        self.env_change(EnvChange::Database { old, new });
        Ok(())
    }

    fn return_status(&mut self, status: i32) -> Result<(), SinkClosed> {
        if self.in_procedure {
            self.status = Some(status);
            return Ok(());
        }
        // The statements so far ran inside of the procedure.
        if let Some(done) = &mut self.pending {
            done.kind = DoneKind::InProcedure;
        }
        self.release(true);
        tokens::return_status(&mut self.out.writer.tokens, status);
        self.pending = Some(Done {
            kind: DoneKind::Procedure,
            rows: None,
            select: false,
            error: self.failed,
        });
        self.failed = false;
        self.after_token()
    }

    fn still_wanted(&mut self) -> Result<(), SinkClosed> {
        if self.last_poll.elapsed() < POLL_EVERY {
            return Ok(());
        }
        self.poll()
    }
}
