//! A database's own catalogue: schemas, tables, keys, capture instances, users and grants, as SQL Server names them.
//!
//! It is kept as one JSON row an object in the database's SQLite file (`_sim_object`), so that a change of it commits and
//! rolls back with the transaction that made it. SQLite's tables are named after object ids (`t245575913`) and their
//! columns after column ids (`c3`); names never reach generated SQL.

mod permissions;
mod store;
mod views;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock},
};

use serde::{Deserialize, Serialize};

pub use permissions::{Action, Grant};
pub use store::{load, put, remove};
pub use views::{CatalogView, system_view};

use crate::{
    types::{Collation, DEFAULT_COLLATION, code_of, fold, type_of_code},
    value::SqlType,
};

/// The row of a fresh database's settings.
pub const SETTINGS_ID: i64 = 0;

/// One object of the catalogue.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Object {
    Settings(Settings),
    Schema(Schema),
    Table(Table),
    Instance(Instance),
    User(User),
}

/// What belongs to the database as a whole.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    /// Whether `sp_cdc_enable_db` ran.
    pub cdc: bool,
    /// The next object id.
    pub next_id: i64,
    /// Minutes that the cleanup job keeps changes.
    pub retention_minutes: i64,
    /// Rows that one step of a cleanup deletes.
    pub cleanup_threshold: i64,
    /// Whether the capture job runs.
    pub capture_runs: bool,
    /// Whether the cleanup job runs.
    pub cleanup_runs: bool,
    /// `EXEC sim.key_update`: record the update of a key as before and after (3, 4) instead of delete and insert (1, 2).
    pub key_update_in_place: bool,
    /// `ALLOW_SNAPSHOT_ISOLATION`; the version's default until it is set.
    #[serde(default)]
    pub allow_snapshot: Option<bool>,
    /// `READ_COMMITTED_SNAPSHOT`; the version's default until it is set.
    #[serde(default)]
    pub read_committed_snapshot: Option<bool>,
    /// Whether logins without a user come in, as `guest`.
    #[serde(default)]
    pub guest: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            cdc: false,
            next_id: 245_575_913,
            // Three days, as sp_cdc_add_job has it.
            retention_minutes: 4320,
            cleanup_threshold: 5000,
            capture_runs: true,
            cleanup_runs: true,
            key_update_in_place: false,
            allow_snapshot: None,
            read_committed_snapshot: None,
            guest: false,
        }
    }
}

/// A schema.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Schema {
    pub id: i64,
    pub name: String,
}

/// In which of the database's two SQLite files a table lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Storage {
    /// The database's own file.
    Main,
    /// The file of the change tables, written by capture.
    Cdc,
}

/// A column.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Column {
    /// Never used again once dropped: a column added back under the same name is another column.
    pub id: i64,
    pub name: String,
    #[serde(with = "type_code")]
    pub ty: SqlType,
    pub nullable: bool,
    /// T-SQL text of the default.
    pub default: Option<String>,
    /// The name of the default's constraint; absent for one that was not named.
    #[serde(default)]
    pub default_name: Option<String>,
    /// T-SQL text of a computed column. What is stored of it is NULL.
    #[serde(default)]
    pub computed: Option<String>,
    /// The collation's name, for text; absent for the database's.
    #[serde(default)]
    pub collation: Option<String>,
}

/// A CHECK constraint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    /// The condition as T-SQL.
    pub text: String,
}

impl Column {
    /// How its text is encoded and named on the wire.
    pub fn collation(&self) -> Collation {
        let own = self.collation.as_deref().and_then(Collation::of_name);
        own.unwrap_or_default()
    }

    /// The collation's name; NULL in the views for types that have none.
    pub fn collation_name(&self) -> Option<&str> {
        self.ty
            .has_collation()
            .then(|| self.collation.as_deref().unwrap_or(DEFAULT_COLLATION))
    }
}

