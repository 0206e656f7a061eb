//! Everything that one table left: checkpoint, bronze, facts, control and quarantine, read once.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;

use super::checkpoint_files::CheckpointFiles;
use super::delta_files::DeltaFiles;
use super::finding::{Code, Finding, Severity};
use super::subject::Subject;
use crate::error::chain;
use crate::facts::{FactsRows, facts_from_id, read_facts};
use crate::identity::AppId;
use crate::lake::LakeError;
use crate::quarantine::{AttemptAt, QuarantineRow, QuarantineTable};
use crate::storage::Place;
use crate::verdict::{ControlRow, ControlTable};

/// What one table left.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) checkpoint: CheckpointFiles,
    pub(super) bronze: Arc<DeltaFiles>,
    pub(super) facts: Arc<DeltaFiles>,
    /// The facts rows; `None` when they cannot be read.
    pub(super) rows: Option<FactsRows>,
    pub(super) control: Arc<DeltaFiles>,
    /// The control row: `None` when it cannot be read.
    pub(super) verdict: Option<Option<ControlRow>>,
    /// The stream's transaction ids in bronze and facts.
    pub(super) recorded: HashMap<String, i64>,
    pub(super) quarantine: Quarantined,
    /// What the system did not let us read.
    pub(super) unreadable: Vec<(Part, Finding)>,
}

/// The quarantine table, and what it has of the stream.
#[derive(Debug, Default)]
pub(super) struct Quarantined {
    pub(super) table: DeltaFiles,
    /// The newest attempt that has rows, and the highest fencing number.
    pub(super) newest: Option<AttemptAt>,
    pub(super) owner: Option<i64>,
    /// The rows; `None` when they cannot be read.
    pub(super) rows: Option<Vec<QuarantineRow>>,
}

/// What a table leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Checkpoint,
    Bronze,
    Facts,
    Control,
    Quarantine,
}

/// What tables share: facts and control are read once for all of them.
#[derive(Debug, Default)]
pub(super) struct Shared {
    logs: HashMap<Place, Read<DeltaFiles>>,
    facts: HashMap<Place, Read<Vec<RecordBatch>>>,
    control: HashMap<Place, Read<Vec<ControlRow>>>,
}

/// What was read, or why it could not be.
type Read<T> = Result<Arc<T>, String>;

impl Shared {
    async fn log(&mut self, place: &Place) -> Read<DeltaFiles> {
        if !self.logs.contains_key(place) {
            let read = DeltaFiles::read(place).await;
            self.logs.insert(place.clone(), told(read));
        }
        known(&self.logs, place)
    }

    async fn facts(&mut self, place: &Place) -> Read<Vec<RecordBatch>> {
        if !self.facts.contains_key(place) {
            let read = read_facts(place).await;
            self.facts.insert(place.clone(), told(read));
        }
        known(&self.facts, place)
    }

    async fn control(&mut self, place: &Place) -> Read<Vec<ControlRow>> {
        if !self.control.contains_key(place) {
            let read = ControlTable::read(place).await;
            self.control.insert(place.clone(), told(read));
        }
        known(&self.control, place)
    }
}

fn told<T>(read: Result<T, LakeError>) -> Read<T> {
    read.map(Arc::new).map_err(|error| chain(&error))
}

fn known<T>(all: &HashMap<Place, Read<T>>, place: &Place) -> Read<T> {
    all.get(place)
        .cloned()
        .unwrap_or_else(|| Err("it was not read".to_owned()))
}

