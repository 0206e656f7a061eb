//! From what a table left to what is wrong with it.

mod bronze;
mod checkpoint;
mod commits;
mod control;
mod facts;
mod logs;
mod quarantine;

use super::checkpoint_files::Seen;
use super::evidence::{Evidence, Part};
use super::finding::{Code, Examination, Finding, Repair, Severity, Step};
use super::ledger::Ledger;
use super::subject::Subject;
use crate::identity::BatchId;
use crate::storage::Place;

/// Says what is wrong.
pub(super) fn judge(subject: &Subject, evidence: &Evidence) -> Examination {
    let ledger = Ledger::new(subject, evidence);
    let owner = evidence.checkpoint.owner.as_ref().and_then(Seen::whole);
    let running = evidence.checkpoint.running.is_some();
    let mut findings: Vec<Finding> = evidence.unreadable.iter().map(|(_, finding)| finding.clone()).collect();
    findings.extend(logs::judge(&ledger));
    if evidence.knows(Part::Checkpoint) {
        findings.extend(checkpoint::judge(&ledger));
    }
    // What cannot be read is not gone: without one of the three, nothing can be held against the others.
    if [Part::Checkpoint, Part::Bronze, Part::Facts]
        .into_iter()
        .all(|part| evidence.knows(part))
    {
        findings.extend(commits::judge(&ledger));
        findings.extend(bronze::judge(&ledger));
        findings.extend(facts::judge(&ledger));
        findings.extend(control::judge(&ledger).filter(|_| evidence.knows(Part::Control)));
        if evidence.knows(Part::Quarantine) {
            findings.extend(quarantine::judge(&ledger));
        }
    }
    if running {
        findings.retain(|finding| finding.code.holds_while_running());
        findings.push(is_running(&ledger));
    }
    let barred = findings
        .iter()
        .map(|finding| finding.code)
        .find(|code| code.bars_repairs());
    if let Some(barred) = barred {
        let mendable = |finding: &&mut Finding| finding.repair.is_some() || finding.on_accepted_loss.is_some();
        for finding in findings.iter_mut().filter(mendable) {
            (finding.repair, finding.on_accepted_loss) = (None, None);
            finding.advice = match barred {
                Code::Running => "stop the process that runs this table; then --repair can mend this".to_owned(),
                barred => format!("first settle {barred}; then --repair can mend this"),
            };
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Examination {
        capture_instance: subject.capture_instance.clone(),
        app_id: subject.app_id.clone(),
        batch_id: ledger.done.map(BatchId),
        end: ledger
            .done
            .and_then(|done| ledger.end_of(done))
            .filter(|end| !end.lsn.is_zero()),
        finalized_until: evidence
            .verdict
            .iter()
            .flatten()
            .next()
            .and_then(|row| row.finalized_until),
        owner: owner.map(ToString::to_string),
        running,
        findings,
    }
}

fn is_running(ledger: &Ledger<'_>) -> Finding {
    let checkpoint = &ledger.evidence.checkpoint;
    found(
        Code::Running,
        Severity::Note,
        &checkpoint.root,
        format!(
            "{} runs this table now",
            checkpoint.running.as_deref().unwrap_or_default()
        ),
        "what is said here was true for a moment; what a running process is about to change was left out",
        "stop it for a full examination; --repair does nothing while it runs, also when it is only paused. a lease \
         of a machine that is surely gone ends when its file is removed",
    )
}

fn found(
    code: Code,
    severity: Severity,
    place: &Place,
    what: impl Into<String>,
    means: impl Into<String>,
    advice: impl Into<String>,
) -> Finding {
    Finding {
        code,
        severity,
        place: place.clone(),
        what: what.into(),
        means: means.into(),
        advice: advice.into(),
        repair: None,
        on_accepted_loss: None,
    }
}

impl Finding {
    fn repaired_by(self, words: impl Into<String>, steps: Vec<Step>) -> Finding {
        Finding {
            repair: Some(Repair {
                words: words.into(),
                steps,
            }),
            ..self
        }
    }

    /// What is to be done once somebody accepts that what is gone is lost.
    fn accepted_by(self, words: impl Into<String>, steps: Vec<Step>) -> Finding {
        Finding {
            on_accepted_loss: Some(Repair {
                words: words.into(),
                steps,
            }),
            ..self
        }
    }
}

/// `batch 3`, `batches 3 to 7`, `batches 3, 5 and 9`.
fn batches(numbers: &[i64]) -> String {
    match numbers {
        [] => "no batch".to_owned(),
        [only] => format!("batch {only}"),
        [first, .., last] if last - first + 1 == numbers.len() as i64 => format!("batches {first} to {last}"),
        [few @ .., last] if few.len() < 6 => {
            let few: Vec<String> = few.iter().map(ToString::to_string).collect();
            format!("batches {} and {last}", few.join(", "))
        }
        [first, .., last] => format!("{} batches between {first} and {last}", numbers.len()),
    }
}

/// `one file`, `7 files`.
fn count(number: usize, one: &str, many: &str) -> String {
    match number {
        1 => format!("one {one}"),
        _ => format!("{number} {many}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_told_in_few_words() {
        assert_eq!(batches(&[3]), "batch 3");
        assert_eq!(batches(&[3, 4, 5]), "batches 3 to 5");
        assert_eq!(batches(&[3, 5, 9]), "batches 3, 5 and 9");
        assert_eq!(batches(&[1, 3, 5, 7, 9, 11, 13, 15]), "8 batches between 1 and 15");
    }
}
