//! FF1 (NIST SP 800-38G) over the characters of an alphabet.

use std::collections::HashMap;

use aes::Aes256;
use fpe::ff1::{FF1, FlexibleNumeralString, NumeralStringError};

use crate::Ff1Status;

const MOST_CHARACTERS: usize = 1_024;
const MOST_RADIX: usize = 1 << 16;

/// FF1 with one AES-256 key over one alphabet.
pub(super) struct Ff1 {
    cipher: FF1<Aes256>,
    alphabet: Vec<char>,
    numerals: HashMap<char, u16>,
}

impl Ff1 {
    /// `None` where the key does not have 32 bytes, or the alphabet not 2 to 65,536 different characters.
    pub(super) fn new(key: &[u8], alphabet: &str) -> Option<Self> {
        let alphabet: Vec<char> = alphabet.chars().collect();
        if key.len() != 32 || !(2..=MOST_RADIX).contains(&alphabet.len()) {
            return None;
        }
        let numerals: HashMap<char, u16> = alphabet.iter().copied().zip(0..=u16::MAX).collect();
        let radix = u32::try_from(alphabet.len()).ok()?;
        (numerals.len() == alphabet.len()).then_some(Self {
            cipher: FF1::new(key, radix).ok()?,
            alphabet,
            numerals,
        })
    }

    /// The text encrypted, or why it cannot be: a character of it comes before its length.
    pub(super) fn encrypt(&self, tweak: &[u8], text: &str) -> Result<String, Ff1Status> {
        let numerals: Option<Vec<u16>> = text.chars().map(|char| self.numerals.get(&char).copied()).collect();
        let numerals = numerals.ok_or(Ff1Status::ForeignCharacter)?;
        if numerals.len() > MOST_CHARACTERS {
            return Err(Ff1Status::TooLong);
        }
        let encrypted = self
            .cipher
            .encrypt(tweak, &FlexibleNumeralString::from(numerals))
            .map_err(|error| match error {
                NumeralStringError::InvalidForRadix(_) => Ff1Status::ForeignCharacter,
                NumeralStringError::TooShort { .. } => Ff1Status::TooShort,
                NumeralStringError::TooLong { .. } => Ff1Status::TooLong,
            })?;
        let numerals = Vec::from(encrypted);
        Ok(numerals
            .into_iter()
            .filter_map(|numeral| self.alphabet.get(usize::from(numeral)))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [
        0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c, 0xef, 0x43,
        0x59, 0xd8, 0xd5, 0x80, 0xaa, 0x4f, 0x7f, 0x03, 0x6d, 0x6f, 0x04, 0xfc, 0x6a, 0x94,
    ];
    const DIGITS: &str = "0123456789";
    const ALPHANUMERIC: &str = "0123456789abcdefghijklmnopqrstuvwxyz";

    /// Samples 7 to 9 of NIST's FF1 samples, those with AES-256.
    #[test]
    fn nist_samples() {
        for (alphabet, tweak, text, encrypted) in [
            (DIGITS, &b""[..], "0123456789", "6657667009"),
            (DIGITS, b"9876543210", "0123456789", "1001623463"),
            (
                ALPHANUMERIC,
                b"7777pqrs777",
                "0123456789abcdefghi",
                "xs8a0azh2avyalyzuwd",
            ),
        ] {
            let ff1 = Ff1::new(&KEY, alphabet).unwrap();
            assert_eq!(ff1.encrypt(tweak, text).as_deref(), Ok(encrypted));
        }
    }

    /// The domain must have 1,000,000 texts: 10^6, 2^20 and 36^4, but not one character less.
    #[test]
    fn short_texts_are_refused() {
        for (alphabet, least) in [(DIGITS, 6), ("01", 20), (ALPHANUMERIC, 4)] {
            let ff1 = Ff1::new(&KEY, alphabet).unwrap();
            assert!(ff1.encrypt(b"", &"0".repeat(least)).is_ok());
            assert_eq!(ff1.encrypt(b"", &"0".repeat(least - 1)), Err(Ff1Status::TooShort));
        }
    }

    #[test]
    fn the_largest_alphabet() {
        let alphabet: String = (0x10000..0x20000).filter_map(char::from_u32).collect();
        let ff1 = Ff1::new(&KEY, &alphabet).unwrap();
        let encrypted = ff1.encrypt(b"", "\u{10000}\u{1ffff}").unwrap();
        assert_eq!(encrypted.chars().count(), 2);
        assert!(Ff1::new(&KEY, &format!("{alphabet}a")).is_none());
    }
}
