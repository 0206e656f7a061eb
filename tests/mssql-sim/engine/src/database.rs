//! A database: two SQLite files (the tables; the change tables), its locks, its log clock and its capture state.
//!
//! The change tables lie in a file of their own so that capture can write them while a session holds the tables' write
//! lock, as in SQL Server, where an open transaction does not hold capture up.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::{
    catalog::{Catalog, DBO, Object, SETTINGS_ID, Schema, Settings, User, put},
    cdc::{Lsn, LsnClock},
    clock::{ServerClock, system_ticks},
    functions::register,
    gate::Gate,
};

/// What capture has done so far, as the metadata functions answer it.
#[derive(Debug, Default)]
pub struct CdcState {
    /// The last entry of `cdc.lsn_time_mapping`.
    pub max_lsn: Option<Lsn>,
    /// Low endpoint of every capture instance that capture has reached, by change table id.
    pub starts: HashMap<i64, Lsn>,
    /// When the last entry was made, in ticks of the system's clock, for idle entries.
    pub last_entry: i64,
    /// The last captured transaction.
    pub captured_tx: i64,
}

/// A database.
pub struct Database {
    /// `database_id`.
    pub id: i64,
    pub name: String,
    /// Local ticks.
    pub created: i64,
    time: Arc<ServerClock>,
    /// Held by the one session that writes the tables.
    pub gate: Gate,
    /// Held by whoever writes the change tables.
    pub cdc_gate: Gate,
    pub cdc: Mutex<CdcState>,
    pub clock: Mutex<LsnClock>,
    /// Last identity value given, by table.
    pub identities: Mutex<HashMap<i64, i64>>,
    /// The connection on which capture and cleanup work.
    pub agent: Mutex<Connection>,
    main_file: PathBuf,
    cdc_file: PathBuf,
    versions: AtomicI64,
    transactions: AtomicI64,
    durable: bool,
}

