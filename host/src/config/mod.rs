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
mod table;
mod table_keys;
mod units;
mod web;
mod weights;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Classify, ErrorKind};
use crate::identity::CaptureInstance;
use crate::scheduler::Scheduler;

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
        ErrorKind::Config
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
        let ownership = match root.section("ownership")? {
            Some(section) => OwnershipSettings::parse(section, base)?,
            None => OwnershipSettings::Lock,
        };
        let defaults = root.section("defaults")?;
        let sections = root.sections("table")?;
        let (mut tables, mut patterns) = table::parse_tables(defaults, sections, base, (&keys[..], &lookups[..]))?;
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
    if Scheduler::memory_of_chunks(&limits) < Scheduler::memory_of_chunk(&limits) {
        return Err(section.error(
            "memory",
            format!(
                "is too little for a chunk of {} MiB, which may need {} MiB while it is transformed; make it larger, or \
                 limits.chunk_bytes smaller",
                limits.chunk_bytes as u64 / MIB,
                Scheduler::memory_of_chunk(&limits) / MIB
            ),
        ));
    }
    section.finish()?;
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = r#"
[source]
server = "sqlhost,1433"
database = "sales"
user = "cdc_reader"
password = { command = ["printf", "secret"] }

[keys]
pii = { command = ["printf", "0123456789abcdef0123"], version = "v3" }

