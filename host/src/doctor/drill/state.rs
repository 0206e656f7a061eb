//! What has to be the same before a damage and after its repair.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Outcome, path_of};
use crate::checkpoint::CommitRecord;
use crate::doctor::gather;
use crate::doctor::subject::Subject;
use crate::facts::FactsRow;
use crate::quarantine::{QuarantineRow, open_rows};

/// A table by what its readers and the next run go by.
#[derive(Debug)]
pub(super) struct State {
    /// Every file with its content; data files, which nobody writes into, by their size.
    pub(super) files: BTreeMap<PathBuf, Vec<u8>>,
    newest: Option<CommitRecord>,
    bronze: Vec<(String, Option<i64>)>,
    facts: BTreeMap<i64, Vec<FactsRow>>,
    events: Vec<FactsRow>,
    /// What is open in quarantine.
    open: Vec<QuarantineRow>,
}

impl State {
    pub(super) async fn of(subject: &Subject) -> State {
        let evidence = gather(subject).await;
        let mut files = BTreeMap::new();
        for folder in [
            &subject.checkpoint,
            &subject.target,
            &subject.facts_table,
            &subject.control_table,
            &subject.quarantine(),
        ] {
            collect(path_of(folder), &mut files);
        }
        let commits = &evidence.checkpoint.commits;
        let mut bronze: Vec<_> = evidence
            .bronze
            .active
            .iter()
            .flatten()
            .map(|file| (file.path.clone(), file.rows))
            .collect();
        bronze.sort();
        let rows = evidence.rows.unwrap_or_default();
        State {
            files,
            newest: commits.values().rev().find_map(|commit| commit.whole().cloned()),
            bronze,
            facts: rows.batches,
            events: rows.events,
            open: open_rows(&evidence.quarantine.rows.unwrap_or_default()),
        }
    }

    /// Whether a repaired table is what it was; a note on what could not be brought back.
    pub(super) fn equals(&self, before: &State, outcome: Outcome) -> Result<String, String> {
        if self.bronze != before.bronze {
            return Err("bronze has other files or rows than before the damage".to_owned());
        }
        if self.open != before.open {
            return Err("other rows are open in quarantine than before the damage".to_owned());
        }
        // What a run is to mend is not there yet.
        if outcome != Outcome::RunMends && record(&self.newest) != record(&before.newest) {
            return Err("the newest record of the checkpoint is not what it was before the damage".to_owned());
        }
        let mut idle = 0;
        for (batch, rows) in &before.facts {
            match self.facts.get(batch) {
                Some(found) if json(found) == json(rows) => {}
                None if rows.iter().all(|row| row.rows == Some(0)) => idle += 1,
                _ => {
                    return Err(format!(
                        "the facts of batch {batch} are not what they were before the damage"
                    ));
                }
            }
        }
        if self.facts.keys().any(|batch| !before.facts.contains_key(batch)) {
            return Err("the facts have batches that were not there before the damage".to_owned());
        }
        if self.events.len() != before.events.len() {
            return Err("the facts have other events than before the damage".to_owned());
        }
        Ok(match idle {
            0 => String::new(),
            idle => format!("the rows of {idle} batches without changes cannot be brought back"),
        })
    }
}

/// A record without the moment at which it was written.
fn record(record: &Option<CommitRecord>) -> Value {
    let mut value = serde_json::to_value(record).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.remove("committed_at");
        // What was told of the source stands in plans and records alone. Without it, the stream begins to tell at its position.
        fields.remove("source");
    }
    rounded(value)
}

/// A real number that was read from JSON may differ in its last bit.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => format!("{:.6}", number.as_f64().unwrap_or_default()).into(),
        Value::Array(values) => values.into_iter().map(rounded).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, rounded(value))).collect(),
        other => other,
    }
}

/// Rows as the checkpoint keeps them. Only the facts table and `commits/` know what a commit cost.
fn json(rows: &[FactsRow]) -> Value {
    let bare = |row: &FactsRow| FactsRow {
        commit_ms: None,
        duration_ms: None,
        ..row.clone()
    };
    rounded(serde_json::to_value(rows.iter().map(bare).collect::<Vec<_>>()).unwrap_or_default())
}

fn collect(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
            continue;
        }
        let content = match path.extension().is_some_and(|extension| extension == "parquet") {
            true => entry.metadata().map(|metadata| metadata.len().to_le_bytes().to_vec()),
            false => std::fs::read(&path),
        };
        files.insert(path, content.unwrap_or_default());
    }
}
