//! The server: its options, its databases and its logins.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};

use crate::{
    catalog::same_name,
    cdc::{Lsn, agent},
    clock::{ServerClock, Zone},
    database::Database,
    error::{SqlResult, cannot_open_database, login_failed, sql_error, storage_fault},
    exec::Session,
    version::ServerVersion,
};

/// How a server is opened.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Where the files lie; `None` keeps them in a temporary folder that goes with the engine.
    pub data_dir: Option<PathBuf>,
    /// The one login of the sysadmin role.
    pub admin_user: String,
    /// Its password.
    pub admin_password: String,
    /// How long after its commit a transaction is captured; 0 means that it is when COMMIT returns. `None` is the version's
    /// own: 20 s for Azure SQL Database, 0 for the others.
    pub capture_lag: Option<Duration>,
    /// How long a quiet database waits for an idle entry in `cdc.lsn_time_mapping`.
    pub idle_interval: Duration,
    /// How often the cleanup job runs.
    pub cleanup_interval: Duration,
    /// `@@SERVERNAME`.
    pub server_name: String,
    /// Which SQL Server it shows itself as.
    pub version: ServerVersion,
    /// The zone of the server's clock. Azure SQL Database knows only UTC.
    pub time_zone: Zone,
    /// Change tables have no `__$command_id`, as on some builds of 2016.
    pub without_command_id: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            data_dir: None,
            admin_user: "sa".into(),
            admin_password: String::new(),
            capture_lag: None,
            idle_interval: Duration::from_secs(300),
            cleanup_interval: Duration::from_secs(60),
            server_name: "MSSQL-SIM".into(),
            version: ServerVersion::default(),
            time_zone: Zone::fixed(0),
            without_command_id: false,
        }
    }
}

/// Why a server did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data folder could not be made or read.
    #[error("cannot use the data folder {path}: {source}; check that it exists and is writable")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file in it is no database of the stand-in, or is damaged.
    #[error("cannot open the databases in {path}: {source}; use an empty folder or one that mssql-sim made")]
    Storage {
        /// The folder.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// A zone that the version cannot have.
    #[error("the clock of Azure SQL Database is UTC, not {0:?}; leave the time zone out or choose another version")]
    AzureZone(String),
    /// The capture thread did not start.
    #[error("cannot start the capture thread: {0}")]
    Thread(std::io::Error),
}

/// A running server. Dropping the last handle stops capture.
pub struct Engine {
    pub(crate) options: EngineOptions,
    pub(crate) clock: Arc<ServerClock>,
    pub(crate) databases: RwLock<BTreeMap<i64, Arc<Database>>>,
    /// Open sessions by database, for DROP DATABASE.
    pub(crate) sessions: Mutex<HashMap<i64, usize>>,
    /// Logins that are shown an older copy of a database: its last LSN, by database and login in lower case.
    older: Mutex<HashMap<(i64, String), Lsn>>,
    registry: Mutex<Connection>,
    dir: PathBuf,
    spids: AtomicI64,
    me: Weak<Engine>,
    _temporary: Option<tempfile::TempDir>,
}

