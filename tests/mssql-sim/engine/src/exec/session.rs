//! A session: a login in a database, with a connection, its settings and its transaction.

use std::{sync::Arc, time::Duration};

use rusqlite::Connection;

use super::{Frame, Run, Stop, storage, transaction::Transaction};
use crate::{
    bind::Variables,
    catalog::{Catalog, load},
    cdc::Lsn,
    context::StatementContext,
    database::Database,
    engine::Engine,
    error::{SqlResult, sql_error},
    interrupt::{Interrupt, Watch},
    parse::parse_batch,
    result::{Param, ResultSink, SinkClosed, SqlError},
};

/// A logged-in session. Dropping it rolls its transaction back.
pub struct Session {
    pub(crate) engine: Arc<Engine>,
    pub(crate) database: Arc<Database>,
    pub(crate) conn: Connection,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) login: String,
    pub(crate) admin: bool,
    pub(crate) spid: i64,
    pub(crate) tx: Transaction,
    pub(crate) settings: Settings,
    pub(crate) row_count: i64,
    pub(crate) last_error: i64,
    pub(crate) identity: Option<i64>,
    /// The state of CDC that the session sees, if it is an older one.
    as_of: Option<Lsn>,
    pub(crate) interrupt: Interrupt,
}

/// SET options that change what statements do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) nocount: bool,
    pub(crate) xact_abort: bool,
    pub(crate) implicit_transactions: bool,
    pub(crate) isolation: Isolation,
    /// `None` waits for ever.
    pub(crate) lock_timeout: Option<Duration>,
    /// The table that takes explicit identity values.
    pub(crate) identity_insert: Option<i64>,
    pub(crate) noexec: bool,
}

/// What a transaction reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Isolation {
    /// READ COMMITTED: each statement reads the newest committed state.
    #[default]
    Committed,
    /// REPEATABLE READ or SERIALIZABLE: one state of the database.
    OneState,
    /// SNAPSHOT: the same, where the database allows it.
    Snapshot,
}

impl Isolation {
    /// Whether a transaction goes on reading the state that it read first.
    pub(crate) fn keeps_state(self) -> bool {
        self != Isolation::Committed
    }
}

impl Session {
    pub(crate) fn open(engine: Arc<Engine>, database: Arc<Database>, login: &str, spid: i64) -> SqlResult<Session> {
        let conn = database.connect().map_err(storage)?;
        let catalog = load(&conn, &Arc::new(Catalog::default())).map_err(storage)?;
        *engine.sessions.lock().entry(database.id).or_default() += 1;
        let admin = engine.is_admin(login);
        Ok(Session {
            engine,
            database,
            conn,
            catalog,
            login: login.to_owned(),
            admin,
            spid,
            tx: Transaction::default(),
            settings: Settings::default(),
            row_count: 0,
            last_error: 0,
            identity: None,
            as_of: None,
            interrupt: Interrupt::default(),
        })
    }

    /// Gives the session a way to see that its client wants the running statement to end, or is gone. What it runs then
    /// ends as soon as its sink says so too.
    ///
    /// # Errors
    /// The storage's.
    pub fn watch(&mut self, watch: Watch) -> Result<(), SqlError> {
        self.interrupt = Interrupt::new(watch);
        self.interrupt.install(&mut self.conn).map_err(storage)
    }

