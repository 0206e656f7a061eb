//! Connections that end on their way to a login: a server that fails over, shuts down or has no worker left does that, and
//! what is tried again comes in.

use sluice::error::{Classify as _, ErrorKind};

use super::{both, both_in, fill, keys, project, set_up};
use crate::harness::{POLL, Running, Server, ids};

/// A connection ends at `step`, by FIN or by RST. The one that arms it is there already.
fn cut(step: &str, reset: bool, times: u32) -> String {
    let reset = u8::from(reset);
    format!("EXEC sim.fault @kind = N'cut_login', @step = N'{step}', @reset = {reset}, @times = {times}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_cut_on_its_way_to_a_login_is_one_to_make_again_for_both_drivers() {
    let server = Server::signed(&[]);
    fill(&server).await;
    let mut project = project(&server).await;
    let authority = format!("ca_file = \"{}\"", server.authority().display());
    for tls in [
        authority.clone(),
        server.tls(),
        "trust_server_certificate = true".to_owned(),
        "encrypt = false".to_owned(),
        format!("{authority}\nencrypt = \"strict\""),
    ] {
        project.source(&keys(&server, &tls));
        for step in ["prelogin", "hello", "key_exchange", "login"] {
            // With TLS first, the client has nothing more to say to the certificate.
            if step == "key_exchange" && tls.contains("strict") {
                continue;
            }
            for reset in [false, true] {
                server.exec("master", &cut(step, reset, 2)).await;
                let (asks, streams) = both(&project).await;
                for (driver, result) in [("tiberius", asks), ("mssql-tds", streams)] {
                    let Err(error) = result else {
                        panic!("{driver} logs in over a connection that is cut at {step} with {tls}")
                    };
                    assert_eq!(error.kind(), ErrorKind::Retryable, "{driver}, {step}, {tls}: {error}");
                    assert!(
                        error.to_string().starts_with("cannot connect to "),
                        "{driver}, {step}, {tls}: {error}"
                    );
                }
            }
        }
        both_in(&project).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_after_handshakes_that_were_cut() {
    let (server, project) = set_up().await;
    let mut run = Running::start(&project, &[]);
    run.until_type("batch");
    // All over one connection: the next one is to be the poller's, after the one that it has is gone.
    let mut admin = server.connect("sales").await;
    for sql in [
        cut("hello", false, 1),
        cut("key_exchange", true, 1),
        format!("EXEC sim.fault @kind = N'drop_after_rows', @rows = 0, @login = N'reader', @match = N'{POLL}'"),
    ] {
        let armed = admin.simple_query(sql).await.expect("an answer");
        armed.into_results().await.expect("armed");
    }
    run.until("handshake that is made again", |event| {
        assert_ne!(event["type"], "failed", "{event}");
        event["type"] == "retrying"
            && event["error"]
                .as_str()
                .is_some_and(|text| text.contains("broke in the TLS handshake"))
    });
    let inserted = admin.simple_query("INSERT INTO dbo.t VALUES (2, N'after')").await;
    inserted.expect("an answer").into_results().await.expect("a row");
    run.until("batch after it", |event| {
        assert_ne!(event["type"], "failed", "{event}");
        event["type"] == "batch" && event["rows"] == 1
    });
    run.terminate();
    assert_eq!(run.code(), Some(0));
    assert_eq!(ids(&project), [1, 2]);
}
