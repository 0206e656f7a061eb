//! The commit protocol by its claims: once, by one owner, whatever gets lost.

use std::collections::BTreeSet;

use serde_json::json;

use super::super::log::FailPoint;
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_appended_once_whoever_asks_and_however_stale() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(folder.path(), id_and_note("orders")).await.unwrap();
    let stale = open(folder.path(), id_and_note("orders")).await.unwrap();
    assert_eq!(table.last_batch().await.unwrap(), None);
    assert_eq!(
        append(&table, 7, &[1, 2, 3]).await,
        CommitOutcome::Committed { version: 1 }
    );
    let applied = CommitOutcome::AlreadyApplied {
        recorded: BatchId(7),
        version: Some(1),
    };
    assert_eq!(append(&stale, 7, &[1, 2, 3]).await, applied);
    assert_eq!(append(&stale, 6, &[9]).await, applied);
    assert_eq!(append(&table, 6, &[9]).await, applied);
    assert_eq!(ids(folder.path()).await, [1, 2, 3]);
    assert_eq!(
        parquet_files(folder.path()),
        1,
        "the staged files of the others are gone"
    );
    assert_eq!(table.last_batch().await.unwrap(), Some(BatchId(7)));
    let reopened = open(folder.path(), id_and_note("orders")).await.unwrap();
    let found = CommittedBatch {
        commit: Some((1, json!({"batch_id": 7}))),
    };
    assert_eq!(reopened.find(BatchId(7)).await.unwrap(), Some(found));
    assert_eq!(reopened.find(BatchId(8)).await.unwrap(), None);
    let error = reopened.find(BatchId(6)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::State, "{error}");
    let applied = CommitOutcome::AlreadyApplied {
        recorded: BatchId(7),
        version: Some(1),
    };
    assert_eq!(append(&reopened, 7, &[1, 2, 3]).await, applied);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_committers_at_the_same_time_each_batch_arrives_once() {
    let folder = tempfile::tempdir().unwrap();
    // Two processes run the same stream by mistake, a third another stream into the same table: all three before it has rows, else
    // the third is refused.
    let mut streams = Vec::new();
    for (app_id, base) in [("a", 0), ("a", 0), ("b", 1000)] {
        streams.push((open(folder.path(), id_and_note(app_id)).await.unwrap(), base));
    }
    let mut tasks = Vec::new();
    for (table, base) in streams {
        tasks.push(tokio::spawn(async move {
            let mut committed = Vec::new();
            for n in 0..12 {
                match append(&table, i64::from(n), &[base + n]).await {
                    CommitOutcome::Committed { version } => committed.push(version),
                    // As a stream does before it goes on.
                    CommitOutcome::AlreadyApplied { .. } => drop(table.last_batch().await.unwrap()),
                }
            }
            committed
        }));
    }
    let mut versions = Vec::new();
    for task in tasks {
        versions.extend(task.await.unwrap());
    }
    assert_eq!(versions.len(), 24);
    assert_eq!(versions.iter().collect::<BTreeSet<_>>().len(), 24);
    let wanted: Vec<i32> = (0..12).chain(1000..1012).collect();
    assert_eq!(ids(folder.path()).await, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_succeeded_with_its_reply_lost_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(folder.path(), id_and_note("orders")).await.unwrap();
    let faults = [
        vec![FailPoint::ReplyLost],
        vec![FailPoint::NotSent],
        vec![FailPoint::NotSent, FailPoint::NotSent, FailPoint::ReplyLost],
    ];
    for (n, faults) in (0i64..).zip(faults) {
        // Taken from the end.
        *table.failpoint().await.lock().unwrap() = faults.into_iter().rev().collect();
        let version = n + 1;
        assert_eq!(
            append(&table, n, &[n as i32]).await,
            CommitOutcome::Committed { version }
        );
    }
    assert_eq!(ids(folder.path()).await, [0, 1, 2]);
    assert_eq!(
        append(&table, 2, &[2]).await,
        CommitOutcome::AlreadyApplied {
            recorded: BatchId(2),
            version: Some(3)
        }
    );
    assert_eq!(ids(folder.path()).await, [0, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_answer_the_files_stay_and_a_replay_finds_out() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(folder.path(), id_and_note("orders")).await.unwrap();
    let staged = stage(&table, 0, &[5]).await;
    *table.failpoint().await.lock().unwrap() = vec![FailPoint::NotSent; 20];
    let error = table.commit(staged, None, json!({})).await.unwrap_err();
    assert!(matches!(error, LakeError::CommitUnknown { version: 1, .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Retryable);
    assert_eq!(parquet_files(folder.path()), 1);
    table.failpoint().await.lock().unwrap().clear();
    assert_eq!(append(&table, 0, &[5]).await, CommitOutcome::Committed { version: 1 });
    assert_eq!(ids(folder.path()).await, [5]);
}

async fn commit_as(table: &BronzeTable, n: i64, fencing: i64) -> Result<CommitOutcome, LakeError> {
    let staged = stage(table, n, &[n as i32]).await;
    table.commit(staged, Some(fencing), json!({"batch_id": n})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_owner_is_fenced_off() {
    let folder = tempfile::tempdir().unwrap();
    let old = open(folder.path(), id_and_note("orders")).await.unwrap();
    commit_as(&old, 0, 4).await.unwrap();
    let new = open(folder.path(), id_and_note("orders")).await.unwrap();
    // Taking over is enough: the new owner has committed nothing yet.
    new.claim(5).await.unwrap();
    new.claim(5).await.unwrap();
    // The fence comes before the batch: what is under its number may be the other's.
    for n in [0, 1] {
        let error = commit_as(&old, n, 4).await.unwrap_err();
        assert!(
            matches!(
                error,
                LakeError::Fenced {
                    held: 4,
                    recorded: 5,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(error.kind(), ErrorKind::State);
    }
    assert!(old.check_owner(4).await.is_err());
    new.check_owner(5).await.unwrap();
    assert_eq!(
        commit_as(&new, 1, 5).await.unwrap(),
        CommitOutcome::Committed { version: 4 }
    );
    assert_eq!(
        (old.owner().await.unwrap(), ids(folder.path()).await),
        (Some(5), vec![0, 1])
    );
    assert_eq!(parquet_files(folder.path()), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_count_to_the_same_number_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path(), id_and_note("orders")).await.unwrap();
    let second = open(folder.path(), id_and_note("orders")).await.unwrap();
    // Nobody is an owner yet, so both may look.
    first.check_owner(1).await.unwrap();
    second.check_owner(1).await.unwrap();
    // Its reply got lost, and it is known as its own all the same.
    *first.failpoint().await.lock().unwrap() = vec![FailPoint::ReplyLost];
    first.claim(1).await.unwrap();
    for outcome in [
        second.claim(1).await,
        second.check_owner(1).await,
        commit_as(&second, 0, 1).await.map(drop),
    ] {
        assert!(
            matches!(
                outcome,
                Err(LakeError::Fenced {
                    held: 1,
                    recorded: 1,
                    ..
                })
            ),
            "{outcome:?}"
        );
    }
    commit_as(&first, 0, 1).await.unwrap();
    assert_eq!(ids(folder.path()).await, [0]);
    assert_eq!(parquet_files(folder.path()), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_without_any_answer_is_found_again_as_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(folder.path(), id_and_note("orders")).await.unwrap();
    // The first request arrives, and nothing of the log can be read for as long as there are attempts.
    let mut faults = vec![FailPoint::Unreadable(1); 20];
    faults.push(FailPoint::ReplyLost);
    *table.failpoint().await.lock().unwrap() = faults;
    let error = table.claim(1).await.unwrap_err();
    assert!(matches!(error, LakeError::CommitUnknown { .. }), "{error}");
    table.failpoint().await.lock().unwrap().clear();
    table.claim(1).await.unwrap();
    assert_eq!(
        commit_as(&table, 0, 1).await.unwrap(),
        CommitOutcome::Committed { version: 2 }
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_without_any_answer_that_arrived_is_found_and_gone_on_from() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(folder.path(), id_and_note("orders")).await.unwrap();
    table.claim(1).await.unwrap();
    let mut faults = vec![FailPoint::Unreadable(2); 20];
    faults.push(FailPoint::ReplyLost);
    *table.failpoint().await.lock().unwrap() = faults;
    let error = commit_as(&table, 0, 1).await.unwrap_err();
    assert!(matches!(error, LakeError::CommitUnknown { .. }), "{error}");
    table.failpoint().await.lock().unwrap().clear();
    let found = table.find(BatchId(0)).await.unwrap().unwrap();
    assert_eq!(found.commit, Some((2, json!({"batch_id": 0}))));
    assert_eq!(
        commit_as(&table, 1, 1).await.unwrap(),
        CommitOutcome::Committed { version: 3 }
    );
    assert_eq!(ids(folder.path()).await, [0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_somebody_else_moved_on_is_not_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(folder.path(), id_and_note("orders")).await.unwrap();
    let other = open(folder.path(), id_and_note("orders")).await.unwrap();
    append(&other, 0, &[1]).await;
    // Batch 0 had no rows here, so 1 comes next: it may hold what the other's batch 0 has.
    let staged = stage(&table, 1, &[1]).await;
    let error = table.commit(staged, None, json!({})).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::State);
    let text = error.to_string();
    assert!(
        text.contains("batch 0") && text.contains("no batch") && text.contains("stop the other"),
        "{text}"
    );
    assert!(table.claim(1).await.is_err());
    assert_eq!(
        (table.owner().await.unwrap(), ids(folder.path()).await),
        (None, vec![1])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_error_does_not_make_a_change_of_the_table_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(folder.path(), id_and_note("orders")).await.unwrap();
    reconfigure(folder.path(), |line| set(line, "sluice.min_version", "2")).await;
    // The next entry, by whoever, cannot be read at the first try.
    let entry = |n: u8| folder.path().join(format!("_delta_log/0000000000000000000{n}.json"));
    std::fs::copy(entry(1), entry(2)).unwrap();
    *table.failpoint().await.lock().unwrap() = vec![FailPoint::Unreadable(2)];
    assert_eq!(table.last_batch().await.unwrap_err().kind(), ErrorKind::Retryable);
    let error = table.last_batch().await.unwrap_err();
    assert!(error.to_string().contains("upgrade sluice"), "{error}");
    let staged = stage(&table, 0, &[1]).await;
    let error = table.commit(staged, None, json!({})).await.unwrap_err();
    assert!(error.to_string().contains("upgrade sluice"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_cleaned_up_and_the_transaction_id_survives() {
    let folder = tempfile::tempdir().unwrap();
    let table = open(folder.path(), id_and_note("orders")).await.unwrap();
    reconfigure(folder.path(), |line| {
        set(line, "delta.logRetentionDuration", "interval 1 second");
        set(line, "delta.checkpointInterval", "10");
    })
    .await;
    let idle = open(folder.path(), id_and_note("orders")).await.unwrap();
    for n in 0..14 {
        append(&table, n, &[n as i32]).await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    for n in 14..30 {
        append(&table, n, &[n as i32]).await;
    }
    assert!(
        !folder.path().join("_delta_log/00000000000000000003.json").exists(),
        "the log was cleaned up"
    );
    // One that slept through all of it, and one that opens now.
    let fresh = open(folder.path(), id_and_note("orders")).await.unwrap();
    for table in [&idle, &fresh] {
        assert_eq!(table.last_batch().await.unwrap(), Some(BatchId(29)));
        assert!(matches!(
            append(table, 29, &[29]).await,
            CommitOutcome::AlreadyApplied {
                recorded: BatchId(29),
                ..
            }
        ));
    }
    assert!(matches!(
        append(&idle, 30, &[30]).await,
        CommitOutcome::Committed { .. }
    ));
    assert_eq!(ids(folder.path()).await, (0..31).collect::<Vec<_>>());
}
