//! The whole corpus, replayed: its seeds, and every input that once made a target panic.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking"
)]

use sluice_fuzz::corpus::{self, try_input};
use sluice_fuzz::targets::{TARGETS, driver};

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
