//! Bronze is one stream's, and what bronze has is done: whoever finds it there, and whatever became of the source.

use crate::harness::{Project, Server, ids, insert, rows_of, sales};

const NEWEST: &str = "sys.fn_cdc_get_max_lsn()";

async fn set_up(rest: &str) -> (Server, Project) {
    let server = sales(&["t"]).await;
    let project = Project::new(&server, "sales").table("dbo_t", rest);
    (server, project)
}

/// The facts of batches, by number: `(rows, inserts, end LSN, delta version)`.
fn facts(project: &Project) -> Vec<[Option<String>; 5]> {
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["batch_id"]).expect("facts");
    let columns = ["batch_id", "rows", "inserts", "delta_version", "max_commit_ts"].map(|name| facts.texts(name));
    (0..facts.len())
        .map(|row| std::array::from_fn(|column| columns[column][row].clone()))
        .filter(|row: &[Option<String>; 5]| row[0].is_some())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_in_bronze_is_done_though_the_source_lost_it() {
    let (server, project) = set_up("").await;
    insert(&server, 1..=3).await;
    assert!(project.kill_at("after-commit"));
    server.cleanup("sales", "dbo_t", NEWEST).await;
    let run = project.once().ok();
    let batches = run.of_type("batch");
    assert_eq!(
        (&batches[0]["batch_id"], &batches[0]["rows"], &batches[0]["replayed"]),
        (&0.into(), &3.into(), &true.into())
    );
    assert_eq!(ids(&project), [1, 2, 3]);
    let facts = facts(&project);
    let [_, rows, inserts, version, time] = &facts[0];
    assert_eq!((rows.as_deref(), inserts.as_deref()), (Some("3"), Some("3")));
    assert!(version.is_some() && time.is_some(), "the whole row is there: {facts:?}");
    insert(&server, 4..=4).await;
    project.once().ok();
    assert_eq!(ids(&project), [1, 2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_in_bronze_is_done_though_the_chain_changed() {
    const PASS: &str = "[[table.transform]]\nplugin = \"mask\"\nconfig = { unlisted = \"pass\" }\n";
    let (server, mut project) = set_up(PASS).await;
    insert(&server, 1..=1).await;
    assert!(project.kill_at("after-commit"));
    project.edit(PASS, "on_transform_change = \"continue\"\n");
    insert(&server, 2..=2).await;
    let run = project.once().ok();
    assert_eq!(run.table("dbo_t")["rows"], 2);
    assert_eq!(ids(&project), [1, 2]);
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["written_at"]).expect("facts");
    let mut events: Vec<String> = facts.texts("event").into_iter().flatten().collect();
    events.sort();
    assert_eq!(events, ["transform_changed", "transform_set"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_checkpoints_on_one_lake_only_one_goes_on() {
    let (server, mut project) = set_up("").await;
    let (one, two) = ("lake/checkpoints/{ci}", "lake/other/{ci}");
    insert(&server, 1..=2).await;
    // The first is the owner, and has planned batch 0 and not committed it.
    assert!(project.kill_at("files-staged"));
    // The second finds an owner's number that it did not count to, takes the stream over and commits a batch 0.
    project.edit(one, two);
    insert(&server, 3..=3).await;
    assert_eq!(project.once().ok().table("dbo_t")["rows"], 3);
    // The first finds a batch 0 that is not its own.
    project.edit(two, one);
    for _ in 0..2 {
        let run = project.once();
        assert_eq!(run.code, 7, "{}\n{}", run.stdout, run.stderr);
        let error = run.failure("dbo_t")["error"].to_string();
        assert!(
            error.contains("not the one planned in this checkpoint") && error.contains("stop the other process"),
            "{error}"
        );
    }
    // And it fenced nobody off by trying.
    project.edit(one, two);
    insert(&server, 4..=4).await;
    project.once().ok();
    assert_eq!(ids(&project), [1, 2, 3, 4]);
    let counts: Vec<Option<String>> = facts(&project).into_iter().map(|[_, rows, ..]| rows).collect();
    assert_eq!(counts, [Some("3".to_owned()), Some("1".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bronze_table_that_was_deleted_is_noticed() {
    let (server, project) = set_up("").await;
    insert(&server, 1..=1).await;
    project.once().ok();
    std::fs::remove_dir_all(project.bronze("dbo_t")).expect("removed");
    let run = project.once();
    assert_eq!(run.code, 7, "{}\n{}", run.stdout, run.stderr);
    let error = run.failure("dbo_t")["error"].to_string();
    assert!(error.contains("the table was replaced or restored"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_is_told_when_it_moves_and_is_the_tables() {
    let (server, mut project) = set_up("").await;
    insert(&server, 1..=1).await;
    let first = project.once().ok();
    assert_eq!(first.of_type("verdict").len(), 1);
    let until = first.table("dbo_t")["finalized_until"].clone();
    assert!(until.is_string());
    // A coarser period would give an earlier instant, and the table's stays.
    project.edit("granularity = \"minute\"", "granularity = \"day\"");
    for _ in 0..2 {
        let again = project.once().ok();
        assert_eq!(again.of_type("verdict").len(), 0, "{}", again.stdout);
        assert_eq!(again.table("dbo_t")["finalized_until"], until);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_changes_leaves_no_version_in_bronze() {
    let (server, project) = set_up("").await;
    insert(&server, 1..=1).await;
    project.once().ok();
    let versions = || {
        std::fs::read_dir(project.bronze("dbo_t").join("_delta_log"))
            .expect("a log")
            .count()
    };
    let before = versions();
    for _ in 0..3 {
        project.once().ok();
    }
    assert_eq!(versions(), before);
}
