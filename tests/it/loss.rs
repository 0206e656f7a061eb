//! Changes that are gone before they were read are reported, at every place where cleanup or an older copy of the server
//! can get in between; nothing partial is written, and no verdict passes them.

use std::path::Path;

use crate::harness::{Project, Run, Server, rows_of, scratch, with_the_next_read};

const NEWEST: &str = "sys.fn_cdc_get_max_lsn()";

async fn tables(server: &Server) {
    server.database("sales").await;
    for table in ["t", "other"] {
        server.table("sales", table, "id int NOT NULL PRIMARY KEY").await;
    }
}

async fn set_up() -> (Server, Project) {
    let server = Server::start(&[]);
    tables(&server).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    (server, project)
}

async fn insert(server: &Server, table: &str, ids: std::ops::RangeInclusive<i32>) {
    for id in ids {
        server
            .exec("sales", &format!("INSERT INTO dbo.{table} VALUES ({id})"))
            .await;
    }
}

fn ids(project: &Project) -> Vec<i64> {
    rows_of(&project.bronze("dbo_t"), &["_start_lsn"])
        .expect("rows")
        .numbers("id")
}

/// The run stops with data loss; bronze and the verdict stay where they were, and the status says why.
fn is_lost(run: &Run, project: &Project, verdict: Option<String>) {
    assert_eq!(run.code, 4, "{}\n{}", run.stdout, run.stderr);
    assert_eq!(run.failure("dbo_t")["kind"], "data_loss");
    assert_eq!(ids(project), [1], "nothing after the gap is written");
    assert_eq!(project.verdict(), (Some("failed".to_owned()), verdict));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_batch_that_was_cleaned_up_before_its_replay_is_lost() {
    // All of it with its commits; or only its beginning, so that the commits are still there.
    for low in [NEWEST, "(SELECT MIN([__$start_lsn]) FROM cdc.dbo_t_CT WHERE id = 3)"] {
        let (server, project) = set_up().await;
        insert(&server, "t", 1..=1).await;
        project.once().ok();
        let (status, verdict) = project.verdict();
        assert_eq!(status.as_deref(), Some("current"));
        insert(&server, "t", 2..=4).await;
        assert!(project.kill_at("after-offset"));
        insert(&server, "t", 5..=5).await;
        server.cleanup("sales", "dbo_t", low).await;
        server.cleanup("sales", "dbo_other", low).await;
        is_lost(&project.once(), &project, verdict.clone());
        is_lost(&project.once(), &project, verdict);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cleanup_between_a_poll_and_the_plan_is_not_taken_for_idle_time() {
    let (server, project) = set_up().await;
    insert(&server, "t", 1..=1).await;
    project.once().ok();
    let (_, verdict) = project.verdict();
    insert(&server, "t", 2..=4).await;
    insert(&server, "other", 1..=1).await;
    let cleanup = Server::cleanup_text("dbo_t", NEWEST);
    server
        .exec(
            "master",
            &format!(
                "EXEC sim.fault @kind = N'sql_before', @match = N'MIN([__$start_lsn])', @login = N'reader', \
                 @database = N'sales', @sql = N'{}'",
                cleanup.replace('\'', "''")
            ),
        )
        .await;
    is_lost(&project.once(), &project, verdict);
}

#[tokio::test(flavor = "multi_thread")]
async fn cleanup_while_a_range_is_read_is_loss() {
    let (server, project) = set_up().await;
    insert(&server, "t", 1..=1).await;
    project.once().ok();
    let (_, verdict) = project.verdict();
    insert(&server, "t", 2..=4).await;
    with_the_next_read(&server, "sql_after_rows", &Server::cleanup_text("dbo_t", NEWEST)).await;
    is_lost(&project.once(), &project, verdict);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_position_is_finished_though_what_it_passed_is_cleaned_up() {
    let (server, project) = set_up().await;
    insert(&server, "t", 1..=1).await;
    project.once().ok();
    insert(&server, "other", 1..=3).await;
    assert!(project.kill_at("after-offset"));
    for instance in ["dbo_t", "dbo_other"] {
        server.cleanup("sales", instance, "sys.fn_cdc_get_max_lsn()").await;
    }
    insert(&server, "t", 2..=2).await;
    project.once().ok();
    assert_eq!(ids(&project), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cleanup_past_the_position_is_no_loss_where_no_commit_lies_between() {
    let (server, project) = set_up().await;
    insert(&server, "t", 1..=1).await;
    project.once().ok();
    // The other table keeps the times of the commits.
    insert(&server, "other", 1..=1).await;
    server.cleanup("sales", "dbo_t", NEWEST).await;
    project.once().ok();
    insert(&server, "t", 2..=2).await;
    project.once().ok();
    assert_eq!(ids(&project), [1, 2]);

    // The same with a commit of the table between.
    insert(&server, "t", 3..=3).await;
    insert(&server, "other", 2..=2).await;
    server.cleanup("sales", "dbo_t", NEWEST).await;
    let run = project.once();
    assert_eq!(run.code, 4, "{}\n{}", run.stdout, run.stderr);
    assert_eq!(run.failure("dbo_t")["kind"], "data_loss");
    assert_eq!(ids(&project), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_on_an_older_copy_of_the_server_writes_nothing() {
    let (dir, older) = (scratch(), scratch());
    let server = Server::on(dir.path(), &[]);
    tables(&server).await;
    let mut project = Project::new(&server, "sales").table("dbo_t", "");
    insert(&server, "t", 1..=1).await;
    project.once().ok();
    insert(&server, "t", 2..=3).await;
    let was = (server.port, server.certificate());
    drop(server);
    copy(dir.path(), older.path());
    let server = Server::on(dir.path(), &[]);
    project.move_to((was.0, &was.1), &server);
    insert(&server, "t", 4..=6).await;
    assert!(project.kill_at("after-offset"));

    // The copy has the first two commits of the batch.
    let copy = Server::on(older.path(), &[]);
    project.move_to((server.port, &server.certificate()), &copy);
    let run = project.once();
    assert_eq!(run.code, 7, "{}\n{}", run.stdout, run.stderr);
    let failure = run.failure("dbo_t");
    assert!(
        failure["error"]
            .as_str()
            .is_some_and(|text| text.contains("older copy")),
        "{failure}"
    );
    assert_eq!(ids(&project), [1]);

    project.move_to((copy.port, &copy.certificate()), &server);
    project.once().ok();
    assert_eq!(ids(&project), [1, 2, 3, 4, 5, 6]);
    assert_eq!(project.verdict().0.as_deref(), Some("current"));
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("readable") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir_all(&to).expect("created");
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), &to).expect("copied");
        }
    }
}
