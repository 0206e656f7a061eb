//! A schedule of the reader: what happens to a table, its server and those who read it, drawn from a seed before anything of
//! it happens.

use std::fmt;

use sluice::failpoint;

use crate::harness::READ;
use crate::schedules::random::Random;

/// 2026-10-25T01:00:00Z, in seconds since 1970: the clocks of Berlin show 02:00 to 03:00 a second time.
pub const CHANGE: i64 = 1_792_890_000;
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

/// Questions of which each can meet an error that passes.
const QUESTIONS: [&str; 6] = [
    READ,
    "SELECT MIN([__$start_lsn])",
    "SELECT TOP (@P1) [start_lsn]",
    "SELECT sys.fn_cdc_get_min_lsn(N",
    "sp_cdc_get_captured_columns",
    "SELECT MAX([__$start_lsn])",
];

/// What happens to `dbo.t` and its stream.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// The server's version. 2019 does not name its zone: sluice.toml does.
    pub version: &'static str,
    /// `on_data_loss = "skip"`. Otherwise the schedule ends with the first loss.
    pub skips: bool,
    /// Updates of keys are recorded as updates (3, 4), not as a delete and an insert.
    pub keys_in_place: bool,
    /// When it begins, in seconds since 1970: before the hour that the clock repeats.
    pub start: i64,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub enum Step {
    /// A transaction on `dbo.t`.
    Commit(Vec<Statement>),
    /// A transaction on `dbo.t` that is rolled back.
    RolledBack(Vec<Statement>),
    /// A transaction on `dbo.t` that stays open while sluice runs; the clock goes on so many seconds after each run.
    Held {
        statements: Vec<Statement>,
        runs: u64,
        seconds: i64,
        committed: bool,
    },
    /// Commits on another table.
    Elsewhere(u64),
    /// The clock goes on, or steps back, so many seconds.
    Clock(i64),
    /// `ALTER TABLE dbo.t ADD`.
    AddColumn,
    /// `ALTER TABLE dbo.t ALTER COLUMN v`, ten characters wider.
    WidenText,
    /// `ALTER TABLE dbo.t DROP COLUMN` of the oldest column that may go.
    DropColumn,
    /// A second capture instance, where there is one.
    Enable,
    /// The older of two capture instances goes.
    Disable,
    /// Cleanup.
    Cleanup(Mark),
    /// Capture stops or goes on.
    Capture { runs: bool },
    /// `run --once`, to its end.
    Run { limits: Limits, faults: Vec<Fault> },
    /// `run --once`, and SIGKILL at a failpoint: `name:n`.
    Kill { limits: Limits, at: String },
}

/// A statement on `dbo.t`. Which rows it is about follows from those that are there then, and from `permille`, a position
/// among them.
#[derive(Clone, Debug)]
pub enum Statement {
    Insert {
        rows: u64,
    },
    Update {
        permille: u64,
        rows: u64,
    },
    Delete {
        permille: u64,
        rows: u64,
    },
    /// Another key for one row.
    MoveKey {
        permille: u64,
    },
}

/// A low water mark.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Its position among the commits: of those that sluice has read, or of all.
    pub permille: u64,
    /// Changes that were not read may go.
    pub unread: bool,
    /// Only the oldest instance of `dbo.t` is cleaned. Otherwise all are, as by the job.
    pub oldest_only: bool,
    /// The other table is cleaned too, so that `cdc.lsn_time_mapping` loses its oldest entries.
    pub mapping: bool,
}

/// How batches are cut.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub max_commits: u64,
    pub partitions: u64,
    pub chunk_rows: u64,
}

/// What a run meets.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The connection that reads a range ends after so many rows: `drop_after_rows`, `reset_in_row`, `silent_after_rows`.
    Broken { kind: &'static str, rows: u64 },
    /// Each row of a range comes so late.
    Slow { ms: u64 },
    /// A question is answered with an error.
    Error {
        number: u32,
        question: &'static str,
        times: u64,
    },
    /// A login is refused.
    Login { number: u32, times: u64 },
    /// A commit on `dbo.t` after so many rows of a read.
    Commit { after_rows: u64, rows: u64 },
    /// Cleanup after so many rows of a read.
    Cleanup { after_rows: u64, mark: Mark },
}

impl Plan {
    pub fn draw(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let mut steps = vec![
            Step::Commit(vec![Statement::Insert {
                rows: random.between(1, 30),
            }]),
            Step::Run {
                limits: draw_limits(&mut random),
                faults: Vec::new(),
            },
        ];
        for _ in 0..random.between(8, 18) {
            draw_steps(&mut random, &mut steps);
        }
        Plan {
            seed,
            version: if random.chance(15) { "2019" } else { "2022" },
            skips: random.chance(50),
            keys_in_place: random.chance(25),
            start: CHANGE - HOUR - random.between(10, 180) as i64 * MINUTE,
            steps,
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}: SQL Server {}, on_data_loss = {}, key updates {}, from {} s before the clock goes back",
            self.seed,
            self.version,
            if self.skips { "skip" } else { "fail" },
            if self.keys_in_place {
                "in place"
            } else {
                "as delete and insert"
            },
            CHANGE - self.start
        )?;
        for (step, number) in self.steps.iter().zip(1..) {
            writeln!(f, "  {number}. {step:?}")?;
        }
        Ok(())
    }
}

