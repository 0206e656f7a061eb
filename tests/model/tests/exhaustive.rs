//! Every order of small configurations: one stream, one commit of one row, two starts or three. Under a lease, processes
//! change turns, are killed and stand still only at the moments that matter, and the second starts when the first does not
//! run, or at once with it.

use sluice_model::config::{Config, Weights};
use sluice_model::exhaustive::explore;
use sluice_model::planted::Planted;
use sluice_model::stores::Pid;
use sluice_model::world::{Budget, FaultOn, Faults, Mode, Settings};

/// More schedules than any of the configurations has.
const LIMIT: usize = 1_000_000;

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
    reopens: 0,
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
            join: u32::from(mode == Mode::Lock),
            start: 1,
            crash: 1,
            seen: [1, 1],
            pause: 1,
            wake: 1,
            land: 1,
            beat: 1,
            grow: 1,
            purge: 1,
            change: 1,
            damage: 1,
            ask: 1,
            reopen: 1,
            publisher: 1,
        },
        steps: 1000,
        planted: None,
        orderly: true,
        sleeper: None,
        victim: None,
        moments: mode == Mode::Lease,
    }
}

#[allow(clippy::panic, reason = "the tests below end here")]
/// Plays all of it. It has to reach what is named, and at least so many states.
fn all(config: &Config, states: usize, reaches: &[&str]) {
    let began = std::time::Instant::now();
    let tried = explore(config, LIMIT).unwrap_or_else(|failure| panic!("{failure}"));
    println!(
        "{} states, {} schedules in {:?}: {:?}",
        tried.states,
        tried.schedules,
        began.elapsed(),
        tried.stats
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
    all(&small(Mode::Lease, 0, FaultOn::All, budget), 30_000, &reaches);
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

/// So many processes begin the stream at once: two can count to one number.
fn at_once(starts: u32) -> Config {
    let budget = Budget {
        changes: 1,
        starts,
        ..ONCE
    };
    let mut config = small(Mode::Lease, 2, FaultOn::All, budget);
    config.weights.join = 1;
    config
}

/// A process opens the stream again and sleeps meanwhile. Chain 1 keeps one of the two rows, chain 2 none.
fn opened_again() -> Config {
    let budget = Budget {
        pauses: 1,
        changes: 1,
        reopens: 1,
        ..ONCE
    };
    let mut config = small(Mode::Lease, 1, FaultOn::All, budget);
    config.commits = vec![[2, 0]];
    config
}

#[test]
fn lease_with_two_that_begin_at_once() {
    all(&at_once(2), 50_000, &["batch closed", "stopped: fenced"]);
}

#[test]
fn lease_with_three_that_begin_at_once() {
    let mut config = at_once(3);
    config.budget.changes = 0;
    all(&config, 80_000, &["batch closed", "stopped: fenced"]);
}

#[test]
#[ignore = "half a minute in release: cargo test --release -p sluice-model -- --ignored"]
fn lease_with_three_that_begin_at_once_and_another_chain() {
    all(&at_once(3), 300_000, &["batch closed", "stopped: fenced"]);
}

#[test]
#[ignore = "a minute in release: cargo test --release -p sluice-model -- --ignored"]
fn lease_with_a_stream_that_is_opened_again_by_one_that_sleeps() {
    all(&opened_again(), 300_000, &["batch closed", "stream opened again"]);
}

/// What is written late: any file, also after its process is known to be dead.
fn late(on: FaultOn, chain: u8, starts: u32) -> Config {
    let budget = Budget {
        crashes: 1,
        faults: 1,
        changes: 1,
        starts,
        ..ONCE
    };
    let mut config = small(Mode::Lease, chain, on, budget);
    config.faults.kinds = [0, 0, 1, 0];
    config
}

#[test]
fn lease_with_an_owner_that_arrives_late() {
    for chain in [0, 2] {
        all(
            &late(FaultOn::Owner, chain, 2),
            20_000,
            &["late write arrived", "death seen"],
        );
    }
}

#[test]
fn lease_with_an_owner_that_arrives_late_and_three_in_a_row() {
    all(
        &late(FaultOn::Owner, 2, 3),
        40_000,
        &["late write arrived", "owner.json named another"],
    );
}

#[test]
fn lease_with_a_plan_that_arrives_late() {
    let reaches = ["late write arrived", "plan of another found under the name"];
    for chain in [0, 2] {
        all(&late(FaultOn::Plan, chain, 2), 5_000, &reaches);
    }
}

/// Three owners, one after the other. The one that sleeps wakes up beside the last, which may have another chain.
fn in_a_row(sleeper: Pid, victim: Pid, seen: [u32; 2]) -> Config {
    let budget = Budget {
        pauses: 1,
        crashes: 1,
        changes: 1,
        starts: 3,
        ..ONCE
    };
    let mut config = small(Mode::Lease, 2, FaultOn::All, budget);
    (config.sleeper, config.victim) = (Some(sleeper), Some(victim));
    config.weights.seen = seen;
    config
}

/// Whether a death is seen.
const SEEN: [u32; 2] = [1, 0];
const UNSEEN: [u32; 2] = [0, 1];

/// What is reached where the first owner sleeps and the second is known to be dead.
const SLEEPS_THEN_DEAD: [&str; 3] = [
    "owner is known to be dead",
    "batch closed",
    "batch to be closed was recorded",
];

#[test]
fn lease_with_a_first_owner_that_sleeps_and_a_second_that_is_known_to_be_dead() {
    let mut config = in_a_row(1, 2, SEEN);
    config.budget.changes = 0;
    all(&config, 80_000, &SLEEPS_THEN_DEAD);
}

#[test]
#[ignore = "20 s in release: cargo test --release -p sluice-model -- --ignored"]
fn lease_with_a_first_owner_that_sleeps_and_a_second_that_is_known_to_be_dead_and_another_chain() {
    all(&in_a_row(1, 2, SEEN), 150_000, &SLEEPS_THEN_DEAD);
}

#[test]
fn lease_with_a_first_owner_that_is_killed_out_of_sight_and_a_second_that_sleeps() {
    let mut config = in_a_row(2, 1, UNSEEN);
    config.budget.changes = 0;
    let reaches = ["batch closed", "batch to be closed was recorded", "stopped: fenced"];
    all(&config, 80_000, &reaches);
}

#[test]
fn lease_with_a_process_that_is_killed_and_another_chain_and_a_commit_or_record_that_arrives_late() {
    for (chain, on) in [(0, FaultOn::Bronze), (2, FaultOn::Done)] {
        let reaches = [
            "owner is known to be dead",
            "lease ended by another",
            "late write arrived",
            "batch closed",
        ];
        all(&late(on, chain, 2), 5_000, &reaches);
    }
}

#[test]
#[ignore = "half a minute in release: cargo test --release -p sluice-model -- --ignored"]
fn lease_with_a_process_that_sleeps_and_a_commit_that_arrives_late() {
    let budget = Budget {
        pauses: 1,
        faults: 1,
        ..ONCE
    };
    let mut config = small(Mode::Lease, 0, FaultOn::Bronze, budget);
    config.faults.kinds = [0, 0, 1, 0];
    config.sleeper = Some(1);
    all(&config, 150_000, &["late write arrived", "batch closed"]);
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
    let mut asks = small(Mode::Lease, 0, FaultOn::Owner, Budget { faults: 1, ..sleeps });
    asks.faults.kinds = [0, 0, 1, 0];
    let cases = [
        (
            Planted::FenceNotCompared,
            small(Mode::Lease, 0, FaultOn::Bronze, sleeps),
        ),
        (
            Planted::TakeOverReplays,
            small(Mode::Lease, 2, FaultOn::Bronze, sleeps_and_changes),
        ),
        (Planted::OnlyRanOutOwes, at_once(2)),
        (Planted::FreshOwesNothing, at_once(2)),
        (Planted::GivenBackOwesNothing, at_once(3)),
        (Planted::OpenedAgainOwesNothing, opened_again()),
        (Planted::OnlyOwnerAsked, asks),
        (
            Planted::RanOutOwesNothing,
            small(Mode::Lease, 2, FaultOn::Bronze, sleeps_and_changes),
        ),
        (
            Planted::DeadOwesNothing,
            small(Mode::Lease, 2, FaultOn::Done, dies_and_changes),
        ),
        (
            Planted::SuccessorNotAsked,
            small(Mode::Lease, 0, FaultOn::Bronze, sleeps),
        ),
        (Planted::ClosesUnfenced, in_a_row(2, 1, UNSEEN)),
        (Planted::NoFreshTxn, small(Mode::Lock, 0, FaultOn::Bronze, dies)),
        (
            Planted::AttemptWithoutClaim,
            small(Mode::Lock, 0, FaultOn::Bronze, dies_and_changes),
        ),
    ];
    for planted in Planted::ALL.into_iter().filter(|planted| planted.is_for_exploration()) {
        assert!(
            cases.iter().any(|(case, _)| *case == planted),
            "{planted:?} has no case"
        );
    }
    for (planted, config) in cases {
        let config = Config {
            planted: Some(planted),
            ..config
        };
        let began = std::time::Instant::now();
        match explore(&config, LIMIT) {
            Ok(tried) => panic!(
                "{planted:?} is not found in {} schedules: {:?}",
                tried.schedules, tried.stats
            ),
            Err(failure) => println!("{planted:?} in {:?}: {failure}", began.elapsed()),
        }
    }
}
