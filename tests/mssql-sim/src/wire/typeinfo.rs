//! How a type is named on the wire: the columns of a result (written) and the parameters of a call (read).

use mssql_sim_engine::value::{Length, SqlType};

use super::encoding::{COLLATION, put_utf16};
use super::reader::{Parsed, Reader, malformed};

/// Type bytes of [MS-TDS] 2.2.5.4.
pub(crate) mod token {
    pub(crate) const NULL: u8 = 0x1F;
    pub(crate) const IMAGE: u8 = 0x22;
    pub(crate) const TEXT: u8 = 0x23;
    pub(crate) const GUID: u8 = 0x24;
    pub(crate) const INT_N: u8 = 0x26;
    pub(crate) const DATE_N: u8 = 0x28;
    pub(crate) const TIME_N: u8 = 0x29;
    pub(crate) const DATETIME2_N: u8 = 0x2A;
    pub(crate) const DATETIMEOFFSET_N: u8 = 0x2B;
    pub(crate) const INT1: u8 = 0x30;
    pub(crate) const BIT: u8 = 0x32;
    pub(crate) const INT2: u8 = 0x34;
    pub(crate) const INT4: u8 = 0x38;
    pub(crate) const DATETIME4: u8 = 0x3A;
    pub(crate) const FLOAT4: u8 = 0x3B;
    pub(crate) const MONEY: u8 = 0x3C;
    pub(crate) const DATETIME: u8 = 0x3D;
    pub(crate) const FLOAT8: u8 = 0x3E;
    pub(crate) const NTEXT: u8 = 0x63;
    pub(crate) const BIT_N: u8 = 0x68;
    pub(crate) const DECIMAL_N: u8 = 0x6A;
    pub(crate) const NUMERIC_N: u8 = 0x6C;
    pub(crate) const FLOAT_N: u8 = 0x6D;
    pub(crate) const MONEY_N: u8 = 0x6E;
    pub(crate) const DATETIME_N: u8 = 0x6F;
    pub(crate) const MONEY4: u8 = 0x7A;
    pub(crate) const INT8: u8 = 0x7F;
    pub(crate) const BIG_VARBINARY: u8 = 0xA5;
    pub(crate) const BIG_VARCHAR: u8 = 0xA7;
    pub(crate) const BIG_BINARY: u8 = 0xAD;
    pub(crate) const BIG_CHAR: u8 = 0xAF;
    pub(crate) const NVARCHAR: u8 = 0xE7;
    pub(crate) const NCHAR: u8 = 0xEF;
    pub(crate) const VARIANT: u8 = 0x62;
    pub(crate) const UDT: u8 = 0xF0;
    pub(crate) const XML: u8 = 0xF1;
    pub(crate) const JSON: u8 = 0xF4;
    pub(crate) const VECTOR: u8 = 0xF5;
}

/// The length that stands for `(max)`.
const MAX_LENGTH: u16 = 0xFFFF;

/// Appends the TYPE_INFO of a result column. A column that cannot be NULL gets the fixed-length form where the
/// protocol has one, as SQL Server does.
pub(crate) fn put_type_info(out: &mut Vec<u8>, ty: SqlType, nullable: bool, collation: [u8; 5]) {
    let text = Some(collation);
    let mut numeric = |fixed: u8, variable: u8, bytes: u8| {
        if nullable {
            out.extend([variable, bytes]);
        } else {
            out.push(fixed);
        }
    };
    match ty {
        SqlType::Bit => numeric(token::BIT, token::BIT_N, 1),
        SqlType::TinyInt => numeric(token::INT1, token::INT_N, 1),
        SqlType::SmallInt => numeric(token::INT2, token::INT_N, 2),
        SqlType::Int => numeric(token::INT4, token::INT_N, 4),
        SqlType::BigInt => numeric(token::INT8, token::INT_N, 8),
        SqlType::Real => numeric(token::FLOAT4, token::FLOAT_N, 4),
        SqlType::Float => numeric(token::FLOAT8, token::FLOAT_N, 8),
        SqlType::Money => numeric(token::MONEY, token::MONEY_N, 8),
        SqlType::SmallMoney => numeric(token::MONEY4, token::MONEY_N, 4),
        SqlType::DateTime => numeric(token::DATETIME, token::DATETIME_N, 8),
        SqlType::SmallDateTime => numeric(token::DATETIME4, token::DATETIME_N, 4),
        SqlType::Decimal { precision, scale } => {
            out.extend([token::DECIMAL_N, decimal_bytes(precision) + 1, precision, scale]);
        }
        SqlType::Date => out.push(token::DATE_N),
        SqlType::Time(scale) => out.extend([token::TIME_N, scale]),
        SqlType::DateTime2(scale) => out.extend([token::DATETIME2_N, scale]),
        SqlType::DateTimeOffset(scale) => out.extend([token::DATETIMEOFFSET_N, scale]),
        SqlType::UniqueIdentifier => out.extend([token::GUID, 16]),
        SqlType::Char(bytes) => put_sized(out, token::BIG_CHAR, bytes, text),
        SqlType::VarChar(length) => put_sized(out, token::BIG_VARCHAR, byte_length(length, 1), text),
        SqlType::NChar(units) => put_sized(out, token::NCHAR, units * 2, text),
        SqlType::NVarChar(length) => put_sized(out, token::NVARCHAR, byte_length(length, 2), text),
        SqlType::Binary(bytes) => put_sized(out, token::BIG_BINARY, bytes, None),
        SqlType::VarBinary(length) => put_sized(out, token::BIG_VARBINARY, byte_length(length, 1), None),
        SqlType::RowVersion => put_sized(out, token::BIG_BINARY, 8, None),
        SqlType::Text => put_long(out, token::TEXT, 0x7FFF_FFFF, text),
        SqlType::NText => put_long(out, token::NTEXT, 0x7FFF_FFFE, text),
        SqlType::Image => put_long(out, token::IMAGE, 0x7FFF_FFFF, None),
        SqlType::Variant => put_long(out, token::VARIANT, 8009, None),
        // No schema collection.
        SqlType::Xml => out.extend([token::XML, 0]),
        SqlType::Json => out.push(token::JSON),
        SqlType::Vector(dimensions) => {
            out.push(token::VECTOR);
            out.extend(vector_bytes(dimensions).to_le_bytes());
            out.push(VECTOR_FLOAT32);
        }
        SqlType::HierarchyId => put_udt(out, 892, "hierarchyid", "SqlHierarchyId"),
        SqlType::Geometry => put_udt(out, MAX_LENGTH, "geometry", "SqlGeometry"),
        SqlType::Geography => put_udt(out, MAX_LENGTH, "geography", "SqlGeography"),
    }
}

