//! `hmac-sha256`, and the tags that the other functions begin with.

use sha2::Digest;
use sha2::block_api::compress256;
use zeroize::Zeroize;

use crate::transform::cells::Cells;
use crate::transform::hostcall::HostCall;

/// Bytes of one HMAC-SHA-256.
pub const TAG_BYTES: usize = 32;

/// Bytes that SHA-256 takes in at a time.
const BLOCK: usize = 64;
/// Where in the last block the number of bits stands.
const LENGTH_AT: usize = BLOCK - 8;
/// What HMAC adds to every byte of the key, before the text and before the text's digest (RFC 2104).
const INNER: u8 = 0x36;
const OUTER: u8 = 0x5c;
/// FIPS 180-4, section 5.3.3.
const START: State = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

type State = [u32; 8];

/// HMAC-SHA-256 under one secret, over texts that begin alike: key and beginning are hashed once. Most values end in the
/// block in which they begin, and cost two blocks; through the crate `hmac`, whose states carry buffers that are copied and
/// filled for each value, they cost a third more. Whoever has the two states can make every tag, so they are wiped, and not
/// shown. Public for the benchmark alone, whose native mask hashes with it too.
pub struct Tagger {
    /// After the key and all whole blocks of the beginning.
    inner: State,
    /// After the key.
    outer: State,
    /// How the block after `inner` begins, zeros behind.
    begun: [u8; BLOCK],
    begun_len: usize,
    /// Bytes that `inner` has taken in.
    taken: u64,
}

impl Tagger {
    /// Tags of `prefix` and a value, back to back.
    pub fn new(secret: &[u8], prefix: &[u8]) -> Tagger {
        let mut key = zeroize::Zeroizing::new([0; BLOCK]);
        match key.get_mut(..secret.len()) {
            Some(start) => start.copy_from_slice(secret),
            None => key[..TAG_BYTES].copy_from_slice(&sha2::Sha256::digest(secret)),
        }
        let keyed = |pad: u8| {
            let mut state = START;
            let block = zeroize::Zeroizing::new(key.map(|byte| byte ^ pad));
            compress256(&mut state, std::slice::from_ref(&*block));
            state
        };
        let (mut inner, outer) = (keyed(INNER), keyed(OUTER));
        let (whole, rest) = prefix.as_chunks::<BLOCK>();
        compress256(&mut inner, whole);
        let mut begun = [0; BLOCK];
        begun[..rest.len()].copy_from_slice(rest);
        Tagger {
            inner,
            outer,
            begun,
            begun_len: rest.len(),
            taken: (BLOCK + whole.len() * BLOCK) as u64,
        }
    }

    /// Tags of a context, one zero byte, and a value.
    pub fn of_context(secret: &[u8], context: &str) -> Tagger {
        Tagger::new(secret, &[context.as_bytes(), &[0]].concat())
    }

    /// The tag of a value.
    pub fn tag(&self, value: &[u8]) -> [u8; TAG_BYTES] {
        let mut state = self.inner;
        let bits = (self.taken + (self.begun_len + value.len()) as u64) * 8;
        let mut block = self.begun;
        // The rest of the value that stands in `block`, which is not full, from `filled` on.
        let (mut filled, mut rest) = (self.begun_len, value);
        if let Some((first, after)) = rest.split_at_checked(BLOCK - filled) {
            block[filled..].copy_from_slice(first);
            let (whole, after) = after.as_chunks::<BLOCK>();
            compress256(&mut state, &[block]);
            compress256(&mut state, whole);
            block = [0; BLOCK];
            (filled, rest) = (0, after);
        }
        block[filled..filled + rest.len()].copy_from_slice(rest);
        filled += rest.len();
        block[filled] = 0x80;
        if filled >= LENGTH_AT {
            compress256(&mut state, &[block]);
            block = [0; BLOCK];
        }
        block[LENGTH_AT..].copy_from_slice(&bits.to_be_bytes());
        compress256(&mut state, &[block]);

        let mut block = [0; BLOCK];
        block[..TAG_BYTES].copy_from_slice(&bytes(state));
        block[TAG_BYTES] = 0x80;
        block[LENGTH_AT..].copy_from_slice(&(((BLOCK + TAG_BYTES) * 8) as u64).to_be_bytes());
        let mut state = self.outer;
        compress256(&mut state, &[block]);
        bytes(state)
    }
}

impl Drop for Tagger {
    fn drop(&mut self) {
        self.inner.zeroize();
        self.outer.zeroize();
    }
}

