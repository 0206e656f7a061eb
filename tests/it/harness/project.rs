//! A directory with a `sluice.toml`, and runs of the real binary in it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::lake::rows_of;
use super::server::{PASSWORD, Server, may_lack_a_zone};

/// The binary under test: the one that was built with the tests, or another, by `SLUICE_BINARY`.
pub fn sluice_binary() -> PathBuf {
    std::env::var_os("SLUICE_BINARY").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_sluice")), PathBuf::from)
}

pub const KEY: &str = "a key of the tests, 32 bytes long";

/// A project on disk.
pub struct Project {
    dir: TempDir,
    text: String,
}

/// What a run printed, and how it ended.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Project {
    /// A configuration for a database of the server, as `reader`, without tables.
    pub fn new(server: &Server, database: &str) -> Project {
        let dir = super::scratch();
        std::fs::write(dir.path().join("password"), PASSWORD).expect("written");
        std::fs::write(dir.path().join("pii"), KEY).expect("written");
        let text = format!(
            r#"
[source]
server = "{}"
database = "{database}"
user = "reader"
password = {{ file = "password" }}
{}
[plugins]
dir = "plugins"

[keys]
pii = {{ file = "pii", version = "v1" }}

[limits]
chunk_rows = 1000

[defaults]
target = "lake/bronze/{{ci}}"
app_id = "{{ci}}-v1"
checkpoint = "lake/checkpoints/{{ci}}"
facts_table = "lake/ops/ingestion_facts"
control_table = "lake/ops/table_finalization"
trigger = "100ms"
granularity = "minute"
"#,
            server.address(),
            server.tls()
        );
        std::fs::create_dir(dir.path().join("plugins")).expect("created");
        let project = Project { dir, text };
        project.write();
        project
    }

    /// Adds a `[[table]]`; `rest` is TOML under it.
    pub fn table(mut self, capture_instance: &str, rest: &str) -> Project {
        let _ = write!(
            self.text,
            "\n[[table]]\ncapture_instance = \"{capture_instance}\"\n{rest}\n"
        );
        self.write();
        self
    }

    /// Reads from another server from now on. `from` is the port and the certificate of the one before.
    pub fn move_to(&mut self, from: (u16, &Path), to: &Server) {
        self.edit(&format!("127.0.0.1,{}", from.0), &format!("127.0.0.1,{}", to.port));
        self.edit(&from.1.display().to_string(), &to.certificate().display().to_string());
    }

    /// The control table's only row, as (status, end_lsn).
    pub fn verdict(&self) -> (Option<String>, Option<String>) {
        let rows = rows_of(&self.lake().join("ops/table_finalization"), &["table_name"]).expect("a verdict");
        assert_eq!(rows.len(), 1);
        let only = |column: &str| rows.texts(column).pop().flatten();
        (only("status"), only("end_lsn"))
    }

    /// Replaces the keys of `[source]`.
    pub fn source(&mut self, keys: &str) {
        let (before, rest) = self.text.split_once("[source]\n").expect("a section");
        let (_, after) = rest.split_once("\n[plugins]").expect("the next section");
        self.text = format!("{before}[source]\n{keys}\n\n[plugins]{after}");
        self.write();
    }

    /// Changes the text of the configuration.
    pub fn edit(&mut self, from: &str, to: &str) {
        assert!(self.text.contains(from), "{from:?} is in the configuration");
        self.text = self.text.replace(from, to);
        self.write();
    }

    fn write(&self) {
        std::fs::write(self.config(), &self.text).expect("written");
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn config(&self) -> PathBuf {
        self.dir.path().join("sluice.toml")
    }

    pub fn lake(&self) -> PathBuf {
        self.dir.path().join("lake")
    }

    pub fn bronze(&self, capture_instance: &str) -> PathBuf {
        self.lake().join("bronze").join(capture_instance)
    }

    /// Copies a component into the plugin directory.
    pub fn plugin(&self, name: &str, component: &Path) {
        let to = self.dir.path().join("plugins").join(format!("{name}.wasm"));
        std::fs::copy(component, to).expect("copied");
    }

    /// A command of the binary on this configuration.
    pub fn command(&self, command: &str, arguments: &[&str]) -> Command {
        let mut process = Command::new(sluice_binary());
        process.arg(command).arg("-c").arg(self.config()).args(arguments);
        process
    }

    /// Runs a command to its end.
    pub fn run(&self, command: &str, arguments: &[&str]) -> Run {
        finish(self.command(command, arguments).output().expect("sluice starts"))
    }

    /// `sluice run --once --json`.
    pub fn once(&self) -> Run {
        self.run("run", &["--once", "--json"])
    }

    /// The same with more in its environment.
    pub fn once_with(&self, environment: &[(&str, &str)]) -> Run {
        let mut process = self.command("run", &["--once", "--json"]);
        process.envs(environment.iter().copied());
        finish(process.output().expect("sluice starts"))
    }

    /// Starts a run that stops at a failpoint, waits until it is there, and kills it with SIGKILL. Whether it got there.
    pub fn kill_at(&self, failpoint: &str) -> bool {
        self.kill_command_at("run", &["--once", "--json"], failpoint)
    }

    /// The same with another command.
    pub fn kill_command_at(&self, command: &str, arguments: &[&str], failpoint: &str) -> bool {
        let marker = self.dir.path().join("at-failpoint");
        let _ = std::fs::remove_file(&marker);
        let mut child = self
            .command(command, arguments)
            .env("SLUICE_FAILPOINT", failpoint)
            .env("SLUICE_FAILPOINT_FILE", &marker)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sluice starts");
        let reached = wait_for(|| marker.exists() || matches!(child.try_wait(), Ok(Some(_)))) && marker.exists();
        kill(&mut child);
        reached
    }
}

