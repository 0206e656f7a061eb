//! The facts table, with other streams and other processes.

use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;

use super::*;
use crate::lake::read_all;
use crate::lsn::Lsn;

fn entry(app_id: &str, n: i64) -> FactsEntry {
    FactsEntry {
        app_id: AppId(app_id.into()),
        key: FactsKey::Batch(BatchId(n)),
        row: FactsRow {
            app_id: app_id.into(),
            batch_id: Some(n),
            rows: Some(10 + n),
            ..FactsRow::default()
        },
    }
}

async fn table(folder: &Path) -> FactsTable {
    FactsTable::open_or_create(&Place::from(folder)).await.unwrap()
}

async fn stored(folder: &Path) -> Vec<(String, Option<i64>)> {
    let location = Place::from(folder);
    let (batches, _) = read_all(&DeltaLog::open(&location).await.unwrap().unwrap())
        .await
        .unwrap();
    let mut rows = Vec::new();
    for batch in batches {
        let app_ids = batch.column_by_name("app_id").unwrap().as_string::<i32>().clone();
        let batch_ids = batch
            .column_by_name("batch_id")
            .unwrap()
            .as_primitive::<Int64Type>()
            .clone();
        rows.extend(
            app_ids
                .iter()
                .zip(&batch_ids)
                .map(|(app_id, id)| (app_id.unwrap().to_owned(), id)),
        );
    }
    rows.sort();
    rows
}

