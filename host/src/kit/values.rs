//! Values as fixtures write them, and back. Each type has one form, so that equal columns give equal text.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType,
};
use chrono::{DateTime, Datelike as _, NaiveDate, NaiveDateTime};

use super::csv::Cell;

/// A cell that has no value of its column's type: its position, and what is expected there. The cell itself is not said:
/// rows may have been captured.
pub(crate) type BadCell = (usize, String);

/// The Arrow array of a column's cells.
///
/// # Errors
/// The first cell that is no value of the type.
pub(crate) fn parse(data_type: &DataType, cells: &[Cell]) -> Result<ArrayRef, BadCell> {
    Ok(match data_type {
        DataType::Boolean => Arc::new(BooleanArray::from(each(cells, boolean)?)),
        DataType::Int16 => Arc::new(Int16Array::from(each(cells, number)?)),
        DataType::Int32 => Arc::new(Int32Array::from(each(cells, number)?)),
        DataType::Int64 => Arc::new(Int64Array::from(each(cells, number)?)),
        DataType::Float32 => Arc::new(Float32Array::from(each(cells, number)?)),
        DataType::Float64 => Arc::new(Float64Array::from(each(cells, number)?)),
        DataType::Decimal128(precision, scale) => {
            let values = each(cells, |text| decimal(text, *precision, *scale))?;
            let array = Decimal128Array::from(values)
                .with_precision_and_scale(*precision, *scale)
                .map_err(|error| (0, error.to_string()))?;
            Arc::new(array)
        }
        DataType::Date32 => Arc::new(Date32Array::from(each(cells, date)?)),
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            Arc::new(TimestampMicrosecondArray::from(each(cells, timestamp)?))
        }
        DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) => {
            let values = each(cells, |text| {
                let text = text
                    .strip_suffix('Z')
                    .ok_or_else(|| "a moment is in UTC and ends in `Z`: 2024-01-31 12:00:00Z".to_owned())?;
                timestamp(text)
            })?;
            Arc::new(TimestampMicrosecondArray::from(values).with_timezone(Arc::clone(zone)))
        }
        DataType::Utf8 => Arc::new(StringArray::from_iter(cells.iter().map(Option::as_deref))),
        DataType::Binary => {
            let values = each(cells, binary)?;
            Arc::new(BinaryArray::from_iter(values))
        }
        other => return Err((0, format!("no value of type {other} can be written here"))),
    })
}

/// The cells of a column. A dictionary is looked up; a type that no column of a transform has gives its name.
pub(crate) fn format(array: &ArrayRef) -> Vec<Cell> {
    let text = |row: usize| -> String {
        match array.data_type() {
            DataType::Boolean => array.as_boolean().value(row).to_string(),
            DataType::Int16 => array.as_primitive::<Int16Type>().value(row).to_string(),
            DataType::Int32 => array.as_primitive::<Int32Type>().value(row).to_string(),
            DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
            // The shortest form that reads back as the same number.
            DataType::Float32 => format!("{:?}", array.as_primitive::<Float32Type>().value(row)),
            DataType::Float64 => format!("{:?}", array.as_primitive::<Float64Type>().value(row)),
            DataType::Decimal128(_, scale) => decimal_text(array.as_primitive::<Decimal128Type>().value(row), *scale),
            DataType::Date32 => date_text(array.as_primitive::<Date32Type>().value(row)),
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                let text = timestamp_text(array.as_primitive::<TimestampMicrosecondType>().value(row));
                if zone.is_some() { text + "Z" } else { text }
            }
            DataType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
            DataType::Binary => array
                .as_binary::<i32>()
                .value(row)
                .iter()
                .fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}")),
            other => format!("<{other}>"),
        }
    };
    (0..array.len())
        .map(|row| array.is_valid(row).then(|| text(row)))
        .collect()
}

fn each<T>(cells: &[Cell], parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<Option<T>>, BadCell> {
    cells
        .iter()
        .enumerate()
        .map(|(row, cell)| cell.as_deref().map(&parse).transpose().map_err(|reason| (row, reason)))
        .collect()
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| "the value is no number that the type can have".to_owned())
}

fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("the value is neither `true` nor `false`".to_owned()),
    }
}

fn decimal(text: &str, precision: u8, scale: i8) -> Result<i128, String> {
    let wrong = || "the value is no decimal number".to_owned();
    let scale = usize::try_from(scale).map_err(|_| wrong())?;
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(part) {
        return Err(wrong());
    }
    if part.len() > scale {
        return Err(format!("the value has more than {scale} digits behind the point"));
    }
    let unscaled: i128 = format!("{whole}{part:0<scale$}").parse().map_err(|_| wrong())?;
    let fits = 10_i128
        .checked_pow(u32::from(precision))
        .is_some_and(|limit| unscaled < limit);
    if !fits {
        return Err(format!("the value has more than {precision} digits"));
    }
    Ok(if negative { -unscaled } else { unscaled })
}

fn decimal_text(value: i128, scale: i8) -> String {
    let scale = usize::try_from(scale).unwrap_or(0);
    let sign = if value < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, part) = digits.split_at(digits.len() - scale);
    if part.is_empty() {
        format!("{sign}{whole}")
    } else {
        format!("{sign}{whole}.{part}")
    }
}

