//! Doing what the findings propose: as the owner, after a backup, and with nothing deleted.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::finding::{Examination, Finding, Repair, Step};
use super::subject::Subject;
use super::{examine, examine_as_owner};
use crate::checkpoint::{CheckpointError, CheckpointReader, CommitRecord, UNNAMED, files, lock_unowned};
use crate::error::{Classify, ErrorKind};
use crate::facts::{FactsEntry, FactsTable};
use crate::lake::durable::{self, Published};
use crate::lake::{DeltaLog, LakeError};
use crate::quarantine::{AttemptAt, QuarantineRow, QuarantineTable, Written};
use crate::storage::Place;

/// What is to become of rows that cannot be brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A person has to decide, so nothing is done about them.
    Refused,
    /// Somebody accepted that they are lost.
    Accepted,
}

/// What a repair did.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The folder with everything as it was; `None` when nothing was to be done.
    pub backup: Option<PathBuf>,
    /// What was done, in words.
    pub done: Vec<String>,
    /// What the doctor says after it.
    pub after: Examination,
}

/// Why nothing, or not everything, was repaired.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// A process runs the stream.
    #[error("{place} is in use by {owner}: nothing was repaired. {advice}")]
    InUse {
        /// The checkpoint.
        place: String,
        /// The process.
        owner: String,
        /// The way on.
        advice: &'static str,
    },
    /// Somebody may run the stream, or wake up and go on with it.
    #[error("nothing was repaired: {0}")]
    Refused(#[source] CheckpointError),
    /// A step failed; those before it are done.
    #[error(
        "the repair stopped half-way: {error}. {} what was before is in {}; run the doctor again when that is settled",
        match done.as_slice() { [] => "no step was done;".to_owned(), done => format!("done: {};", done.join(", ")) },
        backup.display()
    )]
    HalfWay {
        /// The folder with everything as it was.
        backup: PathBuf,
        /// The steps that were done, in words.
        done: Vec<String>,
        /// What stopped it.
        error: Box<RepairError>,
    },
    /// There is no backup, so nothing was done.
    #[error("nothing was repaired, because there has to be a backup first: {0}")]
    NoBackup(#[source] Box<RepairError>),
    /// A file of the checkpoint, or a table, refused.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A file appeared while the repair went on.
    #[error("{} appeared during the repair: another process writes this checkpoint", file.display())]
    Raced {
        /// The file.
        file: Place,
    },
}

impl Classify for RepairError {
    fn kind(&self) -> ErrorKind {
        match self {
            RepairError::Checkpoint(error) | RepairError::Refused(error) => error.kind(),
            RepairError::HalfWay { error, .. } | RepairError::NoBackup(error) => error.kind(),
            RepairError::InUse { .. } | RepairError::Raced { .. } => ErrorKind::State,
        }
    }
}

impl RepairError {
    /// The folder with everything as it was, when something was done.
    pub fn backup(&self) -> Option<&Path> {
        match self {
            RepairError::HalfWay { backup, .. } => Some(backup),
            _ => None,
        }
    }

    /// The steps that were done all the same.
    pub fn done(&self) -> &[String] {
        match self {
            RepairError::HalfWay { done, .. } => done,
            _ => &[],
        }
    }
}

impl From<LakeError> for RepairError {
    fn from(error: LakeError) -> RepairError {
        RepairError::Checkpoint(error.into())
    }
}

/// Puts right what can be. Without a finding that can, nothing is touched at all.
pub async fn repair(subject: &Subject, loss: Loss) -> Result<Repaired, RepairError> {
    let before = examine(subject).await;
    if before.running || proposed(&before, loss).is_empty() {
        expect_free(&before, subject)?;
        return Ok(Repaired {
            backup: None,
            done: Vec::new(),
            after: before,
        });
    }
    let place = subject.checkpoint.clone();
    let hosts = subject.hosts.clone();
    let _lock = blocking(move || own(&place, hosts.as_ref())).await?;
    // What was seen without the lock may have changed.
    let seen = examine_as_owner(subject).await;
    let (words, steps) = in_order(&seen, loss);
    let folder = folder_of(subject)?.to_path_buf();
    let backup = blocking(move || back_up(&folder)).await;
    let backup = backup.map_err(|error| RepairError::NoBackup(Box::new(error)))?;
    let mut done = Vec::new();
    let taken = match write_note(subject, &backup, &words).await {
        Ok(()) => take_all(subject, &backup, steps, &mut done).await,
        Err(error) => Err(error),
    };
    taken.map_err(|error| RepairError::HalfWay {
        backup: backup.clone(),
        done,
        error: Box::new(error),
    })?;
    Ok(Repaired {
        after: examine_as_owner(subject).await,
        backup: Some(backup),
        done: words,
    })
}

