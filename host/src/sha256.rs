//! SHA-256 as text, which is how components, configurations and chains are known by it.

use sha2::{Digest as _, Sha256};

/// The digest of some bytes: 64 lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
