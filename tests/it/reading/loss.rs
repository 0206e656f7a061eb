//! `on_data_loss = "skip"`: the gap is recorded and the stream goes on.

use super::{bronze, events, lsn};
use crate::harness::{Project, Server, insert, rows_of, sales, with_the_next_read};

const NEWEST: &str = "sys.fn_cdc_get_max_lsn()";

async fn set_up() -> (Server, Project) {
    let server = sales(&["t", "other"]).await;
    insert(&server, 1..=1).await;
    let project = Project::new(&server, "sales").table("dbo_t", "on_data_loss = \"skip\"");
    project.once().ok();
    (server, project)
}

async fn clean(server: &Server) {
    for instance in ["dbo_t", "dbo_other"] {
        server.cleanup("sales", instance, NEWEST).await;
    }
}

fn skipped(run: &crate::harness::Run) -> usize {
    let warnings = run.warnings();
    warnings.iter().filter(|text| text.contains("were skipped")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_cleaned_up_is_a_gap_in_the_facts_and_the_rest_is_read() {
    let (server, project) = set_up().await;
    let position = project.verdict().1.expect("a position");
    insert(&server, 2..=4).await;
    let low = lsn(&server, "SELECT [__$start_lsn] FROM cdc.dbo_t_CT WHERE id = 4").await;
    clean(&server).await;
    let run = project.once().ok();
    assert_eq!(skipped(&run), 1, "{}", run.stdout);
    assert_eq!(bronze(&project).numbers("id"), [1, 4]);
    let gaps = events(&project, "data_skipped");
    assert_eq!(gaps.len(), 1);
    let (_, from, to) = &gaps[0];
    assert!(*from > Some(position) && *from < Some(low.clone()), "{gaps:?}");
    assert!(*to < Some(low), "{gaps:?}");
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["written_at"]).expect("facts");
    let at = facts
        .texts("event")
        .iter()
        .position(|event| event.as_deref() == Some("data_skipped"));
    let at = at.expect("the row");
    let (lost_from, lost_to) = (&facts.texts("lost_from_ts")[at], &facts.texts("lost_to_ts")[at]);
    assert!(lost_from.is_some() && lost_from <= lost_to, "{lost_from:?} {lost_to:?}");

    // A second loss on another day is a gap of its own, and none is told again.
    insert(&server, 5..=7).await;
    clean(&server).await;
    assert_eq!(skipped(&project.once().ok()), 1);
    assert_eq!(skipped(&project.once().ok()), 0);
    assert_eq!(events(&project, "data_skipped").len(), 2);
    assert_eq!(bronze(&project).numbers("id"), [1, 4, 7]);
    assert_eq!(project.verdict().0.as_deref(), Some("current"));
    project.run("doctor", &[]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_batch_that_was_cleaned_up_is_given_up_for_what_is_left() {
    let (server, project) = set_up().await;
    insert(&server, 2..=4).await;
    assert!(project.kill_at("after-offset"));
    insert(&server, 5..=5).await;
    clean(&server).await;
    assert_eq!(skipped(&project.once().ok()), 1);
    assert_eq!(bronze(&project).numbers("id"), [1, 5]);
    assert_eq!(events(&project, "data_skipped").len(), 1);
    project.run("doctor", &[]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn cleanup_while_a_range_is_read_leaves_nothing_of_it() {
    let (server, project) = set_up().await;
    insert(&server, 2..=4).await;
    with_the_next_read(&server, "sql_after_rows", &Server::cleanup_text("dbo_t", NEWEST)).await;
    assert_eq!(skipped(&project.once().ok()), 1);
    assert_eq!(bronze(&project).numbers("id"), [1, 4]);
    project.run("doctor", &[]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skip_that_is_killed_before_its_record_is_told_once() {
    for failpoint in ["after-offset", "before-commit-file", "after-commit-file", "after-facts"] {
        let (server, project) = set_up().await;
        insert(&server, 2..=4).await;
        clean(&server).await;
        assert!(project.kill_at(failpoint), "{failpoint}");
        project.once().ok();
        assert_eq!(bronze(&project).numbers("id"), [1, 4], "{failpoint}");
        assert_eq!(events(&project, "data_skipped").len(), 1, "{failpoint}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_older_instance_still_has_is_read_before_the_gap_of_the_newer_one() {
    let (server, mut project) = set_up().await;
    insert(&server, 2..=3).await;
    server
        .exec("sales", "ALTER TABLE dbo.t ADD note nvarchar(20) NULL")
        .await;
    super::second_instance(&server, "dbo_t_v2").await;
    for id in 4..=6 {
        server
            .exec(
                "sales",
                &format!("INSERT INTO dbo.t VALUES ({id}, N'v{id}', N'note {id}')"),
            )
            .await;
    }
    let begin = lsn(&server, "SELECT sys.fn_cdc_get_min_lsn(N'dbo_t_v2')").await;
    // A run that knows where the second instance begins, and stops before it.
    project.edit(
        "on_data_loss = \"skip\"",
        "on_data_loss = \"skip\"\nmax_commits_per_batch = 1",
    );
    assert!(project.kill_at("after-commit-file"));
    server.cleanup("sales", "dbo_t_v2", NEWEST).await;
    let run = project.once().ok();
    assert_eq!(skipped(&run), 1, "{}", run.stdout);
    assert_eq!(bronze(&project).numbers("id"), [1, 2, 3, 6]);
    let gaps = events(&project, "data_skipped");
    assert_eq!(gaps.len(), 1);
    assert_eq!(gaps[0].1, Some(begin), "{gaps:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_instance_that_was_emptied_is_loss_though_the_older_one_is_idle() {
    let server = sales(&["t", "other"]).await;
    insert(&server, 1..=1).await;
    server
        .exec("sales", "ALTER TABLE dbo.t ADD note nvarchar(20) NULL")
        .await;
    super::second_instance(&server, "dbo_t_v2").await;
    let begin = lsn(&server, "SELECT sys.fn_cdc_get_min_lsn(N'dbo_t_v2')").await;
    // The older instance does not capture the column, so it has no row of this.
    server
        .exec("sales", "UPDATE dbo.t SET note = N'new' WHERE id = 1")
        .await;
    let mut project = Project::new(&server, "sales").table("dbo_t", "max_commits_per_batch = 1");
    // A run that knows where the second instance begins, and stops before it.
    assert!(project.kill_at("after-commit-file"));
    server.exec("sales", "INSERT INTO dbo.other VALUES (1, N'v1')").await;
    server.cleanup("sales", "dbo_t_v2", NEWEST).await;
    let low = lsn(&server, "SELECT sys.fn_cdc_get_min_lsn(N'dbo_t_v2')").await;
    let run = project.once();
    assert_eq!(run.code, 4, "{}\n{}", run.stdout, run.stderr);
    assert_eq!(run.failure("dbo_t")["kind"], "data_loss");
    assert_eq!(bronze(&project).numbers("id"), [1]);

    project.edit(
        "max_commits_per_batch = 1",
        "max_commits_per_batch = 1\non_data_loss = \"skip\"",
    );
    let run = project.once().ok();
    assert_eq!(skipped(&run), 1, "{}", run.stdout);
    assert_eq!(bronze(&project).numbers("id"), [1]);
    let gaps = events(&project, "data_skipped");
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    let (_, from, to) = &gaps[0];
    // What the older instance has is no part of the gap.
    assert_eq!(*from, Some(begin), "{gaps:?}");
    assert!(*to >= *from && *to < Some(low), "{gaps:?}");
    assert_eq!(project.verdict().0.as_deref(), Some("current"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_was_made_anew_on_a_quiet_database_is_loss() {
    let server = sales(&["t"]).await;
    insert(&server, 1..=1).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    server
        .exec(
            "sales",
            "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N't', @capture_instance = N'all'; \
             UPDATE dbo.t SET v = N'nobody saw this'; \
             EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N't', @role_name = NULL",
        )
        .await;
    server.grant("sales", "t").await;
    insert(&server, 2..=2).await;
    let run = project.once();
    assert_eq!(run.code, 4, "{}\n{}", run.stdout, run.stderr);
    assert_eq!(bronze(&project).numbers("id"), [1]);
}
