//! A batch that was planned and not written, after something changed between the crash and the restart: each change has
//! the one result that `docs/decisions/0009` says, and never rows of two attempts.

use std::path::Path;

use serde_json::Value;
use sluice_test_guests::component;

use crate::harness::{Project, Run, Server, insert, rows_of, sales};

const NEWEST: &str = "sys.fn_cdc_get_max_lsn()";
const UPPER: &str = "[[table.transform]]\nplugin = \"upper\"\nconfig = { columns = [\"v\"] }\n";
const NO_TRANSFORM: &str = "";

async fn set_up(rest: &str) -> (Server, Project) {
    let server = sales(&["t"]).await;
    let project = Project::new(&server, "sales").table("dbo_t", &format!("max_commits_per_batch = 100\n{rest}"));
    project.plugin("upper", &component("upper"));
    (server, project)
}

/// Plans the next batch, reads it, and is killed before anything of it is in bronze.
fn begin_a_batch(project: &Project) {
    assert!(project.kill_at("files-staged"));
}

/// Bronze: `(id, v, _batch_id)` in commit order.
fn bronze(project: &Project) -> Vec<(i64, String, i64)> {
    let Some(rows) = rows_of(&project.bronze("dbo_t"), &["_start_lsn"]) else {
        return Vec::new();
    };
    let texts = rows.texts("v").into_iter().map(Option::unwrap_or_default);
    let ids = rows.numbers("id").into_iter();
    ids.zip(texts)
        .zip(rows.numbers("_batch_id"))
        .map(|((id, v), batch)| (id, v, batch))
        .collect()
}

fn row(id: i64, v: &str, batch: i64) -> (i64, String, i64) {
    (id, v.to_owned(), batch)
}

/// The facts of batches: `(batch, rows, detail)`.
fn facts(project: &Project) -> Vec<(i64, i64, Option<String>)> {
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["batch_id"]).expect("facts");
    let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse().ok());
    let (batches, counts, details) = (facts.texts("batch_id"), facts.texts("rows"), facts.texts("detail"));
    (0..facts.len())
        .filter_map(|at| Some((number(&batches[at])?, number(&counts[at])?, details[at].clone())))
        .collect()
}

fn events(project: &Project) -> Vec<String> {
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["written_at"]).expect("facts");
    let mut events: Vec<String> = facts.texts("event").into_iter().flatten().collect();
    events.sort();
    events
}

fn status(project: &Project) -> Value {
    project.run("status", &["--json"]).of_type("status").remove(0)
}

