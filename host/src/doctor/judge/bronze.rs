//! Bronze against the account of its batches, and whose commits are in its log.

use super::{batches, found};
use crate::doctor::delta_files::DeltaFiles;
use crate::doctor::evidence::owner_id;
use crate::doctor::finding::{Code, Finding, Severity};
use crate::doctor::ledger::Ledger;

/// Operations of other writers that change no row: maintenance, comments and properties.
const HARMLESS: [&str; 16] = [
    "OPTIMIZE",
    "REORG",
    "VACUUM START",
    "VACUUM END",
    "SET TBLPROPERTIES",
    "UNSET TBLPROPERTIES",
    "CHANGE COLUMN",
    "ADD COLUMNS",
    "ADD COLUMN",
    "UPDATE FIELD METADATA",
    "UPDATE TABLE METADATA",
    "COMPUTE STATS",
    "CLUSTER BY",
    "UPGRADE PROTOCOL",
    "ADD FEATURE",
    "DROP FEATURE",
];

const TWO_WAYS: &str = "either put the newer version of the table back (a backup of its _delta_log and files; after a RESTORE, \
                        RESTORE to the version before it), or keep the target as it is and start over with a new app_id, \
                        target and checkpoint: the source gives again what it still has";

pub(super) fn judge(ledger: &Ledger<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(behind(ledger));
    findings.extend(row_count(ledger));
    findings.extend(foreign_commits(ledger));
    findings.extend(numbers(ledger));
    findings
}

/// Bronze lacks batches that are done.
fn behind(ledger: &Ledger<'_>) -> Option<Finding> {
    let table = &ledger.evidence.bronze;
    let last = ledger.last_with_rows()?;
    if table.exists && !table.is_readable() || Some(last) <= ledger.by_bronze {
        return None;
    }
    let first = ledger.by_bronze.map_or(0, |newest| newest + 1);
    let lost: Vec<i64> = (first..=last)
        .filter(|batch| ledger.rows_of(*batch) > Some(0))
        .collect();
    let rows: i64 = lost.iter().filter_map(|batch| ledger.rows_of(*batch)).sum();
    let since = lost.first().and_then(|batch| ledger.facts_of(*batch)?.min_commit_ts);
    let until = lost.last().and_then(|batch| ledger.facts_of(*batch)?.max_commit_ts);
    let span = match (since, until) {
        (Some(since), Some(until)) => format!(", changes of {since} to {until}"),
        _ => String::new(),
    };
    let verdict = ledger.evidence.verdict.iter().flatten().next();
    let told = match verdict.and_then(|row| row.finalized_until) {
        Some(finalized) => format!(
            "consumers were told that the table is complete until {finalized}, and it is not while these rows are away. "
        ),
        None if ledger.evidence.verdict.is_none() => String::new(),
        None => "no verdict was given. ".to_owned(),
    };
    let there = table.active.iter().flatten().filter_map(|file| file.rows).sum::<i64>();
    if ledger.by_bronze.is_none() && !ledger.bronze.is_empty()
        || there > 0 && there >= rows && ledger.by_bronze.is_none()
    {
        return Some(found(
            Code::BronzeBehind,
            Severity::NeedsPerson,
            &ledger.subject.target,
            format!(
                "the table has {there} rows and no transaction id {} any more, so nothing says that they are {} ({rows} \
                 rows{span}): its transaction ids expired (delta.setTransactionRetentionDuration), or another writer \
                 rewrote the table",
                ledger.subject.app_id,
                batches(&lost)
            ),
            "the rows may all be there. run stops at this table and writes nothing",
            "take the retention of transaction ids off the table, if it has one, and run the doctor again; where a checkpoint \
             of the log has dropped the id for good, put the log back from a backup, or keep the target as history and start \
             over with a new app_id, target and checkpoint",
        ));
    }
    let what = match ledger.by_bronze {
        None => "the table is gone, or is a new one without this stream's batches".to_owned(),
        Some(newest) => format!("the table ends with batch {newest}: it was set back to an older version"),
    };
    Some(found(
        if table.exists {
            Code::BronzeBehind
        } else {
            Code::BronzeMissing
        },
        Severity::NeedsPerson,
        &ledger.subject.target,
        format!("{what}. missing: {} ({rows} rows{span})", batches(&lost)),
        format!("{told}run stops at this table and writes nothing"),
        TWO_WAYS,
    ))
}

