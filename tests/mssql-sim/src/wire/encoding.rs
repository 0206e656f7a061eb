//! Character data: UTF-16LE for `n` types, code page 1252 for the others.

use encoding_rs::{EncoderResult, WINDOWS_1252};

/// The stand-in's only collation, `SQL_Latin1_General_CP1_CI_AS`: LCID 1033, ignore case, kana and width, sort id 52.
pub(crate) const COLLATION: [u8; 5] = [0x09, 0x04, 0xD0, 0x00, 0x34];

/// The bit of a collation that says that `varchar` is UTF-8.
const COLLATION_UTF8: u8 = 0x04;

/// Appends `text` as UTF-16LE.
pub(crate) fn put_utf16(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() * 2);
    if text.is_ascii() {
        out.extend(text.bytes().flat_map(|byte| [byte, 0]));
    } else {
        out.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
    }
}

/// Appends `text` in code page 1252; a character that it does not have becomes `?`.
pub(crate) fn put_code_page(out: &mut Vec<u8>, text: &str) {
    if text.is_ascii() {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let mut encoder = WINDOWS_1252.new_encoder();
    let mut rest = text;
    let mut chunk = [0_u8; 256];
    while !rest.is_empty() {
        let (result, read, written) = encoder.encode_from_utf8_without_replacement(rest, &mut chunk, true);
        out.extend_from_slice(&chunk[..written]);
        if let EncoderResult::Unmappable(character) = result {
            // A supplementary character is two characters to SQL Server's single-byte conversion.
            out.extend(std::iter::repeat_n(b'?', character.len_utf16()));
        }
        rest = &rest[read..];
    }
}

/// Decodes `varchar` bytes that a client sent under `collation`.
pub(crate) fn decode_code_page(bytes: &[u8], collation: [u8; 5]) -> String {
    if collation[3] & COLLATION_UTF8 != 0 {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    WINDOWS_1252.decode_without_bom_handling(bytes).0.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf16_carries_supplementary_characters() {
        let mut out = Vec::new();
        put_utf16(&mut out, "a😀");
        assert_eq!(out, [0x61, 0, 0x3D, 0xD8, 0x00, 0xDE]);
    }

    #[test]
    fn what_the_code_page_lacks_is_a_question_mark() {
        let mut out = Vec::new();
        put_code_page(&mut out, "€ü漢😀z");
        assert_eq!(out, [0x80, 0xFC, b'?', b'?', b'?', b'z']);
        let mut long = Vec::new();
        put_code_page(&mut long, &"é".repeat(1000));
        assert_eq!(long, vec![0xE9; 1000]);
    }

    #[test]
    fn a_utf8_collation_is_decoded_as_utf8() {
        assert_eq!(decode_code_page("ü".as_bytes(), [9, 4, 0, 4, 0]), "ü");
        assert_eq!(decode_code_page(&[0xFC], COLLATION), "ü");
    }
}
