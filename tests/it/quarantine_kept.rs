//! A quarantine table that is gone, or older than what batches put there, is missed: its rows are changes that bronze lacks, and
//! nothing else says which.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{Project, Server, commits, files_under, ids, sales, scratch};

const TO_NUMBER: &str = "[[table.transform]]\nplugin = \"map\"\non_error = \"quarantine\"\n\
                         config = { columns = { v = { cast = \"int\" } } }\n";

fn place(project: &Project) -> PathBuf {
    project.bronze("dbo_t__quarantine")
}

/// A change for bronze and one for quarantine, in one batch.
async fn mixed(server: &Server, id: i64) {
    let text = format!("INSERT INTO dbo.t VALUES ({id}, N'{id}'), ({}, N'bad')", id + 1);
    server.exec("sales", &text).await;
}

/// A change for bronze.
async fn good(server: &Server, id: i64) {
    let text = format!("INSERT INTO dbo.t VALUES ({id}, N'{id}')");
    server.exec("sales", &text).await;
}

fn copy(from: &Path, to: &Path) {
    for path in files_under(from) {
        let target = to.join(path.strip_prefix(from).expect("inside"));
        fs::create_dir_all(target.parent().expect("a folder")).expect("created");
        fs::copy(&path, &target).expect("copied");
    }
}

/// Two batches that put a row into quarantine, and one after them that did not; and the quarantine table after the first.
async fn three_batches() -> (Server, Project, tempfile::TempDir) {
    let server = sales(&["t"]).await;
    let project = Project::new(&server, "sales").table("dbo_t", TO_NUMBER);
    let older = scratch();
    mixed(&server, 1).await;
    project.once().ok();
    copy(&place(&project), older.path());
    mixed(&server, 3).await;
    project.once().ok();
    good(&server, 5).await;
    project.once().ok();
    assert_eq!(ids(&project), [1, 3, 5]);
    (server, project, older)
}

/// Whoever looks at the table says so, and changes nothing.
fn missed(project: &Project, words: &str) {
    let before = (ids(project), commits(&project.bronze("dbo_t")).len());
    let there = |project: &Project| place(project).exists().then(|| files_under(&place(project)).len());
    let files = there(project);
    for (command, arguments) in [
        ("run", &["--once", "--json"][..]),
        ("check", &["--json"]),
        ("quarantine", &["list", "--json"]),
        ("quarantine", &["retry", "--json"]),
    ] {
        let run = project.run(command, arguments);
        let name = format!("{command} {}", arguments[0]);
        assert_eq!(run.code, 7, "{name}: {}\n{}", run.stdout, run.stderr);
        assert!(
            run.stdout.contains(words) && run.stdout.contains("has put rows there"),
            "{name}: {}",
            run.stdout
        );
        assert_eq!(there(project), files, "{name}: nothing is made in its place");
    }
    assert_eq!((ids(project), commits(&project.bronze("dbo_t")).len()), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quarantine_table_that_is_gone_or_older_is_missed_and_not_made_anew() {
    let (server, project, older) = three_batches().await;
    let aside = project.path().join("aside");
    fs::rename(place(&project), &aside).expect("moved");
    missed(&project, "__quarantine is not there");
    good(&server, 6).await;
    missed(&project, "__quarantine is not there");

    copy(older.path(), &place(&project));
    missed(&project, "__quarantine ends with attempt 0 at batch");
    // As somebody would make it who wants the error to go away.
    fs::remove_dir_all(place(&project)).expect("removed");
    let first = format!("_delta_log/{:020}.json", 0);
    fs::create_dir_all(place(&project).join("_delta_log")).expect("created");
    fs::copy(aside.join(&first), place(&project).join(&first)).expect("copied");
    missed(&project, "__quarantine has nothing of it");

    fs::remove_dir_all(place(&project)).expect("removed");
    fs::rename(&aside, place(&project)).expect("moved back");
    project.run("check", &[]).ok();
    project.once().ok();
    assert_eq!(ids(&project), [1, 3, 5, 6]);
    let listed = project.run("quarantine", &["list"]).ok();
    assert!(listed.stdout.contains("2 rows in quarantine"), "{}", listed.stdout);
}

/// The records as an older sluice wrote them: each tells of its own rows alone.
fn as_older_records(project: &Project) {
    for file in files_under(&project.lake().join("checkpoints/dbo_t/commits")) {
        let text = fs::read_to_string(&file).expect("readable");
        let mut record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let record_of = record.as_object_mut().expect("an object");
        assert!(record_of.remove("in_quarantine").is_some());
        fs::write(file, record.to_string()).expect("written");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_older_sluice_put_there_is_missed_though_later_records_do_not_tell_of_it() {
    let (_server, project, _older) = three_batches().await;
    as_older_records(&project);
    let aside = project.path().join("aside");
    fs::rename(place(&project), &aside).expect("moved");
    missed(&project, "__quarantine is not there");
    fs::rename(&aside, place(&project)).expect("moved back");
    project.run("check", &[]).ok();
    project.once().ok();
    let listed = project.run("quarantine", &["list"]).ok();
    assert!(listed.stdout.contains("2 rows in quarantine"), "{}", listed.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_batch_that_only_bronze_has_are_missed_too() {
    let server = sales(&["t"]).await;
    let project = Project::new(&server, "sales").table("dbo_t", TO_NUMBER);
    mixed(&server, 1).await;
    assert!(project.kill_at("after-commit"));
    let aside = project.path().join("aside");
    fs::rename(place(&project), &aside).expect("moved");
    let run = project.once();
    assert_eq!(run.code, 7, "{}", run.stdout);
    let error = run.failure("dbo_t")["error"].to_string();
    assert!(
        error.contains("__quarantine is not there") && error.contains("attempt 0 at batch"),
        "{error}"
    );
    assert!(!place(&project).exists());
    fs::rename(&aside, place(&project)).expect("moved back");
    project.once().ok();
    let listed = project.run("quarantine", &["list"]).ok();
    assert!(listed.stdout.contains("1 row in quarantine"), "{}", listed.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn under_a_lease_no_empty_table_takes_its_place() {
    let server = sales(&["t"]).await;
    let mut project = Project::new(&server, "sales").table("dbo_t", TO_NUMBER);
    project.edit(
        "\n[defaults]",
        "\n[ownership]\nmode = \"lease\"\nlease = \"6s\"\nhosts = \"hosts\"\n\n[defaults]",
    );
    mixed(&server, 1).await;
    project.once().ok();
    fs::remove_dir_all(place(&project)).expect("removed");
    for _ in 0..2 {
        let run = project.once();
        assert_eq!(run.code, 7, "{}", run.stdout);
        let error = run.failure("dbo_t")["error"].to_string();
        assert!(error.contains("__quarantine is not there"), "{error}");
        assert!(!place(&project).exists());
    }
}