/// What is to be done about a finding.
fn repair_of(finding: &Finding, loss: Loss) -> Option<&Repair> {
    let accepted = finding.on_accepted_loss.as_ref().filter(|_| loss == Loss::Accepted);
    finding.repair.as_ref().or(accepted)
}

fn proposed(seen: &Examination, loss: Loss) -> Vec<&Step> {
    let repairs = seen.findings.iter().filter_map(|finding| repair_of(finding, loss));
    repairs.flat_map(|repair| &repair.steps).collect()
}

fn expect_free(seen: &Examination, subject: &Subject) -> Result<(), RepairError> {
    match seen.running {
        false => Ok(()),
        true => Err(in_use(
            &subject.checkpoint,
            seen.owner.clone(),
            "stop that process first; one that is paused counts as running",
        )),
    }
}

fn in_use(place: &Place, owner: Option<String>, advice: &'static str) -> RepairError {
    RepairError::InUse {
        place: place.display().to_string(),
        owner: owner.unwrap_or_else(|| UNNAMED.to_owned()),
        advice,
    }
}

/// Moves first, so that a damaged file does not stand in the way of its successor; records oldest first, so that what is
/// there at any time has no hole; quarantine and facts last, as in a run. Two findings may propose the same step.
fn in_order(seen: &Examination, loss: Loss) -> (Vec<String>, Vec<Step>) {
    let words = seen
        .findings
        .iter()
        .filter_map(|finding| Some(format!("{}: {}", finding.code, repair_of(finding, loss)?.words)))
        .collect();
    let mut steps: Vec<Step> = proposed(seen, loss).into_iter().cloned().collect();
    steps.sort_by_key(|step| match step {
        Step::MoveAside(_) => (0, 0),
        Step::WriteCommit(record) => (1, record.batch_id.0),
        Step::VoidAttempts(..) | Step::AcceptLoss(..) => (2, 0),
        Step::WriteFacts(_) => (3, 0),
    });
    let (mut moved, mut written) = (BTreeSet::new(), BTreeSet::new());
    steps.retain(|step| match step {
        Step::MoveAside(file) => moved.insert(file.clone()),
        Step::WriteCommit(record) => written.insert(record.batch_id),
        Step::WriteFacts(_) | Step::VoidAttempts(..) | Step::AcceptLoss(..) => true,
    });
    (words, steps)
}

/// The lock of the checkpoint, which a run takes as well. Nobody may run the stream, or wake up and go on with it.
fn own(checkpoint: &Place, hosts: Option<&Place>) -> Result<File, RepairError> {
    let reader = CheckpointReader::new(checkpoint).with_hosts(hosts);
    lock_unowned(&reader).map_err(RepairError::Refused)
}

/// The folder of a checkpoint that this process has the lock of.
fn folder_of(subject: &Subject) -> Result<&Path, RepairError> {
    subject.checkpoint.as_local().ok_or_else(|| {
        RepairError::Refused(CheckpointError::NoRepair {
            place: subject.checkpoint.clone(),
        })
    })
}

/// A copy of the checkpoint's own files beside it, which has its name only once it is whole; components only where they are
/// moved there later.
fn back_up(checkpoint: &Path) -> Result<PathBuf, RepairError> {
    let name = checkpoint.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("{name}.backup-{}", chrono::Utc::now().format("%Y%m%dT%H%M%SZ"));
    let incomplete = checkpoint.with_file_name(format!("{name}.incomplete"));
    std::fs::create_dir(&incomplete).map_err(|error| LakeError::io("create", &incomplete, error))?;
    if let Err(error) = copy_into(checkpoint, &incomplete) {
        // What is copied is where it was.
        let _ = std::fs::remove_dir_all(&incomplete);
        return Err(error);
    }
    let mut backup = checkpoint.with_file_name(&name);
    for number in 2.. {
        if !backup.exists() {
            break;
        }
        backup = checkpoint.with_file_name(format!("{name}-{number}"));
    }
    std::fs::rename(&incomplete, &backup).map_err(|error| LakeError::io("rename", &incomplete, error))?;
    if let Some(folder) = backup.parent() {
        durable::sync_folder(folder).map_err(|error| LakeError::io("sync", folder, error))?;
    }
    Ok(backup)
}

