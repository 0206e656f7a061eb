//! Type names as T-SQL writes them, the codes in which generated SQL carries them, and precedence between types.

use std::fmt;

use crate::{
    error::{SqlResult, sql_error},
    value::{Length, SqlType},
};

impl fmt::Display for SqlType {
    /// The name without length, as error texts use it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SqlType::Bit => "bit",
            SqlType::TinyInt => "tinyint",
            SqlType::SmallInt => "smallint",
            SqlType::Int => "int",
            SqlType::BigInt => "bigint",
            SqlType::Real => "real",
            SqlType::Float => "float",
            SqlType::Decimal { .. } => "decimal",
            SqlType::Money => "money",
            SqlType::SmallMoney => "smallmoney",
            SqlType::Date => "date",
            SqlType::Time(_) => "time",
            SqlType::DateTime => "datetime",
            SqlType::SmallDateTime => "smalldatetime",
            SqlType::DateTime2(_) => "datetime2",
            SqlType::DateTimeOffset(_) => "datetimeoffset",
            SqlType::Char(_) => "char",
            SqlType::NChar(_) => "nchar",
            SqlType::VarChar(_) => "varchar",
            SqlType::NVarChar(_) => "nvarchar",
            SqlType::Binary(_) => "binary",
            SqlType::VarBinary(_) => "varbinary",
            SqlType::UniqueIdentifier => "uniqueidentifier",
            SqlType::Text => "text",
            SqlType::NText => "ntext",
            SqlType::Image => "image",
            SqlType::Xml => "xml",
            SqlType::Json => "json",
            SqlType::Vector(_) => "vector",
            SqlType::RowVersion => "timestamp",
            SqlType::Variant => "sql_variant",
            SqlType::HierarchyId => "hierarchyid",
            SqlType::Geometry => "geometry",
            SqlType::Geography => "geography",
        })
    }
}

