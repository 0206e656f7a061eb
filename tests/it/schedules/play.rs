//! Plays a schedule with the real process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tiberius::Client;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_util::compat::Compat;

use super::check::{Change, Watched, ensure};
use super::plan::{Action, Chain, Fault, Limits, Passage, Plan, faults_text};
use crate::harness::{Project, Server, wait_for};

const OK: i32 = 0;
const RETRYABLE: i32 = 3;
const STATE: i32 = 7;

/// Runs on a busy machine until one can renew its lease.
const PATIENCE: u32 = 8;

const CHECKPOINTS: &str = "lake/checkpoints/{ci}";
const LEASE: &str = "\n[ownership]\nmode = \"lease\"\nlease = \"1s\"\nhosts = \"hosts\"\n";
const COPIES: &str = "lake/copies/{ci}";

/// A server that schedules are played on one after the other, each on a database of its own.
pub struct Stage {
    server: Server,
    runtime: Runtime,
    databases: u32,
}

impl Stage {
    pub fn new() -> Stage {
        Stage {
            server: Server::start(&[]),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime"),
            databases: 0,
        }
    }

    /// Plays a schedule, with a bug in the process or without. What went wrong, in words.
    pub fn play(&mut self, plan: &Plan, plant: Option<&'static str>) -> Result<(), String> {
        let database = format!("d{}", self.databases);
        self.databases += 1;
        self.runtime.block_on(async {
            if self.databases == 1 {
                self.server.database(&database).await;
            } else {
                self.server.database_again(&database).await;
            }
            for table in 0..plan.tables {
                let columns = "id int NOT NULL PRIMARY KEY, v nvarchar(20) NULL";
                self.server.table(&database, &format!("t{table}"), columns).await;
            }
        });
        let project = Project::new(&self.server, &database);
        let base = std::fs::read_to_string(project.config()).expect("readable");
        if plan.chain == Chain::Upper {
            project.plugin("upper", &sluice_test_guests::component("upper"));
        }

        let mut play = Play {
            plan,
            plant,
            watched: (0..plan.tables)
                .map(|table| Watched::new(format!("dbo_t{table}"), plan.chain != Chain::None))
                .collect(),
            client: self.runtime.block_on(self.server.connect(&database)),
            runtime: &self.runtime,
            project,
            base,
            processes: 0,
        };
        play.configure(plan.limits);
        for (action, number) in plan.actions.iter().zip(1..) {
            play.act(action)
                .and_then(|()| play.check())
                .map_err(|error| format!("action {number}: {error}"))?;
        }
        play.end().map_err(|error| format!("at the end: {error}"))
    }
}

struct Play<'a> {
    plan: &'a Plan,
    plant: Option<&'static str>,
    watched: Vec<Watched>,
    client: Client<Compat<TcpStream>>,
    runtime: &'a Runtime,
    project: Project,
    /// The configuration without tables.
    base: String,
    processes: u32,
}

