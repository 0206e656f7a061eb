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
    // Moved by 2, 22, (16), 17 days.
    let expected = ["Date(19784)", "Date(22)", "", "Date(16)"].map(|date| (!date.is_empty()).then(|| date.to_owned()));
    assert_eq!(shown, expected);
    assert!(rejects.is_empty());
    let (shown, _) = masked_by(&shift(36_525, ""), &[columns[0], columns[1]]);
    assert_eq!(shown[0].as_deref(), Some("Date(21164)"));
    let (shown, _) = masked_by(&shift(30, r#","context":"crm""#), columns);
    assert_eq!(shown[..2], some(&["Date(19800)", "Date(-21)"]));

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
        let expected = [2 * DAY_US + 5, 22 * DAY_US - 5].map(|micros| Some(format!("{name}({micros})")));
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

#[test]
fn a_date_without_a_key_or_a_calendar_is_rejected() {
    let by = [None, None, Some(Value::Int(1)), Some(Value::Utf8("A"))].map(|by| match by {
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
    assert_eq!(shown[3], Some(format!("Date({})", last - 9)));
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
        let mut expected = some(&["Int(-9)", "Int(11)", "Int(-4)", "Int(102)", "Int(-104)"]);
        expected.push(None);
        assert_eq!(shown, expected);
        assert!(rejects.is_empty());
    }
    let decimal = DataType::Decimal { precision: 9, scale: 2 };
    let values = [Some(Value::Decimal(-1_250, 2))];
    for within in ["2.5", r#""2.50""#] {
        let (shown, _) = masked(&noise(&format!(r#""within":{within}"#)), decimal, &values);
        assert_eq!(shown, some(&["Decimal(-1362, 2)"]));
    }
    let (shown, _) = masked(
        &noise(r#""within":10"#),
        DataType::Float64,
        &[Some(Value::Float64(100.5))],
    );
    assert_eq!(shown, some(&["Float64(99.30681748212157)"]));
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
    assert_eq!(shown, some(&["Decimal(-1306, 2)"]));
    let (shown, _) = masked(
        &noise(r#""percent":5"#),
        DataType::Float64,
        &[Some(Value::Float64(-2.5)), Some(Value::Float64(0.0))],
    );
    assert_eq!(shown, some(&["Float64(-2.6246577997190235)", "Float64(0.0)"]));
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

/// Two columns by one key are moved apart: the one does not show what the other was moved by.
#[test]
fn noise_by_another_column() {
    let by = [Some(Value::Int(1)), Some(Value::Int(1)), None];
    let values = ints(&[0, 5_000, 1]);
    let columns: &Columns<'_> = &[("id", DataType::Int32, &by), ("c", DataType::Int32, &values)];
    let (shown, rejects) = masked_by(&noise(r#""within":1000,"by":"id""#), columns);
    assert_eq!(shown[..2], some(&["Int(945)", "Int(5945)"]));
    assert_eq!(rejects, [(2, "id".to_owned(), "by-is-null".to_owned())]);
}
