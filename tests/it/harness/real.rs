//! A server that is there already, in place of the stand-in: `SLUICE_TEST_MSSQL` is the ADO.NET connection string of an
//! administrator of it. `docs/guides/testing-against-sql-server.md` says what it is for.
//!
//! The databases that tests make are the only ones of their names on that server: one test runs at a time, in a process of its
//! own, and each makes them anew.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sluice::config::{Authentication, Encrypt, Endpoint, Settings, SourceSettings, Trust};
use tiberius::Client;
use tokio::net::TcpStream;
use tokio_util::compat::Compat;

use super::server::{Place, connect};

/// The connection string.
const VARIABLE: &str = "SLUICE_TEST_MSSQL";
/// A file of authorities (PEM) that signed the server's certificate.
const AUTHORITY: &str = "SLUICE_TEST_MSSQL_CA";
/// Where tests say that they ran against the server, or why they could not: a line each, fields between tabs.
const REPORT: &str = "SLUICE_TEST_MSSQL_REPORT";

/// How long the server may take for what it does by itself: capture, the end of sessions, jobs.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(50);

/// "Cannot drop the login, because it does not exist or you do not have permission."
const NO_SUCH_LOGIN: u32 = 15151;
/// The engine edition of Azure SQL Database.
const AZURE: i32 = 5;

/// A process uses one at a time: its databases are the same.
static IN_USE: AtomicBool = AtomicBool::new(false);
/// The next row of a marker table.
static NEXT: AtomicI64 = AtomicI64::new(1);

/// The server, and what this test has made on it.
pub(super) struct Real {
    source: SourceSettings,
    pub(super) place: Place,
    user: String,
    password: String,
    /// By name, whether capture runs.
    databases: Mutex<BTreeMap<String, bool>>,
}

/// Ends the test here, as passed, with a line that says why it proves nothing of this server. The tests are processes of their
/// own, so nothing else ends.
pub(super) fn not_portable(why: &str) -> ! {
    println!("not portable: {why}");
    note("not portable", why);
    end_children();
    std::process::exit(0)
}

/// Ends what the test started and would outlive it.
fn end_children() {
    let parent = std::process::id().to_string();
    let _ = Command::new("pkill").args(["-KILL", "-P", &parent]).status();
}

/// Appends a line to the report.
fn note(what: &str, why: &str) {
    // A test binary is called with the name of the one test that it is to run.
    let test = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    if let Some(path) = std::env::var_os(REPORT) {
        let line = format!("{what}\t{}\t{why}\n", test.unwrap_or_default());
        let file = std::fs::File::options().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("the report is written");
    }
}

impl Real {
    /// Whether the suite runs against a server that is there.
    pub(super) fn is_chosen() -> bool {
        std::env::var_os(VARIABLE).is_some()
    }

    pub(super) fn new() -> Real {
        assert!(
            std::env::var_os("NEXTEST").is_some(),
            "with {VARIABLE}, each test has to be a process of its own, one after the other: run cargo xtask test-mssql"
        );
        if IN_USE.swap(true, Ordering::SeqCst) {
            not_portable("it takes two servers at once");
        }
        note("ran", "");
        let source = settings();
        let Authentication::Sql { user, password } = &source.authentication else {
            panic!("{VARIABLE}: the administrator has to be a SQL login");
        };
        let Endpoint::Port(port) = source.server.endpoint else {
            panic!("{VARIABLE}: name the port, as in Server=host,1433");
        };
        Real {
            place: Place {
                host: source.server.host.clone(),
                port,
            },
            user: user.clone(),
            password: password.reveal().to_owned(),
            databases: Mutex::default(),
            source,
        }
    }

    /// Ends a test that goes beyond what this server can do, and removes what it made until then.
    pub(super) fn give_up(&self, why: &str) -> ! {
        end_children();
        self.remove();
        not_portable(why)
    }

    /// The administrator's login and password.
    pub(super) fn administrator(&self) -> (&str, &str) {
        (&self.user, &self.password)
    }

    /// The keys of `[source]` that say which certificate is taken, and what is encrypted.
    pub(super) fn tls(&self) -> String {
        let file = |key: &str, path: &Path| format!("{key} = \"{}\"\n", path.display());
        let mut keys = match &self.source.trust {
            Trust::System => String::new(),
            Trust::Any => "trust_server_certificate = true\n".to_owned(),
            Trust::Authority(path) => file("ca_file", path),
            Trust::Certificate(path) => file("server_certificate", path),
        };
        if let Some(name) = &self.source.host_name_in_certificate {
            keys.push_str(&format!("host_name_in_certificate = \"{name}\"\n"));
        }
        match self.source.encrypt {
            Encrypt::Login => keys.push_str("encrypt = false\n"),
            Encrypt::All => {}
            Encrypt::Strict => keys.push_str("encrypt = \"strict\"\n"),
        }
        keys
    }

