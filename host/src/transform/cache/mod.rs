//! Compiled code, kept on disk from one process to the next. Compiling the component of a language runtime takes many
//! seconds, and reading its code back a fraction of one.
//!
//! **What is trusted.** `Component::deserialize` runs the machine code that it is given; the sandbox begins behind it. So
//! nothing is handed to it that this user's sluice did not write:
//!
//! * The directory is one that only its user can enter (mode 0700, owned by the effective user). Otherwise it is not used.
//! * Each entry begins with an HMAC-SHA-256 over its name and its code, under a random key that lies in the same directory
//!   (mode 0600, made once). It is compared in constant time, over the very bytes in memory that are then deserialised: a
//!   change of the file in between changes nothing.
//! * The name is a digest of what was compiled (the component's bytes) and of wasmtime's own account of what compiled code
//!   depends on: its version, the target with its features, the engine's settings. It is part of what the HMAC covers, so
//!   an entry under another's name is refused as well.
//!
//! A cut, stale or foreign entry is therefore a miss: the component is compiled, and the entry replaced. What the HMAC adds
//! to the directory's mode is protection from accidents and from copies: a cut or damaged file, a cache that was restored,
//! synchronised or carried here from another machine or user, a parent directory in which somebody else can swap folders.
//! It does not stop a program that runs as the same user (or root): that one can read the key, and needs no cache to run
//! code as this user.
//!
//! **Many processes at once.** An entry is written under a name of its own and renamed into place, so that a reader sees
//! all of it or none; two that compile the same write the same. The key is linked into place only if there is none.
//!
//! No trouble here fails a table: what goes wrong is a note at debug level, and the component is compiled.

mod folder;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest as _, Sha256};
use wasmtime::component::Component;

use folder::Folder;

/// What all entries together may take; the ones that were not used for the longest time are removed.
const MAX_BYTES: u64 = 1 << 30;
/// Bytes of the HMAC at the start of an entry.
const TAG_BYTES: usize = 32;
/// What the names of entries end with.
const ENTRY: &str = "cwasm";
/// What the names of entries begin with while they are written.
const PARTIAL: &str = "partial-";
/// When a file that is being written was left behind by a process that died.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

/// `[plugins] cache`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CacheSettings {
    /// `$XDG_CACHE_HOME/sluice/components`, or `~/.cache/sluice/components`.
    #[default]
    User,
    /// This directory.
    At(PathBuf),
    /// None: every process compiles.
    Off,
}

impl CacheSettings {
    /// The directory; `None` when there is to be none, or when the environment does not say where it is.
    fn directory(&self) -> Option<PathBuf> {
        match self {
            CacheSettings::Off => None,
            CacheSettings::At(path) => Some(path.clone()),
            CacheSettings::User => {
                let absolute = |name: &str| {
                    let path = PathBuf::from(std::env::var_os(name)?);
                    path.is_absolute().then_some(path)
                };
                let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
                Some(base.join("sluice").join("components"))
            }
        }
    }
}

/// An open cache.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: Folder,
    max_bytes: u64,
}

impl Cache {
    /// Opens the cache, and makes its directory and key when they are not there. `None`: there is none, or none that can
    /// be used.
    pub(crate) fn open(settings: &CacheSettings) -> Option<Cache> {
        let directory = settings.directory()?;
        match Folder::open(&directory) {
            Ok(folder) => Some(Cache {
                folder,
                max_bytes: MAX_BYTES,
            }),
            Err(reason) => {
                tracing::debug!(directory = %directory.display(), reason, "the cache of compiled code is not used");
                None
            }
        }
    }

    /// Whether there is an entry for `sha256`. Only to read it shows whether it is good.
    pub(crate) fn has(&self, engine: &wasmtime::Engine, sha256: &str) -> bool {
        self.path(&entry_name(engine, sha256)).is_file()
    }

    /// The compiled component, from the cache or else from the compiler and then into the cache. `sha256` is the digest of
    /// `bytes`.
    ///
    /// # Errors
    /// The compiler's.
    pub(crate) fn component(
        &self,
        engine: &wasmtime::Engine,
        sha256: &str,
        bytes: &[u8],
    ) -> wasmtime::Result<Component> {
        let name = entry_name(engine, sha256);
        if let Some(component) = self.load(engine, &name) {
            return Ok(component);
        }
        let component = Component::from_binary(engine, bytes)?;
        let stored = component
            .serialize()
            .map_err(io::Error::other)
            .and_then(|code| self.store(&name, &code));
        if let Err(error) = stored {
            tracing::debug!(entry = name, %error, "compiled code was not kept");
        }
        Ok(component)
    }

