//! Plays a schedule with the real processes.

use std::collections::BTreeSet;

use super::check::{self, Seen, Until};
use super::model::{Drawn, Model, What};
use super::plan::{CHANGE, Fault, Limits, Mark, Plan, Statement, Step};
use super::process::{Ended, once};
use super::sql::{Connection, DATABASE, cleanup_text, clock_text, hex, lsns, rows, run, within_read};
use crate::harness::{Project, READ, Server};

const OK: i32 = 0;
const DATA_LOSS: i32 = 4;

/// The hour before the clock goes back, its repetition, and a little around both. An idle database has an entry every five
/// minutes; so has this one there.
const NIGHT: std::ops::Range<i64> = CHANGE - 3600 - 300..CHANGE + 3600 + 300;
const BETWEEN_ENTRIES: i64 = 240;
/// So close to the change the clock does not step back: it would show the first pass after the second.
const NOT_BACK: i64 = 900;

/// How batches are cut where it does not matter.
pub const AT_THE_END: Limits = Limits {
    max_commits: 500,
    partitions: 1,
    chunk_rows: 1000,
};

/// A name, and what makes a model say something else than what happened.
pub type Lie = (&'static str, fn(&mut Model));

/// Plays a schedule. What went wrong, in words.
pub async fn play(plan: &Plan) -> Result<(), String> {
    played(plan).await.map(|_| ())
}

/// Plays a schedule, and holds what it left against models that are not quite what happened: those that pass all the same.
pub async fn unnoticed(plan: &Plan, lies: &[Lie]) -> Result<Vec<&'static str>, String> {
    let play = played(plan).await?;
    let passes = |lie: fn(&mut Model)| {
        let mut model = play.model.clone();
        lie(&mut model);
        Seen::default().check(&play.project, &model, Until::Facts(None)).is_ok()
    };
    Ok(lies
        .iter()
        .filter(|(_, lie)| passes(*lie))
        .map(|(name, _)| *name)
        .collect())
}

async fn played(plan: &Plan) -> Result<Play<'_>, String> {
    let mut play = Play::set_up(plan).await?;
    for (step, number) in plan.steps.iter().zip(1..) {
        let played = play.step(step).await;
        played.map_err(|error| format!("step {number}: {error}"))?;
        if play.is_over {
            return Ok(play);
        }
    }
    play.end().await.map_err(|error| format!("at the end: {error}"))?;
    Ok(play)
}

struct Play<'a> {
    plan: &'a Plan,
    server: Server,
    client: Connection,
    project: Project,
    /// The configuration without its table.
    base: String,
    model: Model,
    seen: Seen,
    /// The server's clock, in seconds since 1970.
    now: i64,
    captures: bool,
    /// Rows of the other table.
    elsewhere: u64,
    /// A loss was reported, and the schedule is one that ends with it.
    is_over: bool,
}

