//! Plans and commits: what is open, what is missing, and what can be written again.

use std::collections::BTreeMap;

use super::checkpoint::newer;
use super::{batches, found};
use crate::checkpoint::{CommitRecord, PlannedBatch};
use crate::doctor::checkpoint_files::Seen;
use crate::doctor::finding::{Code, Finding, Severity, Step};
use crate::doctor::ledger::{BronzeBatch, Ledger};

type Rebuilt = BTreeMap<i64, Result<CommitRecord, String>>;

const BACKUP_ADVICE: &str = "restore the checkpoint's files from a backup; without one, keep the target as history and start \
                             over with a new app_id, target and checkpoint";

pub(super) fn judge(ledger: &Ledger<'_>) -> Vec<Finding> {
    let rebuilt = ledger.rebuild();
    let mut findings = other_batches(ledger);
    findings.extend(broken_commits(ledger, &rebuilt));
    findings.extend(missing_in_the_middle(ledger, &rebuilt));
    let (ahead, from) = behind(ledger, &rebuilt);
    if let Some(from) = from {
        drop_older(&mut findings, from);
    }
    findings.extend(ahead);
    findings.extend(plans(ledger));
    findings
}

/// Records before `from` are moved aside, all of them: none is to be written among them.
fn drop_older(findings: &mut Vec<Finding>, from: i64) {
    findings.retain_mut(|finding| {
        let Some(repair) = &mut finding.repair else { return true };
        let before = repair.steps.len();
        repair
            .steps
            .retain(|step| !matches!(step, Step::WriteCommit(record) if record.batch_id.0 < from));
        if repair.steps.len() < before {
            repair.words = "moves it into the backup, with the other old records".to_owned();
        }
        !repair.steps.is_empty()
    });
}

/// What the doctor would write for a batch.
fn written(record: &CommitRecord) -> String {
    let from = match record.delta_version {
        Some(version) => format!("bronze's version {version} and the facts"),
        None => "the facts".to_owned(),
    };
    format!("commits/{}.json again from {from}", record.batch_id)
}

fn broken_commits(ledger: &Ledger<'_>, rebuilt: &Rebuilt) -> Vec<Finding> {
    let checkpoint = &ledger.evidence.checkpoint;
    let mut findings = Vec::new();
    for (batch, commit) in &checkpoint.commits {
        let file = checkpoint.commit_file(*batch);
        let reason = match commit {
            Seen::Whole(_) => continue,
            Seen::Newer(format) => {
                findings.push(newer(&file, *format));
                continue;
            }
            Seen::Broken(reason) => reason,
        };
        let what = format!("the record of batch {batch} is damaged: {reason}");
        let aside = Step::MoveAside(file.clone());
        let mendable = |means: &str, words: String, steps| {
            let advice = "sluice doctor --repair";
            found(
                Code::CommitFileDamaged,
                Severity::Repairable,
                &file,
                what.as_str(),
                means,
                advice,
            )
            .repaired_by(words, steps)
        };
        findings.push(match rebuilt.get(batch) {
            Some(Ok(record)) => mendable(
                "what it said is in bronze and facts as well; nothing is lost. run stops when it needs it",
                format!("moves it into the backup and writes {}", written(record)),
                vec![aside, Step::WriteCommit(Box::new(record.clone()))],
            ),
            Some(Err(reason)) if Some(*batch) > ledger.by_facts || Some(*batch) > ledger.by_checkpoint => found(
                Code::HistoryGap,
                Severity::NeedsPerson,
                &file,
                format!("{what}; and {reason}"),
                "the batch was done, and what it was cannot be told. run stops at this table",
                BACKUP_ADVICE,
            ),
            None if Some(*batch) > ledger.done => mendable(
                "neither bronze nor facts have the batch, so it had no rows or was not done; nothing is lost. run stops at \
                 this table",
                "moves it into the backup; the next run does the batch again under its plan".to_owned(),
                vec![aside],
            ),
            _ => mendable(
                "the batch is done and its facts are written, so run does not need this record; nothing is lost",
                "moves it into the backup".to_owned(),
                vec![aside],
            ),
        });
    }
    findings
}

