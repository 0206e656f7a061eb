//! Taking a checkpoint's lock, and what has to be known of the owner before.

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use super::files;
use super::hosts::{self, LeaseState};
use super::reader::UNNAMED;
use super::records::Owner;
use super::{CheckpointError, CheckpointReader};
use crate::identity::host_name;
use crate::storage::Place;

/// A reader that looks whether the stream runs holds the lock for an instant, a process that takes the stream over under a
/// lease for a few writes.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_millis(200);
pub(super) const LOCK_PATIENCE_LEASED: Duration = Duration::from_secs(2);

/// Takes the lock of a checkpoint that nobody runs, and that nobody who slept can go on with, until it is dropped: for a
/// repair, which claims nothing. A damaged `owner.json` is no obstacle by itself, because it may be what is repaired.
pub(crate) fn lock_unowned(reader: &CheckpointReader) -> Result<File, CheckpointError> {
    files::create_folder(reader.root())?;
    let Some(mut lock) = take_lock(reader, LOCK_PATIENCE)? else {
        return Err(CheckpointError::NoRepair {
            place: reader.root().clone(),
        });
    };
    expect_unowned(reader)?;
    // For whoever finds the lock held. That it cannot be written is no reason to repair nothing.
    let _ = write!(lock, "process {} on host {}, a repair", std::process::id(), host_name());
    Ok(lock)
}

fn expect_unowned(reader: &CheckpointReader) -> Result<(), CheckpointError> {
    let owner = match reader.owner() {
        Ok(owner) => owner,
        Err(CheckpointError::Damaged { .. } | CheckpointError::NewerFormat { .. }) => None,
        Err(error) => return Err(error),
    };
    let Some(owner) = owner else {
        return expect_no_leases(reader);
    };
    if let Some((from, file)) = may_still_wake(reader, &owner)? {
        return Err(CheckpointError::Unsettled {
            place: reader.root().display().to_string(),
            from,
            file,
        });
    }
    match reader.lease_of(&owner)? {
        Some((hosts, LeaseState::Ended(lease))) => Err(CheckpointError::MayWake {
            place: reader.root().display().to_string(),
            owner: owner.to_string(),
            file: hosts::lease_file(&hosts, &lease.id),
        }),
        _ => expect_lease_over(reader, &owner).map(|_| ()),
    }
}

/// Somebody whom the stream was taken over from, who may wake up, and with whom nobody has settled yet: in words, and the file
/// of that lease.
pub(crate) fn may_still_wake(
    reader: &CheckpointReader,
    owner: &Owner,
) -> Result<Option<(String, Place)>, CheckpointError> {
    for from in owner.unsettled.iter().filter(|from| from.may_wake) {
        let Some(before) = &from.owner else {
            let own = owner.lease.as_deref();
            let others = reader
                .hosts()
                .map_or(Ok(Vec::new()), |hosts| hosts::others(hosts, own))?;
            if let Some(lease) = others.iter().find_map(LeaseState::lease) {
                let file = reader.hosts().map(|hosts| hosts::lease_file(hosts, &lease.id));
                return Ok(Some((from.to_string(), file.unwrap_or_default())));
            }
            continue;
        };
        match reader.lease_of(before)? {
            None | Some((_, LeaseState::Missing | LeaseState::Dead(_))) => {}
            Some((hosts, LeaseState::Ended(lease) | LeaseState::Held(lease))) => {
                return Ok(Some((from.to_string(), hosts::lease_file(&hosts, &lease.id))));
            }
        }
    }
    Ok(None)
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
pub(crate) fn owner_unknown(reader: &CheckpointReader, hosts: &Place, leases: &[LeaseState]) -> CheckpointError {
    let words: Vec<String> = leases
        .iter()
        .filter_map(LeaseState::lease)
        .map(|lease| {
            let what = if lease.ended.is_some() {
                "lease that ran out"
            } else {
                "lease"
            };
            format!("{lease} ({what} {})", hosts::lease_file(hosts, &lease.id).display())
        })
        .collect();
    CheckpointError::OwnerUnknown {
        file: reader.root().join(files::OWNER),
        leases: words.join(", "),
    }
}

/// The lease under which the last owner ran the stream has to be over; this process has the lock and watches nobody.
/// Whether that owner may wake up.
pub(super) fn expect_lease_over(reader: &CheckpointReader, owner: &Owner) -> Result<bool, CheckpointError> {
    match reader.lease_of(owner)? {
        None | Some((_, LeaseState::Missing | LeaseState::Dead(_))) => Ok(false),
        Some((_, LeaseState::Ended(_))) => Ok(true),
        Some((hosts, LeaseState::Held(lease))) => Err(CheckpointError::Leased {
            place: reader.root().display().to_string(),
            owner: owner.to_string(),
            file: hosts::lease_file(&hosts, &lease.id),
        }),
    }
}

/// The operating system's lock on the checkpoint, until it is dropped; `None` in a bucket, where there is none.
pub(super) fn take_lock(reader: &CheckpointReader, patience: Duration) -> Result<Option<File>, CheckpointError> {
    let Some(folder) = reader.root().as_local() else {
        return Ok(None);
    };
    if let Some(lock) = files::take_lock(folder, patience, files::ADVICE_LOCK)? {
        return Ok(Some(lock));
    }
    let owner = match (files::lock_holder(reader.root()), reader.owner()) {
        (Some(repair), _) => repair,
        (None, Ok(Some(owner))) => owner.to_string(),
        (None, _) => UNNAMED.to_owned(),
    };
    Err(CheckpointError::Owned {
        place: reader.root().display().to_string(),
        owner,
    })
}
