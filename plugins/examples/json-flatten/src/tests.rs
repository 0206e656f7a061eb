use sluice_plugin::testing::column;
use sluice_plugin::{AnyView, DataType, OutputSource, SourceField, Value};

use super::*;

fn events() -> Table {
    let field = |name: &str, data_type, source_type: &str| SourceField {
        name: name.to_owned(),
        data_type,
        nullable: false,
        source_type: source_type.to_owned(),
        key: None,
    };
    Table {
        schema: "dbo".to_owned(),
        name: "events".to_owned(),
        capture_instance: "dbo_events".to_owned(),
        fields: vec![
            field("id", DataType::Int32, "int"),
            field("Payload", DataType::Utf8, "nvarchar(max)"),
            field("note", DataType::Utf8, "nvarchar(100)"),
        ],
    }
}

fn config(more: &str) -> String {
    format!(
        r#"{{ "column": "payload", {more} "fields": {{
            "sku": {{ "path": "$.sku" }}, "amount": {{ "path": "$.order.amount", "type": "decimal(12,2)" }} }} }}"#
    )
}

type Rows = Vec<(Option<String>, Option<i128>)>;

fn flat(more: &str, texts: &[Option<&str>]) -> (Rows, Vec<(u32, String)>) {
    let (mut flatten, plan) = JsonFlatten::open(&events(), &config(more)).unwrap();
    assert_eq!(plan.reads, ["Payload"]);
    let values: Vec<_> = texts.iter().map(|text| text.map(Value::Utf8)).collect();
    let batch = Batch {
        rows: texts.len() as u32,
        operations: vec![2; texts.len()],
        columns: vec![column(DataType::Utf8, &values)],
    };
    let outcome = flatten.apply(&batch).unwrap();
    let skus = Utf8View::new(&outcome.columns[0], texts.len()).unwrap();
    let amounts = AnyView::new(&outcome.columns[1], texts.len(), flatten.fields[1].data_type).unwrap();
    let rows = skus.iter().enumerate().map(|(row, sku)| {
        let amount = match amounts.get(row) {
            Some(Value::Decimal(amount, 2)) => Some(amount),
            None => None,
            other => panic!("{other:?}"),
        };
        (sku.map(str::to_owned), amount)
    });
    let rejects = outcome.rejects.iter().map(|reject| {
        assert_eq!(reject.column, "Payload");
        (reject.row, reject.code.clone())
    });
    (rows.collect(), rejects.collect())
}

const TEXTS: [Option<&str>; 7] = [
    Some(r#"{"sku":"A-1","order":{"amount":12.5}}"#),
    Some(r#"{"sku":"A-2","order":{"amount":"a lot"}}"#),
    Some(r#"{"sku":"A-3","order":{"amount":null}}"#),
    Some(r#"{"sku":"A-4","order":[]}"#),
    Some(r#"{"sku":"A-5""#),
    Some(""),
    None,
];

#[test]
fn by_default_what_is_wrong_is_rejected_and_what_is_missing_is_null() {
    let (rows, rejects) = flat("", &TEXTS);
    let some = |sku: &str| Some(sku.to_owned());
    let expected = [
        (some("A-1"), Some(1250)),
        (some("A-2"), None),
        (some("A-3"), None),
        (some("A-4"), None),
        (None, None),
        (None, None),
        (None, None),
    ];
    assert_eq!(rows, expected);
    let codes = [(1, "json-type-amount"), (4, "json-invalid"), (5, "json-invalid")];
    assert_eq!(rejects, codes.map(|(row, code)| (row, code.to_owned())));
}

#[test]
fn each_of_them_can_be_the_other_way_round() {
    let (_, rejects) = flat(r#""invalid": "null", "mismatch": "null", "missing": "reject","#, &TEXTS);
    let codes = [(2, "json-missing-amount"), (3, "json-missing-amount")];
    assert_eq!(rejects, codes.map(|(row, code)| (row, code.to_owned())));
    let (rows, _) = flat("", &[]);
    assert!(rows.is_empty());
}

#[test]
fn the_fields_stand_where_the_json_stood() {
    let outputs = |more: &str| {
        let (_, plan) = JsonFlatten::open(&events(), &config(more)).unwrap();
        let names = plan.outputs.iter().map(|output| match &output.source {
            OutputSource::Pass(_) => output.name.clone(),
            OutputSource::Computed(field) => format!("{} {}", output.name, field.data_type),
        });
        names.collect::<Vec<String>>()
    };
    assert_eq!(outputs(""), ["id", "sku string", "amount decimal(12,2)", "note"]);
    assert_eq!(
        outputs(r#""keep_source": true,"#),
        ["id", "Payload", "sku string", "amount decimal(12,2)", "note"]
    );
}

#[test]
fn a_field_may_take_the_name_of_the_column_that_is_gone() {
    let config = r#"{ "column": "payload", "fields": { "payload": { "path": "$.text" } } }"#;
    assert!(JsonFlatten::open(&events(), config).is_ok());
    let kept = config.replace("\"fields\"", "\"keep_source\": true, \"fields\"");
    assert!(JsonFlatten::open(&events(), &kept).is_err());
}

#[test]
fn mistakes_in_the_configuration_are_named() {
    for (from, to, words) in [
        (
            "\"payload\"",
            "\"payloat\"",
            "column: the table has no column `payloat`, did you mean `Payload`?",
        ),
        ("\"payload\"", "\"id\"", "column id: JSON is a text, and this is int"),
        (
            "\"sku\":",
            "\"NOTE\":",
            "fields.NOTE: the table has a column `NOTE` already",
        ),
        ("$.sku", "sku", "fields.sku.path: a path begins with `$`"),
        ("decimal(12,2)", "decmial", "fields.amount.type: `decmial` is no type"),
        (
            "\"type\"",
            "\"tpye\"",
            "fields.amount: unknown key `tpye`, did you mean `type`?",
        ),
        (
            "\"column\"",
            "\"invalid\": \"drop\", \"column\"",
            "invalid: unknown word `drop`; known are reject, null",
        ),
    ] {
        let message = JsonFlatten::open(&events(), &config("").replace(from, to))
            .unwrap_err()
            .to_string();
        assert!(message.contains(words), "{to}: {message}");
    }
    let none = JsonFlatten::open(&events(), r#"{ "column": "payload", "fields": {} }"#).unwrap_err();
    assert_eq!(none.to_string(), "fields: it names no field to take out");
}
