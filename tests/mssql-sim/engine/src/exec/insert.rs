//! INSERT.

use std::sync::Arc;

use super::{
    Frame, Run, Session, collect,
    dml::{Images, output_items},
    query::each,
    storage,
    writer::Writer,
};
use crate::{
    bind::{Binder, Code, Scope, literal},
    catalog::{Action, Column, Table},
    context::StatementContext,
    error::{SqlResult, computed_not_modified, invalid_column, sql_error},
    parse::{Insert, InsertSource, parse_expression},
    result::ResultSink,
    value::{SqlType, Value},
};

/// Where a column's value comes from.
enum Slot {
    /// The value at this position of the source row.
    Given(usize),
    Default(Box<sqlparser::ast::Expr>),
    Identity,
    Null,
}

impl Session {
    /// Runs an INSERT.
    pub(crate) fn insert(&mut self, insert: &Insert, frame: &mut Frame, sink: &mut dyn ResultSink) -> Run<()> {
        let mut done = None;
        self.write(|session| {
            let ctx = session.context()?;
            let table = session.table(&insert.table)?;
            let given = given_columns(session, &table, insert)?;
            session.prepare_write(&ctx, Action::Insert, &table, &[])?;
            let output = output_items(&insert.output, &table)?;
            let (count, images) = session.insert_rows(&ctx, &table, &given, insert, frame, !output.is_empty())?;
            session.enforce_checks(&table, "INSERT")?;
            done = Some((table, output, images, count));
            Ok(())
        })?;
        let Some((table, output, images, count)) = done else {
            return Ok(());
        };
        self.finish_dml(&table, &output, images, count, sink)
    }

