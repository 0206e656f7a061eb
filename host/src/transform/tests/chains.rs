//! What a chain of good components does.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow::array::{
    BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int16Array, Int64Array,
};

use super::*;
use crate::error::{Classify, ErrorKind};

#[test]
fn a_component_changes_its_column_and_nothing_else() {
    let bench = Bench::new(&["upper"]);
    let chain = bench.open(&[upper()], &[]).unwrap();
    let input = four();
    let applied = chain.apply(&input).unwrap();
    assert_eq!(
        texts(&applied.batch, "name"),
        [Some("ANNA".into()), None, Some("BéLA".into()), Some(String::new())]
    );
    assert_eq!(applied.filtered, 0);
    for untouched in [0, 1, 2, 3, 4, 5, 6, 8] {
        assert_eq!(applied.batch.column(untouched), input.column(untouched));
    }
    let names: Vec<&str> = chain.output().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["id", "name", "note"]);
    // A slice gives the guest other buffers and the same values.
    let sliced = chain.apply(&input.slice(1, 3)).unwrap();
    assert_eq!(sliced.batch, applied.batch.slice(1, 3));
}

#[test]
fn what_the_time_was_spent_on_is_within_the_time_that_was_spent() {
    let bench = Bench::new(&["mask"]);
    let chain = bench.open(&[hash()], &["name"]).unwrap();
    let Applied { spent, elapsed, .. } = chain.apply(&four()).unwrap();
    let parts = [spent.instances, spent.calls, spent.checks, spent.leak_check];
    assert!(parts.iter().all(|part| !part.is_zero()), "{spent:?}");
    assert!(parts.iter().sum::<Duration>() <= elapsed, "{spent:?} {elapsed:?}");
    assert!(
        !spent.keyed.is_zero() && spent.keyed <= spent.instances + spent.calls,
        "{spent:?}"
    );
}

#[test]
fn a_map_that_only_renames_and_drops_makes_no_instance_and_no_call_for_a_chunk() {
    let bench = Bench::new(&["map"]);
    let columns = |config| with_config("map", serde_json::json!({ "columns": config }));
    let renames = columns(serde_json::json!({ "note": { "drop": true }, "name": { "rename": "full_name" } }));
    let upper = columns(serde_json::json!({ "note": { "drop": true }, "name": { "steps": ["upper"] } }));
    let calls = |spec| {
        let chain = bench.open(&[spec], &["note"]).unwrap();
        let spent = chain.apply(&four()).unwrap().spent;
        (!spent.instances.is_zero(), !spent.calls.is_zero())
    };
    assert_eq!(calls(renames), (false, false));
    assert_eq!(calls(upper), (true, true));
}

#[test]
fn routes_and_provenance_say_what_was_done() {
    let bench = Bench::new(&["mask", "map"]);
    let map = with_config(
        "map",
        serde_json::json!({ "columns": { "note": { "drop": true }, "name": { "rename": "name_hash" } } }),
    );
    let chain = bench.open(&[hash(), map], &["name", "note"]).unwrap();
    let routes = chain.routes();
    assert_eq!(routes[0].passed_as, ["id"]);
    assert!(routes[1].passed_as.is_empty());
    assert_eq!(routes[1].computed_into[0].column, "name_hash");
    assert!(routes[2].is_dropped());
    assert!(matches!(&chain.output()[1].from, Route::Computed { sources, .. } if sources == &["name"]));
    let provenance = chain.provenance();
    assert_eq!(provenance.len(), 2);
    assert_eq!(
        (provenance[0].plugin.as_str(), provenance[1].plugin.as_str()),
        ("mask", "map")
    );
    assert_eq!(provenance[0].wit, bindings::VERSIONS[0]);
    assert_eq!(provenance[0].keys, BTreeMap::from([("pii".into(), "v3".into())]));
    assert!(provenance[1].keys.is_empty());
    let components = chain.component_bytes();
    assert_eq!(components.len(), 2);
    for (digest, bytes) in &components {
        let step = provenance.iter().find(|step| step.sha256 == *digest).unwrap();
        let file = bench.path().join(format!("{}.wasm", step.plugin));
        assert_eq!(&**bytes, std::fs::read(file).unwrap());
    }
    assert_eq!(chain.digest().len(), 64);
    assert_ne!(chain.digest(), bench.open(&[hash()], &["name"]).unwrap().digest());
    assert_eq!(
        bench.open(&[hash()], &[]).unwrap().digest(),
        bench.open(&[hash()], &[]).unwrap().digest()
    );
}

