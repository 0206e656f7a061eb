//! `date_shift` and `noise`. The expected numbers were made with Python's `hmac` and integers, or floats.

use sluice_plugin::text::DAY_US;

use super::*;

fn shift(days: u32, options: &str) -> String {
    format!(r#"{{"method":"date_shift","key":"pii","days":{days},"by":"ID"{options}}}"#)
}

fn noise(options: &str) -> String {
    format!(r#"{{"method":"noise","key":"pii",{options}}}"#)
}

fn some(values: &[&str]) -> Vec<Option<String>> {
    values.iter().map(|value| Some((*value).to_owned())).collect()
}

fn ints(values: &[i64]) -> Vec<Option<Value<'static>>> {
    values.iter().map(|&value| Some(Value::Int(value))).collect()
}

#[test]
fn dates_are_moved_by_the_rows_key() {
    let by = ints(&[1, 2, 3, 7]);
    let dates = [
        Some(Value::Date(19_782)),
        Some(Value::Date(0)),
        None,
        Some(Value::Date(-1)),
    ];
    let columns: &Columns<'_> = &[("id", DataType::Int32, &by), ("c", DataType::Date, &dates)];
    let (shown, rejects) = masked_by(&shift(30, ""), columns);
    // Moved by 19, -17, (27), 22 days.
    let expected = ["Date(19801)", "Date(-17)", "", "Date(21)"].map(|date| (!date.is_empty()).then(|| date.to_owned()));
    assert_eq!(shown, expected);
    assert!(rejects.is_empty());
    let (shown, _) = masked_by(&shift(36_525, ""), &[columns[0], columns[1]]);
    assert_eq!(shown[0].as_deref(), Some("Date(-14548)"));
    let (shown, _) = masked_by(&shift(30, r#","context":"crm""#), columns);
    assert_eq!(shown[..2], some(&["Date(19801)", "Date(24)"]));

    // The same days, whatever the types of the key and of the moment are.
    let by = [Some(Value::Utf8("1")), Some(Value::Utf8(" 2"))];
    let moments = [Some(Value::Timestamp(5)), Some(Value::Timestamp(-5))];
    for data_type in [DataType::Timestamp, DataType::TimestampNtz] {
        let moments = moments.map(|moment| match (data_type, moment) {
            (DataType::TimestampNtz, Some(Value::Timestamp(micros))) => Some(Value::TimestampNtz(micros)),
            _ => moment,
        });
        let columns: &Columns<'_> = &[("c", data_type, &moments), ("id", DataType::Utf8, &by)];
        let (shown, _) = masked_by(&shift(30, r#","normalize":["trim"]"#), columns);
        let name = if data_type == DataType::Timestamp {
            "Timestamp"
        } else {
            "TimestampNtz"
        };
        let expected = [19 * DAY_US + 5, -17 * DAY_US - 5].map(|micros| Some(format!("{name}({micros})")));
        assert_eq!(shown, expected);
    }
}

#[test]
fn order_and_distances_within_a_key_are_kept_and_no_date_stays() {
    const KEYS: usize = 500;
    let by: Vec<_> = (0..KEYS * 2).map(|row| Some(Value::Int((row / 2) as i64))).collect();
    let dates: Vec<_> = (0..KEYS * 2)
        .map(|row| Some(Value::Date((row % 2) as i32 * 100)))
        .collect();
    let columns: &Columns<'_> = &[("id", DataType::Int64, &by), ("c", DataType::Date, &dates)];
    let (shown, _) = masked_by(&shift(3, ""), columns);
    let days: Vec<i32> = shown
        .iter()
        .flatten()
        .map(|date| date["Date(".len()..date.len() - 1].parse().unwrap())
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    for pair in days.chunks_exact(2) {
        assert_eq!(pair[1] - pair[0], 100);
        seen.insert(pair[0]);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [-3, -2, -1, 1, 2, 3]);
}

/// Of one number in two widths, the difference between two columns would show the date.
#[test]
fn shifts_of_different_width_say_nothing_of_one_another() {
    let by = ints(&[0, 1, 2, 3]);
    let dates = [Some(Value::Date(0)); 4];
    let columns: &Columns<'_> = &[("id", DataType::Int32, &by), ("c", DataType::Date, &dates)];
    let (narrow, _) = masked_by(&shift(10, ""), columns);
    assert_eq!(narrow, some(&["Date(10)", "Date(10)", "Date(-9)", "Date(4)"]));
    let (wide, _) = masked_by(&shift(1_000, ""), columns);
    assert_eq!(wide, some(&["Date(-404)", "Date(43)", "Date(808)", "Date(890)"]));
}

#[test]
fn a_date_without_a_key_or_a_calendar_is_rejected() {
    let by = [None, None, Some(Value::Int(1)), Some(Value::Utf8("B"))].map(|by| match by {
        Some(Value::Int(1)) => Some(Value::Utf8("1")),
        other => other,
    });
    let last = 2_932_896;
    let dates = [
        Some(Value::Date(0)),
        None,
        Some(Value::Date(last)),
        Some(Value::Date(last)),
    ];
    let columns: &Columns<'_> = &[("id", DataType::Utf8, &by), ("c", DataType::Date, &dates)];
    let (shown, rejects) = masked_by(&shift(30, ""), columns);
    assert_eq!(shown[1], None);
    assert_eq!(shown[3], Some(format!("Date({})", last - 14)));
    let reject = |row, column: &str, code: &str| (row, column.to_owned(), code.to_owned());
    assert_eq!(
        rejects,
        [reject(0, "id", "by-is-null"), reject(2, "c", "date-out-of-range")]
    );
    let moments = [None, None, Some(Value::TimestampNtz(i64::MAX)), None];
    let columns: &Columns<'_> = &[("id", DataType::Utf8, &by), ("c", DataType::TimestampNtz, &moments)];
    let (_, rejects) = masked_by(&shift(30, ""), columns);
    assert_eq!(rejects, [reject(2, "c", "date-out-of-range")]);
}

#[test]
fn the_column_to_go_by_must_be_another_of_the_table() {
    let columns = [("c", DataType::Date, true), ("idx", DataType::Int32, true)];
    for (by, said) in [
        (
            "C",
            "columns.C.by: it is the column itself; name the column of the row's key",
        ),
        (
            "idy",
            "columns.C.by: the table has no column `idy`, did you mean `idx`?",
        ),
        ("customer", "columns.C.by: the table has no column `customer`"),
    ] {
        let method = format!(r#"{{"method":"date_shift","key":"pii","days":1,"by":"{by}"}}"#);
        let config = format!(r#"{{"unlisted":"drop","columns":{{"C":{method}}}}}"#);
        assert_eq!(open(&columns, &config).unwrap_err().to_string(), said);
    }
    let config = r#"{"unlisted":"drop","columns":{"idx":{"method":"date_shift","key":"pii","days":1,"by":"c"}}}"#;
    let error = open(&columns, config).unwrap_err();
    assert!(matches!(error, OpenError::Unsupported { column, .. } if column == "idx"));
}

#[test]
fn noise_within_an_amount() {
    for data_type in [DataType::Int16, DataType::Int32, DataType::Int64] {
        let mut values = ints(&[0, 1, 5, 100, -100]);
        values.push(None);
        let (shown, rejects) = masked(&noise(r#""within":10"#), data_type, &values);
        let mut expected = some(&["Int(-2)", "Int(-8)", "Int(8)", "Int(99)", "Int(-92)"]);
        expected.push(None);
        assert_eq!(shown, expected);
        assert!(rejects.is_empty());
    }
    let decimal = DataType::Decimal { precision: 9, scale: 2 };
    let values = [Some(Value::Decimal(-1_250, 2))];
    for within in ["2.5", r#""2.50""#] {
        let (shown, _) = masked(&noise(&format!(r#""within":{within}"#)), decimal, &values);
        assert_eq!(shown, some(&["Decimal(-1343, 2)"]));
    }
    let (shown, _) = masked(
        &noise(r#""within":10"#),
        DataType::Float64,
        &[Some(Value::Float64(100.5))],
    );
    assert_eq!(shown, some(&["Float64(90.94751761283436)"]));
}

#[test]
fn noise_within_a_share() {
    let (shown, _) = masked(&noise(r#""percent":1"#), DataType::Int32, &ints(&[100, 0]));
    assert_eq!(shown, some(&["Int(101)", "Int(0)"]));
    // A tenth of 3 is no whole number; it is moved by one.
    let (shown, _) = masked(&noise(r#""percent":10"#), DataType::Int32, &ints(&[3]));
    assert_eq!(shown, some(&["Int(2)"]));
    let decimal = DataType::Decimal { precision: 9, scale: 2 };
    let (shown, _) = masked(&noise(r#""percent":10"#), decimal, &[Some(Value::Decimal(-1_250, 2))]);
    assert_eq!(shown, some(&["Decimal(-1280, 2)"]));
    let (shown, _) = masked(
        &noise(r#""percent":5"#),
        DataType::Float64,
        &[Some(Value::Float64(-2.5)), Some(Value::Float64(0.0))],
    );
    assert_eq!(shown, some(&["Float64(-2.618671934563122)", "Float64(0.0)"]));
}

#[test]
fn noise_beyond_the_type_is_rejected() {
    let out_of_range = [(0, "noise-out-of-range".to_owned())];
    let small = noise(r#""within":10,"context":"a""#);
    let (_, rejects) = masked(&small, DataType::Int16, &ints(&[32_767]));
    assert_eq!(rejects, out_of_range);
    let whole = DataType::Decimal {
        precision: 38,
        scale: 0,
    };
    let most = 10_i128.pow(38) - 1;
    let (_, rejects) = masked(&noise(r#""percent":100"#), whole, &[Some(Value::Decimal(most, 0))]);
    assert_eq!(rejects, out_of_range);
    let huge = [Some(Value::Float64(f64::INFINITY))];
    let (_, rejects) = masked(&noise(r#""percent":100"#), DataType::Float64, &huge);
    assert_eq!(rejects, out_of_range);
    for (data_type, options) in [
        (DataType::Int32, r#""within":0"#),
        (DataType::Int32, r#""within":0.5"#),
        (DataType::Int32, r#""within":-1"#),
        (DataType::Decimal { precision: 5, scale: 1 }, r#""within":0.25"#),
        (DataType::Float64, r#""within":0"#),
        (DataType::Float64, r#""within":"1""#),
        (DataType::Utf8, r#""within":1"#),
    ] {
        let config = format!(r#"{{"columns":{{"c":{}}}}}"#, noise(options));
        let error = open(&[("c", data_type, true)], &config).unwrap_err();
        assert!(matches!(error, OpenError::Unsupported { .. }), "{error}");
    }
}

/// The amount is lost in the rounding of large numbers.
#[test]
fn noise_never_leaves_a_floating_point_number_as_it_was() {
    let doubles = |values: &[f64]| -> Vec<_> { values.iter().map(|&value| Some(Value::Float64(value))).collect() };
    let floats = |values: &[f32]| -> Vec<_> { values.iter().map(|&value| Some(Value::Float32(value))).collect() };
    // 1e16 and -1e16 are moved by less than half of what lies between them and their neighbours, and downwards.
    let (shown, rejects) = masked(
        &noise(r#""within":2"#),
        DataType::Float64,
        &doubles(&[1e16, 1e16 + 2.0, -1e16]),
    );
    assert_eq!(
        shown,
        some(&[
            "Float64(9999999999999998.0)",
            "Float64(1e16)",
            "Float64(-1.0000000000000002e16)"
        ])
    );
    assert!(rejects.is_empty());
    let (shown, rejects) = masked(
        &noise(r#""within":4"#),
        DataType::Float32,
        &floats(&[33_554_432.0, 33_554_436.0, -33_554_436.0]),
    );
    assert_eq!(
        shown,
        some(&["Float32(33554436.0)", "Float32(33554440.0)", "Float32(-33554440.0)"])
    );
    assert!(rejects.is_empty());

    let values: Vec<f64> = (0..2_000).map(|step| 1e16 + 2.0 * f64::from(step)).collect();
    let (shown, _) = masked(&noise(r#""within":2"#), DataType::Float64, &doubles(&values));
    for (shown, value) in shown.iter().flatten().zip(values) {
        let moved: f64 = shown["Float64(".len()..shown.len() - 1].parse().unwrap();
        assert_eq!((moved - value).abs(), 2.0, "{value}");
    }
}

#[test]
fn noise_less_than_the_number_can_show_is_rejected() {
    let small = |row| (row, "noise-too-small".to_owned());
    let out = |row| (row, "noise-out-of-range".to_owned());
    let doubles = [1e16, 1.0, -1e17, f64::MAX, f64::NEG_INFINITY, f64::NAN];
    let doubles = doubles.map(|value| Some(Value::Float64(value)));
    let (_, rejects) = masked(&noise(r#""within":1"#), DataType::Float64, &doubles);
    assert_eq!(rejects, [small(0), small(2), small(3), out(4), out(5)]);
    // Numbers from 2^24 on lie 2 apart, from 2^25 on 4.
    let floats = [16_777_216.0, 33_554_432.0, 0.0].map(|value| Some(Value::Float32(value)));
    let (_, rejects) = masked(&noise(r#""within":2"#), DataType::Float32, &floats);
    assert_eq!(rejects, [small(1)]);
    // A real has about seven digits, and the smallest of all numbers has no share.
    let (shown, rejects) = masked(
        &noise(r#""percent":0.000001"#),
        DataType::Float32,
        &[Some(Value::Float32(1.0)), Some(Value::Float32(0.0))],
    );
    assert_eq!((shown[1].as_deref(), rejects), (Some("Float32(0.0)"), vec![small(0)]));
    let (_, rejects) = masked(
        &noise(r#""percent":50"#),
        DataType::Float64,
        &[Some(Value::Float64(5e-324))],
    );
    assert_eq!(rejects, [small(0)]);
}

/// Two columns by one key are moved apart, and so are two numbers: neither shows what the other was moved by.
#[test]
fn noise_by_another_column() {
    let by = [1, 1, 1, 2].map(|by| Some(Value::Int(by)));
    let by: Vec<_> = by.into_iter().chain([None, None]).collect();
    let mut values = ints(&[0, 5_000, 5_000, 0, 1]);
    values.push(None);
    let columns: &Columns<'_> = &[("id", DataType::Int32, &by), ("c", DataType::Int32, &values)];
    let (shown, rejects) = masked_by(&noise(r#""within":1000,"by":"id""#), columns);
    assert_eq!(shown[..4], some(&["Int(-508)", "Int(5759)", "Int(5759)", "Int(342)"]));
    assert_eq!(shown[5], None);
    assert_eq!(rejects, [(4, "id".to_owned(), "by-is-null".to_owned())]);
}

/// One draw in two widths would show itself by the difference.
#[test]
fn noise_of_different_width_is_drawn_anew() {
    let (narrow, _) = masked(&noise(r#""within":10"#), DataType::Int32, &ints(&[0, 100]));
    assert_eq!(narrow, some(&["Int(-2)", "Int(99)"]));
    let (wide, _) = masked(&noise(r#""within":1000"#), DataType::Int32, &ints(&[0, 100]));
    assert_eq!(wide, some(&["Int(-176)", "Int(388)"]));
}
