//! Errors by number: what passes is waited for, within a bound, and what needs a person is said at once.

use super::{fault, set_up};
use crate::harness::{Running, ids};

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_while_the_catalog_is_read_is_asked_again() {
    let (server, project) = set_up().await;
    let deadlocks = async |parts: &[&str]| {
        for part in parts {
            fault(
                &server,
                "error",
                &format!(", @number = 1205, @match = N'{part}', @times = 2"),
            )
            .await;
        }
    };
    deadlocks(&["is_cdc_enabled", "sp_cdc_help_change_data_capture"]).await;
    project.run("check", &[]).ok();
    deadlocks(&[
        "is_cdc_enabled",
        "sp_cdc_help_change_data_capture",
        "sp_cdc_get_captured_columns",
        "HAS_PERMS_BY_NAME",
    ])
    .await;
    project.once().ok();
    assert_eq!(ids(&project), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_is_waited_for_by_both_drivers() {
    let (server, project) = set_up().await;
    for number in [40613, 40197, 10928, 983] {
        fault(&server, "login_fail", &format!(", @number = {number}")).await;
    }
    fault(
        &server,
        "error",
        ", @number = 1222, @match = N'ORDER BY [__$start_lsn], [__$command_id]', @times = 2",
    )
    .await;
    let run = project.once().ok();
    assert_eq!(run.of_type("retrying").len(), 2, "{}", run.stdout);
    assert!(
        run.of_type("retrying")[0]["error"]
            .as_str()
            .is_some_and(|text| text.contains("1222") && text.contains("source.lock_timeout")),
        "{}",
        run.stdout
    );
    assert_eq!(ids(&project), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_person_is_said_at_once_with_what_to_do() {
    let (server, project) = set_up().await;
    for (number, words) in [
        (18456, "source.password"),
        (4060, "CREATE USER [reader] FOR LOGIN [reader]"),
        (40615, "firewall"),
        (18487, "ALTER LOGIN"),
        (978, "application_intent"),
    ] {
        fault(&server, "login_fail", &format!(", @number = {number}")).await;
        let run = project.once();
        // Once was enough: the fault would not have met a second attempt.
        assert_eq!(run.code, 2, "{number}: {}", run.stderr);
        assert!(run.stderr.contains(words), "{number}: {}", run.stderr);
    }
    project.once().ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_fails_over_is_waited_for_though_its_name_could_be_wrong() {
    let (server, project) = set_up().await;
    let mut run = Running::start(&project, &[]);
    run.until_type("batch");
    fault(&server, "login_fail", ", @number = 4060, @times = 3").await;
    fault(&server, "drop_after_rows", ", @rows = 0, @match = N'SELECT m.max_lsn'").await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (2, N'after')").await;
    run.until("batch after it", |event| {
        assert_ne!(event["type"], "failed", "{event}");
        event["type"] == "batch" && event["rows"] == 1
    });
    run.terminate();
    assert_eq!(run.code(), Some(0));
    assert_eq!(ids(&project), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_stays_away_ends_the_run_as_one_that_may_come_back() {
    let (server, project) = set_up().await;
    let mut run = Running::start(&project, &[]);
    run.until_type("batch");
    fault(&server, "login_fail", ", @number = 4060, @times = 100000").await;
    fault(&server, "drop_after_rows", ", @rows = 0, @match = N'SELECT m.max_lsn'").await;
    let failed = run.until_type("failed");
    assert_eq!(failed["kind"], "retryable", "{failed}");
    assert!(
        failed["error"]
            .as_str()
            .is_some_and(|text| text.contains("though this process was in it before")),
        "{failed}"
    );
    assert_eq!(run.code(), Some(3));
}
