//! A stream that keeps going: changes arrive, idle time is no loss, a stop is clean, and a second runner is refused.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::harness::{Project, Server, rows_of, sales_of, wait_for};

async fn set_up() -> (Server, Project) {
    let server = sales_of("id int NOT NULL PRIMARY KEY, v nvarchar(40) NULL").await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    (server, project)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_stream_brings_changes_and_refuses_a_second_runner() {
    let (server, project) = set_up().await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (1, N'one')").await;
    let mut child = project
        .command("run", &["--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("sluice starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut wait_rows = move |wanted: u64| {
        let mut rows = 0;
        while rows < wanted {
            let line = lines.next().expect("more output").expect("a line");
            let event: Value = serde_json::from_str(&line).expect("JSON");
            rows += if event["type"] == "batch" {
                event["rows"].as_u64().expect("a number")
            } else {
                0
            };
        }
    };
    wait_rows(1);
    server.exec("sales", "UPDATE dbo.t SET v = N'two' WHERE id = 1").await;
    wait_rows(2);

    let second = project.once();
    assert_eq!(second.code, 7, "{}\n{}", second.stdout, second.stderr);
    let error = second.failure("dbo_t")["error"].as_str().expect("text").to_owned();
    assert!(error.contains(&child.id().to_string()), "the first is named: {error}");

    let status = project.run("status", &["--json"]).ok().events();
    assert_eq!(status[0]["type"], "status");
    assert!(
        status[0]["owner"]
            .as_str()
            .is_some_and(|owner| owner.contains(&child.id().to_string())),
        "{status:?}"
    );

    let pid = child.id().to_string();
    let _ = std::process::Command::new("kill").args(["-TERM", &pid]).status();
    assert!(wait_for(|| matches!(child.try_wait(), Ok(Some(_)))), "SIGTERM ends it");
    assert_eq!(child.wait().expect("ended").code(), Some(0), "a stop is no failure");
    let rows = rows_of(&project.bronze("dbo_t"), &["_start_lsn", "_operation"]).expect("rows");
    assert_eq!(rows.numbers("_operation"), [2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_changes_moves_with_the_others() {
    let (server, project) = set_up().await;
    server.table("sales", "quiet", "id int NOT NULL PRIMARY KEY").await;
    let project = project.table("dbo_quiet", "");
    server.exec("sales", "INSERT INTO dbo.t VALUES (1, N'one')").await;
    let run = project.once().ok();
    assert_eq!(run.table("dbo_quiet")["rows"], 0);
    assert_eq!(
        run.table("dbo_quiet")["end_lsn"],
        run.table("dbo_t")["end_lsn"],
        "both are at max_lsn"
    );
    // Everything that dbo_quiet passed is cleaned up, again and again; it has lost nothing.
    for id in 2..5 {
        let passed = project.once().ok().table("dbo_quiet")["end_lsn"]
            .as_str()
            .expect("an LSN")
            .to_owned();
        for instance in ["dbo_quiet", "dbo_t"] {
            server.cleanup("sales", instance, &passed).await;
        }
        server
            .exec("sales", &format!("INSERT INTO dbo.t VALUES ({id}, N'x')"))
            .await;
        let run = project.once().ok();
        assert_eq!(run.table("dbo_t")["rows"], 1);
        assert_eq!(run.table("dbo_quiet")["end_lsn"], run.table("dbo_t")["end_lsn"]);
    }
    let again = project.once().ok();
    assert_eq!(again.table("dbo_t")["rows"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purged_range_is_reported_as_data_loss_and_nothing_is_skipped() {
    let (server, project) = set_up().await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (1, N'one')").await;
    project.once().ok();
    for id in 2..5 {
        server
            .exec("sales", &format!("INSERT INTO dbo.t VALUES ({id}, N'x')"))
            .await;
    }
    server
        .exec(
            "sales",
            "DECLARE @low binary(10) = sys.fn_cdc_get_max_lsn();\n\
             EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_t', @low_water_mark = @low, @threshold = 5000",
        )
        .await;
    let run = project.once();
    assert_eq!(run.code, 4, "{}\n{}", run.stdout, run.stderr);
    let failure = run.failure("dbo_t");
    assert_eq!(failure["kind"], "data_loss");
    assert!(
        failure["error"].as_str().is_some_and(|text| text.contains("are lost")),
        "{failure}"
    );
    let rows = rows_of(&project.bronze("dbo_t"), &["_start_lsn"]).expect("rows");
    assert_eq!(rows.numbers("id"), [1], "nothing after the gap was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_checkpoint_under_a_used_app_id_is_refused() {
    let (server, project) = set_up().await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (1, N'one')").await;
    project.once().ok();
    std::fs::remove_dir_all(project.lake().join("checkpoints")).expect("removed");
    let run = project.once();
    assert_eq!(run.code, 7, "{}\n{}", run.stdout, run.stderr);
    let error = run.failure("dbo_t")["error"].as_str().expect("text").to_owned();
    assert!(error.contains("new app_id"), "{error}");
    assert_eq!(
        rows_of(&project.bronze("dbo_t"), &["_start_lsn"]).expect("rows").len(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_chain_stops_the_table_until_the_user_says_so() {
    let (server, mut project) = set_up().await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (1, N'one')").await;
    project.once().ok();
    project.edit(
        "capture_instance = \"dbo_t\"\n",
        "capture_instance = \"dbo_t\"\n[[table.transform]]\nplugin = \"mask\"\nconfig = { columns = { id = \"pass\", v = \"null\" } }\n",
    );
    server.exec("sales", "INSERT INTO dbo.t VALUES (2, N'two')").await;
    let run = project.once();
    assert_eq!(run.code, 2, "{}\n{}", run.stdout, run.stderr);
    assert!(
        run.failure("dbo_t")["error"]
            .as_str()
            .is_some_and(|text| text.contains("on_transform_change")),
        "{}",
        run.stdout
    );
    project.edit(
        "trigger = \"100ms\"",
        "trigger = \"100ms\"\non_transform_change = \"continue\"",
    );
    project.once().ok();
    let rows = rows_of(&project.bronze("dbo_t"), &["_start_lsn"]).expect("rows");
    assert_eq!(rows.texts("v"), [Some("one".to_owned()), None]);
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["written_at"]).expect("facts");
    let events: Vec<String> = facts.texts("event").into_iter().flatten().collect();
    assert_eq!(events, ["transform_set", "transform_changed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_does_not_grow_without_end() {
    let (server, mut project) = set_up().await;
    let statements: Vec<String> = (0..220)
        .map(|id| format!("INSERT INTO dbo.t VALUES ({id}, N'x')"))
        .collect();
    server.exec("sales", &statements.join(";\n")).await;
    project.edit("trigger = \"100ms\"", "trigger = \"100ms\"\nmax_commits_per_batch = 1");
    let run = project.once().ok();
    assert_eq!(run.table("dbo_t")["batches"], 220);
    for folder in ["offsets", "commits"] {
        let kept = std::fs::read_dir(project.lake().join("checkpoints/dbo_t").join(folder))
            .expect("readable")
            .count();
        assert!((100..170).contains(&kept), "{kept} files in {folder}");
    }
    server.exec("sales", "INSERT INTO dbo.t VALUES (1000, N'x')").await;
    project.once().ok();
    assert_eq!(
        rows_of(&project.bronze("dbo_t"), &["_start_lsn"]).expect("rows").len(),
        221
    );
}
