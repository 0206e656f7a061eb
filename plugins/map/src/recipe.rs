//! What a column is made of, as it is written: one source, then steps in their order, then `cast`, then `default`.

use serde::Deserialize;
use serde_json::Value;
use sluice_plugin::OpenError;
use sluice_plugin::config::{nearest, parse_value};

use crate::step_config::{Written, WrittenStep};
use crate::types::data_type;

/// What a column is made of.
#[derive(Debug, PartialEq)]
pub(crate) struct Recipe {
    /// Where it stands in the configuration.
    pub path: String,
    pub source: Source,
    pub steps: Vec<Written>,
}

/// What the steps start with. Column names are as they are written.
#[derive(Debug, PartialEq)]
pub(crate) enum Source {
    /// The column itself.
    Own,
    Column(String),
    Constant(Value),
    Concat {
        parts: Vec<Part>,
        separator: String,
        nulls: Nulls,
    },
    Coalesce(Vec<String>),
}

#[derive(Debug, PartialEq)]
pub(crate) enum Part {
    Column(String),
    Text(String),
}

/// What `concat` does with a column that is NULL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Nulls {
    /// The result is NULL.
    #[default]
    Null,
    /// It and its separator are left out.
    Skip,
    /// It is an empty text.
    Empty,
}

/// The keys of a column, under `columns` and under `add`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRecipe {
    pub rename: Option<String>,
    #[serde(default)]
    pub drop: bool,
    from: Option<String>,
    #[serde(default, deserialize_with = "given")]
    value: Option<Value>,
    concat: Option<Vec<Value>>,
    separator: Option<String>,
    nulls: Option<Nulls>,
    coalesce: Option<Vec<String>>,
    #[serde(default)]
    steps: Vec<Value>,
    cast: Option<String>,
    #[serde(default, deserialize_with = "given")]
    default: Option<Value>,
}

/// A value that is there, also when it is null.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl RawRecipe {
    /// The sources that are given, by their keys.
    fn sources(&self) -> Vec<&'static str> {
        [
            ("from", self.from.is_some()),
            ("value", self.value.is_some()),
            ("concat", self.concat.is_some()),
            ("coalesce", self.coalesce.is_some()),
        ]
        .into_iter()
        .filter_map(|(key, given)| given.then_some(key))
        .collect()
    }

    /// Whether `drop` is the only key.
    pub(crate) fn only_drops(&self) -> bool {
        self.rename.is_none()
            && self.sources().is_empty()
            && self.separator.is_none()
            && self.nulls.is_none()
            && self.steps.is_empty()
            && self.cast.is_none()
            && self.default.is_none()
    }

    fn source(&mut self, path: &str) -> Result<Source, OpenError> {
        if let [one, other, ..] = self.sources()[..] {
            return Err(OpenError::config(
                path,
                format!("a column is made of one source; `{one}` and `{other}` are two"),
            ));
        }
        if let Some(parts) = self.concat.take() {
            return Ok(Source::Concat {
                parts: concat_parts(parts, path)?,
                separator: self.separator.take().unwrap_or_default(),
                nulls: self.nulls.unwrap_or_default(),
            });
        }
        for (key, given) in [("separator", self.separator.is_some()), ("nulls", self.nulls.is_some())] {
            if given {
                return Err(OpenError::config(format!("{path}.{key}"), "it belongs to `concat`"));
            }
        }
        if let Some(columns) = self.coalesce.take() {
            if columns.len() < 2 {
                return Err(OpenError::config(
                    format!("{path}.coalesce"),
                    "expected two columns or more; one is `from`, and `default` gives a value in place of NULL",
                ));
            }
            return Ok(Source::Coalesce(columns));
        }
        Ok(match (self.from.take(), self.value.take()) {
            (Some(column), _) => Source::Column(column),
            (None, Some(value)) => Source::Constant(value),
            (None, None) => Source::Own,
        })
    }
}

