//! A schedule: what happens, drawn from a seed before anything of it happens.

use std::fmt;

use sluice::failpoint::{self, faults};

use super::fates::Level;
use super::random::Random;
use super::source::{Source, draw_commits};

/// Of so many seeds, the last has a component that rejects rows.
const QUARANTINE_EVERY: u64 = 3;
/// What it rejects at first.
const FIRST_LEVEL: Level = Level::Strict;

/// What happens to one or two tables of one configuration.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub tables: usize,
    pub chain: Chain,
    /// Whether a stream is owned by a lease. Otherwise by the operating system's lock.
    pub lease: bool,
    pub limits: Limits,
    pub actions: Vec<Action>,
}

/// What the tables' changes pass. To compile a component is most of what a short run costs, so most have a small one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// No transform.
    None,
    /// `v` in upper case.
    Upper,
    /// `v` masked.
    Mask,
    /// `v` in upper case, but for values that the level rejects: their rows go into quarantine.
    Quarantine,
}

/// What a process is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `run --once`.
    Run,
    /// `quarantine retry`.
    Retry,
}

/// How batches are cut.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub chunk_rows: u64,
    pub max_commits: u64,
}

#[derive(Clone, Debug)]
pub enum Action {
    /// Commits on the source, each a statement or a transaction.
    Write(Vec<String>),
    /// A process, to its end.
    Run { command: Command, faults: Vec<Fault> },
    /// A process, and SIGKILL where it passes a failpoint for the n-th time.
    Kill {
        command: Command,
        at: Passage,
        faults: Vec<Fault>,
    },
    /// The first process is held at a failpoint and stopped with SIGSTOP. The second has to be refused where a lock says who
    /// owns the stream, and takes over where a lease does. Then the first goes on, or is killed.
    Hold {
        commands: [Command; 2],
        at: Passage,
        goes_on: bool,
    },
    /// Two processes at once on one checkpoint.
    Race([Command; 2]),
    /// A process for each table, at once: they share facts and control table only.
    Neighbours { command: Command, faults: Vec<Fault> },
    /// The checkpoint is copied, while a process is held at a failpoint or while there is none. A run on the copy ends or is
    /// killed; the held one goes on. Of the two checkpoints the one that can goes on.
    Copy {
        held: Option<(Command, Passage)>,
        killed: Option<Passage>,
    },
    /// The component rejects other values from here on.
    Level(Level),
    /// Other limits from here on.
    Limits(Limits),
}

/// The n-th time that a process passes a failpoint.
#[derive(Clone, Debug)]
pub struct Passage {
    pub name: &'static str,
    pub number: u64,
}

/// The n-th time that a process passes a site of faults, up to the m-th.
#[derive(Clone, Debug)]
pub struct Fault {
    pub site: &'static str,
    pub first: u64,
    pub last: u64,
    pub name: &'static str,
}

impl Plan {
    pub fn draw(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let tables = if random.chance(35) { 2 } else { 1 };
        let drawn = *random.one_of(&[Chain::None, Chain::Upper, Chain::Upper, Chain::Mask]);
        let chain = if Plan::quarantines(seed) {
            Chain::Quarantine
        } else {
            drawn
        };
        let lease = random.chance(35);
        let limits = draw_limits(&mut random);
        let mut rows = vec![Source::new(chain == Chain::Quarantine); tables];
        let mut level = FIRST_LEVEL;
        let mut actions = vec![draw_write(&mut random, &mut rows)];
        if chain == Chain::Quarantine && random.chance(60) {
            // Then there is something to retry.
            actions.push(Action::Run {
                command: Command::Run,
                faults: Vec::new(),
            });
        }
        let last = random.between(3, 7);
        for number in 0..last {
            let action = match chain {
                Chain::Quarantine => draw_with_quarantine(&mut random, tables, level, &mut rows),
                _ => draw_action(&mut random, tables, &mut rows),
            };
            // A run that finds nothing new says little.
            let writes = matches!(actions.last(), Some(Action::Write(_))) || matches!(action, Action::Write(_));
            if number > 0 && !writes && random.chance(75) {
                actions.push(draw_write(&mut random, &mut rows));
            }
            let mut next = Some(action);
            while let Some(action) = next.take() {
                if chain == Chain::Quarantine {
                    next = draw_what_follows(&mut random, &mut level, &action);
                }
                actions.push(action);
            }
        }
        Plan {
            seed,
            tables,
            chain,
            lease,
            limits,
            actions,
        }
    }

    /// Whether the schedule of a seed has a component that rejects rows.
    pub fn quarantines(seed: u64) -> bool {
        seed.is_multiple_of(QUARANTINE_EVERY)
    }