/// A primary key, a unique constraint or an index.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Key {
    /// `sys.indexes.index_id`: 1 for the clustered one.
    pub id: i64,
    pub name: String,
    /// Column ids in key order.
    pub columns: Vec<i64>,
    pub unique: bool,
    pub primary: bool,
    /// A constraint (2627) rather than an index (2601).
    pub constraint: bool,
    pub clustered: bool,
}

/// An identity column.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Identity {
    pub column: i64,
    pub seed: i64,
    pub step: i64,
}

/// A table.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Table {
    pub id: i64,
    pub schema_id: i64,
    pub name: String,
    pub columns: Vec<Column>,
    pub next_column_id: i64,
    pub keys: Vec<Key>,
    pub identity: Option<Identity>,
    pub storage: Storage,
    /// Local ticks.
    pub created: i64,
    pub grants: Vec<Grant>,
    /// Columns (ids) of SQLite's own key, in order; empty for a table addressed by rowid.
    pub cluster: Vec<i64>,
    #[serde(default)]
    pub checks: Vec<Check>,
}

impl Table {
    /// The table's name in generated SQL.
    pub fn sql_name(&self) -> String {
        match self.storage {
            Storage::Main => format!("main.t{}", self.id),
            Storage::Cdc => format!("cdc.t{}", self.id),
        }
    }

    /// A column by name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|c| same_name(&c.name, name))
    }

    /// A column by id.
    pub fn column_by_id(&self, id: i64) -> Option<&Column> {
        self.columns.iter().find(|c| c.id == id)
    }

    /// The primary key.
    pub fn primary_key(&self) -> Option<&Key> {
        self.keys.iter().find(|k| k.primary)
    }

    /// Whether SQLite's rowid stands for the one integer key column.
    pub fn is_rowid_table(&self) -> bool {
        self.cluster.is_empty()
    }
}

/// A column as a capture instance knows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CapturedColumn {
    /// The column's id in the source table.
    pub source_id: i64,
    pub name: String,
    /// The column's id in the change table.
    pub change_id: i64,
    /// Position in the update mask, from 1.
    pub ordinal: i64,
    #[serde(with = "type_code")]
    pub ty: SqlType,
    /// Position in the index that identifies rows, from 1.
    pub index_ordinal: Option<i64>,
    /// The collation's name, for text that has one of its own.
    #[serde(default)]
    pub collation: Option<String>,
}

/// A capture instance.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Instance {
    /// Object id of the change table.
    pub id: i64,
    /// Object id of the source table.
    pub source_id: i64,
    pub name: String,
    pub columns: Vec<CapturedColumn>,
    pub supports_net_changes: bool,
    pub role: Option<String>,
    pub index_name: Option<String>,
    pub filegroup: Option<String>,
    /// Local ticks.
    pub created: i64,
    /// Source names at the time of enabling.
    pub source_schema: String,
    pub source_table: String,
}

/// A database user.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct User {
    pub id: i64,
    pub name: String,
    pub login: Option<String>,
    /// A role instead of a user.
    pub is_role: bool,
    /// Names of the roles that it is a member of.
    pub roles: Vec<String>,
    /// Grants on the whole database and on schemas (`object_schema`).
    pub grants: Vec<Grant>,
}

/// A snapshot of a database's catalogue.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// The highest version of its objects.
    pub version: i64,
    pub settings: Settings,
    pub schemas: BTreeMap<i64, Arc<Schema>>,
    pub tables: BTreeMap<i64, Arc<Table>>,
    pub instances: BTreeMap<i64, Arc<Instance>>,
    pub users: BTreeMap<i64, Arc<User>>,
    names: HashMap<(i64, String), i64>,
}

/// `dbo`'s id.
pub const DBO: i64 = 1;
/// The user of logins without one of their own, in a database that lets them in.
pub const GUEST: &str = "guest";
/// The id of `guest`.
pub const GUEST_ID: i64 = 2;
/// The id of `INFORMATION_SCHEMA`.
pub const INFORMATION_SCHEMA: i64 = 3;
/// The id of `sys`.
pub const SYS: i64 = 4;

