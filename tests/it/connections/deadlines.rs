//! A peer that says nothing is left after a time, and what was cut is never used again.

use std::net::TcpListener;

use super::{both, both_in, fault, keys, keys_at, logins, set_up};
use crate::harness::{PLAN, POLL, Project, READ, Running, Server, ids, insert};

async fn hasty() -> (Server, Project) {
    let (server, mut project) = set_up().await;
    project.source(&keys(
        &server,
        &format!(
            "server_certificate = \"{}\"\ncommand_timeout = \"1s\"",
            server.certificate().display()
        ),
    ));
    (server, project)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_a_connection_and_says_nothing_is_left() {
    let (_server, mut project) = set_up().await;
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    project.source(&keys_at(
        &format!("127.0.0.1,{port}"),
        "trust_server_certificate = true\nconnect_timeout = \"1s\"",
    ));
    let (asks, streams) = both(&project).await;
    for error in [asks.expect_err("no login"), streams.expect_err("no login")] {
        assert!(error.to_string().contains("source.connect_timeout"), "{error}");
    }
    let run = project.once();
    assert_eq!(run.code, 3, "{}", run.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_without_an_answer_is_asked_again_on_a_new_connection() {
    let (server, project) = hasty().await;
    // The first question of a plan; its connection stays open, and silent.
    fault(
        &server,
        "silent_after_rows",
        ", @rows = 0, @match = N'SELECT MIN([__$start_lsn])'",
    )
    .await;
    let run = project.once().ok();
    let retried = run.of_type("retrying");
    assert_eq!(retried.len(), 1, "{}", run.stdout);
    assert!(
        retried[0]["error"]
            .as_str()
            .is_some_and(|text| text.contains("no answer within 1 s")),
        "{}",
        retried[0]
    );
    assert_eq!(ids(&project), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_falls_silent_between_rows_is_read_again_and_no_row_is_there_twice() {
    let (server, project) = hasty().await;
    let values: Vec<String> = (2..=3000).map(|id| format!("({id}, N'x')")).collect();
    for part in values.chunks(1000) {
        server
            .exec("sales", &format!("INSERT INTO dbo.t VALUES {}", part.join(",")))
            .await;
    }
    fault(
        &server,
        "silent_after_rows",
        &format!(", @rows = 2500, @match = N'{READ}'"),
    )
    .await;
    let run = project.once().ok();
    assert_eq!(run.of_type("retrying").len(), 1, "{}", run.stdout);
    let mut read = ids(&project);
    read.sort_unstable();
    assert_eq!(read, (1..=3000).collect::<Vec<i64>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_answer_that_was_given_up_is_not_taken_for_the_next_one() {
    let (server, project) = hasty().await;
    let mut run = Running::start(&project, &[]);
    run.until_type("batch");
    let before = logins(&server).await.len();
    // The poller asks all the time, over one connection. Its answer would come two seconds late.
    fault(&server, "slow_rows", &format!(", @ms = 3000, @match = N'{POLL}'")).await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (2, N'late')").await;
    run.until("batch after it", |event| event["type"] == "batch" && event["rows"] == 1);
    assert!(logins(&server).await.len() > before, "a new connection was made");
    run.terminate();
    assert_eq!(run.code(), Some(0));
    assert_eq!(ids(&project), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_connection_sets_how_long_it_waits_for_locks_and_the_language_of_messages() {
    let (server, mut project) = set_up().await;
    project.source(&keys(
        &server,
        &format!(
            "server_certificate = \"{}\"\nlock_timeout = \"1500ms\"",
            server.certificate().display()
        ),
    ));
    for _ in 0..2 {
        // One for each driver's next connection.
        fault(
            &server,
            "error",
            ", @number = 1222, @match = N'SET LOCK_TIMEOUT 1500; SET DEADLOCK_PRIORITY LOW; SET LANGUAGE us_english;', \
             @times = 2",
        )
        .await;
        let (asks, streams) = both(&project).await;
        for error in [asks.expect_err("a fault"), streams.expect_err("a fault")] {
            let text = error.to_string();
            assert!(text.contains("error 1222 while setting up a connection"), "{text}");
        }
        both_in(&project).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_timeout_holds_for_later_statements_of_a_connection_of_either_driver() {
    let (server, mut project) = set_up().await;
    project.source(&keys(&server, &format!("{}lock_timeout = \"500ms\"", server.tls())));
    let mut run = Running::start(&project, &[]);
    run.until_type("batch");
    // One of each driver.
    for (id, statement) in [(2, PLAN), (3, READ)] {
        fault(&server, "lock_wait", &format!(", @match = N'{statement}'")).await;
        insert(&server, id..=id).await;
        let retried = run.until_type("retrying");
        let error = retried["error"].as_str().expect("text");
        assert!(
            error.contains("error 1222 while") && error.contains("source.lock_timeout"),
            "{error}"
        );
        run.until("batch after it", |event| {
            assert_ne!(event["type"], "retrying", "{event}");
            event["type"] == "batch" && event["rows"] == 1
        });
    }
    run.terminate();
    assert_eq!(run.code(), Some(0));
    assert_eq!(ids(&project), [1, 2, 3]);
}
