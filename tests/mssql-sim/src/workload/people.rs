//! Values that look like personal data. Each is distinctive, so that a test can search for it where it must not be.

use chrono::{Days, NaiveDate};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

const HEADS: [&str; 20] = [
    "vor", "quan", "zel", "drim", "thok", "yss", "mur", "plon", "gra", "xil", "bez", "oth", "jol", "krev", "fen",
    "urd", "sket", "wyn", "dax", "nib",
];
const TAILS: [&str; 20] = [
    "quist", "zander", "mirrow", "dottir", "vaquin", "blython", "feroux", "grimsel", "hallux", "jorvik", "kestrin",
    "lunde", "nacre", "ploover", "rydzyk", "szoltan", "tavrin", "umbrax", "wexley", "yrsa",
];
const FIRST_NAMES: [&str; 18] = [
    "Ada",
    "Björn",
    "Chloé",
    "Dmitri",
    "Esra",
    "Fatoumata",
    "Grażyna",
    "Hiroko",
    "İpek",
    "José María",
    "Kwame",
    "Łukasz",
    "Mei-Ling",
    "Nuala",
    "Ørjan",
    "Žofia",
    "Anne \"Annie\" Marie",
    "D'Arcy",
];
const CITIES: [&str; 12] = [
    "Aachen",
    "Bergen",
    "Córdoba",
    "Dúbravka",
    "Eindhoven",
    "Fürth",
    "Gdańsk",
    "Hội An",
    "İzmir",
    "København",
    "L'Aquila",
    "São Paulo",
];

/// A person; texts are not quoted yet.
pub(super) struct Person {
    pub(super) first_name: String,
    pub(super) last_name: String,
    pub(super) email: Option<String>,
    pub(super) phone: Option<String>,
    pub(super) national_id: Option<String>,
    pub(super) birth_date: Option<NaiveDate>,
    pub(super) city: Option<String>,
}

/// Makes the person with the running number `number`.
pub(super) fn person(rng: &mut ChaCha8Rng, number: i64) -> Person {
    let last_name = last_name(rng);
    let email = rng.random_bool(0.96).then(|| email(rng, &last_name, number));
    Person {
        first_name: first_name(rng),
        phone: rng.random_bool(0.92).then(|| phone(rng, number)),
        national_id: rng.random_bool(0.95).then(|| national_id(number)),
        birth_date: rng.random_bool(0.97).then(|| birth_date(rng)),
        city: rng.random_bool(0.95).then(|| pick(rng, &CITIES).to_owned()),
        email,
        last_name,
    }
}

/// An e-mail address; the number makes it unique.
pub(super) fn email(rng: &mut ChaCha8Rng, last_name: &str, number: i64) -> String {
    let local = last_name.to_lowercase().replace('\'', "");
    let dotted = match rng.random_range(0..10) {
        // As typed into a form: blanks around it, or capitals.
        0 => return format!("  {local}.{number}@Mail{}.Example ", number % 7),
        1 => return format!("{}+{number}@MAIL.EXAMPLE", local.to_uppercase()),
        2 => "ünï.",
        3 => "o'",
        _ => "",
    };
    format!("{dotted}{local}.{number}@mail{}.example", number % 7)
}

/// A telephone number in one of several notations; it ends in at least eight digits that belong to it alone.
pub(super) fn phone(rng: &mut ChaCha8Rng, number: i64) -> String {
    let digits = 10_000_000 + number.rem_euclid(89_999_999);
    match rng.random_range(0..4) {
        0 => format!("+49 30 {digits}"),
        1 => format!("(555) {digits}"),
        2 => format!("0047{digits}"),
        _ => format!("+1-555-{digits}"),
    }
}

/// A free text, NULL more often than not, sometimes empty, sometimes long.
pub(super) fn note(rng: &mut ChaCha8Rng, last_name: &str) -> Option<String> {
    match rng.random_range(0..100) {
        0..70 => None,
        70..72 => Some(String::new()),
        72..97 => Some(format!(
            "{last_name} asked for a call back; it's about \"line {}\" 📞",
            rng.random_range(1..900)
        )),
        _ => {
            let sentences = rng.random_range(12..60);
            Some(format!(
                "{last_name} wrote:\r\n{}",
                "They'd rather be rung up in the evening. 漢字と絵文字🦭.\n".repeat(sentences)
            ))
        }
    }
}

/// One of a list.
pub(super) fn pick<'a>(rng: &mut ChaCha8Rng, list: &[&'a str]) -> &'a str {
    list.get(rng.random_range(0..list.len())).copied().unwrap_or_default()
}

/// A text as a literal of an `n` type.
pub(super) fn quoted(text: &str) -> String {
    format!("N'{}'", text.replace('\'', "''"))
}

/// A text that may be NULL as a literal of an `n` type.
pub(super) fn quoted_or_null(text: Option<&str>) -> String {
    text.map_or_else(|| "NULL".to_owned(), quoted)
}

fn first_name(rng: &mut ChaCha8Rng) -> String {
    let name = pick(rng, &FIRST_NAMES);
    match rng.random_range(0..100) {
        0 => String::new(),
        1 => format!("𝒜{name}😀"),
        // 50 UTF-16 units: the column's limit.
        2 => "Wolfeschlegelsteinhausenbergerdorffwelchevoraltern".to_owned(),
        _ => name.to_owned(),
    }
}

fn last_name(rng: &mut ChaCha8Rng) -> String {
    let (head, middle, tail) = (pick(rng, &HEADS), pick(rng, &HEADS), pick(rng, &TAILS));
    let mut word = format!("{head}{middle}{tail}");
    if let Some(first) = word.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    match rng.random_range(0..40) {
        0 => format!("O'{word}"),
        1 => format!("{word}-Æ{tail}"),
        _ => word,
    }
}

/// Eleven characters, one for each number below 10^9.
fn national_id(number: i64) -> String {
    // A multiplier without a common factor with 10^9 scatters the numbers and repeats none.
    let scattered = number.wrapping_mul(387_420_489).rem_euclid(1_000_000_000);
    format!(
        "{:03}-{:02}-{:04}",
        scattered / 1_000_000,
        scattered / 10_000 % 100,
        scattered % 10_000
    )
}

fn birth_date(rng: &mut ChaCha8Rng) -> NaiveDate {
    let oldest = NaiveDate::from_ymd_opt(1931, 1, 1).unwrap_or_default();
    oldest
        .checked_add_days(Days::new(rng.random_range(0..27_000)))
        .unwrap_or(oldest)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn what_identifies_a_person_is_distinctive_and_fits() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut seen = HashSet::new();
        let mut missing = 0;
        for number in 1..5000 {
            let person = person(&mut rng, number);
            assert!(person.last_name.chars().count() >= 8 && person.last_name.encode_utf16().count() <= 50);
            assert!(person.first_name.encode_utf16().count() <= 50);
            for (text, limit) in [(person.email, 120), (person.phone, 30), (person.national_id, 11)] {
                let Some(text) = text else {
                    missing += 1;
                    continue;
                };
                assert!((8..=limit).contains(&text.encode_utf16().count()), "{text}");
                assert!(seen.insert(text));
            }
        }
        assert!(missing > 100);
        assert_eq!(quoted("O'x"), "N'O''x'");
    }
}
