//! Parameters of `sp_executesql` and prepared statements: what a call declares, and the values it sends.

use mssql_sim_engine::result::Param;
use mssql_sim_engine::value::{Length, SqlType, Value};

use crate::wire::rpc::Argument;

/// A parameter as a declaration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declared {
    /// With its `@`.
    pub(crate) name: String,
    /// `None` for a type that is not known here: the value's own type applies.
    pub(crate) ty: Option<SqlType>,
}

/// Reads a list such as `@a int, @b decimal(18, 4) OUTPUT`. The error is a sentence for the client.
pub(crate) fn parse_declarations(text: &str) -> Result<Vec<Declared>, String> {
    let mut declared = Vec::new();
    for part in split_at_commas(text) {
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        let (name, rest) = part.split_once(char::is_whitespace).unwrap_or((part, ""));
        if !name.starts_with('@') || rest.trim().is_empty() {
            return Err(format!("Incorrect syntax near '{name}'."));
        }
        let mut rest = rest.trim();
        if rest.get(..3).is_some_and(|word| word.eq_ignore_ascii_case("as ")) {
            rest = rest[3..].trim_start();
        }
        declared.push(Declared {
            name: name.to_owned(),
            ty: parse_type(rest),
        });
    }
    Ok(declared)
}

/// Matches the arguments of a call with the declared parameters: by name, or else by position.
pub(crate) fn bind(declared: &[Declared], arguments: &[Argument]) -> Result<Vec<Param>, String> {
    let mut params = Vec::with_capacity(declared.len());
    for (at, argument) in arguments.iter().enumerate() {
        if argument.output {
            return Err(format!(
                "mssql-sim returns no output parameters; declare {} as a variable instead",
                argument.name
            ));
        }
        let known = if argument.name.is_empty() {
            declared.get(at)
        } else {
            declared
                .iter()
                .find(|declared| declared.name.eq_ignore_ascii_case(&argument.name))
        };
        let Some(known) = known else {
            return Err(if argument.name.is_empty() {
                "Procedure or function has too many arguments specified.".to_owned()
            } else {
                format!("{} is not a parameter for procedure sp_executesql.", argument.name)
            });
        };
        let (ty, value) = convert(argument, known.ty);
        params.push(Param {
            name: known.name.clone(),
            ty,
            value,
        });
    }
    if let Some(missing) = declared
        .iter()
        .find(|declared| params.iter().all(|param| param.name != declared.name))
    {
        return Err(format!(
            "The parameterized query expects the parameter '{}', which was not supplied.",
            missing.name
        ));
    }
    Ok(params)
}

/// Takes a value to the declared type where that needs no T-SQL conversion; else it keeps its own type, and the engine
/// converts it where it is used.
fn convert(argument: &Argument, declared: Option<SqlType>) -> (SqlType, Value) {
    let Some(declared) = declared else {
        return (argument.ty, argument.value.clone());
    };
    let value = match (&argument.value, argument.ty, declared) {
        (Value::Null, _, _) => Some(Value::Null),
        (value, sent, declared) if sent == declared => Some(value.clone()),
        (Value::Int(value), _, declared) => fits_integer(*value, declared).then_some(Value::Int(*value)),
        (Value::Float(value), SqlType::Real, SqlType::Float) => Some(Value::Float(*value)),
        (Value::Decimal(value), SqlType::Decimal { scale: from, .. }, SqlType::Decimal { precision, scale: to }) => {
            rescale(*value, from, to, precision)
        }
        (Value::Text(text), _, SqlType::NVarChar(length)) => Some(Value::Text(cut_units(text, length))),
        (Value::Text(text), _, SqlType::VarChar(Length::Max)) => Some(Value::Text(text.clone())),
        (Value::Bytes(bytes), _, SqlType::VarBinary(length)) => {
            let keep = match length {
                Length::Max => bytes.len(),
                Length::Limited(limit) => bytes.len().min(usize::from(limit)),
            };
            Some(Value::Bytes(bytes[..keep].to_vec()))
        }
        (Value::DateTime(value), _, SqlType::DateTime2(7)) => Some(Value::DateTime(*value)),
        _ => None,
    };
    match value {
        Some(value) => (declared, value),
        None => (argument.ty, argument.value.clone()),
    }
}

fn fits_integer(value: i64, ty: SqlType) -> bool {
    match ty {
        SqlType::Bit => value == 0 || value == 1,
        SqlType::TinyInt => u8::try_from(value).is_ok(),
        SqlType::SmallInt => i16::try_from(value).is_ok(),
        SqlType::Int => i32::try_from(value).is_ok(),
        SqlType::BigInt => true,
        _ => false,
    }
}

/// Brings a decimal to another scale when nothing is lost and it fits.
fn rescale(value: i128, from: u8, to: u8, precision: u8) -> Option<Value> {
    let scaled = if to >= from {
        value.checked_mul(10_i128.checked_pow(u32::from(to - from))?)?
    } else {
        let divisor = 10_i128.checked_pow(u32::from(from - to))?;
        if value % divisor != 0 {
            return None;
        }
        value / divisor
    };
    (scaled.unsigned_abs() < 10_u128.checked_pow(u32::from(precision))?).then_some(Value::Decimal(scaled))
}

/// A value that is longer than its parameter is cut without a word, as an assignment in T-SQL does.
fn cut_units(text: &str, length: Length) -> String {
    let Length::Limited(limit) = length else {
        return text.to_owned();
    };
    let mut units = 0;
    text.chars()
        .take_while(|character| {
            units += character.len_utf16();
            units <= usize::from(limit)
        })
        .collect()
}

