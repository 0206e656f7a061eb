//! What is hard to bring about with a server: long histories, two owners, and states that no run leaves.

use std::sync::Arc;

use super::checkpoint_files::Seen;
use super::delta_files::{DeltaFiles, LogEntry};
use super::evidence::{Evidence, Part};
use super::finding::{Code, Severity, Step};
use super::judge::judge;
use super::ledger::Ledger;
use super::subject::Subject;
use crate::checkpoint::StreamIdentity;
use crate::checkpoint::samples::{commit_record, identity, offset, planned};
use crate::facts::{FactsRow, FactsRows};
use crate::identity::{AppId, CaptureInstance};
use crate::lsn::UtcMicros;
use crate::storage::Place;
use crate::verdict::{ControlRow, Granularity};

pub(super) fn subject() -> Subject {
    Subject {
        capture_instance: CaptureInstance("dbo_orders".into()),
        app_id: AppId("orders".into()),
        database: "shop".into(),
        checkpoint: Place::local("/c"),
        target: Place::local("/b"),
        facts_table: Place::local("/f"),
        control_table: Place::local("/k"),
        table_name: "/b".into(),
        hosts: None,
        granularity: Granularity::Minute,
    }
}

/// The facts of a batch: three rows in each third one, none in the others.
fn facts(batch: i64) -> FactsRow {
    let rows = if batch % 3 == 0 { 3 } else { 0 };
    FactsRow {
        rows: Some(rows),
        min_lsn: (rows > 0).then(|| offset(batch * 10 + 5).lsn),
        end_lsn: Some(offset(batch * 10 + 10).lsn),
        end_commit_ts: Some(offset(batch * 10 + 10).commit_ts),
        transform: Some("[]".into()),
        delta_version: (rows > 0).then_some(batch),
        target: Some("/b".into()),
        ..commit_record(batch, None).facts
    }
}

fn event(batch: i64) -> FactsRow {
    FactsRow {
        app_id: "orders".into(),
        event: Some("transform_changed".into()),
        end_lsn: Some(offset(batch * 10 + 10).lsn),
        ..FactsRow::default()
    }
}

/// A stream with batches 0 to `newest` in bronze and facts, and no checkpoint. Bronze's log was cleaned up.
fn without_checkpoint(newest: i64) -> Evidence {
    let mut evidence = Evidence {
        bronze: Arc::new(DeltaFiles {
            exists: true,
            base: 1000,
            active: Some(Vec::new()),
            ..DeltaFiles::default()
        }),
        facts: Arc::new(DeltaFiles {
            exists: true,
            base: 1000,
            ..DeltaFiles::default()
        }),
        rows: Some(FactsRows {
            batches: (0..=newest).map(|batch| (batch, vec![facts(batch)])).collect(),
            events: vec![event(0), event(120), event(newest - 2)],
            shares_target: true,
            ..FactsRows::default()
        }),
        ..Evidence::default()
    };
    let recorded = [
        ("orders", newest - newest % 3),
        ("orders#facts", newest),
        ("orders#events", 2),
    ];
    evidence.recorded = recorded.map(|(id, version)| (id.to_owned(), version)).into();
    evidence
}

/// The same with the records of the newest 100 batches.
pub(super) fn whole(newest: i64) -> Evidence {
    let mut evidence = without_checkpoint(newest);
    let subject = subject();
    let records = Ledger::new(&subject, &evidence).rebuild();
    let records = records
        .into_iter()
        .map(|(batch, record)| (batch, Seen::Whole(record.unwrap())));
    evidence.checkpoint.commits = records.collect();
    let identity: StreamIdentity = identity("orders", "orders");
    evidence.checkpoint.stream = Some(Seen::Whole(identity));
    evidence
}

fn codes(evidence: &Evidence) -> Vec<(Code, Severity)> {
    let seen = judge(&subject(), evidence);
    seen.findings
        .iter()
        .map(|finding| (finding.code, finding.severity))
        .collect()
}

