//! Reading a checkpoint, by the process that runs the stream or by one that only looks.

use super::CheckpointError;
use super::files;
use super::hosts::{self, Lease, LeaseState};
use super::records::{CommitRecord, Owner, PlannedBatch, Stopped, StreamIdentity};
use crate::identity::BatchId;
use crate::lake::LakeError;
use crate::storage::{Place, Version};

/// Where a stream is, by its checkpoint alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CheckpointState {
    /// The newest batch that is done.
    pub last_committed: Option<CommitRecord>,
    /// The newest batch with rows that is done, as far as the checkpoint knows.
    pub last_with_rows: Option<BatchId>,
    /// Its record, where that is still kept.
    pub with_rows: Option<CommitRecord>,
    /// The oldest batch whose commit the checkpoint still knows.
    pub oldest_kept: Option<BatchId>,
    /// The batch that is planned and not done, in its newest attempt.
    pub open: Option<PlannedBatch>,
}

/// Who runs a stream, in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Running {
    /// Nobody.
    Nobody,
    /// This process.
    By(String),
    /// A process whose lease ran out: the next run takes the stream over.
    RanOut(String),
    /// The folder of the owner's lease is not seen from here, so nobody knows. A run stops at that.
    Unseen(String),
}

/// Who holds the lock of a checkpoint without an owner's name in it.
pub(crate) const UNNAMED: &str = "a process that has not written its name yet";

/// Reads a checkpoint and changes nothing. Calls block on files and objects.
#[derive(Clone, Debug)]
pub struct CheckpointReader {
    root: Place,
    hosts: Option<Place>,
}

impl CheckpointReader {
    /// Of the checkpoint at that place, be there one or not.
    pub fn new(root: &Place) -> CheckpointReader {
        CheckpointReader {
            root: root.clone(),
            hosts: None,
        }
    }

    /// With the folder of the leases that the configuration names, if it names one: an owner's lease is looked for there
    /// first.
    #[must_use]
    pub fn with_hosts(self, hosts: Option<&Place>) -> CheckpointReader {
        CheckpointReader {
            hosts: hosts.cloned(),
            ..self
        }
    }

    /// The folder of the leases that the configuration names.
    pub fn hosts(&self) -> Option<&Place> {
        self.hosts.as_ref()
    }

    /// The folder.
    pub fn root(&self) -> &Place {
        &self.root
    }

    /// Whose checkpoint it is; `None` when there is none.
    pub fn identity(&self) -> Result<Option<StreamIdentity>, CheckpointError> {
        files::expect_folder(&self.root)?;
        files::read_json(&self.root.join(files::STREAM), files::ADVICE_STREAM)
    }

    /// Whether there is a checkpoint. It has to be that of `wanted`.
    pub fn expect(&self, wanted: &StreamIdentity) -> Result<bool, CheckpointError> {
        let Some(found) = self.identity()? else {
            return Ok(false);
        };
        let same = StreamIdentity {
            format: wanted.format,
            ..found.clone()
        } == *wanted;
        if same {
            return Ok(true);
        }
        Err(CheckpointError::Foreign {
            place: self.root.display().to_string(),
            found: Box::new(found),
            wanted: Box::new(wanted.clone()),
        })
    }

    /// The process that runs the stream, or ran it last.
    pub fn owner(&self) -> Result<Option<Owner>, CheckpointError> {
        files::read_json(&self.root.join(files::OWNER), files::ADVICE_OWNER)
    }

    /// The same, and, in a bucket, which content that was.
    pub(super) fn owner_version(&self) -> Result<(Option<Owner>, Option<Version>), CheckpointError> {
        let file = self.root.join(files::OWNER);
        let Some(object) = file.as_object() else {
            return Ok((self.owner()?, None));
        };
        let Some((content, version)) = files::read_object(object)? else {
            return Ok((None, None));
        };
        let owner = files::parse_json(&file, &content, files::ADVICE_OWNER)?;
        Ok((Some(owner), Some(version)))
    }

    /// Why the stream stopped, where it did and was not seen to go on since. What cannot be read says nothing.
    pub fn stopped(&self, state: &CheckpointState) -> Option<Stopped> {
        let stopped: Option<Stopped> = files::read_json(&self.root.join(files::STOPPED), "").ok().flatten();
        // A crash leaves the file behind, after the record of a batch.
        let last = state.last_committed.as_ref().map(|record| record.committed_at);
        stopped.filter(|stopped| last.is_none_or(|last| last < stopped.at))
    }

    /// Whether a process runs the stream now, or may run it: under a lease that is not over.
    pub fn is_running(&self) -> Result<bool, CheckpointError> {
        Ok(matches!(self.running()?, Running::By(_) | Running::Unseen(_)))
    }

