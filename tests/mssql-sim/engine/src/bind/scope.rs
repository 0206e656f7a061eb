//! Which names a query's expressions may use.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use sqlparser::ast::Expr;

use super::{Binder, Bound};
use crate::{
    catalog::{Table, same_name},
    error::{SqlResult, invalid_column, sql_error, unbound_identifier},
    types::Collation,
    value::SqlType,
};

/// A column of a FROM item.
#[derive(Debug, Clone)]
pub struct SourceColumn {
    pub name: String,
    pub ty: SqlType,
    pub nullable: bool,
    /// How generated SQL names it.
    pub sql: String,
    /// The table's column id; 0 in a derived table.
    pub id: i64,
    pub collation: Option<Collation>,
}

/// A FROM item.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its alias, or the table's name.
    pub name: String,
    /// For a table without alias: its schema.
    pub schema: Option<String>,
    pub columns: Vec<SourceColumn>,
    pub table: Option<Arc<Table>>,
    /// The alias in generated SQL.
    pub sql_alias: String,
}

/// The FROM items of a query, inside those of the queries around it.
#[derive(Default)]
pub struct Scope<'s> {
    pub sources: Vec<Source>,
    pub parent: Option<&'s Scope<'s>>,
    /// GROUP BY expressions and their SQL, once bound.
    pub(super) groups: RefCell<Vec<(Expr, String)>>,
    /// Whether an aggregate was bound.
    pub(super) aggregates: Cell<bool>,
    /// Within an aggregate's argument or a grouping expression, where any column may stand.
    pub(super) free: Cell<bool>,
    /// Columns that stand alone, for error 8120.
    pub(super) bare: RefCell<Vec<String>>,
}

impl<'s> Scope<'s> {
    /// A scope over some FROM items.
    pub fn new(sources: Vec<Source>, parent: Option<&'s Scope<'s>>) -> Scope<'s> {
        Scope {
            sources,
            parent,
            ..Scope::default()
        }
    }
}

impl Binder<'_> {
    /// A column by its name alone.
    ///
    /// # Errors
    /// 207 when no source has it, 209 when two have.
    pub fn column(&mut self, scope: &Scope<'_>, name: &str) -> SqlResult<Bound> {
        let mut hits = scope.sources.iter().flat_map(|s| {
            s.columns
                .iter()
                .filter(|c| same_name(&c.name, name))
                .map(move |c| (s, c))
        });
        if let Some((source, column)) = hits.next() {
            if hits.next().is_some() {
                return Err(sql_error(209, 16, format!("Ambiguous column name '{name}'.")));
            }
            return Ok(self.reference(scope, source, column));
        }
        match scope.parent {
            Some(parent) => self.column(parent, name),
            None => Err(invalid_column(name)),
        }
    }

    /// A column by source and name: `[db.][schema.]source.column`.
    ///
    /// # Errors
    /// 4104 when no source bears the name, 207 when it has no such column.
    pub fn qualified(&mut self, scope: &Scope<'_>, parts: &[String]) -> SqlResult<Bound> {
        let full = || parts.join(".");
        let [qualifier @ .., column] = parts else {
            return Err(unbound_identifier(&full()));
        };
        match find_source(scope, qualifier) {
            Some(source) => {
                let Some(hit) = source.columns.iter().find(|c| same_name(&c.name, column)) else {
                    return Err(invalid_column(column));
                };
                Ok(self.reference(scope, source, hit))
            }
            None => match scope.parent {
                Some(parent) => self.qualified(parent, parts),
                None => Err(unbound_identifier(&full())),
            },
        }
    }

    fn reference(&mut self, scope: &Scope<'_>, source: &Source, column: &SourceColumn) -> Bound {
        if let Some(table) = &source.table {
            self.note_read(table.id, Some(column.id));
        }
        if !scope.free.get() && !scope.groups.borrow().iter().any(|(_, sql)| *sql == column.sql) {
            scope.bare.borrow_mut().push(format!("{}.{}", source.name, column.name));
        }
        let mut bound = Bound::sql(column.sql.clone(), column.ty, column.nullable);
        bound.name = Some(column.name.clone());
        bound.collation = column.collation;
        bound
    }
}

/// The source that a qualifier (`alias`, `table`, `schema.table`, `db.schema.table`) names in a scope itself.
pub(super) fn find_source<'q>(scope: &'q Scope<'_>, qualifier: &[String]) -> Option<&'q Source> {
    match qualifier {
        [name] => scope.sources.iter().find(|s| same_name(&s.name, name)),
        [.., schema, name] => scope
            .sources
            .iter()
            .find(|s| same_name(&s.name, name) && s.schema.as_deref().is_some_and(|own| same_name(own, schema))),
        [] => None,
    }
}