/// The files' row counts against the facts.
fn row_count(ledger: &Ledger<'_>) -> Option<Finding> {
    let table = &ledger.evidence.bronze;
    let newest = ledger.by_bronze?;
    let rows = ledger.evidence.rows.as_ref().filter(|rows| !rows.shares_target)?;
    let active = table.active.as_ref().filter(|_| table.is_readable())?;
    let there: i64 = active.iter().map(|file| file.rows).sum::<Option<i64>>()?;
    let complete = table.tells_everything();
    let mut wanted = 0;
    for batch in 0..=newest {
        match ledger.rows_of(batch) {
            Some(rows) => wanted += rows,
            // A batch that a whole log does not have had no rows.
            None if complete && !ledger.bronze.contains_key(&batch) => {}
            None => return None,
        }
    }
    if there == wanted {
        return None;
    }
    let (what, means) = match there < wanted {
        true => (
            format!("{} rows are missing", wanted - there),
            "somebody deleted rows, or restored or overwrote the table, after they were counted. run goes on and does not \
             bring them back",
        ),
        false => (
            format!("it has {} rows too many", there - wanted),
            "somebody else wrote to the table: readers see changes that the source never made. run goes on",
        ),
    };
    let told = if rows.batches.is_empty() {
        "its batches"
    } else {
        "the facts"
    };
    Some(found(
        Code::BronzeRowCount,
        Severity::NeedsPerson,
        &ledger.subject.target,
        format!("{what}: the table has {there}, and {told} count {wanted} up to batch {newest}"),
        means,
        "look for the commit in the table's history (foreign-commit names it, if the log still has it). if it was meant, \
         nothing is to do; if not, RESTORE the table to the version before it, and run the doctor again",
    ))
}

fn foreign_commits(ledger: &Ledger<'_>) -> Option<Finding> {
    foreign_commit(
        &ledger.evidence.bronze,
        "rows of the change history were changed, added or taken away. run goes on after it, and the verdict does not know \
         of it",
        "if it was meant (a deletion on request, say), nothing is to do. if not, RESTORE the table to the version before it, \
         and take write access away from everybody but sluice",
    )
}

/// The first commit of another writer that changed rows of a table.
pub(super) fn foreign_commit(table: &DeltaFiles, means: &str, advice: &str) -> Option<Finding> {
    let mut found_here = Vec::new();
    for (version, entry) in table.whole() {
        let operation = entry.operation.as_deref().unwrap_or("without a name");
        let harmless = HARMLESS.iter().any(|name| name.eq_ignore_ascii_case(operation));
        if entry.ours || !entry.changes_data || harmless {
            continue;
        }
        found_here.push((version, operation));
    }
    let (version, operation) = found_here.first()?;
    let more = match found_here.len() {
        1 => String::new(),
        number => format!(" (and {} more of other writers)", number - 1),
    };
    Some(found(
        Code::ForeignCommit,
        Severity::NeedsPerson,
        &table.folder.join("_delta_log").join(&format!("{version:020}.json")),
        format!("version {version} is a {operation} that sluice did not make{more}"),
        means,
        advice,
    ))
}

/// Numbers that only rise, unless two owners wrote.
fn numbers(ledger: &Ledger<'_>) -> Option<Finding> {
    let owner = owner_id(ledger.subject);
    for (id, what) in [
        (owner.as_str(), "owner number"),
        (ledger.subject.app_id.0.as_str(), "batch"),
    ] {
        let mut highest: Option<i64> = None;
        for (version, entry) in ledger.evidence.bronze.whole() {
            for (_, number) in entry.txns.iter().filter(|(found, _)| found == id) {
                // A batch comes once; an owner's number is in each of its commits.
                let falls = match id == owner {
                    true => Some(*number) < highest,
                    false => Some(*number) <= highest,
                };
                if falls {
                    return Some(found(
                        Code::NumbersWentDown,
                        Severity::NeedsPerson,
                        &ledger.subject.target,
                        format!(
                            "version {version} has {what} {number}, after {}",
                            highest.unwrap_or_default()
                        ),
                        "a process wrote after another had taken the table over, which the commit protocol rules out: rows \
                         may be double",
                        "stop this table, compare the rows of the batches around that version, and report it",
                    ));
                }
                highest = Some(*number);
            }
        }
    }
    None
}