impl Evidence {
    /// Reads in the order that is against the one in which a run writes, so that what is ahead by being read later is
    /// what may be ahead.
    pub(super) async fn gather(subject: &Subject, shared: &mut Shared) -> Evidence {
        let mut found = Evidence::default();
        let app_id = &subject.app_id.0;
        let (control, facts) = (&subject.control_table, &subject.facts_table);
        match shared.log(control).await {
            Ok(table) => found.control = table,
            Err(reason) => found.cannot_read(Part::Control, control, &reason),
        }
        match shared.control(control).await {
            Ok(rows) => {
                let row = rows.iter().find(|row| row.table_name == subject.table_name);
                found.verdict = Some(row.cloned());
            }
            // A damaged log is told of by its entries, and a lost file by its name.
            Err(reason) if looks_whole(&found.control) => found.cannot_read(Part::Control, control, &reason),
            Err(_) => {}
        }
        match shared.log(facts).await {
            Ok(table) => found.facts = table,
            Err(reason) => found.cannot_read(Part::Facts, facts, &reason),
        }
        match shared.facts(facts).await {
            Ok(batches) => found.rows = Some(FactsRows::of(&batches, app_id, &subject.table_name)),
            Err(reason) if looks_whole(&found.facts) => found.cannot_read(Part::Facts, facts, &reason),
            Err(_) => {}
        }
        let table = Arc::clone(&found.facts);
        found
            .look_up(
                Part::Facts,
                &table,
                vec![facts_id(subject), events_id(subject), facts_from_id(app_id)],
            )
            .await;
        let (folder, hosts) = (subject.checkpoint.clone(), subject.hosts.clone());
        match tokio::task::spawn_blocking(move || CheckpointFiles::read(&folder, hosts.as_ref())).await {
            Ok(Ok(checkpoint)) => found.checkpoint = checkpoint,
            Ok(Err(error)) => found.cannot_read(Part::Checkpoint, &subject.checkpoint, &chain(&error)),
            Err(error) => found.cannot_read(Part::Checkpoint, &subject.checkpoint, &error.to_string()),
        }
        match DeltaFiles::read(&subject.target).await {
            Ok(table) => found.bronze = Arc::new(table),
            Err(error) => found.cannot_read(Part::Bronze, &subject.target, &chain(&error)),
        }
        let table = Arc::clone(&found.bronze);
        found
            .look_up(Part::Bronze, &table, vec![app_id.clone(), owner_id(subject)])
            .await;
        found.look_into_quarantine(subject).await;
        found
    }

    async fn look_into_quarantine(&mut self, subject: &Subject) {
        let place = subject.quarantine();
        match DeltaFiles::read(&place).await {
            Ok(table) => self.quarantine.table = table,
            Err(error) => return self.cannot_read(Part::Quarantine, &place, &chain(&error)),
        }
        if !self.quarantine.table.exists {
            return;
        }
        let (rows, owner) = (quarantine_id(subject), owner_id(subject));
        match self.quarantine.table.recorded(&[rows.clone(), owner.clone()]).await {
            Ok(recorded) => {
                self.quarantine.newest = recorded.get(&rows).copied().map(AttemptAt::of_version);
                self.quarantine.owner = recorded.get(&owner).copied();
            }
            Err(error) => return self.cannot_read(Part::Quarantine, &place, &chain(&error)),
        }
        match rows_in(&place, &subject.app_id).await {
            Ok(rows) => self.quarantine.rows = Some(rows),
            Err(error) if looks_whole(&self.quarantine.table) => {
                self.cannot_read(Part::Quarantine, &place, &chain(&error));
            }
            Err(_) => {}
        }
    }

    async fn look_up(&mut self, part: Part, table: &DeltaFiles, ids: Vec<String>) {
        if !table.exists {
            return;
        }
        match table.recorded(&ids).await {
            Ok(recorded) => self.recorded.extend(recorded),
            Err(error) => self.cannot_read(part, &table.folder, &chain(&error)),
        }
    }

    /// Whether the whole of a part could be read, be it whole or damaged.
    pub(super) fn knows(&self, part: Part) -> bool {
        self.unreadable.iter().all(|(unknown, _)| *unknown != part)
    }

    pub(super) fn cannot_read(&mut self, part: Part, place: &Place, reason: &str) {
        let finding = Finding {
            code: Code::Unreadable,
            severity: Severity::NeedsPerson,
            place: place.clone(),
            what: reason.to_owned(),
            means: "what it holds is not known, so nothing can be said of it; run would stop here as well".to_owned(),
            advice: "check permissions and the disk, then run the doctor again".to_owned(),
            repair: None,
            on_accepted_loss: None,
        };
        self.unreadable.push((part, finding));
    }
}

async fn rows_in(quarantine: &Place, app_id: &AppId) -> Result<Vec<QuarantineRow>, LakeError> {
    match QuarantineTable::open(quarantine, app_id).await? {
        Some(table) => table.rows().await,
        None => Ok(Vec::new()),
    }
}

fn looks_whole(table: &DeltaFiles) -> bool {
    let (gone, cut) = table.lost_files();
    table.is_readable() && gone.is_empty() && cut.is_empty()
}

pub(super) fn facts_id(subject: &Subject) -> String {
    format!("{}#facts", subject.app_id)
}

pub(super) fn events_id(subject: &Subject) -> String {
    format!("{}#events", subject.app_id)
}

pub(super) fn quarantine_id(subject: &Subject) -> String {
    format!("{}#quarantine", subject.app_id)
}

pub(super) fn owner_id(subject: &Subject) -> String {
    format!("{}#owner", subject.app_id)
}
