//! Whose checkpoint it is, and its single files but plans and commits.

use super::{count, found};
use crate::checkpoint::{StreamIdentity, files};
use crate::doctor::checkpoint_files::Seen;
use crate::doctor::evidence::owner_id;
use crate::doctor::finding::{Code, Finding, Severity, Step};
use crate::doctor::ledger::Ledger;
use crate::storage::Place;

pub(super) fn judge(ledger: &Ledger<'_>) -> Vec<Finding> {
    let checkpoint = &ledger.evidence.checkpoint;
    let mut findings = Vec::new();
    findings.extend(identity(ledger));
    findings.extend(owner(ledger));
    findings.extend(components(ledger));
    if let Some(first) = checkpoint.temporary.first() {
        let number = count(checkpoint.temporary.len(), "half-written file", "half-written files");
        findings.push(found(
            Code::TemporaryFile,
            Severity::RunMends,
            first,
            format!("{number} of a process that was killed"),
            "nothing is lost: a file counts only once it has its own name. the next run removes it",
            "nothing",
        ));
    }
    if let Some(owner) = &checkpoint.ran_out {
        findings.push(found(
            Code::LeaseLeftOver,
            Severity::RunMends,
            &checkpoint.root.join(files::OWNER),
            owner.as_str(),
            "the next run (with [ownership] mode = \"lease\") takes the table over: nothing is lost. what that process may \
             still write when it wakes up is refused by the fence",
            "nothing; --repair waits until the lease's file is gone, because the process may wake up",
        ));
    }
    if let Some((from, file)) = &checkpoint.may_wake {
        findings.push(found(
            Code::LeaseLeftOver,
            Severity::RunMends,
            &checkpoint.root.join(files::OWNER),
            format!("the table was taken over from {from}, and that is not settled: a batch of it may still be open"),
            "that process may wake up. the next run claims the table and closes what is open: nothing is lost",
            format!(
                "nothing, where run works. --repair waits until a run has done so, or that process is gone: end it, or, if \
                 its machine is surely gone, remove {}",
                file
            ),
        ));
    }
    if let Some(leases) = checkpoint
        .may_run
        .as_ref()
        .filter(|_| ledger.done.is_some() || !checkpoint.is_empty())
    {
        findings.push(found(
            Code::OwnerUnknown,
            Severity::NeedsPerson,
            &checkpoint.root.join(files::OWNER),
            leases.as_str(),
            "a process that nothing names may be at work on this table, so nothing is written",
            "stop the processes that have these leases, also when they run other tables; remove the lease's file only of a \
             machine that is surely gone",
        ));
    }
    if let Some(reason) = &checkpoint.unseen {
        findings.push(found(
            Code::HostsUnseen,
            Severity::NeedsPerson,
            &checkpoint.root.join(files::OWNER),
            reason.as_str(),
            "nobody can say whether a process runs this table. run stops at this table; nothing is lost",
            "mount or name that folder; or, if it is gone for good, do as said",
        ));
    }
    if let Some((file, format)) = &checkpoint.newer_lease {
        findings.push(newer(file, *format));
    }
    if let Some(reason) = &checkpoint.bad_lock {
        findings.push(found(
            Code::LockDamaged,
            Severity::NeedsPerson,
            &checkpoint.root.join(files::LOCK),
            format!("{reason}, so nobody can hold it"),
            "it is what keeps two processes apart, and nobody can say whether one runs this table. run stops at this table; \
             nothing is lost",
            "make sure that no process runs it; then remove this: run makes the file anew",
        ));
    }
    if let Some((file, reason)) = &checkpoint.bad_lease {
        findings.push(found(
            Code::LeaseFileDamaged,
            Severity::NeedsPerson,
            file,
            format!("the lease under which the table was run last cannot be read: {reason}"),
            "nobody can tell whether its process still runs. run stops at this table",
            "see whether the process that owner.json names still runs. when it is surely gone, remove this file",
        ));
    }
    for stranger in &checkpoint.strangers {
        findings.push(found(
            Code::UnknownFile,
            Severity::Note,
            stranger,
            "not a file of a checkpoint",
            "run does not look at it",
            "move it away, unless you know what put it there",
        ));
    }
    findings
}

/// A finding of a file that a newer sluice wrote.
pub(super) fn newer(place: &Place, format: u32) -> Finding {
    found(
        Code::NewerFormat,
        Severity::NeedsPerson,
        place,
        format!(
            "it has format {format}, and this sluice knows up to {}",
            crate::checkpoint::FORMAT
        ),
        "a newer sluice ran this table. nothing is lost; run stops at this table",
        "go on with the newer sluice",
    )
}

/// Whether the commits say whose they are: `None` when there is none.
fn commits_are_ours(ledger: &Ledger<'_>) -> Option<bool> {
    let checkpoint = &ledger.evidence.checkpoint;
    let mut commits = checkpoint
        .commits
        .keys()
        .filter_map(|batch| checkpoint.commit(*batch))
        .peekable();
    commits.peek()?;
    let target = Some(ledger.subject.table_name.as_str());
    Some(commits.all(|commit| {
        commit.facts.app_id == ledger.subject.app_id.0
            && commit.facts.target.as_deref().is_none_or(|at| Some(at) == target)
    }))
}

fn foreign(ledger: &Ledger<'_>, what: String) -> Finding {
    found(
        Code::CheckpointForeign,
        Severity::NeedsPerson,
        &ledger.evidence.checkpoint.root,
        what,
        "to go on from it would write one stream's changes under the other's numbers. run stops at this table, and nothing \
         is written",
        "put this table's own checkpoint back, or set app_id and checkpoint in the configuration to what they were",
    )
}

