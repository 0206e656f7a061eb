//! Rows that cannot be transformed: they are in quarantine once, with nothing of their values, and everything else is in
//! bronze.

use serde_json::Value;
use sluice_test_guests::component;

use crate::harness::{Held, Project, READ, Run, Server, copy_folder, fault, files_under, insert, rows_of, sales_of};

const ORDER: [&str; 4] = ["_start_lsn", "_command_id", "_seqval", "_operation"];
const TO_NUMBER: &str = "[[table.transform]]\nplugin = \"map\"\non_error = \"quarantine\"\n\
                         config = { columns = { v = { cast = \"int\" } } }\n";
const WITHOUT_V: &str = "[[table.transform]]\nplugin = \"map\"\non_error = \"quarantine\"\nconfig = { columns = { v = { drop = true } } }\n";

async fn set_up(rest: &str) -> (Server, Project) {
    let server = sales_of("id int NOT NULL PRIMARY KEY, v nvarchar(40) NULL").await;
    let project = Project::new(&server, "sales").table("dbo_t", rest);
    (server, project)
}

/// Runs the statements, each in a commit of its own.
async fn exec(server: &Server, statements: &[&str]) {
    for statement in statements {
        server.exec("sales", statement).await;
    }
}

/// `(id, _operation)` in bronze, in commit order.
fn bronze(project: &Project) -> Vec<(i64, i64)> {
    rows_of(&project.bronze("dbo_t"), &ORDER).map_or_else(Vec::new, |rows| {
        rows.numbers("id").into_iter().zip(rows.numbers("_operation")).collect()
    })
}

/// `(_operation, column, code, state)` in quarantine, by batch, attempt and change.
fn quarantine(project: &Project) -> Vec<(i64, String, String, String)> {
    let place = project.bronze("dbo_t__quarantine");
    let order = ["batch_id", "attempt", "state", "_start_lsn", "_seqval", "_operation"];
    let Some(rows) = rows_of(&place, &order) else {
        return Vec::new();
    };
    let text =
        |column: &str| -> Vec<String> { rows.texts(column).into_iter().map(Option::unwrap_or_default).collect() };
    let operations = text("_operation").into_iter().map(|text| text.parse().unwrap_or(0));
    operations
        .zip(text("column"))
        .zip(text("code"))
        .zip(text("state"))
        .map(|(((operation, column), code), state)| (operation, column, code, state))
        .collect()
}

fn open(operation: i64, column: &str, code: &str) -> (i64, String, String, String) {
    (operation, column.to_owned(), code.to_owned(), "open".to_owned())
}

fn void() -> (i64, String, String, String) {
    (0, String::new(), String::new(), "void".to_owned())
}

fn status(project: &Project) -> Value {
    project.run("status", &["--json"]).of_type("status").remove(0)
}

/// `(batch, rows, rows_quarantined)` of the facts table.
fn facts(project: &Project) -> Vec<(i64, i64, i64)> {
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["batch_id"]).expect("facts");
    let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<i64>().ok());
    let columns = ["batch_id", "rows", "rows_quarantined"].map(|column| facts.texts(column));
    (0..facts.len())
        .filter_map(|at| {
            Some((
                number(&columns[0][at])?,
                number(&columns[1][at])?,
                number(&columns[2][at])?,
            ))
        })
        .collect()
}

