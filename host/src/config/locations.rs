//! Where things go must not overlap: each target and checkpoint has a folder of its own, facts and control tables may be
//! shared by tables but not with anything else, and nothing lies inside another, where a vacuum would find it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{ConfigError, TableSettings};
use crate::storage::{Place, StorageOptions, Stores};

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
    let mut taken: BTreeMap<Place, (Use, usize)> = BTreeMap::new();
    for (index, table) in tables.iter().enumerate() {
        for (role, path) in uses(table) {
            match taken.get(path) {
                Some((other, _)) if *other == role && role.may_be_shared() => {}
                Some((other, owner)) => {
                    return Err(clash(tables, index, role, path, "is also", *other, *owner));
                }
                None => {
                    taken.insert(path.clone(), (role, index));
                }
            }
        }
    }
    for (path, (role, index)) in &taken {
        for ancestor in path.ancestors() {
            if let Some((other, owner)) = taken.get(&ancestor) {
                return Err(clash(tables, *index, *role, path, "lies inside", *other, *owner));
            }
        }
    }
    Ok(())
}

/// A folder of the process's own lies in none of the tables' folders, and none of them in it.
pub(super) fn expect_apart(key: &str, folder: &Place, tables: &[TableSettings]) -> Result<(), ConfigError> {
    for table in tables {
        for (role, path) in uses(table) {
            let how = if path == folder {
                "is also"
            } else if folder.is_within(path) {
                "lies inside"
            } else if path.is_within(folder) {
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

fn uses(table: &TableSettings) -> [(Use, &Place); 4] {
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
    path: &Place,
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

/// What locations of the file count from, and the stores that they may be in.
#[derive(Clone, Debug)]
pub(super) struct Places {
    base: PathBuf,
    stores: Stores,
}

impl Places {
    pub(super) fn new(base: &Path, storage: StorageOptions) -> Places {
        Places {
            base: base.to_owned(),
            stores: Stores::new(storage),
        }
    }

    /// The place that a location means.
    pub(super) fn parse(&self, text: &str) -> Result<Place, String> {
        self.stores.place(&self.base, text)
    }
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
