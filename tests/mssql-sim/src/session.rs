//! A client's session: its requests, turned into what the engine runs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mssql_sim_engine::result::{ColumnMeta, Param, ResultSink, SinkClosed, SqlError};
use mssql_sim_engine::value::{SqlType, Value};
use mssql_sim_engine::{Session, Watch};

use crate::exec_call::{self, ExecCall};
use crate::faults::{self, FaultKind, FaultRequest};
use crate::logins;
use crate::messages;
use crate::params::{self, Declared};
use crate::requests::Came;
use crate::response::Response;
use crate::script;
use crate::server::Shared;
use crate::wire::login7::Login7;
use crate::wire::packet::{STATUS_RESET, STATUS_RESET_KEEP_TRANSACTION, kind};
use crate::wire::rpc::{self, Argument, Call, Procedure, TransactionRequest, proc_id};
use crate::wire::tokens::EnvChange;
use crate::wire::transport::Message;

const FAULT_PROCEDURE: &str = "sim.fault";
const LOGINS_PROCEDURE: &str = "sim.logins";

/// A login that is in, with what belongs to its connection.
pub(crate) struct ClientSession {
    pub(crate) login: Login7,
    shared: Arc<Shared>,
    session: Session,
    /// Where a reset goes back to.
    initial_database: String,
    id: u64,
    prepared: HashMap<i64, Prepared>,
    last_handle: i32,
    /// The open transaction as the client knows it; 0 for none.
    transaction: u64,
    last_transaction: u64,
}

struct Prepared {
    text: String,
    declared: Vec<Declared>,
}

/// A login that was refused.
pub(crate) struct Refusal {
    pub(crate) user: String,
    pub(crate) error: SqlError,
}

impl ClientSession {
    pub(crate) fn open(shared: Arc<Shared>, login: Login7, id: u64) -> Result<ClientSession, Refusal> {
        match open_session(&shared, &login) {
            Ok(session) => Ok(ClientSession {
                initial_database: session.database().to_owned(),
                login,
                shared,
                session,
                id,
                prepared: HashMap::new(),
                last_handle: 0,
                transaction: 0,
                last_transaction: 0,
            }),
            Err(error) => Err(Refusal {
                user: login.user,
                error,
            }),
        }
    }

    /// Gives the engine a way to see that the client wants no more of what runs.
    pub(crate) fn watch(&mut self, watch: Watch) -> Result<(), SqlError> {
        self.session.watch(watch)
    }

    pub(crate) fn database(&self) -> &str {
        self.session.database()
    }

    /// Answers one request.
    pub(crate) fn answer(&mut self, message: &Message, response: &mut Response<'_>) -> Result<(), SinkClosed> {
        if message.status & (STATUS_RESET | STATUS_RESET_KEEP_TRANSACTION) != 0 {
            let keep = message.status & STATUS_RESET_KEEP_TRANSACTION != 0 && self.session.open_transactions() > 0;
            if !keep {
                self.reset(response)?;
            }
            response.env_change(EnvChange::Reset);
        }
        let malformed = |error: crate::wire::reader::Malformed| messages::malformed_request(&error.0);
        match message.kind {
            kind::SQL_BATCH => match rpc::parse_batch(&message.body) {
                Ok(text) => {
                    self.note(Came::Batch, &text, "");
                    self.batch(&text, response)
                }
                Err(error) => response.error(&malformed(error)),
            },
            kind::RPC => match rpc::parse_calls(&message.body) {
                Ok(calls) => calls.iter().try_for_each(|call| self.call(call, response)),
                Err(error) => response.error(&malformed(error)),
            },
            kind::TRANSACTION_MANAGER => match rpc::parse_transaction(&message.body) {
                Ok(request) => self.transaction_request(request, response),
                Err(error) => response.error(&malformed(error)),
            },
            // The request that it was to cancel had ended already.
            kind::ATTENTION => Err(SinkClosed::Cancelled),
            other => response.error(&messages::malformed_request(&format!("message type 0x{other:02X}"))),
        }
    }