    fn insert_rows(
        &mut self,
        ctx: &Arc<StatementContext>,
        table: &Arc<Table>,
        given: &[usize],
        insert: &Insert,
        frame: &Frame,
        keep: bool,
    ) -> SqlResult<(u64, Images)> {
        let slots = slots(table, given, self.settings.identity_insert == Some(table.id))?;
        let mut identity = None;
        let mut images = Vec::new();
        let mut count = 0_u64;
        let mut log = self.tx.log.clone();
        let version = self.engine.options.version;
        let mut writer = Writer::new(
            &self.conn,
            &self.database,
            &ctx.catalog,
            Arc::clone(table),
            &mut log,
            version,
        );
        let mut put = |writer: &mut Writer<'_>, mut row: Vec<Value>| -> SqlResult<()> {
            writer.stamp(&mut row, None)?;
            writer.check_nulls(&row, "INSERT")?;
            writer.insert(&row)?;
            count += 1;
            if keep {
                images.push((None, Some(row)));
            }
            Ok(())
        };
        match &insert.source {
            InsertSource::Values(rows) => {
                for row in rows {
                    if row.len() != given.len() {
                        return Err(row_length(row.len() > given.len()));
                    }
                    let full = self.value_row(ctx, &writer, &slots, Some(row), &mut identity, frame)?;
                    put(&mut writer, full)?;
                }
            }
            InsertSource::DefaultValues => {
                let full = self.value_row(ctx, &writer, &slots, None, &mut identity, frame)?;
                put(&mut writer, full)?;
            }
            InsertSource::Query(query) => {
                let mut binder = Binder::new(ctx, &frame.vars);
                let bound = binder.query(query, None)?;
                binder.check_reads()?;
                if bound.columns.len() != given.len() {
                    return Err(select_length(bound.columns.len() > given.len()));
                }
                let types: Vec<SqlType> = bound.columns.iter().map(|c| c.ty).collect();
                let mut one = |writer: &mut Writer<'_>, source: Vec<Value>| -> SqlResult<()> {
                    let mut row = Vec::with_capacity(slots.len());
                    let mut source: Vec<Option<Value>> = source.into_iter().map(Some).collect();
                    for (column, slot) in table.columns.iter().zip(&slots) {
                        row.push(match slot {
                            Slot::Given(at) => {
                                writer.fit(column, source[*at].take().unwrap_or(Value::Null), types[*at])?
                            }
                            other => self.made(ctx, writer, column, other, &mut identity, frame)?,
                        });
                    }
                    put(writer, row)
                };
                // A query that reads the target sees it as it was before.
                let reads_target = bound.sql.contains(&table.sql_name());
                if reads_target {
                    for row in collect(&self.conn, &binder, &bound.sql, &types)? {
                        one(&mut writer, row)?;
                    }
                } else {
                    each(&self.conn, &binder, &bound.sql, &types, |row| one(&mut writer, row))?;
                }
            }
        }
        self.tx.log = log;
        self.keep_identity(table, &slots, identity)?;
        Ok((count, images))
    }

    fn value_row(
        &self,
        ctx: &Arc<StatementContext>,
        writer: &Writer<'_>,
        slots: &[Slot],
        row: Option<&[Option<sqlparser::ast::Expr>]>,
        identity: &mut Option<i64>,
        frame: &Frame,
    ) -> SqlResult<Vec<Value>> {
        let mut full = Vec::with_capacity(slots.len());
        for (column, slot) in writer.table.columns.iter().zip(slots) {
            let value = match (slot, row) {
                (Slot::Given(at), Some(row)) => match &row[*at] {
                    Some(expr) => self.fitted(ctx, writer, column, expr, frame)?,
                    // DEFAULT
                    None => match &column.default {
                        Some(text) => self.fitted(ctx, writer, column, &parse_expression(text)?, frame)?,
                        None => Value::Null,
                    },
                },
                (slot, _) => self.made(ctx, writer, column, slot, identity, frame)?,
            };
            full.push(value);
        }
        Ok(full)
    }

    /// The value of a column that the statement does not give.
    fn made(
        &self,
        ctx: &Arc<StatementContext>,
        writer: &Writer<'_>,
        column: &Column,
        slot: &Slot,
        identity: &mut Option<i64>,
        frame: &Frame,
    ) -> SqlResult<Value> {
        match slot {
            Slot::Default(expr) => self.fitted(ctx, writer, column, expr, frame),
            Slot::Identity => {
                let Some(own) = &writer.table.identity else {
                    return Ok(Value::Null);
                };
                let mut all = self.database.identities.lock();
                let next = all
                    .entry(writer.table.id)
                    .and_modify(|v| *v += own.step)
                    .or_insert(own.seed);
                *identity = Some(*next);
                let next = *next;
                drop(all);
                if column.ty.is_decimal() {
                    return writer.fit(column, Value::Int(next), SqlType::BigInt);
                }
                crate::types::convert(&Value::Int(next), SqlType::BigInt, column.ty)
            }
            _ => Ok(Value::Null),
        }
    }

    fn fitted(
        &self,
        ctx: &Arc<StatementContext>,
        writer: &Writer<'_>,
        column: &Column,
        expr: &sqlparser::ast::Expr,
        frame: &Frame,
    ) -> SqlResult<Value> {
        if let sqlparser::ast::Expr::Value(plain) = expr {
            let bound = literal(&plain.value)?;
            return match bound.code {
                Code::Const(value) if !bound.untyped => writer.fit(column, value, bound.ty),
                _ => Ok(Value::Null),
            };
        }
        let mut binder = Binder::new(ctx, &frame.vars);
        binder.fold_volatile = true;
        let bound = binder.expr(expr, &Scope::default()).map_err(|e| match e.number {
            // A name in VALUES has no table to come from.
            207 => sql_error(
                128,
                15,
                format!("The name \"{expr}\" is not permitted in this context. Valid expressions are constants, constant expressions, and (in some contexts) variables. Column names are not permitted."),
            ),
            _ => e,
        })?;
        if bound.untyped {
            return Ok(Value::Null);
        }
        let (value, ty) = match bound.code {
            Code::Const(value) => (value, bound.ty),
            _ => self.evaluate(binder, &bound)?,
        };
        writer.fit(column, value, ty)
    }

    /// Notes the identity values that a statement gave, for the session and for the next start.
    fn keep_identity(&mut self, table: &Table, slots: &[Slot], made: Option<i64>) -> SqlResult<()> {
        let Some(own) = &table.identity else {
            return Ok(());
        };
        let explicit = slots
            .iter()
            .zip(&table.columns)
            .any(|(slot, column)| column.id == own.column && matches!(slot, Slot::Given(_)));
        let last = if explicit {
            // Explicit values move the identity on when they lie beyond it.
            let edge = if own.step > 0 { "max" } else { "min" };
            let found: Option<i64> = self
                .conn
                .query_row(
                    &format!("SELECT {edge}(c{}) FROM {}", own.column, table.sql_name()),
                    [],
                    |r| r.get::<_, Option<i64>>(0),
                )
                .unwrap_or(None);
            let mut all = self.database.identities.lock();
            if let Some(found) = found {
                let current = all.entry(table.id).or_insert(found);
                if (own.step > 0 && found > *current) || (own.step < 0 && found < *current) {
                    *current = found;
                }
            }
            all.get(&table.id).copied()
        } else {
            made
        };
        if let Some(last) = last {
            self.identity = Some(last);
            self.conn
                .prepare_cached("INSERT OR REPLACE INTO main._sim_identity VALUES (?1, ?2)")
                .and_then(|mut s| s.execute([table.id, last]))
                .map_err(storage)?;
        }
        Ok(())
    }
}

