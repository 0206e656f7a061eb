//! What a person reads when something is wrong before the first row: short, and what to do.

use crate::harness::{Project, Server};

async fn server() -> Server {
    let server = Server::start(&[]);
    server.database("sales").await;
    server
        .table("sales", "orders", "id int NOT NULL PRIMARY KEY, total money NULL")
        .await;
    server.exec("sales", "INSERT INTO dbo.orders VALUES (1, 2.5)").await;
    server
}

fn short(text: &str) -> &str {
    let line = text.lines().last().unwrap_or_default();
    assert!(line.len() < 500, "{} characters: {line}", line.len());
    line
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_says_which_settings_to_check() {
    let server = server().await;
    let mut project = Project::new(&server, "sales").table("dbo_orders", "");
    std::fs::write(project.path().join("wrong"), "hunter2hunter2").expect("written");
    project.edit("password = { file = \"password\" }", "password = { file = \"wrong\" }");
    for command in ["run", "check"] {
        let run = project.run(command, &[]);
        assert_eq!(run.code, 2, "{}", run.stderr);
        let line = short(&run.stderr);
        assert!(
            line.contains("refused the login of user reader") && line.contains("source.password"),
            "{line}"
        );
        assert!(!line.contains("hunter2"), "{line}");
    }
    assert!(!project.lake().exists(), "nothing is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_database_is_named() {
    let server = server().await;
    let project = Project::new(&server, "nosuch").table("dbo_orders", "");
    let run = project.run("check", &[]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    let line = short(&run.stderr);
    assert!(
        line.contains("database nosuch does not exist") && line.contains("source.database"),
        "{line}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cdc_that_is_off_says_how_to_turn_it_on() {
    let server = server().await;
    server.exec("master", "CREATE DATABASE [plain]").await;
    server.exec("plain", "CREATE USER [reader] FOR LOGIN [reader]").await;
    let project = Project::new(&server, "plain").table("dbo_orders", "");
    let run = project.run("run", &["--once"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(short(&run.stderr).contains("sp_cdc_enable_db"), "{}", run.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_capture_instance_names_the_nearest_and_the_other_tables_run() {
    let server = server().await;
    let project = Project::new(&server, "sales")
        .table("dbo_order", "")
        .table("dbo_orders", "");
    let run = project.once();
    assert_eq!(run.code, 2, "{}", run.stderr);
    let error = run.failure("dbo_order")["error"].as_str().expect("text").to_owned();
    assert!(
        error.contains("no capture instance dbo_order") && error.contains("(the nearest is dbo_orders)"),
        "{error}"
    );
    assert!(error.contains("sp_cdc_enable_table"), "{error}");
    assert_eq!(run.table("dbo_orders")["rows"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_grant_is_the_statement_to_run() {
    let server = server().await;
    server
        .exec(
            "sales",
            "CREATE TABLE dbo.secret (id int NOT NULL PRIMARY KEY, v int NULL)",
        )
        .await;
    server.enable("sales", "secret").await;
    let project = Project::new(&server, "sales")
        .table("dbo_secret", "")
        .table("dbo_orders", "");
    let run = project.run("check", &[]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(
        run.stdout.contains("GRANT SELECT ON [dbo].[secret] TO [reader]"),
        "{}",
        run.stdout
    );

    server.exec("sales", "GRANT SELECT ON [dbo].[secret] TO [reader]").await;
    let run = project.once();
    assert_eq!(run.code, 2, "{}", run.stderr);
    let error = run.failure("dbo_secret")["error"].as_str().expect("text").to_owned();
    assert!(
        error.contains("run GRANT SELECT ON [cdc].[dbo_secret_CT] TO [reader]"),
        "{error}"
    );
    assert_eq!(run.table("dbo_orders")["rows"], 1);

    server
        .exec("sales", "GRANT SELECT ON [cdc].[dbo_secret_CT] TO [reader]")
        .await;
    project.once().ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_retryable() {
    let server = server().await;
    let mut project = Project::new(&server, "sales").table("dbo_orders", "");
    project.edit(&server.address(), "127.0.0.1,1");
    let run = project.run("run", &["--once", "--json"]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert_eq!(run.of_type("error")[0]["kind"], "retryable");
    assert!(
        short(&run.stderr).contains("cannot connect to 127.0.0.1,1"),
        "{}",
        run.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_not_trusted_names_the_setting() {
    let server = server().await;
    let mut project = Project::new(&server, "sales").table("dbo_orders", "");
    project.edit(
        &format!("server_certificate = \"{}\"", server.certificate().display()),
        "",
    );
    let run = project.run("check", &[]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(
        short(&run.stderr).contains("source.server_certificate"),
        "{}",
        run.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn check_writes_nothing_and_shows_where_each_column_goes() {
    let server = server().await;
    let project = Project::new(&server, "sales").table(
        "dbo_orders",
        "[[table.transform]]\nplugin = \"map\"\nconfig = { columns = { total = { rename = \"amount\" } } }\n",
    );
    let run = project.run("check", &[]).ok();
    assert!(run.stdout.contains("passes as amount"), "{}", run.stdout);
    assert!(run.stdout.contains("(key 1)"), "{}", run.stdout);
    assert!(!project.lake().exists(), "nothing is written");
}
