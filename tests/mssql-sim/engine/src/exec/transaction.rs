//! Transactions, nested by count as in T-SQL.
//!
//! A session takes the database's gate at its first write and keeps it to the end of the transaction: writers wait for
//! each other. Reads before that see the newest committed state (READ COMMITTED with row versions), reads after it the
//! session's own state.

use std::sync::Arc;

use super::{Session, storage};
use crate::{
    cdc::{Lsn, agent},
    clock::system_ticks,
    error::{SqlResult, sql_error},
    gate::{Gate, Locked},
    interrupt::interrupted,
};

/// What SQLite has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    None,
    /// A read snapshot.
    Read,
    /// The write lock, and the gate.
    Write,
}

/// The log of an open transaction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    pub(crate) transaction: i64,
    pub(crate) begin_lsn: Lsn,
    pub(crate) begin_time: i64,
    pub(crate) first: i64,
    pub(crate) last: i64,
}

/// A session's transaction.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    /// `@@TRANCOUNT`.
    pub(crate) count: u32,
    state: State,
    pub(crate) log: Log,
    /// Whether the gate of the change tables is held too.
    cdc: bool,
    /// Names of savepoints, oldest first.
    savepoints: Vec<(String, Log)>,
}

impl Transaction {
    /// Whether the transaction has written the change tables.
    pub(crate) fn holds_change_tables(&self) -> bool {
        self.cdc
    }

    /// Whether SQLite has nothing open.
    pub(crate) fn is_idle(&self) -> bool {
        self.state == State::None
    }
}

impl Session {
    /// BEGIN TRANSACTION.
    pub(crate) fn begin(&mut self) {
        self.tx.count += 1;
    }

    /// COMMIT: the outermost one commits.
    pub(crate) fn commit(&mut self) -> SqlResult<()> {
        match self.tx.count {
            0 => Err(sql_error(
                3902,
                16,
                "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.",
            )),
            1 => {
                self.tx.count = 0;
                self.finish()
            }
            _ => {
                self.tx.count -= 1;
                Ok(())
            }
        }
    }

    /// ROLLBACK: all of them.
    pub(crate) fn rollback(&mut self) -> SqlResult<()> {
        if self.tx.count == 0 {
            return Err(sql_error(
                3903,
                16,
                "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.",
            ));
        }
        self.abandon();
        Ok(())
    }

    /// SAVE TRANSACTION.
    pub(crate) fn save(&mut self, name: &str) -> SqlResult<()> {
        if self.tx.count == 0 {
            return Err(sql_error(
                628,
                16,
                "Cannot issue SAVE TRANSACTION when there is no active transaction.",
            ));
        }
        self.begin_write()?;
        let at = self.tx.savepoints.len();
        self.conn
            .execute_batch(&format!("SAVEPOINT named{at}"))
            .map_err(storage)?;
        self.tx.savepoints.push((name.to_lowercase(), self.tx.log.clone()));
        Ok(())
    }

    /// ROLLBACK to a savepoint; `false` when there is none of the name.
    pub(crate) fn rollback_to(&mut self, name: &str) -> SqlResult<bool> {
        let Some(at) = self.tx.savepoints.iter().rposition(|(n, _)| *n == name.to_lowercase()) else {
            return Ok(false);
        };
        self.conn
            .execute_batch(&format!("ROLLBACK TO named{at}"))
            .map_err(storage)?;
        self.tx.log = self.tx.savepoints[at].1.clone();
        self.tx.savepoints.truncate(at + 1);
        self.catalog = Default::default();
        Ok(true)
    }

    /// Gives up whatever is open.
    pub(crate) fn abandon(&mut self) {
        if self.tx.state != State::None {
            // A failed ROLLBACK means that SQLite has rolled back already.
            let _ = self.conn.execute_batch("ROLLBACK");
            self.catalog = Default::default();
        }
        self.release();
        self.tx.count = 0;
    }

    /// Opens a snapshot for a statement that reads.
    pub(crate) fn begin_read(&mut self) -> SqlResult<()> {
        if self.tx.state == State::None {
            self.conn.execute_batch("BEGIN").map_err(storage)?;
            self.tx.state = State::Read;
        }
        Ok(())
    }

    /// Ends the snapshot of a statement, unless the transaction keeps it.
    pub(crate) fn end_statement_reads(&mut self) {
        let keep = self.tx.count > 0 && self.settings.isolation.keeps_state();
        if self.tx.state == State::Read && !keep {
            let _ = self.conn.execute_batch("COMMIT");
            self.tx.state = State::None;
        }
    }

    /// Takes the gate and SQLite's write lock, if the transaction has not got them.
    pub(crate) fn begin_write(&mut self) -> SqlResult<()> {
        if self.tx.state == State::Write {
            return Ok(());
        }
        if self.tx.state == State::Read && !(self.tx.count > 0 && self.settings.isolation.keeps_state()) {
            self.end_statement_reads();
        }
        let database = Arc::clone(&self.database);
        self.wait_for(&database.gate)?;
        let opened = self.open_write();
        if opened.is_err() {
            if self.tx.state == State::None {
                let _ = self.conn.execute_batch("ROLLBACK");
            }
            self.database.gate.unlock();
        }
        opened
    }

