//! Facts against checkpoint and bronze: one row a batch, in order, and the same in all three.

use std::collections::BTreeSet;

use super::{batches, count, found};
use crate::checkpoint::CommitRecord;
use crate::doctor::events::{retry_event, tells_of_retry};
use crate::doctor::finding::{Code, Finding, Severity, Step};
use crate::doctor::ledger::{Ledger, chain_of};
use crate::facts::{FactsEntry, FactsKey, FactsRow};
use crate::identity::BatchId;

pub(super) fn judge(ledger: &Ledger<'_>) -> Vec<Finding> {
    let table = &ledger.evidence.facts;
    let Some(done) = ledger.done.filter(|_| !table.exists || table.is_readable()) else {
        return Vec::new();
    };
    // A batch that a run is to end gets its facts then.
    let newest = match ledger.open_in_bronze() {
        Some(_) => ledger.by_checkpoint,
        None => Some(done),
    };
    let Some(newest) = newest else {
        return Vec::new();
    };
    if let Some(unnumbered) = unnumbered(ledger) {
        return vec![unnumbered];
    }
    // The first batch's facts may just not be written yet.
    if ledger.by_facts.is_none() && (newest > 0 || !table.exists) {
        return Vec::from_iter(missing(ledger, newest));
    }
    let mut findings = Vec::new();
    findings.extend(behind(ledger, newest));
    findings.extend(gaps(ledger));
    findings.extend(doubles(ledger));
    findings.extend(disagreements(ledger));
    findings.extend(unreadable(ledger));
    findings.extend(strangers(ledger));
    findings
}

/// Rows that no sluice wrote so.
fn unreadable(ledger: &Ledger<'_>) -> Option<Finding> {
    let rows = ledger.evidence.rows.as_ref()?;
    let (batch, reason) = rows.unreadable.first()?;
    let which = match batch {
        Some(batch) => format!("the row of batch {batch} was changed: {reason}"),
        None => format!("there is a row of this app_id that tells nothing: {reason}"),
    };
    let more = match rows.unreadable.len() {
        1 => String::new(),
        number => format!(" ({} more of the kind)", number - 1),
    };
    Some(found(
        Code::FactsRowsUnreadable,
        Severity::NeedsPerson,
        &ledger.subject.facts_table,
        format!("{which}{more}"),
        "sluice did not write it so. bronze is not touched by it, and run goes on",
        "find out who writes there; RESTORE the facts table to the version before that, or DELETE such rows: bronze's \
         commits say the same as long as its log goes back",
    ))
}

/// Rows of batches that this stream has not come to by the table's own count.
fn strangers(ledger: &Ledger<'_>) -> Option<Finding> {
    let rows = ledger.evidence.rows.as_ref()?;
    let above: Vec<i64> = rows
        .batches
        .range(ledger.by_facts? + 1..)
        .map(|(batch, _)| *batch)
        .collect();
    (!above.is_empty()).then(|| {
        found(
            Code::FactsDisagree,
            Severity::NeedsPerson,
            &ledger.subject.facts_table,
            format!(
                "there are rows of {}, and this stream has come to batch {} by the table's own count",
                batches(&above),
                ledger.by_facts.unwrap_or_default()
            ),
            "sluice did not write them: somebody added rows under this app_id. bronze is not touched by it, and run goes on",
            "DELETE them from the facts table, and find out who writes there",
        )
    })
}

fn behind(ledger: &Ledger<'_>, newest: i64) -> Option<Finding> {
    let first = ledger.by_facts.map_or(0, |recorded| recorded + 1);
    let lacking: Vec<i64> = (first..=newest).collect();
    lacking.first()?;
    Some(found(
        Code::FactsBehind,
        Severity::RunMends,
        &ledger.subject.facts_table,
        format!("the facts of {} are not written yet", batches(&lacking)),
        "the process ended before it wrote them. nothing is lost; the next run writes them from the checkpoint, and the \
         verdict after them",
        "nothing",
    ))
}

