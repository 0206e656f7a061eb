//! ALTER TABLE, and what it means to capture instances.

use super::super::{Session, storage, writer::append};
use super::constraints::{default_constraint, default_is};
use crate::{
    bind::{Binder, Scope, Variables},
    catalog::{Column, Object, Storage, Table, same_name},
    cdc::Op,
    error::{SqlResult, not_null, sql_error},
    parse::{AlterTable, ColumnSpec, parse_expression},
    types::{code_of, convert, encode, parse_type},
    value::{Length, SqlType, Value},
};

impl Session {
    pub(super) fn alter_table(&mut self, parts: &[String], change: &AlterTable, text: &str) -> SqlResult<()> {
        self.context()?;
        let table = self.table(parts)?;
        if table.storage == Storage::Cdc {
            return Err(sql_error(
                4902,
                16,
                format!(
                    "Cannot alter the table '{}' because it is used by Change Data Capture.",
                    table.name
                ),
            ));
        }
        let mut table = (*table).clone();
        match change {
            AlterTable::AddColumns(specs) => {
                for spec in specs {
                    self.add_column(&mut table, spec)?;
                }
                self.bind_computed(&mut table)?;
                for check in specs.iter().flat_map(|s| &s.checks) {
                    self.add_check_to(&mut table, check)?;
                }
                self.put_object(table.id, &Object::Table(table.clone()))?;
                self.log_ddl(&table, text, false)?;
                specs
                    .iter()
                    .flat_map(|s| &s.keys)
                    .try_for_each(|k| self.add_key(parts, k))
            }
            AlterTable::DropColumns(names) => {
                for name in names {
                    self.drop_column(&mut table, name)?;
                }
                self.put_object(table.id, &Object::Table(table.clone()))?;
                self.log_ddl(&table, text, false)
            }
            AlterTable::AlterColumn(spec) => self.alter_column(&mut table, spec, text),
            AlterTable::AddKey(key) => self.add_key(parts, key),
            AlterTable::AddCheck(check) => {
                self.add_check_to(&mut table, check)?;
                self.put_object(table.id, &Object::Table(table.clone()))?;
                self.enforce_checks(&std::sync::Arc::new(table), "ALTER TABLE")
            }
            AlterTable::AddDefault(default) => {
                self.add_default(&mut table, default)?;
                self.put_object(table.id, &Object::Table(table))
            }
            AlterTable::DropConstraint(name) if table.columns.iter().any(|c| default_is(&table, c, name)) => {
                let at = table.columns.iter().position(|c| default_is(&table, c, name));
                if let Some(column) = at.and_then(|at| table.columns.get_mut(at)) {
                    column.default = None;
                    column.default_name = None;
                }
                self.put_object(table.id, &Object::Table(table))
            }
            AlterTable::DropConstraint(name) if table.checks.iter().any(|c| same_name(&c.name, name)) => {
                table.checks.retain(|c| !same_name(&c.name, name));
                self.put_object(table.id, &Object::Table(table))
            }
            AlterTable::DropConstraint(name) => self.drop_key(parts, name, true),
            AlterTable::Nothing => Ok(()),
        }
    }

