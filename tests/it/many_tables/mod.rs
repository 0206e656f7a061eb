//! Many tables in one process: how they start, what the failure of one means for the others, how long they run, what they cost
//! the server while nothing happens.

mod cost;
mod guide;
mod hosts;
mod page;
mod patterns;

use std::time::Duration;

use serde_json::Value;
use sluice::config::{OnStartError, Settings};
use sluice::error::Classify as _;
use sluice::fanout::{RestartError, StartError, StartOptions, StreamStatus, start_many};
use sluice::identity::CaptureInstance;

use crate::harness::{Project, Running, ids, rows_of, sales};

fn of(table: &'static str) -> impl Fn(&Value) -> bool {
    move |event| event["capture_instance"] == table
}

/// Three tables, of which the login may not read one.
async fn with_one_that_is_not_granted() -> (crate::harness::Server, Project) {
    let server = sales(&["a", "b", "c"]).await;
    for table in ["a", "b", "c"] {
        server
            .exec("sales", &format!("INSERT INTO dbo.{table} VALUES (1, N'v')"))
            .await;
    }
    server.exec("sales", "REVOKE SELECT ON [dbo].[b] FROM [reader]").await;
    let project = Project::new(&server, "sales")
        .table("dbo_a", "")
        .table("dbo_b", "")
        .table("dbo_c", "");
    (server, project)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_fails_is_started_again_alone() {
    let (server, project) = with_one_that_is_not_granted().await;
    let mut run = Running::start(&project, &[]);
    let failed = run.until_type("failed");
    assert_eq!(failed["capture_instance"], "dbo_b");
    assert!(failed["error"].as_str().unwrap().contains("GRANT SELECT"), "{failed}");
    server.grant("sales", "b").await;
    run.signal("USR1");
    run.until("batch of dbo_b", |event| event["type"] == "batch" && of("dbo_b")(event));
    // The others were not disturbed, and go on.
    server.exec("sales", "INSERT INTO dbo.a VALUES (2, N'v')").await;
    run.until("second batch of dbo_a", |event| {
        event["batch_id"] == 1 && of("dbo_a")(event)
    });
    run.terminate();
    assert_eq!(
        run.code(),
        Some(0),
        "what failed and was mended is no failure of the run"
    );
}

/// Who looks later, without the process, is told the same: which, why, and by the exit code of what kind.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_could_not_be_opened_is_told_by_the_status_until_it_runs_again() {
    told_until_it_runs_again("").await;
    told_until_it_runs_again("[ownership]\nmode = \"lease\"\nlease = \"4s\"\nhosts = \"hosts\"\n\n").await;
}

