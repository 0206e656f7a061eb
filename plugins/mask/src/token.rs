//! `token`: a keyed hash as a short word without characters that look alike.

use serde::Deserialize;
use sluice_plugin::{ApplyError, Batch, Column, DataType, Keyed, OpenError, Utf8Builder};

use crate::canonical::{self, Normalize};
use crate::keyed::each_digest;

/// Digits and lower-case letters without i, l, o and u: five bits a character.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 13 characters have 65 bits; fewer would make different values equal.
const LEAST: usize = 13;
/// 51 characters use up 255 of a digest's 256 bits.
const MOST: usize = 51;
const LONGEST_PREFIX: usize = 32;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Token {
    pub key: String,
    #[serde(default)]
    pub context: String,
    #[serde(default)]
    pub prefix: String,
    #[serde(default = "length")]
    pub length: usize,
    #[serde(default)]
    pub normalize: Vec<Normalize>,
}

pub(crate) fn length() -> usize {
    16
}

impl Token {
    pub(crate) fn check(&self, path: &str) -> Result<(), OpenError> {
        if !(LEAST..=MOST).contains(&self.length) {
            return Err(OpenError::config(
                format!("{path}.length"),
                format!("expected {LEAST} to {MOST} characters; fewer would make different values equal"),
            ));
        }
        if self.prefix.chars().count() > LONGEST_PREFIX || self.prefix.chars().any(char::is_control) {
            return Err(OpenError::config(
                format!("{path}.prefix"),
                format!("expected at most {LONGEST_PREFIX} characters that can be seen"),
            ));
        }
        Ok(())
    }

    pub(crate) fn column(
        &self,
        keys: &impl Keyed,
        batch: &Batch,
        read: usize,
        data_type: DataType,
    ) -> Result<Column, ApplyError> {
        let texts = canonical::column(batch, read, data_type, &self.normalize)?;
        let count = batch.rows as usize;
        let mut tokens = Utf8Builder::with_capacity(count, count * (self.prefix.len() + self.length));
        each_digest(keys, &self.key, &self.context, &texts, |digest| match digest {
            Some(digest) => {
                self.append(&mut tokens, digest);
                tokens.end_row();
            }
            None => tokens.push_null(),
        })?;
        tokens.finish()
    }

    /// Writes the token of a digest: its first bits, five a character.
    pub(crate) fn append(&self, to: &mut Utf8Builder, digest: &[u8]) {
        // Five bytes are eight characters.
        let mut characters = [0; MOST.next_multiple_of(8)];
        let (eights, _) = characters.as_chunks_mut::<8>();
        let groups = self.length.div_ceil(8);
        for (eight, five) in eights.iter_mut().take(groups).zip(digest.chunks(5)) {
            let mut bits = [0; 8];
            bits[3..3 + five.len()].copy_from_slice(five);
            let bits = u64::from_be_bytes(bits);
            for (at, character) in eight.iter_mut().enumerate() {
                *character = ALPHABET[(bits >> (35 - 5 * at) & 31) as usize];
            }
        }
        to.append(&self.prefix);
        to.append(std::str::from_utf8(&characters[..self.length.min(MOST)]).unwrap_or_default());
    }
}