    /// Writes the request into the log, if there is one.
    fn note(&self, came: Came, text: &str, parameters: &str) {
        if let Some(requests) = &self.shared.requests {
            requests.note(&self.login, came, text, parameters);
        }
    }

    fn reset(&mut self, response: &mut Response<'_>) -> Result<(), SinkClosed> {
        self.prepared.clear();
        self.transaction = 0;
        match self.session.reset(&self.initial_database) {
            Ok(()) => Ok(()),
            Err(error) => response.error(&error),
        }
    }

    fn batch(&mut self, text: &str, response: &mut Response<'_>) -> Result<(), SinkClosed> {
        response.begin(text, false);
        if let Some(call) = exec_call::parse(text, FAULT_PROCEDURE) {
            return self.fault(call, response);
        }
        if exec_call::parse(text, LOGINS_PROCEDURE).is_some() {
            return self.logins(response);
        }
        self.run(Came::Batch, text, &[], response)
    }

    fn call(&mut self, call: &Call, response: &mut Response<'_>) -> Result<(), SinkClosed> {
        let id = match &call.procedure {
            Procedure::Id(id) => *id,
            Procedure::Name(name) => match numbered(name) {
                Some(id) => id,
                None => return self.call_by_name(name, &call.arguments, response),
            },
        };
        match id {
            proc_id::EXECUTE_SQL => self.execute_sql(&call.arguments, response),
            proc_id::PREPARE => self.prepare(&call.arguments, false, response),
            proc_id::PREP_EXEC => self.prepare(&call.arguments, true, response),
            proc_id::EXECUTE => self.execute_prepared(&call.arguments, response),
            proc_id::UNPREPARE => self.unprepare(&call.arguments, response),
            other => self.refuse(
                &messages::no_such_procedure(&format!("procedure number {other}")),
                response,
            ),
        }
    }

    fn execute_sql(&mut self, arguments: &[Argument], response: &mut Response<'_>) -> Result<(), SinkClosed> {
        let Some((text, rest)) = arguments
            .split_first()
            .and_then(|(first, rest)| Some((text_of(first)?, rest)))
        else {
            return self.refuse(
                &messages::syntax("sp_executesql expects its statement as nvarchar."),
                response,
            );
        };
        let (declarations, values) = match rest.split_first() {
            Some((first, values)) => (text_of(first).unwrap_or_default(), values),
            None => (String::new(), rest),
        };
        self.note(Came::Rpc, &text, &declarations);
        let declared = match params::parse_declarations(&declarations) {
            Ok(declared) => declared,
            Err(text) => return self.refuse(&messages::syntax(text), response),
        };
        self.run_with(&text, &declared, values, None, response)
    }

    /// `sp_prepare @handle OUTPUT, @params, @stmt` and `sp_prepexec` with the first values behind it.
    fn prepare(
        &mut self,
        arguments: &[Argument],
        execute: bool,
        response: &mut Response<'_>,
    ) -> Result<(), SinkClosed> {
        let [handle, declarations, text, values @ ..] = arguments else {
            return self.refuse(
                &messages::syntax("sp_prepare expects a handle, declarations and a statement."),
                response,
            );
        };
        let Some(text) = text_of(text) else {
            return self.refuse(
                &messages::syntax("sp_prepare expects its statement as nvarchar."),
                response,
            );
        };
        let declarations = text_of(declarations).unwrap_or_default();
        self.note(Came::Rpc, &text, &declarations);
        let declared = match params::parse_declarations(&declarations) {
            Ok(declared) => declared,
            Err(text) => return self.refuse(&messages::syntax(text), response),
        };
        if let Value::Int(old) = handle.value {
            self.prepared.remove(&old);
        }
        self.last_handle += 1;
        let number = self.last_handle;
        let returned = Some((0, handle.name.as_str(), number));
        if execute {
            self.run_with(&text, &declared, values, returned, response)?;
        } else {
            response.begin(&text, true);
            response.end_procedure(returned);
        }
        self.prepared.insert(i64::from(number), Prepared { text, declared });
        Ok(())
    }

