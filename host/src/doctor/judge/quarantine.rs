//! Quarantine against what batches put there. Its rows are changes that bronze lacks, and the table is all that says which.

use std::collections::{BTreeMap, BTreeSet};

use super::bronze::foreign_commit;
use super::{batches, found};
use crate::doctor::events::is_retry;
use crate::doctor::evidence::owner_id;
use crate::doctor::finding::{Code, Finding, Severity, Step};
use crate::doctor::ledger::Ledger;
use crate::identity::BatchId;
use crate::lsn::UtcMicros;
use crate::quarantine::{AttemptAt, LOST, QuarantineRow, RowState};

pub(super) fn judge(ledger: &Ledger<'_>) -> Vec<Finding> {
    let table = &ledger.evidence.quarantine.table;
    // Damage to its log is told of with that of the other tables.
    if table.exists && !table.is_readable() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    findings.extend(foreign_commit(
        table,
        "what is open in quarantine may be another than what bronze lacks. run goes on",
        "if it was meant, nothing is to do. if not, RESTORE the table to the version before it, and take write access away \
         from everybody but sluice",
    ));
    if let Some(behind) = behind(ledger) {
        findings.push(behind);
        return findings;
    }
    findings.extend(ahead(ledger));
    findings.extend(not_void(ledger));
    findings.extend(row_count(ledger));
    findings
}

/// The table lacks what batches put there that are done.
fn behind(ledger: &Ledger<'_>) -> Option<Finding> {
    let seen = &ledger.evidence.quarantine;
    let wanted = ledger.in_quarantine().filter(|wanted| seen.newest < Some(*wanted))?;
    let lost = lost(ledger);
    let numbers: Vec<i64> = lost.iter().map(|(at, _)| at.batch.0).collect();
    let rows: i64 = lost.iter().map(|(_, rows)| rows).sum();
    let (code, how) = match (seen.table.exists, seen.newest) {
        (false, _) => (Code::QuarantineMissing, "the table is gone".to_owned()),
        (true, None) => (
            Code::QuarantineBehind,
            "the table has nothing of this stream: it was replaced or set back, or its transaction ids expired"
                .to_owned(),
        ),
        (true, Some(newest)) => (
            Code::QuarantineBehind,
            format!("the table ends with {newest}: it was set back to an older version"),
        ),
    };
    let missing = match numbers.is_empty() {
        true => format!("what {wanted} said of rows that are there"),
        false => format!("what {} put there ({rows} rows)", batches(&numbers)),
    };
    // A run does not look into the facts.
    let run = match seen.newest < ledger.in_quarantine_for_run() {
        true => "run stops at this table and writes nothing",
        false => {
            "run does not see it and goes on, and so do check and quarantine list: what they go by tells nothing of these rows. it \
             was pruned, is gone, or is from a sluice that did not note it; the facts tell"
        }
    };
    let bar = what_bars_acceptance(ledger);
    let finding = found(
        code,
        Severity::NeedsPerson,
        &ledger.subject.quarantine(),
        format!("{how}. missing: {missing}"),
        format!(
            "the rows are changes that bronze lacks, and nothing else says which; those that a retry has brought there since are \
             among them. {run}"
        ),
        match bar {
            Some(bar) => {
                format!("put the newer version of the table back (a backup of its folder); without one, {bar}")
            }
            None => {
                "put the newer version of the table back (a backup of its folder); without one, sluice doctor --repair \
                     --accept-loss notes that the rows are lost, and run goes on"
                    .to_owned()
            }
        },
    );
    if bar.is_some() {
        return Some(finding);
    }
    let now = UtcMicros::now();
    let rows: Vec<QuarantineRow> = lost
        .iter()
        .map(|(at, _)| {
            let end = ledger.end_of(at.batch.0).map(|end| end.lsn);
            QuarantineRow::lost(&ledger.subject.app_id, *at, end, now)
        })
        .collect();
    let words = match numbers.is_empty() {
        true => format!("notes in the table that it goes up to {wanted}"),
        false => format!(
            "writes a row with the code {LOST} for each of {}, which stays open for good",
            batches(&numbers)
        ),
    };
    Some(finding.accepted_by(words, vec![Step::AcceptLoss(rows, wanted, fencing(ledger))]))
}

