//! Errors by number: what passes is waited for, within a bound, and what needs a person is said at once.

use sluice::error::{Classify as _, ErrorKind};

use super::{both, both_in, fault, set_up};
use crate::harness::{PLAN, POLL, READ, Running, ids, insert, until_no_fault_waits};

/// What Azure SQL Database says of a limit, or while it moves a database.
const TRANSIENT: [u32; 8] = [40197, 40501, 40613, 10928, 10929, 49918, 49919, 49920];

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
async fn what_passes_is_waited_for_at_the_start() {
    let (server, project) = set_up().await;
    for number in [40613, 40642, 952, 988] {
        fault(&server, "login_fail", &format!(", @number = {number}")).await;
    }
    project.once().ok();
    assert_eq!(ids(&project), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_transient_number_is_one_to_wait_for_when_either_driver_logs_in() {
    let (server, project) = set_up().await;
    for number in TRANSIENT {
        fault(&server, "login_fail", &format!(", @number = {number}, @times = 2")).await;
        let (asks, streams) = both(&project).await;
        for (driver, result) in [("tiberius", asks), ("mssql-tds", streams)] {
            let Err(error) = result else {
                panic!("{driver} logs in, and should be refused with {number}")
            };
            let text = error.to_string();
            assert!(
                text.contains(&format!("error {number} while logging in")),
                "{driver}: {text}"
            );
            assert_eq!(error.kind(), ErrorKind::Retryable, "{driver}: {text}");
        }
    }
    both_in(&project).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_transient_number_costs_a_question_or_a_read_of_either_driver_and_no_more() {
    let (server, project) = set_up().await;
    for (number, id) in TRANSIENT.into_iter().zip(2..) {
        for statement in [PLAN, READ] {
            fault(
                &server,
                "error",
                &format!(", @number = {number}, @match = N'{statement}'"),
            )
            .await;
        }
        insert(&server, id..=id).await;
        let run = project.once().ok();
        let retried = run.of_type("retrying");
        assert_eq!(retried.len(), 2, "{number}: {}", run.stdout);
        for event in retried {
            let error = event["error"].as_str().expect("text");
            assert!(error.contains(&format!("error {number} while")), "{error}");
        }
    }
    assert_eq!(ids(&project), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_is_refused_for_a_while_under_a_running_stream_is_waited_for_by_both_drivers() {
    let (server, project) = set_up().await;
    let mut run = Running::start(&project, &[]);
    run.until_type("batch");
    // The connection that asks this breaks, and its driver is refused when it logs in again.
    for (id, statement) in [(2, READ), (3, POLL)] {
        for number in [40613, 983] {
            fault(&server, "login_fail", &format!(", @number = {number}")).await;
        }
        let broken = format!(", @rows = 0, @match = N'{statement}'");
        fault(&server, "drop_after_rows", &broken).await;
        insert(&server, id..=id).await;
        run.until("batch after it", |event| {
            assert_ne!(event["type"], "failed", "{event}");
            event["type"] == "batch" && event["rows"] == 1
        });
        until_no_fault_waits(&server).await;
    }
    run.terminate();
    assert_eq!(run.code(), Some(0));
    assert_eq!(ids(&project), [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_person_is_said_at_once_with_what_to_do() {
    let (server, project) = set_up().await;
    for (number, words) in [
        (18456, "source.password"),
        (4060, "CREATE USER [reader] FOR LOGIN [reader]"),
        (40615, "firewall"),
        (18487, "ALTER LOGIN"),
        (978, "ReadOnly"),
        (979, "ReadWrite"),
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
async fn what_is_gone_ends_the_run_at_once_with_what_to_do() {
    let (server, project) = set_up().await;
    let mut id = 1;
    for (number, words) in [
        (208, "sluice check says which"),
        (22901, "sys.sp_cdc_enable_db"),
        (22981, "sys.sp_cdc_enable_table"),
    ] {
        for statement in ["sp_cdc_help_change_data_capture", READ] {
            let gone = format!(", @number = {number}, @match = N'{statement}'");
            fault(&server, "error", &gone).await;
            let run = project.once();
            // Once was enough: the fault would not have met a second attempt.
            assert_eq!(run.code, 2, "{number}: {}", run.stderr);
            let said = format!("{}{}", run.stdout, run.stderr);
            for part in [format!("error {number} while").as_str(), words] {
                assert!(said.contains(part), "{part} in {said}");
            }
            project.once().ok();
            id += 1;
            insert(&server, id..=id).await;
        }
    }
    project.once().ok();
    assert_eq!(ids(&project), [1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_fails_over_is_waited_for_though_its_name_could_be_wrong() {
    let (server, project) = set_up().await;
    let mut run = Running::start(&project, &[]);
    run.until_type("batch");
    fault(&server, "login_fail", ", @number = 4060, @times = 3").await;
    fault(&server, "drop_after_rows", &format!(", @rows = 0, @match = N'{POLL}'")).await;
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
    fault(&server, "drop_after_rows", &format!(", @rows = 0, @match = N'{POLL}'")).await;
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
