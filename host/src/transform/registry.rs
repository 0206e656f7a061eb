//! Where plugins come from: the components inside the binary, and a directory of `NAME.wasm` and `NAME@VERSION.wasm`.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::component::{MAX_FILE_BYTES, PluginError};

/// A component that is part of the binary.
#[derive(Clone, Copy, Debug)]
pub struct BuiltinComponent {
    /// The name that a table's configuration uses.
    pub name: &'static str,
    /// The component.
    pub bytes: &'static [u8],
}

/// Finds the bytes of a plugin by its name.
#[derive(Debug)]
pub(crate) struct Registry {
    dir: Option<PathBuf>,
    builtins: &'static [BuiltinComponent],
}

/// A plugin that was found.
#[derive(Debug)]
pub(crate) struct Found {
    /// For messages: the path, or that it is built in.
    pub(crate) file: String,
    /// The version in the file's name.
    pub(crate) version: Option<String>,
    pub(crate) bytes: Arc<[u8]>,
    /// The file as it was before it was read; `None` for a built-in component.
    pub(crate) sighting: Option<Sighting>,
}

/// What tells a file from an earlier one of its name without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sighting {
    path: PathBuf,
    bytes: u64,
    device_and_inode: (u64, u64),
    /// Seconds and nanoseconds of its modification, and of its last change of any kind: copying can keep the former.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Sighting {
    fn of(path: &Path) -> Result<Sighting, PluginError> {
        let metadata = fs::metadata(path).map_err(|error| PluginError::Unreadable {
            file: path.display().to_string(),
            reason: error.to_string(),
        })?;
        Ok(Sighting {
            path: path.to_owned(),
            bytes: metadata.len(),
            device_and_inode: (metadata.dev(), metadata.ino()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its name in the directory.
    pub(crate) fn file_name(&self) -> Option<String> {
        let name = self.path.file_name()?.to_str()?;
        Some(name.to_owned())
    }

    /// When the file was last written, renamed or otherwise changed.
    pub(crate) fn changed(&self) -> SystemTime {
        let (seconds, nanoseconds) = self.changed;
        let part = |number: i64| u64::try_from(number).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::from_secs(part(seconds)) + Duration::from_nanos(part(nanoseconds))
    }
}

/// Where a name leads.
enum Choice {
    Builtin(&'static BuiltinComponent),
    File(PluginFile),
}

impl Registry {
    pub(crate) fn new(dir: Option<PathBuf>, builtins: &'static [BuiltinComponent]) -> Registry {
        Registry { dir, builtins }
    }

    /// Finds `NAME` or `NAME@VERSION`. The bytes are read once; everything that follows is about them.
    pub(crate) fn find(&self, plugin: &str) -> Result<Found, PluginError> {
        match self.choose(plugin)? {
            Choice::Builtin(builtin) => Ok(Found {
                file: format!("the built-in component `{}`", builtin.name),
                version: None,
                bytes: Arc::from(builtin.bytes),
                sighting: None,
            }),
            Choice::File(file) => {
                // Before the bytes: a file that is written meanwhile is another one at the next look.
                let sighting = Sighting::of(&file.path)?;
                Ok(Found {
                    file: file.path.display().to_string(),
                    version: file.version,
                    bytes: read(&file.path)?,
                    sighting: Some(sighting),
                })
            }
        }
    }

    /// The file of a plugin as it is now, without reading it; `None` for a built-in component.
    pub(crate) fn sighting(&self, plugin: &str) -> Result<Option<Sighting>, PluginError> {
        match self.choose(plugin)? {
            Choice::Builtin(_) => Ok(None),
            Choice::File(file) => Sighting::of(&file.path).map(Some),
        }
    }

    fn choose(&self, plugin: &str) -> Result<Choice, PluginError> {
        let (name, version) = split(plugin)?;
        let files = self.files()?;
        let mut candidates: Vec<&PluginFile> = files.iter().filter(|file| file.name == name).collect();
        if let Some(builtin) = self.builtins.iter().find(|builtin| builtin.name == name) {
            return match candidates.first() {
                Some(file) => Err(PluginError::HidesBuiltin {
                    file: file.path.display().to_string(),
                    plugin: name.to_owned(),
                }),
                None => Ok(Choice::Builtin(builtin)),
            };
        }
        if version.is_some() && candidates.iter().any(|file| file.version.as_deref() == version) {
            candidates.retain(|file| file.version.as_deref() == version);
        } else if version.is_some() {
            // A file without a version in its name may hold the one that is asked for; the caller compares.
            candidates.retain(|file| file.version.is_none());
        }
        match candidates.as_slice() {
            [] => Err(self.unknown(plugin, &files)),
            [file] => Ok(Choice::File((*file).clone())),
            several => Err(PluginError::Ambiguous {
                plugin: name.to_owned(),
                files: several.iter().map(|file| file.path.display().to_string()).collect(),
            }),
        }
    }

    fn unknown(&self, plugin: &str, files: &[PluginFile]) -> PluginError {
        let mut known: Vec<String> = self.builtins.iter().map(|builtin| builtin.name.to_owned()).collect();
        known.extend(files.iter().map(|file| match &file.version {
            Some(version) => format!("{}@{version}", file.name),
            None => file.name.clone(),
        }));
        known.sort();
        PluginError::Unknown {
            plugin: plugin.to_owned(),
            dir: self.dir.as_ref().map(|dir| dir.display().to_string()),
            known,
        }
    }

    /// The plugin files of the directory, by name. Other files are none of our business.
    fn files(&self) -> Result<Vec<PluginFile>, PluginError> {
        let Some(dir) = &self.dir else {
            return Ok(Vec::new());
        };
        let unreadable = |error: std::io::Error| PluginError::Unreadable {
            file: format!("the plugin directory {}", dir.display()),
            reason: error.to_string(),
        };
        let mut files = Vec::new();
        for entry in fs::read_dir(dir).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_none_or(|extension| extension != "wasm") {
                continue;
            }
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            if let Some(Ok((name, version))) = stem.map(split) {
                files.push(PluginFile {
                    name: name.to_owned(),
                    version: version.map(str::to_owned),
                    path,
                });
            }
        }
        files.sort();
        Ok(files)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PluginFile {
    name: String,
    version: Option<String>,
    path: PathBuf,
}

/// `NAME` or `NAME@VERSION`, of characters that cannot lead out of the directory.
fn split(plugin: &str) -> Result<(&str, Option<&str>), PluginError> {
    let (name, version) = match plugin.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (plugin, None),
    };
    let plain = |text: &str| {
        !text.is_empty()
            && !text.starts_with('.')
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte))
    };
    if plain(name) && version.is_none_or(plain) {
        Ok((name, version))
    } else {
        Err(PluginError::BadName(plugin.to_owned()))
    }
}

/// The bytes of a component's file.
pub(crate) fn read(path: &Path) -> Result<Arc<[u8]>, PluginError> {
    let unreadable = |reason: String| PluginError::Unreadable {
        file: path.display().to_string(),
        reason,
    };
    // Anything else may make whoever opens it wait.
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => return Err(unreadable("it is no regular file".to_owned())),
        Ok(_) => {}
        Err(error) => return Err(unreadable(error.to_string())),
    }
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(unreadable(format!("it is larger than {MAX_FILE_BYTES} bytes")));
    }
    Ok(Arc::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILTINS: &[BuiltinComponent] = &[BuiltinComponent {
        name: "mask",
        bytes: b"built in",
    }];

    fn registry(files: &[&str]) -> (tempfile::TempDir, Registry) {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            fs::write(dir.path().join(file), file).unwrap();
        }
        let registry = Registry::new(Some(dir.path().to_owned()), BUILTINS);
        (dir, registry)
    }

    #[test]
    fn files_are_found_by_name_and_by_version() {
        let (_dir, registry) = registry(&["a.wasm", "b@1.0.wasm", "c@1.wasm", "c@2.wasm", "notes.txt"]);
        assert_eq!(&*registry.find("a").unwrap().bytes, b"a.wasm");
        let b = registry.find("b").unwrap();
        assert_eq!((&*b.bytes, b.version.as_deref()), (&b"b@1.0.wasm"[..], Some("1.0")));
        assert_eq!(&*registry.find("c@2").unwrap().bytes, b"c@2.wasm");
        assert_eq!(&*registry.find("a@7").unwrap().bytes, b"a.wasm");
        assert_eq!(&*registry.find("mask").unwrap().bytes, b"built in");
    }

    #[test]
    fn an_unknown_name_lists_what_there_is() {
        let (dir, registry) = registry(&["b@1.0.wasm", "a.wasm"]);
        assert_eq!(
            registry.find("x").unwrap_err().to_string(),
            format!(
                "there is no plugin `x` in {} or built in; there are `a`, `b@1.0`, `mask`",
                dir.path().display()
            )
        );
        assert!(matches!(registry.find("b@2.0"), Err(PluginError::Unknown { .. })));
        let bare = Registry::new(None, &[]);
        assert_eq!(
            bare.find("x").unwrap_err().to_string(),
            "there is no plugin `x` (and no `[plugins] dir` is set); there are none"
        );
    }

    #[test]
    fn a_file_that_was_written_or_replaced_is_seen_to_be_another_one() {
        let (dir, registry) = registry(&["a.wasm"]);
        let before = registry.sighting("a").unwrap();
        assert_eq!(before, registry.find("a").unwrap().sighting);
        assert_eq!(before.as_ref().and_then(Sighting::file_name).as_deref(), Some("a.wasm"));
        // The same length, and another inode.
        fs::write(dir.path().join("new"), "A.wasm").unwrap();
        fs::rename(dir.path().join("new"), dir.path().join("a.wasm")).unwrap();
        let replaced = registry.sighting("a").unwrap();
        assert_ne!(before, replaced);
        fs::write(dir.path().join("a.wasm"), "longer than before").unwrap();
        assert_ne!(replaced, registry.sighting("a").unwrap());
        assert_eq!(registry.sighting("mask").unwrap(), None);
        fs::remove_file(dir.path().join("a.wasm")).unwrap();
        assert!(matches!(registry.sighting("a"), Err(PluginError::Unknown { .. })));
    }

    #[test]
    fn several_versions_need_a_choice() {
        let (_dir, registry) = registry(&["c@1.wasm", "c@2.wasm", "c.wasm"]);
        let error = registry.find("c").unwrap_err();
        assert!(matches!(&error, PluginError::Ambiguous { files, .. } if files.len() == 3));
        assert!(error.to_string().contains("c@1.wasm"), "{error}");
        assert!(registry.find("c@1").is_ok());
    }

    #[test]
    fn a_file_may_not_hide_a_built_in_component() {
        let (_dir, registry) = registry(&["mask@9.wasm"]);
        let error = registry.find("mask").unwrap_err().to_string();
        assert!(
            error.contains("mask@9.wasm") && error.ends_with("rename the file"),
            "{error}"
        );
    }

    #[test]
    fn a_name_cannot_leave_the_directory() {
        let (_dir, registry) = registry(&[]);
        for bad in ["", "../a", "/etc/a", "a@", "@1", "a@../b", ".a", "a b", "a@1@2"] {
            assert!(matches!(registry.find(bad), Err(PluginError::BadName(_))), "{bad}");
        }
    }

    #[test]
    fn a_missing_directory_is_named() {
        let registry = Registry::new(Some("/nowhere/at/all".into()), &[]);
        let error = registry.find("a").unwrap_err().to_string();
        assert!(error.contains("/nowhere/at/all"), "{error}");
    }
}
