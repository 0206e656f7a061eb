//! `ff1-encrypt`: text becomes other text of the same length over the same alphabet (NIST SP 800-38G).
//!
//! The algorithm is crate `fpe`'s; AES is RustCrypto's. One cipher serves a whole column. Values whose halves fit into 96
//! bits (56 decimal digits, 32 letters and digits) are computed in machine integers (`halves`), longer ones in big ones.

mod alphabet;
mod halves;

use aes::Aes256;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use fpe::ff1::{FF1, FlexibleNumeralString};

pub(super) use alphabet::Alphabet;
use halves::Halves;

use super::hmac::Tagger;
use crate::transform::bindings::v0_3::sluice::transform::keyed::{Ff1Answer, Ff1Status};
use crate::transform::cells::{Cells, TextColumn};
use crate::transform::hostcall::HostCall;

/// The longest tweak, in bytes.
pub(super) const MAX_TWEAK_BYTES: usize = 256;
/// The longest value, in characters.
const MAX_CHARS: usize = 1024;
/// A value that is one of fewer can be guessed (SP 800-38G Rev. 1, section 5.2).
const MIN_VALUES: u64 = 1_000_000;
/// What the AES key is the HMAC of.
const LABEL: &[u8] = b"sluice ff1";

/// FF1 over the texts of an alphabet.
pub(super) struct TextCipher<C> {
    ff1: FF1<C>,
    alphabet: Alphabet,
    /// Characters of the shortest value.
    min_chars: usize,
    /// Characters of the longest value that machine integers can hold.
    max_small_chars: usize,
}

impl TextCipher<Aes256> {
    /// With the key that is derived from a secret.
    pub(super) fn of_secret(secret: &[u8], alphabet: Alphabet) -> wasmtime::Result<TextCipher<Aes256>> {
        let key = zeroize::Zeroizing::new(Tagger::new(secret, LABEL).tag(b""));
        TextCipher::new(&*key, alphabet)
    }
}

impl<C: KeyInit + BlockCipherEncrypt + Clone> TextCipher<C> {
    /// `key` has the length of the cipher's.
    fn new(key: &[u8], alphabet: Alphabet) -> wasmtime::Result<TextCipher<C>> {
        // The crate takes a key of another length for a mistake in the program.
        if key.len() != C::key_size() {
            return Err(wasmtime::Error::msg("the key does not fit the cipher"));
        }
        let radix = alphabet.radix();
        let ff1 = FF1::new(key, radix).map_err(|_| wasmtime::Error::msg("the alphabet does not fit FF1"))?;
        let mut min_chars = 1;
        let mut values = u64::from(radix);
        while values < MIN_VALUES {
            values *= u64::from(radix);
            min_chars += 1;
        }
        Ok(TextCipher {
            ff1,
            // A half has at least one character.
            min_chars: min_chars.max(2),
            max_small_chars: halves::max_chars(radix),
            alphabet,
        })
    }

    /// Encrypts each value; `None` when one is no UTF-8.
    ///
    /// # Errors
    /// The deadline, and an answer that does not fit into the component.
    pub(super) fn encrypt_column(
        &self,
        tweak: &[u8],
        cells: &Cells<'_>,
        call: &mut HostCall<'_>,
    ) -> wasmtime::Result<Option<Ff1Answer>> {
        let fixed = TextColumn::fixed_bytes(cells.rows).saturating_add(cells.rows);
        call.room_for(fixed)?;
        let mut column = TextColumn::with_rows(cells.rows);
        let mut status = Vec::with_capacity(cells.rows);
        let mut digits = Vec::new();
        for row in 0..cells.rows {
            let Some(value) = cells.get(row) else {
                call.look_at_row(row)?;
                status.push(Ff1Status::Done);
                column.end_row(false)?;
                continue;
            };
            // One value is a hundred times the work of a look, and a long one ten thousand times.
            call.look()?;
            let Ok(text) = str::from_utf8(value) else {
                return Ok(None);
            };
            let done = self
                .digits_of(text, &mut digits)
                .and_then(|()| self.encrypt(tweak, &mut digits));
            if done.is_ok() {
                column
                    .values
                    .extend(digits.iter().map(|digit| self.alphabet.character(*digit)));
                call.room_for(fixed.saturating_add(column.values.len()))?;
            }
            column.end_row(done.is_ok())?;
            status.push(done.err().unwrap_or(Ff1Status::Done));
        }
        Ok(Some(Ff1Answer {
            values: column.finish(),
            status,
        }))
    }

    /// The digits of a text that can be encrypted. Its characters are looked at before its length, as the SDK's test keys
    /// do.
    fn digits_of(&self, text: &str, digits: &mut Vec<u16>) -> Result<(), Ff1Status> {
        digits.clear();
        for character in text.chars() {
            let digit = self.alphabet.digit(character).ok_or(Ff1Status::ForeignCharacter)?;
            // One too many is enough to know.
            if digits.len() <= MAX_CHARS {
                digits.push(digit);
            }
        }
        if digits.len() > MAX_CHARS {
            return Err(Ff1Status::TooLong);
        }
        if digits.len() < self.min_chars {
            return Err(Ff1Status::TooShort);
        }
        Ok(())
    }

    fn encrypt(&self, tweak: &[u8], digits: &mut Vec<u16>) -> Result<(), Ff1Status> {
        // Its errors are those that `digits_of` has found already: the length, and a digit beyond the radix.
        if digits.len() <= self.max_small_chars {
            let small = Halves::of_digits(digits, self.alphabet.radix());
            let small = self.ff1.encrypt(tweak, &small).map_err(|_| Ff1Status::TooShort)?;
            small.write_digits(self.alphabet.radix(), digits);
        } else {
            let large = FlexibleNumeralString::from(std::mem::take(digits));
            *digits = self.ff1.encrypt(tweak, &large).map_err(|_| Ff1Status::TooShort)?.into();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