    /// What is kept under the name, if all of it is what was written.
    fn load(&self, engine: &wasmtime::Engine, name: &str) -> Option<Component> {
        let path = self.path(name);
        let missed = |reason: &dyn std::fmt::Display| tracing::debug!(entry = name, %reason, "no compiled code");
        let entry = self.read(&path).map_err(|error| missed(&error)).ok()?;
        let Some((tag, code)) = entry.split_at_checked(TAG_BYTES) else {
            missed(&"the entry is cut");
            return None;
        };
        if self.mac(name, code)?.verify_slice(tag).is_err() {
            missed(&"the entry is not what was written here");
            return None;
        }
        // SAFETY: the HMAC holds for these very bytes, so they were written by `store` under the key of this directory,
        // which only its user can read: they are what `Component::serialize` gave. The module's documentation says who
        // could still forge one. wasmtime compares version, target and settings once more.
        let component = unsafe { Component::deserialize(engine, code) };
        match component {
            Ok(component) => {
                touch(&path);
                Some(component)
            }
            Err(error) => {
                missed(&error);
                None
            }
        }
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut entry = Vec::new();
        File::open(path)?.take(self.max_bytes).read_to_end(&mut entry)?;
        Ok(entry)
    }

    fn store(&self, name: &str, code: &[u8]) -> io::Result<()> {
        if code.len() as u64 + TAG_BYTES as u64 > self.max_bytes {
            return Err(io::Error::other("it is larger than the whole cache may be"));
        }
        let mac = self
            .mac(name, code)
            .ok_or_else(|| io::Error::other("the key does not fit HMAC-SHA-256"))?;
        let mut partial = tempfile::Builder::new()
            .prefix(PARTIAL)
            .tempfile_in(self.folder.path())?;
        partial.write_all(&mac.finalize().into_bytes())?;
        partial.write_all(code)?;
        partial.persist(self.path(name)).map_err(|error| error.error)?;
        self.make_room(name)
    }

    /// Removes the entries that were not used for the longest time until the rest fits. The newest one stays.
    fn make_room(&self, newest: &str) -> io::Result<()> {
        let newest = self.path(newest);
        let now = SystemTime::now();
        let mut entries = Vec::new();
        let mut total = 0_u64;
        for file in std::fs::read_dir(self.folder.path())? {
            let file = file?;
            // Another process may have removed it.
            let Ok(metadata) = file.metadata() else { continue };
            let used = metadata.modified()?;
            let path = file.path();
            if path.extension().is_some_and(|extension| extension == ENTRY) {
                total = total.saturating_add(metadata.len());
                entries.push((used, metadata.len(), path));
            } else if file.file_name().to_string_lossy().starts_with(PARTIAL)
                && now.duration_since(used).is_ok_and(|age| age > LEFT_BEHIND)
            {
                remove(&path)?;
            }
        }
        entries.sort();
        for (_, len, path) in entries {
            if total <= self.max_bytes {
                break;
            }
            if path != newest {
                remove(&path)?;
                total = total.saturating_sub(len);
            }
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name).with_extension(ENTRY)
    }

    /// Over the entry's name, which has a fixed length, and its code.
    fn mac(&self, name: &str, code: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.folder.key()).ok()?;
        mac.update(b"sluice compiled component 1\0");
        mac.update(name.as_bytes());
        mac.update(code);
        Some(mac)
    }
}

/// The name of the entry for a component's bytes in this engine: 64 hex digits.
fn entry_name(engine: &wasmtime::Engine, sha256: &str) -> String {
    let mut hasher = Digesting(Sha256::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let digest = hasher.0.chain_update(sha256.as_bytes()).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Collects what a value hashes into a digest that is the same in every process of one build.
struct Digesting(Sha256);

impl Hasher for Digesting {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Not asked for: the digest is taken instead.
    fn finish(&self) -> u64 {
        0
    }
}

/// Notes that the entry was used. Without it, it is removed earlier than it could be.
fn touch(path: &Path) {
    if let Ok(file) = File::options().append(true).open(path) {
        let _ = file.set_modified(SystemTime::now());
    }
}

/// Another process may be quicker.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
