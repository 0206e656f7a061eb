//! What a plugin's own tests need: columns from values, keys, and reference tables. With the feature `testing`.

mod ff1;
mod keys;
mod lookups;

pub use keys::TestKeys;
pub use lookups::TestLookups;

use crate::{BinaryBuilder, BooleanBuilder, Column, DataType, FixedBuilder, Native, Value};

/// A column of these values; a value of another kind than the type's is NULL.
pub fn column(data_type: DataType, values: &[Option<Value<'_>>]) -> Column {
    fn fixed<T: Native + Default>(values: &[Option<Value<'_>>], of: impl Fn(Value<'_>) -> Option<T>) -> Column {
        let mut builder = FixedBuilder::with_capacity(values.len());
        for value in values {
            builder.push_option(value.and_then(&of));
        }
        builder.finish()
    }
    fn bytes(values: &[Option<Value<'_>>]) -> Column {
        let mut builder = BinaryBuilder::with_capacity(values.len(), 0);
        for value in values {
            builder.push_option(match value {
                Some(Value::Utf8(text)) => Some(text.as_bytes()),
                Some(Value::Binary(bytes)) => Some(bytes),
                _ => None,
            });
        }
        builder.finish().unwrap_or_default()
    }
    macro_rules! of {
        ($($kind:pat => $result:expr),*) => {
            fixed(values, |value| match value { $($kind => $result,)* _ => None })
        };
    }
    match data_type {
        DataType::Boolean => {
            let mut builder = BooleanBuilder::with_capacity(values.len());
            for value in values {
                builder.push_option(match value {
                    Some(Value::Boolean(value)) => Some(*value),
                    _ => None,
                });
            }
            builder.finish()
        }
        DataType::Int16 => of!(Value::Int(value) => i16::try_from(value).ok()),
        DataType::Int32 => of!(Value::Int(value) => i32::try_from(value).ok()),
        DataType::Int64 => of!(Value::Int(value) => Some(value)),
        DataType::Float32 => of!(Value::Float32(value) => Some(value)),
        DataType::Float64 => of!(Value::Float64(value) => Some(value)),
        DataType::Decimal { .. } => of!(Value::Decimal(value, _) => Some(value)),
        DataType::Date => of!(Value::Date(value) => Some(value)),
        DataType::Timestamp => of!(Value::Timestamp(value) => Some(value)),
        DataType::TimestampNtz => of!(Value::TimestampNtz(value) => Some(value)),
        DataType::Utf8 | DataType::Binary => bytes(values),
    }
}

/// One type of each kind.
pub const ALL_TYPES: [DataType; 12] = [
    DataType::Boolean,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::Float32,
    DataType::Float64,
    DataType::Decimal {
        precision: 19,
        scale: 4,
    },
    DataType::Date,
    DataType::Timestamp,
    DataType::TimestampNtz,
    DataType::Utf8,
    DataType::Binary,
];