fn identity(ledger: &Ledger<'_>) -> Option<Finding> {
    let checkpoint = &ledger.evidence.checkpoint;
    let subject = ledger.subject;
    let file = checkpoint.root.join(files::STREAM);
    let ours = commits_are_ours(ledger);
    let owner_of = |found: &StreamIdentity| format!("the checkpoint says that it is that of {found}");
    let aside = |finding: Finding| {
        finding.repaired_by(
            "moves stream.json into the backup; the next run writes it anew",
            vec![Step::MoveAside(file.clone())],
        )
    };
    match &checkpoint.stream {
        Some(Seen::Newer(format)) => Some(newer(&file, *format)),
        Some(Seen::Whole(id)) if id.app_id != subject.app_id && ours == Some(true) => Some(aside(found(
            Code::StreamFileForeign,
            Severity::Repairable,
            &file,
            format!(
                "{}, and all its commits are of app_id {} on this target",
                owner_of(id),
                subject.app_id
            ),
            "the file of another table was put here; nothing is lost. run stops at this table",
            "sluice doctor --repair; then see where that other table's stream.json is",
        ))),
        Some(Seen::Whole(id)) if id.app_id != subject.app_id => Some(foreign(
            ledger,
            format!(
                "{}, not of app_id {}, and none of its commits says otherwise",
                owner_of(id),
                subject.app_id
            ),
        )),
        Some(Seen::Whole(id)) if id.database != subject.database => Some(foreign(
            ledger,
            format!(
                "{}, and the configuration reads database {}",
                owner_of(id),
                subject.database
            ),
        )),
        _ if commits_wrong_app(ledger) => Some(foreign(
            ledger,
            format!("its commits are of another app_id than {}", subject.app_id),
        )),
        Some(Seen::Whole(_)) => None,
        Some(Seen::Broken(reason)) => Some(aside(found(
            Code::StreamFileDamaged,
            Severity::Repairable,
            &file,
            format!("it is damaged: {reason}"),
            "it only says whose checkpoint this is, and the commits say it, too; nothing is lost. run stops at this table",
            "sluice doctor --repair",
        ))),
        None if checkpoint.is_empty() => None,
        None => Some(found(
            Code::StreamFileMissing,
            Severity::RunMends,
            &file,
            "it is gone",
            "it only says whose checkpoint this is; nothing is lost. the next run writes it anew",
            "nothing",
        )),
    }
}

fn commits_wrong_app(ledger: &Ledger<'_>) -> bool {
    let checkpoint = &ledger.evidence.checkpoint;
    let mut commits = checkpoint.commits.keys().filter_map(|batch| checkpoint.commit(*batch));
    commits.any(|commit| commit.facts.app_id != ledger.subject.app_id.0)
}

fn owner(ledger: &Ledger<'_>) -> Option<Finding> {
    let checkpoint = &ledger.evidence.checkpoint;
    let file = checkpoint.root.join(files::OWNER);
    match checkpoint.owner.as_ref()? {
        Seen::Newer(format) => Some(newer(&file, *format)),
        Seen::Broken(reason) => Some(
            found(
                Code::OwnerFileDamaged,
                Severity::Repairable,
                &file,
                format!("it is damaged: {reason}"),
                "it says who runs the table, or ran it last; bronze has the number that counts. nothing is lost. run stops \
                 at this table",
                "make sure that no process runs it, on this or another machine; then sluice doctor --repair",
            )
            .repaired_by(
                "moves owner.json into the backup; the next run takes a number above bronze's",
                vec![Step::MoveAside(file.clone())],
            ),
        ),
        Seen::Whole(owner) => {
            let claimed = ledger.evidence.recorded.get(&owner_id(ledger.subject)).copied();
            let claimed = claimed.filter(|claimed| *claimed > owner.fencing)?;
            Some(found(
                Code::OwnerBehind,
                Severity::RunMends,
                &file,
                format!(
                    "it has owner number {}, and bronze was claimed with {claimed}",
                    owner.fencing
                ),
                "somebody ran this table with another checkpoint, or this one is an older copy. the next run claims a \
                 higher number, and whoever has the old one cannot write any more",
                "make sure that no other process runs this table with another checkpoint",
            ))
        }
    }
}

fn components(ledger: &Ledger<'_>) -> Vec<Finding> {
    let checkpoint = &ledger.evidence.checkpoint;
    let mut findings = Vec::new();
    for (sha256, whole) in &checkpoint.components {
        if !whole {
            let file = files::component_file(&checkpoint.root, sha256);
            let finding = found(
                Code::ComponentDamaged,
                Severity::Repairable,
                &file,
                "its bytes do not have the SHA-256 that is its name",
                "run uses the component that the configuration names and not this copy; nothing is lost. but who puts the \
                 old component back must not take this one",
                "sluice doctor --repair",
            );
            let words = "moves it into the backup; run writes a whole copy with the next batch that uses it";
            findings.push(finding.repaired_by(words, vec![Step::MoveAside(file)]));
        }
    }
    let next = ledger.by_checkpoint.map_or(0, |done| done + 1);
    let open = ledger.plan(next);
    for sha256 in open.iter().flat_map(|plan| &plan.components) {
        if !checkpoint.components.contains_key(sha256) {
            findings.push(found(
                Code::ComponentMissing,
                Severity::Note,
                &files::component_file(&checkpoint.root, sha256),
                format!("batch {next} is open and was planned with this component, and its copy is gone"),
                "run needs it only if the plugin's file is gone, too, or another by now",
                "nothing, as long as the plugin's file is where it was",
            ));
        }
    }
    findings
}
