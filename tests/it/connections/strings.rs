//! `source.connection_string` and where secrets come from, and that nothing of them shows.

use super::{fault, keys, logins, set_up};
use crate::harness::{PASSWORD, ids, insert};

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_string_does_what_its_keys_do() {
    let (server, mut project) = set_up().await;
    let string = format!(
        "Data Source=tcp:127.0.0.1,{};Initial Catalog=sales;User ID=reader;Password=\"{PASSWORD}\";Encrypt=Mandatory;\
         ServerCertificate='{}';Application Name=by string;ApplicationIntent=ReadOnly;Persist Security Info=False",
        server.port,
        server.certificate().display()
    );
    std::fs::write(project.path().join("source"), &string).expect("written");
    project.source("connection_string = { file = \"source\" }");
    let run = project.once().ok();
    assert!(run.warnings().is_empty(), "{}", run.stdout);
    assert_eq!(ids(&project), [1]);
    let logins = logins(&server).await;
    // One at least of each driver.
    assert!(logins.len() >= 2);
    for login in logins {
        assert!(login.read_only && login.application == "by string", "{login:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_string_in_the_file_warns_and_a_wrong_one_is_told_without_its_words() {
    let (server, mut project) = set_up().await;
    let string = |rest: &str| {
        format!(
            "connection_string = \"Server=127.0.0.1,{};Database=sales;UID=reader;PWD={PASSWORD};{rest}\"\n\
             server_certificate = \"{}\"",
            server.port,
            server.certificate().display()
        )
    };
    project.source(&string("Max Pool Size=7"));
    let check = project.run("check", &[]).ok();
    for words in ["source.connection_string is a literal", "Max Pool Size has no effect"] {
        assert!(check.stdout.contains(words), "{words} in {}", check.stdout);
    }
    assert!(!check.stdout.contains(PASSWORD));
    for (rest, words) in [
        ("Databse=x", "the nearest is \\\"Database\\\""),
        ("Failover Partner=other", "name an availability group's listener"),
        ("Integrated Security=true", "Windows login"),
    ] {
        project.source(&string(rest));
        let check = project.run("check", &["--json"]);
        assert_eq!(check.code, 2, "{}", check.stderr);
        assert!(check.stdout.contains(words), "{words} in {}", check.stdout);
        let said = format!("{}{}", check.stdout, check.stderr);
        assert!(!said.contains(PASSWORD), "{said}");
    }
    project.source(&format!("{}\ndatabase = \"sales\"", string("")));
    let check = project.run("check", &[]);
    assert!(
        check
            .stderr
            .contains("source.database is given here and in source.connection_string"),
        "{}",
        check.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_comes_from_the_environment_or_from_what_a_command_prints() {
    let (server, mut project) = set_up().await;
    let file = project.path().join("password");
    let printed = project.path().join("printed");
    std::fs::rename(file, &printed).expect("renamed");
    let from = |source: &str| keys(&server, &server.tls()).replace("{ file = \"password\" }", source);

    project.source(&from("{ env = \"SLUICE_TEST_PASSWORD\" }"));
    let unset = project.once();
    assert_eq!(unset.code, 2, "{}", unset.stderr);
    assert!(
        unset
            .stderr
            .contains("environment variable SLUICE_TEST_PASSWORD is not set"),
        "{}",
        unset.stderr
    );
    let wrong = project.once_with(&[("SLUICE_TEST_PASSWORD", "wrong")]);
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("refused the login"), "{}", wrong.stderr);
    project.once_with(&[("SLUICE_TEST_PASSWORD", PASSWORD)]).ok();
    assert_eq!(ids(&project), [1]);

    insert(&server, 2..=2).await;
    project.source(&from("{ command = [\"false\"] }"));
    let failed = project.once();
    assert_eq!(failed.code, 2, "{}", failed.stderr);
    assert!(failed.stderr.contains("false ended with"), "{}", failed.stderr);
    project.source(&from(&format!("{{ command = [\"cat\", \"{}\"] }}", printed.display())));
    project.once().ok();
    assert_eq!(ids(&project), [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_need_no_source_need_no_secret() {
    let (_server, mut project) = set_up().await;
    project.once().ok();
    project.source("connection_string = { env = \"SLUICE_TEST_NO_SUCH\" }\ndatabase = \"sales\"");
    project.run("status", &[]).ok();
    project.run("doctor", &[]).ok();
    project.source("connection_string = { env = \"SLUICE_TEST_NO_SUCH\" }");
    let status = project.run("status", &[]);
    assert!(status.stderr.contains("source.database is needed"), "{}", status.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_a_log_or_an_error() {
    let (server, mut project) = set_up().await;
    for number in [18456, 4060, 40613, 17142] {
        fault(&server, "login_fail", &format!(", @number = {number}")).await;
    }
    fault(&server, "drop_after_rows", ", @rows = 0").await;
    let certificate = server.certificate();
    project.source(&keys(
        &server,
        &format!("server_certificate = \"{}\"", certificate.display()),
    ));
    let mut said = String::new();
    for _ in 0..6 {
        let mut command = project.command("run", &["--once", "--json"]);
        let run = crate::harness::finish(command.env("SLUICE_LOG", "trace").output().expect("sluice starts"));
        said.push_str(&run.stdout);
        said.push_str(&run.stderr);
    }
    assert!(said.contains("DEBUG") || said.contains("TRACE"), "logs are on");
    assert!(!said.contains(PASSWORD), "{said}");
    assert_eq!(ids(&project), [1]);
}
