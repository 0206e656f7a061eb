//! What a bad component does not get through.

use std::time::Duration;

use super::*;
use crate::error::{Classify, ErrorKind};

/// Holds for every message here: nothing that the guest took from the data stands in it.
fn says(error: &TransformError, expected: &str) {
    let text = error.to_string();
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("dbo_people") && text.contains("`badguest`"), "{text}");
    assert!(!text.contains("anna"), "{text}");
}

#[test]
fn traps_and_limits_have_names() {
    let bench = Bench::new(&["badguest", "upper"]);
    let stack = format!("overran its stack of {} bytes", 512 << 10);
    for (behave, expected) in [
        (
            "trap",
            "the component trapped: wasm trap: wasm `unreachable` instruction executed",
        ),
        ("panic", "trapped"),
        ("trap-in-open", "trapped"),
        ("eat-memory", "overran its memory limit of 268435456 bytes"),
        ("recurse", &stack),
    ] {
        let error = bench.fails(bad(behave));
        says(&error, expected);
        assert_eq!(error.kind(), ErrorKind::ComponentRefused, "{behave}");
    }
    let keyed = TransformSpec {
        memory_bytes: 64 << 20,
        keys: vec!["pii".into()],
        ..bad("keyed-flood")
    };
    says(&bench.fails(keyed), "overran its memory limit of 67108864 bytes");
    let huge = TransformSpec {
        output_bytes: 32 << 20,
        ..bad("huge-output")
    };
    says(&bench.fails(huge), "handed over more than its limit of 33554432 bytes");
    // Nothing of that stays with the engine, the component or another table's chain.
    assert!(bench.open(&[bad("well")], &[]).unwrap().apply(&four()).is_ok());
    assert!(bench.open(&[upper()], &[]).unwrap().apply(&four()).is_ok());
}

#[test]
fn a_large_cell_meets_the_memory_limit_and_not_the_hosts() {
    let bench = Bench::new(&["upper"]);
    let small = TransformSpec {
        memory_bytes: 16 << 20,
        ..upper()
    };
    let chain = bench.open(&[small], &[]).unwrap();
    let cell = "x".repeat(64 << 20);
    let error = chain.apply(&people_batch(&[2], vec![Some(&cell)])).unwrap_err();
    assert!(
        error.to_string().contains("overran its memory limit of 16777216 bytes"),
        "{error}"
    );
    assert!(chain.apply(&four()).is_ok());
}

#[test]
fn a_deadline_ends_the_call_by_the_clock_and_is_not_tried_again() {
    let bench = Bench::new(&["badguest"]);
    for behave in ["loop", "loop-in-open"] {
        let limited = TransformSpec {
            deadline: Duration::from_millis(500),
            ..bad(behave)
        };
        // Compiling is not part of the call.
        let _ = bench.open(&[bad("well")], &[]).unwrap();
        // A guest that is not stopped never ends.
        let error = bench.fails(limited);
        says(&error, "overran its deadline of 500 ms");
    }
}

