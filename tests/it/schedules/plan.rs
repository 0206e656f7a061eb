//! A schedule: what happens, drawn from a seed before anything of it happens.

use std::collections::BTreeSet;
use std::fmt;

use sluice::failpoint::{self, faults};

use super::random::Random;

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
    /// `run --once`, to its end.
    Run { faults: Vec<Fault> },
    /// `run --once`, and SIGKILL where it passes a failpoint for the n-th time.
    Kill { at: Passage, faults: Vec<Fault> },
    /// A run is held at a failpoint and stopped with SIGSTOP. Another one has to be refused where a lock says who owns the
    /// stream, and takes over where a lease does. Then the first goes on, or is killed.
    Hold { at: Passage, goes_on: bool },
    /// Two runs at once on one checkpoint.
    Race,
    /// A run for each table, at once: they share facts and control table only.
    Neighbours { faults: Vec<Fault> },
    /// The checkpoint is copied, while a run is held at a failpoint or while there is none. A run on the copy ends or is
    /// killed; the held one goes on. Of the two checkpoints the one that can goes on.
    Copy {
        held: Option<Passage>,
        killed: Option<Passage>,
    },
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
        let chain = *random.one_of(&[Chain::None, Chain::Upper, Chain::Upper, Chain::Mask]);
        let lease = random.chance(35);
        let limits = draw_limits(&mut random);
        let mut rows = vec![Source::default(); tables];
        let mut actions = vec![draw_write(&mut random, &mut rows)];
        let last = random.between(3, 7);
        for number in 0..last {
            let action = draw_action(&mut random, tables, &mut rows);
            // A run that finds nothing new says little.
            let writes = matches!(actions.last(), Some(Action::Write(_))) || matches!(action, Action::Write(_));
            if number > 0 && !writes && random.chance(75) {
                actions.push(draw_write(&mut random, &mut rows));
            }
            actions.push(action);
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
}

/// The rows that a table of the source has, so that what is drawn can be done.
#[derive(Clone, Debug, Default)]
struct Source {
    ids: BTreeSet<u64>,
    newest: u64,
    texts: u64,
}

fn draw_limits(random: &mut Random) -> Limits {
    Limits {
        chunk_rows: *random.one_of(&[1, 2, 3, 1000]),
        max_commits: *random.one_of(&[1, 2, 3, 100]),
    }
}

fn draw_action(random: &mut Random, tables: usize, rows: &mut [Source]) -> Action {
    loop {
        return match random.between(0, 99) {
            0..=11 => draw_write(random, rows),
            12..=29 => Action::Run {
                faults: draw_faults(random, 85),
            },
            30..=54 => Action::Kill {
                at: draw_passage(random),
                faults: draw_faults(random, 40),
            },
            55..=68 => Action::Hold {
                at: draw_passage(random),
                goes_on: random.chance(70),
            },
            69..=74 => Action::Race,
            75..=82 if tables > 1 => Action::Neighbours {
                faults: draw_faults(random, 30),
            },
            83..=93 => Action::Copy {
                held: random.chance(75).then(|| draw_passage(random)),
                killed: random.chance(60).then(|| draw_passage(random)),
            },
            94..=99 => Action::Limits(draw_limits(random)),
            _ => continue,
        };
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

fn draw_faults(random: &mut Random, percent: u64) -> Vec<Fault> {
    if !random.chance(percent) {
        return Vec::new();
    }
    let number = random.between(1, 3);
    (0..number).map(|_| draw_fault(random)).collect()
}

fn draw_fault(random: &mut Random) -> Fault {
    let puts = [
        "reply-lost",
        "not-written",
        "conflict",
        "written-later",
        "disk-full",
        "io",
    ];
    let (site, names): (_, &[&'static str]) = match random.between(0, 9) {
        0..=2 => (faults::BRONZE_PUT, &puts),
        3..=4 => (faults::FACTS_PUT, &puts),
        5 => (faults::CONTROL_PUT, &puts),
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

/// One to five commits.
fn draw_write(random: &mut Random, rows: &mut [Source]) -> Action {
    let commits = random.between(1, 5);
    let drawn = (0..commits).map(|_| {
        let table = random.between(0, rows.len() as u64 - 1) as usize;
        let source = &mut rows[table];
        if random.chance(25) {
            let statements: Vec<String> = (0..random.between(2, 3)).map(|_| source.draw(random, table)).collect();
            format!("BEGIN TRANSACTION; {}; COMMIT", statements.join("; "))
        } else {
            source.draw(random, table)
        }
    });
    Action::Write(drawn.collect())
}

impl Source {
    /// A statement on `{0}` or `{1}`, the tables.
    fn draw(&mut self, random: &mut Random, table: usize) -> String {
        let some = |random: &mut Random, ids: &BTreeSet<u64>| {
            let skip = random.between(0, ids.len() as u64 - 1) as usize;
            let take = random.between(1, 3) as usize;
            ids.iter().copied().skip(skip).take(take).collect::<Vec<u64>>()
        };
        let listed = |ids: &[u64]| ids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        self.texts += 1;
        match random.between(0, 9) {
            6..=7 if !self.ids.is_empty() => {
                let ids = some(random, &self.ids);
                format!(
                    "UPDATE {{{table}}} SET v = N'u{}' WHERE id IN ({})",
                    self.texts,
                    listed(&ids)
                )
            }
            8..=9 if self.ids.len() > 3 => {
                let ids = some(random, &self.ids);
                self.ids.retain(|id| !ids.contains(id));
                format!("DELETE FROM {{{table}}} WHERE id IN ({})", listed(&ids))
            }
            _ => {
                let first = self.newest + 1;
                self.newest += random.between(1, 4);
                self.ids.extend(first..=self.newest);
                let values: Vec<String> = (first..=self.newest).map(|id| format!("({id}, N'v{id}')")).collect();
                format!("INSERT INTO {{{table}}} VALUES {}", values.join(", "))
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = if self.lease { "lease" } else { "lock" };
        let chain = match self.chain {
            Chain::None => "no transform",
            Chain::Upper => "upper",
            Chain::Mask => "mask",
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
            Action::Run { faults } => write!(f, "run{}", Listed(faults)),
            Action::Kill { at, faults } => write!(f, "run, SIGKILL at {at}{}", Listed(faults)),
            Action::Hold { at, goes_on } => {
                let then = if *goes_on { "it goes on" } else { "SIGKILL" };
                write!(f, "run, SIGSTOP at {at}, another run, then {then}")
            }
            Action::Race => write!(f, "two runs at once"),
            Action::Neighbours { faults } => write!(f, "a run for each table, at once{}", Listed(faults)),
            Action::Copy { held, killed } => {
                write!(f, "copy the checkpoint")?;
                if let Some(at) = held {
                    write!(f, " while a run is held at {at}")?;
                }
                write!(f, ", run on the copy")?;
                if let Some(at) = killed {
                    write!(f, ", SIGKILL at {at}")?;
                }
                Ok(())
            }
            Action::Limits(limits) => write!(f, "from here on {limits}"),
        }
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