const MAIN_SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS main._sim_object(id INTEGER PRIMARY KEY, version INTEGER NOT NULL, json TEXT);
CREATE INDEX IF NOT EXISTS main._sim_object_version ON _sim_object(version);
CREATE TABLE IF NOT EXISTS main._sim_log(
    seq INTEGER PRIMARY KEY, tx INTEGER NOT NULL, object_id INTEGER NOT NULL, op INTEGER NOT NULL, lsn BLOB NOT NULL, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS main._sim_tx(
    tx INTEGER PRIMARY KEY, lsn BLOB NOT NULL, begin_lsn BLOB NOT NULL, begin_time INTEGER NOT NULL, end_time INTEGER NOT NULL,
    first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, committed INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS main._sim_identity(object_id INTEGER PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS main._sim_lock(n INTEGER NOT NULL);
";

const CDC_SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS cdc._sim_state(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cdc._sim_instance(id INTEGER PRIMARY KEY, start_lsn BLOB NOT NULL);
";

impl Database {
    /// Opens a database's files, making them when they are not there.
    ///
    /// # Errors
    /// SQLite's.
    pub fn open(
        dir: &Path,
        id: i64,
        name: &str,
        created: i64,
        time: Arc<ServerClock>,
        durable: bool,
    ) -> Result<Arc<Database>> {
        let main_file = dir.join(format!("{id}.mdf.sqlite"));
        let cdc_file = dir.join(format!("{id}.cdc.sqlite"));
        let conn = connect_files(&main_file, &cdc_file, durable)?;
        conn.execute_batch(MAIN_SCHEMA)?;
        conn.execute_batch(CDC_SCHEMA)?;
        add_commit_times(&conn)?;
        if conn.query_row("SELECT count(*) FROM main._sim_object", [], |r| r.get::<_, i64>(0))? == 0 {
            conn.execute_batch("BEGIN; INSERT INTO main._sim_lock VALUES (0);")?;
            put(&conn, 1, SETTINGS_ID, &Object::Settings(Settings::default()))?;
            put(
                &conn,
                1,
                DBO,
                &Object::Schema(Schema {
                    id: DBO,
                    name: "dbo".into(),
                }),
            )?;
            for (id, name) in [
                (16_384, "db_owner"),
                (16_390, "db_datareader"),
                (16_391, "db_datawriter"),
                (16_385, "db_accessadmin"),
                (16_387, "db_ddladmin"),
                (16_389, "db_backupoperator"),
            ] {
                put(
                    &conn,
                    1,
                    id,
                    &Object::User(User {
                        id,
                        name: name.into(),
                        login: None,
                        is_role: true,
                        roles: Vec::new(),
                        grants: Vec::new(),
                    }),
                )?;
            }
            conn.execute_batch("COMMIT")?;
        }
        let version = crate::catalog::load(&conn, &Arc::new(Catalog::default()))?;
        let mut state = CdcState::default();
        let mut last = Lsn::ZERO;
        if let Some(table) = version.table(Some("cdc"), "lsn_time_mapping") {
            let entry: Option<Vec<u8>> = conn
                .query_row(
                    &format!("SELECT c1 FROM {} ORDER BY c1 DESC LIMIT 1", table.sql_name()),
                    [],
                    |r| r.get(0),
                )
                .optional()?;
            if let Some(lsn) = entry {
                state.max_lsn = Some(Lsn::of(&lsn));
                state.last_entry = system_ticks();
                last = Lsn::of(&lsn);
            }
        }
        state.captured_tx = conn
            .query_row("SELECT value FROM cdc._sim_state WHERE name = 'captured_tx'", [], |r| {
                r.get(0)
            })
            .optional()?
            .unwrap_or(0);
        {
            let mut statement = conn.prepare("SELECT id, start_lsn FROM cdc._sim_instance")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let lsn = Lsn::of(&row.get::<_, Vec<u8>>(1)?);
                last = last.max(lsn);
                state.starts.insert(row.get(0)?, lsn);
            }
        }
        let logged: Option<Vec<u8>> = conn.query_row("SELECT max(lsn) FROM main._sim_tx", [], |r| r.get(0))?;
        last = last.max(logged.map_or(Lsn::ZERO, |l| Lsn::of(&l)));
        let last_tx: i64 = conn.query_row(
            "SELECT max(ifnull(max(tx), 0), ?1) FROM main._sim_tx",
            [state.captured_tx],
            |r| r.get(0),
        )?;
        let mut identities = HashMap::new();
        {
            let mut statement = conn.prepare("SELECT object_id, value FROM main._sim_identity")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                identities.insert(row.get(0)?, row.get(1)?);
            }
        }
        Ok(Arc::new(Database {
            id,
            name: name.to_owned(),
            created,
            time,
            gate: Gate::default(),
            cdc_gate: Gate::default(),
            cdc: Mutex::new(state),
            clock: Mutex::new(LsnClock::after(last)),
            identities: Mutex::new(identities),
            agent: Mutex::new(conn),
            main_file,
            cdc_file,
            versions: AtomicI64::new(version.version),
            transactions: AtomicI64::new(last_tx),
            durable,
        }))
    }

    /// A new connection with both files, the functions and the collation.
    ///
    /// # Errors
    /// SQLite's.
    pub fn connect(&self) -> Result<Connection> {
        connect_files(&self.main_file, &self.cdc_file, self.durable)
    }

    /// A version for a catalogue object, never given before.
    pub fn next_version(&self) -> i64 {
        self.versions.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// A number for a transaction. Call it with the gate held, so that numbers rise in commit order.
    pub fn next_transaction(&self) -> i64 {
        self.transactions.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Local time now, in ticks.
    pub fn now(&self) -> i64 {
        self.time.now().local
    }

    /// The commit time of an entry of `cdc.lsn_time_mapping`.
    ///
    /// # Errors
    /// SQLite's.
    pub fn entry_time(&self, lsn: Lsn) -> Result<Option<i64>> {
        self.ask_mapping("SELECT c3 FROM {} WHERE c1 = ?1", params![lsn.0.as_slice()])
    }

    /// The LSN that `sys.fn_cdc_map_time_to_lsn` answers for a relational operator of its four, among the
    /// entries up to `newest`.
    ///
    /// # Errors
    /// SQLite's.
    pub fn lsn_at(&self, relation: &str, ticks: i64, newest: Option<Lsn>) -> Result<Option<Lsn>> {
        let (edge, compared) = match relation.to_ascii_lowercase().as_str() {
            "smallest greater than" => ("min", ">"),
            "smallest greater than or equal" => ("min", ">="),
            "largest less than" => ("max", "<"),
            "largest less than or equal" => ("max", "<="),
            _ => return Ok(None),
        };
        let newest = newest.unwrap_or(Lsn([0xFF; 10]));
        let query = format!("SELECT {edge}(c1) FROM {{}} WHERE c3 {compared} ?1 AND c1 <= ?2");
        let found: Option<Option<Vec<u8>>> = self.ask_mapping(&query, params![ticks, newest.0.as_slice()])?;
        Ok(found.flatten().map(|l| Lsn::of(&l)))
    }

    /// The entry of `cdc.lsn_time_mapping` that so many others have followed; zero when there are not as many.
    ///
    /// # Errors
    /// SQLite's.
    pub fn entry_before(&self, entries: u64) -> Result<Lsn> {
        let skip = i64::try_from(entries).unwrap_or(i64::MAX);
        let found: Option<Vec<u8>> =
            self.ask_mapping("SELECT c1 FROM {} ORDER BY c1 DESC LIMIT 1 OFFSET ?1", params![skip])?;
        Ok(found.map_or(Lsn::ZERO, |l| Lsn::of(&l)))
    }

    fn ask_mapping<T: rusqlite::types::FromSql>(
        &self,
        query: &str,
        with: &[&dyn rusqlite::ToSql],
    ) -> Result<Option<T>> {
        let conn = self.agent.lock();
        let catalog = crate::catalog::load(&conn, &Arc::new(Catalog::default()))?;
        let Some(table) = catalog.table(Some("cdc"), "lsn_time_mapping") else {
            return Ok(None);
        };
        conn.query_row(&query.replace("{}", &table.sql_name()), with, |r| r.get(0))
            .optional()
    }

    /// Removes the files. Call it when no session is left in the database.
    ///
    /// # Errors
    /// The file system's.
    pub fn delete_files(&self) -> std::io::Result<()> {
        for file in [&self.main_file, &self.cdc_file] {
            for suffix in ["", "-wal", "-shm"] {
                let mut path = file.clone().into_os_string();
                path.push(suffix);
                match std::fs::remove_file(&path) {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Files of earlier versions lack the column that the lag of capture is measured by.
fn add_commit_times(conn: &Connection) -> Result<()> {
    let there: bool = conn.query_row(
        "SELECT count(*) FROM main.pragma_table_info('_sim_tx') WHERE name = 'committed'",
        [],
        |r| r.get::<_, i64>(0).map(|n| n > 0),
    )?;
    if there {
        Ok(())
    } else {
        conn.execute_batch("ALTER TABLE main._sim_tx ADD COLUMN committed INTEGER NOT NULL DEFAULT 0")
    }
}

fn connect_files(main: &Path, cdc: &Path, durable: bool) -> Result<Connection> {
    let conn = Connection::open(main)?;
    conn.busy_timeout(Duration::from_secs(60))?;
    let synchronous = if durable { "NORMAL" } else { "OFF" };
    conn.execute_batch("PRAGMA page_size = 8192; PRAGMA journal_mode = WAL;")?;
    conn.execute("ATTACH DATABASE ?1 AS cdc", [cdc.to_string_lossy()])?;
    conn.execute_batch(&format!(
        "PRAGMA cdc.page_size = 16384; PRAGMA cdc.journal_mode = WAL;
         PRAGMA main.synchronous = {synchronous}; PRAGMA cdc.synchronous = {synchronous};
         PRAGMA temp_store = MEMORY; PRAGMA main.cache_size = -16000; PRAGMA cdc.cache_size = -16000; PRAGMA trusted_schema = ON;"
    ))?;
    conn.set_prepared_statement_cache_capacity(64);
    register(&conn)?;
    Ok(conn)
}