/// A type by its T-SQL name, with or without schema `sys`, brackets and length: `nvarchar(max)`, `DECIMAL(10, 2)`.
///
/// # Errors
/// 2715 for an unknown name, 2716/2750/2751/1001/131 for lengths out of range.
pub fn parse_type(text: &str) -> SqlResult<SqlType> {
    let (name, arguments) = match text.find('(') {
        Some(at) => (&text[..at], text[at + 1..].trim_end().trim_end_matches(')')),
        None => (text, ""),
    };
    let name = name
        .trim()
        .rsplit('.')
        .next()
        .unwrap_or("")
        .trim_matches(['[', ']', '"'])
        .to_lowercase();
    let mut numbers = Vec::new();
    let mut max = false;
    for part in arguments.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        if part.eq_ignore_ascii_case("max") {
            max = true;
        } else {
            numbers.push(part.parse::<u32>().map_err(|_| bad_length(&name))?);
        }
    }
    let first = numbers.first().copied();
    let limited = |limit: u32| -> SqlResult<u16> {
        let length = first.unwrap_or(1);
        if length == 0 || length > limit {
            return Err(bad_length(&name));
        }
        u16::try_from(length).map_err(|_| bad_length(&name))
    };
    let variable = |limit: u32| -> SqlResult<Length> {
        if max {
            Ok(Length::Max)
        } else {
            Ok(Length::Limited(limited(limit)?))
        }
    };
    let fraction = || -> SqlResult<u8> {
        match first {
            None => Ok(7),
            Some(n @ 0..=7) => Ok(n as u8),
            Some(n) => Err(sql_error(1002, 15, format!("Line 1: Specified scale {n} is invalid."))),
        }
    };
    Ok(match name.as_str() {
        "bit" => SqlType::Bit,
        "tinyint" => SqlType::TinyInt,
        "smallint" => SqlType::SmallInt,
        "int" | "integer" => SqlType::Int,
        "bigint" => SqlType::BigInt,
        "real" => SqlType::Real,
        "float" => match first {
            Some(0) | Some(54..) => return Err(bad_length(&name)),
            Some(1..=24) => SqlType::Real,
            _ => SqlType::Float,
        },
        "double precision" => SqlType::Float,
        "decimal" | "numeric" | "dec" => {
            let precision = first.unwrap_or(18);
            let scale = numbers.get(1).copied().unwrap_or(0);
            if precision == 0 || precision > 38 {
                return Err(sql_error(
                    2750,
                    16,
                    format!(
                        "Column, parameter, or variable #1: Specified column precision {precision} is greater than the maximum precision of 38."
                    ),
                ));
            }
            if scale > precision {
                return Err(sql_error(
                    2751,
                    16,
                    format!(
                        "Column, parameter, or variable #1: Specified column scale {scale} is greater than the specified precision of {precision}."
                    ),
                ));
            }
            SqlType::Decimal {
                precision: precision as u8,
                scale: scale as u8,
            }
        }
        "money" => SqlType::Money,
        "smallmoney" => SqlType::SmallMoney,
        "date" => SqlType::Date,
        "time" => SqlType::Time(fraction()?),
        "datetime" => SqlType::DateTime,
        "smalldatetime" => SqlType::SmallDateTime,
        "datetime2" => SqlType::DateTime2(fraction()?),
        "datetimeoffset" => SqlType::DateTimeOffset(fraction()?),
        "char" | "character" => SqlType::Char(limited(8000)?),
        "nchar" => SqlType::NChar(limited(4000)?),
        "varchar" | "character varying" | "char varying" => SqlType::VarChar(variable(8000)?),
        "nvarchar" => SqlType::NVarChar(variable(4000)?),
        "sysname" => SqlType::NVarChar(Length::Limited(128)),
        "binary" => SqlType::Binary(limited(8000)?),
        "varbinary" => SqlType::VarBinary(variable(8000)?),
        "uniqueidentifier" => SqlType::UniqueIdentifier,
        "text" => SqlType::Text,
        "ntext" => SqlType::NText,
        "image" => SqlType::Image,
        "xml" => SqlType::Xml,
        "json" => SqlType::Json,
        "vector" => match first {
            Some(n @ 1..=1998) => SqlType::Vector(n as u16),
            _ => return Err(bad_length(&name)),
        },
        "timestamp" | "rowversion" => SqlType::RowVersion,
        "sql_variant" => SqlType::Variant,
        "hierarchyid" => SqlType::HierarchyId,
        "geometry" => SqlType::Geometry,
        "geography" => SqlType::Geography,
        _ => {
            return Err(sql_error(
                2715,
                16,
                format!("Column, parameter, or variable #1: Cannot find data type {name}."),
            ));
        }
    })
}

fn bad_length(name: &str) -> crate::result::SqlError {
    sql_error(
        131,
        15,
        format!("The size given to the type '{name}' exceeds the maximum allowed for any data type (8000)."),
    )
}

/// A type as one number, for generated SQL and stored catalogues.
pub fn code_of(ty: SqlType) -> i64 {
    let (kind, a, b) = match ty {
        SqlType::Bit => (1, 0, 0),
        SqlType::TinyInt => (2, 0, 0),
        SqlType::SmallInt => (3, 0, 0),
        SqlType::Int => (4, 0, 0),
        SqlType::BigInt => (5, 0, 0),
        SqlType::Real => (6, 0, 0),
        SqlType::Float => (7, 0, 0),
        SqlType::Decimal { precision, scale } => (8, i64::from(precision), i64::from(scale)),
        SqlType::Money => (9, 0, 0),
        SqlType::SmallMoney => (10, 0, 0),
        SqlType::Date => (11, 0, 0),
        SqlType::Time(n) => (12, i64::from(n), 0),
        SqlType::DateTime => (13, 0, 0),
        SqlType::SmallDateTime => (14, 0, 0),
        SqlType::DateTime2(n) => (15, i64::from(n), 0),
        SqlType::DateTimeOffset(n) => (16, i64::from(n), 0),
        SqlType::Char(n) => (17, i64::from(n), 0),
        SqlType::NChar(n) => (18, i64::from(n), 0),
        SqlType::VarChar(n) => (19, length_code(n), 0),
        SqlType::NVarChar(n) => (20, length_code(n), 0),
        SqlType::Binary(n) => (21, i64::from(n), 0),
        SqlType::VarBinary(n) => (22, length_code(n), 0),
        SqlType::UniqueIdentifier => (23, 0, 0),
        SqlType::Text => (24, 0, 0),
        SqlType::NText => (25, 0, 0),
        SqlType::Image => (26, 0, 0),
        SqlType::Xml => (27, 0, 0),
        SqlType::Json => (28, 0, 0),
        SqlType::Vector(n) => (29, i64::from(n), 0),
        SqlType::RowVersion => (30, 0, 0),
        SqlType::Variant => (31, 0, 0),
        SqlType::HierarchyId => (32, 0, 0),
        SqlType::Geometry => (33, 0, 0),
        SqlType::Geography => (34, 0, 0),
    };
    kind | a << 8 | b << 32
}

