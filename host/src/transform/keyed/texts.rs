//! `hash-output`: a column of keyed hashes, written as texts, that the component does not see.

use arrow::array::StringArray;
use arrow::buffer::{Buffer, OffsetBuffer};
use data_encoding::{Encoding, Specification};

use super::hmac::{TAG_BYTES, Tagger};
use crate::transform::bindings::v0_3::sluice::transform::keyed::DigestText;
use crate::transform::cells::Cells;
use crate::transform::hostcall::HostCall;

/// Digits and lower-case letters without i, l, o and u.
const ALPHABET: &str = "0123456789abcdefghjkmnpqrstvwxyz";
const MOST_DIGITS: usize = TAG_BYTES * 2;
/// They use up 255 bits of a digest.
const MOST_CHARACTERS: usize = TAG_BYTES * 8 / 5;
const MOST_PREFIX_BYTES: usize = 256;
/// The characters of a whole digest, of which the last has one bit and is never taken.
const BASE32: usize = (TAG_BYTES * 8).div_ceil(5);

/// How a digest is written.
pub struct TagText {
    prefix: String,
    length: usize,
    /// Hexadecimal where there is none.
    base32: Option<Encoding>,
}

impl TagText {
    /// `None` where it would have no characters, more than a digest has, or a prefix that is too long.
    pub(super) fn new(text: DigestText) -> Option<TagText> {
        let (prefix, length, most) = match text {
            DigestText::Hex(digits) => return TagText::hex(digits as usize),
            DigestText::Base32(text) => (text.prefix, text.length as usize, MOST_CHARACTERS),
        };
        let mut letters = Specification::new();
        letters.symbols.push_str(ALPHABET);
        let base32 = letters.encoding().ok()?;
        ((1..=most).contains(&length) && prefix.len() <= MOST_PREFIX_BYTES).then_some(TagText {
            prefix,
            length,
            base32: Some(base32),
        })
    }

    /// So many hexadecimal digits.
    pub fn hex(digits: usize) -> Option<TagText> {
        (1..=MOST_DIGITS).contains(&digits).then(|| TagText {
            prefix: String::new(),
            length: digits,
            base32: None,
        })
    }

    /// Bytes of every text.
    pub fn bytes(&self) -> usize {
        self.prefix.len() + self.length
    }

    /// Appends the text of a digest: [`TagText::bytes`] of UTF-8.
    pub fn append(&self, tag: &[u8; TAG_BYTES], to: &mut Vec<u8>) {
        let Some(base32) = &self.base32 else {
            let mut digits = const_hex::Buffer::<TAG_BYTES>::new();
            return to.extend_from_slice(&digits.format(tag).as_bytes()[..self.length]);
        };
        let mut characters = [0; BASE32];
        // As many bytes as the characters are made of.
        let from = &tag[..(self.length * 5).div_ceil(8)];
        base32.encode_mut(from, &mut characters[..(from.len() * 8).div_ceil(5)]);
        to.extend_from_slice(self.prefix.as_bytes());
        to.extend_from_slice(&characters[..self.length]);
    }
}

/// The text of the tag of each value; NULL for NULL. All texts together have `bytes`.
pub(super) fn texts(
    secret: &[u8],
    context: &str,
    text: &TagText,
    cells: &Cells<'_>,
    bytes: usize,
    call: &HostCall<'_>,
) -> wasmtime::Result<StringArray> {
    let tagger = Tagger::of_context(secret, context);
    let mut values = Vec::with_capacity(bytes);
    for row in 0..cells.rows {
        call.look_at_row(row)?;
        if let Some(value) = cells.get(row) {
            text.append(&tagger.tag(value), &mut values);
        }
    }
    let nulls = cells.nulls();
    let length = |row| if cells.is_valid(row) { text.bytes() } else { 0 };
    let offsets = match &nulls {
        None => OffsetBuffer::from_repeated_length(text.bytes(), cells.rows),
        Some(_) => OffsetBuffer::from_lengths((0..cells.rows).map(length)),
    };
    Ok(StringArray::try_new(offsets, Buffer::from_vec(values), nulls)?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::transform::bindings::v0_3::sluice::transform::keyed::Base32Text;
    use crate::transform::cells::testing::texts as column;
    use crate::transform::hostcall::testing::{bounded, within};
    use crate::transform::sandbox::DeadlinePassed;

    fn base32(prefix: &str, length: u32) -> DigestText {
        DigestText::Base32(Base32Text {
            prefix: prefix.to_owned(),
            length,
        })
    }

    fn of(text: DigestText) -> Vec<Option<String>> {
        let column = column(&[Some("anna"), None, Some("")]);
        let cells = Cells::new(3, &column).unwrap();
        let text = TagText::new(text).unwrap();
        let texts = bounded(|call| texts(b"0123456789abcdef", "ctx", &text, &cells, 2 * text.bytes(), call)).unwrap();
        texts.iter().map(|text| text.map(str::to_owned)).collect()
    }

    fn texts_of(texts: &[Option<&str>]) -> Vec<Option<String>> {
        texts.iter().map(|text| text.map(str::to_owned)).collect()
    }

    /// From Python: `hmac.new(b"0123456789abcdef", b"ctx\0anna", "sha256").hexdigest()`, and the same digest in base 32:
    /// `"".join("0123456789abcdefghjkmnpqrstvwxyz"[n >> 5 * (50 - i) + 1 & 31] for i in range(51))`.
    #[test]
    fn texts_are_those_of_another_implementation() {
        assert_eq!(
            of(DigestText::Hex(64)),
            texts_of(&[
                Some("2cd9246e6a268dfafd883c0ebee20695009852d4c949a1cdf95087f876cc5e03"),
                None,
                Some("d511504374d9f86a3ceb702bcb8755a75ef27feb694167741e2593eb5a4cebfe"),
            ])
        );
        assert_eq!(of(DigestText::Hex(5)), texts_of(&[Some("2cd92"), None, Some("d5115")]));
        assert_eq!(
            of(base32("é-", 51)),
            texts_of(&[
                Some("é-5kcj8vka4t6znzc87g7bxrg6jm09gmpms54t3kfsa23zgxpcbr1"),
                None,
                Some("é-tm8n0gvmv7w6mf7be0nwq1tnmxff4zzbd50pex0y4p9yppjcxfz"),
            ])
        );
        assert_eq!(of(base32("", 1)), texts_of(&[Some("5"), None, Some("t")]));
        // A shorter text is the beginning of a longer one.
        for length in 1..=51 {
            let (short, whole) = (of(base32("", length)), of(base32("", 51)));
            let cut = whole
                .iter()
                .map(|text| text.as_ref().map(|text| text[..length as usize].to_owned()));
            assert_eq!(short, cut.collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_deadline_holds_inside_the_host_too() {
        let column = column(&[Some("anna")]);
        let cells = Cells::new(1, &column).unwrap();
        let text = TagText::hex(64).unwrap();
        let late = within(Duration::ZERO, 1 << 20, |call| {
            texts(&[0; 16], "", &text, &cells, 64, call)
        });
        assert!(late.unwrap_err().is::<DeadlinePassed>());
    }

    #[test]
    fn lengths_that_no_digest_has_are_refused() {
        for text in [
            DigestText::Hex(0),
            DigestText::Hex(65),
            base32("", 0),
            base32("", 52),
            base32(&"p".repeat(257), 16),
        ] {
            assert!(TagText::new(text).is_none());
        }
        assert_eq!(TagText::new(base32(&"p".repeat(256), 16)).unwrap().bytes(), 272);
    }
}
