//! The code page of a collation, as TDS tells it with a column: from its sort id (SQL collations) or its locale (Windows
//! collations).
//!
//! Sources: "SQL Server Collation Name" and "Windows Collation Name" (Microsoft's Transact-SQL reference) for the names,
//! [MS-TDS] 2.2.5.1.2 for the five bytes, [MS-LCID] and the locales' default ANSI code pages. The driver has a table of its
//! own, but lacks the locales with a sort order in their upper bits and several others, and reads those as Windows-1252.

use encoding_rs::Encoding;
use mssql_tds::datatypes::sql_string::ResolvedEncoding;
use mssql_tds::token::tokens::SqlCollation;

use crate::batch::TextEncoding;

/// Locale and sort order: the lower 20 bits.
const LCID_BITS: u32 = 0x000F_FFFF;

/// How text of a collation is encoded. `None`: a collation that nobody listed, or one for Unicode types alone.
pub(super) fn encoding(collation: SqlCollation) -> Option<TextEncoding> {
    if collation.utf8() {
        return Some(TextEncoding::Utf8);
    }
    let page = match of_sort_id(collation.sort_id) {
        Some(page) => page,
        None => of_lcid(collation.info & LCID_BITS)?,
    };
    encoding_of(page)
}

fn encoding_of(page: u16) -> Option<TextEncoding> {
    let known: &'static Encoding = match page {
        437 => return Some(TextEncoding::Oem(ResolvedEncoding::Oem437)),
        850 => return Some(TextEncoding::Oem(ResolvedEncoding::Oem850)),
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
    };
    Some(TextEncoding::CodePage(known))
}

/// The code page of a SQL collation. 0 and what is not listed is a Windows collation's.
fn of_sort_id(sort_id: u8) -> Option<u16> {
    Some(match sort_id {
        30..=34 => 437,
        40..=44 | 49 | 55..=61 => 850,
        50..=54 | 71..=75 | 183..=186 | 210..=217 => 1252,
        80..=97 => 1250,
        104..=108 => 1251,
        112..=114 | 120..=122 | 124 => 1253,
        128..=130 => 1254,
        136..=138 => 1255,
        144..=146 => 1256,
        152..=160 => 1257,
        192 | 193 | 200 => 932,
        194 | 195 | 201 => 949,
        196 | 197 | 202 => 950,
        198 | 199 | 203 => 936,
        204..=206 => 874,
        _ => return None,
    })
}