fn copy_into(checkpoint: &Path, backup: &Path) -> Result<(), RepairError> {
    for folder in ["", files::OFFSETS, files::COMMITS, files::COMPONENTS] {
        let (from, to) = (checkpoint.join(folder), backup.join(folder));
        files::create_folder(&to.as_path().into())?;
        if folder == files::COMPONENTS {
            continue;
        }
        for name in files::names(&from.as_path().into())? {
            let path = from.join(&name);
            // What is not a checkpoint's stays where it is.
            let ours = name.ends_with(".json") || durable::is_staged_name(&name);
            if !ours || !path.is_file() {
                continue;
            }
            let content = std::fs::read(&path).map_err(|error| LakeError::io("read", &path, error))?;
            files::publish_bytes(&to.join(&name).into(), &content)?;
        }
    }
    Ok(())
}

/// What is about to be done, and the versions of the tables before it, for whoever wants to go back.
async fn write_note(subject: &Subject, backup: &Path, words: &[String]) -> Result<(), RepairError> {
    let facts = version_of(&subject.facts_table).await?;
    let quarantine = version_of(&subject.quarantine()).await?;
    let note = serde_json::json!({
        "app_id": subject.app_id,
        "checkpoint": subject.checkpoint,
        "facts_table": subject.facts_table,
        "facts_version": facts,
        "quarantine_version": quarantine,
        "repairs": words,
    });
    let file = Place::from(backup.join("repair.json"));
    blocking(move || files::publish_json(&file, &note).map_err(RepairError::from)).await?;
    Ok(())
}

async fn version_of(table: &Place) -> Result<Option<u64>, RepairError> {
    let log = DeltaLog::open(table).await;
    Ok(log.ok().flatten().map(|log| log.version()))
}

async fn take_all(
    subject: &Subject,
    backup: &Path,
    steps: Vec<Step>,
    done: &mut Vec<String>,
) -> Result<(), RepairError> {
    for step in steps {
        let words = match &step {
            Step::MoveAside(file) => format!("moved {}", file.display()),
            Step::WriteCommit(record) => format!("wrote commits/{}.json", record.batch_id),
            Step::WriteFacts(entries) => format!("wrote {} facts rows", entries.len()),
            Step::VoidAttempts(attempts, _) => format!("wrote {} rows to quarantine", attempts.len()),
            Step::AcceptLoss(rows, ..) => format!("wrote {} rows to quarantine", rows.len()),
        };
        take(subject, backup, step).await?;
        done.push(words);
    }
    Ok(())
}

async fn take(subject: &Subject, backup: &Path, step: Step) -> Result<(), RepairError> {
    let (checkpoint, backup) = (folder_of(subject)?.to_path_buf(), backup.to_path_buf());
    match step {
        Step::MoveAside(file) => {
            blocking(move || move_aside(&checkpoint, &backup, file.as_local().unwrap_or(Path::new("")))).await
        }
        Step::WriteCommit(record) => blocking(move || write_commit(&checkpoint, &record)).await,
        Step::WriteFacts(entries) => write_facts(subject, entries).await,
        Step::VoidAttempts(attempts, fencing) => {
            let mut table = quarantine(subject).await?;
            table.void(&attempts, fencing).await.map_err(RepairError::from)
        }
        Step::AcceptLoss(rows, up_to, fencing) => accept_loss(subject, &rows, up_to, fencing).await,
    }
}

fn move_aside(checkpoint: &Path, backup: &Path, file: &Path) -> Result<(), RepairError> {
    let to = match file.strip_prefix(checkpoint) {
        Ok(inside) => backup.join(inside),
        Err(_) => backup.join(file.file_name().unwrap_or_default()),
    };
    let failed = |error| LakeError::io("move into the backup", file, error);
    match std::fs::rename(file, &to) {
        // The checkpoint is a mount of its own.
        Err(error) if error.kind() == std::io::ErrorKind::CrossesDevices => copy_aside(file, &to).map_err(failed)?,
        moved => moved.map_err(failed)?,
    }
    for path in [file, &to] {
        if let Some(folder) = path.parent() {
            durable::sync_folder(folder).map_err(|error| LakeError::io("sync", folder, error))?;
        }
    }
    Ok(())
}

/// Moves a file to where it cannot be renamed: it goes when its copy is on the disk.
fn copy_aside(file: &Path, to: &Path) -> std::io::Result<()> {
    if std::fs::symlink_metadata(file)?.is_symlink() {
        let names = std::fs::read_link(file)?;
        std::fs::write(to, names.to_string_lossy().as_bytes())?;
    } else {
        std::fs::copy(file, to)?;
    }
    File::open(to)?.sync_all()?;
    std::fs::remove_file(file)
}

fn write_commit(checkpoint: &Path, record: &CommitRecord) -> Result<(), RepairError> {
    let checkpoint = &Place::from(checkpoint);
    files::create_folder(&checkpoint.join(files::COMMITS))?;
    let file = files::commit_file(checkpoint, record.batch_id);
    match files::publish_json(&file, record)? {
        Published::Written => Ok(()),
        Published::Exists => Err(RepairError::Raced { file }),
    }
}