    fn add_column(&mut self, table: &mut Table, spec: &ColumnSpec) -> SqlResult<()> {
        if table.column(&spec.name).is_some() {
            return Err(sql_error(
                2705,
                16,
                format!(
                    "Column names in each table must be unique. Column name '{}' in table '{}' is specified more than once.",
                    spec.name, table.name
                ),
            ));
        }
        if spec.identity.is_some() {
            return Err(crate::error::not_supported("IDENTITY"));
        }
        let ty = match &spec.computed {
            Some(_) => SqlType::Int,
            None => parse_type(&spec.ty)?,
        };
        let column = Column {
            id: table.next_column_id,
            name: spec.name.clone(),
            ty,
            nullable: spec.nullable.unwrap_or(true),
            default: spec.default.clone(),
            computed: spec.computed.clone(),
            default_name: spec.default_name.clone(),
            collation: super::collation(spec, ty)?,
        };
        let collate = if ty.is_text() { " COLLATE TSQL" } else { "" };
        self.conn
            .execute_batch(&format!(
                "ALTER TABLE {} ADD COLUMN c{}{collate}",
                table.sql_name(),
                column.id
            ))
            .map_err(storage)?;
        if !column.nullable && column.computed.is_none() {
            match &spec.default {
                Some(text) => {
                    let value = self.default_value(text, ty)?;
                    self.conn
                        .execute(
                            &format!("UPDATE {} SET c{} = ?1", table.sql_name(), column.id),
                            [encode(&value)],
                        )
                        .map_err(storage)?;
                }
                None if self.any(&format!("SELECT 1 FROM {} LIMIT 1", table.sql_name()))? => {
                    return Err(sql_error(
                        4901,
                        16,
                        format!(
                            "ALTER TABLE only allows columns to be added that can contain nulls, or have a DEFAULT definition specified, or the column being added is an identity or timestamp column, or alternatively if none of the previous conditions are satisfied the table must be empty to allow addition of this column. Column '{}' cannot be added to non-empty table '{}' because it does not satisfy these conditions.",
                            spec.name, table.name
                        ),
                    ));
                }
                None => {}
            }
        }
        table.next_column_id += 1;
        table.columns.push(column);
        Ok(())
    }

    fn default_value(&mut self, text: &str, ty: SqlType) -> SqlResult<Value> {
        let ctx = self.context()?;
        let vars = Variables::new();
        let mut binder = Binder::new(&ctx, &vars);
        binder.fold_volatile = true;
        let bound = binder.expr(&parse_expression(text)?, &Scope::default())?;
        let (value, from) = self.evaluate(binder, &bound)?;
        convert(&value, from, ty)
    }

    fn drop_column(&mut self, table: &mut Table, name: &str) -> SqlResult<()> {
        let Some(column) = table.column(name).cloned() else {
            return Err(sql_error(
                4924,
                16,
                format!(
                    "ALTER TABLE DROP COLUMN failed because column '{name}' does not exist in table '{}'.",
                    table.name
                ),
            ));
        };
        if let Some(key) = table.keys.iter().find(|k| k.columns.contains(&column.id)) {
            return Err(sql_error(
                5074,
                16,
                format!("The object '{}' is dependent on column '{name}'.", key.name),
            ));
        }
        if column.default.is_some() {
            return Err(sql_error(
                5074,
                16,
                format!(
                    "The object '{}' is dependent on column '{name}'.",
                    default_constraint(table, &column)
                ),
            ));
        }
        let mut without = table.clone();
        without.columns.retain(|c| c.id != column.id);
        if let Some(dependent) = self.depends(&without) {
            return Err(sql_error(
                5074,
                16,
                format!("The {dependent} is dependent on column '{name}'."),
            ));
        }
        self.conn
            .execute_batch(&format!("ALTER TABLE {} DROP COLUMN c{}", table.sql_name(), column.id))
            .map_err(storage)?;
        table.columns.retain(|c| c.id != column.id);
        table.grants.retain_mut(|g| {
            let whole = g.columns.is_empty();
            g.columns.retain(|id| *id != column.id);
            whole || !g.columns.is_empty()
        });
        Ok(())
    }

