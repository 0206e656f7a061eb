//! Taking a checkpoint's lock, and what has to be known of the owner before.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::Duration;

use super::files;
use super::hosts::{self, LeaseState};
use super::records::Owner;
use super::{CheckpointError, CheckpointReader};
use crate::lake::LakeError;

/// A reader that looks whether the stream runs holds the lock for an instant, a process that takes the stream over under a
/// lease for a few writes.
pub(super) const LOCK_ATTEMPTS: u32 = 5;
pub(super) const LOCK_ATTEMPTS_LEASED: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(40);

/// Takes the lock of a checkpoint that nobody runs, and that nobody who slept can go on with, until it is dropped: for a
/// repair, which claims nothing. A damaged `owner.json` is no obstacle by itself, because it may be what is repaired.
pub(crate) fn lock_unowned(reader: &CheckpointReader) -> Result<File, CheckpointError> {
    files::create_folder(reader.root())?;
    let lock = take_lock(reader, LOCK_ATTEMPTS)?;
    let owner = match reader.owner() {
        Ok(owner) => owner,
        Err(CheckpointError::Damaged { .. } | CheckpointError::NewerFormat { .. }) => None,
        Err(error) => return Err(error),
    };
    let Some(owner) = owner else {
        expect_no_leases(reader)?;
        return Ok(lock);
    };
    if let Some(from) = owner.taken_from.clone() {
        let place = reader.root().display().to_string();
        return Err(CheckpointError::Unsettled { place, from });
    }
    match reader.lease_of(&owner, None)? {
        Some((hosts, LeaseState::Ended(lease))) => Err(CheckpointError::MayWake {
            place: reader.root().display().to_string(),
            owner: owner.to_string(),
            file: hosts::lease_file(&hosts, &lease.id),
        }),
        _ => expect_lease_over(reader, &owner).map(|_| lock),
    }
}

/// Without an owner, each lease of the configured folder may be the one that the stream is run under.
fn expect_no_leases(reader: &CheckpointReader) -> Result<(), CheckpointError> {
    let Some(hosts) = reader.hosts() else {
        return Ok(());
    };
    let others = hosts::others(hosts, None)?;
    match others.is_empty() {
        true => Ok(()),
        false => Err(owner_unknown(reader, hosts, &others)),
    }
}

/// The error about leases one of which may be the one of an owner that nothing names.
pub(crate) fn owner_unknown(reader: &CheckpointReader, hosts: &Path, leases: &[LeaseState]) -> CheckpointError {
    let words = leases.iter().filter_map(|state| match state {
        LeaseState::Held(lease) => Some((lease, "lease")),
        LeaseState::Ended(lease) => Some((lease, "lease that ran out")),
        LeaseState::Missing | LeaseState::Dead(_) => None,
    });
    let words: Vec<String> = words
        .map(|(lease, what)| format!("{lease} ({what} {})", hosts::lease_file(hosts, &lease.id).display()))
        .collect();
    CheckpointError::OwnerUnknown {
        file: reader.root().join(files::OWNER),
        leases: words.join(", "),
    }
}

/// The lease under which the last owner ran the stream has to be over; this process has the lock and watches nobody.
/// Whether that owner may wake up.
pub(super) fn expect_lease_over(reader: &CheckpointReader, owner: &Owner) -> Result<bool, CheckpointError> {
    match reader.lease_of(owner, None)? {
        None | Some((_, LeaseState::Missing | LeaseState::Dead(_))) => Ok(false),
        Some((_, LeaseState::Ended(_))) => Ok(true),
        Some((hosts, LeaseState::Held(lease))) => Err(CheckpointError::Leased {
            place: reader.root().display().to_string(),
            owner: owner.to_string(),
            file: hosts::lease_file(&hosts, &lease.id),
        }),
    }
}

/// The operating system's lock on the checkpoint, until it is dropped.
pub(super) fn take_lock(reader: &CheckpointReader, attempts: u32) -> Result<File, CheckpointError> {
    let path = reader.root().join(files::LOCK);
    let failed = |error| CheckpointError::from(LakeError::io("lock", &path, error));
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(failed)?;
    for _ in 0..attempts {
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