    /// What the component rejects at first.
    pub fn level(&self) -> Option<Level> {
        (self.chain == Chain::Quarantine).then_some(FIRST_LEVEL)
    }
}

fn draw_limits(random: &mut Random) -> Limits {
    Limits {
        chunk_rows: *random.one_of(&[1, 2, 3, 1000]),
        max_commits: *random.one_of(&[1, 2, 3, 100]),
    }
}

fn draw_write(random: &mut Random, rows: &mut [Source]) -> Action {
    Action::Write(draw_commits(random, rows))
}

fn draw_action(random: &mut Random, tables: usize, rows: &mut [Source]) -> Action {
    let command = Command::Run;
    loop {
        return match random.between(0, 99) {
            0..=11 => draw_write(random, rows),
            12..=29 => Action::Run {
                command,
                faults: draw_faults(random, 85, draw_fault),
            },
            30..=54 => Action::Kill {
                command,
                at: draw_passage(random),
                faults: draw_faults(random, 40, draw_fault),
            },
            55..=68 => Action::Hold {
                commands: [command; 2],
                at: draw_passage(random),
                goes_on: random.chance(70),
            },
            69..=74 => Action::Race([command; 2]),
            75..=82 if tables > 1 => Action::Neighbours {
                command,
                faults: draw_faults(random, 30, draw_fault),
            },
            83..=93 => Action::Copy {
                held: random.chance(75).then(|| (command, draw_passage(random))),
                killed: random.chance(60).then(|| draw_passage(random)),
            },
            94..=99 => Action::Limits(draw_limits(random)),
            _ => continue,
        };
    }
}

/// The same where a component rejects rows.
fn draw_with_quarantine(random: &mut Random, tables: usize, level: Level, rows: &mut [Source]) -> Action {
    loop {
        return match random.between(0, 99) {
            0..=8 => draw_write(random, rows),
            9..=22 => Action::Run {
                command: draw_command(random),
                faults: draw_faults(random, 60, draw_quarantine_fault),
            },
            23..=45 => Action::Kill {
                command: draw_command(random),
                at: draw_quarantine_passage(random),
                faults: draw_faults(random, 25, draw_quarantine_fault),
            },
            46..=57 => Action::Hold {
                commands: [draw_command(random), draw_command(random)],
                at: draw_quarantine_passage(random),
                goes_on: random.chance(70),
            },
            58..=62 => Action::Race([draw_command(random), draw_command(random)]),
            63..=68 if tables > 1 => Action::Neighbours {
                command: draw_command(random),
                faults: draw_faults(random, 30, draw_quarantine_fault),
            },
            69..=77 => Action::Copy {
                held: random
                    .chance(75)
                    .then(|| (draw_command(random), draw_quarantine_passage(random))),
                killed: random.chance(60).then(|| draw_quarantine_passage(random)),
            },
            78..=95 => draw_level(random, level),
            96..=99 => Action::Limits(draw_limits(random)),
            _ => continue,
        };
    }
}

/// What makes more of an action: a batch that was begun is planned anew, and what was rejected is retried.
fn draw_what_follows(random: &mut Random, level: &mut Level, action: &Action) -> Option<Action> {
    match action {
        Action::Kill { .. } if random.chance(40) => Some(draw_level(random, *level)),
        Action::Level(drawn) => {
            *level = *drawn;
            Some(draw_after_a_level(random))
        }
        _ => None,
    }
}

fn draw_level(random: &mut Random, level: Level) -> Action {
    let others: Vec<Level> = Level::ALL.into_iter().filter(|other| *other != level).collect();
    Action::Level(*random.one_of(&others))
}

/// A retry, half of them killed when quarantine says what bronze does not have, or a run.
fn draw_after_a_level(random: &mut Random) -> Action {
    let command = Command::Retry;
    let faults = Vec::new();
    match random.between(0, 3) {
        0 => Action::Run { command, faults },
        1..=2 => {
            let name = *random.one_of(&[failpoint::AFTER_QUARANTINE, failpoint::BEFORE_COMMIT]);
            let at = Passage { name, number: 1 };
            Action::Kill { command, at, faults }
        }
        _ => Action::Run {
            command: Command::Run,
            faults,
        },
    }
}

fn draw_command(random: &mut Random) -> Command {
    if random.chance(35) {
        Command::Retry
    } else {
        Command::Run
    }
}

fn draw_passage(random: &mut Random) -> Passage {
    let name = *random.one_of(&failpoint::ALL);
    let once = failpoint::ONCE.contains(&name);
    Passage {
        name,
        number: if once || random.chance(60) {
            1
        } else {
            random.between(2, 3)
        },
    }
}

