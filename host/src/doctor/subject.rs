//! The table that is examined, and where its parts are.

use crate::config::{Settings, TableSettings};
use crate::identity::{AppId, CaptureInstance};
use crate::quarantine::location_of;
use crate::storage::Place;
use crate::verdict::Granularity;

/// One table: names and places.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The table.
    pub capture_instance: CaptureInstance,
    /// The stream.
    pub app_id: AppId,
    /// The source database.
    pub database: String,
    /// Its checkpoint.
    pub checkpoint: Place,
    /// Its bronze table.
    pub target: Place,
    /// Its facts table, which others share.
    pub facts_table: Place,
    /// Its control table, which others share.
    pub control_table: Place,
    /// What facts and control call the table: its location, unless this is a copy.
    pub table_name: String,
    /// Where the leases of its processes are, by the configuration.
    pub hosts: Option<Place>,
    /// The periods of its verdict.
    pub granularity: Granularity,
}

impl Subject {
    /// A table of a configuration.
    pub fn of(settings: &Settings, table: &TableSettings) -> Subject {
        Subject {
            capture_instance: table.capture_instance.clone(),
            app_id: table.app_id.clone(),
            database: settings.source.database.clone(),
            checkpoint: table.checkpoint.clone(),
            target: table.target.clone(),
            facts_table: table.facts_table.clone(),
            control_table: table.control_table.clone(),
            table_name: table.target.display().to_string(),
            hosts: settings.ownership.hosts().cloned(),
            granularity: table.granularity,
        }
    }

    /// Its quarantine table, be there one or not.
    pub fn quarantine(&self) -> Place {
        location_of(&self.target)
    }
}
