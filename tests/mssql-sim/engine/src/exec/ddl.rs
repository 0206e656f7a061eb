//! CREATE, ALTER, DROP and TRUNCATE of what holds data.

mod alter;
mod constraints;
mod options;

use std::sync::Arc;

use super::{Session, storage};
use crate::{
    catalog::{Column, Identity, Key, Object, Schema, Storage, Table, put, remove, same_name},
    error::{SqlResult, invalid_object, not_supported, sql_error},
    parse::{ColumnSpec, KeySpec, Kind, NewTable, parse_expression},
    result::SqlError,
    types::{Collation, parse_type},
    value::SqlType,
};

impl Session {
    /// Runs a definition.
    pub(crate) fn define(&mut self, kind: &Kind) -> SqlResult<()> {
        let ctx = self.context()?;
        let server = matches!(
            kind,
            Kind::CreateDatabase(_) | Kind::DropDatabase { .. } | Kind::AlterDatabase { .. }
        );
        if server && !self.admin {
            return Err(sql_error(
                262,
                14,
                format!(
                    "CREATE DATABASE permission denied in database '{}'.",
                    self.database.name
                ),
            ));
        }
        let ddl = ctx.is_owner() || ctx.user().is_some_and(|u| ctx.catalog.is_member(u, "db_ddladmin"));
        if !server && !ddl {
            return Err(sql_error(
                262,
                14,
                format!("CREATE TABLE permission denied in database '{}'.", self.database.name),
            ));
        }
        match kind {
            Kind::CreateDatabase(_) | Kind::DropDatabase { .. } if self.tx.count > 0 => Err(sql_error(
                226,
                16,
                "CREATE DATABASE statement not allowed within multi-statement transaction.",
            )),
            Kind::CreateDatabase(name) => self.engine.create_database(name),
            Kind::DropDatabase { names, if_exists } => {
                for name in names {
                    if *if_exists && self.engine.database(name).is_none() {
                        continue;
                    }
                    self.engine.drop_database(name)?;
                }
                Ok(())
            }
            Kind::AlterDatabase { name, option, on } => self.alter_database(name, option, *on),
            Kind::CreateSchema(name) => self.write(|s| s.create_schema(name)),
            Kind::DropSchema { name, if_exists } => self.write(|s| s.drop_schema(name, *if_exists)),
            Kind::CreateTable(table) => self.write(|s| s.create_table(table)),
            Kind::DropTable { names, if_exists } => {
                self.write(|s| names.iter().try_for_each(|n| s.drop_table(n, *if_exists)))
            }
            Kind::AlterTable { table, change, text } => self.write(|s| s.alter_table(table, change, text)),
            Kind::CreateIndex { table, key } => self.write(|s| s.add_key(table, key)),
            Kind::DropIndex { name, table } => self.write(|s| s.drop_key(table, name, false)),
            Kind::Truncate(name) => self.write(|s| s.truncate(name)),
            _ => Err(not_supported("statement")),
        }
    }

    fn create_schema(&mut self, name: &str) -> SqlResult<()> {
        self.context()?;
        if self.catalog.schema(name).is_some() || same_name(name, "sys") || same_name(name, "INFORMATION_SCHEMA") {
            return Err(sql_error(
                2714,
                16,
                format!("There is already an object named '{name}' in the database."),
            ));
        }
        let id = self.next_object_id()?;
        self.put_object(
            id,
            &Object::Schema(Schema {
                id,
                name: name.to_owned(),
            }),
        )
    }

    fn drop_schema(&mut self, name: &str, if_exists: bool) -> SqlResult<()> {
        self.context()?;
        let Some(schema) = self.catalog.schema(name).cloned() else {
            return if if_exists { Ok(()) } else { Err(cannot("schema", name)) };
        };
        if let Some(table) = self.catalog.tables.values().find(|t| t.schema_id == schema.id) {
            return Err(sql_error(
                3729,
                16,
                format!(
                    "Cannot drop schema '{name}' because it is being referenced by object '{}'.",
                    table.name
                ),
            ));
        }
        remove(&self.conn, self.database.next_version(), schema.id).map_err(storage)
    }

