//! P1: change rows of 12 mixed columns, from the source to committed Delta, against a bare loop that only drains the same
//! rows through tiberius. Each pair of runs is side by side; what counts is the ratio of CPU seconds.
//!
//! `sluice-bench [ROWS] [PAIRS]`; `sluice-bench drain PORT CERTIFICATE` is the bare loop, as a process of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use tiberius::{AuthMethod, Client, Config, EncryptionLevel, QueryItem};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

const PASSWORD: &str = "Str0ng-for-benchmarks";
const ROWS_PER_INSERT: u64 = 500;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().map(String::as_str) == Some("drain") {
        let port = arguments.get(1).context("drain needs a port")?.parse()?;
        let certificate = arguments.get(2).context("drain needs a certificate")?;
        return drain(port, Path::new(certificate)).await;
    }
    let number = |index: usize, default: u64| match arguments.get(index) {
        Some(text) => text.parse().with_context(|| format!("{text:?} is no number")),
        None => Ok(default),
    };
    compare(number(0, 1_000_000)?, number(1, 5)?).await
}

async fn compare(rows: u64, pairs: u64) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let server = Server::start(dir.path())?;
    say(&format!("writing {rows} rows …"));
    server.fill(rows).await?;
    let mut ratios = Vec::new();
    let mut runs = Vec::new();
    for pair in 1..=pairs {
        let drained = measure(
            Command::new(std::env::current_exe()?)
                .args(["drain", &server.port.to_string()])
                .arg(&server.certificate),
            rows,
        )?;
        let project = tempfile::tempdir()?;
        let streamed = measure(&mut sluice(project.path(), &server)?, rows)?;
        let ratio = streamed.cpu / drained.cpu;
        say(&format!(
            "pair {pair}: sluice {:.2} CPU s ({:.2} s wall), tiberius loop {:.2} CPU s ({:.2} s wall), ratio {ratio:.2}",
            streamed.cpu, streamed.wall, drained.cpu, drained.wall
        ));
        runs.push(serde_json::json!({
            "sluice_cpu_s": streamed.cpu, "sluice_wall_s": streamed.wall,
            "tiberius_cpu_s": drained.cpu, "tiberius_wall_s": drained.wall, "ratio": ratio,
        }));
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios.get(ratios.len() / 2).copied().context("no pairs")?;
    say(&format!(
        "P1: median ratio {median:.2} over {pairs} pairs of {rows} rows"
    ));
    let report = PathBuf::from("target/bench/report.json");
    if let Some(folder) = report.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(
        &report,
        serde_json::to_string_pretty(&serde_json::json!({"P1": {"rows": rows, "median_ratio": median, "runs": runs}}))?,
    )?;
    say(&format!("written to {}", report.display()));
    Ok(())
}

#[allow(clippy::print_stdout)]
fn say(text: &str) {
    println!("{text}");
}

/// What a process cost.
struct Cost {
    cpu: f64,
    wall: f64,
}

/// Runs a child to its end. Its last line is an object with the `rows` it handled: both sides must have had all of them.
fn measure(command: &mut Command, rows: u64) -> Result<Cost> {
    let before = children_cpu();
    let started = Instant::now();
    let output = command.stderr(Stdio::inherit()).output()?;
    let wall = started.elapsed().as_secs_f64();
    if !output.status.success() {
        bail!("{command:?} ended with {}", output.status);
    }
    let text = String::from_utf8(output.stdout)?;
    let summary: serde_json::Value = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .rfind(|object: &serde_json::Value| object.get("rows").is_some())
        .with_context(|| format!("{command:?} did not say how many rows it had"))?;
    if summary["rows"] != rows {
        bail!("{command:?} had {} rows of {rows}", summary["rows"]);
    }
    Ok(Cost {
        cpu: children_cpu() - before,
        wall,
    })
}

/// CPU seconds, user and system, of the children that have ended.
fn children_cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 16 and 17, counted after the name in parentheses; in clock ticks of 1/100 s.
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    (ticks(13) + ticks(14)) / 100.0
}

struct Server {
    child: Child,
    port: u16,
    certificate: PathBuf,
}

impl Server {
    fn start(dir: &Path) -> Result<Server> {
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

    async fn fill(&self, rows: u64) -> Result<()> {
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

/// A run of sluice over the whole backlog, into an empty lake.
fn sluice(project: &Path, server: &Server) -> Result<Command> {
    let config = project.join("sluice.toml");
    std::fs::write(project.join("password"), PASSWORD)?;
    std::fs::write(
        &config,
        format!(
            r#"
[source]
server = "127.0.0.1,{}"
database = "bench"
user = "sa"
password = {{ file = "password" }}
server_certificate = "{}"

[defaults]
target = "lake/bronze/{{ci}}"
app_id = "{{ci}}-v1"
checkpoint = "lake/checkpoints/{{ci}}"
facts_table = "lake/ops/facts"
control_table = "lake/ops/control"
max_commits_per_batch = 1000000

[[table]]
capture_instance = "dbo_wide"
"#,
            server.port,
            server.certificate.display()
        ),
    )?;
    let mut command = Command::new(std::env::current_exe()?.with_file_name("sluice"));
    command.args(["run", "--once", "--json", "-c"]).arg(config);
    Ok(command)
}

async fn connect(port: u16, certificate: &Path, database: &str) -> Result<Client<Compat<TcpStream>>> {
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

/// The bare loop: every row is read and dropped.
async fn drain(port: u16, certificate: &Path) -> Result<()> {
    let mut client = connect(port, certificate, "bench").await?;
    let mut stream = client
        .simple_query(
            "SELECT * FROM cdc.dbo_wide_CT ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]",
        )
        .await?;
    let mut rows = 0_u64;
    while let Some(item) = stream.try_next().await? {
        if let QueryItem::Row(row) = item {
            std::hint::black_box(&row);
            rows += 1;
        }
    }
    say(&serde_json::json!({ "rows": rows }).to_string());
    Ok(())
}
