//! What can be wrong with a checkpoint, and what to do then.

use std::path::PathBuf;

use super::records::StreamIdentity;
use crate::error::{Classify, ErrorKind};
use crate::lake::LakeError;

/// Why a checkpoint cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The place cannot be used, or a file of it not be read or written.
    #[error(transparent)]
    Place(#[from] LakeError),
    /// A file that is cut off, or is not what its name says.
    #[error("{} is damaged ({reason}): {advice}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// The way on.
        advice: &'static str,
    },
    /// A file of a newer sluice.
    #[error("{} has format {found}, and this sluice knows up to {known}: upgrade sluice", file.display())]
    NewerFormat {
        /// The file.
        file: PathBuf,
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
    /// Another process runs the stream.
    #[error("{place} is in use by {owner}: stop that process first, or give this one another checkpoint and app_id")]
    Owned {
        /// The checkpoint.
        place: String,
        /// The process, as far as it is known.
        owner: String,
    },
    /// A plan or a commit that says something else than the one that is there.
    #[error("{} is there already and says something else: a second process may be writing this checkpoint", file.display())]
    Conflict {
        /// The file.
        file: PathBuf,
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

impl Classify for CheckpointError {
    fn kind(&self) -> ErrorKind {
        match self {
            CheckpointError::Place(error) => error.kind(),
            _ => ErrorKind::State,
        }
    }
}