    /// Waits for a lock as long as `SET LOCK_TIMEOUT` and the client allow.
    fn wait_for(&self, gate: &Gate) -> SqlResult<()> {
        match gate.lock_for(self.settings.lock_timeout, &self.interrupt) {
            Locked::Yes => Ok(()),
            Locked::Interrupted => Err(interrupted()),
            Locked::TimedOut => {
                let mut error = sql_error(1222, 16, "Lock request time out period exceeded.");
                error.state = 51;
                Err(error)
            }
        }
    }

    fn open_write(&mut self) -> SqlResult<()> {
        let upgraded = self.tx.state == State::Read;
        if !upgraded {
            self.conn.execute_batch("BEGIN").map_err(storage)?;
        }
        let locked = self
            .conn
            .prepare_cached("UPDATE main._sim_lock SET n = n + 1")
            .and_then(|mut s| s.execute([]));
        if let Err(error) = locked {
            if upgraded {
                return Err(sql_error(
                    3960,
                    16,
                    "Snapshot isolation transaction aborted due to update conflict. Retry the transaction or change the isolation level for the update/delete statement.",
                ));
            }
            return Err(storage(error));
        }
        self.prune_log()?;
        self.tx.state = State::Write;
        self.tx.log = Log {
            transaction: self.database.next_transaction(),
            begin_lsn: self.database.clock.lock().record(),
            begin_time: self.database.now(),
            first: 0,
            last: 0,
        };
        Ok(())
    }

    /// Takes the gate of the change tables too.
    pub(crate) fn begin_cdc_write(&mut self) -> SqlResult<()> {
        self.begin_write()?;
        if !self.tx.cdc {
            let database = Arc::clone(&self.database);
            self.wait_for(&database.cdc_gate)?;
            self.tx.cdc = true;
        }
        Ok(())
    }

    /// Ends a write that wrote nothing, unless a transaction goes on.
    pub(crate) fn end_empty_write(&mut self) {
        if self.tx.count == 0 {
            self.abandon();
        }
    }

    /// Runs a statement that writes: all of it, or nothing.
    pub(crate) fn write<T>(&mut self, body: impl FnOnce(&mut Session) -> SqlResult<T>) -> SqlResult<T> {
        self.begin_write()?;
        let log = self.tx.log.clone();
        self.conn.execute_batch("SAVEPOINT statement").map_err(storage)?;
        let result = body(self);
        match &result {
            Ok(_) => self.conn.execute_batch("RELEASE statement").map_err(storage)?,
            Err(_) => {
                self.conn
                    .execute_batch("ROLLBACK TO statement; RELEASE statement")
                    .map_err(storage)?;
                self.tx.log = log;
                self.catalog = Default::default();
            }
        }
        if self.tx.count == 0 {
            match &result {
                Ok(_) => self.finish()?,
                Err(_) => self.abandon(),
            }
        }
        result
    }

    /// Commits what is open.
    fn finish(&mut self) -> SqlResult<()> {
        match self.tx.state {
            State::None => {}
            State::Read => {
                let _ = self.conn.execute_batch("COMMIT");
            }
            State::Write => {
                let logged = self.tx.log.first > 0;
                let committed = self.commit_write(logged);
                if committed.is_err() {
                    self.abandon();
                    return committed;
                }
                self.release();
                if logged {
                    agent::committed(&self.engine, &self.database).map_err(storage)?;
                }
                return Ok(());
            }
        }
        self.release();
        Ok(())
    }

    fn commit_write(&mut self, logged: bool) -> SqlResult<()> {
        if logged {
            let log = &self.tx.log;
            let lsn = self.database.clock.lock().commit();
            self.conn
                .prepare_cached("INSERT INTO main._sim_tx VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")
                .and_then(|mut s| {
                    s.execute(rusqlite::params![
                        log.transaction,
                        lsn.0.as_slice(),
                        log.begin_lsn.0.as_slice(),
                        log.begin_time,
                        self.database.now(),
                        log.first,
                        log.last,
                        system_ticks()
                    ])
                })
                .map_err(storage)?;
        }
        self.conn.execute_batch("COMMIT").map_err(storage)
    }

    fn release(&mut self) {
        if self.tx.cdc {
            self.database.cdc_gate.unlock();
        }
        if self.tx.state == State::Write {
            self.database.gate.unlock();
        }
        self.tx.cdc = false;
        self.tx.state = State::None;
        self.tx.savepoints.clear();
    }

    /// Deletes log records that capture has read.
    fn prune_log(&self) -> SqlResult<()> {
        let captured = self.database.cdc.lock().captured_tx;
        let last: Option<i64> = self
            .conn
            .prepare_cached("SELECT max(last_seq) FROM main._sim_tx WHERE tx <= ?1")
            .and_then(|mut s| s.query_row([captured], |r| r.get(0)))
            .map_err(storage)?;
        if let Some(last) = last {
            self.conn
                .prepare_cached("DELETE FROM main._sim_log WHERE seq <= ?1")
                .and_then(|mut s| s.execute([last]))
                .map_err(storage)?;
            self.conn
                .prepare_cached("DELETE FROM main._sim_tx WHERE tx <= ?1")
                .and_then(|mut s| s.execute([captured]))
                .map_err(storage)?;
        }
        Ok(())
    }
}