/// Rows without the number by which a repetition is known: whoever wrote them again would double them.
fn unnumbered(ledger: &Ledger<'_>) -> Option<Finding> {
    let rows = ledger.evidence.rows.as_ref().filter(|_| ledger.by_facts.is_none())?;
    let unreadable = rows.unreadable.iter().filter_map(|(batch, _)| *batch);
    let there: BTreeSet<i64> = rows.batches.keys().copied().chain(unreadable).collect();
    let there: Vec<i64> = there.into_iter().collect();
    there.first()?;
    let elsewhere = |batch: i64| {
        let in_bronze = ledger.bronze.get(&batch).is_some_and(|found| found.facts.is_some());
        in_bronze || ledger.evidence.checkpoint.commit(batch).is_some()
    };
    let only_here: Vec<i64> = there.iter().copied().filter(|batch| !elsewhere(*batch)).collect();
    let (save, insert) = match only_here.as_slice() {
        [] => (String::new(), ""),
        only_here => (
            format!(
                "save the rows of {}, which nothing else tells of; then ",
                batches(only_here)
            ),
            ", and INSERT what you saved",
        ),
    };
    let app_id = &ledger.subject.app_id;
    Some(found(
        Code::FactsUnnumbered,
        Severity::NeedsPerson,
        &ledger.subject.facts_table,
        format!(
            "it has the rows of {}, and no transaction id {app_id}#facts: the table was rewritten by another writer, or its \
             transaction ids expired (delta.setTransactionRetentionDuration)",
            batches(&there)
        ),
        "no row is lost. run stops at this table, because it would write those rows a second time",
        format!(
            "take the retention of transaction ids off the table, or put its log back as it was. where the ids are gone for \
             good: stop the tables that share it, {save}DELETE the rows with app_id = '{app_id}', and run sluice doctor \
             --repair, which writes them again with their numbers{insert}"
        ),
    ))
}

/// The facts table has nothing of the stream.
fn missing(ledger: &Ledger<'_>, newest: i64) -> Option<Finding> {
    let (entries, lost) = entries(ledger, newest);
    if entries.is_empty() {
        return None;
    }
    let kept = ledger.evidence.checkpoint.commit(0).is_some();
    let what = match ledger.evidence.facts.exists {
        false => "the facts table is gone",
        true => "the facts table has nothing of this table: it was replaced, or set back to an older version",
    };
    let lost = match lost.as_slice() {
        [] => String::new(),
        lost => format!(
            " (nothing tells of {}, which had no rows or are older than bronze's log)",
            batches(lost)
        ),
    };
    let number = entries
        .iter()
        .filter(|entry| matches!(entry.key, FactsKey::Batch(_)))
        .count();
    Some(
        found(
            Code::FactsMissing,
            if kept { Severity::RunMends } else { Severity::Repairable },
            &ledger.subject.facts_table,
            what,
            match kept {
                true => "bronze is whole. the next run writes the rows again from the checkpoint",
                false => {
                    "bronze is whole. the next run would write only the rows of the batches that the checkpoint keeps, and \
                     then older ones can never be added. repair before you run"
                }
            },
            "sluice doctor --repair, for every table that shares the facts table",
        )
        .repaired_by(
            format!("writes the facts rows of {}, from checkpoint and bronze{lost}", count(number, "batch", "batches")),
            vec![Step::WriteFacts(entries)],
        ),
    )
}

/// All rows that can be written again, and the batches of which nothing tells.
fn entries(ledger: &Ledger<'_>, newest: i64) -> (Vec<FactsEntry>, Vec<i64>) {
    let app_id = &ledger.subject.app_id;
    let mut entries = Vec::new();
    let mut lost = Vec::new();
    let mut events: Vec<FactsRow> = Vec::new();
    let oldest = (0..=newest).find_map(|batch| ledger.evidence.checkpoint.commit(batch));
    let rebuilt = ledger.rebuild();
    let mut last_chain: Option<String> = None;
    for batch in 0..=newest {
        let kept = ledger.evidence.checkpoint.commit(batch);
        let record: Option<&CommitRecord> = kept.or_else(|| rebuilt.get(&batch)?.as_ref().ok());
        let facts = record
            .map(|record| record.facts.clone())
            .or_else(|| ledger.facts_of(batch));
        let Some(facts) = facts else {
            lost.push(batch);
            continue;
        };
        let chain = chain_of(&facts);
        match kept {
            Some(record) => events.extend(record.events.iter().cloned()),
            // Older than what is kept: a retry of quarantine tells its event, and so does a chain that comes for the first time.
            None => {
                events.extend(tells_of_retry(&facts).then(|| retry_event(&facts)));
                if chain.is_some() && chain != last_chain {
                    events.extend(event_of(&facts, last_chain.is_some()));
                }
            }
        }
        last_chain = chain.or(last_chain);
        entries.push(FactsEntry {
            app_id: app_id.clone(),
            key: FactsKey::Batch(BatchId(batch)),
            row: facts,
        });
    }
    // The newest event has the number that the checkpoint counts on.
    let kept = ledger
        .by_checkpoint
        .and_then(|batch| ledger.evidence.checkpoint.commit(batch));
    let newest_event = kept.or(oldest).and_then(|record| record.last_event);
    let number = i64::try_from(events.len()).unwrap_or(0);
    let first = newest_event.map_or(0, |newest| (newest + 1 - number).max(0));
    let events = events.into_iter().zip(first..).map(|(row, event)| FactsEntry {
        app_id: app_id.clone(),
        key: FactsKey::Event(event),
        row,
    });
    (events.chain(entries).collect(), lost)
}

