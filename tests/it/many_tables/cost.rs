//! What tables cost the server.

use std::path::Path;

use serde_json::Value;

use crate::harness::{Project, Running, Server, ids, insert, sales_on, scratch};

const TABLES: usize = 30;

/// Requests of sluice's login, each with its text.
fn requests(log: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(log).expect("a log");
    let requests = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    requests
        .filter(|request| request["login"] == "reader")
        .map(|request| request["text"].as_str().expect("a text").to_owned())
        .collect()
}

fn is_poll(text: &str) -> bool {
    text.starts_with("DECLARE @max")
}

async fn many(log: &Path) -> (Server, Project) {
    let server = Server::start(&["--requests", log.to_str().expect("UTF-8")]);
    let names: Vec<String> = (0..TABLES).map(|i| format!("t{i}")).chain(["t".to_owned()]).collect();
    let server = sales_on(server, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut project = Project::new(&server, "sales");
    for name in &names {
        project = project.table(&format!("dbo_{name}"), "");
    }
    (server, project)
}

/// Waits until so many polls have come; the requests after them are beginning.
fn until_polls(log: &Path, polls: usize) -> Vec<String> {
    let come = || requests(log).iter().filter(|text| is_poll(text)).count() >= polls;
    assert!(crate::harness::wait_for(come), "no {polls} polls");
    requests(log)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_commits_costs_one_statement_a_poll_however_many_tables() {
    let folder = scratch();
    let log = folder.path().join("requests");
    let (server, project) = many(&log).await;
    insert(&server, 1..=1).await;
    let mut run = Running::start(&project, &[]);
    run.until_type("batch");
    for _ in 0..=TABLES {
        // Each is open, whatever came before.
        if run.count("opened") == TABLES + 1 {
            break;
        }
        run.until_type("opened");
    }
    // Those that joined last are asked about with the next poll.
    let polls = until_polls(&log, 1).iter().filter(|text| is_poll(text)).count();
    let settled = until_polls(&log, polls + 20);
    let after = until_polls(&log, settled.iter().filter(|text| is_poll(text)).count() + 20);
    let since = &after[settled.len()..];
    let others: Vec<&String> = since
        .iter()
        .filter(|text| !is_poll(text) && !text.starts_with("EXEC sys.sp_cdc_help_change_data_capture"))
        .collect();
    // Now and then all tables are asked about, together.
    let together = |text: &&&String| text.contains("[dbo_t0_CT]") && text.contains("[dbo_t29_CT]");
    assert!(
        others.len() <= 2 && others.iter().all(|text| together(&text)),
        "{others:#?}"
    );

    // One table moves: the newest change of each is asked for once, together, and nothing of what is left of each.
    insert(&server, 2..=2).await;
    run.until_type("batch");
    let moved = requests(&log)[after.len()..].to_vec();
    let newest = |text: &&String| text.contains("[dbo_t0_CT]") && !text.contains("fn_cdc_get_min_lsn");
    assert_eq!(moved.iter().filter(newest).count(), 1, "{moved:#?}");
    assert!(
        moved.iter().filter(newest).all(|text| text.contains("[dbo_t29_CT]")),
        "{moved:#?}"
    );
    run.terminate();
    assert_eq!(run.code(), Some(0));
    assert_eq!(ids(&project), [1, 2]);
}

/// The position of a table without changes moves all the same, after what is left of it was asked for.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_table_is_recorded_as_far_as_the_others_are() {
    let server = Server::start(&[]);
    let server = sales_on(server, &["t", "idle"]).await;
    insert(&server, 1..=1).await;
    let project = Project::new(&server, "sales")
        .table("dbo_t", "")
        .table("dbo_idle", "idle_interval = \"1s\"");
    let mut run = Running::start(&project, &[]);
    let mut newest = String::new();
    for id in 2..=3 {
        insert(&server, id..=id).await;
        let batch = run.until("batch of dbo_t", |event| {
            event["type"] == "batch" && event["capture_instance"] == "dbo_t"
        });
        newest = batch["end_lsn"].as_str().expect("an LSN").to_owned();
    }
    run.until("record of dbo_idle", |event| {
        event["type"] == "batch" && event["capture_instance"] == "dbo_idle" && event["end_lsn"] == newest.as_str()
    });
    run.terminate();
    assert_eq!(run.code(), Some(0));
}

/// A table that looks seldom gets the answer that it asked for, though others make the poller look many times meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_looks_seldom_moves_with_each_of_its_looks() {
    let server = Server::start(&[]);
    let server = sales_on(server, &["t", "idle"]).await;
    insert(&server, 1..=1).await;
    let project = Project::new(&server, "sales")
        .table("dbo_t", "")
        .table("dbo_idle", "trigger = \"3s\"\nidle_interval = \"1s\"");
    let mut run = Running::start(&project, &[]);
    let mut records = 0;
    // It looks every three seconds, and a batch of the other is there every 100 ms at most.
    for id in 2..400 {
        insert(&server, id..=id).await;
        let batch = run.until_type("batch");
        records += usize::from(batch["capture_instance"] == "dbo_idle");
        if records == 3 {
            break;
        }
    }
    run.terminate();
    assert_eq!(run.code(), Some(0));
    assert_eq!(records, 3, "records of dbo_idle");
}