/// The type of a code; `int` for a number that is no code.
pub fn type_of_code(code: i64) -> SqlType {
    let a = (code >> 8) & 0xFF_FFFF;
    let small = a as u16;
    match code & 0xFF {
        1 => SqlType::Bit,
        2 => SqlType::TinyInt,
        3 => SqlType::SmallInt,
        5 => SqlType::BigInt,
        6 => SqlType::Real,
        7 => SqlType::Float,
        8 => SqlType::Decimal {
            precision: a as u8,
            scale: (code >> 32) as u8,
        },
        9 => SqlType::Money,
        10 => SqlType::SmallMoney,
        11 => SqlType::Date,
        12 => SqlType::Time(a as u8),
        13 => SqlType::DateTime,
        14 => SqlType::SmallDateTime,
        15 => SqlType::DateTime2(a as u8),
        16 => SqlType::DateTimeOffset(a as u8),
        17 => SqlType::Char(small),
        18 => SqlType::NChar(small),
        19 => SqlType::VarChar(length_of(a)),
        20 => SqlType::NVarChar(length_of(a)),
        21 => SqlType::Binary(small),
        22 => SqlType::VarBinary(length_of(a)),
        23 => SqlType::UniqueIdentifier,
        24 => SqlType::Text,
        25 => SqlType::NText,
        26 => SqlType::Image,
        27 => SqlType::Xml,
        28 => SqlType::Json,
        29 => SqlType::Vector(small),
        30 => SqlType::RowVersion,
        31 => SqlType::Variant,
        32 => SqlType::HierarchyId,
        33 => SqlType::Geometry,
        34 => SqlType::Geography,
        _ => SqlType::Int,
    }
}

fn length_code(length: Length) -> i64 {
    match length {
        Length::Max => 0xFFFF,
        Length::Limited(n) => i64::from(n),
    }
}

fn length_of(code: i64) -> Length {
    if code == 0xFFFF {
        Length::Max
    } else {
        Length::Limited(code as u16)
    }
}

/// Where the type stands in T-SQL's data type precedence; the higher wins.
pub fn rank(ty: SqlType) -> u8 {
    match ty {
        SqlType::Binary(_) => 1,
        SqlType::VarBinary(_) => 2,
        SqlType::Char(_) => 3,
        SqlType::VarChar(_) => 4,
        SqlType::NChar(_) => 5,
        SqlType::NVarChar(_) => 6,
        SqlType::UniqueIdentifier => 7,
        SqlType::RowVersion => 8,
        SqlType::Image => 9,
        SqlType::Text => 10,
        SqlType::NText => 11,
        SqlType::Bit => 12,
        SqlType::TinyInt => 13,
        SqlType::SmallInt => 14,
        SqlType::Int => 15,
        SqlType::BigInt => 16,
        SqlType::SmallMoney => 17,
        SqlType::Money => 18,
        SqlType::Decimal { .. } => 19,
        SqlType::Real => 20,
        SqlType::Float => 21,
        SqlType::Time(_) => 22,
        SqlType::Date => 23,
        SqlType::SmallDateTime => 24,
        SqlType::DateTime => 25,
        SqlType::DateTime2(_) => 26,
        SqlType::DateTimeOffset(_) => 27,
        SqlType::Xml => 28,
        SqlType::Json => 29,
        SqlType::Vector(_) => 30,
        SqlType::Variant => 31,
        SqlType::HierarchyId => 32,
        SqlType::Geometry => 33,
        SqlType::Geography => 34,
    }
}

