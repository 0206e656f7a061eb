//! `constant` and `null`: the same value in every row, also where there was none.

use serde_json::Value;
use sluice_plugin::text::{parse_date, parse_decimal, parse_timestamp};
use sluice_plugin::{ApplyError, BinaryBuilder, BooleanBuilder, Column, DataType, FixedBuilder, Native};

/// A constant that fits its column's type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Boolean(bool),
    Int16(i16),
    Int32(i32),
    Int64(i64),
    Float32(f32),
    Float64(f64),
    Decimal(i128),
    Date(i32),
    Timestamp(i64),
    Bytes(Vec<u8>),
}

impl Literal {
    /// Reads a constant of the configuration for a column of this type. The error says what would fit.
    pub(crate) fn of(value: &Value, data_type: DataType) -> Result<Self, String> {
        let expected = |what: &str| format!("needs `value` to be {what}, or null");
        let literal = match (data_type, value) {
            (_, Value::Null) => Some(Self::Null),
            (DataType::Boolean, Value::Bool(value)) => Some(Self::Boolean(*value)),
            (DataType::Int16, Value::Number(number)) => integer(number).map(Self::Int16),
            (DataType::Int32, Value::Number(number)) => integer(number).map(Self::Int32),
            (DataType::Int64, Value::Number(number)) => integer(number).map(Self::Int64),
            (DataType::Float32, Value::Number(number)) => number
                .as_f64()
                .map(|number| number as f32)
                .filter(|number| number.is_finite())
                .map(Self::Float32),
            (DataType::Float64, Value::Number(number)) => number.as_f64().map(Self::Float64),
            (DataType::Decimal { precision, scale }, Value::Number(number)) => {
                decimal(&number.to_string(), precision, scale)
            }
            (DataType::Decimal { precision, scale }, Value::String(text)) => decimal(text, precision, scale),
            (DataType::Date, Value::String(text)) => parse_date(text).ok().map(Self::Date),
            (DataType::TimestampNtz, Value::String(text)) => parse_timestamp(text).ok().map(Self::Timestamp),
            (DataType::Timestamp, Value::String(text)) => text
                .strip_suffix('Z')
                .and_then(|text| parse_timestamp(text).ok())
                .map(Self::Timestamp),
            (DataType::Utf8, Value::String(text)) => Some(Self::Bytes(text.clone().into_bytes())),
            (DataType::Binary, Value::String(text)) => hex(text).map(Self::Bytes),
            _ => None,
        };
        literal.ok_or_else(|| {
            expected(match data_type {
                DataType::Boolean => "true or false",
                DataType::Int16 | DataType::Int32 | DataType::Int64 => "a whole number in the column's range",
                DataType::Float32 | DataType::Float64 => "a number in the column's range",
                DataType::Decimal { .. } => "a number, or a text with a number, that the column can hold exactly",
                DataType::Date => "a text `YYYY-MM-DD`",
                DataType::TimestampNtz => "a text `YYYY-MM-DDTHH:MM:SS`",
                DataType::Timestamp => "a text `YYYY-MM-DDTHH:MM:SSZ`",
                DataType::Utf8 => "a text",
                DataType::Binary => "a text `0x` with two hexadecimal digits a byte",
            })
        })
    }

    pub(crate) fn column(&self, data_type: DataType, rows: usize) -> Result<Column, ApplyError> {
        match self {
            Self::Null => nulls(data_type, rows),
            Self::Boolean(value) => {
                let mut column = BooleanBuilder::with_capacity(rows);
                (0..rows).for_each(|_| column.push_option(Some(*value)));
                Ok(column.finish())
            }
            Self::Int16(value) => Ok(fixed(Some(*value), rows)),
            Self::Int32(value) | Self::Date(value) => Ok(fixed(Some(*value), rows)),
            Self::Int64(value) | Self::Timestamp(value) => Ok(fixed(Some(*value), rows)),
            Self::Float32(value) => Ok(fixed(Some(*value), rows)),
            Self::Float64(value) => Ok(fixed(Some(*value), rows)),
            Self::Decimal(value) => Ok(fixed(Some(*value), rows)),
            Self::Bytes(value) => {
                let mut column = BinaryBuilder::with_capacity(rows, rows.saturating_mul(value.len()));
                (0..rows).for_each(|_| column.push(value));
                column.finish()
            }
        }
    }
}

fn nulls(data_type: DataType, rows: usize) -> Result<Column, ApplyError> {
    Ok(match data_type {
        DataType::Boolean => {
            let mut column = BooleanBuilder::with_capacity(rows);
            (0..rows).for_each(|_| column.push_option(None));
            column.finish()
        }
        DataType::Int16 => fixed::<i16>(None, rows),
        DataType::Int32 | DataType::Date => fixed::<i32>(None, rows),
        DataType::Float32 => fixed::<f32>(None, rows),
        DataType::Float64 => fixed::<f64>(None, rows),
        DataType::Int64 | DataType::Timestamp | DataType::TimestampNtz => fixed::<i64>(None, rows),
        DataType::Decimal { .. } => fixed::<i128>(None, rows),
        DataType::Utf8 | DataType::Binary => {
            let mut column = BinaryBuilder::with_capacity(rows, 0);
            (0..rows).for_each(|_| column.push_null());
            column.finish()?
        }
    })
}

fn fixed<T: Native + Default>(value: Option<T>, rows: usize) -> Column {
    let mut column = FixedBuilder::with_capacity(rows);
    (0..rows).for_each(|_| column.push_option(value));
    column.finish()
}

fn integer<T: TryFrom<i64>>(number: &serde_json::Number) -> Option<T> {
    number.as_i64().and_then(|number| T::try_from(number).ok())
}

fn decimal(text: &str, precision: u8, scale: u8) -> Option<Literal> {
    parse_decimal(text, precision, scale).ok().map(Literal::Decimal)
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    let nibble = |digit: u8| char::from(digit).to_digit(16);
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|pair| Some((nibble(pair[0])? * 16 + nibble(pair[1])?) as u8))
        .collect()
}
