//! Scalar functions: the table of names, result types, and the SQLite functions through which generated SQL calls them.

mod aggregate;
mod date;
mod math;
mod register;
mod text;

pub use aggregate::aggregate_type;
pub use date::DatePart;
pub use register::{register, take_error};

use crate::{
    error::{SqlResult, argument_count},
    types::{common_type, parse_type},
    value::{Length, SqlType, Value},
    version::ServerVersion,
};

/// A function of its arguments alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i64)]
pub enum Func {
    Len = 1,
    DataLength,
    Upper,
    Lower,
    Substring,
    Left,
    Right,
    LTrim,
    RTrim,
    Trim,
    Replace,
    Replicate,
    Reverse,
    Space,
    CharIndex,
    Concat,
    ConcatWs,
    Char,
    NChar,
    Ascii,
    Unicode,
    Stuff,
    Str,
    PatIndex,
    QuoteName,
    Abs,
    Sign,
    Round,
    Floor,
    Ceiling,
    Power,
    Sqrt,
    Exp,
    Log,
    Rand,
    NewId,
    HashBytes,
    Checksum,
    DateAdd,
    DateDiff,
    DatePart,
    DateName,
    EoMonth,
    DateFromParts,
    SwitchOffset,
    ToDateTimeOffset,
    IsNumeric,
    IsDate,
    LsnIncrement,
    LsnDecrement,
    CdcIsBitSet,
    AtTimeZone,
}

/// Name, function, least and greatest number of arguments.
const TABLE: &[(&str, Func, usize, usize)] = &[
    ("LEN", Func::Len, 1, 1),
    ("DATALENGTH", Func::DataLength, 1, 1),
    ("UPPER", Func::Upper, 1, 1),
    ("LOWER", Func::Lower, 1, 1),
    ("SUBSTRING", Func::Substring, 3, 3),
    ("LEFT", Func::Left, 2, 2),
    ("RIGHT", Func::Right, 2, 2),
    ("LTRIM", Func::LTrim, 1, 1),
    ("RTRIM", Func::RTrim, 1, 1),
    ("TRIM", Func::Trim, 1, 1),
    ("REPLACE", Func::Replace, 3, 3),
    ("REPLICATE", Func::Replicate, 2, 2),
    ("REVERSE", Func::Reverse, 1, 1),
    ("SPACE", Func::Space, 1, 1),
    ("CHARINDEX", Func::CharIndex, 2, 3),
    ("CONCAT", Func::Concat, 2, 254),
    ("CONCAT_WS", Func::ConcatWs, 3, 254),
    ("CHAR", Func::Char, 1, 1),
    ("NCHAR", Func::NChar, 1, 1),
    ("ASCII", Func::Ascii, 1, 1),
    ("UNICODE", Func::Unicode, 1, 1),
    ("STUFF", Func::Stuff, 4, 4),
    ("STR", Func::Str, 1, 3),
    ("PATINDEX", Func::PatIndex, 2, 2),
    ("QUOTENAME", Func::QuoteName, 1, 2),
    ("ABS", Func::Abs, 1, 1),
    ("SIGN", Func::Sign, 1, 1),
    ("ROUND", Func::Round, 2, 3),
    ("FLOOR", Func::Floor, 1, 1),
    ("CEILING", Func::Ceiling, 1, 1),
    ("POWER", Func::Power, 2, 2),
    ("SQRT", Func::Sqrt, 1, 1),
    ("EXP", Func::Exp, 1, 1),
    ("LOG", Func::Log, 1, 2),
    ("RAND", Func::Rand, 0, 1),
    ("NEWID", Func::NewId, 0, 0),
    ("NEWSEQUENTIALID", Func::NewId, 0, 0),
    ("HASHBYTES", Func::HashBytes, 2, 2),
    ("CHECKSUM", Func::Checksum, 1, 254),
    ("DATEADD", Func::DateAdd, 3, 3),
    ("DATEDIFF", Func::DateDiff, 3, 3),
    ("DATEPART", Func::DatePart, 2, 2),
    ("DATENAME", Func::DateName, 2, 2),
    ("EOMONTH", Func::EoMonth, 1, 2),
    ("DATEFROMPARTS", Func::DateFromParts, 3, 3),
    ("SWITCHOFFSET", Func::SwitchOffset, 2, 2),
    ("TODATETIMEOFFSET", Func::ToDateTimeOffset, 2, 2),
    ("ISNUMERIC", Func::IsNumeric, 1, 1),
    ("ISDATE", Func::IsDate, 1, 1),
    ("FN_CDC_INCREMENT_LSN", Func::LsnIncrement, 1, 1),
    ("FN_CDC_DECREMENT_LSN", Func::LsnDecrement, 1, 1),
    ("FN_CDC_IS_BIT_SET", Func::CdcIsBitSet, 2, 2),
];

/// An argument as the binder knows it: its type, and its value when it is a constant.
#[derive(Debug, Clone)]
pub struct Argument {
    /// The declared or inferred type.
    pub ty: SqlType,
    /// Present for a constant.
    pub constant: Option<Value>,
}

