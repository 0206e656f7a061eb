//! Numbers of the configuration, in the units of a column.

use serde_json::Value;
use sluice_plugin::DataType;
use sluice_plugin::text::parse_decimal;

/// Digits after the point that are looked at in a floating-point number.
pub(crate) const FLOAT_SCALE: u8 = 9;
/// What a decimal has at most.
const MOST_DIGITS: u8 = 38;

/// The digits after the point that numbers of this type are counted in; `None` for what is no number.
pub(crate) fn scale(data_type: DataType) -> Option<u8> {
    match data_type {
        DataType::Int16 | DataType::Int32 | DataType::Int64 => Some(0),
        DataType::Decimal { scale, .. } => Some(scale),
        DataType::Float32 | DataType::Float64 => Some(FLOAT_SCALE),
        _ => None,
    }
}

/// A number, or a text with one, times 10^scale; `None` where it is none or is not held exactly.
pub(crate) fn exact(value: &Value, scale: u8) -> Option<i128> {
    match value {
        Value::Number(number) => parse_decimal(&number.to_string(), MOST_DIGITS, scale).ok(),
        Value::String(text) => parse_decimal(text, MOST_DIGITS, scale).ok(),
        _ => None,
    }
}

/// Whether a decimal or an integer of this type can be this.
pub(crate) fn fits(unscaled: i128, data_type: DataType) -> bool {
    match data_type {
        DataType::Int16 => i16::try_from(unscaled).is_ok(),
        DataType::Int32 => i32::try_from(unscaled).is_ok(),
        DataType::Int64 => i64::try_from(unscaled).is_ok(),
        DataType::Decimal { precision, .. } => sluice_plugin::text::fits(unscaled, precision),
        _ => true,
    }
}
