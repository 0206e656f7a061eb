//! The files of a checkpoint by name, written whole and read with care: in a folder, or as objects of a bucket. All of it
//! blocks.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::CheckpointError;
use super::records::{ATTEMPTS, FORMAT};
use crate::failpoint::faults;
use crate::identity::BatchId;
use crate::lake::LakeError;
use crate::lake::durable::{self, Published};
use crate::storage::{ObjectPlace, Place, Version};

pub const STREAM: &str = "stream.json";
pub const OWNER: &str = "owner.json";
pub const STOPPED: &str = "stopped.json";
pub const LOCK: &str = "lock";
pub const OFFSETS: &str = "offsets";
pub const COMMITS: &str = "commits";
pub const COMPONENTS: &str = "components";

pub const ADVICE_STREAM: &str = "`sluice doctor --repair` puts it aside where the commits say whose they are, or restore it from \
                                 a backup";
pub const ADVICE_PLAN: &str = "`sluice doctor --repair` puts it aside where that is safe, or restore it from a backup";
pub const ADVICE_COMMIT: &str = "`sluice doctor --repair` writes it again from bronze or the facts, or restore it from a \
                                 backup";
pub const ADVICE_OTHERS: &str = "it belongs to another stream or another time: `sluice doctor` says what is whose, or restore \
                                 the checkpoint from a backup";
pub const ADVICE_FOLDER: &str = "mount what it leads to, or put the folder back from a backup. where there is none, move away what \
                                 is in its place: `sluice doctor --repair` writes again what bronze and facts tell";
pub const ADVICE_COMPONENT: &str = "an open batch may need it: restore it from a backup";
pub const ADVICE_LOCK: &str = "it is what keeps two processes apart: make sure that no process runs the stream, and remove it \
                               then";
pub const ADVICE_TURNS: &str = "it only orders the turns of processes of one machine: move it away";
pub const ADVICE_OWNER: &str = "it says who runs the stream: make sure that no process does, on this or another machine, \
                                and remove it then";

/// Only this one field of any file, to tell a newer format from damage.
#[derive(serde::Deserialize)]
struct Format {
    format: u32,
}

/// Reads a file; `None` when there is none.
pub fn read_json<T: DeserializeOwned>(file: &Place, advice: &'static str) -> Result<Option<T>, CheckpointError> {
    let bytes = read_bytes(file, advice)?;
    bytes.map(|bytes| parse_json(file, &bytes, advice)).transpose()
}

/// Reads what a file holds; `None` when there is none.
pub fn read_bytes(file: &Place, advice: &'static str) -> Result<Option<Vec<u8>>, CheckpointError> {
    match file.split() {
        Ok(path) => read_path(path, advice),
        Err(object) => Ok(read_object(object)?.map(|(content, _)| content)),
    }
}

/// Reads what an object holds, and which content that is; `None` when there is none.
pub fn read_object(object: &ObjectPlace) -> Result<Option<(Vec<u8>, Version)>, CheckpointError> {
    let read = object.read().map_err(|error| LakeError::store("read", object, error))?;
    Ok(read.map(|(content, version)| (content.into(), version)))
}

/// Reads what each of several files holds; `None` where there is none. In a bucket they are asked for side by side.
pub fn read_all(files: &[Place], advice: &'static str) -> Result<Vec<Option<Vec<u8>>>, CheckpointError> {
    let objects: Vec<ObjectPlace> = files.iter().filter_map(Place::as_object).cloned().collect();
    let Some(first) = objects.first().filter(|_| objects.len() == files.len()) else {
        return files.iter().map(|file| read_bytes(file, advice)).collect();
    };
    let read = ObjectPlace::read_all(&objects).map_err(|error| LakeError::store("read", first, error))?;
    Ok(read.into_iter().map(|content| content.map(Into::into)).collect())
}

fn read_path(file: &Path, advice: &'static str) -> Result<Option<Vec<u8>>, CheckpointError> {
    // A folder cannot be read, and a pipe has no end.
    match std::fs::metadata(file) {
        Ok(found) if !found.is_file() => return Err(damaged(&file.into(), NO_FILE.to_owned(), advice)),
        Ok(_) => {}
        Err(error) => return no_file(file, error, advice).map(|()| None),
    }
    match std::fs::read(file) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LakeError::io("read", file, error).into()),
    }
}

const NO_FILE: &str = "it is no file";