/// A record that is gone: its batch, and it as it can be written again, or why it cannot.
type Gone<'a> = (i64, &'a Result<CommitRecord, String>);

fn missing_in_the_middle(ledger: &Ledger<'_>, rebuilt: &Rebuilt) -> Vec<Finding> {
    let checkpoint = &ledger.evidence.checkpoint;
    let gone = rebuilt
        .iter()
        .filter(|(batch, _)| Some(**batch) < ledger.by_checkpoint && !checkpoint.commits.contains_key(*batch));
    // One finding for all that are alike: whether they can be written again, and whether facts have them.
    let mut alike: BTreeMap<(bool, bool), Vec<Gone<'_>>> = BTreeMap::new();
    for (batch, record) in gone {
        let has_facts = Some(*batch) <= ledger.by_facts;
        alike
            .entry((record.is_ok(), has_facts))
            .or_default()
            .push((*batch, record));
    }
    let mut findings = Vec::new();
    for ((_, has_facts), gone) in alike {
        findings.extend(missing(ledger, has_facts, &gone));
    }
    findings
}

/// Records that are missing between others, all for the same reason.
fn missing(ledger: &Ledger<'_>, has_facts: bool, gone: &[Gone<'_>]) -> Option<Finding> {
    let checkpoint = &ledger.evidence.checkpoint;
    let numbers: Vec<i64> = gone.iter().map(|(batch, _)| *batch).collect();
    let file = checkpoint.commit_file(*numbers.first()?);
    let what = match numbers.len() {
        1 => format!(
            "the record of {} is gone, and those of later batches are there",
            batches(&numbers)
        ),
        _ => format!(
            "the records of {} are gone, and those of later batches are there",
            batches(&numbers)
        ),
    };
    let not_needed = "rows and facts are written; nothing is lost, and run works without it";
    let records: Vec<&CommitRecord> = gone.iter().filter_map(|(_, record)| record.as_ref().ok()).collect();
    let reason = gone.iter().find_map(|(_, record)| record.as_ref().err());
    Some(match (reason, records.as_slice()) {
        (None, records) => found(
            Code::CommitFileMissing,
            Severity::Repairable,
            &file,
            what,
            match has_facts {
                true => not_needed,
                false => {
                    "nothing is lost, and facts are not written yet. run stops at this table, because they could not be \
                     written after those of later batches"
                }
            },
            "sluice doctor --repair",
        )
        .repaired_by(
            match records {
                [only] => format!("writes {}", written(only)),
                _ => format!("writes the records of {} again from facts and bronze", batches(&numbers)),
            },
            records
                .iter()
                .map(|record| Step::WriteCommit(Box::new((*record).clone())))
                .collect(),
        ),
        (Some(_), _) if has_facts => found(
            Code::CommitFileMissing,
            Severity::Note,
            &file,
            what,
            not_needed,
            "nothing",
        ),
        (Some(reason), _) => found(
            Code::HistoryGap,
            Severity::NeedsPerson,
            &file,
            format!("{what}; and {reason}"),
            "facts that were not written yet are lost with them; bronze is not touched by it. run stops at this table",
            BACKUP_ADVICE,
        ),
    })
}

