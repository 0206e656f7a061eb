//! The stand-in server, as the process that users start.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tiberius::{AuthMethod, Client, Config, EncryptionLevel, Row};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use super::project::sluice_binary;

pub const PASSWORD: &str = "Str0ng-for-tests";

/// A running `mssql-sim`; killed when dropped.
pub struct Server {
    child: Child,
    pub host: String,
    pub port: u16,
    dir: PathBuf,
    _temporary: Option<TempDir>,
}

/// The version of SQL Server that the suite runs as, by `SLUICE_TEST_VERSION`: 2016, 2017, 2019, 2022 (the default), 2025
/// or azure. A test that needs another one says so in its arguments.
fn version() -> String {
    std::env::var("SLUICE_TEST_VERSION").unwrap_or_else(|_| "2022".to_owned())
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
    /// A server with an empty disk.
    pub fn start(arguments: &[&str]) -> Server {
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

    fn spawn(dir: &Path, host: &str, arguments: &[&str]) -> Server {
        let program = sluice_binary().with_file_name("mssql-sim");
        assert!(
            program.is_file(),
            "{} is missing: run cargo build --workspace --bins",
            program.display()
        );
        let mut child = Command::new(&program)
            .args(["--listen", &format!("{host}:0"), "--user", "sa", "--exit-with-parent"])
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
            child,
            host: host.to_owned(),
            port,
            dir: dir.to_owned(),
            _temporary: None,
        }
    }

    pub fn certificate(&self) -> PathBuf {
        self.dir.join("certificate.pem")
    }

    /// The certificate of the authority of [`Server::signed`].
    pub fn authority(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// A connection as the administrator.
    pub async fn connect(&self, database: &str) -> Client<Compat<TcpStream>> {
        self.connect_as("sa", database).await
    }

    /// Whether the login `reader` may not run a statement.
    pub async fn denies_reader(&self, database: &str, sql: &str) -> bool {
        let mut client = self.connect_as("reader", database).await;
        let answer = async { client.simple_query(sql).await?.into_results().await };
        matches!(answer.await, Err(error) if matches!(error.code(), Some(229 | 230)))
    }

    async fn connect_as(&self, user: &str, database: &str) -> Client<Compat<TcpStream>> {
        let mut config = Config::new();
        config.host(&self.host);
        config.port(self.port);
        config.database(database);
        config.authentication(AuthMethod::sql_server(user, PASSWORD));
        config.encryption(EncryptionLevel::Required);
        // Some tests are about certificates that nobody should take.
        config.trust_cert();
        let tcp = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .expect("the server listens");
        Client::connect(config, tcp.compat_write())
            .await
            .expect("the login comes in")
    }

    /// Runs a batch and panics with the server's words when it fails.
    pub async fn exec(&self, database: &str, sql: &str) {
        let mut client = self.connect(database).await;
        client
            .simple_query(sql)
            .await
            .unwrap_or_else(|error| panic!("{error}\nin {sql}"))
            .into_results()
            .await
            .unwrap_or_else(|error| panic!("{error}\nin {sql}"));
    }

    /// The rows of a statement.
    pub async fn query(&self, database: &str, sql: &str) -> Vec<Row> {
        let mut client = self.connect(database).await;
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
        self.exec(database, &Server::cleanup_text(instance, low)).await;
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
        self.exec("master", &format!("CREATE LOGIN [reader] WITH PASSWORD = '{PASSWORD}'"))
            .await;
        self.database_again(name).await;
    }

    /// The same when the login is there.
    pub async fn database_again(&self, name: &str) {
        self.exec("master", &format!("CREATE DATABASE [{name}]")).await;
        self.exec(name, "EXEC sys.sp_cdc_enable_db").await;
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
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
