//! The checkpoint in the hands of the one process that runs the stream.

use std::collections::HashSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::files;
use super::records::{CommitRecord, FORMAT, Owner, PlannedBatch, StreamIdentity};
use super::{CheckpointError, CheckpointReader, CheckpointState};
use crate::identity::{BatchId, host_name};
use crate::lake::LakeError;
use crate::lake::durable::{self, Published};
use crate::lsn::UtcMicros;

/// Batches that are kept after they are done.
const KEPT: usize = 100;
/// A reader that looks whether the stream runs holds the lock for an instant.
const LOCK_ATTEMPTS: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(40);

/// A checkpoint that this process owns. Clones share the ownership; it ends with the last of them, or with the process.
/// Calls block on local files: run them off the runtime's threads, as [`Checkpoint::open`] says.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    reader: CheckpointReader,
    fencing: i64,
    /// The system frees the lock when the file is closed, also when the process is killed.
    _lock: Arc<File>,
}

impl Checkpoint {
    /// Takes the checkpoint for this process, after creating it when there is none. Everything here writes and syncs local
    /// files, so call it (and the other methods) in `spawn_blocking` or `block_in_place`.
    ///
    /// Fails when another process has it (naming that one), or when it belongs to another stream (naming both).
    pub fn open(location: &str, identity: &StreamIdentity) -> Result<Checkpoint, CheckpointError> {
        let reader = CheckpointReader::new(location)?;
        let root = reader.root().to_path_buf();
        for folder in [files::OFFSETS, files::COMMITS, files::COMPONENTS] {
            files::create_folder(&root.join(folder))?;
        }
        let lock = take_lock(&reader)?;
        let file = root.join(files::STREAM);
        if files::publish_json(&file, identity)? == Published::Exists && !reader.expect(identity)? {
            return Err(files::damaged(&file, "it is gone".to_owned(), files::ADVICE_STREAM));
        }
        sweep(&reader)?;
        let fencing = reader.owner()?.map_or(0, |owner| owner.fencing) + 1;
        let checkpoint = Checkpoint {
            reader,
            fencing,
            _lock: Arc::new(lock),
        };
        checkpoint.write_owner()?;
        Ok(checkpoint)
    }

    /// For what a reader can do.
    pub fn reader(&self) -> &CheckpointReader {
        &self.reader
    }

    /// Where the stream is.
    pub fn latest(&self) -> Result<CheckpointState, CheckpointError> {
        self.reader.latest()
    }

    /// The fencing number of this process: goes into every bronze commit.
    pub fn fencing(&self) -> i64 {
        self.fencing
    }

    /// Takes a fencing number above the one that bronze has, if it does not have one: `owner.json` can have been lost.
    pub fn fence_above(&mut self, recorded: Option<i64>) -> Result<i64, CheckpointError> {
        if let Some(recorded) = recorded.filter(|recorded| *recorded >= self.fencing) {
            self.fencing = recorded + 1;
            self.write_owner()?;
        }
        Ok(self.fencing)
    }

    /// Writes a plan, before anything of the batch is read. To repeat the same plan is no error.
    pub fn plan(&self, plan: &PlannedBatch) -> Result<(), CheckpointError> {
        let file = files::plan_file(self.reader.root(), plan.batch_id, plan.attempt);
        if files::publish_json(&file, plan)? == Published::Exists {
            let there = self.reader.plan(plan.batch_id, plan.attempt)?;
            if !same_json(&there, plan) {
                return Err(CheckpointError::Conflict { file });
            }
        }
        Ok(())
    }

    /// Writes that a batch is done. To repeat it is no error.
    pub fn commit(&self, commit: &CommitRecord) -> Result<(), CheckpointError> {
        let file = files::commit_file(self.reader.root(), commit.batch_id);
        if files::publish_json(&file, commit)? == Published::Exists {
            let there = self.reader.commit(commit.batch_id)?;
            if there.attempt != commit.attempt || there.end.lsn != commit.end.lsn {
                return Err(CheckpointError::Conflict { file });
            }
        }
        Ok(())
    }

