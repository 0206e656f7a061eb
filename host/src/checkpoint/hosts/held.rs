//! This process's own lease: renewed on a thread of its own, which nothing else can keep from running.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::lease::{self, Ended, Lease, LeaseState, Swap};
use crate::checkpoint::records::FORMAT;
use crate::checkpoint::{CheckpointError, files};
use crate::error::chain;
use crate::identity::host_name;
use crate::lake::LakeError;
use crate::lsn::UtcMicros;
use crate::storage::Place;

/// Renewals in the time of a lease.
const BEATS: u32 = 3;
/// For how long a process that ends waits for its lease to be given back.
const GOODBYE: Duration = Duration::from_secs(5);

/// Why this process may not go on with its streams.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseLost {
    /// Another process saw it not being renewed for a whole lease.
    #[error("its lease {file} was not renewed in time, and was ended by {} at {}", ended.by, ended.at)]
    Ended {
        /// The file of the lease.
        file: Place,
        /// By whom.
        ended: Ended,
    },
    /// Its file is gone, or somebody wrote something else to it.
    #[error("the file of its lease, {file}, was removed or replaced")]
    Removed {
        /// The file of the lease.
        file: Place,
    },
    /// The file could not be written for a whole lease.
    #[error("its lease {file} could not be renewed for {lease:?}: {reason}")]
    NotRenewed {
        /// The file of the lease.
        file: Place,
        /// How long a lease is.
        lease: Duration,
        /// What kept it from being renewed.
        reason: String,
    },
}

/// The lease of this process, for all its streams. It is given back, and its file removed, when this is dropped: when the
/// last stream has ended.
#[derive(Debug)]
pub struct ProcessLease {
    kept: Arc<Kept>,
    /// Closed when the renewing thread has given the lease back.
    gave_back: Mutex<Receiver<()>>,
}

#[derive(Debug)]
struct Kept {
    hosts: Place,
    /// The name that the folder has in itself.
    hosts_id: String,
    id: String,
    lease: Duration,
    last: Mutex<Last>,
    origin: Instant,
    /// When the newest renewal that worked was begun, in milliseconds after `origin`.
    renewed_ms: AtomicU64,
    lost: OnceLock<LeaseLost>,
    /// The lease is lost or given back.
    over: CancellationToken,
    given_back: Mutex<bool>,
    wake: Condvar,
    /// Locked for the life of the process. For leases in a bucket, this machine may have no place for it: whether the process is
    /// dead is then seen by its lease alone.
    life: Option<File>,
}

/// What this process wrote last.
#[derive(Debug)]
struct Last {
    lease: Lease,
    bytes: Vec<u8>,
    /// Renewals since that failed and may have been written all the same.
    attempted: Vec<Vec<u8>>,
}

impl ProcessLease {
    /// Takes a lease, after removing those of dead processes of this machine. Blocks on files.
    pub fn start(hosts: &Place, lease: Duration) -> Result<ProcessLease, CheckpointError> {
        files::create_folder(hosts)?;
        let id = uuid::Uuid::new_v4().to_string();
        let hosts_id = lease::ensure_name(hosts)?;
        // Nobody sees the lock file before its lock is taken.
        let turn = lease::turn(hosts)?;
        let in_a_bucket = hosts.as_object().is_some();
        if turn.is_some() || in_a_bucket {
            sweep(hosts)?;
        }
        let life_file = lease::life_file(hosts, &id);
        let life = match in_a_bucket {
            false => Some(lock_for_life(&life_file)?),
            true => {
                let made = std::fs::create_dir_all(lease::lives(hosts));
                made.ok().and_then(|()| lock_for_life(&life_file).ok())
            }
        };
        let now = UtcMicros::now();
        let first = Lease {
            format: FORMAT,
            id: id.clone(),
            host: host_name(),
            pid: std::process::id(),
            boot_id: lease::boot_id(),
            device: life.as_ref().and_then(|_| lease::device_of(hosts)),
            beat: 0,
            lease_ms: millis(lease),
            started_at: now,
            renewed_at: now,
            ended: None,
        };
        let origin = Instant::now();
        let bytes = lease::to_bytes(hosts, &first)?;
        let file = lease::lease_file(hosts, &id);
        if let Err(error) = lease::publish(&file, &bytes) {
            let _ = std::fs::remove_file(&life_file);
            return Err(error);
        }
        drop(turn);
        let kept = Arc::new(Kept {
            hosts: hosts.clone(),
            hosts_id,
            id,
            lease,
            last: Mutex::new(Last {
                lease: first,
                bytes,
                attempted: Vec::new(),
            }),
            origin,
            renewed_ms: AtomicU64::new(0),
            lost: OnceLock::new(),
            over: CancellationToken::new(),
            given_back: Mutex::new(false),
            wake: Condvar::new(),
            life,
        });
        let renewing = Arc::clone(&kept);
        let (until_given_back, gave_back) = channel();
        std::thread::Builder::new()
            .name("lease".to_owned())
            .spawn(move || {
                renewing.keep();
                renewing.give_back();
                drop::<Sender<()>>(until_given_back);
            })
            .map_err(|error| {
                LakeError::Internal(format!("the thread that renews {file} cannot be started: {error}"))
            })?;
        Ok(ProcessLease {
            kept,
            gave_back: Mutex::new(gave_back),
        })
    }

