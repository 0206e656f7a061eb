//! P4: what many tables cost, most of them idle. P6: from a commit to its rows in Delta, for tables that change now and then,
//! alone and beside one with a large backlog.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::measure::{process_cpu, report};
use crate::project::source_and_places;
use crate::say;
use crate::server::{PASSWORD, Server, connect};

/// The database of the stand-in's workload, in which the small tables are.
const SHOP: &str = "shop";
/// Tables that change in the second part of P4.
const BUSY: usize = 10;
/// Tables of P6, and how often each of them changes.
const FOLLOWED: usize = 99;
const EVERY: Duration = Duration::from_secs(1);
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(900);

/// P4 with 10, 100, … tables up to `most`, each watched for `seconds` twice; then P6 with a backlog of so many rows.
pub(crate) async fn run(most: u64, seconds: u64, backlog: u64) -> Result<()> {
    let seconds = Duration::from_secs(seconds);
    let sizes = [10, 100, 1000].into_iter().filter(|size| *size < most).chain([most]);
    let mut figures = serde_json::Map::new();
    for size in sizes {
        let figure = cost(usize::try_from(size)?, seconds).await?;
        figures.insert(size.to_string(), figure);
    }
    report("P4", Value::Object(figures))?;
    let alone = lag(seconds, None).await?;
    let beside = lag(seconds, Some(backlog)).await?;
    report(
        "P6",
        json!({ "alone": alone, "beside_a_backlog": beside, "backlog_rows": backlog }),
    )
}

/// What so many tables cost.
async fn cost(tables: usize, seconds: Duration) -> Result<Value> {
    let dir = tempfile::tempdir()?;
    let log = dir.path().join("requests");
    let server = Server::start_with(dir.path(), &shop(tables, &log))?;
    let project = Project::new(&server, tables, "1s", 0)?;
    let started = Instant::now();
    let mut first = project.start()?;
    first.until_each("verdict", tables)?;
    let created = started.elapsed();
    first.stop()?;
    let started = Instant::now();
    let mut again = project.start()?;
    again.until_each("opened", tables)?;
    let restarted = started.elapsed();
    // What joined is asked about once more.
    std::thread::sleep(Duration::from_secs(5));
    let idle = again.watch(seconds, &log, || Ok(()))?;
    let mut client = connect(server.port, &server.certificate, SHOP).await?;
    let busy_tables = BUSY.min(tables);
    let rounds = seconds.as_secs();
    let busy = again.usage_of(&log, async || {
        for round in 0..rounds {
            let next = Instant::now() + EVERY;
            for table in 1..=busy_tables {
                insert(&mut client, table, round).await?;
            }
            tokio::time::sleep_until(next.into()).await;
        }
        Ok(())
    });
    let busy = busy.await?;
    let resident_mib = again.resident_mib()?;
    again.stop()?;
    say(&format!(
        "{tables} tables: created in {:.1} s, restarted in {:.1} s, {resident_mib:.0} MiB resident; idle: {}; {busy_tables} of them \
         with a row a second: {}",
        created.as_secs_f64(),
        restarted.as_secs_f64(),
        idle.text(),
        busy.text()
    ));
    Ok(json!({
        "created_s": created.as_secs_f64(),
        "restarted_s": restarted.as_secs_f64(),
        "resident_mib": resident_mib,
        "idle": idle.json(),
        "busy": busy.json(),
    }))
}

