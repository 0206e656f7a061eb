//! Steps over whole columns. Those of text have tests of their own beside them.

use super::recipes::{made, refused, rejects, utf8};
use super::*;

#[test]
fn values_and_what_is_not_listed() {
    let given = utf8(&[Some("A"), Some("a"), None, Some("C"), Some("")]);
    let given = [("c", DataType::Utf8, true, &given[..])];
    let config = |rule: &str| {
        format!(r#"{{"columns":{{"c":{{"steps":[{{"values":{{"A":"active","a":"small","":"none"}}{rule}}}]}}}}}}"#)
    };
    let listed = |other| utf8(&[Some("active"), Some("small"), None, other, Some("none")]);
    assert_eq!(
        made(&given, &config(r#","else":"other""#)).values("c"),
        listed(Some("other"))
    );
    assert_eq!(
        made(&given, &config(r#","unlisted":"pass""#)).values("c"),
        listed(Some("C"))
    );
    assert_eq!(made(&given, &config(r#","unlisted":"null""#)).values("c"), listed(None));
    for rule in ["", r#","unlisted":"reject""#] {
        let made = made(&given, &config(rule));
        assert_eq!(made.rejects, rejects(&[(3, "c", "value-unlisted")]));
        let values = made.values("c");
        assert_eq!((values[0], values[2]), (Some(Value::Utf8("active")), None));
    }
}

#[test]
fn only_steps_that_can_make_null_make_a_column_nullable() {
    let given = utf8(&[Some("a")]);
    let given = [("c", DataType::Utf8, false, &given[..])];
    for (steps, nullable) in [
        (r#"["trim","upper","lower","trim_end"]"#, false),
        (r#"[{"split":",","part":1}]"#, true),
        (r#"[{"split":",","part":2},{"default":"x"}]"#, false),
        (r#"[{"values":{"a":"b"},"else":"c"}]"#, false),
        (r#"[{"values":{"a":"b"},"unlisted":"null"}]"#, true),
        (r#"[{"values":{"a":"{}"}},{"json":"$.x"}]"#, true),
        (r#"[{"cast":"binary"}]"#, false),
    ] {
        let config = format!(r#"{{"columns":{{"c":{{"steps":{steps}}}}}}}"#);
        let made = made(&given, &config);
        assert_eq!(made.field("c").nullable, nullable, "{steps}");
        made.values("c");
    }
}

/// A default of each type, with one that does not fit it.
#[test]
fn a_default_of_every_type() {
    let cases = [
        ("true", Value::Boolean(true), "1"),
        ("-5", Value::Int(-5), "40000"),
        ("-5", Value::Int(-5), "2147483648"),
        ("9223372036854775807", Value::Int(i64::MAX), "1.5"),
        ("0.5", Value::Float32(0.5), "1e39"),
        ("2", Value::Float64(2.0), "\"2\""),
        ("\"-1.5\"", Value::Decimal(-15_000, 4), "0.00001"),
        ("\"2024-02-29\"", Value::Date(19_782), "\"2023-02-29\""),
        (
            "\"1970-01-01T00:00:01Z\"",
            Value::Timestamp(1_000_000),
            "\"1970-01-01T00:00:01\"",
        ),
        (
            "\"1970-01-01T00:00:01\"",
            Value::TimestampNtz(1_000_000),
            "\"1970-01-01T00:00:01Z\"",
        ),
        ("\"é\"", Value::Utf8("é"), "1"),
        ("\"0x00aB\"", Value::Binary(&[0, 0xab]), "\"0x0\""),
    ];
    for (data_type, (literal, value, misfit)) in ALL_TYPES.into_iter().zip(cases) {
        let given: Vec<_> = (0..11).map(|_| None).collect();
        let given = [("c", data_type, true, &given[..])];
        let config = |literal: &str| format!(r#"{{"columns":{{"c":{{"default":{literal}}}}}}}"#);
        let made = made(&given, &config(literal));
        let field = made.field("c");
        assert_eq!((field.data_type, field.nullable), (data_type, false));
        assert_eq!(made.values("c"), vec![Some(value); 11], "{data_type}");
        for wrong in [misfit, "null", "[]"] {
            let answer = refused(&given, &config(wrong));
            let said = format!("columns.c.default: the column is {data_type} here; expected ");
            assert!(answer.starts_with(&said), "{answer}");
        }
    }
}

#[test]
fn a_default_leaves_values_alone() {
    let given: Vec<_> = (0..17).map(|row| (row % 5 != 0).then_some(Value::Int(row))).collect();
    let config = r#"{"columns":{"c":{"default":-1}}}"#;
    let made = made(&[("c", DataType::Int32, true, &given)], config);
    let expected: Vec<_> = given.iter().map(|value| value.or(Some(Value::Int(-1)))).collect();
    assert_eq!(made.values("c"), expected);
}

#[test]
fn text_steps_are_refused_on_every_other_type() {
    let steps = [
        r#""trim""#,
        r#""upper""#,
        r#"{"split":",","part":1}"#,
        r#"{"json":"$.a"}"#,
        r#"{"values":{"a":"b"}}"#,
    ];
    for data_type in ALL_TYPES {
        for step in steps {
            let config = |steps: &str| format!(r#"{{"columns":{{"c":{{"steps":[{steps}]}}}}}}"#);
            let given = [("c", data_type, true, &[None; 9][..])];
            if data_type != DataType::Utf8 {
                let answer = refused(&given, &config(step));
                assert!(answer.contains("put `{ cast = \"string\" }` before it"), "{answer}");
            }
            // As the message says.
            let made = made(&given, &config(&format!(r#"{{"cast":"string"}},{step}"#)));
            assert_eq!(made.values("c"), [None; 9]);
            assert!(made.rejects.is_empty());
        }
    }
}
