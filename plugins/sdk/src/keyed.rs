//! Computations with a secret key that stays in the host.

use crate::batch::Column;

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
    /// bytes.
    #[error("the alphabet, the tweak or the count is out of range")]
    Argument,
}

/// The keys that the table's configuration grants to this transform. Outside a component there is no host, and so no
/// key is granted.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostKeys;

#[cfg(target_arch = "wasm32")]
mod host {
    use super::{Ff1Answer, Ff1Status, HostKeys, Keyed, KeyedError};
    use crate::batch::Column;
    use crate::shell::sluice::transform::keyed;

    impl Keyed for HostKeys {
        fn hmac_sha256(&self, key: &str, context: &str, rows: u32, values: Column) -> Result<Vec<u8>, KeyedError> {
            Ok(keyed::hmac_sha256(key, context, rows, &values.into())?)
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
