//! `starting_lsn`.

use super::{bronze, lsn};
use crate::harness::{Project, insert, rows_of, sales};

async fn begun(starting: &str) -> (crate::harness::Server, Project) {
    let server = sales(&["t"]).await;
    insert(&server, 1..=3).await;
    let project = Project::new(&server, "sales").table("dbo_t", &format!("starting_lsn = \"{starting}\""));
    (server, project)
}

#[tokio::test(flavor = "multi_thread")]
async fn earliest_is_the_first_change_that_is_left() {
    let (_server, project) = begun("earliest").await;
    project.once().ok();
    assert_eq!(bronze(&project).numbers("id"), [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn latest_is_what_comes_after_the_first_look_whatever_happens_after_it() {
    let (server, project) = begun("latest").await;
    project.once().ok();
    assert!(rows_of(&project.bronze("dbo_t"), &["id"]).is_none_or(|rows| rows.len() == 0));
    insert(&server, 4..=5).await;
    // The beginning is recorded: it is not looked for again.
    assert!(project.kill_at("after-offset"));
    insert(&server, 6..=6).await;
    project.once().ok();
    assert_eq!(bronze(&project).numbers("id"), [4, 5, 6]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_lsn_is_the_first_commit_that_is_read() {
    let (server, mut project) = begun("0x00000000000000000001").await;
    // Before what is left.
    let run = project.once();
    assert_eq!(run.code, 2, "{}", run.stdout);
    let error = run.failure("dbo_t")["error"].as_str().expect("text").to_owned();
    assert!(
        error.contains("starting_lsn") && error.contains("before the first change"),
        "{error}"
    );
    let second = lsn(&server, "SELECT [__$start_lsn] FROM cdc.dbo_t_CT WHERE id = 2").await;
    project.edit("0x00000000000000000001", &second);
    project.once().ok();
    assert_eq!(bronze(&project).numbers("id"), [2, 3]);
    // It counts once.
    project.edit(&second, "0xFFFFFFFFFFFFFFFFFFFF");
    insert(&server, 4..=4).await;
    project.once().ok();
    assert_eq!(bronze(&project).numbers("id"), [2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_lsn_that_is_still_to_come_is_refused() {
    let (_server, project) = begun("0xFFFFFFFFFFFFFFFFFFFF").await;
    let run = project.once();
    assert_eq!(run.code, 2, "{}", run.stdout);
    let error = run.failure("dbo_t")["error"].as_str().expect("text").to_owned();
    assert!(error.contains("after the last commit"), "{error}");
}
