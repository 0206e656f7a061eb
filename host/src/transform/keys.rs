//! Secret keys that the host uses on a component's behalf. A component names a key and never sees its bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

/// The shortest secret that is accepted, in bytes.
pub const MIN_SECRET_BYTES: usize = 16;

/// Named keys, each with the version that provenance shows. Clones share the secrets; the last one wipes them.
#[derive(Clone, Default)]
pub struct KeyRing {
    keys: BTreeMap<String, Key>,
}

/// Why a key was not taken into a [`KeyRing`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The secret is shorter than [`MIN_SECRET_BYTES`].
    #[error("the secret of key `{name}` has {bytes} bytes; give it at least {MIN_SECRET_BYTES}")]
    TooShort {
        /// Name of the key.
        name: String,
        /// Length of the refused secret.
        bytes: usize,
    },
    /// A key of this name is there already.
    #[error("key `{0}` is given twice")]
    Twice(String),
}

/// One key.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) version: String,
    pub(crate) secret: Arc<Zeroizing<Vec<u8>>>,
}

impl KeyRing {
    /// A ring without keys.
    pub fn new() -> KeyRing {
        KeyRing::default()
    }

    /// Adds a key. `secret` is wiped from memory when the last clone of the ring is dropped, and at once when it is
    /// refused.
    pub fn insert(
        &mut self,
        name: impl Into<String>,
        version: impl Into<String>,
        secret: Vec<u8>,
    ) -> Result<(), KeyError> {
        let name = name.into();
        let secret = Zeroizing::new(secret);
        if secret.len() < MIN_SECRET_BYTES {
            return Err(KeyError::TooShort {
                name,
                bytes: secret.len(),
            });
        }
        if self.keys.contains_key(&name) {
            return Err(KeyError::Twice(name));
        }
        let key = Key {
            version: version.into(),
            secret: Arc::new(secret),
        };
        self.keys.insert(name, key);
        Ok(())
    }

    /// Names and versions.
    pub fn versions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.keys
            .iter()
            .map(|(name, key)| (name.as_str(), key.version.as_str()))
    }

    /// Names of two keys that have one secret, the first such pair. Nothing that is made with one of them is apart from
    /// what is made with the other.
    pub fn twins(&self) -> Option<(&str, &str)> {
        let mut seen: BTreeMap<&[u8], &str> = BTreeMap::new();
        self.keys.iter().find_map(|(name, key)| {
            let before = seen.insert(key.secret.as_slice(), name)?;
            Some((before, name.as_str()))
        })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Key> {
        self.keys.get(name)
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.versions()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_names_and_versions_and_no_secret() {
        let mut ring = KeyRing::new();
        ring.insert("pii", "v3", b"0123456789abcdef".to_vec()).unwrap();
        assert_eq!(format!("{ring:?}"), r#"{"pii": "v3"}"#);
    }

    #[test]
    fn two_keys_with_one_secret_are_named() {
        let mut ring = KeyRing::new();
        ring.insert("a", "v1", vec![7; 16]).unwrap();
        ring.insert("b", "v1", vec![8; 16]).unwrap();
        assert_eq!(ring.twins(), None);
        ring.insert("c", "v2", vec![7; 16]).unwrap();
        assert_eq!(ring.twins(), Some(("a", "c")));
    }

    #[test]
    fn a_short_secret_and_a_second_one_are_refused() {
        let mut ring = KeyRing::new();
        let short = ring.insert("pii", "v1", b"short".to_vec()).unwrap_err();
        assert_eq!(
            short.to_string(),
            "the secret of key `pii` has 5 bytes; give it at least 16"
        );
        ring.insert("pii", "v1", vec![7; 16]).unwrap();
        assert_eq!(
            ring.insert("pii", "v2", vec![8; 16]).unwrap_err(),
            KeyError::Twice("pii".into())
        );
    }
}
