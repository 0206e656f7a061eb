//! `[lookups]`: reference tables by name. Their files are read when a table is opened that may use them.

use std::path::{Path, PathBuf};

use toml::Value;

use super::ConfigError;
use super::section::{Section, nearest};

/// One reference table of `[lookups]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupSettings {
    /// Its name.
    pub name: String,
    /// Its CSV file.
    pub file: PathBuf,
}

pub(super) fn parse_lookups(section: &Section<'_>, base: &Path) -> Result<Vec<LookupSettings>, ConfigError> {
    section
        .entries()
        .map(|(name, value)| {
            let Value::Table(table) = value else {
                return Err(section.error(name, "must be { file = \"PATH\" }, a CSV file with a header"));
            };
            let mut entry = Section::new(section.name(name), table);
            let file = base.join(entry.required_string("file")?);
            entry.finish()?;
            Ok(LookupSettings {
                name: name.to_owned(),
                file,
            })
        })
        .collect()
}

/// The names that a transform lists under `key`, each of which the section of that name has to have.
pub(super) fn granted<'k>(
    section: &mut Section<'_>,
    key: &'static str,
    known: impl Iterator<Item = &'k str> + Clone,
) -> Result<Vec<String>, ConfigError> {
    let names = section.strings(key)?.unwrap_or_default();
    match names.iter().find(|name| !known.clone().any(|known| known == *name)) {
        Some(name) => {
            let hint = nearest(name, known)
                .map(|nearest| format!("; did you mean {nearest}?"))
                .unwrap_or_default();
            Err(section.error(key, format!("names {name:?}, which [{key}] does not have{hint}")))
        }
        None => Ok(names),
    }
}
