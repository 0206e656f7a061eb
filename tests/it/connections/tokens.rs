//! Access tokens of Entra ID: from a program, or from a token endpoint; renewed before they end; never shown.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::{both_in, both_refused, fault, fill, logins, project, set_up};
use crate::harness::{POLL, Project, READ, Running, Server, ids};

/// A part of every token here, which must not be seen anywhere.
const SIGNATURE: &str = "c2lnbmF0dXJlLW9mLXRoZS10ZXN0cw";

fn token(user: &str, seconds: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs() as i64;
    let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!(
        "{}.{}.{SIGNATURE}",
        part(json!({"alg": "RS256"})),
        part(json!({"upn": user, "exp": now + seconds}))
    )
}

fn keys(server: &Server, more: &str) -> String {
    format!(
        "server = \"127.0.0.1,{}\"\ndatabase = \"sales\"\nserver_certificate = \"{}\"\n{more}",
        server.port,
        server.certificate().display()
    )
}

/// A program that prints the file `token`, and leaves a mark each time.
fn printing(project: &Project) -> String {
    let dir = project.path().display();
    format!("access_token = {{ command = [\"sh\", \"-c\", \"echo x >> {dir}/asked; cat {dir}/token\"] }}")
}

fn asked(project: &Project) -> usize {
    std::fs::read_to_string(project.path().join("asked"))
        .unwrap_or_default()
        .lines()
        .count()
}

fn put(project: &Project, text: &str) {
    std::fs::write(project.path().join("token"), text).expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_logs_in_with_both_drivers() {
    let (server, project) = set_up().await;
    expect_token_logins(&server, project).await;
}

/// As on Azure SQL. The stand-in refuses a login that does not repeat what its prelogin said.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_logs_in_with_both_drivers_where_the_prelogin_says_that_one_is_required() {
    let server = Server::start(&["--fed-auth-required"]);
    fill(&server).await;
    let project = project(&server).await;
    expect_token_logins(&server, project).await;
}