    fn execute_prepared(&mut self, arguments: &[Argument], response: &mut Response<'_>) -> Result<(), SinkClosed> {
        let Some((Value::Int(handle), values)) = arguments.split_first().map(|(first, rest)| (&first.value, rest))
        else {
            return self.refuse(&messages::syntax("sp_execute expects a handle."), response);
        };
        let Some(prepared) = self.prepared.remove(handle) else {
            return self.refuse(&messages::no_such_handle(*handle), response);
        };
        self.note(Came::Rpc, &prepared.text, "");
        let result = self.run_with(&prepared.text, &prepared.declared, values, None, response);
        self.prepared.insert(*handle, prepared);
        result
    }

    fn unprepare(&mut self, arguments: &[Argument], response: &mut Response<'_>) -> Result<(), SinkClosed> {
        match arguments.first().map(|first| &first.value) {
            Some(Value::Int(handle)) if self.prepared.remove(handle).is_some() => {
                response.begin("", true);
                response.end_procedure(None);
                Ok(())
            }
            Some(Value::Int(handle)) => self.refuse(&messages::no_such_handle(*handle), response),
            _ => self.refuse(&messages::syntax("sp_unprepare expects a handle."), response),
        }
    }

    /// Any other procedure becomes an `EXEC` with the arguments as parameters.
    fn call_by_name(
        &mut self,
        name: &str,
        arguments: &[Argument],
        response: &mut Response<'_>,
    ) -> Result<(), SinkClosed> {
        if exec_call::names(name, "sp_reset_connection") || exec_call::names(name, "sys.sp_reset_connection") {
            response.begin(name, true);
            self.reset(response)?;
            response.env_change(EnvChange::Reset);
            response.end_procedure(None);
            return Ok(());
        }
        if exec_call::names(name, FAULT_PROCEDURE) {
            let arguments = arguments
                .iter()
                .map(|argument| (argument.name.clone(), argument.value.clone()))
                .collect();
            response.begin(name, true);
            self.fault(Ok(ExecCall { arguments }), response)?;
            response.end_procedure(None);
            return Ok(());
        }
        if let Some(output) = arguments.iter().find(|argument| argument.output) {
            let text = format!("mssql-sim returns no output parameters, and {} is one", output.name);
            return self.refuse(&messages::refused(text), response);
        }
        let mut text = format!("EXEC {name}");
        let mut params = Vec::with_capacity(arguments.len());
        for (at, argument) in arguments.iter().enumerate() {
            text.push_str(if at == 0 { " " } else { ", " });
            if !argument.name.is_empty() {
                text.push_str(&format!("{} = ", argument.name));
            }
            if argument.default {
                text.push_str("DEFAULT");
                continue;
            }
            // A name of its own, which no variable of the text can be.
            let variable = format!("@sim_rpc_{at}");
            text.push_str(&variable);
            params.push(Param {
                name: variable,
                ty: argument.ty,
                value: argument.value.clone(),
            });
        }
        self.note(Came::Rpc, &text, "");
        response.begin(&text, true);
        self.run(Came::Rpc, &text, &params, response)?;
        response.end_procedure(None);
        Ok(())
    }

    fn run_with(
        &mut self,
        text: &str,
        declared: &[Declared],
        values: &[Argument],
        handle: Option<(u16, &str, i32)>,
        response: &mut Response<'_>,
    ) -> Result<(), SinkClosed> {
        response.begin(text, true);
        match params::bind(declared, values) {
            Ok(params) => self.run(Came::Rpc, text, &params, response)?,
            Err(text) => response.error(&messages::missing_parameter(text))?,
        }
        response.end_procedure(handle);
        Ok(())
    }

