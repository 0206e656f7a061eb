//! The configuration as it is written. Nothing here knows the table.

use serde::Deserialize;
use sluice_plugin::OpenError;
use sluice_plugin::config::{Entries, parse};

use crate::recipe::{RawRecipe, Recipe, Source};

/// What happens to the columns that the configuration does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unlisted {
    #[default]
    Pass,
    Drop,
    /// The table does not start.
    Fail,
}

#[derive(Debug)]
pub(crate) struct Config {
    pub unlisted: Unlisted,
    /// Column names as they are written, and what to do with them.
    pub columns: Vec<(String, Mapping)>,
    /// Names of columns that the table does not have, and what they are made of, in the order of the names.
    pub add: Vec<(String, Recipe)>,
    /// Names of output columns that come first, in this order.
    pub order: Vec<String>,
}

/// What to do with one column of the table.
#[derive(Debug, PartialEq)]
pub(crate) enum Mapping {
    Drop,
    Keep { rename: Option<String>, recipe: Recipe },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    unlisted: Unlisted,
    #[serde(default)]
    columns: Entries<RawRecipe>,
    #[serde(default)]
    add: Entries<RawRecipe>,
    #[serde(default)]
    order: Vec<String>,
}

impl Config {
    pub(crate) fn read(text: &str) -> Result<Self, OpenError> {
        let raw: Raw = parse(text)?;
        let columns = raw.columns.0.into_iter().map(|(name, raw)| {
            let mapping = Mapping::read(raw, &format!("columns.{name}"))?;
            Ok((name, mapping))
        });
        let columns = columns.collect::<Result<_, OpenError>>()?;
        let add = raw.add.0.into_iter().map(|(name, raw)| {
            let recipe = added(raw, &name)?;
            Ok((name, recipe))
        });
        let mut add: Vec<(String, Recipe)> = add.collect::<Result<_, OpenError>>()?;
        // A TOML table has no order that would mean something.
        add.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Self {
            unlisted: raw.unlisted,
            columns,
            add,
            order: raw.order,
        })
    }
}

impl Mapping {
    fn read(raw: RawRecipe, path: &str) -> Result<Self, OpenError> {
        if raw.drop {
            return if raw.only_drops() {
                Ok(Self::Drop)
            } else {
                Err(OpenError::config(
                    path,
                    "a dropped column cannot be renamed, cast or computed",
                ))
            };
        }
        if raw.rename.as_ref().is_some_and(String::is_empty) {
            return Err(OpenError::config(format!("{path}.rename"), "a column needs a name"));
        }
        Ok(Self::Keep {
            rename: raw.rename.clone(),
            recipe: Recipe::read(raw, path)?,
        })
    }
}

fn added(raw: RawRecipe, name: &str) -> Result<Recipe, OpenError> {
    let path = format!("add.{name}");
    if name.is_empty() {
        return Err(OpenError::config("add", "a column needs a name"));
    }
    if raw.drop {
        return Err(OpenError::config(
            format!("{path}.drop"),
            "only a column of the table can be dropped, under `columns`",
        ));
    }
    if raw.rename.is_some() {
        return Err(OpenError::config(
            format!("{path}.rename"),
            format!("the new column is named `{name}`, as it stands here"),
        ));
    }
    let recipe = Recipe::read(raw, &path)?;
    if recipe.source == Source::Own {
        return Err(OpenError::config(
            path,
            "a new column needs one of `from`, `value`, `concat`, `coalesce`",
        ));
    }
    Ok(recipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_refused() {
        for (config, path) in [
            (r#"{"columns":{"a":{"drop":true,"rename":"b"}}}"#, "columns.a"),
            (r#"{"columns":{"a":{"drop":true,"default":1}}}"#, "columns.a"),
            (r#"{"columns":{"a":{"drop":true,"steps":["trim"]}}}"#, "columns.a"),
            (r#"{"columns":{"a":{"rename":""}}}"#, "columns.a.rename"),
            (r#"{"columns":{"a":{"cast":"x"}}}"#, "columns.a.cast"),
            (r#"{"columns":{"a":{"castt":"int"}}}"#, "columns.a"),
            (r#"{"columns":{"a":"drop"}}"#, "columns.a"),
            (r#"{"add":{"":{"value":1}}}"#, "add"),
            (r#"{"add":{"a":{}}}"#, "add.a"),
            (r#"{"add":{"a":{"cast":"int"}}}"#, "add.a"),
            (r#"{"add":{"a":{"from":"b","drop":true}}}"#, "add.a.drop"),
            (r#"{"add":{"a":{"from":"b","rename":"c"}}}"#, "add.a.rename"),
            (r#"{"add":{"a":{"value":1},"A":{"value":1}}}"#, "add"),
        ] {
            match Config::read(config) {
                Err(OpenError::Config { path: at, .. }) => assert_eq!(at, path, "{config}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn new_columns_stand_in_the_order_of_their_names() {
        let config = Config::read(r#"{"add":{"b":{"value":1},"a":{"value":1}}}"#).unwrap();
        let names: Vec<_> = config.add.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
