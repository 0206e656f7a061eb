//! The stand-in for SQL Server, as a process of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use super::files::{DemoFiles, READER, SHOP_TABLES, write_private};
use crate::cli::Failure;
use crate::error::ErrorKind;

/// The line that `mssql-sim` prints when it takes connections.
const READY: &str = "listening on 127.0.0.1:";

/// A running `mssql-sim`. It ends with this process, whatever happens: its standard input is a pipe from here.
pub(super) struct StandIn {
    child: Child,
    port: u16,
}

impl StandIn {
    /// Starts the server, fills the shop, and waits until it takes connections.
    pub(super) async fn start(files: &DemoFiles, rows: u64, seed: u64, small_tables: u32) -> Result<StandIn, Failure> {
        let grants = files.server_data.with_extension("grants.sql");
        // It creates the reader's login, with its password.
        write_private(&grants, &grant_script(files, small_tables)?)?;
        let program = find()?;
        let password = read(&files.password)?;
        let mut child = Command::new(&program)
            .args([
                "--listen",
                "127.0.0.1:0",
                "--user",
                "sa",
                "--workload",
                "shop",
                "--exit-with-parent",
            ])
            .arg("--data")
            .arg(&files.server_data)
            .arg("--cert-out")
            .arg(&files.certificate)
            .arg("--sql")
            .arg(&grants)
            .args(["--seed", &seed.to_string(), "--backlog", &rows.to_string()])
            .args(["--small-tables", &small_tables.to_string()])
            .env("MSSQL_SIM_PASSWORD", password)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| {
                Failure::new(
                    ErrorKind::Internal,
                    format!("cannot start {}: {error}", program.display()),
                )
            })?;
        let stdout = child.stdout.take();
        let port = match stdout {
            Some(stdout) => ready_port(stdout).await,
            None => None,
        };
        match port {
            Some(port) => Ok(StandIn { child, port }),
            None => {
                let mut said = String::new();
                if let Some(mut stderr) = child.stderr.take() {
                    let _ = stderr.read_to_string(&mut said).await;
                }
                let mut message = format!("the stand-in server ended before it was ready: {}", said.trim());
                let mut kind = ErrorKind::Internal;
                if said.contains("in use by another") {
                    kind = ErrorKind::State;
                    message.push_str("; for a second demo beside it, use --dir");
                }
                Err(Failure::new(kind, message))
            }
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Ends the server: it sees the end of its input.
    pub(super) async fn stop(mut self) {
        drop(self.child.stdin.take());
        if tokio::time::timeout(std::time::Duration::from_secs(10), self.child.wait())
            .await
            .is_err()
        {
            let _ = self.child.kill().await;
        }
    }
}

/// How a person starts the same server.
pub(super) fn command_line(files: &DemoFiles, port: u16) -> String {
    format!(
        "MSSQL_SIM_PASSWORD=$(cat {}) {} --listen 127.0.0.1:{port} --data {} --user sa --cert-out {}",
        quoted(&files.password),
        program("mssql-sim"),
        quoted(&files.server_data),
        quoted(&files.certificate)
    )
}

/// A path as a shell takes it for one word.
pub(super) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    if text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// How a person calls a binary that stands where this one does: as short as the working directory allows.
pub(super) fn program(name: &str) -> String {
    let Ok(own) = std::env::current_exe() else {
        return name.to_owned();
    };
    let path = own.with_file_name(name);
    let here = std::env::current_dir().ok();
    match here.as_deref().and_then(|here| path.strip_prefix(here).ok()) {
        Some(relative) => quoted(relative),
        None => quoted(&path),
    }
}

async fn ready_port(stdout: tokio::process::ChildStdout) -> Option<u16> {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(port) = line.trim().strip_prefix(READY) {
            // The pipe stays open behind us, or the server would fail at its next line.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return port.parse().ok();
        }
    }
    None
}

/// Beside this binary, where cargo puts it; else by `SLUICE_MSSQL_SIM`; else on the path.
fn find() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os("SLUICE_MSSQL_SIM") {
        return Ok(PathBuf::from(path));
    }
    let beside = std::env::current_exe()
        .ok()
        .and_then(|own| own.parent().map(|folder| folder.join("mssql-sim")))
        .filter(|path| path.is_file());
    let on_path = || {
        std::env::var_os("PATH").and_then(|path| {
            std::env::split_paths(&path)
                .map(|folder| folder.join("mssql-sim"))
                .find(|candidate| candidate.is_file())
        })
    };
    beside.or_else(on_path).ok_or_else(|| {
        Failure::new(
            ErrorKind::Config,
            "mssql-sim, the stand-in server, is neither beside this binary nor on the path: build it with cargo build -p mssql-sim, or set SLUICE_MSSQL_SIM",
        )
    })
}

/// A login that may read the tables and their change tables, as a real set-up would have. Run at every start.
fn grant_script(files: &DemoFiles, small_tables: u32) -> Result<String, Failure> {
    let password = read(&files.reader_password)?;
    let mut script = format!(
        "IF SUSER_ID(N'{READER}') IS NULL CREATE LOGIN [{READER}] WITH PASSWORD = '{password}'\nGO\n\
         USE [shop]\nGO\n\
         IF USER_ID(N'{READER}') IS NULL CREATE USER [{READER}] FOR LOGIN [{READER}]\nGO\n"
    );
    let small = (1..=small_tables).map(|i| format!("small_{i:04}"));
    for table in SHOP_TABLES.into_iter().map(str::to_owned).chain(small) {
        script.push_str(&format!(
            "GRANT SELECT ON [dbo].[{table}] TO [{READER}]\nGRANT SELECT ON [cdc].[dbo_{table}_CT] TO [{READER}]\n"
        ));
    }
    script.push_str("GO\n");
    Ok(script)
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .map_err(|error| Failure::new(ErrorKind::State, format!("cannot read {}: {error}", path.display())))
}
