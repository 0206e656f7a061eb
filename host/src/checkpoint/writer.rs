//! The checkpoint in the hands of the one process that runs the stream.

use std::collections::HashSet;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::files;
use super::hold::{LOCK_PATIENCE, LOCK_PATIENCE_LEASED, expect_lease_over, take_lock};
use super::hosts::ProcessLease;
use super::records::{CommitRecord, FORMAT, Owner, PlannedBatch, Stopped, StreamIdentity, Unsettled};
use super::{CheckpointError, CheckpointReader, CheckpointState};
use crate::error::ErrorKind;
use crate::identity::{BatchId, host_name};
use crate::lake::LakeError;
use crate::lake::durable::{self, Published};
use crate::lsn::UtcMicros;
use crate::sha256;
use crate::storage::{Place, Version};

/// Batches that are kept after they are done.
pub(crate) const KEPT: usize = 100;
/// A checkpoint that this process owns. Clones share the ownership; it ends with the last of them, or with the process.
/// Calls block on files and objects: run them off the runtime's threads, as [`Checkpoint::open`] says.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    reader: CheckpointReader,
    owner: Owner,
    hold: Hold,
    /// Whether there is a file that says why the stream stopped, as far as this process knows.
    has_stop: Arc<AtomicBool>,
    /// Components that are surely kept: in a bucket, to look whether one is there costs as much as to write it.
    kept: Arc<Mutex<HashSet<String>>>,
}

/// How often `owner.json` is read again when somebody else wrote it in between.
const SWAPS: usize = 8;

/// What makes the checkpoint this process's.
#[derive(Clone, Debug)]
enum Hold {
    /// The system frees the lock when the file is closed, also when the process is killed.
    Lock(#[allow(dead_code, reason = "held, not read")] Arc<File>),
    Lease(Arc<ProcessLease>),
}

impl Checkpoint {
    /// Takes the checkpoint for this process by the operating system's lock, after creating it when there is none.
    /// Everything here writes and syncs local files, so call it (and the other methods) in `spawn_blocking` or
    /// `block_in_place`.
    ///
    /// Fails when another process has it (naming that one), or when it belongs to another stream (naming both).
    pub fn open(root: &Place, identity: &StreamIdentity) -> Result<Checkpoint, CheckpointError> {
        let reader = CheckpointReader::new(root);
        let Some(lock) = prepare(&reader, identity, LOCK_PATIENCE)? else {
            return Err(CheckpointError::NoLock { place: root.clone() });
        };
        let before = reader.owner()?;
        let may_wake = match &before {
            Some(owner) => expect_lease_over(&reader, owner)?,
            None => false,
        };
        let place = root.clone();
        let taken = Checkpoint::take(reader, Hold::Lock(Arc::new(lock)), (before, None), may_wake)?;
        taken.ok_or(CheckpointError::NoLock { place })
    }

    /// Takes the checkpoint for this process under its lease. `before` is the owner that it was found to have, whose hold on
    /// the stream is over, and `may_wake` says whether that process may still wake up. `None` when the checkpoint has
    /// another owner by now, who is to be looked at first.
    pub fn open_leased(
        root: &Place,
        identity: &StreamIdentity,
        lease: &Arc<ProcessLease>,
        before: Option<&Owner>,
        may_wake: bool,
    ) -> Result<Option<Checkpoint>, CheckpointError> {
        let reader = CheckpointReader::new(root);
        // A process that has the lock for its life runs the stream in mode "lock".
        let patience = match before {
            Some(before) if before.lease.is_none() => LOCK_PATIENCE,
            _ => LOCK_PATIENCE_LEASED,
        };
        let _turn = prepare(&reader, identity, patience)?;
        let (there, version) = reader.owner_version()?;
        if there.as_ref() != before {
            return Ok(None);
        }
        lease.check().map_err(CheckpointError::LeaseLost)?;
        Checkpoint::take(reader, Hold::Lease(Arc::clone(lease)), (there, version), may_wake)
    }

