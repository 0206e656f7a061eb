//! `+ - * / %` and the bitwise operators, with T-SQL's result types and overflow.

use ethnum::I256;

use super::{
    TICKS_PER_DAY, common_type, convert,
    decimal::{divide_rounded, pow10},
    rank,
};
use crate::{
    error::{SqlResult, divide_by_zero, overflow, sql_error, type_clash},
    value::{Length, SqlType, Value},
};

/// A binary operator on values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    BitAnd,
    BitOr,
    BitXor,
}

impl Arithmetic {
    /// The operator's number in generated SQL.
    pub fn code(self) -> i64 {
        self as i64
    }

    /// The operator of a number.
    pub fn of_code(code: i64) -> Arithmetic {
        match code {
            1 => Arithmetic::Subtract,
            2 => Arithmetic::Multiply,
            3 => Arithmetic::Divide,
            4 => Arithmetic::Modulo,
            5 => Arithmetic::BitAnd,
            6 => Arithmetic::BitOr,
            7 => Arithmetic::BitXor,
            _ => Arithmetic::Add,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Arithmetic::Add => "add",
            Arithmetic::Subtract => "subtract",
            Arithmetic::Multiply => "multiply",
            Arithmetic::Divide => "divide",
            Arithmetic::Modulo => "modulo",
            Arithmetic::BitAnd => "'&'",
            Arithmetic::BitOr => "'|'",
            Arithmetic::BitXor => "'^'",
        }
    }
}

/// Precision and scale with which a number of another type enters decimal arithmetic.
pub fn decimal_shape(ty: SqlType) -> (u8, u8) {
    match ty {
        SqlType::Bit => (1, 0),
        SqlType::TinyInt => (3, 0),
        SqlType::SmallInt => (5, 0),
        SqlType::Int => (10, 0),
        SqlType::BigInt => (19, 0),
        SqlType::Money => (19, 4),
        SqlType::SmallMoney => (10, 4),
        SqlType::Decimal { precision, scale } => (precision, scale),
        _ => (38, 0),
    }
}

/// The type of `AVG` over a type.
pub fn avg_type(ty: SqlType) -> SqlType {
    match ty {
        SqlType::TinyInt | SqlType::SmallInt => SqlType::Int,
        SqlType::Decimal { scale, .. } => SqlType::Decimal {
            precision: 38,
            scale: scale.max(6),
        },
        SqlType::SmallMoney => SqlType::Money,
        SqlType::Real => SqlType::Float,
        other => other,
    }
}

/// The result type of an operation.
///
/// # Errors
/// 206, 402 and 8117 for types that the operator does not take.
pub fn arithmetic_type(op: Arithmetic, a: SqlType, b: SqlType) -> SqlResult<SqlType> {
    let bitwise = matches!(op, Arithmetic::BitAnd | Arithmetic::BitOr | Arithmetic::BitXor);
    if op == Arithmetic::Add && (a.is_text() || b.is_text()) && !a.is_number() && !b.is_number() {
        if a.is_text() && b.is_text() {
            return Ok(concatenated(a, b));
        }
        if !(a.is_temporal() || b.is_temporal()) {
            return Err(incompatible(op, a, b));
        }
    }
    if op == Arithmetic::Add && a.is_bytes() && b.is_bytes() {
        return Ok(SqlType::VarBinary(sum_length(a, b, 8000)));
    }
    // Text takes the type of the number or date beside it.
    let (a, b) = match (a.is_text() || a.is_bytes(), b.is_text() || b.is_bytes()) {
        (true, false) => (b, b),
        (false, true) => (a, a),
        (true, true) => return Err(incompatible(op, a, b)),
        _ => (a, b),
    };
    if a.is_temporal() || b.is_temporal() {
        let addition = matches!(op, Arithmetic::Add | Arithmetic::Subtract);
        let old = |ty| matches!(ty, SqlType::DateTime | SqlType::SmallDateTime);
        return if addition && (old(a) && (b.is_number() || old(b)) || old(b) && a.is_number()) {
            Ok(if rank(a) >= rank(b) { a } else { b })
        } else if a.is_number() || b.is_number() {
            Err(type_clash(&a.to_string(), &b.to_string()))
        } else {
            Err(incompatible(op, a, b))
        };
    }
    if !a.is_number() || !b.is_number() {
        let bad = if a.is_number() { b } else { a };
        return Err(sql_error(
            8117,
            16,
            format!("Operand data type {bad} is invalid for {} operator.", op.word()),
        ));
    }
    let high = if rank(a) >= rank(b) { a } else { b };
    if bitwise {
        return if a.is_integer() && b.is_integer() {
            Ok(high)
        } else {
            Err(incompatible(op, a, b))
        };
    }
    if let SqlType::Decimal { .. } = high {
        let ((p1, s1), (p2, s2)) = (wide(decimal_shape(a)), wide(decimal_shape(b)));
        return Ok(match op {
            Arithmetic::Multiply => capped(p1 + p2 + 1, s1 + s2, true),
            Arithmetic::Divide => {
                let scale = (s1 + p2 + 1).max(6);
                capped(p1 - s1 + s2 + scale, scale, true)
            }
            Arithmetic::Modulo => capped((p1 - s1).min(p2 - s2) + s1.max(s2), s1.max(s2), false),
            _ => capped((p1 - s1).max(p2 - s2) + s1.max(s2) + 1, s1.max(s2), false),
        });
    }
    if high == SqlType::Bit {
        return if a == SqlType::Bit && b == SqlType::Bit {
            Err(sql_error(
                8117,
                16,
                format!("Operand data type bit is invalid for {} operator.", op.word()),
            ))
        } else {
            Ok(high)
        };
    }
    Ok(high)
}

