//! Values on the wire: those of a row (written) and those of parameters (read).

use mssql_sim_engine::CodePage;
use mssql_sim_engine::value::{Length, SqlType, Value};

use super::encoding::{decode_code_page, put_code_page, put_utf16};
use super::reader::{Parsed, Reader, malformed, utf16};
use super::typeinfo::{Layout, ParamType, VECTOR_FLOAT32, decimal_bytes, time_bytes, vector_bytes};

/// 1900-01-01 in days since 0001-01-01: where `datetime` counts from.
const DAYS_TO_1900: i64 = 693_595;
/// 100 ns units of a day.
const DAY_UNITS: i64 = 864_000_000_000;
/// 100 ns units of a minute.
const MINUTE_UNITS: i64 = 600_000_000;
const PLP_NULL: u64 = u64::MAX;
const PLP_UNKNOWN_LENGTH: u64 = u64::MAX - 1;
/// Longest chunk of a (max) value.
const CHUNK_BYTES: usize = 8191;

/// A value that its type cannot carry: a fault of the engine's, not of the client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a value does not fit the declared type {ty:?} of its column")]
pub(crate) struct Mismatch {
    ty: SqlType,
}

/// Appends a value of a result column. `nullable` says in which form [`super::typeinfo::put_type_info`] declared it, `page` in
/// which code page it said that text is.
pub(crate) fn put_value(
    out: &mut Vec<u8>,
    ty: SqlType,
    nullable: bool,
    page: CodePage,
    value: &Value,
) -> Result<(), Mismatch> {
    let mismatch = Mismatch { ty };
    if matches!(value, Value::Null) {
        return put_null(out, ty, nullable).ok_or(mismatch);
    }
    let start = out.len();
    let length = |out: &mut Vec<u8>, bytes: u8| {
        if nullable {
            out.push(bytes);
        }
    };
    match (ty, value) {
        (SqlType::Bit, Value::Int(value)) => {
            length(out, 1);
            out.push(u8::from(*value != 0));
        }
        (SqlType::TinyInt, Value::Int(value)) => {
            length(out, 1);
            out.push(u8::try_from(*value).map_err(|_| mismatch)?);
        }
        (SqlType::SmallInt, Value::Int(value)) => {
            length(out, 2);
            out.extend(i16::try_from(*value).map_err(|_| mismatch)?.to_le_bytes());
        }
        (SqlType::Int, Value::Int(value)) => {
            length(out, 4);
            out.extend(i32::try_from(*value).map_err(|_| mismatch)?.to_le_bytes());
        }
        (SqlType::BigInt, Value::Int(value)) => {
            length(out, 8);
            out.extend(value.to_le_bytes());
        }
        (SqlType::Real, Value::Float(value)) => {
            length(out, 4);
            out.extend((*value as f32).to_le_bytes());
        }
        (SqlType::Float, Value::Float(value)) => {
            length(out, 8);
            out.extend(value.to_le_bytes());
        }
        (SqlType::Money, Value::Decimal(value)) => {
            length(out, 8);
            let value = i64::try_from(*value).map_err(|_| mismatch)?;
            // The high half comes first.
            out.extend(((value >> 32) as i32).to_le_bytes());
            out.extend((value as u32).to_le_bytes());
        }
        (SqlType::SmallMoney, Value::Decimal(value)) => {
            length(out, 4);
            out.extend(i32::try_from(*value).map_err(|_| mismatch)?.to_le_bytes());
        }
        (SqlType::Decimal { precision, .. }, Value::Decimal(value)) => {
            let bytes = decimal_bytes(precision);
            let magnitude = value.unsigned_abs().to_le_bytes();
            let (kept, cut) = magnitude.split_at(usize::from(bytes));
            if cut.iter().any(|byte| *byte != 0) {
                return Err(mismatch);
            }
            out.extend([bytes + 1, u8::from(*value >= 0)]);
            out.extend_from_slice(kept);
        }
        (SqlType::Date, Value::Date(days)) => {
            out.push(3);
            put_days(out, i64::from(*days));
        }
        (SqlType::Time(scale), Value::Time(units)) => {
            out.push(time_bytes(scale) as u8);
            put_time(out, scale, *units);
        }
        (SqlType::DateTime2(scale), Value::DateTime(units)) => {
            out.push(time_bytes(scale) as u8 + 3);
            put_time(out, scale, units.rem_euclid(DAY_UNITS));
            put_days(out, units.div_euclid(DAY_UNITS));
        }
        (SqlType::DateTimeOffset(scale), Value::DateTimeOffset(units, offset)) => {
            out.push(time_bytes(scale) as u8 + 5);
            put_time(out, scale, units.rem_euclid(DAY_UNITS));
            put_days(out, units.div_euclid(DAY_UNITS));
            out.extend(offset.to_le_bytes());
        }
        (SqlType::DateTime, Value::DateTime(units)) => {
            length(out, 8);
            let days = units.div_euclid(DAY_UNITS) - DAYS_TO_1900;
            // 1/300 s; the engine keeps what SQL Server would have rounded to, so this only undoes the decimal form.
            let ticks = (units.rem_euclid(DAY_UNITS) * 3 + 50_000) / 100_000;
            out.extend((days as i32).to_le_bytes());
            out.extend((ticks as u32).to_le_bytes());
        }
        (SqlType::SmallDateTime, Value::DateTime(units)) => {
            length(out, 4);
            let days = units.div_euclid(DAY_UNITS) - DAYS_TO_1900;
            out.extend(u16::try_from(days).map_err(|_| mismatch)?.to_le_bytes());
            out.extend(((units.rem_euclid(DAY_UNITS) / MINUTE_UNITS) as u16).to_le_bytes());
        }
        (SqlType::UniqueIdentifier, Value::Guid(bytes)) => {
            out.push(16);
            out.extend(swap_guid(*bytes));
        }
        (SqlType::VarChar(Length::Max), Value::Text(text)) => put_chunks(out, |out| put_code_page(out, text, page)),
        (SqlType::NVarChar(Length::Max) | SqlType::Xml, Value::Text(text)) => {
            put_chunks(out, |out| put_utf16(out, text));
        }
        (SqlType::Json, Value::Text(text)) => put_chunks(out, |out| out.extend_from_slice(text.as_bytes())),
        (
            SqlType::VarBinary(Length::Max) | SqlType::HierarchyId | SqlType::Geometry | SqlType::Geography,
            Value::Bytes(bytes),
        ) => put_chunks(out, |out| out.extend_from_slice(bytes)),
        (SqlType::Text, Value::Text(text)) => put_long(out, |out| put_code_page(out, text, page)),
        (SqlType::NText, Value::Text(text)) => put_long(out, |out| put_utf16(out, text)),
        (SqlType::Image, Value::Bytes(bytes)) => put_long(out, |out| out.extend_from_slice(bytes)),
        (SqlType::Vector(dimensions), Value::Text(text)) => {
            put_vector(out, dimensions, text).ok_or(mismatch)?;
        }
        (SqlType::Char(_) | SqlType::VarChar(_), Value::Text(text)) => {
            put_short(out, mismatch, |out| put_code_page(out, text, page))?;
        }
        (SqlType::NChar(_) | SqlType::NVarChar(_), Value::Text(text)) => {
            put_short(out, mismatch, |out| put_utf16(out, text))?;
        }
        (SqlType::Binary(_) | SqlType::VarBinary(_) | SqlType::RowVersion, Value::Bytes(bytes)) => {
            put_short(out, mismatch, |out| out.extend_from_slice(bytes))?;
        }
        _ => {
            out.truncate(start);
            return Err(mismatch);
        }
    }
    Ok(())
}

