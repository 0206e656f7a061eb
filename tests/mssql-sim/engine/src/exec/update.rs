//! UPDATE and DELETE: the rows are read first, then changed one by one, so that a statement never meets its own work.

use std::{cmp::Ordering, collections::HashSet, sync::Arc};

use rusqlite::types::{Value as Stored, ValueRef};
use sqlparser::ast::{Expr, TableWithJoins};

use super::{
    Frame, Run, Session,
    dml::{Images, output_items},
    query::{make_views, next},
    storage,
    writer::{Writer, key_columns},
};
use crate::{
    bind::{Binder, Scope, Source},
    catalog::{Action, Table, same_name},
    cdc::Op,
    context::StatementContext,
    error::{SqlResult, computed_not_modified, invalid_column, sql_error},
    parse::{Delete, Update, parse_expression},
    result::ResultSink,
    types::{compare_text, decode, encode},
    value::{SqlType, Value},
};

/// A row to change.
struct Found {
    key: Vec<Stored>,
    old: Vec<Value>,
    /// Values of the extra expressions asked for.
    extra: Vec<Value>,
}

/// The rows of a statement's target.
struct Search<'s> {
    target: &'s [String],
    top: Option<&'s Expr>,
    from: &'s [TableWithJoins],
    filter: Option<&'s Expr>,
}

impl Session {
    /// Runs an UPDATE.
    pub(crate) fn update(&mut self, update: &Update, frame: &mut Frame, sink: &mut dyn ResultSink) -> Run<()> {
        let mut done = None;
        self.write(|session| {
            let ctx = session.context()?;
            let search = Search { target: &update.target, top: update.top.as_ref(), from: &update.from, filter: update.filter.as_ref() };
            let table = session.target(&ctx, frame, &search)?;
            let mut columns = Vec::new();
            for (name, _) in &update.assignments {
                let name = name.last().map_or("", String::as_str);
                let at = table
                    .columns
                    .iter()
                    .position(|c| same_name(&c.name, name))
                    .ok_or_else(|| invalid_column(name))?;
                if table.columns[at].computed.is_some() {
                    return Err(computed_not_modified(name));
                }
                if table.identity.as_ref().is_some_and(|i| i.column == table.columns[at].id) {
                    return Err(sql_error(8102, 16, format!("Cannot update identity column '{name}'.")));
                }
                if table.columns[at].ty == SqlType::RowVersion {
                    return Err(sql_error(272, 16, "Cannot update a timestamp column."));
                }
                if columns.contains(&at) {
                    return Err(sql_error(
                        264,
                        16,
                        format!("The column name '{name}' is specified more than once in the SET clause or column list of an INSERT."),
                    ));
                }
                columns.push(at);
            }
            let ids: Vec<i64> = columns.iter().map(|at| table.columns[*at].id).collect();
            session.prepare_write(&ctx, Action::Update, &table, &ids)?;
            let output = output_items(&update.output, &table)?;
            let mut expressions = Vec::new();
            for ((_, value), at) in update.assignments.iter().zip(&columns) {
                expressions.push(match value {
                    Some(e) => e.clone(),
                    None => match &table.columns[*at].default {
                        Some(text) => parse_expression(text)?,
                        None => Expr::Value(sqlparser::ast::Value::Null.into()),
                    },
                });
            }
            let (found, types) = session.find(&ctx, frame, &search, &table, &expressions)?;
            let count = found.len() as u64;
            let images = session.apply_update(&ctx, &table, &columns, &types, found, !output.is_empty())?;
            session.enforce_checks(&table, "UPDATE")?;
            done = Some((table, output, images, count));
            Ok(())
        })?;
        match done {
            Some((table, output, images, count)) => self.finish_dml(&table, &output, images, count, sink),
            None => Ok(()),
        }
    }

    /// Runs a DELETE.
    pub(crate) fn delete(&mut self, delete: &Delete, frame: &mut Frame, sink: &mut dyn ResultSink) -> Run<()> {
        let mut done = None;
        self.write(|session| {
            let ctx = session.context()?;
            let search = Search {
                target: &delete.target,
                top: delete.top.as_ref(),
                from: &delete.from,
                filter: delete.filter.as_ref(),
            };
            let table = session.target(&ctx, frame, &search)?;
            session.prepare_write(&ctx, Action::Delete, &table, &[])?;
            let output = output_items(&delete.output, &table)?;
            let (found, _) = session.find(&ctx, frame, &search, &table, &[])?;
            let count = found.len() as u64;
            let mut log = session.tx.log.clone();
            let version = session.engine.options.version;
            let mut writer = Writer::new(
                &session.conn,
                &session.database,
                &ctx.catalog,
                Arc::clone(&table),
                &mut log,
                version,
            );
            let mut images: Images = Vec::new();
            for row in found {
                writer.delete(&row.key, &row.old)?;
                if !output.is_empty() {
                    images.push((Some(row.old), None));
                }
            }
            session.tx.log = log;
            done = Some((table, output, images, count));
            Ok(())
        })?;
        match done {
            Some((table, output, images, count)) => self.finish_dml(&table, &output, images, count, sink),
            None => Ok(()),
        }
    }