impl Func {
    /// The function of a name, once the number of arguments is right. `None` when there is no such function; TRIM and
    /// CONCAT_WS are there from 2017 on.
    ///
    /// # Errors
    /// 174 for a wrong number of arguments.
    pub fn by_name(name: &str, arguments: usize, version: ServerVersion) -> SqlResult<Option<Func>> {
        let upper = name.to_ascii_uppercase();
        let Some((_, func, low, high)) = TABLE.iter().find(|row| row.0 == upper) else {
            return Ok(None);
        };
        if matches!(func, Func::Trim | Func::ConcatWs) && version < ServerVersion::V2017 {
            return Ok(None);
        }
        if arguments < *low || arguments > *high {
            return Err(argument_count(&name.to_lowercase(), *low));
        }
        Ok(Some(*func))
    }

    fn of_code(code: i64) -> Option<Func> {
        if code == Func::AtTimeZone as i64 {
            return Some(Func::AtTimeZone);
        }
        TABLE.iter().map(|row| row.1).find(|f| *f as i64 == code)
    }

    /// Whether two calls with the same arguments may differ, so that it is never folded.
    pub fn is_volatile(self) -> bool {
        matches!(self, Func::NewId | Func::Rand)
    }

    /// Whether a NULL argument makes the result NULL.
    fn strict(self) -> bool {
        !matches!(
            self,
            Func::Concat
                | Func::ConcatWs
                | Func::Checksum
                | Func::IsNumeric
                | Func::IsDate
                | Func::Rand
                | Func::EoMonth
        )
    }

    /// The type of the result.
    ///
    /// # Errors
    /// 8116 for an argument type that the function does not take.
    pub fn result_type(self, args: &[Argument]) -> SqlResult<SqlType> {
        let first = args.first().map_or(SqlType::Int, |a| a.ty);
        let national = args.iter().any(|a| a.ty.is_national());
        let text = |length: Length| {
            if national {
                SqlType::NVarChar(length)
            } else {
                SqlType::VarChar(length)
            }
        };
        let full = |ty: SqlType| -> Length {
            match ty {
                SqlType::Char(n) | SqlType::NChar(n) => Length::Limited(n),
                SqlType::VarChar(l) | SqlType::NVarChar(l) => l,
                _ => Length::Limited(if national { 4000 } else { 8000 }),
            }
        };
        let limit = if national { 4000 } else { 8000 };
        Ok(match self {
            Func::Len | Func::CharIndex | Func::DataLength | Func::PatIndex => {
                if matches!(
                    first,
                    SqlType::VarChar(Length::Max) | SqlType::NVarChar(Length::Max) | SqlType::VarBinary(Length::Max)
                ) {
                    SqlType::BigInt
                } else {
                    SqlType::Int
                }
            }
            Func::Ascii
            | Func::Unicode
            | Func::Checksum
            | Func::DateDiff
            | Func::DatePart
            | Func::IsNumeric
            | Func::IsDate => SqlType::Int,
            Func::Upper | Func::Lower | Func::LTrim | Func::RTrim | Func::Trim | Func::Reverse => text(full(first)),
            Func::Substring if first.is_bytes() => match first {
                SqlType::Binary(n) => SqlType::VarBinary(Length::Limited(n)),
                other => other,
            },
            Func::Substring | Func::Left | Func::Right => {
                match (args.last().and_then(|a| a.constant.clone()), full(first)) {
                    (Some(Value::Int(n)), Length::Limited(l)) if n > 0 => {
                        text(Length::Limited(l.min(n.min(8000) as u16)))
                    }
                    (_, length) => text(length),
                }
            }
            Func::Replace | Func::Stuff => match full(first) {
                Length::Max => text(Length::Max),
                Length::Limited(_) => text(Length::Limited(limit)),
            },
            Func::Replicate => match full(first) {
                Length::Max => text(Length::Max),
                Length::Limited(_) => text(Length::Limited(limit)),
            },
            Func::Space => SqlType::VarChar(Length::Limited(8000)),
            Func::Concat | Func::ConcatWs => {
                if args.iter().any(|a| a.ty.is_max()) {
                    text(Length::Max)
                } else {
                    let total: u32 = args.iter().map(|a| text_width(a.ty)).sum();
                    text(Length::Limited(total.clamp(1, u32::from(limit)) as u16))
                }
            }
            Func::Char => SqlType::Char(1),
            Func::NChar => SqlType::NChar(1),
            Func::Str => SqlType::VarChar(Length::Limited(match args.get(1).and_then(|a| a.constant.clone()) {
                Some(Value::Int(n)) if n > 0 => n.min(8000) as u16,
                _ => 10,
            })),
            Func::QuoteName => SqlType::NVarChar(Length::Limited(258)),
            Func::DateName => SqlType::NVarChar(Length::Limited(30)),
            Func::Abs | Func::Sign | Func::Round | Func::Power => match first {
                SqlType::TinyInt | SqlType::SmallInt | SqlType::Bit => SqlType::Int,
                SqlType::Real => SqlType::Float,
                SqlType::SmallMoney => SqlType::Money,
                ty if ty.is_number() => ty,
                ty if ty.is_text() => SqlType::Float,
                ty => return Err(bad_argument(ty, self)),
            },
            Func::Floor | Func::Ceiling => match first {
                SqlType::Decimal { precision, .. } => SqlType::Decimal { precision, scale: 0 },
                SqlType::TinyInt | SqlType::SmallInt | SqlType::Bit => SqlType::Int,
                SqlType::Real => SqlType::Float,
                ty if ty.is_number() => ty,
                ty if ty.is_text() => SqlType::Float,
                ty => return Err(bad_argument(ty, self)),
            },
            Func::Sqrt | Func::Exp | Func::Log | Func::Rand => SqlType::Float,
            Func::NewId => SqlType::UniqueIdentifier,
            Func::HashBytes => SqlType::VarBinary(Length::Limited(8000)),
            Func::DateAdd => match args.get(2).map(|a| a.ty) {
                Some(ty) if ty.is_temporal() => ty,
                Some(ty) if ty.is_text() || ty.is_number() => SqlType::DateTime,
                other => return Err(bad_argument(other.unwrap_or(SqlType::Int), self)),
            },
            Func::EoMonth | Func::DateFromParts => SqlType::Date,
            Func::SwitchOffset | Func::ToDateTimeOffset | Func::AtTimeZone => match first {
                SqlType::DateTimeOffset(n) | SqlType::DateTime2(n) => SqlType::DateTimeOffset(n),
                _ => SqlType::DateTimeOffset(7),
            },
            Func::LsnIncrement | Func::LsnDecrement => SqlType::Binary(10),
            Func::CdcIsBitSet => SqlType::Bit,
        })
    }

