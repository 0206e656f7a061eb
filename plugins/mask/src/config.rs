//! The configuration as it is written, and its reading into methods. Nothing here knows the table.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sluice_plugin::OpenError;
use sluice_plugin::config::{Entries, nearest, parse, parse_value};

use crate::canonical::Normalize;
use crate::dates::Unit;

/// What happens to the columns that the configuration does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unlisted {
    /// The table does not start.
    #[default]
    Fail,
    Drop,
    Null,
    Pass,
}

/// The configuration.
#[derive(Debug)]
pub(crate) struct Config {
    pub unlisted: Unlisted,
    /// Column names as they are written, and what to do with them.
    pub columns: Vec<(String, Method)>,
}

/// What to do with one column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Method {
    Pass,
    Drop,
    Null,
    Constant { value: Value },
    Keep { first: usize, last: usize, mask: char },
    Hash(HashOptions),
    Email { key: String, context: String },
    Date { truncate: Unit },
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HashOptions {
    pub key: String,
    #[serde(default)]
    pub context: String,
    #[serde(default = "whole_digest")]
    pub length: usize,
    #[serde(default)]
    pub normalize: Vec<Normalize>,
}

const METHODS: [&str; 8] = ["pass", "drop", "null", "constant", "keep", "hash", "email", "date"];
const WHOLE_DIGEST: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    unlisted: Unlisted,
    #[serde(default)]
    columns: Entries<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoOptions {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstantOptions {
    // `Option` would make a forgotten value NULL.
    #[serde(deserialize_with = "Value::deserialize")]
    value: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeepOptions {
    #[serde(default)]
    first: usize,
    #[serde(default)]
    last: usize,
    #[serde(default = "star")]
    mask: char,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EmailOptions {
    key: String,
    #[serde(default)]
    context: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DateOptions {
    truncate: Unit,
}

impl Config {
    pub(crate) fn read(text: &str) -> Result<Self, OpenError> {
        let raw: Raw = parse(text)?;
        let columns = raw
            .columns
            .0
            .into_iter()
            .map(|(name, value)| {
                let method = Method::read(&format!("columns.{name}"), value)?;
                Ok((name, method))
            })
            .collect::<Result<_, OpenError>>()?;
        Ok(Self {
            unlisted: raw.unlisted,
            columns,
        })
    }
}

impl Method {
    /// Its name in the configuration.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Drop => "drop",
            Self::Null => "null",
            Self::Constant { .. } => "constant",
            Self::Keep { .. } => "keep",
            Self::Hash(_) => "hash",
            Self::Email { .. } => "email",
            Self::Date { .. } => "date",
        }
    }

    /// The key that it is made with, if it is keyed.
    pub(crate) fn key(&self) -> Option<&str> {
        match self {
            Self::Hash(HashOptions { key, .. }) | Self::Email { key, .. } => Some(key),
            _ => None,
        }
    }

    fn read(path: &str, value: Value) -> Result<Self, OpenError> {
        let (name, options) = match value {
            Value::String(name) => (name, Map::new()),
            Value::Object(mut options) => match options.remove("method") {
                Some(Value::String(name)) => (name, options),
                Some(_) => {
                    return Err(OpenError::config(
                        format!("{path}.method"),
                        "expected the name of a method",
                    ));
                }
                None => return Err(OpenError::config(path, no_method(&options))),
            },
            _ => {
                return Err(OpenError::config(
                    path,
                    "expected the name of a method, or an object with `method`",
                ));
            }
        };
        match name.as_str() {
            "pass" => read::<NoOptions>(path, options).map(|_| Self::Pass),
            "drop" => read::<NoOptions>(path, options).map(|_| Self::Drop),
            "null" => read::<NoOptions>(path, options).map(|_| Self::Null),
            "constant" => read::<ConstantOptions>(path, options).map(|options| Self::Constant { value: options.value }),
            "keep" => Self::keep(path, read(path, options)?),
            "hash" => Self::hash(path, read(path, options)?),
            "email" => read::<EmailOptions>(path, options).map(|options| Self::Email {
                key: options.key,
                context: options.context,
            }),
            "date" => read::<DateOptions>(path, options).map(|options| Self::Date {
                truncate: options.truncate,
            }),
            _ => Err(OpenError::config(path, unknown_method(&name))),
        }
    }

    fn keep(path: &str, options: KeepOptions) -> Result<Self, OpenError> {
        let KeepOptions { first, last, mask } = options;
        if first.saturating_add(last) == 0 {
            return Err(OpenError::config(
                path,
                "`keep` needs `first` or `last`, the number of characters to keep; to keep none use `constant` or `null`",
            ));
        }
        if mask.is_control() {
            return Err(OpenError::config(
                format!("{path}.mask"),
                "expected a character that can be seen",
            ));
        }
        Ok(Self::Keep { first, last, mask })
    }

    fn hash(path: &str, options: HashOptions) -> Result<Self, OpenError> {
        if !(16..=WHOLE_DIGEST).contains(&options.length) {
            return Err(OpenError::config(
                format!("{path}.length"),
                "expected 16 to 64 hexadecimal digits; fewer would make different values equal",
            ));
        }
        for (index, step) in options.normalize.iter().enumerate() {
            if options.normalize[..index].contains(step) {
                return Err(OpenError::config(
                    format!("{path}.normalize[{index}]"),
                    "it stands there twice",
                ));
            }
        }
        Ok(Self::Hash(options))
    }
}

fn read<T: DeserializeOwned>(path: &str, options: Map<String, Value>) -> Result<T, OpenError> {
    parse_value(path, Value::Object(options))
}

/// A misspelt `method` would otherwise look like a forgotten one.
fn no_method(options: &Map<String, Value>) -> String {
    let misspelt = options.keys().find(|key| nearest(key, ["method"]).is_some());
    match misspelt {
        Some(key) => format!("unknown key `{key}`, did you mean `method`?"),
        None => format!("`method` is missing; methods are {}", METHODS.join(", ")),
    }
}

fn unknown_method(name: &str) -> String {
    match nearest(name, METHODS) {
        Some(meant) => format!("unknown method `{name}`, did you mean `{meant}`?"),
        None => format!("unknown method `{name}`; methods are {}", METHODS.join(", ")),
    }
}

fn whole_digest() -> usize {
    WHOLE_DIGEST
}

fn star() -> char {
    '*'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn method(json: &str) -> Result<Method, String> {
        let config = format!(r#"{{"columns":{{"c":{json}}}}}"#);
        match Config::read(&config) {
            Ok(config) => Ok(config.columns[0].1.clone()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_method_can_be_a_word_or_an_object() {
        assert_eq!(method(r#""null""#), Ok(Method::Null));
        assert_eq!(method(r#"{"method":"null"}"#), Ok(Method::Null));
        let keep = Method::Keep {
            first: 2,
            last: 0,
            mask: '*',
        };
        assert_eq!(method(r#"{"method":"keep","first":2}"#), Ok(keep));
        let hash = method(r#"{"method":"hash","key":"pii","normalize":["trim","nfc"]}"#);
        let expected = HashOptions {
            key: "pii".to_owned(),
            context: String::new(),
            length: 64,
            normalize: vec![Normalize::Trim, Normalize::Nfc],
        };
        assert_eq!(hash, Ok(Method::Hash(expected)));
    }

    #[test]
    fn mistakes_are_answered_with_what_was_meant() {
        for (json, said) in [
            (r#""nul""#, "columns.c: unknown method `nul`, did you mean `null`?"),
            (r#""zzz""#, "methods are pass, drop"),
            (r#"{"metod":"null"}"#, "unknown key `metod`, did you mean `method`?"),
            (r#"{"first":1}"#, "`method` is missing"),
            (r#"{"method":1}"#, "columns.c.method: expected"),
            ("1", "columns.c: expected the name"),
            (r#"{"method":"null","first":1}"#, "columns.c: unknown key `first`"),
            (r#"{"method":"keep","frist":1}"#, "did you mean `first`?"),
            (r#""keep""#, "needs `first` or `last`"),
            (r#"{"method":"keep","first":-1}"#, "columns.c.first: "),
            (r#"{"method":"keep","first":1,"mask":"ab"}"#, "columns.c.mask: "),
            (r#"{"method":"keep","first":1,"mask":"\n"}"#, "columns.c.mask: "),
            (r#""constant""#, "missing field `value`"),
            (r#""hash""#, "missing field `key`"),
            (
                r#"{"method":"hash","key":"k","length":8}"#,
                "columns.c.length: expected 16 to 64",
            ),
            (r#"{"method":"hash","key":"k","length":65}"#, "expected 16 to 64"),
            (
                r#"{"method":"hash","key":"k","normalize":["trim","trim"]}"#,
                "normalize[1]: it stands",
            ),
            (
                r#"{"method":"hash","key":"k","normalize":["lowr"]}"#,
                "did you mean `lower`?",
            ),
            (r#""email""#, "missing field `key`"),
            (r#"{"method":"date","truncate":"yaer"}"#, "did you mean `year`?"),
        ] {
            let answer = method(json).unwrap_err();
            assert!(answer.contains(said), "{json}: {answer}");
        }
        let error = Config::read(r#"{"unlist":"drop"}"#).unwrap_err().to_string();
        assert_eq!(error, "unknown key `unlist`, did you mean `unlisted`?");
    }

    #[test]
    fn a_constant_can_be_null_but_not_forgotten() {
        let null = Method::Constant { value: Value::Null };
        assert_eq!(method(r#"{"method":"constant","value":null}"#), Ok(null));
        assert!(method(r#"{"method":"constant"}"#).is_err());
    }

    #[test]
    fn fail_is_the_default() {
        let config = Config::read("{}").unwrap();
        assert_eq!(config.unlisted, Unlisted::Fail);
        assert!(config.columns.is_empty());
    }
}
