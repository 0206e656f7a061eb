//! `ca_file` over the life of a process: the file that changes, and the certificates that were checked against it.

use std::path::Path;

use sluice::config::Settings;
use sluice::scheduler::Scheduler;
use sluice::source::{Asker, StreamPool};

use super::{fault, fill, keys, project};
use crate::harness::{READ, Running, Server, ids, insert};

/// What each driver says when it logs in with settings that other logins had before.
async fn said(settings: &Settings) -> [(&'static str, Option<String>); 2] {
    let asks = Asker::new(settings.source.clone()).connect().await;
    let streams = StreamPool::new(settings.source.clone(), &Scheduler::new(&settings.limits))
        .warm_up()
        .await;
    [("tiberius", asks), ("mssql-tds", streams)].map(|(driver, result)| (driver, result.err().map(|e| e.to_string())))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_counts_from_when_it_is_in_the_file_until_it_is_not() {
    let (server, other) = (Server::signed(&[]), Server::signed(&[]));
    fill(&server).await;
    let mut project = project(&server).await;
    let text = |server: &Server| std::fs::read_to_string(server.authority()).expect("readable");
    let (its, others) = (text(&server), text(&other));
    let file = project.path().join("authorities.pem");
    let put = |text: &str| std::fs::write(&file, text).expect("written");
    put(&its);
    project.source(&keys(&server, "ca_file = \"authorities.pem\""));
    let settings = Settings::load(&project.config()).expect("a configuration");
    for (text, is_in) in [
        (its.clone(), true),
        (others.clone(), false),
        (others + &its, true),
        // On its way to be replaced.
        (String::new(), true),
        ("-----BEGIN CERTIFICATE-----\nhalf".to_owned(), true),
    ] {
        put(&text);
        for (driver, error) in said(&settings).await {
            match error {
                None => assert!(is_in, "{driver} is in with {text}"),
                Some(error) => assert!(
                    !is_in && error.contains("cannot make a TLS connection"),
                    "{driver} with {text}: {error}"
                ),
            }
        }
    }
}

/// The certificates of servers in a folder.
fn certificates(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    names.filter(|name| name.starts_with("sluice-server-")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cleans_temporary_files_up_takes_no_certificate_away_that_a_later_connection_needs() {
    let server = Server::signed(&[]);
    fill(&server).await;
    let mut project = project(&server).await;
    let temporary = project.path().join("temporary");
    std::fs::create_dir(&temporary).expect("created");
    project.source(&keys(
        &server,
        &format!("ca_file = \"{}\"", server.authority().display()),
    ));
    let environment = [("TMPDIR", temporary.to_str().expect("UTF-8"))];
    let mut run = Running::start_with(&project, &[], &environment);
    run.until_type("batch");
    assert_eq!(certificates(&temporary), Vec::<String>::new());
    let broken = format!(", @rows = 0, @match = N'{READ}'");
    fault(&server, "drop_after_rows", &broken).await;
    insert(&server, 2..=2).await;
    run.until("batch over a new connection", |event| {
        assert_ne!(event["type"], "failed", "{event}");
        event["type"] == "batch" && event["rows"] == 1
    });
    run.terminate();
    assert_eq!(run.code(), Some(0));
    assert_eq!(ids(&project), [1, 2]);
}
