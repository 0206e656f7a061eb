//! Other writers look after the same tables while sluice writes them: the log is cleaned up, files are compacted and
//! vacuumed. Nothing is lost or doubled, and what can no longer be known is said.

use crate::harness::{Held, Project, Running, Server, commits, ids, insert, python, sales};

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

/// What the newest version of a table consists of: files, by what a reader that is not sluice says.
fn files(table: &std::path::Path) -> usize {
    let script = "import sys, deltalake; print(len(deltalake.DeltaTable(sys.argv[1]).file_uris()))";
    let counted = python(["-c", script, &table.display().to_string()]);
    let text = String::from_utf8_lossy(&counted.stdout).trim().to_owned();
    text.parse()
        .unwrap_or_else(|_| panic!("{text}: {}", String::from_utf8_lossy(&counted.stderr)))
}

/// Small files are made one by the stream itself, while rows go on arriving, through a kill, and no row moves.
#[tokio::test(flavor = "multi_thread")]
async fn small_files_become_one_while_rows_arrive() {
    let (server, mut project) = set_up().await;
    project.edit(
        "[defaults]",
        "[maintenance]\ncompact = true\nsmall_files = 6\nmin_age = \"0ms\"\n\n[defaults]",
    );
    let bronze = project.bronze("dbo_t");
    let optimized = |bronze: &std::path::Path| {
        let operations = commits(bronze).into_iter().flatten();
        operations
            .filter(|action| action["commitInfo"]["operation"] == "OPTIMIZE")
            .count()
    };
    let mut id = 0;
    for life in 0..3 {
        let mut run = Running::start(&project, &[]);
        for _ in 0..8 {
            id += 1;
            insert(&server, id..=id).await;
            run.until_type("batch");
        }
        let before = optimized(&bronze);
        assert!(
            crate::harness::wait_for(|| optimized(&bronze) > before || before > life),
            "it is not made one"
        );
        run.signal("KILL");
        run.code();
    }
    insert(&server, id + 1..=id + 1).await;
    project.once().ok();
    assert_eq!(ids(&project), (1..=id + 1).collect::<Vec<_>>());
    let (left, made) = (files(&bronze), optimized(&bronze));
    assert!(
        left < 16 && made >= 3,
        "{left} files after {id} batches and {made} times"
    );
    // No commit of it says that data changed, or adds to the transaction ids.
    for commit in commits(&bronze) {
        if commit
            .iter()
            .any(|action| action["commitInfo"]["operation"] == "OPTIMIZE")
        {
            assert!(commit.iter().all(|action| action["txn"].is_null()));
            let data: Vec<_> = commit
                .iter()
                .filter_map(|action| action["add"].get("dataChange").or(action["remove"].get("dataChange")))
                .collect();
            assert!(
                data.len() > 2 && data.iter().all(|changed| **changed == false),
                "{data:?}"
            );
        }
    }
    project.run("doctor", &[]).ok();
}

/// A vacuum that keeps nothing takes what was made one out of the folder, and nothing that is in the table.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_made_one_can_be_vacuumed() {
    let (server, mut project) = set_up().await;
    project.edit(
        "[defaults]",
        "[maintenance]\ncompact = true\nsmall_files = 3\nmin_age = \"0ms\"\n\n[defaults]",
    );
    let mut run = Running::start(&project, &[]);
    for id in 1..=12 {
        insert(&server, id..=id).await;
        run.until_type("batch");
    }
    run.terminate();
    assert_eq!(run.code(), Some(0));
    maintain(&project, &["vacuum"]);
    insert(&server, 13..=13).await;
    project.once().ok();
    assert_eq!(ids(&project), (1..=13).collect::<Vec<_>>());
}