fn wide(shape: (u8, u8)) -> (i32, i32) {
    (i32::from(shape.0), i32::from(shape.1))
}

fn incompatible(op: Arithmetic, a: SqlType, b: SqlType) -> crate::result::SqlError {
    sql_error(
        402,
        16,
        format!(
            "The data types {a} and {b} are incompatible in the {} operator.",
            op.word()
        ),
    )
}

/// A decimal type cut to 38 digits: products and quotients keep at least six digits of fraction, sums lose fraction only.
fn capped(precision: i32, scale: i32, product: bool) -> SqlType {
    let (mut p, mut s) = (precision, scale);
    if p > 38 {
        let whole = p - s;
        s = if product && whole > 32 {
            s.min(6)
        } else {
            s.min((38 - whole).max(0))
        };
        p = 38;
    }
    SqlType::Decimal {
        precision: p as u8,
        scale: s as u8,
    }
}

fn concatenated(a: SqlType, b: SqlType) -> SqlType {
    if a.is_national() || b.is_national() {
        SqlType::NVarChar(sum_length(a, b, 4000))
    } else {
        SqlType::VarChar(sum_length(a, b, 8000))
    }
}

fn sum_length(a: SqlType, b: SqlType, limit: u32) -> Length {
    let length = |ty| match ty {
        SqlType::Char(n) | SqlType::NChar(n) | SqlType::Binary(n) => Some(u32::from(n)),
        SqlType::VarChar(Length::Limited(n))
        | SqlType::NVarChar(Length::Limited(n))
        | SqlType::VarBinary(Length::Limited(n)) => Some(u32::from(n)),
        _ => None,
    };
    match (length(a), length(b)) {
        (Some(x), Some(y)) => Length::Limited((x + y).min(limit) as u16),
        _ => Length::Max,
    }
}

/// The negative of a number.
///
/// # Errors
/// 8115 when it does not fit.
pub fn negate(value: &Value, ty: SqlType) -> SqlResult<Value> {
    Ok(match value {
        Value::Int(v) => fit(v.checked_neg(), ty)?,
        Value::Float(v) => Value::Float(-v),
        Value::Decimal(v) => Value::Decimal(-v),
        other => other.clone(),
    })
}