async fn expect_token_logins(server: &Server, mut project: Project) {
    let good = token("reader", 3600);
    let azure = json!({"accessToken": good, "expires_on": 4_000_000_000_u64, "tokenType": "Bearer"});
    for text in [good.clone(), format!("{good}\n"), azure.to_string()] {
        put(&project, &text);
        project.source(&keys(server, &printing(&project)));
        both_in(&project).await;
        project.source(&keys(server, "access_token = { file = \"token\" }"));
        both_in(&project).await;
    }
    project.source(&keys(server, &format!("{}\nencrypt = \"strict\"", printing(&project))));
    both_in(&project).await;
    project.source(&keys(server, &printing(&project)));
    project.once().ok();
    assert_eq!(ids(&project), [1]);
    let logins = logins(server).await;
    assert!(
        logins.iter().all(|login| login.token && login.user == "reader"),
        "{logins:?}"
    );
    // One process asks once, however many connections it makes.
    let before = asked(&project);
    project.run("check", &[]).ok();
    assert_eq!(asked(&project), before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_refused_says_what_to_check_and_is_not_shown() {
    let (server, mut project) = set_up().await;
    project.source(&keys(&server, &printing(&project)));
    put(&project, &token("stranger", 3600));
    both_refused(&project, &["refused the access token's user", "FROM EXTERNAL PROVIDER"]).await;
    for (text, code, words) in [
        (token("stranger", 3600), 2, "FROM EXTERNAL PROVIDER"),
        // The next one may come a little late.
        (token("reader", -10), 3, "it ended"),
        ("{\"error\": \"hunter2\"}".to_owned(), 2, "without accessToken"),
    ] {
        put(&project, &text);
        let mut command = project.command("run", &["--once", "--json"]);
        let run = crate::harness::finish(command.env("SLUICE_LOG", "trace").output().expect("sluice starts"));
        assert_eq!(run.code, code, "{}", run.stderr.lines().last().unwrap_or_default());
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(said.contains(words), "{words} in {said}");
        assert!(!said.contains(SIGNATURE) && !said.contains("hunter2"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_outlives_its_token_and_no_row_is_there_twice() {
    let (server, mut project) = set_up().await;
    project.source(&keys(&server, &printing(&project)));
    // Within the time in which a token is replaced: each login asks for a new one.
    put(&project, &token("reader", 120));
    let mut run = Running::start(&project, &[]);
    run.until_type("batch");
    let before = asked(&project);
    for id in 2..=3 {
        for part in [POLL, READ] {
            fault(&server, "drop_after_rows", &format!(", @rows = 0, @match = N'{part}'")).await;
        }
        server
            .exec("sales", &format!("INSERT INTO dbo.t VALUES ({id}, N'x')"))
            .await;
        run.until("batch", |event| event["type"] == "batch" && event["rows"] == 1);
    }
    run.terminate();
    assert_eq!(run.code(), Some(0));
    assert_eq!(ids(&project), [1, 2, 3]);
    assert!(asked(&project) > before, "tokens were renewed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_token_that_is_refused_is_replaced_once() {
    let (server, mut project) = set_up().await;
    project.source(&keys(&server, &printing(&project)));
    put(&project, &token("reader", 3600));
    let mut run = Running::start(&project, &[]);
    run.until_type("batch");
    let before = asked(&project);
    fault(&server, "login_fail", ", @number = 18456").await;
    fault(&server, "drop_after_rows", &format!(", @rows = 0, @match = N'{POLL}'")).await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (2, N'x')").await;
    run.until("batch after it", |event| {
        assert_ne!(event["type"], "failed", "{event}");
        event["type"] == "batch" && event["rows"] == 1
    });
    run.terminate();
    assert_eq!(run.code(), Some(0));
    assert_eq!(asked(&project), before + 1);
    assert_eq!(ids(&project), [1, 2]);
}

/// A token endpoint, which answers as `answer` says, and remembers what it was sent.
struct Endpoint {
    port: u16,
    bodies: Arc<Mutex<Vec<String>>>,
}

impl Endpoint {
    /// `answer` gets the number of the request, from 1, and gives a status and a body.
    fn start(answer: impl Fn(usize) -> (u16, String) + Send + 'static) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let (kept, requests) = (Arc::clone(&bodies), AtomicUsize::new(0));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(stream);
                let (mut length, mut line) = (0, String::new());
                while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().expect("a length");
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).expect("a body");
                kept.lock().expect("kept").push(String::from_utf8(body).expect("UTF-8"));
                let (status, text) = answer(requests.fetch_add(1, Ordering::Relaxed) + 1);
                let _ = write!(
                    reader.get_mut(),
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
                    text.len()
                );
            }
        });
        Endpoint { port, bodies }
    }

    fn keys(&self, server: &Server, dir: &Path) -> String {
        std::fs::write(dir.join("client-secret"), "s3cret of the client&=").expect("written");
        keys(
            server,
            &format!(
                "authentication = \"client-credentials\"\nclient_id = \"app-1\"\n\
                 client_secret = {{ file = \"client-secret\" }}\n\
                 token_endpoint = \"http://127.0.0.1:{}/t/oauth2/v2.0/token\"",
                self.port
            ),
        )
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_credentials_bring_a_token_for_both_drivers() {
    let (server, mut project) = set_up().await;
    let endpoint = Endpoint::start(|_| {
        let answer = json!({"token_type": "Bearer", "expires_in": 3599, "access_token": token("reader", 3599)});
        (200, answer.to_string())
    });
    project.source(&endpoint.keys(&server, project.path()));
    project.once().ok();
    assert_eq!(ids(&project), [1]);
    let bodies = endpoint.bodies.lock().expect("kept").clone();
    assert_eq!(
        bodies,
        [
            "grant_type=client_credentials&client_id=app-1&client_secret=s3cret+of+the+client%26%3D\
          &scope=https%3A%2F%2Fdatabase.windows.net%2F.default"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_endpoint_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
    let (server, mut project) = set_up().await;
    let busy = Endpoint::start(|request| match request {
        1 | 2 => (503, "hunter2".to_owned()),
        _ => (200, json!({"access_token": token("reader", 3599)}).to_string()),
    });
    project.source(&busy.keys(&server, project.path()));
    project.once().ok();
    assert_eq!(ids(&project), [1]);
    let refusing = Endpoint::start(|_| {
        let answer = json!({"error": "invalid_client", "error_description": "AADSTS7000215: hunter2 is no secret"});
        (401, answer.to_string())
    });
    project.source(&refusing.keys(&server, project.path()));
    let run = project.once();
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(
        run.stderr.contains("invalid_client, AADSTS7000215") && run.stderr.contains("source.client_secret"),
        "{}",
        run.stderr
    );
    assert!(
        !run.stderr.contains("hunter2") && !run.stderr.contains("s3cret"),
        "{}",
        run.stderr
    );
    assert_eq!(refusing.bodies.lock().expect("kept").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_for_this_machine_goes_through_no_proxy() {
    let (server, mut project) = set_up().await;
    let endpoint = Endpoint::start(|_| (200, json!({"access_token": token("reader", 3599)}).to_string()));
    project.source(&endpoint.keys(&server, project.path()));
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", proxy.local_addr().expect("an address"));
    let environment = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"].map(|name| (name, address.as_str()));
    project
        .once_with(&[&environment[..], &[("no_proxy", ""), ("NO_PROXY", "")]].concat())
        .ok();
    assert_eq!(ids(&project), [1]);
    assert_eq!(endpoint.bodies.lock().expect("kept").len(), 1);
    proxy.set_nonblocking(true).expect("set");
    let asked = proxy.accept().map(|_| ()).map_err(|error| error.kind());
    assert_eq!(asked, Err(ErrorKind::WouldBlock));
}