/// Attempts that put rows into quarantine of which the table has none, and how many.
fn lost(ledger: &Ledger<'_>) -> Vec<(AttemptAt, i64)> {
    let there = goes_up_to(ledger);
    let all = (0..=ledger.done.unwrap_or(-1)).filter_map(|batch| counted(ledger, batch));
    // What came before the newest is there, or it was taken out by `quarantine_retention`.
    all.filter(|(at, rows)| *rows > 0 && Some(*at) > there).collect()
}

/// The newest attempt that the table has anything of, by its transaction id or, where that expired, by its rows.
fn goes_up_to(ledger: &Ledger<'_>) -> Option<AttemptAt> {
    let seen = &ledger.evidence.quarantine;
    let by_rows = seen.rows.iter().flatten().map(QuarantineRow::at).max();
    seen.newest.max(by_rows)
}

/// Why nobody can accept the loss of what is missing.
fn what_bars_acceptance(ledger: &Ledger<'_>) -> Option<&'static str> {
    let seen = &ledger.evidence.quarantine;
    if seen.table.exists && seen.rows.is_none() {
        return Some("move the folder away, because the rows that are left cannot be read; then run the doctor again");
    }
    // The rows of retries before that are in the table, and say that what they brought is out of quarantine.
    let first = goes_up_to(ledger).map_or(0, |newest| newest.batch.0 + 1);
    let brought = |batch: i64| {
        let facts = ledger.facts_of(batch);
        facts.is_some_and(|facts| is_retry(&facts) && facts.rows > Some(0))
    };
    let is_left = seen.rows.iter().flatten().next().is_some();
    let would_double = is_left && (first..=ledger.done.unwrap_or(-1)).any(brought);
    would_double.then_some(
        "move the folder away, because a retry has brought rows to bronze that this version calls open, and another would \
         double them; then run the doctor again",
    )
}

/// The attempt that a batch is done by, and how many rows it put into quarantine. Not of a retry, whose rows were there before.
fn counted(ledger: &Ledger<'_>, batch: i64) -> Option<(AttemptAt, i64)> {
    let facts = ledger.facts_of(batch).filter(|facts| !is_retry(facts))?;
    let at = AttemptAt {
        batch: BatchId(batch),
        attempt: ledger.attempt_done(batch)?,
    };
    Some((at, facts.rows_quarantined?))
}

/// Rows of a batch that nothing else tells of.
fn ahead(ledger: &Ledger<'_>) -> Option<Finding> {
    let newest = ledger.evidence.quarantine.newest?;
    // That of an open batch is known only here until bronze has it, or its record is written.
    let next = ledger.done.map_or(0, |done| done + 1);
    (newest.batch.0 > next).then(|| {
        let known = match ledger.done {
            Some(done) => format!("end with batch {done}"),
            None => "have no batch".to_owned(),
        };
        found(
            Code::QuarantineAhead,
            Severity::NeedsPerson,
            &ledger.subject.quarantine(),
            format!("the table has rows of {newest}, and checkpoint, bronze and facts {known}"),
            "all of these were set back, or another process ran this table with a checkpoint of its own. run stops at this \
             table",
            "put the newer versions back, or stop the other process; for a stream that begins anew, move the quarantine \
             table away",
        )
    })
}

/// Rows that count though their batch was done by another attempt.
fn not_void(ledger: &Ledger<'_>) -> Option<Finding> {
    let seen = &ledger.evidence.quarantine;
    let counting = counting(seen.rows.as_deref()?);
    let is_wrong = |at: &AttemptAt| {
        let done = Some(at.batch.0) <= ledger.done;
        done && ledger
            .attempt_done(at.batch.0)
            .is_some_and(|attempt| attempt != at.attempt)
    };
    let wrong: BTreeSet<AttemptAt> = counting.into_keys().filter(is_wrong).collect();
    let first = wrong.first()?;
    let numbers: BTreeSet<i64> = wrong.iter().map(|at| at.batch.0).collect();
    let numbers: Vec<i64> = numbers.into_iter().collect();
    // A run settles with the newest when it opens the stream, by the record that says which attempt it was.
    let has_record = |batch: i64| ledger.evidence.checkpoint.commit(batch).is_some();
    let by_run = seen
        .newest
        .is_some_and(|newest| numbers == [newest.batch.0] && has_record(newest.batch.0));
    let finding = found(
        Code::QuarantineNotVoid,
        if by_run {
            Severity::RunMends
        } else {
            Severity::Repairable
        },
        &ledger.subject.quarantine(),
        format!(
            "rows of {first} count, and the batch is not done by that attempt{}",
            match wrong.len() {
                1 => String::new(),
                number => format!(" ({} more attempts of {})", number - 1, batches(&numbers)),
            }
        ),
        "nothing is lost: these rows are in bronze, or counted a second time. but they are called open, and a retry would bring \
         them to bronze once more",
        if by_run { "nothing" } else { "sluice doctor --repair" },
    );
    Some(match by_run {
        true => finding,
        false => finding.repaired_by(
            "notes in the table that these attempts count for nothing",
            vec![Step::VoidAttempts(wrong, fencing(ledger))],
        ),
    })
}

/// The rows of each batch against its facts.
fn row_count(ledger: &Ledger<'_>) -> Option<Finding> {
    let seen = &ledger.evidence.quarantine;
    let rows = seen.rows.as_deref()?;
    let counting = counting(rows);
    let accepted: BTreeSet<i64> = rows
        .iter()
        .filter(|row| row.is_lost())
        .map(|row| row.batch_id)
        .collect();
    // `quarantine_retention` takes rows out of the table that are out of quarantine.
    let retention = seen.table.whole().any(|(_, entry)| entry.ours && entry.removes);
    let may_lack = retention || !seen.table.tells_everything();
    let mut differing = Vec::new();
    let (mut has, mut wants) = (0, 0);
    for batch in (0..=ledger.done?).filter(|batch| !accepted.contains(batch)) {
        let Some((at, wanted)) = counted(ledger, batch) else {
            continue;
        };
        let there = counting.get(&at).copied().unwrap_or(0);
        if there > wanted || (there < wanted && !may_lack) {
            differing.push(batch);
            has += there;
            wants += wanted;
        }
    }
    differing.first()?;
    Some(found(
        Code::QuarantineRowCount,
        Severity::NeedsPerson,
        &ledger.subject.quarantine(),
        format!(
            "the table has {has} rows of {}, and the facts count {wants}",
            batches(&differing)
        ),
        match has < wants {
            true => {
                "somebody deleted rows, or restored the table, after they were counted: they are changes that bronze lacks, \
                 and nothing else says which. run goes on and does not bring them back"
            }
            false => "somebody else wrote to the table: rows are called open that no batch put there. run goes on",
        },
        "look for the commit in the table's history (foreign-commit names it, if the log still has it), and RESTORE the table \
         to the version before it",
    ))
}

/// Attempts with rows that are not void, and how many of these say `open`.
fn counting(rows: &[QuarantineRow]) -> BTreeMap<AttemptAt, i64> {
    let is_void = |row: &&QuarantineRow| row.state == RowState::Void;
    let void: BTreeSet<AttemptAt> = rows.iter().filter(is_void).map(QuarantineRow::at).collect();
    let mut counting = BTreeMap::new();
    for row in rows.iter().filter(|row| !void.contains(&row.at())) {
        *counting.entry(row.at()).or_insert(0) += i64::from(row.state == RowState::Open);
    }
    counting
}

/// The owner's number, under which a repair writes: it takes nothing over.
fn fencing(ledger: &Ledger<'_>) -> i64 {
    let in_bronze = ledger.evidence.recorded.get(&owner_id(ledger.subject)).copied();
    in_bronze.max(ledger.evidence.quarantine.owner).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::samples::offset;
    use crate::checkpoint::{CommitRecord, RETRY_DETAIL};
    use crate::doctor::checkpoint_files::Seen;
    use crate::doctor::delta_files::{DeltaFiles, LogEntry};
    use crate::doctor::evidence::{Evidence, Quarantined};
    use crate::doctor::tests::{subject, whole};

    fn at(batch: i64, attempt: u32) -> AttemptAt {
        AttemptAt {
            batch: BatchId(batch),
            attempt,
        }
    }

    fn row(at: AttemptAt, seqval: &str, state: RowState) -> QuarantineRow {
        QuarantineRow {
            seqval: Some(seqval.to_owned()),
            code: Some("cast-invalid".to_owned()),
            state,
            ..QuarantineRow::lost(&subject().app_id, at, Some(offset(1).lsn), UtcMicros(0))
        }
    }

    fn ours(removes: bool) -> LogEntry {
        LogEntry {
            ours: true,
            removes,
            ..LogEntry::default()
        }
    }

    /// Two rows each of batches 3 and 6, of 9.
    fn rows() -> Vec<QuarantineRow> {
        let of = |batch| ["a", "b"].map(|seqval| row(at(batch, 0), seqval, RowState::Open));
        [of(3), of(6)].concat()
    }

    fn record(evidence: &mut Evidence, batch: i64) -> &mut CommitRecord {
        match evidence.checkpoint.commits.get_mut(&batch) {
            Some(Seen::Whole(record)) => record,
            other => panic!("{other:?}"),
        }
    }

    fn with(rows: Vec<QuarantineRow>, newest: AttemptAt) -> Evidence {
        let mut evidence = whole(9);
        for batch in [3, 6] {
            record(&mut evidence, batch).facts.rows_quarantined = Some(2);
        }
        evidence.quarantine = Quarantined {
            table: DeltaFiles {
                exists: true,
                entries: [(0, Ok(ours(false)))].into(),
                ..DeltaFiles::default()
            },
            newest: Some(newest),
            owner: Some(4),
            rows: Some(rows),
        };
        evidence
    }

    fn findings(evidence: &Evidence) -> Vec<Finding> {
        super::super::judge(&subject(), evidence).findings
    }

    fn codes(evidence: &Evidence) -> Vec<(Code, Severity)> {
        let findings = findings(evidence);
        findings
            .iter()
            .map(|finding| (finding.code, finding.severity))
            .collect()
    }

    /// The batches that a row is written for if the loss is accepted, up to where the table goes then, and under which number.
    fn accepted(finding: &Finding) -> (Vec<i64>, AttemptAt, i64) {
        assert!(finding.repair.is_none(), "{finding:?}");
        let steps = &finding.on_accepted_loss.as_ref().expect("it can be accepted").steps;
        match steps.as_slice() {
            [Step::AcceptLoss(rows, up_to, fencing)] => {
                assert!(rows.iter().all(|row| row.code.as_deref() == Some(LOST)));
                (rows.iter().map(|row| row.batch_id).collect(), *up_to, *fencing)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_table_that_has_what_batches_put_there_is_well() {
        assert_eq!(codes(&with(rows(), at(6, 0))), []);
        // The batch after the last one is open, or was.
        assert_eq!(codes(&with(rows(), at(10, 1))), []);
        assert_eq!(
            codes(&with(rows(), at(11, 0))),
            [(Code::QuarantineAhead, Severity::NeedsPerson)]
        );
    }

    #[test]
    fn what_is_gone_is_told_and_can_be_accepted() {
        let mut evidence = with(rows(), at(6, 0));
        evidence.quarantine = Quarantined::default();
        let found = findings(&evidence);
        assert_eq!(
            codes(&evidence),
            [(Code::QuarantineMissing, Severity::NeedsPerson)],
            "{found:?}"
        );
        assert!(
            found[0].what.contains("batches 3 and 6 put there (4 rows)"),
            "{}",
            found[0].what
        );
        assert_eq!(accepted(&found[0]), (vec![3, 6], at(6, 0), 0));

        let evidence = with(rows()[..2].to_vec(), at(3, 0));
        let found = findings(&evidence);
        assert_eq!(codes(&evidence), [(Code::QuarantineBehind, Severity::NeedsPerson)]);
        assert!(
            found[0].what.contains("batch 6 put there (2 rows)"),
            "{}",
            found[0].what
        );
        assert_eq!(accepted(&found[0]), (vec![6], at(6, 0), 4));

        // Its numbers expired, and its rows are there.
        let mut evidence = with(rows(), at(6, 0));
        evidence.quarantine.newest = None;
        assert_eq!(accepted(&findings(&evidence)[0]), (vec![], at(6, 0), 4));

        // With the row that stands for the lost ones.
        let lost = QuarantineRow::lost(&subject().app_id, at(6, 0), None, UtcMicros(0));
        let rows = [rows()[..2].to_vec(), vec![lost]].concat();
        assert_eq!(codes(&with(rows, at(6, 0))), []);
    }

    #[test]
    fn what_only_the_facts_tell_of_is_found_and_a_run_does_not_see_it() {
        let mut evidence = with(rows(), at(6, 0));
        evidence.quarantine = Quarantined::default();
        // As an older sluice wrote the records: each tells of its own rows, and that is enough.
        let found = findings(&evidence);
        assert!(found[0].means.contains("run stops at this table"), "{}", found[0].means);
        evidence.checkpoint.commits.retain(|batch, _| *batch > 6);
        let facts = evidence.rows.as_mut().expect("facts");
        for batch in [3, 6] {
            facts.batches.get_mut(&batch).expect("a row")[0].rows_quarantined = Some(2);
        }
        let found = findings(&evidence);
        assert_eq!(codes(&evidence), [(Code::QuarantineMissing, Severity::NeedsPerson)]);
        assert!(found[0].means.contains("run does not see it"), "{}", found[0].means);
        assert_eq!(accepted(&found[0]), (vec![3, 6], at(6, 0), 0));
    }

    #[test]
    fn what_a_retry_brought_to_bronze_is_not_to_be_called_open() {
        let mut evidence = with(rows(), at(6, 0));
        let retry = record(&mut evidence, 9);
        retry.facts.detail = Some(format!("{RETRY_DETAIL}: 1 rows are out of it"));
        retry.in_quarantine = Some(at(9, 0).version());
        let found = findings(&evidence);
        assert_eq!(codes(&evidence), [(Code::QuarantineBehind, Severity::NeedsPerson)]);
        assert!(found[0].on_accepted_loss.is_none());
        assert!(
            found[0].advice.contains("another would double them"),
            "{}",
            found[0].advice
        );
        // Nor by its rows does it go up to the retry, where its numbers expired.
        evidence.quarantine.newest = None;
        assert!(findings(&evidence)[0].on_accepted_loss.is_none());
        // With the retry's own rows nothing is called open that is not.
        let retried = row(at(9, 0), "a", RowState::Retried);
        evidence.quarantine.rows = Some([rows(), vec![retried.clone()]].concat());
        assert_eq!(accepted(&findings(&evidence)[0]), (vec![], at(9, 0), 4));
        // `quarantine_retention` took the rows of a change that is out of it.
        evidence.quarantine.rows = Some([rows()[1..].to_vec(), vec![retried]].concat());
        assert_eq!(accepted(&findings(&evidence)[0]), (vec![], at(9, 0), 4));
        // Without any row there is nothing to be retried.
        evidence.quarantine = Quarantined::default();
        assert_eq!(accepted(&findings(&evidence)[0]).0, [3, 6]);
    }

    #[test]
    fn rows_of_an_attempt_that_was_not_recorded_are_not_to_count() {
        let other = row(at(3, 1), "a", RowState::Open);
        let with_other = [rows(), vec![other.clone()]].concat();
        let evidence = with(with_other.clone(), at(6, 0));
        assert_eq!(codes(&evidence), [(Code::QuarantineNotVoid, Severity::Repairable)]);
        let found = findings(&evidence);
        let steps = &found[0].repair.as_ref().expect("a repair").steps;
        match steps.as_slice() {
            [Step::VoidAttempts(attempts, 4)] => assert_eq!(*attempts, BTreeSet::from([at(3, 1)])),
            other => panic!("{other:?}"),
        }
        let void = row(at(3, 1), "a", RowState::Void);
        assert_eq!(codes(&with([with_other, vec![void]].concat(), at(6, 0))), []);
        // Those of the newest batch are the next run's.
        let newest = [rows(), vec![row(at(6, 1), "a", RowState::Open)]].concat();
        let mut evidence = with(newest, at(6, 1));
        assert_eq!(codes(&evidence), [(Code::QuarantineNotVoid, Severity::RunMends)]);
        // As long as the record is kept that says which attempt it was.
        evidence.checkpoint.commits.retain(|batch, _| *batch > 6);
        assert_eq!(codes(&evidence), [(Code::QuarantineNotVoid, Severity::Repairable)]);
    }

    #[test]
    fn rows_are_counted_and_retention_may_take_some() {
        let found = [(Code::QuarantineRowCount, Severity::NeedsPerson)];
        let mut evidence = with(rows()[1..].to_vec(), at(6, 0));
        assert_eq!(codes(&evidence), found);
        let entries = &mut evidence.quarantine.table.entries;
        entries.insert(1, Ok(ours(true)));
        assert_eq!(codes(&evidence), []);
        // But it adds none.
        let rows = evidence.quarantine.rows.as_mut().expect("rows");
        rows.extend(["b", "c"].map(|seqval| row(at(3, 0), seqval, RowState::Open)));
        assert_eq!(codes(&evidence), found);
        // What a retry wrote was counted when it went in.
        record(&mut evidence, 8).facts.rows_quarantined = Some(0);
        evidence.quarantine.rows = Some([self::rows(), vec![row(at(8, 0), "a", RowState::Open)]].concat());
        assert_eq!(codes(&evidence), found);
        record(&mut evidence, 8).facts.detail = Some(format!("{RETRY_DETAIL}: 0 rows are out of it"));
        assert_eq!(codes(&evidence), []);
    }
}
