//! The file of a lease: what it holds, how it is read, and how it is replaced.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::checkpoint::records::Owner;
use crate::checkpoint::{CheckpointError, files};
use crate::lake::LakeError;
use crate::lake::durable;
use crate::lsn::UtcMicros;
use crate::storage::{ObjectPlace, Place};

const ADVICE: &str = "remove it when its process is surely gone; a process that still runs stops its tables then";

/// The file with the folder's own name.
const NAME: &str = "id";
const ADVICE_NAME: &str =
    "remove it while no process runs under a lease of this folder: the next one gives the folder a name";

/// How long a replacement waits for its turn on this machine.
/// No lease is longer, whatever its file says.
const LONGEST: Duration = Duration::from_secs(600);
const TURN: Duration = Duration::from_millis(250);

/// A process and its hold on its streams (`hosts/<id>.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Format of the file.
    pub format: u32,
    /// The process's own name, random.
    pub id: String,
    /// Its host.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// Which start of which kernel it runs on, where the system tells.
    pub boot_id: Option<String>,
    /// The device that the folder is on, as that kernel numbers it: another mount is another device.
    #[serde(default)]
    pub device: Option<u64>,
    /// Raised with every renewal.
    pub beat: u64,
    /// How long the same beat has to be seen before the lease may be ended.
    pub lease_ms: u64,
    /// When the process started.
    pub started_at: UtcMicros,
    /// When the lease was renewed, by the process's own clock. For people.
    pub renewed_at: UtcMicros,
    /// Who ended it, and when. Nobody renews it from here on.
    pub ended: Option<Ended>,
}

/// The end of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The process that ended it.
    pub by: String,
    /// When, by that process's clock.
    pub at: UtcMicros,
}

impl Lease {
    /// How long the same beat has to be seen.
    pub fn duration(&self) -> Duration {
        Duration::from_millis(self.lease_ms).min(LONGEST)
    }
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "process {} on host {} (since {})",
            self.pid, self.host, self.started_at
        )
    }
}

/// What a look at a lease shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// There is no such file: its process ended in order, or somebody found it dead.
    Missing,
    /// Its process is dead.
    Dead(Lease),
    /// It was ended. Its process may sleep and wake up.
    Ended(Lease),
    /// Its process runs, or sleeps, or is on a machine that is gone.
    Held(Lease),
}

impl LeaseState {
    /// The lease of a process that is not surely gone.
    pub fn lease(&self) -> Option<&Lease> {
        match self {
            LeaseState::Held(lease) | LeaseState::Ended(lease) => Some(lease),
            LeaseState::Missing | LeaseState::Dead(_) => None,
        }
    }
}

/// Looks at a lease. Changes nothing; blocks on files.
pub fn look(hosts: &Place, id: &str) -> Result<LeaseState, CheckpointError> {
    Ok(read(hosts, id)?.0)
}

/// The lease of an owner, and the folder that it is in: `hosts`, or the one that the owner named. `place` is the checkpoint.
///
/// That there is no such file says that the lease was given back only where the folder is surely the owner's. Another
/// machine, or a container, can have it elsewhere, or have another folder under the same path.
pub(in crate::checkpoint) fn lease_of_owner(
    place: &Place,
    hosts: Option<&Place>,
    owner: &Owner,
) -> Result<Option<(Place, LeaseState)>, CheckpointError> {
    let Some(id) = owner.lease.as_deref() else {
        return Ok(None);
    };
    // Where the owner said that its leases are, as far as that place is known here.
    let named_by_owner = owner.hosts.as_deref().and_then(|text| {
        let known = [Some(place), hosts];
        known.into_iter().flatten().find_map(|place| place.named_beside(text))
    });
    let named = named_by_owner.as_ref().filter(|named| Some(*named) != hosts);
    let folders = || hosts.into_iter().chain(named);
    for folder in folders() {
        match look(folder, id)? {
            LeaseState::Missing => {}
            state => return Ok(Some((folder.clone(), state))),
        }
    }
    for folder in folders() {
        let is_it = match &owner.hosts_id {
            Some(wanted) => name_of(folder)?.as_ref() == Some(wanted),
            // Of a sluice that gave its folder no name: its path, and what a process under a lease leaves there.
            None => {
                let is_named = named_by_owner.as_ref() == Some(folder);
                is_named
                    && folder
                        .as_local()
                        .is_some_and(|folder| folder.join(files::LOCK).exists())
            }
        };
        if is_it {
            return Ok(Some((folder.clone(), LeaseState::Missing)));
        }
    }
    Err(CheckpointError::HostsUnseen {
        place: place.display().to_string(),
        owner: owner.to_string(),
        file: format!("{}/{id}.json", owner.hosts.as_deref().unwrap_or_default()),
    })
}