#[test]
fn of_a_deleted_checkpoint_the_newest_hundred_records_are_written_again() {
    let evidence = without_checkpoint(250);
    let seen = judge(&subject(), &evidence);
    assert_eq!(
        (seen.findings.len(), seen.findings[0].code),
        (1, Code::CheckpointDeleted)
    );
    let records: Vec<_> = seen.findings[0]
        .repair
        .as_ref()
        .unwrap()
        .steps
        .iter()
        .map(|step| match step {
            Step::WriteCommit(record) => record,
            other => panic!("{other:?}"),
        })
        .collect();
    let (first, last) = (records[0], records[records.len() - 1]);
    assert_eq!((records.len(), first.batch_id.0, last.batch_id.0), (100, 151, 250));
    // Two events were before them, and one is among them.
    assert_eq!((first.last_event, last.last_event), (Some(1), Some(2)));
    let with_event: Vec<i64> = records
        .iter()
        .filter(|record| !record.events.is_empty())
        .map(|record| record.batch_id.0)
        .collect();
    assert_eq!(with_event, [248]);
    assert_eq!(last.last_with_rows.map(|batch| batch.0), Some(249));
    assert_eq!(last.end, offset(2510));
    // And with them the table is well.
    assert_eq!(codes(&whole(250)), []);
}

#[test]
fn what_does_not_join_is_not_rebuilt() {
    let mut evidence = without_checkpoint(250);
    let rows = evidence.rows.as_mut().unwrap();
    rows.batches.remove(&250);
    assert_eq!(codes(&evidence)[0], (Code::HistoryGap, Severity::NeedsPerson));

    let mut evidence = without_checkpoint(249);
    let newest = &mut evidence.rows.as_mut().unwrap().batches.get_mut(&249).unwrap()[0];
    // It has a change that the batch before it had passed.
    newest.min_lsn = Some(offset(2485).lsn);
    let seen = judge(&subject(), &evidence);
    assert_eq!(seen.findings[0].code, Code::HistoryGap);
    assert!(
        seen.findings[0].what.contains("batch 249 has a change at"),
        "{}",
        seen.findings[0].what
    );
    assert!(seen.findings.iter().all(|finding| finding.repair.is_none()));
}

#[test]
fn a_lost_record_of_a_batch_without_rows_is_known_by_its_neighbours() {
    let mut evidence = whole(250);
    evidence.checkpoint.commits.remove(&247);
    evidence.rows.as_mut().unwrap().batches.retain(|batch, _| *batch <= 245);
    evidence.recorded.insert("orders#facts".into(), 245);
    assert_eq!(codes(&evidence)[0].0, Code::HistoryGap);

    evidence.checkpoint.plans = [((248, 0), Seen::Whole(planned(248, 0)))].into();
    let seen = judge(&subject(), &evidence);
    let found: Vec<Code> = seen.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(found, [Code::CommitFileMissing, Code::FactsBehind]);
    let steps = &seen.findings[0].repair.as_ref().unwrap().steps;
    let [Step::WriteCommit(record)] = steps.as_slice() else {
        panic!("{steps:?}");
    };
    assert_eq!(
        (record.batch_id.0, record.end, record.facts.rows),
        (247, offset(2480), Some(0))
    );
    assert_eq!(record.last_with_rows.map(|batch| batch.0), Some(246));
}

#[test]
fn facts_that_differ_or_come_twice_are_told() {
    let mut evidence = whole(250);
    let batches = &mut evidence.rows.as_mut().unwrap().batches;
    batches.get_mut(&249).unwrap()[0].rows = Some(2);
    batches.get_mut(&240).unwrap().push(facts(240));
    batches.remove(&30);
    let mut found = codes(&evidence);
    found.sort_unstable();
    let wanted =
        [Code::FactsRowsMissing, Code::FactsDouble, Code::FactsDisagree].map(|code| (code, Severity::NeedsPerson));
    assert_eq!(found, wanted);
}

#[test]
fn facts_that_their_retention_removed_are_not_missed() {
    let mut evidence = whole(250);
    let batches = &mut evidence.rows.as_mut().unwrap().batches;
    batches.retain(|batch, _| *batch >= 200);
    assert_eq!(codes(&evidence), [(Code::FactsRowsMissing, Severity::NeedsPerson)]);
    evidence.recorded.insert("orders#facts_from".to_owned(), 200);
    assert_eq!(codes(&evidence), []);
    // One that is younger is.
    evidence.rows.as_mut().unwrap().batches.remove(&210);
    assert_eq!(codes(&evidence), [(Code::FactsRowsMissing, Severity::NeedsPerson)]);
}

