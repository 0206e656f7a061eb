//! Where things go must not overlap: each target and checkpoint has a folder of its own, facts and control tables may be
//! shared by tables but not with anything else, and nothing lies inside another, where a vacuum would find it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::{ConfigError, TableSettings};

/// What a folder is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Target,
    Checkpoint,
    Facts,
    Control,
}

impl Use {
    fn key(self) -> &'static str {
        match self {
            Use::Target => "target",
            Use::Checkpoint => "checkpoint",
            Use::Facts => "facts_table",
            Use::Control => "control_table",
        }
    }

    fn may_be_shared(self) -> bool {
        matches!(self, Use::Facts | Use::Control)
    }
}

pub(super) fn expect_disjoint(tables: &[TableSettings]) -> Result<(), ConfigError> {
    let mut taken: BTreeMap<PathBuf, (Use, usize)> = BTreeMap::new();
    for (index, table) in tables.iter().enumerate() {
        for (role, path) in uses(table) {
            let path = resolved(path);
            match taken.get(&path) {
                Some((other, _)) if *other == role && role.may_be_shared() => {}
                Some((other, owner)) => {
                    return Err(clash(tables, index, role, &path, "is also", *other, *owner));
                }
                None => {
                    taken.insert(path, (role, index));
                }
            }
        }
    }
    for (path, (role, index)) in &taken {
        for ancestor in path.ancestors().skip(1) {
            if let Some((other, owner)) = taken.get(ancestor) {
                return Err(clash(tables, *index, *role, path, "lies inside", *other, *owner));
            }
        }
    }
    Ok(())
}

/// A folder of the process's own lies in none of the tables' folders, and none of them in it.
pub(super) fn expect_apart(key: &str, folder: &Path, tables: &[TableSettings]) -> Result<(), ConfigError> {
    for table in tables {
        for (role, path) in uses(table) {
            let path = resolved(path);
            let how = if path == folder {
                "is also"
            } else if folder.starts_with(&path) {
                "lies inside"
            } else if path.starts_with(folder) {
                "is around"
            } else {
                continue;
            };
            return Err(ConfigError::Key {
                key: key.to_owned(),
                problem: format!(
                    "{} {how} the {} of {}; give it a folder of its own",
                    folder.display(),
                    role.key(),
                    table.capture_instance
                ),
            });
        }
    }
    Ok(())
}

fn uses(table: &TableSettings) -> [(Use, &Path); 4] {
    [
        (Use::Target, &table.target),
        (Use::Checkpoint, &table.checkpoint),
        (Use::Facts, &table.facts_table),
        (Use::Control, &table.control_table),
    ]
}

fn clash(
    tables: &[TableSettings],
    index: usize,
    role: Use,
    path: &Path,
    how: &str,
    other: Use,
    owner: usize,
) -> ConfigError {
    let whose = |index: usize| {
        tables
            .get(index)
            .map(|table| table.capture_instance.0.as_str())
            .unwrap_or_default()
    };
    ConfigError::Key {
        key: format!("table[{}].{}", index + 1, role.key()),
        problem: format!(
            "of {}: {} {how} the {} of {}; give each its own folder",
            whose(index),
            path.display(),
            other.key(),
            whose(owner)
        ),
    }
}

/// A location as the store takes it: absolute where `base` is, without `.` and `..`.
pub(super) fn parse(base: &Path, text: &str) -> Result<PathBuf, String> {
    let path = match text.strip_prefix("file://") {
        Some(rest) => PathBuf::from(rest),
        None if text.contains("://") => {
            return Err("must be a local path in this version of sluice; object stores come later".to_owned());
        }
        None => base.join(text),
    };
    let path = resolved(&path);
    let shown = path.to_string_lossy();
    if shown.contains(char::is_control) {
        return Err("has a control character, such as a line break".to_owned());
    }
    // A store would read it as another character.
    let encoded = |at: usize| {
        shown
            .get(at + 1..at + 3)
            .is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    if shown.match_indices('%').any(|(at, _)| encoded(at)) {
        return Err(format!(
            "is {shown}, with a percent sign before two hex digits; use another folder name"
        ));
    }
    Ok(path)
}

/// What `{ci}` becomes in a location. An instance's name may have characters that lead elsewhere.
pub(super) fn folder_name(capture_instance: &str) -> Result<&str, String> {
    if capture_instance.contains(['/', '\\']) || matches!(capture_instance, "." | "..") {
        return Err(format!(
            "has {{ci}}, and the name of capture instance {capture_instance:?} is no folder name; set it under this table, without {{ci}}"
        ));
    }
    Ok(capture_instance)
}

/// The path without `.` and `..`, by its text alone: it need not exist.
fn resolved(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}
