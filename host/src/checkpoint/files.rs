//! The files of a checkpoint folder by name, written whole and read with care.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::CheckpointError;
use super::records::{ATTEMPTS, FORMAT};
use crate::failpoint::faults;
use crate::identity::BatchId;
use crate::lake::LakeError;
use crate::lake::durable::{self, Published};

pub const STREAM: &str = "stream.json";
pub const OWNER: &str = "owner.json";
pub const LOCK: &str = "lock";
pub const OFFSETS: &str = "offsets";
pub const COMMITS: &str = "commits";
pub const COMPONENTS: &str = "components";

pub const ADVICE_STREAM: &str = "restore it from a backup, or, if nothing was ever committed under this app_id, remove the \
                                 checkpoint";
pub const ADVICE_PLAN: &str = "`sluice doctor --repair` puts it aside where that is safe, or restore it from a backup";
pub const ADVICE_COMMIT: &str = "`sluice doctor --repair` writes it again from bronze or the facts, or restore it from a \
                                 backup";
pub const ADVICE_OTHERS: &str = "it belongs to another stream or another time: `sluice doctor` says what is whose, or restore \
                                 the checkpoint from a backup";
pub const ADVICE_OWNER: &str = "it says who runs the stream: make sure that no process does, on this or another machine, \
                                and remove it then";

/// Only this one field of any file, to tell a newer format from damage.
#[derive(serde::Deserialize)]
struct Format {
    format: u32,
}

/// Reads a file; `None` when there is none.
pub fn read_json<T: DeserializeOwned>(file: &Path, advice: &'static str) -> Result<Option<T>, CheckpointError> {
    // A folder cannot be read, and a pipe has no end.
    match std::fs::metadata(file) {
        Ok(found) if !found.is_file() => return Err(damaged(file, "it is no file".to_owned(), advice)),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match std::fs::symlink_metadata(file) {
                Ok(_) => Err(damaged(file, "it is a link to nothing".to_owned(), advice)),
                Err(_) => Ok(None),
            };
        }
        Err(error) => return Err(LakeError::io("read", file, error).into()),
    }
    match std::fs::read(file) {
        Ok(bytes) => parse_json(file, &bytes, advice).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LakeError::io("read", file, error).into()),
    }
}

/// What a file that was read holds.
pub fn parse_json<T: DeserializeOwned>(file: &Path, bytes: &[u8], advice: &'static str) -> Result<T, CheckpointError> {
    if let Ok(Format { format }) = serde_json::from_slice(bytes)
        && format > FORMAT
    {
        return Err(CheckpointError::NewerFormat {
            file: file.to_path_buf(),
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
pub fn publish_json<T: Serialize>(file: &Path, content: &T) -> Result<Published, CheckpointError> {
    publish_bytes(file, &to_json(file, content)?)
}

/// Writes a new file; whether it was there already.
pub fn publish_bytes(file: &Path, content: &[u8]) -> Result<Published, CheckpointError> {
    let (path, content) = (file.to_path_buf(), content.to_vec());
    faults::put(Some(faults::CHECKPOINT_WRITE), move || {
        durable::publish_new(&path, &content)
    })
    .map_err(|error| LakeError::io("write", file, error).into())
}

/// Writes a file in place of an older one.
pub fn replace_json<T: Serialize>(file: &Path, content: &T) -> Result<(), CheckpointError> {
    let bytes = to_json(file, content)?;
    faults::write(faults::CHECKPOINT_WRITE, || durable::replace(file, &bytes))
        .map_err(|error| LakeError::io("write", file, error).into())
}

/// The content of a file.
pub fn to_json<T: Serialize>(file: &Path, content: &T) -> Result<Vec<u8>, CheckpointError> {
    serde_json::to_vec_pretty(content)
        .map_err(|error| LakeError::Internal(format!("{} cannot be written as JSON: {error}", file.display())).into())
}

/// An error about a damaged file.
pub fn damaged(file: &Path, reason: String, advice: &'static str) -> CheckpointError {
    CheckpointError::Damaged {
        file: file.to_path_buf(),
        reason,
        advice,
    }
}

/// Makes a folder and those above it.
pub fn create_folder(folder: &Path) -> Result<(), CheckpointError> {
    std::fs::create_dir_all(folder).map_err(|error| LakeError::io("create", folder, error).into())
}

/// Removes a file that may be gone.
pub fn remove(file: &Path) -> Result<(), CheckpointError> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(LakeError::io("remove", file, error).into()),
        _ => Ok(()),
    }
}

/// The names in a folder; none when there is no folder. Files that a crash left half-written have names of their own.
pub fn names(folder: &Path) -> Result<Vec<String>, CheckpointError> {
    let failed = |error| CheckpointError::from(LakeError::io("list", folder, error));
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    Ok(names)
}

/// Name of a plan's file.
pub fn plan_file(root: &Path, batch_id: BatchId, attempt: u32) -> PathBuf {
    root.join(OFFSETS).join(format!("{batch_id}.a{attempt}.json"))
}

/// Name of a commit's file.
pub fn commit_file(root: &Path, batch_id: BatchId) -> PathBuf {
    root.join(COMMITS).join(format!("{batch_id}.json"))
}

/// Name of a component's file.
pub fn component_file(root: &Path, sha256: &str) -> PathBuf {
    root.join(COMPONENTS).join(format!("{sha256}.wasm"))
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
