//! A configuration of which only `[source]` counts, for `sluice init`, which writes the rest.

use std::path::{Path, PathBuf};

use super::secret::Secrets;
use super::section::Section;
use super::{ConfigError, SourceSettings, shield_values};

/// The keys of `[source]` that are secrets.
pub const SOURCE_SECRETS: [&str; 4] = ["password", "connection_string", "access_token", "client_secret"];

/// What a file says of the source.
#[derive(Clone, Debug)]
pub struct OnlySource {
    /// The settings, with their secrets.
    pub settings: SourceSettings,
    /// The section as it stands in the file.
    pub section: toml::Table,
    /// What relative paths of it are relative to.
    pub base: PathBuf,
    /// Sections of the file that do not count here.
    pub others: Vec<String>,
    /// What is allowed and worth changing.
    pub warnings: Vec<String>,
}

impl OnlySource {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<OnlySource, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let root: toml::Table = text.parse().map_err(|error: toml::de::Error| ConfigError::Syntax {
            path: path.to_owned(),
            message: shield_values(&error, &text),
        })?;
        let base = std::path::absolute(path)
            .ok()
            .and_then(|absolute| absolute.parent().map(Path::to_owned))
            .unwrap_or_else(|| PathBuf::from("."));
        let others = root.keys().filter(|key| *key != "source").cloned().collect();
        match root.get("source").and_then(toml::Value::as_table) {
            Some(section) => OnlySource::of(section.clone(), base, others),
            None => Err(ConfigError::Key {
                key: "source".to_owned(),
                problem: format!("is not in {}: a section [source] says which server", path.display()),
            }),
        }
    }

    /// Validates a section that was put together.
    pub fn of(section: toml::Table, base: PathBuf, others: Vec<String>) -> Result<OnlySource, ConfigError> {
        let mut warnings = Vec::new();
        let parsed = Section::new("source", &section);
        let settings = SourceSettings::parse(parsed, &base, Secrets::Resolve, &mut warnings)?;
        Ok(OnlySource {
            settings,
            section,
            base,
            others,
            warnings,
        })
    }
}