fn split_at_commas(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn parse_type(text: &str) -> Option<SqlType> {
    let name_end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || "[]._".contains(c)))
        .unwrap_or(text.len());
    let name = text[..name_end].replace(['[', ']'], "").to_ascii_lowercase();
    let name = name.strip_prefix("sys.").unwrap_or(&name);
    let after = text[name_end..].trim_start();
    let arguments: Vec<&str> = after
        .strip_prefix('(')
        .and_then(|inside| inside.split_once(')'))
        .map(|(inside, _)| inside.split(',').map(str::trim).collect())
        .unwrap_or_default();
    let number = |at: usize, default: u16| match arguments.get(at) {
        None => Some(default),
        Some(text) => text.parse::<u16>().ok(),
    };
    let length = |default: u16| match arguments.first() {
        Some(max) if max.eq_ignore_ascii_case("max") => Some(Length::Max),
        _ => number(0, default).map(Length::Limited),
    };
    let scale = || {
        number(0, 7)
            .and_then(|scale| u8::try_from(scale).ok())
            .filter(|scale| *scale <= 7)
    };
    Some(match name {
        "bit" => SqlType::Bit,
        "tinyint" => SqlType::TinyInt,
        "smallint" => SqlType::SmallInt,
        "int" | "integer" => SqlType::Int,
        "bigint" => SqlType::BigInt,
        "real" => SqlType::Real,
        "float" if number(0, 53)? <= 24 => SqlType::Real,
        "float" => SqlType::Float,
        "decimal" | "numeric" | "dec" => SqlType::Decimal {
            precision: u8::try_from(number(0, 18)?)
                .ok()
                .filter(|precision| (1..=38).contains(precision))?,
            scale: u8::try_from(number(1, 0)?).ok()?,
        },
        "money" => SqlType::Money,
        "smallmoney" => SqlType::SmallMoney,
        "date" => SqlType::Date,
        "time" => SqlType::Time(scale()?),
        "datetime" => SqlType::DateTime,
        "smalldatetime" => SqlType::SmallDateTime,
        "datetime2" => SqlType::DateTime2(scale()?),
        "datetimeoffset" => SqlType::DateTimeOffset(scale()?),
        "char" => SqlType::Char(number(0, 1)?),
        "nchar" => SqlType::NChar(number(0, 1)?),
        "varchar" => SqlType::VarChar(length(1)?),
        "nvarchar" => SqlType::NVarChar(length(1)?),
        "sysname" => SqlType::NVarChar(Length::Limited(128)),
        "text" => SqlType::VarChar(Length::Max),
        "ntext" | "xml" => SqlType::NVarChar(Length::Max),
        "binary" => SqlType::Binary(number(0, 1)?),
        "varbinary" => SqlType::VarBinary(length(1)?),
        "image" => SqlType::VarBinary(Length::Max),
        "uniqueidentifier" => SqlType::UniqueIdentifier,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(name: &str, ty: SqlType, value: Value) -> Argument {
        Argument {
            name: name.into(),
            output: false,
            default: false,
            ty,
            value,
        }
    }

    #[test]
    fn declarations_are_read_with_their_types() {
        let declared = parse_declarations(
            "@P1 int,@b AS decimal(18, 4) OUTPUT, @c nvarchar(max), @d [sys].[sysname], @e dbo.own, @f datetime2",
        )
        .unwrap();
        let types: Vec<_> = declared.iter().map(|declared| declared.ty).collect();
        assert_eq!(
            types,
            [
                Some(SqlType::Int),
                Some(SqlType::Decimal {
                    precision: 18,
                    scale: 4
                }),
                Some(SqlType::NVarChar(Length::Max)),
                Some(SqlType::NVarChar(Length::Limited(128))),
                None,
                Some(SqlType::DateTime2(7)),
            ]
        );
        assert_eq!(declared[1].name, "@b");
        assert!(parse_declarations("P1 int").is_err());
    }

    #[test]
    fn arguments_go_by_name_or_position_and_take_the_declared_type() {
        let declared = parse_declarations("@a bigint, @b decimal(10,4), @c nvarchar(2)").unwrap();
        let params = bind(
            &declared,
            &[
                argument("@A", SqlType::Int, Value::Int(5)),
                argument("", SqlType::Decimal { precision: 5, scale: 2 }, Value::Decimal(150)),
                argument(
                    "@c",
                    SqlType::NVarChar(Length::Limited(4000)),
                    Value::Text("a😀b".into()),
                ),
            ],
        )
        .unwrap();
        assert_eq!((params[0].ty, &params[0].value), (SqlType::BigInt, &Value::Int(5)));
        assert_eq!(
            (params[1].name.as_str(), &params[1].value),
            ("@b", &Value::Decimal(15000))
        );
        assert_eq!(params[2].value, Value::Text("a".into()));
    }

    #[test]
    fn missing_unknown_and_surplus_arguments_are_named() {
        let declared = parse_declarations("@a int").unwrap();
        assert!(bind(&declared, &[]).unwrap_err().contains("'@a'"));
        assert!(
            bind(&declared, &[argument("@b", SqlType::Int, Value::Null)])
                .unwrap_err()
                .contains("@b")
        );
        let two = [
            argument("", SqlType::Int, Value::Null),
            argument("", SqlType::Int, Value::Null),
        ];
        assert!(bind(&declared, &two).unwrap_err().contains("too many"));
    }
}
