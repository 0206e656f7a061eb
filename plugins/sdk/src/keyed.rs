//! Computations with a secret key that stays in the host.

use crate::batch::Column;
use crate::builders::Utf8Builder;

/// Keyed computations over whole columns. A transform that takes its keys as `K: Keyed` runs on [`HostKeys`] in a
/// component and on `testing::TestKeys` in its own tests.
pub trait Keyed {
    /// HMAC-SHA-256 of each value under the named key, over the bytes of `context`, one zero byte, and the bytes of the
    /// value. `values` is a text or binary column of `rows` rows. The answer has 32 bytes a row, zeros where the
    /// value is NULL.
    ///
    /// # Errors
    /// See [`KeyedError`].
    fn hmac_sha256(&self, key: &str, context: &str, rows: u32, values: Column) -> Result<Vec<u8>, KeyedError>;

    /// Makes a computed column of texts: each value's [`Keyed::hmac_sha256`], written as `text` says, and NULL where the
    /// value is NULL. `output` is the column's place among the computed ones, from 0. In a component the host writes the
    /// column, which does not enter the component: what comes back stands for it, and is to be returned in its place as it
    /// is. `rows` are those of the batch. A second call for the same place replaces the column. For the hash of a column that
    /// nothing else is done to, this spares most of the copies.
    ///
    /// # Errors
    /// See [`KeyedError`].
    fn hash_output(
        &self,
        output: usize,
        key: &str,
        context: &str,
        text: &DigestText,
        rows: u32,
        values: Column,
    ) -> Result<Column, KeyedError> {
        let _ = output;
        text.check()?;
        let validity = values.validity.clone();
        let digests = self.hmac_sha256(key, context, rows, values)?;
        let mut texts = Utf8Builder::with_capacity(rows as usize, rows as usize * text.bytes());
        for (row, digest) in digests.chunks_exact(DIGEST_BYTES).enumerate() {
            let valid = |bits: &Vec<u8>| bits.get(row / 8).is_some_and(|byte| byte & (1 << (row % 8)) != 0);
            if validity.as_ref().is_none_or(valid) {
                text.append(&mut texts, digest);
                texts.end_row();
            } else {
                texts.push_null();
            }
        }
        texts.finish().map_err(|_| KeyedError::Malformed)
    }

    /// Format-preserving encryption (FF1 with AES-256, NIST SP 800-38G) of each text over the characters of `alphabet`,
    /// of which the first is the digit 0. `values` is a text column of `rows` rows; `tweak` has at most 256 bytes. The
    /// AES key is HMAC-SHA-256 under the named key over the text `sluice ff1`.
    ///
    /// # Errors
    /// See [`KeyedError`]. A single text that cannot be encrypted is no error but has a status.
    fn ff1_encrypt(
        &self,
        key: &str,
        tweak: &[u8],
        alphabet: &str,
        rows: u32,
        values: Column,
    ) -> Result<Ff1Answer, KeyedError>;

    /// For each value a number below `count`: the first 8 bytes of its [`Keyed::hmac_sha256`] as a big-endian number,
    /// times `count`, divided by 2^64. 0 where the value is NULL.
    ///
    /// # Errors
    /// See [`KeyedError`].
    fn pick(&self, key: &str, context: &str, count: u32, rows: u32, values: Column) -> Result<Vec<u32>, KeyedError>;
}

/// Bytes of an HMAC-SHA-256.
const DIGEST_BYTES: usize = 32;
/// Digits and lower-case letters without i, l, o and u: five bits a character.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 51 characters use up 255 of a digest's 256 bits.
const MOST_CHARACTERS: usize = 51;
const MOST_DIGITS: usize = 2 * DIGEST_BYTES;
const MOST_PREFIX_BYTES: usize = 256;

/// How a digest is written as a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DigestText {
    /// Its first lower-case hexadecimal digits, so many: 1 to 64.
    Hex(usize),
    /// Its first bits, five a character.
    Base32 {
        /// Stands before the characters; at most 256 bytes.
        prefix: String,
        /// Characters of `0123456789abcdefghjkmnpqrstvwxyz`: 1 to 51.
        length: usize,
    },
}

impl DigestText {
    /// Appends the text of a digest of 32 bytes to the row that [`Utf8Builder::end_row`] will end.
    pub fn append(&self, to: &mut Utf8Builder, digest: &[u8]) {
        let (prefix, length) = match self {
            Self::Hex(digits) => return to.append_hex(digest, *digits),
            Self::Base32 { prefix, length } => (prefix, (*length).min(MOST_CHARACTERS)),
        };
        // Five bytes are eight characters.
        let mut characters = [0; MOST_CHARACTERS.next_multiple_of(8)];
        let (eights, _) = characters.as_chunks_mut::<8>();
        for (eight, five) in eights.iter_mut().take(length.div_ceil(8)).zip(digest.chunks(5)) {
            let mut bits = [0; 8];
            bits[3..3 + five.len()].copy_from_slice(five);
            let bits = u64::from_be_bytes(bits);
            for (at, character) in eight.iter_mut().enumerate() {
                *character = ALPHABET[(bits >> (35 - 5 * at) & 31) as usize];
            }
        }
        to.append(prefix);
        to.append(std::str::from_utf8(&characters[..length]).unwrap_or_default());
    }

    /// Bytes of every text.
    fn bytes(&self) -> usize {
        match self {
            Self::Hex(digits) => *digits,
            Self::Base32 { prefix, length } => prefix.len() + length,
        }
    }

