//! What a person is told of rows in quarantine: at the end of a run, by a list of them, and by a retry. What is a component's own
//! fault puts none there.

use serde_json::json;
use sluice_test_guests::component;

use crate::harness::{Project, Server, ids, insert, sales};

/// Traps on every batch.
const TRAPS: &str =
    "[[table.transform]]\nplugin = \"badguest\"\non_error = \"quarantine\"\nconfig = { behave = \"trap\" }\n";
/// Traps on a batch with `v3`.
const TRAPS_ON_ONE: &str = "[[table.transform]]\nplugin = \"badguest\"\non_error = \"quarantine\"\n\
                            config = { behave = \"trap\", on = \"v3\" }\n";
const WELL: &str = "on_transform_change = \"continue\"\n[[table.transform]]\nplugin = \"badguest\"\n\
                    on_error = \"quarantine\"\nconfig = { behave = \"well\" }\n";

/// Rows 1 to `last`, each in a commit of its own.
async fn set_up(chain: &str, last: i64) -> (Server, Project) {
    let server = sales(&["t"]).await;
    let project = Project::new(&server, "sales").table("dbo_t", chain);
    project.plugin("badguest", &component("badguest"));
    insert(&server, 1..=last).await;
    (server, project)
}

fn says(text: &str, words: &str) {
    assert!(text.contains(words), "{words:?} is not in {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_fails_on_all_changes_stops_the_table_and_puts_none_aside() {
    let (_server, mut project) = set_up(TRAPS, 10).await;
    let run = project.once();
    assert_eq!(run.code, 6, "{}\n{}", run.stdout, run.stderr);
    let error = run.failure("dbo_t")["error"].as_str().expect("text").to_owned();
    for words in [
        "transform 1 (`badguest`): the component fails on each of the 10 changes of the chunk",
        "the component trapped",
        "mend the component",
    ] {
        says(&error, words);
    }
    assert!(!project.bronze("dbo_t__quarantine").exists());
    assert!(ids(&project).is_empty());
    project.edit(TRAPS, WELL);
    project.once().ok();
    assert_eq!(ids(&project), (1..=10).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_too_few_to_tell_are_put_aside_though_the_component_fails_on_all() {
    let (_server, project) = set_up(TRAPS, 9).await;
    let summary = project.once().ok().table("dbo_t");
    assert_eq!((&summary["rows"], &summary["quarantined"]), (&0.into(), &9.into()));
    assert_eq!(summary["open_quarantined"], 9);
    assert_eq!(summary["open_codes"], json!({ "trap": 9 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_run_says_what_is_in_quarantine_and_that_the_verdict_does_not_hold_for_it() {
    let (_server, project) = set_up(TRAPS_ON_ONE, 4).await;
    // Also of a run that put nothing there.
    for _ in 0..2 {
        let run = project.run("run", &["--once"]).ok();
        says(&run.stdout, "Z but for 1 row in quarantine");
        says(
            &run.stdout,
            "\ndbo_t: 1 row is in quarantine (1 trap): `sluice quarantine list` shows them\n",
        );
    }
    let summary = project.once().ok().table("dbo_t");
    assert_eq!(
        (&summary["quarantined"], &summary["open_quarantined"]),
        (&0.into(), &1.into())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_ends_with_a_statement_that_shows_the_rows_on_the_source() {
    let (server, project) = set_up(TRAPS_ON_ONE, 4).await;
    project.once().ok();
    let listed = project.run("quarantine", &["list"]).ok().stdout;
    assert!(!listed.contains("v3"), "{listed}");
    let last = listed.lines().last().expect("a line");
    let statement = last.trim().strip_prefix("on the source: ").expect("a statement");
    let rows = server.query("sales", statement).await;
    let found: Vec<Option<i32>> = rows.iter().map(|row| row.get("id")).collect();
    assert_eq!(found, [Some(3)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_says_how_many_rows_were_read_again_and_what_became_of_them() {
    let (server, mut project) = set_up(TRAPS_ON_ONE, 4).await;
    project.once().ok();
    let retry = |project: &Project| project.run("quarantine", &["retry"]).ok().stdout;
    says(
        &retry(&project),
        "dbo_t: 1 row was read again: 0 into bronze, 1 still in quarantine (trap)",
    );
    insert(&server, 13..=13).await;
    project.edit(TRAPS_ON_ONE, WELL);
    says(
        &retry(&project),
        "dbo_t: 1 row was read again: 1 into bronze, 0 still in quarantine\n",
    );
    assert_eq!(ids(&project), [1, 2, 3, 4]);
    says(
        &retry(&project),
        "dbo_t: no rows in quarantine that could be read again",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_says_the_same_in_json() {
    let (_server, project) = set_up(TRAPS_ON_ONE, 4).await;
    project.once().ok();
    let run = project.run("quarantine", &["retry", "--json"]).ok();
    let batch = run.of_type("batch")[0]["batch_id"].clone();
    assert_eq!(
        run.of_type("retried"),
        [json!({
            "type": "retried", "capture_instance": "dbo_t", "batch_id": batch, "rows": 1, "into_bronze": 0,
            "still_quarantined": 1, "still_codes": { "trap": 1 },
        })]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_counts_what_the_transforms_leave_out_apart_from_what_is_gone() {
    const DROPS_UPDATES: &str = "on_transform_change = \"continue\"\n[[table.transform]]\nplugin = \"badguest\"\n\
                                 on_error = \"quarantine\"\nconfig = { behave = \"drop-updates\" }\n";
    let (server, mut project) = set_up(TRAPS_ON_ONE, 4).await;
    let update = "UPDATE dbo.t SET v = N'v3' WHERE id = 4";
    server.exec("sales", update).await;
    let summary = project.once().ok().table("dbo_t");
    assert_eq!(summary["open_quarantined"], 3, "an insert, and both rows of an update");
    server.exec("sales", "DELETE FROM cdc.dbo_t_CT WHERE id = 3").await;
    project.edit(TRAPS_ON_ONE, DROPS_UPDATES);
    says(
        &project.run("quarantine", &["retry"]).ok().stdout,
        "dbo_t: 2 rows were read again: 0 into bronze, 0 still in quarantine, 2 left out by the transforms",
    );
    let listed = project.run("quarantine", &["list"]).ok().stdout;
    says(&listed, "dbo_t: 1 row in quarantine");
}

/// A retry picks rows out of many, so that a component may fail on all of them and be right for the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_many_rows_that_fail_again_leaves_them_in_quarantine() {
    let (server, project) = set_up(TRAPS_ON_ONE, 1).await;
    for id in 11..=20 {
        let statement = format!("INSERT INTO dbo.t VALUES ({id}, N'v3')");
        server.exec("sales", &statement).await;
    }
    project.once().ok();
    let run = project.run("quarantine", &["retry", "--json"]).ok();
    let retried = run.of_type("retried").remove(0);
    assert_eq!(
        (&retried["rows"], &retried["still_quarantined"]),
        (&10.into(), &10.into())
    );
    assert_eq!(ids(&project), [1]);
}
