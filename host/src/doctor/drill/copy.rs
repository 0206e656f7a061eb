//! Copies of a table, in which nothing can reach the original.

use std::io::ErrorKind;
use std::path::Path;

use super::{DrillError, path_of};
use crate::checkpoint::{Owner, files};
use crate::doctor::subject::Subject;
use crate::storage::Place;

/// Copies checkpoint, bronze, facts, control and quarantine into a folder. The verdict is copied first, and bronze and quarantine
/// last, against the order in which a run writes them, so that a copy of a running table is never ahead where it must not be.
pub(super) fn copy_of(subject: &Subject, folder: &Path) -> Result<Subject, DrillError> {
    let folder = Place::from(folder);
    let copy = Subject {
        checkpoint: folder.join("checkpoint"),
        target: folder.join("bronze"),
        facts_table: folder.join("facts"),
        control_table: folder.join("control"),
        hosts: None,
        ..subject.clone()
    };
    for (from, to) in [
        (&subject.control_table, &copy.control_table),
        (&subject.facts_table, &copy.facts_table),
        (&subject.checkpoint, &copy.checkpoint),
        (&subject.target, &copy.target),
        (&subject.quarantine(), &copy.quarantine()),
    ] {
        let from = from
            .as_local()
            .ok_or_else(|| DrillError::InABucket { place: from.clone() })?;
        tree(from, path_of(to))?;
    }
    disown(&copy.checkpoint)?;
    Ok(copy)
}

/// The process that runs the table, or may wake up, does not run its copy. A file that is damaged stays so.
fn disown(checkpoint: &Place) -> Result<(), DrillError> {
    let file = checkpoint.join(files::OWNER);
    let Ok(Some(owner)) = files::read_json::<Owner>(&file, files::ADVICE_OWNER) else {
        return Ok(());
    };
    let owner = Owner {
        lease: None,
        hosts: None,
        hosts_id: None,
        unsettled: Vec::new(),
        ..owner
    };
    let written = serde_json::to_vec_pretty(&owner).map_err(std::io::Error::other);
    written
        .and_then(|bytes| std::fs::write(path_of(&file), bytes))
        .map_err(|source| DrillError::Copy {
            path: path_of(&file).to_path_buf(),
            source,
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::tests::subject;
    use crate::lsn::UtcMicros;

    #[test]
    fn a_copy_of_a_table_under_a_lease_is_nobodys() {
        let folder = tempfile::tempdir().unwrap();
        let original = Subject {
            checkpoint: Place::from(folder.path()).join("original"),
            ..subject()
        };
        let owner = Owner {
            format: crate::checkpoint::FORMAT,
            host: "a".into(),
            pid: 1,
            fencing: 7,
            since: UtcMicros::now(),
            lease: Some("x".into()),
            hosts: Some(folder.path().join("hosts").display().to_string()),
            hosts_id: Some("y".into()),
            unsettled: vec![crate::checkpoint::Unsettled {
                owner: None,
                may_wake: true,
            }],
        };
        files::create_folder(&original.checkpoint).unwrap();
        files::publish_json(&original.checkpoint.join(files::OWNER), &owner).unwrap();
        let copy = copy_of(&original, &folder.path().join("copy")).unwrap();
        let read =
            |checkpoint: &Place| -> Owner { files::read_json(&checkpoint.join(files::OWNER), "").unwrap().unwrap() };
        let there = read(&copy.checkpoint);
        assert_eq!((there.fencing, there.host.as_str()), (7, "a"));
        assert_eq!(
            (there.lease, there.hosts, there.hosts_id, there.unsettled),
            (None, None, None, Vec::new())
        );
        assert_eq!(read(&original.checkpoint).lease.as_deref(), Some("x"));
    }
}
