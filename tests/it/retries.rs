//! A failure stops what it concerns: a transient one a step, for a moment; a final one a table.

use serde_json::Value;

use crate::harness::{Project, READ, Running, Server, rows_of};

async fn set_up() -> (Server, Project) {
    let server = Server::start(&[]);
    server.database("sales").await;
    for table in ["a", "b"] {
        server.table("sales", table, "id int NOT NULL PRIMARY KEY").await;
        server
            .exec("sales", &format!("INSERT INTO dbo.{table} VALUES (1)"))
            .await;
    }
    let project = Project::new(&server, "sales").table("dbo_a", "");
    (server, project)
}

async fn fail(server: &Server, number: u32, part: &str, times: u32) {
    server
        .exec(
            "master",
            &format!(
                "EXEC sim.fault @kind = N'error', @number = {number}, @message = N'a fault', @match = N'{part}', \
                 @login = N'reader', @times = {times}"
            ),
        )
        .await;
}

fn ids(project: &Project) -> Vec<i64> {
    rows_of(&project.bronze("dbo_a"), &["_start_lsn"])
        .expect("rows")
        .numbers("id")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_table_that_cannot_be_read_stops_its_table_alone() {
    let (server, project) = set_up().await;
    let project = project.table("dbo_b", "");
    let mut run = Running::start(&project, &[]);
    run.until_batches(&["dbo_a", "dbo_b"]);
    // 824: a damaged page. Both tables are in one request by now.
    fail(&server, 824, "MAX([__$start_lsn]) FROM [cdc].[dbo_b_CT]", 1000).await;
    let failed = run.until_type("failed");
    assert_eq!(failed["capture_instance"], "dbo_b", "{failed}");
    assert!(
        failed["error"].as_str().is_some_and(|text| text.contains("824")),
        "{failed}"
    );
    server.exec("sales", "INSERT INTO dbo.a VALUES (2)").await;
    run.until("batch of dbo_a", |event| event["type"] == "batch" && event["rows"] == 1);
    run.terminate();
    assert_eq!(run.code(), Some(1));
    assert_eq!(ids(&project), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_costs_a_question_only() {
    let (server, project) = set_up().await;
    let questions = [
        "SELECT MIN([__$start_lsn])",
        "SELECT TOP (@P1) [start_lsn]",
        "SELECT sys.fn_cdc_get_min_lsn(N",
        READ,
        "SELECT MAX([__$start_lsn])",
    ];
    for question in questions {
        fail(&server, 1205, &question.replace('\'', "''"), 1).await;
    }
    project.once().ok();
    assert_eq!(ids(&project), [1]);
    // The replay's own questions.
    server.exec("sales", "INSERT INTO dbo.a VALUES (2)").await;
    assert!(project.kill_at("after-offset"));
    fail(&server, 1205, "FROM [cdc].[lsn_time_mapping]", 1).await;
    let run = project.once().ok();
    assert_eq!(run.of_type("retrying").len(), 1, "{}", run.stdout);
    assert_eq!(ids(&project), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_while_it_waits_to_try_again_is_a_stop() {
    let (server, project) = set_up().await;
    for part in ["SELECT MIN([__$start_lsn])", "sp_cdc_get_captured_columns"] {
        fail(&server, 1205, part, 1000).await;
        let mut run = Running::start(&project, &[]);
        run.until("third failure", |event| {
            event["type"] == "retrying" && event["failures"] == 3
        });
        run.terminate();
        run.until_type("table");
        assert_eq!(run.code(), Some(0));
        server.exec("master", "EXEC sim.fault @kind = N'clear'").await;
    }
    project.once().ok();
    assert_eq!(ids(&project), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_position_is_recorded_though_the_source_stands_still() {
    let (server, mut project) = set_up().await;
    project.edit("trigger = \"100ms\"", "trigger = \"100ms\"\nidle_interval = \"1s\"");
    project.once().ok();
    // The last commit before everything stands still is another table's.
    server.exec("sales", "INSERT INTO dbo.b VALUES (2)").await;
    let mut run = Running::start(&project, &[]);
    run.until("batch without rows", |event| {
        event["type"] == "batch" && event["rows"] == 0
    });
    run.terminate();
    assert_eq!(run.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_pins_the_first_change_so_that_a_replay_asks_for_the_same_commits() {
    let (server, project) = set_up().await;
    project.once().ok();
    for id in 2..6 {
        server.exec("sales", &format!("INSERT INTO dbo.b VALUES ({id})")).await;
    }
    server.exec("sales", "INSERT INTO dbo.a VALUES (2)").await;
    server.exec("sales", "INSERT INTO dbo.b VALUES (6)").await;
    assert!(project.kill_at("after-offset"));
    let plan = std::fs::read_dir(project.lake().join("checkpoints/dbo_a/offsets"))
        .expect("readable")
        .map(|entry| entry.expect("an entry").path())
        .max()
        .expect("a plan");
    let plan: Value = serde_json::from_str(&std::fs::read_to_string(plan).expect("readable")).expect("JSON");
    project.once().ok();
    let rows = rows_of(&project.bronze("dbo_a"), &["_start_lsn"]).expect("rows");
    assert_eq!(rows.numbers("id"), [1, 2]);
    assert_eq!(
        plan["ranges"][0]["from"].as_str(),
        rows.texts("_start_lsn")[1].as_deref()
    );
    assert!(
        plan["first_lsn"].as_str() < plan["ranges"][0]["from"].as_str(),
        "{plan}"
    );
}
