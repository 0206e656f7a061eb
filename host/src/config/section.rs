//! Typed access to one section of the file. Every key that is asked for becomes known; [`Section::finish`] refuses the
//! rest and names the nearest known one.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::{Table, Value};

use super::ConfigError;
use super::units::{parse_bytes, parse_duration};

/// One TOML table and the path that leads to it.
pub(super) struct Section<'a> {
    path: String,
    table: &'a Table,
    known: BTreeSet<&'static str>,
}

impl<'a> Section<'a> {
    pub(super) fn new(path: impl Into<String>, table: &'a Table) -> Section<'a> {
        Section {
            path: path.into(),
            table,
            known: BTreeSet::new(),
        }
    }

    /// What stands in it.
    pub(super) fn table(&self) -> &'a Table {
        self.table
    }

    /// The section's own name.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The full name of a key, as the user finds it in the file.
    pub(super) fn name(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    pub(super) fn error(&self, key: &str, problem: impl Into<String>) -> ConfigError {
        ConfigError::Key {
            key: self.name(key),
            problem: problem.into(),
        }
    }

    pub(super) fn value(&mut self, key: &'static str) -> Option<&'a Value> {
        self.known.insert(key);
        self.table.get(key)
    }

    pub(super) fn string(&mut self, key: &'static str) -> Result<Option<&'a str>, ConfigError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.error(key, "must be a string in quotes")),
        }
    }

    pub(super) fn required_string(&mut self, key: &'static str) -> Result<&'a str, ConfigError> {
        match self.string(key)? {
            Some(text) if !text.trim().is_empty() => Ok(text),
            _ => Err(self.error(key, "is required and must not be empty")),
        }
    }

    pub(super) fn boolean(&mut self, key: &'static str) -> Result<Option<bool>, ConfigError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Boolean(value)) => Ok(Some(*value)),
            Some(_) => Err(self.error(key, "must be true or false")),
        }
    }

    /// A whole number in `range`.
    pub(super) fn integer(
        &mut self,
        key: &'static str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ConfigError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Integer(value)) if range.contains(value) => Ok(Some(*value)),
            Some(_) => Err(self.error(
                key,
                format!("must be a whole number from {} to {}", range.start(), range.end()),
            )),
        }
    }

    /// A duration in `range`.
    pub(super) fn duration(
        &mut self,
        key: &'static str,
        range: RangeInclusive<Duration>,
    ) -> Result<Option<Duration>, ConfigError> {
        let Some(text) = self
            .string(key)
            .map_err(|_| self.error(key, "must be a duration with a unit, such as \"10s\" or \"250ms\""))?
        else {
            return Ok(None);
        };
        match parse_duration(text) {
            Ok(duration) if range.contains(&duration) => Ok(Some(duration)),
            Ok(_) => Err(self.error(key, format!("must be from {:?} to {:?}", range.start(), range.end()))),
            Err(problem) => Err(self.error(key, problem)),
        }
    }

    /// A size in `range`.
    pub(super) fn bytes(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Result<Option<u64>, ConfigError> {
        let Some(text) = self
            .string(key)
            .map_err(|_| self.error(key, "must be a size with a unit, such as \"64MiB\""))?
        else {
            return Ok(None);
        };
        match parse_bytes(text) {
            Ok(bytes) if range.contains(&bytes) => Ok(Some(bytes)),
            Ok(_) => Err(self.error(
                key,
                format!("must be from {} to {} MiB", range.start() >> 20, range.end() >> 20),
            )),
            Err(problem) => Err(self.error(key, problem)),
        }
    }

    pub(super) fn strings(&mut self, key: &'static str) -> Result<Option<Vec<String>>, ConfigError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Array(items)) => items
                .iter()
                .map(|item| item.as_str().map(str::to_owned))
                .collect::<Option<Vec<String>>>()
                .map(Some)
                .ok_or_else(|| self.error(key, "must be a list of strings")),
            Some(_) => Err(self.error(key, "must be a list of strings")),
        }
    }

    /// A table under `key`.
    pub(super) fn section(&mut self, key: &'static str) -> Result<Option<Section<'a>>, ConfigError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Table(table)) => Ok(Some(Section::new(self.name(key), table))),
            Some(_) => Err(self.error(key, format!("must be a section: [{}]", self.name(key)))),
        }
    }

    /// The tables of a list under `key` (`[[key]]`), each with its position in its path.
    pub(super) fn sections(&mut self, key: &'static str) -> Result<Vec<Section<'a>>, ConfigError> {
        match self.value(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => items
                .iter()
                .enumerate()
                .map(|(i, item)| match item {
                    Value::Table(table) => Ok(Section::new(format!("{}[{}]", self.name(key), i + 1), table)),
                    _ => Err(self.error(key, format!("must be a list of sections: [[{}]]", self.name(key)))),
                })
                .collect(),
            Some(_) => Err(self.error(key, format!("must be a list of sections: [[{}]]", self.name(key)))),
        }
    }

    /// Refuses a key that is planned, with a sentence that says so, rather than ignoring it.
    pub(super) fn not_yet(&mut self, keys: &[&'static str]) -> Result<(), ConfigError> {
        for key in keys {
            if self.value(key).is_some() {
                return Err(self.error(key, "is not supported by this version of sluice; remove it"));
            }
        }
        Ok(())
    }

    /// The keys of a section whose keys are the user's own names.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
        self.table.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Refuses every key that nobody asked for.
    pub(super) fn finish(self) -> Result<(), ConfigError> {
        for key in self.table.keys() {
            if !self.known.contains(key.as_str()) && super::is_table_setting(key) {
                return Err(ConfigError::Misplaced {
                    key: self.name(key),
                    setting: key.clone(),
                    under_a_table: self.path.starts_with("table["),
                });
            }
            if !self.known.contains(key.as_str()) {
                return Err(ConfigError::UnknownKey {
                    key: self.name(key),
                    nearest: nearest(key, self.known.iter().copied()),
                });
            }
        }
        Ok(())
    }
}

/// The closest of `known` to `given`, when one is close enough to be meant.
pub(crate) fn nearest<'k>(given: &str, known: impl Iterator<Item = &'k str>) -> Option<String> {
    known
        .map(|candidate| (strsim::jaro_winkler(given, candidate), candidate))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}