    /// The table that the statement changes: an alias of its FROM, or a table's name.
    fn target(&self, ctx: &StatementContext, frame: &Frame, search: &Search<'_>) -> SqlResult<Arc<Table>> {
        if search.from.is_empty() {
            return self.table(search.target);
        }
        let mut binder = Binder::new(ctx, &frame.vars);
        let (_, sources) = binder.from(search.from, None)?;
        match named(&sources, search.target) {
            Some(at) => sources[at]
                .table
                .clone()
                .ok_or_else(|| not_updatable(&search.target.join("."))),
            None => self.table(search.target),
        }
    }

    fn find(
        &self,
        ctx: &Arc<StatementContext>,
        frame: &Frame,
        search: &Search<'_>,
        table: &Arc<Table>,
        extra: &[Expr],
    ) -> SqlResult<(Vec<Found>, Vec<SqlType>)> {
        let mut binder = Binder::new(ctx, &frame.vars);
        let (mut from, mut sources) = binder.from(search.from, None)?;
        let at = match named(&sources, search.target) {
            Some(at) => at,
            None => {
                let source = binder.source(table, "target", None)?;
                let item = format!("{} AS target", table.sql_name());
                from = if from.is_empty() {
                    item
                } else {
                    format!("{item}, {from}")
                };
                sources.push(source);
                sources.len() - 1
            }
        };
        let alias = sources[at].sql_alias.clone();
        let scope = Scope::new(sources, None);
        let mut list = key_columns(table, &alias);
        let keys = list.len();
        list.extend(table.columns.iter().map(|c| format!("{alias}.c{}", c.id)));
        let mut types = Vec::new();
        for e in extra {
            let bound = binder.expr(e, &scope)?;
            types.push(bound.ty);
            list.push(binder.emit(&bound));
        }
        let mut sql = format!("SELECT {} FROM {from}", list.join(", "));
        if let Some(filter) = search.filter {
            let filter = binder.predicate(filter, &scope)?;
            sql.push_str(&format!(" WHERE {filter}"));
        }
        if let Some(top) = search.top {
            let bound = binder.expr(top, &Scope::default())?;
            match bound.value() {
                Some(Value::Int(n)) if *n >= 0 => sql.push_str(&format!(" LIMIT {n}")),
                _ => return Err(crate::error::not_supported("TOP")),
            }
        }
        binder.check_reads()?;
        let _entered = ctx.enter();
        make_views(&self.conn, ctx, &binder.views)?;
        let mut statement = self.conn.prepare_cached(&sql).map_err(storage)?;
        let mut rows = statement
            .query(rusqlite::params_from_iter(binder.params.iter()))
            .map_err(storage)?;
        let mut found = Vec::new();
        // With joins a row may be met twice; the first meeting counts.
        let mut seen = HashSet::new();
        while let Some(row) = next(&mut rows, &ctx.interrupt)? {
            let mut key = Vec::with_capacity(keys);
            for i in 0..keys {
                key.push(row.get(i).map_err(storage)?);
            }
            if !search.from.is_empty() && !seen.insert(format!("{key:?}")) {
                continue;
            }
            let mut old = Vec::with_capacity(table.columns.len());
            for (i, c) in table.columns.iter().enumerate() {
                old.push(decode(row.get_ref(keys + i).map_err(storage)?, c.ty));
            }
            let mut values = Vec::with_capacity(types.len());
            for (i, ty) in types.iter().enumerate() {
                values.push(decode(row.get_ref(keys + old.len() + i).map_err(storage)?, *ty));
            }
            found.push(Found {
                key,
                old,
                extra: values,
            });
        }
        Ok((found, types))
    }

