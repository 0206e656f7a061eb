//! The server of a test: the stand-in, as the process that users start, or one that is there already.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tiberius::{AuthMethod, Client, Config, EncryptionLevel, Row};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use super::project::sluice_binary;
use super::real::{Real, not_portable};

pub const PASSWORD: &str = "Str0ng-for-tests";

/// The administrator of the stand-in.
const ADMINISTRATOR: &str = "sa";
/// The login that sluice reads with.
const READER: &str = "reader";

/// The newest commit, as tests ask for it; and the same where the marker's commits are newer than the test's own. Entries of
/// idle times have a transaction of zeros.
const NEWEST: &str = "sys.fn_cdc_get_max_lsn()";
const NEWEST_OF_THE_TEST: &str = "(SELECT MAX(start_lsn) FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00 \
     AND start_lsn NOT IN (SELECT [__$start_lsn] FROM cdc.dbo_sluice_marker_CT))";

/// A running `mssql-sim`, which is killed when this is dropped; or a server that is there already, from which what the test
/// made is removed then.
pub struct Server {
    child: Option<Child>,
    real: Option<Real>,
    pub host: String,
    pub port: u16,
    dir: PathBuf,
    _temporary: Option<TempDir>,
}

/// Where a server listens.
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
}

/// A connection, whatever certificate the server has: some tests are about those that nobody should take.
pub(super) async fn connect(
    place: &Place,
    user: &str,
    password: &str,
    database: &str,
) -> tiberius::Result<Client<Compat<TcpStream>>> {
    let mut config = Config::new();
    config.host(&place.host);
    config.port(place.port);
    config.database(database);
    config.authentication(AuthMethod::sql_server(user, password));
    config.encryption(EncryptionLevel::Required);
    config.trust_cert();
    let tcp = TcpStream::connect((place.host.as_str(), place.port)).await?;
    Client::connect(config, tcp.compat_write()).await
}

/// The version of SQL Server that the suite runs as, by `SLUICE_TEST_VERSION`: 2016, 2017, 2019, 2022 (the default), 2025
/// or azure. A test that needs another one says so in its arguments.
fn version() -> String {
    std::env::var("SLUICE_TEST_VERSION").unwrap_or_else(|_| "2022".to_owned())
}

/// Whether the servers of this run may not name the zone of their clock, as those before 2022 do not.
pub(super) fn may_lack_a_zone() -> bool {
    Real::is_chosen() || matches!(version().as_str(), "2016" | "2017" | "2019")
}

/// What a server of the suite's version is started with, beside what a test asks for.
fn version_arguments(version: &str, given: &[&str]) -> Vec<String> {
    let gives = |name: &str| given.iter().any(|given| given.split('=').next() == Some(name));
    let mut arguments = Vec::new();
    let mut add = |name: &str, value: &str| arguments.extend([name.to_owned(), value.to_owned()]);
    // The clock of Azure SQL Database is UTC: a test of local time is one of SQL Server.
    let local = gives("--utc-offset") || gives("--time-zone");
    let azure = version == "azure" && !local;
    if !gives("--version") {
        add("--version", if version == "azure" && local { "2022" } else { version });
        // Tests see what they committed; the 20 s of Azure SQL Database is a test's own to ask for.
        if azure && !gives("--capture-lag") {
            add("--capture-lag", "0ms");
        }
    }
    arguments
}

impl Server {
    /// A server with an empty disk. What is asked of it beyond that, only the stand-in can do.
    pub fn start(arguments: &[&str]) -> Server {
        if Real::is_chosen() {
            if let Some(argument) = arguments.first() {
                not_portable(&format!("it starts the stand-in with {argument}"));
            }
            return Server::there();
        }
        let dir = super::scratch();
        let mut server = Server::on(dir.path(), arguments);
        server._temporary = Some(dir);
        server
    }

    /// A server whose data are in `dir`.
    pub fn on(dir: &Path, arguments: &[&str]) -> Server {
        Server::spawn(dir, "127.0.0.1", arguments)
    }

    /// A server that listens at another address of this machine.
    pub fn listening(host: &str, arguments: &[&str]) -> Server {
        let dir = super::scratch();
        let mut server = Server::spawn(dir.path(), host, arguments);
        server._temporary = Some(dir);
        server
    }