fn event_of(facts: &FactsRow, changed: bool) -> Option<FactsRow> {
    Some(FactsRow {
        app_id: facts.app_id.clone(),
        event: Some(if changed { "transform_changed" } else { "transform_set" }.to_owned()),
        min_lsn: facts.min_lsn,
        end_lsn: facts.end_lsn,
        end_commit_ts: facts.end_commit_ts,
        detail: Some(format!(
            "from {} on, which begins a batch of {} rows",
            facts.min_lsn.or(facts.end_lsn)?,
            facts.rows.unwrap_or(0)
        )),
        target: facts.target.clone(),
        transform: facts.transform.clone(),
        host: facts.host.clone(),
        ..FactsRow::default()
    })
}

/// Rows that are not there though later ones are: their numbers are used up, so nobody can add them any more.
fn gaps(ledger: &Ledger<'_>) -> Option<Finding> {
    let rows = ledger.evidence.rows.as_ref()?;
    let gone: Vec<i64> = (ledger.facts_from..=ledger.by_facts?)
        .filter(|batch| !rows.batches.contains_key(batch))
        .filter(|batch| {
            rows.unreadable
                .iter()
                .all(|(unreadable, _)| *unreadable != Some(*batch))
        })
        .collect();
    let (first, last) = (gone.first()?, gone.last()?);
    let with_rows: Vec<i64> = gone
        .iter()
        .copied()
        .filter(|batch| ledger.rows_of(*batch) > Some(0) || ledger.bronze.contains_key(batch))
        .collect();
    let known_empty = |batch: i64| ledger.rows_of(batch) == Some(0);
    let complete = ledger.evidence.bronze.tells_everything();
    let harmless = with_rows.is_empty() && (complete || gone.iter().all(|batch| known_empty(*batch)));
    let place = &ledger.subject.facts_table;
    let what = format!("the facts table has later rows, and none of {}", batches(&gone));
    Some(if harmless {
        found(
            Code::FactsRowsMissing,
            Severity::Note,
            place,
            format!("{what}; they had no rows"),
            "the account of idle times between batches is lost, and no row is: bronze has none of these batches",
            "nothing",
        )
    } else {
        found(
            Code::FactsRowsMissing,
            Severity::NeedsPerson,
            place,
            what,
            "rows of the facts table were deleted, or it was restored, or two processes ran this table. bronze is not \
             touched by it; run goes on and does not write them again",
            format!(
                "RESTORE the facts table to the version that has them (batches {first} to {last}), or live with it: bronze's \
                 commits say the same as long as its log goes back"
            ),
        )
    })
}

fn doubles(ledger: &Ledger<'_>) -> Option<Finding> {
    let rows = ledger.evidence.rows.as_ref()?;
    let double: Vec<i64> = rows
        .batches
        .iter()
        .filter(|(_, rows)| rows.len() > 1)
        .map(|(batch, _)| *batch)
        .collect();
    (!double.is_empty()).then(|| {
        found(
            Code::FactsDouble,
            Severity::NeedsPerson,
            &ledger.subject.facts_table,
            format!("there is more than one row of {}", batches(&double)),
            "sums over the facts count too much. bronze is not touched by it",
            "DELETE one of each pair: the one that disagrees with bronze's commit of the batch, or either",
        )
    })
}

fn disagreements(ledger: &Ledger<'_>) -> Option<Finding> {
    let rows = ledger.evidence.rows.as_ref()?;
    let mut first: Option<String> = None;
    let mut differing = Vec::new();
    for (batch, row) in rows
        .batches
        .iter()
        .filter_map(|(batch, rows)| Some((*batch, rows.first()?)))
    {
        let commit = ledger
            .evidence
            .checkpoint
            .commit(batch)
            .map(|commit| (&commit.facts, "the checkpoint"));
        let in_bronze = ledger
            .bronze
            .get(&batch)
            .and_then(|found| Some((found.facts.as_ref()?, "bronze")));
        for (other, who) in commit.into_iter().chain(in_bronze) {
            if let Some(what) = difference(row, other) {
                first.get_or_insert_with(|| format!("batch {batch} has another {what} in {who}"));
                differing.push(batch);
                break;
            }
        }
    }
    let first = first?;
    Some(found(
        Code::FactsDisagree,
        Severity::NeedsPerson,
        &ledger.subject.facts_table,
        format!(
            "the facts of {} are not what else is written of them: {first}",
            batches(&differing)
        ),
        "two processes ran this table, or somebody changed the facts. bronze's own commit is right about what bronze has",
        "look which host wrote the row (column host), and see that only one process runs this table",
    ))
}

fn difference(a: &FactsRow, b: &FactsRow) -> Option<&'static str> {
    [
        ("number of rows", a.rows != b.rows),
        ("end", a.end_lsn != b.end_lsn),
        (
            "version of bronze",
            a.delta_version != b.delta_version && a.delta_version.is_some() && b.delta_version.is_some(),
        ),
    ]
    .into_iter()
    .find_map(|(what, differs)| differs.then_some(what))
}
