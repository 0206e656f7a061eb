//! What the connection string gives, and the rule that a setting is given once: there or by its key.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::secret::{self, SecretSource, Secrets};
use super::super::section::Section;
use super::super::{ConfigError, Secret};
use super::connection_string::{self, Keyword};

/// The settings of a connection string, by the key that means the same.
#[derive(Default)]
pub(super) struct Given {
    values: BTreeMap<&'static str, (&'static str, String)>,
    pub(super) password: Option<Secret>,
    /// `Integrated Security=true`.
    pub(super) integrated: Option<()>,
    /// There is a string, and nobody wants to know what is in it.
    pub(super) unknown: bool,
}

const KEY: &str = "connection_string";

impl Given {
    /// Reads `source.connection_string`, if there is one.
    pub(super) fn read(
        section: &mut Section<'_>,
        base: &Path,
        secrets: Secrets,
        warnings: &mut Vec<String>,
    ) -> Result<Given, ConfigError> {
        let mut given = Given::default();
        let Some(value) = section.value(KEY) else {
            return Ok(given);
        };
        let problem = |text: String| section.error(KEY, text);
        let source = SecretSource::parse(value, base).map_err(problem)?;
        let literal = matches!(source, SecretSource::Literal(_));
        if secrets == Secrets::Skip && !literal {
            given.unknown = true;
            return Ok(given);
        }
        let text = source.read().map_err(problem)?;
        for pair in connection_string::parse(text.reveal()).map_err(problem)? {
            let lower = pair.value.to_lowercase();
            let key = match pair.keyword {
                Keyword::Password => {
                    if literal {
                        warnings.push(secret::literal_warning(&section.name(KEY)));
                    }
                    given.password = Some(Secret::new(pair.value));
                    continue;
                }
                Keyword::IntegratedSecurity => {
                    match lower.as_str() {
                        "true" | "yes" | "sspi" => given.integrated = Some(()),
                        "false" | "no" => {}
                        _ => return Err(problem(format!("has {} that is neither true nor false", pair.name))),
                    }
                    continue;
                }
                Keyword::NoEffect { same, why } => {
                    if !same.contains(&lower.as_str()) {
                        warnings.push(format!("{}: {} has no effect: {why}", section.name(KEY), pair.name));
                    }
                    continue;
                }
                Keyword::Refused { off, why } => {
                    if !off.contains(&lower.as_str()) {
                        return Err(problem(format!("has {}: {why}; remove it", pair.name)));
                    }
                    continue;
                }
                Keyword::Server => "server",
                Keyword::Database => "database",
                Keyword::User => "user",
                Keyword::Authentication => "authentication",
                Keyword::Encrypt => "encrypt",
                Keyword::TrustServerCertificate => "trust_server_certificate",
                Keyword::ServerCertificate => "server_certificate",
                Keyword::HostNameInCertificate => "host_name_in_certificate",
                Keyword::ConnectTimeout => "connect_timeout",
                Keyword::CommandTimeout => "command_timeout",
                Keyword::ApplicationName => "application_name",
                Keyword::ApplicationIntent => "application_intent",
            };
            given.values.insert(key, (pair.name, pair.value));
        }
        Ok(given)
    }

    /// The value of the string, for a setting whose key is read by somebody else.
    pub(super) fn take(&mut self, key: &str) -> Option<String> {
        self.values.remove(key).map(|(_, value)| value)
    }

    /// Whether the setting is given at all.
    pub(super) fn has(&self, section: &mut Section<'_>, key: &'static str) -> bool {
        section.value(key).is_some() || self.values.contains_key(key) || (key == "password" && self.password.is_some())
    }

    /// A text, by key or by string.
    pub(super) fn text(&mut self, section: &mut Section<'_>, key: &'static str) -> Result<Option<String>, ConfigError> {
        match (section.string(key)?, self.values.contains_key(key)) {
            (Some(_), true) => Err(self.twice(section, key)),
            (Some(text), false) => Ok(Some(text.to_owned())),
            (None, _) => Ok(self.take(key)),
        }
    }

    /// A text that has to be there, unless nobody wants to know what is in the string.
    pub(super) fn required(&mut self, section: &mut Section<'_>, key: &'static str) -> Result<String, ConfigError> {
        match self.text(section, key)? {
            Some(text) if !text.trim().is_empty() => Ok(text),
            None if self.unknown => Ok(String::new()),
            _ => Err(section.error(key, "is required and must not be empty")),
        }
    }

    /// The string's value for a key that the file has not, with its keyword.
    pub(super) fn taken(
        &mut self,
        section: &mut Section<'_>,
        key: &'static str,
    ) -> Result<Option<(&'static str, String)>, ConfigError> {
        if section.value(key).is_some() && self.values.contains_key(key) {
            return Err(self.twice(section, key));
        }
        Ok(self.values.remove(key))
    }

    /// `true`, `false`, `yes` or `no`, by key or by string.
    pub(super) fn boolean(
        &mut self,
        section: &mut Section<'_>,
        key: &'static str,
    ) -> Result<Option<bool>, ConfigError> {
        match self.taken(section, key)? {
            None => section.boolean(key),
            Some((name, value)) => match value.to_lowercase().as_str() {
                "true" | "yes" => Ok(Some(true)),
                "false" | "no" => Ok(Some(false)),
                _ => Err(section.error(KEY, format!("has {name} that is neither true nor false"))),
            },
        }
    }

    /// Whole seconds of the string.
    pub(super) fn seconds(&mut self, section: &mut Section<'_>, key: &'static str) -> Result<Option<u64>, ConfigError> {
        let Some((name, value)) = self.taken(section, key)? else {
            return Ok(None);
        };
        match value.parse::<u64>() {
            Ok(seconds @ 1..=86_400) => Ok(Some(seconds)),
            _ => Err(section.error(
                KEY,
                format!("has {name} that is no number of seconds from 1 to 86400 (0, no limit, is not supported)"),
            )),
        }
    }

    /// The error of a setting that is given both ways.
    pub(super) fn twice(&self, section: &Section<'_>, key: &str) -> ConfigError {
        section.error(key, format!("is given here and in {}; remove one", section.name(KEY)))
    }
}
