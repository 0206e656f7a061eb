//! Whole transforms, natively: configuration and table in, plan and columns out.

use sluice_plugin::testing::{ALL_TYPES, column};
use sluice_plugin::{
    AnyView, Batch, DataType, OpenError, OutputColumn, OutputSource, Plan, SourceField, Table, Transform, Value,
};

use crate::MapColumns;
use crate::convert::supported;

mod recipes;
mod sources;
mod steps;

fn table(columns: &[(&str, DataType)]) -> Table {
    let field = |&(name, data_type): &(&str, DataType)| SourceField {
        name: name.to_owned(),
        data_type,
        nullable: true,
        source_type: data_type.to_string(),
        key: None,
    };
    Table {
        schema: "dbo".to_owned(),
        name: "t".to_owned(),
        capture_instance: "dbo_t".to_owned(),
        fields: columns.iter().map(field).collect(),
    }
}

fn open(columns: &[(&str, DataType)], config: &str) -> Result<Plan, OpenError> {
    MapColumns::open(&table(columns), config).map(|(_, plan)| plan)
}

const ABC: [(&str, DataType); 3] = [("a", DataType::Int32), ("b", DataType::Utf8), ("c", DataType::Date)];

#[test]
fn renaming_and_dropping_compute_nothing() {
    let config = r#"{"columns":{"A":{"rename":"b"},"b":{"rename":"a"},"c":{"drop":true}},"order":["B"]}"#;
    let plan = open(&ABC, config).unwrap();
    assert_eq!(
        plan.outputs,
        [OutputColumn::pass("b", "a"), OutputColumn::pass("a", "b")]
    );
    assert!(plan.reads.is_empty());
    let same = open(&ABC, r#"{"columns":{"a":{"cast":"int"}}}"#).unwrap();
    assert_eq!(same.outputs[0], OutputColumn::pass("a", "a"));
    assert!(same.reads.is_empty());
}

#[test]
fn order_puts_the_named_first() {
    let names = |config: &str| -> Vec<String> {
        let plan = open(&ABC, config).unwrap();
        plan.outputs.into_iter().map(|output| output.name).collect()
    };
    assert_eq!(names("{}"), ["a", "b", "c"]);
    assert_eq!(names(r#"{"order":["C"]}"#), ["c", "a", "b"]);
    assert_eq!(
        names(r#"{"columns":{"c":{"rename":"z"}},"order":["z","b"]}"#),
        ["z", "b", "a"]
    );
}

#[test]
fn what_is_not_listed_follows_the_rule() {
    let config = |rule: &str| format!(r#"{{"unlisted":"{rule}","columns":{{"a":{{}}}}}}"#);
    assert_eq!(open(&ABC, &config("drop")).unwrap().outputs.len(), 1);
    assert_eq!(open(&ABC, &config("pass")).unwrap().outputs.len(), 3);
    assert_eq!(
        open(&ABC, &config("fail")),
        Err(OpenError::Unlisted(vec!["b".to_owned(), "c".to_owned()]))
    );
}

#[test]
fn mistakes_in_names_are_refused() {
    for (config, said) in [
        (
            r#"{"columns":{"a":{"rename":"B"}}}"#,
            "the columns `a` and `b` would both be named",
        ),
        (r#"{"columns":{"x":{}}}"#, "the table has no column x"),
        (
            r#"{"order":["bb"]}"#,
            "order[0]: no output is named `bb`, did you mean `b`?",
        ),
        (r#"{"order":["a","A"]}"#, "order[1]: `A` stands there twice"),
        (
            r#"{"columns":{"a":{"drop":true}},"order":["a"]}"#,
            "order[0]: no output",
        ),
        (
            r#"{"columns":{"c":{"cast":"int"}}}"#,
            "column c: it is date, which cannot be cast to int",
        ),
    ] {
        let answer = open(&ABC, config).unwrap_err().to_string();
        assert!(answer.contains(said), "{config}: {answer}");
    }
    let twins = [("a", DataType::Int32), ("A", DataType::Int32)];
    assert!(
        open(&twins, "{}")
            .unwrap_err()
            .to_string()
            .contains("would both be named")
    );
}

#[test]
fn a_failing_cast_rejects_its_row() {
    let config = r#"{"columns":{"b":{"cast":"smallint","rename":"n"}}}"#;
    let (mut map, plan) = MapColumns::open(&table(&ABC), config).unwrap();
    assert_eq!(plan.reads, ["b"]);
    assert_eq!(plan.outputs[1].name, "n");
    let values = ["7", "70000", "seven"].map(|text| Some(Value::Utf8(text)));
    let values = [values[0], None, values[1], values[2]];
    let batch = Batch {
        rows: 4,
        operations: vec![0; 4],
        columns: vec![column(DataType::Utf8, &values)],
    };
    let outcome = map.apply(&batch).unwrap();
    let view = AnyView::new(&outcome.columns[0], 4, DataType::Int16).unwrap();
    assert_eq!(view.get(0), Some(Value::Int(7)));
    assert_eq!(view.get(1), None);
    let rejects: Vec<_> = outcome
        .rejects
        .iter()
        .map(|reject| (reject.row, reject.column.as_str(), reject.code.as_str()))
        .collect();
    assert_eq!(rejects, [(2, "b", "cast-overflow"), (3, "b", "cast-invalid")]);
}

/// Every pair of types: either refused when opened, or a column of the right type with its NULLs where they were.
#[test]
fn every_pair_of_types_with_nulls_and_without_rows() {
    let targets = [
        "boolean",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "decimal(19,4)",
        "date",
        "timestamp_ntz",
        "string",
        "binary",
    ];
    let mut casts = 0;
    for from in ALL_TYPES {
        for target in targets {
            let config = format!(r#"{{"columns":{{"c":{{"cast":"{target}"}}}}}}"#);
            let Ok((mut map, plan)) = MapColumns::open(&table(&[("c", from)]), &config) else {
                continue;
            };
            let OutputSource::Computed(field) = &plan.outputs[0].source else {
                assert_eq!(from.to_string(), target);
                continue;
            };
            assert!(supported(from, field.data_type));
            casts += 1;
            for values in [&[][..], &[None; 9]] {
                let batch = Batch {
                    rows: values.len() as u32,
                    operations: vec![0; values.len()],
                    columns: vec![column(from, values)],
                };
                let outcome = map.apply(&batch).unwrap();
                assert!(outcome.rejects.is_empty());
                let view = AnyView::new(&outcome.columns[0], values.len(), field.data_type).unwrap();
                assert!((0..values.len()).all(|row| view.get(row).is_none()));
            }
        }
    }
    assert_eq!(casts, 61);
}

#[test]
fn one_batch_with_a_cast_of_each_kind() {
    let columns = [
        ("flag", DataType::Boolean),
        ("price", DataType::Decimal { precision: 9, scale: 2 }),
        ("day", DataType::Date),
        ("text", DataType::Utf8),
    ];
    let config = r#"{"columns":{
        "flag":{"cast":"int"}, "price":{"cast":"string"}, "day":{"cast":"timestamp_ntz"}, "text":{"cast":"binary"}}}"#;
    let (mut map, plan) = MapColumns::open(&table(&columns), config).unwrap();
    let values = [
        Value::Boolean(true),
        Value::Decimal(1_990, 2),
        Value::Date(1),
        Value::Utf8("ä"),
    ];
    let batch = Batch {
        rows: 1,
        operations: vec![0],
        columns: columns
            .iter()
            .zip(values)
            .map(|(&(_, data_type), value)| column(data_type, &[Some(value)]))
            .collect(),
    };
    let outcome = map.apply(&batch).unwrap();
    assert!(outcome.rejects.is_empty());
    let expected = [
        Value::Int(1),
        Value::Utf8("19.90"),
        Value::TimestampNtz(86_400_000_000),
        Value::Binary("ä".as_bytes()),
    ];
    for ((output, column), expected) in plan.outputs.iter().zip(&outcome.columns).zip(expected) {
        let OutputSource::Computed(field) = &output.source else {
            panic!("{output:?}");
        };
        let view = AnyView::new(column, 1, field.data_type).unwrap();
        assert_eq!(view.get(0), Some(expected));
    }
}
