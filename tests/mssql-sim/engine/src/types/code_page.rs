//! Collations by name, and text in their code pages.
//!
//! A text holds what a column was given, valid or not: a UTF-16 unit that is half of a pair, and a byte that its code page does
//! not have, are kept as characters of a private plane ([`lone_unit`], [`raw_byte`]) and leave as they came. Those characters
//! themselves cannot be stored.

use encoding_rs::{DecoderResult, EncoderResult, Encoding};

/// A code page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CodePage {
    /// One that `encoding_rs` has.
    Known(&'static Encoding),
    /// The upper half of a table of 256 characters.
    Table(&'static str),
    /// 65001.
    Utf8,
}

/// A collation, as far as the stand-in knows it: how text is encoded, and how TDS names it. Comparisons are the same under
/// all of them, but for those with `_BIN` and `_CS` in a COLLATE clause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Collation {
    /// How text is encoded.
    pub page: CodePage,
    /// Locale, flags and sort id.
    pub wire: [u8; 5],
}

/// The collation of databases and of everything that says nothing else.
pub const DEFAULT_COLLATION: &str = "SQL_Latin1_General_CP1_CI_AS";

const CP437: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";
const CP850: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜø£Ø×ƒáíóúñÑªº¿®¬½¼¡«»░▒▓│┤ÁÂÀ©╣║╗╝¢¥┐└┴┬├─┼ãÃ╚╔╩╦╠═╬¤ðÐÊËÈıÍÎÏ┘┌█▄¦Ì▀ÓßÔÒõÕµþÞÚÛÙýÝ¯´\u{ad}±‗¾¶§÷¸°¨·¹³²■\u{a0}";

/// SQL collations: what stands before the suffix, the locale, and the sort ids of `_BIN`, `_CS_AS`, `_CI_AS` and `_CI_AI`; 0
/// where there is none.
const SQL_COLLATIONS: &[(&str, u32, [u8; 4])] = &[
    ("SQL_LATIN1_GENERAL_CP1", 0x0409, [0, 51, 52, 54]),
    ("SQL_LATIN1_GENERAL_CP437", 0x0409, [30, 31, 32, 34]),
    ("SQL_LATIN1_GENERAL_CP850", 0x0409, [40, 41, 42, 44]),
    ("SQL_LATIN1_GENERAL_CP1250", 0x0409, [0, 81, 82, 0]),
    ("SQL_LATIN1_GENERAL_CP1251", 0x0409, [0, 105, 106, 0]),
    ("SQL_LATIN1_GENERAL_CP1253", 0x0409, [0, 113, 114, 124]),
    ("SQL_LATIN1_GENERAL_CP1254", 0x0409, [0, 129, 130, 0]),
    ("SQL_LATIN1_GENERAL_CP1255", 0x0409, [0, 137, 138, 0]),
    ("SQL_LATIN1_GENERAL_CP1256", 0x0409, [0, 145, 146, 0]),
    ("SQL_LATIN1_GENERAL_CP1257", 0x0409, [0, 153, 154, 0]),
];

