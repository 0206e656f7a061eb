//! A checkpoint's files one by one, whatever state they are in. Nothing is written.

use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

use super::ledger::chain_of;
use crate::checkpoint::{
    CheckpointError, CheckpointReader, CommitRecord, Owner, PlannedBatch, Running, StreamIdentity, files,
    may_still_wake, others, owner_unknown,
};
use crate::identity::BatchId;
use crate::lake::durable;
use crate::sha256;
use crate::storage::Place;

/// Records are kept one after the other, so one so far above the others is none of them.
const WIDEST_GAP: i64 = 1_000_000;

/// A file that is there.
#[derive(Clone, Debug)]
pub(super) enum Seen<T> {
    /// It says what its name promises.
    Whole(T),
    /// It does not, for this reason.
    Broken(String),
    /// A newer sluice wrote it.
    Newer(u32),
}

impl<T> Seen<T> {
    pub(super) fn whole(&self) -> Option<&T> {
        match self {
            Seen::Whole(content) => Some(content),
            Seen::Broken(_) | Seen::Newer(_) => None,
        }
    }
}

/// All that a checkpoint's folder holds.
#[derive(Clone, Debug, Default)]
pub(super) struct CheckpointFiles {
    pub(super) root: Place,
    /// The process that runs the stream now.
    pub(super) running: Option<String>,
    /// A process whose lease ran out.
    pub(super) ran_out: Option<String>,
    /// Whom the table was taken over from, who may wake up, and with whom nobody has settled; and the file of that lease.
    pub(super) may_wake: Option<(String, String)>,
    /// That no file names the owner, and which processes may be it.
    pub(super) may_run: Option<String>,
    /// That the folder of the owner's lease is not seen from here.
    pub(super) unseen: Option<String>,
    /// The file of the owner's lease, when a newer sluice wrote it.
    pub(super) newer_lease: Option<(Place, u32)>,
    /// The file of the owner's lease, when it cannot be read, and why.
    pub(super) bad_lease: Option<(Place, String)>,
    /// What is wrong with the lock.
    pub(super) bad_lock: Option<String>,
    pub(super) stream: Option<Seen<StreamIdentity>>,
    pub(super) owner: Option<Seen<Owner>>,
    pub(super) commits: BTreeMap<i64, Seen<CommitRecord>>,
    pub(super) plans: BTreeMap<(i64, u32), Seen<PlannedBatch>>,
    /// By SHA-256: whether the bytes have it.
    pub(super) components: BTreeMap<String, bool>,
    /// Files that a crash left half-written.
    pub(super) temporary: Vec<Place>,
    /// Files that are none of a checkpoint's.
    pub(super) strangers: Vec<Place>,
}

impl CheckpointFiles {
    /// Reads what is there. An error is a file that the system does not let us read.
    /// `hosts` is where leases are by the configuration.
    pub(super) fn read(location: &Place, hosts: Option<&Place>) -> Result<CheckpointFiles, CheckpointError> {
        let reader = CheckpointReader::new(location).with_hosts(hosts);
        let root = reader.root().clone();
        let mut found = CheckpointFiles {
            stream: seen(&root.join(files::STREAM))?,
            owner: seen(&root.join(files::OWNER))?,
            root,
            ..CheckpointFiles::default()
        };
        found.look_who_runs(&reader)?;
        found.look_who_may_run(&reader)?;
        found.look_who_may_wake(&reader)?;
        found.read_commits()?;
        found.read_plans()?;
        found.read_components()?;
        found.look_around()?;
        Ok(found)
    }

    /// Who runs the stream, also when the files that say so are damaged.
    fn look_who_runs(&mut self, reader: &CheckpointReader) -> Result<(), CheckpointError> {
        let (file, reason) = match reader.running() {
            Ok(Running::Nobody) => return Ok(()),
            Ok(Running::By(owner)) => {
                self.running = Some(owner);
                return Ok(());
            }
            Ok(Running::RanOut(owner)) => {
                self.ran_out = Some(owner);
                return Ok(());
            }
            Ok(Running::Unseen(reason)) => {
                self.unseen = Some(reason);
                return Ok(());
            }
            Err(CheckpointError::Damaged { file, reason, .. }) => (file, reason),
            Err(CheckpointError::NewerFormat { file, found, .. }) if file != self.root.join(files::OWNER) => {
                self.newer_lease = Some((file, found));
                return Ok(());
            }
            Err(CheckpointError::NewerFormat { file, .. }) => (file, String::new()),
            Err(error) => return Err(error),
        };
        if file == self.root.join(files::LOCK) {
            self.bad_lock = Some(reason);
            return Ok(());
        }
        if file != self.root.join(files::OWNER) {
            self.bad_lease = Some((file, reason));
        }
        let unnamed = "a process whose name cannot be read".to_owned();
        self.running = reader.is_locked()?.then_some(unnamed);
        Ok(())
    }

