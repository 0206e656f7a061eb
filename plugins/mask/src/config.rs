//! The configuration as it is written, and its reading into methods. Nothing here knows the table.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sluice_plugin::OpenError;
use sluice_plugin::config::{Entries, nearest, parse, parse_value};

use crate::canonical::Normalize;
use crate::dates::Unit;
use crate::keyed::is_reserved;
use crate::pseudonym::Pseudonym;
use crate::token::Token;
use crate::{bucket, date_shift, fpe, noise, redact};

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
    Token(Token),
    Fpe(fpe::Options),
    Pseudonym(Pseudonym),
    DateShift(date_shift::Options),
    Noise(noise::Options),
    Bucket(bucket::Options),
    Redact(Box<redact::Options>),
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

const METHODS: [&str; 15] = [
    "pass",
    "drop",
    "null",
    "constant",
    "keep",
    "hash",
    "token",
    "email",
    "fpe",
    "pseudonym",
    "date",
    "date_shift",
    "bucket",
    "noise",
    "redact",
];
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
            Self::Token(_) => "token",
            Self::Fpe(_) => "fpe",
            Self::Pseudonym(_) => "pseudonym",
            Self::DateShift(_) => "date_shift",
            Self::Noise(_) => "noise",
            Self::Bucket(_) => "bucket",
            Self::Redact(_) => "redact",
        }
    }

    /// The key that it is made with, if it is keyed.
    pub(crate) fn key(&self) -> Option<&str> {
        match self {
            Self::Hash(HashOptions { key, .. })
            | Self::Email { key, .. }
            | Self::Token(Token { key, .. })
            | Self::Fpe(fpe::Options { key, .. })
            | Self::Pseudonym(Pseudonym { key, .. })
            | Self::DateShift(date_shift::Options { key, .. })
            | Self::Noise(noise::Options { key, .. }) => Some(key),
            Self::Redact(options) => options.key.as_deref(),
            _ => None,
        }
    }

    /// The other column that decides what a value becomes.
    pub(crate) fn by(&self) -> Option<&str> {
        match self {
            Self::DateShift(options) => Some(&options.by),
            Self::Noise(options) => options.by.as_deref(),
            _ => None,
        }
    }

    fn context(&self) -> Option<&str> {
        match self {
            Self::Hash(HashOptions { context, .. })
            | Self::Email { context, .. }
            | Self::Token(Token { context, .. })
            | Self::Fpe(fpe::Options { context, .. })
            | Self::Pseudonym(Pseudonym { context, .. })
            | Self::DateShift(date_shift::Options { context, .. })
            | Self::Noise(noise::Options { context, .. }) => Some(context),
            Self::Redact(options) => options.context.as_deref(),
            _ => None,
        }
    }

    pub(crate) fn normalize(&self) -> &[Normalize] {
        match self {
            Self::Hash(HashOptions { normalize, .. })
            | Self::Token(Token { normalize, .. })
            | Self::Fpe(fpe::Options { normalize, .. })
            | Self::Pseudonym(Pseudonym { normalize, .. })
            | Self::DateShift(date_shift::Options { normalize, .. })
            | Self::Noise(noise::Options { normalize, .. }) => normalize,
            Self::Redact(options) => options.normalize.as_deref().unwrap_or_default(),
            _ => &[],
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
        let method = Self::of(path, &name, options)?;
        method.check(path)?;
        Ok(method)
    }

    fn of(path: &str, name: &str, options: Map<String, Value>) -> Result<Self, OpenError> {
        match name {
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
            "token" => read(path, options).map(Self::Token),
            "fpe" => read(path, options).map(Self::Fpe),
            "pseudonym" => read(path, options).map(Self::Pseudonym),
            "date_shift" => read(path, options).map(Self::DateShift),
            "noise" => read(path, options).map(Self::Noise),
            "bucket" => read(path, options).map(Self::Bucket),
            "redact" => read(path, options).map(|options| Self::Redact(Box::new(options))),
            _ => Err(OpenError::config(path, unknown_method(name))),
        }
    }

    /// What cannot be said by the types of the options.
    fn check(&self, path: &str) -> Result<(), OpenError> {
        if self.context().is_some_and(is_reserved) {
            return Err(OpenError::config(
                format!("{path}.context"),
                "contexts that begin with `sluice mask ` are mask's own",
            ));
        }
        let steps = self.normalize();
        for (index, step) in steps.iter().enumerate() {
            if steps[..index].contains(step) {
                return Err(OpenError::config(
                    format!("{path}.normalize[{index}]"),
                    "it stands there twice",
                ));
            }
        }
        match self {
            Self::Token(token) => token.check(path),
            Self::Fpe(options) => options.check(path),
            Self::Pseudonym(pseudonym) => pseudonym.check(path),
            Self::DateShift(options) => options.check(path),
            Self::Noise(options) => options.check(path),
            Self::Bucket(options) => options.check(path),
            Self::Redact(options) => options.check(path),
            _ => Ok(()),
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
mod tests;
