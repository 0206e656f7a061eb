//! The whole corpus, replayed: its seeds, and every input that once made a target panic.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking"
)]

use std::collections::BTreeMap;

use arrow::array::Array;
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};
use sluice::shape::META_BEFORE;
use sluice_fuzz::corpus::{self, try_input};
use sluice_fuzz::targets::{TARGETS, answer, driver};

#[test]
fn no_input_of_the_corpus_makes_a_target_panic() {
    for target in &TARGETS {
        let inputs = corpus::inputs(target).unwrap();
        assert!(!inputs.is_empty(), "{} has seeds", target.name);
        for (path, input) in inputs {
            if let Err(message) = try_input(target, &input) {
                panic!("{}: {message}", path.display());
            }
        }
    }
}

#[test]
fn an_answer_that_nobody_changed_is_read_whole() {
    assert_eq!(driver::reads_unchanged().unwrap(), 3);
}

/// Answers of random bytes: none makes the checks panic, and enough of every type gets through them for the target to test
/// what comes behind.
#[test]
fn random_answers_are_refused_or_right() {
    const CASES: u64 = 6_000;
    let mut accepted = 0;
    let mut types = BTreeMap::new();
    for seed in 0..CASES {
        let mut bytes = [0; 1024];
        StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
        let Some(batch) = answer::judge(&bytes) else { continue };
        accepted += 1;
        for column in batch.columns().iter().skip(META_BEFORE.len()) {
            let name = column.data_type().to_string();
            let kind = if name.starts_with("Decimal") {
                "Decimal".to_owned()
            } else {
                name
            };
            let values = types.entry(kind).or_insert((0, 0));
            values.0 += column.len() - column.null_count();
            values.1 += column.null_count();
        }
    }
    println!("{accepted} of {CASES}: {types:?}");
    assert!((CASES / 20..CASES * 19 / 20).contains(&accepted), "{accepted}");
    assert_eq!(types.len(), 12, "{types:?}");
    assert!(
        types.values().all(|(values, nulls)| *values > 100 && *nulls > 20),
        "{types:?}"
    );
}