/// Windows collations: what stands before the suffix, the locale with its sort order, and the code page.
const WINDOWS_COLLATIONS: &[(&str, u32, u16)] = &[
    ("ALBANIAN", 0x041C, 1250),
    ("ARABIC", 0x0401, 1256),
    ("BOSNIAN_LATIN", 0x141A, 1250),
    ("CHINESE_PRC", 0x0804, 936),
    ("CHINESE_PRC_STROKE", 0x2_0804, 936),
    ("CHINESE_TAIWAN_BOPOMOFO", 0x3_0404, 950),
    ("CHINESE_TAIWAN_STROKE", 0x0404, 950),
    ("CROATIAN", 0x041A, 1250),
    ("CYRILLIC_GENERAL", 0x0419, 1251),
    ("CZECH", 0x0405, 1250),
    ("DANISH_NORWEGIAN", 0x0406, 1252),
    ("ESTONIAN", 0x0425, 1257),
    ("FINNISH_SWEDISH", 0x040B, 1252),
    ("FRENCH", 0x040C, 1252),
    ("GERMAN_PHONEBOOK", 0x1_0407, 1252),
    ("GREEK", 0x0408, 1253),
    ("HEBREW", 0x040D, 1255),
    ("HUNGARIAN", 0x040E, 1250),
    ("HUNGARIAN_TECHNICAL", 0x1_040E, 1250),
    ("ICELANDIC", 0x040F, 1252),
    ("JAPANESE", 0x0411, 932),
    ("JAPANESE_UNICODE", 0x1_0411, 932),
    ("JAPANESE_XJIS", 0x0411, 932),
    ("KOREAN_WANSUNG", 0x0412, 949),
    ("LATIN1_GENERAL", 0x0409, 1252),
    ("LATVIAN", 0x0426, 1257),
    ("LITHUANIAN", 0x0427, 1257),
    ("MODERN_SPANISH", 0x0C0A, 1252),
    ("POLISH", 0x0415, 1250),
    ("ROMANIAN", 0x0418, 1250),
    ("SERBIAN_CYRILLIC", 0x0C1A, 1251),
    ("SERBIAN_LATIN", 0x081A, 1250),
    ("SLOVAK", 0x041B, 1250),
    ("SLOVENIAN", 0x0424, 1250),
    ("THAI", 0x041E, 874),
    ("TURKISH", 0x041F, 1254),
    ("UKRAINIAN", 0x0422, 1251),
    ("VIETNAMESE", 0x042A, 1258),
];

const IGNORE_CASE: u32 = 1 << 20;
const IGNORE_ACCENT: u32 = 1 << 21;
const IGNORE_KANA: u32 = 1 << 22;
const IGNORE_WIDTH: u32 = 1 << 23;
const BINARY: u32 = 1 << 24;
const BINARY2: u32 = 1 << 25;
const UTF8: u32 = 1 << 26;

impl Collation {
    /// A collation by name, without case. `None`: the stand-in does not have it, though SQL Server may.
    pub fn of_name(name: &str) -> Option<Collation> {
        let upper = name.to_ascii_uppercase();
        let (base, suffix) = split_suffix(&upper);
        let flags = flags(&suffix)?;
        if let Some((_, lcid, ids)) = SQL_COLLATIONS.iter().find(|(own, ..)| *own == base) {
            let at = match suffix.as_slice() {
                ["BIN"] => 0,
                ["CS", "AS"] => 1,
                ["CI", "AS"] => 2,
                ["CI", "AI"] => 3,
                _ => return None,
            };
            let sort_id = Some(ids[at]).filter(|id| *id != 0)?;
            return Some(Collation {
                page: CodePage::of_number(of_sort_id(sort_id)?)?,
                wire: wire(lcid | flags, sort_id),
            });
        }
        let (_, lcid, page) = WINDOWS_COLLATIONS.iter().find(|(own, ..)| *own == base)?;
        let page = if flags & UTF8 != 0 {
            CodePage::Utf8
        } else {
            CodePage::of_number(*page)?
        };
        Some(Collation {
            page,
            wire: wire(lcid | flags, 0),
        })
    }

    /// The collation that a parameter names in TDS; the default one for what the stand-in does not have.
    pub fn of_wire(wire: [u8; 5]) -> Collation {
        let info = u32::from_le_bytes([wire[0], wire[1], wire[2], wire[3]]);
        let lcid = info & 0xF_FFFF;
        let page = if info & UTF8 != 0 {
            Some(CodePage::Utf8)
        } else {
            of_sort_id(wire[4])
                .or_else(|| {
                    WINDOWS_COLLATIONS
                        .iter()
                        .find(|(_, own, _)| *own == lcid)
                        .map(|(.., page)| *page)
                })
                .and_then(CodePage::of_number)
        };
        match page {
            Some(page) => Collation { page, wire },
            None => Collation::default(),
        }
    }
}

impl Default for Collation {
    /// `SQL_Latin1_General_CP1_CI_AS`.
    fn default() -> Collation {
        Collation {
            page: CodePage::Known(encoding_rs::WINDOWS_1252),
            wire: [0x09, 0x04, 0xD0, 0x00, 0x34],
        }
    }
}

