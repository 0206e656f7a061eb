//! SELECT: binding, running, and streaming the rows.

use rusqlite::{Connection, Row, Rows, types::Value as Stored};
use sqlparser::ast::{Query, SelectItem, SetExpr};

use super::{Frame, Run, Session, Stop, control::variable_value, storage};
use crate::{
    bind::{Binder, BoundQuery},
    catalog::CatalogView,
    context::StatementContext,
    error::{SqlResult, sql_error},
    interrupt::Interrupt,
    result::{ColumnMeta, ResultSink},
    types::{decode, decode_into, encode_owned},
    value::{SqlType, Value},
};

impl Session {
    /// A SELECT that answers rows, or one that assigns variables.
    pub(crate) fn select(&mut self, query: &Query, frame: &mut Frame, sink: &mut dyn ResultSink) -> Run<()> {
        self.begin_read()?;
        let result = match assignments(query)? {
            Some(names) => self.assign_variables(query, &names, frame),
            None => self.stream(query, frame, sink),
        };
        self.end_statement_reads();
        let rows = result?;
        self.row_count = rows as i64;
        sink.statement_done((!self.settings.nocount).then_some(rows))?;
        Ok(())
    }

    fn stream(&mut self, query: &Query, frame: &Frame, sink: &mut dyn ResultSink) -> Run<u64> {
        let ctx = self.context()?;
        let mut binder = Binder::new(&ctx, &frame.vars);
        let bound = binder.query(query, None)?;
        binder.check_reads()?;
        let params = std::mem::take(&mut binder.params);
        let views = std::mem::take(&mut binder.views);
        stream_bound(&self.conn, &ctx, &bound, params, &views, sink)
    }

    fn assign_variables(&mut self, query: &Query, names: &[String], frame: &mut Frame) -> Run<u64> {
        let ctx = self.context()?;
        let mut binder = Binder::new(&ctx, &frame.vars);
        let bound = binder.query(query, None)?;
        binder.check_reads()?;
        let types: Vec<SqlType> = bound.columns.iter().map(|c| c.ty).collect();
        let rows = collect(&self.conn, &binder, &bound.sql, &types)?;
        drop(binder);
        let count = rows.len() as u64;
        if let Some(last) = rows.into_iter().next_back() {
            for ((name, value), from) in names.iter().zip(last).zip(types) {
                let key = name.to_lowercase();
                let Some((ty, _)) = frame.vars.get(&key).cloned() else {
                    return Err(crate::error::undeclared(name).into());
                };
                frame.vars.insert(key, (ty, variable_value(&value, from, ty)?));
            }
        }
        Ok(count)
    }
}

