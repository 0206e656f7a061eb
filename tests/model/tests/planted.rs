//! A rule of the protocol that is left out is missed by some schedule.

use sluice_model::planted::Planted;
use sluice_model::schedule::{config, schedule};

/// Seeds that are tried for one planted fault.
const SEEDS: u64 = 6000;

#[test]
fn every_rule_that_is_left_out_is_missed() {
    let mut missed = Vec::new();
    for planted in Planted::ALL.into_iter().filter(|planted| !planted.is_for_exploration()) {
        let mut schedules = (0..SEEDS).map(|seed| (seed, config(seed, Some(planted))));
        let found = schedules.find_map(|(seed, config)| {
            let loses_files = config.budget.damages > 0;
            match loses_files == planted.is_about_lost_files() {
                true => schedule(seed, &config).err(),
                false => None,
            }
        });
        match found {
            Some(failure) => {
                assert!(
                    !failure.trace.is_empty() && failure.to_string().contains("SLUICE_SEED="),
                    "{failure}"
                );
                let seed = failure.seed.unwrap();
                println!("{planted:?}: seed {seed}: {}: {}", failure.invariant, failure.found);
                let without = schedule(seed, &config(seed, None));
                assert!(
                    without.is_ok(),
                    "{planted:?} is not the reason: {}",
                    without.unwrap_err()
                );
            }
            None => missed.push(planted),
        }
    }
    assert!(missed.is_empty(), "no schedule of {SEEDS} finds {missed:?}");
}