    /// Who runs the stream now, in words.
    pub fn running(&self) -> Result<Running, CheckpointError> {
        let locked = self.is_locked()?;
        // A repair says so in the lock itself, because `owner.json` names who ran the stream.
        if let Some(repair) = files::lock_holder(&self.root).filter(|_| locked) {
            return Ok(Running::By(repair));
        }
        let owner = self.owner()?;
        let Some(owner) = owner else {
            return Ok(match locked {
                true => Running::By(UNNAMED.to_owned()),
                false => Running::Nobody,
            });
        };
        let (folder, state) = match self.lease_of(&owner) {
            Ok(Some(found)) => found,
            Ok(None) if locked => return Ok(Running::By(owner.to_string())),
            Ok(None) => return Ok(Running::Nobody),
            // It may run: nothing here says that it does not.
            Err(error @ CheckpointError::HostsUnseen { .. }) => return Ok(Running::Unseen(error.to_string())),
            Err(error) => return Err(error),
        };
        let file = |lease: &Lease| hosts::lease_file(&folder, &lease.id).display().to_string();
        Ok(match state {
            LeaseState::Missing | LeaseState::Dead(_) => Running::Nobody,
            LeaseState::Held(lease) => Running::By(format!(
                "{owner}, lease renewed at {} ({})",
                lease.renewed_at,
                file(&lease)
            )),
            LeaseState::Ended(lease) => {
                let file = file(&lease);
                let ended = lease
                    .ended
                    .map(|ended| format!(": {} ended it at {}", ended.by, ended.at));
                Running::RanOut(format!(
                    "{owner}, whose lease ran out{} ({file})",
                    ended.unwrap_or_default()
                ))
            }
        })
    }

    /// The folder and the state of the lease that an owner runs the stream under. Fails when the file is not there and no
    /// folder that is seen from here is surely the owner's.
    pub fn lease_of(&self, owner: &Owner) -> Result<Option<(Place, LeaseState)>, CheckpointError> {
        hosts::lease_of_owner(&self.root, self.hosts(), owner)
    }

    /// Whether a batch was ever planned or recorded here.
    pub fn has_batches(&self) -> Result<bool, CheckpointError> {
        Ok(!self.plan_ids()?.is_empty() || !self.commit_ids()?.is_empty())
    }