    fn create_table(&mut self, new: &NewTable) -> SqlResult<()> {
        self.context()?;
        let (schema, name) = match new.name.as_slice() {
            [name] => ("dbo", name),
            [schema, name] => (schema.as_str(), name),
            [database, schema, name] if same_name(database, &self.database.name) => {
                (if schema.is_empty() { "dbo" } else { schema }, name)
            }
            _ => return Err(not_supported(&new.name.join("."))),
        };
        let Some(schema) = self.catalog.schema(schema).cloned() else {
            return Err(sql_error(
                2760,
                16,
                format!(
                    "The specified schema name \"{schema}\" either does not exist or you do not have permission to use it."
                ),
            ));
        };
        if self.catalog.table(Some(&schema.name), name).is_some() {
            return Err(sql_error(
                2714,
                16,
                format!("There is already an object named '{name}' in the database."),
            ));
        }
        let id = self.next_object_id()?;
        let mut columns: Vec<Column> = Vec::new();
        let mut identity = None;
        let mut keys: Vec<KeySpec> = Vec::new();
        for spec in &new.columns {
            if columns.iter().any(|c| same_name(&c.name, &spec.name)) {
                return Err(sql_error(
                    2705,
                    16,
                    format!(
                        "Column names in each table must be unique. Column name '{}' in table '{name}' is specified more than once.",
                        spec.name
                    ),
                ));
            }
            // A computed column's type is that of its expression, which is bound once all columns are known.
            let ty = match &spec.computed {
                Some(_) => SqlType::Int,
                None => parse_type(&spec.ty)?,
            };
            let collation = collation(spec, ty)?;
            if let Some(text) = &spec.default {
                parse_expression(text)?;
            }
            let column_id = columns.len() as i64 + 1;
            if let Some((seed, step)) = spec.identity {
                if !(ty.is_integer() && ty != SqlType::Bit || matches!(ty, SqlType::Decimal { scale: 0, .. })) {
                    return Err(sql_error(
                        2749,
                        16,
                        format!(
                            "Identity column '{}' must be of data type int, bigint, smallint, tinyint, or decimal or numeric with a scale of 0, unencrypted, and constrained to be nonnullable.",
                            spec.name
                        ),
                    ));
                }
                identity = Some(Identity {
                    column: column_id,
                    seed,
                    step,
                });
            }
            columns.push(Column {
                id: column_id,
                name: spec.name.clone(),
                ty,
                nullable: spec.nullable.unwrap_or(ty != SqlType::RowVersion) && spec.identity.is_none(),
                default: spec.default.clone(),
                computed: spec.computed.clone(),
                default_name: spec.default_name.clone(),
                collation,
            });
            keys.extend(spec.keys.iter().cloned());
        }
        keys.extend(new.keys.iter().cloned());
        let mut table = Table {
            id,
            schema_id: schema.id,
            name: name.clone(),
            next_column_id: columns.len() as i64 + 1,
            columns,
            keys: Vec::new(),
            identity,
            storage: Storage::Main,
            created: self.database.now(),
            grants: Vec::new(),
            cluster: Vec::new(),
            checks: Vec::new(),
        };
        self.bind_computed(&mut table)?;
        for check in new.columns.iter().flat_map(|c| &c.checks).chain(&new.checks) {
            self.add_check_to(&mut table, check)?;
        }
        for spec in &keys {
            if spec.primary {
                for key_column in &spec.columns {
                    let explicit = new
                        .columns
                        .iter()
                        .any(|c| same_name(&c.name, key_column) && c.nullable == Some(true));
                    if explicit {
                        return Err(sql_error(
                            8111,
                            16,
                            format!("Cannot define PRIMARY KEY constraint on nullable column in table '{name}'."),
                        ));
                    }
                    if let Some(column) = table.columns.iter_mut().find(|c| same_name(&c.name, key_column)) {
                        column.nullable = false;
                    }
                }
            }
            // A key that says CLUSTERED takes the place that the primary key has by default.
            let other = keys.iter().any(|k| !std::ptr::eq(k, spec) && k.clustered == Some(true));
            let key = new_key(&table, spec, other)?;
            table.keys.push(key);
        }
        make_table(&self.conn, &mut table).map_err(storage)?;
        self.put_object(id, &Object::Table(table))
    }

