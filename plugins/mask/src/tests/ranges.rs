//! `bucket`.

use super::*;

fn bucket(options: &str) -> String {
    format!(r#"{{"method":"bucket",{options}}}"#)
}

fn ints(values: &[i64]) -> Vec<Option<Value<'static>>> {
    values.iter().map(|&value| Some(Value::Int(value))).collect()
}

fn shown(options: &str, data_type: DataType, values: &[Option<Value<'_>>]) -> Vec<String> {
    let (shown, rejects) = masked(&bucket(options), data_type, values);
    assert!(rejects.is_empty(), "{rejects:?}");
    shown
        .into_iter()
        .map(|text| text.unwrap_or("NULL".to_owned()))
        .collect()
}

#[test]
fn ranges_of_a_width() {
    for data_type in [DataType::Int16, DataType::Int32, DataType::Int64] {
        let mut values = ints(&[0, 9, 10, -1, -10, -11]);
        values.push(None);
        assert_eq!(
            shown(r#""width":10"#, data_type, &values),
            ["[0,10)", "[0,10)", "[10,20)", "[-10,0)", "[-10,0)", "[-20,-10)", "NULL"]
        );
        assert_eq!(
            shown(r#""width":10,"start":5,"result":"lower""#, data_type, &values),
            ["Int(-5)", "Int(5)", "Int(5)", "Int(-5)", "Int(-15)", "Int(-15)", "NULL"]
        );
    }
    let decimal = DataType::Decimal { precision: 9, scale: 2 };
    let values = [Some(Value::Decimal(1_999, 2)), Some(Value::Decimal(-1, 2))];
    assert_eq!(shown(r#""width":2.5"#, decimal, &values), ["[17.5,20)", "[-2.5,0)"]);
    assert_eq!(
        shown(r#""width":"2.5","result":"lower""#, decimal, &values),
        ["Decimal(1750, 2)", "Decimal(-250, 2)"]
    );
}

/// 0.3 divided by 0.1 is less than 3 in binary; the digits that people see count.
#[test]
fn ranges_of_floating_point() {
    let values = [0.3, -0.3, 0.299_999_999_999, 1e20, -0.0].map(|value| Some(Value::Float64(value)));
    assert_eq!(
        shown(r#""width":0.1"#, DataType::Float64, &values),
        [
            "[0.3,0.4)",
            "[-0.3,-0.2)",
            "[0.2,0.3)",
            "[100000000000000000000,100000000000000000000.1)",
            "[0,0.1)"
        ]
    );
    let values = [Some(Value::Float32(0.3))];
    assert_eq!(
        shown(r#""width":0.1,"result":"lower""#, DataType::Float32, &values),
        ["Float32(0.3)"]
    );
    let values = [Some(Value::Float64(f64::NAN)), Some(Value::Float64(1e300))];
    let (_, rejects) = masked(&bucket(r#""width":1"#), DataType::Float64, &values);
    let code = "bucket-out-of-range".to_owned();
    assert_eq!(rejects, [(0, code.clone()), (1, code)]);
}

#[test]
fn ranges_between_edges() {
    let edges = r#""edges":[18,65]"#;
    assert_eq!(
        shown(edges, DataType::Int32, &ints(&[17, 18, 64, 65, -1])),
        ["<18", "[18,65)", "[18,65)", ">=65", "<18"]
    );
    let (values, rejects) = masked(
        &bucket(r#""edges":[18,65],"result":"lower""#),
        DataType::Int32,
        &ints(&[18, 99, 17]),
    );
    assert_eq!(values[..2], [Some("Int(18)".to_owned()), Some("Int(65)".to_owned())]);
    assert_eq!(rejects, [(2, "bucket-below-first-edge".to_owned())]);
}

#[test]
fn a_lower_bound_that_does_not_fit_is_rejected() {
    let out_of_range = [(0, "bucket-out-of-range".to_owned())];
    let lower = bucket(r#""width":1000,"result":"lower""#);
    let (_, rejects) = masked(&lower, DataType::Int16, &ints(&[-32_768]));
    assert_eq!(rejects, out_of_range);
    assert_eq!(
        shown(r#""width":1000"#, DataType::Int16, &ints(&[-32_768])),
        ["[-33000,-32000)"]
    );
    let whole = DataType::Decimal {
        precision: 38,
        scale: 0,
    };
    let least = [Some(Value::Decimal(1 - 10_i128.pow(38), 0))];
    let start = bucket(r#""width":2,"start":"99999999999999999999999999999999999999""#);
    assert_eq!(masked(&start, whole, &least).1, out_of_range);
}

#[test]
fn bounds_must_fit_the_column() {
    for (data_type, options) in [
        // A range of one number is that number.
        (DataType::Int32, r#""width":1"#),
        (DataType::Int64, r#""width":"1","result":"lower""#),
        (DataType::Decimal { precision: 9, scale: 2 }, r#""width":0.01"#),
        (DataType::Float64, r#""width":1e-9"#),
        (DataType::Int32, r#""width":0"#),
        (DataType::Int32, r#""width":-5"#),
        (DataType::Int32, r#""width":2.5"#),
        (DataType::Int32, r#""width":5,"start":0.5"#),
        (DataType::Int32, r#""edges":[1,1]"#),
        (DataType::Int32, r#""edges":[2,1]"#),
        (DataType::Int32, r#""edges":[1,"x"]"#),
        (DataType::Float64, r#""width":1e-10"#),
    ] {
        let config = format!(r#"{{"columns":{{"c":{}}}}}"#, bucket(options));
        let error = open(&[("c", data_type, true)], &config).unwrap_err();
        assert!(matches!(error, OpenError::Unsupported { .. }), "{error}");
    }
}
