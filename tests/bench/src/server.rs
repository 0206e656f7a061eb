//! The server that is read, and the rows that it has.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use tiberius::{AuthMethod, Client, Config, EncryptionLevel};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

pub(crate) const PASSWORD: &str = "Str0ng-for-benchmarks";
const ROWS_PER_INSERT: u64 = 500;

/// A stand-in for SQL Server, of this process alone.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    pub(crate) certificate: PathBuf,
}

impl Server {
    /// Starts it with its data in `dir`.
    pub(crate) fn start(dir: &Path) -> Result<Server> {
        let certificate = dir.join("certificate.pem");
        let mut child = Command::new(std::env::current_exe()?.with_file_name("mssql-sim"))
            .args(["--listen", "127.0.0.1:0", "--user", "sa", "--exit-with-parent"])
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

    /// Makes the table `dbo.wide` with `rows` inserts in its change table.
    pub(crate) async fn fill(&self, rows: u64) -> Result<()> {
        let mut master = connect(self.port, &self.certificate, "master").await?;
        master
            .simple_query("CREATE DATABASE [bench]")
            .await?
            .into_results()
            .await?;
        let mut client = connect(self.port, &self.certificate, "bench").await?;
        for statement in [
            "EXEC sys.sp_cdc_enable_db",
            "CREATE TABLE dbo.wide (id bigint NOT NULL PRIMARY KEY, customer int NOT NULL, amount money NULL, rate float NULL, \
             price decimal(18,4) NULL, day date NULL, at datetime2(3) NULL, name nvarchar(40) NULL, code varchar(20) NULL, \
             payload varbinary(16) NULL, active bit NULL, ref uniqueidentifier NULL)",
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'wide', @role_name = NULL",
        ] {
            client.simple_query(statement).await?.into_results().await?;
        }
        let mut id = 0;
        while id < rows {
            let mut sql = String::from("INSERT INTO dbo.wide VALUES ");
            for i in 0..ROWS_PER_INSERT.min(rows - id) {
                let n = id + i;
                let null = n % 17 == 0;
                sql.push_str(&format!(
                    "{}({n},{},{}.{:02},{}.5,{}.{:04},'20{:02}-{:02}-{:02}','2024-03-01T{:02}:{:02}:{:02}.{:03}',{},'C{:08}',0x{n:016X},{},'{:08X}-1111-2222-3333-{n:012X}')",
                    if i == 0 { "" } else { "," },
                    n % 100_000,
                    n % 10_000,
                    n % 100,
                    n % 1000,
                    n % 100_000,
                    n % 10_000,
                    n % 30,
                    n % 12 + 1,
                    n % 28 + 1,
                    n % 24,
                    n % 60,
                    n / 60 % 60,
                    n % 1000,
                    if null { "NULL".to_owned() } else { format!("N'Customer number {}'", n % 50_000) },
                    n % 1_000_000,
                    n % 2,
                    n % 0xFFFF_FFFF,
                ));
            }
            client.simple_query(sql).await?.into_results().await?;
            id += ROWS_PER_INSERT;
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