async fn write_facts(subject: &Subject, entries: Vec<FactsEntry>) -> Result<(), RepairError> {
    let table = FactsTable::open_or_create(&subject.facts_table).await?;
    let writer = table.writer();
    let (written, flushed) = tokio::join!(writer.append(entries), writer.flush());
    written.and(flushed).map_err(RepairError::from)
}

/// The rows and the transaction id come in one commit: a table that has the one has the other.
async fn accept_loss(
    subject: &Subject,
    rows: &[QuarantineRow],
    up_to: AttemptAt,
    fencing: i64,
) -> Result<(), RepairError> {
    match quarantine(subject).await?.put(up_to, rows, fencing).await? {
        Written::Now => Ok(()),
        Written::Before | Written::Passed(_) => Err(RepairError::Raced {
            file: subject.quarantine(),
        }),
    }
}

async fn quarantine(subject: &Subject) -> Result<QuarantineTable, LakeError> {
    QuarantineTable::open_or_create(&subject.quarantine(), &subject.app_id).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RepairError> + Send + 'static,
) -> Result<T, RepairError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| LakeError::Internal(format!("a step of the repair was cut off: {error}")))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::samples::commit_record;
    use crate::doctor::tests::{subject, whole};

    #[test]
    fn a_file_that_cannot_be_renamed_is_copied_and_then_gone() {
        let folder = tempfile::tempdir().unwrap();
        let (file, to) = (folder.path().join("4.json"), folder.path().join("backup.json"));
        std::fs::write(&file, "{").unwrap();
        copy_aside(&file, &to).unwrap();
        assert!(!file.exists());
        assert_eq!(std::fs::read(&to).unwrap(), b"{");
        // Nothing goes that has no copy.
        std::fs::write(&file, "[").unwrap();
        assert!(copy_aside(&file, &folder.path().join("nowhere/backup.json")).is_err());
        assert_eq!(std::fs::read(&file).unwrap(), b"[");
    }

    #[tokio::test]
    async fn a_step_that_two_findings_propose_is_taken_once_and_a_failure_says_what_was_done() {
        let folder = tempfile::tempdir().unwrap();
        let subject = Subject {
            checkpoint: Place::from(folder.path().join("c")),
            ..subject()
        };
        let backup = folder.path().join("backup");
        for place in [&subject.checkpoint, &Place::from(&backup)] {
            files::create_folder(&place.join(files::COMMITS)).unwrap();
        }
        let broken = files::commit_file(&subject.checkpoint, crate::identity::BatchId(3));
        std::fs::write(broken.as_local().unwrap(), "{").unwrap();
        let mut seen = super::super::judge::judge(&subject, &whole(250));
        let finding = super::super::finding::Finding {
            code: super::super::finding::Code::CommitFileDamaged,
            severity: super::super::finding::Severity::Repairable,
            place: broken.clone(),
            what: String::new(),
            means: String::new(),
            advice: String::new(),
            repair: Some(super::super::finding::Repair {
                words: "mends".into(),
                steps: vec![
                    Step::WriteCommit(Box::new(commit_record(4, None))),
                    Step::MoveAside(broken.clone()),
                    Step::WriteCommit(Box::new(commit_record(3, None))),
                ],
            }),
            on_accepted_loss: None,
        };
        seen.findings = vec![finding.clone(), finding];
        let (_, steps) = in_order(&seen, Loss::Refused);
        assert_eq!(steps.len(), 3, "{steps:?}");
        // Somebody else wrote batch 4 meanwhile.
        let other = files::commit_file(&subject.checkpoint, crate::identity::BatchId(4));
        std::fs::write(other.as_local().unwrap(), "{}").unwrap();
        let mut done = Vec::new();
        let error = take_all(&subject, &backup, steps, &mut done).await.unwrap_err();
        assert!(
            matches!(&error, RepairError::Raced { file } if *file == other),
            "{error}"
        );
        assert_eq!(
            done,
            [format!("moved {}", broken.display()), "wrote commits/3.json".to_owned()]
        );
        let error = RepairError::HalfWay {
            backup: backup.clone(),
            done: done.clone(),
            error: Box::new(error),
        };
        assert_eq!(
            (error.backup(), error.done()),
            (Some(backup.as_path()), done.as_slice())
        );
        let said = error.to_string();
        assert!(
            said.contains("wrote commits/3.json") && said.contains("4.json appeared"),
            "{said}"
        );
        assert!(backup.join("commits/3.json").is_file());
    }
}