impl Play<'_> {
    fn act(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Write(commits) => commits.iter().try_for_each(|commit| self.write(commit)),
            Action::Run { faults } => self.start(&[], None, faults).end()?.code(codes(faults)),
            Action::Kill { at, faults } => match self.start(&[], Some(at), faults).reach()? {
                Reached::There(process) => {
                    drop(process);
                    Ok(())
                }
                Reached::Ended(ended) => ended.code(codes(faults)),
            },
            Action::Hold { at, goes_on } => self.hold(at, *goes_on),
            Action::Race => self.race(),
            Action::Neighbours { faults } => self.neighbours(faults),
            Action::Copy { held, killed } => self.copy(held.as_ref(), killed.as_ref()),
            Action::Limits(limits) => {
                self.configure(*limits);
                Ok(())
            }
        }
    }

    fn write(&mut self, commit: &str) -> Result<(), String> {
        let text = commit.replace("{0}", "dbo.t0").replace("{1}", "dbo.t1");
        let done = self.runtime.block_on(async {
            let stream = self.client.simple_query(text).await?;
            stream.into_results().await
        });
        done.map(|_| ()).map_err(|error| format!("{error} in {commit}"))
    }

    fn hold(&mut self, at: &Passage, goes_on: bool) -> Result<(), String> {
        let mut first = match self.start(&[], Some(at), &[]).reach()? {
            Reached::There(process) => process,
            Reached::Ended(ended) => return ended.code(&[OK]),
        };
        first.signal("STOP");
        let second = self.start(&[], None, &[]).end()?;
        if self.plan.lease {
            // Of two tables, the first may have been stopped in the instant in which it enters itself as the other's owner.
            let entering = self.plan.tables > 1 && second.text.contains("is in use by process");
            second.code(if entering { &[OK, STATE] } else { &[OK] })?;
            if goes_on {
                // It had written everything, or finds that it was replaced.
                first.go_on();
                first.end()?.code(&[OK, STATE])?;
            }
            return Ok(());
        }
        second.clone().code(&[STATE])?;
        let name = format!("process {} on host", first.child.id());
        ensure!(
            second.text.contains(&name),
            "the refusal does not name {name:?}: {}",
            second.text
        );
        if !goes_on {
            return Ok(());
        }
        // What the first had not opened yet of two tables, the second may have, and the first is refused there.
        let allowed: &[i32] = if self.plan.tables > 1 { &[OK, STATE] } else { &[OK] };
        first.go_on();
        first.end()?.code(allowed)
    }

    fn race(&mut self) -> Result<(), String> {
        let one = self.start(&[], None, &[]);
        let two = self.start(&[], None, &[]);
        let (one, two) = (one.end()?, two.end()?);
        ensure!(
            self.plan.tables > 1 || [one.code, two.code] != [STATE, STATE],
            "both runs were refused: {} {}",
            one.text,
            two.text
        );
        one.code(&[OK, STATE])?;
        two.code(&[OK, STATE])
    }

    fn neighbours(&mut self, faults: &[Fault]) -> Result<(), String> {
        let names: Vec<String> = self.watched.iter().map(|table| table.name.clone()).collect();
        let processes: Vec<Process> = names
            .iter()
            .map(|name| self.start(&["--table", name], None, faults))
            .collect();
        processes
            .into_iter()
            .try_for_each(|process| process.end()?.code(codes(faults)))
    }

    fn copy(&mut self, held: Option<&Passage>, killed: Option<&Passage>) -> Result<(), String> {
        let first = match held {
            None => None,
            Some(at) => match self.start(&[], Some(at), &[]).reach()? {
                Reached::There(process) => Some(process),
                Reached::Ended(ended) => {
                    ended.code(&[OK])?;
                    None
                }
            },
        };
        let lake = self.project.lake();
        let (checkpoints, copies) = (lake.join("checkpoints"), lake.join("copies"));
        if !checkpoints.exists() {
            return Ok(());
        }
        copy_folder(&checkpoints, &copies);
        match self.start_on(COPIES, &[], killed, &[]).reach_or_end(killed.is_some())? {
            Reached::There(process) => drop(process),
            Reached::Ended(ended) => ended.code(&[OK, STATE])?,
        }
        if let Some(mut first) = first {
            first.go_on();
            first.end()?.code(&[OK, STATE])?;
        }
        self.check()?;
        // Whoever made this mistake goes on, table by table, with the checkpoint that bronze agrees with.
        let own = self.alone()?;

        if own.code == STATE {
            for table in &self.watched {
                let failed = format!("\"type\":\"failed\",\"capture_instance\":\"{}\"", table.name);
                if own.text.contains(&failed) {
                    let checkpoint = checkpoints.join(&table.name);
                    std::fs::remove_dir_all(&checkpoint).expect("removed");
                    std::fs::rename(copies.join(&table.name), &checkpoint).expect("renamed");
                }
            }
            std::fs::remove_dir_all(&copies).expect("removed");
            let other = self.alone()?;

            return other
                .code(&[OK])
                .map_err(|error| format!("neither checkpoint goes on: {}\n{error}", own.text));
        }
        std::fs::remove_dir_all(&copies).expect("removed");
        own.code(&[OK])
    }

    /// Two quiet runs, and everything is there.
    fn end(&mut self) -> Result<(), String> {
        self.quiet()?;
        self.check()?;
        let before = self.bronze_versions();
        self.quiet()?;
        // Under a lease it claims the table, under the lock it has nothing to say.
        let claims = usize::from(self.plan.lease);
        ensure!(
            self.bronze_versions()
                .iter()
                .zip(before)
                .all(|(now, before)| *now <= before + claims),
            "a quiet run leaves versions in bronze"
        );
        let lake = self.project.lake();
        for table in 0..self.watched.len() {
            let source = self.source(table)?;
            self.watched[table].check_end(&lake, &source)?;
        }
        Ok(())
    }

    fn quiet(&mut self) -> Result<(), String> {
        self.alone()?.code(&[OK])
    }

    /// A run that nothing disturbs, again where a busy machine kept it from renewing its lease.
    fn alone(&mut self) -> Result<Ended, String> {
        for _ in 0..PATIENCE {
            let ended = self.start(&[], None, &[]).end()?;
            if !ended.lost_its_lease() {
                return Ok(ended);
            }
        }
        Err(format!("{PATIENCE} runs could not renew their lease"))
    }

    fn bronze_versions(&self) -> Vec<usize> {
        let logs = self
            .watched
            .iter()
            .map(|table| self.project.bronze(&table.name).join("_delta_log"));
        logs.map(|log| std::fs::read_dir(log).map_or(0, Iterator::count))
            .collect()
    }

    fn check(&mut self) -> Result<(), String> {
        let lake = self.project.lake();
        for table in 0..self.watched.len() {
            let source = self.source(table)?;
            self.watched[table].check(&lake, &source)?;
        }
        Ok(())
    }

    /// All changes of a table so far.
    fn source(&mut self, table: usize) -> Result<Vec<Change>, String> {
        let text = format!(
            "SELECT [__$start_lsn], [__$seqval], [__$operation], [__$command_id], id, v FROM cdc.dbo_t{table}_CT"
        );
        let rows = self.runtime.block_on(async {
            let stream = self.client.simple_query(text).await?;
            stream.into_first_result().await
        });
        let mut changes: Vec<Change> = rows
            .map_err(|error| error.to_string())?
            .iter()
            .map(|row| Change {
                start_lsn: hex(row.get(0)),
                seqval: hex(row.get(1)),
                operation: row.get::<i32, _>(2).unwrap_or_default().into(),
                command_id: row.get::<i32, _>(3).unwrap_or_default().into(),
                id: row.get::<i32, _>(4).unwrap_or_default().into(),
                v: row.get::<&str, _>(5).map(str::to_owned),
            })
            .collect();
        changes.sort();
        Ok(changes)
    }

    fn configure(&self, limits: Limits) {
        let mut text = self
            .base
            .replace("chunk_rows = 1000", &format!("chunk_rows = {}", limits.chunk_rows));
        if self.plan.lease {
            text = text.replace("\n[defaults]", &format!("{LEASE}\n[defaults]"));
        }
        for table in &self.watched {
            text += &format!(
                "\n[[table]]\ncapture_instance = \"{}\"\nmax_commits_per_batch = {}\n",
                table.name, limits.max_commits
            );
            text += match self.plan.chain {
                Chain::None => "",
                Chain::Upper => "[[table.transform]]\nplugin = \"upper\"\nconfig = { columns = [\"v\"] }\n",
                Chain::Mask => {
                    "[[table.transform]]\nplugin = \"mask\"\nkeys = [\"pii\"]\n\
                     config = { columns = { id = \"pass\", v = { method = \"hash\", key = \"pii\" } } }\n"
                }
            };
        }
        std::fs::write(self.project.config(), &text).expect("written");
        std::fs::write(self.copied_config(), text.replace(CHECKPOINTS, COPIES)).expect("written");
    }

    fn copied_config(&self) -> PathBuf {
        self.project.path().join("copied.toml")
    }

    fn start(&mut self, arguments: &[&str], at: Option<&Passage>, faults: &[Fault]) -> Process {
        self.start_on(CHECKPOINTS, arguments, at, faults)
    }

    fn start_on(&mut self, checkpoints: &str, arguments: &[&str], at: Option<&Passage>, faults: &[Fault]) -> Process {
        self.processes += 1;
        let marker = self.project.path().join(format!("marker-{}", self.processes));
        let output = self.project.path().join(format!("output-{}", self.processes));
        let file = File::create(&output).expect("created");
        let config = if checkpoints == COPIES {
            self.copied_config()
        } else {
            self.project.config()
        };
        let mut command = Command::new(crate::harness::sluice_binary());
        command
            .args(["run", "--once", "--json", "-c"])
            .arg(config)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a second handle"))
            .stderr(file);
        if let Some(at) = at {
            command
                .env("SLUICE_FAILPOINT", at.to_string())
                .env("SLUICE_FAILPOINT_FILE", &marker);
        }
        if !faults.is_empty() {
            command.env("SLUICE_FAULTS", faults_text(faults));
        }
        if let Some(plant) = self.plant {
            command.env("SLUICE_PLANT", plant);
        }
        Process {
            child: command.spawn().expect("sluice starts"),
            marker,
            output,
        }
    }
}

