//! The reference tables of a configuration, each read when a table is opened that may use it, and once in a process: all
//! tables see the same one, also when the file changes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::{LookupFileError, LookupTable};

/// Reference tables by name.
#[derive(Debug, Default)]
pub struct Lookups {
    files: BTreeMap<String, LookupFile>,
}

#[derive(Debug)]
struct LookupFile {
    path: PathBuf,
    /// A file that could not be read is tried again by the next table.
    read: Mutex<Option<Arc<LookupTable>>>,
}

impl Lookups {
    /// Names and CSV files. Nothing is read yet. Of two files with one name the second counts.
    pub fn new(files: impl IntoIterator<Item = (String, PathBuf)>) -> Lookups {
        let files = files.into_iter().map(|(name, path)| {
            let read = Mutex::default();
            (name, LookupFile { path, read })
        });
        Lookups { files: files.collect() }
    }

    /// The names that there are.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The reference table of a name; `None` when there is none.
    ///
    /// # Errors
    /// Its file cannot be read, or is no such table.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Arc<LookupTable>>, LookupFileError> {
        let Some(file) = self.files.get(name) else {
            return Ok(None);
        };
        let mut read = file.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = &*read {
            return Ok(Some(Arc::clone(table)));
        }
        let table = Arc::new(LookupTable::read(&file.path)?);
        Ok(Some(Arc::clone(read.insert(table))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_once_and_a_broken_one_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        let lookups = Lookups::new([("a".to_owned(), path.clone())]);
        assert!(lookups.get("a").is_err());
        // A pipe would have whoever opens it wait.
        std::fs::create_dir(&path).unwrap();
        let error = lookups.get("a").map(|_| ()).unwrap_err().to_string();
        assert!(error.ends_with("it is no regular file"), "{error}");
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, "key,name\n1,one\n").unwrap();
        let first = lookups.get("a").unwrap().unwrap();
        std::fs::write(&path, "key,name\n1,two\n").unwrap();
        assert!(Arc::ptr_eq(&first, &lookups.get("a").unwrap().unwrap()));
        assert_eq!(first.find("1", 1), Some("one"));
        assert!(lookups.get("b").unwrap().is_none());
        assert_eq!(lookups.names().collect::<Vec<_>>(), ["a"]);
    }
}