    /// What the host says to a text that has no characters, more than there are in a digest, or a prefix that is too long.
    fn check(&self) -> Result<(), KeyedError> {
        let fits = match self {
            Self::Hex(digits) => (1..=MOST_DIGITS).contains(digits),
            Self::Base32 { prefix, length } => {
                (1..=MOST_CHARACTERS).contains(length) && prefix.len() <= MOST_PREFIX_BYTES
            }
        };
        if fits { Ok(()) } else { Err(KeyedError::Argument) }
    }
}

/// What [`Keyed::ff1_encrypt`] made of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ff1Answer {
    /// A text column: each value with its number of characters and its alphabet kept; NULL where it was NULL or is not
    /// [`Ff1Status::Done`].
    pub values: Column,
    /// One a row.
    pub status: Vec<Ff1Status>,
}

/// What became of a text under [`Keyed::ff1_encrypt`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ff1Status {
    /// Encrypted, or NULL.
    Done,
    /// The alphabet and the text's length allow fewer than 1,000,000 texts, so that it could be guessed.
    TooShort,
    /// It has a character that the alphabet does not have.
    ForeignCharacter,
    /// It is longer than 1,024 characters.
    TooLong,
}

/// Why a keyed computation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyedError {
    /// No key of this name is granted to this transform.
    #[error("no key of this name is granted to this transform")]
    NotGranted,
    /// The column is not a well-formed text or binary column of this many rows.
    #[error("the column is not a well-formed text or binary column")]
    Malformed,
    /// The alphabet does not have 2 to 65,536 different characters, or `count` is 0, or the tweak is longer than 256
    /// bytes, or the text of a digest has no characters or too many, or a prefix of more than 256 bytes, or the context of
    /// [`Keyed::hash_output`] has more than 65,536.
    #[error("the alphabet, the tweak, the count, a length, a prefix or a context is out of range")]
    Argument,
}

/// The keys that the table's configuration grants to this transform. Outside a component there is no host, and so no
/// key is granted.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostKeys;

#[cfg(target_arch = "wasm32")]
mod host {
    use super::{DigestText, Ff1Answer, Ff1Status, HostKeys, Keyed, KeyedError};
    use crate::batch::Column;
    use crate::shell::sluice::transform::keyed;

    impl Keyed for HostKeys {
        fn hmac_sha256(&self, key: &str, context: &str, rows: u32, values: Column) -> Result<Vec<u8>, KeyedError> {
            Ok(keyed::hmac_sha256(key, context, rows, &values.into())?)
        }

        fn hash_output(
            &self,
            output: usize,
            key: &str,
            context: &str,
            text: &DigestText,
            rows: u32,
            values: Column,
        ) -> Result<Column, KeyedError> {
            let output = u32::try_from(output).map_err(|_| KeyedError::Argument)?;
            let length = |length: usize| u32::try_from(length).map_err(|_| KeyedError::Argument);
            let text = match text {
                DigestText::Hex(digits) => keyed::DigestText::Hex(length(*digits)?),
                DigestText::Base32 {
                    prefix,
                    length: characters,
                } => keyed::DigestText::Base32(keyed::Base32Text {
                    prefix: prefix.clone(),
                    length: length(*characters)?,
                }),
            };
            keyed::hash_output(output, key, context, &text, rows, &values.into())?;
            Ok(Column::default())
        }

        fn ff1_encrypt(
            &self,
            key: &str,
            tweak: &[u8],
            alphabet: &str,
            rows: u32,
            values: Column,
        ) -> Result<Ff1Answer, KeyedError> {
            let answer = keyed::ff1_encrypt(key, tweak, alphabet, rows, &values.into())?;
            Ok(Ff1Answer {
                values: answer.values.into(),
                status: answer.status.into_iter().map(Into::into).collect(),
            })
        }

        fn pick(
            &self,
            key: &str,
            context: &str,
            count: u32,
            rows: u32,
            values: Column,
        ) -> Result<Vec<u32>, KeyedError> {
            Ok(keyed::pick(key, context, count, rows, &values.into())?)
        }
    }

    impl From<keyed::KeyedError> for KeyedError {
        fn from(error: keyed::KeyedError) -> Self {
            match error {
                keyed::KeyedError::NotGranted => Self::NotGranted,
                keyed::KeyedError::Malformed => Self::Malformed,
                keyed::KeyedError::Argument => Self::Argument,
            }
        }
    }

    impl From<keyed::Ff1Status> for Ff1Status {
        fn from(status: keyed::Ff1Status) -> Self {
            match status {
                keyed::Ff1Status::Done => Self::Done,
                keyed::Ff1Status::TooShort => Self::TooShort,
                keyed::Ff1Status::ForeignCharacter => Self::ForeignCharacter,
                keyed::Ff1Status::TooLong => Self::TooLong,
            }
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Keyed for HostKeys {
    fn hmac_sha256(&self, _key: &str, _context: &str, _rows: u32, _values: Column) -> Result<Vec<u8>, KeyedError> {
        Err(KeyedError::NotGranted)
    }

    fn ff1_encrypt(
        &self,
        _key: &str,
        _tweak: &[u8],
        _alphabet: &str,
        _rows: u32,
        _values: Column,
    ) -> Result<Ff1Answer, KeyedError> {
        Err(KeyedError::NotGranted)
    }

    fn pick(
        &self,
        _key: &str,
        _context: &str,
        _count: u32,
        _rows: u32,
        _values: Column,
    ) -> Result<Vec<u32>, KeyedError> {
        Err(KeyedError::NotGranted)
    }
}
