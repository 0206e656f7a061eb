//! How a table is read from the source: settings that may stand in `[defaults]` and under a table.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::lsn::Lsn;

use super::ConfigError;
use super::section::Section;
use super::table::{Picker, one_of};
use super::units::{DAY, SECOND};

/// How a table is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadingSettings {
    /// Parts of a batch that are read at the same time, each over a connection of its own.
    pub num_partitions: Partitions,
    /// Where a stream begins that has no position yet.
    pub starting_lsn: StartingLsn,
    /// What to do when changes were cleaned up before they were read.
    pub on_data_loss: OnDataLoss,
    /// What to do about DDL on the table.
    pub schema_change_policy: SchemaChangePolicy,
    /// How long `max_lsn` may stand still until capture is called stalled.
    pub capture_stalled_after: Duration,
}

/// How many parts of a batch are read at the same time, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitions {
    /// As many as there are cores, and at most half of `limits.connections`.
    Auto,
    /// So many.
    Exactly(NonZeroU32),
}

/// Where a stream begins that has no position yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartingLsn {
    /// With the first change that the change table has.
    Earliest,
    /// After what was captured when it first looked.
    Latest,
    /// With the commit at this LSN, or the next.
    At(Lsn),
}

/// What a stream does when changes were cleaned up before they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDataLoss {
    /// Stops.
    Fail,
    /// Goes on with what is left, and records the gap.
    Skip,
}

/// What a stream does about DDL on its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaChangePolicy {
    /// Goes on where nothing that is captured is lost, and records the change; stops where bronze cannot follow.
    Classify,
    /// Stops at any DDL.
    Fail,
}

/// What one section says.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    num_partitions: Option<Partitions>,
    starting_lsn: Option<StartingLsn>,
    on_data_loss: Option<OnDataLoss>,
    schema_change_policy: Option<SchemaChangePolicy>,
    capture_stalled_after: Option<Duration>,
}

impl Reading {
    pub(super) fn parse(section: &mut Section<'_>) -> Result<Reading, ConfigError> {
        Ok(Reading {
            num_partitions: partitions(section)?,
            starting_lsn: starting_lsn(section)?,
            on_data_loss: one_of(
                section,
                "on_data_loss",
                &[("fail", OnDataLoss::Fail), ("skip", OnDataLoss::Skip)],
            )?,
            schema_change_policy: one_of(
                section,
                "schema_change_policy",
                &[
                    ("classify", SchemaChangePolicy::Classify),
                    ("fail", SchemaChangePolicy::Fail),
                ],
            )?,
            capture_stalled_after: section.duration("capture_stalled_after", SECOND..=7 * DAY)?,
        })
    }

    /// A table's settings, by its own section and the defaults.
    pub(super) fn pick(self, defaults: &Reading, pick: &mut Picker<'_>) -> ReadingSettings {
        ReadingSettings {
            num_partitions: pick.value(
                "num_partitions",
                self.num_partitions,
                defaults.num_partitions,
                Partitions::Auto,
            ),
            starting_lsn: pick.value(
                "starting_lsn",
                self.starting_lsn,
                defaults.starting_lsn,
                StartingLsn::Earliest,
            ),
            on_data_loss: pick.value(
                "on_data_loss",
                self.on_data_loss,
                defaults.on_data_loss,
                OnDataLoss::Fail,
            ),
            schema_change_policy: pick.value(
                "schema_change_policy",
                self.schema_change_policy,
                defaults.schema_change_policy,
                SchemaChangePolicy::Classify,
            ),
            capture_stalled_after: pick.value(
                "capture_stalled_after",
                self.capture_stalled_after,
                defaults.capture_stalled_after,
                // An idle database gets an entry about every five minutes.
                Duration::from_secs(15 * 60),
            ),
        }
    }
}

impl Partitions {
    /// The number, in a process that may have so many connections for rows.
    pub fn resolve(self, connections: usize) -> NonZeroU32 {
        let auto = || {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            u32::try_from(cores.min(connections / 2)).unwrap_or(u32::MAX)
        };
        match self {
            Partitions::Exactly(parts) => parts,
            Partitions::Auto => NonZeroU32::new(auto()).unwrap_or(NonZeroU32::MIN),
        }
    }
}

impl std::fmt::Display for Partitions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Partitions::Auto => f.write_str("auto"),
            Partitions::Exactly(parts) => write!(f, "{parts}"),
        }
    }
}

impl std::fmt::Display for StartingLsn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StartingLsn::Earliest => f.write_str("earliest"),
            StartingLsn::Latest => f.write_str("latest"),
            StartingLsn::At(lsn) => write!(f, "{lsn}"),
        }
    }
}

fn partitions(section: &mut Section<'_>) -> Result<Option<Partitions>, ConfigError> {
    let problem = "must be \"auto\" or a whole number from 1 to 64";
    match section.value("num_partitions") {
        None => Ok(None),
        Some(toml::Value::String(text)) if text == "auto" => Ok(Some(Partitions::Auto)),
        Some(toml::Value::Integer(number @ 1..=64)) => Ok(u32::try_from(*number)
            .ok()
            .and_then(NonZeroU32::new)
            .map(Partitions::Exactly)),
        Some(_) => Err(section.error("num_partitions", problem)),
    }
}

fn starting_lsn(section: &mut Section<'_>) -> Result<Option<StartingLsn>, ConfigError> {
    match section.string("starting_lsn")? {
        None => Ok(None),
        Some("earliest") => Ok(Some(StartingLsn::Earliest)),
        Some("latest") => Ok(Some(StartingLsn::Latest)),
        Some(text) => match text.parse::<Lsn>() {
            Ok(lsn) if !lsn.is_zero() => Ok(Some(StartingLsn::At(lsn))),
            _ => Err(section.error(
                "starting_lsn",
                "must be \"earliest\", \"latest\" or an LSN: 0x and 20 hex digits, not all zero",
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_leaves_connections_to_other_tables() {
        assert_eq!(Partitions::Auto.resolve(1).get(), 1);
        assert!(Partitions::Auto.resolve(16).get() <= 8);
        let three = NonZeroU32::new(3).unwrap();
        assert_eq!(Partitions::Exactly(three).resolve(1), three);
    }
}
