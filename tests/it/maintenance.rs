//! Other writers look after the same tables while sluice writes them: the log is cleaned up, files are compacted and
//! vacuumed. Nothing is lost or doubled, and what can no longer be known is said.

use crate::harness::{Held, Project, Server, commits, ids, insert, python, sales};

async fn set_up() -> (Server, Project) {
    let server = sales(&["t"]).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    (server, project)
}

/// Has another writer do something to bronze. What it printed.
fn maintain(project: &Project, actions: &[&str]) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/it/peers/maintain.py");
    let bronze = project.bronze("dbo_t").display().to_string();
    let output = python([&[script, &bronze], actions].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_cleaned_up_still_has_the_transaction_id() {
    let (server, project) = set_up().await;
    insert(&server, 1..=3).await;
    project.once().ok();
    maintain(&project, &["short-log", "clean-log"]);
    let entries = std::fs::read_dir(project.bronze("dbo_t").join("_delta_log")).expect("a log");
    let entries: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    assert!(
        !entries.iter().any(|name| name == "00000000000000000000.json"),
        "the commits are gone: {entries:?}"
    );
    // Nothing to do, and nothing done again.
    assert_eq!(project.once().ok().table("dbo_t")["rows"], 0);
    insert(&server, 4..=5).await;
    assert_eq!(project.once().ok().table("dbo_t")["rows"], 2);
    let counted = python([
        "-c",
        "import sys, deltalake; print(sorted(deltalake.DeltaTable(sys.argv[1]).to_pyarrow_table()['id'].to_pylist()))",
        &project.bronze("dbo_t").display().to_string(),
    ]);
    assert_eq!(String::from_utf8_lossy(&counted.stdout).trim(), "[1, 2, 3, 4, 5]");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_id_that_expired_is_said_and_nothing_is_done_again() {
    let (server, project) = set_up().await;
    insert(&server, 1..=3).await;
    project.once().ok();
    let verdict = project.verdict();
    maintain(&project, &["short-log", "forget-transactions", "clean-log"]);
    insert(&server, 4..=5).await;
    for _ in 0..2 {
        let run = project.once();
        assert_eq!(run.code, 7, "{}\n{}", run.stdout, run.stderr);
        let error = run.failure("dbo_t")["error"].to_string();
        assert!(
            error.contains("its transaction ids expired") && error.contains("new app_id"),
            "{error}"
        );
    }
    assert_eq!(project.verdict().1, verdict.1, "the verdict stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_was_deleted_is_said_and_nothing_is_done_again() {
    let (server, project) = set_up().await;
    insert(&server, 1..=3).await;
    project.once().ok();
    let verdict = project.verdict();
    std::fs::remove_dir_all(project.lake().join("checkpoints/dbo_t")).expect("removed");
    insert(&server, 4..=4).await;
    for _ in 0..2 {
        let run = project.once();
        assert_eq!(run.code, 7, "{}\n{}", run.stdout, run.stderr);
        let error = run.failure("dbo_t")["error"].to_string();
        assert!(
            error.contains("the checkpoint was deleted or set back") && error.contains("new app_id"),
            "{error}"
        );
    }
    assert_eq!(ids(&project), [1, 2, 3]);
    assert_eq!(project.verdict().1, verdict.1, "the verdict stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_between_the_look_at_the_log_and_the_commit_costs_nothing() {
    let (server, project) = set_up().await;
    for id in 1..=2 {
        insert(&server, id..=id).await;
        project.once().ok();
    }
    insert(&server, 3..=3).await;
    let held = Held::at(&project, "before-commit");
    assert_eq!(maintain(&project, &["compact"]).trim(), "2", "two files became one");
    held.release().ok();
    assert_eq!(ids(&project), [1, 2, 3]);
    let taken: Vec<i64> = commits(&project.bronze("dbo_t"))
        .iter()
        .flatten()
        .filter(|action| action["txn"]["appId"] == "dbo_t-v1")
        .filter_map(|action| action["txn"]["version"].as_i64())
        .collect();
    assert_eq!(taken, [0, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vacuum_that_takes_files_before_their_commit_costs_a_second_reading() {
    let (server, project) = set_up().await;
    insert(&server, 1..=1).await;
    project.once().ok();
    insert(&server, 2..=3).await;
    let held = Held::at(&project, "files-staged");
    maintain(&project, &["vacuum"]);
    let run = held.release().ok();
    let retried = run.of_type("retrying");
    assert_eq!(retried.len(), 1, "{}", run.stdout);
    assert!(
        retried[0]["error"]
            .to_string()
            .contains("was removed before its commit")
    );
    assert_eq!(ids(&project), [1, 2, 3]);
}
