//! What is found in a text, and the text without it.

use std::ops::Range;

use crate::fold::{Word, words};

/// What something in a text is, and so what stands in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Email,
    Number,
    Name,
    Word,
}

impl Kind {
    fn replacement(self) -> &'static str {
        match self {
            Kind::Email => "[email]",
            Kind::Number => "[number]",
            Kind::Name => "[name]",
            Kind::Word => "[word]",
        }
    }
}

/// Words that are looked for, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Needle {
    words: Vec<String>,
    kind: Kind,
}

impl Needle {
    /// All words of a text in their order; `None` where it has none.
    pub(crate) fn phrase(text: &str, kind: Kind) -> Option<Self> {
        let words: Vec<String> = words(text).into_iter().map(|word| word.folded).collect();
        (!words.is_empty()).then_some(Self { words, kind })
    }

    /// Each word of a name by itself, but for those with fewer characters than `shortest`.
    pub(crate) fn each_word(name: &str, shortest: usize) -> impl Iterator<Item = Self> {
        let long = move |word: &Word| word.folded.chars().count() >= shortest;
        words(name).into_iter().filter(long).map(|word| Self {
            words: vec![word.folded],
            kind: Kind::Name,
        })
    }

    /// Whether it stands where these words begin.
    fn begins(&self, text: &[Word], endings: bool) -> bool {
        let last = self.words.len() - 1;
        text.len() > last
            && self.words.iter().zip(text).enumerate().all(|(at, (wanted, word))| {
                *wanted == word.folded || (endings && at == last && word.folded.starts_with(wanted.as_str()))
            })
    }
}

/// What is looked for in every row.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub emails: bool,
    /// The digits from which a number is replaced; 0: none is.
    pub digits: usize,
    pub words: Vec<Needle>,
    /// Whether a word that begins with the one that is looked for is meant, too.
    pub endings: bool,
}

type Found = (Range<usize>, Kind);

impl Rules {
    /// Hands over the text piece by piece, with what was found replaced.
    pub(crate) fn scrub<'t>(&self, text: &'t str, names: &[Needle], mut append: impl FnMut(&'t str)) {
        let mut from = 0;
        for (place, kind) in self.find(text, names) {
            append(&text[from..place.start]);
            append(kind.replacement());
            from = place.end;
        }
        append(&text[from..]);
    }

    /// What there is to replace, in the order of the text; no two of them overlap.
    fn find(&self, text: &str, names: &[Needle]) -> Vec<Found> {
        let mut found = Vec::new();
        if self.emails {
            emails(text, &mut found);
        }
        if self.digits > 0 {
            numbers(text, self.digits, &mut found);
        }
        if !names.is_empty() || !self.words.is_empty() {
            self.needles(text, names, &mut found);
        }
        found.sort_unstable_by_key(|(place, _)| place.start);
        found
    }

    fn needles(&self, text: &str, names: &[Needle], found: &mut Vec<Found>) {
        let text_words = words(text);
        let mut rest = text_words.as_slice();
        while let Some((first, after)) = rest.split_first() {
            // The longest wins, so that no part of a phrase is left because a word of it is listed, too.
            let standing = self
                .words
                .iter()
                .chain(names)
                .filter(|needle| needle.begins(rest, self.endings));
            let longest = standing.max_by_key(|needle| needle.words.len());
            let Some(needle) = longest else {
                rest = after;
                continue;
            };
            let (mine, after) = rest.split_at(needle.words.len());
            let place = first.place.start..mine.last().map_or(first.place.end, |last| last.place.end);
            if is_free(&place, found) {
                found.push((place, needle.kind));
                rest = after;
            } else {
                rest = &rest[1..];
            }
        }
    }
}

fn is_free(place: &Range<usize>, found: &[Found]) -> bool {
    found
        .iter()
        .all(|(other, _)| place.end <= other.start || other.end <= place.start)
}

/// Everything with `@` between what can stand in a mail address, whether or not the domain has a dot.
fn emails(text: &str, found: &mut Vec<Found>) {
    let in_local = |char: char| char.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(char);
    let in_domain = |char: char| char.is_alphanumeric() || "-._".contains(char);
    let mut free = 0;
    for (at, _) in text.match_indices('@') {
        if at < free {
            continue;
        }
        let local = text[free..at]
            .chars()
            .rev()
            .take_while(|char| in_local(*char))
            .map(char::len_utf8)
            .sum::<usize>();
        let after = &text[at + 1..];
        let domain = after.find(|char| !in_domain(char)).unwrap_or(after.len());
        // The full stop behind it is the sentence's.
        let domain = after[..domain].trim_end_matches(['.', '-', '_']).len();
        if local > 0 && domain > 0 {
            free = at + 1 + domain;
            found.push((at - local..free, Kind::Email));
        }
    }
}

