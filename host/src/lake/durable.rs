//! Local files that survive a power cut: the content is on the disk before the name is, and the name before we say so.
//! `object_store` does not sync local files, so what decides about state is written here.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Whether [`publish_new`] made the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// The file is there, with our content.
    Written,
    /// A file of that name was there already and is untouched.
    Exists,
}

/// Writes a new file that appears whole or not at all, and never replaces one. Blocking.
pub fn publish_new(path: &Path, content: &[u8]) -> std::io::Result<Published> {
    let staged = write_staged(path, content)?;
    let linked = std::fs::hard_link(&staged, path);
    let removed = std::fs::remove_file(&staged);
    match linked {
        Ok(()) => {
            removed?;
            sync_folder_of(path)?;
            Ok(Published::Written)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Published::Exists),
        Err(error) => Err(error),
    }
}

/// Writes a file that appears whole, in place of an older one if there is one. Blocking.
pub fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let staged = write_staged(path, content)?;
    if let Err(error) = std::fs::rename(&staged, path) {
        // The first error is the one to report.
        let _ = std::fs::remove_file(&staged);
        return Err(error);
    }
    sync_folder_of(path)
}

/// Brings a file that somebody else wrote, and its name, to the disk. Blocking.
pub fn sync(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()?;
    sync_folder_of(path)
}

/// Whether a file name is one that [`publish_new`] or [`replace`] left behind when they were cut off.
pub fn is_staged_name(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(STAGED_SUFFIX)
}

const STAGED_SUFFIX: &str = ".sluice-tmp";

fn write_staged(path: &Path, content: &[u8]) -> std::io::Result<PathBuf> {
    let name = path
        .file_name()
        .ok_or_else(|| std::io::Error::from(ErrorKind::InvalidFilename))?
        .to_string_lossy();
    let staged = path.with_file_name(format!(".{name}.{}{STAGED_SUFFIX}", uuid::Uuid::new_v4().simple()));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&staged)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    if let Err(error) = written {
        let _ = std::fs::remove_file(&staged);
        return Err(error);
    }
    Ok(staged)
}

fn sync_folder_of(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        None => Ok(()),
        // A name alone stands in the folder that the process is in.
        Some(folder) if folder.as_os_str().is_empty() => sync_folder(Path::new(".")),
        Some(folder) => sync_folder(folder),
    }
}

/// Brings the names in a folder to the disk. Blocking.
pub fn sync_folder(folder: &Path) -> std::io::Result<()> {
    // Folders can be synced on Unix only.
    match cfg!(unix) {
        true => File::open(folder)?.sync_all(),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_never_replaces_one_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("7.json");
        assert_eq!(publish_new(&path, b"first").unwrap(), Published::Written);
        assert_eq!(publish_new(&path, b"second").unwrap(), Published::Exists);
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        replace(&path, b"third").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"third");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_name_alone_is_in_the_folder_of_the_process() {
        for path in ["sluice.lock", "./sluice.lock", "/"] {
            sync_folder_of(Path::new(path)).unwrap();
        }
        let missing = sync_folder_of(Path::new("no-such-folder/sluice.lock"));
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn of_many_writers_one_wins() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.json");
        let wins = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..8)
                .map(|i| {
                    let path = &path;
                    scope.spawn(move || publish_new(path, &[i; 4096]).unwrap() == Published::Written)
                })
                .collect();
            handles
                .into_iter()
                .filter_map(|handle| handle.join().unwrap().then_some(()))
                .count()
        });
        assert_eq!(wins, 1);
        let content = std::fs::read(&path).unwrap();
        assert!(content.iter().all(|byte| *byte == content[0]) && content.len() == 4096);
    }
}
