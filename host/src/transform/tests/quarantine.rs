//! Rows that cannot be transformed, where they may go into quarantine.

use std::time::Duration;

use super::*;

fn quarantining(spec: TransformSpec) -> TransformSpec {
    TransformSpec {
        on_error: OnError::Quarantine,
        ..spec
    }
}

/// Casts `name` to a number, which rejects every name that is none.
fn number() -> TransformSpec {
    with_config("map", serde_json::json!({ "columns": { "name": { "cast": "int" } } }))
}

/// Does what `behave` says for a batch with the name `bad`, and passes every other batch.
fn on_bad(behave: &str) -> TransformSpec {
    quarantining(with_config(
        "badguest",
        serde_json::json!({ "behave": behave, "on": "bad" }),
    ))
}

/// Row as it was read, column, code.
type Named<'a> = (String, Option<&'a str>, &'a str);

/// What went into quarantine, and the ids that are left.
fn outcome(applied: &Applied) -> (Vec<Named<'_>>, Vec<i32>) {
    let rows = applied.quarantined.iter();
    let quarantined = rows
        .map(|row| (row.start_lsn[20..].to_owned(), row.column.as_deref(), row.code.as_str()))
        .collect();
    let ids = applied.batch.column_by_name("id").unwrap().as_primitive::<Int32Type>();
    (quarantined, ids.values().to_vec())
}

fn at(lsn: &str, column: Option<&'static str>, code: &'static str) -> Named<'static> {
    (lsn.to_owned(), column, code)
}

#[test]
fn rejected_rows_go_and_the_others_stay() {
    let bench = Bench::new(&["map"]);
    let chain = bench.open(&[quarantining(number())], &[]).unwrap();
    let names = vec![Some("1"), Some("x"), None, Some("4")];
    let applied = chain.apply(&people_batch(&[2, 2, 2, 1], names.clone())).unwrap();
    let (quarantined, ids) = outcome(&applied);
    assert_eq!(quarantined, [at("02", Some("name"), "cast-invalid")]);
    assert_eq!(ids, [0, 2, 3]);
    assert_eq!((applied.filtered, applied.origin), (0, Some(vec![0, 2, 3])));
    let row = &applied.quarantined[0];
    assert_eq!(
        (row.capture_instance.as_str(), row.operation, row.step),
        ("dbo_people", 2, Some(0))
    );
    assert_eq!(row.seqval.as_deref(), Some("0x00000000000000000002"));
    assert!(applied.tied != Together::default());
    // Without quarantine the batch fails, as it does by default.
    let chain = bench.open(&[number()], &[]).unwrap();
    let error = chain
        .apply(&people_batch(&[2, 2, 2, 1], names))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(
            "column `name`, row 1 of the chunk (LSN 0x00000000000000000002): rejected with code `cast-invalid`"
        ),
        "{error}"
    );
}

#[test]
fn both_rows_of_an_update_go_and_so_does_what_a_later_transform_had_dropped() {
    let bench = Bench::new(&["map", "badguest"]);
    let chain = bench.open(&[quarantining(number())], &[]).unwrap();
    let updates = people_batch(
        &[3, 4, 3, 4, 2],
        vec![Some("1"), Some("x"), Some("3"), Some("4"), Some("5")],
    );
    let applied = chain.apply(&updates).unwrap();
    let (quarantined, ids) = outcome(&applied);
    assert_eq!(
        quarantined,
        [at("01", None, WITH_ANOTHER), at("01", Some("name"), "cast-invalid")]
    );
    assert_eq!(ids, [2, 3, 4]);
}

#[test]
fn rows_of_one_key_in_one_transaction_go_together() {
    let bench = Bench::new(&["map"]);
    let chain = bench.open(&[quarantining(number())], &[]).unwrap();
    // Row 0 is deleted and inserted again, in one transaction with row 1; row 0 of another transaction is another matter.
    let rows = people_batch(&[1, 2, 2, 2], vec![Some("1"), Some("2"), Some("x"), Some("x")]);
    let lsns: ArrayRef = Arc::new(StringArray::from(vec!["a", "a", "a", "b"]));
    let ids: ArrayRef = Arc::new(Int32Array::from(vec![0, 1, 0, 7]));
    let mut columns = rows.columns().to_vec();
    (columns[1], columns[6]) = (lsns, ids);
    let rows = RecordBatch::try_new(rows.schema(), columns).unwrap();
    let applied = chain.apply(&rows).unwrap();
    let codes: Vec<_> = applied
        .quarantined
        .iter()
        .map(|row| (row.start_lsn.as_str(), row.operation, row.code.as_str()))
        .collect();
    assert_eq!(
        codes,
        [
            ("a", 1, WITH_ANOTHER),
            ("a", 2, "cast-invalid"),
            ("b", 2, "cast-invalid")
        ]
    );
    // In another chunk of the transaction the key goes along, when that is known.
    let later = people_batch(&[2, 2], vec![Some("1"), Some("2")]);
    let mut columns = later.columns().to_vec();
    columns[1] = Arc::new(StringArray::from(vec!["a", "a"]));
    let later = RecordBatch::try_new(later.schema(), columns).unwrap();
    let applied = chain.apply_among(&later, &applied.tied, u64::MAX).unwrap();
    let ids = applied.batch.column_by_name("id").unwrap().as_primitive::<Int32Type>();
    assert_eq!(ids.values(), &[1]);
    assert_eq!(applied.quarantined[0].code, WITH_ANOTHER);
}