/// Elements of 32-bit floats, as the wire names them.
pub(crate) const VECTOR_FLOAT32: u8 = 0;

/// Bytes of a vector's value: a header of eight, and four an element.
pub(crate) fn vector_bytes(dimensions: u16) -> u16 {
    8 + dimensions * 4
}

fn put_long(out: &mut Vec<u8>, token: u8, bytes: u32, collation: Option<[u8; 5]>) {
    out.push(token);
    out.extend(bytes.to_le_bytes());
    out.extend(collation.into_iter().flatten());
}

/// A type of the common language runtime: its longest value, and where it is from.
fn put_udt(out: &mut Vec<u8>, bytes: u16, name: &str, class: &str) {
    out.push(token::UDT);
    out.extend(bytes.to_le_bytes());
    for part in ["", "sys", name] {
        out.push(part.len() as u8);
        put_utf16(out, part);
    }
    let assembly = format!(
        "Microsoft.SqlServer.Types.{class}, Microsoft.SqlServer.Types, Version=11.0.0.0, Culture=neutral, PublicKeyToken=89845dcd8080cc91"
    );
    out.extend((assembly.len() as u16).to_le_bytes());
    put_utf16(out, &assembly);
}

/// Bytes of a decimal's magnitude.
pub(crate) fn decimal_bytes(precision: u8) -> u8 {
    match precision {
        0..=9 => 4,
        10..=19 => 8,
        20..=28 => 12,
        _ => 16,
    }
}

/// Bytes of a time of day with `scale` fractional digits.
pub(crate) fn time_bytes(scale: u8) -> usize {
    match scale {
        0..=2 => 3,
        3..=4 => 4,
        _ => 5,
    }
}

fn byte_length(length: Length, scale: u16) -> u16 {
    match length {
        Length::Max => MAX_LENGTH,
        Length::Limited(units) => units * scale,
    }
}

fn put_sized(out: &mut Vec<u8>, token: u8, bytes: u16, collation: Option<[u8; 5]>) {
    out.push(token);
    out.extend(bytes.to_le_bytes());
    out.extend(collation.into_iter().flatten());
}

/// How the bytes of a parameter's value are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Always this many bytes.
    Fixed(usize),
    /// A length in one byte; 0 is NULL.
    Byte,
    /// A length in two bytes; 0xFFFF is NULL.
    Short,
    /// A length in four bytes; 0xFFFFFFFF is NULL (`text`, `ntext`, `image`).
    Long,
    /// Chunks (`(max)` types, `xml`).
    Chunks,
}

/// The TYPE_INFO of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParamType {
    pub(crate) ty: SqlType,
    pub(crate) layout: Layout,
    pub(crate) collation: [u8; 5],
}