    /// Whether a process of this machine holds the lock.
    pub(crate) fn is_locked(&self) -> Result<bool, CheckpointError> {
        let Some(path) = files::lock_file(&self.root)? else {
            return Ok(false);
        };
        let failed = |error| CheckpointError::from(LakeError::io("look at the lock", &path, error));
        let file = match std::fs::File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        // Held for an instant only; a runner that starts in that instant tries again.
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(std::fs::TryLockError::WouldBlock) => Ok(true),
            Err(std::fs::TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Where the stream is.
    pub fn latest(&self) -> Result<CheckpointState, CheckpointError> {
        // Plans first: under a lease, the owner before may still end a batch and plan the next one while this is read.
        let plans = self.plan_ids()?;
        let commits = self.commit_ids()?;
        let last_committed = match commits.last() {
            Some(newest) => Some(self.commit(*newest)?),
            None => None,
        };
        if let Some(last) = &last_committed {
            self.expect_own(last)?;
        }
        let mut last_with_rows = None;
        let mut with_rows = None;
        let mut looking = commits.last().copied();
        while let Some(batch_id) = looking {
            let commit = match &last_committed {
                Some(last) if last.batch_id == batch_id => last.clone(),
                _ => self.commit(batch_id)?,
            };
            // A batch whose version could not be found out had rows all the same.
            if commit.delta_version.is_some() || commit.facts.rows > Some(0) {
                last_with_rows = Some(batch_id);
                with_rows = Some(commit);
                break;
            }
            // The number may be known to a batch without rows, while the record is still there.
            last_with_rows = last_with_rows.max(commit.last_with_rows.filter(|last| *last < batch_id));
            looking = match last_with_rows.filter(|last| *last < batch_id) {
                Some(last) => commits.binary_search(&last).is_ok().then_some(last),
                None => commits.iter().rev().find(|earlier| **earlier < batch_id).copied(),
            };
        }
        let done = commits.last().copied();
        let newest_plan = plans.into_iter().filter(|(batch_id, _)| Some(*batch_id) > done).max();
        let open = match newest_plan {
            Some((batch_id, attempt)) => Some(self.plan(batch_id, attempt)?),
            None => None,
        };
        let next = done.map_or(0, |done| done.0 + 1);
        if let Some(open) = open.as_ref().filter(|open| open.batch_id.0 != next) {
            let file = files::commit_file(&self.root, BatchId(open.batch_id.0 - 1));
            let reason = format!(
                "batch {} is planned and the batch before it has no commit",
                open.batch_id
            );
            return Err(files::damaged(&file, reason, files::ADVICE_COMMIT));
        }
        let end = last_committed.as_ref().and_then(CommitRecord::position);
        if let (Some(open), Some(end)) = (&open, end)
            && let Some(reason) = open.fault_after(end)
        {
            let file = files::plan_file(&self.root, open.batch_id, open.attempt);
            return Err(files::damaged(&file, reason, files::ADVICE_PLAN));
        }
        Ok(CheckpointState {
            last_committed,
            last_with_rows,
            with_rows,
            oldest_kept: commits.first().copied(),
            open,
        })
    }

    /// A record has to be this stream's, where the checkpoint says whose it is.
    fn expect_own(&self, record: &CommitRecord) -> Result<(), CheckpointError> {
        let Some(identity) = self.identity()? else {
            return Ok(());
        };
        if record.facts.app_id == identity.app_id.0 {
            return Ok(());
        }
        let file = files::commit_file(&self.root, record.batch_id);
        let reason = format!("it is a record of app_id {}", record.facts.app_id);
        Err(files::damaged(&file, reason, files::ADVICE_OTHERS))
    }

    /// The plan of the last batch, when that batch was closed without being read: the stream is not where the plan ends.
    pub fn closed_plan(&self, last: &CommitRecord) -> Result<Option<PlannedBatch>, CheckpointError> {
        if !last.is_closed() {
            return Ok(None);
        }
        let attempts = self.plan_ids()?;
        let newest = attempts.into_iter().rfind(|(batch_id, _)| *batch_id == last.batch_id);
        newest
            .map(|(batch_id, attempt)| self.plan(batch_id, attempt))
            .transpose()
    }

    /// The commits that are newer than a batch, oldest first: what the facts table may lack.
    pub fn commits_after(&self, batch_id: Option<BatchId>) -> Result<Vec<CommitRecord>, CheckpointError> {
        let ids = self.commit_ids()?.into_iter().filter(|id| Some(*id) > batch_id);
        ids.map(|id| self.commit(id)).collect()
    }

    /// The highest transaction id that records say the quarantine table has of the stream. All that are kept are asked: those of a
    /// sluice that did not write it tell of their own rows alone. One that cannot be read tells nothing; whoever needs it says so.
    pub fn quarantined(&self) -> Result<Option<i64>, CheckpointError> {
        let mut highest = None;
        let ids = self.commit_ids()?;
        let kept: Vec<Place> = ids.iter().map(|id| files::commit_file(&self.root, *id)).collect();
        let kept = match files::read_all(&kept, files::ADVICE_COMMIT) {
            // One that is no file.
            Err(CheckpointError::Damaged { .. }) => vec![None; ids.len()],
            kept => kept?,
        };
        for (batch_id, content) in ids.into_iter().zip(kept) {
            let commit = match content {
                Some(content) => self.commit_of(batch_id, &content),
                None => self.commit(batch_id),
            };
            match commit {
                Ok(commit) => highest = highest.max(commit.quarantined()),
                Err(CheckpointError::Damaged { .. } | CheckpointError::NewerFormat { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(highest)
    }

    /// The file with the bytes of a component, if there is one. What is in it is not looked at.
    pub fn kept_component(&self, sha256: &str) -> Option<Place> {
        let file = files::component_file(&self.root, sha256);
        let is_there = matches!(files::read_bytes(&file, files::ADVICE_COMPONENT), Ok(Some(_)));
        is_there.then_some(file)
    }

    /// Batches that are done and still known, oldest first.
    pub(super) fn commit_ids(&self) -> Result<Vec<BatchId>, CheckpointError> {
        let names = files::names(&self.root.join(files::COMMITS))?;
        let mut ids: Vec<BatchId> = names.iter().filter_map(|name| files::parse_commit_name(name)).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Attempts that are planned and still known, oldest first.
    pub(super) fn plan_ids(&self) -> Result<Vec<(BatchId, u32)>, CheckpointError> {
        let names = files::names(&self.root.join(files::OFFSETS))?;
        let mut ids: Vec<_> = names.iter().filter_map(|name| files::parse_plan_name(name)).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// One attempt at a batch.
    pub(super) fn plan(&self, batch_id: BatchId, attempt: u32) -> Result<PlannedBatch, CheckpointError> {
        let file = files::plan_file(&self.root, batch_id, attempt);
        let plan: PlannedBatch = files::read_json(&file, files::ADVICE_PLAN)?
            .ok_or_else(|| files::damaged(&file, "it is gone".to_owned(), files::ADVICE_PLAN))?;
        match plan.fault(batch_id, attempt) {
            Some(reason) => Err(files::damaged(&file, reason, files::ADVICE_PLAN)),
            None => Ok(plan),
        }
    }

    /// The commit of a batch.
    pub(super) fn commit(&self, batch_id: BatchId) -> Result<CommitRecord, CheckpointError> {
        let file = files::commit_file(&self.root, batch_id);
        let content = files::read_bytes(&file, files::ADVICE_COMMIT)?
            .ok_or_else(|| files::damaged(&file, "it is gone".to_owned(), files::ADVICE_COMMIT))?;
        self.commit_of(batch_id, &content)
    }

    /// The commit of a batch, whose file holds this.
    fn commit_of(&self, batch_id: BatchId, content: &[u8]) -> Result<CommitRecord, CheckpointError> {
        let file = files::commit_file(&self.root, batch_id);
        let commit: CommitRecord = files::parse_json(&file, content, files::ADVICE_COMMIT)?;
        match commit.fault(batch_id) {
            Some(reason) => Err(files::damaged(&file, reason, files::ADVICE_COMMIT)),
            None => Ok(commit),
        }
    }
}