#[test]
fn the_rows_that_a_component_fails_on_are_found() {
    let bench = Bench::new(&["badguest"]);
    let names = |bad: &[usize]| {
        let names = (0..50).map(|row| Some(if bad.contains(&row) { "bad" } else { "good" }));
        people_batch(&[2; 50], names.collect())
    };
    for (behave, code) in [
        ("trap", "trap"),
        ("recurse", "stack-limit"),
        ("short-column", "invalid-answer"),
        ("error-with-secret", "withheld-code"),
    ] {
        let chain = bench.open(&[on_bad(behave)], &[]).unwrap();
        let applied = chain.apply(&names(&[7, 8, 49])).unwrap();
        let (quarantined, ids) = outcome(&applied);
        let found: Vec<_> = quarantined.iter().map(|(lsn, _, code)| (lsn.as_str(), *code)).collect();
        assert_eq!(found, [("08", code), ("09", code), ("32", code)], "{behave}");
        assert_eq!(ids.len(), 47);
        // The answer of the parts is that of the whole.
        let whole = chain.apply(&names(&[])).unwrap();
        let left = arrow::compute::concat_batches(
            &whole.batch.schema(),
            &[whole.batch.slice(0, 7), whole.batch.slice(9, 40)],
        )
        .unwrap();
        assert_eq!(texts(&applied.batch, "made"), texts(&left, "made"));
        assert_eq!(applied.batch.column_by_name("id"), left.column_by_name("id"));
    }
}

