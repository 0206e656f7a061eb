//! What a recipe starts with: constants, concatenated columns, the first of several.

use super::recipes::{made, refused, rejects, utf8};
use super::*;

/// A value of each of `ALL_TYPES`, in that order.
const SAMPLES: [Value<'static>; 12] = [
    Value::Boolean(true),
    Value::Int(-7),
    Value::Int(7),
    Value::Int(1 << 40),
    Value::Float32(0.5),
    Value::Float64(-0.1),
    Value::Decimal(-15_000, 4),
    Value::Date(19_782),
    Value::Timestamp(0),
    Value::TimestampNtz(500_000),
    Value::Utf8("ä"),
    Value::Binary(b"b"),
];

#[test]
fn constants_have_the_type_that_they_are_written_in_or_cast_to() {
    let rows = utf8(&[None; 10]);
    let decimal = DataType::Decimal { precision: 9, scale: 2 };
    for (recipe, data_type, expected) in [
        (r#""value":true"#, DataType::Boolean, Value::Boolean(true)),
        (r#""value":-5"#, DataType::Int64, Value::Int(-5)),
        (r#""value":0.1"#, DataType::Float64, Value::Float64(0.1)),
        (r#""value":"é""#, DataType::Utf8, Value::Utf8("é")),
        (r#""value":"""#, DataType::Utf8, Value::Utf8("")),
        (r#""value":5,"cast":"smallint""#, DataType::Int16, Value::Int(5)),
        (
            r#""value":"1.50","cast":"decimal(9,2)""#,
            decimal,
            Value::Decimal(150, 2),
        ),
        (
            r#""value":"2024-02-29","cast":"date""#,
            DataType::Date,
            Value::Date(19_782),
        ),
        (
            r#""value":"1970-01-02","cast":"timestamp_ntz""#,
            DataType::TimestampNtz,
            Value::TimestampNtz(86_400_000_000),
        ),
        (r#""value":"b","cast":"binary""#, DataType::Binary, Value::Binary(b"b")),
        (r#""value":0.5,"cast":"float""#, DataType::Float32, Value::Float32(0.5)),
        (
            r#""value":"a|B","steps":[{"split":"|","part":2},"lower"]"#,
            DataType::Utf8,
            Value::Utf8("b"),
        ),
        (
            r#""value":"a","steps":[{"split":"|","part":2}],"default":"z""#,
            DataType::Utf8,
            Value::Utf8("z"),
        ),
    ] {
        let config = format!(r#"{{"add":{{"x":{{{recipe}}}}}}}"#);
        let made = made(&[("c", DataType::Utf8, true, &rows)], &config);
        let field = made.field("x");
        assert_eq!((field.data_type, field.nullable), (data_type, false), "{recipe}");
        assert!(field.sources.is_empty() && made.plan.reads.is_empty());
        assert_eq!(made.values("x"), vec![Some(expected); 10], "{recipe}");
    }
    let absent = r#"{"add":{"x":{"value":"a","steps":[{"split":"|","part":2}],"cast":"int"}}}"#;
    let made = made(&[("c", DataType::Utf8, true, &rows)], absent);
    assert!(made.field("x").nullable);
    assert_eq!(made.values("x"), [None; 10]);
}

#[test]
fn a_constant_can_stand_in_place_of_a_column() {
    let given = utf8(&[Some("secret"), None]);
    let made = made(
        &[("c", DataType::Utf8, true, &given)],
        r#"{"columns":{"c":{"value":"none"}}}"#,
    );
    assert_eq!(made.values("c"), utf8(&[Some("none"), Some("none")]));
    assert!(made.plan.reads.is_empty() && made.field("c").sources.is_empty());
}

#[test]
fn a_constant_that_cannot_be_is_refused_at_the_start() {
    let given = [("c", DataType::Utf8, true, &[][..])];
    for (recipe, said) in [
        (
            r#""value":null"#,
            "add.x.value: expected a text, true or false, or a number",
        ),
        (r#""value":[1]"#, "add.x.value: expected a text"),
        (r#""value":18446744073709551615"#, "add.x.value: expected a text"),
        (
            r#""value":"x","cast":"int""#,
            "add.x.cast: the constant does not get through this step (cast-invalid)",
        ),
        (
            r#""value":70000,"cast":"smallint""#,
            "add.x.cast: the constant does not get through this step (cast-overflow)",
        ),
        (
            r#""value":"{","steps":[{"json":"$.a"}]"#,
            "add.x.steps[0]: the constant does not get through this step (json-invalid)",
        ),
        (
            r#""value":"x","steps":[{"values":{"a":"b"}}]"#,
            "add.x.steps[0]: the constant does not get through this step (value-unlisted)",
        ),
        (
            r#""value":1,"cast":"date""#,
            "add.x.cast: the column is bigint here, which cannot be cast to date",
        ),
        (
            r#""value":1,"steps":["upper"]"#,
            "add.x.steps[0]: letter case works on text, and the column is bigint here",
        ),
    ] {
        let answer = refused(&given, &format!(r#"{{"add":{{"x":{{{recipe}}}}}}}"#));
        assert!(answer.starts_with(said), "{recipe}: {answer}");
    }
}

#[test]
fn concat_has_three_rules_for_null() {
    let first = utf8(&[Some("Ann"), Some("Bo"), None, Some("")]);
    let last = utf8(&[Some("Lee"), None, None, Some("Yu")]);
    let given = [
        ("first", DataType::Utf8, true, &first[..]),
        ("last", DataType::Utf8, true, &last[..]),
    ];
    let full = |options: &str| {
        let config = format!(r#"{{"add":{{"x":{{"concat":["first","last"]{options}}}}}}}"#);
        let made = made(&given, &config);
        let values: Vec<_> = made
            .values("x")
            .iter()
            .map(|value| match value {
                Some(Value::Utf8(text)) => Some((*text).to_owned()),
                None => None,
                other => panic!("{other:?}"),
            })
            .collect();
        (made.field("x").nullable, values)
    };
    let some = |texts: [&str; 4]| texts.map(|text| Some(text.to_owned())).to_vec();
    let null = vec![Some("Ann Lee".to_owned()), None, None, Some(" Yu".to_owned())];
    assert_eq!(full(r#","separator":" ""#), (true, null.clone()));
    assert_eq!(full(r#","separator":" ","nulls":"null""#), (true, null));
    assert_eq!(
        full(r#","separator":" ","nulls":"skip""#),
        (false, some(["Ann Lee", "Bo", "", " Yu"]))
    );
    assert_eq!(
        full(r#","separator":" ","nulls":"empty""#),
        (false, some(["Ann Lee", "Bo ", " ", " Yu"]))
    );
    let config = r#"{"add":{"x":{"concat":[{"text":"<"},"first",{"text":"→"},"first",{"text":">"}],"nulls":"skip"}}}"#;
    assert_eq!(
        made(&given, config).values("x"),
        utf8(&[Some("<Ann→Ann>"), Some("<Bo→Bo>"), Some("<→>"), Some("<→>")])
    );
}

#[test]
fn concat_writes_every_type_as_a_cast_to_string_does() {
    let names: Vec<String> = (0..ALL_TYPES.len()).map(|index| format!("c{index}")).collect();
    let values: Vec<_> = SAMPLES.iter().map(|&value| [Some(value), None]).collect();
    let given: Vec<_> = (0..ALL_TYPES.len())
        .map(|index| (names[index].as_str(), ALL_TYPES[index], true, &values[index][..]))
        .collect();
    let list = serde_json::to_string(&names).unwrap();
    let config = format!(r#"{{"add":{{"x":{{"concat":{list},"separator":"|"}}}}}}"#);
    let made = made(&given, &config);
    let expected = "true|-7|7|1099511627776|0.5|-0.1|-1.5000|2024-02-29|1970-01-01T00:00:00Z|1970-01-01T00:00:00.5|ä|b";
    assert_eq!(made.values("x"), utf8(&[Some(expected), None]));
    assert_eq!(made.field("x").sources, names);
}

#[test]
fn a_column_that_is_no_text_rejects_its_row_of_the_concat() {
    let bytes = [Some(Value::Binary(b"ok")), Some(Value::Binary(b"\xff")), None];
    let names = utf8(&[Some("a"), Some("b"), Some("c")]);
    let given = [
        ("n", DataType::Utf8, false, &names[..]),
        ("b", DataType::Binary, true, &bytes[..]),
    ];
    let made = made(&given, r#"{"add":{"x":{"concat":["n","b"],"steps":["upper"]}}}"#);
    assert_eq!(made.rejects, rejects(&[(1, "b", "cast-invalid")]));
    assert_eq!(made.values("x")[0], Some(Value::Utf8("AOK")));
    assert_eq!(made.values("x")[2], None);
}

#[test]
fn the_first_value_of_columns_of_every_type() {
    for (data_type, sample) in ALL_TYPES.into_iter().zip(SAMPLES) {
        // Nineteen rows, so that the bitmaps have a last byte that is not full.
        let of = |rule: fn(usize) -> bool| -> Vec<_> { (0..19).map(|row| rule(row).then_some(sample)).collect() };
        let (a, b) = (of(|row| row % 2 == 0), of(|row| row % 3 == 0));
        let given = [("a", data_type, true, &a[..]), ("b", data_type, true, &b[..])];
        let made = made(&given, r#"{"add":{"x":{"coalesce":["a","b"]}}}"#);
        let field = made.field("x");
        assert_eq!((field.data_type, field.nullable), (data_type, true));
        assert_eq!(made.values("x"), of(|row| row % 2 == 0 || row % 3 == 0), "{data_type}");
    }
}

#[test]
fn the_first_value_is_there_if_one_column_has_no_null() {
    let (a, b) = (utf8(&[None, Some("a")]), utf8(&[Some("b"), Some("b")]));
    let given = [
        ("a", DataType::Utf8, true, &a[..]),
        ("b", DataType::Utf8, false, &b[..]),
    ];
    let config = r#"{"columns":{"a":{"coalesce":["a","b"]}},"add":{"x":{"coalesce":["b","a"]}}}"#;
    let made = made(&given, config);
    assert!(!made.field("a").nullable && !made.field("x").nullable);
    assert_eq!(made.values("a"), utf8(&[Some("b"), Some("a")]));
    assert_eq!(made.values("x"), utf8(&[Some("b"), Some("b")]));
}
