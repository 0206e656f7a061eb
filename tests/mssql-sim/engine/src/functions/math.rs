//! Functions of numbers, hashes, random values and LSNs.

use sha2::{Digest, Sha256, Sha512};

use super::Func;
use crate::{
    error::{SqlResult, overflow, sql_error},
    types::{convert, encode, pow10, rescale},
    value::{SqlType, Value},
};

pub(super) fn call(func: Func, args: &[(Value, SqlType)], result: SqlType) -> SqlResult<Value> {
    let float = |i: usize| -> SqlResult<f64> {
        match convert(&args[i].0, args[i].1, SqlType::Float)? {
            Value::Float(v) => Ok(v),
            _ => Ok(0.0),
        }
    };
    let finite = |v: f64| -> SqlResult<Value> {
        if v.is_finite() {
            convert(&Value::Float(v), SqlType::Float, result)
        } else {
            Err(sql_error(3623, 16, "An invalid floating point operation occurred."))
        }
    };
    match func {
        Func::Abs | Func::Sign => {
            let v = convert(&args[0].0, args[0].1, result)?;
            let sign = func == Func::Sign;
            Ok(match v {
                Value::Int(n) if sign => Value::Int(n.signum()),
                Value::Int(n) => Value::Int(
                    n.checked_abs()
                        .ok_or_else(|| overflow("expression", &result.to_string()))?,
                ),
                Value::Float(n) if sign => Value::Float(if n == 0.0 { 0.0 } else { n.signum() }),
                Value::Float(n) => Value::Float(n.abs()),
                Value::Decimal(n) if sign => Value::Decimal(n.signum() * pow10(u32::from(result.scale())).as_i128()),
                Value::Decimal(n) => Value::Decimal(n.abs()),
                other => other,
            })
        }
        Func::Round => {
            let places = match convert(&args[1].0, args[1].1, SqlType::Int)? {
                Value::Int(n) => n,
                _ => 0,
            };
            let cut = args.len() > 2 && convert(&args[2].0, args[2].1, SqlType::Int)? != Value::Int(0);
            match convert(&args[0].0, args[0].1, result)? {
                Value::Float(v) => {
                    let factor = 10_f64.powi(places as i32);
                    let scaled = v * factor;
                    Ok(Value::Float(if cut { scaled.trunc() } else { scaled.round() } / factor))
                }
                Value::Int(n) => match round_at(i128::from(n), 0, places, cut) {
                    Some(v) => convert(
                        &Value::Decimal(v),
                        SqlType::Decimal {
                            precision: 38,
                            scale: 0,
                        },
                        result,
                    ),
                    None => Err(overflow("expression", &result.to_string())),
                },
                Value::Decimal(n) => match round_at(n, result.scale(), places, cut) {
                    Some(v) => convert(
                        &Value::Decimal(v),
                        SqlType::Decimal {
                            precision: 38,
                            scale: result.scale(),
                        },
                        result,
                    ),
                    None => Err(overflow("expression", &result.to_string())),
                },
                other => Ok(other),
            }
        }
        Func::Floor | Func::Ceiling => {
            let up = func == Func::Ceiling;
            Ok(match &args[0].0 {
                Value::Decimal(n) => {
                    let scale = args[0].1.scale();
                    let unit = pow10(u32::from(scale)).as_i128();
                    let whole = n.div_euclid(unit) + i128::from(up && n.rem_euclid(unit) != 0);
                    Value::Decimal(if result.scale() == 0 { whole } else { whole * unit })
                }
                Value::Int(n) => Value::Int(*n),
                _ => Value::Float(if up { float(0)?.ceil() } else { float(0)?.floor() }),
            })
        }
        Func::Power => finite(float(0)?.powf(float(1)?)),
        Func::Sqrt => finite(float(0)?.sqrt()),
        Func::Exp => finite(float(0)?.exp()),
        Func::Log => finite(if args.len() > 1 {
            float(0)?.log(float(1)?)
        } else {
            float(0)?.ln()
        }),
        Func::Rand => {
            let raw = match args.first() {
                Some((v, ty)) => match convert(v, *ty, SqlType::BigInt)? {
                    Value::Int(seed) => (seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15),
                    _ => 0,
                },
                None => u64::from_be_bytes(random()?),
            };
            Ok(Value::Float((raw >> 11) as f64 / (1_u64 << 53) as f64))
        }
        Func::NewId => {
            let mut guid: [u8; 16] = random()?;
            guid[6] = guid[6] & 0x0F | 0x40;
            guid[8] = guid[8] & 0x3F | 0x80;
            Ok(Value::Guid(guid))
        }
        Func::HashBytes => {
            let Value::Text(name) = &args[0].0 else {
                return Ok(Value::Null);
            };
            let Value::Bytes(bytes) = convert(&args[1].0, args[1].1, SqlType::VarBinary(crate::value::Length::Max))?
            else {
                return Ok(Value::Null);
            };
            Ok(match name.to_ascii_uppercase().as_str() {
                "SHA2_256" => Value::Bytes(Sha256::digest(&bytes).to_vec()),
                "SHA2_512" => Value::Bytes(Sha512::digest(&bytes).to_vec()),
                _ => Value::Null,
            })
        }
        Func::Checksum => {
            let mut sum = 0_i32;
            for (value, _) in args {
                for byte in format!("{:?}", encode(value)).bytes() {
                    sum = sum.rotate_left(4) ^ i32::from(byte);
                }
            }
            Ok(Value::Int(i64::from(sum)))
        }
        Func::LsnIncrement | Func::LsnDecrement => {
            let Value::Bytes(bytes) = convert(&args[0].0, args[0].1, SqlType::Binary(10))? else {
                return Ok(Value::Null);
            };
            Ok(Value::Bytes(step_lsn(&bytes, func == Func::LsnIncrement)))
        }
        Func::CdcIsBitSet => {
            let (Value::Int(position), Value::Bytes(mask)) =
                (convert(&args[0].0, args[0].1, SqlType::Int)?, &args[1].0)
            else {
                return Ok(Value::Null);
            };
            let from_right = (position - 1) / 8;
            let byte = usize::try_from(mask.len() as i64 - 1 - from_right)
                .ok()
                .and_then(|i| mask.get(i));
            Ok(Value::Int(byte.map_or(0, |b| i64::from(b >> ((position - 1) % 8) & 1))))
        }
        _ => Ok(Value::Null),
    }
}

/// An LSN one up or down, as one big number, without wrapping.
fn step_lsn(bytes: &[u8], up: bool) -> Vec<u8> {
    let mut wide = [0_u8; 16];
    wide[6..].copy_from_slice(&bytes[..10.min(bytes.len())]);
    let number = u128::from_be_bytes(wide);
    let next = if up {
        (number + 1).min((1 << 80) - 1)
    } else {
        number.saturating_sub(1)
    };
    next.to_be_bytes()[6..].to_vec()
}

fn round_at(value: i128, scale: u8, places: i64, cut: bool) -> Option<i128> {
    if places >= i64::from(scale) {
        return Some(value);
    }
    let drop = i64::from(scale) - places;
    if drop > 38 {
        return Some(0);
    }
    let drop = drop as u8;
    let unit = pow10(u32::from(drop)).as_i128();
    let kept = if cut { value / unit } else { rescale(value, drop, 0)? };
    kept.checked_mul(unit)
}

fn random<const N: usize>() -> SqlResult<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|e| sql_error(50000, 16, format!("mssql-sim: the system gives no randomness: {e}")))?;
    Ok(bytes)
}