/// From a commit to the event that says that its row is in Delta, for each of 99 tables with a row a second.
async fn lag(seconds: Duration, backlog: Option<u64>) -> Result<Value> {
    let dir = tempfile::tempdir()?;
    let log = dir.path().join("requests");
    let arguments = shop(FOLLOWED, &log);
    let server = Server::start_with(dir.path(), &arguments)?;
    let mut client = connect(server.port, &server.certificate, SHOP).await?;
    if let Some(rows) = backlog {
        say(&format!("writing {rows} rows in one transaction …"));
        large(&mut client, rows).await?;
    }
    let project = Project::new(&server, FOLLOWED, "250ms", backlog.unwrap_or(0))?;
    let started = Instant::now();
    let mut run = project.start()?;
    // Each of the 99 is there; the large one has only begun.
    run.until_each("opened", FOLLOWED + usize::from(backlog.is_some()))?;
    let mut waiting: BTreeMap<String, VecDeque<Instant>> = BTreeMap::new();
    let mut lags = Vec::new();
    let mut large_done = backlog.is_none().then_some(Duration::ZERO);
    let mut round = 1000;
    let until = Instant::now() + seconds;
    // As long as the backlog is read, and for so many seconds at least.
    while Instant::now() < until || large_done.is_none() {
        let begun = Instant::now();
        for table in 1..=FOLLOWED {
            insert(&mut client, table, round).await?;
            waiting.entry(name(table)).or_default().push_back(Instant::now());
            // Spread over the second, as commits of 99 tables are.
            let next = begun + EVERY * u32::try_from(table)? / u32::try_from(FOLLOWED)?;
            while let Some(event) = run.next(next.saturating_duration_since(Instant::now()))? {
                note(&event, &mut waiting, &mut lags, backlog, &mut large_done, started);
            }
        }
        round += 1;
        if started.elapsed() > PATIENCE {
            bail!("the backlog is not read in {PATIENCE:?}");
        }
    }
    let end = Instant::now() + Duration::from_secs(10);
    while waiting.values().any(|rows| !rows.is_empty()) && Instant::now() < end {
        if let Some(event) = run.next(Duration::from_millis(100))? {
            note(&event, &mut waiting, &mut lags, backlog, &mut large_done, started);
        }
    }
    let lost: usize = waiting.values().map(VecDeque::len).sum();
    if lost > 0 {
        bail!("{lost} rows of {} did not arrive", lost + lags.len());
    }
    let peak_mib = run.peak_mib()?;
    run.stop()?;
    lags.sort_unstable();
    let at = |share: f64| lags[((lags.len() - 1) as f64 * share) as usize].as_secs_f64();
    let (p50, p99, most) = (at(0.5), at(0.99), at(1.0));
    let beside = match (backlog, large_done) {
        (Some(rows), Some(took)) => format!("beside a backlog of {rows} rows, read in {:.1} s", took.as_secs_f64()),
        _ => "alone".to_owned(),
    };
    say(&format!(
        "{FOLLOWED} tables with a row a second, {beside}: from commit to Delta p50 {p50:.2} s, p99 {p99:.2} s, most {most:.2} s \
         ({} rows); {peak_mib:.0} MiB at most",
        lags.len()
    ));
    Ok(
        json!({ "p50_s": p50, "p99_s": p99, "most_s": most, "rows": lags.len(), "peak_mib": peak_mib,
               "backlog_read_s": large_done.map(|took| took.as_secs_f64()) }),
    )
}

fn note(
    event: &Value,
    waiting: &mut BTreeMap<String, VecDeque<Instant>>,
    lags: &mut Vec<Duration>,
    backlog: Option<u64>,
    large_done: &mut Option<Duration>,
    started: Instant,
) {
    if event["type"] != "batch" {
        return;
    }
    let (Some(table), Some(rows)) = (event["capture_instance"].as_str(), event["rows"].as_u64()) else {
        return;
    };
    if table == "dbo_large" {
        if Some(rows) == backlog {
            *large_done = Some(started.elapsed());
        }
        return;
    }
    let now = Instant::now();
    let rows_waiting = waiting.entry(table.to_owned()).or_default();
    // The first batch has the rows that the workload made.
    for _ in 0..rows.min(rows_waiting.len() as u64) {
        if let Some(committed) = rows_waiting.pop_front() {
            lags.push(now.duration_since(committed));
        }
    }
}

fn name(table: usize) -> String {
    format!("dbo_small_{table:04}")
}

type Client = tiberius::Client<tokio_util::compat::Compat<tokio::net::TcpStream>>;

async fn insert(client: &mut Client, table: usize, round: u64) -> Result<()> {
    // The workload's own rows have ids of its own.
    let sql = format!(
        "INSERT INTO dbo.small_{table:04} (id, label) VALUES ({}, N'bench')",
        1_000_000 + round
    );
    client.simple_query(sql).await?.into_results().await?;
    Ok(())
}

