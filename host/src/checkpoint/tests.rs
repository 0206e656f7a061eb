//! A checkpoint through crashes, damage and second runners.

use std::path::Path;

use super::samples::{commit_record, identity, offset, planned};
use super::*;
use crate::error::{Classify as _, ErrorKind};
use crate::identity::BatchId;
use crate::storage::Place;

fn open(folder: &Path) -> Checkpoint {
    Checkpoint::open(&Place::from(folder), &identity("orders", "orders")).unwrap()
}

#[test]
fn a_batch_is_open_between_its_plan_and_its_commit() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = open(folder.path());
    assert_eq!(checkpoint.latest().unwrap(), CheckpointState::default());
    checkpoint.plan(&planned(0, 0)).unwrap();
    checkpoint.plan(&planned(0, 0)).unwrap();
    let mut again = planned(0, 1);
    again.reason = Some("range purged".into());
    checkpoint.plan(&again).unwrap();
    let open_batch = checkpoint.latest().unwrap().open.unwrap();
    assert_eq!(
        (open_batch.attempt, open_batch.reason.as_deref()),
        (1, Some("range purged"))
    );
    assert_eq!(open_batch.ranges, again.ranges);

    checkpoint.commit(&commit_record(0, Some(4))).unwrap();
    let state = checkpoint.latest().unwrap();
    assert_eq!(state.open, None);
    assert_eq!(state.last_committed, Some(commit_record(0, Some(4))));
    assert_eq!(state.last_with_rows, Some(BatchId(0)));
    checkpoint.commit(&commit_record(0, Some(4))).unwrap();

    let mut other = planned(0, 0);
    other.end = offset(99);
    let error = checkpoint.plan(&other).unwrap_err().to_string();
    assert!(error.contains("0.a0.json"), "{error}");
}

#[test]
fn what_is_in_quarantine_is_told_by_any_record_that_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = open(folder.path());
    let quarantined = || checkpoint.reader().quarantined().unwrap();
    assert_eq!(quarantined(), None);
    // As a sluice wrote them that did not count on.
    for (n, rows) in [(0, 0), (1, 2), (2, 0)] {
        let mut record = commit_record(n, None);
        record.facts.rows_quarantined = Some(rows);
        checkpoint.commit(&record).unwrap();
    }
    assert_eq!(quarantined(), Some(1_000));
    let mut record = commit_record(3, None);
    record.in_quarantine = Some(1_002);
    checkpoint.commit(&record).unwrap();
    assert_eq!(quarantined(), Some(1_002));
    // Run works without an old record, so the others tell.
    std::fs::write(folder.path().join("commits/2.json"), b"{").unwrap();
    assert_eq!(quarantined(), Some(1_002));
    std::fs::remove_file(folder.path().join("commits/3.json")).unwrap();
    assert_eq!(quarantined(), Some(1_000));
}

#[test]
fn why_a_stream_stopped_is_kept_until_a_batch_is_done_and_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = open(folder.path());
    let file = folder.path().join("stopped.json");
    let stopped = |checkpoint: &Checkpoint| {
        let state = checkpoint.latest().unwrap();
        checkpoint.reader().stopped(&state).map(|stopped| stopped.error)
    };
    assert_eq!((stopped(&checkpoint), checkpoint.has_stop()), (None, false));
    checkpoint.plan(&planned(0, 0)).unwrap();
    for error in ["the first", "the last"] {
        checkpoint.stopped(error.to_owned(), crate::error::ErrorKind::Config);
        assert_eq!(stopped(&checkpoint).as_deref(), Some(error));
    }
    // Another process knows of it and removes it.
    drop(checkpoint);
    let checkpoint = open(folder.path());
    assert!(checkpoint.has_stop());
    let kept = std::fs::read(&file).unwrap();
    checkpoint.commit(&commit_record(0, Some(4))).unwrap();
    assert!(!file.exists() && !checkpoint.has_stop());
    // Killed between the two: the batch is newer.
    let mut record = commit_record(1, Some(5));
    record.committed_at = crate::lsn::UtcMicros::now();
    checkpoint.commit(&record).unwrap();
    std::fs::write(&file, kept).unwrap();
    assert_eq!(stopped(&checkpoint), None);
    // Damaged, it says nothing, and the stream goes on.
    drop(checkpoint);
    std::fs::write(&file, b"{").unwrap();
    let checkpoint = open(folder.path());
    assert_eq!(stopped(&checkpoint), None);
    checkpoint.went_on();
    assert!(!file.exists());
}

