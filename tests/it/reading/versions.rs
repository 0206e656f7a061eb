//! What differs between versions of the server: who names the zone of the clock, and how soon capture follows.

use super::time::{commit_times, insert_at, sales_in, table};
use super::{lsn, set_clock};
use crate::harness::{Project, Run, Running, Server, ids};

/// How often a run warned that nobody names the zone of the server's clock.
fn warnings_of_the_zone(run: &Run) -> usize {
    let warnings = run.of_type("warning");
    let is_of_it = |event: &&serde_json::Value| {
        let message = event["message"].as_str();
        message.is_some_and(|text| text.contains("source_time_zone"))
    };
    warnings.iter().filter(is_of_it).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_from_2022_on_name_the_zone_of_their_clock_and_those_before_are_warned_of() {
    for version in ["2016", "2017", "2019", "2022", "2025"] {
        let server = sales_in(&["--version", version, "--time-zone", "Europe/Berlin"]).await;
        insert_at(&server, 1, "2026-07-01T10:00:00Z").await;
        let project = Project::new(&server, "sales").table("dbo_t", "");
        let run = project.once().ok();
        assert_eq!(
            warnings_of_the_zone(&run),
            usize::from(version < "2022"),
            "{version}: {}",
            run.stdout
        );
        assert_eq!(commit_times(&project), ["2026-07-01T10:00:00"], "{version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn azure_sql_names_its_zone_and_its_capture_is_waited_for() {
    let server = Server::start(&["--version", "azure", "--capture-lag", "3s"]);
    // Before anything is committed: the clock does not go back under the stream.
    set_clock(&server, "2026-07-01T09:00:00Z").await;
    table(&server).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    // Capture has processed nothing yet, not even that the table is under CDC.
    let run = project.once().ok();
    let reached = lsn(&server, "SELECT sys.fn_cdc_get_max_lsn()").await;
    assert_eq!(run.table("dbo_t")["end_lsn"], reached);
    assert_eq!(warnings_of_the_zone(&run), 0, "{}", run.stdout);

    let mut run = Running::start(&project, &[]);
    for (id, at) in [(1, "2026-07-01T09:05:00Z"), (2, "2026-07-01T09:10:00Z")] {
        insert_at(&server, id, at).await;
        run.until("the row", |event| event["type"] == "batch" && event["rows"] == 1);
    }
    run.terminate();
    assert_eq!(run.code(), Some(0));
    assert_eq!(ids(&project), [1, 2]);
    assert_eq!(commit_times(&project), ["2026-07-01T09:05:00", "2026-07-01T09:10:00"]);
}
