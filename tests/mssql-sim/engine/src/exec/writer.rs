//! Rows going into and out of tables, with constraints, and with log records where CDC tracks the table.

use std::sync::Arc;

use rusqlite::{Connection, ErrorCode, types::Value as Stored};

use super::{storage, transaction::Log};
use crate::{
    catalog::{Catalog, Column, Key, Table},
    cdc::{Op, write_image},
    database::Database,
    error::{SqlResult, not_null, sql_error},
    result::SqlError,
    types::{assign_in, encode, implicit_allowed, type_default_text},
    value::{SqlType, Value},
    version::ServerVersion,
};

/// A table being written.
pub(crate) struct Writer<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) database: &'a Database,
    pub(crate) catalog: &'a Catalog,
    pub(crate) table: Arc<Table>,
    pub(crate) log: &'a mut Log,
    pub(crate) version: ServerVersion,
    tracked: bool,
    insert_sql: String,
    delete_sql: String,
    buffer: Vec<u8>,
}

/// What addresses a row: the rowid, or the columns of SQLite's own key.
pub(crate) fn key_columns(table: &Table, alias: &str) -> Vec<String> {
    if table.is_rowid_table() {
        vec![format!("{alias}.rowid")]
    } else {
        table.cluster.iter().map(|id| format!("{alias}.c{id}")).collect()
    }
}

