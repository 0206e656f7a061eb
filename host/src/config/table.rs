//! `[defaults]` and `[[table]]`: a table's settings, each from its own section, the defaults, or built in.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use super::locations::Places;
use crate::identity::{AppId, CaptureInstance};
use crate::storage::Place;
use crate::transform::{DEFAULT_OUTPUT_BYTES, LeakCheck, Limits, OnError};
use crate::verdict::Granularity;

use super::lookup::granted;
use super::patterns::{Patterns, TablePattern, is_pattern};
use super::reading::{Reading, ReadingSettings};
use super::section::Section;
use super::units::{DAY, MIB, SECOND};
use super::{ConfigError, KeySettings, LookupSettings};

/// When a table looks for changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// At this interval.
    Every(Duration),
    /// As soon as the poller sees changes, which it looks for every 250 ms.
    Continuous,
    /// Catches up to where the source was at the start, then stops.
    AvailableNow,
}

impl Trigger {
    /// How often the poller has to ask for this table.
    pub fn poll_interval(self) -> Duration {
        match self {
            Trigger::Every(interval) => interval,
            Trigger::Continuous | Trigger::AvailableNow => Duration::from_millis(250),
        }
    }
}

/// What a stream does when its chain is not the one that it last ran with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTransformChange {
    /// Stops and says what differs.
    Fail,
    /// Goes on with the new chain from the next batch.
    Continue,
}

/// How many rows of a batch may go into quarantine. More stop the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaxQuarantined {
    /// So many rows.
    Rows(u64),
    /// So many hundredths of the rows that are read.
    Percent(f64),
}

impl fmt::Display for MaxQuarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MaxQuarantined::Rows(rows) => write!(f, "{rows}"),
            MaxQuarantined::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Where a setting came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Its `[[table]]` section.
    Table,
    /// `[defaults]`.
    Defaults,
    /// Neither: the value that sluice uses when nothing is said.
    BuiltIn,
}

/// A table, resolved.
#[derive(Clone, Debug)]
pub struct TableSettings {
    /// The capture instance that it is read through.
    pub capture_instance: CaptureInstance,
    /// Location of the bronze table.
    pub target: Place,
    /// The stream's id in Delta's `txn` actions.
    pub app_id: AppId,
    /// Location of the checkpoint.
    pub checkpoint: Place,
    /// Location of the facts table, shared by many tables.
    pub facts_table: Place,
    /// Location of the control table, shared by many tables.
    pub control_table: Place,
    /// When to look for changes.
    pub trigger: Trigger,
    /// Commits of the source in one batch, at most.
    pub max_commits_per_batch: u32,
    /// How it is read.
    pub reading: ReadingSettings,
    /// The columns that are read; `None`: all that are captured.
    pub columns: Option<Vec<String>>,
    /// The period to which the verdict is truncated.
    pub granularity: Granularity,
    /// How often a table without changes records how far it is.
    pub idle_interval: Duration,
    /// What to do when the chain changed.
    pub on_transform_change: OnTransformChange,
    /// Rows of a batch that may go into quarantine.
    pub max_quarantined: MaxQuarantined,
    /// How long rows of quarantine are kept that are no longer open; `None`: for ever.
    pub quarantine_retention: Option<Duration>,
    /// Columns that may not pass untouched.
    pub protect: Vec<String>,
    /// The group of `[weights]` that it belongs to.
    pub group: Option<String>,
    /// How much it gets of what all tables share, as against others.
    pub weight: NonZeroU32,
    /// Which rows are looked through for their values.
    pub leak_check: LeakCheck,
    /// The chain, in order.
    pub transforms: Vec<TransformSettings>,
    /// Where each setting came from.
    pub origins: BTreeMap<&'static str, Origin>,
}

impl TableSettings {
    /// Where it writes.
    pub fn places(&self) -> [&Place; 4] {
        [&self.target, &self.checkpoint, &self.facts_table, &self.control_table]
    }
}

