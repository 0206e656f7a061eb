//! Batches against a whole engine, read back through a collecting sink.

mod cdc;
mod clock;
mod computed;
mod instances;
mod language;
mod older_copy;
mod security;
mod throughput;
mod types;
mod version;

use std::sync::Arc;

use crate::{
    Engine, EngineOptions, Session,
    result::{ColumnMeta, ResultSink, SinkClosed, SqlError},
    value::Value,
};

/// What a batch answered.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) columns: Vec<Vec<ColumnMeta>>,
    pub(crate) sets: Vec<Vec<Vec<Value>>>,
    pub(crate) done: Vec<Option<u64>>,
    pub(crate) infos: Vec<SqlError>,
    pub(crate) errors: Vec<SqlError>,
    pub(crate) databases: Vec<(String, String)>,
    pub(crate) statuses: Vec<i32>,
}

impl ResultSink for Answers {
    fn columns(&mut self, columns: &[ColumnMeta]) -> Result<(), SinkClosed> {
        self.columns.push(columns.to_vec());
        self.sets.push(Vec::new());
        Ok(())
    }

    fn row(&mut self, row: &[Value]) -> Result<(), SinkClosed> {
        self.sets.last_mut().unwrap().push(row.to_vec());
        Ok(())
    }

    fn statement_done(&mut self, rows: Option<u64>) -> Result<(), SinkClosed> {
        self.done.push(rows);
        Ok(())
    }

    fn info(&mut self, message: &SqlError) -> Result<(), SinkClosed> {
        self.infos.push(message.clone());
        Ok(())
    }

    fn error(&mut self, error: &SqlError) -> Result<(), SinkClosed> {
        self.errors.push(error.clone());
        Ok(())
    }

    fn database_changed(&mut self, old: &str, new: &str) -> Result<(), SinkClosed> {
        self.databases.push((old.into(), new.into()));
        Ok(())
    }

    fn return_status(&mut self, status: i32) -> Result<(), SinkClosed> {
        self.statuses.push(status);
        Ok(())
    }
}

pub(crate) fn options() -> EngineOptions {
    EngineOptions {
        admin_password: "secret".into(),
        ..EngineOptions::default()
    }
}

pub(crate) fn engine() -> Arc<Engine> {
    Engine::open(options()).unwrap()
}

pub(crate) fn admin(engine: &Engine) -> Session {
    let mut session = engine.login("sa", "secret", None).unwrap();
    if engine.database("shop").is_none() {
        ok(&mut session, "CREATE DATABASE shop");
    }
    ok(&mut session, "USE shop");
    session
}

pub(crate) fn run(session: &mut Session, sql: &str) -> Answers {
    let mut answers = Answers::default();
    session.execute(sql, &[], &mut answers).unwrap();
    answers
}

/// Runs a batch that must not fail.
pub(crate) fn ok(session: &mut Session, sql: &str) -> Answers {
    let answers = run(session, sql);
    assert!(answers.errors.is_empty(), "{sql}\n{:?}", answers.errors);
    answers
}

/// The rows of a batch's last result set.
pub(crate) fn rows(session: &mut Session, sql: &str) -> Vec<Vec<Value>> {
    ok(session, sql).sets.pop().unwrap()
}

/// The one value of a batch.
pub(crate) fn one(session: &mut Session, sql: &str) -> Value {
    let rows = rows(session, sql);
    assert_eq!(rows.len(), 1, "{sql}");
    rows[0][0].clone()
}

/// The number of a batch's first error.
pub(crate) fn error(session: &mut Session, sql: &str) -> i32 {
    let answers = run(session, sql);
    answers
        .errors
        .first()
        .unwrap_or_else(|| panic!("no error from {sql}: {:?}", answers.sets))
        .number
}

pub(crate) fn int(n: i64) -> Value {
    Value::Int(n)
}

pub(crate) fn text(t: &str) -> Value {
    Value::Text(t.into())
}
