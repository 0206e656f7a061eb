//! The lock file of a new plugin: the part of this repository's that its SDK needs, so that a plugin is built from the
//! crates that the SDK was tested with.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Clone, Deserialize)]
struct Package {
    name: String,
    version: String,
    source: Option<String>,
    checksum: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}

/// A lock file for a crate of this name and version, with these direct dependencies. `None` where `lock` does not have
/// one of them.
pub(crate) fn lock_of(lock: &str, name: &str, version: &str, dependencies: &[&str]) -> Option<String> {
    let lock: Lock = toml::from_str(lock).ok()?;
    let mut wanted: Vec<String> = dependencies.iter().map(|name| (*name).to_owned()).collect();
    let mut kept: BTreeMap<(String, String), Package> = BTreeMap::new();
    while let Some(dependency) = wanted.pop() {
        let package = find(&lock, &dependency)?;
        let id = (package.name.clone(), package.version.clone());
        if kept.insert(id, package.clone()).is_none() {
            wanted.extend(package.dependencies.iter().cloned());
        }
    }
    let root = Package {
        name: name.to_owned(),
        version: version.to_owned(),
        source: None,
        checksum: None,
        dependencies: dependencies.iter().map(|name| (*name).to_owned()).collect(),
    };
    kept.insert((root.name.clone(), root.version.clone()), root);
    let mut text = String::from("version = 4\n");
    for package in kept.values() {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n[[package]]\nname = \"{}\"\nversion = \"{}\"\n",
            package.name, package.version
        );
        for (key, value) in [("source", &package.source), ("checksum", &package.checksum)] {
            if let Some(value) = value {
                let _ = writeln!(text, "{key} = \"{value}\"");
            }
        }
        if !package.dependencies.is_empty() {
            text.push_str("dependencies = [\n");
            for dependency in &package.dependencies {
                let _ = writeln!(text, " \"{dependency}\",");
            }
            text.push_str("]\n");
        }
    }
    Some(text)
}

/// A dependency as lock files write it: a name, with the version where there are several, with the source where that is
/// not enough.
fn find<'a>(lock: &'a Lock, dependency: &str) -> Option<&'a Package> {
    let mut words = dependency.split(' ');
    let (name, version) = (words.next()?, words.next());
    lock.package
        .iter()
        .find(|package| package.name == name && version.is_none_or(|version| package.version == version))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = r#"
version = 4

[[package]]
name = "a"
version = "1.0.0"
source = "registry+x"
checksum = "00"
dependencies = [
 "b 2.0.0",
]

[[package]]
name = "b"
version = "1.0.0"

[[package]]
name = "b"
version = "2.0.0"
dependencies = [
 "a",
]

[[package]]
name = "unrelated"
version = "1.0.0"
"#;

    #[test]
    fn what_is_needed_is_kept_and_nothing_else() {
        let text = lock_of(LOCK, "new", "0.1.0", &["a"]).unwrap();
        assert_eq!(
            text,
            "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry+x\"\nchecksum = \"00\"\n\
             dependencies = [\n \"b 2.0.0\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\ndependencies = [\n \"a\",\n]\n\n\
             [[package]]\nname = \"new\"\nversion = \"0.1.0\"\ndependencies = [\n \"a\",\n]\n"
        );
        assert!(lock_of(LOCK, "new", "0.1.0", &["absent"]).is_none());
    }
}