/// One `[[table.transform]]`.
#[derive(Clone, Debug)]
pub struct TransformSettings {
    /// `NAME` or `NAME@VERSION`.
    pub plugin: String,
    /// The only file that is accepted, as lower-case hex.
    pub sha256: Option<String>,
    /// Whether the component may import WASI, of which it gets an empty one.
    pub wasi: bool,
    /// Memory that the component may use.
    pub memory_bytes: u64,
    /// Bytes that the component may hand over in one call.
    pub output_bytes: u64,
    /// Time that one call may take.
    pub deadline: Duration,
    /// What happens to a batch with a row that it cannot transform.
    pub on_error: OnError,
    /// Keys that the component may ask the host to use.
    pub keys: Vec<String>,
    /// Reference tables that the component may ask the host to look things up in.
    pub lookups: Vec<String>,
    /// The component's own configuration.
    pub config: serde_json::Value,
}

/// What a transform may name: `[keys]` and `[lookups]`.
pub(super) type Known<'a> = (&'a [KeySettings], &'a [LookupSettings]);

pub(super) fn parse_tables(
    defaults: Option<Section<'_>>,
    sections: Vec<Section<'_>>,
    places: &Places,
    known: Known<'_>,
) -> Result<(Vec<TableSettings>, Patterns), ConfigError> {
    let default_values = match defaults {
        Some(mut section) => {
            let mut shared = Shared::parse(&mut section)?;
            shared.expect_templates(&section)?;
            section.finish()?;
            shared
        }
        None => Shared::default(),
    };
    let mut tables: Vec<TableSettings> = Vec::with_capacity(sections.len());
    let mut patterns = Vec::new();
    for mut section in sections {
        let name = section.name("capture_instance");
        if section.string("capture_instance")?.is_some_and(is_pattern) {
            let path = section.path().to_owned();
            patterns.push(TablePattern::parse(
                path,
                section.table().clone(),
                &default_values,
                places,
                known,
            )?);
            continue;
        }
        if section.value("exclude").is_some() {
            return Err(section.error("exclude", "needs a pattern, such as capture_instance = \"dbo_*\""));
        }
        let table = parse_table(section, &default_values, places, known)?;
        for earlier in &tables {
            let clash = if earlier
                .capture_instance
                .0
                .eq_ignore_ascii_case(&table.capture_instance.0)
            {
                format!(
                    "stands twice: {} (SQL Server ignores case here)",
                    table.capture_instance
                )
            } else if earlier.app_id == table.app_id {
                format!(
                    "{}: its app_id is also that of {}",
                    table.capture_instance, earlier.capture_instance
                )
            } else {
                continue;
            };
            return Err(ConfigError::Key {
                key: name,
                problem: clash,
            });
        }
        tables.push(table);
    }
    if tables.is_empty() && patterns.is_empty() {
        return Err(ConfigError::Key {
            key: "table".to_owned(),
            problem: "is required: at least one [[table]] with a capture_instance".to_owned(),
        });
    }
    super::locations::expect_disjoint(&tables)?;
    let patterns = Patterns {
        all: patterns,
        defaults: default_values,
        places: places.clone(),
        weights: None,
        selected: Vec::new(),
    };
    Ok((tables, patterns))
}

/// The settings that may stand in `[defaults]` and under a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Shared {
    target: Option<String>,
    app_id: Option<String>,
    checkpoint: Option<String>,
    facts_table: Option<String>,
    control_table: Option<String>,
    trigger: Option<Trigger>,
    max_commits_per_batch: Option<u32>,
    granularity: Option<Granularity>,
    idle_interval: Option<Duration>,
    on_transform_change: Option<OnTransformChange>,
    max_quarantined: Option<MaxQuarantined>,
    quarantine_retention: Option<Duration>,
    leak_check: Option<LeakCheck>,
    reading: Reading,
}

pub(super) const CI: &str = "{ci}";