#[test]
fn a_crash_between_any_two_files_is_read_right() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = open(folder.path());
    for n in 0..3 {
        checkpoint.plan(&planned(n, 0)).unwrap();
        checkpoint.commit(&commit_record(n, Some(n))).unwrap();
    }
    checkpoint.plan(&planned(3, 0)).unwrap();
    drop(checkpoint);
    // Killed while writing: the halves have names of their own.
    for name in [
        "offsets/.4.a0.json.ab12.sluice-tmp",
        "commits/.3.json.cd34.sluice-tmp",
        ".owner.json.1.sluice-tmp",
    ] {
        std::fs::write(folder.path().join(name), b"{\"format\": 1, \"batch").unwrap();
    }
    let checkpoint = open(folder.path());
    let state = checkpoint.latest().unwrap();
    assert_eq!(state.open.map(|plan| plan.batch_id), Some(BatchId(3)));
    assert_eq!(state.last_committed.map(|commit| commit.batch_id), Some(BatchId(2)));
    assert!(!folder.path().join("offsets/.4.a0.json.ab12.sluice-tmp").exists());
    assert_eq!(checkpoint.fencing(), 2);
}

#[test]
fn a_cut_or_garbled_file_is_named_with_the_way_on() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = open(folder.path());
    checkpoint.plan(&planned(0, 0)).unwrap();
    checkpoint.commit(&commit_record(0, Some(0))).unwrap();
    checkpoint.plan(&planned(1, 0)).unwrap();
    let whole = std::fs::read(folder.path().join("offsets/1.a0.json")).unwrap();
    for cut in [0, 1, whole.len() / 2, whole.len() - 1] {
        std::fs::write(folder.path().join("offsets/1.a0.json"), &whole[..cut]).unwrap();
        let error = checkpoint.latest().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::State);
        let text = error.to_string();
        assert!(
            text.contains("1.a0.json") && text.contains("ends after") && text.contains("restore it"),
            "{text}"
        );
    }
    std::fs::write(folder.path().join("offsets/1.a0.json"), &whole).unwrap();
    std::fs::write(folder.path().join("commits/0.json"), b"\0\0\0\0").unwrap();
    let text = checkpoint.latest().unwrap_err().to_string();
    assert!(
        text.contains("commits/0.json") && text.contains("doctor --repair"),
        "{text}"
    );
    // And doing so is enough: batch 0 is open again under its plan, once the later plan is out of the way.
    std::fs::remove_file(folder.path().join("commits/0.json")).unwrap();
    let text = checkpoint.latest().unwrap_err().to_string();
    assert!(
        text.contains("batch 1 is planned and the batch before it has no commit"),
        "{text}"
    );
    // A file under another's name is not believed either.
    std::fs::copy(
        folder.path().join("offsets/1.a0.json"),
        folder.path().join("offsets/0.a1.json"),
    )
    .unwrap();
    std::fs::remove_file(folder.path().join("offsets/1.a0.json")).unwrap();
    let text = checkpoint.latest().unwrap_err().to_string();
    assert!(
        text.contains("0.a1.json") && text.contains("it is attempt 0 at batch 1"),
        "{text}"
    );
}

#[test]
fn a_newer_format_is_refused_and_not_called_damage() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = open(folder.path());
    std::fs::write(
        folder.path().join("offsets/0.a0.json"),
        br#"{"format": 7, "else": true}"#,
    )
    .unwrap();
    let text = checkpoint.latest().unwrap_err().to_string();
    assert!(text.contains("has format 7") && text.contains("upgrade"), "{text}");
}

