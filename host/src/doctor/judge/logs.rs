//! Damage to the Delta log of a table, and files that it names and that are not there.

use super::{batches, count, found};
use crate::doctor::delta_files::{DeltaFiles, LogEntry};
use crate::doctor::finding::{Code, Finding, Severity};
use crate::doctor::ledger::Ledger;
use crate::storage::Place;

/// Which of a stream's tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Bronze,
    Facts,
    Control,
    Quarantine,
}

impl Which {
    fn name(self) -> &'static str {
        match self {
            Which::Bronze => "bronze",
            Which::Facts => "the facts table",
            Which::Control => "the control table",
            Which::Quarantine => "the quarantine table",
        }
    }

    /// What to do when the backup does not have it.
    fn without_backup(self) -> &'static str {
        match self {
            Which::Bronze => {
                "without one, keep the table as history and start over with a new app_id, target and checkpoint: the \
                 source gives again what it still has"
            }
            Which::Facts => {
                "without one, stop all tables that share it, move its folder away, and run sluice doctor --repair on \
                 each of them: it writes the rows again from the checkpoints and from bronze"
            }
            Which::Control => {
                "without one, stop all tables that share it and move its folder away: the next run writes each verdict \
                 again from its checkpoint"
            }
            Which::Quarantine => {
                "without one, its rows are lost, which are changes that bronze lacks: move its folder away, and sluice \
                 doctor says what that means and how to accept it"
            }
        }
    }

    /// What becomes of a table whose data files are gone.
    fn on_lost_files(self) -> &'static str {
        match self {
            Which::Quarantine => {
                "those rows, which say what bronze lacks, are lost from the table until the file is back. run stops at this \
                 table"
            }
            Which::Bronze | Which::Facts | Which::Control => {
                "those rows are lost from the table until the file is back; reading them fails. run itself only appends and \
                 does not notice"
            }
        }
    }
}

pub(super) fn judge(ledger: &Ledger<'_>) -> Vec<Finding> {
    let evidence = ledger.evidence;
    let subject = ledger.subject;
    let mut findings = Vec::new();
    for (which, table, place) in [
        (Which::Bronze, &*evidence.bronze, &subject.target),
        (Which::Facts, &*evidence.facts, &subject.facts_table),
        (Which::Control, &*evidence.control, &subject.control_table),
        (Which::Quarantine, &evidence.quarantine.table, &subject.quarantine()),
    ] {
        findings.extend(log_damage(ledger, which, table, place));
        findings.extend(file_damage(ledger, which, table, place));
    }
    findings
}

fn log_damage(ledger: &Ledger<'_>, which: Which, table: &DeltaFiles, place: &Place) -> Vec<Finding> {
    let mut findings = Vec::new();
    let log = place.join("_delta_log");
    let restore = |what: &str| {
        format!(
            "restore {what} from a backup, or from another copy of the table; {}",
            which.without_backup()
        )
    };
    if let Some(version) = table.missing.first() {
        let more = match table.missing.len() {
            1 => String::new(),
            number => format!(", nor {} others", number - 1),
        };
        findings.push(found(
            Code::LogEntryMissing,
            Severity::NeedsPerson,
            &log.join(&format!("{version:020}.json")),
            format!(
                "the log of {} has no version {version}{more}, and has later ones{}",
                which.name(),
                lost_with(ledger, which, *version)
            ),
            "no reader can open the table; its data files are untouched. run stops at this table",
            restore("what is missing there"),
        ));
    }
    for (version, reason) in table.damaged() {
        findings.push(found(
            Code::LogEntryDamaged,
            Severity::NeedsPerson,
            &log.join(&format!("{version:020}.json")),
            format!(
                "version {version} of the log of {} is damaged: {reason}{}",
                which.name(),
                lost_with(ledger, which, version)
            ),
            "readers fail, or take the table for one without what this version brought; its data files are untouched",
            restore("this one file"),
        ));
    }
    if let Some(reason) = table.unreadable.as_ref().filter(|_| findings.is_empty()) {
        findings.push(found(
            Code::TableUnreadable,
            Severity::NeedsPerson,
            place,
            format!("{} cannot be opened: {reason}", which.name()),
            "nobody can read or write it as it is. run stops at this table",
            restore("the table's log"),
        ));
    }
    findings
}

/// What a version of bronze brought, by the facts.
fn lost_with(ledger: &Ledger<'_>, which: Which, version: u64) -> String {
    if which != Which::Bronze {
        return String::new();
    }
    let rows = ledger.evidence.rows.as_ref();
    let version = i64::try_from(version).ok();
    let here = rows.iter().flat_map(|rows| rows.batches.values().flatten());
    let mut here = here.filter(|row| row.delta_version.is_some() && row.delta_version == version);
    let commits = &ledger.evidence.checkpoint.commits;
    let mut kept = commits
        .keys()
        .filter_map(|batch| ledger.evidence.checkpoint.commit(*batch));
    let row = here.next().or_else(|| {
        Some(
            &kept
                .find(|commit| commit.delta_version == version && version.is_some())?
                .facts,
        )
    });
    match row {
        Some(row) => format!(
            ": it brought batch {} ({} rows, {} to {})",
            row.batch_id.unwrap_or_default(),
            row.rows.unwrap_or_default(),
            row.min_commit_ts.map(|at| at.to_string()).unwrap_or_default(),
            row.max_commit_ts.map(|at| at.to_string()).unwrap_or_default(),
        ),
        None => String::new(),
    }
}

fn file_damage(ledger: &Ledger<'_>, which: Which, table: &DeltaFiles, place: &Place) -> Vec<Finding> {
    let (gone, cut) = table.lost_files();
    let mut findings = Vec::new();
    for (code, files, how) in [
        (Code::DataFileMissing, gone, "not in the folder any more"),
        (Code::DataFileCut, cut, "of another size than the log says"),
    ] {
        let Some(first) = files.first() else { continue };
        let rows: i64 = files.iter().filter_map(|file| file.rows).sum();
        let is_lost = |entry: &LogEntry| {
            entry
                .files
                .iter()
                .any(|path| files.iter().any(|file| file.path == *path))
        };
        let mut lost: Vec<i64> = table
            .whole()
            .filter(|(_, entry)| is_lost(entry))
            .flat_map(|(_, entry)| &entry.txns)
            .filter(|(id, _)| *id == ledger.subject.app_id.0)
            .map(|(_, batch)| *batch)
            .collect();
        lost.sort_unstable();
        let brought = match which {
            Which::Bronze if !lost.is_empty() => format!(", of {}", batches(&lost)),
            _ => String::new(),
        };
        let more = if files.len() > 1 { ", and others" } else { "" };
        findings.push(found(
            code,
            Severity::NeedsPerson,
            &place.join(&first.path),
            format!(
                "{} of {} ({rows} rows{brought}): {how}{more}",
                count(files.len(), "data file", "data files"),
                which.name(),
            ),
            which.on_lost_files(),
            format!(
                "restore the file under the same name from a backup (a vacuum or a disk may have taken it); {}",
                which.without_backup()
            ),
        ));
    }
    findings
}
