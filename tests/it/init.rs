//! `sluice init`: what it writes can be used as it is, and what looks personal does not reach the lake.

use std::path::Path;
use std::process::Command;

use crate::harness::{PASSWORD, Rows, Run, Server, finish, rows_of, scratch, sluice_binary};

const KEY: &str = "a key of the tests, 32 bytes long";
const TABLES: [&str; 3] = ["customers", "orders", "order_items"];
const ORDER: [&str; 4] = ["_start_lsn", "_command_id", "_seqval", "_operation"];

/// The demo's shop, and a login that may read it.
async fn shop() -> Server {
    let server = Server::start(&["--workload", "shop", "--backlog", "900", "--seed", "7"]);
    server
        .exec("master", &format!("CREATE LOGIN [reader] WITH PASSWORD = '{PASSWORD}'"))
        .await;
    server.exec("shop", "CREATE USER [reader] FOR LOGIN [reader]").await;
    for table in TABLES {
        server.grant("shop", table).await;
    }
    server
}

fn sluice(dir: &Path, arguments: &[&str]) -> Run {
    let output = Command::new(sluice_binary())
        .args(arguments)
        .current_dir(dir)
        .env("SLUICE_PASSWORD", PASSWORD)
        .env("PII_KEY", KEY)
        .output()
        .expect("sluice starts");
    finish(output)
}

fn bronze(dir: &Path, table: &str) -> Rows {
    rows_of(&dir.join("lake/bronze").join(format!("dbo_{table}")), &ORDER).expect("rows")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_for_a_server_runs_as_it_is_and_masks_the_customers() {
    let server = shop().await;
    let dir = scratch();
    std::fs::copy(server.certificate(), dir.path().join("server.pem")).expect("copied");
    let address = server.address();
    let arguments = [
        "init",
        "--from-server",
        "--server",
        &address,
        "--database",
        "shop",
        "--user",
        "reader",
        "--server-certificate",
        "server.pem",
        "-o",
        "sluice.toml",
    ];
    sluice(dir.path(), &arguments).ok();
    let text = std::fs::read_to_string(dir.path().join("sluice.toml")).expect("written");
    assert!(!text.contains(PASSWORD), "{text}");
    for words in [
        "protect = [\"first_name\", \"last_name\", \"email\", \"phone\", \"national_id\", \"birth_date\", \"notes\"]",
        "server_certificate = \"server.pem\"",
        "IN DOUBT",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    // It is never overwritten.
    let again = sluice(dir.path(), &arguments);
    assert_eq!(again.code, 2, "{}", again.stderr);
    assert!(
        again.stderr.contains("sluice.toml is there already"),
        "{}",
        again.stderr
    );
    assert_eq!(
        std::fs::read_to_string(dir.path().join("sluice.toml")).expect("there"),
        text
    );

    let check = sluice(dir.path(), &["check"]).ok();
    assert!(
        check.stdout.contains("3 of 3 tables are ready to run"),
        "{}",
        check.stdout
    );
    sluice(dir.path(), &["run", "--once", "--json"]).ok();
    let customers = bronze(dir.path(), "customers");
    assert!(customers.len() > 0);
    for (column, length) in [("first_name", 16), ("last_name", 16), ("national_id", 64)] {
        for text in customers.texts(column).into_iter().flatten() {
            assert!(
                text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{column}: {text}"
            );
        }
    }
    assert!(customers.texts("notes").iter().all(Option::is_none));
    assert!(
        customers
            .texts("birth_date")
            .iter()
            .flatten()
            .all(|date| date.ends_with("-01-01"))
    );
    assert!(
        customers.texts("city").iter().any(Option::is_some),
        "what is in doubt passes"
    );
    assert!(bronze(dir.path(), "orders").texts("remark").iter().all(Option::is_none));
    assert!(bronze(dir.path(), "order_items").len() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_source_may_come_from_a_file_and_its_secrets_stay_there() {
    let server = shop().await;
    let dir = scratch();
    let partial = dir.path().join("partial");
    std::fs::create_dir(&partial).expect("created");
    std::fs::write(partial.join("word"), PASSWORD).expect("written");
    std::fs::copy(server.certificate(), partial.join("server.pem")).expect("copied");
    let source = |password: &str| {
        format!(
            "[source]\nserver = \"{}\"\ndatabase = \"shop\"\nuser = \"reader\"\npassword = {password}\n\
             server_certificate = \"server.pem\"\n\n[limits]\nconnections = 4\n",
            server.address()
        )
    };
    std::fs::write(partial.join("source.toml"), source("{ file = \"word\" }")).expect("written");
    let init = ["init", "--from-server", "-c", "partial/source.toml"];
    let run = sluice(dir.path(), &[&init[..], &["-o", "sluice.toml"]].concat()).ok();
    assert!(run.stderr.contains("not limits"), "{}", run.stderr);
    // Its paths lead to where they led.
    sluice(dir.path(), &["check"]).ok();

    std::fs::write(partial.join("source.toml"), source(&format!("\"{PASSWORD}\""))).expect("written");
    let printed = sluice(dir.path(), &init).ok();
    assert!(!printed.stdout.contains(PASSWORD), "{}", printed.stdout);
    assert!(
        printed.stdout.contains("password = { env = \"SLUICE_PASSWORD\" }"),
        "{}",
        printed.stdout
    );
}

#[test]
fn without_a_server_it_writes_a_template_and_an_option_of_a_server_is_refused() {
    let dir = scratch();
    let printed = sluice(dir.path(), &["init"]).ok();
    assert!(printed.stdout.contains("[[table.transform]]"), "{}", printed.stdout);
    sluice(dir.path(), &["init", "-o", "sluice.toml"]).ok();
    // It is a whole configuration: without a checkpoint, nothing was started.
    let status = sluice(dir.path(), &["status"]).ok();
    assert!(status.stdout.contains("dbo_customers"), "{}", status.stdout);
    assert_eq!(sluice(dir.path(), &["init", "--server", "a"]).code, 2);
    let lacking = sluice(dir.path(), &["init", "--from-server", "--server", "a"]);
    assert_eq!(lacking.code, 2);
    assert!(lacking.stderr.contains("--database is missing"), "{}", lacking.stderr);
}