/// Often where the rows are in quarantine, or about to be, and not in bronze. Under a lease, the first passage before an entry in
/// quarantine is the claim of the number.
fn draw_quarantine_passage(random: &mut Random) -> Passage {
    let [before, after] = failpoint::QUARANTINE;
    if random.chance(50) {
        return draw_passage(random);
    }
    let name = *random.one_of(&[before, after, after, failpoint::BEFORE_COMMIT]);
    Passage {
        name,
        number: if random.chance(75) { 1 } else { 2 },
    }
}

fn draw_faults(random: &mut Random, percent: u64, draw: fn(&mut Random) -> Fault) -> Vec<Fault> {
    if !random.chance(percent) {
        return Vec::new();
    }
    let number = random.between(1, 3);
    (0..number).map(|_| draw(random)).collect()
}

/// A store says that it did not do it, or does not know, or does it later.
const PUTS: [&str; 6] = [
    "reply-lost",
    "not-written",
    "conflict",
    "written-later",
    "disk-full",
    "io",
];

fn draw_quarantine_fault(random: &mut Random) -> Fault {
    if random.chance(65) {
        return draw_fault(random);
    }
    let name = *random.one_of(&PUTS);
    let first = random.between(1, 3);
    Fault {
        site: faults::QUARANTINE_PUT,
        first,
        last: first + random.between(0, 1),
        name,
    }
}

fn draw_fault(random: &mut Random) -> Fault {
    let (site, names): (_, &[&'static str]) = match random.between(0, 9) {
        0..=2 => (faults::BRONZE_PUT, &PUTS),
        3..=4 => (faults::FACTS_PUT, &PUTS),
        5 => (faults::CONTROL_PUT, &PUTS),
        6 => (faults::DELTA_READ, &["not-written", "io"]),
        // A local file system does not say that something is there when it is not.
        7..=8 => (
            faults::CHECKPOINT_WRITE,
            &["reply-lost", "not-written", "written-later", "disk-full", "io"],
        ),
        _ => (
            faults::DATA_FILE_WRITE,
            &["reply-lost", "not-written", "disk-full", "io"],
        ),
    };
    let name = *random.one_of(names);
    let first = random.between(1, if site == faults::DELTA_READ { 20 } else { 6 });
    let last = if random.chance(20) {
        first + random.between(1, 2)
    } else {
        first
    };
    Fault {
        site,
        first,
        last,
        name,
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = if self.lease { "lease" } else { "lock" };
        let chain = match self.chain {
            Chain::None => "no transform",
            Chain::Upper => "upper",
            Chain::Mask => "mask",
            Chain::Quarantine => "upper and quarantine",
        };
        writeln!(
            f,
            "seed {}: {} table(s), {chain}, {owner}, {}",
            self.seed, self.tables, self.limits
        )?;
        for (action, number) in self.actions.iter().zip(1..) {
            writeln!(f, "  {number}. {action}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Write(commits) => {
                let count = commits.len();
                write!(f, "{count} commit(s) on the source")?;
                commits.iter().try_for_each(|commit| write!(f, "\n       {commit}"))
            }
            Action::Run { command, faults } => write!(f, "{command}{}", Listed(faults)),
            Action::Kill { command, at, faults } => write!(f, "{command}, SIGKILL at {at}{}", Listed(faults)),
            Action::Hold { commands, at, goes_on } => {
                let [first, second] = commands;
                let then = if *goes_on { "it goes on" } else { "SIGKILL" };
                write!(f, "{first}, SIGSTOP at {at}, another process ({second}), then {then}")
            }
            Action::Race([one, two]) => write!(f, "{one} and {two} at once"),
            Action::Neighbours { command, faults } => {
                write!(f, "{command} for each table, at once{}", Listed(faults))
            }
            Action::Copy { held, killed } => {
                write!(f, "copy the checkpoint")?;
                if let Some((command, at)) = held {
                    write!(f, " while {command} is held at {at}")?;
                }
                write!(f, ", run on the copy")?;
                if let Some(at) = killed {
                    write!(f, ", SIGKILL at {at}")?;
                }
                Ok(())
            }
            Action::Level(level) => write!(f, "from here on {level}"),
            Action::Limits(limits) => write!(f, "from here on {limits}"),
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Command::Run => "run",
            Command::Retry => "quarantine retry",
        })
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limits {
            chunk_rows,
            max_commits,
        } = self;
        write!(f, "chunk_rows {chunk_rows}, max_commits_per_batch {max_commits}")
    }
}

impl fmt::Display for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.number)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}-{}={}", self.site, self.first, self.last, self.name)
    }
}

/// As the environment of a process wants them.
pub fn faults_text(faults: &[Fault]) -> String {
    faults.iter().map(Fault::to_string).collect::<Vec<_>>().join(",")
}

struct Listed<'a>(&'a [Fault]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => Ok(()),
            faults => write!(f, ", with {}", faults_text(faults)),
        }
    }
}
