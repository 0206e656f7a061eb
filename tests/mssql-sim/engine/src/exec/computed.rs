//! Computed columns: their type when a table is made, and their value with every row, which is stored as if the column were
//! PERSISTED.

use super::{Session, collect};
use crate::{
    bind::{Binder, Scope, Source, SourceColumn, Variables},
    catalog::{Column, Table},
    context::StatementContext,
    error::{SqlResult, sql_error},
    parse::parse_expression,
    result::SqlError,
    types::encode,
    value::{SqlType, Value},
};

/// 271, for a statement that sets a computed column.
pub(super) fn not_to_be_set(column: &str) -> SqlError {
    sql_error(
        271,
        16,
        format!(
            "The column \"{column}\" cannot be modified because it is either a computed column or is the result of a UNION operator."
        ),
    )
}

/// The type of an expression over the columns of a table that is being made.
pub(super) fn type_of(ctx: &StatementContext, table: &Table, text: &str) -> SqlResult<SqlType> {
    let vars = Variables::new();
    let mut binder = Binder::new(ctx, &vars);
    let scope = Scope::new(vec![row_of(table)], None);
    Ok(binder.expr(&parse_expression(text)?, &scope)?.ty)
}

/// A row as a FROM item whose columns are the parameters `?1`, `?2`, ….
fn row_of(table: &Table) -> Source {
    let plain = |(at, column): (usize, &Column)| SourceColumn {
        name: column.name.clone(),
        ty: column.ty,
        nullable: true,
        sql: format!("?{}", at + 1),
        id: 0,
        collation: None,
    };
    Source {
        name: table.name.clone(),
        schema: None,
        columns: table.columns.iter().enumerate().map(plain).collect(),
        table: None,
        sql_alias: String::new(),
    }
}

impl Session {
    /// Fills the computed columns of a row.
    pub(super) fn compute(&self, ctx: &StatementContext, table: &Table, row: &mut [Value]) -> SqlResult<()> {
        for (at, column) in table.columns.iter().enumerate() {
            let Some(text) = &column.computed else {
                continue;
            };
            let vars = Variables::new();
            let mut binder = Binder::new(ctx, &vars);
            binder.params = row.iter().map(encode).collect();
            let scope = Scope::new(vec![row_of(table)], None);
            let bound = binder.expr(&parse_expression(text)?, &scope)?;
            // SQLite counts parameters up to the highest that is used, and has to meet all of them.
            let all = row.len();
            let sql = format!("SELECT {} WHERE ?{all} IS ?{all}", binder.emit(&bound));
            let made = collect(&self.conn, &binder, &sql, &[bound.ty])?;
            row[at] = made.into_iter().flatten().next().unwrap_or(Value::Null);
        }
        Ok(())
    }
}