impl Shared {
    fn parse(section: &mut Section<'_>) -> Result<Shared, ConfigError> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let shared = Shared {
            target: owned(section.string("target")?),
            app_id: owned(section.string("app_id")?),
            checkpoint: owned(section.string("checkpoint")?),
            facts_table: owned(section.string("facts_table")?),
            control_table: owned(section.string("control_table")?),
            trigger: parse_trigger(section)?,
            max_commits_per_batch: section
                .integer("max_commits_per_batch", 1..=1_000_000)?
                .map(|n| n as u32),
            granularity: one_of(
                section,
                "granularity",
                &[
                    ("minute", Granularity::Minute),
                    ("hour", Granularity::Hour),
                    ("day", Granularity::Day),
                ],
            )?,
            idle_interval: section.duration("idle_interval", SECOND..=7 * DAY)?,
            on_transform_change: one_of(
                section,
                "on_transform_change",
                &[
                    ("fail", OnTransformChange::Fail),
                    ("continue", OnTransformChange::Continue),
                ],
            )?,
            max_quarantined: parse_max_quarantined(section)?,
            quarantine_retention: section.duration("quarantine_retention", DAY..=36_500 * DAY)?,
            leak_check: one_of(
                section,
                "leak_check",
                &[
                    ("full", LeakCheck::Full),
                    ("sampled", LeakCheck::Sampled),
                    ("off", LeakCheck::Off),
                ],
            )?,
            reading: Reading::parse(section)?,
        };
        if section.boolean("bootstrap")? == Some(true) {
            return Err(section.error(
                "bootstrap",
                "= true is not supported by this version of sluice; use false",
            ));
        }
        section.not_yet(&["snapshot"])?;
        Ok(shared)
    }

    /// A default that many tables would share must tell them apart.
    fn expect_templates(&mut self, section: &Section<'_>) -> Result<(), ConfigError> {
        for (key, value) in [
            ("target", &self.target),
            ("app_id", &self.app_id),
            ("checkpoint", &self.checkpoint),
        ] {
            if let Some(value) = value
                && !value.contains(CI)
            {
                return Err(section.error(
                    key,
                    "must contain {ci}, which becomes the capture instance: every table needs its own",
                ));
            }
        }
        Ok(())
    }
}

pub(super) fn parse_table(
    mut section: Section<'_>,
    defaults: &Shared,
    places: &Places,
    known: Known<'_>,
) -> Result<TableSettings, ConfigError> {
    let ci = section.required_string("capture_instance")?.to_owned();
    let own = Shared::parse(&mut section)?;
    let protect = section.strings("protect")?.unwrap_or_default();
    let columns = section.strings("columns")?;
    if columns.as_ref().is_some_and(Vec::is_empty) {
        return Err(section.error("columns", "must name at least one column; leave it out to read all"));
    }
    let transforms = section
        .sections("transform")?
        .into_iter()
        .map(|transform| parse_transform(transform, known))
        .collect::<Result<Vec<_>, _>>()?;
    if !protect.is_empty() && transforms.is_empty() {
        return Err(section.error(
            "protect",
            "needs a [[table.transform]] that masks or drops these columns",
        ));
    }
    let mut origins = BTreeMap::new();
    let mut pick = Picker { origins: &mut origins };
    let text = |name: &'static str, value: Option<String>| -> Result<String, ConfigError> {
        let text = value
            .filter(|text| !text.trim().is_empty())
            .ok_or_else(|| section.error(name, format!("is required, here or as defaults.{name}")))?;
        if name != "app_id" && text.contains(CI) {
            super::locations::folder_name(&ci).map_err(|problem| section.error(name, problem))?;
        }
        Ok(text.replace(CI, &ci))
    };
    let target = text("target", pick.optional("target", own.target, &defaults.target))?;
    let app_id = text("app_id", pick.optional("app_id", own.app_id, &defaults.app_id))?;
    let checkpoint = text(
        "checkpoint",
        pick.optional("checkpoint", own.checkpoint, &defaults.checkpoint),
    )?;
    let facts = text(
        "facts_table",
        pick.optional("facts_table", own.facts_table, &defaults.facts_table),
    )?;
    let control = text(
        "control_table",
        pick.optional("control_table", own.control_table, &defaults.control_table),
    )?;
    let location = |key: &str, value: String| -> Result<Place, ConfigError> {
        places.parse(&value).map_err(|problem| section.error(key, problem))
    };
    Ok(TableSettings {
        target: location("target", target)?,
        app_id: AppId(app_id),
        checkpoint: location("checkpoint", checkpoint)?,
        facts_table: location("facts_table", facts)?,
        control_table: location("control_table", control)?,
        trigger: pick.value(
            "trigger",
            own.trigger,
            defaults.trigger,
            Trigger::Every(Duration::from_secs(10)),
        ),
        max_commits_per_batch: pick.value(
            "max_commits_per_batch",
            own.max_commits_per_batch,
            defaults.max_commits_per_batch,
            500,
        ),
        granularity: pick.value("granularity", own.granularity, defaults.granularity, Granularity::Hour),
        idle_interval: pick.value(
            "idle_interval",
            own.idle_interval,
            defaults.idle_interval,
            Duration::from_secs(60),
        ),
        on_transform_change: pick.value(
            "on_transform_change",
            own.on_transform_change,
            defaults.on_transform_change,
            OnTransformChange::Fail,
        ),
        max_quarantined: pick.value(
            "max_quarantined",
            own.max_quarantined,
            defaults.max_quarantined,
            MaxQuarantined::Rows(1000),
        ),
        leak_check: pick.value("leak_check", own.leak_check, defaults.leak_check, LeakCheck::Full),
        quarantine_retention: pick.optional(
            "quarantine_retention",
            own.quarantine_retention,
            &defaults.quarantine_retention,
        ),
        reading: own.reading.pick(&defaults.reading, &mut pick),
        columns,
        protect,
        group: None,
        weight: NonZeroU32::MIN,
        transforms,
        capture_instance: CaptureInstance(ci.clone()),
        origins: {
            section.finish()?;
            origins
        },
    })
}

