//! Faults, as a client meets them.

use std::time::{Duration, Instant};

use futures::TryStreamExt;
use mssql_sim::faults::{Fault, FaultKind};
use tiberius::{AuthMethod, Client};
use tokio::net::TcpStream;
use tokio_util::compat::Compat;

use crate::harness::{Sim, connect};

const TEN: &str = "SELECT n FROM dbo.ten ORDER BY n";

fn sim() -> Sim {
    let sim = Sim::with_probe();
    sim.script(
        "USE probe\nGO\nCREATE TABLE dbo.ten (n int NOT NULL PRIMARY KEY)\nGO\n\
         INSERT INTO dbo.ten VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9),(10)",
    );
    sim
}

async fn arm(sim: &Sim, arguments: &str) {
    let mut admin = sim.tiberius("master").await;
    admin
        .simple_query(format!("EXEC sim.fault {arguments}"))
        .await
        .unwrap()
        .into_results()
        .await
        .unwrap();
}

/// The rows that came, and the error that ended them.
async fn read(client: &mut Client<Compat<TcpStream>>, sql: &str) -> (u32, Option<tiberius::error::Error>) {
    let mut count = 0;
    let stream = match client.simple_query(sql).await {
        Ok(stream) => stream,
        Err(error) => return (0, Some(error)),
    };
    let mut rows = stream.into_row_stream();
    loop {
        match rows.try_next().await {
            Ok(Some(_)) => count += 1,
            Ok(None) => return (count, None),
            Err(error) => return (count, Some(error)),
        }
    }
}

#[tokio::test]
async fn a_connection_is_dropped_after_some_rows_once() {
    let sim = sim();
    let mut client = sim.tiberius("probe").await;
    arm(&sim, "@kind = N'drop_after_rows', @rows = 4, @match = N'dbo.ten'").await;
    assert_eq!(read(&mut client, "SELECT 1").await.0, 1);
    let (rows, error) = read(&mut client, TEN).await;
    assert!(error.is_some());
    assert_eq!(rows, 4);
    assert_eq!(sim.server.faults().waiting(), 0);
    let mut client = sim.tiberius("probe").await;
    assert!(matches!(read(&mut client, TEN).await, (10, None)));
}

#[tokio::test]
async fn a_connection_is_reset_inside_of_a_row() {
    let sim = sim();
    let mut client = sim.tiberius("probe").await;
    arm(&sim, "@kind = N'reset_in_row', @rows = 2").await;
    let (rows, error) = read(&mut client, TEN).await;
    assert!(rows <= 2 && error.is_some(), "{rows}");
}

#[tokio::test]
async fn a_connection_goes_silent_without_a_fin() {
    let sim = sim();
    let mut client = sim.tiberius("probe").await;
    arm(&sim, "@kind = N'silent_after_rows', @rows = 3").await;
    let waited = tokio::time::timeout(Duration::from_secs(2), read(&mut client, TEN)).await;
    assert!(waited.is_err(), "it answered: {waited:?}");
    drop(client);
    // The others go on.
    let mut client = sim.tiberius("probe").await;
    assert!(matches!(read(&mut client, TEN).await, (10, None)));
}