impl Engine {
    /// Opens a server on its files.
    ///
    /// # Errors
    /// [`OpenError`] when the folder or a file in it cannot be used.
    pub fn open(options: EngineOptions) -> Result<Arc<Engine>, OpenError> {
        if options.version.is_azure() && options.time_zone != Zone::fixed(0) {
            return Err(OpenError::AzureZone(options.time_zone.id().to_owned()));
        }
        let (dir, temporary) = match &options.data_dir {
            Some(dir) => {
                std::fs::create_dir_all(dir).map_err(|source| OpenError::Folder {
                    path: dir.clone(),
                    source,
                })?;
                (dir.clone(), None)
            }
            None => {
                let temporary = tempfile::Builder::new()
                    .prefix("mssql-sim-")
                    .tempdir()
                    .map_err(|source| OpenError::Folder {
                        path: std::env::temp_dir(),
                        source,
                    })?;
                (temporary.path().to_owned(), Some(temporary))
            }
        };
        let storage = |source| OpenError::Storage {
            path: dir.clone(),
            source,
        };
        let registry = Connection::open(dir.join("server.sqlite")).map_err(storage)?;
        registry
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
                 CREATE TABLE IF NOT EXISTS databases(id INTEGER PRIMARY KEY, name TEXT NOT NULL, created INTEGER NOT NULL);
                 CREATE TABLE IF NOT EXISTS logins(name TEXT PRIMARY KEY COLLATE NOCASE, salt BLOB NOT NULL, hash BLOB NOT NULL);",
            )
            .map_err(storage)?;
        let clock = Arc::new(ServerClock::new(options.time_zone.clone()));
        let created = clock.now().local;
        for (id, name) in [(1, "master"), (2, "tempdb"), (3, "model"), (4, "msdb")] {
            registry
                .execute(
                    "INSERT OR IGNORE INTO databases VALUES (?1, ?2, ?3)",
                    params![id, name, created],
                )
                .map_err(storage)?;
        }
        let known: Vec<(i64, String, i64)> = {
            let mut statement = registry
                .prepare("SELECT id, name, created FROM databases")
                .map_err(storage)?;
            let rows = statement
                .query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))
                .map_err(storage)?;
            rows.collect::<rusqlite::Result<_>>().map_err(storage)?
        };
        let mut databases = BTreeMap::new();
        for (id, name, created) in known {
            let database =
                Database::open(&dir, id, &name, created, Arc::clone(&clock), temporary.is_none()).map_err(storage)?;
            databases.insert(id, database);
        }
        let engine = Arc::new_cyclic(|me| Engine {
            options,
            clock,
            databases: RwLock::new(databases),
            sessions: Mutex::new(HashMap::new()),
            older: Mutex::new(HashMap::new()),
            registry: Mutex::new(registry),
            dir,
            spids: AtomicI64::new(50),
            me: me.clone(),
            _temporary: temporary,
        });
        // What was committed and not captured when the files were last open.
        let databases: Vec<_> = engine.databases.read().values().cloned().collect();
        for database in databases {
            agent::committed(&engine, &database).map_err(|source| OpenError::Storage {
                path: engine.dir.clone(),
                source,
            })?;
        }
        agent::start(&engine).map_err(OpenError::Thread)?;
        Ok(engine)
    }

    /// Logs in, to `master` when no database is named.
    ///
    /// # Errors
    /// 18456 for a wrong name or password, 4060 for a database that does not exist or that the login has no user in.
    pub fn login(&self, user: &str, password: &str, database: Option<&str>) -> SqlResult<Session> {
        if !self.password_matches(user, password) {
            return Err(login_failed(user));
        }
        self.open_session(user, database)
    }

    /// A session of a login that has proved itself otherwise: by an access token.
    pub fn login_without_password(&self, user: &str, database: Option<&str>) -> SqlResult<Session> {
        if user.is_empty() || !self.has_login(user)? {
            return Err(login_failed(user));
        }
        self.open_session(user, database)
    }

    fn open_session(&self, user: &str, database: Option<&str>) -> SqlResult<Session> {
        let name = database.filter(|d| !d.is_empty()).unwrap_or("master");
        let database = self.database(name).ok_or_else(|| cannot_open_database(name))?;
        let engine = self.me.upgrade().ok_or_else(|| login_failed(user))?;
        let spid = self.spids.fetch_add(1, Ordering::SeqCst) + 1;
        let session = Session::open(engine, database, user, spid)?;
        if !session.may_enter() {
            return Err(cannot_open_database(name));
        }
        Ok(session)
    }

    /// The clock of the server, which may be set.
    pub fn clock(&self) -> &ServerClock {
        &self.clock
    }

    /// How long capture stays behind a commit.
    pub(crate) fn capture_lag(&self) -> Duration {
        self.options
            .capture_lag
            .unwrap_or_else(|| self.options.version.default_capture_lag())
    }

    /// Shows a login CDC of a database as of an LSN, or as it is.
    pub(crate) fn show_older(&self, database: i64, login: &str, as_of: Option<Lsn>) {
        let key = (database, login.to_lowercase());
        let mut older = self.older.lock();
        match as_of {
            Some(lsn) => older.insert(key, lsn),
            None => older.remove(&key),
        };
    }

    /// The LSN up to which a login is shown CDC of a database, if it is shown an older copy.
    pub(crate) fn older_copy(&self, database: &Database, login: &str) -> Option<Lsn> {
        let older = self.older.lock();
        if older.is_empty() {
            return None;
        }
        older.get(&(database.id, login.to_lowercase())).copied()
    }

    /// A database by name.
    pub(crate) fn database(&self, name: &str) -> Option<Arc<Database>> {
        self.databases
            .read()
            .values()
            .find(|d| same_name(&d.name, name))
            .cloned()
    }

    /// Whether a login is the sysadmin.
    pub(crate) fn is_admin(&self, login: &str) -> bool {
        same_name(login, &self.options.admin_user)
    }

    /// Whether a login exists.
    pub(crate) fn has_login(&self, login: &str) -> SqlResult<bool> {
        if self.is_admin(login) {
            return Ok(true);
        }
        self.registry
            .lock()
            .query_row("SELECT count(*) FROM logins WHERE name = ?1", [login], |r| {
                r.get::<_, i64>(0)
            })
            .map(|n| n > 0)
            .map_err(|e| storage_fault(&e))
    }

    /// The server principal's id of a login: 1 for the administrator, as there; none for a login that does not exist.
    pub(crate) fn login_id(&self, login: &str) -> SqlResult<Option<i64>> {
        if self.is_admin(login) {
            return Ok(Some(1));
        }
        self.registry
            .lock()
            .query_row("SELECT max(rowid) + 256 FROM logins WHERE name = ?1", [login], |r| {
                r.get(0)
            })
            .map_err(|e| storage_fault(&e))
    }

    /// Makes a database.
    pub(crate) fn create_database(&self, name: &str) -> SqlResult<()> {
        let mut databases = self.databases.write();
        if databases.values().any(|d| same_name(&d.name, name)) {
            let mut error = sql_error(
                1801,
                16,
                format!("Database '{name}' already exists. Choose a different database name."),
            );
            error.state = 3;
            return Err(error);
        }
        let id = databases.keys().max().map_or(5, |id| id + 1);
        let created = self.clock.now().local;
        let durable = self.options.data_dir.is_some();
        let database = Database::open(&self.dir, id, name, created, Arc::clone(&self.clock), durable)
            .map_err(|e| storage_fault(&e))?;
        self.registry
            .lock()
            .execute("INSERT INTO databases VALUES (?1, ?2, ?3)", params![id, name, created])
            .map_err(|e| storage_fault(&e))?;
        databases.insert(id, database);
        Ok(())
    }

    /// Drops a database that nobody uses.
    pub(crate) fn drop_database(&self, name: &str) -> SqlResult<()> {
        let Some(database) = self.database(name) else {
            return Err(sql_error(
                3701,
                11,
                format!("Cannot drop the database '{name}', because it does not exist or you do not have permission."),
            ));
        };
        if database.id <= 4 {
            return Err(sql_error(
                3708,
                16,
                format!("Cannot drop the database '{name}' because it is a system database."),
            ));
        }
        if self.sessions.lock().get(&database.id).copied().unwrap_or(0) > 0 {
            return Err(sql_error(
                3702,
                16,
                format!("Cannot drop database \"{name}\" because it is currently in use."),
            ));
        }
        self.databases.write().remove(&database.id);
        self.registry
            .lock()
            .execute("DELETE FROM databases WHERE id = ?1", [database.id])
            .map_err(|e| storage_fault(&e))?;
        database.delete_files().map_err(|e| {
            sql_error(
                50000,
                16,
                format!("mssql-sim: cannot delete the files of database '{name}': {e}"),
            )
        })
    }

    /// Makes a login, or changes its password.
    pub(crate) fn put_login(&self, name: &str, password: &str, replace: bool) -> SqlResult<()> {
        if !replace && self.has_login(name)? {
            return Err(sql_error(
                15025,
                16,
                format!("The server principal '{name}' already exists."),
            ));
        }
        let mut salt = [0_u8; 16];
        getrandom::fill(&mut salt)
            .map_err(|e| sql_error(50000, 16, format!("mssql-sim: the system gives no randomness: {e}")))?;
        self.registry
            .lock()
            .execute(
                "INSERT OR REPLACE INTO logins VALUES (?1, ?2, ?3)",
                params![name, salt.as_slice(), hash(&salt, password)],
            )
            .map(|_| ())
            .map_err(|e| storage_fault(&e))
    }

    /// Removes a login.
    pub(crate) fn drop_login(&self, name: &str) -> SqlResult<()> {
        let gone = self
            .registry
            .lock()
            .execute("DELETE FROM logins WHERE name = ?1", [name])
            .map_err(|e| storage_fault(&e))?;
        if gone == 0 {
            return Err(sql_error(
                15151,
                16,
                format!("Cannot drop the login '{name}', because it does not exist or you do not have permission."),
            ));
        }
        Ok(())
    }

    fn password_matches(&self, user: &str, password: &str) -> bool {
        if self.is_admin(user) {
            return password == self.options.admin_password;
        }
        let stored: Result<(Vec<u8>, Vec<u8>), _> =
            self.registry
                .lock()
                .query_row("SELECT salt, hash FROM logins WHERE name = ?1", [user], |r| {
                    Ok((r.get(0)?, r.get(1)?))
                });
        stored.is_ok_and(|(salt, wanted)| hash(&salt, password) == wanted)
    }
}

fn hash(salt: &[u8], password: &str) -> Vec<u8> {
    let mut hasher = Sha256::new();
    hasher.update(salt);
    hasher.update(password.as_bytes());
    hasher.finalize().to_vec()
}
