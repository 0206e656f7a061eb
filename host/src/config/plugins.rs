//! `[plugins]`: where compiled components are kept.

use std::path::Path;

use toml::Value;

use super::ConfigError;
use super::section::Section;
use crate::transform::CacheSettings;

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
    use std::path::PathBuf;

    use super::*;

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
