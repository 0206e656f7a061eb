//! Capture that stands still is said, and that it goes on too.

use super::events;
use crate::harness::{Project, Running, Server, insert, sales_on};

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
    assert!(
        run.warnings().iter().any(|text| text.contains("capture has not moved")),
        "{}",
        run.stdout
    );
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
