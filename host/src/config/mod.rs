//! `sluice.toml`: raw TOML in, validated settings out. Unknown keys are refused with the nearest known one; durations
//! and sizes need units; relative paths are relative to the file; each resolved setting of a table knows where it came
//! from. `docs/reference/configuration.md` describes every key.

mod locations;
mod lookup;
mod maintenance;
mod only_source;
mod ownership;
mod patterns;
mod plugins;
mod reading;
mod run;
mod secret;
mod section;
mod source;
mod storage;
mod table;
mod table_keys;
#[cfg(test)]
mod tests;
mod units;
mod web;
mod weights;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::checkpoint::CheckpointError;
use crate::error::{Classify, ErrorKind};
use crate::identity::CaptureInstance;
use crate::scheduler::Scheduler;
use crate::storage::StorageOptions;

pub use lookup::LookupSettings;
pub use maintenance::MaintenanceSettings;
pub use only_source::{OnlySource, SOURCE_SECRETS};
pub use ownership::OwnershipSettings;
pub use patterns::TablePattern;
pub use plugins::PluginSettings;
pub use reading::{OnDataLoss, Partitions, ReadingSettings, SchemaChangePolicy, StartingLsn};
pub use run::{OnStartError, RunSettings};
pub use secret::{Secret, SecretSource};
pub use source::{Authentication, Encrypt, Endpoint, ServerName, SourceSettings, TokenSource, Trust};
pub use table::{MaxQuarantined, OnTransformChange, Origin, TableSettings, TransformSettings, Trigger};

pub use web::WebSettings;

pub(crate) use section::nearest;
pub(crate) use table::json_of;
pub(crate) use table_keys::is_table_setting;
pub(crate) use units::parse_duration;

use patterns::Patterns;
use secret::Secrets;
use section::Section;
use units::MIB;

/// A whole configuration, validated.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The SQL Server database.
    pub source: SourceSettings,
    /// Where components are looked for, besides the built-in ones.
    pub plugins: PluginSettings,
    /// Named keys that the host uses on a component's behalf.
    pub keys: Vec<KeySettings>,
    /// Named reference tables that the host looks things up in for a component.
    pub lookups: Vec<LookupSettings>,
    /// Bounds of the process.
    pub limits: Limits,
    /// The status page.
    pub web: WebSettings,
    /// What is done to the tables beside writing them.
    pub maintenance: MaintenanceSettings,
    /// How the tables go together.
    pub run: RunSettings,
    /// What makes a stream one process's.
    pub ownership: OwnershipSettings,
    /// The tables that are named, in the order of the file.
    pub tables: Vec<TableSettings>,
    /// Those that are not known yet.
    patterns: Patterns,
    /// What is allowed and worth changing. For the operator's eyes.
    pub warnings: Vec<String>,
}

/// One key of `[keys]`.
#[derive(Clone, Debug)]
pub struct KeySettings {
    /// Its name.
    pub name: String,
    /// Its version, which goes into the provenance of every commit.
    pub version: String,
    /// The key itself.
    pub secret: Secret,
}

/// `[limits]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections to the source that stream rows at the same time.
    pub connections: usize,
    /// Rows of a chunk: what is read, transformed and staged at a time.
    pub chunk_rows: usize,
    /// Bytes of a chunk, before encoding: a chunk ends when either limit is reached.
    pub chunk_bytes: usize,
    /// Bytes that the process is to need at most; three quarters of it are for chunks that are under way.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 16,
            chunk_rows: 50_000,
            chunk_bytes: 64 << 20,
            memory: 2 << 30,
        }
    }
}

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The lock file cannot be used.
    #[error("{} {problem}; restore it, or write it anew with `sluice lock`", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The file is not TOML.
    #[error("{} is not valid TOML: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The parser's account, with line and column.
        message: String,
    },
    /// A key is unknown.
    #[error("unknown key {key}{}", nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    UnknownKey {
        /// Its full name.
        key: String,
        /// The nearest known key.
        nearest: Option<String>,
    },
    /// A key of a table stands in another section: TOML takes it for one of the section before it.
    #[error(
        "unknown key {key}; {setting} is a setting of [[table]]: it has to stand {}",
        match under_a_table {
            true => "above the first [[table.transform]]",
            false => "under [[table]]",
        }
    )]
    Misplaced {
        /// Its full name.
        key: String,
        /// Its own name.
        setting: String,
        /// The section is one of a table.
        under_a_table: bool,
    },
    /// Which tables a pattern means could not be found out.
    #[error("which streams of the pattern {pattern} have begun cannot be told")]
    Begun {
        /// The pattern.
        pattern: String,
        /// What keeps their checkpoints from being looked at.
        source: Box<CheckpointError>,
    },
    /// A key's value is wrong.
    #[error("{key} {problem}")]
    Key {
        /// Its full name.
        key: String,
        /// What is wrong and what to do.
        problem: String,
    },
}