/// A file that cannot be looked at is not there, or is damage; what the system may do at another time is neither.
fn no_file(file: &Path, error: std::io::Error, advice: &'static str) -> Result<(), CheckpointError> {
    if error.kind() != ErrorKind::PermissionDenied {
        if std::fs::symlink_metadata(file).is_ok_and(|found| found.is_symlink()) {
            // To nothing, or around in a circle.
            return Err(damaged(
                &file.into(),
                "it is a link that leads nowhere".to_owned(),
                advice,
            ));
        }
        if let Some(place) = file.parent().and_then(in_the_way) {
            return Err(no_folder(place));
        }
        if error.kind() == ErrorKind::NotFound {
            return Ok(());
        }
    }
    Err(LakeError::io("read", file, error).into())
}

/// What is in the place of a folder, or of one above it: a file, or a link that leads nowhere, as to a disk that is not
/// mounted.
fn in_the_way(folder: &Path) -> Option<&Path> {
    let there = folder
        .ancestors()
        .find(|place| std::fs::symlink_metadata(place).is_ok())?;
    (!there.is_dir()).then_some(there)
}

fn no_folder(place: &Path) -> CheckpointError {
    damaged(&place.into(), "it is no folder".to_owned(), ADVICE_FOLDER)
}

/// A folder is there, or nothing is. In a bucket there are none.
pub fn expect_folder(folder: &Place) -> Result<(), CheckpointError> {
    let in_the_way = folder.as_local().and_then(in_the_way);
    in_the_way.map_or(Ok(()), |place| Err(no_folder(place)))
}

/// The lock of a checkpoint, where it is what can be locked; `None` when there is none yet, and in a bucket.
pub fn lock_file(root: &Place) -> Result<Option<PathBuf>, CheckpointError> {
    let Some(root) = root.as_local() else {
        return Ok(None);
    };
    let file = root.join(LOCK);
    Ok(is_lock(&file, ADVICE_LOCK)?.then_some(file))
}

/// Who holds the lock, where it says so itself.
pub fn lock_holder(root: &Place) -> Option<String> {
    let text = std::fs::read_to_string(lock_file(root).ok()??).ok()?;
    Some(text).filter(|text| !text.is_empty())
}

fn is_lock(file: &Path, advice: &'static str) -> Result<bool, CheckpointError> {
    match std::fs::metadata(file) {
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => Err(damaged(&file.into(), NO_FILE.to_owned(), advice)),
        Err(error) => no_file(file, error, advice).map(|()| false),
    }
}