#[test]
fn facts_rows_without_a_number_are_not_written_a_second_time() {
    let mut evidence = whole(250);
    evidence.recorded.remove("orders#facts");
    evidence.recorded.remove("orders#events");
    let seen = judge(&subject(), &evidence);
    let found: Vec<Code> = seen.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(found, [Code::FactsUnnumbered]);
    assert!(seen.findings[0].repair.is_none());
    // The checkpoint has the newest hundred, and bronze's log nothing.
    let advice = &seen.findings[0].advice;
    assert!(advice.contains("save the rows of batches 0 to 150,"), "{advice}");
    // When a person has taken the rows away, they are written again.
    evidence.rows = Some(FactsRows::default());
    assert_eq!(codes(&evidence)[0], (Code::FactsMissing, Severity::Repairable));
}

#[test]
fn a_row_that_somebody_added_is_not_a_batch() {
    let mut evidence = whole(250);
    let rows = evidence.rows.as_mut().unwrap();
    let mut added = facts(252);
    added.batch_id = Some(1000);
    rows.batches.insert(1000, vec![added]);
    assert_eq!(codes(&evidence), [(Code::FactsDisagree, Severity::NeedsPerson)]);
    let seen = judge(&subject(), &evidence);
    assert!(
        seen.findings[0].what.contains("batch 1000") && seen.findings[0].what.contains("batch 250"),
        "{}",
        seen.findings[0].what
    );
}

#[test]
fn a_row_that_somebody_changed_until_it_cannot_be_read_is_not_missing() {
    let mut evidence = whole(250);
    let rows = evidence.rows.as_mut().unwrap();
    rows.batches.remove(&30);
    rows.unreadable
        .push((Some(30), "its end_lsn cannot be read".to_owned()));
    let seen = judge(&subject(), &evidence);
    let [finding] = seen.findings.as_slice() else {
        panic!("{:?}", seen.findings);
    };
    assert_eq!(
        (finding.code, finding.severity),
        (Code::FactsRowsUnreadable, Severity::NeedsPerson)
    );
    assert!(
        finding.what.contains("batch 30") && finding.what.contains("its end_lsn"),
        "{}",
        finding.what
    );
}

#[test]
fn records_that_are_gone_for_one_reason_are_one_finding() {
    let mut evidence = whole(250);
    for batch in 200..210 {
        evidence.checkpoint.commits.remove(&batch);
    }
    let seen = judge(&subject(), &evidence);
    let [finding] = seen.findings.as_slice() else {
        panic!("{:?}", seen.findings);
    };
    assert!(finding.what.contains("batches 200 to 209 are gone"), "{}", finding.what);
    assert_eq!(finding.repair.as_ref().unwrap().steps.len(), 10);
    // Neither facts nor bronze tell of them.
    evidence.rows.as_mut().unwrap().batches.retain(|batch, _| *batch < 200);
    evidence.recorded.insert("orders#facts".into(), 199);
    let gaps = |(code, _): &(Code, Severity)| *code == Code::HistoryGap;
    assert_eq!(codes(&evidence).iter().filter(|found| gaps(found)).count(), 1);
}

#[test]
fn a_batch_may_begin_after_the_one_before_it_ended() {
    let joins = |start: i64| {
        let mut evidence = whole(9);
        let mut entry = in_log(6);
        entry.metadata.as_mut().unwrap()["start"] = serde_json::to_value(offset(start)).unwrap();
        evidence.bronze = Arc::new(DeltaFiles {
            exists: true,
            entries: [(6, Ok(entry))].into(),
            ..DeltaFiles::default()
        });
        Ledger::new(&subject(), &evidence).joins(6)
    };
    // Batch 5 ended at 60. What lies between that and the start was passed in memory.
    assert_eq!((joins(60), joins(63)), (Ok(()), Ok(())));
    let text = joins(55).unwrap_err();
    assert!(text.contains("batch 6 in bronze begins at"), "{text}");
}