/// Reads a parameter's TYPE_INFO.
pub(crate) fn read_type_info(reader: &mut Reader<'_>) -> Parsed<ParamType> {
    let byte = reader.u8()?;
    let mut collation = COLLATION;
    let (ty, layout) = match byte {
        token::NULL => (SqlType::Int, Layout::Fixed(0)),
        token::BIT => (SqlType::Bit, Layout::Fixed(1)),
        token::INT1 => (SqlType::TinyInt, Layout::Fixed(1)),
        token::INT2 => (SqlType::SmallInt, Layout::Fixed(2)),
        token::INT4 => (SqlType::Int, Layout::Fixed(4)),
        token::INT8 => (SqlType::BigInt, Layout::Fixed(8)),
        token::FLOAT4 => (SqlType::Real, Layout::Fixed(4)),
        token::FLOAT8 => (SqlType::Float, Layout::Fixed(8)),
        token::MONEY => (SqlType::Money, Layout::Fixed(8)),
        token::MONEY4 => (SqlType::SmallMoney, Layout::Fixed(4)),
        token::DATETIME => (SqlType::DateTime, Layout::Fixed(8)),
        token::DATETIME4 => (SqlType::SmallDateTime, Layout::Fixed(4)),
        token::BIT_N => sized(reader, byte, &[(1, SqlType::Bit)])?,
        token::INT_N => {
            let types = [
                (1, SqlType::TinyInt),
                (2, SqlType::SmallInt),
                (4, SqlType::Int),
                (8, SqlType::BigInt),
            ];
            sized(reader, byte, &types)?
        }
        token::FLOAT_N => sized(reader, byte, &[(4, SqlType::Real), (8, SqlType::Float)])?,
        token::MONEY_N => sized(reader, byte, &[(4, SqlType::SmallMoney), (8, SqlType::Money)])?,
        token::DATETIME_N => sized(reader, byte, &[(4, SqlType::SmallDateTime), (8, SqlType::DateTime)])?,
        token::GUID => sized(reader, byte, &[(16, SqlType::UniqueIdentifier)])?,
        token::DECIMAL_N | token::NUMERIC_N => {
            let [_bytes, precision, scale] = reader.array()?;
            if !(1..=38).contains(&precision) || scale > precision {
                return malformed(format!("decimal({precision},{scale})"));
            }
            (SqlType::Decimal { precision, scale }, Layout::Byte)
        }
        token::DATE_N => (SqlType::Date, Layout::Byte),
        token::TIME_N => (SqlType::Time(time_scale(reader)?), Layout::Byte),
        token::DATETIME2_N => (SqlType::DateTime2(time_scale(reader)?), Layout::Byte),
        token::DATETIMEOFFSET_N => (SqlType::DateTimeOffset(time_scale(reader)?), Layout::Byte),
        token::BIG_VARBINARY | token::BIG_BINARY => {
            let bytes = reader.u16()?;
            let ty = if byte == token::BIG_BINARY {
                SqlType::Binary(bytes.max(1))
            } else {
                SqlType::VarBinary(length_of(bytes, 1))
            };
            (ty, short_or_chunks(bytes))
        }
        token::BIG_VARCHAR | token::BIG_CHAR | token::NVARCHAR | token::NCHAR => {
            let bytes = reader.u16()?;
            collation = reader.array()?;
            let ty = match byte {
                token::BIG_CHAR => SqlType::Char(bytes.max(1)),
                token::NCHAR => SqlType::NChar((bytes / 2).max(1)),
                token::BIG_VARCHAR => SqlType::VarChar(length_of(bytes, 1)),
                _ => SqlType::NVarChar(length_of(bytes, 2)),
            };
            (ty, short_or_chunks(bytes))
        }
        token::TEXT | token::NTEXT => {
            reader.u32()?;
            collation = reader.array()?;
            let wide = byte == token::NTEXT;
            (
                if wide {
                    SqlType::NVarChar(Length::Max)
                } else {
                    SqlType::VarChar(Length::Max)
                },
                Layout::Long,
            )
        }
        token::IMAGE => {
            reader.u32()?;
            (SqlType::VarBinary(Length::Max), Layout::Long)
        }
        token::XML => {
            if reader.u8()? != 0 {
                let (_database, _schema) = (reader.b_varchar()?, reader.b_varchar()?);
                let units = usize::from(reader.u16()?);
                reader.bytes(units * 2)?;
            }
            (SqlType::NVarChar(Length::Max), Layout::Chunks)
        }
        other => return malformed(format!("parameters of type 0x{other:02X} are not supported")),
    };
    Ok(ParamType { ty, layout, collation })
}

fn sized(reader: &mut Reader<'_>, byte: u8, types: &[(u8, SqlType)]) -> Parsed<(SqlType, Layout)> {
    let bytes = reader.u8()?;
    match types.iter().find(|(size, _)| *size == bytes) {
        Some((_, ty)) => Ok((*ty, Layout::Byte)),
        None => malformed(format!("a parameter of type 0x{byte:02X} has {bytes} bytes")),
    }
}

fn time_scale(reader: &mut Reader<'_>) -> Parsed<u8> {
    match reader.u8()? {
        scale @ 0..=7 => Ok(scale),
        scale => malformed(format!("{scale} fractional digits")),
    }
}

fn length_of(bytes: u16, unit: u16) -> Length {
    if bytes == MAX_LENGTH {
        Length::Max
    } else {
        Length::Limited((bytes / unit).max(1))
    }
}

fn short_or_chunks(bytes: u16) -> Layout {
    if bytes == MAX_LENGTH {
        Layout::Chunks
    } else {
        Layout::Short
    }
}
