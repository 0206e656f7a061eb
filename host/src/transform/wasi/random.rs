//! Numbers that look random and are the same in every instance: `SHA-256("sluice wasi random" ‖ n)` for n = 0, 1, 2 …,
//! with n as 8 little-endian bytes, one after the other.
//!
//! They have to be the same when a chunk is read again, and when it is cut in another way, so they hang on nothing. Nothing
//! secret can be made of them: whoever has this file has them. A component that needs a secret asks for `keyed`.

use std::time::Instant;

use sha2::{Digest as _, Sha256};

use super::in_time;

const LABEL: &[u8] = b"sluice wasi random";
const BLOCK: usize = 32;
/// Blocks between two looks at the clock.
const BLOCKS_PER_LOOK: u64 = 1024;

/// The numbers of one instance.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    blocks: u64,
    /// What is left of the last block, from its end.
    left: Vec<u8>,
}

impl Numbers {
    /// The next `len` bytes.
    pub(super) fn bytes(&mut self, len: usize, deadline: Instant) -> wasmtime::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(len);
        while out.len() < len {
            if self.left.is_empty() {
                if self.blocks.is_multiple_of(BLOCKS_PER_LOOK) {
                    in_time(deadline)?;
                }
                self.left = self.block().to_vec();
            }
            let take = self.left.len().min(len - out.len());
            out.extend(self.left.drain(..take));
        }
        Ok(out)
    }

    /// The next 8 bytes, as a little-endian number.
    pub(super) fn number(&mut self) -> u64 {
        let mut bytes = [0; 8];
        for byte in &mut bytes {
            if self.left.is_empty() {
                self.left = self.block().to_vec();
            }
            *byte = self.left.remove(0);
        }
        u64::from_le_bytes(bytes)
    }

    fn block(&mut self) -> [u8; BLOCK] {
        let digest = Sha256::new()
            .chain_update(LABEL)
            .chain_update(self.blocks.to_le_bytes())
            .finalize();
        self.blocks = self.blocks.wrapping_add(1);
        digest.into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::transform::sandbox::DeadlinePassed;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// From Python: `b"".join(hashlib.sha256(b"sluice wasi random" + n.to_bytes(8, "little")).digest() for n in (0, 1))`.
    #[test]
    fn the_numbers_are_those_of_another_implementation() {
        let bytes = Numbers::default().bytes(40, soon()).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "40025f5904acbba2c3ad5b415163c41d1070ed2a2bc6b229b7dfbc035181fc349f60596e8afac58c"
        );
    }

    #[test]
    fn numbers_and_bytes_come_from_one_sequence() {
        let mut numbers = Numbers::default();
        let all = Numbers::default().bytes(41, soon()).unwrap();
        assert_eq!(numbers.bytes(1, soon()).unwrap(), all[..1]);
        for at in [1, 9, 17, 25, 33] {
            assert_eq!(numbers.number().to_le_bytes(), all[at..at + 8]);
        }
    }

    #[test]
    fn a_deadline_ends_the_making_of_many() {
        let error = Numbers::default().bytes(1 << 20, Instant::now()).unwrap_err();
        assert!(error.is::<DeadlinePassed>());
    }
}
