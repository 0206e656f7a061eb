//! A short numeral string as two machine integers. FF1 adds numbers modulo the radix to the power of a half's length, which
//! big integers do with several allocations a round; most values that are encrypted are card numbers and the like.

use fpe::ff1::{NumeralString, Operations};

/// A half may have so many bits: the algorithm then adds numbers of at most 16 bytes to it.
const MAX_BITS: u32 = 96;

/// The two halves of a numeral string; the second is the longer one if one is.
pub(super) struct Halves {
    radix: u32,
    front: Half,
    back: Half,
}

#[derive(Clone, Copy)]
pub(super) struct Half {
    radix: u32,
    value: u128,
    digits: usize,
}

/// Digits of the longest numeral string of which both halves fit.
pub(super) fn max_chars(radix: u32) -> usize {
    let mut digits = 0;
    let mut values = 1_u128;
    loop {
        values *= u128::from(radix);
        if values > 1 << MAX_BITS {
            return 2 * digits;
        }
        digits += 1;
    }
}

impl Halves {
    /// `digits` are at most [`max_chars`].
    pub(super) fn of_digits(digits: &[u16], radix: u32) -> Halves {
        let (front, back) = digits.split_at(digits.len() / 2);
        Halves {
            radix,
            front: Half::of_digits(front, radix),
            back: Half::of_digits(back, radix),
        }
    }

    /// Writes the digits over those that it was made of.
    pub(super) fn write_digits(&self, radix: u32, digits: &mut [u16]) {
        let (front, back) = digits.split_at_mut(self.front.digits);
        self.front.write_digits(radix, front);
        self.back.write_digits(radix, back);
    }
}

impl Half {
    fn of_digits(digits: &[u16], radix: u32) -> Half {
        Half {
            radix,
            value: digits
                .iter()
                .fold(0, |value, digit| value * u128::from(radix) + u128::from(*digit)),
            digits: digits.len(),
        }
    }

    fn write_digits(&self, radix: u32, digits: &mut [u16]) {
        let mut value = self.value;
        for digit in digits.iter_mut().rev() {
            // A remainder is below the radix, and so at most 65,535.
            *digit = (value % u128::from(radix)) as u16;
            value /= u128::from(radix);
        }
    }

    /// `number` modulo the radix to the power of `digits`, and that power.
    fn reduced(number: impl Iterator<Item = u8>, radix: u32, digits: usize) -> (u128, u128) {
        let number = number.fold(0_u128, |number, byte| number << 8 | u128::from(byte));
        let modulus = (0..digits).fold(1_u128, |power, _| power * u128::from(radix));
        (number % modulus, modulus)
    }
}

impl NumeralString for Halves {
    type Ops = Half;

    fn is_valid(&self, radix: u32) -> bool {
        self.radix == radix
    }

    fn numeral_count(&self) -> usize {
        self.front.digits + self.back.digits
    }

    fn split(&self) -> (Half, Half) {
        (self.front, self.back)
    }

    fn concat(front: Half, back: Half) -> Halves {
        Halves {
            radix: front.radix,
            front,
            back,
        }
    }
}

impl Operations for Half {
    type Bytes = BigEndian;

    fn numeral_count(&self) -> usize {
        self.digits
    }

    fn to_be_bytes(&self, _radix: u32, bytes: usize) -> BigEndian {
        BigEndian {
            number: self.value.to_be_bytes(),
            bytes,
        }
    }

    fn add_mod_exp(self, other: impl Iterator<Item = u8>, radix: u32, digits: usize) -> Half {
        let (other, modulus) = Half::reduced(other, radix, digits);
        Half {
            radix,
            value: (self.value + other) % modulus,
            digits,
        }
    }

    fn sub_mod_exp(self, other: impl Iterator<Item = u8>, radix: u32, digits: usize) -> Half {
        let (other, modulus) = Half::reduced(other, radix, digits);
        Half {
            radix,
            value: (self.value + modulus - other) % modulus,
            digits,
        }
    }
}

/// The last bytes of a number.
pub(super) struct BigEndian {
    number: [u8; 16],
    bytes: usize,
}

impl AsRef<[u8]> for BigEndian {
    fn as_ref(&self) -> &[u8] {
        let (_, last) = self.number.split_at(self.number.len().saturating_sub(self.bytes));
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From Python: the largest n with radix ** n <= 2 ** 96, twice.
    #[test]
    fn the_longest_short_string_of_each_radix() {
        for (radix, chars) in [(2, 192), (10, 56), (36, 36), (62, 32), (65_535, 12), (65_536, 12)] {
            assert_eq!(max_chars(radix), chars, "{radix}");
        }
    }

    #[test]
    fn digits_come_back_as_they_went_in() {
        for digits in [&[1, 2, 3][..], &[0, 0], &[65_534; 12], &[]] {
            let mut back = vec![7; digits.len()];
            Halves::of_digits(digits, 65_535).write_digits(65_535, &mut back);
            assert_eq!(back, digits);
        }
    }
}
