//! The server's local time is told in UTC: in bronze, in the facts and in the verdict.

use serde_json::Value;

use super::{bronze, set_clock};
use crate::harness::{Project, Running, Server, rows_of};

pub(super) async fn sales_in(arguments: &[&str]) -> Server {
    let server = Server::start(arguments);
    table(&server).await;
    server
}

/// The database, and `dbo.t` in it.
pub(super) async fn table(server: &Server) {
    server.database("sales").await;
    server.table("sales", "t", "id int NOT NULL PRIMARY KEY").await;
}

/// A row that is committed at an instant of the server's clock.
pub(super) async fn insert_at(server: &Server, id: u32, utc: &str) {
    set_clock(server, utc).await;
    server.exec("sales", &format!("INSERT INTO dbo.t VALUES ({id})")).await;
}

/// Bronze's commit times, in order, as ISO 8601.
pub(super) fn commit_times(project: &Project) -> Vec<String> {
    bronze(project).texts("_commit_ts").into_iter().flatten().collect()
}

/// The night in which the clocks of Berlin go back: 03:00 becomes 02:00 at 01:00 UTC.
const NIGHT: [&str; 6] = [
    "2026-10-24T23:30:00",
    "2026-10-25T00:20:00",
    "2026-10-25T00:50:00",
    "2026-10-25T01:20:00",
    "2026-10-25T01:50:00",
    "2026-10-25T02:30:00",
];

