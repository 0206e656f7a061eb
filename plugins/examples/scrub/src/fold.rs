//! Words as they are compared: without case and accents.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// A word of a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// Where it stands, in bytes.
    pub place: Range<usize>,
    /// As it is compared.
    pub folded: String,
}

/// Lower case, compatibility forms resolved, accents left out: `ÖDÖN` is `odon`, and so is `Ödön` in two characters a letter.
pub(crate) fn fold(text: &str) -> String {
    // Case first: what a letter becomes in lower case can have an accent of its own.
    let lower = text.chars().flat_map(char::to_lowercase);
    lower
        .nfkd()
        .filter(|char| !is_combining_mark(*char))
        .flat_map(char::to_lowercase)
        .collect()
}

/// The words of a text: letters and digits that stand together, with the accents on them.
pub(crate) fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut from = None;
    let mut end = |from: &mut Option<usize>, to: usize| {
        if let Some(from) = from.take() {
            let folded = fold(&text[from..to]);
            // An accent on nothing is no word.
            if !folded.is_empty() {
                words.push(Word {
                    place: from..to,
                    folded,
                });
            }
        }
    };
    for (at, char) in text.char_indices() {
        if char.is_alphanumeric() || is_combining_mark(char) {
            from.get_or_insert(at);
        } else {
            end(&mut from, at);
        }
    }
    end(&mut from, text.len());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_accents_do_not_count() {
        for text in ["Ödön", "ÖDÖN", "O\u{308}do\u{308}n", "odon"] {
            assert_eq!(fold(text), "odon", "{text}");
        }
        assert_eq!(fold("İ"), "i");
        assert_eq!(fold("ﬃ"), "ffi");
    }

    #[test]
    fn words_are_letters_and_digits_that_stand_together() {
        let of = |text: &str| -> Vec<String> {
            words(text)
                .iter()
                .map(|word| text[word.place.clone()].to_owned())
                .collect()
        };
        assert_eq!(
            of("Anna-Mária O'Neill, 12/A."),
            ["Anna", "Mária", "O", "Neill", "12", "A"]
        );
        assert_eq!(of("e\u{301}va"), ["e\u{301}va"]);
        assert!(of("").is_empty() && of(" -- \u{301} ").is_empty());
    }
}
