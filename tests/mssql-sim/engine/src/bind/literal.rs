//! Literals and their types.

use sqlparser::ast::Value as Literal;

use super::Bound;
use crate::{
    error::{SqlResult, not_supported, syntax_near},
    types::parse_decimal,
    value::{Length, SqlType, Value},
};

/// A literal as a typed constant: integers that fit are `int`, other plain numbers `numeric`, those with an exponent
/// `float`, text `varchar` or `nvarchar` of its length.
///
/// # Errors
/// 102 for a literal that T-SQL does not have.
pub fn literal(literal: &Literal) -> SqlResult<Bound> {
    match literal {
        Literal::Number(text, _) => number(text),
        Literal::SingleQuotedString(text) => {
            let n = text.chars().count();
            Ok(Bound::constant(
                Value::Text(text.clone()),
                SqlType::VarChar(length(n, 8000)),
            ))
        }
        Literal::NationalStringLiteral(text) => {
            let n = text.encode_utf16().count();
            Ok(Bound::constant(
                Value::Text(text.clone()),
                SqlType::NVarChar(length(n, 4000)),
            ))
        }
        Literal::HexStringLiteral(digits) => {
            let padded = if digits.len() % 2 == 1 {
                format!("0{digits}")
            } else {
                digits.clone()
            };
            let bytes: Option<Vec<u8>> = padded
                .as_bytes()
                .chunks(2)
                .map(|pair| {
                    std::str::from_utf8(pair)
                        .ok()
                        .and_then(|p| u8::from_str_radix(p, 16).ok())
                })
                .collect();
            let bytes = bytes.ok_or_else(|| syntax_near(digits))?;
            let n = bytes.len();
            Ok(Bound::constant(
                Value::Bytes(bytes),
                SqlType::VarBinary(length(n, 8000)),
            ))
        }
        Literal::Null => {
            let mut null = Bound::constant(Value::Null, SqlType::Int);
            null.untyped = true;
            Ok(null)
        }
        other => Err(not_supported(&other.to_string())),
    }
}

fn length(units: usize, limit: usize) -> Length {
    if units > limit {
        Length::Max
    } else {
        Length::Limited(units.max(1) as u16)
    }
}

fn number(text: &str) -> SqlResult<Bound> {
    if let Some(money) = text.strip_prefix('$') {
        let (digits, _, scale) = parse_decimal(money).ok_or_else(|| syntax_near(text))?;
        let value = crate::types::rescale(digits, scale, 4).ok_or_else(|| syntax_near(text))?;
        return Ok(Bound::constant(Value::Decimal(value), SqlType::Money));
    }
    if text.contains(['e', 'E']) {
        let value: f64 = text.parse().map_err(|_| syntax_near(text))?;
        return Ok(Bound::constant(Value::Float(value), SqlType::Float));
    }
    if let Ok(n) = text.parse::<i32>() {
        return Ok(Bound::constant(Value::Int(i64::from(n)), SqlType::Int));
    }
    let too_long = || {
        crate::error::sql_error(
            1007,
            15,
            format!("The number '{text}' is out of the range for numeric representation (maximum precision 38)."),
        )
    };
    let (digits, precision, scale) = parse_decimal(text).ok_or_else(too_long)?;
    Ok(Bound::constant(
        Value::Decimal(digits),
        SqlType::Decimal {
            precision: precision.max(scale),
            scale,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_have_sql_servers_types() {
        let ty = |t: &str| number(t).unwrap().ty;
        assert_eq!(ty("1"), SqlType::Int);
        assert_eq!(
            ty("2147483648"),
            SqlType::Decimal {
                precision: 10,
                scale: 0
            }
        );
        assert_eq!(ty("1.50"), SqlType::Decimal { precision: 3, scale: 2 });
        assert_eq!(ty("1e3"), SqlType::Float);
        assert_eq!(number("9".repeat(39).as_str()).unwrap_err().number, 1007);
    }
}