    /// Writes `owner.json`. The lock is this process's; where there is none, in a bucket, the file has to be as it was read.
    /// `None` when it is not.
    fn take(
        reader: CheckpointReader,
        hold: Hold,
        (before, version): (Option<Owner>, Option<Version>),
        may_wake: bool,
    ) -> Result<Option<Checkpoint>, CheckpointError> {
        sweep(&reader)?;
        let lease = match &hold {
            Hold::Lock(_) => None,
            Hold::Lease(lease) => Some(lease),
        };
        let owner = Owner {
            format: FORMAT,
            host: host_name(),
            pid: std::process::id(),
            fencing: before.as_ref().map_or(0, |owner| owner.fencing) + 1,
            since: UtcMicros::now(),
            lease: lease.map(|lease| lease.id().to_owned()),
            hosts: lease.map(|lease| lease.hosts().to_string()),
            hosts_id: lease.map(|lease| lease.hosts_id().to_owned()),
            unsettled: unsettled(lease.is_some(), before, may_wake),
        };
        let file = reader.root().join(files::OWNER);
        match file.as_object() {
            None => files::replace_json(&file, &owner)?,
            Some(object) if !files::swap_object(object, version.as_ref(), &files::to_json(&file, &owner)?)? => {
                return Ok(None);
            }
            Some(_) => {}
        }
        let stopped = reader.root().join(files::STOPPED);
        let has_stop = match stopped.as_local() {
            Some(path) => std::fs::symlink_metadata(path).is_ok(),
            None => files::read_bytes(&stopped, "")?.is_some(),
        };
        Ok(Some(Checkpoint {
            reader,
            owner,
            hold,
            has_stop: Arc::new(AtomicBool::new(has_stop)),
            kept: Arc::default(),
        }))
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
        self.owner.fencing
    }

    /// Whom the stream was taken over from, while what they wrote may still arrive: nobody after [`Checkpoint::settled`].
    pub fn unsettled(&self) -> &[Unsettled] {
        &self.owner.unsettled
    }

    /// The claim is committed and the batch closed, so it no longer matters what the owners before do.
    pub fn settled(&mut self) -> Result<(), CheckpointError> {
        if self.owner.unsettled.is_empty() {
            return Ok(());
        }
        let owner = Owner {
            unsettled: Vec::new(),
            ..self.owner.clone()
        };
        self.write_owner(&owner, Number::Claimed)?;
        self.owner = owner;
        Ok(())
    }

    /// Whether this process runs the stream under a lease.
    pub fn is_leased(&self) -> bool {
        matches!(self.hold, Hold::Lease(_))
    }

    /// Under a lease, the process that has taken the stream over, if one has; or that counted to the same fencing number at
    /// the same time, where locks do not reach. Bronze says which of those two has it.
    pub fn successor(&self) -> Result<Option<Owner>, CheckpointError> {
        Ok(self.reader.owner()?.filter(|there| self.is_foreign(there)))
    }

    fn is_foreign(&self, there: &Owner) -> bool {
        // Its own number may have risen since.
        there.lease != self.owner.lease && there.fencing >= self.owner.fencing
    }

    /// Fails when this process has lost its lease.
    pub fn check_lease(&self) -> Result<(), CheckpointError> {
        match &self.hold {
            Hold::Lock(_) => Ok(()),
            Hold::Lease(lease) => lease.check().map_err(CheckpointError::LeaseLost),
        }
    }

    /// Takes a fencing number above the one that bronze has, if it does not have one: `owner.json` can have been lost.
    pub fn fence_above(&mut self, recorded: Option<i64>) -> Result<i64, CheckpointError> {
        if let Some(recorded) = recorded.filter(|recorded| *recorded >= self.owner.fencing) {
            let owner = Owner {
                fencing: recorded + 1,
                since: UtcMicros::now(),
                ..self.owner.clone()
            };
            self.write_owner(&owner, Number::Counted)?;
            self.owner = owner;
        }
        Ok(self.owner.fencing)
    }

    /// Writes a plan, before anything of the batch is read. To repeat the same plan is no error.
    pub fn plan(&self, plan: &PlannedBatch) -> Result<(), CheckpointError> {
        self.check_lease()?;
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
        self.check_lease()?;
        let file = files::commit_file(self.reader.root(), commit.batch_id);
        if files::publish_json(&file, commit)? == Published::Exists {
            let there = self.reader.commit(commit.batch_id)?;
            if there.attempt != commit.attempt || there.end.lsn != commit.end.lsn {
                return Err(CheckpointError::Conflict { file });
            }
        }
        self.went_on();
        self.stay_named()
    }

    /// Writes why the stream stops, for the people who look at it later. Who has lost the stream says nothing about it, and
    /// where it cannot be written, the error is told all the same.
    pub fn stopped(&self, error: String, kind: ErrorKind) {
        if self.check_lease().is_err() {
            return;
        }
        self.has_stop.store(true, Ordering::Relaxed);
        keep_stop(self.reader.root(), error, kind);
    }

