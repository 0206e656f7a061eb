//! Enabling and disabling CDC, for a database and for its tables.

use super::{Op, column};
use crate::{
    catalog::{CapturedColumn, Column, Instance, Object, Schema, Storage, Table, User, remove, same_name},
    error::{SqlResult, sql_error},
    exec::Session,
    value::{Length, SqlType},
};

/// What `sp_cdc_enable_table` was asked.
pub(super) struct Request {
    pub(super) schema: String,
    pub(super) table: String,
    pub(super) instance: Option<String>,
    pub(super) role: Option<String>,
    pub(super) net_changes: Option<bool>,
    pub(super) index: Option<String>,
    pub(super) columns: Option<String>,
    pub(super) filegroup: Option<String>,
}

impl Session {
    /// `sp_cdc_enable_db`.
    pub(super) fn enable_database(&mut self) -> SqlResult<()> {
        self.write(|session| {
            session.context()?;
            if session.catalog.settings.cdc {
                return Err(sql_error(
                    22906,
                    16,
                    format!("The database '{}' is already enabled for Change Data Capture. Ensure that the correct database context is set, and retry the operation. To report on the databases enabled for Change Data Capture, query the is_cdc_enabled column in the sys.databases catalog view.", session.database.name),
                ));
            }
            if session.catalog.schema("cdc").is_some() {
                return Err(sql_error(
                    22830,
                    16,
                    format!("Could not update the metadata that indicates database {} is enabled for Change Data Capture. The schema 'cdc' already exists.", session.database.name),
                ));
            }
            session.begin_cdc_write()?;
            let schema_id = session.next_object_id()?;
            session.put_object(schema_id, &Object::Schema(Schema { id: schema_id, name: "cdc".into() }))?;
            let user_id = session.next_object_id()?;
            let user = User { id: user_id, name: "cdc".into(), login: None, is_role: false, roles: vec!["db_owner".into()], grants: Vec::new() };
            session.put_object(user_id, &Object::User(user))?;
            let binary = SqlType::Binary(10);
            let mapping = [
                ("start_lsn", binary, false),
                ("tran_begin_time", SqlType::DateTime, true),
                ("tran_end_time", SqlType::DateTime, true),
                ("tran_id", SqlType::VarBinary(Length::Limited(10)), true),
                ("tran_begin_lsn", binary, true),
            ];
            session.system_table(schema_id, "lsn_time_mapping", &mapping, vec![1])?;
            let history = [
                ("source_object_id", SqlType::Int, true),
                ("object_id", SqlType::Int, false),
                ("required_column_update", SqlType::Bit, true),
                ("ddl_command", SqlType::NVarChar(Length::Max), true),
                ("ddl_lsn", binary, false),
                ("ddl_time", SqlType::DateTime, true),
            ];
            session.system_table(schema_id, "ddl_history", &history, Vec::new())?;
            let mut settings = session.catalog.settings.clone();
            settings.cdc = true;
            session.put_object(crate::catalog::SETTINGS_ID, &Object::Settings(settings))
        })
    }

    fn system_table(
        &mut self,
        schema_id: i64,
        name: &str,
        columns: &[(&str, SqlType, bool)],
        cluster: Vec<i64>,
    ) -> SqlResult<()> {
        let id = self.next_object_id()?;
        let columns: Vec<Column> = columns
            .iter()
            .enumerate()
            .map(|(i, (name, ty, nullable))| Column {
                id: i as i64 + 1,
                name: (*name).to_owned(),
                ty: *ty,
                nullable: *nullable,
                default: None,
                computed: None,
                default_name: None,
                collation: None,
            })
            .collect();
        let next_column_id = columns.len() as i64 + 1;
        self.put_table(Table {
            id,
            schema_id,
            name: name.to_owned(),
            columns,
            next_column_id,
            keys: Vec::new(),
            identity: None,
            storage: Storage::Cdc,
            created: self.database.now(),
            grants: Vec::new(),
            cluster,
            checks: Vec::new(),
        })
        .map(|_| ())
    }

    /// `sp_cdc_disable_db`.
    pub(super) fn disable_database(&mut self) -> SqlResult<()> {
        let database = std::sync::Arc::clone(&self.database);
        self.write(|session| {
            session.context()?;
            session.begin_cdc_write()?;
            for instance in session.catalog.instances.values().cloned().collect::<Vec<_>>() {
                session.drop_instance(&instance)?;
            }
            session.context()?;
            let Some(schema) = session.catalog.schema("cdc").cloned() else {
                return Ok(());
            };
            for table in session
                .catalog
                .tables
                .values()
                .filter(|t| t.schema_id == schema.id)
                .cloned()
                .collect::<Vec<_>>()
            {
                session
                    .conn
                    .execute_batch(&format!("DROP TABLE {}", table.sql_name()))
                    .map_err(crate::exec::storage)?;
                remove(&session.conn, session.database.next_version(), table.id).map_err(crate::exec::storage)?;
            }
            remove(&session.conn, session.database.next_version(), schema.id).map_err(crate::exec::storage)?;
            if let Some(user) = session.catalog.user("cdc") {
                remove(&session.conn, session.database.next_version(), user.id).map_err(crate::exec::storage)?;
            }
            session.context()?;
            let mut settings = session.catalog.settings.clone();
            settings.cdc = false;
            session.put_object(crate::catalog::SETTINGS_ID, &Object::Settings(settings))
        })?;
        let mut state = database.cdc.lock();
        state.max_lsn = None;
        state.starts.clear();
        Ok(())
    }