#[test]
fn what_cannot_be_read_is_not_told_as_gone() {
    // Nothing of the part was read, and it looks as if it were not there.
    for part in [Part::Checkpoint, Part::Bronze, Part::Facts] {
        let mut evidence = whole(250);
        match part {
            Part::Checkpoint => evidence.checkpoint = Default::default(),
            Part::Bronze => {
                evidence.bronze = Arc::default();
                evidence.recorded.remove("orders");
            }
            _ => {
                evidence.facts = Arc::default();
                evidence.rows = None;
                evidence.recorded.remove("orders#facts");
            }
        }
        assert_ne!(codes(&evidence), [], "{part:?}");
        evidence.cannot_read(part, &Place::local("/x"), "permission denied");
        assert_eq!(
            codes(&evidence),
            [(Code::Unreadable, Severity::NeedsPerson)],
            "{part:?}"
        );
    }
}

#[test]
fn a_record_below_the_oldest_that_the_facts_lack_is_written_again() {
    let mut evidence = whole(6);
    evidence.recorded.insert("orders#facts".into(), 3);
    evidence.rows.as_mut().unwrap().batches.retain(|batch, _| *batch <= 3);
    let log: Vec<(u64, Result<LogEntry, String>)> = vec![(4, Ok(in_log(4)))];
    Arc::get_mut(&mut evidence.bronze).unwrap().entries = log.into_iter().collect();
    for batch in 0..=4 {
        evidence.checkpoint.commits.remove(&batch);
    }
    let seen = judge(&subject(), &evidence);
    let found: Vec<Code> = seen.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(found, [Code::CommitFileMissing, Code::FactsBehind]);
    assert!(seen.findings[0].means.contains("run stops at this table"));
    let steps = &seen.findings[0].repair.as_ref().unwrap().steps;
    assert!(
        matches!(steps.as_slice(), [Step::WriteCommit(record)] if record.batch_id.0 == 4),
        "{steps:?}"
    );
}

/// A batch as bronze's commit tells it.
fn in_log(batch: i64) -> LogEntry {
    let mut facts = serde_json::to_value(facts(batch)).unwrap();
    facts["attempt"] = 0.into();
    LogEntry {
        ours: true,
        txns: vec![("orders".to_owned(), batch)],
        metadata: Some(facts),
        ..LogEntry::default()
    }
}

#[test]
fn a_lost_record_of_a_batch_without_rows_is_written_from_the_facts_and_not_read_again() {
    let mut evidence = whole(250);
    evidence.checkpoint.commits.remove(&250);
    evidence.checkpoint.plans = [((250, 0), Seen::Whole(planned(250, 0)))].into();
    assert_eq!(codes(&evidence), [(Code::CommitFileMissing, Severity::Repairable)]);
}

#[test]
fn old_records_that_are_moved_aside_get_no_new_ones_among_them() {
    let mut evidence = whole(200);
    // Rows of facts are gone in the midst of what is to be written again, and the checkpoint was set back.
    evidence.rows.as_mut().unwrap().batches.remove(&160);
    evidence
        .checkpoint
        .commits
        .retain(|batch, _| *batch <= 150 && *batch != 120);
    evidence
        .checkpoint
        .commits
        .insert(110, Seen::Broken("it is empty".into()));
    let seen = judge(&subject(), &evidence);
    let steps = seen.findings.iter().filter_map(|finding| finding.repair.as_ref());
    let written: Vec<i64> = steps
        .flat_map(|repair| &repair.steps)
        .filter_map(|step| match step {
            Step::WriteCommit(record) => Some(record.batch_id.0),
            _ => None,
        })
        .collect();
    assert_eq!(written, (161..=200).collect::<Vec<i64>>());
    assert!(
        seen.findings
            .iter()
            .all(|finding| finding.code != Code::CommitFileMissing)
    );
}