    fn alter_column(&mut self, table: &mut Table, spec: &ColumnSpec, text: &str) -> SqlResult<()> {
        let Some(old) = table.column(&spec.name).cloned() else {
            return Err(sql_error(
                4924,
                16,
                format!(
                    "ALTER TABLE ALTER COLUMN failed because column '{}' does not exist in table '{}'.",
                    spec.name, table.name
                ),
            ));
        };
        if let Some(key) = table.keys.iter().find(|k| k.columns.contains(&old.id)) {
            return Err(sql_error(
                5074,
                16,
                format!("The object '{}' is dependent on column '{}'.", key.name, spec.name),
            ));
        }
        if old.computed.is_some() {
            return Err(sql_error(
                4928,
                16,
                format!("Cannot alter column '{}' because it is 'COMPUTED'.", spec.name),
            ));
        }
        let ty = parse_type(&spec.ty)?;
        let nullable = spec.nullable.unwrap_or(true);
        if !nullable
            && self.any(&format!(
                "SELECT 1 FROM {} WHERE c{} IS NULL LIMIT 1",
                table.sql_name(),
                old.id
            ))?
        {
            let full = format!(
                "{}.{}.{}",
                self.database.name,
                self.catalog.schema_name(table.schema_id),
                table.name
            );
            return Err(not_null(&old.name, &full, "UPDATE"));
        }
        let collation = super::collation(spec, ty)?;
        self.convert_column(&table.sql_name(), old.id, old.ty, ty)?;
        if let Some(column) = table.columns.iter_mut().find(|c| c.id == old.id) {
            column.ty = ty;
            column.collation.clone_from(&collation);
            column.nullable = nullable;
        }
        self.put_object(table.id, &Object::Table(table.clone()))?;
        let mut captured = false;
        for instance in self
            .catalog
            .instances_of(table.id)
            .into_iter()
            .cloned()
            .collect::<Vec<_>>()
        {
            let mut instance = (*instance).clone();
            let Some(own) = instance.columns.iter_mut().find(|c| c.source_id == old.id) else {
                continue;
            };
            captured = true;
            self.begin_cdc_write()?;
            let change_id = own.change_id;
            let was = std::mem::replace(&mut own.ty, ty);
            own.collation.clone_from(&collation);
            if let Some(change_table) = self.catalog.tables.get(&instance.id).cloned() {
                self.convert_column(&change_table.sql_name(), change_id, was, ty)?;
                let mut change_table = (*change_table).clone();
                if let Some(column) = change_table.columns.iter_mut().find(|c| c.id == change_id) {
                    column.ty = ty;
                    column.collation.clone_from(&collation);
                }
                self.put_object(change_table.id, &Object::Table(change_table))?;
            }
            self.put_object(-instance.id, &Object::Instance(instance))?;
        }
        self.log_ddl(table, text, captured)
    }

    fn convert_column(&self, table: &str, column: i64, from: SqlType, to: SqlType) -> SqlResult<()> {
        if from == to {
            return Ok(());
        }
        if !crate::types::implicit_allowed(from, to) {
            return Err(crate::error::type_clash(&from.to_string(), &to.to_string()));
        }
        let limit = match to {
            SqlType::Char(n) | SqlType::NChar(n) | SqlType::Binary(n) => Some(n),
            SqlType::VarChar(Length::Limited(n))
            | SqlType::NVarChar(Length::Limited(n))
            | SqlType::VarBinary(Length::Limited(n)) => Some(n),
            _ => None,
        };
        let variable = from.is_text() && to.is_text() || from.is_bytes() && to.is_bytes();
        if let Some(n) = limit
            && variable
        {
            let measure = if from.is_text() {
                format!("length(rtrim(c{column}))")
            } else {
                format!("length(c{column})")
            };
            if self.any(&format!("SELECT 1 FROM {table} WHERE {measure} > {n} LIMIT 1"))? {
                return Err(sql_error(8152, 16, "String or binary data would be truncated."));
            }
        }
        self.conn
            .execute_batch(&format!(
                "UPDATE {table} SET c{column} = tcast(c{column}, {}, {}, 0, 0)",
                code_of(from),
                code_of(to)
            ))
            .map_err(storage)
    }

    fn any(&self, sql: &str) -> SqlResult<bool> {
        let mut statement = self.conn.prepare(sql).map_err(storage)?;
        statement.exists([]).map_err(storage)
    }

    /// Tells capture of a changed definition, if it tracks the table. The first byte says whether a captured column's
    /// type changed.
    fn log_ddl(&mut self, table: &Table, text: &str, required: bool) -> SqlResult<()> {
        if self.catalog.instances_of(table.id).is_empty() {
            return Ok(());
        }
        let mut data = vec![u8::from(required)];
        data.extend_from_slice(text.as_bytes());
        let mut log = self.tx.log.clone();
        append(&self.conn, &self.database, &mut log, table.id, Op::Ddl, &data)?;
        self.tx.log = log;
        Ok(())
    }
}
