//! A copy of the server that does not have the position yet, as a secondary that lags, stops the stream, and nothing is lost.

use super::events;
use crate::harness::{Project, Running, Server, ids, insert, sales};

/// Three rows in commits of their own. A gap would be skipped.
async fn set_up() -> (Server, Project) {
    let server = sales(&["t"]).await;
    insert(&server, 1..=3).await;
    let project = Project::new(&server, "sales").table("dbo_t", "on_data_loss = \"skip\"");
    (server, project)
}

/// From now on `reader` sees the copy, which lacks the last two commits.
async fn lag(server: &Server) {
    server
        .exec("sales", "EXEC sim.replica_lag @login = N'reader', @entries = 2")
        .await;
}

/// The copy has caught up: the stream goes on with the next row.
async fn goes_on(server: &Server, project: &Project) {
    server.exec("sales", "EXEC sim.replica_lag @login = N'reader'").await;
    insert(server, 4..=4).await;
    project.once().ok();
    assert_eq!(ids(project), [1, 2, 3, 4]);
    assert_eq!(events(project, "data_skipped").len(), 0);
    assert_eq!(project.verdict().0.as_deref(), Some("current"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_stream_that_meets_a_lagging_secondary_stops_and_loses_nothing() {
    let (server, project) = set_up().await;
    let mut run = Running::start(&project, &[]);
    run.until("the rows", |event| event["type"] == "batch" && event["rows"] == 3);
    lag(&server).await;
    let failed = run.until_type("failed");
    assert_eq!(failed["kind"], "state", "{failed}");
    let error = failed["error"].as_str().expect("text");
    assert!(error.contains("max_lsn"), "{error}");
    assert_eq!(run.code(), Some(7));
    assert_eq!(ids(&project), [1, 2, 3]);
    assert_eq!(project.verdict().0.as_deref(), Some("failed"));
    goes_on(&server, &project).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_on_a_lagging_secondary_says_that_it_lags() {
    let (server, project) = set_up().await;
    project.once().ok();
    lag(&server).await;
    for (command, arguments) in [("run", &["--once"][..]), ("check", &[])] {
        let run = project.run(command, arguments);
        assert_eq!(run.code, 7, "{}\n{}", run.stdout, run.stderr);
        assert!(
            run.stdout.contains("max_lsn") && run.stdout.contains("lags"),
            "{}",
            run.stdout
        );
        assert!(!run.stdout.contains("made anew"), "{}", run.stdout);
    }
    assert_eq!(ids(&project), [1, 2, 3]);
    goes_on(&server, &project).await;
}