#[tokio::test]
async fn rows_come_slowly_but_do_come() {
    let sim = sim();
    let mut client = sim.tiberius("probe").await;
    arm(&sim, "@kind = N'slow_rows', @ms = 30").await;
    let started = Instant::now();
    assert!(matches!(read(&mut client, TEN).await, (10, None)));
    assert!(started.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn a_deadlock_is_1205_and_takes_the_transaction() {
    let sim = sim();
    let mut client = sim.tiberius("probe").await;
    client
        .simple_query("BEGIN TRAN; DELETE FROM dbo.ten")
        .await
        .unwrap()
        .into_results()
        .await
        .unwrap();
    arm(&sim, "@kind = N'error', @number = 1205").await;
    let (_, error) = read(&mut client, TEN).await;
    let error = error.unwrap();
    assert!(error.is_deadlock(), "{error}");
    assert!(error.to_string().contains("chosen as the deadlock victim"), "{error}");
    assert!(matches!(read(&mut client, TEN).await, (10, None)));
}

async fn run(client: &mut Client<Compat<TcpStream>>, sql: &str) {
    client.simple_query(sql).await.unwrap().into_results().await.unwrap();
}

/// Until so many requests wait behind the lock of a fault.
async fn until_blocked(sim: &Sim, count: usize) {
    let patience = Instant::now() + Duration::from_secs(30);
    while sim.server.faults().blocked() != count {
        assert!(
            Instant::now() < patience,
            "{} are blocked",
            sim.server.faults().blocked()
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_waits_behind_a_lock_until_it_is_released() {
    let sim = sim();
    let mut client = sim.tiberius("probe").await;
    arm(&sim, "@kind = N'lock_wait', @match = N'dbo.ten'").await;
    let waiting = tokio::spawn(async move { read(&mut client, TEN).await.0 });
    until_blocked(&sim, 1).await;
    let mut other = sim.tiberius("probe").await;
    assert!(matches!(read(&mut other, TEN).await, (10, None)), "only one is blocked");
    let mut admin = sim.tiberius("master").await;
    let state = admin.simple_query("EXEC sim.fault @kind = N'state'").await.unwrap();
    let row = state.into_row().await.unwrap().unwrap();
    assert_eq!(
        (row.get::<i32, _>("waiting"), row.get::<i32, _>("blocked")),
        (Some(0), Some(1))
    );
    arm(&sim, "@kind = N'release'").await;
    assert_eq!(waiting.await.unwrap(), 10);
    until_blocked(&sim, 0).await;
}

#[tokio::test]
async fn a_lock_timeout_is_1222_and_leaves_the_transaction_open() {
    let sim = sim();
    let mut client = sim.tiberius("probe").await;
    run(
        &mut client,
        "SET LOCK_TIMEOUT 10; BEGIN TRAN; DELETE FROM dbo.ten WHERE n = 1",
    )
    .await;
    arm(&sim, "@kind = N'lock_wait', @match = N'dbo.ten'").await;
    let (_, error) = read(&mut client, TEN).await;
    let error = error.unwrap();
    assert_eq!(error.code(), Some(1222), "{error}");
    assert!(
        error.to_string().contains("Lock request time out period exceeded."),
        "{error}"
    );
    assert!(
        matches!(read(&mut client, TEN).await, (9, None)),
        "the transaction goes on"
    );
    run(&mut client, "ROLLBACK").await;
    assert!(matches!(read(&mut client, TEN).await, (10, None)));
}

#[tokio::test]
async fn a_request_is_shown_an_older_copy_once() {
    let sim = sim();
    sim.script(
        "USE probe\nGO\nEXEC sys.sp_cdc_enable_db\nGO\nEXEC sys.sp_cdc_enable_table N'dbo', N'ten', NULL\nGO\n\
         INSERT dbo.ten VALUES (11)\nGO\nINSERT dbo.ten VALUES (12)",
    );
    let mut client = sim.tiberius("probe").await;
    let changes = "SELECT n FROM cdc.dbo_ten_CT WHERE [__$start_lsn] <= sys.fn_cdc_get_max_lsn()";
    arm(
        &sim,
        "@kind = N'older_copy', @entries = 1, @match = N'fn_cdc_get_max_lsn'",
    )
    .await;
    assert!(matches!(read(&mut client, changes).await, (1, None)));
    assert!(matches!(read(&mut client, changes).await, (2, None)));
}

#[tokio::test]
async fn logins_are_refused_as_often_as_asked() {
    let sim = sim();
    arm(&sim, "@kind = N'login_fail', @number = 40613, @times = 2").await;
    for _ in 0..2 {
        assert_eq!(connect(sim.config("probe")).await.unwrap_err().code(), Some(40613));
    }
    sim.tiberius("probe").await;
}

#[tokio::test]
async fn a_connection_is_cut_at_each_step_on_its_way_to_a_login() {
    let sim = sim();
    for step in ["prelogin", "hello", "key_exchange", "login"] {
        for reset in [0, 1] {
            arm(
                &sim,
                &format!("@kind = N'cut_login', @step = N'{step}', @reset = {reset}, @times = 2"),
            )
            .await;
            for _ in 0..2 {
                let error = connect(sim.config("probe")).await.unwrap_err();
                assert_eq!(error.code(), None, "{step}: {error}");
            }
            assert_eq!(sim.server.faults().waiting(), 0, "{step}");
        }
    }
    sim.tiberius("probe").await;
}

#[tokio::test]
async fn a_login_is_redirected() {
    let (first, second) = (sim(), sim());
    let port = second.port();
    arm(
        &first,
        &format!("@kind = N'redirect', @host = N'127.0.0.1', @port = {port}"),
    )
    .await;
    let error = connect(first.config("probe")).await.unwrap_err();
    assert!(
        matches!(&error, tiberius::error::Error::Routing { host, port: to } if host == "127.0.0.1" && *to == port),
        "{error}"
    );
}

#[tokio::test]
async fn something_happens_in_the_middle_of_a_read() {
    let sim = sim();
    let mut client = sim.tiberius("probe").await;
    sim.server.faults().arm(Fault {
        matching: Some("dbo.ten".into()),
        ..Fault::once(FaultKind::SqlAfterRows {
            rows: 5,
            database: Some("probe".into()),
            sql: "DELETE FROM dbo.ten WHERE n > 8".into(),
        })
    });
    assert!(
        matches!(read(&mut client, TEN).await, (10, None)),
        "a read sees one state"
    );
    assert!(matches!(read(&mut client, TEN).await, (8, None)));
    arm(
        &sim,
        "@kind = N'sql_before', @database = N'probe', @sql = N'DELETE FROM dbo.ten WHERE n = 1'",
    )
    .await;
    assert!(matches!(read(&mut client, TEN).await, (7, None)));
}

#[tokio::test]
async fn only_the_administrator_arms_faults_and_mistakes_are_named() {
    let sim = sim();
    sim.script(
        "CREATE LOGIN reader WITH PASSWORD = N'Reader-pass-1'\nGO\nUSE probe\nGO\nCREATE USER reader FOR LOGIN reader",
    );
    let mut config = sim.config("probe");
    config.authentication(AuthMethod::sql_server("reader", "Reader-pass-1"));
    let mut reader = connect(config).await.unwrap();
    let (_, error) = read(&mut reader, "EXEC sim.fault @kind = N'login_fail'").await;
    assert_eq!(error.unwrap().code(), Some(229));
    let mut admin = sim.tiberius("master").await;
    let (_, error) = read(&mut admin, "EXEC sim.fault @kind = N'explode'").await;
    assert!(error.unwrap().to_string().contains("explode"));
    assert_eq!(sim.server.faults().waiting(), 0);
}
