//! One step of a recipe, as it is written: a word, or an object whose first word says what it does.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sluice_plugin::config::{nearest, parse_value};
use sluice_plugin::{DataType, OpenError};

use crate::json::JsonPath;
use crate::recipe::unknown;
use crate::text::{Case, Sides};
use crate::types::data_type;
use crate::values::{Other, Values};

/// A step and where it stands in the configuration.
#[derive(Debug, PartialEq)]
pub(crate) struct Written {
    pub path: String,
    pub step: WrittenStep,
}

#[derive(Debug, PartialEq)]
pub(crate) enum WrittenStep {
    Trim(Sides),
    Case(Case),
    Split {
        separator: String,
        /// From 1, or from the end from -1; never 0.
        part: i64,
    },
    Json(JsonPath),
    Values(Values),
    Cast(DataType),
    Default(Value),
}

const WORDS: [&str; 5] = ["trim", "trim_start", "trim_end", "upper", "lower"];
const KEYS: [&str; 5] = ["split", "json", "values", "cast", "default"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Split {
    split: String,
    part: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    json: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawValues {
    values: BTreeMap<String, String>,
    #[serde(rename = "else")]
    otherwise: Option<String>,
    unlisted: Option<Unlisted>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unlisted {
    Reject,
    Pass,
    Null,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cast {
    cast: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Default {
    // `Option` would make a forgotten value null.
    #[serde(deserialize_with = "Value::deserialize")]
    default: Value,
}

impl Written {
    pub(crate) fn new(path: String, step: WrittenStep) -> Self {
        Self { path, step }
    }

    pub(crate) fn read(step: Value, path: String) -> Result<Self, OpenError> {
        let step = match step {
            Value::String(word) => of_word(&word, &path)?,
            Value::Object(options) => of_options(options, &path)?,
            _ => {
                return Err(OpenError::config(
                    path,
                    "expected a step: its name, or an object such as `{ split = \",\", part = 1 }`",
                ));
            }
        };
        Ok(Self { path, step })
    }
}

fn of_word(word: &str, path: &str) -> Result<WrittenStep, OpenError> {
    Ok(match word {
        "trim" => WrittenStep::Trim(Sides::Both),
        "trim_start" => WrittenStep::Trim(Sides::Start),
        "trim_end" => WrittenStep::Trim(Sides::End),
        "upper" => WrittenStep::Case(Case::Upper),
        "lower" => WrittenStep::Case(Case::Lower),
        _ if KEYS.contains(&word) => {
            return Err(OpenError::config(
                path,
                format!("`{word}` needs to be told more, as an object: `{{ {word} = … }}`"),
            ));
        }
        _ => return Err(OpenError::config(path, unknown("step", word, &all_steps()))),
    })
}

fn of_options(options: Map<String, Value>, path: &str) -> Result<WrittenStep, OpenError> {
    let mut kinds = KEYS.into_iter().filter(|key| options.contains_key(*key));
    let Some(kind) = kinds.next() else {
        let near = |word: &&String| nearest(word, KEYS).is_some();
        let word = options.keys().find(near).or_else(|| options.keys().next());
        let word = word.map_or("", String::as_str);
        let reason = match word {
            "" => format!("a step needs one of {}", KEYS.join(", ")),
            word if WORDS.contains(&word) => format!("`{word}` is a step as a word alone, not as an object"),
            word => unknown("step", word, &all_steps()),
        };
        return Err(OpenError::config(path, reason));
    };
    if let Some(other) = kinds.next() {
        return Err(OpenError::config(
            path,
            format!("`{kind}` and `{other}` are two steps; write an object for each"),
        ));
    }
    match kind {
        "split" => split(read(options, path)?, path),
        "json" => {
            let Json { json } = read(options, path)?;
            let parsed = JsonPath::parse(&json).map_err(|reason| OpenError::config(format!("{path}.json"), reason))?;
            Ok(WrittenStep::Json(parsed))
        }
        "values" => values(read(options, path)?, path),
        "cast" => {
            let Cast { cast } = read(options, path)?;
            let to = data_type(&cast).map_err(|reason| OpenError::config(format!("{path}.cast"), reason))?;
            Ok(WrittenStep::Cast(to))
        }
        _ => {
            let Default { default } = read(options, path)?;
            Ok(WrittenStep::Default(default))
        }
    }
}

fn split(Split { split, part }: Split, path: &str) -> Result<WrittenStep, OpenError> {
    if split.is_empty() {
        return Err(OpenError::config(
            format!("{path}.split"),
            "expected the text between two parts",
        ));
    }
    if part == 0 {
        return Err(OpenError::config(
            format!("{path}.part"),
            "parts are counted from 1, or from the end from -1",
        ));
    }
    Ok(WrittenStep::Split { separator: split, part })
}

fn values(raw: RawValues, path: &str) -> Result<WrittenStep, OpenError> {
    let other = match (raw.otherwise, raw.unlisted) {
        (Some(_), Some(_)) => {
            return Err(OpenError::config(
                path,
                "`else` and `unlisted` both say what becomes of a value that is not listed; take one",
            ));
        }
        (Some(text), None) => Other::Text(text),
        (None, Some(Unlisted::Pass)) => Other::Pass,
        (None, Some(Unlisted::Null)) => Other::Null,
        (None, Some(Unlisted::Reject) | None) => Other::Reject,
    };
    if raw.values.is_empty() {
        return Err(OpenError::config(
            format!("{path}.values"),
            "expected a value at least, and what becomes of it",
        ));
    }
    Ok(WrittenStep::Values(Values {
        listed: raw.values,
        other,
    }))
}

fn read<T: DeserializeOwned>(options: Map<String, Value>, path: &str) -> Result<T, OpenError> {
    parse_value(path, Value::Object(options))
}

fn all_steps() -> Vec<&'static str> {
    WORDS.into_iter().chain(KEYS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: &str) -> Result<WrittenStep, String> {
        Written::read(serde_json::from_str(config).unwrap(), "s".to_owned())
            .map(|written| written.step)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn steps_are_words_or_objects() {
        assert_eq!(read(r#""trim_end""#), Ok(WrittenStep::Trim(Sides::End)));
        let split = WrittenStep::Split {
            separator: ", ".to_owned(),
            part: -1,
        };
        assert_eq!(read(r#"{"part":-1,"split":", "}"#), Ok(split));
        let Ok(WrittenStep::Values(values)) = read(r#"{"values":{"a":"x","A":"y"}}"#) else {
            panic!("values");
        };
        assert_eq!((values.listed.len(), values.other), (2, Other::Reject));
    }

    #[test]
    fn mistakes_say_what_was_meant() {
        for (config, said) in [
            (r#""tirm""#, "s: unknown step `tirm`, did you mean `trim`?"),
            (
                r#""capitalize""#,
                "s: unknown step `capitalize`; known are trim, trim_start",
            ),
            (r#""split""#, "s: `split` needs to be told more"),
            (r#"1"#, "s: expected a step"),
            (r#"{}"#, "s: a step needs one of split, json"),
            (r#"{"trim":true}"#, "s: `trim` is a step as a word alone"),
            (
                r#"{"splitt":",","part":1}"#,
                "s: unknown step `splitt`, did you mean `split`?",
            ),
            (r#"{"jsn":"$.a"}"#, "s: unknown step `jsn`, did you mean `json`?"),
            (r#"{"split":","}"#, "s: missing field `part`"),
            (r#"{"split":",","prt":1}"#, "s: unknown key `prt`, did you mean `part`?"),
            (r#"{"split":"","part":1}"#, "s.split: expected the text"),
            (r#"{"split":",","part":0}"#, "s.part: parts are counted from 1"),
            (r#"{"split":",","part":"1"}"#, "s.part: invalid type"),
            (r#"{"json":"a.b"}"#, "s.json: expected a path such as"),
            (
                r#"{"cast":"bigit"}"#,
                "s.cast: unknown type `bigit`, did you mean `bigint`?",
            ),
            (r#"{"cast":"int","default":1}"#, "s: `cast` and `default` are two steps"),
            (r#"{"values":{}}"#, "s.values: expected a value at least"),
            (r#"{"values":{"a":1}}"#, "s.values.a: invalid type"),
            (
                r#"{"values":{"a":"b"},"else":"c","unlisted":"pass"}"#,
                "s: `else` and `unlisted` both",
            ),
            (
                r#"{"values":{"a":"b"},"unlisted":"nul"}"#,
                "s.unlisted: unknown word `nul`, did you mean `null`?",
            ),
        ] {
            let answer = read(config).unwrap_err();
            assert!(answer.starts_with(said), "{config}: {answer}");
        }
    }
}
