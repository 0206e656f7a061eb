//! `hash-output`: a column of keyed hashes, written as texts, that the component does not see.

use arrow::array::StringArray;
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use data_encoding::{Encoding, Specification};

use super::hmac::{TAG_BYTES, Tagger};
use crate::transform::bindings::v0_2::sluice::transform::keyed::DigestText;
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

    /// Appends the text of a digest.
    pub fn write(&self, tag: &[u8; TAG_BYTES], to: &mut Vec<u8>) {
        to.extend_from_slice(self.prefix.as_bytes());
        match &self.base32 {
            Some(base32) => {
                let mut characters = [0; BASE32];
                base32.encode_mut(tag, &mut characters);
                to.extend_from_slice(&characters[..self.length]);
            }
            None => {
                let mut digits = [0; MOST_DIGITS];
                // Fails for another length alone.
                let _ = const_hex::encode_to_slice(tag, &mut digits);
                to.extend_from_slice(&digits[..self.length]);
            }
        }
    }
}

/// The text of the tag of each value; NULL for NULL.
pub(super) fn texts(
    secret: &[u8],
    context: &str,
    text: &TagText,
    cells: &Cells<'_>,
    call: &HostCall<'_>,
) -> wasmtime::Result<StringArray> {
    let tagger = Tagger::of_context(secret, context);
    let mut values = Vec::with_capacity(cells.rows.saturating_mul(text.bytes()));
    let mut offsets = Vec::with_capacity(cells.rows + 1);
    offsets.push(0);
    for row in 0..cells.rows {
        call.look_at_row(row)?;
        if let Some(value) = cells.get(row) {
            text.write(&tagger.tag(value), &mut values);
        }
        let end = i32::try_from(values.len());
        offsets.push(end.map_err(|_| wasmtime::Error::msg("the texts of a column are longer than 2 GiB"))?);
    }
    let nulls = cells
        .validity()
        .map(|bits| NullBuffer::new(BooleanBuffer::new(Buffer::from(bits), 0, cells.rows)));
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    StringArray::try_new(offsets, Buffer::from_vec(values), nulls)
        .map_err(|error| wasmtime::Error::msg(format!("the texts make no column: {error}")))
}
