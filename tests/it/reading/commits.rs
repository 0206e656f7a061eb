//! A commit is taken whole, and its changes keep their order, whatever becomes of a key.

use super::{ORDER, bronze, lsn, plan};
use crate::harness::{Project, Server, ids, insert, rows_of, sales};

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_inside_a_transaction_leaves_none_of_it() {
    let server = sales(&["t"]).await;
    // Three chunks, and a commit after them.
    let rows: Vec<String> = (1..=2500).map(|id| format!("({id}, N'v')")).collect();
    let inserts: Vec<String> = rows
        .chunks(1000)
        .map(|rows| format!("INSERT INTO dbo.t VALUES {}", rows.join(", ")))
        .collect();
    server
        .exec("sales", &format!("BEGIN TRAN; {}; COMMIT", inserts.join("; ")))
        .await;
    insert(&server, 2501..=2501).await;
    let commit = lsn(&server, "SELECT MIN([__$start_lsn]) FROM cdc.dbo_t_CT").await;

    let project = Project::new(&server, "sales").table("dbo_t", "max_commits_per_batch = 1");
    assert!(project.kill_at("chunk-read:2"), "between two chunks");
    assert!(ids(&project).is_empty(), "{:?}", ids(&project));
    assert_eq!(plan(&project, 0)["end"]["lsn"], commit.as_str());
    assert!(!project.lake().join("checkpoints/dbo_t/commits/0.json").exists());

    let run = project.once().ok();
    let batches = run.of_type("batch");
    assert_eq!(batches[0]["rows"], 2500, "{}", run.stdout);
    assert_eq!(batches[0]["end_lsn"], commit.as_str());
    assert_eq!(run.table("dbo_t")["batches"], 2);
    let rows = bronze(&project);
    let mut read: Vec<(i64, i64)> = rows.numbers("_batch_id").into_iter().zip(rows.numbers("id")).collect();
    read.sort_unstable();
    let committed: Vec<(i64, i64)> = (1..=2500).map(|id| (0, id)).chain([(1, 2501)]).collect();
    assert!(read == committed, "{} rows, {:?} at the end", read.len(), read.last());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_update_arrives_as_delete_and_insert_or_as_before_and_after() {
    let server = sales(&["t"]).await;
    for statement in [
        "INSERT INTO dbo.t VALUES (1, N'v')",
        "EXEC sim.key_update N'delete_insert'",
        "UPDATE dbo.t SET id = 10 WHERE id = 1",
        "EXEC sim.key_update N'before_after'",
        "UPDATE dbo.t SET id = 100 WHERE id = 10",
    ] {
        server.exec("sales", statement).await;
    }
    let project = Project::new(&server, "sales").table("dbo_t", "");
    let run = project.once().ok();
    let rows = bronze(&project);
    assert_eq!(rows.numbers("_operation"), [2, 1, 2, 3, 4]);
    assert_eq!(rows.numbers("id"), [1, 1, 10, 10, 100]);
    let table = run.table("dbo_t");
    let counts = ["inserts", "updates", "deletes"].map(|count| table[count].as_u64());
    assert_eq!(counts, [Some(2), Some(1), Some(1)]);
}

/// One transaction on one key, and a commit after it that has a lower `__$seqval`, as that of a transaction which began
/// earlier has.
async fn one_key(server: &Server) {
    server.database("sales").await;
    server
        .table("sales", "t", "id int NOT NULL PRIMARY KEY, v nvarchar(10) NULL")
        .await;
    for statement in [
        "BEGIN TRAN; INSERT INTO dbo.t VALUES (1, N'a'); UPDATE dbo.t SET v = N'b' WHERE id = 1; \
         UPDATE dbo.t SET v = N'c' WHERE id = 1; DELETE FROM dbo.t; INSERT INTO dbo.t VALUES (1, N'd'); COMMIT",
        "UPDATE dbo.t SET v = N'e' WHERE id = 1",
        "DECLARE @last binary(10) = (SELECT MAX([__$start_lsn]) FROM cdc.dbo_t_CT); \
         UPDATE cdc.dbo_t_CT SET [__$seqval] = 0x00000000000000000001 WHERE [__$start_lsn] = @last",
    ] {
        server.exec("sales", statement).await;
    }
}

/// Reads the changes of [`one_key`], which have to be in their order, with and without the command ids. The command ids.
fn expect_history(project: &Project) -> Vec<Option<String>> {
    project.once().ok();
    let without: Vec<&str> = ORDER.into_iter().filter(|column| *column != "_command_id").collect();
    for order in [ORDER.as_slice(), without.as_slice()] {
        let rows = rows_of(&project.bronze("dbo_t"), order).expect("rows");
        assert_eq!(rows.numbers("_operation"), [2, 3, 4, 3, 4, 1, 2, 3, 4], "{order:?}");
        let letters = ["a", "a", "b", "b", "c", "c", "d", "d", "e"].map(|letter| Some(letter.to_owned()));
        assert_eq!(rows.texts("v"), letters, "{order:?}");
        let seqvals = rows.texts("_seqval");
        assert!(
            seqvals[8] < seqvals[0],
            "the later commit has the lower one: {seqvals:?}"
        );
    }
    rows_of(&project.bronze("dbo_t"), &without)
        .expect("rows")
        .texts("_command_id")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_change_of_a_key_is_last_by_the_documented_order() {
    let server = Server::start(&[]);
    one_key(&server).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    let commands = expect_history(&project);
    let commands: Vec<i64> = commands
        .into_iter()
        .map(|id| id.expect("an id").parse().expect("a number"))
        .collect();
    assert!(commands[..7].is_sorted() && commands[0] < commands[6], "{commands:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_table_without_command_ids_is_read() {
    let server = Server::start(&["--without-command-id", "--version", "2016"]);
    one_key(&server).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    assert_eq!(expect_history(&project), vec![None; 9]);
}