impl Classify for ConfigError {
    fn kind(&self) -> ErrorKind {
        match self {
            ConfigError::Begun { source, .. } => source.kind(),
            _ => ErrorKind::Config,
        }
    }
}

impl Settings {
    /// Reads and validates a file. Secrets are resolved now, so that a missing one is an error before anything starts.
    pub fn load(path: &Path) -> Result<Settings, ConfigError> {
        Settings::read(path, Secrets::Resolve)
    }

    /// Like [`Settings::load`], for commands that use no secret: none is resolved, and all are empty.
    pub fn load_without_secrets(path: &Path) -> Result<Settings, ConfigError> {
        Settings::read(path, Secrets::Skip)
    }

    fn read(path: &Path, secrets: Secrets) -> Result<Settings, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let base = std::path::absolute(path)
            .ok()
            .and_then(|absolute| absolute.parent().map(Path::to_owned))
            .unwrap_or_else(|| PathBuf::from("."));
        let mut settings = Settings::parse_with(&text, &base, path, secrets)?;
        settings.plugins.lock_file = Some(plugins::lock_file_of(path));
        Ok(settings)
    }

    /// Validates the text of a file whose relative paths are relative to `base`. `path` is for messages.
    pub fn parse(text: &str, base: &Path, path: &Path) -> Result<Settings, ConfigError> {
        Settings::parse_with(text, base, path, Secrets::Resolve)
    }

    /// Like [`Settings::parse`], and resolves no secret.
    pub fn parse_without_secrets(text: &str, base: &Path, path: &Path) -> Result<Settings, ConfigError> {
        Settings::parse_with(text, base, path, Secrets::Skip)
    }

    fn parse_with(text: &str, base: &Path, path: &Path, secrets: Secrets) -> Result<Settings, ConfigError> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| ConfigError::Syntax {
            path: path.to_owned(),
            message: shield_values(&error, text),
        })?;
        let mut warnings = Vec::new();
        let mut root = Section::new("", &table);
        let source = match root.section("source")? {
            Some(section) => SourceSettings::parse(section, base, secrets, &mut warnings)?,
            None => {
                return Err(root.error(
                    "source",
                    "is required: a section [source] with server, database, user and password",
                ));
            }
        };
        let plugins = match root.section("plugins")? {
            Some(section) => PluginSettings::parse(section, base)?,
            None => PluginSettings::default(),
        };
        let keys = match root.section("keys")? {
            Some(section) => parse_keys(&section, base, secrets, &mut warnings)?,
            None => Vec::new(),
        };
        let lookups = match root.section("lookups")? {
            Some(section) => lookup::parse_lookups(&section, base)?,
            None => Vec::new(),
        };
        let limits = match root.section("limits")? {
            Some(section) => parse_limits(section)?,
            None => Limits::default(),
        };
        let web = match root.section("web")? {
            Some(section) => WebSettings::parse(section, base, secrets, &mut warnings)?,
            None => WebSettings::default(),
        };
        let storage = match root.section("storage")? {
            Some(section) => storage::parse(section, base, secrets, &mut warnings)?,
            None => StorageOptions::default(),
        };
        let places = locations::Places::new(base, storage);
        let ownership = match root.section("ownership")? {
            Some(section) => OwnershipSettings::parse(section, &places)?,
            None => OwnershipSettings::Lock,
        };
        let defaults = root.section("defaults")?;
        let sections = root.sections("table")?;
        let (mut tables, mut patterns) = table::parse_tables(defaults, sections, &places, (&keys[..], &lookups[..]))?;
        match root.section("weights")? {
            // Which tables there are is not known yet.
            Some(section) if !patterns.all.is_empty() => patterns.weights = Some(section.table().clone()),
            Some(section) => weights::apply(&section, &mut tables, false)?,
            None => {}
        }
        let maintenance = match root.section("maintenance")? {
            Some(section) => MaintenanceSettings::parse(section)?,
            None => MaintenanceSettings::default(),
        };
        let run = match root.section("run")? {
            Some(section) => RunSettings::parse(section)?,
            None => RunSettings::default(),
        };
        ownership.expect_apart(&tables)?;
        ownership.expect_lease_for(tables.iter())?;
        storage::expect_one_form(&tables, ownership.hosts())?;
        if secrets == Secrets::Resolve {
            storage::expect_usable(&tables, ownership.hosts())?;
        }
        root.not_yet(&["silver"])?;
        root.finish()?;
        Ok(Settings {
            source,
            plugins,
            keys,
            lookups,
            limits,
            web,
            maintenance,
            run,
            ownership,
            tables,
            patterns,
            warnings,
        })
    }

    /// Keeps only the tables with these capture instances (ignoring case), in the order of the file. Those of patterns are kept
    /// or left out when they are known.
    pub fn select(&mut self, capture_instances: &[String]) -> Result<(), ConfigError> {
        if capture_instances.is_empty() {
            return Ok(());
        }
        for wanted in capture_instances {
            if !self
                .tables
                .iter()
                .any(|t| t.capture_instance.0.eq_ignore_ascii_case(wanted))
                && !self
                    .patterns
                    .all
                    .iter()
                    .any(|pattern| pattern.fits(&CaptureInstance(wanted.clone())))
            {
                let nearest = section::nearest(wanted, self.tables.iter().map(|t| t.capture_instance.0.as_str()));
                return Err(ConfigError::Key {
                    key: format!("--table {wanted}"),
                    problem: format!(
                        "names no [[table]] of the configuration{}",
                        nearest.map(|n| format!("; did you mean {n}?")).unwrap_or_default()
                    ),
                });
            }
        }
        self.patterns.selected = capture_instances.to_vec();
        // What a pattern means depends on all that are named.
        if !self.patterns.all.is_empty() {
            return Ok(());
        }
        self.tables.retain(|table| {
            capture_instances
                .iter()
                .any(|wanted| table.capture_instance.0.eq_ignore_ascii_case(wanted))
        });
        Ok(())
    }

    /// The shortest interval at which a table wants to hear of changes.
    pub fn poll_interval(&self) -> Duration {
        self.tables
            .iter()
            .map(|table| table.trigger.poll_interval())
            .min()
            .unwrap_or(Duration::from_secs(10))
    }
}