    /// The name of the lease.
    pub fn id(&self) -> &str {
        &self.kept.id
    }

    /// The folder of the leases.
    pub fn hosts(&self) -> &Place {
        &self.kept.hosts
    }

    /// The name that this folder has in itself.
    pub fn hosts_id(&self) -> &str {
        &self.kept.hosts_id
    }

    /// Whether this process may go on with its streams. Costs nothing while the lease is fresh. One that is not (the
    /// process slept) is renewed first: whether somebody ended it meanwhile is what its file says. Blocks on it then.
    pub fn check(&self) -> Result<(), LeaseLost> {
        self.kept.check()
    }

    /// Waits until the lease is lost; `None` when it is given back. Also a renewal that hangs is a lost lease.
    pub fn lost(&self) -> impl Future<Output = Option<LeaseLost>> + Send + use<> {
        let kept = Arc::clone(&self.kept);
        async move {
            let grace = kept.lease / BEATS;
            loop {
                let left = kept.lease.saturating_sub(kept.age());
                tokio::select! {
                    () = kept.over.cancelled() => return kept.lost.get().cloned(),
                    () = tokio::time::sleep(left) => {}
                }
                if kept.age() < kept.lease {
                    continue;
                }
                // A process that slept wakes up here and in the renewal at the same time: the renewal comes first.
                tokio::select! {
                    () = kept.over.cancelled() => return kept.lost.get().cloned(),
                    () = tokio::time::sleep(grace) => {}
                }
                if kept.age() >= kept.lease {
                    return Some(kept.lose(kept.not_renewed("no answer")));
                }
            }
        }
    }
}

#[cfg(test)]
impl ProcessLease {
    /// Renews now. Whether the lease is this process's after it.
    pub(in crate::checkpoint) fn renew_now(&self) -> Result<bool, CheckpointError> {
        self.kept.renew(&mut lock(&self.kept.last))?;
        Ok(self.kept.lost.get().is_none())
    }

    /// Does something while the folder does not answer to a renewal.
    pub(in crate::checkpoint) fn while_a_renewal_hangs(self, work: impl FnOnce(ProcessLease)) {
        let kept = Arc::clone(&self.kept);
        let hangs = lock(&kept.last);
        // The renewing thread waits for what the hanging renewal has.
        std::thread::sleep(kept.lease);
        work(self);
        drop(hangs);
    }
}

impl Drop for ProcessLease {
    /// Waits until the lease is given back, but for no folder that does not answer: this can be one of the threads that
    /// everything else runs on, and the process is to end.
    fn drop(&mut self) {
        *lock(&self.kept.given_back) = true;
        self.kept.wake.notify_all();
        self.kept.over.cancel();
        if !matches!(self.kept.lost.get(), Some(LeaseLost::NotRenewed { .. })) {
            // That the thread is over, also by a panic, is an answer as well.
            let _ = lock(&self.gave_back).recv_timeout(self.kept.lease.min(GOODBYE));
        }
    }
}

impl Kept {
    /// Renews until the lease is lost or given back.
    fn keep(&self) {
        let mut pause = self.lease / BEATS;
        loop {
            let given_back = lock(&self.given_back);
            let (given_back, _) = self
                .wake
                .wait_timeout_while(given_back, pause, |given_back| !*given_back)
                .unwrap_or_else(PoisonError::into_inner);
            if *given_back || self.lost.get().is_some() {
                return;
            }
            drop(given_back);
            pause = match self.renew(&mut lock(&self.last)) {
                Ok(()) => self.lease / BEATS,
                Err(error) if self.age() >= self.lease => {
                    self.lose(self.not_renewed(&chain(&error)));
                    return;
                }
                Err(_) => self.lease / (BEATS * BEATS),
            };
        }
    }

    /// Removes the files, once no stream is left: this process is gone then as far as others are concerned, also when
    /// somebody ended the lease. What cannot be removed is found dead, or runs out.
    fn give_back(&self) {
        let given_back = lock(&self.given_back);
        let waited = self.wake.wait_while(given_back, |given_back| !*given_back);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        let _ = files::remove(&lease::lease_file(&self.hosts, &self.id));
        if let Some(life) = &self.life {
            let _ = std::fs::remove_file(lease::life_file(&self.hosts, &self.id));
            let _ = life.unlock();
        }
    }

