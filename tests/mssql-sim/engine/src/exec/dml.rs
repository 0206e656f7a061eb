//! What INSERT, UPDATE and DELETE share: the target, and OUTPUT.

use std::sync::Arc;

use sqlparser::ast::{Expr, SelectItem, SelectItemQualifiedWildcardKind};

use super::{Run, Session};
use crate::{
    bind::check,
    catalog::{Action, Storage, Table, same_name, system_view},
    context::StatementContext,
    error::{
        SqlResult, invalid_column, invalid_object, not_supported, other_database, snapshot_not_allowed, sql_error,
        unbound_identifier,
    },
    result::{ColumnMeta, ResultSink},
    value::Value,
};

/// A column of an OUTPUT clause.
pub(crate) struct OutputItem {
    /// `deleted` instead of `inserted`.
    old: bool,
    /// Position in the table.
    at: usize,
    name: String,
}

/// The rows that OUTPUT answers, old and new.
pub(crate) type Images = Vec<(Option<Vec<Value>>, Option<Vec<Value>>)>;

impl Session {
    /// A table by name in the session's database.
    pub(crate) fn table(&self, parts: &[String]) -> SqlResult<Arc<Table>> {
        let full = parts.join(".");
        let (schema, name) = match parts {
            [name] => (None, name),
            [schema, name] => (Some(schema.as_str()).filter(|s| !s.is_empty()), name),
            [database, schema, name] if same_name(database, &self.database.name) => {
                (Some(schema.as_str()).filter(|s| !s.is_empty()), name)
            }
            [_, _, _] => return Err(other_database(self.engine.options.version, &full)),
            _ => return Err(invalid_object(&full)),
        };
        match self.catalog.table(schema, name) {
            Some(table) => Ok(Arc::clone(table)),
            None if system_view(schema, name).is_some() => {
                Err(sql_error(259, 16, "Ad hoc updates to system catalogs are not allowed."))
            }
            None => Err(invalid_object(&full)),
        }
    }

    /// Checks the permission and takes the locks that writing a table needs.
    pub(crate) fn prepare_write(
        &mut self,
        ctx: &StatementContext,
        action: Action,
        table: &Table,
        columns: &[i64],
    ) -> SqlResult<()> {
        if ctx.snapshot_refused {
            return Err(snapshot_not_allowed(&ctx.database.name));
        }
        check(ctx, action, table, columns)?;
        if table.storage == Storage::Cdc {
            self.begin_cdc_write()?;
        }
        Ok(())
    }

    /// Counts a statement's rows and answers its OUTPUT.
    pub(crate) fn finish_dml(
        &mut self,
        table: &Table,
        output: &[OutputItem],
        images: Images,
        count: u64,
        sink: &mut dyn ResultSink,
    ) -> Run<()> {
        if !output.is_empty() {
            let meta: Vec<ColumnMeta> = output
                .iter()
                .map(|o| ColumnMeta {
                    name: o.name.clone(),
                    ty: table.columns[o.at].ty,
                    nullable: table.columns[o.at].nullable,
                    collation: Some(table.columns[o.at].collation()),
                })
                .collect();
            sink.columns(&meta)?;
            for (old, new) in images {
                let row: Vec<Value> = output
                    .iter()
                    .map(|o| {
                        let image = if o.old { &old } else { &new };
                        image.as_ref().map_or(Value::Null, |i| i[o.at].clone())
                    })
                    .collect();
                sink.row(&row)?;
            }
        }
        self.row_count = count as i64;
        sink.statement_done((!self.settings.nocount).then_some(count))?;
        Ok(())
    }
}

/// Resolves an OUTPUT clause: columns of `inserted` and `deleted`.
pub(crate) fn output_items(items: &[SelectItem], table: &Table) -> SqlResult<Vec<OutputItem>> {
    let mut found = Vec::new();
    for item in items {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(e) => (e, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.value.clone())),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let old = image(&name.to_string()).ok_or_else(|| unbound_identifier(&name.to_string()))?;
                if table.columns.iter().any(|c| c.computed.is_some()) {
                    return Err(not_supported("OUTPUT of a computed column"));
                }
                found.extend(table.columns.iter().enumerate().map(|(at, c)| OutputItem {
                    old,
                    at,
                    name: c.name.clone(),
                }));
                continue;
            }
            other => return Err(not_supported(&other.to_string())),
        };
        let Expr::CompoundIdentifier(parts) = expr else {
            return Err(not_supported(&expr.to_string()));
        };
        let [prefix, column] = parts.as_slice() else {
            return Err(unbound_identifier(&expr.to_string()));
        };
        let old = image(&prefix.value).ok_or_else(|| unbound_identifier(&expr.to_string()))?;
        let at = table
            .columns
            .iter()
            .position(|c| same_name(&c.name, &column.value))
            .ok_or_else(|| invalid_column(&column.value))?;
        if table.columns[at].computed.is_some() {
            return Err(not_supported("OUTPUT of a computed column"));
        }
        found.push(OutputItem {
            old,
            at,
            name: alias.unwrap_or_else(|| table.columns[at].name.clone()),
        });
    }
    Ok(found)
}

fn image(name: &str) -> Option<bool> {
    if same_name(name, "deleted") {
        Some(true)
    } else if same_name(name, "inserted") {
        Some(false)
    } else {
        None
    }
}