    fn drop_table(&mut self, parts: &[String], if_exists: bool) -> SqlResult<()> {
        self.context()?;
        let table = match self.table(parts) {
            Ok(table) => table,
            Err(error) if error.number == 208 => {
                return if if_exists {
                    Ok(())
                } else {
                    Err(cannot("table", &parts.join(".")))
                };
            }
            Err(error) => return Err(error),
        };
        if table.storage == Storage::Cdc {
            return Err(sql_error(
                3701,
                11,
                format!(
                    "Cannot drop the table '{}', because it is used by Change Data Capture.",
                    table.name
                ),
            ));
        }
        for instance in self
            .catalog
            .instances_of(table.id)
            .into_iter()
            .cloned()
            .collect::<Vec<_>>()
        {
            self.drop_instance(&instance)?;
        }
        self.conn
            .execute_batch(&format!("DROP TABLE {}", table.sql_name()))
            .map_err(storage)?;
        self.database.identities.lock().remove(&table.id);
        self.conn
            .execute("DELETE FROM main._sim_identity WHERE object_id = ?1", [table.id])
            .map_err(storage)?;
        remove(&self.conn, self.database.next_version(), table.id).map_err(storage)
    }

    fn truncate(&mut self, parts: &[String]) -> SqlResult<()> {
        self.context()?;
        let table = self.table(parts)?;
        if !self.catalog.instances_of(table.id).is_empty() {
            return Err(sql_error(
                4711,
                16,
                format!(
                    "Cannot truncate table '{}' because it is published for replication or enabled for Change Data Capture.",
                    parts.join(".")
                ),
            ));
        }
        self.conn
            .execute_batch(&format!("DELETE FROM {}", table.sql_name()))
            .map_err(storage)?;
        self.database.identities.lock().remove(&table.id);
        self.conn
            .execute("DELETE FROM main._sim_identity WHERE object_id = ?1", [table.id])
            .map(|_| ())
            .map_err(storage)
    }

    /// Adds an index or a key to a table that exists.
    pub(crate) fn add_key(&mut self, parts: &[String], spec: &KeySpec) -> SqlResult<()> {
        self.context()?;
        let table = self.table(parts)?;
        let mut table = (*table).clone();
        if spec.primary && table.primary_key().is_some() {
            return Err(sql_error(
                1779,
                16,
                format!("Table '{}' already has a primary key defined on it.", table.name),
            ));
        }
        let clustered = table.keys.iter().any(|k| k.clustered);
        if spec.clustered == Some(true) && clustered {
            return Err(sql_error(
                1902,
                16,
                format!("Cannot create more than one clustered index on table '{}'.", table.name),
            ));
        }
        let key = new_key(&table, spec, clustered)?;
        if key.primary
            && key
                .columns
                .iter()
                .any(|id| table.column_by_id(*id).is_some_and(|c| c.nullable))
        {
            return Err(sql_error(
                8111,
                16,
                format!(
                    "Cannot define PRIMARY KEY constraint on nullable column in table '{}'.",
                    table.name
                ),
            ));
        }
        for sql in index_sql(&table, &key) {
            self.conn.execute_batch(&sql).map_err(|e| match storage(e) {
                error if error.message.contains("UNIQUE") => sql_error(
                    1505,
                    16,
                    format!("The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for the object name '{}' and the index name '{}'.", parts.join("."), key.name),
                ),
                error => error,
            })?;
        }
        table.keys.push(key);
        self.put_object(table.id, &Object::Table(table))
    }

