//! A Delta table as its log and its folder have it, whatever state they are in.
//!
//! The log is read twice: entry by entry, because a damaged log is what one looks for here, and through the Delta kernel,
//! because that is how every reader will see the table. Nothing is written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::Value;

use crate::error::chain;
use crate::lake::{ActiveFile, DeltaLog, LakeError, active_files};
use crate::storage::Place;

/// A table.
#[derive(Debug, Default)]
pub(super) struct DeltaFiles {
    pub(super) folder: Place,
    /// Whether there is a log with anything in it.
    pub(super) exists: bool,
    /// The JSON entries by version: what they hold, or why they cannot be read.
    pub(super) entries: BTreeMap<u64, Result<LogEntry, String>>,
    /// Versions that readers need and that are not there.
    pub(super) missing: Vec<u64>,
    /// Why the kernel cannot open the table.
    pub(super) unreadable: Option<String>,
    /// The files of the newest version; `None` when they cannot be known.
    pub(super) active: Option<Vec<ActiveFile>>,
    /// The oldest version that readers start from: 0, or that of the newest checkpoint of the log.
    pub(super) base: u64,
    /// Sizes of the files in the folder, by name.
    pub(super) sizes: HashMap<String, u64>,
}

/// One entry of the log, as far as it matters.
#[derive(Debug, Default)]
pub(super) struct LogEntry {
    pub(super) operation: Option<String>,
    /// Whether sluice wrote it.
    pub(super) ours: bool,
    pub(super) metadata: Option<Value>,
    pub(super) txns: Vec<(String, i64)>,
    /// Whether it says how long transaction ids are kept.
    pub(super) expires_ids: bool,
    /// Rows of the files that it added.
    pub(super) rows: i64,
    /// Whether it added or removed rows.
    pub(super) changes_data: bool,
    /// Whether it took files out of the table.
    pub(super) removes: bool,
    pub(super) files: Vec<String>,
}

impl DeltaFiles {
    /// Reads a table.
    pub(super) async fn read(location: &Place) -> Result<DeltaFiles, LakeError> {
        let folder = location.clone();
        let mut found = tokio::task::spawn_blocking(move || DeltaFiles::look(folder))
            .await
            .map_err(|error| LakeError::Internal(format!("reading {} was cut off: {error}", location.display())))??;
        if !found.exists {
            return Ok(found);
        }
        match open(location).await {
            Ok(Some(log)) => match active_files(&log).await {
                Ok(files) => found.active = Some(files),
                Err(error) => found.unreadable = Some(chain(&error)),
            },
            Ok(None) => found.unreadable = Some("its log has no whole version".to_owned()),
            Err(error) => found.unreadable = Some(chain(&error)),
        }
        Ok(found)
    }

    /// The newest versions of transaction ids. Those that a whole log tells need no other look at it.
    pub(super) async fn recorded(&self, ids: &[String]) -> Result<HashMap<String, i64>, LakeError> {
        let mut recorded = HashMap::new();
        // Its readers leave out what expired.
        let expires = self.whole().any(|(_, entry)| entry.expires_ids);
        if self.unreadable.is_none() && (expires || !self.tells_everything()) {
            if let Some(mut log) = open(&self.folder).await? {
                log.follow(ids).await?;
                let found = |id: &String| Some((id.clone(), log.recorded(id)?.version));
                recorded.extend(ids.iter().filter_map(found));
            }
            return Ok(recorded);
        }
        for (_, entry) in self.whole() {
            for (id, version) in entry.txns.iter().filter(|(id, _)| ids.contains(id)) {
                recorded.insert(id.clone(), *version);
            }
        }
        Ok(recorded)
    }

    fn look(folder: Place) -> Result<DeltaFiles, LakeError> {
        let log = folder.join("_delta_log");
        let mut found = DeltaFiles {
            folder,
            ..DeltaFiles::default()
        };
        let mut bases = BTreeSet::new();
        for (name, _) in log.sizes()? {
            let Some(version) = name.get(..20).and_then(|digits| digits.parse::<u64>().ok()) else {
                continue;
            };
            match &name[20..] {
                ".json" => {
                    let entry = match log.join(&name).read() {
                        Ok(Some(bytes)) => parse(&bytes),
                        Ok(None) => continue,
                        // A store that does not answer says nothing of what is there.
                        Err(error) if log.as_object().is_some() => return Err(error),
                        Err(error) => Err(format!("it cannot be read: {error}")),
                    };
                    found.entries.insert(version, entry);
                }
                rest if rest.starts_with(".checkpoint.") => {
                    bases.insert(version);
                }
                _ => {}
            }
        }
        found.exists = !found.entries.is_empty() || !bases.is_empty();
        found.base = bases.last().copied().unwrap_or(0);
        let first = if bases.is_empty() { 0 } else { found.base + 1 };
        for version in found.newest().map(|newest| first..=newest).into_iter().flatten() {
            if found.entries.contains_key(&version) {
                continue;
            }
            // A listing that is made while others commit can have a later entry and not this one.
            match log.join(&format!("{version:020}.json")).read() {
                Ok(Some(bytes)) => drop(found.entries.insert(version, parse(&bytes))),
                Err(error) if log.as_object().is_some() => return Err(error),
                Ok(None) | Err(_) => found.missing.push(version),
            }
        }
        found.sizes = found.folder.sizes()?.into_iter().collect();
        Ok(found)
    }

    /// The newest version that left anything.
    pub(super) fn newest(&self) -> Option<u64> {
        let newest = self.entries.keys().next_back().copied();
        self.exists
            .then(|| newest.map_or(self.base, |newest| newest.max(self.base)))
    }