/// Runs a bound query and hands its rows to a sink, one buffer for all of them.
pub(crate) fn stream_bound(
    conn: &Connection,
    ctx: &std::sync::Arc<StatementContext>,
    bound: &BoundQuery,
    params: Vec<Stored>,
    views: &[(String, &'static CatalogView)],
    sink: &mut dyn ResultSink,
) -> Run<u64> {
    let _entered = ctx.enter();
    make_views(conn, ctx, views)?;
    let result = (|| {
        let mut statement = conn.prepare_cached(&bound.sql).map_err(storage)?;
        let mut rows = statement.query(rusqlite::params_from_iter(params)).map_err(storage)?;
        let meta: Vec<ColumnMeta> = bound
            .columns
            .iter()
            .map(|c| ColumnMeta {
                name: c.name.clone(),
                ty: c.ty,
                nullable: c.nullable,
                collation: c.collation,
            })
            .collect();
        sink.columns(&meta)?;
        let types: Vec<SqlType> = bound.columns.iter().map(|c| c.ty).collect();
        let mut buffer = vec![Value::Null; types.len()];
        let mut count = 0;
        while let Some(row) = next(&mut rows, &ctx.interrupt)? {
            for (i, ty) in types.iter().enumerate() {
                decode_into(row.get_ref(i).map_err(storage)?, *ty, &mut buffer[i]);
            }
            sink.row(&buffer)?;
            count += 1;
        }
        Ok::<u64, Stop>(count)
    })();
    drop_views(conn, views);
    result
}

/// The next row of a query, unless the client wants no more.
pub(crate) fn next<'r, 's>(rows: &'r mut Rows<'s>, interrupt: &Interrupt) -> SqlResult<Option<&'r Row<'s>>> {
    let _reading = interrupt.reading();
    rows.next().map_err(storage)
}

/// Runs generated SQL and collects its rows.
pub(crate) fn collect(
    conn: &Connection,
    binder: &Binder<'_>,
    sql: &str,
    types: &[SqlType],
) -> SqlResult<Vec<Vec<Value>>> {
    let mut all = Vec::new();
    each(conn, binder, sql, types, |row| {
        all.push(row);
        Ok(())
    })?;
    Ok(all)
}

/// Runs generated SQL and hands over every row.
pub(crate) fn each(
    conn: &Connection,
    binder: &Binder<'_>,
    sql: &str,
    types: &[SqlType],
    mut take: impl FnMut(Vec<Value>) -> SqlResult<()>,
) -> SqlResult<()> {
    let ctx = std::sync::Arc::new(binder.ctx.clone());
    let _entered = ctx.enter();
    make_views(conn, &ctx, &binder.views)?;
    let result = (|| {
        let mut statement = conn.prepare_cached(sql).map_err(storage)?;
        let mut rows = statement
            .query(rusqlite::params_from_iter(binder.params.iter()))
            .map_err(storage)?;
        while let Some(row) = next(&mut rows, &ctx.interrupt)? {
            let mut values = Vec::with_capacity(types.len());
            for (i, ty) in types.iter().enumerate() {
                values.push(decode(row.get_ref(i).map_err(storage)?, *ty));
            }
            take(values)?;
        }
        Ok(())
    })();
    drop_views(conn, &binder.views);
    result
}

/// Fills the temporary tables that stand for catalogue views.
pub(crate) fn make_views(
    conn: &Connection,
    ctx: &StatementContext,
    views: &[(String, &'static CatalogView)],
) -> SqlResult<()> {
    for (name, view) in views {
        let columns: Vec<String> = view
            .columns
            .iter()
            .enumerate()
            .map(|(i, (_, ty, _))| format!("c{}{}", i + 1, if ty.is_text() { " COLLATE TSQL" } else { "" }))
            .collect();
        conn.execute_batch(&format!(
            "DROP TABLE IF EXISTS temp.{name}; CREATE TEMP TABLE {name}({})",
            columns.join(", ")
        ))
        .map_err(storage)?;
        let marks = vec!["?"; view.columns.len()].join(", ");
        let mut insert = conn
            .prepare(&format!("INSERT INTO temp.{name} VALUES ({marks})"))
            .map_err(storage)?;
        for row in view.rows(ctx) {
            insert
                .execute(rusqlite::params_from_iter(row.into_iter().map(encode_owned)))
                .map_err(storage)?;
        }
    }
    Ok(())
}

fn drop_views(conn: &Connection, views: &[(String, &'static CatalogView)]) {
    for (name, _) in views {
        // A table that is left behind is replaced by the next statement that needs its name.
        let _ = conn.execute_batch(&format!("DROP TABLE IF EXISTS temp.{name}"));
    }
}

/// The variables that a SELECT assigns; none when it answers rows.
fn assignments(query: &Query) -> SqlResult<Option<Vec<String>>> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return Ok(None);
    };
    let names: Vec<String> = select
        .projection
        .iter()
        .filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } if alias.value.starts_with('@') && alias.quote_style.is_none() => {
                Some(alias.value.clone())
            }
            _ => None,
        })
        .collect();
    if names.is_empty() {
        Ok(None)
    } else if names.len() == select.projection.len() {
        Ok(Some(names))
    } else {
        Err(sql_error(
            141,
            15,
            "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval operations.",
        ))
    }
}