/// A name's parts: base, and what says how it compares.
fn split_suffix(upper: &str) -> (String, Vec<&str>) {
    let parts: Vec<&str> = upper.split('_').collect();
    let is_suffix = |part: &&str| {
        matches!(
            *part,
            "BIN" | "BIN2" | "CI" | "CS" | "AI" | "AS" | "KS" | "WS" | "SC" | "VSS" | "UTF8" | "90" | "100" | "140"
        )
    };
    let at = parts.iter().position(is_suffix).unwrap_or(parts.len());
    (parts[..at].join("_"), parts[at..].to_vec())
}

/// The flags of a suffix; `None` without one, which no collation is.
fn flags(suffix: &[&str]) -> Option<u32> {
    let has = |part: &str| suffix.contains(&part);
    let version = match *suffix.first()? {
        "90" => 1 << 28,
        "100" => 2 << 28,
        "140" => 3 << 28,
        _ => 0,
    };
    let utf8 = if has("UTF8") { UTF8 } else { 0 };
    let order = if has("BIN2") {
        BINARY2
    } else if has("BIN") {
        BINARY
    } else if has("CI") || has("CS") {
        let mut flags = 0;
        for (unless, flag) in [
            ("CS", IGNORE_CASE),
            ("AS", IGNORE_ACCENT),
            ("KS", IGNORE_KANA),
            ("WS", IGNORE_WIDTH),
        ] {
            if !has(unless) {
                flags |= flag;
            }
        }
        flags
    } else {
        return None;
    };
    Some(version | utf8 | order)
}

fn wire(info: u32, sort_id: u8) -> [u8; 5] {
    let [a, b, c, d] = info.to_le_bytes();
    [a, b, c, d, sort_id]
}

fn of_sort_id(sort_id: u8) -> Option<u16> {
    Some(match sort_id {
        30..=34 => 437,
        40..=44 => 850,
        50..=54 => 1252,
        80..=97 => 1250,
        104..=108 => 1251,
        112..=124 => 1253,
        128..=130 => 1254,
        136..=138 => 1255,
        144..=146 => 1256,
        152..=160 => 1257,
        _ => return None,
    })
}

impl CodePage {
    fn of_number(number: u16) -> Option<CodePage> {
        Some(CodePage::Known(match number {
            437 => return Some(CodePage::Table(CP437)),
            850 => return Some(CodePage::Table(CP850)),
            874 => encoding_rs::WINDOWS_874,
            932 => encoding_rs::SHIFT_JIS,
            936 => encoding_rs::GBK,
            949 => encoding_rs::EUC_KR,
            950 => encoding_rs::BIG5,
            1250 => encoding_rs::WINDOWS_1250,
            1251 => encoding_rs::WINDOWS_1251,
            1252 => encoding_rs::WINDOWS_1252,
            1253 => encoding_rs::WINDOWS_1253,
            1254 => encoding_rs::WINDOWS_1254,
            1255 => encoding_rs::WINDOWS_1255,
            1256 => encoding_rs::WINDOWS_1256,
            1257 => encoding_rs::WINDOWS_1257,
            1258 => encoding_rs::WINDOWS_1258,
            _ => return None,
        }))
    }

    /// Appends a text. What the code page does not have becomes `?`, one for each UTF-16 unit.
    pub fn encode(self, text: &str, out: &mut Vec<u8>) {
        if text.is_ascii() {
            return out.extend_from_slice(text.as_bytes());
        }
        let replace = |character: char, out: &mut Vec<u8>| match as_raw_byte(character) {
            Some(byte) => out.push(byte),
            None => out.extend(std::iter::repeat_n(b'?', units_of(character))),
        };
        match self {
            CodePage::Known(encoding) => {
                let mut encoder = encoding.new_encoder();
                let mut rest = text;
                let mut chunk = [0_u8; 256];
                while !rest.is_empty() {
                    let (result, read, written) = encoder.encode_from_utf8_without_replacement(rest, &mut chunk, true);
                    out.extend_from_slice(&chunk[..written]);
                    if let EncoderResult::Unmappable(character) = result {
                        replace(character, out);
                    }
                    rest = &rest[read..];
                }
            }
            CodePage::Table(table) => {
                for character in text.chars() {
                    match table.chars().position(|own| own == character) {
                        _ if character.is_ascii() => out.push(character as u8),
                        Some(at) => out.push(at as u8 + 0x80),
                        None => replace(character, out),
                    }
                }
            }
            CodePage::Utf8 => {
                for character in text.chars() {
                    if as_raw_byte(character).is_some() || as_lone_unit(character).is_some() {
                        replace(character, out);
                    } else {
                        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                    }
                }
            }
        }
    }

