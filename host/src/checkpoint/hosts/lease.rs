//! The file of a lease: what it holds, how it is read, and how it is replaced.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::checkpoint::records::Owner;
use crate::checkpoint::{CheckpointError, files};
use crate::lake::LakeError;
use crate::lake::durable;
use crate::lsn::UtcMicros;

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
pub fn look(hosts: &Path, id: &str) -> Result<LeaseState, CheckpointError> {
    Ok(read(hosts, id)?.0)
}

/// The lease of an owner, and the folder that it is in: `hosts`, or the one that the owner named. `place` is the checkpoint.
///
/// That there is no such file says that the lease was given back only where the folder is surely the owner's. Another
/// machine, or a container, can have it elsewhere, or have another folder under the same path.
pub(in crate::checkpoint) fn lease_of_owner(
    place: &Path,
    hosts: Option<&Path>,
    owner: &Owner,
) -> Result<Option<(PathBuf, LeaseState)>, CheckpointError> {
    let Some(id) = owner.lease.as_deref() else {
        return Ok(None);
    };
    let named = owner.hosts.as_deref().filter(|named| Some(*named) != hosts);
    let folders = || hosts.into_iter().chain(named);
    for folder in folders() {
        match look(folder, id)? {
            LeaseState::Missing => {}
            state => return Ok(Some((folder.to_path_buf(), state))),
        }
    }
    for folder in folders() {
        let is_it = match &owner.hosts_id {
            Some(wanted) => name_of(folder)?.as_ref() == Some(wanted),
            // Of a sluice that gave its folder no name: its path, and what a process under a lease leaves there.
            None => owner.hosts.as_deref() == Some(folder) && folder.join(files::LOCK).exists(),
        };
        if is_it {
            return Ok(Some((folder.to_path_buf(), LeaseState::Missing)));
        }
    }
    Err(CheckpointError::HostsUnseen {
        place: place.display().to_string(),
        owner: owner.to_string(),
        file: owner.hosts.clone().unwrap_or_default().join(format!("{id}.json")),
    })
}

/// The leases that are neither given back nor of processes that are surely gone, but not `own`.
pub(crate) fn others(hosts: &Path, own: Option<&str>) -> Result<Vec<LeaseState>, CheckpointError> {
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
pub(super) fn name_of(hosts: &Path) -> Result<Option<String>, CheckpointError> {
    let bytes = files::read_bytes(&hosts.join(NAME), ADVICE_NAME)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()))
}

/// The same; a folder that has no name gets one.
pub(super) fn ensure_name(hosts: &Path) -> Result<String, CheckpointError> {
    let file = hosts.join(NAME);
    let new = format!("{}\n", uuid::Uuid::new_v4());
    if name_of(hosts)?.is_none() {
        durable::publish_new(&file, new.as_bytes()).map_err(|error| LakeError::io("write", &file, error))?;
    }
    match name_of(hosts)? {
        Some(name) if !name.is_empty() => Ok(name),
        _ => Err(files::damaged(&file, "it has no name in it".to_owned(), ADVICE_NAME)),
    }
}

/// The state of a lease, and the bytes that it was read from: a replacement is compared with them.
pub(super) fn read(hosts: &Path, id: &str) -> Result<(LeaseState, Vec<u8>), CheckpointError> {
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
pub(super) fn swap(hosts: &Path, id: &str, expected: &[&[u8]], new: &[u8]) -> Result<Swap, CheckpointError> {
    let file = lease_file(hosts, id);
    let _turn = turn(hosts)?;
    match files::read_bytes(&file, ADVICE)? {
        Some(there) if expected.contains(&there.as_slice()) => {}
        there => return Ok(Swap::Differs(there)),
    }
    durable::replace(&file, new).map_err(|error| LakeError::io("write", &file, error))?;
    Ok(Swap::Done(new.to_vec()))
}

/// Ends a lease, if its file has still the content that was read.
pub(super) fn end(hosts: &Path, lease: &Lease, read: &[u8], by: String) -> Result<Swap, CheckpointError> {
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
pub(super) fn to_bytes(hosts: &Path, lease: &Lease) -> Result<Vec<u8>, CheckpointError> {
    files::to_json(&lease_file(hosts, &lease.id), lease)
}

/// The turn of this process on this machine, until it is dropped; `None` when another one sleeps in its own.
pub(super) fn turn(hosts: &Path) -> Result<Option<File>, CheckpointError> {
    files::take_lock(hosts, TURN, files::ADVICE_TURNS)
}

/// The file of a lease.
pub(in crate::checkpoint) fn lease_file(hosts: &Path, id: &str) -> PathBuf {
    hosts.join(format!("{id}.json"))
}

/// The file whose lock the process holds for its life.
pub(super) fn life_file(hosts: &Path, id: &str) -> PathBuf {
    hosts.join(format!("{id}.lock"))
}

/// Which start of which kernel this is.
pub(super) fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

/// The device that a folder is on.
#[cfg(unix)]
pub(super) fn device_of(folder: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(folder).ok().map(|metadata| metadata.dev())
}

/// The device that a folder is on.
#[cfg(not(unix))]
pub(super) fn device_of(_folder: &Path) -> Option<u64> {
    None
}

/// Whether the process is surely gone: its lock is one that this machine would see, and nobody has it.
fn is_dead(hosts: &Path, lease: &Lease) -> Result<bool, CheckpointError> {
    let here = lease.boot_id.is_some() && lease.boot_id == boot_id() && lease.device == device_of(hosts);
    if !here {
        return Ok(false);
    }
    let path = life_file(hosts, &lease.id);
    let failed = |error| CheckpointError::from(LakeError::io("look at the lock", &path, error));
    let file = match std::fs::metadata(&path) {
        Ok(found) if found.is_file() => File::open(&path).map_err(failed)?,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(failed(error)),
        // Somebody removed it, or put something else there: it says nothing.
        _ => return Ok(false),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}
