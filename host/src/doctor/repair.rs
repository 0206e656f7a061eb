//! Doing what the findings propose: as the owner, after a backup, and with nothing deleted.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::finding::{Examination, Step};
use super::subject::Subject;
use super::{examine, examine_as_owner};
use crate::checkpoint::{CheckpointError, CheckpointReader, CommitRecord, LeaseState, files};
use crate::error::{Classify, ErrorKind};
use crate::facts::{FactsEntry, FactsTable};
use crate::lake::durable::{self, Published};
use crate::lake::{DeltaLog, LakeError, Location};

/// Somebody who looks whether the stream runs holds the lock for an instant.
const LOCK_ATTEMPTS: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(40);

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
    /// A file of the checkpoint, or a table, refused.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A file appeared while the repair went on.
    #[error("{} appeared during the repair: another process writes this checkpoint. the backup is {}", file.display(), backup.display())]
    Raced {
        /// The file.
        file: PathBuf,
        /// The backup.
        backup: PathBuf,
    },
}

impl Classify for RepairError {
    fn kind(&self) -> ErrorKind {
        match self {
            RepairError::Checkpoint(error) => error.kind(),
            RepairError::InUse { .. } | RepairError::Raced { .. } => ErrorKind::State,
        }
    }
}

impl From<LakeError> for RepairError {
    fn from(error: LakeError) -> RepairError {
        RepairError::Checkpoint(error.into())
    }
}

/// Puts right what can be. Without a finding that can, nothing is touched at all.
pub async fn repair(subject: &Subject) -> Result<Repaired, RepairError> {
    let before = examine(subject).await;
    if before.running || proposed(&before).is_empty() {
        expect_free(&before, subject)?;
        return Ok(Repaired {
            backup: None,
            done: Vec::new(),
            after: before,
        });
    }
    let place = subject.checkpoint.clone();
    let _lock = blocking(move || own(&place)).await?;
    // What was seen without the lock may have changed.
    let seen = examine_as_owner(subject).await;
    let (words, steps) = in_order(&seen);
    let folder = subject.checkpoint.clone();
    let backup = blocking(move || back_up(&folder)).await?;
    write_note(subject, &backup, &words).await?;
    for step in steps {
        take(subject, &backup, step).await?;
    }
    Ok(Repaired {
        after: examine_as_owner(subject).await,
        backup: Some(backup),
        done: words,
    })
}

