//! Computations with a secret key that stays in the host.

use crate::batch::Column;

/// Keyed computations. A transform that takes its keys as `K: Keyed` runs on [`HostKeys`] in a component and on
/// `testing::TestKeys` in its own tests.
pub trait Keyed {
    /// HMAC-SHA-256 of each value under the named key, over the bytes of `context`, one zero byte, and the bytes of the
    /// value. `values` is a text or binary column of `rows` rows. The answer has 32 bytes a row, zeros where the
    /// value is NULL.
    ///
    /// # Errors
    /// See [`KeyedError`].
    fn hmac_sha256(&self, key: &str, context: &str, rows: u32, values: Column) -> Result<Vec<u8>, KeyedError>;
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
}

/// The keys that the table's configuration grants to this transform. Outside a component there is no host, and so no
/// key is granted.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostKeys;

impl Keyed for HostKeys {
    #[cfg(target_arch = "wasm32")]
    fn hmac_sha256(&self, key: &str, context: &str, rows: u32, values: Column) -> Result<Vec<u8>, KeyedError> {
        use crate::shell::sluice::transform::keyed;
        keyed::hmac_sha256(key, context, rows, &values.into()).map_err(|error| match error {
            keyed::KeyedError::NotGranted => KeyedError::NotGranted,
            keyed::KeyedError::Malformed => KeyedError::Malformed,
        })
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn hmac_sha256(&self, _key: &str, _context: &str, _rows: u32, _values: Column) -> Result<Vec<u8>, KeyedError> {
        Err(KeyedError::NotGranted)
    }
}