    /// A server whose certificate an authority has signed.
    pub fn signed(arguments: &[&str]) -> Server {
        let dir = super::scratch();
        let authority = dir.path().join("ca.pem");
        let out = ["--ca-out", authority.to_str().expect("UTF-8")];
        let mut server = Server::spawn(dir.path(), "127.0.0.1", &[arguments, &out].concat());
        server._temporary = Some(dir);
        server
    }

    /// The one of `SLUICE_TEST_MSSQL`.
    fn there() -> Server {
        let real = Real::new();
        Server {
            child: None,
            host: real.place.host.clone(),
            port: real.place.port,
            real: Some(real),
            dir: PathBuf::new(),
            _temporary: None,
        }
    }

    fn spawn(dir: &Path, host: &str, arguments: &[&str]) -> Server {
        if Real::is_chosen() {
            not_portable("it starts a stand-in with an address, a certificate or a data folder of its own");
        }
        let program = sluice_binary().with_file_name("mssql-sim");
        assert!(
            program.is_file(),
            "{} is missing: run cargo build --workspace --bins",
            program.display()
        );
        let mut child = Command::new(&program)
            .args([
                "--listen",
                &format!("{host}:0"),
                "--user",
                ADMINISTRATOR,
                "--exit-with-parent",
            ])
            .args(version_arguments(&version(), arguments))
            .arg("--data")
            .arg(dir.join("data"))
            .arg("--cert-out")
            .arg(dir.join("certificate.pem"))
            .args(arguments)
            .env("MSSQL_SIM_PASSWORD", PASSWORD)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("mssql-sim starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let port = loop {
            let mut line = String::new();
            if lines.read_line(&mut line).expect("a line") == 0 {
                let mut said = String::new();
                let _ = child.stderr.take().expect("a pipe").read_to_string(&mut said);
                panic!("mssql-sim ended before it was ready: {said}");
            }
            if let Some(port) = line.trim().strip_prefix(&format!("listening on {host}:")) {
                break port.parse().expect("a port");
            }
        };
        // Keep both pipes empty, so that the server never waits for us.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let mut errors = child.stderr.take().expect("a pipe");
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::stderr()));
        Server {
            child: Some(child),
            real: None,
            host: host.to_owned(),
            port,
            dir: dir.to_owned(),
            _temporary: None,
        }
    }

    /// The server as `source.server` has it.
    pub fn address(&self) -> String {
        format!("{},{}", self.host, self.port)
    }

    /// The keys of `[source]` that make sluice take the server's certificate.
    pub fn tls(&self) -> String {
        match &self.real {
            Some(real) => real.tls(),
            None => format!("server_certificate = \"{}\"\n", self.certificate().display()),
        }
    }

    /// The stand-in's certificate.
    pub fn certificate(&self) -> PathBuf {
        if let Some(real) = &self.real {
            real.give_up("it reads the stand-in's certificate");
        }
        self.dir.join("certificate.pem")
    }

    /// The certificate of the authority of [`Server::signed`].
    pub fn authority(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// A connection as the administrator. The server may be behind what is done over it.
    pub async fn connect(&self, database: &str) -> Client<Compat<TcpStream>> {
        if let Some(real) = &self.real {
            real.give_up("it changes tables over a connection of its own, and does not wait for capture");
        }
        self.connect_as(ADMINISTRATOR, database).await
    }

    /// Whether the login `reader` may not run a statement.
    pub async fn denies_reader(&self, database: &str, sql: &str) -> bool {
        let mut client = self.connect_as(READER, database).await;
        let answer = async { client.simple_query(sql).await?.into_results().await };
        matches!(answer.await, Err(error) if matches!(error.code(), Some(229 | 230)))
    }

    async fn connect_as(&self, user: &str, database: &str) -> Client<Compat<TcpStream>> {
        let (user, password) = match &self.real {
            Some(real) if user == ADMINISTRATOR => real.administrator(),
            _ => (user, PASSWORD),
        };
        let place = Place {
            host: self.host.clone(),
            port: self.port,
        };
        connect(&place, user, password, database)
            .await
            .expect("the login comes in")
    }

    /// Ends the test on a server that is there: it changes files of batches by their numbers, and there the commits by which
    /// the harness waits for capture make batches without rows between them.
    pub fn expect_batches_of_tests_alone(&self) {
        if !self.is_stand_in() {
            not_portable("it counts on no commits but its own");
        }
    }

    /// Whether it is the stand-in, and not a server that was there already.
    pub fn is_stand_in(&self) -> bool {
        self.real.is_none()
    }

    /// Ends a test that asks for something which the stand-in alone has.
    fn expect_portable(&self, sql: &str) {
        if let Some(real) = &self.real
            && sql.to_lowercase().contains("exec sim.")
        {
            real.give_up("it runs a procedure of the stand-in");
        }
    }

    /// Runs a batch and panics with the server's words when it fails. What it commits is captured when this returns.
    pub async fn exec(&self, database: &str, sql: &str) {
        self.expect_portable(sql);
        let mut client = self.connect_as(ADMINISTRATOR, database).await;
        client
            .simple_query(sql)
            .await
            .unwrap_or_else(|error| panic!("{error}\nin {sql}"))
            .into_results()
            .await
            .unwrap_or_else(|error| panic!("{error}\nin {sql}"));
        if let Some(real) = &self.real {
            real.captured(&mut client, database).await;
        }
    }

    /// The rows of a statement.
    pub async fn query(&self, database: &str, sql: &str) -> Vec<Row> {
        self.expect_portable(sql);
        let mut client = self.connect_as(ADMINISTRATOR, database).await;
        client
            .simple_query(sql)
            .await
            .unwrap_or_else(|error| panic!("{error}\nin {sql}"))
            .into_first_result()
            .await
            .unwrap_or_else(|error| panic!("{error}\nin {sql}"))
    }

    /// Cleans the change table of an instance up to (and without) the newest commit, or the one that `low` selects.
    pub async fn cleanup(&self, database: &str, instance: &str, low: &str) {
        let low = match &self.real {
            Some(_) => low.replace(NEWEST, NEWEST_OF_THE_TEST),
            None => low.to_owned(),
        };
        self.exec(database, &Server::cleanup_text(instance, &low)).await;
    }

    /// The batch that [`Server::cleanup`] runs.
    pub fn cleanup_text(instance: &str, low: &str) -> String {
        format!(
            "DECLARE @low binary(10) = {low};\n\
             EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'{instance}', @low_water_mark = @low, @threshold = 5000"
        )
    }

    /// A database with CDC, and the login `reader` that may do nothing yet.
    pub async fn database(&self, name: &str) {
        if let Some(real) = &self.real {
            // A login that has sessions cannot go.
            real.make_room(name).await;
            real.drop_login(READER).await;
        }
        self.exec("master", &format!("CREATE LOGIN [reader] WITH PASSWORD = '{PASSWORD}'"))
            .await;
        self.database_again(name).await;
    }

    /// The same when the login is there.
    pub async fn database_again(&self, name: &str) {
        if let Some(real) = &self.real {
            real.make_room(name).await;
        }
        self.exec("master", &format!("CREATE DATABASE [{name}]")).await;
        self.exec(name, "EXEC sys.sp_cdc_enable_db").await;
        if let Some(real) = &self.real {
            real.begin_capture(name).await;
        }
        self.exec(name, "CREATE USER [reader] FOR LOGIN [reader]").await;
    }

    /// A table `dbo.<name>` with CDC that `reader` may read.
    pub async fn table(&self, database: &str, name: &str, columns: &str) {
        self.exec(database, &format!("CREATE TABLE dbo.{name} ({columns})"))
            .await;
        self.enable(database, name).await;
        self.grant(database, name).await;
    }

    pub async fn enable(&self, database: &str, name: &str) {
        self.exec(
            database,
            &format!(
                "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'{name}', @role_name = NULL"
            ),
        )
        .await;
    }

    /// Stops capture, or lets it run again: what is committed meanwhile is captured then.
    pub async fn capture(&self, database: &str, runs: bool) {
        if let Some(real) = &self.real {
            return real.capture(database, runs).await;
        }
        self.exec(database, &format!("EXEC sim.capture @runs = {}", u8::from(runs)))
            .await;
    }

    pub async fn grant(&self, database: &str, name: &str) {
        self.exec(
            database,
            &format!("GRANT SELECT ON [dbo].[{name}] TO [reader]; GRANT SELECT ON [cdc].[dbo_{name}_CT] TO [reader];"),
        )
        .await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
