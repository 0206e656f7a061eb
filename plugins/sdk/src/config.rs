//! Reading a configuration, with errors that say where and what was probably meant.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde_json::Value;

use crate::plan::OpenError;

/// Reads the whole configuration.
///
/// # Errors
/// [`OpenError::Config`] with the JSON path of the mistake. Use `#[serde(deny_unknown_fields)]`: the name of an unknown
/// key is then answered with the nearest known one.
pub fn parse<T: DeserializeOwned>(config: &str) -> Result<T, OpenError> {
    let mut reader = serde_json::Deserializer::from_str(config);
    let parsed = serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| problem("", &error.path().to_string(), &error.into_inner()))?;
    reader.end().map_err(|error| OpenError::config("", error.to_string()))?;
    Ok(parsed)
}

/// Reads a part of the configuration that stands at `path`.
///
/// # Errors
/// As [`parse`].
pub fn parse_value<T: DeserializeOwned>(path: &str, value: Value) -> Result<T, OpenError> {
    serde_path_to_error::deserialize(value)
        .map_err(|error| problem(path, &error.path().to_string(), &error.into_inner()))
}

/// The nearest of the known words, if one is near enough to have been meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| {
            let distance = strsim::damerau_levenshtein(&word, &candidate.to_lowercase());
            (distance, candidate)
        })
        .min_by_key(|&(distance, _)| distance)
        .filter(|&(distance, _)| distance <= (word.chars().count() / 3).max(1))
        .map(|(_, candidate)| candidate)
}

/// The entries of a JSON object in their order. Two keys that are equal ignoring case are an error.
#[derive(Clone, Debug, PartialEq)]
pub struct Entries<T>(pub Vec<(String, T)>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

struct EntriesVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
    type Value = Entries<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries: Vec<(String, T)> = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, T>()? {
            let lower = key.to_lowercase();
            if entries.iter().any(|(other, _)| other.to_lowercase() == lower) {
                return Err(serde::de::Error::custom(format!(
                    "`{key}` stands here twice (names are compared ignoring case)"
                )));
            }
            entries.push((key, value));
        }
        Ok(Entries(entries))
    }
}

fn problem(prefix: &str, path: &str, error: &serde_json::Error) -> OpenError {
    // serde_path_to_error says `.` for the whole.
    let mut path = match (prefix, path) {
        (prefix, ".") => prefix.to_owned(),
        ("", path) => path.to_owned(),
        (prefix, path) => format!("{prefix}.{path}"),
    };
    let text = error.to_string();
    let Some((kind, word, known)) = unknown_word(&text) else {
        return OpenError::config(path, text);
    };
    // The path already ends in the unknown key, which the reason names.
    if let Some(parent) = path.strip_suffix(word) {
        path = parent.trim_end_matches('.').to_owned();
    }
    let reason = match nearest(word, known.iter().copied()) {
        Some(meant) => format!("unknown {kind} `{word}`, did you mean `{meant}`?"),
        None if known.is_empty() => format!("unknown {kind} `{word}`"),
        None => format!("unknown {kind} `{word}`; known are {}", known.join(", ")),
    };
    OpenError::config(path, reason)
}

/// Takes serde's sentence about an unknown field or variant apart: what it is, the word, the known words.
fn unknown_word(text: &str) -> Option<(&'static str, &str, Vec<&str>)> {
    let (kind, rest) = if let Some(rest) = text.strip_prefix("unknown field `") {
        ("key", rest)
    } else {
        ("word", text.strip_prefix("unknown variant `")?)
    };
    let (word, rest) = rest.split_once('`')?;
    let known = rest.split('`').skip(1).step_by(2).collect();
    Some((kind, word, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Outer {
        #[serde(default)]
        columns: Entries<Inner>,
        unlisted: Option<Unlisted>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Inner {
        length: u32,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Unlisted {
        Fail,
        Pass,
    }

    fn refused(config: &str) -> (String, String) {
        match parse::<Outer>(config) {
            Err(OpenError::Config { path, reason }) => (path, reason),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_unknown_key_is_answered_with_the_nearest() {
        let (path, reason) = refused(r#"{"columns":{"email":{"lenght":3}}}"#);
        assert_eq!(path, "columns.email");
        assert_eq!(reason, "unknown key `lenght`, did you mean `length`?");
        let (path, reason) = refused(r#"{"zzzzzz":{}}"#);
        assert_eq!(path, "");
        assert_eq!(reason, "unknown key `zzzzzz`; known are columns, unlisted");
    }

    #[test]
    fn an_unknown_word_is_answered_with_the_nearest() {
        let (path, reason) = refused(r#"{"unlisted":"pas"}"#);
        assert_eq!(path, "unlisted");
        assert_eq!(reason, "unknown word `pas`, did you mean `pass`?");
    }

    #[test]
    fn a_wrong_type_says_where() {
        let (path, reason) = refused(r#"{"columns":{"a":{"length":"x"}}}"#);
        assert_eq!(path, "columns.a.length");
        assert!(reason.contains("expected u32"), "{reason}");
    }

    #[test]
    fn equal_names_are_refused_ignoring_case() {
        let (_, reason) = refused(r#"{"columns":{"a":{"length":1},"A":{"length":1}}}"#);
        assert!(reason.contains("`A` stands here twice"), "{reason}");
    }

    #[test]
    fn text_after_the_object_is_refused() {
        assert!(parse::<Outer>("{} {}").is_err());
        assert!(parse::<Outer>("").is_err());
    }
}
