//! Everything that one table left: checkpoint, bronze, facts and control, read once.

use std::path::PathBuf;

use super::checkpoint_files::CheckpointFiles;
use super::delta_files::DeltaFiles;
use super::facts_rows::FactsRows;
use super::finding::{Code, Finding, Severity};
use super::subject::Subject;
use crate::error::chain;
use crate::verdict::{ControlRow, ControlTable};

/// What one table left.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) checkpoint: CheckpointFiles,
    pub(super) bronze: DeltaFiles,
    pub(super) facts: DeltaFiles,
    /// The facts rows; `None` when they cannot be read.
    pub(super) rows: Option<FactsRows>,
    pub(super) control: DeltaFiles,
    /// The control row: `None` when it cannot be read.
    pub(super) verdict: Option<Option<ControlRow>>,
    /// What the system did not let us read.
    pub(super) unreadable: Vec<Finding>,
}

impl Evidence {
    /// Reads in the order that is against the one in which a run writes, so that what is ahead by being read later is
    /// what may be ahead.
    pub(super) async fn gather(subject: &Subject) -> Evidence {
        let mut found = Evidence::default();
        let app_id = &subject.app_id;
        match DeltaFiles::read(&subject.control_table, Vec::new()).await {
            Ok(table) => found.control = table,
            Err(error) => found.cannot_read(&subject.control_table, &chain(&error)),
        }
        match ControlTable::read(&subject.control_table.display().to_string()).await {
            Ok(rows) => found.verdict = Some(rows.into_iter().find(|row| row.table_name == subject.table_name)),
            // A damaged log is told of by its entries.
            Err(error) if found.control.is_readable() && found.control.lost_files().0.is_empty() => {
                found.cannot_read(&subject.control_table, &chain(&error));
            }
            Err(_) => {}
        }
        match DeltaFiles::read(&subject.facts_table, vec![facts_id(subject), events_id(subject)]).await {
            Ok(table) => found.facts = table,
            Err(error) => found.cannot_read(&subject.facts_table, &chain(&error)),
        }
        match FactsRows::read(&subject.facts_table, &app_id.0, &subject.table_name).await {
            Ok(rows) => found.rows = Some(rows),
            Err(error) if found.facts.is_readable() && found.facts.lost_files().0.is_empty() => {
                found.cannot_read(&subject.facts_table, &chain(&error));
            }
            Err(_) => {}
        }
        let folder = subject.checkpoint.clone();
        match tokio::task::spawn_blocking(move || CheckpointFiles::read(&folder)).await {
            Ok(Ok(checkpoint)) => found.checkpoint = checkpoint,
            Ok(Err(error)) => found.cannot_read(&subject.checkpoint, &chain(&error)),
            Err(error) => found.cannot_read(&subject.checkpoint, &error.to_string()),
        }
        match DeltaFiles::read(&subject.target, vec![app_id.0.clone(), owner_id(subject)]).await {
            Ok(table) => found.bronze = table,
            Err(error) => found.cannot_read(&subject.target, &chain(&error)),
        }
        found
    }

    fn cannot_read(&mut self, place: &std::path::Path, reason: &str) {
        self.unreadable.push(Finding {
            code: Code::Unreadable,
            severity: Severity::NeedsPerson,
            place: PathBuf::from(place),
            what: reason.to_owned(),
            means: "what it holds is not known, so nothing can be said of it; run would stop here as well".to_owned(),
            advice: "check permissions and the disk, then run the doctor again".to_owned(),
            repair: None,
        });
    }
}

pub(super) fn facts_id(subject: &Subject) -> String {
    format!("{}#facts", subject.app_id)
}

pub(super) fn events_id(subject: &Subject) -> String {
    format!("{}#events", subject.app_id)
}

pub(super) fn owner_id(subject: &Subject) -> String {
    format!("{}#owner", subject.app_id)
}
