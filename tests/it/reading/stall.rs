//! Capture that stands still is said, and that it goes on too.

use super::{events, lsn};
use crate::harness::{Project, Run, Running, Server, insert, sales, sales_on};

fn says_that_it_stalled(run: &Run) -> bool {
    let warnings = run.warnings();
    warnings.iter().any(|text| text.contains("capture has not moved"))
}

/// The server's clock goes on so many minutes.
async fn minutes_later(server: &Server, minutes: u32) {
    let text = format!("EXEC sim.clock @advance_ms = {}", minutes * 60_000);
    server.exec("master", &text).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn capture_that_stopped_is_told_once_and_its_return_too() {
    // Its zone is known, so that the age of the newest commit is.
    let server = sales_on(Server::start(&["--version", "2022"]), &["t"]).await;
    insert(&server, 1..=1).await;
    let project = Project::new(&server, "sales").table("dbo_t", "capture_stalled_after = \"3s\"");
    project.once().ok();
    server
        .exec(
            "sales",
            "EXEC sys.sp_cdc_stop_job @job_type = N'capture'; WAITFOR DELAY '00:00:04'",
        )
        .await;
    insert(&server, 2..=2).await;
    let run = project.once().ok();
    assert!(says_that_it_stalled(&run), "{}", run.stdout);
    assert_eq!(project.verdict().0.as_deref(), Some("capture_stalled"));
    project.once().ok();
    assert_eq!(events(&project, "capture_stalled").len(), 1);
    assert_eq!(events(&project, "capture_resumed").len(), 0);
    server
        .exec("sales", "EXEC sys.sp_cdc_start_job @job_type = N'capture'")
        .await;
    let mut run = Running::start(&project, &[]);
    run.until("the row that waited", |event| {
        event["type"] == "batch" && event["rows"] == 1
    });
    // A commit that capture brings while the stream looks on.
    insert(&server, 3..=3).await;
    run.until("the next row", |event| event["type"] == "batch" && event["rows"] == 1);
    run.until("the end of the stall", |event| {
        event["type"] == "batch" && event["rows"] == 0
    });
    run.terminate();
    assert_eq!(run.code(), Some(0));
    assert_eq!(events(&project, "capture_resumed").len(), 1);
    project.run("doctor", &[]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_look_at_a_clock_of_no_known_zone_takes_an_hour_more_for_a_stall() {
    // Its clock may have changed by an hour since the newest commit.
    let server = sales_on(Server::start(&["--version", "2019"]), &["t"]).await;
    insert(&server, 1..=1).await;
    let project = Project::new(&server, "sales").table("dbo_t", "capture_stalled_after = \"3s\"");
    project.once().ok();
    server.capture("sales", false).await;
    minutes_later(&server, 30).await;
    let run = project.once().ok();
    assert!(!says_that_it_stalled(&run), "{}", run.stdout);
    assert_eq!(project.verdict().0.as_deref(), Some("current"));
    assert_eq!(events(&project, "capture_stalled").len(), 0);
    // Two hours in all.
    minutes_later(&server, 90).await;
    let run = project.once().ok();
    assert!(says_that_it_stalled(&run), "{}", run.stdout);
    assert_eq!(project.verdict().0.as_deref(), Some("capture_stalled"));
    assert_eq!(events(&project, "capture_stalled").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stall_that_a_process_has_seen_is_not_over_for_the_next_one() {
    let server = sales_on(Server::start(&["--version", "2019"]), &["t"]).await;
    insert(&server, 1..=1).await;
    let project = Project::new(&server, "sales").table("dbo_t", "capture_stalled_after = \"3s\"");
    project.once().ok();
    server.capture("sales", false).await;
    let mut run = Running::start(&project, &[]);
    run.until("the stall", |event| {
        event["message"]
            .as_str()
            .is_some_and(|text| text.contains("capture has not moved"))
    });
    run.terminate();
    assert_eq!(run.code(), Some(0));
    project.once().ok();
    assert_eq!(project.verdict().0.as_deref(), Some("capture_stalled"));
    assert_eq!(events(&project, "capture_resumed").len(), 0);
    server.capture("sales", true).await;
    insert(&server, 2..=2).await;
    project.once().ok();
    assert_eq!(events(&project, "capture_resumed").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_database_moves_on_and_is_not_called_stalled() {
    let server = sales(&["t"]).await;
    insert(&server, 1..=1).await;
    let project = Project::new(&server, "sales").table("dbo_t", "capture_stalled_after = \"30min\"");
    project.once().ok();
    for _ in 0..3 {
        minutes_later(&server, 120).await;
        server.exec("sales", "EXEC sim.idle_entry").await;
        let entry = lsn(&server, "SELECT sys.fn_cdc_get_max_lsn()").await;
        project.once().ok();
        assert_eq!(project.verdict(), (Some("current".to_owned()), Some(entry)));
    }
    assert_eq!(events(&project, "capture_stalled").len(), 0);
    // Without an entry, as much time is a stall.
    minutes_later(&server, 120).await;
    project.once().ok();
    assert_eq!(project.verdict().0.as_deref(), Some("capture_stalled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_through_idle_entries_and_does_not_call_them_a_stall() {
    let server = sales(&["t"]).await;
    let project =
        Project::new(&server, "sales").table("dbo_t", "capture_stalled_after = \"10s\"\nidle_interval = \"1s\"");
    let mut run = Running::start(&project, &[]);
    insert(&server, 1..=1).await;
    run.until("the first row", |event| event["type"] == "batch" && event["rows"] == 1);
    let row = lsn(&server, "SELECT sys.fn_cdc_get_max_lsn()").await;
    // Nothing but idle entries, for longer than capture may stand still.
    server
        .exec(
            "sales",
            "DECLARE @n int = 0; WHILE @n < 24 \
             BEGIN EXEC sim.idle_entry; WAITFOR DELAY '00:00:00.500'; SET @n += 1 END",
        )
        .await;
    run.until("a position beyond the row", |event| {
        event["type"] == "batch" && event["rows"] == 0 && event["end_lsn"].as_str() > Some(row.as_str())
    });
    run.terminate();
    assert_eq!(run.code(), Some(0));
    assert_eq!(events(&project, "capture_stalled").len(), 0);
}