[defaults]
target = "lake/bronze/{ci}"
app_id = "{ci}-v1"
checkpoint = "lake/checkpoints/{ci}"
facts_table = "lake/ops/ingestion_facts"
control_table = "lake/ops/table_finalization"
"#;

    fn parse(extra: &str) -> Result<Settings, String> {
        Settings::parse(&format!("{BASE}{extra}"), Path::new("/base"), Path::new("sluice.toml"))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_table_takes_the_defaults_and_says_where_each_setting_is_from() {
        let settings =
            parse("trigger = \"250ms\"\n[[table]]\ncapture_instance = \"dbo_orders\"\ngranularity = \"day\"\n")
                .unwrap();
        let table = &settings.tables[0];
        assert_eq!(table.target, Path::new("/base/lake/bronze/dbo_orders"));
        assert_eq!(table.app_id.0, "dbo_orders-v1");
        assert_eq!(table.trigger, Trigger::Every(Duration::from_millis(250)));
        assert_eq!(table.origins["trigger"], Origin::Defaults);
        assert_eq!(table.origins["granularity"], Origin::Table);
        assert_eq!(table.origins["max_commits_per_batch"], Origin::BuiltIn);
        assert_eq!(settings.poll_interval(), Duration::from_millis(250));
    }

    #[test]
    fn an_unknown_key_names_the_nearest_one() {
        let error = parse("[[table]]\ncapture_instance = \"dbo_orders\"\ngranularty = \"day\"\n").unwrap_err();
        assert_eq!(error, "unknown key table[1].granularty; did you mean granularity?");
        let error = Settings::parse("[source]\nservr = \"x\"\n", Path::new("/"), Path::new("s.toml")).unwrap_err();
        assert!(error.to_string().contains("source.server is required"), "{error}");
    }

    #[test]
    fn a_setting_of_a_table_in_another_section_is_told_where_to_stand() {
        let error = parse(
            "[[table]]\ncapture_instance = \"dbo_orders\"\n[[table.transform]]\nplugin = \"mask\"\n\
             on_transform_change = \"continue\"\n",
        )
        .unwrap_err();
        assert_eq!(
            error,
            "unknown key table[1].transform[1].on_transform_change; on_transform_change is a setting of [[table]]: it has to \
             stand above the first [[table.transform]]"
        );
        let error = parse("[limits]\ntrigger = \"10s\"\n").unwrap_err();
        assert_eq!(
            error,
            "unknown key limits.trigger; trigger is a setting of [[table]]: it has to stand under [[table]]"
        );
        // What a table alone may have is no default.
        let error = parse("protect = [\"email\"]\n[[table]]\ncapture_instance = \"a\"\n").unwrap_err();
        assert!(
            error.starts_with("unknown key defaults.protect; protect is a setting of"),
            "{error}"
        );
    }

    #[test]
    fn templates_without_ci_are_refused_when_tables_would_share_them() {
        for key in ["target", "app_id", "checkpoint"] {
            let text = BASE.replace(&format!("{key} = "), &format!("{key} = \"same\" # "));
            let error = Settings::parse(
                &format!("{text}\n[[table]]\ncapture_instance = \"a\"\n"),
                Path::new("/"),
                Path::new("s.toml"),
            )
            .unwrap_err();
            assert!(error.to_string().contains("{ci}"), "{error}");
        }
    }

    #[test]
    fn a_table_may_not_stand_twice_whatever_its_case() {
        let error =
            parse("[[table]]\ncapture_instance = \"dbo_a\"\n[[table]]\ncapture_instance = \"DBO_A\"\n").unwrap_err();
        assert!(error.contains("table[2]") && error.contains("twice"), "{error}");
    }

    #[test]
    fn a_transform_may_only_use_keys_that_exist() {
        let error =
            parse("[[table]]\ncapture_instance = \"a\"\n[[table.transform]]\nplugin = \"mask\"\nkeys = [\"pi\"]\n")
                .unwrap_err();
        assert!(
            error.contains("\"pi\"") && error.contains("did you mean pii"),
            "{error}"
        );
    }

    #[test]
    fn lookups_are_files_and_a_transform_may_only_use_those_that_exist() {
        let lookups = "[lookups]\ncountries = { file = \"ref/countries.csv\" }\ncities = { file = \"/c.csv\" }\n";
        let table = |names: &str| {
            format!(
                "{lookups}[[table]]\ncapture_instance = \"a\"\n[[table.transform]]\nplugin = \"mask\"\nlookups = {names}\n"
            )
        };
        let settings = parse(&table(r#"["cities", "countries"]"#)).unwrap();
        let files: Vec<_> = settings
            .lookups
            .iter()
            .map(|lookup| (lookup.name.as_str(), lookup.file.as_path()))
            .collect();
        assert!(
            files.contains(&("countries", Path::new("/base/ref/countries.csv"))),
            "{files:?}"
        );
        assert!(files.contains(&("cities", Path::new("/c.csv"))), "{files:?}");
        assert_eq!(settings.tables[0].transforms[0].lookups, ["cities", "countries"]);
        let error = parse(&table(r#"["country"]"#)).unwrap_err();
        assert!(
            error.ends_with("lookups names \"country\", which [lookups] does not have; did you mean countries?"),
            "{error}"
        );
        for (wrong, expected) in [
            ("a = \"a.csv\"", "lookups.a must be { file = \"PATH\" }"),
            ("a = {}", "lookups.a.file is required"),
            ("a = { fil = \"a.csv\" }", "lookups.a.file is required"),
            ("a = { file = \"a.csv\", key = \"b\" }", "unknown key lookups.a.key"),
        ] {
            let error = parse(&format!("[lookups]\n{wrong}\n")).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn what_is_not_supported_yet_is_said_and_not_ignored() {
        let error = parse("[[table]]\ncapture_instance = \"a\"\non_data_loss = \"resnapshot\"\n").unwrap_err();
        assert!(error.contains("on_data_loss"), "{error}");
    }

    #[test]
    fn what_may_go_into_quarantine_is_rows_or_a_share_of_the_batch() {
        use crate::transform::OnError;
        let table = "[[table]]\ncapture_instance = \"a\"\n";
        let of = |lines: &str| parse(&format!("{table}{lines}")).map(|settings| settings.tables[0].max_quarantined);
        assert_eq!(of(""), Ok(MaxQuarantined::Rows(1000)));
        assert_eq!(of("max_quarantined = 0\n"), Ok(MaxQuarantined::Rows(0)));
        assert_eq!(of("max_quarantined = \"0.5%\"\n"), Ok(MaxQuarantined::Percent(0.5)));
        for wrong in ["-1", "\"5\"", "\"101%\"", "\"x%\"", "\"NaN%\"", "1.5", "true"] {
            let error = of(&format!("max_quarantined = {wrong}\n")).unwrap_err();
            assert!(
                error.contains("table[1].max_quarantined must be a number of rows"),
                "{error}"
            );
        }
        let transform = |on_error: &str| {
            let lines = format!("{table}[[table.transform]]\nplugin = \"mask\"\n{on_error}");
            parse(&lines).map(|settings| settings.tables[0].transforms[0].on_error)
        };
        assert_eq!(transform(""), Ok(OnError::Fail));
        assert_eq!(transform("on_error = \"quarantine\"\n"), Ok(OnError::Quarantine));
        let error = transform("on_error = \"skip\"\n").unwrap_err();
        assert!(error.contains("on_error must be \"fail\" or \"quarantine\""), "{error}");
    }

    #[test]
    fn how_much_is_looked_through_for_leaks_is_a_choice_of_three() {
        use crate::transform::LeakCheck;
        let table = "[[table]]\ncapture_instance = \"a\"\n";
        let of = |lines: &str| parse(lines).map(|settings| settings.tables[0].leak_check);
        assert_eq!(of(table), Ok(LeakCheck::Full));
        assert_eq!(of(&format!("{table}leak_check = \"off\"\n")), Ok(LeakCheck::Off));
        assert_eq!(
            of(&format!("leak_check = \"sampled\"\n{table}")),
            Ok(LeakCheck::Sampled)
        );
        let error = of(&format!("{table}leak_check = \"none\"\n")).unwrap_err();
        assert!(
            error.contains("table[1].leak_check must be \"full\" or \"sampled\" or \"off\""),
            "{error}"
        );
    }

    #[test]
    fn a_syntax_error_does_not_quote_the_line() {
        let error = Settings::parse("[source]\npassword = hunter2\n", Path::new("/"), Path::new("s.toml")).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert!(error.to_string().contains("at line 2, column 12"), "{error}");
    }

    #[test]
    fn nothing_shares_a_folder_that_should_not_or_lies_inside_another() {
        for (line, words) in [
            (
                "control_table = \"lake/ops/ingestion_facts\"",
                "is also the facts_table of a",
            ),
            (
                "target = \"lake/checkpoints/../checkpoints/a/\"",
                "is also the target of a",
            ),
            ("target = \"lake/ops/ingestion_facts\"", "is also the target of a"),
            ("target = \"lake\"", "lies inside the target of a"),
            (
                "checkpoint = \"lake/bronze/a/_checkpoint\"",
                "lies inside the target of a",
            ),
        ] {
            let error = parse(&format!("[[table]]\ncapture_instance = \"a\"\n{line}\n")).unwrap_err();
            assert!(error.contains(words) && error.contains("table[1]."), "{line}: {error}");
        }
        let error = parse(
            "[[table]]\ncapture_instance = \"a\"\n[[table]]\ncapture_instance = \"b\"\ntarget = \"lake/bronze/a\"\n",
        )
        .unwrap_err();
        assert!(
            error.contains("table[2].target") && error.contains("target of a"),
            "{error}"
        );
    }

    #[test]
    fn locations_are_what_the_store_takes() {
        let table = "[[table]]\ncapture_instance = \"a\"\n";
        let settings = parse(&format!("{table}target = \"../x/./b/../a\"\n")).unwrap();
        assert_eq!(settings.tables[0].target, Path::new("/x/a"));
        for (line, words) in [
            (
                "target = \"50%41/a\"",
                "table[1].target is /base/50%41/a, with a percent sign",
            ),
            ("target = \"a\\nb\"", "table[1].target has a control character"),
            (
                "checkpoint = \"s3://bucket/a\"",
                "table[1].checkpoint must be a local path",
            ),
        ] {
            let error = parse(&format!("{table}{line}\n")).unwrap_err();
            assert!(error.contains(words), "{line}: {error}");
        }
        assert!(parse(&format!("{table}target = \"100%/a\"\n")).is_ok());
        for name in ["../../evil", "a/b", "a\\b", ".."] {
            let error = parse(&format!("[[table]]\ncapture_instance = '{name}'\n")).unwrap_err();
            assert!(error.contains("table[1].target has {ci}"), "{error}");
        }
    }

    #[test]
    fn limits_that_nothing_could_meet_are_refused() {
        let transform = "[[table]]\ncapture_instance = \"a\"\n[[table.transform]]\nplugin = \"mask\"\n";
        for (line, words) in [
            ("deadline = \"0s\"", "deadline must be from 10ms to"),
            ("memory = \"0B\"", "memory must be from 1 to 4096 MiB"),
            ("output = \"3GiB\"", "output must be from 1 to 2048 MiB"),
            ("config = { a = [1, nan] }", "config.a[2] must be finite"),
        ] {
            let error = parse(&format!("{transform}{line}\n")).unwrap_err();
            assert!(error.contains(words), "{line}: {error}");
        }
        let settings = parse(&format!(
            "{transform}output = \"512MiB\"\nconfig = {{ since = 2024-01-02 }}\n"
        ))
        .unwrap();
        assert_eq!(settings.tables[0].transforms[0].output_bytes, 512 << 20);
        assert_eq!(
            settings.tables[0].transforms[0].config,
            serde_json::json!({"since": "2024-01-02"})
        );
    }

    #[test]
    fn language_runtimes_get_larger_limits_unless_the_table_says_otherwise() {
        let transform = "[[table]]\ncapture_instance = \"a\"\n[[table.transform]]\nplugin = \"mask\"\n";
        let limits = |lines: &str| {
            let settings = parse(&format!("{transform}{lines}\n")).unwrap();
            let transform = &settings.tables[0].transforms[0];
            (
                transform.wasi,
                transform.memory_bytes >> 20,
                transform.deadline.as_secs(),
            )
        };
        assert_eq!(limits(""), (false, 256, 10));
        assert_eq!(limits("wasi = false"), (false, 256, 10));
        assert_eq!(limits("wasi = true"), (true, 512, 60));
        assert_eq!(
            limits("wasi = true\nmemory = \"100MiB\"\ndeadline = \"5s\""),
            (true, 100, 5)
        );
    }

    #[test]
    fn selecting_an_unknown_table_names_the_nearest() {
        let mut settings = parse("[[table]]\ncapture_instance = \"dbo_orders\"\n").unwrap();
        let error = settings.select(&["dbo_order".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("did you mean dbo_orders"), "{error}");
        settings.select(&["DBO_ORDERS".to_owned()]).unwrap();
        assert_eq!(settings.tables.len(), 1);
    }
}
