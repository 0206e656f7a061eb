//! Verdicts move forward only, whoever writes them.

use std::path::Path;

use super::*;
use crate::lsn::Lsn;

const HOUR_US: i64 = 3_600_000_000;

fn offset(n: u8, commit_us: i64) -> Offset {
    Offset {
        lsn: Lsn([n; 10]),
        commit_ts: UtcMicros(commit_us),
    }
}

fn update(table: &str, end: Option<Offset>, status: TableStatus) -> VerdictUpdate {
    VerdictUpdate {
        table_name: table.into(),
        end,
        status,
        granularity: Granularity::Hour,
        open_quarantined: None,
    }
}

fn versions(folder: &Path) -> usize {
    let log = std::fs::read_dir(folder.join("_delta_log")).unwrap();
    log.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".json"))
        .count()
}

async fn stored(folder: &Path) -> Vec<ControlRow> {
    ControlTable::read(&Place::from(folder)).await.unwrap()
}

async fn table(folder: &Path) -> ControlTable {
    ControlTable::open_or_create(&Place::from(folder)).await.unwrap()
}

#[test]
fn an_instant_is_truncated_to_its_period() {
    let at = UtcMicros(25 * HOUR_US + 61_000_001);
    assert_eq!(
        at.truncated(Granularity::Minute.period_us()),
        UtcMicros(25 * HOUR_US + 60_000_000)
    );
    assert_eq!(at.truncated(Granularity::Hour.period_us()), UtcMicros(25 * HOUR_US));
    assert_eq!(at.truncated(Granularity::Day.period_us()), UtcMicros(24 * HOUR_US));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_moves_forward_only_and_is_written_only_when_it_moves() {
    let folder = tempfile::tempdir().unwrap();
    let mut control = table(folder.path()).await;
    let step = async |control: &mut ControlTable, updates: Vec<VerdictUpdate>| control.commit(updates).await.unwrap();
    use TableStatus::{Behind, CaptureStalled, Current};
    step(
        &mut control,
        vec![
            update("a", None, Behind),
            update("b", Some(offset(5, 3 * HOUR_US + 7)), Current),
        ],
    )
    .await;
    let rows = stored(folder.path()).await;
    assert_eq!(
        rows.iter().map(|row| row.finalized_until).collect::<Vec<_>>(),
        [None, Some(UtcMicros(3 * HOUR_US))]
    );
    assert_eq!(rows[1].end_lsn, Some(Lsn([5; 10])));
    let before = versions(folder.path());
    // Later in the same hour; a clock that steps back; a replayed batch.
    for end in [offset(6, 3 * HOUR_US + 99), offset(7, 2 * HOUR_US), offset(4, HOUR_US)] {
        step(&mut control, vec![update("b", Some(end), Current)]).await;
    }
    assert_eq!(versions(folder.path()), before);
    step(
        &mut control,
        vec![update("b", Some(offset(7, 2 * HOUR_US)), CaptureStalled)],
    )
    .await;
    let row = stored(folder.path()).await.remove(1);
    assert_eq!(row.status.as_deref(), Some("capture_stalled"));
    assert_eq!(row.finalized_until, Some(UtcMicros(3 * HOUR_US)));
    assert_eq!(row.end_commit_ts, Some(UtcMicros(3 * HOUR_US + 7)));
    // A process that starts anew knows only the table, and cannot take the verdict back either.
    let mut restarted = table(folder.path()).await;
    step(&mut restarted, vec![update("b", Some(offset(5, HOUR_US)), Current)]).await;
    step(&mut restarted, vec![update("b", Some(offset(9, 8 * HOUR_US)), Current)]).await;
    step(&mut control, vec![update("b", Some(offset(8, 7 * HOUR_US)), Behind)]).await;
    let row = stored(folder.path()).await.remove(1);
    assert_eq!(row.finalized_until, Some(UtcMicros(8 * HOUR_US)));
    assert_eq!(stored(folder.path()).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_that_rewrite_the_table_together_lose_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let mut tasks = Vec::new();
    for process in 0..3u8 {
        let mut control = table(folder.path()).await;
        tasks.push(tokio::spawn(async move {
            for hour in 1..6u8 {
                let end = Some(offset(hour, i64::from(hour) * HOUR_US));
                let updates = vec![update(&format!("t{process}"), end, TableStatus::Current)];
                control.commit(updates).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let rows = stored(folder.path()).await;
    assert_eq!(
        rows.iter().map(|row| row.table_name.as_str()).collect::<Vec<_>>(),
        ["t0", "t1", "t2"]
    );
    assert!(
        rows.iter()
            .all(|row| row.finalized_until == Some(UtcMicros(5 * HOUR_US)))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_task_groups_and_flushes_and_a_missing_table_reads_as_empty() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(stored(&folder.path().join("none")).await, []);
    assert!(!folder.path().join("none").exists());
    let control = table(folder.path()).await;
    let writer = control.writer();
    let sent = (0..10).map(|i| writer.advance(update(&format!("t{i}"), None, TableStatus::Current)));
    futures::future::join_all(sent)
        .await
        .into_iter()
        .for_each(|outcome| assert_eq!(outcome.unwrap(), None));
    assert_eq!((stored(folder.path()).await.len(), versions(folder.path())), (10, 2));
    writer.flush().await.unwrap();
}
