//! Zeros for a table's low end have three reasons, and each has its own words: capture is not there yet, the login may
//! not see the table, or the table is not captured any more. So has the end of CDC for the whole database, and NULL for
//! `max_lsn`, before capture begins.

use crate::harness::{PLAN, Project, READ, Running, Server, fault, ids, rows_of};

async fn set_up() -> Server {
    let server = Server::start(&[]);
    server.database("sales").await;
    for table in ["t", "other"] {
        server.table("sales", table, "id int NOT NULL PRIMARY KEY").await;
        server
            .exec("sales", &format!("INSERT INTO dbo.{table} VALUES (1)"))
            .await;
    }
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn once_waits_for_capture_to_reach_a_table_that_was_just_enabled() {
    let server = set_up().await;
    server.capture("sales", false).await;
    server.table("sales", "fresh", "id int NOT NULL PRIMARY KEY").await;
    server.exec("sales", "INSERT INTO dbo.fresh VALUES (1)").await;
    let project = Project::new(&server, "sales").table("dbo_fresh", "");
    let mut run = Running::start(&project, &["--once"]);
    let warning = run.until("warning about the table", |event| {
        event["type"] == "warning" && event["capture_instance"] == "dbo_fresh"
    });
    assert!(
        warning["message"]
            .as_str()
            .is_some_and(|text| text.contains("capture has not reached dbo_fresh")),
        "{warning}"
    );
    server.capture("sales", true).await;
    run.until_type("table");
    assert_eq!(run.code(), Some(0));
    project.once().ok();
    let rows = rows_of(&project.bronze("dbo_fresh"), &["_start_lsn"]).expect("rows");
    assert_eq!(rows.numbers("id"), [1]);
}

/// A table with a row, in a database whose capture has not processed anything.
async fn before_the_first_entry() -> (Server, Project) {
    let server = Server::start(&[]);
    server.database("sales").await;
    // By the stand-in's own procedure: on a server that is there, the table of the harness has made the first entry.
    server.exec("sales", "EXEC sim.capture @runs = 0").await;
    server.table("sales", "t", "id int NOT NULL PRIMARY KEY").await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (1)").await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    (server, project)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_a_first_entry_is_waited_for() {
    let (server, project) = before_the_first_entry().await;
    let mut run = Running::start(&project, &["--once"]);
    let retrying = run.until_type("retrying");
    let error = retrying["error"].as_str().expect("text");
    assert!(
        error.contains("capture has not processed any commit of database sales"),
        "{error}"
    );
    server.exec("sales", "EXEC sim.capture @runs = 1").await;
    let table = run.until("the end of the table", |event| {
        assert_ne!(event["type"], "failed", "{event}");
        event["type"] == "table"
    });
    assert_eq!(table["rows"], 1, "{table}");
    assert_eq!(run.code(), Some(0));
    assert_eq!(project.once().ok().table("dbo_t")["rows"], 0);
    assert_eq!(ids(&project), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_does_not_end_waits_for_the_first_entry_for_as_long_as_it_takes() {
    let (server, project) = before_the_first_entry().await;
    let mut run = Running::start(&project, &[]);
    // One more than a failure that is not waited for gets, and still telling.
    run.until("a ninth look", |event| {
        assert_ne!(event["type"], "failed", "{event}");
        event["type"] == "retrying" && event["failures"].as_u64() >= Some(9)
    });
    server.exec("sales", "EXEC sim.capture @runs = 1").await;
    run.until("the row", |event| event["type"] == "batch" && event["rows"] == 1);
    run.terminate();
    assert_eq!(run.code(), Some(0));
}

/// What a running stream of dbo_t says when `change` happens; dbo_other goes on.
async fn failure_after(server: &Server, change: &str) -> String {
    let project = Project::new(server, "sales").table("dbo_t", "").table("dbo_other", "");
    let mut run = Running::start(&project, &[]);
    run.until("first batch of dbo_t", |event| {
        event["type"] == "batch" && event["capture_instance"] == "dbo_t"
    });
    server.exec("sales", change).await;
    let failed = run.until_type("failed");
    assert_eq!(failed["capture_instance"], "dbo_t");
    assert_eq!(failed["kind"], "config", "{failed}");
    server.exec("sales", "INSERT INTO dbo.other VALUES (2)").await;
    run.until("batch of dbo_other", |event| {
        event["type"] == "batch" && event["capture_instance"] == "dbo_other" && event["rows"] == 1
    });
    run.terminate();
    assert_eq!(run.code(), Some(2));
    failed["error"].as_str().expect("text").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_is_taken_away_is_the_statement_to_run() {
    for (revoke, grant) in [
        (
            "REVOKE SELECT ON [dbo].[t] FROM [reader]",
            "GRANT SELECT ON [dbo].[t] ([id]) TO [reader]",
        ),
        (
            "REVOKE SELECT ON [cdc].[dbo_t_CT] FROM [reader]",
            "GRANT SELECT ON [cdc].[dbo_t_CT] TO [reader]",
        ),
    ] {
        let error = failure_after(&set_up().await, revoke).await;
        assert!(error.contains(grant), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gating_role_that_the_login_leaves_is_named() {
    let server = Server::start(&[]);
    server.database("sales").await;
    server.table("sales", "other", "id int NOT NULL PRIMARY KEY").await;
    server
        .exec(
            "sales",
            "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY);\n\
             EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N't', @role_name = N'gate'",
        )
        .await;
    server.grant("sales", "t").await;
    server
        .exec(
            "sales",
            "ALTER ROLE [gate] ADD MEMBER [reader]; INSERT INTO dbo.t VALUES (1)",
        )
        .await;
    let error = failure_after(&server, "ALTER ROLE [gate] DROP MEMBER [reader]").await;
    assert!(error.contains("run ALTER ROLE [gate] ADD MEMBER [reader]"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_is_disabled_is_said_to_be_unknown() {
    let error = failure_after(
        &set_up().await,
        "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N't', @capture_instance = N'dbo_t'",
    )
    .await;
    assert!(error.contains("no capture instance dbo_t"), "{error}");
}

/// The next failure of a table has to say that CDC is off, and how to turn it on.
fn says_that_cdc_is_off(run: &mut Running) {
    let failed = run.until_type("failed");
    assert_eq!(failed["kind"], "config", "{failed}");
    let error = failed["error"].as_str().expect("text");
    assert!(
        error.contains("not enabled") && error.contains("sys.sp_cdc_enable_db"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cdc_that_is_disabled_under_running_streams_is_said_by_each() {
    let server = set_up().await;
    let project = Project::new(&server, "sales").table("dbo_t", "").table("dbo_other", "");
    let mut run = Running::start(&project, &[]);
    run.until_batches(&["dbo_t", "dbo_other"]);
    server.exec("sales", "EXEC sys.sp_cdc_disable_db").await;
    for _ in ["dbo_t", "dbo_other"] {
        says_that_cdc_is_off(&mut run);
    }
    assert_eq!(run.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn cdc_that_is_disabled_between_two_questions_is_not_told_as_what_the_second_lacks() {
    // What the poller asks about all tables, what a plan asks, and the read of its rows.
    for second in ["SELECT MAX([__$start_lsn])", PLAN, READ] {
        let server = set_up().await;
        let project = Project::new(&server, "sales").table("dbo_t", "");
        let mut run = Running::start(&project, &[]);
        run.until_type("batch");
        let disabled = format!(", @match = N'{second}', @database = N'sales', @sql = N'EXEC sys.sp_cdc_disable_db'");
        fault(&server, "sql_before", &disabled).await;
        server.exec("sales", "INSERT INTO dbo.t VALUES (2)").await;
        says_that_cdc_is_off(&mut run);
        assert_eq!(run.code(), Some(2));
    }
}