/// Polls for something that another process does; gives up after two minutes.
pub fn wait_for(mut condition: impl FnMut() -> bool) -> bool {
    let patience = Instant::now() + Duration::from_secs(120);
    while Instant::now() < patience {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// A copy as somebody takes one who does not know that a process writes there: what goes while it is copied is not in it.
pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("created");
    for entry in std::fs::read_dir(from).expect("readable").filter_map(Result::ok) {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path, &target);
        } else if let Err(error) = std::fs::copy(&path, target) {
            assert!(
                error.kind() == std::io::ErrorKind::NotFound,
                "{}: {error}",
                path.display()
            );
        }
    }
}

/// SIGKILL, and the end of the process.
pub fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The end of a process.
pub fn finish(output: Output) -> Run {
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

impl Run {
    /// The JSON objects of the output, each on its line.
    pub fn events(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}")))
            .collect()
    }

    /// The objects of one type.
    pub fn of_type(&self, kind: &str) -> Vec<Value> {
        self.events()
            .into_iter()
            .filter(|event| event["type"] == kind)
            .collect()
    }

    /// What it warned of; where the suite runs against servers that do not name their zone, but for that.
    pub fn warnings(&self) -> Vec<String> {
        let warnings = self.of_type("warning").into_iter();
        warnings
            .map(|event| event["message"].as_str().expect("text").to_owned())
            .filter(|text| !may_lack_a_zone() || !text.contains("set source.source_time_zone"))
            .collect()
    }

    /// The summary of a table.
    pub fn table(&self, capture_instance: &str) -> Value {
        self.of_type("table")
            .into_iter()
            .find(|event| event["capture_instance"] == capture_instance)
            .unwrap_or_else(|| panic!("no summary of {capture_instance} in {}\n{}", self.stdout, self.stderr))
    }

    /// The failure of a table.
    pub fn failure(&self, capture_instance: &str) -> Value {
        self.of_type("failed")
            .into_iter()
            .find(|event| event["capture_instance"] == capture_instance)
            .unwrap_or_else(|| panic!("no failure of {capture_instance} in {}\n{}", self.stdout, self.stderr))
    }

    /// The run must have ended well.
    pub fn ok(self) -> Run {
        assert_eq!(self.code, 0, "{}\n{}", self.stdout, self.stderr);
        self
    }
}