    async fn client(&self, database: &str) -> tiberius::Result<Client<Compat<TcpStream>>> {
        connect(&self.place, &self.user, &self.password, database).await
    }

    /// Drops a database of this name, if there is one, and expects that it is made now.
    pub(super) async fn make_room(&self, database: &str) {
        self.drop_database(database).await;
        self.databases().insert(database.to_owned(), false);
    }

    async fn drop_database(&self, database: &str) {
        until(&format!("dropping database {database}"), async || {
            let mut master = self.client("master").await?;
            let there = format!("SELECT name FROM sys.databases WHERE name = N'{database}'");
            let there = master.simple_query(there).await?.into_first_result().await?;
            if there.is_empty() {
                return Ok(true);
            }
            // One batch: in between, capture could take the one session that is left.
            let alone = match is_azure(&mut master).await? {
                true => String::new(),
                false => format!("ALTER DATABASE [{database}] SET SINGLE_USER WITH ROLLBACK IMMEDIATE; "),
            };
            let drop = format!("{alone}DROP DATABASE [{database}]");
            master.simple_query(drop).await?.into_results().await?;
            Ok(true)
        })
        .await;
    }

    /// Drops the login, if there is one.
    pub(super) async fn drop_login(&self, login: &str) {
        until(&format!("dropping login {login}"), async || {
            let mut master = self.client("master").await?;
            let dropped = async {
                let answer = master.simple_query(format!("DROP LOGIN [{login}]")).await?;
                answer.into_results().await
            };
            match dropped.await {
                Err(error) if error.code() != Some(NO_SUCH_LOGIN) => Err(error),
                _ => Ok(true),
            }
        })
        .await;
    }

    /// Puts the marker table under CDC, which is the database's first and makes its jobs, and lets capture look more often.
    pub(super) async fn begin_capture(&self, database: &str) {
        let mut client = self.client(database).await.expect("the login comes in");
        let enable = "CREATE TABLE dbo.sluice_marker (id bigint NOT NULL PRIMARY KEY); \
                      EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'sluice_marker', @role_name = NULL";
        run(&mut client, enable).await.expect("a table under CDC");
        if !is_azure(&mut client).await.expect("an edition") {
            run(
                &mut client,
                "EXEC sys.sp_cdc_change_job @job_type = N'capture', @pollinginterval = 1",
            )
            .await
            .expect("a job of capture");
            // The setting counts from the job's next start. A job that does not run (yet) cannot be stopped.
            let _ = run(&mut client, "EXEC sys.sp_cdc_stop_job @job_type = N'capture'").await;
            self.start_job(database).await;
        }
        self.databases().insert(database.to_owned(), true);
        self.captured(&mut client, database).await;
    }

    async fn start_job(&self, database: &str) {
        // The Agent refuses to start a job that is still stopping.
        until(
            "starting the job of capture (is SQL Server Agent on? MSSQL_AGENT_ENABLED=true)",
            async || {
                let mut client = self.client(database).await?;
                run(&mut client, "EXEC sys.sp_cdc_start_job @job_type = N'capture'").await?;
                Ok(true)
            },
        )
        .await;
    }

    /// Stops capture, or lets it run again.
    pub(super) async fn capture(&self, database: &str, runs: bool) {
        let mut client = self.client(database).await.expect("the login comes in");
        if is_azure(&mut client).await.expect("an edition") {
            self.give_up("nobody can stop capture in Azure SQL Database");
        }
        if runs {
            self.start_job(database).await;
            self.databases().insert(database.to_owned(), true);
            self.captured(&mut client, database).await;
            return;
        }
        self.databases().insert(database.to_owned(), false);
        run(&mut client, "EXEC sys.sp_cdc_stop_job @job_type = N'capture'")
            .await
            .expect("a job of capture");
        let running = "SELECT COUNT(*) FROM msdb.dbo.sysjobactivity AS a JOIN msdb.dbo.cdc_jobs AS j ON j.job_id = a.job_id \
                       WHERE j.database_id = DB_ID() AND j.job_type = N'capture' AND a.start_execution_date IS NOT NULL \
                       AND a.stop_execution_date IS NULL \
                       AND a.session_id = (SELECT MAX(session_id) FROM msdb.dbo.syssessions)";
        until("waiting for the end of the job of capture", async || {
            match number(&mut client, running, 0).await {
                Ok(count) => Ok(count == Some(0)),
                // The stand-in has no such tables: there, capture has stopped when the procedure returns.
                Err(error) if matches!(error.code(), Some(102 | 208 | 911 | 4060 | 50000)) => Ok(true),
                Err(error) => Err(error),
            }
        })
        .await;
    }