/// NULL as a type's ordinary row form has it; `None` where the form has no NULL.
fn put_null(out: &mut Vec<u8>, ty: SqlType, nullable: bool) -> Option<()> {
    match ty {
        SqlType::VarChar(Length::Max)
        | SqlType::NVarChar(Length::Max)
        | SqlType::VarBinary(Length::Max)
        | SqlType::Xml
        | SqlType::Json
        | SqlType::HierarchyId
        | SqlType::Geometry
        | SqlType::Geography => out.extend(PLP_NULL.to_le_bytes()),
        // No pointer to a value.
        SqlType::Text | SqlType::NText | SqlType::Image => out.push(0),
        SqlType::Variant => out.extend([0; 4]),
        SqlType::Char(_)
        | SqlType::NChar(_)
        | SqlType::VarChar(_)
        | SqlType::NVarChar(_)
        | SqlType::Binary(_)
        | SqlType::VarBinary(_)
        | SqlType::RowVersion
        | SqlType::Vector(_) => out.extend([0xFF, 0xFF]),
        SqlType::Decimal { .. }
        | SqlType::Date
        | SqlType::Time(_)
        | SqlType::DateTime2(_)
        | SqlType::DateTimeOffset(_)
        | SqlType::UniqueIdentifier => out.push(0),
        _ if nullable => out.push(0),
        _ => return None,
    }
    Some(())
}