/// Runs of digits of any script with at most two other characters between them, as numbers are written for people.
fn numbers(text: &str, least: usize, found: &mut Vec<Found>) {
    const BETWEEN: &str = " \u{a0}\u{202f}-\u{2010}\u{2011}\u{2013}./()";
    let mut run: Option<Range<usize>> = None;
    let (mut digits, mut between) = (0, 0);
    let mut end = |run: &mut Option<Range<usize>>, digits: usize| {
        if let Some(place) = run.take()
            && digits >= least
            && is_free(&place, found)
        {
            found.push((place, Kind::Number));
        }
    };
    for (at, char) in text.char_indices() {
        let next = at + char.len_utf8();
        if char.is_numeric() {
            match &mut run {
                Some(run) => run.end = next,
                None => (run, digits) = (Some(at..next), 0),
            }
            digits += 1;
            between = 0;
        } else if BETWEEN.contains(char) && between < 2 {
            between += 1;
        } else {
            end(&mut run, digits);
        }
    }
    end(&mut run, digits);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubbed(rules: &Rules, text: &str, names: &[&str]) -> String {
        let names: Vec<Needle> = names.iter().flat_map(|name| Needle::each_word(name, 3)).collect();
        let mut out = String::new();
        rules.scrub(text, &names, |piece| out.push_str(piece));
        out
    }

    fn rules(words: &[&str], endings: bool) -> Rules {
        Rules {
            emails: true,
            digits: 7,
            words: words
                .iter()
                .filter_map(|word| Needle::phrase(word, Kind::Word))
                .collect(),
            endings,
        }
    }

    #[test]
    fn mail_addresses_are_found_and_the_full_stop_behind_them_stays() {
        let rules = rules(&[], false);
        for (text, expected) in [
            ("write to anna@example.org.", "write to [email]."),
            ("<anna.kiss+x@mail.example.co.uk>", "<[email]>"),
            ("anna@intranet, béla@példa.hu", "[email], [email]"),
            ("a@b@c", "[email]@c"),
            ("@anna, 5 @ 3, anna@", "@anna, 5 @ 3, anna@"),
        ] {
            assert_eq!(scrubbed(&rules, text, &[]), expected);
        }
    }

    #[test]
    fn long_numbers_are_found_however_they_are_grouped() {
        let rules = rules(&[], false);
        for (text, expected) in [
            ("+36 30 123 4567", "+[number]"),
            ("(030) 123-45-67", "([number]"),
            ("4111 1111 1111 1111!", "[number]!"),
            ("order 123456 of 12", "order 123456 of 12"),
            ("1 2  3   4 5 6 7", "1 2  3   4 5 6 7"),
            ("AB1234567Z", "AB[number]Z"),
            ("٠٣٠١٢٣٤٥", "[number]"),
        ] {
            assert_eq!(scrubbed(&rules, text, &[]), expected);
        }
    }

    #[test]
    fn names_are_found_in_any_case_and_with_accents_or_without() {
        let rules = rules(&[], false);
        for (text, expected) in [
            ("Called Anna Kiss.", "Called [name] [name]."),
            ("KISS ANNA's flat", "[name] [name]'s flat"),
            ("a kiss-o-gram", "a [name]-o-gram"),
            ("Annabel and Kissinger", "Annabel and Kissinger"),
        ] {
            assert_eq!(scrubbed(&rules, text, &["Anna", "Kiss"]), expected);
        }
        assert_eq!(
            scrubbed(&rules, "odon, Ödön, O\u{308}do\u{308}n", &["ÖDÖN"]),
            "[name], [name], [name]"
        );
        assert_eq!(
            scrubbed(&rules, "Anna Maria and Maria Anna", &["Anna-Maria"]),
            "[name] [name] and [name] [name]"
        );
        assert_eq!(
            scrubbed(&rules, "Li and O'Neill", &["Li", "O'Neill"]),
            "Li and O'[name]"
        );
    }

    #[test]
    fn a_name_with_an_ending_is_found_where_that_is_asked_for() {
        assert_eq!(
            scrubbed(&rules(&[], true), "Annának, annas, Hannah", &["Anna"]),
            "[name], [name], Hannah"
        );
    }

    #[test]
    fn phrases_are_found_as_wholes_and_before_the_words_in_them() {
        let rules = rules(&["Villa Rosa", "rosa"], false);
        assert_eq!(
            scrubbed(&rules, "villa  ROSA, Rosa, Villa 3", &[]),
            "[word], [word], Villa 3"
        );
        assert_eq!(scrubbed(&rules, "the villa", &[]), "the villa");
    }

    #[test]
    fn what_is_part_of_an_address_is_replaced_once() {
        let rules = rules(&[], false);
        assert_eq!(
            scrubbed(&rules, "anna1234567@example.org Anna", &["Anna"]),
            "[email] [name]"
        );
        assert_eq!(scrubbed(&rules, "anna@example.org", &["example"]), "[email]");
    }

    #[test]
    fn a_text_in_which_nothing_is_found_stays_as_it_is() {
        for text in ["", " ", "\u{202E}\u{200B}", "e\u{301}", "\u{1F600}", "no one"] {
            assert_eq!(scrubbed(&rules(&["x"], true), text, &["Anna"]), text);
        }
    }
}
