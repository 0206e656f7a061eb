//! Values in the configuration, as columns of one row.

use serde_json::Value;
use sluice_plugin::text::parse_timestamp;
use sluice_plugin::{BinaryBuilder, BooleanBuilder, Column, DataType, FixedBuilder, Native, Utf8Builder};

use crate::cast::Cast;
use crate::rejects::Rejects;

/// A constant and the type that it has by itself.
pub(crate) fn natural(value: &Value) -> Result<(Column, DataType), String> {
    let expected = || {
        "expected a text, true or false, or a number (of at most 64 bits if it is whole; a larger one as a text, with \
         `cast`)"
            .to_owned()
    };
    match value {
        Value::Bool(value) => Ok((boolean(*value), DataType::Boolean)),
        Value::Number(number) => match number.as_i64() {
            Some(value) => Ok((fixed(value), DataType::Int64)),
            None if number.is_f64() => {
                let value = number.as_f64().ok_or_else(expected)?;
                Ok((fixed(value), DataType::Float64))
            }
            None => Err(expected()),
        },
        Value::String(value) => {
            let column = text(value).ok_or_else(expected)?;
            Ok((column, DataType::Utf8))
        }
        Value::Null | Value::Array(_) | Value::Object(_) => Err(expected()),
    }
}

/// A value that fits a column of this type; else a sentence that says what would fit.
pub(crate) fn of_type(value: &Value, data_type: DataType) -> Result<Column, String> {
    let column = match (data_type, value) {
        (DataType::Boolean, Value::Bool(value)) => Some(boolean(*value)),
        (DataType::Int16 | DataType::Int32 | DataType::Int64, Value::Number(number)) => number
            .as_i64()
            .and_then(|number| cast(&fixed(number), DataType::Int64, data_type)),
        (DataType::Float32 | DataType::Float64, Value::Number(number)) => number
            .as_f64()
            .and_then(|number| cast(&fixed(number), DataType::Float64, data_type)),
        (DataType::Decimal { .. }, Value::Number(number)) => of_text(&number.to_string(), data_type),
        (DataType::Decimal { .. } | DataType::Date | DataType::TimestampNtz | DataType::Utf8, Value::String(value)) => {
            of_text(value, data_type)
        }
        (DataType::Timestamp, Value::String(value)) => value
            .strip_suffix('Z')
            .and_then(|text| parse_timestamp(text).ok())
            .map(fixed),
        (DataType::Binary, Value::String(value)) => hex(value),
        _ => None,
    };
    column.ok_or_else(|| {
        let expected = match data_type {
            DataType::Boolean => "true or false",
            DataType::Int16 | DataType::Int32 | DataType::Int64 => "a whole number in its range",
            DataType::Float32 | DataType::Float64 => "a number in its range",
            DataType::Decimal { .. } => "a number, or a text with a number, that it can hold exactly",
            DataType::Date => "a text `YYYY-MM-DD`",
            DataType::TimestampNtz => "a text `YYYY-MM-DDTHH:MM:SS`",
            DataType::Timestamp => "a text `YYYY-MM-DDTHH:MM:SSZ`",
            DataType::Utf8 => "a text",
            DataType::Binary => "a text `0x` with two hexadecimal digits a byte",
        };
        format!("the column is {data_type} here; expected {expected}")
    })
}

fn of_text(value: &str, data_type: DataType) -> Option<Column> {
    let text = text(value)?;
    if data_type == DataType::Utf8 {
        return Some(text);
    }
    cast(&text, DataType::Utf8, data_type)
}

fn cast(column: &Column, from: DataType, to: DataType) -> Option<Column> {
    let mut rejected = Vec::new();
    let column = Cast { from, to }
        .apply(column, 1, &mut Rejects::new("", &mut rejected))
        .ok()?;
    rejected.is_empty().then_some(column)
}

fn boolean(value: bool) -> Column {
    let mut builder = BooleanBuilder::with_capacity(1);
    builder.push_option(Some(value));
    builder.finish()
}

fn fixed<T: Native + Default>(value: T) -> Column {
    let mut builder = FixedBuilder::with_capacity(1);
    builder.push_option(Some(value));
    builder.finish()
}

fn text(value: &str) -> Option<Column> {
    let mut builder = Utf8Builder::with_capacity(1, value.len());
    builder.push(value);
    builder.finish().ok()
}

fn hex(text: &str) -> Option<Column> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let nibble = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| u8::try_from(nibble(pair[0])? * 16 + nibble(pair[1])?).ok();
    let bytes = digits.chunks_exact(2).map(byte).collect::<Option<Vec<u8>>>()?;
    let mut builder = BinaryBuilder::with_capacity(1, bytes.len());
    builder.push(&bytes);
    builder.finish().ok()
}