/// Bronze or facts are ahead of the checkpoint. With the first record of a new history, where the old ones have to go.
fn behind(ledger: &Ledger<'_>, rebuilt: &Rebuilt) -> (Vec<Finding>, Option<i64>) {
    let checkpoint = &ledger.evidence.checkpoint;
    let Some(done) = ledger.done.filter(|done| Some(*done) > ledger.by_checkpoint) else {
        return (Vec::new(), None);
    };
    let next = ledger.by_checkpoint.map_or(0, |known| known + 1);
    let there = ledger.bronze.get(&done);
    let planned = ledger.plan(done);
    if there
        .zip(planned)
        .is_some_and(|(there, plan)| differs_from_plan(there, plan).is_some())
    {
        // Another's batch is told of as that.
        return (Vec::new(), None);
    }
    if let Some(plan) = ledger.open_in_bronze() {
        return (vec![in_bronze_and_open(ledger, plan)], None);
    }
    let plan = ledger.plan(done).filter(|_| done == next);
    let broken = checkpoint.commits.contains_key(&done);
    // The last that cannot be rebuilt: what comes after it must stand alone.
    let lost = rebuilt
        .iter()
        .rev()
        .find_map(|(batch, record)| Some((*batch, record.as_ref().err()?)));
    let after = lost.map_or(i64::MIN, |(batch, _)| batch);
    let usable: Vec<&CommitRecord> = rebuilt
        .range(after.saturating_add(1).max(next)..)
        .filter_map(|(_, record)| record.as_ref().ok())
        .filter(|record| !checkpoint.commits.contains_key(&record.batch_id.0))
        .collect();
    let ends = match ledger.by_checkpoint {
        Some(known) => format!("ends with batch {known}"),
        None => "has no batch".to_owned(),
    };
    let who = match (ledger.by_bronze == Some(done), ledger.by_facts == Some(done)) {
        (true, true) => "bronze and facts have",
        (true, false) => "bronze has",
        _ => "the facts table has",
    };
    if let Some((batch, reason)) =
        lost.filter(|(batch, _)| *batch == done || Some(*batch) > ledger.by_facts.max(ledger.by_checkpoint))
    {
        let gap = found(
            Code::HistoryGap,
            Severity::NeedsPerson,
            &checkpoint.root,
            format!("the checkpoint {ends}, {who} batch {done}, and what is between cannot be told: {reason}"),
            format!(
                "without the record of batch {batch}, nobody can say where to go on. run stops at this table; nothing is written"
            ),
            BACKUP_ADVICE,
        );
        return (vec![gap], None);
    }
    if usable.is_empty() && broken {
        // Told of, and mended, with the damaged file.
        return (Vec::new(), None);
    }
    let numbers: Vec<i64> = usable.iter().map(|record| record.batch_id.0).collect();
    let mut steps: Vec<Step> = usable
        .iter()
        .map(|record| Step::WriteCommit(Box::new((*record).clone())))
        .collect();
    // Old records that the new ones do not join would look like a hole.
    let first = numbers.first().copied().unwrap_or(done);
    let anew = first > next && !checkpoint.commits.is_empty();
    if anew {
        steps.extend(
            checkpoint
                .commits
                .keys()
                .map(|batch| Step::MoveAside(checkpoint.commit_file(*batch))),
        );
    }
    let words = format!(
        "writes the records of {} again from facts and bronze",
        batches(&numbers)
    );
    let finding = if checkpoint.is_empty() {
        found(
            Code::CheckpointDeleted,
            Severity::Repairable,
            &checkpoint.root,
            format!(
                "the checkpoint is gone, and {who} batch {done} of app_id {}",
                ledger.subject.app_id
            ),
            "no row is lost. run would not know where to go on, and stops at this table",
            "sluice doctor --repair, if no newer copy of the checkpoint is anywhere",
        )
    } else if done == next {
        found(
            Code::CommitFileMissing,
            match plan {
                Some(_) if ledger.by_bronze == Some(done) => Severity::RunMends,
                _ => Severity::Repairable,
            },
            &checkpoint.commit_file(done),
            format!("the record of batch {done} is gone, and {who} the batch"),
            match plan {
                Some(_) if ledger.by_bronze == Some(done) => {
                    "nothing is lost. the next run finds the batch in bronze and writes the record anew"
                }
                Some(_) => {
                    "nothing is lost: the batch had no rows. run stops at this table, because a batch that is told of is not done twice"
                }
                None => "nothing is lost. run stops at this table, because the plan of the batch is not whole either",
            },
            "sluice doctor --repair",
        )
    } else {
        found(
            Code::CheckpointRewound,
            Severity::Repairable,
            &checkpoint.root,
            format!("the checkpoint {ends}, and {who} batch {done}: it was set back, or files of it are gone"),
            "no row is lost. run would not know where to go on, and stops at this table",
            "sluice doctor --repair, if no newer copy of the checkpoint is anywhere",
        )
    };
    (vec![finding.repaired_by(words, steps)], anew.then_some(first))
}

