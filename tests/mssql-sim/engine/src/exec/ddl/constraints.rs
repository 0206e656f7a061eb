//! Computed columns and CHECK constraints.

use std::sync::Arc;

use super::super::{Session, storage};
use crate::{
    bind::{Binder, Scope, Variables},
    catalog::{Check, Column, Table, same_name},
    error::{SqlResult, sql_error},
    parse::{CheckSpec, DefaultSpec, parse_expression},
};

/// The name of a column's DEFAULT constraint.
pub(super) fn default_constraint(table: &Table, column: &Column) -> String {
    column
        .default_name
        .clone()
        .unwrap_or_else(|| format!("DF__{}__{}__{:08X}", table.name, column.name, column.id))
}

/// Whether a name is that of a column's DEFAULT constraint.
pub(super) fn default_is(table: &Table, column: &Column, name: &str) -> bool {
    column.default.is_some() && same_name(&default_constraint(table, column), name)
}

impl Session {
    /// Gives computed columns the types of their expressions.
    pub(super) fn bind_computed(&mut self, table: &mut Table) -> SqlResult<()> {
        if table.columns.iter().all(|c| c.computed.is_none()) {
            return Ok(());
        }
        let ctx = self.context()?;
        let vars = Variables::new();
        let whole = Arc::new(table.clone());
        for column in &mut table.columns {
            if let Some(text) = &column.computed {
                let bound = Binder::new(&ctx, &vars).computed(&whole, "t", text)?;
                column.ty = bound.ty;
                // PERSISTED NOT NULL was said to be; otherwise the expression decides.
                column.nullable = column.nullable && bound.nullable;
            }
        }
        Ok(())
    }

    /// Adds a CHECK constraint to a definition.
    pub(super) fn add_check_to(&mut self, table: &mut Table, spec: &CheckSpec) -> SqlResult<()> {
        let name = spec
            .name
            .clone()
            .unwrap_or_else(|| format!("CK__{}__{:08X}", table.name, table.checks.len() + 1));
        if table.checks.iter().any(|c| same_name(&c.name, &name)) {
            return Err(sql_error(
                2714,
                16,
                format!("There is already an object named '{name}' in the database."),
            ));
        }
        let check = Check {
            name,
            text: spec.text.clone(),
        };
        self.condition_of(&Arc::new(table.clone()), &check)?;
        table.checks.push(check);
        Ok(())
    }

    /// Gives a column a default.
    pub(super) fn add_default(&mut self, table: &mut Table, spec: &DefaultSpec) -> SqlResult<()> {
        parse_expression(&spec.text)?;
        let name = table.name.clone();
        let Some(column) = table.columns.iter_mut().find(|c| same_name(&c.name, &spec.column)) else {
            return Err(sql_error(
                1752,
                16,
                format!(
                    "Column '{}' in table '{name}' is invalid for creating a default constraint.",
                    spec.column
                ),
            ));
        };
        if column.default.is_some() {
            return Err(sql_error(1781, 16, "Column already has a DEFAULT bound to it."));
        }
        column.default = Some(spec.text.clone());
        column.default_name.clone_from(&spec.name);
        Ok(())
    }

    /// Checks all rows of a table against its CHECK constraints: what is NULL passes.
    ///
    /// # Errors
    /// 547, naming the constraint.
    pub(crate) fn enforce_checks(&mut self, table: &Arc<Table>, verb: &str) -> SqlResult<()> {
        for check in &table.checks {
            let (sql, params, ctx) = self.condition_of(table, check)?;
            let _entered = ctx.enter();
            let broken = self
                .conn
                .prepare_cached(&format!(
                    "SELECT 1 FROM {} AS t WHERE NOT ({sql}) LIMIT 1",
                    table.sql_name()
                ))
                .and_then(|mut s| s.exists(rusqlite::params_from_iter(params)))
                .map_err(storage)?;
            if broken {
                return Err(sql_error(
                    547,
                    16,
                    format!(
                        "The {verb} statement conflicted with the CHECK constraint \"{}\". The conflict occurred in database \"{}\", table \"{}.{}\".",
                        check.name,
                        self.database.name,
                        self.catalog.schema_name(table.schema_id),
                        table.name
                    ),
                ));
            }
        }
        Ok(())
    }

    /// What of a definition does not bind: the computed column or the check that misses a column.
    pub(super) fn depends(&mut self, table: &Table) -> Option<String> {
        let ctx = self.context().ok()?;
        let vars = Variables::new();
        let whole = Arc::new(table.clone());
        let column = table.columns.iter().find(|c| {
            c.computed
                .as_ref()
                .is_some_and(|text| Binder::new(&ctx, &vars).computed(&whole, "t", text).is_err())
        });
        if let Some(column) = column {
            return Some(format!("column '{}'", column.name));
        }
        let check = table.checks.iter().find(|c| self.condition_of(&whole, c).is_err())?;
        Some(format!("object '{}'", check.name))
    }

    /// The SQL of a check over the table as `t`.
    fn condition_of(
        &mut self,
        table: &Arc<Table>,
        check: &Check,
    ) -> SqlResult<(
        String,
        Vec<rusqlite::types::Value>,
        Arc<crate::context::StatementContext>,
    )> {
        let ctx = self.context()?;
        let vars = Variables::new();
        let mut binder = Binder::new(&ctx, &vars);
        let source = binder.source(table, "t", None)?;
        let sql = binder.predicate(&parse_expression(&check.text)?, &Scope::new(vec![source], None))?;
        let params = std::mem::take(&mut binder.params);
        drop(binder);
        Ok((sql, params, ctx))
    }
}