#[test]
fn an_empty_chain_and_an_empty_chunk_pass() {
    let bench = Bench::new(&["badguest"]);
    let empty = bench.open(&[], &[]).unwrap();
    assert_eq!(empty.apply(&four()).unwrap().batch, four());
    assert_eq!(empty.output().len(), 3);
    let chain = bench.open(&[bad("well")], &[]).unwrap();
    let applied = chain.apply(&four().slice(0, 0)).unwrap();
    assert_eq!(applied.batch.num_rows(), 0);
    assert_eq!(applied.batch.schema(), chain.apply(&four()).unwrap().batch.schema());
}

#[test]
fn protected_columns_are_followed_under_any_name() {
    let bench = Bench::new(&["map", "upper"]);
    let rename = with_config(
        "map",
        serde_json::json!({ "columns": { "note": { "rename": "remark" } } }),
    );
    let chain = bench.open(std::slice::from_ref(&rename), &[]).unwrap();
    assert_eq!(
        texts(&chain.apply(&four()).unwrap().batch, "remark"),
        texts(&four(), "note")
    );
    let error = bench.open(&[upper(), rename], &["Note", "name"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "table dbo_people: protected column `note` passes the transforms unchanged, as `remark`; mask it, drop it, or take \
         it out of `protect`"
    );
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(bench.open(&[], &["name"]).is_err());
}

#[test]
fn the_built_in_map_does_not_mask_a_protected_column() {
    let builtin = |name| -> BuiltinComponent {
        let bytes = std::fs::read(sluice_test_guests::component(name)).unwrap();
        BuiltinComponent {
            name,
            bytes: Vec::leak(bytes),
        }
    };
    let builtins = Vec::leak(vec![builtin("map"), builtin("mask")]);
    let engine = Engine::new(None::<PathBuf>, builtins).unwrap();
    let mut keys = KeyRing::new();
    keys.insert("pii", "v3", SECRET.to_vec()).unwrap();
    let open = |specs: &[TransformSpec]| Chain::open(&engine, &people(), specs, &keys, &["name".to_owned()]);
    let cast = with_config(
        "map",
        serde_json::json!({ "columns": { "name": { "cast": "binary" } } }),
    );
    let rename = with_config("map", serde_json::json!({ "columns": { "name": { "rename": "n" } } }));
    let drop = with_config("map", serde_json::json!({ "columns": { "name": { "drop": true } } }));
    for specs in [vec![cast.clone()], vec![cast.clone(), rename.clone()]] {
        let error = open(&specs).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(
            error
                .to_string()
                .contains("and only `map` changed it, which masks nothing; mask it with `mask`"),
            "{error}"
        );
    }
    assert!(open(&[hash(), cast.clone()]).is_ok());
    assert!(open(&[hash(), rename]).is_ok());
    assert!(open(&[drop]).is_ok());
    // The same component from a file is a component like any other.
    let bench = Bench::new(&["map"]);
    assert!(bench.open(&[cast], &["name"]).is_ok());
}

#[test]
fn a_raw_value_in_the_output_fails_the_batch_without_being_shown() {
    let bench = Bench::new(&["badguest", "map"]);
    let drop = with_config("map", serde_json::json!({ "columns": { "name": { "drop": true } } }));
    for behave in ["leak", "leak-whole"] {
        let chain = bench.open(&[bad(behave), drop.clone()], &["name"]).unwrap();
        let input = people_batch(&[2, 2], vec![None, Some("Anna Kiss")]);
        let error = chain.apply(&input).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ComponentRefused);
        assert_eq!(
            error.to_string(),
            "table dbo_people: the value of protected column `name` appears in output column `made`, row 1 of the chunk \
             (LSN 0x00000000000000000002); mask `made`, drop it, take `name` out of `protect`, or, where values are \
             equal by chance in a few rows, have `on_error = \"quarantine\"` take such rows out"
        );
    }
}

#[test]
fn a_sampled_leak_check_looks_at_fixed_rows_and_none_at_none() {
    let bench = Bench::new(&["badguest", "map"]);
    let drop = with_config("map", serde_json::json!({ "columns": { "name": { "drop": true } } }));
    let finds = |leak_check: LeakCheck, names: Vec<Option<&str>>| {
        let chain = bench.open(&[bad("leak"), drop.clone()], &["name"]).unwrap();
        let operations = vec![2; names.len()];
        let applied = chain
            .with_leak_check(leak_check)
            .apply(&people_batch(&operations, names));
        matches!(applied, Err(TransformError::Leak { .. }))
    };
    // Row 0 is in the sample, row 1 is not.
    assert!(finds(LeakCheck::Full, vec![None, Some("Anna Kiss")]));
    assert!(!finds(LeakCheck::Sampled, vec![None, Some("Anna Kiss")]));
    assert!(finds(LeakCheck::Sampled, vec![Some("Anna Kiss"), None]));
    assert!(!finds(LeakCheck::Off, vec![Some("Anna Kiss"), Some("Anna Kiss")]));
    // The plan is held to `protect` whatever is looked through later.
    assert!(bench.open(&[], &["name"]).is_err());
}

