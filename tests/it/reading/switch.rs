//! Two capture instances of a table are one stream.

use super::{ORDER, bronze, events, lsn, plan, ranges, second_instance, set_clock};
use crate::harness::{Project, Running, Server, insert, rows_of, sales, sales_on};

/// Three rows through `dbo_t`; then a column, a second instance, and three rows more.
async fn switched() -> Server {
    let server = sales(&["t"]).await;
    insert(&server, 1..=3).await;
    server
        .exec("sales", "ALTER TABLE dbo.t ADD note nvarchar(20) NULL")
        .await;
    // Nobody captures the note of this row.
    server
        .exec("sales", "INSERT INTO dbo.t VALUES (4, N'v4', N'lost')")
        .await;
    second_instance(&server, "dbo_t_v2").await;
    for id in 5..=7 {
        server
            .exec(
                "sales",
                &format!("INSERT INTO dbo.t VALUES ({id}, N'v{id}', N'note {id}')"),
            )
            .await;
    }
    server
}

fn notes(project: &Project) -> Vec<Option<String>> {
    bronze(project).texts("note")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_crosses_the_switch_reads_the_old_instance_below_it_and_the_new_from_it() {
    let server = switched().await;
    let start = lsn(&server, "SELECT sys.fn_cdc_get_min_lsn(N'dbo_t_v2')").await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    let rows = bronze(&project);
    assert_eq!(rows.numbers("id"), [1, 2, 3, 4, 5, 6, 7]);
    let through: Vec<String> = rows.texts("_capture_instance").into_iter().flatten().collect();
    assert_eq!(through[..4], ["dbo_t"; 4]);
    assert_eq!(through[4..], ["dbo_t_v2"; 3]);
    assert_eq!(notes(&project)[..4], [None, None, None, None]);
    assert_eq!(notes(&project)[4].as_deref(), Some("note 5"));
    let parts = ranges(&plan(&project, 0));
    assert_eq!(parts.len(), 2, "{parts:?}");
    assert_eq!((parts[0].0.as_str(), parts[1].0.as_str()), ("dbo_t", "dbo_t_v2"));
    assert_eq!(parts[1].1, start);

    // Said once, with the rows whose note nobody captured.
    let switches = events(&project, "capture_instance_switched");
    assert_eq!(switches.len(), 1, "{switches:?}");
    let (detail, from, to) = &switches[0];
    assert!(
        detail.contains("from dbo_t to dbo_t_v2") && detail.contains("note"),
        "{detail}"
    );
    let of_4 = rows.texts("_start_lsn")[3].clone();
    assert!(*from < of_4 && of_4 <= *to && *to < Some(start), "{switches:?}");
    let changes = events(&project, "schema_change");
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!(changes[0].0.contains("ADD note"), "{changes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_ends_before_the_switch_does_not_ask_the_new_instance() {
    let server = switched().await;
    let project = Project::new(&server, "sales").table("dbo_t", "max_commits_per_batch = 3");
    project.once().ok();
    assert_eq!(ranges(&plan(&project, 0)).len(), 1);
    assert_eq!(ranges(&plan(&project, 0))[0].0, "dbo_t");
    assert_eq!(bronze(&project).numbers("id"), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(events(&project, "capture_instance_switched").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_instance_that_appears_while_the_stream_runs_is_followed() {
    let server = sales(&["t"]).await;
    insert(&server, 1..=2).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    let mut run = Running::start(&project, &[]);
    run.until("the first rows", |event| event["type"] == "batch" && event["rows"] != 0);
    server
        .exec("sales", "ALTER TABLE dbo.t ADD note nvarchar(20) NULL")
        .await;
    second_instance(&server, "dbo_t_v2").await;
    server
        .exec("sales", "INSERT INTO dbo.t VALUES (3, N'v3', N'note')")
        .await;
    run.until("the row with a note", |event| {
        event["type"] == "batch" && event["rows"] == 1
    });
    // The old one goes; the stream keeps its name.
    server
        .exec(
            "sales",
            "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N't', @capture_instance = N'dbo_t'",
        )
        .await;
    server
        .exec("sales", "INSERT INTO dbo.t VALUES (4, N'v4', N'more')")
        .await;
    run.until("the row after", |event| event["type"] == "batch" && event["rows"] == 1);
    run.terminate();
    assert_eq!(run.code(), Some(0));
    // And so does the next run.
    server.exec("sales", "INSERT INTO dbo.t VALUES (5, N'v5', NULL)").await;
    project.once().ok();
    let rows = rows_of(&project.bronze("dbo_t"), &ORDER).expect("rows");
    assert_eq!(rows.numbers("id"), [1, 2, 3, 4, 5]);
    let expected = [None, None, Some("note"), Some("more"), None];
    assert_eq!(notes(&project), expected.map(|note| note.map(str::to_owned)));
    assert_eq!(events(&project, "capture_instance_switched").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_was_pointed_at_the_new_instance_too_early_still_reads_the_old_one() {
    let server = switched().await;
    let mut project = Project::new(&server, "sales").table(
        "dbo_t",
        "max_commits_per_batch = 2\ntarget = \"lake/bronze/t\"\napp_id = \"t-v1\"\ncheckpoint = \"lake/checkpoints/t\"",
    );
    assert!(project.kill_at("after-commit-file"), "after the first batch");
    project.edit("capture_instance = \"dbo_t\"", "capture_instance = \"dbo_t_v2\"");
    project.once().ok();
    let rows = rows_of(&project.lake().join("bronze/t"), &ORDER).expect("rows");
    assert_eq!(rows.numbers("id"), [1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_stream_of_the_second_instance_begins_with_it() {
    let server = switched().await;
    let project = Project::new(&server, "sales").table("dbo_t_v2", "");
    project.once().ok();
    let rows = rows_of(&project.bronze("dbo_t_v2"), &ORDER).expect("rows");
    assert_eq!(rows.numbers("id"), [5, 6, 7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_instance_that_goes_before_it_was_read_to_the_switch_is_loss() {
    let server = switched().await;
    let project = Project::new(&server, "sales").table("dbo_t", "max_commits_per_batch = 2");
    assert!(project.kill_at("after-commit-file"), "after the first batch");
    server
        .exec(
            "sales",
            "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N't', @capture_instance = N'dbo_t'",
        )
        .await;
    let run = project.once();
    assert_eq!(run.code, 4, "{}\n{}", run.stdout, run.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_instance_without_a_grant_is_the_statement_to_run() {
    let server = switched().await;
    server
        .exec("sales", "REVOKE SELECT ON [cdc].[dbo_t_v2_CT] FROM [reader]")
        .await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    let run = project.once();
    assert_eq!(run.code, 2, "{}", run.stdout);
    let error = run.failure("dbo_t")["error"].as_str().expect("text").to_owned();
    assert!(
        error.contains("GRANT SELECT ON [cdc].[dbo_t_v2_CT] TO [reader]"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_only_the_new_instance_has_is_not_passed_as_idle_time() {
    let server = sales(&["t"]).await;
    insert(&server, 1..=1).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    let mut run = Running::start(&project, &[]);
    run.until("the first row", |event| event["type"] == "batch" && event["rows"] == 1);
    server
        .exec("sales", "ALTER TABLE dbo.t ADD note nvarchar(20) NULL")
        .await;
    second_instance(&server, "dbo_t_v2").await;
    // The older instance does not capture the column, so it has no row of this.
    server
        .exec("sales", "UPDATE dbo.t SET note = N'new' WHERE id = 1")
        .await;
    run.until("the update", |event| event["type"] == "batch" && event["updates"] == 1);
    run.terminate();
    assert_eq!(run.code(), Some(0));
    assert_eq!(notes(&project), [None, None, Some("new".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cleanup_of_the_older_instance_alone_does_not_turn_them_round() {
    let server = switched().await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    server
        .exec("sales", "INSERT INTO dbo.t VALUES (8, N'v8', N'note 8')")
        .await;
    server.cleanup("sales", "dbo_t", "sys.fn_cdc_get_max_lsn()").await;
    server
        .exec("sales", "INSERT INTO dbo.t VALUES (9, N'v9', N'note 9')")
        .await;
    project.once().ok();
    let notes = notes(&project);
    assert_eq!(notes[7..], [Some("note 8".to_owned()), Some("note 9".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_instances_with_one_start_the_later_made_is_read() {
    let server = Server::start(&[]);
    server.database("sales").await;
    let enable = "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N't', @role_name = NULL";
    // By name, the later one would be the first. The delay gives it a `create_date` of its own, which counts 1/300 s.
    server
        .exec(
            "sales",
            &format!(
                "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, v nvarchar(20) NULL); \
                 BEGIN TRAN; {enable}; WAITFOR DELAY '00:00:00.050'; {enable}, @capture_instance = N'a_later'; COMMIT; \
                 GRANT SELECT ON [cdc].[a_later_CT] TO [reader]"
            ),
        )
        .await;
    server.grant("sales", "t").await;
    insert(&server, 1..=3).await;
    let start = lsn(&server, "SELECT sys.fn_cdc_get_min_lsn(N'dbo_t')").await;
    assert_eq!(lsn(&server, "SELECT sys.fn_cdc_get_min_lsn(N'a_later')").await, start);
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    let rows = bronze(&project);
    assert_eq!(rows.numbers("id"), [1, 2, 3]);
    let through: Vec<String> = rows.texts("_capture_instance").into_iter().flatten().collect();
    assert_eq!(through, ["a_later"; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_lack_a_new_column_begin_with_its_ddl_though_that_was_told_before() {
    let server = sales(&["t"]).await;
    insert(&server, 1..=3).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    server
        .exec("sales", "ALTER TABLE dbo.t ADD note nvarchar(20) NULL")
        .await;
    server
        .exec("sales", "INSERT INTO dbo.t VALUES (4, N'v4', N'lost')")
        .await;
    project.once().ok();
    assert_eq!(events(&project, "schema_change").len(), 1);
    second_instance(&server, "dbo_t_v2").await;
    server
        .exec("sales", "INSERT INTO dbo.t VALUES (5, N'v5', N'note 5')")
        .await;
    project.once().ok();
    let commits = bronze(&project).texts("_start_lsn");
    let switches = events(&project, "capture_instance_switched");
    let (_, from, to) = &switches[0];
    assert!(*from > commits[2] && *from < commits[3], "{switches:?}");
    assert!(*to >= commits[3] && *to < commits[4], "{switches:?}");
    assert_eq!(events(&project, "schema_change").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_the_new_instance_leaves_out_is_not_recorded_and_a_dropped_one_is_null() {
    let server = sales(&["t"]).await;
    server
        .exec(
            "sales",
            "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N't', @capture_instance = N'dbo_t'; \
             ALTER TABLE dbo.t ADD kept int NULL, gone int NULL",
        )
        .await;
    second_instance(&server, "dbo_t").await;
    server
        .exec("sales", "INSERT INTO dbo.t VALUES (1, N'v1', 10, 100)")
        .await;
    server.exec("sales", "ALTER TABLE dbo.t DROP COLUMN gone").await;
    server
        .exec(
            "sales",
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N't', @role_name = NULL, \
             @capture_instance = N'dbo_t_v2', @captured_column_list = N'id, v'; \
             GRANT SELECT ON [cdc].[dbo_t_v2_CT] TO [reader]; INSERT INTO dbo.t VALUES (2, N'v2', 20)",
        )
        .await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    let rows = bronze(&project);
    assert_eq!(rows.numbers("id"), [1, 2]);
    let texts = |column: &str| rows.texts(column);
    assert_eq!(texts("kept"), [Some("10".to_owned()), None]);
    assert_eq!(texts("gone"), [Some("100".to_owned()), None]);
    assert_eq!(texts("_omitted"), [None, Some("[kept]".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_is_made_in_the_second_pass_of_a_repeated_hour_follows_one_of_the_first() {
    let server = Server::start(&["--version", "2022", "--time-zone", "Europe/Berlin"]);
    // 02:50 on its clock, and then 02:10.
    set_clock(&server, "2026-10-25T00:50:00Z").await;
    let server = sales_on(server, &["t"]).await;
    insert(&server, 1..=1).await;
    set_clock(&server, "2026-10-25T01:10:00Z").await;
    server
        .exec("sales", "ALTER TABLE dbo.t ADD note nvarchar(20) NULL")
        .await;
    second_instance(&server, "dbo_t_v2").await;
    server
        .exec("sales", "INSERT INTO dbo.t VALUES (2, N'v2', N'note')")
        .await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    assert_eq!(notes(&project), [None, Some("note".to_owned())]);
    assert_eq!(events(&project, "capture_instance_switched").len(), 1);
}
