//! The `mssql-sim` binary as a process.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use tiberius::Client;
use tokio::net::TcpStream;
use tokio_util::compat::Compat;

use crate::harness::{PASSWORD, USER, connect};

struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    port: u16,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mssql-sim"));
    command
        .env("MSSQL_SIM_PASSWORD", PASSWORD)
        .args(["--listen", "127.0.0.1:0"])
        .args(arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn start(arguments: &[&str]) -> Process {
    let mut child = command(arguments).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let Some(address) = line.trim().strip_prefix("listening on ") else {
        let mut error = String::new();
        child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        panic!("it is not ready: {line:?} {error}");
    };
    let port = address.rsplit(':').next().unwrap().parse().unwrap();
    Process {
        stdin: child.stdin.take(),
        child,
        port,
    }
}

fn wait(process: &mut Process) -> std::process::ExitStatus {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(status) = process.child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < until, "it does not stop");
        std::thread::sleep(Duration::from_millis(20));
    }
}

async fn client(process: &Process, certificate: &Path) -> Client<Compat<TcpStream>> {
    let mut config = tiberius::Config::new();
    config.host("127.0.0.1");
    config.port(process.port);
    config.database("shop");
    config.authentication(tiberius::AuthMethod::sql_server(USER, PASSWORD));
    config.trust_cert_ca(certificate.display());
    connect(config).await.unwrap()
}

async fn count(process: &Process, certificate: &Path, sql: &str) -> i32 {
    client(process, certificate)
        .await
        .simple_query(sql)
        .await
        .unwrap()
        .into_row()
        .await
        .unwrap()
        .unwrap()
        .get(0)
        .unwrap()
}

#[tokio::test]
async fn data_outlives_the_process_however_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (data, certificate, ready) = (
        folder.path().join("data"),
        folder.path().join("cert.pem"),
        folder.path().join("ready"),
    );
    let arguments = [
        "--data",
        data.to_str().unwrap(),
        "--cert-out",
        certificate.to_str().unwrap(),
        "--ready-file",
        ready.to_str().unwrap(),
        "--workload",
        "shop",
        "--backlog",
        "300",
    ];
    let mut process = start(&arguments);
    assert_eq!(
        std::fs::read_to_string(&ready).unwrap(),
        format!("127.0.0.1:{}", process.port)
    );
    let orders = "SELECT COUNT(*) FROM dbo.orders";
    let first = count(&process, &certificate, orders).await;
    assert!(first > 10);

    // Nobody else may have the folder meanwhile.
    let second = command(&arguments).output().unwrap();
    assert!(!second.status.success());
    assert!(
        String::from_utf8_lossy(&second.stderr).contains("in use by another mssql-sim"),
        "{second:?}"
    );

    Command::new("kill")
        .args(["-TERM", &process.child.id().to_string()])
        .status()
        .unwrap();
    assert_eq!(wait(&mut process).code(), Some(0));
    let process = start(&arguments);
    let second = count(&process, &certificate, orders).await;
    assert!(second > first, "{second}");
    drop(process);
    let process = start(&arguments[..4]);
    assert_eq!(count(&process, &certificate, orders).await, second);
}

#[tokio::test]
async fn its_version_and_its_zone_are_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = folder.path().join("cert.pem");
    let common = ["--cert-out", certificate.to_str().unwrap(), "--workload", "shop"];
    let with = |more: &[&'static str]| -> Process { start(&[&common[..], more].concat()) };
    let process = with(&["--version", "2025", "--time-zone", "W. Europe Standard Time"]);
    let major = "SELECT CAST(CAST(SERVERPROPERTY('ProductMajorVersion') AS nvarchar(10)) AS int)";
    assert_eq!(count(&process, &certificate, major).await, 17);
    let summer = "EXEC sim.clock @utc = N'2026-07-01T12:00:00Z'; SELECT DATEPART(TZOFFSET, SYSDATETIMEOFFSET())";
    assert_eq!(count(&process, &certificate, summer).await, 120);
    let winter = "EXEC sim.clock @utc = N'2026-01-01T12:00:00Z'; SELECT DATEPART(TZOFFSET, SYSDATETIMEOFFSET())";
    assert_eq!(count(&process, &certificate, winter).await, 60);
    let process = with(&["--version", "azure", "--capture-lag", "0ms"]);
    let edition = "SELECT CAST(SERVERPROPERTY('EngineEdition') AS int)";
    assert_eq!(count(&process, &certificate, edition).await, 5);
    let output = command(&["--version", "azure", "--time-zone", "Europe/Berlin"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("the clock of Azure SQL Database is UTC"), "{error}");
}

#[tokio::test]
async fn requests_are_written_down_without_their_values() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, requests) = (folder.path().join("cert.pem"), folder.path().join("requests"));
    let process = start(&[
        "--cert-out",
        certificate.to_str().unwrap(),
        "--requests",
        requests.to_str().unwrap(),
        "--workload",
        "shop",
    ]);
    let mut client = client(&process, &certificate).await;
    let of_nobody = "SELECT first_name FROM dbo.customers WHERE last_name = @P1";
    let rows = client.query(of_nobody, &[&"Nobody-4711"]).await.unwrap();
    assert!(rows.into_first_result().await.unwrap().is_empty());
    // A batch that fails has arrived all the same.
    let failing = "SELECT * FROM dbo.nothing";
    let answer = async { client.simple_query(failing).await?.into_results().await };
    assert!(answer.await.is_err());
    let text = std::fs::read_to_string(&requests).unwrap();
    assert!(!text.contains("4711"), "{text}");
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let texts: Vec<(&str, &str)> = lines
        .iter()
        .map(|line| (line["kind"].as_str().unwrap(), line["text"].as_str().unwrap()))
        .collect();
    assert_eq!(texts, [("rpc", of_nobody), ("batch", failing)]);
    assert!(
        lines[0]["parameters"].as_str().unwrap().starts_with("@P1 nvarchar"),
        "{text}"
    );
    assert!(lines.iter().all(|line| line["login"] == USER), "{text}");
}

#[test]
fn it_leaves_with_its_parent() {
    let mut process = start(&["--exit-with-parent"]);
    process.stdin.take();
    assert_eq!(wait(&mut process).code(), Some(0));
}

#[test]
fn what_stops_it_from_starting_is_said() {
    let process = start(&[]);
    let mut taken = Command::new(env!("CARGO_BIN_EXE_mssql-sim"));
    taken
        .env("MSSQL_SIM_PASSWORD", PASSWORD)
        .args(["--listen", &format!("127.0.0.1:{}", process.port)]);
    let output = taken.output().unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("cannot listen on 127.0.0.1:"), "{error}");
    assert!(error.contains("--listen"), "{error}");

    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("bad.sql");
    std::fs::write(&script, "SELECT 1\nGO\nSELECT * FROM dbo.nothing\n").unwrap();
    let output = command(&["--sql", script.to_str().unwrap()]).output().unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("bad.sql failed") && error.contains("Msg 208"), "{error}");
}
