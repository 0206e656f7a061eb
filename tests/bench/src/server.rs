//! The server that is read, and the rows that it has.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use tiberius::{AuthMethod, Client, Config, EncryptionLevel};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

pub(crate) const PASSWORD: &str = "Str0ng-for-benchmarks";
pub(crate) const DATABASE: &str = "bench";
const ROWS_PER_INSERT: u64 = 500;

/// A table to be filled.
pub(crate) struct Table {
    /// In the schema `dbo`.
    pub(crate) name: String,
    /// Their definitions.
    pub(crate) columns: String,
    /// The values of the row of a number, as in an INSERT.
    pub(crate) row: fn(u64) -> String,
}

/// A stand-in for SQL Server, of this process alone.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    pub(crate) certificate: PathBuf,
}

impl Server {
    /// Starts it with its data in `dir`.
    pub(crate) fn start(dir: &Path) -> Result<Server> {
        Server::start_with(dir, &[])
    }

    /// The same with more arguments.
    pub(crate) fn start_with(dir: &Path, arguments: &[String]) -> Result<Server> {
        let certificate = dir.join("certificate.pem");
        let mut child = Command::new(std::env::current_exe()?.with_file_name("mssql-sim"))
            .args(["--listen", "127.0.0.1:0", "--user", "sa", "--exit-with-parent"])
            .args(arguments)
            .arg("--data")
            .arg(dir.join("data"))
            .arg("--cert-out")
            .arg(&certificate)
            .env("MSSQL_SIM_PASSWORD", PASSWORD)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start mssql-sim")?;
        let mut lines = BufReader::new(child.stdout.take().context("no pipe")?).lines();
        for line in lines.by_ref() {
            if let Some(port) = line?.trim().strip_prefix("listening on 127.0.0.1:") {
                return Ok(Server {
                    child,
                    port: port.parse()?,
                    certificate,
                });
            }
        }
        bail!("mssql-sim ended before it was ready")
    }

    /// Makes a table in a database of its own, with `rows` inserts in its change table.
    pub(crate) async fn fill(&self, table: &Table, rows: u64) -> Result<()> {
        let mut master = connect(self.port, &self.certificate, "master").await?;
        master
            .simple_query(format!("CREATE DATABASE [{DATABASE}]"))
            .await?
            .into_results()
            .await?;
        let mut client = connect(self.port, &self.certificate, DATABASE).await?;
        let Table { name, columns, row } = table;
        for statement in [
            "EXEC sys.sp_cdc_enable_db".to_owned(),
            format!("CREATE TABLE dbo.{name} ({columns})"),
            format!(
                "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'{name}', @role_name = NULL"
            ),
        ] {
            client.simple_query(statement).await?.into_results().await?;
        }
        let mut next = 0;
        while next < rows {
            let end = rows.min(next + ROWS_PER_INSERT);
            let values: Vec<String> = (next..end).map(|number| format!("({})", row(number))).collect();
            let sql = format!("INSERT INTO dbo.{name} VALUES {}", values.join(","));
            client.simple_query(sql).await?.into_results().await?;
            next = end;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Logs in over TLS.
pub(crate) async fn connect(port: u16, certificate: &Path, database: &str) -> Result<Client<Compat<TcpStream>>> {
    let mut config = Config::new();
    config.host("127.0.0.1");
    config.port(port);
    config.database(database);
    config.authentication(AuthMethod::sql_server("sa", PASSWORD));
    config.encryption(EncryptionLevel::Required);
    config.trust_cert_ca(certificate.display());
    let tcp = TcpStream::connect(("127.0.0.1", port)).await?;
    tcp.set_nodelay(true)?;
    Ok(Client::connect(config, tcp.compat_write()).await?)
}
