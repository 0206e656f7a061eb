//! The status page, its JSON and the metrics.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::Value;
use sluice::board::Board;
use sluice::config::Settings;
use sluice::scheduler::Scheduler;
use sluice::web::{Listening, Shown, Slot};
use tokio_util::sync::CancellationToken;

use crate::harness::{Project, Running, Server, sales, wait_for};

const TOKEN: &str = "a-token-that-nobody-guesses";

/// Status, headers and body of an answer.
struct Answer {
    code: u16,
    head: String,
    body: String,
}

fn ask(address: &str, request: &str, headers: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    let length = body.len();
    let request = format!("{request} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    Answer {
        code: head
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .expect("a code"),
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    }
}

fn get(address: &str, path: &str) -> Answer {
    ask(address, &format!("GET {path}"), "Host: localhost\r\n", "")
}

fn json(address: &str, path: &str) -> Value {
    let answer = get(address, path);
    assert_eq!(answer.code, 200, "{path}: {}", answer.body);
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error} in {}", answer.body))
}

async fn serving(environment: &[(&str, &str)], address: &str) -> (Server, Project, Running, String) {
    let server = sales(&["a", "b"]).await;
    for value in ["secret-value-1", "secret-value-2"] {
        let id = value.len() + usize::from(value.ends_with('2'));
        server
            .exec("sales", &format!("INSERT INTO dbo.a VALUES ({id}, N'{value}')"))
            .await;
    }
    server.exec("sales", "REVOKE SELECT ON [dbo].[b] FROM [reader]").await;
    let project = Project::new(&server, "sales").table("dbo_a", "").table("dbo_b", "");
    let mut run = Running::start_with(&project, &["--http", address], environment);
    let address = run.until_type("http")["address"]
        .as_str()
        .expect("an address")
        .to_owned();
    run.until_type("verdict");
    (server, project, run, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_says_how_each_table_does_and_shows_no_value() {
    let (server, project, mut run, address) = serving(&[], "127.0.0.1:0").await;
    let state = |name: &str| {
        let status = json(&address, "/api/status");
        let tables = status["tables"].as_array().expect("tables").clone();
        let table = tables.into_iter().find(|table| table["capture_instance"] == name);
        table.expect("on the page")
    };
    assert!(wait_for(
        || state("dbo_a")["state"] == "current" && state("dbo_b")["state"] == "failed"
    ));
    let (a, b) = (state("dbo_a"), state("dbo_b"));
    assert_eq!(
        (&a["rows"], &a["batches"], &a["lag_seconds"]),
        (&2.into(), &1.into(), &0.0.into()),
        "{a:#}"
    );
    assert!(
        a["finalized_until"].is_string() && a["headroom_hours"].is_number() && a["error"].is_null(),
        "{a:#}"
    );
    assert!(b["error"].as_str().unwrap().contains("GRANT SELECT"), "{b:#}");
    assert_eq!(b["error_kind"], "config");
    assert!(b["hint"].is_string() && b["error_at"].is_string(), "{b:#}");
    let status = json(&address, "/api/status");
    assert_eq!(status["counts"], serde_json::json!({"current": 1, "failed": 1}));
    assert_eq!(
        (&status["source"]["database"], &status["capture"]["state"]),
        (&"sales".into(), &"running".into())
    );
    assert!(status["memory"]["resident_bytes"].as_u64() > Some(1 << 20));
    let history = json(&address, "/api/history?table=dbo_a&table=dbo_nobody");
    assert!(history["series"]["dbo_a"]["lag_seconds"].is_array() && history["series"]["dbo_nobody"].is_null());
    assert!(json(&address, "/api/history")["series"][""]["rows_per_second"].is_array());

    let page = get(&address, "/");
    assert_eq!(page.code, 200);
    assert!(
        page.head.contains("content-security-policy: default-src 'none'"),
        "{}",
        page.head
    );
    assert!(
        !page.body.contains("http://") || !page.body.contains("src=\"http"),
        "nothing from elsewhere"
    );
    for part in ["/page.css", "/page.js"] {
        assert_eq!(get(&address, part).code, 200);
    }
    assert_eq!(
        (get(&address, "/healthz").code, get(&address, "/readyz").code),
        (200, 200)
    );
    assert_eq!(get(&address, "/nothing").code, 404);
    // Another site that a browser shows cannot read it through a name of its own.
    assert_eq!(ask(&address, "GET /api/status", "Host: evil.example\r\n", "").code, 403);

    let metrics = get(&address, "/metrics").body;
    for line in [
        "sluice_table_up{capture_instance=\"dbo_a\"} 1.0",
        "sluice_table_state{capture_instance=\"dbo_b\",state=\"failed\"} 1.0",
        "sluice_table_rows_total{capture_instance=\"dbo_a\"} 2.0",
        "sluice_tables{state=\"failed\"} 1.0",
        "sluice_source_up 1.0",
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line} in\n{metrics}");
    }
    for text in [&metrics, &status.to_string(), &page.body] {
        assert!(!text.contains("secret-value") && !text.contains(crate::harness::PASSWORD));
    }
    // A table that is mended leaves the list of what is wrong.
    server.grant("sales", "b").await;
    run.signal("USR1");
    assert!(wait_for(
        || state("dbo_b")["state"] == "current" && state("dbo_b")["error"].is_null()
    ));
    run.terminate();
    assert_eq!(run.code(), Some(0));
    drop(project);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_machines_need_the_token() {
    let (_server, project, mut run, address) = serving(&[("SLUICE_HTTP_TOKEN", TOKEN)], "0.0.0.0:0").await;
    let address = address.replace("0.0.0.0", "127.0.0.1");
    for path in ["/api/status", "/api/history", "/metrics", "/page.js"] {
        assert_eq!(get(&address, path).code, 401, "{path}");
    }
    let page = get(&address, "/");
    assert_eq!(page.code, 303);
    assert!(page.head.contains("location: /login"));
    assert!(get(&address, "/login").body.contains("<form"));
    for open in ["/healthz", "/readyz", "/page.css"] {
        assert_ne!(get(&address, open).code, 401, "{open}");
    }
    let bearer = format!("Host: x\r\nAuthorization: Bearer {TOKEN}\r\n");
    assert_eq!(ask(&address, "GET /metrics", &bearer, "").code, 200);
    let form = "Host: x\r\nContent-Type: application/x-www-form-urlencoded\r\n";
    let wrong = ask(&address, "POST /login", form, "token=wrong-token-of-some-length");
    assert_eq!(wrong.code, 401);
    assert!(wrong.body.contains("not the token"), "{}", wrong.body);
    let right = ask(&address, "POST /login", form, &format!("token={TOKEN}"));
    assert_eq!(right.code, 303);
    let cookie = right
        .head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .expect("a cookie");
    assert!(cookie.contains("httponly") && cookie.contains("samesite=strict") && !cookie.contains(TOKEN));
    let (cookie, _) = cookie.split_once(';').expect("attributes");
    assert_eq!(
        ask(&address, "GET /", &format!("Host: x\r\nCookie: {cookie}\r\n"), "").code,
        200
    );
    run.terminate();
    run.code();

    let refused = project.run("run", &["--http", "0.0.0.0:0"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("needs a token"), "{}", refused.stderr);
    let mut short = project.command("run", &["--http", "0.0.0.0:0"]);
    let short = crate::harness::finish(short.env("SLUICE_HTTP_TOKEN", "short").output().expect("run"));
    assert!(short.stderr.contains("shorter than 16"), "{}", short.stderr);
}

/// What a browser makes of the page: its document after a few seconds, and what it logged.
fn browse(address: &str, size: &str) -> (String, String) {
    let profile = crate::harness::scratch();
    let output = std::process::Command::new("chromium")
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--dump-dom",
        ])
        .args(["--virtual-time-budget=8000", &format!("--window-size={size}")])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{address}/"))
        .output()
        .expect("chromium starts: `cargo xtask test` installs it");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_shows_what_failed_first_and_has_nothing_to_complain_of() {
    let (_server, _project, mut run, address) = serving(&[], "127.0.0.1:0").await;
    assert!(wait_for(
        || json(&address, "/api/status")["counts"] == serde_json::json!({"current": 1, "failed": 1})
    ));
    for size in ["1600,900", "500,900"] {
        let (document, log) = browse(&address, size);
        let at = |text: &str| {
            document
                .find(text)
                .unwrap_or_else(|| panic!("{text} in {document}\n{log}"))
        };
        assert!(at("GRANT SELECT") > 0 && at("data-state=\"failed\"") < at("data-state=\"current\""));
        assert!(at("dbo_b") > 0 && at("dbo_a") > 0);
        let complaints: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }
    run.terminate();
    run.code();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_tables_are_shown_in_pages() {
    let mut text =
        "[source]\nserver = \"h\"\ndatabase = \"d\"\nuser = \"u\"\npassword = { command = [\"printf\", \"x\"] }\n\
                    [defaults]\ntarget = \"t/{ci}\"\napp_id = \"{ci}\"\ncheckpoint = \"c/{ci}\"\nfacts_table = \"f\"\n\
                    control_table = \"v\"\n"
            .to_owned();
    for i in 0..1000 {
        text.push_str(&format!("[[table]]\ncapture_instance = \"dbo_t{i:03}\"\n"));
    }
    let settings = Settings::parse(&text, Path::new("/"), Path::new("s.toml")).expect("valid");
    let board = Board::new(&settings.tables);
    let scheduler = Scheduler::new(&settings.limits);
    let shown = Shown::new(board, &scheduler, settings.limits.memory, &settings.source, "host");
    let page = Listening::on("127.0.0.1:0".parse().expect("an address"), None)
        .await
        .expect("free");
    let (address, stop) = (page.address().to_string(), CancellationToken::new());
    let slot = Slot::default();
    let served = tokio::spawn(page.serve(slot.clone(), stop.clone()));
    let (asked, place) = (address.clone(), address.clone());
    let early = tokio::task::spawn_blocking(move || (get(&asked, "/healthz").code, get(&asked, "/readyz").code));
    assert_eq!(
        early.await.expect("asked"),
        (200, 503),
        "alive, and not ready before the tables are known"
    );
    slot.fill(shown);
    let asked = address.clone();
    let ready = tokio::task::spawn_blocking(move || get(&asked, "/readyz"))
        .await
        .expect("asked");
    assert!(
        ready.code == 503 && ready.body.contains("1000 of 1000"),
        "{}",
        ready.body
    );
    let (document, log) = tokio::task::spawn_blocking(move || browse(&place, "1600,900"))
        .await
        .expect("shown");
    let rows = document.matches("data-state=\"starting\"").count();
    assert!((100..200).contains(&rows), "{rows}\n{log}");
    assert!(document.contains("of 1,000"), "{document}");
    stop.cancel();
    served.await.expect("ended");
}

/// Names of metrics in a text that is about them.
fn names(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c: char| !word(c))
        .filter(|name| name.starts_with("sluice_") || name.starts_with("process_"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_the_alerts_and_the_page_of_names_know_the_metrics_that_there_are() {
    let (_server, _project, mut run, address) = serving(&[], "127.0.0.1:0").await;
    let metrics = get(&address, "/metrics").body;
    run.terminate();
    run.code();
    let served: BTreeSet<String> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| {
            let (name, kind) = line.split_once(' ').expect("a kind");
            match kind {
                "counter" => format!("{name}_total"),
                _ => name.to_owned(),
            }
        })
        .collect();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let read = |path: &str| std::fs::read_to_string(docs.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let page = read("reference/monitoring.md");
    let documented: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split(['`', '{']).next())
        .filter(|name| name.starts_with("sluice_") || name.starts_with("process_"))
        .map(str::to_owned)
        .collect();
    assert_eq!(documented, served, "docs/reference/monitoring.md");
    for file in ["monitoring/grafana-dashboard.json", "monitoring/alerts.yml"] {
        let used = names(&read(file));
        let unknown: Vec<&String> = used.difference(&served).collect();
        assert!(unknown.is_empty() && used.len() > 10, "{file}: {unknown:?}");
    }
    serde_json::from_str::<Value>(&read("monitoring/grafana-dashboard.json")).expect("JSON");
}
