//! A rule of the protocol that is left out is missed by some schedule.

use sluice_model::planted::Planted;
use sluice_model::schedule::{config, schedule};

/// Seeds that are tried for one planted fault.
const SEEDS: u64 = 3000;

#[test]
fn every_rule_that_is_left_out_is_missed() {
    let mut missed = Vec::new();
    for planted in Planted::ALL {
        match (0..SEEDS).find_map(|seed| schedule(seed, &config(seed, Some(planted))).err()) {
            Some(failure) => {
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