    /// Where no file names the owner, each process with a lease may be it.
    fn look_who_may_run(&mut self, reader: &CheckpointReader) -> Result<(), CheckpointError> {
        let Some(hosts) = reader
            .hosts()
            .filter(|_| self.owner.as_ref().and_then(Seen::whole).is_none())
        else {
            return Ok(());
        };
        match others(hosts, None) {
            Ok(leases) if leases.is_empty() => {}
            Ok(leases) => self.may_run = Some(owner_unknown(reader, hosts, &leases).to_string()),
            Err(CheckpointError::Damaged { file, reason, .. }) => self.bad_lease = Some((file, reason)),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn look_who_may_wake(&mut self, reader: &CheckpointReader) -> Result<(), CheckpointError> {
        let Some(owner) = self.owner.as_ref().and_then(Seen::whole) else {
            return Ok(());
        };
        self.may_wake = match may_still_wake(reader, owner) {
            Ok(found) => found.map(|(owner, file)| (owner, file.to_string())),
            // Nothing here says that it is gone.
            Err(CheckpointError::HostsUnseen { owner, file, .. }) => Some((owner, file)),
            Err(CheckpointError::Damaged { file, reason, .. }) => {
                self.bad_lease = Some((file, reason));
                None
            }
            Err(error) => return Err(error),
        };
        Ok(())
    }

    fn read_commits(&mut self) -> Result<(), CheckpointError> {
        let folder = self.root.join(files::COMMITS);
        for name in files::names(&folder)? {
            let path = folder.join(&name);
            match files::parse_commit_name(&name) {
                Some(batch) if path == files::commit_file(&self.root, batch) => {
                    let mut commit = seen::<CommitRecord>(&path)?;
                    if let Some(fault) = commit.as_ref().and_then(|commit| fault(commit.whole()?, batch)) {
                        commit = Some(Seen::Broken(fault));
                    }
                    self.commits.extend(commit.map(|commit| (batch.0, commit)));
                }
                _ => self.note(path, &name),
            }
        }
        let mut before = None;
        for (batch, commit) in &mut self.commits {
            if before.is_some_and(|before| batch - before > WIDEST_GAP) {
                *commit = Seen::Broken("no other record leads up to it".to_owned());
            } else {
                before = Some(*batch);
            }
        }
        Ok(())
    }

    fn read_plans(&mut self) -> Result<(), CheckpointError> {
        let folder = self.root.join(files::OFFSETS);
        for name in files::names(&folder)? {
            let path = folder.join(&name);
            match files::parse_plan_name(&name) {
                Some((batch, attempt)) if path == files::plan_file(&self.root, batch, attempt) => {
                    let mut plan = seen::<PlannedBatch>(&path)?;
                    if let Some(fault) = plan.as_ref().and_then(|plan| plan.whole()?.fault(batch, attempt)) {
                        plan = Some(Seen::Broken(fault));
                    }
                    self.plans.extend(plan.map(|plan| ((batch.0, attempt), plan)));
                }
                _ => self.note(path, &name),
            }
        }
        Ok(())
    }

    fn read_components(&mut self) -> Result<(), CheckpointError> {
        let folder = self.root.join(files::COMPONENTS);
        for name in files::names(&folder)? {
            let path = folder.join(&name);
            match name.strip_suffix(".wasm") {
                Some(sha256) if sha256.len() == 64 => {
                    let is_right = match files::read_bytes(&path, "") {
                        Ok(Some(bytes)) => sha256::hex(&bytes) == sha256,
                        Ok(None) => continue,
                        Err(CheckpointError::Damaged { .. }) => false,
                        Err(error) => return Err(error),
                    };
                    self.components.insert(sha256.to_owned(), is_right);
                }
                _ => self.note(path, &name),
            }
        }
        Ok(())
    }

    fn look_around(&mut self) -> Result<(), CheckpointError> {
        const OURS: [&str; 8] = [
            files::STREAM,
            files::OWNER,
            files::STOPPED,
            files::LOCK,
            files::OFFSETS,
            files::COMMITS,
            files::COMPONENTS,
            "hosts",
        ];
        for name in files::names(&self.root)? {
            if !OURS.contains(&name.as_str()) {
                self.note(self.root.join(&name), &name);
            }
        }
        Ok(())
    }

    fn note(&mut self, path: Place, name: &str) {
        match durable::is_staged_name(name) {
            true => self.temporary.push(path),
            false => self.strangers.push(path),
        }
    }

    /// Whether nothing of a checkpoint is there.
    pub(super) fn is_empty(&self) -> bool {
        self.stream.is_none() && self.commits.is_empty() && self.plans.is_empty()
    }

    pub(super) fn commit(&self, batch: i64) -> Option<&CommitRecord> {
        self.commits.get(&batch)?.whole()
    }

    /// The attempts at a batch, oldest first.
    pub(super) fn attempts(&self, batch: i64) -> impl Iterator<Item = (u32, &Seen<PlannedBatch>)> {
        self.plans
            .range((batch, 0)..=(batch, u32::MAX))
            .map(|((_, attempt), plan)| (*attempt, plan))
    }

    pub(super) fn commit_file(&self, batch: i64) -> Place {
        files::commit_file(&self.root, BatchId(batch))
    }

    pub(super) fn plan_file(&self, batch: i64, attempt: u32) -> Place {
        files::plan_file(&self.root, BatchId(batch), attempt)
    }
}

/// What a record says that cannot be.
fn fault(record: &CommitRecord, batch: BatchId) -> Option<String> {
    record.fault(batch).or_else(|| {
        let ran = chain_of(&record.facts)?;
        (record.chain != ran).then(|| "it names another chain of transforms than its own facts".to_owned())
    })
}

/// Reads a file; `None` when there is none (any more).
fn seen<T: DeserializeOwned>(file: &Place) -> Result<Option<Seen<T>>, CheckpointError> {
    match files::read_json(file, "") {
        Ok(content) => Ok(content.map(Seen::Whole)),
        Err(CheckpointError::Damaged { reason, .. }) => Ok(Some(Seen::Broken(reason))),
        Err(CheckpointError::NewerFormat { found, .. }) => Ok(Some(Seen::Newer(found))),
        Err(error) => Err(error),
    }
}