fn in_bronze_and_open(ledger: &Ledger<'_>, plan: &PlannedBatch) -> Finding {
    found(
        Code::OpenBatch,
        Severity::RunMends,
        &ledger.evidence.checkpoint.plan_file(plan.batch_id.0, plan.attempt),
        format!(
            "batch {} was begun and is not recorded as done; its rows are in bronze{}",
            plan.batch_id,
            attempts(ledger, plan.batch_id.0)
        ),
        "the process ended between the two. nothing is lost; the next run records it from bronze's commit and reads nothing \
         again",
        "nothing",
    )
}

/// Why there is more than one attempt.
fn attempts(ledger: &Ledger<'_>, batch: i64) -> String {
    let whole = ledger
        .evidence
        .checkpoint
        .attempts(batch)
        .filter_map(|(_, plan)| plan.whole());
    let reasons: Vec<String> = whole
        .filter_map(|plan| Some(format!("attempt {}: {}", plan.attempt, plan.reason.as_ref()?)))
        .collect();
    if reasons.is_empty() {
        String::new()
    } else {
        format!(" ({})", reasons.join("; "))
    }
}

fn plans(ledger: &Ledger<'_>) -> Vec<Finding> {
    let checkpoint = &ledger.evidence.checkpoint;
    let next = ledger.done.map_or(0, |done| done + 1);
    let mut findings = Vec::new();
    for ((batch, attempt), plan) in &checkpoint.plans {
        let file = checkpoint.plan_file(*batch, *attempt);
        let aside = vec![Step::MoveAside(file.clone())];
        let fault = match plan {
            Seen::Newer(format) => {
                findings.push(newer(&file, *format));
                continue;
            }
            Seen::Broken(reason) => Some(reason.clone()),
            Seen::Whole(plan) => open_fault(ledger, plan).filter(|_| *batch == next),
        };
        match fault {
            Some(reason) => {
                let finding = |means: &str| {
                    found(
                        Code::PlanFileDamaged,
                        Severity::Repairable,
                        &file,
                        format!("the plan of batch {batch} (attempt {attempt}) is damaged: {reason}"),
                        means,
                        "sluice doctor --repair",
                    )
                };
                findings.push(if *batch < next {
                    finding("the batch is done and needs its plan no more; nothing is lost. run may stop when it tidies up")
                        .repaired_by("moves it into the backup", aside)
                } else {
                    finding(
                        "the batch is open and nothing of it is in bronze, so no row can be doubled or lost by planning \
                         it anew. run stops at this table",
                    )
                    .repaired_by(
                        "moves it into the backup; the next run plans the batch anew, or, under a lease or after one, closes it \
                         where it left rows in quarantine or another plan, and the batch after it reads its range",
                        aside,
                    )
                });
            }
            None if *batch > next => findings.push(
                found(
                    Code::PlanAhead,
                    Severity::Repairable,
                    &file,
                    format!("batch {batch} is planned, and the record of batch {} is gone", batch - 1),
                    "neither bronze nor facts have anything of the two, so both can be done again. run stops at this table",
                    "sluice doctor --repair",
                )
                .repaired_by("moves the plan into the backup; the next run goes on from the batch before", aside),
            ),
            None => {}
        }
    }
    let open = ledger.plan(next).filter(|_| !checkpoint.commits.contains_key(&next));
    if let Some(plan) = open.filter(|plan| open_fault(ledger, plan).is_none()) {
        findings.push(found(
            Code::OpenBatch,
            Severity::RunMends,
            &checkpoint.plan_file(next, plan.attempt),
            format!(
                "batch {next} was begun and is not done (changes from {} to {}){}",
                plan.first_lsn,
                plan.end.lsn,
                attempts(ledger, next)
            ),
            "nothing of it is in bronze. the next run reads the same range again (under the lock in this batch, under a lease in \
             the next), or says why it cannot",
            "nothing",
        ));
    }
    findings
}