    /// `sp_cdc_enable_table`.
    pub(super) fn enable_table(&mut self, request: &Request) -> SqlResult<()> {
        self.write(|session| {
            session.context()?;
            let full = format!("{}.{}", request.schema, request.table);
            let source = session.catalog.table(Some(&request.schema), &request.table).cloned().ok_or_else(|| no_source(&request.schema, &request.table))?;
            if source.storage == Storage::Cdc {
                return Err(no_source(&request.schema, &request.table));
            }
            let name = request.instance.clone().unwrap_or_else(|| format!("{}_{}", request.schema, request.table));
            if session.catalog.instances_of(source.id).len() >= 2 {
                return Err(sql_error(
                    22962,
                    16,
                    format!("Two capture instances already exist for source table '{full}'. A table can have at most two capture instances. If the current tracking options are not appropriate, disable change tracking for the obsolete instance by using sys.sp_cdc_disable_table and retry the operation."),
                ));
            }
            if session.catalog.instances.values().any(|i| i.name == name) || session.catalog.table(Some("cdc"), &format!("{name}_CT")).is_some() {
                return Err(sql_error(
                    22926,
                    16,
                    format!("Could not create a capture instance because the capture instance name '{name}' already exists in the current database. Specify an explicit unique name for the parameter @capture_instance."),
                ));
            }
            let index = match &request.index {
                Some(wanted) => Some(source.keys.iter().find(|k| k.unique && same_name(&k.name, wanted)).ok_or_else(|| {
                    sql_error(
                        22943,
                        16,
                        format!("The index '{wanted}' was not found for the source table '{full}' or it is not a unique index on columns that are all NOT NULL."),
                    )
                })?),
                None => source.primary_key(),
            };
            let net = request.net_changes.unwrap_or(index.is_some());
            if net && index.is_none() {
                return Err(sql_error(
                    22939,
                    16,
                    "The parameter @supports_net_changes is set to 1, but the source table does not have a primary key defined and no alternate unique index has been specified.",
                ));
            }
            let wanted: Option<Vec<String>> = request.columns.as_ref().map(|list| split_columns(list));
            if let Some(wanted) = &wanted
                && (wanted.is_empty() || wanted.iter().any(|w| source.column(w).is_none()))
            {
                return Err(sql_error(
                    22943,
                    16,
                    format!("Columns specified in the captured column list could not be mapped to columns in source table '{full}'. Verify that the columns specified in the parameter @captured_column_list are delimited properly and identify columns in the source table."),
                ));
            }
            let mut columns = Vec::new();
            for source_column in &source.columns {
                let in_list = wanted.as_ref().is_none_or(|w| w.iter().any(|n| same_name(n, &source_column.name)));
                let index_ordinal = index.and_then(|k| k.columns.iter().position(|id| *id == source_column.id)).map(|i| i as i64 + 1);
                if !in_list {
                    if net && index_ordinal.is_some() {
                        return Err(sql_error(
                            22944,
                            16,
                            format!("The captured column list for the source table '{full}' does not contain all columns of the index that identifies its rows. Add the column '{}'.", source_column.name),
                        ));
                    }
                    continue;
                }
                let ordinal = columns.len() as i64 + 1;
                columns.push(CapturedColumn {
                    source_id: source_column.id,
                    name: source_column.name.clone(),
                    change_id: column::FIRST_CAPTURED + ordinal - 1,
                    ordinal,
                    ty: source_column.ty,
                    index_ordinal,
                    collation: source_column.collation.clone(),
                });
            }
            let index_name = index.map(|k| k.name.clone());
            session.begin_cdc_write()?;
            if let Some(role) = &request.role {
                session.ensure_role(role)?;
            }
            let id = session.next_object_id()?;
            let created = session.database.now();
            let schema_id = session.catalog.schema("cdc").map_or(0, |s| s.id);
            let next_column_id = column::FIRST_CAPTURED + columns.len() as i64;
            let mut change_columns = change_columns(&columns);
            let mut cluster = vec![column::START_LSN, column::COMMAND_ID, column::SEQVAL, column::OPERATION];
            if session.engine.options.without_command_id {
                change_columns.retain(|c| c.id != column::COMMAND_ID);
                cluster.retain(|id| *id != column::COMMAND_ID);
            }
            session.put_table(Table {
                id,
                schema_id,
                name: format!("{name}_CT"),
                columns: change_columns,
                next_column_id,
                keys: Vec::new(),
                identity: None,
                storage: Storage::Cdc,
                created,
                grants: Vec::new(),
                checks: Vec::new(),
                cluster,
            })?;
            let instance = Instance {
                id,
                source_id: source.id,
                name: name.clone(),
                columns,
                supports_net_changes: net,
                role: request.role.clone(),
                index_name,
                filegroup: request.filegroup.clone(),
                created,
                source_schema: session.catalog.schema_name(source.schema_id).to_owned(),
                source_table: source.name.clone(),
            };
            session.put_object(-id, &Object::Instance(instance))?;
            session.log_record(id, Op::Enable, &[])
        })
    }