#[test]
fn answers_that_are_none_are_refused() {
    let bench = Bench::new(&["badguest"]);
    for (behave, expected) in [
        (
            "short-column",
            "column `made`: it has 3 values instead of 4, one a row (offsets: 4)",
        ),
        (
            "long-column",
            "column `made`: it has 5 values instead of 4, one a row (offsets: 6)",
        ),
        ("odd-values", "column `made`: its values have 17 bytes instead of 16"),
        ("short-booleans", "column `made`: its values have 0 bytes instead of 1"),
        ("offset-beyond", "its offsets do not rise"),
        ("offsets-falling", "its offsets do not rise"),
        ("offset-negative", "its offsets do not rise"),
        ("offsets-not-from-zero", "its offsets do not rise"),
        ("values-uncovered", "its offsets do not rise"),
        ("no-offsets", "it has no offsets instead of 5"),
        ("offsets-on-numbers", "it has offsets, and its type has none"),
        ("invalid-utf8", "column `made`: its text is not valid UTF-8"),
        ("split-character", "column `made`: its text is not valid UTF-8"),
        ("short-validity", "its validity bitmap has 0 bytes instead of 1"),
        ("null-in-non-null", "column `made`: it has a NULL"),
        ("decimal-too-large", "column `made`: its value in row 0 is beyond"),
        ("too-many-columns", "1 computed columns are expected and 2 came"),
        ("too-few-columns", "1 computed columns are expected and 0 came"),
        (
            "reject-beyond",
            "it rejects a row beyond the batch's 4 (rows count from 0)",
        ),
        ("short-dropped", "the bitmap of dropped rows has 0 bytes instead of 1"),
        (
            "unknown-column",
            "output column `x` passes a column that the input does not have",
        ),
        ("unknown-read", "read 2 is no column of the input"),
        ("duplicate-outputs", "output column `MADE` has the name of another one"),
        (
            "fake-start-lsn",
            "output column `_start_lsn` has the name of a column of sluice's own",
        ),
        (
            "renamed-to-start-lsn",
            "output column `_start_lsn` has the name of a column of sluice's own",
        ),
        (
            "forbidden-name",
            "output column `a;b` has an empty name, or one with a character that Delta refuses",
        ),
        ("decimal-too-wide", "output column `made` has no valid decimal type"),
    ] {
        let error = bench.fails(bad(behave));
        says(&error, expected);
        assert_eq!(error.kind(), ErrorKind::ComponentRefused, "{behave}");
    }
    for good in ["well", "decimal-too-large-under-null", "drop-updates", "log-flood"] {
        let applied = bench.open(&[bad(good)], &[]).unwrap().apply(&four());
        assert!(applied.is_ok(), "{good}: {:?}", applied.err());
    }
    says(
        &bench.fails(bad("no-columns")),
        "0 computed columns are expected and 1 came",
    );
}

#[test]
fn rejects_and_refusals_name_the_row_and_show_no_word_of_the_guest() {
    let bench = Bench::new(&["badguest"]);
    let at = "table dbo_people, transform 1 (`badguest`): ";
    for (behave, expected) in [
        (
            "reject",
            "column `name`, row 0 of the chunk (LSN 0x00000000000000000001): rejected with code `bad-row`",
        ),
        (
            "reject-with-value",
            "column `name`, row 0 of the chunk (LSN 0x00000000000000000001): rejected with code `invalid-code`",
        ),
        (
            "reject-unknown-column",
            "column `(unknown)`, row 0 of the chunk (LSN 0x00000000000000000001): rejected with code `bad-row`",
        ),
    ] {
        let error = bench.fails(bad(behave));
        assert_eq!(error.to_string(), format!("{at}{expected}"));
        assert_eq!(error.kind(), ErrorKind::ComponentRefused);
    }
    says(
        &bench.fails(bad("error-with-secret")),
        "the component refused the batch with code `withheld-code`, column `(unknown)`",
    );
}

#[test]
fn rows_are_counted_in_the_chunk_as_it_was_read() {
    let bench = Bench::new(&["badguest", "map"]);
    let away = with_config("map", serde_json::json!({ "columns": { "made": { "drop": true } } }));
    let chain = bench.open(&[bad("drop-updates"), away, bad("reject")], &[]).unwrap();
    let input = people_batch(&[3, 4, 2], vec![Some("a"), Some("b"), Some("c")]);
    let error = chain.apply(&input).unwrap_err().to_string();
    assert!(error.contains("transform 3"), "{error}");
    assert!(
        error.contains("row 2 of the chunk (LSN 0x00000000000000000002)"),
        "{error}"
    );
}

#[test]
fn a_chunk_of_another_shape_is_our_own_fault() {
    let bench = Bench::new(&["upper"]);
    let chain = bench.open(&[upper()], &[]).unwrap();
    let swapped = four().project(&[0, 1, 2, 3, 4, 5, 7, 6, 8]).unwrap();
    let error = chain.apply(&swapped).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert_eq!(
        error.to_string(),
        "table dbo_people: the chunk does not fit its transforms: column `name` stands where `id` should"
    );
}
