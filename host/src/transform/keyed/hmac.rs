//! `hmac-sha256`, and the tags that the other functions begin with.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::transform::cells::Cells;
use crate::transform::hostcall::HostCall;

/// Bytes of one HMAC-SHA-256.
pub(super) const TAG_BYTES: usize = 32;

/// HMAC-SHA-256 under one secret, over texts that begin alike: the beginning is hashed once.
pub(super) struct Tagger(Hmac<Sha256>);

impl Tagger {
    /// Tags of `prefix` and a value, back to back.
    pub(super) fn new(secret: &[u8], prefix: &[u8]) -> wasmtime::Result<Tagger> {
        let mut begun = Hmac::<Sha256>::new_from_slice(secret)
            .map_err(|_| wasmtime::Error::msg("the key does not fit HMAC-SHA-256"))?;
        begun.update(prefix);
        Ok(Tagger(begun))
    }

    /// Tags of a context, one zero byte, and a value.
    pub(super) fn of_context(secret: &[u8], context: &str) -> wasmtime::Result<Tagger> {
        let mut tagger = Tagger::new(secret, context.as_bytes())?;
        tagger.0.update(&[0]);
        Ok(tagger)
    }

    pub(super) fn tag(&self, value: &[u8]) -> [u8; TAG_BYTES] {
        let mut mac = self.0.clone();
        mac.update(value);
        mac.finalize().into_bytes().into()
    }
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
    let tagger = Tagger::of_context(secret, context)?;
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
            let whole = Tagger::new(key, b"").unwrap().tag(data);
            assert_eq!(hex(&whole)[..expected.len()], *expected);
            // However much of it is the beginning.
            let (prefix, rest) = data.split_at(data.len() / 2);
            assert_eq!(Tagger::new(key, prefix).unwrap().tag(rest), whole);
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
