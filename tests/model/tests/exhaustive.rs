//! Every order of small configurations: one stream, one commit of one row, two starts.

use sluice_model::config::{Config, Weights};
use sluice_model::exhaustive::explore;
use sluice_model::planted::Planted;
use sluice_model::world::{Budget, FaultOn, Faults, Mode, Settings};

/// More schedules than any of the configurations has.
const LIMIT: usize = 400_000;

const ONCE: Budget = Budget {
    faults: 0,
    crashes: 0,
    pauses: 0,
    expiries: 0,
    changes: 0,
    grows: 0,
    purges: 0,
    damages: 0,
    starts: 2,
    beats: 0,
    asks: 0,
};

/// Of chain 0 the row is in bronze; chain 2 leaves it out.
fn small(mode: Mode, chain: u8, on: FaultOn, budget: Budget) -> Config {
    Config {
        mode,
        streams: 1,
        budget,
        commits: vec![[1, 0]],
        settings: Settings { chain, go_on: true },
        faults: Faults {
            per_mille: 1,
            on,
            kinds: [1; 4],
        },
        weights: Weights {
            join: 1,
            start: 1,
            crash: 1,
            pause: 1,
            wake: 1,
            land: 1,
            beat: 1,
            grow: 1,
            purge: 1,
            change: 1,
            damage: 1,
            ask: 1,
            publisher: 1,
        },
        steps: 1000,
        planted: None,
        orderly: true,
    }
}

#[allow(clippy::panic, reason = "the tests below end here")]
/// Plays all of it. It has to reach what is named, and at least so many states.
fn all(config: &Config, states: usize, reaches: &[&str]) {
    let tried = explore(config, LIMIT).unwrap_or_else(|failure| panic!("{failure}"));
    println!(
        "{} states, {} schedules: {:?}",
        tried.states, tried.schedules, tried.stats
    );
    assert!(tried.schedules < LIMIT, "not all: {} schedules", tried.schedules);
    assert!(tried.states >= states, "only {} states", tried.states);
    for what in ["ended with everything delivered"].iter().chain(reaches) {
        assert!(tried.stats.contains_key(what), "never: {what}");
    }
}

#[test]
fn lock_with_a_fault_and_a_crash() {
    let budget = Budget {
        faults: 1,
        crashes: 1,
        ..ONCE
    };
    let reaches = [
        "late write arrived",
        "open batch ended from bronze",
        "open batch run again",
        "stopped: bronze moved",
        "stopped: owned by another",
    ];
    all(&small(Mode::Lock, 0, FaultOn::All, budget), 10_000, &reaches);
}

#[test]
fn lock_with_a_crash_and_another_chain() {
    let budget = Budget {
        crashes: 1,
        changes: 1,
        ..ONCE
    };
    let reaches = ["attempt planned", "open batch run again"];
    all(&small(Mode::Lock, 0, FaultOn::All, budget), 2_000, &reaches);
}

#[test]
fn lease_with_a_process_that_sleeps_in_a_batch_with_rows() {
    let budget = Budget { pauses: 1, ..ONCE };
    let reaches = [
        "batch closed",
        "stopped: fenced",
        "plan of another found under the name",
    ];
    all(&small(Mode::Lease, 0, FaultOn::All, budget), 10_000, &reaches);
}

#[test]
fn lease_with_a_process_that_sleeps_in_a_batch_without_rows() {
    let budget = Budget { pauses: 1, ..ONCE };
    let reaches = [
        "batch closed",
        "batch to be closed was recorded",
        "record of another found under the name",
    ];
    all(&small(Mode::Lease, 2, FaultOn::All, budget), 10_000, &reaches);
}

#[test]
fn lease_with_a_process_that_sleeps_and_a_fault_at_a_record() {
    let budget = Budget {
        pauses: 1,
        faults: 1,
        ..ONCE
    };
    all(
        &small(Mode::Lease, 2, FaultOn::Done, budget),
        20_000,
        &["late write arrived", "batch closed"],
    );
}

#[test]
#[ignore = "about 45 s: cargo nextest run -p sluice-model --run-ignored all"]
fn lease_with_a_process_that_sleeps_and_a_commit_that_arrives_late() {
    let budget = Budget {
        pauses: 1,
        faults: 1,
        ..ONCE
    };
    let mut config = small(Mode::Lease, 0, FaultOn::Bronze, budget);
    config.faults.kinds = [0, 0, 1, 0];
    all(&config, 20_000, &["late write arrived", "batch closed"]);
}

#[test]
fn lease_with_a_process_that_sleeps_and_another_chain() {
    let budget = Budget {
        pauses: 1,
        changes: 1,
        ..ONCE
    };
    all(&small(Mode::Lease, 2, FaultOn::All, budget), 30_000, &["batch closed"]);
}

#[test]
fn the_exploration_finds_what_is_left_out() {
    let sleeps = Budget { pauses: 1, ..ONCE };
    let sleeps_and_changes = Budget { changes: 1, ..sleeps };
    let dies = Budget {
        faults: 1,
        crashes: 1,
        ..ONCE
    };
    let dies_and_changes = Budget { changes: 1, ..dies };
    let cases = [
        (Planted::ClosesUnfenced, Mode::Lease, 0, sleeps),
        (Planted::FenceNotCompared, Mode::Lease, 0, sleeps),
        (Planted::TakeOverReplays, Mode::Lease, 2, sleeps_and_changes),
        (Planted::NoFreshTxn, Mode::Lock, 0, dies),
        (Planted::AttemptWithoutClaim, Mode::Lock, 0, dies_and_changes),
    ];
    for (planted, mode, chain, budget) in cases {
        let config = Config {
            planted: Some(planted),
            ..small(mode, chain, FaultOn::Bronze, budget)
        };
        match explore(&config, LIMIT) {
            Ok(tried) => panic!(
                "{planted:?} is not found in {} schedules: {:?}",
                tried.schedules, tried.stats
            ),
            Err(failure) => println!("{planted:?}: {failure}"),
        }
    }
}