    /// Runs a text on the engine, behind the faults that wait for it, and tells the client of transactions.
    fn run(&mut self, came: Came, text: &str, params: &[Param], response: &mut Response<'_>) -> Result<(), SinkClosed> {
        let mut older = false;
        while let Some(fault) = self.shared.faults.take_for_request(&self.login.user, text) {
            match fault {
                FaultKind::Error { number, message } => {
                    if number == 1205 && self.session.open_transactions() > 0 {
                        // The victim's transaction is gone; what the rollback itself says is nobody's business.
                        let _ = script::query(&mut self.session, "ROLLBACK TRANSACTION");
                        self.announce_transaction("ROLLBACK", response);
                    }
                    let error = messages::injected(number, message.as_deref(), self.session.spid(), &self.login.user);
                    return response.error(&error);
                }
                FaultKind::LockWait => {
                    if let Some(error) = self.wait_for_lock(response)? {
                        return response.error(&error);
                    }
                }
                FaultKind::OlderCopy { entries } => {
                    if let Err(error) = self.session.show_older(Some(entries)) {
                        return response.error(&error);
                    }
                    older = true;
                }
                FaultKind::SqlBefore { database, sql } => {
                    if let Err(error) = self.shared.run_as_admin(database.as_deref(), &sql) {
                        let text = format!("the batch of sql_before failed: {error}");
                        return response.error(&messages::refused(text));
                    }
                }
                _ => {}
            }
        }
        let result = match came {
            Came::Batch => self.session.execute(text, params, response),
            Came::Rpc => self.session.call(text, params, response),
        };
        if older {
            // Nothing of the storage is asked when the session goes back to what there is.
            let _ = self.session.show_older(None);
        }
        result?;
        self.announce_transaction(text, response);
        Ok(())
    }

    /// Waits for the lock of a fault: until it is released, `SET LOCK_TIMEOUT` runs out, or the client wants no more.
    fn wait_for_lock(&mut self, response: &mut Response<'_>) -> Result<Option<SqlError>, SinkClosed> {
        let deadline = self.session.lock_timeout().map(|timeout| Instant::now() + timeout);
        let lock = self.shared.faults.block();
        while !lock.is_released() {
            if deadline.is_some_and(|at| Instant::now() >= at) {
                let mut error = messages::injected(1222, None, self.session.spid(), &self.login.user);
                error.state = 51;
                return Ok(Some(error));
            }
            std::thread::sleep(Duration::from_millis(5));
            response.still_wanted()?;
        }
        Ok(None)
    }

    /// Tells the client of a transaction that `text` began or ended.
    fn announce_transaction(&mut self, text: &str, response: &mut Response<'_>) {
        let open = self.session.open_transactions() > 0;
        if self.transaction != 0 && !open {
            // Both say that there is none any more; they differ only in what the client may log.
            let rolled_back = response.has_failed() || text.to_ascii_lowercase().contains("rollback");
            response.env_change_of_last(if rolled_back {
                EnvChange::TransactionRolledBack(self.transaction)
            } else {
                EnvChange::TransactionCommitted(self.transaction)
            });
            self.transaction = 0;
        } else if self.transaction == 0 && open {
            self.last_transaction += 1;
            self.transaction = (self.id << 32) | self.last_transaction;
            response.env_change_of_last(EnvChange::TransactionBegun(self.transaction));
        }
    }