    /// Whether [`Checkpoint::went_on`] has something to do.
    pub fn has_stop(&self) -> bool {
        self.has_stop.load(Ordering::Relaxed)
    }

    /// A batch is done, or there is nothing more to do: whatever stopped the stream before is over.
    pub fn went_on(&self) {
        if !self.has_stop.swap(false, Ordering::Relaxed) {
            return;
        }
        let file = self.reader.root().join(files::STOPPED);
        if let Err(error) = files::remove(&file) {
            tracing::warn!(%file, %error, "could not remove why the stream stopped before");
        }
    }

    /// `owner.json` names this process still, or a successor. It can be lost, or name a process that counted to the same
    /// number and was refused by bronze: whoever looks for the owner would then take this one for gone.
    fn stay_named(&self) -> Result<(), CheckpointError> {
        if !self.is_leased() {
            return Ok(());
        }
        match self.reader.owner() {
            Ok(Some(there)) if there.fencing > self.owner.fencing || there.lease == self.owner.lease => Ok(()),
            Ok(_) | Err(CheckpointError::Damaged { .. }) => self.write_owner(&self.owner, Number::Claimed),
            Err(error) => Err(error),
        }
    }

    /// Writes that a batch which bronze lacks is closed without being read. What is there under its number stands: the owner
    /// before can have recorded the batch until this. Whether it was this process that closed it.
    pub fn close(&self, closed: &CommitRecord) -> Result<bool, CheckpointError> {
        self.check_lease()?;
        let file = files::commit_file(self.reader.root(), closed.batch_id);
        Ok(files::publish_json(&file, closed)? == Published::Written)
    }

    /// Keeps the bytes of a component that an open batch may need. Gives its SHA-256 in lower-case hex.
    pub fn save_component(&self, bytes: &[u8]) -> Result<String, CheckpointError> {
        let sha256 = sha256::hex(bytes);
        let file = files::component_file(self.reader.root(), &sha256);
        let in_a_bucket = file.as_object().is_some();
        if in_a_bucket && self.kept().contains(&sha256) {
            return Ok(sha256);
        }
        if files::publish_bytes(&file, bytes)? == Published::Exists && self.load_component(&sha256).is_err() {
            match file.split() {
                Ok(path) => durable::replace(path, bytes).map_err(|error| LakeError::io("write", path, error))?,
                Err(object) => object
                    .write(bytes)
                    .map_err(|error| LakeError::store("write", object, error))?,
            }
        }
        self.kept().insert(sha256.clone());
        Ok(sha256)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        // It is whole after every step.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of a component that an open batch was planned with.
    pub fn load_component(&self, sha256: &str) -> Result<Vec<u8>, CheckpointError> {
        let place = || self.reader.root().display().to_string();
        let file = files::component_file(self.reader.root(), sha256);
        let Some(bytes) = files::read_bytes(&file, files::ADVICE_COMPONENT)? else {
            return Err(CheckpointError::ComponentMissing {
                place: place(),
                sha256: sha256.to_owned(),
            });
        };
        if sha256::hex(&bytes) != sha256 {
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
        self.check_lease()?;
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
                self.kept().remove(sha256);
                files::remove(&files::component_file(root, sha256))?;
            }
        }
        Ok(())
    }