    /// The value for given arguments.
    ///
    /// # Errors
    /// What converting an argument raises, 8115 for overflow, 537 for a negative length.
    pub fn call(self, args: &[(Value, SqlType)], result: SqlType) -> SqlResult<Value> {
        if self.strict() && args.iter().any(|(v, _)| *v == Value::Null) {
            return Ok(Value::Null);
        }
        match self {
            Func::Abs
            | Func::Sign
            | Func::Round
            | Func::Floor
            | Func::Ceiling
            | Func::Power
            | Func::Sqrt
            | Func::Exp
            | Func::Log
            | Func::Rand
            | Func::NewId
            | Func::HashBytes
            | Func::Checksum
            | Func::LsnIncrement
            | Func::LsnDecrement
            | Func::CdcIsBitSet => math::call(self, args, result),
            Func::DateAdd
            | Func::DateDiff
            | Func::DatePart
            | Func::DateName
            | Func::EoMonth
            | Func::DateFromParts
            | Func::SwitchOffset
            | Func::ToDateTimeOffset
            | Func::AtTimeZone => date::call(self, args, result),
            _ => text::call(self, args, result),
        }
    }
}

/// The type of `ISNULL`, `COALESCE` and CASE branches together.
pub fn branch_type(types: impl IntoIterator<Item = SqlType>) -> Option<SqlType> {
    types.into_iter().reduce(common_type)
}

/// A type from the text of a `CAST` target.
///
/// # Errors
/// As [`parse_type`]. CAST's default length for text and binary is 30, not 1.
pub fn cast_type(text: &str) -> SqlResult<SqlType> {
    let ty = parse_type(text)?;
    if text.contains('(') {
        return Ok(ty);
    }
    Ok(match ty {
        SqlType::Char(_) => SqlType::Char(30),
        SqlType::NChar(_) => SqlType::NChar(30),
        SqlType::VarChar(Length::Limited(_)) => SqlType::VarChar(Length::Limited(30)),
        SqlType::NVarChar(Length::Limited(1)) => SqlType::NVarChar(Length::Limited(30)),
        SqlType::Binary(_) => SqlType::Binary(30),
        SqlType::VarBinary(Length::Limited(_)) => SqlType::VarBinary(Length::Limited(30)),
        other => other,
    })
}

/// Characters that a value of the type takes as text.
fn text_width(ty: SqlType) -> u32 {
    match ty {
        SqlType::Char(n) | SqlType::NChar(n) | SqlType::Binary(n) => u32::from(n),
        SqlType::VarChar(Length::Limited(n)) | SqlType::NVarChar(Length::Limited(n)) => u32::from(n),
        SqlType::VarBinary(Length::Limited(n)) => u32::from(n),
        SqlType::Bit => 1,
        SqlType::TinyInt => 3,
        SqlType::SmallInt => 6,
        SqlType::Int => 12,
        SqlType::BigInt => 20,
        SqlType::UniqueIdentifier => 36,
        _ => 41,
    }
}

fn bad_argument(ty: SqlType, func: Func) -> crate::result::SqlError {
    let name = TABLE
        .iter()
        .find(|row| row.1 == func)
        .map_or("", |row| row.0)
        .to_lowercase();
    crate::error::sql_error(
        8116,
        16,
        format!("Argument data type {ty} is invalid for argument 1 of {name} function."),
    )
}
