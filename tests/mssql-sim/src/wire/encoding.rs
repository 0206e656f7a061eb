//! Character data: UTF-16LE for `n` types, the code page of a collation for the others.

use mssql_sim_engine::{CodePage, Collation, encode_utf16};

/// The stand-in's own collation, `SQL_Latin1_General_CP1_CI_AS`: LCID 1033, ignore case, kana and width, sort id 52.
pub(crate) const COLLATION: [u8; 5] = [0x09, 0x04, 0xD0, 0x00, 0x34];

/// Appends `text` as UTF-16LE.
pub(crate) fn put_utf16(out: &mut Vec<u8>, text: &str) {
    encode_utf16(text, out);
}

/// Appends `text` in a code page; a character that it does not have becomes `?`.
pub(crate) fn put_code_page(out: &mut Vec<u8>, text: &str, page: CodePage) {
    page.encode(text, out);
}

/// Decodes `varchar` bytes that a client sent under `collation`.
pub(crate) fn decode_code_page(bytes: &[u8], collation: [u8; 5]) -> String {
    Collation::of_wire(collation).page.decode(bytes)
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
        let page = Collation::default().page;
        let mut out = Vec::new();
        put_code_page(&mut out, "€ü漢😀z", page);
        assert_eq!(out, [0x80, 0xFC, b'?', b'?', b'?', b'z']);
        let mut long = Vec::new();
        put_code_page(&mut long, &"é".repeat(1000), page);
        assert_eq!(long, vec![0xE9; 1000]);
    }

    #[test]
    fn a_utf8_collation_is_decoded_as_utf8() {
        assert_eq!(decode_code_page("ü".as_bytes(), [9, 4, 0, 4, 0]), "ü");
        assert_eq!(decode_code_page(&[0xFC], COLLATION), "ü");
    }
}