    /// Waits until capture has processed what was committed: a row of the marker table, which is committed after it, has come
    /// to its change table. Nothing where capture does not run, or where the session has a transaction open.
    pub(super) async fn captured(&self, client: &mut Client<Compat<TcpStream>>, database: &str) {
        if self.databases().get(database) != Some(&true) {
            return;
        }
        let state = "SELECT @@TRANCOUNT, OBJECT_ID(N'[cdc].[dbo_sluice_marker_CT]')";
        let open = number(client, state, 0).await.expect("a number of transactions");
        let marker = number(client, state, 1).await.expect("an object or none");
        if open != Some(0) || marker.is_none() {
            return;
        }
        let next = NEXT.fetch_add(1, Ordering::SeqCst);
        run(client, &format!("INSERT INTO dbo.sluice_marker VALUES ({next})"))
            .await
            .expect("a row of the marker table");
        let there = format!("SELECT COUNT(*) FROM [cdc].[dbo_sluice_marker_CT] WHERE id = {next}");
        until("waiting for capture", async || {
            Ok(number(client, &there, 0).await? == Some(1))
        })
        .await;
    }

    /// Removes what the test made.
    fn remove(&self) {
        let databases: Vec<String> = self.databases().keys().cloned().collect();
        if databases.is_empty() {
            return;
        }
        // The test's own runtime cannot be waited for in a destructor.
        let removed = std::thread::scope(|scope| {
            let removing = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime");
                runtime.block_on(async {
                    for database in &databases {
                        self.drop_database(database).await;
                    }
                    self.drop_login("reader").await;
                });
            });
            removing.join()
        });
        if removed.is_err() {
            eprintln!(
                "what the test made on the server is still there: {}",
                databases.join(", ")
            );
        }
    }

    fn databases(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.databases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.remove();
        IN_USE.store(false, Ordering::SeqCst);
    }
}

/// The administrator's way in, read as sluice reads it.
fn settings() -> SourceSettings {
    let mut text = format!("[source]\nconnection_string = {{ env = \"{VARIABLE}\" }}\n");
    if let Some(file) = std::env::var_os(AUTHORITY) {
        text.push_str(&format!("ca_file = \"{}\"\n", Path::new(&file).display()));
    }
    let parse = |text: &str| {
        let here = std::env::current_dir().expect("a folder");
        // A configuration has a table, which nobody asks for here.
        let text = format!(
            "{text}\n[[table]]\ncapture_instance = \"t\"\ntarget = \"b\"\napp_id = \"t\"\ncheckpoint = \"c\"\n\
             facts_table = \"f\"\ncontrol_table = \"v\"\n"
        );
        Settings::parse(&text, &here, Path::new(VARIABLE))
    };
    // The string may name a database, which is not asked for.
    match parse(&format!("{text}database = \"master\"\n")) {
        Ok(settings) => settings.source,
        Err(with) => match parse(&text) {
            Ok(settings) => settings.source,
            Err(without) => panic!("{VARIABLE} cannot be used: {with}; without a database: {without}"),
        },
    }
}

async fn run(client: &mut Client<Compat<TcpStream>>, sql: &str) -> tiberius::Result<()> {
    client.simple_query(sql).await?.into_results().await.map(|_| ())
}

/// A whole number of the first row.
async fn number(client: &mut Client<Compat<TcpStream>>, sql: &str, column: usize) -> tiberius::Result<Option<i32>> {
    let rows = client.simple_query(sql).await?.into_first_result().await?;
    rows.first().map_or(Ok(None), |row| row.try_get(column))
}

async fn is_azure(client: &mut Client<Compat<TcpStream>>) -> tiberius::Result<bool> {
    let edition = number(client, "SELECT CAST(SERVERPROPERTY('EngineEdition') AS int)", 0).await?;
    Ok(edition == Some(AZURE))
}

/// Tries until it is done, and panics with the last error when that takes too long.
async fn until(what: &str, mut attempt: impl AsyncFnMut() -> tiberius::Result<bool>) {
    let patience = Instant::now() + PATIENCE;
    loop {
        let last = match attempt().await {
            Ok(true) => return,
            Ok(false) => "it has not happened".to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(Instant::now() < patience, "{what}: {last}");
        tokio::time::sleep(PAUSE).await;
    }
}