/// How long a lock is left alone before it is tried again.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Takes the lock of a folder of this machine, until it is dropped. `None` when another process holds it for all that time. `advice` is for
/// something that cannot be locked.
pub fn take_lock(folder: &Path, patience: Duration, advice: &'static str) -> Result<Option<File>, CheckpointError> {
    let path = folder.join(LOCK);
    is_lock(&path, advice)?;
    let failed = |error| CheckpointError::from(LakeError::io("lock", &path, error));
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    let patience = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => {
                // What a repair left.
                if file.metadata().map_err(failed)?.len() > 0 {
                    file.set_len(0).map_err(failed)?;
                }
                return Ok(Some(file));
            }
            Err(TryLockError::WouldBlock) if Instant::now() >= patience => return Ok(None),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

/// What a file that was read holds.
pub fn parse_json<T: DeserializeOwned>(file: &Place, bytes: &[u8], advice: &'static str) -> Result<T, CheckpointError> {
    if let Ok(Format { format }) = serde_json::from_slice(bytes)
        && format > FORMAT
    {
        return Err(CheckpointError::NewerFormat {
            file: file.clone(),
            found: format,
            known: FORMAT,
        });
    }
    serde_json::from_slice(bytes).map_err(|error| {
        let reason = match error.classify() {
            serde_json::error::Category::Eof => format!("it ends after {} bytes", bytes.len()),
            _ => format!(
                "line {}, column {} is not what was written there",
                error.line(),
                error.column()
            ),
        };
        damaged(file, reason, advice)
    })
}

/// Writes a new file; whether it was there already.
pub fn publish_json<T: Serialize>(file: &Place, content: &T) -> Result<Published, CheckpointError> {
    publish_bytes(file, &to_json(file, content)?)
}

/// Writes a new file; whether it was there already.
pub fn publish_bytes(file: &Place, content: &[u8]) -> Result<Published, CheckpointError> {
    let file = match file.split() {
        Ok(path) => path,
        Err(object) => {
            let written = object
                .create(content)
                .map_err(|error| LakeError::store("write", object, error))?;
            return Ok(if written { Published::Written } else { Published::Exists });
        }
    };
    let (path, content) = (file.to_path_buf(), content.to_vec());
    faults::put(Some(faults::CHECKPOINT_WRITE), move || {
        durable::publish_new(&path, &content)
    })
    .map_err(|error| LakeError::io("write", file, error).into())
}

/// Writes a file in place of an older one.
pub fn replace_json<T: Serialize>(file: &Place, content: &T) -> Result<(), CheckpointError> {
    let bytes = to_json(file, content)?;
    let file = match file.split() {
        Ok(path) => path,
        Err(object) => {
            let written = object.write(&bytes);
            return written.map_err(|error| LakeError::store("write", object, error).into());
        }
    };
    faults::write(faults::CHECKPOINT_WRITE, || durable::replace(file, &bytes))
        .map_err(|error| LakeError::io("write", file, error).into())
}

/// Writes an object in place of the content that was read; `None`: where there was none. Whether it has `content` now: an answer
/// that says that something else is there can be about an earlier request of ours, whose answer was lost.
pub fn swap_object(object: &ObjectPlace, read: Option<&Version>, content: &[u8]) -> Result<bool, CheckpointError> {
    let swapped = object
        .swap(read, content)
        .map_err(|error| LakeError::store("write", object, error))?;
    Ok(swapped || read_object(object)?.is_some_and(|(there, _)| there == content))
}

/// The content of a file.
pub fn to_json<T: Serialize>(file: &Place, content: &T) -> Result<Vec<u8>, CheckpointError> {
    serde_json::to_vec_pretty(content)
        .map_err(|error| LakeError::Internal(format!("{} cannot be written as JSON: {error}", file.display())).into())
}

/// An error about a damaged file.
pub fn damaged(file: &Place, reason: String, advice: &'static str) -> CheckpointError {
    CheckpointError::Damaged {
        file: file.clone(),
        reason,
        advice,
    }
}

/// Makes a folder and those above it. In a bucket there are none.
pub fn create_folder(folder: &Place) -> Result<(), CheckpointError> {
    let Some(folder) = folder.as_local() else {
        return Ok(());
    };
    std::fs::create_dir_all(folder).map_err(|error| match in_the_way(folder) {
        Some(place) => no_folder(place),
        None => LakeError::io("create", folder, error).into(),
    })
}

/// Removes a file that may be gone.
pub fn remove(file: &Place) -> Result<(), CheckpointError> {
    let file = match file.split() {
        Ok(path) => path,
        Err(object) => {
            let removed = object.remove();
            return removed.map_err(|error| LakeError::store("remove", object, error).into());
        }
    };
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(LakeError::io("remove", file, error).into()),
        _ => Ok(()),
    }
}

/// The names in a folder; none when there is no folder. Files that a crash left half-written have names of their own.
pub fn names(folder: &Place) -> Result<Vec<String>, CheckpointError> {
    let names = folder.names();
    // What is in its place cannot be listed, or is told to be nothing.
    if names.as_ref().map_or(true, Vec::is_empty) {
        expect_folder(folder)?;
    }
    Ok(names?)
}

/// Name of a plan's file.
pub fn plan_file(root: &Place, batch_id: BatchId, attempt: u32) -> Place {
    root.join(OFFSETS).join(&format!("{batch_id}.a{attempt}.json"))
}

/// Name of a commit's file.
pub fn commit_file(root: &Place, batch_id: BatchId) -> Place {
    root.join(COMMITS).join(&format!("{batch_id}.json"))
}

/// Name of a component's file.
pub fn component_file(root: &Place, sha256: &str) -> Place {
    root.join(COMPONENTS).join(&format!("{sha256}.wasm"))
}

/// Batch and attempt of a plan's file name.
pub fn parse_plan_name(name: &str) -> Option<(BatchId, u32)> {
    let (batch, attempt) = name.strip_suffix(".json")?.split_once(".a")?;
    Some((parse_batch(batch)?, parse_plain(attempt)?))
}

/// Batch of a commit's file name.
pub fn parse_commit_name(name: &str) -> Option<BatchId> {
    parse_batch(name.strip_suffix(".json")?)
}

/// A number as it is written into names: without a sign, and without zeros before it.
fn parse_plain<T: std::str::FromStr + ToString>(text: &str) -> Option<T> {
    let number: T = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// A number that the numbers of its attempts fit beside.
fn parse_batch(text: &str) -> Option<BatchId> {
    let batch: i64 = parse_plain(text)?;
    (0..i64::MAX / i64::from(ATTEMPTS) - 1)
        .contains(&batch)
        .then_some(BatchId(batch))
}