/// Adds a step, with what makes it worth while.
fn draw_steps(random: &mut Random, steps: &mut Vec<Step>) {
    let step = match random.between(0, 99) {
        0..=21 => Step::Commit(draw_statements(random)),
        22..=24 => Step::RolledBack(draw_statements(random)),
        25..=30 => Step::Held {
            statements: draw_statements(random),
            runs: random.between(1, 2),
            seconds: random.between(1, 200) as i64,
            committed: random.chance(80),
        },
        31..=34 => Step::Elsewhere(random.between(1, 4)),
        35..=44 => Step::Clock(draw_seconds(random)),
        45..=48 => Step::AddColumn,
        49..=50 => Step::WidenText,
        51..=52 => Step::DropColumn,
        53..=58 => {
            if random.chance(70) {
                steps.push(Step::AddColumn);
                steps.push(Step::Commit(draw_statements(random)));
            }
            steps.push(Step::Enable);
            Step::Commit(draw_statements(random))
        }
        59..=62 => {
            if random.chance(75) {
                steps.push(draw_run(random));
            }
            Step::Disable
        }
        63..=68 => Step::Cleanup(draw_mark(random)),
        69..=73 => Step::Capture {
            runs: random.chance(40),
        },
        74..=82 => {
            steps.push(Step::Commit(draw_statements(random)));
            Step::Kill {
                limits: draw_limits(random),
                at: draw_passage(random),
            }
        }
        _ => draw_run(random),
    };
    // What changes the table is met by a run, before or after the next step.
    let disturbs = matches!(step, Step::Enable | Step::Disable | Step::Cleanup(_) | Step::WidenText);
    steps.push(step);
    if disturbs && random.chance(60) {
        steps.push(Step::Commit(draw_statements(random)));
        steps.push(draw_run(random));
    }
}

fn draw_run(random: &mut Random) -> Step {
    let limits = draw_limits(random);
    let number = if random.chance(55) { random.between(1, 3) } else { 0 };
    let mut faults: Vec<Fault> = (0..number).map(|_| draw_fault(random)).collect();
    // Of what happens at the server during one run, the order is known of one thing only.
    let mut within = false;
    faults.retain(|fault| {
        let is_within = matches!(fault, Fault::Commit { .. } | Fault::Cleanup { .. });
        let stays = !(is_within && within);
        within |= is_within;
        stays
    });
    Step::Run { limits, faults }
}

fn draw_limits(random: &mut Random) -> Limits {
    Limits {
        max_commits: *random.one_of(&[1, 2, 5, 50, 500]),
        partitions: random.between(1, 3),
        chunk_rows: *random.one_of(&[1, 7, 100, 1000]),
    }
}

fn draw_fault(random: &mut Random) -> Fault {
    let rows = if random.chance(50) { 1 } else { random.between(0, 40) };
    match random.between(0, 99) {
        0..=14 => Fault::Broken {
            kind: "drop_after_rows",
            rows,
        },
        15..=29 => Fault::Broken {
            kind: "reset_in_row",
            rows,
        },
        30..=35 => Fault::Broken {
            kind: "silent_after_rows",
            rows,
        },
        36..=42 => Fault::Slow {
            ms: random.between(1, 3),
        },
        43..=62 => Fault::Error {
            number: *random.one_of(&[1205, 1222]),
            question: random.one_of::<&str>(&QUESTIONS),
            times: random.between(1, 2),
        },
        63..=74 => Fault::Login {
            number: *random.one_of(&[40613, 40197, 10928]),
            times: random.between(1, 2),
        },
        75..=87 => Fault::Commit {
            after_rows: rows.max(1),
            rows: random.between(1, 5),
        },
        _ => Fault::Cleanup {
            after_rows: rows.max(1),
            mark: draw_mark(random),
        },
    }
}

fn draw_mark(random: &mut Random) -> Mark {
    Mark {
        permille: random.between(0, 1000),
        unread: random.chance(35),
        oldest_only: random.chance(15),
        mapping: random.chance(60),
    }
}

/// Mostly minutes, sometimes up to two hours; seldom a few seconds back.
fn draw_seconds(random: &mut Random) -> i64 {
    match random.between(0, 9) {
        0..=1 => -(random.between(1, 45) as i64),
        2..=4 => random.between(1, 300) as i64,
        5..=7 => random.between(300, 3600) as i64,
        _ => random.between(3600, 7200) as i64,
    }
}

fn draw_passage(random: &mut Random) -> String {
    let name = *random.one_of(&failpoint::ALL);
    let once = failpoint::ONCE.contains(&name);
    let number = if once || random.chance(65) {
        1
    } else {
        random.between(2, 3)
    };
    format!("{name}:{number}")
}

fn draw_statements(random: &mut Random) -> Vec<Statement> {
    let count = if random.chance(65) { 1 } else { random.between(2, 4) };
    (0..count).map(|_| draw_statement(random)).collect()
}

fn draw_statement(random: &mut Random) -> Statement {
    let rows = match random.between(0, 9) {
        0..=4 => random.between(1, 3),
        5..=8 => random.between(4, 40),
        _ => random.between(100, 300),
    };
    let permille = random.between(0, 999);
    match random.between(0, 9) {
        0..=3 => Statement::Insert { rows },
        4..=6 => Statement::Update { permille, rows },
        7..=8 => Statement::Delete {
            permille,
            rows: rows.min(20),
        },
        _ => Statement::MoveKey { permille },
    }
}
