//! The damages, each with the code under which the doctor has to find it and how it has to end. Those to quarantine, which not
//! every table has, are in `of_quarantine`.

use std::fs;
use std::io::Result;

use super::{Outcome, made_up, path_of};
use crate::checkpoint::files;
use crate::doctor::delta_files::DeltaFiles;
use crate::doctor::evidence::Evidence;
use crate::doctor::finding::Code;
use crate::doctor::subject::Subject;
use crate::storage::Place;

/// Something that can happen to a table.
pub(super) struct Damage {
    pub(super) what: &'static str,
    pub(super) code: Code,
    pub(super) outcome: Outcome,
    /// Does it to a copy, of which the evidence tells.
    pub(super) apply: fn(&Subject, &Evidence) -> Result<Damaged>,
}

/// Whether a copy could be damaged.
pub(super) enum Damaged {
    Done,
    NotApplicable(&'static str),
}

use Damaged::{Done, NotApplicable};
use Outcome::{Refused, Repaired, RunMends};

const NO_COMMIT: Damaged = NotApplicable("the checkpoint has no record");
pub(super) const NO_MIDDLE: Damaged = NotApplicable("the log has no entry in the middle");

macro_rules! damage {
    ($what:literal, $code:ident, $outcome:ident, $apply:expr) => {
        Damage {
            what: $what,
            code: Code::$code,
            outcome: $outcome,
            apply: $apply,
        }
    };
}

/// All of them.
pub(super) const DAMAGES: &[Damage] = &[
    damage!(
        "the newest commits/ file deleted",
        CommitFileMissing,
        Repaired,
        |_, seen| {
            match newest(seen) {
                Some(batch) => remove(&seen.checkpoint.commit_file(batch)),
                None => Ok(NO_COMMIT),
            }
        }
    ),
    damage!(
        "a commits/ file in the middle deleted",
        CommitFileMissing,
        Repaired,
        |_, seen| {
            let batches: Vec<i64> = seen.checkpoint.commits.keys().copied().collect();
            match batches.len() {
                0..3 => Ok(NotApplicable("fewer than three batches")),
                number => remove(&seen.checkpoint.commit_file(batches[number / 2])),
            }
        }
    ),
    damage!(
        "the newest commits/ file cut in half",
        CommitFileDamaged,
        Repaired,
        |_, seen| { newest(seen).map_or(Ok(NO_COMMIT), |batch| cut(&seen.checkpoint.commit_file(batch))) }
    ),
    damage!(
        "another chain written into the newest record",
        CommitFileDamaged,
        Repaired,
        |_, seen| { made_up::other_chain(seen) }
    ),
    damage!(
        "the plan of a done batch cut in half",
        PlanFileDamaged,
        Repaired,
        |_, seen| {
            let done = newest(seen).unwrap_or(-1);
            match seen.checkpoint.plans.keys().rev().find(|(batch, _)| *batch <= done) {
                Some((batch, attempt)) => cut(&seen.checkpoint.plan_file(*batch, *attempt)),
                None => Ok(NotApplicable("no plan of a done batch is kept")),
            }
        }
    ),
    damage!(
        "the plan of an open batch cut in half",
        PlanFileDamaged,
        Repaired,
        |_, seen| {
            match made_up::open_batch(seen)? {
                Some(file) => cut(&file),
                None => Ok(NotApplicable("no plan is kept that an open batch could be made of")),
            }
        }
    ),
    damage!(
        "stream.json replaced by another table's",
        StreamFileForeign,
        Repaired,
        |_, seen| { made_up::foreign_identity(seen) }
    ),
    damage!("stream.json cut in half", StreamFileDamaged, Repaired, |table, _| {
        cut(&table.checkpoint.join(files::STREAM))
    }),
    damage!("owner.json cut in half", OwnerFileDamaged, Repaired, |table, _| {
        cut(&table.checkpoint.join(files::OWNER))
    }),
    damage!("a folder in place of the lock", LockDamaged, Refused, |table, _| {
        let lock = table.checkpoint.join(files::LOCK);
        match fs::remove_file(path_of(&lock)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => fs::create_dir(path_of(&lock)).map(|()| Done),
        }
    }),
    damage!(
        "the checkpoint set back to an older copy",
        CheckpointRewound,
        Repaired,
        |_, seen| { set_back(seen) }
    ),
    damage!("the checkpoint deleted", CheckpointDeleted, Repaired, |table, _| {
        fs::remove_dir_all(path_of(&table.checkpoint)).map(|()| Done)
    }),
    damage!(
        "a component's copy cut in half",
        ComponentDamaged,
        Repaired,
        |_, seen| {
            match seen.checkpoint.components.keys().next() {
                Some(sha256) => cut(&files::component_file(&seen.checkpoint.root, sha256)),
                None => Ok(NotApplicable("the table has no transforms")),
            }
        }
    ),
    damage!(
        "a file left half-written by a killed process",
        TemporaryFile,
        RunMends,
        |table, _| {
            let file = table.checkpoint.join(files::COMMITS).join(".9.json.0123.sluice-tmp");
            fs::write(path_of(&file), "{").map(|()| Done)
        }
    ),
    damage!(
        "a lease left over by a dead process",
        LeaseLeftOver,
        RunMends,
        made_up::dead_owner
    ),
    damage!(
        "bronze set back to an older version",
        BronzeBehind,
        Refused,
        |_, seen| set_bronze_back(seen)
    ),
    damage!("bronze deleted", BronzeMissing, Refused, |table, seen| {
        match seen.bronze.exists {
            true => fs::remove_dir_all(path_of(&table.target)).map(|()| Done),
            false => Ok(NotApplicable("there is no bronze table yet")),
        }
    }),
    damage!("a data file of bronze gone", DataFileMissing, Refused, |table, seen| {
        match seen.bronze.active.iter().flatten().next() {
            Some(file) => remove(&table.target.join(&file.path)),
            None => Ok(NotApplicable("bronze has no data file")),
        }
    }),
    damage!(
        "an entry of bronze's log emptied",
        LogEntryDamaged,
        Refused,
        |_, seen| {
            match middle(&seen.bronze) {
                Some(version) => fs::write(path_of(&entry(&seen.bronze, version)), "").map(|()| Done),
                None => Ok(NO_MIDDLE),
            }
        }
    ),
    damage!(
        "an entry of bronze's log deleted",
        LogEntryMissing,
        Refused,
        |_, seen| {
            match middle(&seen.bronze) {
                Some(version) => fs::remove_file(path_of(&entry(&seen.bronze, version))).map(|()| Done),
                None => Ok(NO_MIDDLE),
            }
        }
    ),
    damage!(
        "rows of bronze deleted by somebody else",
        ForeignCommit,
        Refused,
        made_up::deletion
    ),
    damage!("the facts table deleted", FactsMissing, Repaired, |table, _| {
        fs::remove_dir_all(path_of(&table.facts_table)).map(|()| Done)
    }),
    damage!("the control table deleted", ControlMissing, RunMends, |table, _| {
        fs::remove_dir_all(path_of(&table.control_table)).map(|()| Done)
    }),
];

fn newest(seen: &Evidence) -> Option<i64> {
    seen.checkpoint.commits.keys().next_back().copied()
}

/// Files of a copy only: a link to a data file is removed, the file of the original stays.
pub(super) fn remove(file: &Place) -> Result<Damaged> {
    fs::remove_file(path_of(file)).map(|()| Done)
}

/// As a disk leaves a file that it did not write to its end.
fn cut(file: &Place) -> Result<Damaged> {
    let file = path_of(file);
    if !file.exists() {
        return Ok(NotApplicable("there is no such file"));
    }
    let content = fs::read(file)?;
    fs::write(file, &content[..content.len() / 2]).map(|()| Done)
}

/// Takes away everything of the newest batches, as a restored backup would.
fn set_back(seen: &Evidence) -> Result<Damaged> {
    let batches: Vec<i64> = seen.checkpoint.commits.keys().copied().collect();
    if batches.len() < 3 {
        return Ok(NotApplicable("fewer than three batches"));
    }
    let last = batches[batches.len() - 3];
    for batch in batches.iter().filter(|batch| **batch > last) {
        fs::remove_file(path_of(&seen.checkpoint.commit_file(*batch)))?;
    }
    for (batch, attempt) in seen.checkpoint.plans.keys().filter(|(batch, _)| *batch > last) {
        fs::remove_file(path_of(&seen.checkpoint.plan_file(*batch, *attempt)))?;
    }
    Ok(Done)
}

/// Takes away the newest batch with rows and all that came after it.
fn set_bronze_back(seen: &Evidence) -> Result<Damaged> {
    let table = &seen.bronze;
    let newest = table.whole().rfind(|(_, entry)| entry.ours && !entry.files.is_empty());
    let Some((version, _)) = newest.filter(|(version, _)| *version > table.base) else {
        return Ok(NotApplicable(
            "bronze's log has no entry of a batch after its checkpoint",
        ));
    };
    cut_off(table, version)
}

/// Takes away a version and all that came after it.
pub(super) fn cut_off(table: &DeltaFiles, version: u64) -> Result<Damaged> {
    for later in version..=table.newest().unwrap_or(version) {
        fs::remove_file(path_of(&entry(table, later)))?;
    }
    Ok(Done)
}

/// A version that is neither the first that readers need nor the newest.
pub(super) fn middle(table: &DeltaFiles) -> Option<u64> {
    let newest = table.newest()?;
    let first = table.base + 1;
    (first < newest).then(|| first + (newest - first) / 2)
}

/// The file of a version.
pub(super) fn entry(table: &DeltaFiles, version: u64) -> Place {
    table.folder.join("_delta_log").join(&format!("{version:020}.json"))
}