/// The leases that are neither given back nor of processes that are surely gone, but not `own`.
pub(crate) fn others(hosts: &Place, own: Option<&str>) -> Result<Vec<LeaseState>, CheckpointError> {
    let mut found = Vec::new();
    for name in files::names(hosts)? {
        match name.strip_suffix(".json") {
            Some(id) if Some(id) != own && !durable::is_staged_name(&name) => match look(hosts, id)? {
                LeaseState::Missing | LeaseState::Dead(_) => {}
                state => found.push(state),
            },
            _ => {}
        }
    }
    Ok(found)
}

/// The name that a folder of leases has in itself; `None` before the first lease.
pub(super) fn name_of(hosts: &Place) -> Result<Option<String>, CheckpointError> {
    let bytes = files::read_bytes(&hosts.join(NAME), ADVICE_NAME)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()))
}

/// The same; a folder that has no name gets one.
pub(super) fn ensure_name(hosts: &Place) -> Result<String, CheckpointError> {
    let file = hosts.join(NAME);
    let new = format!("{}\n", uuid::Uuid::new_v4());
    if name_of(hosts)?.is_none() {
        publish(&file, new.as_bytes())?;
    }
    match name_of(hosts)? {
        Some(name) if !name.is_empty() => Ok(name),
        _ => Err(files::damaged(&file, "it has no name in it".to_owned(), ADVICE_NAME)),
    }
}

/// The state of a lease, and the bytes that it was read from: a replacement is compared with them.
pub(super) fn read(hosts: &Place, id: &str) -> Result<(LeaseState, Vec<u8>), CheckpointError> {
    let file = lease_file(hosts, id);
    let Some(bytes) = files::read_bytes(&file, ADVICE)? else {
        return Ok((LeaseState::Missing, Vec::new()));
    };
    let lease: Lease = files::parse_json(&file, &bytes, ADVICE)?;
    let state = if is_dead(hosts, &lease)? {
        LeaseState::Dead(lease)
    } else if lease.ended.is_some() {
        LeaseState::Ended(lease)
    } else {
        LeaseState::Held(lease)
    };
    Ok((state, bytes))
}

/// How a compare-and-replace ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Swap {
    /// The file has the new content, which is this.
    Done(Vec<u8>),
    /// The file has something else than was expected, or is gone.
    Differs(Option<Vec<u8>>),
}

/// Replaces a lease whose content is one of `expected`.
///
/// Processes of one machine take turns. One that sleeps in its turn does not keep the others from theirs for ever: they go
/// on, and then, as between machines, a renewal can undo an end. The fence tells such an owner.
///
/// In a bucket the store compares. An answer that was lost shows in what is there: no content is written twice.
pub(super) fn swap(hosts: &Place, id: &str, expected: &[&[u8]], new: &[u8]) -> Result<Swap, CheckpointError> {
    let file = lease_file(hosts, id);
    let path = match file.split() {
        Ok(path) => path,
        Err(object) => return swap_object(object, expected, new),
    };
    let _turn = turn(hosts)?;
    match files::read_bytes(&file, ADVICE)? {
        Some(there) if expected.contains(&there.as_slice()) => {}
        there => return Ok(Swap::Differs(there)),
    }
    durable::replace(path, new).map_err(|error| LakeError::io("write", path, error))?;
    Ok(Swap::Done(new.to_vec()))
}