    /// Writes the next beat. That the lease is lost is no error here.
    fn renew(&self, last: &mut Last) -> Result<(), CheckpointError> {
        if self.lost.get().is_some() {
            return Ok(());
        }
        let began = self.origin.elapsed();
        let next = Lease {
            // Each attempt has a beat of its own: one that failed may have been written and seen.
            beat: last.lease.beat + 1 + last.attempted.len() as u64,
            renewed_at: UtcMicros::now(),
            ..last.lease.clone()
        };
        let bytes = lease::to_bytes(&self.hosts, &next)?;
        let mut ours: Vec<&[u8]> = vec![&last.bytes];
        ours.extend(last.attempted.iter().map(Vec::as_slice));
        match lease::swap(&self.hosts, &self.id, &ours, &bytes) {
            Ok(Swap::Done(bytes)) => {
                *last = Last {
                    lease: next,
                    bytes,
                    attempted: Vec::new(),
                };
                self.renewed_ms.store(millis(began), Ordering::Release);
                Ok(())
            }
            Ok(Swap::Differs(there)) => {
                let file = lease::lease_file(&self.hosts, &self.id);
                let ended = there
                    .and_then(|bytes| serde_json::from_slice::<Lease>(&bytes).ok())
                    .and_then(|lease| lease.ended);
                self.lose(match ended {
                    Some(ended) => LeaseLost::Ended { file, ended },
                    None => LeaseLost::Removed { file },
                });
                Ok(())
            }
            Err(error) => {
                // The file may have it: the error can come after the write.
                last.attempted.push(bytes);
                Err(error)
            }
        }
    }

    fn check(&self) -> Result<(), LeaseLost> {
        let patience = Instant::now() + self.lease / BEATS;
        loop {
            if let Some(lost) = self.lost.get() {
                return Err(lost.clone());
            }
            if self.age() < self.lease {
                return Ok(());
            }
            let error = match self.last.try_lock() {
                Ok(mut last) => self.renew(&mut last).err(),
                Err(_) => None,
            };
            if Instant::now() >= patience {
                let reason = error.map_or_else(|| "no answer".to_owned(), |error| chain(&error));
                return Err(self.lose(self.not_renewed(&reason)));
            }
            if self.age() >= self.lease && self.lost.get().is_none() {
                std::thread::sleep(self.lease / (BEATS * BEATS * BEATS));
            }
        }
    }

    /// For how long nobody can have seen the newest beat, at most.
    fn age(&self) -> Duration {
        let renewed = Duration::from_millis(self.renewed_ms.load(Ordering::Acquire));
        self.origin.elapsed().saturating_sub(renewed)
    }

    fn not_renewed(&self, reason: &str) -> LeaseLost {
        LeaseLost::NotRenewed {
            file: lease::lease_file(&self.hosts, &self.id),
            lease: self.lease,
            reason: reason.to_owned(),
        }
    }

    /// The first reason stays.
    fn lose(&self, lost: LeaseLost) -> LeaseLost {
        let lost = self.lost.get_or_init(|| lost).clone();
        self.over.cancel();
        lost
    }
}

/// Removes what dead processes of this machine left. It is this machine's turn of this process.
fn sweep(hosts: &Place) -> Result<(), CheckpointError> {
    let names = files::names(hosts)?;
    for id in names.iter().filter_map(|name| name.strip_suffix(".json")) {
        // A file that cannot be read is for those whose stream it has.
        if !matches!(lease::look(hosts, id), Ok(LeaseState::Dead(_))) {
            continue;
        }
        files::remove(&lease::lease_file(hosts, id))?;
        let of_it = format!(".{id}.json.");
        for name in names.iter().filter(|name| name.starts_with(&of_it)) {
            files::remove(&hosts.join(name))?;
        }
        files::remove(&lease::life_file(hosts, id).into())?;
    }
    let Some(folder) = hosts.as_local() else {
        return Ok(());
    };
    for id in names.iter().filter_map(|name| name.strip_suffix(".lock")) {
        // Of a process that ended between its two files. Should it only be about to write the second, nothing is lost but
        // that its death can be seen at once.
        let life = lease::life_file(hosts, id);
        let has_lease = folder.join(format!("{id}.json")).exists();
        if !has_lease && File::open(&life).is_ok_and(|file| file.try_lock().is_ok()) {
            files::remove(&life.into())?;
        }
    }
    Ok(())
}

fn lock_for_life(path: &Path) -> Result<File, CheckpointError> {
    let failed = |error| CheckpointError::from(LakeError::io("lock", path, error));
    let file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .open(path)
        .map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while it was held leaves what the file is compared with, or asks for one renewal more.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