fn bytes(state: State) -> [u8; TAG_BYTES] {
    let mut bytes = [0; TAG_BYTES];
    let (words, _) = bytes.as_chunks_mut::<4>();
    for (to, word) in words.iter_mut().zip(state) {
        *to = word.to_be_bytes();
    }
    bytes
}

/// The tag of each value, back to back; zeros for NULL.
pub(super) fn tags(
    secret: &[u8],
    context: &str,
    cells: &Cells<'_>,
    call: &mut HostCall<'_>,
) -> wasmtime::Result<Vec<u8>> {
    let bytes = cells.rows.saturating_mul(TAG_BYTES);
    call.room_for(bytes)?;
    let tagger = Tagger::of_context(secret, context);
    let mut out = Vec::with_capacity(bytes);
    for row in 0..cells.rows {
        call.look_at_row(row)?;
        match cells.get(row) {
            Some(value) => out.extend_from_slice(&tagger.tag(value)),
            None => out.resize(out.len() + TAG_BYTES, 0),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hmac::{Hmac, KeyInit, Mac};

    use super::*;
    use crate::transform::cells::testing::column;
    use crate::transform::hostcall::testing::{bounded, within};
    use crate::transform::sandbox::DeadlinePassed;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// RFC 4231, sections 4.2 to 4.8; the fifth is cut to 128 bits there.
    #[test]
    fn tags_are_those_of_rfc_4231() {
        let counted: Vec<u8> = (1..=25).collect();
        let cases: [(&[u8], &[u8], &str); 7] = [
            (
                &[0x0b; 20],
                b"Hi There",
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 20],
                &[0xdd; 50],
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            ),
            (
                &counted,
                &[0xcd; 50],
                "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
            ),
            (&[0x0c; 20], b"Test With Truncation", "a3b6167473100ee06e0c796c2955552b"),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
            (
                &[0xaa; 131],
                b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to \
                  be hashed before being used by the HMAC algorithm.",
                "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
            ),
        ];
        for (key, data, expected) in cases {
            let whole = Tagger::new(key, b"").tag(data);
            assert_eq!(hex(&whole)[..expected.len()], *expected);
            // However much of it is the beginning.
            let (prefix, rest) = data.split_at(data.len() / 2);
            assert_eq!(Tagger::new(key, prefix).tag(rest), whole);
        }
    }

    /// Wherever the beginning, the value and the padding end in a block. Keys are shorter than a block, as long, and longer.
    #[test]
    fn tags_are_those_of_the_crate_hmac_whatever_the_lengths() {
        let bytes: Vec<u8> = (0..=255).collect();
        for key in [1, 63, 64, 65, 200] {
            let key = &bytes[..key];
            for prefix in [0, 1, 55, 56, 63, 64, 65, 130] {
                let tagger = Tagger::new(key, &bytes[..prefix]);
                for value in 0..=200 {
                    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(key).unwrap();
                    mac.update(&bytes[..prefix]);
                    mac.update(&bytes[..value]);
                    let expected: [u8; TAG_BYTES] = mac.finalize().into_bytes().into();
                    assert_eq!(tagger.tag(&bytes[..value]), expected, "{} {prefix} {value}", key.len());
                }
            }
        }
    }

    /// The expected values come from Python: `hmac.new(b"0123456789abcdef", b"ctx\0anna", "sha256").hexdigest()`.
    #[test]
    fn tags_are_those_of_another_implementation() {
        let column = column(Some(vec![0b101]), &[0, 4, 4, 4], b"anna");
        let cells = Cells::new(3, &column).unwrap();
        let tags = bounded(|call| tags(b"0123456789abcdef", "ctx", &cells, call)).unwrap();
        let hex = hex(&tags);
        assert_eq!(
            &hex[..64],
            "2cd9246e6a268dfafd883c0ebee20695009852d4c949a1cdf95087f876cc5e03"
        );
        assert_eq!(hex[64..128], "0".repeat(64));
        assert_eq!(
            &hex[128..],
            "d511504374d9f86a3ceb702bcb8755a75ef27feb694167741e2593eb5a4cebfe"
        );
    }

    #[test]
    fn the_deadline_and_the_memory_limit_hold_inside_the_host_too() {
        let column = column(None, &[0, 1], b"a");
        let cells = Cells::new(1, &column).unwrap();
        let late = within(Duration::ZERO, 1 << 20, |call| tags(&[0; 16], "", &cells, call));
        assert!(late.unwrap_err().is::<DeadlinePassed>());
        within(Duration::from_secs(60), 31, |call| {
            assert!(tags(&[0; 16], "", &cells, call).is_err());
            assert!(call.limiter.memory_refused());
        });
        assert!(within(Duration::from_secs(60), 32, |call| tags(&[0; 16], "", &cells, call)).is_ok());
    }
}
