//! `sp_rename` of tables and columns.

use super::Session;
use crate::{
    catalog::{Object, Storage, same_name},
    context::split_name,
    error::{SqlResult, sql_error},
    result::SqlError,
};

/// What renaming says when it succeeds.
pub(super) fn caution() -> SqlError {
    sql_error(
        15477,
        10,
        "Caution: Changing any part of an object name could break scripts and stored procedures.",
    )
}

impl Session {
    /// Renames a column (`kind` COLUMN) or a table.
    pub(super) fn rename(&mut self, name: &str, new: &str, kind: Option<&str>) -> SqlResult<()> {
        self.write(|session| {
            let ctx = session.context()?;
            let ddl = ctx.is_owner() || ctx.user().is_some_and(|u| ctx.catalog.is_member(u, "db_ddladmin"));
            let mut parts = split_name(name);
            match kind {
                Some(kind) if kind.eq_ignore_ascii_case("column") => {
                    let column = parts.pop().unwrap_or_default();
                    if !ddl || parts.is_empty() {
                        return Err(wrong_type("COLUMN"));
                    }
                    session.rename_column(&parts, &column, new)
                }
                Some(kind) if !kind.eq_ignore_ascii_case("object") => Err(wrong_type(kind)),
                _ if ddl => session.rename_table(&parts, new),
                _ => Err(no_item(name, &session.database.name)),
            }
        })
    }

    fn rename_column(&mut self, table: &[String], column: &str, new: &str) -> SqlResult<()> {
        let table = self.table(table).map_err(|_| wrong_type("COLUMN"))?;
        let Some(old) = table.column(column) else {
            return Err(wrong_type("COLUMN"));
        };
        let captured = self
            .catalog
            .instances_of(table.id)
            .iter()
            .any(|i| i.columns.iter().any(|c| c.source_id == old.id));
        if captured || table.storage == Storage::Cdc {
            return Err(sql_error(
                4928,
                16,
                format!("Cannot alter column '{}' because it is 'REPLICATED'.", old.name),
            ));
        }
        if table.columns.iter().any(|c| c.id != old.id && same_name(&c.name, new)) {
            return Err(taken(new, "COLUMN"));
        }
        let id = old.id;
        let mut table = (*table).clone();
        if let Some(column) = table.columns.iter_mut().find(|c| c.id == id) {
            new.clone_into(&mut column.name);
        }
        self.put_object(table.id, &Object::Table(table))
    }

    fn rename_table(&mut self, parts: &[String], new: &str) -> SqlResult<()> {
        let table = self
            .table(parts)
            .map_err(|_| no_item(&parts.join("."), &self.database.name))?;
        if table.storage == Storage::Cdc || !self.catalog.instances_of(table.id).is_empty() {
            return Err(sql_error(
                15051,
                11,
                "Cannot rename the table because it is published for replication.",
            ));
        }
        let schema = self.catalog.schema_name(table.schema_id).to_owned();
        if self
            .catalog
            .table(Some(&schema), new)
            .is_some_and(|other| other.id != table.id)
        {
            return Err(taken(new, "OBJECT"));
        }
        let mut table = (*table).clone();
        new.clone_into(&mut table.name);
        self.put_object(table.id, &Object::Table(table))
    }
}

fn wrong_type(kind: &str) -> SqlError {
    sql_error(
        15248,
        11,
        format!("Either the parameter @objname is ambiguous or the claimed @objtype ({kind}) is wrong."),
    )
}

fn no_item(name: &str, database: &str) -> SqlError {
    sql_error(
        15225,
        11,
        format!(
            "No item by the name of '{name}' could be found in the current database '{database}', given that @itemtype was input as '(null)'."
        ),
    )
}

fn taken(name: &str, kind: &str) -> SqlError {
    sql_error(
        15335,
        11,
        format!(
            "Error: The new name '{name}' is already in use as a {kind} name and would cause a duplicate that is not permitted."
        ),
    )
}