    /// Keeps the bytes of a component that an open batch may need. Gives its SHA-256 in lower-case hex.
    pub fn save_component(&self, bytes: &[u8]) -> Result<String, CheckpointError> {
        let sha256 = hex_sha256(bytes);
        let file = files::component_file(self.reader.root(), &sha256);
        if files::publish_bytes(&file, bytes)? == Published::Exists && self.load_component(&sha256).is_err() {
            durable::replace(&file, bytes).map_err(|error| LakeError::io("write", &file, error))?;
        }
        Ok(sha256)
    }

    /// The bytes of a component that an open batch was planned with.
    pub fn load_component(&self, sha256: &str) -> Result<Vec<u8>, CheckpointError> {
        let place = || self.reader.root().display().to_string();
        let file = files::component_file(self.reader.root(), sha256);
        let bytes = match std::fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(CheckpointError::ComponentMissing {
                    place: place(),
                    sha256: sha256.to_owned(),
                });
            }
            Err(error) => return Err(LakeError::io("read", &file, error).into()),
        };
        if hex_sha256(&bytes) != sha256 {
            return Err(CheckpointError::ComponentHash {
                place: place(),
                sha256: sha256.to_owned(),
            });
        }
        Ok(bytes)
    }

    /// Removes what is older than the last 100 batches, but no commit that the facts table does not have yet, and the
    /// components that no batch from the last one on was planned with. `facts` is the newest batch in the facts table.
    pub fn prune(&self, facts: Option<BatchId>) -> Result<(), CheckpointError> {
        let root = self.reader.root();
        let commits = self.reader.commit_ids()?;
        let Some(newest) = commits.last().copied() else {
            return Ok(());
        };
        let old = commits.len().saturating_sub(KEPT);
        let gone = commits[..old]
            .iter()
            .take_while(|batch_id| Some(**batch_id) <= facts)
            .copied()
            .last();
        let mut needed = HashSet::new();
        for (batch_id, attempt) in self.reader.plan_ids()? {
            if Some(batch_id) <= gone {
                files::remove(&files::plan_file(root, batch_id, attempt))?;
            } else if batch_id >= newest {
                needed.extend(self.reader.plan(batch_id, attempt)?.components);
            }
        }
        // Commits go last: a plan without its commit would look open.
        for batch_id in commits.into_iter().filter(|batch_id| Some(*batch_id) <= gone) {
            files::remove(&files::commit_file(root, batch_id))?;
        }
        for name in files::names(&root.join(files::COMPONENTS))? {
            if let Some(sha256) = name.strip_suffix(".wasm").filter(|sha256| !needed.contains(*sha256)) {
                files::remove(&files::component_file(root, sha256))?;
            }
        }
        Ok(())
    }

    fn write_owner(&self) -> Result<(), CheckpointError> {
        let owner = Owner {
            format: FORMAT,
            host: host_name(),
            pid: std::process::id(),
            fencing: self.fencing,
            since: UtcMicros::now(),
        };
        files::replace_json(&self.reader.root().join(files::OWNER), &owner)
    }
}

fn take_lock(reader: &CheckpointReader) -> Result<File, CheckpointError> {
    let path = reader.root().join(files::LOCK);
    let failed = |error| CheckpointError::from(LakeError::io("lock", &path, error));
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
    let owner = match reader.owner() {
        Ok(Some(owner)) => owner.to_string(),
        _ => "a process that has not written its name yet".to_owned(),
    };
    Err(CheckpointError::Owned {
        place: reader.root().display().to_string(),
        owner,
    })
}

/// Removes what a crash left half-written; the lock is ours, so nobody is writing it.
fn sweep(reader: &CheckpointReader) -> Result<(), CheckpointError> {
    let root = reader.root();
    let folders = [files::OFFSETS, files::COMMITS, files::COMPONENTS].map(|folder| root.join(folder));
    for folder in folders.into_iter().chain([root.to_path_buf()]) {
        for name in files::names(&folder)?
            .iter()
            .filter(|name| durable::is_staged_name(name))
        {
            files::remove(&folder.join(name))?;
        }
    }
    Ok(())
}

/// Instants lose their microseconds in JSON, so what was read back is compared with what would be written.
fn same_json(a: &PlannedBatch, b: &PlannedBatch) -> bool {
    match (serde_json::to_value(a), serde_json::to_value(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

fn hex_sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
