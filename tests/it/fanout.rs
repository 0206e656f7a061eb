//! The library: `start_many`, `await_all`, `stop_all`.

use std::time::Duration;

use sluice::config::Settings;
use sluice::fanout::{StartOptions, StreamStatus, start_many};
use sluice::identity::CaptureInstance;

use crate::harness::{Project, Server};

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_fails_stops_alone_and_await_all_names_it() {
    let server = Server::start(&[]);
    server.database("sales").await;
    for table in ["a", "b", "c"] {
        server.table("sales", table, "id int NOT NULL PRIMARY KEY").await;
        server
            .exec("sales", &format!("INSERT INTO dbo.{table} VALUES (1), (2)"))
            .await;
    }
    let project = Project::new(&server, "sales")
        .table("dbo_a", "")
        .table("dbo_missing", "")
        .table("dbo_b", "")
        .table("dbo_c", "");
    let settings = Settings::load(&project.config()).expect("valid");
    let mut streams = start_many(
        &settings,
        StartOptions {
            once: true,
            ..StartOptions::default()
        },
    )
    .await
    .expect("started");
    let failed = streams.await_all(None).await;
    let missing = CaptureInstance("dbo_missing".to_owned());
    assert_eq!(failed.keys().collect::<Vec<_>>(), [&missing]);
    assert!(!failed[&missing].is_data_loss() && !failed[&missing].is_schema_changed());
    // Nobody took the events, and they are gone: they do not pile up in a program that only waits.
    assert!(streams.next_event().await.is_none());
    for name in ["dbo_a", "dbo_b", "dbo_c"] {
        match streams.status(&CaptureInstance(name.to_owned())) {
            Some(StreamStatus::Ended(summary)) => assert_eq!(summary.rows, 2, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn await_all_gives_up_at_its_timeout_and_stop_all_ends_the_streams() {
    let server = Server::start(&[]);
    server.database("sales").await;
    server.table("sales", "a", "id int NOT NULL PRIMARY KEY").await;
    let project = Project::new(&server, "sales").table("dbo_a", "");
    let settings = Settings::load(&project.config()).expect("valid");
    let mut streams = start_many(&settings, StartOptions::default()).await.expect("started");
    let a = CaptureInstance("dbo_a".to_owned());
    assert!(streams.await_all(Some(Duration::from_millis(300))).await.is_empty());
    assert!(matches!(streams.status(&a), Some(StreamStatus::Running)));
    streams.stop_all();
    assert!(streams.await_all(None).await.is_empty());
    assert!(matches!(streams.status(&a), Some(StreamStatus::Ended(_))));
}