#[test]
fn a_deadline_stops_the_table_whatever_is_said_of_errors() {
    let bench = Bench::new(&["badguest"]);
    let spec = TransformSpec {
        deadline: Duration::from_millis(200),
        ..on_bad("loop")
    };
    let chain = bench.open(&[spec], &[]).unwrap();
    let error = chain
        .apply(&people_batch(&[2, 2], vec![Some("bad"), Some("good")]))
        .unwrap_err();
    assert!(
        matches!(
            error,
            TransformError::Refused {
                fault: Fault::Deadline { .. },
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_component_that_fails_on_too_many_rows_stops_before_it_is_asked_for_each() {
    let bench = Bench::new(&["badguest"]);
    let chain = bench.open(&[on_bad("trap")], &[]).unwrap();
    let all_bad = people_batch(&[2; 50], vec![Some("bad"); 50]);
    let error = chain
        .apply_among(&all_bad, &Together::default(), 3)
        .unwrap_err()
        .to_string();
    assert!(
        error
            .contains("4 of one chunk, and `max_quarantined` leaves room for 3; of one of them, the component trapped"),
        "{error}"
    );
    assert!(error.contains("max_quarantined"), "{error}");
}

#[test]
fn what_a_component_fails_on_all_along_is_its_own_fault_and_no_rows() {
    let bench = Bench::new(&["badguest", "map"]);
    let all = |name, operations: &[i32]| people_batch(operations, vec![Some(name); operations.len()]);
    for behave in ["trap", "short-column", "error-with-secret"] {
        let chain = bench.open(&[on_bad(behave)], &[]).unwrap();
        let error = chain.apply(&all("bad", &[2; 10])).unwrap_err();
        let TransformError::Refused {
            fault: Fault::Everything { changes: 10, first },
            ..
        } = &error
        else {
            panic!("{behave}: {error}");
        };
        assert!(first.row_code().is_some(), "{behave}: {first}");
        let text = error.to_string();
        assert!(
            text.contains("transform 1 (`badguest`): the component fails on each of the 10 changes of the chunk"),
            "{text}"
        );
        // Nine say little: they go, and so do the two rows of each of nine updates, and ten that one with an answer is among.
        let count = |rows: &RecordBatch| chain.apply(rows).unwrap().quarantined.len();
        assert_eq!(count(&all("bad", &[2; 9])), 9, "{behave}");
        assert_eq!(count(&all("bad", &[3, 4].repeat(9))), 18, "{behave}");
        let mut names = vec![Some("bad"); 11];
        names[6] = Some("good");
        assert_eq!(count(&people_batch(&[2; 11], names)), 10, "{behave}");
        // Rows that come again were picked out of many.
        let again = chain.apply_again(&all("bad", &[2; 10]), &Together::default(), u64::MAX);
        assert_eq!(again.unwrap().quarantined.len(), 10, "{behave}");
    }
    // A reject is an answer.
    let chain = bench.open(&[quarantining(number())], &[]).unwrap();
    let applied = chain.apply(&all("x", &[2; 10])).unwrap();
    assert_eq!(applied.quarantined.len(), 10);
}

/// A component that shows `name` in `made`, and `name` dropped.
fn leaking() -> [TransformSpec; 2] {
    let drop = with_config("map", serde_json::json!({ "columns": { "name": { "drop": true } } }));
    [quarantining(bad("leak-whole")), drop]
}

#[test]
fn a_row_with_a_protected_value_goes_with_what_is_tied_to_it_and_the_others_stay() {
    let bench = Bench::new(&["badguest", "map"]);
    let chain = bench.open(&leaking(), &["name"]).unwrap();
    let applied = chain.apply(&four()).unwrap();
    let (quarantined, ids) = outcome(&applied);
    assert_eq!(
        quarantined,
        [
            at("01", Some("name"), PROTECTED_VALUE),
            at("02", None, WITH_ANOTHER),
            at("02", Some("name"), PROTECTED_VALUE)
        ]
    );
    assert_eq!(ids, [3]);
    assert_eq!((applied.filtered, applied.origin), (0, Some(vec![3])));
    // The first transform made the column, whatever the second did with the others.
    assert!(applied.quarantined.iter().all(|row| row.step == Some(0)));
}

#[test]
fn a_protected_value_in_a_column_that_passes_is_no_transforms_fault() {
    let bench = Bench::new(&["mask"]);
    let chain = bench.open(&[quarantining(hash())], &["name"]).unwrap();
    let applied = chain
        .apply(&people_batch(&[2, 2], vec![Some("note 0"), Some("anna")]))
        .unwrap();
    assert_eq!(
        outcome(&applied),
        (vec![at("01", Some("name"), PROTECTED_VALUE)], vec![1])
    );
    assert_eq!(applied.quarantined[0].step, None);
}

#[test]
fn protected_values_in_more_rows_than_may_go_into_quarantine_stop_the_table() {
    let bench = Bench::new(&["badguest", "map"]);
    let chain = bench.open(&leaking(), &["name"]).unwrap();
    let apply = |most| chain.apply_among(&four(), &Together::default(), most);
    assert_eq!(apply(2).unwrap().quarantined.len(), 3);
    for most in [0, 1] {
        let error = apply(most).unwrap_err();
        assert!(matches!(error, TransformError::Leak { .. }), "{error}");
    }
}

#[test]
fn an_update_that_crosses_a_filter_becomes_a_delete_or_an_insert() {
    let bench = Bench::new(&["badguest"]);
    let chain = bench.open(&[bad("split-update")], &[]).unwrap();
    // Its first row is dropped, as if it had not been of the rows that are kept.
    let applied = chain.apply(&four()).unwrap();
    let operations = applied.batch.column(3).as_primitive::<Int32Type>();
    assert_eq!(operations.values(), &[2, 2, 1]);
    assert_eq!((applied.filtered, applied.origin), (1, Some(vec![0, 2, 3])));
}

#[test]
fn rows_that_come_again_are_all_looked_through_where_some_were() {
    let bench = Bench::new(&["badguest", "map"]);
    let drop = with_config("map", serde_json::json!({ "columns": { "name": { "drop": true } } }));
    let open = |mode| {
        let chain = bench.open(&[bad("leak-whole"), drop.clone()], &["name"]).unwrap();
        chain.with_leak_check(mode)
    };
    // Of these two, the first row is the one that is sampled.
    let rows = people_batch(&[2, 2], vec![None, Some("anna")]);
    let again = |chain: &Chain| chain.apply_again(&rows, &Together::default(), u64::MAX);
    let sampled = open(LeakCheck::Sampled);
    sampled.apply(&rows).unwrap();
    let error = again(&sampled).unwrap_err();
    assert!(matches!(error, TransformError::Leak { .. }), "{error}");
    again(&open(LeakCheck::Off)).unwrap();
}
