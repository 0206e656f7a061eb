//! Values as SQLite stores them: forms whose byte or integer order is SQL Server's order.
//!
//! | values | in SQLite |
//! | --- | --- |
//! | integers, date (days), time and datetimes (100 ns ticks) | INTEGER |
//! | real, float | REAL |
//! | decimal, money | BLOB of 16 bytes, big-endian, sign bit flipped, at the column's scale |
//! | text | TEXT |
//! | binary | BLOB |
//! | uniqueidentifier | BLOB of 16 bytes in SQL Server's sort order |
//! | datetimeoffset | BLOB: UTC ticks (8 bytes, biased, big-endian), then the offset (2 bytes) |

use rusqlite::types::{Value as Stored, ValueRef};

use crate::value::{SqlType, Value};

/// Where byte i of the text form goes in the sort form.
const GUID_ORDER: [usize; 16] = [10, 11, 12, 13, 14, 15, 8, 9, 7, 6, 5, 4, 3, 2, 1, 0];

/// A value in storage form.
pub fn encode(value: &Value) -> Stored {
    match value {
        Value::Text(text) => Stored::Text(text.clone()),
        Value::Bytes(bytes) => Stored::Blob(bytes.clone()),
        other => encode_owned(other.clone()),
    }
}

/// A value in storage form, without copying its text or bytes.
pub fn encode_owned(value: Value) -> Stored {
    match value {
        Value::Null => Stored::Null,
        Value::Int(v) | Value::Time(v) | Value::DateTime(v) => Stored::Integer(v),
        Value::Date(v) => Stored::Integer(i64::from(v)),
        Value::Float(v) => Stored::Real(v),
        Value::Decimal(v) => Stored::Blob(biased(v).to_vec()),
        Value::Text(v) => Stored::Text(v),
        Value::Bytes(v) => Stored::Blob(v),
        Value::Guid(v) => Stored::Blob(GUID_ORDER.iter().map(|i| v[*i]).collect()),
        Value::DateTimeOffset(utc, offset) => {
            let mut blob = Vec::with_capacity(10);
            blob.extend_from_slice(&(utc as u64 ^ (1 << 63)).to_be_bytes());
            blob.extend_from_slice(&offset.to_be_bytes());
            Stored::Blob(blob)
        }
    }
}

/// A stored value as a value of a type.
pub fn decode(stored: ValueRef<'_>, ty: SqlType) -> Value {
    let mut value = Value::Null;
    decode_into(stored, ty, &mut value);
    value
}

/// A stored value into a buffer whose text or bytes are reused: the form for reading many rows.
pub fn decode_into(stored: ValueRef<'_>, ty: SqlType, into: &mut Value) {
    match stored {
        ValueRef::Null => *into = Value::Null,
        ValueRef::Integer(v) => {
            *into = match ty {
                SqlType::Date => Value::Date(v as i32),
                SqlType::Time(_) => Value::Time(v),
                SqlType::DateTime | SqlType::SmallDateTime | SqlType::DateTime2(_) => Value::DateTime(v),
                SqlType::Real | SqlType::Float => Value::Float(v as f64),
                SqlType::Decimal { .. } | SqlType::Money | SqlType::SmallMoney => Value::Decimal(i128::from(v)),
                _ => Value::Int(v),
            }
        }
        ValueRef::Real(v) => *into = Value::Float(v),
        ValueRef::Text(bytes) => {
            // SQLite keeps what it was given, and it was given UTF-8.
            let text = String::from_utf8_lossy(bytes);
            if let Value::Text(buffer) = into {
                buffer.clear();
                buffer.push_str(&text);
            } else {
                *into = Value::Text(text.into_owned());
            }
        }
        ValueRef::Blob(bytes) => match ty {
            SqlType::Decimal { .. } | SqlType::Money | SqlType::SmallMoney => {
                *into = Value::Decimal(unbiased(bytes));
            }
            SqlType::UniqueIdentifier => {
                let mut guid = [0; 16];
                for (i, at) in GUID_ORDER.iter().enumerate() {
                    guid[*at] = bytes.get(i).copied().unwrap_or(0);
                }
                *into = Value::Guid(guid);
            }
            SqlType::DateTimeOffset(_) => {
                let mut utc = [0; 8];
                let mut offset = [0; 2];
                if bytes.len() == 10 {
                    utc.copy_from_slice(&bytes[..8]);
                    offset.copy_from_slice(&bytes[8..]);
                }
                *into = Value::DateTimeOffset((u64::from_be_bytes(utc) ^ (1 << 63)) as i64, i16::from_be_bytes(offset));
            }
            _ => {
                if let Value::Bytes(buffer) = into {
                    buffer.clear();
                    buffer.extend_from_slice(bytes);
                } else {
                    *into = Value::Bytes(bytes.to_vec());
                }
            }
        },
    }
}

fn biased(value: i128) -> [u8; 16] {
    (value as u128 ^ (1 << 127)).to_be_bytes()
}

fn unbiased(bytes: &[u8]) -> i128 {
    let mut wide = [0; 16];
    if bytes.len() == 16 {
        wide.copy_from_slice(bytes);
    }
    (u128::from_be_bytes(wide) ^ (1 << 127)) as i128
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(value: Value, ty: SqlType) -> Value {
        let stored = encode_owned(value);
        decode(ValueRef::from(&stored), ty)
    }

    #[test]
    fn values_survive_storage() {
        let decimal = SqlType::Decimal {
            precision: 38,
            scale: 0,
        };
        for v in [0, 1, -1, i128::MAX, i128::MIN] {
            assert_eq!(back(Value::Decimal(v), decimal), Value::Decimal(v));
        }
        let guid: [u8; 16] = std::array::from_fn(|i| i as u8);
        assert_eq!(back(Value::Guid(guid), SqlType::UniqueIdentifier), Value::Guid(guid));
        let offset = Value::DateTimeOffset(-5, -420);
        assert_eq!(back(offset.clone(), SqlType::DateTimeOffset(7)), offset);
    }

    #[test]
    fn decimals_sort_as_bytes() {
        let blob = |v| biased(v);
        assert!(blob(-2) < blob(-1) && blob(-1) < blob(0) && blob(0) < blob(1));
    }
}