/// `a op b`, both brought to the result type first (decimals keep their own scales).
///
/// # Errors
/// 8134 for a zero divisor, 8115 for overflow, and what converting an operand raises.
pub fn arithmetic(
    op: Arithmetic,
    (a, a_type): (&Value, SqlType),
    (b, b_type): (&Value, SqlType),
    result: SqlType,
) -> SqlResult<Value> {
    if *a == Value::Null || *b == Value::Null {
        return Ok(Value::Null);
    }
    if let SqlType::Decimal { precision, scale } = result {
        let a_dec = as_decimal(a, a_type, result)?;
        let b_dec = as_decimal(b, b_type, result)?;
        return decimal(op, a_dec, b_dec, precision, scale);
    }
    if result.is_datetime() {
        let number = |v: &Value, ty: SqlType| -> SqlResult<i64> {
            Ok(match convert(v, ty, SqlType::Float)? {
                Value::Float(days) => (days * TICKS_PER_DAY as f64).round() as i64,
                _ => 0,
            })
        };
        // datetime + datetime counts from 1900-01-01.
        let epoch = 693_595 * TICKS_PER_DAY;
        let ticks = |v: &Value, ty: SqlType| -> SqlResult<i64> {
            if ty.is_number() {
                return number(v, ty);
            }
            match convert(v, ty, result)? {
                Value::DateTime(t) => Ok(t - epoch),
                _ => Ok(0),
            }
        };
        let (x, y) = (ticks(a, a_type)?, ticks(b, b_type)?);
        let total = epoch + if op == Arithmetic::Subtract { x - y } else { x + y };
        return convert(&Value::DateTime(total), SqlType::DateTime2(7), result);
    }
    let a = convert(a, a_type, result)?;
    let b = convert(b, b_type, result)?;
    Ok(match (a, b) {
        (Value::Int(a), Value::Int(b)) => match op {
            Arithmetic::Add => fit(a.checked_add(b), result)?,
            Arithmetic::Subtract => fit(a.checked_sub(b), result)?,
            Arithmetic::Multiply => fit(a.checked_mul(b), result)?,
            Arithmetic::Divide | Arithmetic::Modulo if b == 0 => return Err(divide_by_zero()),
            Arithmetic::Divide => fit(a.checked_div(b), result)?,
            Arithmetic::Modulo => fit(a.checked_rem(b).or(Some(0)), result)?,
            Arithmetic::BitAnd => Value::Int(a & b),
            Arithmetic::BitOr => Value::Int(a | b),
            Arithmetic::BitXor => Value::Int(a ^ b),
        },
        (Value::Float(a), Value::Float(b)) => {
            let v = match op {
                Arithmetic::Subtract => a - b,
                Arithmetic::Multiply => a * b,
                Arithmetic::Divide | Arithmetic::Modulo if b == 0.0 => return Err(divide_by_zero()),
                Arithmetic::Divide => a / b,
                Arithmetic::Modulo => a % b,
                _ => a + b,
            };
            if !v.is_finite() {
                return Err(overflow("expression", &result.to_string()));
            }
            convert(&Value::Float(v), SqlType::Float, result)?
        }
        (Value::Decimal(a), Value::Decimal(b)) => {
            // Money: four digits; a quotient is cut, not rounded.
            let v = match op {
                Arithmetic::Subtract => a.checked_sub(b),
                Arithmetic::Multiply => super::rescale(a.saturating_mul(b), 8, 4),
                Arithmetic::Divide | Arithmetic::Modulo if b == 0 => return Err(divide_by_zero()),
                Arithmetic::Divide => Some(a * 10_000 / b),
                Arithmetic::Modulo => Some(a % b),
                _ => a.checked_add(b),
            };
            let v = v.ok_or_else(|| overflow("expression", &result.to_string()))?;
            convert(
                &Value::Decimal(v),
                SqlType::Decimal {
                    precision: 38,
                    scale: 4,
                },
                result,
            )?
        }
        (Value::Text(a), Value::Text(b)) => Value::Text(a + &b),
        (Value::Bytes(mut a), Value::Bytes(b)) => {
            a.extend_from_slice(&b);
            Value::Bytes(a)
        }
        _ => Value::Null,
    })
}

/// An operand's digits and scale. A float or text operand takes the result's shape.
fn as_decimal(value: &Value, ty: SqlType, result: SqlType) -> SqlResult<(i128, u8)> {
    match value {
        Value::Int(v) => Ok((i128::from(*v), 0)),
        Value::Decimal(v) => Ok((*v, ty.scale())),
        other => match convert(other, ty, common_type(result, ty))? {
            Value::Decimal(v) => Ok((v, result.scale())),
            _ => Err(type_clash(&ty.to_string(), &result.to_string())),
        },
    }
}