/// The code page of a locale. Locales of Unicode alone (Hindi, Khmer, …) have none: no `varchar` can have them.
fn of_lcid(lcid: u32) -> Option<u16> {
    // The sort order in the upper bits (stroke, radical, phone book) does not change the code page.
    Some(match lcid & 0xFFFF {
        0x041E => 874,
        0x0411 => 932,
        0x0804 | 0x1004 => 936,
        0x0412 => 949,
        0x0404 | 0x0C04 | 0x1404 => 950,
        // Czech, Hungarian, Polish, Romanian, Croatian, Slovak, Albanian, Slovenian, Turkmen, Serbian
        // and Bosnian in Latin letters.
        0x0405 | 0x040E | 0x0415 | 0x0418 | 0x041A | 0x041B | 0x041C | 0x0424 | 0x0442 | 0x081A | 0x101A | 0x141A
        | 0x181A | 0x241A => 1250,
        // Bulgarian, Russian, Ukrainian, Belarusian, Tajik, Macedonian, Kazakh, Kyrgyz, Tatar, Mongolian, Bashkir, Yakut,
        // Azeri, Uzbek, Serbian and Bosnian in Cyrillic letters.
        0x0402 | 0x0419 | 0x0422 | 0x0423 | 0x0428 | 0x042F | 0x043F | 0x0440 | 0x0444 | 0x0450 | 0x046D | 0x0485
        | 0x082C | 0x0843 | 0x0C1A | 0x1C1A | 0x201A | 0x281A => 1251,
        0x0408 => 1253,
        // Turkish, Azeri and Uzbek in Latin letters.
        0x041F | 0x042C | 0x0443 => 1254,
        0x040D => 1255,
        // Arabic, Urdu, Persian, Uighur, Dari.
        0x0401 | 0x0420 | 0x0429 | 0x0480 | 0x048C | 0x0801 | 0x0C01 | 0x1001 | 0x1401 | 0x1801 | 0x1C01 | 0x2001
        | 0x2401 | 0x2801 | 0x2C01 | 0x3001 | 0x3401 | 0x3801 | 0x3C01 | 0x4001 => 1256,
        // Estonian, Latvian, Lithuanian and its classic form.
        0x0425..=0x0427 | 0x0827 => 1257,
        0x042A => 1258,
        // English, German, French, Spanish, Italian, Dutch, Portuguese and the Nordic languages, with their countries.
        lcid if matches!(
            lcid & 0x3FF,
            0x03 | 0x06 | 0x07 | 0x09 | 0x0A | 0x0B | 0x0C | 0x0F | 0x10 | 0x13 | 0x14 | 0x16 | 0x1D
        ) =>
        {
            1252
        }
        // Romansh, Upper Sorbian, Basque, Afrikaans, Georgian (for its SQL Server collation), Faroese, Irish, Sami, Malay,
        // Welsh, Galician, Frisian, Filipino, Mapudungun, Mohawk, Breton, Corsican, Alsatian, Tamazight and others.
        0x0417 | 0x042D | 0x042E | 0x0436 | 0x0437 | 0x0438 | 0x043B | 0x043E | 0x0452 | 0x0456 | 0x0462 | 0x0464
        | 0x046F | 0x047A | 0x047C | 0x047E | 0x0482 | 0x0483 | 0x0484 | 0x083B | 0x083C | 0x083E | 0x085F | 0x0C3B => {
            1252
        }
        // The invariant locale, which a binary collation of old databases can have.
        0 => 1252,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collation(lcid: u32, flags: u8, sort_id: u8) -> SqlCollation {
        let info = lcid | u32::from(flags) << 20;
        let mut bytes = info.to_le_bytes().to_vec();
        bytes.push(sort_id);
        SqlCollation::try_from(bytes.as_slice()).unwrap()
    }

    fn name(collation: SqlCollation) -> &'static str {
        match encoding(collation) {
            Some(TextEncoding::CodePage(page)) => page.name(),
            Some(TextEncoding::Oem(page)) => page.name(),
            Some(TextEncoding::Utf8) => "UTF-8",
            Some(TextEncoding::Utf16) => "UTF-16",
            None => "none",
        }
    }

    #[test]
    fn a_collation_has_the_code_page_of_its_sort_id_or_its_locale() {
        for (lcid, sort_id, expected) in [
            (0x0409, 52, "windows-1252"),
            (0x0409, 30, "IBM437"),
            (0x0409, 42, "IBM850"),
            (0x0419, 0, "windows-1251"),
            (0x0411, 0, "Shift_JIS"),
            (0x4_0411, 0, "Shift_JIS"),
            (0x0804, 0, "GBK"),
            (0x2_0804, 0, "GBK"),
            (0x0412, 0, "EUC-KR"),
            (0x3_0404, 0, "Big5"),
            (0x041E, 0, "windows-874"),
            (0x1_040E, 0, "windows-1250"),
            (0x081A, 0, "windows-1250"),
            (0x201A, 0, "windows-1251"),
            (0x0408, 0, "windows-1253"),
            (0x041F, 0, "windows-1254"),
            (0x040D, 0, "windows-1255"),
            (0x0401, 0, "windows-1256"),
            (0x0427, 0, "windows-1257"),
            (0x042A, 0, "windows-1258"),
            (0x1_0407, 0, "windows-1252"),
            (0x0439, 0, "none"),
        ] {
            assert_eq!(
                name(collation(lcid, 0, sort_id)),
                expected,
                "{lcid:05X}, sort id {sort_id}"
            );
        }
        assert_eq!(name(collation(0x0411, 0x40, 0)), "UTF-8");
    }
}