/// Takes a setting from the first place that has it, and notes which.
pub(super) struct Picker<'a> {
    origins: &'a mut BTreeMap<&'static str, Origin>,
}

impl Picker<'_> {
    fn optional<T: Clone>(&mut self, key: &'static str, own: Option<T>, default: &Option<T>) -> Option<T> {
        let origin = match (&own, default) {
            (Some(_), _) => Origin::Table,
            (None, Some(_)) => Origin::Defaults,
            (None, None) => Origin::BuiltIn,
        };
        self.origins.insert(key, origin);
        own.or_else(|| default.clone())
    }

    pub(super) fn value<T: Clone>(&mut self, key: &'static str, own: Option<T>, default: Option<T>, built_in: T) -> T {
        self.optional(key, own, &default).unwrap_or(built_in)
    }
}

fn parse_trigger(section: &mut Section<'_>) -> Result<Option<Trigger>, ConfigError> {
    match section.string("trigger")? {
        None => Ok(None),
        Some("available-now") => Ok(Some(Trigger::AvailableNow)),
        Some("continuous") => Ok(Some(Trigger::Continuous)),
        Some(text) => match super::units::parse_duration(text) {
            Ok(interval) if interval >= Duration::from_millis(50) => Ok(Some(Trigger::Every(interval))),
            Ok(_) => Err(section.error("trigger", "must be at least 50ms")),
            Err(problem) => Err(section.error(
                "trigger",
                format!("must be \"available-now\", \"continuous\" or an interval: {problem}"),
            )),
        },
    }
}

fn parse_max_quarantined(section: &mut Section<'_>) -> Result<Option<MaxQuarantined>, ConfigError> {
    let key = "max_quarantined";
    let parsed = match section.value(key) {
        None => return Ok(None),
        Some(toml::Value::Integer(rows)) => u64::try_from(*rows).ok().map(MaxQuarantined::Rows),
        Some(toml::Value::String(text)) => text
            .strip_suffix('%')
            .and_then(|number| number.trim().parse::<f64>().ok())
            .filter(|percent| (0.0..=100.0).contains(percent))
            .map(MaxQuarantined::Percent),
        Some(_) => None,
    };
    let problem = "must be a number of rows, such as 1000, or a share of the batch from \"0%\" to \"100%\"";
    parsed.map(Some).ok_or_else(|| section.error(key, problem))
}