    /// Drops an index, or a constraint.
    pub(crate) fn drop_key(&mut self, parts: &[String], name: &str, constraint: bool) -> SqlResult<()> {
        self.context()?;
        let table = self.table(parts)?;
        let mut table = (*table).clone();
        let Some(at) = table
            .keys
            .iter()
            .position(|k| same_name(&k.name, name) && k.constraint == constraint)
        else {
            return Err(sql_error(
                if constraint { 3728 } else { 3701 },
                16,
                format!(
                    "Cannot drop the {} '{name}', because it does not exist or you do not have permission.",
                    if constraint { "constraint" } else { "index" }
                ),
            ));
        };
        let key = table.keys.remove(at);
        let in_cdc = self
            .catalog
            .instances_of(table.id)
            .iter()
            .any(|i| i.index_name.as_deref().is_some_and(|n| same_name(n, &key.name)));
        if in_cdc {
            return Err(sql_error(
                3727,
                16,
                format!(
                    "Could not drop constraint. See previous errors. (The index '{}' is used by Change Data Capture.)",
                    key.name
                ),
            ));
        }
        let stored: bool = self
            .conn
            .query_row(
                "SELECT count(*) FROM main.sqlite_schema WHERE type = 'index' AND name = ?1",
                [index_name(&table, &key)],
                |r| r.get::<_, i64>(0),
            )
            .map(|n| n > 0)
            .map_err(storage)?;
        if !stored {
            // The key is SQLite's own: the table is laid out anew without it.
            return self.rebuild(table);
        }
        self.conn
            .execute_batch(&format!(
                "DROP INDEX main.{0}; DROP INDEX IF EXISTS main.{0}n",
                index_name(&table, &key)
            ))
            .map_err(storage)?;
        self.put_object(table.id, &Object::Table(table))
    }

    /// Lays a table out anew after its keys changed, keeping its rows.
    fn rebuild(&mut self, mut table: Table) -> SqlResult<()> {
        let name = format!("t{}", table.id);
        let list: Vec<String> = table.columns.iter().map(|c| format!("c{}", c.id)).collect();
        let list = list.join(", ");
        self.conn
            .execute_batch(&format!("ALTER TABLE main.{name} RENAME TO old{name}"))
            .map_err(storage)?;
        for key in &table.keys {
            self.conn
                .execute_batch(&format!(
                    "DROP INDEX IF EXISTS main.{0}; DROP INDEX IF EXISTS main.{0}n",
                    index_name(&table, key)
                ))
                .map_err(storage)?;
        }
        make_table(&self.conn, &mut table).map_err(storage)?;
        self.conn
            .execute_batch(&format!(
                "INSERT INTO main.{name}({list}) SELECT {list} FROM main.old{name}; DROP TABLE main.old{name}"
            ))
            .map_err(storage)?;
        self.put_object(table.id, &Object::Table(table))
    }

    /// Adds a table that the engine itself defines.
    pub(crate) fn put_table(&mut self, mut table: Table) -> SqlResult<Arc<Table>> {
        make_table(&self.conn, &mut table).map_err(storage)?;
        let id = table.id;
        put(&self.conn, self.database.next_version(), id, &Object::Table(table)).map_err(storage)?;
        self.context()?;
        self.catalog
            .tables
            .get(&id)
            .cloned()
            .ok_or_else(|| invalid_object("cdc"))
    }
}

fn cannot(kind: &str, name: &str) -> SqlError {
    let mut error = sql_error(
        3701,
        11,
        format!("Cannot drop the {kind} '{name}', because it does not exist or you do not have permission."),
    );
    error.state = 5;
    error
}

fn new_key(table: &Table, spec: &KeySpec, other_clustered: bool) -> SqlResult<Key> {
    let mut columns = Vec::new();
    for name in &spec.columns {
        let Some(column) = table.column(name) else {
            return Err(sql_error(
                1911,
                16,
                format!("Column name '{name}' does not exist in the target table or view."),
            ));
        };
        if column.computed.is_some() {
            return Err(not_supported("key on a computed column"));
        }
        if column.ty.is_max() {
            return Err(sql_error(
                1919,
                16,
                format!(
                    "Column '{name}' in table '{}' is of a type that is invalid for use as a key column in an index.",
                    table.name
                ),
            ));
        }
        columns.push(column.id);
    }
    if columns.is_empty() {
        return Err(crate::error::syntax_near(")"));
    }
    let clustered =
        spec.clustered.unwrap_or(spec.primary && !other_clustered) && !table.keys.iter().any(|k| k.clustered);
    let id = if clustered {
        1
    } else {
        table.keys.iter().map(|k| k.id).max().unwrap_or(1).max(1) + 1
    };
    let name = spec.name.clone().unwrap_or_else(|| {
        format!(
            "{}__{}__{:08X}",
            if spec.primary { "PK" } else { "UQ" },
            table.name,
            table.id.wrapping_mul(2_654_435_761) as u32
        )
    });
    Ok(Key {
        id,
        name,
        columns,
        unique: spec.unique,
        primary: spec.primary,
        constraint: spec.constraint,
        clustered,
    })
}

