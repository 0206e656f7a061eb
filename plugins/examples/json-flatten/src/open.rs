//! The configuration, and what it comes to on a table.

use serde::Deserialize;
use sluice_plugin::config::{Entries, nearest};
use sluice_plugin::{ComputedField, DataType, OpenError, OutputColumn, Plan, SourceField, Table};

use crate::JsonFlatten;
use crate::path;
use crate::walk::Node;

/// Characters of a code.
const LONGEST_CODE: usize = 64;
/// Types without digits in parentheses.
const TYPES: [(&str, DataType); 9] = [
    ("string", DataType::Utf8),
    ("boolean", DataType::Boolean),
    ("smallint", DataType::Int16),
    ("int", DataType::Int32),
    ("bigint", DataType::Int64),
    ("double", DataType::Float64),
    ("date", DataType::Date),
    ("timestamp", DataType::Timestamp),
    ("timestamp_ntz", DataType::TimestampNtz),
];

/// What stands under `config` in `sluice.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    column: String,
    fields: Entries<FieldConfig>,
    #[serde(default)]
    keep_source: bool,
    #[serde(default = "Or::reject")]
    invalid: Or,
    #[serde(default = "Or::null")]
    missing: Or,
    #[serde(default = "Or::reject")]
    mismatch: Or,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldConfig {
    path: String,
    #[serde(rename = "type")]
    data_type: Option<String>,
}

/// What becomes of something that is not as it should be.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Or {
    /// The row is rejected.
    Reject,
    /// The value is NULL.
    Null,
}

impl Or {
    fn reject() -> Self {
        Or::Reject
    }

    fn null() -> Self {
        Or::Null
    }
}

/// A column that is made.
#[derive(Debug)]
pub(crate) struct Field {
    pub data_type: DataType,
    /// Its name as codes have it.
    suffix: String,
}

impl Field {
    /// The code of a reject, with the field in it: `json-type-unit-price`.
    pub(crate) fn code(&self, what: &str) -> String {
        let mut code = format!("{what}{}", self.suffix);
        code.truncate(LONGEST_CODE);
        code
    }
}

pub(crate) fn open(table: &Table, config: &str) -> Result<(JsonFlatten, Plan), OpenError> {
    let config: Config = sluice_plugin::config::parse(config)?;
    let source = source(table, &config.column)?;
    if config.fields.0.is_empty() {
        return Err(OpenError::config("fields", "it names no field to take out"));
    }
    let mut plan = Plan {
        outputs: Vec::new(),
        reads: vec![source.name.clone()],
    };
    let mut fields = Vec::new();
    let mut paths = Node::default();
    let mut computed = Vec::new();
    for (name, field) in &config.fields.0 {
        let at = |key: &str| format!("fields.{name}{key}");
        let taken = table.find(name).into_iter().map(|index| &table.fields[index]);
        // Its own name is free once the source is gone.
        let taken = taken
            .filter(|taken| config.keep_source || taken.name != source.name)
            .count();
        if taken > 0 || name.is_empty() {
            return Err(OpenError::config(
                at(""),
                format!("the table has a column `{name}` already; call the field otherwise"),
            ));
        }
        let steps = path::parse(&field.path).map_err(|reason| OpenError::config(at(".path"), reason))?;
        let data_type = data_type(field.data_type.as_deref().unwrap_or("string"));
        let data_type = data_type.map_err(|reason| OpenError::config(at(".type"), reason))?;
        paths.add(&steps, fields.len());
        fields.push(Field {
            data_type,
            suffix: suffix(name),
        });
        let made = ComputedField::new(
            data_type,
            true,
            vec![source.name.clone()],
            format!("{} of the JSON", field.path),
        );
        computed.push(OutputColumn::computed(name, made));
    }
    for field in &table.fields {
        if field.name != source.name || config.keep_source {
            plan.outputs.push(OutputColumn::pass(&field.name, &field.name));
        }
        if field.name == source.name {
            plan.outputs.append(&mut computed);
        }
    }
    let flatten = JsonFlatten {
        column: source.name.clone(),
        fields,
        paths,
        invalid: config.invalid,
        missing: config.missing,
        mismatch: config.mismatch,
    };
    Ok((flatten, plan))
}

fn source<'a>(table: &'a Table, name: &str) -> Result<&'a SourceField, OpenError> {
    let problem = |reason: String| Err(OpenError::config("column", reason));
    let field = match table.find(name).as_slice() {
        [index] => &table.fields[*index],
        [] => {
            let known = table.fields.iter().map(|field| field.name.as_str());
            let hint = nearest(name, known).map(|meant| format!(", did you mean `{meant}`?"));
            return problem(format!("the table has no column `{name}`{}", hint.unwrap_or_default()));
        }
        _ => return problem(format!("the table has more than one column `{name}`, ignoring case")),
    };
    match field.data_type {
        DataType::Utf8 => Ok(field),
        other => Err(OpenError::unsupported(
            &field.name,
            format!("JSON is a text, and this is {other}"),
        )),
    }
}

fn data_type(written: &str) -> Result<DataType, String> {
    let text: String = written.to_lowercase().chars().filter(|char| *char != ' ').collect();
    if let Some((_, data_type)) = TYPES.iter().find(|(name, _)| *name == text) {
        return Ok(*data_type);
    }
    if let Some(digits) = text.strip_prefix("decimal(").and_then(|rest| rest.strip_suffix(')')) {
        let (precision, scale) = digits.split_once(',').unwrap_or((digits, "0"));
        return match (precision.parse(), scale.parse()) {
            (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => Ok(DataType::Decimal { precision, scale }),
            _ => Err(format!(
                "`{written}`: 1 to 38 digits, and at most all of them behind the point"
            )),
        };
    }
    let names = TYPES.iter().map(|(name, _)| *name).chain(["decimal(p,s)"]);
    Err(match nearest(&text, names.clone()) {
        Some(meant) => format!("`{written}` is no type, did you mean `{meant}`?"),
        None => format!(
            "`{written}` is no type; known are {}",
            names.collect::<Vec<_>>().join(", ")
        ),
    })
}

/// `-unit-price` for a field `Unit_Price`: what a code may have in it.
fn suffix(name: &str) -> String {
    let plain = |char: char| match char.to_ascii_lowercase() {
        plain @ ('a'..='z' | '0'..='9') => plain,
        _ => '-',
    };
    std::iter::once('-').chain(name.chars().map(plain)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_they_are_written_elsewhere() {
        assert_eq!(data_type("BigInt"), Ok(DataType::Int64));
        assert_eq!(
            data_type("decimal(12, 2)"),
            Ok(DataType::Decimal {
                precision: 12,
                scale: 2
            })
        );
        assert_eq!(
            data_type("decimal(5)"),
            Ok(DataType::Decimal { precision: 5, scale: 0 })
        );
        for (text, words) in [
            ("decimal(39,0)", "1 to 38 digits"),
            ("decimal(5,6)", "1 to 38 digits"),
            ("decimal(x)", "1 to 38 digits"),
            ("bolean", "did you mean `boolean`?"),
            ("money", "known are string, boolean"),
        ] {
            let error = data_type(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_code_names_its_field_in_at_most_64_characters() {
        let field = |name: &str| Field {
            data_type: DataType::Utf8,
            suffix: suffix(name),
        };
        assert_eq!(field("Unit_Price").code("json-type"), "json-type-unit-price");
        assert_eq!(field("größe").code("json-type"), "json-type-gr--e");
        assert_eq!(field(&"x".repeat(100)).code("json-missing").len(), 64);
    }
}
