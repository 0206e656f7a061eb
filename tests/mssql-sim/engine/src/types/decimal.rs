//! Exact decimals as `i128` counts of 10^-scale, with 256-bit intermediates.

use ethnum::I256;

/// 10^n for n up to 76.
pub fn pow10(n: u32) -> I256 {
    I256::new(10).pow(n)
}

/// `numerator / denominator`, rounded half away from zero. The denominator is not zero.
pub fn divide_rounded(numerator: I256, denominator: I256) -> I256 {
    let quotient = numerator / denominator;
    let rest = numerator % denominator;
    let up = rest.unsigned_abs() * ethnum::U256::new(2) >= denominator.unsigned_abs();
    if up {
        let negative = (numerator < 0) != (denominator < 0);
        quotient + if negative { I256::MINUS_ONE } else { I256::ONE }
    } else {
        quotient
    }
}

/// The value at another scale, rounded half away from zero; nothing when it does not fit in `i128`.
pub fn rescale(value: i128, from: u8, to: u8) -> Option<i128> {
    if from == to {
        return Some(value);
    }
    let wide = I256::from(value);
    let scaled = if to > from {
        wide.checked_mul(pow10(u32::from(to - from)))?
    } else {
        divide_rounded(wide, pow10(u32::from(from - to)))
    };
    i128::try_from(scaled).ok()
}

/// Digits, precision and scale of a decimal in text: `-12.50` is (-1250, 4, 2). Nothing when the text is no plain
/// decimal. Digits past what `i128` holds are dropped from the fraction.
pub fn parse_decimal(text: &str) -> Option<(i128, u8, u8)> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let mut value: i128 = 0;
    let (mut precision, mut scale) = (0u8, 0u8);
    let (mut in_fraction, mut any) = (false, false);
    for byte in digits.bytes() {
        match byte {
            b'.' if !in_fraction => in_fraction = true,
            b'0'..=b'9' => {
                any = true;
                if precision == 38 {
                    if in_fraction {
                        continue;
                    }
                    return None;
                }
                value = value.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
                if value != 0 || in_fraction {
                    precision += 1;
                }
                if in_fraction {
                    scale += 1;
                }
            }
            _ => return None,
        }
    }
    any.then(|| (if negative { -value } else { value }, precision.max(1), scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rescaling_rounds_half_away_from_zero() {
        assert_eq!(rescale(125, 2, 1), Some(13));
        assert_eq!(rescale(-125, 2, 1), Some(-13));
        assert_eq!(rescale(124, 2, 1), Some(12));
        assert_eq!(rescale(i128::MAX, 0, 1), None);
    }

    #[test]
    fn text_gives_digits_precision_and_scale() {
        assert_eq!(parse_decimal("-12.50"), Some((-1250, 4, 2)));
        assert_eq!(parse_decimal("0.05"), Some((5, 2, 2)));
        assert_eq!(parse_decimal("007"), Some((7, 1, 0)));
        assert_eq!(parse_decimal("."), None);
        assert_eq!(parse_decimal("1e3"), None);
    }
}
