//! Steps from text to text: trim, letter case, split.

use sluice_plugin::{ApplyError, Column, Utf8Builder, Utf8View};

use crate::rejects::malformed;

/// Where white space is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sides {
    Both,
    Start,
    End,
}

/// Unicode's full mapping, of no language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    Upper,
    Lower,
}

pub(crate) fn trim(column: &Column, rows: usize, sides: Sides) -> Result<Column, ApplyError> {
    match sides {
        Sides::Both => each(column, rows, |text| Some(text.trim())),
        Sides::Start => each(column, rows, |text| Some(text.trim_start())),
        Sides::End => each(column, rows, |text| Some(text.trim_end())),
    }
}

/// The part of each text between two separators, counted from 1, or from the end from -1; NULL where there are fewer.
pub(crate) fn split(column: &Column, rows: usize, separator: &str, part: i64) -> Result<Column, ApplyError> {
    let place = usize::try_from(part.unsigned_abs()).unwrap_or(usize::MAX);
    if part > 0 {
        return each(column, rows, |text| text.split(separator).nth(place - 1));
    }
    // Searched from the start in either case: of `aaa` by `aa`, the first part is the empty one, and the last is `a`.
    each(column, rows, |text| {
        let parts = text.split(separator).count();
        text.split(separator).nth(parts.checked_sub(place)?)
    })
}

pub(crate) fn change_case(column: &Column, rows: usize, case: Case) -> Result<Column, ApplyError> {
    let view = Utf8View::new(column, rows).ok_or_else(malformed)?;
    if view.text().is_ascii() && column.validity.is_none() {
        let mut changed = column.clone();
        match case {
            Case::Upper => changed.values.make_ascii_uppercase(),
            Case::Lower => changed.values.make_ascii_lowercase(),
        }
        return Ok(changed);
    }
    let mut to = Utf8Builder::with_capacity(rows, column.values.len());
    let mut ascii = String::new();
    for text in view.iter() {
        match text {
            None => to.push_null(),
            Some(text) if text.is_ascii() => {
                ascii.clear();
                ascii.push_str(text);
                match case {
                    Case::Upper => ascii.make_ascii_uppercase(),
                    Case::Lower => ascii.make_ascii_lowercase(),
                }
                to.push(&ascii);
            }
            // Whole words: what a final sigma becomes depends on its neighbours.
            Some(text) => match case {
                Case::Upper => to.push(&text.to_uppercase()),
                Case::Lower => to.push(&text.to_lowercase()),
            },
        }
    }
    to.finish()
}

fn each(column: &Column, rows: usize, part: impl for<'a> Fn(&'a str) -> Option<&'a str>) -> Result<Column, ApplyError> {
    let view = Utf8View::new(column, rows).ok_or_else(malformed)?;
    let mut to = Utf8Builder::with_capacity(rows, column.values.len());
    for text in view.iter() {
        to.push_option(text.and_then(&part));
    }
    to.finish()
}

#[cfg(test)]
mod tests {
    use sluice_plugin::testing::column;
    use sluice_plugin::{DataType, Value};

    use super::*;

    /// Each text, and NULL after it, changed; as one column, in which some texts are not ASCII, and alone.
    fn changed(texts: &[&str], change: impl Fn(&Column, usize) -> Result<Column, ApplyError>) -> Vec<Option<String>> {
        let read = |column: &Column, rows: usize| -> Vec<Option<String>> {
            let view = Utf8View::new(column, rows).unwrap();
            view.iter().map(|text| text.map(str::to_owned)).collect()
        };
        let values: Vec<_> = texts.iter().flat_map(|text| [Some(Value::Utf8(text)), None]).collect();
        let together = read(
            &change(&column(DataType::Utf8, &values), values.len()).unwrap(),
            values.len(),
        );
        assert!(together.iter().skip(1).step_by(2).all(Option::is_none));
        let together: Vec<_> = together.into_iter().step_by(2).collect();
        for (text, expected) in texts.iter().zip(&together) {
            let alone = column(DataType::Utf8, &[Some(Value::Utf8(text))]);
            assert_eq!(read(&change(&alone, 1).unwrap(), 1).first(), Some(expected));
        }
        together
    }

    fn texts(expected: &[&str]) -> Vec<Option<String>> {
        expected.iter().map(|text| Some((*text).to_owned())).collect()
    }

    #[test]
    fn white_space_is_unicodes() {
        let given = [" a b ", "\u{3000}ä\u{a0}\t", "", " \n", "\u{200b}x"];
        let trimmed = |sides| changed(&given, |column, rows| trim(column, rows, sides));
        assert_eq!(trimmed(Sides::Both), texts(&["a b", "ä", "", "", "\u{200b}x"]));
        assert_eq!(
            trimmed(Sides::Start),
            texts(&["a b ", "ä\u{a0}\t", "", "", "\u{200b}x"])
        );
        assert_eq!(trimmed(Sides::End), texts(&[" a b", "\u{3000}ä", "", "", "\u{200b}x"]));
    }

    /// Right values from Python's `str.upper` and `str.lower`.
    #[test]
    fn letter_case_is_unicodes_full_mapping() {
        let given = ["Ab1", "straße", "ΟΔΟΣ", "İ", "ﬁ", "ǆ", ""];
        let upper = changed(&given, |column, rows| change_case(column, rows, Case::Upper));
        assert_eq!(upper, texts(&["AB1", "STRASSE", "ΟΔΟΣ", "İ", "FI", "Ǆ", ""]));
        let lower = changed(&given, |column, rows| change_case(column, rows, Case::Lower));
        assert_eq!(lower, texts(&["ab1", "straße", "οδος", "i\u{307}", "ﬁ", "ǆ", ""]));
    }

    #[test]
    fn parts_are_counted_from_either_end() {
        let given = ["a,b,c", ",", "", "ä,,é"];
        let part = |part| changed(&given, |column, rows| split(column, rows, ",", part));
        let of = |parts: [Option<&str>; 4]| parts.map(|part| part.map(str::to_owned)).to_vec();
        assert_eq!(part(1), of([Some("a"), Some(""), Some(""), Some("ä")]));
        assert_eq!(part(2), of([Some("b"), Some(""), None, Some("")]));
        assert_eq!(part(3), of([Some("c"), None, None, Some("é")]));
        assert_eq!(part(-1), of([Some("c"), Some(""), Some(""), Some("é")]));
        assert_eq!(part(-3), of([Some("a"), None, None, Some("ä")]));
        assert_eq!(part(i64::MIN), of([None; 4]));
        assert_eq!(part(i64::MAX), of([None; 4]));
    }

    #[test]
    fn separators_of_more_characters_are_searched_from_the_start() {
        let of = |text, separator, part| changed(&[text], |column, rows| split(column, rows, separator, part));
        assert_eq!(of("x→→y", "→", 3), texts(&["y"]));
        assert_eq!(of("aaa", "aa", 1), texts(&[""]));
        assert_eq!(of("aaa", "aa", -1), texts(&["a"]));
    }
}