/// The days of SQL Server's dates are 0001-01-01 to 9999-12-31.
fn in_range(date: NaiveDate) -> Result<NaiveDate, String> {
    if (1..=9999).contains(&date.year()) {
        Ok(date)
    } else {
        Err("the value is not between 0001-01-01 and 9999-12-31".to_owned())
    }
}

fn date(text: &str) -> Result<i32, String> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d")
        .map_err(|_| "the value is no date; write 2024-01-31".to_owned())
        .and_then(in_range)?;
    Ok(date.to_epoch_days())
}

fn date_text(days: i32) -> String {
    match NaiveDate::from_epoch_days(days) {
        Some(date) => date.format("%Y-%m-%d").to_string(),
        // No fixture can say it, but a component can.
        None => format!("{days} days"),
    }
}

fn timestamp(text: &str) -> Result<i64, String> {
    let moment = NaiveDateTime::parse_from_str(&text.replacen('T', " ", 1), "%Y-%m-%d %H:%M:%S%.f")
        .map_err(|_| "the value is no moment; write 2024-01-31 23:59:59.123456".to_owned())?;
    in_range(moment.date())?;
    if moment.and_utc().timestamp_subsec_nanos() % 1000 != 0 {
        return Err("the value is finer than a microsecond, which the reader cuts off".to_owned());
    }
    Ok(moment.and_utc().timestamp_micros())
}

fn timestamp_text(micros: i64) -> String {
    match DateTime::from_timestamp_micros(micros) {
        Some(moment) => moment.format("%Y-%m-%d %H:%M:%S%.f").to_string(),
        None => format!("{micros} microseconds"),
    }
}

fn binary(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || "the value is no binary value; write 0x and two hex digits a byte".to_owned();
    let digits = text.strip_prefix("0x").ok_or_else(wrong)?;
    if digits.len() % 2 != 0 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(values: &[&str]) -> Vec<Cell> {
        values.iter().map(|value| Some((*value).to_owned())).collect()
    }

    #[test]
    fn every_type_is_read_and_written_as_it_was() {
        let ntz = DataType::Timestamp(TimeUnit::Microsecond, None);
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        for (data_type, values) in [
            (DataType::Boolean, vec!["true", "false"]),
            (DataType::Int16, vec!["-32768", "32767"]),
            (DataType::Int64, vec!["-9223372036854775808", "0"]),
            (DataType::Float32, vec!["0.1", "-0.0", "3.4028235e38"]),
            (DataType::Float64, vec!["0.1", "1e300", "NaN", "inf"]),
            (DataType::Decimal128(5, 2), vec!["-999.99", "0.05", "-0.05"]),
            (
                DataType::Decimal128(38, 0),
                vec!["99999999999999999999999999999999999999", "-1"],
            ),
            (DataType::Date32, vec!["0001-01-01", "1970-01-01", "9999-12-31"]),
            (ntz, vec!["0001-01-01 00:00:00", "2024-02-29 23:59:59.123456"]),
            (utc, vec!["1969-12-31 23:59:59.500Z"]),
            (DataType::Utf8, vec!["", "ä", "NULL"]),
            (DataType::Binary, vec!["0x", "0x00ff"]),
        ] {
            let mut expected = cells(&values);
            expected.push(None);
            let array = parse(&data_type, &expected).unwrap();
            assert_eq!(array.data_type(), &data_type);
            assert_eq!(format(&array), expected, "{data_type}");
        }
    }

    #[test]
    fn values_are_those_of_their_units() {
        // Python: (date(2024, 2, 29) - date(1970, 1, 1)).days, and datetime(...).timestamp() * 10**6.
        let days = parse(&DataType::Date32, &cells(&["2024-02-29"])).unwrap();
        assert_eq!(days.as_primitive::<Date32Type>().value(0), 19_782);
        let ntz = DataType::Timestamp(TimeUnit::Microsecond, None);
        let micros = parse(&ntz, &cells(&["2024-02-29T12:00:00.000001"])).unwrap();
        assert_eq!(
            micros.as_primitive::<TimestampMicrosecondType>().value(0),
            1_709_208_000_000_001
        );
        let money = parse(&DataType::Decimal128(19, 4), &cells(&["12.5"])).unwrap();
        assert_eq!(money.as_primitive::<Decimal128Type>().value(0), 125_000);
    }

    #[test]
    fn a_wrong_value_is_named_with_its_row() {
        for (data_type, wrong) in [
            (DataType::Boolean, "yes"),
            (DataType::Int16, "32768"),
            (DataType::Decimal128(5, 2), "1000"),
            (DataType::Decimal128(5, 2), "1.234"),
            (DataType::Decimal128(5, 2), "1e2"),
            (DataType::Date32, "2024-02-30"),
            (
                DataType::Timestamp(TimeUnit::Microsecond, None),
                "2024-02-03 00:00:00.1234567",
            ),
            (
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
                "2024-02-03 00:00:00",
            ),
            (DataType::Binary, "0x0"),
            (DataType::Binary, "ff"),
        ] {
            let (row, reason) = parse(&data_type, &[None, Some(wrong.to_owned())]).unwrap_err();
            assert_eq!(row, 1);
            assert!(
                !reason.is_empty() && !reason.contains(&format!("`{wrong}`")),
                "{reason}"
            );
        }
    }
}