/// What is wrong with the plan of the next batch, by the record before it.
fn open_fault(ledger: &Ledger<'_>, plan: &PlannedBatch) -> Option<String> {
    let before = ledger.evidence.checkpoint.commit(plan.batch_id.0 - 1)?;
    plan.fault_after(before.position()?)
}

/// Batches of bronze that are not those that the checkpoint planned or recorded.
fn other_batches(ledger: &Ledger<'_>) -> Vec<Finding> {
    let mut differing = Vec::new();
    for (batch, there) in &ledger.bronze {
        let what = match ledger.evidence.checkpoint.commit(*batch) {
            Some(commit) => differs_from_commit(there, commit),
            None if Some(*batch) == ledger.by_bronze => {
                ledger.plan(*batch).and_then(|plan| differs_from_plan(there, plan))
            }
            None => None,
        };
        let what = what.or_else(|| {
            ledger
                .bronze
                .contains_key(&(batch - 1))
                .then(|| ledger.joins(*batch).err())?
        });
        differing.extend(what.map(|what| (*batch, what)));
    }
    let Some((batch, what)) = differing.first() else {
        return Vec::new();
    };
    let numbers: Vec<i64> = differing.iter().map(|(batch, _)| *batch).collect();
    vec![found(
        Code::OtherBatch,
        Severity::NeedsPerson,
        &ledger.subject.target,
        format!("bronze has another {} than this checkpoint: {what}", batches(&numbers)),
        "two processes ran this table with two checkpoints. bronze is one history all the same: the one of whoever wrote it. \
         run stops at this table if it has to go on from such a batch",
        format!(
            "find the other process (the facts rows of batch {batch} name its host) and stop it; go on with the checkpoint \
             that bronze was written from. without it, start over with a new app_id, target and checkpoint"
        ),
    )]
}

fn differs_from_commit(there: &BronzeBatch, commit: &CommitRecord) -> Option<String> {
    if commit.facts.rows == Some(0) && commit.delta_version.is_none() {
        return Some(format!(
            "batch {} had no rows by its record, and has rows in bronze",
            commit.batch_id
        ));
    }
    if there.end.is_some_and(|end| end.lsn != commit.end.lsn) {
        return Some(format!(
            "batch {} ends at {} by its record, and at {} in bronze",
            commit.batch_id,
            commit.end.lsn,
            there.end.map(|end| end.lsn.to_string()).unwrap_or_default()
        ));
    }
    let attempt = there.attempt.filter(|attempt| *attempt != commit.attempt)?;
    Some(format!(
        "batch {} is attempt {} by its record, and attempt {attempt} in bronze",
        commit.batch_id, commit.attempt
    ))
}

fn differs_from_plan(there: &BronzeBatch, plan: &PlannedBatch) -> Option<String> {
    let batch = plan.batch_id;
    if there.attempt.is_some_and(|attempt| attempt != plan.attempt) {
        return Some(format!(
            "batch {batch} is planned as attempt {}, and another is in bronze",
            plan.attempt
        ));
    }
    let start = plan.start.map(|start| start.lsn);
    if there.start.is_some_and(|found| found.map(|found| found.lsn) != start)
        || there.end.is_some_and(|end| end.lsn != plan.end.lsn)
    {
        return Some(format!("batch {batch} has another range in bronze than its plan"));
    }
    (there.provenance != plan.provenance).then(|| format!("batch {batch} has other transforms in bronze than its plan"))
}
