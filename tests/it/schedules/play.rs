//! Plays a schedule with the real process.

use std::fs::File;
use std::path::PathBuf;
use std::process::{self, Stdio};
use std::time::Instant;

use tiberius::Client;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_util::compat::Compat;

use super::check::{Change, Watched, ensure};
use super::fates::Level;
use super::plan::{Action, Chain, Command, Fault, Limits, Passage, Plan, faults_text};
use super::process::{Ended, OK, Process, Reached, STATE, codes};
use crate::harness::{Project, Server, copy_folder};

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
        if matches!(plan.chain, Chain::Upper | Chain::Quarantine) {
            project.plugin("upper", &sluice_test_guests::component("upper"));
        }

        let mut play = Play {
            plan,
            plant,
            watched: (0..plan.tables)
                .map(|table| Watched::new(format!("dbo_t{table}"), plan.chain != Chain::None, plan.level()))
                .collect(),
            client: self.runtime.block_on(self.server.connect(&database)),
            runtime: &self.runtime,
            project,
            base,
            limits: plan.limits,
            level: plan.level(),
            processes: 0,
        };
        play.configure();
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
    limits: Limits,
    /// What the component rejects, where there is one that does.
    level: Option<Level>,
    processes: u32,
}

impl Play<'_> {
    fn act(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Write(commits) => commits.iter().try_for_each(|commit| self.write(commit)),
            Action::Run { command, faults } => self.start(*command, &[], None, faults).end()?.code(codes(faults)),
            Action::Kill { command, at, faults } => match self.start(*command, &[], Some(at), faults).reach()? {
                Reached::There(process) => {
                    drop(process);
                    Ok(())
                }
                Reached::Ended(ended) => ended.code(codes(faults)),
            },
            Action::Hold { commands, at, goes_on } => self.hold(*commands, at, *goes_on),
            Action::Race(commands) => self.race(*commands),
            Action::Neighbours { command, faults } => self.neighbours(*command, faults),
            Action::Copy { held, killed } => self.copy(held.as_ref(), killed.as_ref()),
            Action::Level(level) => {
                self.set_level(*level);
                Ok(())
            }
            Action::Limits(limits) => {
                self.limits = *limits;
                self.configure();
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

    fn hold(&mut self, [first, second]: [Command; 2], at: &Passage, goes_on: bool) -> Result<(), String> {
        let mut first = match self.start(first, &[], Some(at), &[]).reach()? {
            Reached::There(process) => process,
            Reached::Ended(ended) => return ended.code(&[OK]),
        };
        first.signal("STOP");
        let second = self.start(second, &[], None, &[]).end()?;
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

    fn race(&mut self, [one, two]: [Command; 2]) -> Result<(), String> {
        let one = self.start(one, &[], None, &[]);
        let two = self.start(two, &[], None, &[]);
        let (one, two) = (one.end()?, two.end()?);
        ensure!(
            self.plan.tables > 1 || [one.code, two.code] != [STATE, STATE],
            "both were refused: {} {}",
            one.text,
            two.text
        );
        one.code(&[OK, STATE])?;
        two.code(&[OK, STATE])
    }

    fn neighbours(&mut self, command: Command, faults: &[Fault]) -> Result<(), String> {
        let names: Vec<String> = self.watched.iter().map(|table| table.name.clone()).collect();
        let processes: Vec<Process> = names
            .iter()
            .map(|name| self.start(command, &["--table", name], None, faults))
            .collect();
        processes
            .into_iter()
            .try_for_each(|process| process.end()?.code(codes(faults)))
    }

    fn copy(&mut self, held: Option<&(Command, Passage)>, killed: Option<&Passage>) -> Result<(), String> {
        let first = match held {
            None => None,
            Some((command, at)) => match self.start(*command, &[], Some(at), &[]).reach()? {
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
        let second = self.start_on(COPIES, Command::Run, &[], killed, &[]);
        match second.reach_or_end(killed.is_some())? {
            Reached::There(process) => drop(process),
            // The held process may be at a retry, under the number that the run on the copy gave to a range.
            Reached::Ended(ended) if held.is_some() && ended.met_another_batch() => {}
            Reached::Ended(ended) => ended.code(&[OK, STATE])?,
        }
        if let Some(mut first) = first {
            first.go_on();
            first.end()?.code(&[OK, STATE])?;
        }
        self.check()?;
        // Whoever made this mistake goes on, table by table, with the checkpoint that bronze agrees with.
        let own = self.alone(Command::Run)?;
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
            let other = self.alone(Command::Run)?;
            return other
                .code(&[OK])
                .map_err(|error| format!("neither checkpoint goes on: {}\n{error}", own.text));
        }
        std::fs::remove_dir_all(&copies).expect("removed");
        own.code(&[OK])
    }

    /// Two quiet runs, and everything is there.
    fn end(&mut self) -> Result<(), String> {
        self.quiet(Command::Run)?;
        self.check()?;
        let before = self.versions();
        self.quiet(Command::Run)?;
        // Under a lease it claims the table, under the lock it has nothing to say.
        let claims = usize::from(self.plan.lease);
        ensure!(
            self.versions()
                .iter()
                .zip(before)
                .all(|(now, before)| *now <= before + claims),
            "a quiet run leaves versions in bronze or quarantine"
        );
        self.check_end()?;
        self.end_quarantine()
    }

    /// What can come out of quarantine does, and at last everything.
    fn end_quarantine(&mut self) -> Result<(), String> {
        let levels: &[Level] = match self.level {
            None => return Ok(()),
            // What the half level rejected first, the strict one rejects too.
            Some(Level::Strict | Level::Gentle) => &[Level::Gentle],
            Some(Level::Half) => &[Level::Half, Level::Gentle],
        };
        for level in levels {
            self.set_level(*level);
            self.quiet(Command::Retry)?;
            self.check_end()?;
            for table in 0..self.watched.len() {
                let source = self.source(table)?;
                self.watched[table].check_retried(&source)?;
            }
        }
        Ok(())
    }

    fn check_end(&mut self) -> Result<(), String> {
        let lake = self.project.lake();
        for table in 0..self.watched.len() {
            let source = self.source(table)?;
            self.watched[table].check_end(&lake, &source)?;
        }
        Ok(())
    }

    fn quiet(&mut self, command: Command) -> Result<(), String> {
        self.alone(command)?.code(&[OK])
    }

    /// A process that nothing disturbs, again where a busy machine kept it from renewing its lease.
    fn alone(&mut self, command: Command) -> Result<Ended, String> {
        for _ in 0..PATIENCE {
            let ended = self.start(command, &[], None, &[]).end()?;
            if !ended.lost_its_lease() {
                return Ok(ended);
            }
        }
        Err(format!("{PATIENCE} runs could not renew their lease"))
    }

    /// How many entries the logs of bronze and quarantine have.
    fn versions(&self) -> Vec<usize> {
        let names = self
            .watched
            .iter()
            .flat_map(|table| [table.name.clone(), format!("{}__quarantine", table.name)]);
        names
            .map(|name| self.project.bronze(&name).join("_delta_log"))
            .map(|log| std::fs::read_dir(log).map_or(0, Iterator::count))
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

    fn set_level(&mut self, level: Level) {
        self.level = Some(level);
        self.watched.iter_mut().for_each(|table| table.set_level(level));
        self.configure();
    }

    fn configure(&self) {
        let limits = self.limits;
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
            text += &self.transform();
        }
        std::fs::write(self.project.config(), &text).expect("written");
        std::fs::write(self.copied_config(), text.replace(CHECKPOINTS, COPIES)).expect("written");
    }

    fn transform(&self) -> String {
        match (self.plan.chain, self.level) {
            (Chain::None, _) => String::new(),
            (Chain::Quarantine, Some(level)) => {
                let rejected = level.rejected();
                format!(
                    "on_transform_change = \"continue\"\n[[table.transform]]\nplugin = \"upper\"\n\
                     on_error = \"quarantine\"\nconfig = {{ columns = [\"v\"], reject = {rejected:?} }}\n"
                )
            }
            (Chain::Upper | Chain::Quarantine, _) => {
                "[[table.transform]]\nplugin = \"upper\"\nconfig = { columns = [\"v\"] }\n".to_owned()
            }
            (Chain::Mask, _) => "[[table.transform]]\nplugin = \"mask\"\nkeys = [\"pii\"]\n\
                                 config = { columns = { id = \"pass\", v = { method = \"hash\", key = \"pii\" } } }\n"
                .to_owned(),
        }
    }

    fn copied_config(&self) -> PathBuf {
        self.project.path().join("copied.toml")
    }

    fn start(&mut self, command: Command, arguments: &[&str], at: Option<&Passage>, faults: &[Fault]) -> Process {
        self.start_on(CHECKPOINTS, command, arguments, at, faults)
    }

    fn start_on(
        &mut self,
        checkpoints: &str,
        command: Command,
        arguments: &[&str],
        at: Option<&Passage>,
        faults: &[Fault],
    ) -> Process {
        self.processes += 1;
        let marker = self.project.path().join(format!("marker-{}", self.processes));
        let output = self.project.path().join(format!("output-{}", self.processes));
        let file = File::create(&output).expect("created");
        let config = if checkpoints == COPIES {
            self.copied_config()
        } else {
            self.project.config()
        };
        let (name, rest) = match command {
            Command::Run => ("run", ["--once", "--json"]),
            Command::Retry => ("quarantine", ["retry", "--json"]),
        };
        let mut process = process::Command::new(crate::harness::sluice_binary());
        process
            .args([name, "-c"])
            .arg(config)
            .args(arguments)
            .args(rest)
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a second handle"))
            .stderr(file);
        if let Some(at) = at {
            process
                .env("SLUICE_FAILPOINT", at.to_string())
                .env("SLUICE_FAILPOINT_FILE", &marker);
        }
        if !faults.is_empty() {
            process.env("SLUICE_FAULTS", faults_text(faults));
        }
        if let Some(plant) = self.plant {
            process.env("SLUICE_PLANT", plant);
        }
        Process {
            child: process.spawn().expect("sluice starts"),
            marker,
            output,
        }
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

/// Seconds since an instant, for people.
pub fn seconds(since: Instant) -> String {
    format!("{:.1} s", since.elapsed().as_secs_f64())
}