    fn ensure_role(&mut self, name: &str) -> SqlResult<()> {
        if self.catalog.user(name).is_some() || same_name(name, "public") || same_name(name, "dbo") {
            return Ok(());
        }
        let id = self.next_object_id()?;
        let role = User {
            id,
            name: name.to_owned(),
            login: None,
            is_role: true,
            roles: Vec::new(),
            grants: Vec::new(),
        };
        self.put_object(id, &Object::User(role))
    }

    /// Drops an instance with its change table.
    pub(crate) fn drop_instance(&mut self, instance: &Instance) -> SqlResult<()> {
        self.begin_cdc_write()?;
        let storage = crate::exec::storage;
        if let Some(table) = self.catalog.tables.get(&instance.id) {
            self.conn
                .execute_batch(&format!("DROP TABLE {}", table.sql_name()))
                .map_err(storage)?;
        }
        self.conn
            .execute("DELETE FROM cdc._sim_instance WHERE id = ?1", [instance.id])
            .map_err(storage)?;
        if let Some(history) = self.catalog.table(Some("cdc"), "ddl_history") {
            let sql = format!("DELETE FROM {} WHERE c2 = ?1", history.sql_name());
            self.conn.execute(&sql, [instance.id]).map_err(storage)?;
        }
        remove(&self.conn, self.database.next_version(), instance.id).map_err(storage)?;
        remove(&self.conn, self.database.next_version(), -instance.id).map_err(storage)?;
        self.context().map(|_| ())
    }

    /// `sp_cdc_disable_table`.
    pub(super) fn disable_table(&mut self, schema: &str, table: &str, name: &str) -> SqlResult<()> {
        self.write(|session| {
            session.context()?;
            let source = session.catalog.table(Some(schema), table).cloned().ok_or_else(|| no_source(schema, table))?;
            let found: Vec<_> = session
                .catalog
                .instances_of(source.id)
                .into_iter()
                .filter(|i| same_name(name, "all") || same_name(&i.name, name))
                .cloned()
                .collect();
            if found.is_empty() {
                return Err(sql_error(
                    22960,
                    16,
                    format!("Change data capture instance '{name}' has not been enabled for the source table '{schema}.{table}'. Use sys.sp_cdc_help_change_data_capture to verify the capture instance name and retry the operation."),
                ));
            }
            found.iter().try_for_each(|i| session.drop_instance(i))
        })
    }
}

fn change_columns(captured: &[CapturedColumn]) -> Vec<Column> {
    let system = |id, name: &str, ty, nullable| Column {
        id,
        name: name.to_owned(),
        ty,
        nullable,
        default: None,
        computed: None,
        default_name: None,
        collation: None,
    };
    let binary = SqlType::Binary(10);
    let mut columns = vec![
        system(column::START_LSN, "__$start_lsn", binary, false),
        system(column::END_LSN, "__$end_lsn", binary, true),
        system(column::SEQVAL, "__$seqval", binary, false),
        system(column::OPERATION, "__$operation", SqlType::Int, false),
        system(
            column::UPDATE_MASK,
            "__$update_mask",
            SqlType::VarBinary(Length::Limited(128)),
            true,
        ),
    ];
    columns.extend(captured.iter().map(|c| Column {
        collation: c.collation.clone(),
        ..system(c.change_id, &c.name, c.ty, true)
    }));
    columns.push(system(column::COMMAND_ID, "__$command_id", SqlType::Int, true));
    columns
}

/// Column names of a list, bracketed or not, separated by commas.
fn split_columns(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut name = String::new();
    let mut quoted = false;
    for c in list.chars() {
        match c {
            '[' if !quoted && name.trim().is_empty() => quoted = true,
            ']' if quoted => quoted = false,
            ',' if !quoted => names.push(std::mem::take(&mut name).trim().to_owned()),
            c => name.push(c),
        }
    }
    names.push(name.trim().to_owned());
    names.retain(|n| !n.is_empty());
    names
}

fn no_source(schema: &str, table: &str) -> crate::result::SqlError {
    sql_error(
        22931,
        16,
        format!(
            "Source table '{schema}.{table}' does not exist in the current database. Ensure that the correct database context is set. Specify a valid schema and table name for the database."
        ),
    )
}
