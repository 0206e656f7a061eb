//! A component of each version of the contract, side by side, built without the SDK.

use super::*;
use crate::error::{Classify, ErrorKind};

/// The guest of 0.1.0, told a word.
fn old(word: &str) -> TransformSpec {
    TransformSpec {
        keys: vec!["pii".into()],
        ..with_config("v0-1", serde_json::json!({ "do": word }))
    }
}

/// The guest of 0.2.0, which puts a pick in the place of `note`.
fn new() -> TransformSpec {
    TransformSpec {
        keys: vec!["pii".into()],
        ..with_config(
            "asker",
            serde_json::json!({
                "column": "note", "keys": ["pii"],
                "ask": { "pick": { "key": "pii", "context": "names", "count": 1000 } },
            }),
        )
    }
}

#[test]
fn components_of_two_versions_work_in_one_chain() {
    let bench = Bench::new(&["v0-1", "asker"]);
    let chain = bench.open(&[old(""), new()], &["name", "note"]).unwrap();
    let versions: Vec<&str> = chain.provenance().iter().map(|step| step.wit.as_str()).collect();
    assert_eq!(versions, ["0.1.0", "0.2.0"]);
    let applied = chain.apply(&four()).unwrap().batch;
    let tags = texts(&applied, "name");
    assert_eq!(tags[0].as_deref(), Some(TAG_OF_ANNA));
    assert_eq!(tags[1], None);
    assert!(tags[2].as_ref().is_some_and(|tag| tag.len() == 64));
    // The other way round, and alone, they do the same.
    let swapped = bench.open(&[new(), old("")], &["name"]).unwrap();
    assert_eq!(swapped.apply(&four()).unwrap().batch, applied);
    let alone = bench.open(&[old("")], &["name"]).unwrap().apply(&four()).unwrap().batch;
    assert_eq!(texts(&alone, "name"), tags);
    assert_eq!(texts(&alone, "note"), texts(&four(), "note"));
}

#[test]
fn every_version_of_the_contract_has_a_component_that_works() {
    let bench = Bench::new(&["v0-1", "asker", "badguest"]);
    let chain = bench.open(&[old(""), new(), bad("well")], &[]).unwrap();
    let versions: Vec<&str> = chain.provenance().iter().map(|step| step.wit.as_str()).collect();
    assert_eq!(versions, ["0.1.0", "0.2.0", "0.3.0"]);
    let mut known = crate::transform::bindings::VERSIONS;
    known.reverse();
    assert_eq!(versions, known);
    assert_eq!(chain.apply(&four()).unwrap().batch.num_rows(), 4);
}

#[test]
fn keys_are_told_column_by_column_where_the_component_names_them() {
    let bench = Bench::new(&["v0-1", "asker"]);
    let chain = bench.open(&[old(""), new()], &[]).unwrap();
    let routes = chain.routes();
    assert_eq!(routes[1].computed_into[0].how, "tag of old");
    assert_eq!(routes[2].computed_into[0].how, "asked of the host (pii v3)");
    for step in chain.provenance() {
        assert_eq!(step.keys["pii"], "v3");
        assert!(step.lookups.is_empty());
    }
    let ungranted = TransformSpec {
        keys: Vec::new(),
        ..new()
    };
    let error = bench.fails(ungranted);
    assert_eq!(
        error.to_string(),
        "table dbo_people, transform 1 (`asker`): the component gave an invalid plan: output column `note`: the key `pii` is \
         not granted to this transform; add it to the transform's `keys`"
    );
    assert_eq!(error.kind(), ErrorKind::ComponentRefused);
}

#[test]
fn what_a_component_of_the_first_version_refuses_is_said_as_it_was() {
    let bench = Bench::new(&["v0-1"]);
    for (word, expected) in [
        ("config", "config at `do`: it was asked for"),
        (
            "unlisted",
            "the configuration does not say what to do with column `name`; ",
        ),
        (
            "missing",
            "the configuration names column `nam`, which the table does not have; did you mean `name`?",
        ),
        ("unsupported", "column `name`: key None of nvarchar(100)"),
        (
            "fail",
            "the component refused the batch with code `asked-to-fail`, column `name`, row 1 of the chunk (LSN \
             0x00000000000000000002)",
        ),
        (
            "reject",
            "column `name`, row 1 of the chunk (LSN 0x00000000000000000002): rejected with code `asked-to-reject`",
        ),
    ] {
        let error = bench.fails(old(word)).to_string();
        assert!(error.contains(expected), "{error}");
    }
    let ungranted = TransformSpec {
        keys: Vec::new(),
        ..old("")
    };
    let error = bench.fails(ungranted).to_string();
    assert!(error.contains("refused the batch with code `not-granted`"), "{error}");
}

#[test]
fn rows_that_a_component_of_the_first_version_drops_are_gone() {
    let bench = Bench::new(&["v0-1"]);
    let applied = bench.open(&[old("drop")], &[]).unwrap().apply(&four()).unwrap();
    assert_eq!((applied.filtered, applied.batch.num_rows()), (1, 3));
    assert_eq!(
        applied.batch,
        bench
            .open(&[old("")], &[])
            .unwrap()
            .apply(&four())
            .unwrap()
            .batch
            .slice(0, 3)
    );
}

#[test]
fn only_the_first_version_keeps_the_rows_of_an_update_together() {
    let bench = Bench::new(&["v0-1", "asker"]);
    let splits = |plugin: &str| bench.engine.plugin(plugin, None).unwrap().compiled.splits_updates();
    assert!(!splits("v0-1"));
    assert!(splits("asker"));
}
