//! Which tables the patterns of a configuration mean: one stream a source table, whichever of its capture instances fit.

use std::collections::BTreeSet;

use crate::checkpoint::{CheckpointError, CheckpointReader};
use crate::config::{ConfigError, Settings, TablePattern, TableSettings};
use crate::error::{Classify as _, ErrorKind};
use crate::identity::CaptureInstance;
use crate::source::{Catalog, InstanceName};
use crate::storage::{Place, side_by_side};

/// Schema and name of a source table.
type SourceName = (String, String);

/// The settings with the tables that the server has, and those that have a checkpoint: a table that is not seen any more is
/// not left out in silence.
///
/// A stream goes on under the name that it began with, also when that instance is gone and another of its table is there.
pub fn expand(settings: &Settings, catalog: &Catalog) -> Result<Settings, ConfigError> {
    if settings.patterns().is_empty() {
        return Ok(settings.clone());
    }
    let instances = catalog.instances();
    let named = |name: &CaptureInstance| {
        let same = |other: &str| other.eq_ignore_ascii_case(&name.0);
        instances
            .iter()
            .find(|instance| same(&instance.name.0))
            .or_else(|| instances.iter().find(|instance| same(&instance.default_name())))
            .map(|instance| (instance.schema.clone(), instance.table.clone()))
    };
    let mut taken: BTreeSet<SourceName> = settings
        .tables
        .iter()
        .filter_map(|table| named(&table.capture_instance))
        .collect();
    let mut tables = Vec::new();
    let mut warnings = Vec::new();
    for pattern in settings.patterns() {
        warnings.extend(fits_nothing(pattern, &instances));
        for (name, table) in begun(settings, pattern)? {
            if is_named(settings, &name) {
                continue;
            }
            let source = format!("{}.{}", table.0, table.1);
            match taken.insert(table) {
                true => tables.push(settings.table_of(pattern, &name)?),
                false => warnings.push(format!(
                    "{name} of \"{}\" has a checkpoint and is not run: another stream reads {source} already",
                    pattern.pattern
                )),
            }
        }
        // In the order in which they were made: the first of a table is the one that the others follow.
        for instance in instances.iter().filter(|instance| pattern.fits(&instance.name)) {
            if taken.insert((instance.schema.clone(), instance.table.clone())) {
                tables.push(settings.table_of(pattern, &instance.name)?);
            }
        }
    }
    let mut expanded = sorted(settings, tables)?;
    expanded.warnings.extend(warnings);
    Ok(expanded)
}

/// A pattern, or something that it excludes, may be misspelt when it fits nothing.
fn fits_nothing(pattern: &TablePattern, instances: &[InstanceName]) -> Vec<String> {
    let mut warnings = Vec::new();
    if !instances.iter().any(|instance| pattern.fits(&instance.name)) {
        warnings.push(format!(
            "capture_instance = \"{}\" fits no capture instance that this login sees (`*` is any text, `?` any letter)",
            pattern.pattern
        ));
    }
    for excluded in &pattern.exclude {
        if !instances
            .iter()
            .any(|instance| TablePattern::is(excluded, &instance.name))
        {
            warnings.push(format!(
                "exclude = \"{excluded}\" of \"{}\" fits no capture instance that this login sees",
                pattern.pattern
            ));
        }
    }
    warnings
}

/// The same without a server: the tables that have a checkpoint.
pub fn expand_from_disk(settings: &Settings) -> Result<Settings, ConfigError> {
    if settings.patterns().is_empty() {
        return Ok(settings.clone());
    }
    let mut tables = Vec::new();
    let mut taken = BTreeSet::new();
    for pattern in settings.patterns() {
        for (name, _) in begun(settings, pattern)? {
            if taken.insert(name.clone()) && !is_named(settings, &name) {
                tables.push(settings.table_of(pattern, &name)?);
            }
        }
    }
    if tables.is_empty() && settings.tables.is_empty() {
        return Err(ConfigError::Key {
            key: "table".to_owned(),
            problem: "names patterns alone, and no table of them has a checkpoint yet: nothing was run so far"
                .to_owned(),
        });
    }
    sorted(settings, tables)
}

fn sorted(settings: &Settings, mut tables: Vec<TableSettings>) -> Result<Settings, ConfigError> {
    tables.sort_by(|one, other| one.capture_instance.cmp(&other.capture_instance));
    let settings = settings.with_tables(tables)?;
    match settings.tables.is_empty() {
        true => Err(ConfigError::Key {
            key: "table".to_owned(),
            problem: "has patterns alone, and no capture instance fits them that this login sees, nor a checkpoint: \
                      `sluice check --grants` prints what the login needs"
                .to_owned(),
        }),
        false => Ok(settings),
    }
}

fn is_named(settings: &Settings, name: &CaptureInstance) -> bool {
    let same = |table: &TableSettings| table.capture_instance.0.eq_ignore_ascii_case(&name.0);
    settings.tables.iter().any(same)
}

/// The streams of a pattern that have begun, each with its source table.
fn begun(settings: &Settings, pattern: &TablePattern) -> Result<Vec<(CaptureInstance, SourceName)>, ConfigError> {
    let unknown = |source: CheckpointError| ConfigError::Begun {
        pattern: pattern.pattern.clone(),
        source: Box::new(source),
    };
    let on_disk = pattern.on_disk().map_err(|error| unknown(error.into()))?;
    let there = on_disk
        .into_iter()
        .map(|name| Ok((settings.table_of(pattern, &name)?.checkpoint, name)))
        .collect::<Result<Vec<(Place, CaptureInstance)>, ConfigError>>()?;
    let begun = side_by_side(
        &there,
        |(place, _)| place,
        |(place, name)| {
            // One that cannot be read is opened, and says so.
            let identity = match CheckpointReader::new(place).identity() {
                Ok(None) => return Ok(None),
                Ok(Some(identity)) => (identity.schema, identity.table),
                // It can be another the next time.
                Err(error) if error.kind() == ErrorKind::Retryable => return Err(error),
                Err(_) => (String::new(), name.0.clone()),
            };
            Ok(Some((name.clone(), identity)))
        },
    );
    begun
        .into_iter()
        .filter_map(Result::transpose)
        .collect::<Result<_, _>>()
        .map_err(unknown)
}