    /// The text of some bytes. What is no character there stays as it is.
    pub fn decode(self, bytes: &[u8]) -> String {
        match self {
            CodePage::Known(encoding) => {
                let mut decoder = encoding.new_decoder_without_bom_handling();
                let mut text = String::with_capacity(bytes.len() * 3 + 16);
                let mut at = 0;
                loop {
                    text.reserve((bytes.len() - at) * 3 + 16);
                    let (result, read) = decoder.decode_to_string_without_replacement(&bytes[at..], &mut text, true);
                    at += read;
                    match result {
                        DecoderResult::InputEmpty => return text,
                        DecoderResult::OutputFull => {}
                        DecoderResult::Malformed(length, after) => {
                            let end = at.saturating_sub(usize::from(after));
                            let start = end.saturating_sub(usize::from(length));
                            text.extend(bytes[start..end].iter().map(|byte| raw_byte(*byte)));
                        }
                    }
                }
            }
            CodePage::Table(table) => bytes
                .iter()
                .map(|byte| match byte.checked_sub(0x80) {
                    Some(at) => table.chars().nth(usize::from(at)).unwrap_or('?'),
                    None => char::from(*byte),
                })
                .collect(),
            CodePage::Utf8 => {
                let mut text = String::with_capacity(bytes.len());
                for chunk in bytes.utf8_chunks() {
                    text.push_str(chunk.valid());
                    text.extend(chunk.invalid().iter().map(|byte| raw_byte(*byte)));
                }
                text
            }
        }
    }

    /// The text as the code page can hold it.
    pub fn hold(self, text: String) -> String {
        if text.is_ascii() || self == CodePage::Utf8 {
            return text;
        }
        let mut bytes = Vec::with_capacity(text.len());
        self.encode(&text, &mut bytes);
        self.decode(&bytes)
    }

    /// Bytes of a text.
    pub fn length(self, text: &str) -> usize {
        if text.is_ascii() {
            return text.len();
        }
        let mut bytes = Vec::with_capacity(text.len());
        self.encode(text, &mut bytes);
        bytes.len()
    }
}

const LONE_UNITS: u32 = 0x10_F000;
const RAW_BYTES: u32 = 0x10_F800;