fn put_days(out: &mut Vec<u8>, days: i64) {
    out.extend_from_slice(&(days as u32).to_le_bytes()[..3]);
}

fn put_time(out: &mut Vec<u8>, scale: u8, units: i64) {
    let ticks = units / 10_i64.pow(7 - u32::from(scale.min(7)));
    out.extend_from_slice(&ticks.to_le_bytes()[..time_bytes(scale)]);
}

/// The first three groups of a GUID are little-endian on the wire.
fn swap_guid(mut bytes: [u8; 16]) -> [u8; 16] {
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    bytes
}

fn put_short(out: &mut Vec<u8>, mismatch: Mismatch, put: impl FnOnce(&mut Vec<u8>)) -> Result<(), Mismatch> {
    let start = out.len();
    out.extend([0, 0]);
    put(out);
    match u16::try_from(out.len() - start - 2) {
        Ok(length) if length != u16::MAX => {
            out[start..start + 2].copy_from_slice(&length.to_le_bytes());
            Ok(())
        }
        _ => Err(mismatch),
    }
}

/// A (max) value: its whole length, its chunks, and the end. Chunks have an odd length, so that they part characters.
fn put_chunks(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; 12]);
    put(out);
    let length = out.len() - start - 12;
    out[start..start + 8].copy_from_slice(&(length as u64).to_le_bytes());
    if length == 0 {
        out.truncate(start + 8);
    } else if length <= CHUNK_BYTES {
        out[start + 8..start + 12].copy_from_slice(&(length as u32).to_le_bytes());
    } else {
        let value = out.split_off(start + 12);
        out.truncate(start + 8);
        for chunk in value.chunks(CHUNK_BYTES) {
            out.extend((chunk.len() as u32).to_le_bytes());
            out.extend_from_slice(chunk);
        }
    }
    out.extend([0; 4]);
}

