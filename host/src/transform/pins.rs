//! The lock file: which plugin files a configuration has accepted, each by its SHA-256. `sluice lock` writes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::component::{Locked, PluginError};

/// Where plugins come from, and which of them are accepted.
#[derive(Clone, Debug, Default)]
pub struct Plugins {
    /// The directory of `NAME.wasm` and `NAME@VERSION.wasm`.
    pub dir: Option<PathBuf>,
    /// The accepted files; `None` where there is no lock file, so that all are.
    pub lock: Option<Lock>,
    /// Whether a file that changes takes effect while the process runs.
    pub reload: bool,
}

impl From<Option<PathBuf>> for Plugins {
    /// A directory without a lock file, read once.
    fn from(dir: Option<PathBuf>) -> Plugins {
        Plugins {
            dir,
            ..Plugins::default()
        }
    }
}

/// A lock file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Where it is, for messages.
    pub path: PathBuf,
    /// What it says.
    pub pins: Pins,
}

/// The pins of a lock file, by the name of the plugin's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins(BTreeMap<String, Pin>);

/// One accepted file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The name of the file in the plugin directory.
    pub file: String,
    /// The plugin's name, without a version.
    pub name: String,
    /// The component's version, or `unversioned`. For people: the digest is what is compared.
    pub version: String,
    /// SHA-256 of the file, lower-case hex.
    pub sha256: String,
}

/// The only format so far.
const FORMAT: u32 = 1;

const HEADER: &str = "\
# The plugin files that the configuration beside this file may run, each by its SHA-256.
# Written by `sluice lock`; keep it under version control. While this file is here, sluice runs no other plugin file:
# look at a new or changed one, then accept it with `sluice lock`. `sluice lock --check` is for CI.
# The components inside the sluice binary (mask, map) are not listed: they are as the binary is.
";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: u32,
    #[serde(default)]
    plugin: Vec<Pin>,
}

impl Pins {
    /// Reads the text of a lock file. The error is a sentence's end: `is no …`.
    pub fn parse(text: &str) -> Result<Pins, String> {
        let file: File = toml::from_str(text).map_err(|error| format!("is no lock file: {}", error.message()))?;
        if file.format != FORMAT {
            return Err(format!(
                "has format {}, and this version of sluice knows format {FORMAT}",
                file.format
            ));
        }
        let mut pins = BTreeMap::new();
        for pin in file.plugin {
            if pin.sha256.len() != 64 || !pin.sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
                return Err(format!(
                    "has a sha256 of {} that is not 64 lower-case hex digits",
                    pin.file
                ));
            }
            let name = pin.file.clone();
            if pins.insert(name.clone(), pin).is_some() {
                return Err(format!("has {name} twice"));
            }
        }
        Ok(Pins(pins))
    }

    /// The text of the lock file: the same for the same pins.
    pub fn text(&self) -> String {
        let mut text = format!("{HEADER}\nformat = {FORMAT}\n");
        for pin in self.iter() {
            text.push_str("\n[[plugin]]\n");
            for (key, value) in [
                ("file", &pin.file),
                ("name", &pin.name),
                ("version", &pin.version),
                ("sha256", &pin.sha256),
            ] {
                text.push_str(&format!("{key} = {}\n", toml::Value::from(value.as_str())));
            }
        }
        text
    }

    /// The pin of a file.
    pub fn get(&self, file: &str) -> Option<&Pin> {
        self.0.get(file)
    }

    /// All pins, sorted by file name.
    pub fn iter(&self) -> impl Iterator<Item = &Pin> {
        self.0.values()
    }
}

impl FromIterator<Pin> for Pins {
    fn from_iter<I: IntoIterator<Item = Pin>>(pins: I) -> Pins {
        Pins(pins.into_iter().map(|pin| (pin.file.clone(), pin)).collect())
    }
}

impl Lock {
    /// Whether a file of the plugin directory is the accepted one.
    pub(super) fn expect(&self, path: &Path, sha256: &str) -> Result<(), PluginError> {
        let file = || path.display().to_string();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match self.pins.get(name) {
            Some(pin) if pin.sha256 == sha256 => Ok(()),
            Some(pin) => Err(PluginError::OtherThanLocked {
                file: file(),
                found: sha256.to_owned(),
                locked: Box::new(Locked {
                    lock: self.path.display().to_string(),
                    sha256: pin.sha256.clone(),
                }),
            }),
            None => Err(PluginError::NotLocked {
                file: file(),
                found: sha256.to_owned(),
                lock: self.path.display().to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(file: &str, digit: &str) -> Pin {
        let (name, version) = file.trim_end_matches(".wasm").split_once('@').unwrap_or((file, "1"));
        Pin {
            file: file.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            sha256: digit.repeat(64),
        }
    }

    #[test]
    fn a_lock_file_reads_back_as_it_was_written_whatever_the_order() {
        let pins: Pins = [pin("b@2.wasm", "b"), pin("a.wasm", "a")].into_iter().collect();
        let other: Pins = [pin("a.wasm", "a"), pin("b@2.wasm", "b")].into_iter().collect();
        assert_eq!(pins.text(), other.text());
        assert_eq!(Pins::parse(&pins.text()), Ok(pins.clone()));
        let files: Vec<&str> = pins.iter().map(|pin| pin.file.as_str()).collect();
        assert_eq!(files, ["a.wasm", "b@2.wasm"]);
        assert!(pins.text().starts_with("# ") && pins.text().contains("sluice lock"));
        assert_eq!(Pins::parse(&Pins::default().text()), Ok(Pins::default()));
    }

    #[test]
    fn a_text_that_is_no_lock_file_is_refused_by_what_is_wrong_with_it() {
        let good = [pin("a.wasm", "a")].into_iter().collect::<Pins>().text();
        for (text, words) in [
            (String::new(), "missing field `format`"),
            ("plugin = 3\nformat = 1".to_owned(), "is no lock file"),
            (good.replace("format = 1", "format = 2"), "has format 2"),
            (good.replace("aaaa", "AAAA"), "not 64 lower-case hex digits"),
            (good.replace("sha256", "sha512"), "unknown field `sha512`"),
            (
                format!("{good}{}", good.split("format = 1\n").nth(1).unwrap()),
                "has a.wasm twice",
            ),
        ] {
            let problem = Pins::parse(&text).unwrap_err();
            assert!(problem.contains(words), "{words}: {problem}");
        }
    }

    #[test]
    fn another_file_and_one_that_is_not_listed_are_refused_with_the_way_to_accept_them() {
        let lock = Lock {
            path: "/p/sluice.lock".into(),
            pins: [pin("a.wasm", "a")].into_iter().collect(),
        };
        assert_eq!(lock.expect(Path::new("/p/plugins/a.wasm"), &"a".repeat(64)), Ok(()));
        let error = lock
            .expect(Path::new("/p/plugins/a.wasm"), &"b".repeat(64))
            .unwrap_err();
        let text = error.to_string();
        for words in [
            "/p/plugins/a.wasm",
            &"a".repeat(64),
            &"b".repeat(64),
            "/p/sluice.lock",
            "`sluice lock`",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let error = lock
            .expect(Path::new("/p/plugins/b.wasm"), &"b".repeat(64))
            .unwrap_err();
        assert!(matches!(error, PluginError::NotLocked { .. }), "{error}");
        assert!(error.to_string().contains("`sluice lock`"), "{error}");
    }
}