/// The parser's message with its position, without the line that it quotes: the line may hold a secret.
fn shield_values(error: &toml::de::Error, text: &str) -> String {
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else {
        return error.message().to_owned();
    };
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    format!(
        "{}, at line {}, column {}",
        error.message(),
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1
    )
}

fn parse_keys(
    section: &Section<'_>,
    base: &Path,
    secrets: Secrets,
    warnings: &mut Vec<String>,
) -> Result<Vec<KeySettings>, ConfigError> {
    section
        .entries()
        .map(|(name, value)| {
            let full = format!("keys.{name}");
            let version = value
                .as_table()
                .and_then(|table| table.get("version"))
                .and_then(toml::Value::as_str)
                .ok_or_else(|| ConfigError::Key {
                    key: full.clone(),
                    problem: "needs a version, such as version = \"v1\": commits name it, so that keys can rotate"
                        .to_owned(),
                })?;
            let secret = secret::resolve(&full, value, base, secrets, warnings)?;
            if secrets == Secrets::Resolve && secret.reveal().len() < 16 {
                return Err(ConfigError::Key {
                    key: full,
                    problem: "is shorter than 16 bytes; use a random key, such as the output of `openssl rand -hex 32`"
                        .to_owned(),
                });
            }
            Ok(KeySettings {
                name: name.to_owned(),
                version: version.to_owned(),
                secret,
            })
        })
        .collect()
}

fn parse_limits(mut section: Section<'_>) -> Result<Limits, ConfigError> {
    let defaults = Limits::default();
    let limits = Limits {
        connections: section
            .integer("connections", 1..=1024)?
            .map_or(defaults.connections, |n| n as usize),
        chunk_rows: section
            .integer("chunk_rows", 1..=10_000_000)?
            .map_or(defaults.chunk_rows, |n| n as usize),
        chunk_bytes: section
            .bytes("chunk_bytes", MIB..=1024 * MIB)?
            .map_or(defaults.chunk_bytes, |n| n as usize),
        memory: section
            .bytes("memory", 64 * MIB..=1024 * 1024 * MIB)?
            .unwrap_or(defaults.memory),
    };
    let needed = Scheduler::memory_of_chunk(limits.chunk_bytes as u64);
    if Scheduler::memory_of_chunks(&limits) < needed {
        return Err(section.error(
            "memory",
            format!(
                "is too little for a chunk of {} MiB: make it {} MiB at least, of which three quarters are for chunks, or \
                 limits.chunk_bytes smaller",
                limits.chunk_bytes as u64 / MIB,
                needed.div_ceil(3) * 4 / MIB + 1
            ),
        ));
    }
    section.finish()?;
    Ok(limits)
}
