//! The interface `keyed`, natively.

use hmac::{Hmac, KeyInit, Mac};

use super::ff1::Ff1;
use crate::{BinaryView, Column, Ff1Answer, Ff1Status, Keyed, KeyedError, Utf8Builder, Utf8View};

const DIGEST_BYTES: usize = 32;
const MOST_TWEAK_BYTES: usize = 256;

/// Keys for a plugin's own tests: each granted key's secret is `secret of <name>`. Computes what the host computes.
#[derive(Clone, Debug)]
pub struct TestKeys {
    granted: Vec<String>,
}

impl TestKeys {
    /// Grants these keys.
    pub fn granting(names: &[&str]) -> Self {
        Self {
            granted: names.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    /// The key's HMAC, before any text.
    fn mac(&self, key: &str) -> Result<Hmac<sha2::Sha256>, KeyedError> {
        if !self.granted.iter().any(|name| name == key) {
            return Err(KeyedError::NotGranted);
        }
        let secret = format!("secret of {key}");
        Hmac::new_from_slice(secret.as_bytes()).map_err(|_| KeyedError::Malformed)
    }
}

impl Default for TestKeys {
    /// Grants the key `pii`.
    fn default() -> Self {
        Self::granting(&["pii"])
    }
}

impl Keyed for TestKeys {
    fn hmac_sha256(&self, key: &str, context: &str, rows: u32, values: Column) -> Result<Vec<u8>, KeyedError> {
        let mut start = self.mac(key)?;
        start.update(context.as_bytes());
        start.update(&[0]);
        let view = BinaryView::new(&values, rows as usize).ok_or(KeyedError::Malformed)?;
        let mut digests = Vec::with_capacity(rows as usize * DIGEST_BYTES);
        for value in view.iter() {
            let Some(value) = value else {
                digests.extend_from_slice(&[0; DIGEST_BYTES]);
                continue;
            };
            let mut mac = start.clone();
            mac.update(value);
            digests.extend_from_slice(&mac.finalize().into_bytes());
        }
        Ok(digests)
    }

    fn ff1_encrypt(
        &self,
        key: &str,
        tweak: &[u8],
        alphabet: &str,
        rows: u32,
        values: Column,
    ) -> Result<Ff1Answer, KeyedError> {
        let mut mac = self.mac(key)?;
        mac.update(b"sluice ff1");
        let ff1 = Ff1::new(&mac.finalize().into_bytes(), alphabet).ok_or(KeyedError::Argument)?;
        if tweak.len() > MOST_TWEAK_BYTES {
            return Err(KeyedError::Argument);
        }
        let view = Utf8View::new(&values, rows as usize).ok_or(KeyedError::Malformed)?;
        let mut encrypted = Utf8Builder::with_capacity(view.len(), view.text().len());
        let mut status = Vec::with_capacity(view.len());
        for value in view.iter() {
            match value.map(|text| ff1.encrypt(tweak, text)).transpose() {
                Ok(text) => {
                    encrypted.push_option(text.as_deref());
                    status.push(Ff1Status::Done);
                }
                Err(problem) => {
                    encrypted.push_null();
                    status.push(problem);
                }
            }
        }
        let values = encrypted.finish().map_err(|_| KeyedError::Malformed)?;
        Ok(Ff1Answer { values, status })
    }

    fn pick(&self, key: &str, context: &str, count: u32, rows: u32, values: Column) -> Result<Vec<u32>, KeyedError> {
        if count == 0 {
            self.mac(key)?;
            return Err(KeyedError::Argument);
        }
        let validity = values.validity.clone();
        let digests = self.hmac_sha256(key, context, rows, values)?;
        let picked = digests.chunks_exact(DIGEST_BYTES).enumerate().map(|(row, digest)| {
            let valid = validity
                .as_ref()
                .is_none_or(|bits| bits[row / 8] & (1 << (row % 8)) != 0);
            let first = digest
                .iter()
                .take(8)
                .fold(0_u128, |sum, &byte| sum << 8 | u128::from(byte));
            if valid {
                ((first * u128::from(count)) >> 64) as u32
            } else {
                0
            }
        });
        Ok(picked.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::column;
    use crate::{DataType, Value};

    fn texts(values: &[Option<&str>]) -> Column {
        let values: Vec<_> = values.iter().map(|value| value.map(Value::Utf8)).collect();
        column(DataType::Utf8, &values)
    }

    /// Made with Python's `hmac`: `int.from_bytes(digest[:8]) * count >> 64`.
    #[test]
    fn picks_follow_from_the_hash() {
        let keys = TestKeys::default();
        let values = [Some("anna"), None, Some(""), Some("berta"), Some("anna")];
        let pick = |context, count| keys.pick("pii", context, count, 5, texts(&values)).unwrap();
        assert_eq!(pick("", 1_000), [640, 0, 489, 216, 640]);
        assert_eq!(
            pick("names", u32::MAX),
            [2_721_162_674, 0, 3_379_521_872, 3_019_518_770, 2_721_162_674]
        );
        assert_eq!(pick("", 1), [0; 5]);
    }

    /// Made with a Python implementation of FF1 that gives the samples of NIST SP 800-38G.
    #[test]
    fn texts_are_encrypted_in_their_alphabet() {
        let keys = TestKeys::default();
        let digits = "0123456789";
        let values = [
            Some("4111111111111111"),
            None,
            Some("123456"),
            Some("12345"),
            Some("12 3456"),
            Some(""),
        ];
        let answer = keys.ff1_encrypt("pii", b"", digits, 6, texts(&values)).unwrap();
        let view = Utf8View::new(&answer.values, 6).unwrap();
        assert_eq!(
            view.iter().collect::<Vec<_>>(),
            [Some("1060073615251443"), None, Some("846690"), None, None, None]
        );
        use Ff1Status::{Done, ForeignCharacter, TooLong, TooShort};
        assert_eq!(answer.status, [Done, Done, Done, TooShort, ForeignCharacter, TooShort]);

        let (longest, longer) = ("7".repeat(1_024), "7".repeat(1_025));
        let values = [Some(longest.as_str()), Some(&longer)];
        let answer = keys.ff1_encrypt("pii", b"", digits, 2, texts(&values)).unwrap();
        assert_eq!(answer.status, [Done, TooLong]);

        let values = [Some("\u{e4}\u{f6}\u{fc}\u{df}\u{e4}\u{f6}\u{fc}\u{df}\u{e4}\u{f6}")];
        let answer = keys
            .ff1_encrypt("pii", b"crm", "\u{e4}\u{f6}\u{fc}\u{df}", 1, texts(&values))
            .unwrap();
        assert_eq!(
            answer.values.values,
            "\u{e4}\u{fc}\u{f6}\u{fc}\u{f6}\u{fc}\u{e4}\u{e4}\u{fc}\u{f6}".as_bytes()
        );
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        let keys = TestKeys::default();
        let nothing = || texts(&[]);
        assert_eq!(keys.hmac_sha256("other", "", 0, nothing()), Err(KeyedError::NotGranted));
        assert_eq!(keys.pick("other", "", 0, 0, nothing()), Err(KeyedError::NotGranted));
        assert_eq!(keys.pick("pii", "", 0, 0, nothing()), Err(KeyedError::Argument));
        assert_eq!(keys.pick("pii", "", 2, 1, nothing()), Err(KeyedError::Malformed));
        let ff1 = |key, tweak: &[u8], alphabet| keys.ff1_encrypt(key, tweak, alphabet, 0, nothing());
        assert_eq!(ff1("other", b"", "01"), Err(KeyedError::NotGranted));
        assert_eq!(ff1("pii", b"", "0"), Err(KeyedError::Argument));
        assert_eq!(ff1("pii", b"", "010"), Err(KeyedError::Argument));
        assert_eq!(ff1("pii", &[0; 257], "01"), Err(KeyedError::Argument));
        assert!(ff1("pii", &[0; 256], "01").is_ok());
    }
}