fn proposed(seen: &Examination) -> Vec<&Step> {
    let repairs = seen.findings.iter().filter_map(|finding| finding.repair.as_ref());
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

fn in_use(place: &Path, owner: Option<String>, advice: &'static str) -> RepairError {
    RepairError::InUse {
        place: place.display().to_string(),
        owner: owner.unwrap_or_else(|| "a process that has not written its name yet".to_owned()),
        advice,
    }
}

/// Moves first, so that a damaged file does not stand in the way of its successor; records oldest first, so that what is
/// there at any time has no hole; facts last, as in a run.
fn in_order(seen: &Examination) -> (Vec<String>, Vec<Step>) {
    let words = seen
        .findings
        .iter()
        .filter_map(|finding| Some(format!("{}: {}", finding.code, finding.repair.as_ref()?.words)))
        .collect();
    let mut steps: Vec<Step> = proposed(seen).into_iter().cloned().collect();
    steps.sort_by_key(|step| match step {
        Step::MoveAside(_) => (0, 0),
        Step::WriteCommit(record) => (1, record.batch_id.0),
        Step::WriteFacts(_) => (2, 0),
    });
    (words, steps)
}

/// The lock of the checkpoint, which a run takes as well. A stream under a lease must be nobody's.
fn own(checkpoint: &Path) -> Result<File, RepairError> {
    let reader = CheckpointReader::new(&checkpoint.display().to_string())?;
    files::create_folder(reader.root())?;
    let path = reader.root().join(files::LOCK);
    let failed = |error| RepairError::from(LakeError::io("lock", &path, error));
    let options = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = options.map_err(failed)?;
    let mut locked = false;
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => {
                locked = true;
                break;
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
    // A damaged owner.json is among what is repaired.
    let owner = reader.owner().ok().flatten();
    let name = owner.as_ref().map(ToString::to_string);
    if !locked {
        return Err(in_use(
            reader.root(),
            name,
            "stop that process first; one that is paused counts as running",
        ));
    }
    match owner
        .as_ref()
        .map(|owner| reader.lease_of(owner, None))
        .transpose()?
        .flatten()
    {
        None | Some((_, LeaseState::Missing | LeaseState::Dead(_))) => Ok(file),
        Some((_, LeaseState::Held(_))) => Err(in_use(
            reader.root(),
            name,
            "its lease is not over: stop that process first. if its machine is surely gone, remove the lease's file",
        )),
        Some((_, LeaseState::Ended(_))) => Err(in_use(
            reader.root(),
            name,
            "its lease ran out, and it may wake up: end that process. if its machine is surely gone, remove the lease's file",
        )),
    }
}

/// A copy of the checkpoint's own files beside it; components only where they are moved there later.
fn back_up(checkpoint: &Path) -> Result<PathBuf, RepairError> {
    let name = checkpoint.file_name().unwrap_or_default().to_string_lossy();
    let now = chrono::Utc::now().format("%Y%m%dT%H%M%SZ");
    let mut backup = checkpoint.with_file_name(format!("{name}.backup-{now}"));
    for number in 2.. {
        match std::fs::create_dir(&backup) {
            Ok(()) => break,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                backup = checkpoint.with_file_name(format!("{name}.backup-{now}-{number}"));
            }
            Err(error) => return Err(LakeError::io("create", &backup, error).into()),
        }
    }
    for folder in ["", files::OFFSETS, files::COMMITS, files::COMPONENTS] {
        let (from, to) = (checkpoint.join(folder), backup.join(folder));
        files::create_folder(&to)?;
        if folder == files::COMPONENTS {
            continue;
        }
        for name in files::names(&from)? {
            let path = from.join(&name);
            if name == files::LOCK || !path.is_file() {
                continue;
            }
            let content = std::fs::read(&path).map_err(|error| LakeError::io("read", &path, error))?;
            files::publish_bytes(&to.join(&name), &content)?;
        }
    }
    Ok(backup)
}

/// What is about to be done, and the versions of the tables before it, for whoever wants to go back.
async fn write_note(subject: &Subject, backup: &Path, words: &[String]) -> Result<(), RepairError> {
    let facts = DeltaLog::open(&Location::parse(&subject.facts_table.display().to_string())?).await;
    let version = facts.ok().flatten().map(|log| log.version());
    let note = serde_json::json!({
        "app_id": subject.app_id,
        "checkpoint": subject.checkpoint,
        "facts_table": subject.facts_table,
        "facts_version": version,
        "repairs": words,
    });
    let file = backup.join("repair.json");
    blocking(move || files::publish_json(&file, &note).map_err(RepairError::from)).await?;
    Ok(())
}

async fn take(subject: &Subject, backup: &Path, step: Step) -> Result<(), RepairError> {
    let (checkpoint, backup) = (subject.checkpoint.clone(), backup.to_path_buf());
    match step {
        Step::MoveAside(file) => blocking(move || move_aside(&checkpoint, &backup, &file)).await,
        Step::WriteCommit(record) => blocking(move || write_commit(&checkpoint, &backup, &record)).await,
        Step::WriteFacts(entries) => write_facts(subject, entries).await,
    }
}

fn move_aside(checkpoint: &Path, backup: &Path, file: &Path) -> Result<(), RepairError> {
    let to = match file.strip_prefix(checkpoint) {
        Ok(inside) => backup.join(inside),
        Err(_) => backup.join(file.file_name().unwrap_or_default()),
    };
    std::fs::rename(file, &to).map_err(|error| LakeError::io("move into the backup", file, error))?;
    for path in [file, &to] {
        if let Some(folder) = path.parent() {
            durable::sync_folder(folder).map_err(|error| LakeError::io("sync", folder, error))?;
        }
    }
    Ok(())
}

fn write_commit(checkpoint: &Path, backup: &Path, record: &CommitRecord) -> Result<(), RepairError> {
    files::create_folder(&checkpoint.join(files::COMMITS))?;
    let file = files::commit_file(checkpoint, record.batch_id);
    match files::publish_json(&file, record)? {
        Published::Written => Ok(()),
        Published::Exists => Err(RepairError::Raced {
            file,
            backup: backup.to_path_buf(),
        }),
    }
}

async fn write_facts(subject: &Subject, entries: Vec<FactsEntry>) -> Result<(), RepairError> {
    let table = FactsTable::open_or_create(&subject.facts_table.display().to_string()).await?;
    let writer = table.writer();
    let (written, flushed) = tokio::join!(writer.append(entries), writer.flush());
    written.and(flushed).map_err(RepairError::from)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RepairError> + Send + 'static,
) -> Result<T, RepairError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| LakeError::Internal(format!("a step of the repair was cut off: {error}")))?
}
