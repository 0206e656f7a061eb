//! The damages to a quarantine table, for tables that have one. Nothing else says which changes are in it, so none can be mended.

use std::fs;
use std::io::Result;

use super::Outcome;
use super::damages::{Damage, Damaged, NO_MIDDLE, cut_off, entry, middle, remove};
use super::path_of;
use crate::doctor::evidence::{Evidence, quarantine_id};
use crate::doctor::finding::Code;
use crate::doctor::subject::Subject;

const NO_ROWS: Damaged = Damaged::NotApplicable("no batch that is recorded put rows into quarantine");

macro_rules! damage {
    ($what:literal, $code:ident, $apply:expr) => {
        Damage {
            what: $what,
            code: Code::$code,
            outcome: Outcome::Refused,
            apply: $apply,
        }
    };
}

/// All of them.
pub(super) const OF_QUARANTINE: &[Damage] = &[
    damage!("the quarantine table deleted", QuarantineMissing, |table, seen| {
        match recorded(seen) {
            Some(_) => fs::remove_dir_all(path_of(&table.quarantine())).map(|()| Damaged::Done),
            None => Ok(NO_ROWS),
        }
    }),
    damage!(
        "the quarantine table set back to an older version",
        QuarantineBehind,
        set_back
    ),
    damage!("a data file of quarantine gone", DataFileMissing, |table, seen| {
        match seen.quarantine.table.active.iter().flatten().next() {
            Some(file) => remove(&table.quarantine().join(&file.path)),
            None => Ok(Damaged::NotApplicable("quarantine has no data file")),
        }
    }),
    damage!("an entry of quarantine's log emptied", LogEntryDamaged, |_, seen| {
        let table = &seen.quarantine.table;
        match middle(table) {
            Some(version) => fs::write(path_of(&entry(table, version)), "").map(|()| Damaged::Done),
            None => Ok(NO_MIDDLE),
        }
    }),
];

/// What the newest record says of the table.
fn recorded(seen: &Evidence) -> Option<i64> {
    let mut records = seen.checkpoint.commits.values().rev();
    records.find_map(|record| record.whole())?.quarantined()
}

/// Takes away the newest rows that a record tells of, and all that came after them.
fn set_back(table: &Subject, seen: &Evidence) -> Result<Damaged> {
    let Some(newest) = recorded(seen) else {
        return Ok(NO_ROWS);
    };
    let id = quarantine_id(table);
    let quarantine = &seen.quarantine.table;
    let brought = |txns: &[(String, i64)]| txns.iter().any(|(found, version)| *found == id && *version == newest);
    let brought = quarantine.whole().rfind(|(_, entry)| brought(&entry.txns));
    match brought.filter(|(version, _)| *version > quarantine.base) {
        Some((version, _)) => cut_off(quarantine, version),
        None => Ok(Damaged::NotApplicable(
            "quarantine's log has no entry of those rows after its checkpoint",
        )),
    }
}