/// How a run may end that stores make it hard for.
fn codes(faults: &[Fault]) -> &'static [i32] {
    if faults.is_empty() { &[OK] } else { &[OK, RETRYABLE] }
}

/// A run; killed when dropped.
struct Process {
    child: Child,
    marker: PathBuf,
    output: PathBuf,
}

/// How a run ended.
#[derive(Clone, Debug)]
struct Ended {
    code: i32,
    text: String,
}

enum Reached {
    /// It is held at its failpoint.
    There(Process),
    /// It did not pass it.
    Ended(Ended),
}

impl Process {
    fn reach(self) -> Result<Reached, String> {
        self.reach_or_end(true)
    }

    fn reach_or_end(mut self, held: bool) -> Result<Reached, String> {
        if !held {
            return self.end().map(Reached::Ended);
        }
        let happened = wait_for(|| self.marker.exists() || matches!(self.child.try_wait(), Ok(Some(_))));
        ensure!(
            happened,
            "a run neither ends nor reaches its failpoint: {}",
            self.text()
        );
        if self.marker.exists() {
            return Ok(Reached::There(self));
        }
        self.end().map(Reached::Ended)
    }

    fn end(mut self) -> Result<Ended, String> {
        let ended = wait_for(|| matches!(self.child.try_wait(), Ok(Some(_))));
        ensure!(ended, "a run does not end: {}", self.text());
        let status = self.child.wait().map_err(|error| error.to_string())?;
        Ok(Ended {
            code: status.code().unwrap_or(-1),
            text: self.text(),
        })
    }

    fn signal(&mut self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot send SIG{signal}");
    }

    /// Wakes it up, and lets it pass its failpoint.
    fn go_on(&mut self) {
        self.signal("CONT");
        let mut go = self.marker.clone().into_os_string();
        go.push(".go");
        std::fs::write(go, "").expect("written");
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// A process that does not come to renew its lease in time gives its tables up, and has to.
    fn lost_its_lease(&self) -> bool {
        self.code == STATE && self.text.contains("could not be renewed for")
    }

    fn code(self, allowed: &[i32]) -> Result<(), String> {
        ensure!(
            allowed.contains(&self.code) || self.lost_its_lease(),
            "a run ended with {}, allowed is {allowed:?}: {}",
            self.code,
            self.text
        );
        Ok(())
    }
}

fn hex(bytes: Option<&[u8]>) -> String {
    let digits: String = bytes
        .unwrap_or_default()
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    format!("0x{digits}")
}

/// A copy as somebody takes one who does not know that a process writes there: what goes while it is copied is not in it.
fn copy_folder(from: &Path, to: &Path) {
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

/// Seconds since an instant, for people.
pub fn seconds(since: Instant) -> String {
    format!("{:.1} s", since.elapsed().as_secs_f64())
}
