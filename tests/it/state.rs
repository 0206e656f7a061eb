//! What is not as an earlier run left it: another database behind the same name, a damaged table, a path by a detour.

use std::process::Command;

use crate::harness::{Held, Project, Server, finish, rows_of, sluice_binary, wait_for};

async fn fill(server: &Server, ids: std::ops::Range<u32>) {
    server
        .table("sales", "t", "id int NOT NULL PRIMARY KEY, v int NULL")
        .await;
    for id in ids {
        server
            .exec("sales", &format!("INSERT INTO dbo.t VALUES ({id}, 1)"))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_was_made_anew_is_not_taken_for_the_old_one() {
    let server = Server::start(&[]);
    server.database("sales").await;
    fill(&server, 1..6).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    let end = project.once().ok().table("dbo_t")["end_lsn"].clone();

    server.exec("master", "DROP DATABASE [sales]").await;
    server.database_again("sales").await;
    fill(&server, 101..108).await;
    let max = server
        .query("sales", "SELECT CONVERT(varchar(30), sys.fn_cdc_get_max_lsn(), 1)")
        .await;
    let max: &str = max[0].get(0).expect("an LSN");
    assert!(Some(max) > end.as_str(), "{max} has passed {end}");
    // It keeps failing, and check says the same.
    for (command, arguments) in [("run", &["--once"][..]), ("check", &[]), ("run", &["--once"])] {
        let run = project.run(command, arguments);
        assert_eq!(run.code, 7, "{}\n{}", run.stdout, run.stderr);
        let said = format!("the source does not know commit {}", end.as_str().expect("an LSN"));
        assert!(run.stdout.contains(&said), "{}", run.stdout);
        // What is on disk is well; the error says what to do.
        assert!(!run.stderr.contains("doctor"), "{}", run.stderr);
    }
    let rows = rows_of(&project.bronze("dbo_t"), &["_start_lsn"]).expect("rows");
    assert_eq!(rows.numbers("id"), [1, 2, 3, 4, 5], "nothing of the other history");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_log_of_bronze_is_a_state_error_and_stops_the_table_alone() {
    let server = Server::start(&[]);
    server.database("sales").await;
    fill(&server, 1..4).await;
    server.table("sales", "beside", "id int NOT NULL PRIMARY KEY").await;
    let project = Project::new(&server, "sales")
        .table("dbo_t", "")
        .table("dbo_beside", "");
    project.once().ok();
    server.exec("sales", "INSERT INTO dbo.beside VALUES (1)").await;
    let log = project.bronze("dbo_t").join("_delta_log/00000000000000000000.json");
    let text = std::fs::read(&log).expect("readable");
    std::fs::write(&log, &text[..text.len() / 2]).expect("written");
    let run = project.once();
    assert_eq!(run.code, 7, "{}\n{}", run.stdout, run.stderr);
    assert_eq!(run.table("dbo_beside")["rows"], 1, "the other goes on");
    let failure = run.failure("dbo_t");
    assert!(failure["error"].as_str().expect("text").contains("dbo_t"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_by_a_detour_is_the_same_configuration() {
    let server = Server::start(&[]);
    server.database("sales").await;
    fill(&server, 1..3).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    let folder = project.path().join("somewhere");
    std::fs::create_dir(&folder).expect("created");
    for rows in [2, 0] {
        let run = finish(
            Command::new(sluice_binary())
                .args(["run", "--once", "--json", "-c", "../sluice.toml"])
                .current_dir(&folder)
                .output()
                .expect("sluice starts"),
        )
        .ok();
        assert_eq!(run.table("dbo_t")["rows"], rows);
    }
    assert_eq!(
        project.once().ok().table("dbo_t")["rows"],
        0,
        "by the straight way, too"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_from_the_hour_in_which_the_clock_went_back_is_known_again() {
    let dir = crate::harness::scratch();
    let server = Server::on(dir.path(), &["--utc-offset", "60"]);
    server.database("sales").await;
    fill(&server, 1..3).await;
    drop(server);
    // Read with the new offset, the first commits are an hour late, and what follows is given no earlier time.
    let server = Server::on(dir.path(), &["--utc-offset", "0"]);
    let project = Project::new(&server, "sales").table("dbo_t", "");
    assert_eq!(project.once().ok().table("dbo_t")["rows"], 2);
    for id in 3..6 {
        server
            .exec("sales", &format!("INSERT INTO dbo.t VALUES ({id}, 1)"))
            .await;
        assert_eq!(project.once().ok().table("dbo_t")["rows"], 1, "{id}");
    }
    project.run("check", &[]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_facts_lack_is_missed_before_its_row_is_lost_for_good() {
    let server = Server::start(&[]);
    server.database("sales").await;
    let project = Project::new(&server, "sales").table("dbo_t", "max_commits_per_batch = 1\n");
    fill(&server, 1..4).await;
    // Three batches are recorded, and the facts of none are written.
    let held = Held::at(&project, "before-facts");
    let commits = project.lake().join("checkpoints/dbo_t/commits");
    assert!(wait_for(|| commits.join("2.json").exists()));
    drop(held);
    let gone = std::fs::read(commits.join("1.json")).expect("a record");
    std::fs::remove_file(commits.join("1.json")).expect("removed");
    for _ in 0..2 {
        let run = project.once();
        assert_eq!(run.code, 7, "{}\n{}", run.stdout, run.stderr);
        let error = run.failure("dbo_t")["error"].to_string();
        assert!(
            error.contains("commits/1.json") && error.contains("sluice doctor --repair"),
            "{error}"
        );
        assert!(run.stderr.contains("`sluice doctor` examines"), "{}", run.stderr);
        assert_eq!(
            project.verdict(),
            (Some("failed".to_owned()), None),
            "no verdict before its facts"
        );
    }
    std::fs::write(commits.join("1.json"), gone).expect("restored");
    project.once().ok();
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["batch_id"]).expect("facts");
    let mut batches: Vec<String> = facts.texts("batch_id").into_iter().flatten().collect();
    if !server.is_stand_in() {
        // One that the harness' own commits made, after those of the test.
        batches.truncate(3);
    }
    assert_eq!(batches, ["0", "1", "2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_another_time_do_not_bring_rows_a_second_time() {
    let server = Server::start(&[]);
    server.expect_batches_of_tests_alone();
    server.database("sales").await;
    let project = Project::new(&server, "sales").table("dbo_t", "max_commits_per_batch = 1\n");
    fill(&server, 1..4).await;
    project.once().ok();
    let checkpoint = project.lake().join("checkpoints/dbo_t");
    let renumbered = |from: &str, to: &str, number: i64| {
        let text = std::fs::read_to_string(checkpoint.join(from)).expect("a file");
        let mut content: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        content["batch_id"] = number.into();
        std::fs::write(checkpoint.join(to), content.to_string()).expect("written");
    };
    // A plan of a range that is done; then a record that ends earlier than the batch in bronze.
    renumbered("offsets/2.a0.json", "offsets/3.a0.json", 3);
    let run = project.once();
    assert_eq!(run.code, 7, "{}\n{}", run.stdout, run.stderr);
    let error = run.failure("dbo_t")["error"].to_string();
    assert!(
        error.contains("offsets/3.a0.json") && error.contains("it begins before"),
        "{error}"
    );
    std::fs::remove_file(checkpoint.join("offsets/3.a0.json")).expect("removed");

    let newest = std::fs::read(checkpoint.join("commits/2.json")).expect("a record");
    renumbered("commits/1.json", "commits/2.json", 2);
    let run = project.once();
    assert_eq!(run.code, 7, "{}\n{}", run.stdout, run.stderr);
    let error = run.failure("dbo_t")["error"].to_string();
    assert!(
        error.contains("a batch 2 of this app_id that is not the one"),
        "{error}"
    );
    std::fs::write(checkpoint.join("commits/2.json"), newest).expect("restored");
    assert_eq!(project.once().ok().table("dbo_t")["rows"], 0);
    let rows = rows_of(&project.bronze("dbo_t"), &["_start_lsn"]).expect("rows");
    assert_eq!(rows.numbers("id"), [1, 2, 3]);
}