    fn apply_update(
        &mut self,
        ctx: &Arc<StatementContext>,
        table: &Arc<Table>,
        columns: &[usize],
        types: &[SqlType],
        found: Vec<Found>,
        keep: bool,
    ) -> SqlResult<Images> {
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
        let mut changes = Vec::with_capacity(found.len());
        // The row versions that the server makes change with every row.
        let stamped: Vec<usize> = columns
            .iter()
            .copied()
            .chain((0..table.columns.len()).filter(|at| table.columns[*at].ty == SqlType::RowVersion))
            .collect();
        for row in found {
            let mut new = row.old.clone();
            for ((at, value), ty) in columns.iter().zip(row.extra).zip(types) {
                // A bare NULL was bound as an int.
                new[*at] = if value == Value::Null {
                    Value::Null
                } else {
                    writer.fit(&table.columns[*at], value, *ty)?
                };
            }
            writer.stamp(&mut new, Some(&row.old))?;
            writer.check_nulls(&new, "UPDATE")?;
            changes.push((row.key, row.old, new));
        }
        let clustered = clustered_columns(table);
        let set = |ids: &[i64]| columns.iter().any(|at| ids.contains(&table.columns[*at].id));
        let unique_set = table.keys.iter().any(|k| k.unique && set(&k.columns)) || set(&clustered);
        if !unique_set {
            for (key, old, new) in &changes {
                if old == new {
                    continue;
                }
                writer.update(key, &stamped, old, new)?;
            }
        } else {
            // Uniqueness holds for the statement as a whole: all old rows go before the new ones come.
            for (key, ..) in &changes {
                writer.delete_unlogged(key)?;
            }
            for (_, _, new) in &changes {
                writer.insert_unlogged(new)?;
            }
            log_key_update(
                &mut writer,
                &changes,
                &clustered,
                ctx.catalog.settings.key_update_in_place,
            )?;
        }
        self.tx.log = log;
        Ok(if keep {
            changes
                .into_iter()
                .map(|(_, old, new)| (Some(old), Some(new)))
                .collect()
        } else {
            Vec::new()
        })
    }
}

/// Columns of the clustered key, or of the primary key, which says which row is which.
fn clustered_columns(table: &Table) -> Vec<i64> {
    table
        .keys
        .iter()
        .find(|k| k.clustered)
        .or_else(|| table.primary_key())
        .map(|k| k.columns.clone())
        .unwrap_or_default()
}

type Change = (Vec<Stored>, Vec<Value>, Vec<Value>);

/// Logs an update that may have changed keys, as SQL Server's plans do it:
/// one row → delete and insert; several rows → split into deletes and inserts, sorted by key, and where a delete and an
/// insert meet on one key they collapse to an update of it. A key that only changes its case stays where it is.
fn log_key_update(writer: &mut Writer<'_>, changes: &[Change], clustered: &[i64], in_place: bool) -> SqlResult<()> {
    let table = Arc::clone(&writer.table);
    let at: Vec<usize> = clustered
        .iter()
        .filter_map(|id| table.columns.iter().position(|c| c.id == *id))
        .collect();
    let same = |a: &[Value], b: &[Value]| compare_keys(&at, a, b) == Ordering::Equal;
    let moved = changes.iter().any(|(_, old, new)| !same(old, new));
    if !moved || in_place {
        for (_, old, new) in changes {
            if old != new {
                writer.log(Op::Update, old, Some(new))?;
            }
        }
        return Ok(());
    }
    if let [(_, old, new)] = changes {
        writer.log(Op::Delete, old, None)?;
        return writer.log(Op::Insert, new, None);
    }
    let mut halves: Vec<(bool, &Vec<Value>)> = Vec::with_capacity(changes.len() * 2);
    for (_, old, new) in changes {
        halves.push((false, old));
        halves.push((true, new));
    }
    // Deletes come before inserts of the same key.
    halves.sort_by(|(a_new, a), (b_new, b)| compare_keys(&at, a, b).then(a_new.cmp(b_new)));
    let mut i = 0;
    while i < halves.len() {
        let (new, row) = halves[i];
        match halves.get(i + 1) {
            Some((true, next)) if !new && same(row, next) => {
                if row != *next {
                    writer.log(Op::Update, row, Some(next))?;
                }
                i += 2;
            }
            _ => {
                writer.log(if new { Op::Insert } else { Op::Delete }, row, None)?;
                i += 1;
            }
        }
    }
    Ok(())
}

fn compare_keys(at: &[usize], a: &[Value], b: &[Value]) -> Ordering {
    for i in at {
        let order = match (&a[*i], &b[*i]) {
            (Value::Text(x), Value::Text(y)) => compare_text(x, y),
            (x, y) => {
                let (x, y) = (encode(x), encode(y));
                match (ValueRef::from(&x), ValueRef::from(&y)) {
                    (ValueRef::Integer(x), ValueRef::Integer(y)) => x.cmp(&y),
                    (ValueRef::Real(x), ValueRef::Real(y)) => x.total_cmp(&y),
                    (ValueRef::Blob(x), ValueRef::Blob(y)) => x.cmp(y),
                    (ValueRef::Null, ValueRef::Null) => Ordering::Equal,
                    (ValueRef::Null, _) => Ordering::Less,
                    _ => Ordering::Greater,
                }
            }
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

fn named(sources: &[Source], target: &[String]) -> Option<usize> {
    match target {
        [name] => sources.iter().position(|s| same_name(&s.name, name)),
        [.., schema, name] => sources
            .iter()
            .position(|s| same_name(&s.name, name) && s.schema.as_deref().is_some_and(|own| same_name(own, schema))),
        [] => None,
    }
}

fn not_updatable(name: &str) -> crate::result::SqlError {
    sql_error(
        4418,
        16,
        format!(
            "View or function '{name}' is not updatable because it contains aggregates, or a DISTINCT or GROUP BY clause, or PIVOT or UNPIVOT operator."
        ),
    )
}
