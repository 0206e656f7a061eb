//! Whole transforms, natively: configuration and table in, plan and columns out. The expected hashes were computed
//! with Python's `hmac`, as HMAC-SHA-256 under `secret of pii` of the context, a zero byte and the canonical text.

use sluice_plugin::testing::{ALL_TYPES, TestKeys, column};
use sluice_plugin::{AnyView, Batch, DataType, OpenError, OutputSource, Plan, SourceField, Table, Transform, Value};

use crate::Mask;

mod hashed;
mod moved;
mod ranges;
mod redacted;
mod replaced;

type TestMask = Mask<TestKeys>;

fn table(columns: &[(&str, DataType, bool)]) -> Table {
    let field = |&(name, data_type, nullable): &(&str, DataType, bool)| SourceField {
        name: name.to_owned(),
        data_type,
        nullable,
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

/// Masks one nullable column `c` and returns its output values as debug text, and the codes of rejects.
fn masked(
    method: &str,
    data_type: DataType,
    values: &[Option<Value<'_>>],
) -> (Vec<Option<String>>, Vec<(u32, String)>) {
    let table = table(&[("c", data_type, true)]);
    let config = format!(r#"{{"columns":{{"C":{method}}}}}"#);
    let (mut mask, plan) = TestMask::open(&table, &config).unwrap();
    let OutputSource::Computed(field) = &plan.outputs[0].source else {
        panic!("{plan:?}");
    };
    assert_eq!(field.sources, ["c"]);
    assert!(!field.how.is_empty());
    let batch = Batch {
        rows: values.len() as u32,
        operations: vec![2; values.len()],
        columns: plan.reads.iter().map(|_| column(data_type, values)).collect(),
    };
    let outcome = mask.apply(&batch).unwrap();
    assert_eq!(outcome.columns.len(), 1);
    assert_eq!(outcome.dropped, None);
    let view = AnyView::new(&outcome.columns[0], values.len(), field.data_type).unwrap();
    let shown = (0..values.len()).map(|row| {
        view.get(row).map(|value| match value {
            Value::Utf8(text) => text.to_owned(),
            other => format!("{other:?}"),
        })
    });
    let rejects = outcome.rejects.into_iter().map(|reject| {
        assert_eq!(reject.column, "c");
        (reject.row, reject.code)
    });
    (shown.collect(), rejects.collect())
}

/// Values as debug text; the row, the column and the code of each reject.
type Masked = (Vec<Option<String>>, Vec<(u32, String, String)>);
type Columns<'a> = [(&'a str, DataType, &'a [Option<Value<'a>>])];

/// Masks a table of nullable columns and returns the values of the column `c` as debug text, and the rejects.
fn masked_by(method: &str, columns: &Columns<'_>) -> Masked {
    let fields: Vec<_> = columns
        .iter()
        .map(|(name, data_type, _)| (*name, *data_type, true))
        .collect();
    let config = format!(r#"{{"unlisted":"drop","columns":{{"C":{method}}}}}"#);
    let (mut mask, plan) = TestMask::open(&table(&fields), &config).unwrap();
    let [output] = plan.outputs.as_slice() else {
        panic!("{plan:?}");
    };
    let OutputSource::Computed(field) = &output.source else {
        panic!("{plan:?}");
    };
    let rows = columns[0].2.len();
    let read = |name: &String| {
        let (_, data_type, values) = columns.iter().find(|(column, ..)| column == name).unwrap();
        column(*data_type, values)
    };
    let batch = Batch {
        rows: rows as u32,
        operations: vec![2; rows],
        columns: plan.reads.iter().map(read).collect(),
    };
    let outcome = mask.apply(&batch).unwrap();
    let view = AnyView::new(&outcome.columns[0], rows, field.data_type).unwrap();
    let shown = (0..rows).map(|row| {
        view.get(row).map(|value| match value {
            Value::Utf8(text) => text.to_owned(),
            other => format!("{other:?}"),
        })
    });
    let rejects = outcome
        .rejects
        .into_iter()
        .map(|reject| (reject.row, reject.column, reject.code));
    (shown.collect(), rejects.collect())
}

fn text(method: &str, values: &[&str]) -> Vec<String> {
    let values: Vec<_> = values.iter().map(|&text| Some(Value::Utf8(text))).collect();
    let (shown, rejects) = masked(method, DataType::Utf8, &values);
    assert!(rejects.is_empty());
    shown.into_iter().map(|value| value.unwrap()).collect()
}

fn open(columns: &[(&str, DataType, bool)], config: &str) -> Result<Plan, OpenError> {
    TestMask::open(&table(columns), config).map(|(_, plan)| plan)
}

#[test]
fn keep_never_shows_a_short_value() {
    assert_eq!(
        text(
            r#"{"method":"keep","first":2,"last":2}"#,
            &[
                "4711-0815",
                "abcde",
                "abcd",
                "abc",
                "",
                "h\u{e4}\u{df}lich",
                "\u{1f600}\u{1f601}\u{1f602}\u{1f603}\u{1f604}"
            ]
        ),
        [
            "47*****15",
            "ab*de",
            "****",
            "***",
            "",
            "h\u{e4}***ch",
            "\u{1f600}\u{1f601}*\u{1f603}\u{1f604}"
        ]
    );
    assert_eq!(
        text(r#"{"method":"keep","last":4,"mask":"•"}"#, &["DE4711"]),
        ["••4711"]
    );
    assert_eq!(text(r#"{"method":"keep","first":1}"#, &["a", "ab"]), ["*", "a*"]);
    let most = usize::MAX;
    let keep = format!(r#"{{"method":"keep","first":{most},"last":1}}"#);
    assert_eq!(text(&keep, &["abc"]), ["***"]);
    let (shown, _) = masked(r#"{"method":"keep","first":1}"#, DataType::Utf8, &[None]);
    assert_eq!(shown, [None]);
}

#[test]
fn null_is_null_in_every_type() {
    for data_type in ALL_TYPES {
        for method in [r#""null""#, r#"{"method":"constant","value":null}"#] {
            let some = [None, None, None];
            assert_eq!(masked(method, data_type, &some).0, [None, None, None]);
        }
    }
}

#[test]
fn constants_of_every_type() {
    let decimal = DataType::Decimal { precision: 5, scale: 2 };
    for (data_type, value, shown) in [
        (DataType::Boolean, "true", "Boolean(true)"),
        (DataType::Int16, "-32768", "Int(-32768)"),
        (DataType::Int32, "7", "Int(7)"),
        (DataType::Int64, "9223372036854775807", "Int(9223372036854775807)"),
        (DataType::Float32, "0.5", "Float32(0.5)"),
        (DataType::Float64, "1e300", "Float64(1e300)"),
        (decimal, "0.1", "Decimal(10, 2)"),
        (decimal, "\"-999.99\"", "Decimal(-99999, 2)"),
        (DataType::Date, "\"0001-01-01\"", "Date(-719162)"),
        (DataType::Timestamp, "\"1970-01-01T00:00:01Z\"", "Timestamp(1000000)"),
        (DataType::TimestampNtz, "\"1970-01-01 00:00\"", "TimestampNtz(0)"),
        (DataType::Utf8, "\"hidden\"", "hidden"),
        (DataType::Utf8, "\"\"", ""),
        (DataType::Binary, "\"0x00fF\"", "Binary([0, 255])"),
    ] {
        let method = format!(r#"{{"method":"constant","value":{value}}}"#);
        let (values, _) = masked(&method, data_type, &[None, None]);
        assert_eq!(values, [Some(shown.to_owned()), Some(shown.to_owned())]);
    }
    for (data_type, value) in [
        (DataType::Boolean, "1"),
        (DataType::Int16, "32768"),
        (DataType::Int32, "1.5"),
        (DataType::Int64, "9223372036854775808"),
        (DataType::Float32, "1e300"),
        (decimal, "1.234"),
        (decimal, "1000"),
        (DataType::Date, "\"2024-02-30\""),
        (DataType::Timestamp, "\"1970-01-01T00:00:01\""),
        (DataType::TimestampNtz, "\"1970-01-01T00:00:01Z\""),
        (DataType::Utf8, "1"),
        (DataType::Utf8, "{}"),
        (DataType::Binary, "\"00\""),
        (DataType::Binary, "\"0x0\""),
        (DataType::Binary, "\"0x+1\""),
    ] {
        let config = format!(r#"{{"columns":{{"c":{{"method":"constant","value":{value}}}}}}}"#);
        let error = open(&[("c", data_type, true)], &config).unwrap_err();
        assert!(matches!(error, OpenError::Unsupported { .. }), "{error}");
    }
}

#[test]
fn dates_keep_their_type() {
    let year = r#"{"method":"date","truncate":"year"}"#;
    let values = [Some(Value::Date(19_782)), None, Some(Value::Date(i32::MAX))];
    let (shown, rejects) = masked(year, DataType::Date, &values);
    assert_eq!(shown[..2], [Some("Date(19723)".to_owned()), None]);
    assert_eq!(rejects, [(2, "date-out-of-range".to_owned())]);
    let hour = r#"{"method":"date","truncate":"hour"}"#;
    let values = [Some(Value::Timestamp(-1))];
    let (shown, _) = masked(hour, DataType::Timestamp, &values);
    assert_eq!(shown, [Some("Timestamp(-3600000000)".to_owned())]);
}

#[test]
fn a_method_on_a_wrong_type_is_unsupported() {
    const TOKEN: &str = r#"{"method":"token","key":"pii"}"#;
    const PSEUDONYM: &str = r#"{"method":"pseudonym","key":"pii","values":["a","b"]}"#;
    const BUCKET: &str = r#"{"method":"bucket","width":10}"#;
    const NOISE: &str = r#"{"method":"noise","key":"pii","percent":5}"#;
    let allowed = |method: &str, data_type| match method {
        r#"{"method":"date","truncate":"year"}"# => {
            matches!(data_type, DataType::Date | DataType::Timestamp | DataType::TimestampNtz)
        }
        r#"{"method":"date","truncate":"day"}"# => {
            matches!(data_type, DataType::Timestamp | DataType::TimestampNtz)
        }
        r#"{"method":"hash","key":"pii"}"# | TOKEN | PSEUDONYM => true,
        BUCKET | NOISE => matches!(
            data_type,
            DataType::Int16
                | DataType::Int32
                | DataType::Int64
                | DataType::Float32
                | DataType::Float64
                | DataType::Decimal { .. }
        ),
        _ => data_type == DataType::Utf8,
    };
    for method in [
        r#"{"method":"keep","first":1}"#,
        r#"{"method":"email","key":"pii"}"#,
        r#"{"method":"date","truncate":"year"}"#,
        r#"{"method":"date","truncate":"day"}"#,
        r#"{"method":"hash","key":"pii"}"#,
        TOKEN,
        PSEUDONYM,
        BUCKET,
        NOISE,
        r#"{"method":"fpe","key":"pii","alphabet":"digits"}"#,
        r#"{"method":"redact","patterns":["email"]}"#,
    ] {
        for data_type in ALL_TYPES {
            let config = format!(r#"{{"columns":{{"c":{method}}}}}"#);
            match open(&[("c", data_type, true)], &config) {
                Ok(_) => assert!(allowed(method, data_type), "{method} {data_type}"),
                Err(OpenError::Unsupported { column, reason }) => {
                    assert!(!allowed(method, data_type), "{method} {data_type}");
                    assert_eq!(column, "c");
                    assert!(reason.contains(&data_type.to_string()), "{reason}");
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[test]
fn an_empty_batch_of_every_type() {
    for data_type in ALL_TYPES {
        let hash = r#"{"method":"hash","key":"pii","normalize":["trim"]}"#;
        assert!(masked(hash, data_type, &[]).0.is_empty());
        assert!(masked(r#""null""#, data_type, &[]).0.is_empty());
    }
    assert!(text(r#"{"method":"email","key":"pii"}"#, &[]).is_empty());
    assert!(text(r#"{"method":"keep","first":1}"#, &[]).is_empty());
    for method in [
        r#"{"method":"token","key":"pii"}"#,
        r#"{"method":"pseudonym","key":"pii","values":["a","b"]}"#,
        r#"{"method":"fpe","key":"pii","alphabet":"digits"}"#,
        r#"{"method":"redact","patterns":["email"],"key":"pii"}"#,
    ] {
        assert!(text(method, &[]).is_empty(), "{method}");
    }
    for method in [
        r#"{"method":"noise","key":"pii","within":1}"#,
        r#"{"method":"bucket","width":5}"#,
    ] {
        assert!(masked(method, DataType::Int32, &[]).0.is_empty(), "{method}");
    }
}

#[test]
fn what_is_not_listed_follows_the_rule() {
    let columns = [
        ("id", DataType::Int32, false),
        ("name", DataType::Utf8, false),
        ("note", DataType::Utf8, true),
    ];
    let names = |plan: &Plan| -> Vec<String> { plan.outputs.iter().map(|output| output.name.clone()).collect() };
    let config = |rule: &str| format!(r#"{{{rule}"columns":{{"ID":"pass"}}}}"#);
    assert_eq!(
        open(&columns, &config("")),
        Err(OpenError::Unlisted(vec!["name".to_owned(), "note".to_owned()]))
    );
    let dropped = open(&columns, &config(r#""unlisted":"drop","#)).unwrap();
    assert_eq!(names(&dropped), ["id"]);
    assert!(dropped.reads.is_empty());
    let passed = open(&columns, &config(r#""unlisted":"pass","#)).unwrap();
    let is_pass = |output: &sluice_plugin::OutputColumn| matches!(&output.source, OutputSource::Pass(source) if *source == output.name);
    assert!(passed.outputs.iter().all(is_pass));
    let nulled = open(&columns, &config(r#""unlisted":"null","#)).unwrap();
    assert_eq!(names(&nulled), ["id", "name", "note"]);
    assert!(nulled.reads.is_empty());
    for output in &nulled.outputs[1..] {
        assert!(matches!(&output.source, OutputSource::Computed(field) if field.nullable));
    }
}

#[test]
fn names_are_checked_against_the_table() {
    let columns = [("Email", DataType::Utf8, true), ("email", DataType::Utf8, true)];
    let error = open(&columns, r#"{"columns":{"EMAIL":"drop"}}"#).unwrap_err();
    assert!(matches!(error, OpenError::Config { path, .. } if path == "columns.EMAIL"));
    let columns = [("a", DataType::Utf8, true)];
    assert_eq!(
        open(&columns, r#"{"columns":{"x":"drop","y":"null"}}"#),
        Err(OpenError::Missing(vec!["x".to_owned(), "y".to_owned()]))
    );
    let error = open(&columns, r#"{"columns":{"a":"drop","A":"null"}}"#).unwrap_err();
    assert!(error.to_string().contains("stands here twice"), "{error}");
}

#[test]
fn a_key_that_is_not_granted_stops_the_table_at_its_start() {
    for (data_type, method) in [
        (DataType::Utf8, r#""hash""#),
        (DataType::Utf8, r#""email""#),
        (DataType::Utf8, r#""token""#),
        (DataType::Utf8, r#""fpe","alphabet":"digits""#),
        (DataType::Utf8, r#""pseudonym","values":["a","b"]"#),
        (DataType::Utf8, r#""redact","patterns":["email"]"#),
        (DataType::Date, r#""date_shift","days":7,"by":"id""#),
        (DataType::Int32, r#""noise","within":7"#),
    ] {
        let config = format!(r#"{{"unlisted":"drop","columns":{{"A":{{"method":{method},"key":"other"}}}}}}"#);
        let error = open(&[("a", data_type, true), ("id", DataType::Int32, false)], &config).unwrap_err();
        assert!(
            matches!(&error, OpenError::Config { path, reason }
                if path == "columns.A.key" && reason.contains("`other` is not granted")),
            "{error}"
        );
    }
}

#[test]
fn the_plan_names_the_keys() {
    let columns = [
        ("a", DataType::Utf8, true),
        ("b", DataType::Utf8, true),
        ("c", DataType::Date, true),
    ];
    let config = r#"{"columns":{
        "a":{"method":"keep","first":1},
        "b":{"method":"token","key":"pii"},
        "c":{"method":"date_shift","key":"pii","days":7,"by":"A"}}}"#;
    let plan = open(&columns, config).unwrap();
    let fields = plan.outputs.iter().map(|output| match &output.source {
        OutputSource::Computed(field) => (field.keys.join(","), field.sources.join(","), field.how.as_str()),
        OutputSource::Pass(_) => panic!("{plan:?}"),
    });
    let expected = [
        (String::new(), "a".to_owned(), "first 1 characters kept"),
        ("pii".to_owned(), "b".to_owned(), "keyed token"),
        ("pii".to_owned(), "c,a".to_owned(), "moved by 1 to 7 days by a"),
    ];
    assert_eq!(fields.collect::<Vec<_>>(), expected);
    assert_eq!(plan.reads, ["a", "b", "c"]);
}

#[test]
fn columns_are_read_in_the_order_of_the_table() {
    let columns = [
        ("a", DataType::Utf8, false),
        ("b", DataType::Int32, false),
        ("c", DataType::Utf8, false),
        ("d", DataType::Date, false),
    ];
    let config = r#"{"columns":{
        "d":{"method":"date","truncate":"month"},
        "c":{"method":"keep","first":1},
        "b":"null",
        "a":{"method":"keep","last":1}}}"#;
    let (mut mask, plan) = TestMask::open(&table(&columns), config).unwrap();
    assert_eq!(plan.reads, ["a", "c", "d"]);
    let batch = Batch {
        rows: 1,
        operations: vec![0],
        columns: vec![
            column(DataType::Utf8, &[Some(Value::Utf8("abc"))]),
            column(DataType::Utf8, &[Some(Value::Utf8("xyz"))]),
            column(DataType::Date, &[Some(Value::Date(31))]),
        ],
    };
    let outcome = mask.apply(&batch).unwrap();
    assert_eq!(outcome.columns[0].values, b"**c");
    assert_eq!(outcome.columns[2].values, b"x**");
    assert_eq!(outcome.columns[3].values, 31_i32.to_le_bytes());
    let short = Batch {
        columns: Vec::new(),
        ..batch
    };
    let error = mask.apply(&short).unwrap_err();
    assert_eq!(error.code, "malformed-input");
    assert_eq!(error.column.as_deref(), Some("a"));
}