impl Play<'_> {
    async fn set_up(plan: &Plan) -> Result<Play<'_>, String> {
        let server = Server::start(&["--version", plan.version, "--time-zone", "Europe/Berlin"]);
        server.exec("master", &clock_text(plan.start)).await;
        server.database(DATABASE).await;
        if plan.keys_in_place {
            server.exec(DATABASE, "EXEC sim.key_update N'before_after'").await;
        }
        let columns = "id int NOT NULL PRIMARY KEY, v nvarchar(20) NULL, w int NULL";
        server.table(DATABASE, "t", columns).await;
        server.table(DATABASE, "other", "id int NOT NULL PRIMARY KEY").await;
        let project = Project::new(&server, DATABASE);
        let base = std::fs::read_to_string(project.config()).expect("readable");
        let mut client = server.connect(DATABASE).await;
        let last = "SELECT sys.fn_cdc_get_max_lsn()";
        let last = lsns(&mut client, last).await?.pop().flatten();
        Ok(Play {
            plan,
            server,
            client,
            project,
            base,
            model: Model::new(last.ok_or("a server without a commit")?, plan.keys_in_place),
            seen: Seen::default(),
            now: plan.start,
            captures: true,
            elsewhere: 0,
            is_over: false,
        })
    }

    async fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Commit(statements) => {
                let drawn = self.model.draw(statements);
                run(&mut self.client, &drawn.transaction()).await?;
                self.model.commit(drawn, self.now);
            }
            Step::RolledBack(statements) => {
                let drawn = self.model.draw(statements);
                let text = format!("BEGIN TRANSACTION; {}; ROLLBACK", drawn.sql.join("; "));
                run(&mut self.client, &text).await?;
            }
            Step::Held {
                statements,
                runs,
                seconds,
                committed,
            } => self.hold(statements, *runs, *seconds, *committed).await?,
            Step::Elsewhere(commits) => {
                for _ in 0..*commits {
                    self.write_elsewhere().await?;
                }
            }
            Step::Clock(seconds) => self.advance(*seconds).await?,
            Step::AddColumn => {
                let text = self.model.add_column();
                run(&mut self.client, &text).await?;
            }
            Step::WidenText => {
                let text = self.model.widen_text();
                run(&mut self.client, &text).await?;
            }
            Step::DropColumn => {
                if let Some(text) = self.model.drop_column() {
                    run(&mut self.client, &text).await?;
                }
            }
            Step::Enable => self.enable().await?,
            Step::Disable => self.disable().await?,
            Step::Cleanup(mark) => {
                if let Some(text) = self.cleanup(*mark)? {
                    run(&mut self.client, &text).await?;
                }
            }
            Step::Capture { runs } => self.capture(*runs).await?,
            Step::Run { limits, faults } => self.run(*limits, faults).await?,
            Step::Kill { limits, at } => {
                self.configure(*limits);
                self.project.kill_at(at);
            }
        }
        self.observe().await
    }

    /// A transaction that is open while sluice runs. The stand-in has one writer a database, so nobody else writes.
    async fn hold(&mut self, statements: &[Statement], runs: u64, seconds: i64, committed: bool) -> Result<(), String> {
        let drawn = self.model.draw(statements);
        let mut holder = self.server.connect(DATABASE).await;
        let text = format!("BEGIN TRANSACTION; {}", drawn.sql.join("; "));
        run(&mut holder, &text).await?;
        for _ in 0..runs {
            self.run(AT_THE_END, &[]).await?;
            if self.is_over {
                return Ok(());
            }
            self.set_clock(self.now + seconds).await?;
        }
        if committed {
            run(&mut holder, "COMMIT").await?;
            self.model.commit(drawn, self.now);
        } else {
            run(&mut holder, "ROLLBACK").await?;
        }
        Ok(())
    }

    async fn write_elsewhere(&mut self) -> Result<(), String> {
        self.elsewhere += 1;
        let text = format!("INSERT INTO dbo.other VALUES ({})", self.elsewhere);
        run(&mut self.client, &text).await?;
        self.model.enter(self.now, What::Elsewhere);
        Ok(())
    }

    /// The clock goes on. Around the repeated hour, and after a step back, there are entries that show it.
    async fn advance(&mut self, seconds: i64) -> Result<(), String> {
        if seconds < 0 {
            let close = (self.now - CHANGE).abs() < NOT_BACK;
            let by = if close { -seconds } else { seconds };
            self.set_clock(self.now + by).await?;
            return self.write_elsewhere().await;
        }
        let target = self.now + seconds;
        while self.now < target {
            let next = match self.now {
                before if before < NIGHT.start => target.min(NIGHT.start),
                within if within < NIGHT.end => target.min(within + BETWEEN_ENTRIES),
                _ => target,
            };
            self.set_clock(next).await?;
            if NIGHT.contains(&next) {
                self.write_elsewhere().await?;
            }
        }
        Ok(())
    }

    async fn set_clock(&mut self, to: i64) -> Result<(), String> {
        run(&mut self.client, &clock_text(to)).await?;
        self.now = to;
        Ok(())
    }

    async fn enable(&mut self) -> Result<(), String> {
        let Some(name) = self.model.enable(self.now) else {
            return Ok(());
        };
        let text = format!(
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N't', @role_name = NULL, \
             @capture_instance = N'{name}'; GRANT SELECT ON [cdc].[{name}_CT] TO [reader]"
        );
        run(&mut self.client, &text).await
    }

    /// The older instance goes. What was not captured yet would go with it, without a trace; so capture runs.
    async fn disable(&mut self) -> Result<(), String> {
        self.capture(true).await?;
        let Some(name) = self.model.disable() else {
            return Ok(());
        };
        let text = format!(
            "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N't', @capture_instance = N'{name}'"
        );
        run(&mut self.client, &text).await
    }

    async fn capture(&mut self, runs: bool) -> Result<(), String> {
        self.captures = runs;
        let text = format!("EXEC sim.capture @runs = {}", u8::from(runs));
        run(&mut self.client, &text).await?;
        self.observe().await
    }

    /// Cleanup to a mark, as SQL; `None` where there is nothing to clean.
    fn cleanup(&self, mark: Mark) -> Result<Option<String>, String> {
        let read = check::end(&self.project)?;
        Ok(cleanup_text(&self.model, mark, read.as_deref()))
    }

    /// `sluice run --once`, with faults that are gone after it.
    async fn run(&mut self, limits: Limits, faults: &[Fault]) -> Result<(), String> {
        self.configure(limits);
        let captured = self.model.entries.iter().rev().find_map(|entry| entry.lsn.clone());
        let mut within = None;
        for fault in faults {
            within = self.arm(fault).await?.or(within);
        }
        let ended = once(&self.project)?;
        if !faults.is_empty() {
            run(&mut self.client, "EXEC sim.fault @kind = N'clear'").await?;
        }
        if let Some(drawn) = within {
            let first = drawn.first_id.ok_or("a commit that inserts nothing")?;
            let there = format!("SELECT id FROM dbo.t WHERE id = {first}");
            if !rows(&mut self.client, &there).await?.is_empty() {
                self.model.commit(drawn, self.now);
            }
        }
        self.observe().await?;
        self.judge(&ended, captured.as_deref())
    }

    /// Arms a fault for the next run. What is committed in the middle of it, if something is.
    async fn arm(&mut self, fault: &Fault) -> Result<Option<Drawn>, String> {
        let read = format!("@match = N'{READ}'");
        let mut within = None;
        let rest = match fault {
            Fault::Broken { kind, rows } => format!("N'{kind}', @rows = {rows}, {read}"),
            Fault::Slow { ms } => format!("N'slow_rows', @ms = {ms}, {read}"),
            Fault::Error {
                number,
                question,
                times,
            } => format!("N'error', @number = {number}, @times = {times}, @match = N'{question}'"),
            Fault::Login { number, times } => format!("N'login_fail', @number = {number}, @times = {times}"),
            Fault::Commit { after_rows, rows } => {
                let drawn = self.model.draw(&[Statement::Insert { rows: *rows }]);
                let text = within_read(*after_rows, &drawn.transaction(), &read);
                within = Some(drawn);
                text
            }
            Fault::Cleanup { after_rows, mark } => match self.cleanup(*mark)? {
                Some(text) => within_read(*after_rows, &text, &read),
                None => return Ok(None),
            },
        };
        let text = format!("EXEC sim.fault @login = N'reader', @kind = {rest}");
        run(&mut self.client, &text).await?;
        Ok(within)
    }

    /// How a run may end: well, and then everything is right; or with a loss, where there was one.
    fn judge(&mut self, ended: &Ended, captured: Option<&str>) -> Result<(), String> {
        let said = &ended.text;
        match ended.code {
            OK => {
                let checked = self.seen.check(&self.project, &self.model, Until::Facts(captured));
                checked.map_err(|error| format!("{error}\n{said}"))
            }
            DATA_LOSS if !self.plan.skips => {
                let end = check::end(&self.project)?;
                ensure!(
                    self.model.may_have_lost(end.as_deref()),
                    "a run that was at {end:?} reports a loss, and nothing after it is gone\n{said}"
                );
                self.is_over = true;
                let checked = self.seen.check(&self.project, &self.model, Until::Bronze);
                checked.map_err(|error| format!("after a loss: {error}\n{said}"))
            }
            code => Err(format!("a run ended with {code}\n{said}")),
        }
    }

    /// Asks the server which LSNs it gave, and what cleanup left.
    async fn observe(&mut self) -> Result<(), String> {
        let text = format!(
            "SELECT [start_lsn], [tran_id] FROM [cdc].[lsn_time_mapping] WHERE [start_lsn] > {} ORDER BY [start_lsn]",
            self.model.seen
        );
        let mut new = Vec::new();
        for row in rows(&mut self.client, &text).await? {
            let lsn = hex(row.get(0)).ok_or("a commit without an LSN")?;
            self.model.seen.clone_from(&lsn);
            // The agent's own entries are nobody's commit.
            let id: &[u8] = row.get(1).unwrap_or_default();
            if id.iter().any(|byte| *byte != 0) {
                new.push(lsn);
            }
        }
        self.model.captured(new)?;
        let pending = self.model.entries.iter().filter(|entry| entry.lsn.is_none()).count();
        ensure!(
            pending == 0 || !self.captures,
            "{pending} commits have no entry in cdc.lsn_time_mapping, though capture runs"
        );
        let mut text = "SELECT (SELECT MIN([start_lsn]) FROM [cdc].[lsn_time_mapping]), \
                        sys.fn_cdc_get_min_lsn(N'dbo_other')"
            .to_owned();
        for instance in self.model.living() {
            text.push_str(&format!(", sys.fn_cdc_get_min_lsn(N'{}')", instance.name));
        }
        let mut low = lsns(&mut self.client, &text).await?.into_iter();
        self.model.oldest = low.next().flatten().ok_or("a mapping without entries")?;
        self.model.other_low = low.next().flatten();
        for instance in self.model.instances.iter_mut().filter(|instance| !instance.gone) {
            instance.low = low.next().flatten();
        }
        Ok(())
    }

    fn configure(&self, limits: Limits) {
        let Limits {
            max_commits,
            partitions,
            chunk_rows,
        } = limits;
        let zone = match self.plan.version {
            "2019" => "source_time_zone = \"W. Europe Standard Time\"\n",
            _ => "",
        };
        let on_data_loss = if self.plan.skips { "skip" } else { "fail" };
        let mut text = self
            .base
            .replace("[source]\n", &format!("[source]\ncommand_timeout = \"3s\"\n{zone}"))
            .replace("chunk_rows = 1000", &format!("chunk_rows = {chunk_rows}"));
        text += &format!(
            "\n[[table]]\ncapture_instance = \"dbo_t\"\nmax_commits_per_batch = {max_commits}\n\
             num_partitions = {partitions}\non_data_loss = \"{on_data_loss}\"\n"
        );
        std::fs::write(self.project.config(), text).expect("written");
    }

    /// All goes well again, and another commit comes: then everything is there, and nothing is wrong.
    async fn end(&mut self) -> Result<(), String> {
        self.capture(true).await?;
        self.advance(60).await?;
        self.step(&Step::Commit(vec![Statement::Insert { rows: 1 }])).await?;
        self.run(AT_THE_END, &[]).await?;
        if self.is_over {
            return Ok(());
        }
        let history = "SELECT [ddl_lsn] FROM [cdc].[ddl_history]";
        let mut ddl = BTreeSet::new();
        for row in rows(&mut self.client, history).await? {
            ddl.insert(hex(row.get(0)).ok_or("DDL without an LSN")?);
        }
        check::check_end(&self.project, &self.model, &ddl)?;
        let doctor = self.project.run("doctor", &[]);
        ensure!(
            doctor.code == OK,
            "sluice doctor ends with {}: {}\n{}",
            doctor.code,
            doctor.stdout,
            doctor.stderr
        );
        Ok(())
    }
}
