//! The table that is examined, and where its parts are.

use std::path::{Path, PathBuf};

use crate::config::{Settings, TableSettings};
use crate::identity::{AppId, CaptureInstance};
use crate::quarantine::location_of;
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
    pub checkpoint: PathBuf,
    /// Its bronze table.
    pub target: PathBuf,
    /// Its facts table, which others share.
    pub facts_table: PathBuf,
    /// Its control table, which others share.
    pub control_table: PathBuf,
    /// What facts and control call the table: its location, unless this is a copy.
    pub table_name: String,
    /// Where the leases of its processes are, by the configuration.
    pub hosts: Option<PathBuf>,
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
            hosts: settings.ownership.hosts().map(Path::to_path_buf),
            granularity: table.granularity,
        }
    }

    /// Its quarantine table, be there one or not.
    pub fn quarantine(&self) -> PathBuf {
        location_of(&self.target.display().to_string()).into()
    }
}