#[test]
fn every_type_crosses_and_comes_back_as_it_was() {
    let timestamps = TimestampMicrosecondArray::from(vec![Some(-62_135_596_800_000_000), None, Some(5)]);
    let decimals = Decimal128Array::from(vec![Some(10_i128.pow(38) - 1), None, Some(-1)]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("i2", Arc::new(Int16Array::from(vec![Some(-1), None, Some(i16::MAX)]))),
        ("i4", Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(1)]))),
        ("i8", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(1)]))),
        (
            "f4",
            Arc::new(Float32Array::from(vec![Some(-0.0), None, Some(f32::MIN)])),
        ),
        (
            "f8",
            Arc::new(Float64Array::from(vec![Some(-0.0), None, Some(f64::MAX)])),
        ),
        ("d", Arc::new(decimals.with_precision_and_scale(38, 10).unwrap())),
        (
            "date",
            Arc::new(Date32Array::from(vec![Some(-719_162), None, Some(2_932_896)])),
        ),
        ("ntz", Arc::new(timestamps.clone())),
        ("utc", Arc::new(timestamps.with_timezone("UTC"))),
        ("s", Arc::new(StringArray::from(vec![Some("ä"), None, Some("")]))),
        (
            "bin",
            Arc::new(BinaryArray::from(vec![Some(&b"\xFF\x00"[..]), None, Some(b"")])),
        ),
    ];
    let shape = TableShape {
        columns: columns
            .iter()
            .map(|(name, array)| ColumnShape {
                name: (*name).into(),
                source_type: "x".into(),
                data_type: array.data_type().clone(),
                key: None,
                recorded: Recorded::Always,
            })
            .collect(),
        ..people()
    };
    let input = batch(&[2, 2, 2], columns);
    let bench = Bench::new(&["badguest"]);
    let chain = Chain::open(&bench.engine, &shape, &[bad("identity")], &KeyRing::new(), &[]).unwrap();
    for (offset, length) in [(0, 3), (1, 2), (2, 1)] {
        let slice = input.slice(offset, length);
        assert_eq!(chain.apply(&slice).unwrap().batch, slice);
    }
}

#[test]
fn dictionaries_are_decoded() {
    let names: DictionaryArray<Int32Type> = [Some("a"), None, Some("a"), Some("b")].into_iter().collect();
    let plain = four();
    let mut columns: Vec<(&str, ArrayRef)> = vec![("id", Arc::clone(plain.column(6))), ("name", Arc::new(names))];
    columns.push(("note", Arc::clone(plain.column(8))));
    let bench = Bench::new(&["upper"]);
    let chain = bench.open(&[upper()], &[]).unwrap();
    let applied = chain.apply(&batch(&[2, 3, 4, 1], columns)).unwrap();
    assert_eq!(
        texts(&applied.batch, "name"),
        [Some("A".into()), None, Some("A".into()), Some("B".into())]
    );
}

#[test]
fn filters_take_whole_rows_with_their_metadata() {
    let bench = Bench::new(&["badguest", "upper"]);
    let chain = bench.open(&[bad("drop-updates"), upper()], &[]).unwrap();
    let applied = chain.apply(&four()).unwrap();
    assert_eq!(applied.filtered, 2);
    assert_eq!(texts(&applied.batch, "name"), some(&["ANNA", ""]));
    assert_eq!(
        texts(&applied.batch, "_start_lsn"),
        some(&["0x00000000000000000001", "0x00000000000000000003"])
    );
}

#[test]
fn keys_are_used_only_where_they_are_granted() {
    let bench = Bench::new(&["mask"]);
    let applied = bench.open(&[hash()], &["name"]).unwrap().apply(&four()).unwrap();
    let hashes = texts(&applied.batch, "name");
    assert_eq!(hashes[0].as_deref(), Some(TAG_OF_ANNA));
    assert_eq!(hashes[1], None);
    let ungranted = TransformSpec {
        keys: Vec::new(),
        ..hash()
    };
    let error = bench.fails(ungranted);
    assert!(
        error
            .to_string()
            .contains("the key `pii` is not granted to this transform"),
        "{error}"
    );
}

#[test]
fn chunks_are_applied_from_several_threads() {
    let bench = Bench::new(&["mask"]);
    let chain = bench.open(&[hash()], &["name"]).unwrap();
    let once = chain.apply(&four()).unwrap().batch;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..25).all(|_| chain.apply(&four()).unwrap().batch == once)))
            .collect();
        assert!(workers.into_iter().all(|worker| worker.join().unwrap()));
    });
}
