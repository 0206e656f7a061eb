//! A database whose values are looked for, and processes whose every trace is kept: what they print, where they may write.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tempfile::TempDir;

use super::scan::{self, Found, Which};
use super::sentinels::{columns, described, insert, update};
use crate::harness::{Project, Run, Server, finish, scratch, wait_for};

/// All that its own code and the storage libraries have to say.
const LOUD: &str = "sluice=trace,deltalake=debug,delta_kernel=debug,object_store=debug";

/// Where compiled components are kept.
pub(super) enum Cache {
    /// In a folder of this test, which is looked through as well.
    Own,
    /// With those of all tests: to compile `mask` takes seconds.
    Shared,
}

pub(super) struct World {
    pub(super) server: Server,
    sentinels: Value,
    /// Where a process may write beside its project.
    outside: TempDir,
    /// The description of the sentinels, which nobody looks through.
    files: TempDir,
    cache: PathBuf,
    processes: AtomicU32,
}

impl World {
    /// `sales` with `dbo.people`, a table of all types with both values of each, in inserts, updates and a delete.
    pub(super) async fn new(cache: Cache) -> World {
        let server = Server::start(&[]);
        server.database("sales").await;
        server.table("sales", "people", &columns()).await;
        for statement in [
            insert("people", 1, 0),
            insert("people", 2, 1),
            "INSERT INTO dbo.people (id, plain) VALUES (3, 1)".to_owned(),
            update("people", 3, 0),
            update("people", 3, 1),
            "DELETE dbo.people WHERE id = 1".to_owned(),
        ] {
            server.exec("sales", &statement).await;
        }
        World::of(server, described(&[]), cache)
    }

    /// A server with values that are described.
    pub(super) fn of(server: Server, sentinels: Value, cache: Cache) -> World {
        let outside = scratch();
        for folder in ["home", "tmp"] {
            fs::create_dir(outside.path().join(folder)).expect("created");
        }
        let cache = match cache {
            Cache::Own => outside.path().join("cache"),
            Cache::Shared => shared_cache(),
        };
        World {
            server,
            sentinels,
            outside,
            files: scratch(),
            cache,
            processes: AtomicU32::new(0),
        }
    }

    /// One more row with the first or the last of all values.
    pub(super) async fn insert(&self, id: i32, at: usize) {
        self.server.exec("sales", &insert("people", id, at)).await;
    }

    /// The row versions that were captured are values too, from now on.
    pub(super) async fn with_row_versions(&mut self) {
        let sql = "SELECT DISTINCT CONVERT(varchar(30), CONVERT(binary(8), c_rowversion), 1) FROM cdc.dbo_people_CT";
        let rows = self.server.query("sales", sql).await;
        let versions: Vec<String> = rows
            .iter()
            .filter_map(|row| row.get::<&str, _>(0))
            .map(|text| text.trim_start_matches("0x").to_owned())
            .collect();
        assert!(versions.len() > 3, "{versions:?}");
        self.sentinels = described(&versions);
    }

    /// A project that reads `dbo.people`.
    pub(super) fn project(&self, rest: &str) -> Project {
        self.project_of("dbo_people", rest)
    }

    pub(super) fn project_of(&self, capture_instance: &str, rest: &str) -> Project {
        let project = Project::new(&self.server, "sales").table(capture_instance, rest);
        fs::create_dir(said(&project)).expect("created");
        project
    }

    /// A command that logs all that it may, and has nowhere to write that is not looked through.
    fn process(&self, project: &Project, command: &str, arguments: &[&str]) -> Command {
        let mut process = project.command(command, arguments);
        process
            .current_dir(self.outside.path().join("tmp"))
            .env("HOME", self.outside.path().join("home"))
            .env("TMPDIR", self.outside.path().join("tmp"))
            .env("XDG_CACHE_HOME", &self.cache)
            .env("SLUICE_LOG", LOUD);
        process
    }

    /// Runs a command to its end. What it prints is kept beside the project.
    pub(super) fn run(&self, project: &Project, command: &str, arguments: &[&str]) -> Run {
        self.run_with(project, command, arguments, LOUD)
    }

    /// The same with another filter of the log.
    pub(super) fn run_with(&self, project: &Project, command: &str, arguments: &[&str], log: &str) -> Run {
        let output = self
            .process(project, command, arguments)
            .env("SLUICE_LOG", log)
            .output()
            .expect("sluice starts");
        let name = self.name(project, command);
        fs::write(name.with_extension("out"), &output.stdout).expect("written");
        fs::write(name.with_extension("err"), &output.stderr).expect("written");
        finish(output)
    }

