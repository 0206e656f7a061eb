//! The configuration, and what it comes to on a table.

use serde::Deserialize;
use sluice_plugin::config::{Entries, nearest};
use sluice_plugin::{
    Column, ComputedField, DataType, Keyed, KeyedError, Lookup, OpenError, OutputColumn, Plan, SourceField, Table,
};

use crate::CountryMask;

/// What stands under `config` in `sluice.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    country: String,
    table: String,
    columns: Entries<String>,
    key: String,
    #[serde(default)]
    context: String,
    #[serde(default)]
    otherwise: Otherwise,
}

/// What becomes of the values of a country for which there is no rule. Keeping them is no choice: a country that nobody
/// thought of would go out raw.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Otherwise {
    #[default]
    Null,
    Hash,
    Reject,
}

/// A column that is masked.
#[derive(Debug)]
pub(crate) struct Masked {
    pub column: String,
    /// The column with the country, which a reject names.
    pub country: String,
    /// The column of the reference table that has its rules.
    pub rule: String,
}

pub(crate) fn open<K: Keyed, L: Lookup>(
    table: &Table,
    config: &str,
    keys: K,
    lookups: L,
) -> Result<(CountryMask<K, L>, Plan), OpenError> {
    let config: Config = sluice_plugin::config::parse(config)?;
    if config.columns.0.is_empty() {
        return Err(OpenError::config("columns", "it lists no column to mask"));
    }
    let country = text(table, "country", &config.country)?;
    check_key(&keys, &config.key)?;
    let rule_columns = rule_columns(&lookups, &config.table)?;
    let mut rules: Vec<Option<&str>> = vec![None; table.fields.len()];
    for (name, rule) in &config.columns.0 {
        let path = format!("columns.{name}");
        let index = find(table, &path, name)?;
        text(table, &path, name)?;
        if table.fields[index].name == country.name {
            return Err(OpenError::config(
                path,
                "it is the column with the country, by which the others are masked",
            ));
        }
        if !rule_columns.contains(rule) {
            let known = rule_columns.iter().map(String::as_str);
            let hint = match nearest(rule, known) {
                Some(meant) => format!(", did you mean `{meant}`?"),
                None => format!("; it has {}", rule_columns.join(", ")),
            };
            let reason = format!("the reference table `{}` has no column `{rule}`{hint}", config.table);
            return Err(OpenError::config(path, reason));
        }
        rules[index] = Some(rule);
    }
    let mut plan = Plan::default();
    plan.reads.push(country.name.clone());
    let mut masked = Vec::new();
    for (field, rule) in table.fields.iter().zip(rules) {
        let Some(rule) = rule else {
            plan.outputs.push(OutputColumn::pass(&field.name, &field.name));
            continue;
        };
        let how = format!(
            "kept, hashed or null, as `{}` in `{}` says of the country",
            rule, config.table
        );
        let sources = vec![field.name.clone(), country.name.clone()];
        let computed = ComputedField::new(DataType::Utf8, true, sources, how).with_keys([&*config.key]);
        plan.outputs.push(OutputColumn::computed(&field.name, computed));
        plan.reads.push(field.name.clone());
        masked.push(Masked {
            column: field.name.clone(),
            country: country.name.clone(),
            rule: rule.to_owned(),
        });
    }
    let mask = CountryMask {
        keys,
        lookups,
        table: config.table,
        key: config.key,
        context: config.context,
        otherwise: config.otherwise,
        masked,
    };
    Ok((mask, plan))
}

/// A column of text.
fn text<'a>(table: &'a Table, path: &str, name: &str) -> Result<&'a SourceField, OpenError> {
    let field = &table.fields[find(table, path, name)?];
    match field.data_type {
        DataType::Utf8 => Ok(field),
        other => Err(OpenError::unsupported(
            &field.name,
            format!("a hash is a text, and this is {other}; cast it to `string` with `map` before"),
        )),
    }
}

fn find(table: &Table, path: &str, name: &str) -> Result<usize, OpenError> {
    match table.find(name).as_slice() {
        [index] => Ok(*index),
        [] => {
            let known = table.fields.iter().map(|field| field.name.as_str());
            let hint = nearest(name, known).map(|meant| format!(", did you mean `{meant}`?"));
            let reason = format!("the table has no column `{name}`{}", hint.unwrap_or_default());
            Err(OpenError::config(path, reason))
        }
        _ => {
            let reason = format!("the table has more than one column `{name}`, ignoring case");
            Err(OpenError::config(path, reason))
        }
    }
}

/// The columns of the reference table with rules: all but the first, which has the countries.
fn rule_columns(lookups: &impl Lookup, name: &str) -> Result<Vec<String>, OpenError> {
    match lookups.columns(name) {
        Ok(columns) => Ok(columns.into_iter().skip(1).collect()),
        Err(error) => Err(OpenError::config(
            "table",
            format!("`{name}`: {error}; add it to the transform's `lookups`"),
        )),
    }
}

/// Asks for the hash of no rows, so that a key that is not granted stops the table at its start and not in the middle.
fn check_key(keys: &impl Keyed, key: &str) -> Result<(), OpenError> {
    let nothing = Column {
        offsets: vec![0],
        ..Column::default()
    };
    match keys.hmac_sha256(key, "", 0, nothing) {
        Err(KeyedError::NotGranted) => Err(OpenError::config(
            "key",
            format!("the key `{key}` is not granted to this transform; add it to the transform's `keys`"),
        )),
        _ => Ok(()),
    }
}
