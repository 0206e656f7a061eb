//! DDL: what goes on, what stops, and what the facts say.

use super::{bronze, events, second_instance};
use crate::harness::{Project, Running, insert, sales};

#[tokio::test(flavor = "multi_thread")]
async fn a_wider_text_goes_on_and_is_told() {
    let server = sales(&["t"]).await;
    insert(&server, 1..=1).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    server
        .exec("sales", "ALTER TABLE dbo.t ALTER COLUMN v nvarchar(50) NULL")
        .await;
    server
        .exec(
            "sales",
            "INSERT INTO dbo.t VALUES (2, N'a text of more than twenty characters')",
        )
        .await;
    project.once().ok();
    assert_eq!(
        bronze(&project).texts("v")[1].as_deref(),
        Some("a text of more than twenty characters")
    );
    let changes = events(&project, "schema_change");
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!(changes[0].0.contains("ALTER COLUMN v nvarchar(50)"), "{changes:?}");
    // Told once.
    insert(&server, 3..=3).await;
    project.once().ok();
    assert_eq!(events(&project, "schema_change").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_bronze_cannot_take_stops_before_anything_is_read() {
    let server = sales(&["other"]).await;
    server
        .table("sales", "t", "id int NOT NULL PRIMARY KEY, amount decimal(9,2) NULL")
        .await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (1, 1.25)").await;
    let project = Project::new(&server, "sales").table("dbo_t", "").table("dbo_other", "");
    let mut run = Running::start(&project, &[]);
    run.until("the first row", |event| event["type"] == "batch" && event["rows"] == 1);
    server.exec("sales", "INSERT INTO dbo.t VALUES (2, 2.25)").await;
    server
        .exec("sales", "ALTER TABLE dbo.t ALTER COLUMN amount decimal(18,4) NULL")
        .await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (3, 3.5)").await;
    let failed = run.until_type("failed");
    assert_eq!(failed["kind"], "schema_changed", "{failed}");
    let error = failed["error"].as_str().expect("text");
    assert!(error.contains("amount") && error.contains("map"), "{error}");
    assert!(error.contains("new target"), "{error}");
    run.terminate();
    assert_eq!(run.code(), Some(5));
    let ids = bronze(&project).numbers("id");
    assert!(ids == [1] || ids == [1, 2], "{ids:?}");
    let again = project.once();
    assert_eq!(again.code, 5, "{}", again.stdout);
    assert_eq!(bronze(&project).numbers("id"), ids);

    // One way on: cast it back.
    let mut project = project;
    project.edit(
        "capture_instance = \"dbo_t\"\n",
        "capture_instance = \"dbo_t\"\non_transform_change = \"continue\"\n\n[[table.transform]]\nplugin = \"map\"\n\
         config = { columns = { amount = { cast = \"decimal(9,2)\" } } }\n",
    );
    let run = project.once();
    assert_eq!(run.code, 0, "{}\n{}", run.stdout, run.stderr);
    assert_eq!(bronze(&project).numbers("id"), [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_column_is_null_and_one_that_came_back_is_another() {
    let server = sales(&["t"]).await;
    insert(&server, 1..=1).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    server.exec("sales", "ALTER TABLE dbo.t DROP COLUMN v").await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (2)").await;
    project.once().ok();
    let values = |project: &Project| bronze(project).texts("v");
    assert_eq!(values(&project), [Some("v1".to_owned()), None]);
    let changes = events(&project, "schema_change");
    assert!(changes[0].0.contains("NULL from there on"), "{changes:?}");

    // Under its name and with its type, it goes on where the second instance begins.
    server.exec("sales", "ALTER TABLE dbo.t ADD v nvarchar(20) NULL").await;
    server
        .exec("sales", "INSERT INTO dbo.t VALUES (3, N'nobody captures this')")
        .await;
    second_instance(&server, "dbo_t_v2").await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (4, N'new')").await;
    project.once().ok();
    assert_eq!(
        values(&project),
        [Some("v1".to_owned()), None, None, Some("new".to_owned())]
    );
    // The new column had a value in the third row, which nobody captured: its NULL is not the source's.
    assert_eq!(
        bronze(&project).texts("_omitted"),
        [None, None, Some("[v]".to_owned()), None]
    );
    let switches = events(&project, "capture_instance_switched");
    assert!(switches[0].0.contains("; v of rows from"), "{switches:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_stream_tells_that_nobody_captures_a_column_that_came_back() {
    let server = sales(&["t"]).await;
    insert(&server, 1..=1).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    let mut run = Running::start(&project, &[]);
    run.until("the first row", |event| event["type"] == "batch" && event["rows"] == 1);
    server.exec("sales", "ALTER TABLE dbo.t DROP COLUMN v").await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (2)").await;
    run.until("the row without", |event| {
        event["type"] == "batch" && event["rows"] == 1
    });
    server.exec("sales", "ALTER TABLE dbo.t ADD v nvarchar(20) NULL").await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (3, N'lost')").await;
    run.until("the row after", |event| event["type"] == "batch" && event["rows"] == 1);
    run.terminate();
    assert_eq!(run.code(), Some(0));
    let rows = bronze(&project);
    assert_eq!(rows.texts("v"), [Some("v1".to_owned()), None, None]);
    // The column had no value in the second row, and one that is not captured in the third.
    assert_eq!(rows.texts("_omitted"), [None, None, Some("[v]".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_came_back_with_another_type_stops_with_the_ways_on() {
    let server = sales(&["t"]).await;
    insert(&server, 1..=1).await;
    let mut project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    server
        .exec(
            "sales",
            "ALTER TABLE dbo.t DROP COLUMN v; ALTER TABLE dbo.t ADD v int NULL",
        )
        .await;
    second_instance(&server, "dbo_t_v2").await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (2, 2)").await;
    let run = project.once();
    assert_eq!(run.code, 5, "{}", run.stdout);
    let error = run.failure("dbo_t")["error"].as_str().expect("text").to_owned();
    assert!(
        error.contains("nvarchar(20)") && error.contains("columns = ["),
        "{error}"
    );
    assert_eq!(bronze(&project).numbers("id"), [1]);
    // Without the column, the stream goes on.
    project.edit(
        "capture_instance = \"dbo_t\"\n",
        "capture_instance = \"dbo_t\"\ncolumns = [\"id\"]\n",
    );
    project.once().ok();
    assert_eq!(bronze(&project).numbers("id"), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_fail_stops_at_any_ddl_until_a_person_says_classify() {
    let server = sales(&["t"]).await;
    insert(&server, 1..=1).await;
    let mut project = Project::new(&server, "sales").table("dbo_t", "schema_change_policy = \"fail\"");
    project.once().ok();
    server
        .exec(
            "sales",
            "ALTER TABLE dbo.t ADD mail nvarchar(40) NOT NULL DEFAULT N'ann@example.com'",
        )
        .await;
    server
        .exec("sales", "INSERT INTO dbo.t (id, v) VALUES (2, N'v2')")
        .await;
    let run = project.once();
    assert_eq!(run.code, 5, "{}", run.stdout);
    let error = run.failure("dbo_t")["error"].as_str().expect("text").to_owned();
    assert!(error.contains("ADD mail") && error.contains("classify"), "{error}");
    assert!(
        !run.stdout.contains("ann@example.com"),
        "a default is a value: {}",
        run.stdout
    );
    assert_eq!(bronze(&project).numbers("id"), [1]);
    project.edit("\"fail\"", "\"classify\"");
    project.once().ok();
    project.edit("\"classify\"", "\"fail\"");
    insert_after(&server).await;
    project.once().ok();
    assert_eq!(bronze(&project).numbers("id"), [1, 2, 3]);
}

async fn insert_after(server: &crate::harness::Server) {
    server
        .exec("sales", "INSERT INTO dbo.t (id, v) VALUES (3, N'v3')")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_columns_that_are_named_are_read() {
    let server = sales(&["t"]).await;
    insert(&server, 1..=1).await;
    let mut project = Project::new(&server, "sales").table("dbo_t", "columns = [\"id\", \"w\"]");
    let run = project.once();
    assert_eq!(run.code, 2, "{}", run.stdout);
    let error = run.failure("dbo_t")["error"].as_str().expect("text").to_owned();
    assert!(error.contains("columns names w"), "{error}");
    project.edit("[\"id\", \"w\"]", "[\"id\"]");
    project.once().ok();
    assert_eq!(bronze(&project).numbers("id"), [1]);
    let log =
        std::fs::read_to_string(project.bronze("dbo_t").join("_delta_log/00000000000000000000.json")).expect("a log");
    assert!(!log.contains("\\\"v\\\""), "{log}");
}
