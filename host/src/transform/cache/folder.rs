//! The private directory of the cache, and the key in it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rand::TryRngCore;
use rand::rngs::OsRng;
use zeroize::Zeroizing;

const KEY_FILE: &str = "key";
const KEY_BYTES: usize = 32;

/// A directory that only its user can enter.
pub(super) struct Folder {
    path: PathBuf,
    key: Zeroizing<Vec<u8>>,
}

impl Folder {
    /// Makes what is not there.
    ///
    /// # Errors
    /// A sentence for the log: why the directory is not used.
    pub(super) fn open(path: &Path) -> Result<Folder, String> {
        make(path).map_err(|error| format!("it cannot be made: {error}"))?;
        // The system gives a new file to the effective user, which tells who that is.
        let mut probe = tempfile::Builder::new()
            .prefix(super::PARTIAL)
            .tempfile_in(path)
            .map_err(|error| format!("it cannot be written: {error}"))?;
        let described = |error: io::Error| format!("it cannot be looked at: {error}");
        let owner = owner_of(&probe.as_file().metadata().map_err(described)?);
        let folder = std::fs::metadata(path).map_err(described)?;
        expect_private("it", &folder, owner)?;

        let key_file = path.join(KEY_FILE);
        if !key_file.exists() {
            let failed = |error: io::Error| format!("its key cannot be made: {error}");
            let mut key = Zeroizing::new([0; KEY_BYTES]);
            OsRng
                .try_fill_bytes(key.as_mut())
                .map_err(|error| failed(io::Error::other(error)))?;
            probe.write_all(key.as_ref()).map_err(failed)?;
            probe.as_file().sync_all().map_err(failed)?;
            match probe.persist_noclobber(&key_file) {
                Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error.error)),
                _ => {}
            }
        }
        let failed = |error: io::Error| format!("its key cannot be read: {error}");
        let mut file = File::open(&key_file).map_err(failed)?;
        expect_private("its key", &file.metadata().map_err(failed)?, owner)?;
        let mut key = Zeroizing::new(Vec::with_capacity(KEY_BYTES + 1));
        Read::by_ref(&mut file)
            .take(KEY_BYTES as u64 + 1)
            .read_to_end(&mut key)
            .map_err(failed)?;
        if key.len() != KEY_BYTES {
            return Err(format!("its key does not have {KEY_BYTES} bytes; remove the directory"));
        }
        Ok(Folder {
            path: path.to_owned(),
            key,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folder")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

#[cfg(unix)]
fn make(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Who owns a file.
#[cfg(unix)]
fn owner_of(metadata: &std::fs::Metadata) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    metadata.uid()
}

#[cfg(unix)]
fn expect_private(what: &str, metadata: &std::fs::Metadata, owner: u32) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt as _;
    if metadata.uid() != owner {
        return Err(format!("{what} belongs to another user"));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(format!(
            "{what} is open to other users; its mode must be 0700, and 0600 for its key"
        ));
    }
    Ok(())
}

/// Who may read what is not known here.
#[cfg(not(unix))]
fn make(_path: &Path) -> io::Result<()> {
    Err(io::Error::other("this system has no modes of files that sluice knows"))
}

#[cfg(not(unix))]
fn owner_of(_metadata: &std::fs::Metadata) -> u32 {
    0
}

#[cfg(not(unix))]
fn expect_private(what: &str, _metadata: &std::fs::Metadata, _owner: u32) -> Result<(), String> {
    Err(format!("{what} cannot be kept from other users"))
}
