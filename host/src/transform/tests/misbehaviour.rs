//! Every way to misbehave that has a guest, beside those of `refusals`. Which guest is claimed by which test stands in
//! `tests/guests`: `badguest/src/claims.rs`, and `lib/src/text.rs` for the guests in text.

use std::time::Duration;

use arrow::datatypes::Float64Type;

use super::*;
use crate::error::{Classify, ErrorKind};

/// A bench of its own with these guests in text.
fn with_text(guests: &[&str]) -> Bench {
    let bench = Bench::own(&[]);
    for guest in guests {
        let file = bench.path().join(format!("{guest}.wasm"));
        std::fs::write(file, sluice_test_guests::text_guest(guest)).unwrap();
    }
    bench
}

/// The component is refused in words that name table, plugin and fault, and show no value of the rows.
fn refused(error: &TransformError, plugin: &str, expected: &str) {
    let text = error.to_string();
    assert!(text.contains(expected), "{plugin}: {text}");
    assert!(text.contains("dbo_people") && text.contains(plugin), "{text}");
    assert!(!text.contains("anna") && !text.contains("béla"), "{text}");
    assert_eq!(error.kind(), ErrorKind::ComponentRefused, "{text}");
}

/// What `made` is in every row.
fn made(chain: &Chain) -> String {
    let texts = texts(&chain.apply(&four()).unwrap().batch, "made");
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    texts[0].clone().unwrap()
}

#[test]
fn one_huge_allocation_meets_the_memory_limit() {
    let bench = Bench::new(&["badguest"]);
    let error = bench.fails(bad("huge-allocation"));
    refused(&error, "badguest", "overran its memory limit of 268435456 bytes");
}

#[test]
fn a_guest_that_never_comes_to_its_call_is_ended() {
    let bench = with_text(&["loop-in-start", "trap-in-start"]);
    let limited = TransformSpec {
        deadline: Duration::from_millis(500),
        ..TransformSpec::new("loop-in-start")
    };
    refused(&bench.fails(limited), "loop-in-start", "overran its deadline of 500 ms");
    let error = bench.fails(TransformSpec::new("trap-in-start"));
    refused(&error, "trap-in-start", "the component trapped");
}

/// Who opens a chain may keep nothing else.
#[test]
fn a_deadline_is_noticed_when_the_engine_was_let_go() {
    let bench = Bench::own(&["badguest"]);
    let spec = TransformSpec {
        deadline: Duration::from_millis(500),
        ..bad("loop")
    };
    let chain = bench.open(&[spec], &[]).unwrap();
    drop(bench);
    refused(
        &chain.apply(&four()).unwrap_err(),
        "badguest",
        "overran its deadline of 500 ms",
    );
}

#[test]
fn tables_memories_and_instances_are_counted() {
    // Some are seen before an instance is made, some by one that asks for more.
    const EXPECTED: &str = "a fixed limit on tables, memories or instances";
    let bench = with_text(&["grow-table", "many-memories"]);
    for guest in ["grow-table", "many-memories"] {
        refused(&bench.fails(TransformSpec::new(guest)), guest, EXPECTED);
    }
    // A good component with instances that nobody uses of a module of: nothing; one table of one element; one table of
    // 2^21 - 1 elements.
    copy(&["upper"], bench.path());
    let upper = std::fs::read(bench.path().join("upper.wasm")).unwrap();
    let nothing = b"\0asm\x01\0\0\0";
    let small_table = b"\0asm\x01\0\0\0\x04\x04\x01\x70\x00\x01";
    let large_table = b"\0asm\x01\0\0\0\x04\x06\x01\x70\x00\xff\xff\x7f";
    for (name, module, instances, fits) in [
        ("few-instances", &nothing[..], 100, true),
        ("many-instances", &nothing[..], 201, false),
        ("few-tables", &small_table[..], 50, true),
        ("many-tables", &small_table[..], 101, false),
        ("large-table", &large_table[..], 1, false),
    ] {
        let bytes = [&upper[..], &unused(&upper, module, instances)].concat();
        std::fs::write(bench.path().join(format!("{name}.wasm")), bytes).unwrap();
        let spec = with_config(name, serde_json::json!({ "columns": ["name"] }));
        if fits {
            assert!(bench.open(&[spec], &[]).unwrap().apply(&four()).is_ok(), "{name}");
        } else {
            refused(&bench.fails(spec), name, EXPECTED);
        }
    }
}

/// Sections that add a core module to a component, and instances of it.
fn unused(component: &[u8], module: &[u8], instances: u8) -> Vec<u8> {
    let mut depth = 0;
    let mut modules = 0_u8;
    for payload in wasmparser::Parser::new(0).parse_all(component) {
        match payload.unwrap() {
            wasmparser::Payload::ModuleSection { .. } => {
                modules += u8::from(depth == 0);
                depth += 1;
            }
            wasmparser::Payload::ComponentSection { .. } => depth += 1,
            wasmparser::Payload::End(_) => depth -= 1,
            _ => {}
        }
    }
    assert!(modules < 0x80 && module.len() < 0x80);
    // Section 1 is a core module; section 2 a list of core instances: 0, which module, no arguments.
    let mut body = vec![instances & 0x7F | 0x80, instances >> 7];
    body.extend([0, modules, 0].repeat(usize::from(instances)));
    let length = body.len();
    let length = [(length & 0x7F) as u8 | 0x80, (length >> 7) as u8];
    [&[1, module.len() as u8][..], module, &[2], &length, &body].concat()
}

