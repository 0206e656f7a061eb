//! A run that is to end does so at the last commit that it saw first, whatever is committed while it reads.

use super::{bronze, lsn};
use crate::harness::{Project, Run, Server, insert, sales, with_the_next_read};

/// Three rows, and a fourth that is committed while they are read.
async fn set_up() -> (Server, Project) {
    let server = sales(&["t"]).await;
    insert(&server, 1..=3).await;
    let late = "INSERT INTO dbo.t VALUES (4, N'late')";
    with_the_next_read(&server, "sql_after_rows", late).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    (server, project)
}

/// The first run leaves the row that came late to the second one.
async fn ends_before_it(server: &Server, project: &Project, run: impl Fn(&Project) -> Run) {
    let first = run(project).ok();
    assert_eq!(bronze(project).numbers("id"), [1, 2, 3]);
    let of = async |id: u32| {
        let sql = format!("SELECT [__$start_lsn] FROM cdc.dbo_t_CT WHERE id = {id}");
        lsn(server, &sql).await
    };
    let (third, late) = (of(3).await, of(4).await);
    assert!(third < late, "it was committed by then");
    assert_eq!(first.table("dbo_t")["end_lsn"], third);
    let second = run(project).ok();
    assert_eq!(bronze(project).numbers("id"), [1, 2, 3, 4]);
    assert_eq!(second.table("dbo_t")["end_lsn"], late);
}

#[tokio::test(flavor = "multi_thread")]
async fn once_ends_at_the_last_commit_that_it_saw_first() {
    let (server, project) = set_up().await;
    ends_before_it(&server, &project, Project::once).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn available_now_ends_by_itself_at_the_last_commit_that_it_saw_first() {
    let (server, mut project) = set_up().await;
    project.edit("trigger = \"100ms\"", "trigger = \"available-now\"");
    ends_before_it(&server, &project, |project| project.run("run", &["--json"])).await;
}