#[test]
fn a_second_runner_is_refused_by_the_name_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let place = &Place::from(folder.path());
    let first = open(folder.path());
    let reader = CheckpointReader::new(place);
    assert!(reader.is_running().unwrap());
    let error = Checkpoint::open(place, &identity("orders", "orders")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::State);
    assert!(
        error
            .to_string()
            .contains(&format!("process {} on host", std::process::id())),
        "{error}"
    );
    drop(first);
    assert!(!reader.is_running().unwrap());
    assert_eq!(open(folder.path()).fencing(), 2);
}

#[test]
fn the_checkpoint_of_another_stream_is_refused_with_both_names() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let error = Checkpoint::open(&Place::from(folder.path()), &identity("customers", "customers")).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("app_id orders on shop.dbo.orders"), "{text}");
    assert!(text.contains("app_id customers on shop.dbo.customers"), "{text}");
}

#[test]
fn a_lost_owner_file_does_not_lower_the_fence() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    std::fs::remove_file(folder.path().join("owner.json")).unwrap();
    let mut checkpoint = open(folder.path());
    assert_eq!(checkpoint.fencing(), 1);
    assert_eq!(checkpoint.fence_above(Some(8)).unwrap(), 9);
    assert_eq!(checkpoint.fence_above(Some(8)).unwrap(), 9);
    drop(checkpoint);
    assert_eq!(open(folder.path()).fencing(), 10);
}

#[test]
fn pruning_waits_for_the_facts() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = open(folder.path());
    for n in 0..150 {
        checkpoint.plan(&planned(n, 0)).unwrap();
        checkpoint.commit(&commit_record(n, (n == 1).then_some(1))).unwrap();
    }
    let kept = || checkpoint.reader().commits_after(None).unwrap();
    checkpoint.prune(None).unwrap();
    assert_eq!(kept().len(), 150);
    checkpoint.prune(Some(BatchId(9))).unwrap();
    assert_eq!(kept().first().map(|commit| commit.batch_id), Some(BatchId(10)));
    checkpoint.prune(Some(BatchId(149))).unwrap();
    assert_eq!(kept().len(), 100);
    assert_eq!(std::fs::read_dir(folder.path().join("offsets")).unwrap().count(), 100);
    let state = checkpoint.latest().unwrap();
    // As an older sluice wrote them, without the newest batch with rows.
    assert_eq!((state.last_with_rows, state.oldest_kept), (None, Some(BatchId(50))));
    assert_eq!(checkpoint.reader().commits_after(Some(BatchId(147))).unwrap().len(), 2);
}

#[test]
fn a_batch_with_rows_is_known_after_its_commit_is_pruned() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = open(folder.path());
    for n in 0..150 {
        checkpoint.plan(&planned(n, 0)).unwrap();
        let record = CommitRecord {
            last_with_rows: (n >= 1).then_some(BatchId(1)),
            ..commit_record(n, (n == 1).then_some(1))
        };
        checkpoint.commit(&record).unwrap();
    }
    checkpoint.prune(Some(BatchId(149))).unwrap();
    let state = checkpoint.latest().unwrap();
    assert_eq!(
        (state.last_with_rows, state.oldest_kept),
        (Some(BatchId(1)), Some(BatchId(50)))
    );
    // Bronze was deleted, or restored to before that batch.
    for bronze in [None, Some(BatchId(0))] {
        let error = reconcile(&state, bronze, Some(BatchId(149))).unwrap_err();
        assert!(
            matches!(error, StateError::BronzeBehind { done: BatchId(1), .. }),
            "{error}"
        );
    }
    assert!(reconcile(&state, Some(BatchId(1)), Some(BatchId(149))).is_ok());
}