static GUEST_USER: LazyLock<Arc<User>> = LazyLock::new(|| {
    Arc::new(User {
        id: GUEST_ID,
        name: GUEST.to_owned(),
        login: None,
        is_role: false,
        roles: Vec::new(),
        grants: Vec::new(),
    })
});

impl Catalog {
    /// A schema by name.
    pub fn schema(&self, name: &str) -> Option<&Arc<Schema>> {
        self.schemas.values().find(|s| same_name(&s.name, name))
    }

    /// A schema's name.
    pub fn schema_name(&self, id: i64) -> &str {
        match id {
            SYS => "sys",
            INFORMATION_SCHEMA => "INFORMATION_SCHEMA",
            id => self.schemas.get(&id).map_or("", |s| s.name.as_str()),
        }
    }

    /// A table by schema (`dbo` when absent) and name.
    pub fn table(&self, schema: Option<&str>, name: &str) -> Option<&Arc<Table>> {
        let schema = match schema {
            None => DBO,
            Some(s) => self.schema(s)?.id,
        };
        self.names
            .get(&(schema, key_of(name)))
            .and_then(|id| self.tables.get(id))
    }

    /// A capture instance by name: an exact match wins over one without case.
    pub fn instance(&self, name: &str) -> Option<&Arc<Instance>> {
        self.instances
            .values()
            .find(|i| i.name == name)
            .or_else(|| self.instances.values().find(|i| same_name(&i.name, name)))
    }

    /// The capture instances of a table, oldest first.
    pub fn instances_of(&self, table: i64) -> Vec<&Arc<Instance>> {
        let mut found: Vec<_> = self.instances.values().filter(|i| i.source_id == table).collect();
        found.sort_by_key(|i| i.id);
        found
    }

    /// A user or role by name.
    pub fn user(&self, name: &str) -> Option<&Arc<User>> {
        self.users.values().find(|u| same_name(&u.name, name))
    }

    /// The user of a login.
    pub fn user_of_login(&self, login: &str) -> Option<&Arc<User>> {
        self.users
            .values()
            .find(|u| u.login.as_deref().is_some_and(|l| same_name(l, login)))
    }

    /// Whom a login comes in as: its user, or `guest` where that may connect.
    pub fn admitted(&self, login: &str) -> Option<&Arc<User>> {
        let guest = || self.settings.guest.then(|| &*GUEST_USER);
        self.user_of_login(login).or_else(guest)
    }

    /// Puts an object in place of the one with its id.
    pub fn insert(&mut self, id: i64, object: Object) {
        self.delete(id);
        match object {
            Object::Settings(s) => self.settings = s,
            Object::Schema(s) => {
                self.schemas.insert(id, Arc::new(s));
            }
            Object::Table(t) => {
                self.names.insert((t.schema_id, key_of(&t.name)), id);
                self.tables.insert(id, Arc::new(t));
            }
            // A change table and its instance share an object id; the instance lies at the negative of it.
            Object::Instance(i) => {
                self.instances.insert(id, Arc::new(i));
            }
            Object::User(u) => {
                self.users.insert(id, Arc::new(u));
            }
        }
    }

    /// Takes an object out.
    pub fn delete(&mut self, id: i64) {
        if let Some(table) = self.tables.remove(&id) {
            self.names.remove(&(table.schema_id, key_of(&table.name)));
        }
        self.schemas.remove(&id);
        self.instances.remove(&id);
        self.users.remove(&id);
    }
}

/// Whether two names are one under the catalogue's collation.
pub fn same_name(a: &str, b: &str) -> bool {
    a == b || a.chars().map(fold).eq(b.chars().map(fold))
}

fn key_of(name: &str) -> String {
    name.chars().map(fold).collect()
}

mod type_code {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{SqlType, code_of, type_of_code};

    pub(super) fn serialize<S: Serializer>(ty: &SqlType, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(code_of(*ty))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SqlType, D::Error> {
        i64::deserialize(deserializer).map(type_of_code)
    }
}