/// A UTF-16 unit that is half of a pair, as a character.
pub fn lone_unit(unit: u16) -> char {
    char::from_u32(LONE_UNITS + (u32::from(unit) & 0x7FF)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The unit that a character stands for.
pub fn as_lone_unit(character: char) -> Option<u16> {
    let offset = (character as u32).checked_sub(LONE_UNITS)?;
    (offset < 0x800).then_some(0xD800 + offset as u16)
}

/// A byte that its code page does not have, as a character.
pub fn raw_byte(byte: u8) -> char {
    if byte.is_ascii() {
        return char::from(byte);
    }
    char::from_u32(RAW_BYTES + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte that a character stands for.
pub fn as_raw_byte(character: char) -> Option<u8> {
    let offset = (character as u32).checked_sub(RAW_BYTES)?;
    u8::try_from(offset).ok()
}

/// UTF-16 units of a character.
pub fn units_of(character: char) -> usize {
    if as_lone_unit(character).is_some() || as_raw_byte(character).is_some() {
        return 1;
    }
    character.len_utf16()
}

/// Decodes UTF-16, little-endian. Half a pair stays as it is; an odd byte at the end is dropped.
pub fn decode_utf16(bytes: &[u8]) -> String {
    let units = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    char::decode_utf16(units)
        .map(|unit| unit.unwrap_or_else(|error| lone_unit(error.unpaired_surrogate())))
        .collect()
}

/// Appends a text as UTF-16, little-endian.
pub fn encode_utf16(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() * 2);
    if text.is_ascii() {
        return out.extend(text.bytes().flat_map(|byte| [byte, 0]));
    }
    let mut pair = [0; 2];
    for character in text.chars() {
        if let Some(unit) = as_lone_unit(character) {
            out.extend(unit.to_le_bytes());
        } else {
            let shown = if as_raw_byte(character).is_some() {
                '?'
            } else {
                character
            };
            out.extend(shown.encode_utf16(&mut pair).iter().flat_map(|unit| unit.to_le_bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str) -> CodePage {
        Collation::of_name(name).unwrap_or_else(|| panic!("{name}")).page
    }

    fn encoded(page: CodePage, text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        page.encode(text, &mut out);
        out
    }

    #[test]
    fn names_have_code_pages_and_five_bytes() {
        assert_eq!(Collation::of_name(DEFAULT_COLLATION), Some(Collation::default()));
        assert_eq!(
            Collation::of_name("sql_latin1_general_cp437_bin").unwrap().wire,
            [0x09, 0x04, 0x00, 0x01, 30]
        );
        assert_eq!(
            Collation::of_name("Latin1_General_100_CI_AS_SC_UTF8").unwrap().wire,
            [0x09, 0x04, 0xD0, 0x24, 0]
        );
        for unknown in ["Latin1_General", "Klingon_CI_AS", "SQL_Latin1_General_CP1250_BIN", ""] {
            assert_eq!(Collation::of_name(unknown), None, "{unknown}");
        }
        for name in [
            "SQL_Latin1_General_CP850_CI_AI",
            "Chinese_PRC_Stroke_90_CI_AS",
            "Japanese_BIN2",
            "Thai_CS_AS_KS_WS",
        ] {
            let collation = Collation::of_name(name).unwrap();
            assert_eq!(Collation::of_wire(collation.wire), collation, "{name}");
        }
    }

    #[test]
    fn each_code_page_has_its_own_bytes() {
        for (name, text, bytes) in [
            ("SQL_Latin1_General_CP1_CI_AS", "é€", &[0xE9, 0x80][..]),
            ("SQL_Latin1_General_CP437_CI_AS", "é√", &[0x82, 0xFB]),
            ("SQL_Latin1_General_CP850_CI_AS", "éÐ", &[0x82, 0xD1]),
            ("Polish_CI_AS", "ł", &[0xB3]),
            ("Cyrillic_General_CI_AS", "Я", &[0xDF]),
            ("Japanese_CI_AS", "日", &[0x93, 0xFA]),
            ("Chinese_PRC_CI_AS", "中", &[0xD6, 0xD0]),
            ("Korean_Wansung_CI_AS", "한", &[0xC7, 0xD1]),
            ("Chinese_Taiwan_Stroke_CI_AS", "中", &[0xA4, 0xA4]),
            ("Thai_CI_AS", "ก", &[0xA1]),
            ("Greek_CI_AS", "Ω", &[0xD9]),
            (
                "Latin1_General_100_CI_AS_SC_UTF8",
                "é😀",
                &[0xC3, 0xA9, 0xF0, 0x9F, 0x98, 0x80],
            ),
        ] {
            assert_eq!(encoded(page(name), text), bytes, "{name}");
            assert_eq!(page(name).decode(bytes), text, "{name}");
        }
        assert_eq!(encoded(page("Polish_CI_AS"), "漢😀z"), b"???z");
    }

    #[test]
    fn what_is_no_character_leaves_as_it_came() {
        for name in [
            "Japanese_CI_AS",
            "Chinese_PRC_CI_AS",
            "Korean_Wansung_CI_AS",
            "Chinese_Taiwan_Stroke_CI_AS",
            "Greek_CI_AS",
            "Latin1_General_100_CI_AS_SC_UTF8",
            "SQL_Latin1_General_CP437_CI_AS",
        ] {
            for bytes in [&b"a\xFFb"[..], b"\x81", b"\xC3(", b"\xE2\x82", b"a\x93"] {
                assert_eq!(
                    encoded(page(name), &page(name).decode(bytes)),
                    bytes,
                    "{name} {bytes:02X?}"
                );
            }
        }
        let mut out = Vec::new();
        let lone = [0x61, 0, 0x00, 0xD8, 0x62, 0, 0x00, 0xDC];
        encode_utf16(&decode_utf16(&lone), &mut out);
        assert_eq!(out, lone);
    }
}