/// A value of an old long type: a pointer and a timestamp, which mean nothing to clients, its length and its bytes.
fn put_long(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    out.push(16);
    out.extend([0xFF; 16 + 8]);
    let start = out.len();
    out.extend([0; 4]);
    put(out);
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// A vector: its length, a header of layout, version, dimensions and element type, and the elements.
fn put_vector(out: &mut Vec<u8>, dimensions: u16, text: &str) -> Option<()> {
    let start = out.len();
    out.extend(vector_bytes(dimensions).to_le_bytes());
    out.extend([0xA9, 0x01]);
    out.extend(dimensions.to_le_bytes());
    out.extend([VECTOR_FLOAT32, 0, 0, 0]);
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'))?;
    for element in inner.split(',') {
        out.extend(element.trim().parse::<f32>().ok()?.to_le_bytes());
    }
    (out.len() - start - 2 == usize::from(vector_bytes(dimensions))).then_some(())
}

/// Reads a parameter's value.
pub(crate) fn read_value(reader: &mut Reader<'_>, param: ParamType) -> Parsed<Value> {
    let long;
    let bytes: &[u8] = match param.layout {
        Layout::Fixed(0) => return Ok(Value::Null),
        Layout::Fixed(length) => reader.bytes(length)?,
        Layout::Byte => match reader.u8()? {
            0 => return Ok(Value::Null),
            length => reader.bytes(usize::from(length))?,
        },
        Layout::Short => match reader.u16()? {
            u16::MAX => return Ok(Value::Null),
            length => reader.bytes(usize::from(length))?,
        },
        Layout::Long => match reader.u32()? {
            u32::MAX => return Ok(Value::Null),
            length => reader.bytes(length as usize)?,
        },
        Layout::Chunks => match read_chunks(reader)? {
            None => return Ok(Value::Null),
            Some(bytes) => {
                long = bytes;
                &long
            }
        },
    };
    value_of(bytes, param)
}

fn read_chunks(reader: &mut Reader<'_>) -> Parsed<Option<Vec<u8>>> {
    let total = reader.u64()?;
    if total == PLP_NULL {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    loop {
        let length = reader.u32()? as usize;
        if length == 0 {
            break;
        }
        bytes.extend_from_slice(reader.bytes(length)?);
    }
    if total != PLP_UNKNOWN_LENGTH && total != bytes.len() as u64 {
        return malformed(format!("a long value of {total} bytes has {}", bytes.len()));
    }
    Ok(Some(bytes))
}

fn value_of(bytes: &[u8], param: ParamType) -> Parsed<Value> {
    let mut reader = Reader::new(bytes);
    let value = match param.ty {
        SqlType::Bit => Value::Int(i64::from(reader.u8()? != 0)),
        SqlType::TinyInt => Value::Int(i64::from(reader.u8()?)),
        SqlType::SmallInt => Value::Int(i64::from(i16::from_le_bytes(reader.array()?))),
        SqlType::Int => Value::Int(i64::from(i32::from_le_bytes(reader.array()?))),
        SqlType::BigInt => Value::Int(i64::from_le_bytes(reader.array()?)),
        SqlType::Real => Value::Float(f64::from(f32::from_le_bytes(reader.array()?))),
        SqlType::Float => Value::Float(f64::from_le_bytes(reader.array()?)),
        SqlType::SmallMoney => Value::Decimal(i128::from(i32::from_le_bytes(reader.array()?))),
        SqlType::Money => {
            let high = i64::from(i32::from_le_bytes(reader.array()?));
            Value::Decimal(i128::from((high << 32) | i64::from(reader.u32()?)))
        }
        SqlType::Decimal { .. } => {
            let positive = reader.u8()? != 0;
            let mut magnitude = [0; 16];
            let count = reader.remaining();
            if count > 16 {
                return malformed(format!("a decimal of {count} bytes"));
            }
            magnitude[..count].copy_from_slice(reader.bytes(count)?);
            let Ok(value) = i128::try_from(u128::from_le_bytes(magnitude)) else {
                return malformed("a decimal beyond 38 digits");
            };
            Value::Decimal(if positive { value } else { -value })
        }
        SqlType::Date => Value::Date(read_days(&mut reader)? as i32),
        SqlType::Time(scale) => Value::Time(read_time(&mut reader, scale)?),
        SqlType::DateTime2(scale) => {
            let time = read_time(&mut reader, scale)?;
            Value::DateTime(read_days(&mut reader)? * DAY_UNITS + time)
        }
        SqlType::DateTimeOffset(scale) => {
            let time = read_time(&mut reader, scale)?;
            let days = read_days(&mut reader)?;
            Value::DateTimeOffset(days * DAY_UNITS + time, i16::from_le_bytes(reader.array()?))
        }
        SqlType::DateTime => {
            let days = i64::from(i32::from_le_bytes(reader.array()?)) + DAYS_TO_1900;
            let milliseconds = (i64::from(reader.u32()?) * 10 + 1) / 3;
            Value::DateTime(days * DAY_UNITS + milliseconds * 10_000)
        }
        SqlType::SmallDateTime => {
            let days = i64::from(reader.u16()?) + DAYS_TO_1900;
            Value::DateTime(days * DAY_UNITS + i64::from(reader.u16()?) * MINUTE_UNITS)
        }
        SqlType::UniqueIdentifier => Value::Guid(swap_guid(reader.array()?)),
        SqlType::Char(_) | SqlType::VarChar(_) => return Ok(Value::Text(decode_code_page(bytes, param.collation))),
        SqlType::NChar(_) | SqlType::NVarChar(_) => return Ok(Value::Text(utf16(bytes))),
        SqlType::Binary(_) | SqlType::VarBinary(_) => return Ok(Value::Bytes(bytes.to_vec())),
        other => return malformed(format!("parameters of type {other} are not supported")),
    };
    if reader.is_empty() {
        Ok(value)
    } else {
        malformed(format!("{} bytes too many in a parameter", reader.remaining()))
    }
}

fn read_days(reader: &mut Reader<'_>) -> Parsed<i64> {
    let [a, b, c] = reader.array()?;
    Ok(i64::from(u32::from_le_bytes([a, b, c, 0])))
}

fn read_time(reader: &mut Reader<'_>, scale: u8) -> Parsed<i64> {
    let count = time_bytes(scale);
    let mut ticks = [0; 8];
    ticks[..count].copy_from_slice(reader.bytes(count)?);
    Ok(i64::from_le_bytes(ticks) * 10_i64.pow(7 - u32::from(scale.min(7))))
}

#[cfg(test)]
mod tests {
    use mssql_sim_engine::Collation;

    use super::super::encoding::COLLATION;
    use super::super::typeinfo::{put_type_info, read_type_info};
    use super::*;

    /// Writes a value as a column, and reads it as a parameter: the two forms are the same.
    fn round_trip(ty: SqlType, nullable: bool, value: &Value) -> (SqlType, Value) {
        let mut out = Vec::new();
        put_type_info(&mut out, ty, nullable, COLLATION);
        put_value(&mut out, ty, nullable, Collation::default().page, value).unwrap();
        let mut reader = Reader::new(&out);
        let param = read_type_info(&mut reader).unwrap();
        let back = read_value(&mut reader, param).unwrap();
        assert!(reader.is_empty(), "{ty:?}");
        (param.ty, back)
    }

    #[test]
    fn every_type_survives_with_its_extremes() {
        let decimal = |precision, scale| SqlType::Decimal { precision, scale };
        let largest = 10_i128.pow(38) - 1;
        let cases = [
            (SqlType::Bit, Value::Int(1)),
            (SqlType::TinyInt, Value::Int(255)),
            (SqlType::SmallInt, Value::Int(-32768)),
            (SqlType::Int, Value::Int(i64::from(i32::MIN))),
            (SqlType::BigInt, Value::Int(i64::MIN)),
            (SqlType::Real, Value::Float(f64::from(f32::MIN_POSITIVE))),
            (SqlType::Float, Value::Float(-f64::MAX)),
            (decimal(38, 0), Value::Decimal(largest)),
            (decimal(38, 38), Value::Decimal(-largest)),
            (decimal(9, 2), Value::Decimal(-999_999_999)),
            (decimal(19, 4), Value::Decimal(9_999_999_999_999_999_999)),
            (decimal(28, 4), Value::Decimal(-(10_i128.pow(28) - 1))),
            (SqlType::Money, Value::Decimal(i128::from(i64::MIN))),
            (SqlType::Money, Value::Decimal(-1)),
            (SqlType::Money, Value::Decimal(i128::from(i64::MAX))),
            (SqlType::SmallMoney, Value::Decimal(i128::from(i32::MIN))),
            (SqlType::Date, Value::Date(0)),
            (SqlType::Date, Value::Date(3_652_058)),
            (SqlType::Time(7), Value::Time(863_999_999_999)),
            (SqlType::Time(0), Value::Time(863_990_000_000)),
            (
                SqlType::DateTime2(7),
                Value::DateTime(3_652_058 * DAY_UNITS + 863_999_999_999),
            ),
            (
                SqlType::DateTime2(3),
                Value::DateTime(3_652_058 * DAY_UNITS + 863_999_990_000),
            ),
            (SqlType::DateTime2(0), Value::DateTime(0)),
            (SqlType::DateTimeOffset(7), Value::DateTimeOffset(8_400_000_000, -840)),
            (
                SqlType::DateTime,
                Value::DateTime((DAYS_TO_1900 - 53_690) * DAY_UNITS + 863_999_970_000),
            ),
            (
                SqlType::SmallDateTime,
                Value::DateTime((DAYS_TO_1900 + 65_535) * DAY_UNITS + 1439 * MINUTE_UNITS),
            ),
            (
                SqlType::UniqueIdentifier,
                Value::Guid(*b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xAA\xBB\xCC\xDD\xEE\xFF"),
            ),
            (SqlType::Char(4), Value::Text("é?€ ".into())),
            (SqlType::VarChar(Length::Limited(8000)), Value::Text("x".repeat(8000))),
            (SqlType::VarChar(Length::Max), Value::Text("€".repeat(10_000))),
            (SqlType::NChar(2), Value::Text("😀".into())),
            (SqlType::NVarChar(Length::Limited(4000)), Value::Text("漢".repeat(4000))),
            (SqlType::NVarChar(Length::Max), Value::Text(String::new())),
            (SqlType::NVarChar(Length::Max), Value::Text("😀".repeat(50_000))),
            (SqlType::Binary(3), Value::Bytes(vec![0, 255, 1])),
            (SqlType::VarBinary(Length::Limited(8000)), Value::Bytes(vec![7; 8000])),
            (SqlType::VarBinary(Length::Max), Value::Bytes(vec![9; 100_000])),
        ];
        for (ty, value) in cases {
            for nullable in [false, true] {
                assert_eq!(round_trip(ty, nullable, &value), (ty, value.clone()));
            }
            assert_eq!(round_trip(ty, true, &Value::Null), (ty, Value::Null));
        }
    }

    #[test]
    fn a_value_of_another_kind_or_a_null_in_a_fixed_column_is_refused() {
        let (mut out, page) = (Vec::new(), Collation::default().page);
        assert!(put_value(&mut out, SqlType::Int, true, page, &Value::Text("1".into())).is_err());
        assert!(put_value(&mut out, SqlType::Int, false, page, &Value::Null).is_err());
        assert!(put_value(&mut out, SqlType::TinyInt, true, page, &Value::Int(256)).is_err());
        assert!(
            put_value(
                &mut out,
                SqlType::Decimal { precision: 9, scale: 0 },
                true,
                page,
                &Value::Decimal(1 << 40)
            )
            .is_err()
        );
    }

    #[test]
    fn datetime_counts_three_hundredths() {
        let mut out = Vec::new();
        let value = Value::DateTime(DAYS_TO_1900 * DAY_UNITS + 70_000);
        put_value(&mut out, SqlType::DateTime, false, Collation::default().page, &value).unwrap();
        assert_eq!(out, [0, 0, 0, 0, 2, 0, 0, 0]);
    }
}
