//! The quarantine table, and which of its rows are open.

use std::path::Path;

use super::*;
use crate::error::{Classify as _, ErrorKind};

fn app() -> AppId {
    AppId("s-v1".to_owned())
}

fn at(batch: i64, attempt: u32) -> AttemptAt {
    AttemptAt {
        batch: BatchId(batch),
        attempt,
    }
}

fn row(at: AttemptAt, lsn: &str, state: RowState) -> QuarantineRow {
    QuarantineRow {
        start_lsn: Some(lsn.to_owned()),
        seqval: Some("0x01".to_owned()),
        operation: Some(2),
        column: Some("email".to_owned()),
        code: Some("cast-invalid".to_owned()),
        plugin: Some("map@0.1.0".to_owned()),
        sha256: Some("00".to_owned()),
        state,
        capture_instance: Some("dbo_t".to_owned()),
        ..QuarantineRow::void(&app(), at, UtcMicros(7))
    }
}

fn open(rows: &[QuarantineRow]) -> Vec<String> {
    open_rows(rows).into_iter().filter_map(|row| row.start_lsn).collect()
}

fn place(folder: &Path) -> Place {
    Place::from(folder).join("t__quarantine")
}

#[test]
fn a_row_is_open_until_it_was_retried_or_its_attempt_is_void() {
    use RowState::{Open, Retried};
    let void = |batch, attempt| QuarantineRow::void(&app(), at(batch, attempt), UtcMicros(9));
    let first = [row(at(1, 0), "a", Open), row(at(1, 0), "b", Open)];
    assert_eq!(open(&first), ["a", "b"]);
    let with = |more: &[QuarantineRow]| [&first[..], more].concat();
    assert_eq!(open(&with(&[row(at(5, 0), "a", Retried)])), ["b"]);
    // A retry that bronze did not take.
    assert_eq!(open(&with(&[row(at(5, 0), "a", Retried), void(5, 0)])), ["a", "b"]);
    // A retry that failed again, and one after it that did not.
    let again = [row(at(5, 0), "a", Open), row(at(6, 0), "a", Retried)];
    assert_eq!(open(&with(&again[..1])), ["a", "b"]);
    assert_eq!(open(&with(&again)), ["b"]);
    // Of two attempts at one batch, the first counts for nothing.
    assert_eq!(open(&with(&[void(1, 0), row(at(1, 1), "b", Open)])), ["b"]);
    // The order in which rows are read does not matter.
    let mut reversed = with(&again);
    reversed.reverse();
    assert_eq!(open(&reversed), ["b"]);
}

#[test]
fn rows_say_the_same_whomever_they_blame_and_not_where_what_they_say_differs() {
    let first = row(at(1, 0), "a", RowState::Open);
    let later = QuarantineRow {
        plugin: None,
        sha256: None,
        quarantined_at: Some(UtcMicros(8)),
        ..first.clone()
    };
    assert!(first.says_the_same(&later));
    for other in [
        row(at(1, 0), "b", RowState::Open),
        row(at(1, 0), "a", RowState::Retried),
        QuarantineRow {
            column: None,
            ..first.clone()
        },
        QuarantineRow {
            code: Some("trap".to_owned()),
            ..first.clone()
        },
        QuarantineRow::void(&app(), at(1, 0), UtcMicros(7)),
    ] {
        assert!(!first.says_the_same(&other), "{other:?}");
    }
}