fn swap_object(object: &ObjectPlace, expected: &[&[u8]], new: &[u8]) -> Result<Swap, CheckpointError> {
    // A request of ours that was given up can land between the look and the swap: it has what is expected, too.
    for _ in 0..=expected.len() {
        let version = match files::read_object(object)? {
            Some((there, version)) if expected.contains(&there.as_slice()) => version,
            there => return Ok(Swap::Differs(there.map(|(there, _)| there))),
        };
        if files::swap_object(object, Some(&version), new)? {
            return Ok(Swap::Done(new.to_vec()));
        }
    }
    match files::read_object(object)? {
        Some((there, _)) if expected.contains(&there.as_slice()) => {
            Err(LakeError::Internal(format!("{object} was written again and again under our requests")).into())
        }
        there => Ok(Swap::Differs(there.map(|(there, _)| there))),
    }
}

/// Writes a new file, and leaves one that is there. No fault is planted here: a lease is no part of a table's state.
pub(super) fn publish(file: &Place, content: &[u8]) -> Result<(), CheckpointError> {
    match file.split() {
        Ok(path) => {
            durable::publish_new(path, content).map_err(|error| LakeError::io("write", path, error))?;
        }
        Err(object) => {
            object
                .create(content)
                .map_err(|error| LakeError::store("write", object, error))?;
        }
    }
    Ok(())
}

/// Ends a lease, if its file has still the content that was read.
pub(super) fn end(hosts: &Place, lease: &Lease, read: &[u8], by: String) -> Result<Swap, CheckpointError> {
    let ended = Lease {
        ended: Some(Ended {
            by,
            at: UtcMicros::now(),
        }),
        ..lease.clone()
    };
    swap(hosts, &lease.id, &[read], &to_bytes(hosts, &ended)?)
}

/// The content of a lease's file.
pub(super) fn to_bytes(hosts: &Place, lease: &Lease) -> Result<Vec<u8>, CheckpointError> {
    files::to_json(&lease_file(hosts, &lease.id), lease)
}

/// The turn of this process on this machine, until it is dropped; `None` when another one sleeps in its own, and in a bucket,
/// where there are none.
pub(super) fn turn(hosts: &Place) -> Result<Option<File>, CheckpointError> {
    match hosts.as_local() {
        Some(folder) => files::take_lock(folder, TURN, files::ADVICE_TURNS),
        None => Ok(None),
    }
}

/// The file of a lease.
pub(in crate::checkpoint) fn lease_file(hosts: &Place, id: &str) -> Place {
    hosts.join(&format!("{id}.json"))
}

/// The folder of the locks that processes hold for their lives: that of the leases; where those are in a bucket, one of this
/// machine's.
pub(super) fn lives(hosts: &Place) -> PathBuf {
    match hosts.as_local() {
        Some(folder) => folder.to_path_buf(),
        None => std::env::temp_dir().join("sluice-leases"),
    }
}

/// The file whose lock the process holds for its life.
pub(super) fn life_file(hosts: &Place, id: &str) -> PathBuf {
    lives(hosts).join(format!("{id}.lock"))
}

/// Which start of which kernel this is.
pub(super) fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

/// The device that the locks are on.
#[cfg(unix)]
pub(super) fn device_of(hosts: &Place) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(lives(hosts)).ok().map(|metadata| metadata.dev())
}

/// The device that the locks are on.
#[cfg(not(unix))]
pub(super) fn device_of(_hosts: &Place) -> Option<u64> {
    None
}

/// Whether the process is surely gone: its lock is one that this machine would see, and nobody has it.
fn is_dead(hosts: &Place, lease: &Lease) -> Result<bool, CheckpointError> {
    let here = lease.boot_id.is_some() && lease.boot_id == boot_id() && lease.device == device_of(hosts);
    if !here {
        return Ok(false);
    }
    let path = life_file(hosts, &lease.id);
    // In a bucket the lock is a hint: where it cannot be looked at, the lease says when it is over.
    let is_hint = hosts.as_object().is_some();
    let failed = |error| match is_hint {
        true => Ok(false),
        false => Err(CheckpointError::from(LakeError::io("look at the lock", &path, error))),
    };
    let file = match std::fs::metadata(&path) {
        Ok(found) if found.is_file() => match File::open(&path) {
            Ok(file) => file,
            Err(error) => return failed(error),
        },
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return failed(error),
        // Somebody removed it, or put something else there: it says nothing.
        _ => return Ok(false),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => failed(error),
    }
}