#[test]
fn rows_without_a_transaction_id_are_not_a_table_that_is_gone() {
    let mut evidence = whole(250);
    evidence.recorded.remove("orders");
    let file = crate::lake::ActiveFile {
        path: "a.parquet".into(),
        size: 1,
        rows: Some(252),
    };
    let bronze = Arc::get_mut(&mut evidence.bronze).unwrap();
    bronze.sizes.insert("a.parquet".into(), 1);
    bronze.active = Some(vec![file]);
    let seen = judge(&subject(), &evidence);
    let behind = seen
        .findings
        .iter()
        .find(|finding| finding.code == Code::BronzeBehind)
        .unwrap();
    assert!(
        behind.what.contains("252 rows") && behind.what.contains("expired"),
        "{}",
        behind.what
    );
    assert!(!behind.what.contains("gone"), "{}", behind.what);
}

#[test]
fn a_process_that_may_run_the_table_bars_every_repair() {
    let mut evidence = whole(250);
    evidence.checkpoint.commits.remove(&247);
    assert!(
        judge(&subject(), &evidence)
            .findings
            .iter()
            .any(|finding| finding.repair.is_some())
    );
    evidence.checkpoint.may_run = Some("owner.json names no owner".into());
    let seen = judge(&subject(), &evidence);
    assert!(seen.findings.iter().all(|finding| finding.repair.is_none()));
    assert_eq!(seen.findings[0].code, Code::OwnerUnknown);
    // A table that has not begun is nobody's.
    let mut evidence = Evidence::default();
    evidence.checkpoint.may_run = Some("owner.json names no owner".into());
    assert_eq!(codes(&evidence), []);
}

#[test]
fn an_owner_number_that_goes_down_is_two_owners() {
    let entry = |owner| LogEntry {
        ours: true,
        txns: vec![("orders#owner".to_owned(), owner)],
        ..LogEntry::default()
    };
    let mut evidence = whole(250);
    let bronze = Arc::get_mut(&mut evidence.bronze).unwrap();
    bronze.entries = [(1001, Ok(entry(4))), (1002, Ok(entry(5))), (1003, Ok(entry(5)))].into();
    assert_eq!(codes(&evidence), []);
    let bronze = Arc::get_mut(&mut evidence.bronze).unwrap();
    bronze.entries.insert(1004, Ok(entry(4)));
    assert_eq!(codes(&evidence), [(Code::NumbersWentDown, Severity::NeedsPerson)]);
}

#[test]
fn a_verdict_may_not_be_ahead_of_what_is_there() {
    let row = |end: i64| ControlRow {
        table_name: "/b".into(),
        finalized_until: Some(UtcMicros(offset(end).commit_ts.0).truncated(60_000_000)),
        end_lsn: Some(offset(end).lsn),
        ..ControlRow::default()
    };
    let mut evidence = whole(250);
    evidence.verdict = Some(Some(row(2510)));
    assert_eq!(codes(&evidence), []);
    evidence.verdict = Some(Some(row(2400)));
    assert_eq!(codes(&evidence), [(Code::VerdictBehind, Severity::RunMends)]);
    // The first batch was closed without being read: there is no instant yet that a verdict could move on to.
    let mut begun = without_checkpoint(0);
    let closed = FactsRow {
        end_lsn: None,
        end_commit_ts: None,
        min_lsn: None,
        rows: Some(0),
        delta_version: None,
        ..facts(0)
    };
    begun.rows.as_mut().unwrap().batches = [(0, vec![closed])].into();
    begun.recorded = [("orders#facts".to_owned(), 0)].into();
    begun.verdict = Some(Some(ControlRow {
        table_name: "/b".into(),
        ..ControlRow::default()
    }));
    assert!(codes(&begun).iter().all(|(code, _)| *code != Code::VerdictBehind));
    evidence.verdict = Some(Some(row(2511)));
    assert_eq!(codes(&evidence), [(Code::VerdictAhead, Severity::NeedsPerson)]);
    evidence.verdict = Some(None);
    assert_eq!(codes(&evidence), [(Code::ControlMissing, Severity::RunMends)]);
}

#[test]
fn codes_are_told_apart_by_their_text() {
    let mut texts: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), Code::ALL.len());
    let guide = include_str!("../../../docs/guides/recovery.md");
    for text in texts {
        assert!(guide.contains(&format!("`{text}`")), "{text} is not in the guide");
    }
}