fn stopped(run: &Run, code: i32, words: &[&str]) {
    assert_eq!(run.code, code, "{}\n{}", run.stdout, run.stderr);
    let error = run.failure("dbo_t")["error"].to_string();
    for word in words {
        assert!(error.contains(word), "{word:?} is not in {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_bronze_has_no_rows_of_may_change_and_the_batch_is_planned_anew() {
    let (server, mut project) = set_up(NO_TRANSFORM).await;
    insert(&server, 1..=2).await;
    begin_a_batch(&project);
    project.edit(
        "max_commits_per_batch = 100\n",
        &format!("max_commits_per_batch = 100\n{UPPER}"),
    );
    let checked = project.run("check", &[]).ok();
    assert!(
        checked.stdout.contains("plans it anew (attempt 1)"),
        "{}",
        checked.stdout
    );
    // Killed again, it says which attempt is open and why.
    begin_a_batch(&project);
    let open = status(&project);
    assert_eq!((&open["open_batch"], &open["open_attempt"]), (&0.into(), &1.into()));
    let reason = open["open_reason"].as_str().expect("a reason").to_owned();
    assert!(
        reason.starts_with("the transform chain changed: from no transform to upper@"),
        "{reason}"
    );
    let run = project.once().ok();
    // That attempt is replayed as it is: no third one.
    assert_eq!(run.warnings(), [""; 0]);
    assert_eq!(bronze(&project), [row(1, "V1", 0), row(2, "V2", 0)]);
    assert_eq!(facts(&project), [(0, 2, Some(format!("attempt 1: {reason}")))]);
    assert_eq!(events(&project), ["transform_set"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_bronze_has_rows_of_stays_until_the_user_says_otherwise() {
    let (server, mut project) = set_up(UPPER).await;
    insert(&server, 1..=1).await;
    project.once().ok();
    insert(&server, 2..=3).await;
    begin_a_batch(&project);
    project.edit(UPPER, NO_TRANSFORM);
    for _ in 0..2 {
        let words = [
            "the transform chain changed since batch 0",
            "batch 1 was planned and not written",
        ];
        stopped(&project.once(), 2, &words);
    }
    assert_eq!(bronze(&project), [row(1, "V1", 0)], "nothing is written");
    project.edit(
        "max_commits_per_batch = 100\n",
        "max_commits_per_batch = 100\non_transform_change = \"continue\"\n",
    );
    let run = project.once().ok();
    assert!(
        run.warnings().concat().contains("batch 1 is planned anew (attempt 1)"),
        "{}",
        run.stdout
    );
    assert_eq!(bronze(&project), [row(1, "V1", 0), row(2, "v2", 1), row(3, "v3", 1)]);
    assert_eq!(events(&project), ["transform_changed", "transform_set"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_may_change_is_told_with_the_batch_that_begins_with_it() {
    let (server, mut project) = set_up(UPPER).await;
    insert(&server, 1..=1).await;
    project.once().ok();
    project.edit(UPPER, "on_transform_change = \"continue\"\n");
    insert(&server, 2..=2).await;
    let told = " → no transform, from batch 1 on (on_transform_change = \"continue\")";
    let checked = project.run("check", &[]).ok();
    assert!(
        checked.stdout.contains("; chain changed: upper@") && checked.stdout.contains(told),
        "{}",
        checked.stdout
    );
    let warnings = project.once().ok().warnings();
    assert!(
        matches!(warnings.as_slice(), [only] if only.starts_with("chain changed: upper@") && only.ends_with(told)),
        "{warnings:?}"
    );
    assert_eq!(
        project.once().ok().warnings(),
        [""; 0],
        "the last batch is of this chain"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_what_decides_which_rows_are_taken_only_what_differs_is_told() {
    let (server, mut project) = set_up(UPPER).await;
    insert(&server, 1..=1).await;
    begin_a_batch(&project);
    project.edit(UPPER, &format!("{UPPER}on_error = \"quarantine\"\n"));
    let warnings = project.once().ok().warnings().concat();
    let told = "what decides which rows are taken changed: on_error of transform 1 (upper): fail → quarantine";
    assert!(warnings.ends_with(told), "{warnings}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_goes_back_to_the_chain_that_bronze_has_is_not_asked() {
    let (server, mut project) = set_up(UPPER).await;
    insert(&server, 1..=1).await;
    project.once().ok();
    project.edit(UPPER, "on_transform_change = \"continue\"\n");
    insert(&server, 2..=2).await;
    begin_a_batch(&project);
    project.edit("on_transform_change = \"continue\"\n", UPPER);
    project.once().ok();
    assert_eq!(bronze(&project), [row(1, "V1", 0), row(2, "V2", 1)]);
    let (_, _, detail) = facts(&project).remove(1);
    assert!(detail.is_some_and(|detail| {
        detail.starts_with("attempt 1: the transform chain changed: from no transform to upper@")
    }));
    assert_eq!(events(&project), ["transform_set"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_version_or_another_configuration_is_another_chain() {
    const MASK: &str = "[[table.transform]]\nplugin = \"mask\"\nkeys = [\"pii\"]\n\
                        config = { columns = { id = \"pass\", v = { method = \"hash\", key = \"pii\" } } }\n";
    let (server, mut project) = set_up(MASK).await;
    insert(&server, 1..=1).await;
    project.once().ok();
    insert(&server, 2..=2).await;
    begin_a_batch(&project);
    project.edit("version = \"v1\"", "version = \"v2\"");
    stopped(&project.once(), 2, &["keys pii=v1", "keys pii=v2"]);
    project.edit("version = \"v2\"", "version = \"v1\"");
    project.edit("id = \"pass\"", "id = \"pass\", w = \"drop\"");
    let refused = project.once();
    assert_eq!(refused.code, 2, "{}", refused.stdout);
    project.edit("id = \"pass\", w = \"drop\"", "id = \"pass\"");
    // As it was when the batch was planned: the first attempt.
    assert_eq!(project.once().ok().warnings(), [""; 0]);
    assert_eq!(facts(&project), [(0, 1, None), (1, 1, None)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_is_gone_is_named_and_so_is_where_its_bytes_are() {
    let (server, project) = set_up(UPPER).await;
    insert(&server, 1..=1).await;
    begin_a_batch(&project);
    let file = project.path().join("plugins/upper.wasm");
    let bytes = std::fs::read(&file).expect("readable");
    std::fs::remove_file(&file).expect("removed");
    let run = project.once();
    stopped(&run, 2, &["there is no plugin `upper`"]);
    let kept = run.warnings().concat();
    let (_, path) = kept.split_once(" in ").expect("a path");
    let path = Path::new(path.trim_matches('"'));
    assert_eq!(std::fs::read(path).expect("kept"), bytes);
    std::fs::copy(path, &file).expect("put back");
    assert_eq!(project.once().ok().warnings(), [""; 0]);
    assert_eq!(bronze(&project), [row(1, "V1", 0)]);
    assert_eq!(facts(&project), [(0, 1, None)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_has_the_chunks_that_were_planned() {
    let (server, mut project) = set_up(UPPER).await;
    insert(&server, 1..=5).await;
    project.edit("chunk_rows = 1000", "chunk_rows = 2");
    begin_a_batch(&project);
    project.edit("chunk_rows = 2", "chunk_rows = 1000");
    assert!(project.kill_at("chunk-read:3"), "three chunks of two");
    assert!(!project.kill_at("chunk-read:4"), "and no more: this run finishes it");
    insert(&server, 6..=10).await;
    assert!(!project.kill_at("chunk-read:2"), "a new batch has the new chunks");
    assert_eq!(bronze(&project).len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_has_the_clock_that_was_planned() {
    let data = tempfile::tempdir().expect("a folder");
    let server = Server::on(data.path(), &["--utc-offset", "120"]);
    server.database("sales").await;
    server
        .table("sales", "t", "id int NOT NULL PRIMARY KEY, v nvarchar(20) NULL")
        .await;
    let mut project = Project::new(&server, "sales").table("dbo_t", "");
    insert(&server, 1..=2).await;
    let wanted: Vec<String> = server
        .query(
            "sales",
            "SELECT CONVERT(varchar(23), DATEADD(minute, -120, m.tran_end_time), 126) FROM cdc.dbo_t_CT c \
             JOIN cdc.lsn_time_mapping m ON m.start_lsn = c.[__$start_lsn] ORDER BY c.id",
        )
        .await
        .iter()
        .map(|row| row.get::<&str, _>(0).expect("a time").to_owned())
        .collect();
    begin_a_batch(&project);
    let from = (server.port, server.certificate());
    drop(server);
    // The clocks went back in the meantime.
    let server = Server::on(data.path(), &["--utc-offset", "60"]);
    project.move_to((from.0, &from.1), &server);
    project.once().ok();
    let rows = rows_of(&project.bronze("dbo_t"), &["_start_lsn"]).expect("rows");
    let times: Vec<String> = rows.texts("_commit_ts").into_iter().flatten().collect();
    for (time, wanted) in times.iter().zip(&wanted) {
        assert!(time.starts_with(wanted.as_str()), "{time} is {wanted}");
    }
    assert_eq!((times.len(), wanted.len()), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_that_was_purged_is_loss_whatever_else_changed() {
    let (server, mut project) = set_up(UPPER).await;
    insert(&server, 1..=3).await;
    begin_a_batch(&project);
    server.cleanup("sales", "dbo_t", NEWEST).await;
    stopped(&project.once(), 4, &["dbo_t"]);
    // A new attempt at the beginning of the stream does not begin after the gap.
    project.edit(UPPER, NO_TRANSFORM);
    for _ in 0..2 {
        stopped(&project.once(), 4, &["dbo_t"]);
    }
    assert_eq!(bronze(&project), []);
    assert_eq!(status(&project)["open_batch"], 0, "it stays open");
}

/// The table's second capture instance, which has what is committed from now on.
async fn enable_second(server: &Server) {
    server
        .exec(
            "sales",
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N't', @role_name = NULL, \
             @capture_instance = N't_v2'; GRANT SELECT ON [cdc].[t_v2_CT] TO [reader];",
        )
        .await;
}

/// The stream goes on through the second instance.
fn configure_second(project: &mut Project) {
    project.edit(
        "capture_instance = \"dbo_t\"\n",
        "capture_instance = \"t_v2\"\ntarget = \"lake/bronze/dbo_t\"\napp_id = \"dbo_t-v1\"\n\
         checkpoint = \"lake/checkpoints/dbo_t\"\n",
    );
}

async fn disable(server: &Server, instance: &str) {
    server
        .exec(
            "sales",
            &format!(
                "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N't', \
                 @capture_instance = N'{instance}'"
            ),
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_an_instance_that_took_over_does_not_need_the_one_before_it() {
    let (server, project) = set_up(NO_TRANSFORM).await;
    enable_second(&server).await;
    insert(&server, 1..=2).await;
    begin_a_batch(&project);
    disable(&server, "dbo_t").await;
    // The default name still means the table.
    let run = project.once().ok();
    assert_eq!(run.of_type("batch")[0]["replayed"], true, "{}", run.stdout);
    assert_eq!(bronze(&project), [row(1, "v1", 0), row(2, "v2", 0)]);
    let rows = rows_of(&project.bronze("dbo_t"), &["_start_lsn"]).expect("rows");
    let through = rows.texts("_capture_instance");
    assert_eq!(through, [Some("t_v2".to_owned()), Some("t_v2".to_owned())]);
    let mut facts = facts(&project);
    if !server.is_stand_in() {
        // The harness' own commits make a batch without rows.
        facts.retain(|(_, rows, _)| *rows > 0);
    }
    assert_eq!(facts, [(0, 2, None)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_instance_that_began_later_is_loss() {
    let (server, mut project) = set_up(NO_TRANSFORM).await;
    insert(&server, 1..=2).await;
    begin_a_batch(&project);
    enable_second(&server).await;
    insert(&server, 3..=3).await;
    configure_second(&mut project);
    let run = project.once();
    assert_eq!(run.code, 4, "{}\n{}", run.stdout, run.stderr);
    assert_eq!(bronze(&project), [], "nothing is skipped");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_that_was_made_anew_is_loss() {
    let (server, project) = set_up(NO_TRANSFORM).await;
    insert(&server, 1..=2).await;
    begin_a_batch(&project);
    disable(&server, "dbo_t").await;
    server.enable("sales", "t").await;
    server.grant("sales", "t").await;
    insert(&server, 3..=3).await;
    stopped(&project.once(), 4, &["dbo_t"]);
    assert_eq!(bronze(&project), [], "nothing is skipped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_a_component_trapped_on_is_planned_anew_and_its_neighbour_does_not_notice() {
    const TRAPS: &str = "[[table.transform]]\nplugin = \"badguest\"\nconfig = { behave = \"trap\" }\n";
    const WORKS: &str = "[[table.transform]]\nplugin = \"badguest\"\nconfig = { behave = \"identity\" }\n";
    let (server, mut project) = set_up(TRAPS).await;
    server
        .table("sales", "beside", "id int NOT NULL PRIMARY KEY, v nvarchar(20) NULL")
        .await;
    server.exec("sales", "INSERT INTO dbo.beside VALUES (1, N'a')").await;
    project.plugin("badguest", &component("badguest"));
    let mut project = {
        project.edit("chunk_rows = 1000", "chunk_rows = 2");
        project.table("dbo_beside", WORKS)
    };
    insert(&server, 1..=3).await;
    let run = project.once();
    let told = [
        "the component trapped",
        "mostly a panic",
        "SLUICE_LOG=sluice::guest=debug",
    ];
    stopped(&run, 6, &told);
    assert_eq!(run.table("dbo_beside")["rows"], 1);
    assert_eq!(bronze(&project), [], "nothing of the batch is written");
    project.edit(TRAPS, WORKS);
    server.exec("sales", "INSERT INTO dbo.beside VALUES (2, N'b')").await;
    insert(&server, 4..=4).await;
    let run = project.once().ok();
    assert!(
        run.warnings().concat().contains("batch 0 is planned anew (attempt 1)"),
        "{}",
        run.stdout
    );
    assert_eq!(run.table("dbo_beside")["rows"], 1);
    let ids: Vec<i64> = bronze(&project).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids, [1, 2, 3, 4]);
}
