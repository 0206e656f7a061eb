//! Text from the wire: UTF-16 for `n` types, a code page or UTF-8 for the others. An invalid sequence becomes U+FFFD and
//! is counted; it never ends a stream.

use encoding_rs::Encoding;
use mssql_tds::datatypes::sql_string::ResolvedEncoding;

/// How the bytes of a text value are encoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TextEncoding {
    /// UTF-16, little-endian.
    Utf16,
    /// UTF-8.
    Utf8,
    /// A code page. UTF-8 among these is taken as [`TextEncoding::Utf8`].
    CodePage(&'static Encoding),
    /// Code page 437 or 850, which `encoding_rs` does not have. Each of their bytes is a character.
    Oem(ResolvedEncoding),
}

/// Appends the text as UTF-8. Whether something had to be replaced.
pub(super) fn append(out: &mut Vec<u8>, bytes: &[u8], encoding: TextEncoding) -> bool {
    match encoding {
        TextEncoding::Utf16 => append_utf16(out, bytes),
        TextEncoding::Utf8 => append_utf8(out, bytes),
        TextEncoding::CodePage(page) if page == encoding_rs::UTF_8 => append_utf8(out, bytes),
        TextEncoding::CodePage(page) => {
            if bytes.is_ascii() && page.is_ascii_compatible() {
                out.extend_from_slice(bytes);
                return false;
            }
            let (text, replaced) = page.decode_without_bom_handling(bytes);
            out.extend_from_slice(text.as_bytes());
            replaced
        }
        TextEncoding::Oem(page) => {
            let (text, replaced) = page.decode_without_bom_handling(bytes);
            out.extend_from_slice(text.as_bytes());
            replaced
        }
    }
}

fn append_utf8(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => {
            out.extend_from_slice(bytes);
            false
        }
        Err(_) => {
            out.extend_from_slice(String::from_utf8_lossy(bytes).as_bytes());
            true
        }
    }
}

fn append_utf16(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let units = bytes.chunks_exact(2);
    let odd = !units.remainder().is_empty();
    // Most text is ASCII: one pass of OR tells, and the compiler turns both passes into vector code.
    let union = units
        .clone()
        .fold(0u16, |union, unit| union | u16::from_le_bytes([unit[0], unit[1]]));
    if union < 0x80 {
        out.extend(units.map(|unit| unit[0]));
    } else {
        out.reserve(bytes.len());
        let mut replaced = false;
        let mut buffer = [0; 4];
        for unit in char::decode_utf16(units.map(|unit| u16::from_le_bytes([unit[0], unit[1]]))) {
            let character = unit.unwrap_or_else(|_| {
                replaced = true;
                char::REPLACEMENT_CHARACTER
            });
            out.extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
        }
        if replaced {
            return true;
        }
    }
    if odd {
        out.extend_from_slice(char::REPLACEMENT_CHARACTER.encode_utf8(&mut [0; 4]).as_bytes());
    }
    odd
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8], encoding: TextEncoding) -> (String, bool) {
        let mut out = Vec::new();
        let replaced = append(&mut out, bytes, encoding);
        (String::from_utf8(out).unwrap(), replaced)
    }

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn utf16_keeps_supplementary_characters() {
        for text in ["", "plain", "naïve", "日本", "a😀b", "\u{FEFF}x"] {
            assert_eq!(decode(&utf16(text), TextEncoding::Utf16), (text.to_owned(), false));
        }
    }

    #[test]
    fn broken_utf16_is_replaced_and_counted() {
        let mut lone = utf16("ab");
        lone.extend_from_slice(&0xD800u16.to_le_bytes());
        assert_eq!(decode(&lone, TextEncoding::Utf16), ("ab\u{FFFD}".to_owned(), true));
        assert_eq!(decode(b"a\0b", TextEncoding::Utf16), ("a\u{FFFD}".to_owned(), true));
    }

    #[test]
    fn code_pages_and_broken_utf8() {
        let latin = TextEncoding::CodePage(encoding_rs::WINDOWS_1252);
        assert_eq!(decode(b"caf\xE9 \x80", latin), ("café €".to_owned(), false));
        assert_eq!(decode(b"\xFF\xFEa", latin), ("ÿþa".to_owned(), false));
        assert_eq!(decode(b"a\xFFb", TextEncoding::Utf8), ("a\u{FFFD}b".to_owned(), true));
        let japanese = TextEncoding::CodePage(encoding_rs::SHIFT_JIS);
        assert_eq!(decode(b"\x93\xFA\x96", japanese), ("日\u{FFFD}".to_owned(), true));
        for page in [ResolvedEncoding::Oem437, ResolvedEncoding::Oem850] {
            let (text, replaced) = decode(&(0..=255).collect::<Vec<u8>>(), TextEncoding::Oem(page));
            assert_eq!((text.chars().count(), replaced), (256, false));
        }
    }
}