    /// How long the session waits for a lock; `None` is for ever.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.settings.lock_timeout
    }

    /// Shows the session CDC as it was so many entries of `cdc.lsn_time_mapping` ago, until it is told `None`.
    ///
    /// # Errors
    /// The storage's.
    pub fn show_older(&mut self, entries: Option<u64>) -> Result<(), SqlError> {
        self.as_of = match entries {
            Some(entries) => Some(self.database.entry_before(entries).map_err(storage)?),
            None => None,
        };
        Ok(())
    }

    /// Whether the login may enter the session's database. Everybody may enter master and tempdb.
    pub(crate) fn may_enter(&self) -> bool {
        self.admin || self.database.id <= 2 || self.catalog.admitted(&self.login).is_some()
    }

    /// The current database's name.
    pub fn database(&self) -> &str {
        &self.database.name
    }

    /// The session's number (`@@SPID`).
    pub fn spid(&self) -> i64 {
        self.spid
    }

    /// How many transactions are open (`@@TRANCOUNT`).
    pub fn open_transactions(&self) -> u32 {
        self.tx.count
    }

    /// Runs a batch with typed parameters. Results, errors and messages go to the sink.
    ///
    /// # Errors
    /// [`SinkClosed`] when the sink takes no more; SQL errors are no errors of this call.
    pub fn execute(&mut self, sql: &str, params: &[Param], sink: &mut dyn ResultSink) -> Result<(), SinkClosed> {
        let ran = self.batch(sql, &mut Frame::new(params), sink);
        self.ended(ran, sink)
    }

    /// Runs a batch as a procedure, `sp_executesql` above all, runs it: its SET options and its USE end with it.
    ///
    /// # Errors
    /// As [`Session::execute`].
    pub fn call(&mut self, sql: &str, params: &[Param], sink: &mut dyn ResultSink) -> Result<(), SinkClosed> {
        let ran = self.scoped(sql, &mut Frame::new(params), sink);
        self.ended(ran, sink)
    }

    /// Answers the error that ended a batch.
    fn ended(&mut self, ran: Run<()>, sink: &mut dyn ResultSink) -> Result<(), SinkClosed> {
        match ran {
            Ok(()) => Ok(()),
            Err(Stop::Closed(closed)) => {
                // A statement that was cut off in autocommit leaves nothing open.
                self.end_statement_reads();
                Err(closed)
            }
            Err(Stop::Error(error)) => {
                sink.error(&error)?;
                sink.statement_done(None)
            }
        }
    }

    /// Runs a batch within a frame of variables.
    pub(crate) fn batch(&mut self, sql: &str, frame: &mut Frame, sink: &mut dyn ResultSink) -> Run<()> {
        let statements = match parse_batch(sql) {
            Ok(statements) => statements,
            Err(mut error) => {
                if error.line == 0 {
                    error.line = 1;
                }
                self.last_error = i64::from(error.number);
                return Err(error.into());
            }
        };
        self.run(&statements, frame, sink).map(|_| ())
    }

    /// Runs a batch whose SET options and USE end with it, however it ends: dynamic SQL.
    pub(crate) fn scoped(&mut self, sql: &str, frame: &mut Frame, sink: &mut dyn ResultSink) -> Run<()> {
        let (settings, outer) = (self.settings.clone(), self.database.name.clone());
        let ran = self.batch(sql, frame, sink);
        self.settings = settings;
        // A statement that was cut off may still read.
        self.end_statement_reads();
        let back = self.back_to(&outer, sink);
        ran.and(back)
    }

    fn back_to(&mut self, outer: &str, sink: &mut dyn ResultSink) -> Run<()> {
        let inner = self.database.name.clone();
        if inner != outer {
            self.use_database(outer)?;
            sink.database_changed(&inner, outer)?;
        }
        Ok(())
    }

    /// Begins a transaction, as the transaction manager request of the wire does.
    ///
    /// # Errors
    /// None today; kept for symmetry.
    pub fn begin_transaction(&mut self) -> Result<(), SqlError> {
        self.begin();
        Ok(())
    }

    /// Commits the innermost transaction.
    ///
    /// # Errors
    /// 3902 when none is open, and the storage's.
    pub fn commit_transaction(&mut self) -> Result<(), SqlError> {
        self.commit()
    }

    /// Rolls all open transactions back.
    ///
    /// # Errors
    /// 3903 when none is open, and the storage's.
    pub fn rollback_transaction(&mut self) -> Result<(), SqlError> {
        self.rollback()
    }

    /// Rolls back, forgets the SET options and goes back to a database: what the wire's RESETCONNECTION asks.
    ///
    /// # Errors
    /// 911 when the database is gone.
    pub fn reset(&mut self, database: &str) -> Result<(), SqlError> {
        self.abandon();
        self.settings = Settings::default();
        self.identity = None;
        self.row_count = 0;
        self.last_error = 0;
        if self.database.name == database {
            Ok(())
        } else {
            self.use_database(database)
        }
    }

    /// The statement's surroundings, with the catalogue as of now.
    pub(crate) fn context(&mut self) -> SqlResult<Arc<StatementContext>> {
        self.catalog = load(&self.conn, &self.catalog).map_err(storage)?;
        let version = self.engine.options.version;
        let allowed = self.catalog.settings.allow_snapshot.unwrap_or(version.is_azure());
        Ok(Arc::new(StatementContext {
            as_of: self
                .as_of
                .or_else(|| self.engine.older_copy(&self.database, &self.login)),
            snapshot_refused: self.settings.isolation == Isolation::Snapshot && !allowed && self.database.id > 4,
            interrupt: self.interrupt.clone(),
            engine: Arc::clone(&self.engine),
            database: Arc::clone(&self.database),
            catalog: Arc::clone(&self.catalog),
            login: self.login.clone(),
            admin: self.admin,
            spid: self.spid,
            transactions: i64::from(self.tx.count),
            row_count: self.row_count,
            last_error: self.last_error,
            identity: self.identity,
            now: self.engine.clock.now(),
            lock_timeout_ms: self.settings.lock_timeout.map_or(-1, |t| t.as_millis() as i64),
        }))
    }

    /// Goes to another database.
    pub(crate) fn use_database(&mut self, name: &str) -> SqlResult<()> {
        let Some(database) = self.engine.database(name) else {
            return Err(sql_error(
                911,
                16,
                format!("Database '{name}' does not exist. Make sure that the name is entered correctly."),
            ));
        };
        if database.id == self.database.id {
            return Ok(());
        }
        if self.engine.options.version.is_azure() {
            return Err(sql_error(
                40508,
                16,
                "USE statement is not supported to switch between databases. Use a new connection to connect to a different database.",
            ));
        }
        if !self.tx.is_idle() {
            return Err(crate::error::not_supported("USE in a transaction that has written"));
        }
        let mut conn = database.connect().map_err(storage)?;
        let catalog = load(&conn, &Arc::new(Catalog::default())).map_err(storage)?;
        let entered = self.admin || database.id <= 2 || catalog.admitted(&self.login).is_some();
        if !entered {
            let mut error = sql_error(
                916,
                14,
                format!(
                    "The server principal \"{}\" is not able to access the database \"{name}\" under the current security context.",
                    self.login
                ),
            );
            error.state = 2;
            return Err(error);
        }
        let mut sessions = self.engine.sessions.lock();
        if let Some(n) = sessions.get_mut(&self.database.id) {
            *n = n.saturating_sub(1);
        }
        *sessions.entry(database.id).or_default() += 1;
        drop(sessions);
        self.interrupt.install(&mut conn).map_err(storage)?;
        self.database = database;
        self.conn = conn;
        self.catalog = catalog;
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.abandon();
        if let Some(n) = self.engine.sessions.lock().get_mut(&self.database.id) {
            *n = n.saturating_sub(1);
        }
    }
}

/// Variables from parameters.
pub(super) fn variables(params: &[Param]) -> Variables {
    params
        .iter()
        .map(|p| (p.name.to_lowercase(), (p.ty, p.value.clone())))
        .collect()
}