impl<'a> Writer<'a> {
    pub(crate) fn new(
        conn: &'a Connection,
        database: &'a Database,
        catalog: &'a Catalog,
        table: Arc<Table>,
        log: &'a mut Log,
        version: ServerVersion,
    ) -> Writer<'a> {
        let tracked = !catalog.instances_of(table.id).is_empty();
        let names: Vec<String> = table.columns.iter().map(|c| format!("c{}", c.id)).collect();
        let marks: Vec<String> = (1..=names.len()).map(|i| format!("?{i}")).collect();
        let insert_sql = format!(
            "INSERT INTO {}({}) VALUES ({})",
            table.sql_name(),
            names.join(", "),
            marks.join(", ")
        );
        let keys: Vec<String> = key_columns(&table, "t")
            .iter()
            .enumerate()
            .map(|(i, k)| format!("{k} IS ?{}", i + 1))
            .collect();
        let delete_sql = format!("DELETE FROM {} AS t WHERE {}", table.sql_name(), keys.join(" AND "));
        Writer {
            conn,
            database,
            catalog,
            table,
            log,
            version,
            tracked,
            insert_sql,
            delete_sql,
            buffer: Vec::new(),
        }
    }

    /// A value as a column takes it.
    ///
    /// # Errors
    /// 206/257 for types that do not go together, 2628 or 8152 for what is too long, conversion errors.
    pub(crate) fn fit(&self, column: &Column, value: Value, from: SqlType) -> SqlResult<Value> {
        if from == column.ty && !column.ty.is_text() && !column.ty.is_bytes() || value == Value::Null {
            return Ok(value);
        }
        if !implicit_allowed(from, column.ty) {
            return Err(if from.is_text() || from.is_bytes() {
                crate::error::implicit_conversion(&from.to_string(), &column.ty.to_string())
            } else {
                crate::error::type_clash(&from.to_string(), &column.ty.to_string())
            });
        }
        match assign_in(&value, from, column.ty, column.collation().page)? {
            Some(value) => Ok(value),
            None => Err(self.truncated(column, &value)),
        }
    }

    fn truncated(&self, column: &Column, value: &Value) -> SqlError {
        if self.version < ServerVersion::V2019 {
            return sql_error(8152, 16, "String or binary data would be truncated.");
        }
        let shown = match value {
            Value::Text(t) => {
                let limit = match column.ty {
                    SqlType::Char(n) | SqlType::NChar(n) => usize::from(n),
                    SqlType::VarChar(crate::value::Length::Limited(n))
                    | SqlType::NVarChar(crate::value::Length::Limited(n)) => usize::from(n),
                    _ => 0,
                };
                t.chars().take(limit).collect()
            }
            _ => String::new(),
        };
        sql_error(
            2628,
            16,
            format!(
                "String or binary data would be truncated in table '{}', column '{}'. Truncated value: '{shown}'.",
                self.full_name(),
                column.name
            ),
        )
    }

    fn full_name(&self) -> String {
        format!(
            "{}.{}.{}",
            self.database.name,
            self.catalog.schema_name(self.table.schema_id),
            self.table.name
        )
    }

    /// Gives the row's `rowversion` a new value. `old` is the row before an update.
    ///
    /// # Errors
    /// 273 for a value that the statement gave.
    pub(crate) fn stamp(&self, row: &mut [Value], old: Option<&[Value]>) -> SqlResult<()> {
        for (at, column) in self.table.columns.iter().enumerate() {
            if column.ty != SqlType::RowVersion {
                continue;
            }
            let before = old.and_then(|old| old.get(at)).unwrap_or(&Value::Null);
            if row[at] != *before {
                return Err(sql_error(
                    273,
                    16,
                    "Cannot insert an explicit value into a timestamp column. Use INSERT with a column list to exclude the timestamp column, or insert a DEFAULT into the timestamp column.",
                ));
            }
            // LSNs only rise, so their lower bytes are as good a counter as the database's own.
            let lsn = self.database.clock.lock().record();
            row[at] = Value::Bytes(lsn.0[2..].to_vec());
        }
        Ok(())
    }

    /// Checks NOT NULL.
    ///
    /// # Errors
    /// 515.
    pub(crate) fn check_nulls(&self, row: &[Value], verb: &str) -> SqlResult<()> {
        for (column, value) in self.table.columns.iter().zip(row) {
            if !column.nullable && column.computed.is_none() && *value == Value::Null {
                return Err(not_null(&column.name, &self.full_name(), verb));
            }
        }
        Ok(())
    }

    /// Puts a row in, in column order.
    ///
    /// # Errors
    /// 2627 and 2601 for a duplicate key.
    pub(crate) fn insert(&mut self, row: &[Value]) -> SqlResult<()> {
        self.insert_unlogged(row)?;
        self.log(Op::Insert, row, None)
    }

    /// Puts a row in without a log record: half of an update that is logged elsewhere.
    pub(crate) fn insert_unlogged(&mut self, row: &[Value]) -> SqlResult<()> {
        let mut statement = self.conn.prepare_cached(&self.insert_sql).map_err(storage)?;
        for (i, value) in row.iter().enumerate() {
            bind(&mut statement, i + 1, value)?;
        }
        statement.raw_execute().map_err(|e| self.duplicate(e, row))?;
        Ok(())
    }

    /// Takes a row out.
    pub(crate) fn delete(&mut self, key: &[Stored], old: &[Value]) -> SqlResult<()> {
        self.delete_unlogged(key)?;
        self.log(Op::Delete, old, None)
    }

    pub(crate) fn delete_unlogged(&mut self, key: &[Stored]) -> SqlResult<()> {
        self.conn
            .prepare_cached(&self.delete_sql)
            .and_then(|mut s| s.execute(rusqlite::params_from_iter(key)))
            .map_err(storage)?;
        Ok(())
    }

    /// Changes columns (by position) of a row that stays where it is.
    pub(crate) fn update(&mut self, key: &[Stored], changed: &[usize], old: &[Value], new: &[Value]) -> SqlResult<()> {
        let sets: Vec<String> = changed
            .iter()
            .enumerate()
            .map(|(i, at)| format!("c{} = ?{}", self.table.columns[*at].id, i + 1))
            .collect();
        let keys: Vec<String> = key_columns(&self.table, "t")
            .iter()
            .enumerate()
            .map(|(i, k)| format!("{k} IS ?{}", i + 1 + changed.len()))
            .collect();
        let sql = format!(
            "UPDATE {} AS t SET {} WHERE {}",
            self.table.sql_name(),
            sets.join(", "),
            keys.join(" AND ")
        );
        let values = changed.iter().map(|at| encode(&new[*at])).chain(key.iter().cloned());
        let mut statement = self.conn.prepare_cached(&sql).map_err(storage)?;
        statement
            .execute(rusqlite::params_from_iter(values))
            .map_err(|e| self.duplicate(e, new))?;
        drop(statement);
        self.log(Op::Update, old, Some(new))
    }

    /// Writes a log record of a row change, if CDC tracks the table.
    pub(crate) fn log(&mut self, op: Op, row: &[Value], after: Option<&[Value]>) -> SqlResult<()> {
        if !self.tracked {
            return Ok(());
        }
        self.buffer.clear();
        let columns = &self.table.columns;
        for image in std::iter::once(row).chain(after) {
            write_image(
                &mut self.buffer,
                columns.iter().zip(image).map(|(c, v)| (c.id, c.ty, v)),
            );
        }
        append(self.conn, self.database, self.log, self.table.id, op, &self.buffer)
    }

    /// SQL Server's error for SQLite's unique violation.
    fn duplicate(&self, error: rusqlite::Error, row: &[Value]) -> SqlError {
        let rusqlite::Error::SqliteFailure(code, Some(message)) = &error else {
            return storage(error);
        };
        if code.code != ErrorCode::ConstraintViolation {
            return storage(error);
        }
        let Some(key) = self.violated(message) else {
            return storage(error);
        };
        let values: Vec<String> = key
            .columns
            .iter()
            .filter_map(|id| self.table.columns.iter().position(|c| c.id == *id))
            .map(|at| match &row[at] {
                Value::Null => "<NULL>".to_owned(),
                value => type_default_text(value, self.table.columns[at].ty),
            })
            .collect();
        let object = format!("{}.{}", self.catalog.schema_name(self.table.schema_id), self.table.name);
        let values = values.join(", ");
        if key.constraint {
            let kind = if key.primary { "PRIMARY" } else { "UNIQUE" };
            sql_error(
                2627,
                14,
                format!(
                    "Violation of {kind} KEY constraint '{}'. Cannot insert duplicate key in object '{object}'. The duplicate key value is ({values}).",
                    key.name
                ),
            )
        } else {
            sql_error(
                2601,
                14,
                format!(
                    "Cannot insert duplicate key row in object '{object}' with unique index '{}'. The duplicate key value is ({values}).",
                    key.name
                ),
            )
        }
    }

    /// The key that SQLite's message names, by its columns or its index.
    fn violated(&self, message: &str) -> Option<&Key> {
        if let Some((_, index)) = message.split_once("index '") {
            let name = index.trim_end_matches('\'');
            return self
                .table
                .keys
                .iter()
                .find(|k| name == format!("k{}_{}n", self.table.id, k.id));
        }
        let (_, list) = message.split_once(": ")?;
        let mut ids: Vec<i64> = list
            .split(", ")
            .filter_map(|c| c.rsplit_once(".c")?.1.parse().ok())
            .collect();
        ids.sort_unstable();
        self.table.keys.iter().filter(|k| k.unique).find(|k| {
            let mut own = k.columns.clone();
            own.sort_unstable();
            own == ids
        })
    }
}

/// Appends a log record to the open transaction.
pub(crate) fn append(
    conn: &Connection,
    database: &Database,
    log: &mut Log,
    object: i64,
    op: Op,
    data: &[u8],
) -> SqlResult<()> {
    let lsn = database.clock.lock().record();
    conn.prepare_cached("INSERT INTO main._sim_log(tx, object_id, op, lsn, data) VALUES (?1, ?2, ?3, ?4, ?5)")
        .and_then(|mut s| {
            s.execute(rusqlite::params![
                log.transaction,
                object,
                op as i64,
                lsn.0.as_slice(),
                data
            ])
        })
        .map_err(storage)?;
    log.last = conn.last_insert_rowid();
    if log.first == 0 {
        log.first = log.last;
    }
    Ok(())
}

/// Binds a value without copying text and bytes.
fn bind(statement: &mut rusqlite::Statement<'_>, index: usize, value: &Value) -> SqlResult<()> {
    let bound = match value {
        Value::Text(t) => statement.raw_bind_parameter(index, t.as_str()),
        Value::Bytes(b) => statement.raw_bind_parameter(index, b.as_slice()),
        other => statement.raw_bind_parameter(index, encode(other)),
    };
    bound.map_err(storage)
}
