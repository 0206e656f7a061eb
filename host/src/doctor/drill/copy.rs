//! Copies of a table, in which nothing can reach the original.

use std::io::ErrorKind;
use std::path::Path;

use super::DrillError;
use crate::doctor::subject::Subject;

/// Copies checkpoint, bronze, facts and control into a folder. The verdict is copied first and bronze last, against the
/// order in which a run writes them, so that a copy of a running table is never ahead where it must not be.
pub(super) fn copy_of(subject: &Subject, folder: &Path) -> Result<Subject, DrillError> {
    let copy = Subject {
        checkpoint: folder.join("checkpoint"),
        target: folder.join("bronze"),
        facts_table: folder.join("facts"),
        control_table: folder.join("control"),
        ..subject.clone()
    };
    for (from, to) in [
        (&subject.control_table, &copy.control_table),
        (&subject.facts_table, &copy.facts_table),
        (&subject.checkpoint, &copy.checkpoint),
        (&subject.target, &copy.target),
    ] {
        tree(from, to)?;
    }
    Ok(copy)
}

fn tree(from: &Path, to: &Path) -> Result<(), DrillError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| DrillError::Copy { path, source }
    };
    let entries = match std::fs::read_dir(from) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(from)(error)),
    };
    std::fs::create_dir_all(to).map_err(failed(to))?;
    for entry in entries {
        let path = entry.map_err(failed(from))?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            tree(&path, &target)?;
            continue;
        }
        match file(&path, &target) {
            // A running table moves on: what is gone by now is not part of the copy.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            copied => copied.map_err(failed(&path))?,
        }
    }
    Ok(())
}

/// Data files never change, so two names for one file are as good as a copy. Those of a log are small.
fn file(from: &Path, to: &Path) -> std::io::Result<()> {
    let is_data = from.extension().is_some_and(|extension| extension == "parquet")
        && !from.components().any(|part| part.as_os_str() == "_delta_log");
    if is_data && std::fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    std::fs::copy(from, to).map(|_| ())
}