#[test]
fn what_is_handed_over_twice_is_counted_twice() {
    let bench = with_text(&["aliased-lists", "aliased-plan"]);
    for guest in ["aliased-lists", "aliased-plan"] {
        let limited = TransformSpec {
            output_bytes: 16 << 20,
            ..TransformSpec::new(guest)
        };
        let expected = "handed over more than its limit of 16777216 bytes";
        refused(&bench.fails(limited), guest, expected);
    }
}

#[test]
fn answers_that_cannot_be_read_are_refused() {
    let bench = with_text(&["out-of-bounds", "name-not-text"]);
    for guest in ["out-of-bounds", "name-not-text"] {
        let error = bench.fails(TransformSpec::new(guest));
        refused(&error, guest, "the component gave an answer that cannot be read");
    }
}

#[test]
fn functions_of_other_types_are_refused_by_name() {
    let bench = with_text(&["wrong-signature"]);
    let error = bench.fails(TransformSpec::new("wrong-signature"));
    refused(
        &error,
        "wrong-signature",
        "exports the contract's functions with other types",
    );
}

#[test]
fn a_guest_of_0_1_0_drops_both_rows_of_an_update_or_none() {
    let bench = with_text(&["split-update"]);
    let chain = bench.open(&[TransformSpec::new("split-update")], &[]).unwrap();
    assert_eq!(chain.provenance()[0].wit, "0.1.0");
    let error = chain.apply(&four()).unwrap_err();
    let expected = "it drops one of the two rows of the update in rows 1 and 2";
    refused(&error, "split-update", expected);
    // The guest always drops the second row: of other changes it may.
    let inserts = people_batch(&[2, 2, 2], vec![Some("a"), Some("b"), Some("c")]);
    assert_eq!(chain.apply(&inserts).unwrap().filtered, 1);
}

#[test]
fn more_than_was_planned_is_refused() {
    let bench = Bench::new(&["badguest"]);
    for (behave, expected) in [
        (
            "long-validity",
            "column `made`: its validity bitmap has 2 bytes instead of 1",
        ),
        ("wide-numbers", "column `made`: its values have 32 bytes instead of 16"),
        (
            "date-beyond",
            "column `made`: its value in row 0 is beyond what its type",
        ),
        (
            "timestamp-beyond",
            "column `made`: its value in row 0 is beyond what its type",
        ),
        ("long-dropped", "the bitmap of dropped rows has 2 bytes instead of 1"),
    ] {
        refused(&bench.fails(bad(behave)), "badguest", expected);
    }
}

#[test]
fn a_column_that_the_host_makes_is_checked_as_any_other() {
    let bench = Bench::new(&["badguest"]);
    let hashed = |behave: &str| TransformSpec {
        keys: vec!["pii".to_owned()],
        output_bytes: 1 << 20,
        ..bad(behave)
    };
    // What was made last counts.
    let chain = bench.open(&[hashed("hashed")], &[]).unwrap();
    assert_eq!(made(&chain).len(), 64);
    for (behave, expected) in [
        (
            "hashed-and-returned",
            "column `made`: the host was asked to make it, and it came with values of its own",
        ),
        (
            "hashed-short",
            "column `made`: it has no offsets instead of 5, one more than rows",
        ),
        (
            "hashed-numbers",
            "column `made`: the host was asked to make it, which makes texts, and the plan says another type",
        ),
        ("hashed-null", "column `made`: it has a NULL"),
        (
            "hashed-beyond",
            "the host was asked to make an output column beyond the 1 that the plan computes",
        ),
        ("hashed-flood", "handed over more than its limit of 1048576 bytes"),
    ] {
        refused(&bench.fails(hashed(behave)), "badguest", expected);
    }
    // Without the key there is no column, and the empty one is none.
    refused(
        &bench.fails(bad("hashed")),
        "badguest",
        "column `made`: it has no offsets instead of 5",
    );
}

/// In a rejected row there need be no value, whoever made the column.
#[test]
fn a_column_that_the_host_makes_goes_with_rejected_rows() {
    let bench = Bench::new(&["badguest"]);
    let spec = TransformSpec {
        keys: vec!["pii".to_owned()],
        on_error: OnError::Quarantine,
        ..bad("hashed-and-rejected")
    };
    let chain = bench.open(&[spec], &[]).unwrap();
    let whole = chain
        .apply(&people_batch(&[2, 2, 2], vec![Some("a"), Some("b"), Some("c")]))
        .unwrap();
    assert_eq!(whole.quarantined.len(), 1);
    let made = texts(&whole.batch, "made");
    assert_eq!(made.len(), 2);
    assert!(
        made.iter()
            .all(|text| text.as_ref().is_some_and(|text| text.len() == 64)),
        "{made:?}"
    );
}