fn index_name(table: &Table, key: &Key) -> String {
    format!("k{}_{}", table.id, key.id)
}

/// The SQLite indexes of a key. SQL Server takes two NULLs for equal, SQLite does not: rows with NULLs have an index of
/// their own, over stand-ins for NULL.
fn index_sql(table: &Table, key: &Key) -> Vec<String> {
    let schema = if table.storage == Storage::Main { "main" } else { "cdc" };
    let names: Vec<String> = key.columns.iter().map(|id| format!("c{id}")).collect();
    let name = index_name(table, key);
    let unique = if key.unique { "UNIQUE " } else { "" };
    let mut sql = vec![format!(
        "CREATE {unique}INDEX {schema}.{name} ON t{}({})",
        table.id,
        names.join(", ")
    )];
    let nullable: Vec<&Column> = key
        .columns
        .iter()
        .filter_map(|id| table.column_by_id(*id))
        .filter(|c| c.nullable)
        .collect();
    if key.unique && !nullable.is_empty() {
        let stand_ins: Vec<String> = key
            .columns
            .iter()
            .filter_map(|id| table.column_by_id(*id))
            .map(|c| {
                format!(
                    "ifnull(c{}, X'FE'){}",
                    c.id,
                    if c.ty.is_text() { " COLLATE TSQL" } else { "" }
                )
            })
            .collect();
        let any: Vec<String> = nullable.iter().map(|c| format!("c{} IS NULL", c.id)).collect();
        sql.push(format!(
            "CREATE UNIQUE INDEX {schema}.{name}n ON t{}({}) WHERE {}",
            table.id,
            stand_ins.join(", "),
            any.join(" OR ")
        ));
    }
    sql
}

/// The collation that a column's definition names.
///
/// # Errors
/// 448 for a name that the stand-in does not have, 453 for a type that has none.
pub(super) fn collation(spec: &ColumnSpec, ty: SqlType) -> SqlResult<Option<String>> {
    let Some(name) = &spec.collation else {
        return Ok(None);
    };
    if !ty.has_collation() {
        return Err(sql_error(
            453,
            16,
            format!("COLLATE clause cannot be used on data type {ty}."),
        ));
    }
    match Collation::of_name(name) {
        Some(_) => Ok(Some(name.clone())),
        None => Err(sql_error(448, 16, format!("Invalid collation '{name}'."))),
    }
}

/// Makes the SQLite table, clustered on the clustered key where that is unique.
pub(crate) fn make_table(conn: &rusqlite::Connection, table: &mut Table) -> rusqlite::Result<()> {
    let cluster = if table.storage == Storage::Cdc {
        None
    } else {
        table
            .keys
            .iter()
            .find(|k| {
                k.clustered
                    && k.unique
                    && k.columns
                        .iter()
                        .all(|id| table.column_by_id(*id).is_some_and(|c| !c.nullable))
            })
            .cloned()
    };
    let columns: Vec<i64> = match &cluster {
        Some(key) => key.columns.clone(),
        None => table.cluster.clone(),
    };
    let rowid = match columns.as_slice() {
        [one] => table.column_by_id(*one).filter(|c| c.ty.is_integer()).map(|c| c.id),
        _ => None,
    };
    let mut list: Vec<String> = table
        .columns
        .iter()
        .map(|c| match rowid {
            Some(id) if id == c.id => format!("c{id} INTEGER PRIMARY KEY"),
            _ => format!("c{}{}", c.id, if c.ty.is_text() { " COLLATE TSQL" } else { "" }),
        })
        .collect();
    let mut suffix = "";
    table.cluster = Vec::new();
    if rowid.is_none() && !columns.is_empty() {
        let names: Vec<String> = columns.iter().map(|id| format!("c{id}")).collect();
        list.push(format!("PRIMARY KEY ({})", names.join(", ")));
        suffix = " WITHOUT ROWID";
        table.cluster = columns;
    }
    conn.execute_batch(&format!(
        "CREATE TABLE {}({}){suffix}",
        table.sql_name(),
        list.join(", ")
    ))?;
    for key in &table.keys {
        if cluster.as_ref().is_some_and(|c| c.id == key.id) {
            continue;
        }
        for sql in index_sql(table, key) {
            conn.execute_batch(&sql)?;
        }
    }
    Ok(())
}
