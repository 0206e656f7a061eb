//! Log records: typed rows as bytes. They describe themselves, so that a change that was logged before its column was
//! altered is still understood after.

use crate::{
    types::{code_of, type_of_code},
    value::{SqlType, Value},
};

/// What a record of the log says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A row went; the image is the old one.
    Delete = 1,
    /// A row came; the image is the new one.
    Insert = 2,
    /// A row changed; the images are the old and the new one.
    Update = 3,
    /// A capture instance (its id in place of a table's) was made.
    Enable = 4,
    /// A table's definition changed; the image holds the statement's text.
    Ddl = 5,
}

impl Op {
    /// The operation of a number.
    pub fn of(code: i64) -> Op {
        match code {
            1 => Op::Delete,
            2 => Op::Insert,
            3 => Op::Update,
            4 => Op::Enable,
            _ => Op::Ddl,
        }
    }
}

/// A row image: column id, type and value.
pub type Image = Vec<(i64, SqlType, Value)>;

/// Appends a row image.
pub fn write_image<'a>(out: &mut Vec<u8>, columns: impl ExactSizeIterator<Item = (i64, SqlType, &'a Value)>) {
    out.extend_from_slice(&(columns.len() as u16).to_le_bytes());
    for (id, ty, value) in columns {
        out.extend_from_slice(&(id as u16).to_le_bytes());
        let code = code_of(ty).to_le_bytes();
        out.extend_from_slice(&code[..5]);
        match value {
            Value::Null => out.push(0),
            Value::Int(v) | Value::Time(v) | Value::DateTime(v) => {
                out.push(match value {
                    Value::Int(_) => 1,
                    Value::Time(_) => 2,
                    _ => 3,
                });
                out.extend_from_slice(&v.to_le_bytes());
            }
            Value::Date(v) => {
                out.push(4);
                out.extend_from_slice(&v.to_le_bytes());
            }
            Value::Float(v) => {
                out.push(5);
                out.extend_from_slice(&v.to_le_bytes());
            }
            Value::Decimal(v) => {
                out.push(6);
                out.extend_from_slice(&v.to_le_bytes());
            }
            Value::Text(v) => write_bytes(out, 7, v.as_bytes()),
            Value::Bytes(v) => write_bytes(out, 8, v),
            Value::Guid(v) => {
                out.push(9);
                out.extend_from_slice(v);
            }
            Value::DateTimeOffset(utc, offset) => {
                out.push(10);
                out.extend_from_slice(&utc.to_le_bytes());
                out.extend_from_slice(&offset.to_le_bytes());
            }
        }
    }
}

/// Reads a row image off the front of `bytes`; nothing when they are cut short.
pub fn read_image(bytes: &mut &[u8]) -> Option<Image> {
    let count = u16::from_le_bytes(take(bytes)?);
    let mut image = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let id = i64::from(u16::from_le_bytes(take(bytes)?));
        let mut code = [0; 8];
        code[..5].copy_from_slice(&take::<5>(bytes)?);
        let ty = type_of_code(i64::from_le_bytes(code));
        let [tag] = take(bytes)?;
        let value = match tag {
            0 => Value::Null,
            1 => Value::Int(i64::from_le_bytes(take(bytes)?)),
            2 => Value::Time(i64::from_le_bytes(take(bytes)?)),
            3 => Value::DateTime(i64::from_le_bytes(take(bytes)?)),
            4 => Value::Date(i32::from_le_bytes(take(bytes)?)),
            5 => Value::Float(f64::from_le_bytes(take(bytes)?)),
            6 => Value::Decimal(i128::from_le_bytes(take(bytes)?)),
            7 | 8 => {
                let length = u32::from_le_bytes(take(bytes)?) as usize;
                let (head, rest) = bytes.split_at_checked(length)?;
                *bytes = rest;
                if tag == 7 {
                    Value::Text(String::from_utf8_lossy(head).into_owned())
                } else {
                    Value::Bytes(head.to_vec())
                }
            }
            9 => Value::Guid(take(bytes)?),
            _ => Value::DateTimeOffset(i64::from_le_bytes(take(bytes)?), i16::from_le_bytes(take(bytes)?)),
        };
        image.push((id, ty, value));
    }
    Some(image)
}

fn write_bytes(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_at_checked(N)?;
    *bytes = rest;
    head.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_round_trip() {
        let image: Image = vec![
            (1, SqlType::Int, Value::Int(-5)),
            (
                2,
                SqlType::Decimal {
                    precision: 38,
                    scale: 10,
                },
                Value::Decimal(i128::MIN),
            ),
            (
                3,
                SqlType::NVarChar(crate::value::Length::Max),
                Value::Text("é😀".into()),
            ),
            (4, SqlType::Date, Value::Null),
            (900, SqlType::DateTimeOffset(7), Value::DateTimeOffset(7, -90)),
        ];
        let mut bytes = Vec::new();
        write_image(&mut bytes, image.iter().map(|(id, ty, v)| (*id, *ty, v)));
        let mut rest = bytes.as_slice();
        assert_eq!(read_image(&mut rest), Some(image));
        assert!(rest.is_empty());
        assert_eq!(read_image(&mut &bytes[..bytes.len() - 1]), None);
    }
}