pub(super) fn one_of<T: Clone>(
    section: &mut Section<'_>,
    key: &'static str,
    choices: &[(&'static str, T)],
) -> Result<Option<T>, ConfigError> {
    match section.string(key)? {
        None => Ok(None),
        Some(text) => match choices.iter().find(|(name, _)| *name == text) {
            Some((_, value)) => Ok(Some(value.clone())),
            None => {
                let names: Vec<String> = choices.iter().map(|(name, _)| format!("{name:?}")).collect();
                Err(section.error(key, format!("must be {} in this version of sluice", names.join(" or "))))
            }
        },
    }
}

fn parse_transform(mut section: Section<'_>, (keys, lookups): Known<'_>) -> Result<TransformSettings, ConfigError> {
    let plugin = section.required_string("plugin")?.to_owned();
    let sha256 = section.string("sha256")?.map(str::to_ascii_lowercase);
    if let Some(digest) = &sha256
        && (digest.len() != 64 || !digest.bytes().all(|b| b.is_ascii_hexdigit()))
    {
        return Err(section.error("sha256", "must be 64 hex digits, as sha256sum prints them"));
    }
    let on_error = one_of(
        &mut section,
        "on_error",
        &[("fail", OnError::Fail), ("quarantine", OnError::Quarantine)],
    )?;
    let keys = granted(&mut section, "keys", keys.iter().map(|key| key.name.as_str()))?;
    let lookups = lookups.iter().map(|lookup| lookup.name.as_str());
    let lookups = granted(&mut section, "lookups", lookups)?;
    let wasi = section.boolean("wasi")?.unwrap_or(false);
    let defaults = if wasi { Limits::with_wasi() } else { Limits::default() };
    let memory_bytes = section
        .bytes("memory", MIB..=4096 * MIB)?
        .unwrap_or(defaults.memory_bytes);
    let output_bytes = section
        .bytes("output", MIB..=2048 * MIB)?
        .unwrap_or(DEFAULT_OUTPUT_BYTES);
    let deadline = section
        .duration("deadline", Duration::from_millis(10)..=3600 * SECOND)?
        .unwrap_or(defaults.deadline);
    let config = match section.value("config") {
        None => serde_json::Value::Object(serde_json::Map::new()),
        Some(value @ toml::Value::Table(_)) => json_of(value)
            .map_err(|path| section.error(&format!("config{path}"), "must be finite: JSON has no nan or inf"))?,
        Some(_) => return Err(section.error("config", "must be a table")),
    };
    section.not_yet(&["version"])?;
    section.finish()?;
    Ok(TransformSettings {
        plugin,
        sha256,
        wasi,
        memory_bytes,
        output_bytes,
        deadline,
        on_error: on_error.unwrap_or_default(),
        keys,
        lookups,
        config,
    })
}

/// A component's configuration as JSON; dates and times become text. The error is the path to a number that JSON lacks.
pub(crate) fn json_of(value: &toml::Value) -> Result<serde_json::Value, String> {
    Ok(match value {
        toml::Value::String(text) => text.as_str().into(),
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Float(number) => serde_json::Number::from_f64(*number).ok_or_else(String::new)?.into(),
        toml::Value::Boolean(flag) => (*flag).into(),
        toml::Value::Datetime(at) => at.to_string().into(),
        toml::Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| json_of(item).map_err(|path| format!("[{}]{path}", index + 1)))
            .collect::<Result<Vec<_>, _>>()?
            .into(),
        toml::Value::Table(table) => table
            .iter()
            .map(|(key, item)| {
                json_of(item)
                    .map(|json| (key.clone(), json))
                    .map_err(|path| format!(".{key}{path}"))
            })
            .collect::<Result<serde_json::Map<_, _>, _>>()?
            .into(),
    })
}