fn commits(folder: &Path) -> usize {
    let log = std::fs::read_dir(folder.join("_delta_log")).unwrap();
    log.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".json"))
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_streams_share_a_commit_and_repetitions_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let facts = table(folder.path()).await;
    let writer = facts.writer();
    let streams = (0..20).map(|i| {
        let writer = writer.clone();
        async move { writer.append(vec![entry(&format!("s{i:02}"), 0)]).await }
    });
    for outcome in futures::future::join_all(streams).await {
        outcome.unwrap();
    }
    assert_eq!(commits(folder.path()), 2, "the table's creation and one group");
    // Handed in again, alone and beside a new one.
    let again = futures::future::join3(
        writer.append(vec![entry("s00", 0)]),
        writer.append(vec![entry("s00", 1)]),
        writer.append(vec![entry("s00", 1)]),
    );
    let (a, b, c) = again.await;
    a.and(b).and(c).unwrap();
    assert_eq!(stored(folder.path()).await.len(), 21);
    assert_eq!(
        facts.recorded(&AppId("s00".into())).await.unwrap(),
        RecordedFacts {
            facts: Some(1),
            events: None
        }
    );
    let before = commits(folder.path());
    writer.append(vec![entry("s00", 1)]).await.unwrap();
    assert_eq!(commits(folder.path()), before, "nothing new, nothing committed");
    let event = FactsEntry {
        key: FactsKey::Event(0),
        row: FactsRow {
            app_id: "s00".into(),
            event: Some("transform_set".into()),
            ..FactsRow::default()
        },
        ..entry("s00", 0)
    };
    // A flush does not wait for the window: this one would not end before the test is given up.
    let slow = FactsWriter {
        group: Group::spawn("facts", Duration::from_secs(86_400), facts.clone()),
    };
    let (appended, flushed) = tokio::join!(slow.append(vec![event]), slow.flush());
    appended.and(flushed).unwrap();
    assert_eq!(
        facts.recorded(&AppId("s00".into())).await.unwrap(),
        RecordedFacts {
            facts: Some(1),
            events: Some(0)
        }
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_competing_process_costs_no_row_and_adds_none() {
    let folder = tempfile::tempdir().unwrap();
    // Each opens the table by itself, as processes do; "shared" is run by both by mistake.
    let mut tasks = Vec::new();
    for process in 0..3 {
        let mut facts = table(folder.path()).await;
        tasks.push(tokio::spawn(async move {
            for n in 0..8 {
                let own = entry(&format!("p{process}"), n);
                Sink::commit(&mut facts, vec![own, entry("shared", n)]).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let mut wanted: Vec<(String, Option<i64>)> = Vec::new();
    for name in ["p0", "p1", "p2", "shared"] {
        wanted.extend((0..8).map(|n| (name.to_owned(), Some(n))));
    }
    assert_eq!(stored(folder.path()).await, wanted);
    let files = std::fs::read_dir(folder.path()).unwrap();
    let files = files
        .filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .ends_with(".parquet")
        })
        .count();
    assert_eq!(files, commits(folder.path()) - 1, "no file is left that no commit took");
}

#[test]
fn a_row_survives_the_metadata_of_its_commit() {
    let row = FactsRow {
        app_id: "orders".into(),
        batch_id: Some(3),
        rows: Some(7),
        min_lsn: Some(Lsn([7; 10])),
        min_commit_ts: Some(UtcMicros(1_700_000_000_123_000)),
        read_seconds: Some(0.25),
        transform: Some(r#"[{"plugin":"mask"}]"#.into()),
        ..FactsRow::default()
    };
    let mut metadata = row.to_metadata();
    assert_eq!(metadata["transform"][0]["plugin"], "mask");
    assert!(!metadata.contains_key("lost_from_ts"));
    metadata.insert("attempt".into(), 2.into());
    assert_eq!(FactsRow::from_metadata(&metadata.into()).unwrap(), row);
    // What another sluice, or somebody else, wrote.
    let sparse = serde_json::json!({"app_id": "orders", "rows": 7});
    assert_eq!(FactsRow::from_metadata(&sparse).unwrap().rows, Some(7));
    assert!(FactsRow::from_metadata(&serde_json::json!({"rows": "many"})).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_handed_in_together_is_written_together() {
    let folder = tempfile::tempdir().unwrap();
    let facts = table(folder.path()).await;
    let writer = facts.writer();
    // A store that is away: the commit of 0 and 1 fails, and 2 waits behind them, as a stream hands it in.
    let log = folder.path().join("_delta_log");
    let away = folder.path().join("away");
    std::fs::rename(&log, &away).unwrap();
    std::fs::write(&log, b"").unwrap();
    let group = || vec![entry("s", 0), entry("s", 1)];
    assert!(writer.append(group()).await.is_err());
    std::fs::remove_file(&log).unwrap();
    std::fs::rename(&away, &log).unwrap();
    writer.append(group()).await.unwrap();
    writer.append(vec![entry("s", 2)]).await.unwrap();
    let rows: Vec<_> = stored(folder.path()).await.into_iter().map(|(_, n)| n).collect();
    assert_eq!(rows, [Some(0), Some(1), Some(2)]);
    // Events beside their batch, in the one commit.
    let before = commits(folder.path());
    let event = FactsEntry {
        key: FactsKey::Event(0),
        ..entry("s", 3)
    };
    writer.append(vec![event, entry("s", 3)]).await.unwrap();
    assert_eq!(commits(folder.path()), before + 1);
}

#[test]
fn a_row_survives_the_checkpoint() {
    let row = FactsRow {
        app_id: "orders".into(),
        batch_id: Some(3),
        min_lsn: Some(Lsn([7; 10])),
        min_commit_ts: Some(UtcMicros(1_700_000_000_123_000)),
        retention_headroom_hours: Some(71.5),
        transform: Some("[]".into()),
        ..FactsRow::default()
    };
    let json = serde_json::to_string(&row).unwrap();
    assert_eq!(serde_json::from_str::<FactsRow>(&json).unwrap(), row);
    let fields = serde_json::to_value(&row).unwrap();
    let mut names: Vec<String> = fields
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .chain(["written_at".to_owned()])
        .collect();
    let mut table: Vec<String> = columns().into_iter().map(|column| column.name).collect();
    names.sort();
    table.sort();
    assert_eq!(names, table);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_rows_of_batches_go_and_events_stay() {
    let folder = tempfile::tempdir().unwrap();
    let facts = table(folder.path()).await;
    let writer = facts.writer();
    let mut event = entry("a", 0);
    event.key = FactsKey::Event(0);
    event.row.event = Some("transform_set".to_owned());
    writer.append(vec![event, entry("a", 0), entry("b", 0)]).await.unwrap();
    writer.append(vec![entry("a", 1)]).await.unwrap();
    let before = commits(folder.path());
    let day = Duration::from_secs(86_400);
    assert_eq!(facts.remove_older(day).await.unwrap(), Removed::default());
    assert_eq!(commits(folder.path()), before, "nothing is old");

    assert_eq!(facts.remove_older(Duration::ZERO).await.unwrap().rows, 3);
    assert_eq!(stored(folder.path()).await.len(), 1, "the event");
    let from = async |app_id: &str| {
        let mut log = DeltaLog::open(&Place::from(folder.path())).await.unwrap().unwrap();
        let id = facts_from_id(app_id);
        log.follow(std::slice::from_ref(&id)).await.unwrap();
        log.recorded(&id).map(|recorded| recorded.version)
    };
    assert_eq!((from("a").await, from("b").await), (Some(2), Some(1)));
    // A repetition is known as one, and the stream goes on.
    writer.append(vec![entry("a", 1)]).await.unwrap();
    writer.append(vec![entry("a", 2)]).await.unwrap();
    assert_eq!(stored(folder.path()).await.len(), 2);
    assert_eq!(facts.remove_older(Duration::ZERO).await.unwrap().rows, 1);
    // Nothing is left that could be old: the event alone is not read again.
    let before = commits(folder.path());
    assert_eq!(facts.remove_older(Duration::ZERO).await.unwrap(), Removed::default());
    assert_eq!((commits(folder.path()), stored(folder.path()).await.len()), (before, 1));
    assert_eq!(from("a").await, Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_remove_at_once_remove_once() {
    let folder = tempfile::tempdir().unwrap();
    let facts = table(folder.path()).await;
    let writer = facts.writer();
    for n in 0..3 {
        writer.append(vec![entry("a", n), entry("b", n)]).await.unwrap();
    }
    let other = table(folder.path()).await;
    let (one, two) = tokio::join!(facts.remove_older(Duration::ZERO), other.remove_older(Duration::ZERO));
    assert_eq!(one.unwrap().rows + two.unwrap().rows, 6);
    assert_eq!(stored(folder.path()).await, Vec::new());
    writer.append(vec![entry("a", 3)]).await.unwrap();
    assert_eq!(stored(folder.path()).await, [("a".to_owned(), Some(3))]);
}
