//! Many small files made one.

use super::*;
use crate::lake::compact::{Rewrite, everything, small_files};
use crate::lake::staging::add_action;
use crate::lake::{Compaction, Looked, Proposal, active_files};

/// As readers see them, with their batches, in order.
async fn all_rows(folder: &Path) -> Vec<(i32, Option<i32>)> {
    let (batches, _) = read_all(&log_of(folder).await).await.unwrap();
    let mut rows = Vec::new();
    for batch in batches {
        let int = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<Int32Type>().clone();
        rows.extend(
            int("id")
                .iter()
                .zip(&int("_batch_id"))
                .map(|(id, batch)| (id.unwrap(), batch)),
        );
    }
    rows.sort_unstable();
    rows
}

fn too_few(old: usize, young: usize) -> Looked {
    Looked::TooFew { old, young }
}

/// How many files were made one.
async fn made(table: &BronzeTable, which: Compaction) -> usize {
    match table.compact(which).await.unwrap() {
        Looked::MadeOne(done) => done.files,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_stay_what_they_are_and_so_does_what_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(folder.path(), id_and_note("s")).await.unwrap();
    for n in 0..6 {
        append(&table, n, &[n as i32 * 2, n as i32 * 2 + 1]).await;
    }
    let before = all_rows(folder.path()).await;
    let Looked::MadeOne(done) = table.compact(everything()).await.unwrap() else {
        panic!("they are one");
    };
    assert_eq!((done.files, done.version), (6, table.version().await));
    assert_eq!(all_rows(folder.path()).await, before);
    let [file] = <[_; 1]>::try_from(active_files(&log_of(folder.path()).await).await.unwrap()).unwrap();
    assert_eq!(file.rows, Some(12));
    assert_eq!(table.compact(everything()).await.unwrap(), too_few(1, 0));
    // The stream goes on, and what it wrote is known.
    assert_eq!(table.last_batch().await.unwrap(), Some(BatchId(5)));
    assert!(matches!(
        append(&table, 5, &[99]).await,
        CommitOutcome::AlreadyApplied { .. }
    ));
    append(&table, 6, &[12]).await;
    let again = open(folder.path(), id_and_note("s")).await.unwrap();
    assert_eq!(again.last_batch().await.unwrap(), Some(BatchId(6)));
    assert_eq!(ids(folder.path()).await, (0..=12).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_files_that_are_small_enough_and_old_enough_go() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(folder.path(), id_and_note("s")).await.unwrap();
    append(&table, 0, &(0..20_000).collect::<Vec<_>>()).await;
    for n in 1..4 {
        append(&table, n, &[n as i32 + 100_000]).await;
    }
    let young = Compaction {
        older_than: std::time::Duration::from_secs(3600),
        ..everything()
    };
    assert_eq!(table.compact(young).await.unwrap(), too_few(0, 4));
    let few = Compaction {
        at_least: 5,
        ..everything()
    };
    assert_eq!(table.compact(few).await.unwrap(), too_few(4, 0));
    let small = Compaction {
        smaller_than: 16 << 10,
        ..everything()
    };
    assert_eq!(made(&table, small).await, 3);
    assert_eq!(ids(folder.path()).await.len(), 20_003);
    // The large one as well, and with it only one more: the others wait for their turn.
    for n in 4..7 {
        append(&table, n, &[n as i32 + 200_000]).await;
    }
    let first = Compaction {
        up_to: 1,
        at_least: 5,
        ..everything()
    };
    assert_eq!(made(&table, first).await, 2);
    assert_eq!(ids(folder.path()).await.len(), 20_006);
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_the_stream_no_longer_writes_keep_their_values() {
    let folder = tempfile::tempdir().unwrap();
    let wide = open(folder.path(), id_and_note("s")).await.unwrap();
    append(&wide, 0, &[1, 2]).await;
    drop(wide);
    let mut narrow = id_and_note("s");
    narrow.columns.retain(|column| column.name == "id");
    let table = open(folder.path(), narrow).await.unwrap();
    let mut staged = table.stage(BatchId(1), 0).await.unwrap();
    let only_ids = chunk(vec![("id", Arc::new(Int32Array::from(vec![3])))]);
    tokio::task::block_in_place(|| staged.write(&only_ids)).unwrap();
    table.commit(staged, None, json!({"batch_id": 1})).await.unwrap();
    assert_eq!(made(&table, everything()).await, 2);
    let (batches, _) = read_all(&log_of(folder.path()).await).await.unwrap();
    let [batch] = <[_; 1]>::try_from(batches).unwrap();
    let notes = batch.column_by_name("note").unwrap().as_string::<i32>().clone();
    let mut notes: Vec<Option<&str>> = notes.iter().collect();
    notes.sort_unstable();
    assert_eq!(notes, [None, Some("note 1"), Some("note 2")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_make_the_same_files_one_the_later_does_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(folder.path(), id_and_note("s")).await.unwrap();
    for n in 0..4 {
        append(&table, n, &[n as i32]).await;
    }
    let others: Vec<BronzeTable> = futures::future::join_all((0..3).map(|_| open(folder.path(), id_and_note("s"))))
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let done = futures::future::join_all(others.iter().map(|other| other.compact(everything()))).await;
    let made = done
        .into_iter()
        .filter(|done| matches!(done, Ok(Looked::MadeOne(_))))
        .count();
    assert_eq!(made, 1);
    assert_eq!(ids(folder.path()).await, [0, 1, 2, 3]);
    // Four that were made one, that one, and none of those who came late.
    assert_eq!(parquet_files(folder.path()), 5);
}

/// Another writer deletes rows of a file that is about to be removed: the file is another one then, under the same path.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_whose_rows_are_deleted_in_part_meanwhile_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(folder.path(), id_and_note("s")).await.unwrap();
    for n in 0..3 {
        append(&table, n, &[n as i32]).await;
    }
    let mut log = log_of(folder.path()).await;
    let small = small_files(&log, everything()).await.unwrap();
    let file = add_action("part-to-be.parquet".to_owned(), 1, "{}".to_owned());
    let mut rewrite = Rewrite {
        small: &small,
        file: &file,
        up_to: 1,
    };
    assert!(matches!(rewrite.propose(&mut log).await.unwrap(), Proposal::Commit(_)));
    let path = &small.removes[1].path;
    let entry = [
        json!({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7,
            "readerFeatures": ["timestampNtz", "deletionVectors"], "writerFeatures": ["timestampNtz", "deletionVectors"]}}),
        json!({"remove": {"path": path, "dataChange": true, "deletionTimestamp": 1}}),
        json!({"add": {"path": path, "partitionValues": {}, "size": 1000, "modificationTime": 1, "dataChange": true,
            "deletionVector": {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
                               "sizeInBytes": 40, "cardinality": 1}}}),
    ];
    let entry: Vec<String> = entry.iter().map(Value::to_string).collect();
    let next = format!("_delta_log/{:020}.json", log.version() + 1);
    std::fs::write(folder.path().join(next), entry.join("\n")).unwrap();
    log.refresh().await.unwrap();
    assert!(matches!(
        rewrite.propose(&mut log).await.unwrap(),
        Proposal::Settled(())
    ));
}