    fn transaction_request(
        &mut self,
        request: TransactionRequest,
        response: &mut Response<'_>,
    ) -> Result<(), SinkClosed> {
        let begin = |name: &str| match name {
            "" => "BEGIN TRANSACTION".to_owned(),
            name => format!("BEGIN TRANSACTION [{}]", name.replace(']', "]]")),
        };
        let mut then_begin = false;
        let mut level = "";
        let text = match request {
            TransactionRequest::Begin { isolation, name } => {
                level = match isolation {
                    1 => "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; ",
                    2 => "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; ",
                    3 => "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; ",
                    4 => "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; ",
                    5 => "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; ",
                    _ => "",
                };
                begin(&name)
            }
            TransactionRequest::Commit { then_begin: next, .. } => {
                then_begin = next;
                "COMMIT TRANSACTION".to_owned()
            }
            TransactionRequest::Rollback { name, then_begin: next } => {
                then_begin = next;
                match name.as_str() {
                    "" => "ROLLBACK TRANSACTION".to_owned(),
                    name => format!("ROLLBACK TRANSACTION [{}]", name.replace(']', "]]")),
                }
            }
            TransactionRequest::Save { name } => format!("SAVE TRANSACTION [{}]", name.replace(']', "]]")),
        };
        if !level.is_empty() {
            self.batch(level, response)?;
            response.forget_done();
        }
        self.batch(&text, response)?;
        if then_begin {
            response.forget_done();
            self.batch("BEGIN TRANSACTION", response)?;
        }
        Ok(())
    }

    fn fault(&mut self, call: Result<ExecCall, String>, response: &mut Response<'_>) -> Result<(), SinkClosed> {
        if !self.login.user.eq_ignore_ascii_case(&self.shared.admin_user) {
            return response.error(&messages::only_for_admin("fault"));
        }
        match call.and_then(|call| faults::parse_request(&call)) {
            Ok(FaultRequest::Arm(fault)) => self.shared.faults.arm(fault),
            Ok(FaultRequest::Clear) => self.shared.faults.clear(),
            Ok(FaultRequest::Release) => self.shared.faults.release(),
            Ok(FaultRequest::State) => {
                let columns = ["waiting", "blocked"].map(|name| ColumnMeta {
                    name: name.to_owned(),
                    ty: SqlType::Int,
                    nullable: false,
                    collation: None,
                });
                response.columns(&columns)?;
                let counts = [self.shared.faults.waiting(), self.shared.faults.blocked()];
                response.row(&counts.map(|count| Value::Int(count as i64)))?;
                response.statement_done(Some(1))?;
            }
            Err(text) => return response.error(&messages::refused(text)),
        }
        response.return_status(0)
    }

    fn logins(&mut self, response: &mut Response<'_>) -> Result<(), SinkClosed> {
        if !self.login.user.eq_ignore_ascii_case(&self.shared.admin_user) {
            return response.error(&messages::only_for_admin("logins"));
        }
        let rows = self.shared.logins.rows();
        response.columns(&logins::columns())?;
        for row in &rows {
            response.row(row)?;
        }
        response.statement_done(Some(rows.len() as u64))?;
        response.return_status(0)
    }

    fn refuse(&mut self, error: &SqlError, response: &mut Response<'_>) -> Result<(), SinkClosed> {
        response.begin("", true);
        response.error(error)?;
        response.end_procedure(None);
        Ok(())
    }
}

fn open_session(shared: &Shared, login: &Login7) -> Result<Session, SqlError> {
    let database = (!login.database.is_empty()).then_some(login.database.as_str());
    match login.token {
        // Whose it is was found out, and that it has not ended.
        Some(_) => shared.engine.login_without_password(&login.user, database),
        None => shared.engine.login(&login.user, &login.password, database),
    }
}

fn text_of(argument: &Argument) -> Option<String> {
    match &argument.value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}

/// The number of a procedure that was called by its name.
fn numbered(name: &str) -> Option<u16> {
    let plain = name.replace(['[', ']'], "").to_ascii_lowercase();
    match plain.rsplit('.').next().unwrap_or(&plain) {
        "sp_executesql" => Some(proc_id::EXECUTE_SQL),
        "sp_prepare" => Some(proc_id::PREPARE),
        "sp_execute" => Some(proc_id::EXECUTE),
        "sp_prepexec" => Some(proc_id::PREP_EXEC),
        "sp_unprepare" => Some(proc_id::UNPREPARE),
        _ => None,
    }
}