fn decimal(op: Arithmetic, (a, s1): (i128, u8), (b, s2): (i128, u8), precision: u8, scale: u8) -> SqlResult<Value> {
    let too_big = || overflow("numeric", "numeric");
    let (x, y) = (I256::from(a), I256::from(b));
    let high = u32::from(s1.max(s2));
    let up = |v: I256, from: u8| v.checked_mul(pow10(high - u32::from(from)));
    let (raw, raw_scale) = match op {
        Arithmetic::Multiply => (x.checked_mul(y).ok_or_else(too_big)?, u32::from(s1) + u32::from(s2)),
        Arithmetic::Divide | Arithmetic::Modulo if b == 0 => return Err(divide_by_zero()),
        Arithmetic::Divide => {
            let shift = u32::from(scale) + u32::from(s2);
            let numerator = if shift >= u32::from(s1) {
                x.checked_mul(pow10(shift - u32::from(s1))).ok_or_else(too_big)?
            } else {
                divide_rounded(x, pow10(u32::from(s1) - shift))
            };
            // T-SQL cuts a quotient at its scale.
            (numerator / y, u32::from(scale))
        }
        _ => {
            let (x, y) = (up(x, s1).ok_or_else(too_big)?, up(y, s2).ok_or_else(too_big)?);
            let v = match op {
                Arithmetic::Subtract => x - y,
                Arithmetic::Modulo => x % y,
                _ => x + y,
            };
            (v, high)
        }
    };
    let target = u32::from(scale);
    let value = if target >= raw_scale {
        raw.checked_mul(pow10(target - raw_scale)).ok_or_else(too_big)?
    } else {
        divide_rounded(raw, pow10(raw_scale - target))
    };
    if value.unsigned_abs() >= pow10(u32::from(precision)).unsigned_abs() {
        return Err(too_big());
    }
    Ok(Value::Decimal(i128::try_from(value).map_err(|_| too_big())?))
}

fn fit(value: Option<i64>, ty: SqlType) -> SqlResult<Value> {
    let (low, high) = integer_range(ty);
    value
        .filter(|v| (low..=high).contains(v))
        .map(Value::Int)
        .ok_or_else(|| overflow("expression", &ty.to_string()))
}

/// Least and greatest value of an integer type.
pub(super) fn integer_range(ty: SqlType) -> (i64, i64) {
    match ty {
        SqlType::Bit => (0, 1),
        SqlType::TinyInt => (0, 255),
        SqlType::SmallInt => (-32_768, 32_767),
        SqlType::Int => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dec(precision: u8, scale: u8) -> SqlType {
        SqlType::Decimal { precision, scale }
    }

    #[test]
    fn result_types_follow_the_documented_rules() {
        let of = |op, a, b| arithmetic_type(op, a, b).unwrap();
        assert_eq!(of(Arithmetic::Add, dec(5, 2), dec(5, 2)), dec(6, 2));
        assert_eq!(of(Arithmetic::Multiply, dec(5, 2), dec(5, 2)), dec(11, 4));
        assert_eq!(of(Arithmetic::Divide, dec(5, 2), dec(5, 2)), dec(13, 8));
        assert_eq!(of(Arithmetic::Multiply, dec(38, 10), dec(38, 10)), dec(38, 6));
        assert_eq!(of(Arithmetic::Add, SqlType::Int, SqlType::TinyInt), SqlType::Int);
    }

    #[test]
    fn integers_divide_as_integers_and_overflow() {
        let int = |v| (Value::Int(v), SqlType::Int);
        let run = |op, a: (Value, SqlType), b: (Value, SqlType)| arithmetic(op, (&a.0, a.1), (&b.0, b.1), SqlType::Int);
        assert_eq!(run(Arithmetic::Divide, int(7), int(2)), Ok(Value::Int(3)));
        assert_eq!(run(Arithmetic::Divide, int(7), int(0)).unwrap_err().number, 8134);
        assert_eq!(
            run(Arithmetic::Add, int(2_147_483_647), int(1)).unwrap_err().number,
            8115
        );
    }

    #[test]
    fn decimals_are_exact_to_38_digits() {
        let big = 99_999_999_999_999_999_999_999_999_999_999_999_999_i128;
        let t = dec(38, 0);
        let sum = arithmetic(
            Arithmetic::Subtract,
            (&Value::Decimal(big), t),
            (&Value::Decimal(1), t),
            t,
        );
        assert_eq!(sum, Ok(Value::Decimal(big - 1)));
        let over = arithmetic(Arithmetic::Add, (&Value::Decimal(big), t), (&Value::Decimal(1), t), t);
        assert_eq!(over.unwrap_err().number, 8115);
        // 1.00 / 3.00 as numeric(3,2) each: numeric(9,6)... cut, not rounded.
        let t = dec(3, 2);
        let r = arithmetic_type(Arithmetic::Divide, t, t).unwrap();
        let q = arithmetic(
            Arithmetic::Divide,
            (&Value::Decimal(200), t),
            (&Value::Decimal(300), t),
            r,
        );
        assert_eq!(q, Ok(Value::Decimal(666_666)));
    }
}
