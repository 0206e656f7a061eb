//! The flow of a batch: statement by statement, with IF, WHILE, TRY, and what an error ends.

use std::time::{Duration, Instant};

use super::{
    Run, Session, Stop,
    session::{Isolation, variables},
};
use crate::{
    bind::{Binder, Bound, Scope, Variables},
    error::{SqlResult, not_supported, sql_error},
    interrupt::INTERRUPTED,
    parse::{Kind, Statement},
    result::{Param, ResultSink, SqlError},
    types::{Collation, TICKS_PER_DAY, assign_in, convert, parse_type},
    value::{Length, SqlType, Value},
};

/// Variables of a batch or of an `sp_executesql` within it.
pub(crate) struct Frame {
    pub(crate) vars: Variables,
    /// How many TRY blocks are around the running statement.
    tries: u32,
    /// The error that the CATCH block in reach handles.
    caught: Option<SqlError>,
}

impl Frame {
    /// A frame with parameters as its variables.
    pub(crate) fn new(params: &[Param]) -> Frame {
        Frame {
            vars: variables(params),
            tries: 0,
            caught: None,
        }
    }
}

/// How a statement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Break,
    Continue,
    /// RETURN, or an error that ends the batch.
    End,
}

impl Session {
    /// Runs statements in order.
    pub(crate) fn run(&mut self, statements: &[Statement], frame: &mut Frame, sink: &mut dyn ResultSink) -> Run<Flow> {
        for statement in statements {
            match self.guarded(statement, frame, sink)? {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    /// Runs a statement and answers its error, unless a TRY block is there to do so.
    fn guarded(&mut self, statement: &Statement, frame: &mut Frame, sink: &mut dyn ResultSink) -> Run<Flow> {
        let result = self.statement(statement, frame, sink);
        let Err(Stop::Error(mut error)) = result else {
            if !matches!(
                statement.kind,
                Kind::If { .. } | Kind::While { .. } | Kind::Block(_) | Kind::Try { .. }
            ) {
                self.last_error = 0;
            }
            return result;
        };
        self.end_statement_reads();
        if error.number == INTERRUPTED {
            return Err(self.leave(sink));
        }
        if error.line == 0 {
            error.line = statement.line;
        }
        self.last_error = i64::from(error.number);
        let ends = ends_batch(error.number) || self.settings.xact_abort;
        if error.number == 1205 || (ends && (self.settings.xact_abort || rolls_back(error.number)) && frame.tries == 0)
        {
            self.abandon();
        }
        if frame.tries > 0 {
            return Err(Stop::Error(error));
        }
        sink.error(&error)?;
        if matches!(statement.kind, Kind::Insert(_) | Kind::Update(_) | Kind::Delete(_))
            && matches!(
                error.number,
                2627 | 2601 | 515 | 547 | 2628 | 8152 | 544 | 8115 | 220 | 8134
            )
        {
            let mut ended = sql_error(3621, 0, "The statement has been terminated.");
            ended.line = error.line;
            sink.info(&ended)?;
        }
        sink.statement_done(None)?;
        Ok(if ends { Flow::End } else { Flow::Next })
    }

    /// How an interrupted statement ends: as the client wished.
    fn leave(&mut self, sink: &mut dyn ResultSink) -> Stop {
        let patience = Instant::now() + Duration::from_secs(1);
        while Instant::now() < patience {
            if let Err(closed) = sink.still_wanted() {
                return Stop::Closed(closed);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // Something came that is no attention: bytes of a client that does not keep to the protocol.
        sql_error(3617, 11, "The operation was cancelled by user.").into()
    }

    fn statement(&mut self, statement: &Statement, frame: &mut Frame, sink: &mut dyn ResultSink) -> Run<Flow> {
        if self.settings.noexec && !matches!(statement.kind, Kind::SetOption { .. }) {
            return Ok(Flow::Next);
        }
        let quiet = |session: &mut Session, sink: &mut dyn ResultSink| -> Run<Flow> {
            session.row_count = 0;
            sink.statement_done(None)?;
            Ok(Flow::Next)
        };
        match &statement.kind {
            Kind::Query(query) => self.select(query, frame, sink)?,
            Kind::Insert(insert) => self.insert(insert, frame, sink)?,
            Kind::Update(update) => self.update(update, frame, sink)?,
            Kind::Delete(delete) => self.delete(delete, frame, sink)?,
            Kind::Execute {
                result,
                procedure,
                arguments,
            } => {
                return self.execute_procedure(procedure, arguments, result.as_deref(), frame, sink);
            }
            Kind::ExecuteText(text) => {
                let text = self.text(text, frame)?;
                // Dynamic SQL sees none of the variables around it.
                let mut inner = Frame {
                    tries: frame.tries,
                    ..Frame::new(&[])
                };
                self.scoped(&text, &mut inner, sink)?;
            }
            Kind::Declare(list) => {
                for (name, ty, value) in list {
                    let ty = parse_type(ty)?;
                    if frame.vars.contains_key(&name.to_lowercase()) {
                        return Err(sql_error(
                            134,
                            15,
                            format!("The variable name '{name}' has already been declared. Variable names must be unique within a query batch or stored procedure."),
                        )
                        .into());
                    }
                    let initial = match value {
                        Some(expr) => {
                            let (value, from) = self.scalar(expr, frame)?;
                            variable_value(&value, from, ty)?
                        }
                        None => Value::Null,
                    };
                    frame.vars.insert(name.to_lowercase(), (ty, initial));
                }
            }
            Kind::SetVariable { name, value } => {
                let key = name.to_lowercase();
                let Some((ty, _)) = frame.vars.get(&key).cloned() else {
                    return Err(crate::error::undeclared(name).into());
                };
                let (value, from) = self.scalar(value, frame)?;
                frame.vars.insert(key, (ty, variable_value(&value, from, ty)?));
            }
            Kind::SetOption { name, value } => {
                self.set_option(name, value)?;
                sink.statement_done(None)?;
            }
            Kind::If {
                condition,
                then,
                otherwise,
            } => {
                let taken = if self.condition(condition, frame)? {
                    Some(then)
                } else {
                    otherwise.as_ref()
                };
                if let Some(branch) = taken {
                    return self.guarded(branch, frame, sink);
                }
            }
            Kind::While { condition, body } => {
                while self.condition(condition, frame)? {
                    sink.still_wanted()?;
                    match self.guarded(body, frame, sink)? {
                        Flow::Next | Flow::Continue => {}
                        Flow::Break => break,
                        Flow::End => return Ok(Flow::End),
                    }
                }
            }
            Kind::Block(statements) => return self.run(statements, frame, sink),
            Kind::Try { body, catch } => {
                frame.tries += 1;
                let result = self.run(body, frame, sink);
                frame.tries -= 1;
                match result {
                    Err(Stop::Error(error)) => {
                        let before = frame.caught.replace(*error);
                        let flow = self.run(catch, frame, sink);
                        frame.caught = before;
                        return flow;
                    }
                    other => return other,
                }
            }
            Kind::Print(text) => {
                let text = self.text(text, frame)?;
                let mut message = sql_error(0, 0, text);
                message.line = statement.line;
                sink.info(&message)?;
            }
            Kind::Begin => {
                self.begin();
                return quiet(self, sink);
            }
            Kind::Commit => {
                self.commit()?;
                return quiet(self, sink);
            }
            Kind::Rollback(name) => {
                let to_savepoint = match name {
                    Some(name) => self.rollback_to(name)?,
                    None => false,
                };
                if !to_savepoint {
                    self.rollback()?;
                }
                return quiet(self, sink);
            }
            Kind::Save(name) => {
                self.save(name)?;
                return quiet(self, sink);
            }
            Kind::Return => return Ok(Flow::End),
            Kind::Break => return Ok(Flow::Break),
            Kind::Continue => return Ok(Flow::Continue),
            Kind::WaitFor { delay, time } => {
                let (value, ty) = self.scalar(time, frame)?;
                let Value::Time(ticks) = convert(&value, ty, SqlType::Time(7))? else {
                    return Err(sql_error(148, 15, "Incorrect time syntax in time string used with WAITFOR.").into());
                };
                let span = if *delay {
                    ticks
                } else {
                    (ticks - self.database.now().rem_euclid(TICKS_PER_DAY)).rem_euclid(TICKS_PER_DAY)
                };
                // In small steps, so that an attention ends it.
                let until = Instant::now() + Duration::from_nanos(span.max(0) as u64 * 100);
                while let Some(left) = until
                    .checked_duration_since(Instant::now())
                    .filter(|left| !left.is_zero())
                {
                    std::thread::sleep(left.min(Duration::from_millis(10)));
                    sink.still_wanted()?;
                }
                sink.statement_done(None)?;
            }
            Kind::RaiseError(args) => return self.raise_error(args, statement.line, frame, sink),
            Kind::Throw(args) => {
                let error = match args.as_slice() {
                    [] => frame.caught.clone().ok_or_else(|| {
                        sql_error(
                            10704,
                            15,
                            "To rethrow an error, a THROW statement must be used inside a CATCH block.",
                        )
                    })?,
                    [number, message, state] => {
                        let (number, message) = (self.integer(number, frame)?, self.text(message, frame)?);
                        let mut error = sql_error(number as i32, 16, message);
                        error.state = self.integer(state, frame)? as u8;
                        error
                    }
                    _ => return Err(crate::error::syntax_near("THROW").into()),
                };
                self.end_statement_reads();
                if frame.tries > 0 {
                    return Err(error.into());
                }
                let mut error = error;
                if error.line == 0 {
                    error.line = statement.line;
                }
                self.last_error = i64::from(error.number);
                sink.error(&error)?;
                sink.statement_done(None)?;
                return Ok(Flow::End);
            }
            Kind::Use(name) => {
                let old = self.database.name.clone();
                self.use_database(name)?;
                if old != self.database.name {
                    sink.database_changed(&old, &self.database.name)?;
                }
                let mut message = sql_error(
                    5701,
                    0,
                    format!("Changed database context to '{}'.", self.database.name),
                );
                message.state = 2;
                message.line = statement.line;
                sink.info(&message)?;
                sink.statement_done(None)?;
            }
            Kind::Security(security) => {
                self.security(security)?;
                return quiet(self, sink);
            }
            Kind::Nothing => return quiet(self, sink),
            definition => {
                self.define(definition)?;
                return quiet(self, sink);
            }
        }
        Ok(Flow::Next)
    }

    fn set_option(&mut self, name: &str, value: &str) -> SqlResult<()> {
        let on = value == "ON";
        for name in name.split(',') {
            match name {
                "NOCOUNT" => self.settings.nocount = on,
                "XACT_ABORT" => self.settings.xact_abort = on,
                "IMPLICIT_TRANSACTIONS" => self.settings.implicit_transactions = on,
                "NOEXEC" => self.settings.noexec = on,
                "ISOLATION" => {
                    self.settings.isolation = match value {
                        "SNAPSHOT" => Isolation::Snapshot,
                        "SERIALIZABLE" | "REPEATABLE READ" => Isolation::OneState,
                        "READ COMMITTED" | "READ UNCOMMITTED" => Isolation::Committed,
                        _ => return Err(crate::error::syntax_near(value)),
                    };
                }
                "LOCK_TIMEOUT" => {
                    let ms: i64 = value.parse().map_err(|_| crate::error::syntax_near(value))?;
                    self.settings.lock_timeout = u64::try_from(ms).ok().map(Duration::from_millis);
                }
                "IDENTITY_INSERT" => {
                    let (table, switch) = value.rsplit_once(' ').unwrap_or((value, ""));
                    let parts = crate::context::split_name(table);
                    self.context()?;
                    let table = self.table(&parts)?;
                    self.settings.identity_insert = (switch == "ON").then_some(table.id);
                }
                "ANSI_NULLS"
                | "ANSI_PADDING"
                | "ANSI_WARNINGS"
                | "ARITHABORT"
                | "ARITHIGNORE"
                | "CONCAT_NULL_YIELDS_NULL"
                | "QUOTED_IDENTIFIER"
                | "NUMERIC_ROUNDABORT"
                | "ANSI_NULL_DFLT_ON"
                | "ANSI_NULL_DFLT_OFF"
                | "ANSI_DEFAULTS"
                | "CURSOR_CLOSE_ON_COMMIT"
                | "DATEFIRST"
                | "DATEFORMAT"
                | "LANGUAGE"
                | "TEXTSIZE"
                | "ROWCOUNT"
                | "FMTONLY"
                | "NO_BROWSETABLE"
                | "DEADLOCK_PRIORITY"
                | "STATISTICS"
                | "QUERY_GOVERNOR_COST_LIMIT"
                | "FORCEPLAN"
                | "CONTEXT_INFO"
                | "REMOTE_PROC_TRANSACTIONS"
                | "OFFSETS"
                | "PARSEONLY"
                | "IO"
                | "TIME" => {
                    if name == "ROWCOUNT" && value != "0" {
                        return Err(not_supported("ROWCOUNT"));
                    }
                }
                other => {
                    return Err(sql_error(195, 15, format!("'{other}' is not a recognized SET option.")));
                }
            }
        }
        Ok(())
    }

    fn raise_error(
        &mut self,
        args: &[sqlparser::ast::Expr],
        line: u32,
        frame: &mut Frame,
        sink: &mut dyn ResultSink,
    ) -> Run<Flow> {
        let [message, severity, state, rest @ ..] = args else {
            return Err(crate::error::syntax_near("RAISERROR").into());
        };
        let mut text = self.text(message, frame)?;
        for arg in rest {
            let value = self.text(arg, frame)?;
            if let Some(at) = text
                .find("%s")
                .into_iter()
                .chain(text.find("%d"))
                .chain(text.find("%i"))
                .min()
            {
                text.replace_range(at..at + 2, &value);
            }
        }
        let class = self.integer(severity, frame)?.clamp(0, 25) as u8;
        let mut error = sql_error(50000, class, text);
        error.state = self.integer(state, frame)?.clamp(0, 255) as u8;
        error.line = line;
        if class <= 10 {
            sink.info(&error)?;
            sink.statement_done(None)?;
            return Ok(Flow::Next);
        }
        Err(error.into())
    }

    /// The value and type of an expression that reads no table of its own.
    pub(crate) fn scalar(&mut self, expr: &sqlparser::ast::Expr, frame: &Frame) -> SqlResult<(Value, SqlType)> {
        self.begin_read()?;
        let result = self.scalar_in_snapshot(expr, frame);
        self.end_statement_reads();
        result
    }

    fn scalar_in_snapshot(&mut self, expr: &sqlparser::ast::Expr, frame: &Frame) -> SqlResult<(Value, SqlType)> {
        let ctx = self.context()?;
        let mut binder = Binder::new(&ctx, &frame.vars);
        binder.fold_volatile = true;
        let bound = binder.expr(expr, &Scope::default())?;
        self.evaluate(binder, &bound)
    }

    /// Evaluates a bound expression without FROM.
    pub(crate) fn evaluate(&self, mut binder: Binder<'_>, bound: &Bound) -> SqlResult<(Value, SqlType)> {
        if let Some(value) = bound.value() {
            return Ok((value.clone(), bound.ty));
        }
        binder.check_reads()?;
        let sql = binder.emit(bound);
        let rows = super::collect(&self.conn, &binder, &format!("SELECT {sql}"), &[bound.ty])?;
        Ok((rows.into_iter().flatten().next().unwrap_or(Value::Null), bound.ty))
    }

    fn condition(&mut self, expr: &sqlparser::ast::Expr, frame: &Frame) -> SqlResult<bool> {
        self.begin_read()?;
        let result = (|| {
            let ctx = self.context()?;
            let mut binder = Binder::new(&ctx, &frame.vars);
            let sql = binder.predicate(expr, &Scope::default())?;
            binder.check_reads()?;
            let rows = super::collect(&self.conn, &binder, &format!("SELECT {sql}"), &[SqlType::Int])?;
            Ok(rows.first().and_then(|r| r.first()) == Some(&Value::Int(1)))
        })();
        self.end_statement_reads();
        result
    }

    /// An expression as text.
    pub(crate) fn text(&mut self, expr: &sqlparser::ast::Expr, frame: &Frame) -> SqlResult<String> {
        let (value, ty) = self.scalar(expr, frame)?;
        match convert(&value, ty, SqlType::NVarChar(Length::Max))? {
            Value::Text(t) => Ok(t),
            _ => Ok(String::new()),
        }
    }

    fn integer(&mut self, expr: &sqlparser::ast::Expr, frame: &Frame) -> SqlResult<i64> {
        let (value, ty) = self.scalar(expr, frame)?;
        match convert(&value, ty, SqlType::BigInt)? {
            Value::Int(n) => Ok(n),
            _ => Ok(0),
        }
    }
}

/// A value for a variable: text that is too long is cut without an error.
pub(crate) fn variable_value(value: &Value, from: SqlType, to: SqlType) -> SqlResult<Value> {
    if *value != Value::Null && from != to && !crate::types::implicit_allowed(from, to) {
        return Err(crate::error::implicit_conversion(&from.to_string(), &to.to_string()));
    }
    match assign_in(value, from, to, Collation::default().page)? {
        Some(value) => Ok(value),
        None => convert(value, from, to),
    }
}

/// Errors that end the batch: bad names and syntax, and conversions of text.
fn ends_batch(number: i32) -> bool {
    matches!(
        number,
        102 | 105 | 137 | 156 | 174 | 195 | 206 | 207 | 208 | 209 | 257 | 402 | 4104 | 911 | 916 | 1205 | 3960
    ) || rolls_back(number)
}

/// Errors that roll the transaction back with the batch.
fn rolls_back(number: i32) -> bool {
    matches!(number, 241 | 242 | 245 | 248 | 244 | 8169 | 235 | 1205 | 3960)
}
