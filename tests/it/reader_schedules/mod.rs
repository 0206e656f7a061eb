//! Schedules of the reader, drawn from a seed: what a source does to who reads it. Commits and long transactions, DDL, switches
//! of the capture instance, cleanup, a capture job that stops, connections that break, a clock that goes back. After every
//! run bronze is held against what the test itself committed: it is that history up to the position, without the gaps that
//! the facts record; and a run that reports a loss had one.
//!
//! A sample is played in every run of the tests. The long test plays until so much CPU is used up (`SLUICE_CPU_SECONDS`), or
//! a number of them (`SLUICE_SCHEDULES`), from `SLUICE_FIRST_SEED` on. `SLUICE_SEED` plays one again, in either.

/// An error, in words, unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}

mod check;
mod model;
mod plan;
mod play;
mod process;
mod sql;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Instant;

use model::What;
use plan::{Plan, Statement, Step};
use play::Lie;

/// Schedules of a run of all tests: about a minute of CPU. `cargo xtask reader-schedules` plays more.
const SAMPLE: u64 = 6;
const FIRST_SEED: u64 = 1;
/// CPU time of the long test's processes, in seconds.
const CPU_SECONDS: u64 = 600;
/// Schedules at a time, each on a server of its own.
const WORKERS: usize = 2;

#[test]
fn a_sample_of_schedules_of_the_reader_ends_with_the_history_in_bronze() {
    let seeds: Vec<u64> = match number("SLUICE_SEED") {
        Some(seed) => vec![seed],
        None => (FIRST_SEED..FIRST_SEED + SAMPLE).collect(),
    };
    play_all(seeds.into_iter(), || false);
}

#[test]
#[ignore = "ten minutes of CPU and more: cargo xtask reader-schedules"]
fn many_schedules_of_the_reader_end_with_the_history_in_bronze() {
    let first = number("SLUICE_FIRST_SEED").unwrap_or(FIRST_SEED);
    if let Some(seed) = number("SLUICE_SEED") {
        play_all(std::iter::once(seed), || false);
    } else if let Some(count) = number("SLUICE_SCHEDULES") {
        play_all(first..first + count, || false);
    } else {
        let bound = number("SLUICE_CPU_SECONDS").unwrap_or(CPU_SECONDS);
        let before = cpu_seconds();
        play_all(first.., || cpu_seconds() - before >= bound);
    }
    eprintln!("{} s of CPU", cpu_seconds());
}

/// Plays schedules, some at a time, until there are no more, it is enough, or one fails; then all that failed are said.
fn play_all(seeds: impl Iterator<Item = u64> + Send, is_enough: impl Fn() -> bool + Sync) {
    let waiting = Mutex::new(seeds);
    let played = Mutex::new(0u64);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while failures.lock().expect("not poisoned").is_empty() && !is_enough() {
                    let next = waiting.lock().expect("not poisoned").next();
                    let Some(seed) = next else { return };
                    let since = Instant::now();
                    match play(seed) {
                        Ok(()) => {
                            *played.lock().expect("not poisoned") += 1;
                            eprintln!("seed {seed}: well ({:.1} s)", since.elapsed().as_secs_f64());
                        }
                        Err(error) => {
                            eprintln!(
                                "\n{}{error}\nagain: SLUICE_SEED={seed} cargo nextest run --workspace \
                                 -E 'test(a_sample_of_schedules_of_the_reader)' --no-capture\n",
                                Plan::draw(seed)
                            );
                            failures.lock().expect("not poisoned").push(seed);
                        }
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("not poisoned");
    let played = played.into_inner().expect("not poisoned");
    assert!(
        failures.is_empty(),
        "schedules failed: SLUICE_SEED={failures:?}; {played} went well"
    );
    assert!(played > 0, "no schedule was played");
    eprintln!("{played} schedules went well");
}

/// Plays one schedule. What the harness cannot read counts as an error like any other.
fn play(seed: u64) -> Result<(), String> {
    let plan = Plan::draw(seed);
    let played = catch_unwind(AssertUnwindSafe(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(play::play(&plan))
    }));
    played.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(text.unwrap_or_else(|| "a panic".to_owned()))
    })
}

/// CPU time of this process and of its children that have ended, in seconds: `utime` to `cstime` of `/proc/self/stat`
/// (proc(5)), in hundredths of a second on every Linux.
fn cpu_seconds() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("readable");
    // The name of the program, in parentheses, may have blanks. `utime` is the 12th field after it.
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(4)
        .map(|field| field.parse::<u64>().expect("a number"))
        .sum();
    ticks / 100
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is no number")),
    )
}

#[test]
fn a_schedule_follows_from_its_seed() {
    for seed in 1..50 {
        assert_eq!(Plan::draw(seed).to_string(), Plan::draw(seed).to_string(), "{seed}");
    }
    assert_ne!(Plan::draw(1).to_string(), Plan::draw(2).to_string());
}

#[tokio::test]
async fn what_is_not_the_history_is_found() {
    let run = Step::Run {
        limits: play::AT_THE_END,
        faults: Vec::new(),
    };
    let plan = Plan {
        steps: vec![
            Step::Commit(vec![Statement::Insert { rows: 3 }]),
            run.clone(),
            Step::Clock(60),
            Step::Elsewhere(1),
            Step::AddColumn,
            Step::Enable,
            Step::Commit(vec![Statement::Update { permille: 0, rows: 2 }]),
            run,
        ],
        ..Plan::draw(0)
    };
    let lies: [Lie; 7] = [
        ("a commit that bronze lacks", |model| {
            let change = model.newest().expect("a commit")[0].clone();
            let elsewhere = model
                .entries
                .iter_mut()
                .find(|entry| matches!(entry.what, What::Elsewhere));
            elsewhere.expect("a commit elsewhere").what = What::Changes(vec![change]);
        }),
        ("a commit that should not be there", |model| {
            let last = model.entries.last_mut().expect("a commit");
            last.what = What::Elsewhere;
        }),
        ("a row that bronze lacks", |model| {
            let changes = model.newest().expect("a commit");
            let first = changes[0].clone();
            changes.push(first);
        }),
        ("a row that should not be there", |model| {
            model.newest().expect("a commit").pop();
        }),
        ("another value", |model| {
            let first = &mut model.newest().expect("a commit")[0];
            first.values.insert("v".to_owned(), "another".to_owned());
        }),
        ("another instant", |model| {
            model.entries.last_mut().expect("a commit").at += 1;
        }),
        ("another instance", |model| {
            model.instances[1].name = "dbo_t_other".to_owned();
        }),
    ];
    let unnoticed = play::unnoticed(&plan, &lies).await.expect("the schedule goes well");
    assert!(unnoticed.is_empty(), "these are not found: {unnoticed:?}");
}
