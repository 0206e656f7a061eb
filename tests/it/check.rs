//! `sluice check` finds what a run would stop at, and writes nothing.

use crate::harness::{Project, Server, files_under};

async fn server() -> Server {
    let server = Server::start(&[]);
    server.database("sales").await;
    server
        .table("sales", "a", "id int NOT NULL PRIMARY KEY, v nvarchar(20) NULL")
        .await;
    server
        .table("sales", "b", "id bigint NOT NULL PRIMARY KEY, w date NULL")
        .await;
    server.exec("sales", "INSERT INTO dbo.a VALUES (1, N'x')").await;
    server.exec("sales", "INSERT INTO dbo.b VALUES (1, '2024-01-01')").await;
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_what_the_process_is_told_and_sees_a_page_that_could_not_be_served() {
    let server = server().await;
    let mut project = Project::new(&server, "sales").table("dbo_*", "");
    project.edit(
        "\n[defaults]",
        "\n[weights]\ngold = { tables = [\"dbo_a\"], weight = 4 }\n[run]\nfail_fast = true\n[maintenance]\ncompact = true\n\
         facts_retention = \"400d\"\n[web]\nlisten = \"0.0.0.0:9464\"\ntoken = { command = [\"printf\", \"short\"] }\n\n[defaults]",
    );
    let check = project.run("check", &[]);
    assert_eq!(check.code, 2, "{}", check.stdout);
    assert!(check.stderr.contains("shorter than 16 characters"), "{}", check.stderr);
    project.edit("\"short\"", "\"a token that is long enough\"");
    let check = project.run("check", &[]).ok();
    for line in [
        "limits: 16 connections for rows, chunks of 1000 rows or 64 MiB, 2048 MiB of memory",
        "weights: gold (1 tables) weighs 4",
        "run: a table that cannot start fails alone; the first failure stops all",
        "maintenance: 50 files below 16384 KiB are made one; facts of batches are kept for 9600 hours",
        "page: at 0.0.0.0:9464",
        "ownership: the lock of each checkpoint",
    ] {
        assert!(
            check.stdout.lines().any(|said| said == line),
            "{line} in {}",
            check.stdout
        );
    }
    let json = project.run("check", &["--json"]).ok();
    assert_eq!(json.of_type("process")[0]["page"], "at 0.0.0.0:9464");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_where_a_run_would_go_on_and_writes_nothing() {
    let server = server().await;
    let project = Project::new(&server, "sales").table("dbo_a", "");
    let before = files_under(project.path());
    let check = project.run("check", &[]).ok();
    assert!(
        check.stdout.contains("state      nothing is done yet: a run begins"),
        "{}",
        check.stdout
    );
    assert!(
        check.stdout.contains("1 of 1 tables are ready to run"),
        "{}",
        check.stdout
    );
    assert_eq!(files_under(project.path()), before);

    let end = project.once().ok().table("dbo_a")["end_lsn"].clone();
    let before = files_under(project.path());
    let check = project.run("check", &[]).ok();
    let line = format!("is done, up to {}", end.as_str().expect("an LSN"));
    assert!(check.stdout.contains(&line), "{line} in {}", check.stdout);
    assert_eq!(files_under(project.path()), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_chain_and_a_table_that_does_not_fit_stop_it_as_they_stop_a_run() {
    let server = server().await;
    let mut project = Project::new(&server, "sales").table("dbo_a", "");
    project.once().ok();
    let plain = "capture_instance = \"dbo_a\"\n";
    let dropping =
        format!("{plain}[[table.transform]]\nplugin = \"map\"\nconfig = {{ columns = {{ v = {{ drop = true }} }} }}\n");
    project.edit(plain, &dropping);
    same_as_a_run(&project, "on_transform_change");

    // Another table, with a checkpoint of its own, into the bronze table of the first.
    project.edit(&dropping, plain);
    let mut other = project.table(
        "dbo_b",
        "target = \"lake/bronze/dbo_a\"\nfacts_table = \"other/facts\"\ncontrol_table = \"other/control\"",
    );
    other.edit("\n[[table]]\ncapture_instance = \"dbo_a\"\n", "\n");
    same_as_a_run(&other, "lake/bronze/dbo_a");
}

/// The same exit code, and the same sentence.
fn same_as_a_run(project: &Project, words: &str) {
    let check = project.run("check", &[]);
    let run = project.run("run", &["--once"]);
    assert_ne!(check.code, 0, "{}", check.stdout);
    assert_eq!(check.code, run.code, "{}\n{}", check.stdout, run.stdout);
    let error = check
        .stdout
        .lines()
        .find_map(|line| line.trim().strip_prefix("error: "))
        .unwrap_or_else(|| panic!("{}\n{}", check.stdout, check.stderr));
    assert!(error.contains(words), "{error}");
    assert!(run.stdout.contains(error), "{error}\n{}", run.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_were_cleaned_up_before_they_were_read_stop_it_as_they_stop_a_run() {
    let server = server().await;
    let mut project = Project::new(&server, "sales").table("dbo_a", "on_data_loss = \"fail\"");
    project.once().ok();
    server.exec("sales", "INSERT INTO dbo.a VALUES (2, N'y')").await;
    server.exec("sales", "INSERT INTO dbo.b VALUES (2, NULL)").await;
    server.cleanup("sales", "dbo_a", "sys.fn_cdc_get_max_lsn()").await;
    let check = project.run("check", &[]);
    assert_eq!(check.code, 4, "{}", check.stdout);
    for words in ["changes of dbo_a are lost", "on_data_loss = \"skip\""] {
        assert!(check.stdout.contains(words), "{words} in {}", check.stdout);
    }
    assert_eq!(project.once().code, 4);
    project.edit("on_data_loss = \"fail\"", "on_data_loss = \"skip\"");
    project.run("check", &[]).ok();
    project.once().ok();
    // What is left is whole.
    project.run("check", &[]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_another_stream_writes_stops_it_as_it_stops_a_run() {
    let server = server().await;
    let first = "capture_instance = \"dbo_a\"\ntarget = \"lake/bronze/one\"";
    let mut project = Project::new(&server, "sales").table("dbo_a", "target = \"lake/bronze/one\"");
    project.once().ok();
    let bronze = project.lake().join("bronze/one");
    let before = files_under(&bronze);
    // The same table once more, as somebody may try who meets a process that runs it.
    let again = format!("{first}\napp_id = \"second\"\ncheckpoint = \"lake/second\"");
    project.edit(first, &again);
    same_as_a_run(&project, "has batches of app_id dbo_a-v1, and none of second");
    // Another table.
    project.edit(&again, &first.replace("dbo_a", "dbo_b"));
    same_as_a_run(&project, "has batches of app_id dbo_a-v1, and none of dbo_b-v1");
    assert_eq!(files_under(&bronze), before);
}