#[test]
fn components_stay_while_a_batch_may_need_them() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoint = open(folder.path());
    let old = checkpoint.save_component(b"old").unwrap();
    let new = checkpoint.save_component(b"new").unwrap();
    let with = |n, sha: &str| PlannedBatch {
        components: vec![sha.to_owned()],
        ..planned(n, 0)
    };
    checkpoint.plan(&with(0, &old)).unwrap();
    checkpoint.commit(&commit_record(0, Some(0))).unwrap();
    checkpoint.plan(&with(1, &new)).unwrap();
    checkpoint.prune(Some(BatchId(0))).unwrap();
    assert_eq!(checkpoint.load_component(&old).unwrap(), b"old");
    checkpoint.commit(&commit_record(1, Some(1))).unwrap();
    checkpoint.prune(Some(BatchId(1))).unwrap();
    assert!(matches!(
        checkpoint.load_component(&old),
        Err(CheckpointError::ComponentMissing { .. })
    ));
    std::fs::write(folder.path().join(format!("components/{new}.wasm")), b"ne").unwrap();
    assert!(matches!(
        checkpoint.load_component(&new),
        Err(CheckpointError::ComponentHash { .. })
    ));
    checkpoint.save_component(b"new").unwrap();
    assert_eq!(checkpoint.load_component(&new).unwrap(), b"new");
}

#[test]
fn looking_at_a_checkpoint_that_is_not_there_makes_none() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("none");
    let reader = CheckpointReader::new(&Place::from(place.as_path()));
    assert_eq!(reader.identity().unwrap(), None);
    assert_eq!(reader.latest().unwrap(), CheckpointState::default());
    assert!(!reader.is_running().unwrap() && !place.exists());
}

#[test]
fn what_stands_in_a_files_place_is_damage_and_names_are_numbers_as_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let reader = CheckpointReader::new(&Place::from(folder.path()));
    let commits = folder.path().join("commits");
    std::fs::create_dir_all(commits.join("0.json")).unwrap();
    let error = reader.latest().unwrap_err();
    assert!(error.to_string().contains("it is no file"), "{error}");
    std::fs::remove_dir(commits.join("0.json")).unwrap();
    #[cfg(unix)]
    {
        for to in ["nowhere", "0.json"] {
            std::os::unix::fs::symlink(to, commits.join("0.json")).unwrap();
            let error = reader.latest().unwrap_err();
            assert!(error.to_string().contains("a link that leads nowhere"), "{error}");
            assert_eq!(error.kind(), ErrorKind::State);
            std::fs::remove_file(commits.join("0.json")).unwrap();
        }
    }
    for name in ["005.json", "+5.json", "-1.json", "9223372036854775807.json", "5.txt"] {
        std::fs::write(commits.join(name), "{").unwrap();
    }
    assert_eq!(reader.latest().unwrap(), CheckpointState::default());
}

#[test]
fn what_is_no_folder_or_no_lock_is_damage_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let damaged = |place: &Path, named: &Path, text: &str| {
        let place = &Place::from(place);
        let reader = CheckpointReader::new(place);
        let looked = reader
            .identity()
            .and_then(|_| reader.latest())
            .and_then(|_| reader.is_running());
        let opened = Checkpoint::open(place, &identity("orders", "orders")).and_then(|opened| opened.latest());
        for error in [looked.unwrap_err(), opened.unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::State, "{error}");
            let said = format!("{} is damaged ({text})", named.display());
            assert!(error.to_string().contains(&said), "{error}");
        }
    };
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    damaged(&file, &file, "it is no folder");

    let records = folder.path().join("records");
    std::fs::create_dir(&records).unwrap();
    std::fs::write(records.join(files::COMMITS), "").unwrap();
    damaged(&records, &records.join(files::COMMITS), "it is no folder");

    let lock = folder.path().join("lock");
    std::fs::create_dir_all(lock.join(files::LOCK)).unwrap();
    damaged(&lock, &lock.join(files::LOCK), "it is no file");
}