async fn night(server: &Server, of: std::ops::Range<usize>) {
    for at in of {
        insert_at(server, at as u32, &format!("{}Z", NIGHT[at])).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hour_that_the_clock_repeats_is_told_apart_by_lsn_order() {
    let server = sales_in(&["--version", "2022", "--time-zone", "W. Europe Standard Time"]).await;
    night(&server, 0..6).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    let run = project.once().ok();
    assert_eq!(commit_times(&project), NIGHT);
    assert!(run.of_type("warning").is_empty(), "{}", run.stdout);
    let end = run.table("dbo_t")["end_commit_ts"].as_str().map(str::to_owned);
    assert!(
        end.is_some_and(|end| end.starts_with("2026-10-25T02:30:00")),
        "{}",
        run.stdout
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_begin_and_end_in_the_repeated_hour_agree_with_one_that_does_not() {
    for stop in 1..6 {
        let server = sales_in(&["--version", "2022", "--time-zone", "Europe/Berlin"]).await;
        let project = Project::new(&server, "sales").table("dbo_t", "max_commits_per_batch = 1");
        night(&server, 0..stop).await;
        project.once().ok();
        assert_eq!(commit_times(&project), NIGHT[..stop]);
        night(&server, stop..6).await;
        assert!(project.kill_at("after-offset"), "{stop}");
        project.once().ok();
        assert_eq!(commit_times(&project), NIGHT, "{stop}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_begins_in_the_second_pass_is_not_an_hour_early() {
    let server = sales_in(&["--version", "2022", "--time-zone", "Europe/Berlin"]).await;
    server.table("sales", "other", "id int NOT NULL PRIMARY KEY").await;
    for (id, at) in (0..).zip(&NIGHT[..3]) {
        set_clock(&server, &format!("{at}Z")).await;
        server
            .exec("sales", &format!("INSERT INTO dbo.other VALUES ({id})"))
            .await;
    }
    // The table's own commits are all of the second pass.
    night(&server, 3..5).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    assert_eq!(commit_times(&project), NIGHT[3..5]);
    let verdict = rows_of(&project.lake().join("ops/table_finalization"), &["table_name"]).expect("a verdict");
    assert_eq!(
        verdict.texts("finalized_until"),
        [Some("2026-10-25T01:50:00".to_owned())]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_name_its_zone_is_read_by_its_distance_and_warns() {
    let server = sales_in(&["--version", "2019", "--utc-offset", "-420"]).await;
    insert_at(&server, 1, "2026-03-04T23:26:36.387Z").await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    let run = project.once().ok();
    let warning = run.of_type("warning");
    let text = warning[0]["message"].as_str().expect("text");
    assert!(text.contains("source_time_zone") && text.contains("-07:00"), "{text}");
    assert_eq!(commit_times(&project), ["2026-03-04T23:26:36.387"]);
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["batch_id"]).expect("facts");
    assert!(
        facts
            .texts("end_commit_ts")
            .contains(&Some("2026-03-04T23:26:36.387".to_owned())),
        "{:?}",
        facts.texts("end_commit_ts")
    );
    let verdict = rows_of(&project.lake().join("ops/table_finalization"), &["table_name"]).expect("a verdict");
    assert_eq!(
        verdict.texts("end_commit_ts"),
        [Some("2026-03-04T23:26:36.387".to_owned())]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_changes_while_a_stream_runs_is_read_anew() {
    let server = sales_in(&["--version", "2019", "--time-zone", "Europe/Berlin"]).await;
    // Two hours from UTC, and one after the night between.
    insert_at(&server, 1, "2026-10-24T10:00:00Z").await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    let mut run = Running::start(&project, &[]);
    let is_a_row = |event: &Value| event["type"] == "batch" && event["rows"] == 1;
    run.until("the row of summer", is_a_row);
    insert_at(&server, 2, "2026-10-26T10:00:00Z").await;
    run.until("the row of winter", is_a_row);
    run.terminate();
    assert_eq!(run.code(), Some(0));
    assert_eq!(commit_times(&project), ["2026-10-24T10:00:00", "2026-10-26T10:00:00"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_zone_serves_a_server_that_does_not_name_it_and_has_to_be_its_own() {
    let server = sales_in(&["--version", "2019", "--time-zone", "Europe/Berlin"]).await;
    night(&server, 0..6).await;
    let mut project = Project::new(&server, "sales").table("dbo_t", "");
    project.edit("[source]\n", "[source]\nsource_time_zone = \"America/New_York\"\n");
    let run = project.once();
    assert_eq!(run.code, 2, "{}", run.stdout);
    let said = format!("{}{}", run.stdout, run.stderr);
    assert!(said.contains("America/New_York") && said.contains("+01:00"), "{said}");
    project.edit("America/New_York", "W. Europe Standard Time");
    let run = project.once().ok();
    assert!(run.of_type("warning").is_empty(), "{}", run.stdout);
    assert_eq!(commit_times(&project), NIGHT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_in_an_hour_that_will_be_repeated_has_not_come_to_its_second_pass() {
    let server = sales_in(&["--version", "2022", "--time-zone", "Europe/Berlin"]).await;
    insert_at(&server, 1, "2026-10-25T00:30:00Z").await;
    insert_at(&server, 2, "2026-10-25T00:28:00Z").await;
    // The change has come, and nothing of the second pass yet.
    set_clock(&server, "2026-10-25T01:00:05Z").await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    // Times follow LSN order; 01:28 is an hour that the server has still to come to.
    assert_eq!(commit_times(&project), ["2026-10-25T00:30:00", "2026-10-25T00:30:00"]);
    let verdict = rows_of(&project.lake().join("ops/table_finalization"), &["table_name"]).expect("a verdict");
    assert_eq!(
        verdict.texts("finalized_until"),
        [Some("2026-10-25T00:30:00".to_owned())]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_does_not_take_the_verdict_along() {
    let server = sales_in(&["--time-zone", "UTC"]).await;
    insert_at(&server, 1, "2026-05-01T12:00:00Z").await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    insert_at(&server, 2, "2026-05-01T11:00:00Z").await;
    insert_at(&server, 3, "2026-05-01T12:30:00Z").await;
    project.once().ok();
    assert_eq!(
        commit_times(&project),
        ["2026-05-01T12:00:00", "2026-05-01T12:00:00", "2026-05-01T12:30:00"]
    );
}