/// Positions in the table of the columns that the statement gives.
fn given_columns(session: &Session, table: &Table, insert: &Insert) -> SqlResult<Vec<usize>> {
    let explicit = session.settings.identity_insert == Some(table.id);
    match &insert.columns {
        Some(names) => {
            let mut given = Vec::with_capacity(names.len());
            for name in names {
                let at = table
                    .columns
                    .iter()
                    .position(|c| crate::catalog::same_name(&c.name, name))
                    .ok_or_else(|| invalid_column(name))?;
                if given.contains(&at) {
                    return Err(sql_error(
                        264,
                        16,
                        format!(
                            "The column name '{name}' is specified more than once in the SET clause or column list of an INSERT."
                        ),
                    ));
                }
                given.push(at);
            }
            Ok(given)
        }
        None if matches!(insert.source, InsertSource::DefaultValues) => Ok(Vec::new()),
        None => {
            let identity = table.identity.as_ref().map(|i| i.column).filter(|_| !explicit);
            Ok((0..table.columns.len())
                .filter(|at| Some(table.columns[*at].id) != identity && table.columns[*at].computed.is_none())
                .collect())
        }
    }
}

fn slots(table: &Table, given: &[usize], explicit: bool) -> SqlResult<Vec<Slot>> {
    let identity = table.identity.as_ref().map(|i| i.column);
    table
        .columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let is_identity = Some(column.id) == identity;
            if let Some(source) = given.iter().position(|g| *g == at) {
                if column.computed.is_some() {
                    return Err(computed_not_modified(&column.name));
                }
                if is_identity && !explicit {
                    return Err(sql_error(
                        544,
                        16,
                        format!("Cannot insert explicit value for identity column in table '{}' when IDENTITY_INSERT is set to OFF.", table.name),
                    ));
                }
                return Ok(Slot::Given(source));
            }
            if is_identity {
                return if explicit {
                    Err(sql_error(
                        545,
                        16,
                        format!("Explicit value must be specified for identity column in table '{}' either when IDENTITY_INSERT is set to ON or when a replication user is inserting into a NOT FOR REPLICATION identity column.", table.name),
                    ))
                } else {
                    Ok(Slot::Identity)
                };
            }
            Ok(match &column.default {
                Some(text) => Slot::Default(Box::new(parse_expression(text)?)),
                None => Slot::Null,
            })
        })
        .collect()
}

fn row_length(more: bool) -> crate::result::SqlError {
    if more {
        sql_error(
            110,
            15,
            "There are fewer columns in the INSERT statement than values specified in the VALUES clause. The number of values in the VALUES clause must match the number of columns specified in the INSERT statement.",
        )
    } else {
        sql_error(
            109,
            15,
            "There are more columns in the INSERT statement than values specified in the VALUES clause. The number of values in the VALUES clause must match the number of columns specified in the INSERT statement.",
        )
    }
}

fn select_length(more: bool) -> crate::result::SqlError {
    if more {
        sql_error(
            121,
            15,
            "The select list for the INSERT statement contains more items than the insert list. The number of SELECT values must match the number of INSERT columns.",
        )
    } else {
        sql_error(
            120,
            15,
            "The select list for the INSERT statement contains fewer items than the insert list. The number of SELECT values must match the number of INSERT columns.",
        )
    }
}