impl Recipe {
    pub(crate) fn read(mut raw: RawRecipe, path: &str) -> Result<Self, OpenError> {
        let source = raw.source(path)?;
        let written = raw.steps.into_iter().enumerate();
        let mut steps = written
            .map(|(index, step)| Written::read(step, format!("{path}.steps[{index}]")))
            .collect::<Result<Vec<_>, _>>()?;
        if let Some(name) = raw.cast {
            let path = format!("{path}.cast");
            let to = data_type(&name).map_err(|reason| OpenError::config(&path, reason))?;
            steps.push(Written::new(path, WrittenStep::Cast(to)));
        }
        if let Some(value) = raw.default {
            steps.push(Written::new(format!("{path}.default"), WrittenStep::Default(value)));
        }
        Ok(Self {
            path: path.to_owned(),
            source,
            steps,
        })
    }

    /// The column as it is.
    pub(crate) fn own() -> Self {
        Self {
            path: String::new(),
            source: Source::Own,
            steps: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextPart {
    text: String,
}

fn concat_parts(parts: Vec<Value>, path: &str) -> Result<Vec<Part>, OpenError> {
    let parts = parts.into_iter().enumerate().map(|(index, part)| {
        let path = format!("{path}.concat[{index}]");
        match part {
            Value::String(column) => Ok(Part::Column(column)),
            Value::Object(_) => parse_value::<TextPart>(&path, part).map(|part| Part::Text(part.text)),
            _ => Err(OpenError::config(
                path,
                "expected the name of a column, or `{ text = \"…\" }`",
            )),
        }
    });
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    if !parts.iter().any(|part| matches!(part, Part::Column(_))) {
        return Err(OpenError::config(
            format!("{path}.concat"),
            "expected the name of a column at least; a text alone is `value`",
        ));
    }
    Ok(parts)
}

/// The answer to a word that is none of the known ones.
pub(crate) fn unknown(kind: &str, word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(meant) => format!("unknown {kind} `{word}`, did you mean `{meant}`?"),
        None => format!("unknown {kind} `{word}`; known are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: &str) -> Result<Recipe, String> {
        let raw = parse_value::<RawRecipe>("add.x", serde_json::from_str(config).unwrap());
        raw.and_then(|raw| Recipe::read(raw, "add.x"))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn cast_and_default_follow_the_steps() {
        let recipe = read(r#"{"default":0,"cast":"int","steps":["trim"],"from":"a"}"#).unwrap();
        assert_eq!(recipe.source, Source::Column("a".to_owned()));
        let paths: Vec<_> = recipe.steps.iter().map(|step| step.path.as_str()).collect();
        assert_eq!(paths, ["add.x.steps[0]", "add.x.cast", "add.x.default"]);
    }

    #[test]
    fn mistakes_say_where_and_what_was_meant() {
        for (config, said) in [
            (r#"{"form":"a"}"#, "add.x: unknown key `form`, did you mean `from`?"),
            (
                r#"{"from":"a","value":1}"#,
                "add.x: a column is made of one source; `from` and `value` are two",
            ),
            (
                r#"{"from":"a","separator":","}"#,
                "add.x.separator: it belongs to `concat`",
            ),
            (
                r#"{"coalesce":["a","b"],"nulls":"skip"}"#,
                "add.x.nulls: it belongs to `concat`",
            ),
            (
                r#"{"concat":["a"],"nulls":"skp"}"#,
                "add.x.nulls: unknown word `skp`, did you mean `skip`?",
            ),
            (
                r#"{"concat":["a",1]}"#,
                "add.x.concat[1]: expected the name of a column, or",
            ),
            (
                r#"{"concat":["a",{"txt":""}]}"#,
                "add.x.concat[1]: unknown key `txt`, did you mean `text`?",
            ),
            (
                r#"{"concat":[{"text":"a"}]}"#,
                "add.x.concat: expected the name of a column at least",
            ),
            (
                r#"{"concat":[]}"#,
                "add.x.concat: expected the name of a column at least",
            ),
            (r#"{"coalesce":["a"]}"#, "add.x.coalesce: expected two columns or more"),
            (r#"{"from":"a","steps":"trim"}"#, "add.x.steps: invalid type"),
        ] {
            let answer = read(config).unwrap_err();
            assert!(answer.starts_with(said), "{config}: {answer}");
        }
    }
}