/// A table with so many rows, all of one transaction.
async fn large(client: &mut Client, rows: u64) -> Result<()> {
    const ROWS_PER_INSERT: u64 = 1000;
    for statement in [
        "CREATE TABLE dbo.large (id int NOT NULL PRIMARY KEY, a int NOT NULL, b nvarchar(40) NOT NULL)",
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'large', @role_name = NULL",
        "BEGIN TRANSACTION",
    ] {
        client.simple_query(statement).await?.into_results().await?;
    }
    let mut next = 0;
    while next < rows {
        let end = rows.min(next + ROWS_PER_INSERT);
        let mut sql = "INSERT INTO dbo.large VALUES ".to_owned();
        for id in next..end {
            let comma = if id == next { "" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(sql, "{comma}({id}, {}, N'row {id} of a large one')", id % 1000);
        }
        client.simple_query(sql).await?.into_results().await?;
        next = end;
    }
    client.simple_query("COMMIT").await?.into_results().await?;
    Ok(())
}

fn shop(tables: usize, log: &Path) -> Vec<String> {
    let words = ["--workload", "shop", "--backlog", "100", "--small-tables"];
    let mut arguments: Vec<String> = words.into_iter().map(str::to_owned).collect();
    arguments.extend([tables.to_string(), "--requests".to_owned(), log.display().to_string()]);
    arguments
}

/// What a process and the server did in a while.
struct Usage {
    seconds: f64,
    cpu: f64,
    requests: usize,
    statements: usize,
}

impl Usage {
    fn text(&self) -> String {
        format!(
            "{:.1} % of a core, {:.2} requests and {:.2} statements a second",
            100.0 * self.cpu / self.seconds,
            self.requests as f64 / self.seconds,
            self.statements as f64 / self.seconds
        )
    }

    fn json(&self) -> Value {
        json!({
            "cores": self.cpu / self.seconds,
            "requests_per_s": self.requests as f64 / self.seconds,
            "statements_per_s": self.statements as f64 / self.seconds,
        })
    }
}

struct Project {
    dir: tempfile::TempDir,
    config: PathBuf,
}

impl Project {
    fn new(server: &Server, tables: usize, trigger: &str, backlog: u64) -> Result<Project> {
        let dir = tempfile::tempdir()?;
        let config = dir.path().join("sluice.toml");
        std::fs::write(dir.path().join("password"), PASSWORD)?;
        let mut text = source_and_places(server, SHOP);
        let _ = write!(text, "granularity = \"minute\"\ntrigger = \"{trigger}\"\n");
        let large = (backlog > 0).then(|| "dbo_large".to_owned());
        for table in (1..=tables).map(name).chain(large) {
            let _ = write!(text, "\n[[table]]\ncapture_instance = \"{table}\"\n");
        }
        std::fs::write(&config, text)?;
        Ok(Project { dir, config })
    }

    fn start(&self) -> Result<Running> {
        let mut child = Command::new(std::env::current_exe()?.with_file_name("sluice"))
            .args(["run", "--json", "-c"])
            .arg(&self.config)
            .current_dir(self.dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start sluice")?;
        let lines = BufReader::new(child.stdout.take().context("no pipe")?).lines();
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Ok(event) = serde_json::from_str(&line)
                    && sender.send(event).is_err()
                {
                    return;
                }
            }
        });
        Ok(Running { child, events })
    }
}

/// A run of sluice, and what it says.
struct Running {
    child: Child,
    events: Receiver<Value>,
}

impl Running {
    /// The next event, if one comes in that time.
    fn next(&mut self, patience: Duration) -> Result<Option<Value>> {
        match self.events.recv_timeout(patience) {
            Ok(event) if event["type"] == "failed" => bail!("a table failed: {event}"),
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("sluice ended"),
        }
    }

    /// Until so many tables have said this.
    fn until_each(&mut self, kind: &str, tables: usize) -> Result<()> {
        let mut seen = std::collections::BTreeSet::new();
        let started = Instant::now();
        while seen.len() < tables {
            if let Some(event) = self.next(Duration::from_secs(1))?
                && event["type"] == kind
            {
                seen.insert(event["capture_instance"].to_string());
            }
            if started.elapsed() > PATIENCE {
                bail!("{} of {tables} tables said {kind} in {PATIENCE:?}", seen.len());
            }
        }
        Ok(())
    }

    fn watch(&self, seconds: Duration, log: &Path, before: impl Fn() -> Result<()>) -> Result<Usage> {
        before()?;
        let at = Mark::of(&self.child, log)?;
        std::thread::sleep(seconds);
        at.until_now(&self.child, log)
    }

    async fn usage_of(&self, log: &Path, work: impl AsyncFnOnce() -> Result<()>) -> Result<Usage> {
        let at = Mark::of(&self.child, log)?;
        work().await?;
        at.until_now(&self.child, log)
    }

    fn resident_mib(&self) -> Result<f64> {
        memory_mib(&self.child, "VmRSS:")
    }

    fn peak_mib(&self) -> Result<f64> {
        memory_mib(&self.child, "VmHWM:")
    }

    /// SIGTERM, and the end.
    fn stop(mut self) -> Result<()> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status()?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("sluice ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the counters stood.
struct Mark {
    at: Instant,
    cpu: f64,
    requests: usize,
    statements: usize,
}

impl Mark {
    fn of(child: &Child, log: &Path) -> Result<Mark> {
        let (requests, statements) = sent(log)?;
        Ok(Mark {
            at: Instant::now(),
            cpu: process_cpu(child.id()),
            requests,
            statements,
        })
    }

    fn until_now(&self, child: &Child, log: &Path) -> Result<Usage> {
        let now = Mark::of(child, log)?;
        Ok(Usage {
            seconds: now.at.duration_since(self.at).as_secs_f64(),
            cpu: now.cpu - self.cpu,
            requests: now.requests - self.requests,
            statements: now.statements - self.statements,
        })
    }
}

/// Requests of sluice that the server got, and the statements in them.
fn sent(log: &Path) -> Result<(usize, usize)> {
    let text = std::fs::read_to_string(log)?;
    let (mut requests, mut statements) = (0, 0);
    for line in text.lines() {
        let request: Value = serde_json::from_str(line)?;
        if request["application"] == "sluice" {
            requests += 1;
            let text = request["text"].as_str().unwrap_or_default();
            statements += text.split(';').filter(|statement| !statement.trim().is_empty()).count();
        }
    }
    Ok((requests, statements))
}

fn memory_mib(child: &Child, field: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .context("no such field")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib / 1024.0)
}