fn with_rows(facts: Vec<(i64, i64, i64)>) -> Vec<(i64, i64)> {
    let counts = facts.into_iter().map(|(_, rows, quarantined)| (rows, quarantined));
    counts.filter(|counts| *counts != (0, 0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_transformed_is_in_quarantine_and_the_rest_in_bronze() {
    let (server, project) = set_up(TO_NUMBER).await;
    exec(
        &server,
        &[
            "INSERT INTO dbo.t VALUES (1, N'17'), (2, N'secret-of-two'), (3, NULL)",
            "UPDATE dbo.t SET v = N'secret-of-one' WHERE id = 1",
            "UPDATE dbo.t SET v = N'18' WHERE id = 3",
            "DELETE dbo.t WHERE id = 2",
        ],
    )
    .await;
    let run = project.once().ok();
    // The update of 1 as a whole, and the delete of 2, whose value is no number either.
    assert_eq!(bronze(&project), [(1, 2), (3, 2), (3, 3), (3, 4)]);
    assert_eq!(
        quarantine(&project),
        [
            open(2, "v", "cast-invalid"),
            open(3, "", "with-another-row"),
            open(4, "v", "cast-invalid"),
            open(1, "v", "cast-invalid"),
        ]
    );
    let batch = &run.of_type("batch")[0];
    assert_eq!((&batch["rows"], &batch["quarantined"]), (&4.into(), &4.into()));
    assert_eq!(with_rows(facts(&project)), [(4, 4)]);
    assert_eq!(status(&project)["open_quarantined"], 4);
    for file in files_under(project.path()) {
        let bytes = std::fs::read(&file).expect("readable");
        let found = bytes.windows(9).any(|window| window == b"secret-of");
        assert!(!found, "{} has a value", file.display());
    }
    assert!(!format!("{}{}", run.stdout, run.stderr).contains("secret-of"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_which_nothing_is_left_is_done_all_the_same() {
    let (server, project) = set_up(TO_NUMBER).await;
    insert(&server, 1..=2).await;
    project.once().ok();
    assert_eq!(bronze(&project), []);
    assert_eq!(quarantine(&project).len(), 2);
    assert_eq!(with_rows(facts(&project)), [(0, 2)]);
    let verdict = project.verdict();
    assert!(verdict.1.is_some(), "{verdict:?}");
    // It is not read again.
    project.once().ok();
    assert_eq!(quarantine(&project).len(), 2);
    assert_eq!(status(&project)["open_quarantined"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_at_any_step_puts_each_row_into_quarantine_once() {
    let (server, project) = set_up(TO_NUMBER).await;
    let mut next = 1;
    for failpoint in [
        "chunk-transformed",
        "files-staged",
        "before-quarantine",
        "after-quarantine",
        "before-commit",
        "after-commit",
        "before-commit-file",
        "after-commit-file",
        "after-facts",
    ] {
        let good = format!("INSERT INTO dbo.t VALUES ({next}, N'{next}')");
        exec(
            &server,
            &[&good, &format!("INSERT INTO dbo.t VALUES ({}, N'bad')", next + 1)],
        )
        .await;
        next += 2;
        assert!(project.kill_at(failpoint), "{failpoint} was not passed");
    }
    project.once().ok();
    let ids: Vec<i64> = bronze(&project).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, (1..next).step_by(2).collect::<Vec<_>>());
    let quarantined = quarantine(&project);
    assert_eq!(quarantined, vec![open(2, "v", "cast-invalid"); quarantined.len()]);
    assert_eq!(quarantined.len() as i64, next / 2);
    let counted: i64 = with_rows(facts(&project))
        .iter()
        .map(|(_, quarantined)| quarantined)
        .sum();
    assert_eq!(counted, next / 2);
    assert_eq!(status(&project)["open_quarantined"], next / 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_an_attempt_that_bronze_never_took_count_for_nothing() {
    let (server, mut project) = set_up(TO_NUMBER).await;
    insert(&server, 1..=2).await;
    assert!(project.kill_at("after-quarantine"));
    assert_eq!(quarantine(&project).len(), 2);
    project.edit(TO_NUMBER, WITHOUT_V);
    project.once().ok();
    assert_eq!(bronze(&project), [(1, 2), (2, 2)]);
    let rows = quarantine(&project);
    assert_eq!(
        rows,
        [open(2, "v", "cast-invalid"), open(2, "v", "cast-invalid"), void()],
        "nothing is rewritten"
    );
    assert_eq!(status(&project)["open_quarantined"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_is_asked_of_a_batch_that_was_read_to_its_end() {
    let (server, mut project) = set_up(&format!("max_quarantined = \"20%\"\n{TO_NUMBER}")).await;
    server.expect_batches_of_tests_alone();
    project.edit("chunk_rows = 1000", "chunk_rows = 2");
    exec(
        &server,
        &["INSERT INTO dbo.t VALUES (1, N'bad'), (2, N'2'), (3, N'3'), (4, N'4'), (5, N'5'), (6, N'6')"],
    )
    .await;
    // Half of the first chunk is bad, and then the connection breaks.
    fault(&server, "drop_after_rows", &format!(", @rows = 3, @match = N'{READ}'")).await;
    let run = project.once().ok();
    assert_eq!(run.of_type("retrying").len(), 1, "{}", run.stdout);
    assert_eq!((bronze(&project).len(), quarantine(&project).len()), (5, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_takes_its_key_along_into_quarantine_from_every_chunk_of_its_transaction() {
    let (server, mut project) = set_up(TO_NUMBER).await;
    project.edit("chunk_rows = 1000", "chunk_rows = 2");
    exec(&server, &["INSERT INTO dbo.t VALUES (1, N'1'), (2, N'2'), (3, N'3')"]).await;
    project.once().ok();
    // The delete of 1 is in the first chunk of the transaction, and the insert that takes it back in the last.
    exec(
        &server,
        &[
            "BEGIN TRANSACTION; DELETE dbo.t WHERE id = 1; UPDATE dbo.t SET v = N'22' WHERE id = 2; \
           UPDATE dbo.t SET v = N'33' WHERE id = 3; INSERT INTO dbo.t VALUES (1, N'bad'); COMMIT",
        ],
    )
    .await;
    project.once().ok();
    assert_eq!(bronze(&project)[3..], [(2, 3), (2, 4), (3, 3), (3, 4)]);
    assert_eq!(
        quarantine(&project),
        [open(1, "", "with-another-row"), open(2, "v", "cast-invalid")]
    );
    assert_eq!(with_rows(facts(&project))[1..], [(4, 2)]);
}

fn refused(run: &Run, words: &[&str]) {
    assert_eq!(run.code, 6, "{}\n{}", run.stdout, run.stderr);
    let error = run.failure("dbo_t")["error"].to_string();
    for word in words {
        assert!(error.contains(word), "{word:?} is not in {error}");
    }
    assert!(!error.contains("v1"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_rows_for_quarantine_stop_the_table_and_nothing_is_written() {
    let (server, mut project) = set_up(&format!("max_quarantined = 1\n{TO_NUMBER}")).await;
    insert(&server, 1..=2).await;
    let words = [
        "transform 1 (`map`): rows that cannot be transformed: 2 of one chunk, and `max_quarantined` leaves room for 1",
        "`cast-invalid`",
    ];
    refused(&project.once(), &words);
    project.edit("max_quarantined = 1", "max_quarantined = \"99%\"");
    let words = [
        "2 rows of batch 0 cannot be transformed",
        "`max_quarantined` is 99%",
        "`cast-invalid`",
    ];
    refused(&project.once(), &words);
    assert_eq!((bronze(&project), quarantine(&project)), (vec![], vec![]));
    project.edit("max_quarantined = \"99%\"", "max_quarantined = \"100%\"");
    project.once().ok();
    assert_eq!(quarantine(&project).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_traps_on_one_row_costs_that_row() {
    let (server, project) = set_up(
        "[[table.transform]]\nplugin = \"badguest\"\non_error = \"quarantine\"\nconfig = { behave = \"trap\", on = \"v2\" }\n",
    )
    .await;
    project.plugin("badguest", &component("badguest"));
    insert(&server, 1..=3).await;
    project.once().ok();
    assert_eq!(bronze(&project), [(1, 2), (3, 2)]);
    assert_eq!(quarantine(&project), [open(2, "", "trap")]);
}

/// Traps on a batch with `v3`.
const STRICT: &str = "[[table.transform]]\nplugin = \"badguest\"\non_error = \"quarantine\"\n\
                      config = { behave = \"trap\", on = \"v3\" }\n";
const GENTLE: &str = "on_transform_change = \"continue\"\n[[table.transform]]\nplugin = \"badguest\"\n\
                      on_error = \"quarantine\"\nconfig = { behave = \"well\" }\n";

fn retry(project: &Project, arguments: &[&str]) -> Run {
    project.run("quarantine", &[&["retry"], arguments].concat())
}

/// Rows 1 to 4, of which the third is in quarantine.
async fn with_one_in_quarantine() -> (Server, Project) {
    let (server, project) = set_up(STRICT).await;
    project.plugin("badguest", &component("badguest"));
    insert(&server, 1..=4).await;
    project.once().ok();
    assert_eq!(bronze(&project), [(1, 2), (2, 2), (4, 2)]);
    assert_eq!(quarantine(&project), [open(2, "", "trap")]);
    (server, project)
}

fn events(project: &Project) -> Vec<String> {
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["written_at"]).expect("facts");
    let mut events: Vec<String> = facts.texts("event").into_iter().flatten().collect();
    events.sort();
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_brings_what_can_be_transformed_now_to_bronze_once() {
    let (server, mut project) = with_one_in_quarantine().await;
    let listed = project.run("quarantine", &["list"]).ok();
    assert!(listed.stdout.contains("1 row in quarantine"), "{}", listed.stdout);
    assert!(listed.stdout.contains("trap  column -"), "{}", listed.stdout);
    let row = project
        .run("quarantine", &["list", "--json"])
        .ok()
        .of_type("quarantined")
        .remove(0);
    assert_eq!((&row["code"], &row["operation"]), (&"trap".into(), &2.into()));
    // The chain that rejected it rejects it again.
    retry(&project, &["--json"]).ok();
    assert_eq!(bronze(&project), [(1, 2), (2, 2), (4, 2)]);
    assert_eq!(status(&project)["open_quarantined"], 1);
    project.edit(STRICT, GENTLE);
    insert(&server, 5..=5).await;
    retry(&project, &["--json"]).ok();
    // In its place in the order of changes, under a batch of its own; what is new waits for a run.
    assert_eq!(bronze(&project), [(1, 2), (2, 2), (3, 2), (4, 2)]);
    assert_eq!(status(&project)["open_quarantined"], 0);
    assert!(
        project
            .run("quarantine", &["list"])
            .ok()
            .stdout
            .contains("no rows in quarantine")
    );
    retry(&project, &["--json"]).ok();
    project.once().ok();
    assert_eq!(bronze(&project), [(1, 2), (2, 2), (3, 2), (4, 2), (5, 2)]);
    let events = events(&project);
    let retried = events.iter().filter(|event| *event == "quarantine_retried").count();
    assert_eq!(retried, 2, "{events:?}");
    assert_eq!(project.run("doctor", &[]).code, 0, "the doctor finds nothing wrong");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_some_batches_leaves_the_others() {
    let (server, mut project) = with_one_in_quarantine().await;
    insert_again(&server).await;
    project.once().ok();
    let rows = project
        .run("quarantine", &["list", "--json"])
        .ok()
        .of_type("quarantined");
    assert_eq!(rows.len(), 2);
    let second = rows[1]["batch_id"].to_string();
    project.edit(STRICT, GENTLE);
    let run = retry(&project, &["--json", "--batch", &second]);
    assert_eq!(run.code, 0, "{}\n{}", run.stdout, run.stderr);
    let ids: Vec<i64> = bronze(&project).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [1, 2, 4, 13]);
    assert_eq!(status(&project)["open_quarantined"], 1);
}

async fn insert_again(server: &Server) {
    exec(server, &["INSERT INTO dbo.t VALUES (13, N'v3')"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_is_killed_is_in_bronze_once_or_counts_for_nothing() {
    for (failpoint, is_in_bronze) in [
        ("after-offset", false),
        ("before-quarantine", false),
        ("after-quarantine", false),
        ("before-commit", false),
        ("after-commit", true),
        ("before-commit-file", true),
        ("after-commit-file", true),
    ] {
        let (_server, mut project) = with_one_in_quarantine().await;
        project.edit(STRICT, GENTLE);
        assert!(
            project.kill_command_at("quarantine", &["retry", "--json"], failpoint),
            "{failpoint}"
        );
        let run = project.once().ok();
        let abandoned = run.warnings().concat().contains("was interrupted");
        assert_eq!(abandoned, !is_in_bronze, "{failpoint}: {:?}", run.warnings());
        let open = status(&project)["open_quarantined"].clone();
        assert_eq!(open, i64::from(!is_in_bronze), "{failpoint}");
        retry(&project, &["--json"]).ok();
        assert_eq!(bronze(&project), [(1, 2), (2, 2), (3, 2), (4, 2)], "{failpoint}");
        assert_eq!(status(&project)["open_quarantined"], 0, "{failpoint}");
        assert_eq!(project.run("doctor", &[]).code, 0, "{failpoint}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_was_abandoned_on_a_copy_of_the_checkpoint_writes_nothing_more() {
    let (_server, mut project) = with_one_in_quarantine().await;
    project.edit(STRICT, GENTLE);
    let held = Held::command_at(&project, "quarantine", &["retry", "--json"], "before-quarantine");
    copy_folder(
        &project.lake().join("checkpoints/dbo_t"),
        &project.lake().join("copies/dbo_t"),
    );
    project.edit("lake/checkpoints/{ci}", "lake/copies/{ci}");
    let run = project.once().ok();
    assert!(
        run.warnings().concat().contains("was interrupted"),
        "{:?}",
        run.warnings()
    );
    assert_eq!(held.release().code, 7);
    assert_eq!(quarantine(&project), [open(2, "", "trap")]);
    project.once().ok();
    assert_eq!(status(&project)["open_quarantined"], 1);
    retry(&project, &["--json"]).ok();
    assert_eq!(bronze(&project), [(1, 2), (2, 2), (3, 2), (4, 2)]);
    assert_eq!(status(&project)["open_quarantined"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cleanup_took_stays_in_quarantine_and_is_told() {
    let (server, mut project) = with_one_in_quarantine().await;
    insert(&server, 5..=5).await;
    project.once().ok();
    let newest = server
        .query("sales", "SELECT CONVERT(varchar(30), sys.fn_cdc_get_max_lsn(), 1)")
        .await;
    let newest: &str = newest[0].get(0).expect("an LSN");
    server.cleanup("sales", "dbo_t", newest).await;
    project.edit(STRICT, GENTLE);
    let run = retry(&project, &["--json"]).ok();
    assert!(
        run.warnings()
            .concat()
            .contains("1 of the rows in quarantine are no longer in the change table"),
        "{:?}",
        run.warnings()
    );
    assert_eq!(status(&project)["open_quarantined"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_does_not_take_the_rows_of_a_batch_that_is_still_to_come() {
    let (server, mut project) = with_one_in_quarantine().await;
    insert_again(&server).await;
    insert(&server, 14..=14).await;
    assert!(project.kill_at("after-quarantine"));
    project.edit(STRICT, GENTLE);
    let refused = retry(&project, &["--json"]);
    assert_eq!(refused.code, 2, "{}", refused.stdout);
    let error = refused.failure("dbo_t")["error"].to_string();
    assert!(
        error.contains("planned anew") && error.contains("sluice run --once"),
        "{error}"
    );
    project.once().ok();
    retry(&project, &["--json"]).ok();
    let mut ids: Vec<i64> = bronze(&project).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [1, 2, 3, 4, 13, 14], "each once, in the order of the changes");
    ids.dedup();
    assert_eq!(ids.len(), 6);
    assert_eq!(status(&project)["open_quarantined"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_gone_from_the_change_table_are_not_called_retried() {
    let (server, mut project) = with_one_in_quarantine().await;
    exec(&server, &["DELETE FROM cdc.dbo_t_CT WHERE id = 3"]).await;
    project.edit(STRICT, GENTLE);
    let run = retry(&project, &["--json"]).ok();
    assert!(
        run.warnings()
            .concat()
            .contains("1 of the rows in quarantine were not in the change table any more"),
        "{:?}",
        run.warnings()
    );
    assert_eq!(status(&project)["open_quarantined"], 1);
    assert_eq!(bronze(&project), [(1, 2), (2, 2), (4, 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_keeps_together_what_belongs_together_across_chunks() {
    let (server, mut project) = set_up(TO_NUMBER).await;
    project.edit("chunk_rows = 1000", "chunk_rows = 2");
    exec(&server, &["INSERT INTO dbo.t VALUES (1, N'1'), (2, N'2'), (3, N'3')"]).await;
    project.once().ok();
    exec(
        &server,
        &[
            "BEGIN TRANSACTION; DELETE dbo.t WHERE id = 1; UPDATE dbo.t SET v = N'22' WHERE id = 2; \
           UPDATE dbo.t SET v = N'33' WHERE id = 3; INSERT INTO dbo.t VALUES (1, N'bad'); COMMIT",
        ],
    )
    .await;
    project.once().ok();
    let before = bronze(&project);
    retry(&project, &["--json"]).ok();
    assert_eq!(bronze(&project), before, "the delete does not go without its insert");
    assert_eq!(status(&project)["open_quarantined"], 2);
}