/// A processor keeps the payload of such a number or does not; the sandbox has one for all.
#[test]
fn numbers_that_are_none_are_the_same_everywhere() {
    let bench = Bench::new(&["badguest"]);
    let chain = bench.open(&[bad("nan-payloads")], &[]).unwrap();
    let applied = chain.apply(&four()).unwrap().batch;
    let made = applied.column_by_name("made").unwrap().as_primitive::<Float64Type>();
    let bits: Vec<u64> = made.values().iter().map(|value| value.to_bits()).collect();
    assert_eq!(bits, [0x7FF8_0000_0000_0000; 4]);
}

#[test]
fn plans_of_what_is_not_there_or_too_much_are_refused() {
    let bench = Bench::new(&["badguest"]);
    for (behave, expected) in [
        (
            "unknown-source",
            "output column `made` is made of a column that the input does not have",
        ),
        ("read-twice", "it reads column `name` twice"),
        ("too-many-outputs", "it has 10001 output columns"),
    ] {
        refused(&bench.fails(bad(behave)), "badguest", expected);
    }
}

/// An instance knows nothing but what it is given, so that a plan which differs is another component's. That such a plan
/// is refused (`Fault::PlanChanged`) stays a second line.
#[test]
fn a_plan_cannot_depend_on_the_moment() {
    let bench = Bench::new(&["badguest"]);
    let names = |chain: &Chain| -> Vec<String> { chain.output().iter().map(|column| column.name.clone()).collect() };
    let first = bench.open(&[bad("plan-of-the-moment")], &[]).unwrap();
    assert!(first.output()[3].name.starts_with("made_0_"), "{:?}", names(&first));
    for _ in 0..3 {
        assert!(first.apply(&four()).is_ok());
        let again = bench.open(&[bad("plan-of-the-moment")], &[]).unwrap();
        assert_eq!(names(&again), names(&first));
    }
}

#[test]
fn a_guest_that_passes_a_protected_column_does_not_start() {
    let bench = Bench::new(&["badguest"]);
    let error = bench.open(&[bad("well")], &["name"]).unwrap_err();
    let expected = "protected column `name` passes the transforms unchanged";
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[test]
fn keys_that_are_not_granted_do_not_exist() {
    let bench = Bench::new(&["badguest"]);
    let chain = |keys: &[&str]| {
        let spec = TransformSpec {
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            ..bad("ask-for-keys")
        };
        bench.open(&[spec], &[]).unwrap()
    };
    // The ring has the key in either case.
    assert_eq!(made(&chain(&[])), "keys: ");
    assert_eq!(made(&chain(&["pii"])), "keys: pii");
}

#[test]
fn a_code_that_is_a_value_and_a_row_that_is_none_are_withheld() {
    let bench = Bench::new(&["badguest"]);
    let error = bench.fails(bad("reject-with-plain-value"));
    refused(&error, "badguest", "rejected with code `withheld-code`");
    let error = bench.fails(bad("error-beyond"));
    refused(&error, "badguest", "refused the batch with code `bad-row`");
    assert!(!error.to_string().contains("row 11"), "{error}");
}

/// What a plan has was said before a row was seen; a reject is for whoever looks for the row on the source.
#[test]
fn an_error_may_name_a_column_of_the_plan_and_a_reject_only_one_of_the_table() {
    let bench = Bench::new(&["badguest"]);
    let error = bench.fails(bad("error-in-output"));
    refused(
        &error,
        "badguest",
        "refused the batch with code `bad-row`, column `made`",
    );
    let error = bench.fails(bad("reject-in-output"));
    refused(&error, "badguest", "column `(unknown)`, row 0 of the chunk");
}

/// Field case 23: whatever is wrong with a component, the message names it, and nothing comes out that could be written.
/// That nothing is written then is told by `tests/it/components.rs`.
#[test]
fn a_bad_component_is_refused_by_name() {
    let bench = Bench::own(&["badguest", "unknown-import"]);
    let whole = std::fs::read(bench.path().join("badguest.wasm")).unwrap();
    std::fs::write(bench.path().join("cut.wasm"), &whole[..whole.len() / 2]).unwrap();
    for (spec, expected) in [
        (
            bad("short-column"),
            "column `made`: it has 3 values instead of 4, one a row (offsets: 4)",
        ),
        (
            bad("wide-numbers"),
            "column `made`: its values have 32 bytes instead of 16",
        ),
        (bad("null-in-non-null"), "column `made`: it has a NULL"),
        (
            TransformSpec::new("unknown-import"),
            "the component imports `test:unknown/secrets`",
        ),
        (TransformSpec::new("cut"), "cut.wasm"),
    ] {
        let plugin = spec.plugin.clone();
        refused(&bench.fails(spec), &plugin, expected);
    }
}