    /// Writes `owner.json` anew, if it is still this process that it names.
    fn write_owner(&self, owner: &Owner, number: Number) -> Result<(), CheckpointError> {
        let file = self.reader.root().join(files::OWNER);
        let is_over = |there: &Owner| match number {
            Number::Counted => self.is_foreign(there),
            Number::Claimed => there.fencing > self.owner.fencing,
        };
        let taken_over = |successor: Owner| CheckpointError::TakenOver {
            place: self.reader.root().display().to_string(),
            owner: successor.to_string(),
        };
        if let Some(object) = file.as_object() {
            let content = files::to_json(&file, owner)?;
            for _ in 0..SWAPS {
                self.check_lease()?;
                let (there, version) = match self.reader.owner_version() {
                    Err(CheckpointError::Damaged { .. }) => (None, files::read_object(object)?.map(|read| read.1)),
                    there => there?,
                };
                if let Some(successor) = there.filter(is_over) {
                    return Err(taken_over(successor));
                }
                if files::swap_object(object, version.as_ref(), &content)? {
                    return Ok(());
                }
            }
            return Err(CheckpointError::Conflict { file });
        }
        let _turn = match &self.hold {
            Hold::Lock(_) => None,
            Hold::Lease(_) => {
                let turn = take_lock(&self.reader, LOCK_PATIENCE_LEASED)?;
                self.check_lease()?;
                let there = match self.reader.owner() {
                    Err(CheckpointError::Damaged { .. }) => None,
                    there => there?,
                };
                if let Some(successor) = there.filter(is_over) {
                    return Err(taken_over(successor));
                }
                turn
            }
        };
        files::replace_json(&file, owner)
    }
}

/// Whom a process has to settle with before it goes on (`docs/decisions/0009`): under a lease everybody, also itself when it
/// opens the stream once more, because `owner.json` need not name all who were at work, and what a dead process wrote to a
/// shared folder can still arrive. A lock is what nobody else has.
fn unsettled(is_leased: bool, before: Option<Owner>, may_wake: bool) -> Vec<Unsettled> {
    let Some(before) = before else {
        let nobody = Unsettled { owner: None, may_wake };
        return Vec::from_iter(is_leased.then_some(nobody));
    };
    let both_locked = !is_leased && before.lease.is_none();
    if !may_wake && both_locked {
        return before.unsettled;
    }
    // Of those that are gone one is enough to say that there is something to settle.
    let mut unsettled: Vec<Unsettled> = before.unsettled.iter().filter(|from| from.may_wake).cloned().collect();
    unsettled.push(Unsettled {
        owner: Some(Box::new(Owner {
            unsettled: Vec::new(),
            ..before
        })),
        may_wake,
    });
    unsettled
}

/// How this process has its fencing number.
#[derive(Clone, Copy)]
enum Number {
    /// It counted to it. Another can have done so at the same time, and goes on when it was the later.
    Counted,
    /// Bronze, or the record of a batch, has it from this process.
    Claimed,
}

/// Makes the folders and takes the lock, which there is none of in a bucket; the checkpoint is that of `identity` then.
fn prepare(
    reader: &CheckpointReader,
    identity: &StreamIdentity,
    patience: Duration,
) -> Result<Option<File>, CheckpointError> {
    let root = reader.root();
    for folder in [files::OFFSETS, files::COMMITS, files::COMPONENTS] {
        files::create_folder(&root.join(folder))?;
    }
    let lock = take_lock(reader, patience)?;
    let file = root.join(files::STREAM);
    if files::publish_json(&file, identity)? == Published::Exists && !reader.expect(identity)? {
        return Err(files::damaged(&file, "it is gone".to_owned(), files::ADVICE_STREAM));
    }
    Ok(lock)
}

/// Removes what a crash left half-written; the stream is ours, so nobody who may go on with it is writing it.
fn sweep(reader: &CheckpointReader) -> Result<(), CheckpointError> {
    let root = reader.root();
    // An object is whole or not there.
    if root.as_object().is_some() {
        return Ok(());
    }
    let folders = [files::OFFSETS, files::COMMITS, files::COMPONENTS].map(|folder| root.join(folder));
    for folder in folders.into_iter().chain([root.clone()]) {
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

/// Writes why a stream stopped that could not be opened, where it has a checkpoint and nobody else runs it now. Whether that is
/// so. `own` is the lease of this process, under which it may have had the stream until now.
pub fn stopped_unopened(
    reader: &CheckpointReader,
    own: Option<&str>,
    error: String,
    kind: ErrorKind,
) -> Result<bool, CheckpointError> {
    let owner = reader.owner()?;
    let was_own = own.is_some() && owner.and_then(|owner| owner.lease).as_deref() == own;
    let is_ours_to_say = reader.identity()?.is_some() && (was_own || !reader.is_running()?);
    if is_ours_to_say {
        keep_stop(reader.root(), error, kind);
    }
    Ok(is_ours_to_say)
}

fn keep_stop(root: &Place, error: String, kind: ErrorKind) {
    let stopped = Stopped {
        format: FORMAT,
        at: UtcMicros::now(),
        error,
        kind: Some(kind),
    };
    let file = root.join(files::STOPPED);
    // Not as the other files, which a planted fault is for: nothing depends on this one.
    let written = files::to_json(&file, &stopped).and_then(|json| match file.split() {
        Ok(path) => durable::replace(path, &json).map_err(|error| LakeError::io("write", path, error).into()),
        Err(_) => files::replace_json(&file, &stopped),
    });
    if let Err(error) = written {
        tracing::warn!(%file, %error, "could not write why the stream stopped");
    }
}
