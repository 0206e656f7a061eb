//! `[plugins]`: where components come from, where their compiled code is kept, and the lock file beside the configuration.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::Value;

use super::ConfigError;
use super::section::Section;
use crate::transform::{CacheSettings, Lock, Pins, Plugins};

/// Where components come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginSettings {
    /// The directory of `NAME.wasm` and `NAME@VERSION.wasm`.
    pub dir: Option<PathBuf>,
    /// Whether a file that changes takes effect at the next batch, and not at the next start.
    pub reload: bool,
    /// Whether no plugin file is accepted while there is no lock file.
    pub locked: bool,
    /// Where compiled components are kept.
    pub cache: CacheSettings,
    /// Where the lock file is, if there is one: beside the configuration and named as it is, with `.lock`. `None`: the
    /// configuration is no file.
    pub lock_file: Option<PathBuf>,
}

impl PluginSettings {
    pub(super) fn parse(mut section: Section<'_>, base: &Path) -> Result<PluginSettings, ConfigError> {
        let settings = PluginSettings {
            dir: section.string("dir")?.map(|dir| base.join(dir)),
            reload: section.boolean("reload")?.unwrap_or(false),
            locked: section.boolean("locked")?.unwrap_or(false),
            cache: cache(&mut section, base)?,
            lock_file: None,
        };
        section.finish()?;
        Ok(settings)
    }

    /// The plugins as the engine takes them. Reads the lock file, which only what runs components needs. With `locked`, one
    /// that is not there is one that has no file.
    ///
    /// # Errors
    /// A lock file that is there and cannot be read.
    pub fn accepted(&self) -> Result<Plugins, ConfigError> {
        Ok(Plugins {
            dir: self.dir.clone(),
            lock: self.lock()?.or_else(|| self.locked.then(|| self.empty_lock())),
            reload: self.reload,
        })
    }

    fn empty_lock(&self) -> Lock {
        Lock {
            path: self.lock_file.clone().unwrap_or_else(|| PathBuf::from("sluice.lock")),
            pins: Pins::default(),
        }
    }

    /// The lock file; `None` when there is none.
    ///
    /// # Errors
    /// One that is there and cannot be read.
    pub fn lock(&self) -> Result<Option<Lock>, ConfigError> {
        let Some(path) = &self.lock_file else {
            return Ok(None);
        };
        let problem = |problem: String| ConfigError::Lock {
            path: path.clone(),
            problem,
        };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(problem(format!("cannot be read: {error}"))),
        };
        let pins = Pins::parse(&text).map_err(problem)?;
        Ok(Some(Lock {
            path: path.clone(),
            pins,
        }))
    }
}

/// `sluice.lock` of `sluice.toml`: a folder may have several configurations.
pub(super) fn lock_file_of(config: &Path) -> PathBuf {
    config.with_extension("lock")
}

/// `cache`: a directory, relative to `base`, or `false` for none.
pub(super) fn cache(section: &mut Section<'_>, base: &Path) -> Result<CacheSettings, ConfigError> {
    match section.value("cache") {
        None | Some(Value::Boolean(true)) => Ok(CacheSettings::User),
        Some(Value::Boolean(false)) => Ok(CacheSettings::Off),
        Some(Value::String(path)) if !path.trim().is_empty() => Ok(CacheSettings::At(base.join(path))),
        Some(_) => Err(section.error(
            "cache",
            "must be the path of a directory in quotes, or false for no cache",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locked(content: &[u8]) -> Result<Option<Lock>, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = lock_file_of(&dir.path().join("prod.toml"));
        assert_eq!(path, dir.path().join("prod.lock"));
        std::fs::write(&path, content).unwrap();
        PluginSettings {
            lock_file: Some(path),
            ..PluginSettings::default()
        }
        .lock()
    }

    #[test]
    fn a_lock_file_that_cannot_be_read_is_an_error_and_none_is_none() {
        let there = locked(Pins::default().text().as_bytes()).unwrap();
        assert_eq!(there.map(|lock| lock.pins), Some(Pins::default()));
        for content in [&b""[..], b"format = 9", b"\xff"] {
            let error = locked(content).unwrap_err().to_string();
            assert!(
                error.contains("prod.lock") && error.contains("`sluice lock`"),
                "{error}"
            );
        }
        let nowhere = PluginSettings {
            lock_file: Some("/nowhere/at/all/sluice.lock".into()),
            ..PluginSettings::default()
        };
        assert_eq!(nowhere.lock().unwrap(), None);
        assert_eq!(nowhere.accepted().unwrap().lock, None);
    }

    #[test]
    fn locked_accepts_no_file_where_there_is_no_lock_file() {
        let table: toml::Table = "locked = true".parse().unwrap();
        let parsed = PluginSettings::parse(Section::new("plugins", &table), Path::new("/etc/sluice")).unwrap();
        assert!(parsed.locked);
        let settings = PluginSettings {
            lock_file: Some("/nowhere/at/all/sluice.lock".into()),
            ..parsed
        };
        let lock = settings.accepted().unwrap().lock.expect("an empty one");
        assert_eq!(lock.pins, Pins::default());
        assert_eq!(lock.path, Path::new("/nowhere/at/all/sluice.lock"));
        assert_eq!(settings.lock().unwrap(), None);
    }

    fn parsed(text: &str) -> Result<CacheSettings, String> {
        let table: toml::Table = text.parse().unwrap();
        let mut section = Section::new("plugins", &table);
        cache(&mut section, Path::new("/etc/sluice")).map_err(|error| error.to_string())
    }

    #[test]
    fn the_cache_is_a_directory_or_none() {
        assert_eq!(parsed(""), Ok(CacheSettings::User));
        assert_eq!(parsed("cache = true"), Ok(CacheSettings::User));
        assert_eq!(parsed("cache = false"), Ok(CacheSettings::Off));
        let at = |path: &str| Ok(CacheSettings::At(PathBuf::from(path)));
        assert_eq!(parsed("cache = \"code\""), at("/etc/sluice/code"));
        assert_eq!(parsed("cache = \"/var/cache/sluice\""), at("/var/cache/sluice"));
        for wrong in ["cache = 1", "cache = \"\"", "cache = []"] {
            let error = parsed(wrong).unwrap_err();
            assert!(error.starts_with("plugins.cache must be the path"), "{error}");
        }
    }
}