/// The type to which two operands of a comparison, a CASE or a UNION are brought.
pub fn common_type(a: SqlType, b: SqlType) -> SqlType {
    if a == b {
        return a;
    }
    let (high, low) = if rank(a) >= rank(b) { (a, b) } else { (b, a) };
    match high {
        SqlType::Decimal { precision, scale } => {
            let (p, s) = match low {
                SqlType::Decimal { precision, scale } => (precision, scale),
                other if other.is_number() => super::decimal_shape(other),
                _ => return high,
            };
            let scale_both = scale.max(s);
            let whole = (precision - scale).max(p - s);
            let scale_both = scale_both.min(38 - whole.min(38));
            SqlType::Decimal {
                precision: (whole + scale_both).min(38),
                scale: scale_both,
            }
        }
        SqlType::Binary(_)
        | SqlType::VarBinary(_)
        | SqlType::Char(_)
        | SqlType::VarChar(_)
        | SqlType::NChar(_)
        | SqlType::NVarChar(_) => widest(high, low),
        SqlType::Time(n) => match low {
            SqlType::Time(m) => SqlType::Time(n.max(m)),
            _ => high,
        },
        SqlType::DateTime2(n) => SqlType::DateTime2(n.max(fraction_of(low))),
        SqlType::DateTimeOffset(n) => SqlType::DateTimeOffset(n.max(fraction_of(low))),
        _ => high,
    }
}

fn fraction_of(ty: SqlType) -> u8 {
    match ty {
        SqlType::Time(n) | SqlType::DateTime2(n) | SqlType::DateTimeOffset(n) => n,
        SqlType::DateTime => 3,
        _ => 0,
    }
}

/// Two text or binary types in the family of the higher, as long as the longer; of variable length when the lengths
/// differ.
fn widest(high: SqlType, low: SqlType) -> SqlType {
    let length = |ty: SqlType| match ty {
        SqlType::Binary(n) | SqlType::Char(n) | SqlType::NChar(n) => Length::Limited(n),
        SqlType::VarBinary(n) | SqlType::VarChar(n) | SqlType::NVarChar(n) => n,
        _ => Length::Limited(0),
    };
    let both = match (length(high), length(low)) {
        (Length::Limited(a), Length::Limited(b)) => Length::Limited(a.max(b)),
        _ => Length::Max,
    };
    let cap = |limit: u16| match both {
        Length::Limited(n) => Length::Limited(n.min(limit)),
        Length::Max => Length::Max,
    };
    match high {
        SqlType::Binary(_) | SqlType::VarBinary(_) => SqlType::VarBinary(cap(8000)),
        SqlType::Char(_) | SqlType::VarChar(_) if low.is_text() || low.is_bytes() => SqlType::VarChar(cap(8000)),
        SqlType::NChar(_) | SqlType::NVarChar(_) if low.is_text() || low.is_bytes() => SqlType::NVarChar(cap(4000)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_codes_round_trip() {
        for (text, ty) in [
            ("INT", SqlType::Int),
            ("[sys].[nvarchar](max)", SqlType::NVarChar(Length::Max)),
            (
                "DECIMAL(38,10)",
                SqlType::Decimal {
                    precision: 38,
                    scale: 10,
                },
            ),
            ("datetime2", SqlType::DateTime2(7)),
            ("varbinary(8000)", SqlType::VarBinary(Length::Limited(8000))),
            ("float(24)", SqlType::Real),
            ("text", SqlType::Text),
            ("rowversion", SqlType::RowVersion),
            ("vector(3)", SqlType::Vector(3)),
            ("sys.geography", SqlType::Geography),
        ] {
            assert_eq!(parse_type(text).ok(), Some(ty));
            assert_eq!(type_of_code(code_of(ty)), ty);
        }
        assert_eq!(parse_type("wibble").map_err(|e| e.number), Err(2715));
    }

    #[test]
    fn the_common_type_loses_nothing() {
        let decimal = |precision, scale| SqlType::Decimal { precision, scale };
        assert_eq!(common_type(SqlType::Int, decimal(5, 2)), decimal(12, 2));
        assert_eq!(common_type(decimal(10, 4), decimal(8, 0)), decimal(12, 4));
        assert_eq!(
            common_type(SqlType::Char(3), SqlType::NVarChar(Length::Limited(2))),
            SqlType::NVarChar(Length::Limited(3))
        );
    }
}
