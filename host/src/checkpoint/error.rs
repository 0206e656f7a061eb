//! What can be wrong with a checkpoint, and what to do then.

use super::hosts::LeaseLost;
use super::records::StreamIdentity;
use crate::error::{Classify, ErrorKind};
use crate::lake::LakeError;
use crate::storage::Place;

/// Why a checkpoint cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The place cannot be used, or a file of it not be read or written.
    #[error(transparent)]
    Place(#[from] LakeError),
    /// A file that is cut off, or is not what its name says.
    #[error("{file} is damaged ({reason}): {advice}")]
    Damaged {
        /// The file.
        file: Place,
        /// What is wrong with it.
        reason: String,
        /// The way on.
        advice: &'static str,
    },
    /// A file of a newer sluice.
    #[error("{file} has format {found}, and this sluice knows up to {known}: upgrade sluice")]
    NewerFormat {
        /// The file.
        file: Place,
        /// Its format.
        found: u32,
        /// The newest that this build knows.
        known: u32,
    },
    /// The checkpoint of another stream.
    #[error(
        "{place} is the checkpoint of {found}, not of {wanted}: give every stream a checkpoint of its own, or set the \
         app_id back"
    )]
    Foreign {
        /// The checkpoint.
        place: String,
        /// Whose it is.
        found: Box<StreamIdentity>,
        /// Who asked.
        wanted: Box<StreamIdentity>,
    },
    /// A checkpoint in a bucket, without a lease.
    #[error(
        "{place} is in a bucket, where there is no lock that keeps two processes apart: set [ownership] mode = \"lease\", and \
         hosts to a folder for the leases, such as one in the same bucket"
    )]
    NoLock {
        /// The checkpoint.
        place: Place,
    },
    /// A repair of a checkpoint in a bucket.
    #[error(
        "{place} is in a bucket, and this sluice repairs checkpoints in folders only: stop what runs the table, copy the \
         checkpoint to a folder, name that one in a configuration of its own, repair it there, and copy it back"
    )]
    NoRepair {
        /// The checkpoint.
        place: Place,
    },
    /// Another process runs the stream.
    #[error(
        "{place} is in use by {owner}: stop that process first, or give this one another target, checkpoint and app_id"
    )]
    Owned {
        /// The checkpoint.
        place: String,
        /// The process, as far as it is known.
        owner: String,
    },
    /// A live process runs the stream under a lease.
    #[error(
        "{place} is in use by {owner}, and its lease {} is being renewed: stop that process first, or give this one \
         another target, checkpoint and app_id", file.display()
    )]
    LeaseHeld {
        /// The checkpoint.
        place: String,
        /// The process.
        owner: String,
        /// The file of its lease.
        file: Place,
    },
    /// The stream was run under a lease that is not over, and this process has only the lock.
    #[error(
        "{place} is run by {owner} under the lease {}: stop that process, or let this one take the stream over when the \
         lease runs out, with [ownership] mode = \"lease\" and that hosts folder. remove the lease when the process is \
         surely gone", file.display()
    )]
    Leased {
        /// The checkpoint.
        place: String,
        /// The process.
        owner: String,
        /// The file of its lease.
        file: Place,
    },
    /// The owner's lease is in a folder that is not seen from here.
    #[error(
        "{place} was run by {owner}, whose lease {} is in a folder that is not seen from here, so nobody can say that this \
         process is gone: name that folder, as this machine sees it, in [ownership] hosts (mode = \"lease\"). if the folder \
         is gone, make sure that the process is, and remove owner.json from the checkpoint",
        file
    )]
    HostsUnseen {
        /// The checkpoint.
        place: String,
        /// The process.
        owner: String,
        /// The file of its lease, as that process sees it.
        file: String,
    },
    /// A process ran the stream under a lease that was ended, and it may wake up.
    #[error(
        "{place} was run by {owner}, whose lease {} ran out, and it may wake up: end that process. if its machine is \
         surely gone, remove that file", file.display()
    )]
    MayWake {
        /// The checkpoint.
        place: String,
        /// The process.
        owner: String,
        /// The file of its lease.
        file: Place,
    },
    /// The stream was taken over from a process that may wake up, and its open batch is not settled.
    #[error(
        "{place} was taken over from {from}: it may wake up, and who took the table over did not get as far as to settle \
         that. a run does it; where something keeps run from it, end that process, or, if its machine is surely gone, remove \
         the file of its lease {}", file.display()
    )]
    Unsettled {
        /// The checkpoint.
        place: String,
        /// The process that may wake up.
        from: String,
        /// The file of its lease.
        file: Place,
    },
    /// `owner.json` names nobody, and there are processes that may run the stream.
    #[error(
        "{} names no owner, and {leases} may run this table: stop that process. if its machine is surely gone, remove the \
         lease's file", file.display()
    )]
    OwnerUnknown {
        /// `owner.json`.
        file: Place,
        /// The processes and the files of their leases.
        leases: String,
    },
    /// This process may not go on with its streams.
    #[error(
        "this process has lost its tables: {0}. another process can have taken them over. nothing is lost or doubled; \
         start this one again if it is to have them back, and see what kept it from running (a pause of the machine, or a \
         folder that did not answer)"
    )]
    LeaseLost(LeaseLost),
    /// Another process wrote `owner.json`.
    #[error("{place} was taken over by {owner}")]
    TakenOver {
        /// The checkpoint.
        place: String,
        /// The process.
        owner: String,
    },
    /// A plan or a commit that says something else than the one that is there.
    #[error(
        "{} is there already and says something else: another process has taken the stream over, or writes this checkpoint \
         as well", file.display()
    )]
    Conflict {
        /// The file.
        file: Place,
    },
    /// Bytes that do not have the hash that they are known by.
    #[error("component {sha256} of {place} does not have that hash: restore the file, or plan the batch anew")]
    ComponentHash {
        /// The checkpoint.
        place: String,
        /// The hash that was expected.
        sha256: String,
    },
    /// A component that an open batch needs.
    #[error("component {sha256}, under which an open batch was planned, is not in {place}: restore it")]
    ComponentMissing {
        /// The checkpoint.
        place: String,
        /// Its hash.
        sha256: String,
    },
}

impl CheckpointError {
    /// Another process holds the stream under a lease that it renews.
    pub fn is_held(&self) -> bool {
        matches!(self, CheckpointError::LeaseHeld { .. })
    }
}

impl Classify for CheckpointError {
    fn kind(&self) -> ErrorKind {
        match self {
            CheckpointError::Place(error) => error.kind(),
            CheckpointError::NoLock { .. } | CheckpointError::NoRepair { .. } => ErrorKind::Config,
            _ => ErrorKind::State,
        }
    }
}
