//! Random schedules.

use sluice_model::planted::Planted;
use sluice_model::schedule::{Stats, config, schedule, traced};

/// Seeds that are played unless `SLUICE_MODEL_SCHEDULES` says another number: about two seconds.
const SEEDS: u64 = 1000;

/// What the default seeds have to make happen, so that the model cannot stop to play it without a word.
const OCCURS: [&str; 49] = [
    "attempt planned",
    "batch closed",
    "batch found in bronze",
    "beat",
    "change of configuration or clock",
    "checkpoint moved while it was read",
    "claim",
    "conflict in a log",
    "crash",
    "death seen",
    "ended refused after damage",
    "ended with data loss",
    "ended with everything delivered",
    "facts caught up",
    "fault: exists, nothing written",
    "fault: nothing written",
    "fault: reply lost",
    "fault: written later",
    "file lost",
    "file torn",
    "idle position",
    "late write arrived",
    "late write was refused",
    "lease ended by another",
    "lease of a living process ran out",
    "lease was given back",
    "lost reply found in the log",
    "open batch ended from bronze",
    "number raised above bronze's",
    "open batch run again",
    "owner is known to be dead",
    "pause",
    "plan of another found under the name",
    "purge",
    "range without rows",
    "rows quarantined",
    "stopped: asked to",
    "stopped: bronze moved",
    "stopped: chain changed",
    "stopped: checkpoint damaged",
    "stopped: data loss",
    "stopped: fenced",
    "stopped: its lease was ended",
    "stopped: name taken",
    "stopped: owned by another",
    "stream opened again",
    "stream taken by lease",
    "take-over settled",
    "wake",
];

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_rule_holds_in_every_schedule_and_everything_occurs() {
    let seeds = variable("SLUICE_MODEL_SCHEDULES").unwrap_or(SEEDS);
    let mut total = Stats::new();
    for seed in 0..seeds {
        let stats = schedule(seed, &config(seed, None)).unwrap_or_else(|failure| panic!("{failure}"));
        for (what, times) in stats {
            *total.entry(what).or_default() += times;
        }
    }
    println!("{seeds} schedules: {total:#?}");
    let absent: Vec<_> = OCCURS.iter().filter(|what| !total.contains_key(*what)).collect();
    assert!(
        seeds < SEEDS || absent.is_empty(),
        "never in {seeds} schedules: {absent:?}"
    );
}

#[test]
fn a_seed_always_plays_the_same() {
    for seed in 0..20 {
        let config = config(seed, None);
        let (_, first) = traced(seed, &config).unwrap();
        let (_, second) = traced(seed, &config).unwrap();
        assert_eq!(first, second, "seed {seed}");
        assert!(first.len() > 20, "seed {seed} plays {} steps", first.len());
    }
}

/// With `SLUICE_SEED=<seed>`; and `SLUICE_PLANTED=<name>`, when a rule is to be left out.
#[test]
fn replays_one_seed() {
    let Some(seed) = variable("SLUICE_SEED") else {
        return;
    };
    let name = std::env::var("SLUICE_PLANTED").unwrap_or_default();
    let planted = Planted::ALL.into_iter().find(|planted| format!("{planted:?}") == name);
    match traced(seed, &config(seed, planted)) {
        Ok((stats, trace)) => println!("{}\n{stats:#?}", trace.join("\n")),
        Err(failure) => panic!("{failure}"),
    }
}
