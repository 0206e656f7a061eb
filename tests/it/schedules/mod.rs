//! Schedules of the real process, drawn from a seed: runs that are killed, held, doubled and copied, on stores that fail.
//! After every action the lake is read and held against the source. Every third schedule has a component that rejects rows:
//! these are in quarantine, by the test's own account of which those are, until a `quarantine retry` under a gentler
//! configuration brings them to bronze, which is disturbed like a run is.
//!
//! `SLUICE_PROCESS_SCHEDULES` says how many, `SLUICE_FIRST_SEED` where they begin, and `SLUICE_SEED` plays one again. The
//! last tests plant bugs in the process and see that the schedules find them.

mod account;
mod check;
mod fates;
mod plan;
mod play;
mod process;
pub mod random;
mod source;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Instant;

use sluice::failpoint::planted;

use plan::Plan;
use play::{Stage, seconds};

/// Schedules of a run of all tests. `cargo xtask schedules` plays more.
const SAMPLE: u64 = 12;
const FIRST_SEED: u64 = 1;
/// Schedules at a time, each on a server of its own.
const WORKERS: usize = 2;

/// Schedules that may be played until a planted bug is found.
const PATIENCE: usize = 12;

#[test]
fn every_schedule_ends_with_every_change_once() {
    let seeds: Vec<u64> = match number("SLUICE_SEED") {
        Some(seed) => vec![seed],
        None => {
            let first = number("SLUICE_FIRST_SEED").unwrap_or(FIRST_SEED);
            let count = number("SLUICE_PROCESS_SCHEDULES").unwrap_or(SAMPLE);
            (first..first + count).collect()
        }
    };
    let failures = play_all(&seeds, None, usize::MAX);
    assert!(
        failures.is_empty(),
        "{} of {} schedules failed: {:?}",
        failures.len(),
        seeds.len(),
        failures.iter().map(|(seed, _)| seed).collect::<Vec<_>>()
    );
}

#[test]
fn a_batch_that_is_written_twice_is_found() {
    planted_bug_is_found(planted::NO_FRESH_TXN_CHECK, false);
}

#[test]
fn facts_that_are_not_rebuilt_are_found() {
    planted_bug_is_found(planted::FACTS_NOT_REBUILT, false);
}

#[test]
fn an_owner_that_is_not_fenced_off_is_found() {
    planted_bug_is_found(planted::FENCE_NOT_COMPARED, false);
}

#[test]
fn rows_of_an_attempt_that_came_to_nothing_and_count_are_found() {
    planted_bug_is_found(planted::ATTEMPTS_NOT_VOIDED, true);
}

#[test]
fn a_row_in_bronze_that_is_still_open_in_quarantine_is_found() {
    planted_bug_is_found(planted::RETRIED_NOT_TOLD, true);
}

/// A schedule fails because of the bug, and only because of it: one with a component that rejects rows, or without.
fn planted_bug_is_found(bug: &'static str, quarantines: bool) {
    let mut stage = Stage::new();
    let seeds = (FIRST_SEED..).filter(|seed| Plan::quarantines(*seed) == quarantines);
    for seed in seeds.take(PATIENCE) {
        if let Err(found) = play(&mut stage, seed, Some(bug)) {
            let found = found.lines().next().unwrap_or_default();
            eprintln!("seed {seed} finds {bug}: {found}");
            play(&mut stage, seed, None).expect("the schedule passes without the bug");
            return;
        }
    }
    panic!("none of {PATIENCE} schedules finds {bug}");
}

/// Plays schedules, some at a time. Those that failed, and why.
fn play_all(seeds: &[u64], plant: Option<&'static str>, enough: usize) -> Vec<(u64, String)> {
    let waiting = Mutex::new(seeds.iter().copied());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS.min(seeds.len()) {
            scope.spawn(|| {
                let mut stage = Stage::new();
                loop {
                    let next = waiting.lock().expect("not poisoned").next();
                    let Some(seed) = next.filter(|_| failures.lock().expect("not poisoned").len() < enough) else {
                        return;
                    };
                    let since = Instant::now();
                    match play(&mut stage, seed, plant) {
                        Ok(()) => eprintln!("seed {seed}: well ({})", seconds(since)),
                        Err(error) => {
                            eprintln!(
                                "\n{}{error}\nagain: SLUICE_SEED={seed} cargo nextest run --workspace \
                                 -E 'test(every_schedule_ends)' --no-capture\n",
                                Plan::draw(seed)
                            );
                            failures.lock().expect("not poisoned").push((seed, error));
                        }
                    }
                }
            });
        }
    });
    failures.into_inner().expect("not poisoned")
}

/// Plays one schedule. What the harness cannot read counts as an error like any other.
fn play(stage: &mut Stage, seed: u64, plant: Option<&'static str>) -> Result<(), String> {
    let plan = Plan::draw(seed);
    catch_unwind(AssertUnwindSafe(|| stage.play(&plan, plant))).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(text.unwrap_or_else(|| "a panic".to_owned()))
    })
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is no number")),
    )
}