async fn told_until_it_runs_again(ownership: &str) {
    let server = sales(&["a", "b"]).await;
    let mut project = Project::new(&server, "sales").table("dbo_a", "").table("dbo_b", "");
    project.edit("[defaults]", &format!("{ownership}[defaults]"));
    project.once().ok();
    for revoked in ["[cdc].[dbo_b_CT]", "[dbo].[b]"] {
        server
            .exec("sales", &format!("REVOKE SELECT ON {revoked} FROM [reader]"))
            .await;
        assert_eq!(project.once().code, 2);
        let status = project.run("status", &["--json"]);
        assert_eq!(status.code, 2, "{status:?}");
        let told = status.of_type("status");
        assert!(
            told[0]["stopped"].is_null() && told[0]["status"] == "current",
            "{told:#?}"
        );
        assert_eq!(
            (&told[1]["status"], &told[1]["stopped_kind"]),
            (&"failed".into(), &"config".into())
        );
        assert!(
            told[1]["stopped"].as_str().unwrap().contains("GRANT SELECT"),
            "{told:#?}"
        );
        server.grant("sales", "b").await;
        project.once().ok();
        let status = project.run("status", &["--json"]).ok().of_type("status");
        assert!(
            status[1]["stopped"].is_null() && status[1]["status"] == "current",
            "{status:#?}"
        );
    }
    // In a process that runs, and has the other table all the while.
    server
        .exec("sales", "REVOKE SELECT ON [cdc].[dbo_b_CT] FROM [reader]")
        .await;
    let mut run = Running::start(&project, &[]);
    run.until_type("failed");
    let told = project.run("status", &["--json"]).of_type("status");
    assert!(
        told[1]["stopped"].as_str().unwrap().contains("GRANT SELECT"),
        "{told:#?}"
    );
    run.terminate();
    assert_eq!(run.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_fail_fast_the_first_failure_ends_the_run() {
    let (_server, project) = with_one_that_is_not_granted().await;
    // It would run for ever.
    let run = project.run("run", &["--json", "--fail-fast"]);
    assert_eq!(run.code, 2, "{run:#?}");
    assert_eq!(run.of_type("failed").len(), 1);
    assert_eq!(run.of_type("table").len(), 2, "the others ended their batches");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_cannot_start_stops_the_others_where_that_is_asked_for() {
    let (_server, mut project) = with_one_that_is_not_granted().await;
    let run = project.run("run", &["--json", "--on-start-error", "stop"]);
    assert_eq!(run.code, 2, "{run:#?}");
    assert!(run.stderr.contains("dbo_b cannot start"), "{}", run.stderr);
    assert!(run.stderr.contains("GRANT SELECT"), "{}", run.stderr);
    // As a setting, and from the library.
    project.edit("[plugins]", "[run]\non_start_error = \"stop\"\n\n[plugins]");
    let again = project.run("run", &["--json"]);
    assert_eq!(again.code, 2, "{again:#?}");
    let settings = Settings::load(&project.config()).unwrap();
    assert_eq!(settings.run.on_start_error, OnStartError::Stop);
    let options = StartOptions {
        on_start_error: OnStartError::Stop,
        ..StartOptions::default()
    };
    let Err(error) = start_many(&settings, options).await else {
        panic!("it starts");
    };
    assert!(matches!(&error, StartError::Table { capture_instance, .. } if capture_instance.0 == "dbo_b"));
    assert_eq!(error.kind().exit_code(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_when_its_time_is_over() {
    let server = sales(&["t"]).await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (1, N'v')").await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    let run = project.run("run", &["--json", "--for", "3s"]).ok();
    assert_eq!(run.table("dbo_t")["rows"], 1);
    assert_eq!(ids(&project), [1]);
    for wrong in ["4", "0s", "soon"] {
        let refused = project.run("run", &["--for", wrong]);
        assert_eq!(refused.code, 2, "{wrong}: {refused:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_restarts_what_ended_and_nothing_else() {
    let server = sales(&["a", "b"]).await;
    server.exec("sales", "INSERT INTO dbo.a VALUES (1, N'v')").await;
    let project = Project::new(&server, "sales")
        .table("dbo_a", "trigger = \"available-now\"")
        .table("dbo_b", "");
    let settings = Settings::load(&project.config()).unwrap();
    let mut streams = start_many(&settings, StartOptions::default()).await.unwrap();
    let (a, b) = (CaptureInstance("dbo_a".to_owned()), CaptureInstance("dbo_b".to_owned()));
    let rows_of_a = |streams: &sluice::fanout::Streams| match streams.status(&a) {
        Some(StreamStatus::Ended(summary)) => Some(summary.rows),
        _ => None,
    };
    while rows_of_a(&streams).is_none() {
        streams.next_event().await.unwrap();
    }
    assert_eq!(rows_of_a(&streams), Some(1));
    server
        .exec("sales", "INSERT INTO dbo.a VALUES (2, N'v'), (3, N'v')")
        .await;
    streams.restart(&a).unwrap();
    assert_eq!(streams.restart(&b), Err(RestartError::Running(b.clone())));
    let unknown = CaptureInstance("dbo_x".to_owned());
    assert_eq!(streams.restart(&unknown), Err(RestartError::Unknown(unknown.clone())));
    while rows_of_a(&streams).is_none() {
        streams.next_event().await.unwrap();
    }
    assert_eq!(rows_of_a(&streams), Some(2));
    streams.stop_all();
    assert!(streams.await_all(Some(Duration::from_secs(60))).await.is_empty());
    assert_eq!(streams.restart(&a), Err(RestartError::Stopping));
    assert!(streams.next_event().await.is_none());
    assert_eq!(
        rows_of(&project.bronze("dbo_a"), &["id"]).unwrap().numbers("id"),
        [1, 2, 3]
    );
}