    /// Entries that readers need and cannot read, by version.
    pub(super) fn damaged(&self) -> impl Iterator<Item = (u64, &str)> {
        let first = if self.base == 0 { 0 } else { self.base + 1 };
        self.entries
            .range(first..)
            .filter_map(|(version, entry)| Some((*version, entry.as_ref().err()?.as_str())))
    }

    /// The whole entries, oldest first.
    pub(super) fn whole(&self) -> impl DoubleEndedIterator<Item = (u64, &LogEntry)> {
        self.entries
            .iter()
            .filter_map(|(version, entry)| Some((*version, entry.as_ref().ok()?)))
    }

    /// Whether every entry from the very first on is there and whole.
    pub(super) fn tells_everything(&self) -> bool {
        let newest = self.newest();
        newest.is_some_and(|newest| self.whole().count() as u64 == newest + 1)
    }

    /// Whether the table is there and can be read as its readers would.
    pub(super) fn is_readable(&self) -> bool {
        self.unreadable.is_none() && self.missing.is_empty() && self.damaged().next().is_none()
    }

    /// Files of the newest version that are not in the folder, and those of another size than the log says.
    pub(super) fn lost_files(&self) -> (Vec<&ActiveFile>, Vec<&ActiveFile>) {
        let mut gone = Vec::new();
        let mut cut = Vec::new();
        for file in self.active.iter().flatten() {
            let size = match self.sizes.get(&file.path) {
                Some(size) => Some(*size),
                // Another writer's file may lie in a folder of its own, under an encoded name.
                None => self.elsewhere(&file.path),
            };
            match size {
                None => gone.push(file),
                Some(size) if i64::try_from(size) != Ok(file.size) => cut.push(file),
                Some(_) => {}
            }
        }
        (gone, cut)
    }

    fn elsewhere(&self, path: &str) -> Option<u64> {
        let base = self.folder.folder_url()?;
        let file = base.join(path).ok()?;
        if self.folder.as_local().is_some() {
            let file = file.to_file_path().ok()?;
            return std::fs::metadata(file).ok().map(|metadata| metadata.len());
        }
        let inside = file.path().strip_prefix(base.path())?;
        let inside = percent_encoding::percent_decode_str(inside).decode_utf8().ok()?;
        let (folder, name) = inside.rsplit_once('/').unwrap_or(("", &inside));
        let sizes = self.folder.join(folder).sizes().ok()?;
        sizes
            .into_iter()
            .find_map(|(there, size)| (there == name).then_some(size))
    }
}

async fn open(location: &Place) -> Result<Option<DeltaLog>, LakeError> {
    DeltaLog::open(location).await
}

/// An action of an entry; what does not matter is skipped without being built.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    txn: Option<Txn>,
    commit_info: Option<Info>,
    meta_data: Option<TableData>,
    add: Option<File>,
    remove: Option<File>,
}

#[derive(Deserialize)]
struct TableData {
    #[serde(default)]
    configuration: HashMap<String, Option<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Txn {
    app_id: String,
    version: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Info {
    operation: Option<String>,
    user_metadata: Option<String>,
    sluice_commit: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    path: String,
    #[serde(default = "yes")]
    data_change: bool,
    stats: Option<String>,
}

fn yes() -> bool {
    true
}

fn parse(bytes: &[u8]) -> Result<LogEntry, String> {
    if bytes.trim_ascii().is_empty() {
        return Err("it is empty".to_owned());
    }
    let mut entry = LogEntry::default();
    for line in serde_json::Deserializer::from_slice(bytes).into_iter::<Line>() {
        let line = line.map_err(|error| match error.classify() {
            serde_json::error::Category::Eof => format!("it ends after {} bytes, in the middle of a line", bytes.len()),
            _ => format!("line {} is not what a Delta log has there", error.line()),
        })?;
        entry.txns.extend(line.txn.map(|txn| (txn.app_id, txn.version)));
        if let Some(info) = line.commit_info {
            entry.ours |= info.sluice_commit.is_some();
            entry.operation = info.operation.or(entry.operation);
            let metadata = info.user_metadata.and_then(|text| serde_json::from_str(&text).ok());
            entry.metadata = metadata.or(entry.metadata);
        }
        if let Some(table) = line.meta_data {
            entry.expires_ids |= table
                .configuration
                .contains_key("delta.setTransactionRetentionDuration");
        }
        entry.removes |= line.remove.is_some();
        for file in line.add.iter().chain(&line.remove) {
            entry.changes_data |= file.data_change;
        }
        if let Some(add) = line.add {
            let stats: Option<Value> = add.stats.and_then(|stats| serde_json::from_str(&stats).ok());
            entry.rows += stats.and_then(|stats| stats["numRecords"].as_i64()).unwrap_or(0);
            entry.files.push(add.path);
        }
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_empty_or_cut_is_not_taken_for_one() {
        let whole = "{\"commitInfo\":{\"operation\":\"WRITE\",\"sluiceCommit\":\"x\"}}\n{\"txn\":{\"appId\":\"a\",\"version\":3}}\n";
        let entry = parse(whole.as_bytes()).unwrap();
        assert!(entry.ours && !entry.changes_data);
        assert_eq!(entry.txns, [("a".to_owned(), 3)]);
        assert!(!entry.expires_ids);
        let table = br#"{"metaData":{"configuration":{"delta.setTransactionRetentionDuration":"interval 1 days"}}}"#;
        assert!(parse(table).unwrap().expires_ids);
        assert_eq!(parse(b"").unwrap_err(), "it is empty");
        assert!(
            parse(&whole.as_bytes()[..whole.len() - 5])
                .unwrap_err()
                .contains("it ends after")
        );
        assert!(parse(b"[1]").unwrap_err().contains("line 1"));
    }
}
