//! `[ownership]`: what makes a stream one process's.

use std::time::Duration;

use super::locations::Places;
use super::section::Section;
use super::units::SECOND;
use super::{ConfigError, TableSettings, locations};
use crate::storage::Place;

/// A lease when the configuration says nothing.
const LEASE: Duration = Duration::from_secs(15);
/// Below a second, a machine that is busy loses its streams; above ten minutes, nobody waits for them.
const LEASES: std::ops::RangeInclusive<Duration> = SECOND..=Duration::from_secs(600);

/// What makes a stream one process's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OwnershipSettings {
    /// The operating system's lock on the checkpoint: for processes of one machine.
    #[default]
    Lock,
    /// A lease: for checkpoints that several machines share.
    Lease {
        /// The folder of the leases, shared by those machines.
        hosts: Place,
        /// How long a process is not heard of before its streams are taken over.
        lease: Duration,
        /// A table that another process runs is waited for, and taken over when that process is gone.
        standby: bool,
    },
}

impl OwnershipSettings {
    /// The folder of the leases, where there is one.
    pub fn hosts(&self) -> Option<&Place> {
        match self {
            OwnershipSettings::Lock => None,
            OwnershipSettings::Lease { hosts, .. } => Some(hosts),
        }
    }

    pub(super) fn parse(mut section: Section<'_>, places: &Places) -> Result<OwnershipSettings, ConfigError> {
        let leased = match section.string("mode")? {
            None | Some("lock") => false,
            Some("lease") => true,
            Some(_) => return Err(section.error("mode", "must be \"lock\" or \"lease\"")),
        };
        let lease = section.duration("lease", LEASES)?;
        let standby = section.boolean("standby")?;
        let hosts = match section.string("hosts")? {
            None => None,
            Some("") => return Err(section.error("hosts", "must not be empty")),
            Some(text) => {
                let hosts = places.parse(text).map_err(|problem| section.error("hosts", problem))?;
                Some(hosts.in_time())
            }
        };
        let settings = match (leased, hosts) {
            (true, Some(hosts)) => OwnershipSettings::Lease {
                hosts,
                lease: lease.unwrap_or(LEASE),
                standby: standby.unwrap_or(false),
            },
            (true, None) => {
                return Err(section.error(
                    "hosts",
                    "is required with mode = \"lease\": a folder that all machines share, for the leases",
                ));
            }
            (false, Some(_)) => return Err(section.error("hosts", "needs mode = \"lease\"")),
            (false, None) if standby.is_some() => return Err(section.error("standby", "needs mode = \"lease\"")),
            (false, None) if lease.is_some() => return Err(section.error("lease", "needs mode = \"lease\"")),
            (false, None) => OwnershipSettings::Lock,
        };
        section.finish()?;
        Ok(settings)
    }

    /// A checkpoint in a bucket has no lock.
    pub(super) fn expect_lease_for<'a>(
        &self,
        mut tables: impl Iterator<Item = &'a TableSettings>,
    ) -> Result<(), ConfigError> {
        let in_a_bucket = |table: &&TableSettings| table.checkpoint.as_object().is_some();
        match (self, tables.find(in_a_bucket)) {
            (OwnershipSettings::Lock, Some(table)) => Err(ConfigError::Key {
                key: format!("checkpoint of {}", table.capture_instance),
                problem: format!(
                    "is {}, in a bucket, where there is no lock that keeps two processes apart: set [ownership] mode = \
                     \"lease\", and hosts to a folder for the leases, such as one beside the checkpoints",
                    table.checkpoint
                ),
            }),
            _ => Ok(()),
        }
    }

    /// The folder of the leases is nobody else's, lies in no table or checkpoint, and has none in it.
    pub(super) fn expect_apart(&self, tables: &[TableSettings]) -> Result<(), ConfigError> {
        match self.hosts() {
            None => Ok(()),
            Some(hosts) => locations::expect_apart("ownership.hosts", hosts, tables),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Settings;

    fn parse(ownership: &str) -> Result<OwnershipSettings, String> {
        let text = format!(
            "[source]\nserver = \"h\"\ndatabase = \"d\"\nuser = \"u\"\npassword = {{ command = [\"printf\", \"x\"] }}\n\
             {ownership}\n[[table]]\ncapture_instance = \"a\"\ntarget = \"lake/a\"\napp_id = \"a\"\ncheckpoint = \"state/a\"\n\
             facts_table = \"ops/facts\"\ncontrol_table = \"ops/control\"\n"
        );
        Settings::parse(&text, Path::new("/base"), Path::new("sluice.toml"))
            .map(|settings| settings.ownership)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_lock_is_the_default_and_a_lease_has_a_folder() {
        assert_eq!(parse("").unwrap(), OwnershipSettings::Lock);
        assert_eq!(parse("[ownership]\nmode = \"lock\"").unwrap(), OwnershipSettings::Lock);
        assert_eq!(
            parse("[ownership]\nmode = \"lease\"\nhosts = \"state/hosts\"").unwrap(),
            OwnershipSettings::Lease {
                hosts: Place::local("/base/state/hosts"),
                lease: Duration::from_secs(15),
                standby: false,
            }
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (section, words) in [
            ("mode = \"leas\"", "ownership.mode must be \"lock\" or \"lease\""),
            ("mode = \"lease\"", "ownership.hosts is required"),
            ("hosts = \"h\"", "ownership.hosts needs mode"),
            ("lease = \"5s\"", "ownership.lease needs mode"),
            ("standby = true", "ownership.standby needs mode"),
            ("mode = \"lease\"\nhosts = \"\"", "ownership.hosts must not be empty"),
            (
                "mode = \"lease\"\nhosts = \"h\"\nlease = \"10ms\"",
                "ownership.lease must be from 1s to",
            ),
            (
                "mode = \"lease\"\nhosts = \"h\"\nlese = \"2s\"",
                "unknown key ownership.lese; did you mean lease?",
            ),
            (
                "mode = \"lease\"\nhosts = \"ftp://bucket/hosts\"",
                "ownership.hosts has ftp://, which sluice does not know",
            ),
            (
                "mode = \"lease\"\nhosts = \"lake/a/hosts\"",
                "/base/lake/a/hosts lies inside the target of a",
            ),
            (
                "mode = \"lease\"\nhosts = \"state/a\"",
                "/base/state/a is also the checkpoint of a",
            ),
            (
                "mode = \"lease\"\nhosts = \"state\"",
                "/base/state is around the checkpoint of a",
            ),
        ] {
            let error = parse(&format!("[ownership]\n{section}")).unwrap_err();
            assert!(error.contains(words), "{section}: {error}");
        }
    }
}