#[test]
fn a_row_that_stands_for_lost_ones_is_none_of_a_component() {
    let lost = QuarantineRow::lost(&app(), at(1, 0), None, UtcMicros(7));
    assert!(lost.is_lost());
    let named_so = QuarantineRow {
        code: Some(LOST.to_owned()),
        ..row(at(1, 0), "a", RowState::Open)
    };
    assert!(!named_so.is_lost());
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_back_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(folder.path());
    assert!(QuarantineTable::open(&place, &app()).await.unwrap().is_none());
    let mut table = QuarantineTable::open_or_create(&place, &app()).await.unwrap();
    assert_eq!(table.newest().await.unwrap(), None);
    let rows = [
        row(at(3, 2), "a", RowState::Open),
        QuarantineRow {
            column: None,
            seqval: None,
            ..row(at(3, 2), "b", RowState::Retried)
        },
    ];
    assert_eq!(table.put(at(3, 2), &rows, 1).await.unwrap(), Written::Now);
    table.void(&[at(2, 0)].into(), 1).await.unwrap();
    let mut again = QuarantineTable::open(&place, &app()).await.unwrap().unwrap();
    assert_eq!(again.newest().await.unwrap(), Some(at(3, 2)));
    let found = again.rows().await.unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!(found[..2], rows);
    assert_eq!((found[2].at(), found[2].state), (at(2, 0), RowState::Void));
    // Another stream of the same place sees none of it.
    let other = QuarantineTable::open(&place, &AppId("other".to_owned()))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(other.rows().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_is_written_once_and_none_after_a_later_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut table = QuarantineTable::open_or_create(&place(folder.path()), &app())
        .await
        .unwrap();
    let rows = [row(at(3, 1), "a", RowState::Open)];
    assert_eq!(table.put(at(3, 1), &rows, 1).await.unwrap(), Written::Now);
    for (attempt, written) in [
        (at(3, 1), Written::Before),
        (at(3, 0), Written::Passed(at(3, 1))),
        (at(2, 999), Written::Passed(at(3, 1))),
    ] {
        assert_eq!(table.put(attempt, &rows, 1).await.unwrap(), written);
    }
    assert_eq!(table.rows().await.unwrap().len(), 1);
    assert_eq!(table.put(at(4, 0), &rows, 1).await.unwrap(), Written::Now);
    let files = std::fs::read_dir(folder.path().join("t__quarantine")).unwrap();
    let parquet = files.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with(".parquet")
    });
    assert_eq!(parquet.count(), 2, "what was not committed is removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_taken_over_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut sleeper = QuarantineTable::open_or_create(&place(folder.path()), &app())
        .await
        .unwrap();
    let rows = [row(at(3, 0), "a", RowState::Open)];
    let mut owner = QuarantineTable::open(&place(folder.path()), &app())
        .await
        .unwrap()
        .unwrap();
    owner.claim(2).await.unwrap();
    owner.claim(2).await.unwrap();
    for outcome in [
        sleeper.put(at(3, 0), &rows, 1).await.map(|_| ()),
        sleeper.void(&[at(2, 0)].into(), 1).await,
        sleeper.claim(1).await,
    ] {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::State);
    }
    assert_eq!(owner.newest().await.unwrap(), None);
    assert_eq!(owner.put(at(3, 0), &rows, 2).await.unwrap(), Written::Now);
    let log = std::fs::read_dir(folder.path().join("t__quarantine/_delta_log")).unwrap();
    let entries = log.filter(|entry| {
        entry
            .as_ref()
            .unwrap()
            .path()
            .extension()
            .is_some_and(|end| end == "json")
    });
    assert_eq!(entries.count(), 3, "made, claimed once, and the rows");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_old_goes_and_what_is_open_stays() {
    use RowState::{Open, Retried};
    let folder = tempfile::tempdir().unwrap();
    let mut table = QuarantineTable::open_or_create(&place(folder.path()), &app())
        .await
        .unwrap();
    let timed = |seconds: i64, row: QuarantineRow| QuarantineRow {
        quarantined_at: Some(UtcMicros(seconds * 1_000_000)),
        ..row
    };
    // `a` is out of quarantine for long, `b` since a moment ago, `c` is open, and `d` was void.
    let first = ["a", "b", "c"].map(|lsn| timed(1, row(at(1, 0), lsn, Open)));
    table.put(at(1, 0), &first, 1).await.unwrap();
    table
        .put(at(2, 0), &[timed(1, row(at(2, 0), "d", Open))], 1)
        .await
        .unwrap();
    table.void(&[at(2, 0)].into(), 1).await.unwrap();
    table
        .put(at(3, 0), &[timed(2, row(at(3, 0), "a", Retried))], 1)
        .await
        .unwrap();
    table
        .put(at(4, 0), &[timed(9, row(at(4, 0), "b", Retried))], 1)
        .await
        .unwrap();
    let removed = table.remove_before(UtcMicros(5_000_000)).await.unwrap();
    // Both of `a`, and `d` with what voids it.
    assert_eq!(removed, 4);
    let left = table.rows().await.unwrap();
    let lsns: Vec<_> = left.iter().filter_map(|row| row.start_lsn.as_deref()).collect();
    assert_eq!(lsns, ["b", "c", "b"]);
    assert_eq!(open(&left), ["c"]);
    // Its number is known still, and there is nothing more to remove.
    assert_eq!(table.newest().await.unwrap(), Some(at(4, 0)));
    assert_eq!(table.remove_before(UtcMicros(5_000_000)).await.unwrap(), 0);
    let other = AppId("other".to_owned());
    let mut others = QuarantineTable::open(&place(folder.path()), &other)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        others.remove_before(UtcMicros(i64::MAX)).await.unwrap(),
        0,
        "rows of another stream stay"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_another_kind_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::from(folder.path());
    crate::verdict::ControlTable::open_or_create(&place).await.unwrap();
    let error = QuarantineTable::open(&place, &app()).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::State);
    assert!(
        error.to_string().contains("which every quarantine table has"),
        "{error}"
    );
}

#[test]
fn attempts_are_numbered_as_the_format_says() {
    assert_eq!(at(12, 34).version(), 12_034);
    assert_eq!(AttemptAt::of_version(12_034), at(12, 34));
    assert_eq!(
        location_of(&Place::local("lake/bronze/t/")).to_string(),
        "lake/bronze/t__quarantine"
    );
}