    pub(super) fn once(&self, project: &Project) -> Run {
        self.run(project, "run", &["--once", "--json"])
    }

    /// Runs the stream with its status page until the page says that all tables are open. What it prints and each answer of the
    /// page are kept.
    pub(super) fn page(&self, project: &Project) {
        const PATHS: [&str; 6] = [
            "/",
            "/page.js",
            "/api/status",
            "/api/history?table=dbo_people",
            "/metrics",
            "/readyz",
        ];
        let name = self.name(project, "page");
        let printed = name.with_extension("out");
        let mut child = self
            .process(project, "run", &["--json", "--http", "127.0.0.1:0"])
            .env("SLUICE_LOG", LOUD)
            .stdout(File::create(&printed).expect("created"))
            .stderr(File::create(name.with_extension("err")).expect("created"))
            .spawn()
            .expect("sluice starts");
        let address = || {
            let text = fs::read_to_string(&printed).unwrap_or_default();
            let (_, rest) = text.split_once("\"address\":\"")?;
            rest.split_once('"').map(|(address, _)| address.to_owned())
        };
        let ready = || address().is_some_and(|address| get(&address, "/readyz").starts_with("HTTP/1.1 200"));
        let is_ready = wait_for(ready);
        let address = address().unwrap_or_default();
        for (number, path) in PATHS.iter().enumerate() {
            let answer = get(&address, path);
            assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
            fs::write(name.with_extension(format!("answer{number}")), answer).expect("written");
        }
        let _ = child.kill();
        let _ = child.wait();
        assert!(is_ready, "the tables are open");
    }

    /// Starts a command that stops at a failpoint, writes down its arguments and the names of its threads, and kills it.
    pub(super) fn kill_at(&self, project: &Project, command: &str, arguments: &[&str], failpoint: &str) {
        let name = self.name(project, failpoint);
        let marker = name.with_extension("reached");
        let file = |extension: &str| File::create(name.with_extension(extension)).expect("created");
        let mut child = self
            .process(project, command, arguments)
            .env("SLUICE_FAILPOINT", failpoint)
            .env("SLUICE_FAILPOINT_FILE", &marker)
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .expect("sluice starts");
        let there = wait_for(|| marker.exists() || matches!(child.try_wait(), Ok(Some(_)))) && marker.exists();
        let names = there.then(|| names_of(child.id()));
        let _ = child.kill();
        let _ = child.wait();
        let names = names.unwrap_or_else(|| panic!("{failpoint} was not passed"));
        assert!(names.contains(command), "{names}");
        fs::write(name.with_extension("arguments"), names).expect("written");
    }

    /// Looks through projects, and all else that their processes could write to.
    pub(super) fn scan(&self, projects: &[&Project]) -> Found {
        let mut folders = vec![self.outside.path()];
        folders.extend(projects.iter().map(|project| project.path()));
        Found::scan(&scan::write(&self.sentinels, self.files.path()), &folders)
    }

    /// Every value that is looked for.
    pub(super) fn all(&self) -> BTreeSet<Which> {
        scan::all(&self.sentinels)
    }

    /// A file of the next process, without its extension.
    fn name(&self, project: &Project, what: &str) -> PathBuf {
        let number = self.processes.fetch_add(1, Ordering::Relaxed);
        said(project).join(format!("{number}-{what}"))
    }
}

/// What the processes of a project printed.
fn said(project: &Project) -> PathBuf {
    project.path().join("said")
}

/// The arguments of a process and the names of its threads, each on its line.
fn names_of(pid: u32) -> String {
    let process = Path::new("/proc").join(pid.to_string());
    let arguments = fs::read(process.join("cmdline")).expect("the process is there");
    let mut names = String::from_utf8_lossy(&arguments).replace('\0', "\n");
    for thread in fs::read_dir(process.join("task")).expect("threads").flatten() {
        // A thread may be gone by now.
        names.push_str(&fs::read_to_string(thread.path().join("comm")).unwrap_or_default());
    }
    names
}

/// Where sluice keeps compiled components, unless it is told otherwise.
fn shared_cache() -> PathBuf {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from);
    of("XDG_CACHE_HOME")
        .or_else(|| of("HOME").map(|home| home.join(".cache")))
        .expect("HOME is set")
}

/// The whole answer of a page.
fn get(address: &str, path: &str) -> String {
    let mut text = String::new();
    if let Ok(mut stream) = TcpStream::connect(address) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let asked = stream.write_all(request.as_bytes());
        asked
            .and_then(|()| stream.read_to_string(&mut text).map(|_| ()))
            .expect("an answer");
    }
    text
}
