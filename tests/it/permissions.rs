//! Grants: the least that a login needs, and the statement for each that is missing.

use crate::harness::{Project, Server, ids};

/// A table of which only some columns are captured, and a login that may do nothing.
async fn set_up(role: &str) -> (Server, Project) {
    let server = Server::start(&[]);
    server.database("sales").await;
    server
        .exec(
            "sales",
            &format!(
                "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, v nvarchar(20) NULL, secret nvarchar(20) NULL);\n\
                 EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N't', @role_name = {role}, \
                 @captured_column_list = N'[id], [v]'"
            ),
        )
        .await;
    server
        .exec("sales", "INSERT INTO dbo.t VALUES (1, N'a', N'hidden')")
        .await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    (server, project)
}

/// The script of `sluice check --grants`.
fn script(project: &Project) -> String {
    project.run("check", &["--grants"]).ok().stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_may_nothing_gets_a_script_that_is_enough() {
    let (server, project) = set_up("NULL").await;
    server.exec("sales", "DROP USER [reader]").await;
    let check = project.run("check", &[]);
    assert_eq!(check.code, 2, "{}", check.stderr);
    assert!(
        check.stderr.contains("run CREATE USER [reader] FOR LOGIN [reader]"),
        "{}",
        check.stderr
    );
    let script = script(&project);
    assert!(script.contains("does not see this capture instance"), "{script}");
    server.exec("sales", &script).await;
    project.once().ok();
    assert_eq!(ids(&project), [1]);
    // It may be run again, also now that the login sees what it reads.
    server.exec("sales", &self::script(&project)).await;
    project.once().ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_script_gives_the_captured_columns_and_no_other() {
    let (server, project) = set_up("NULL").await;
    server
        .exec(
            "sales",
            "GRANT SELECT ON [dbo].[t] ([id], [v]) TO [reader]; GRANT SELECT ON [cdc].[dbo_t_CT] TO [reader]",
        )
        .await;
    let script = script(&project);
    assert!(
        script.contains(
            "GRANT SELECT ON [dbo].[t] ([id], [v]) TO [reader];\nGRANT SELECT ON [cdc].[dbo_t_CT] TO [reader];"
        ),
        "{script}"
    );
    // From nothing to enough, by that script alone.
    server.exec("sales", "DROP USER [reader]").await;
    server.exec("sales", &script).await;
    project.once().ok();
    assert_eq!(ids(&project), [1]);
    assert!(server.denies_reader("sales", "SELECT [secret] FROM dbo.t").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_missing_grant_is_its_own_statement() {
    let (server, project) = set_up("N'gate'").await;
    let grants = [
        "GRANT SELECT ON [dbo].[t] ([id], [v]) TO [reader]",
        "ALTER ROLE [gate] ADD MEMBER [reader]",
        "GRANT SELECT ON [cdc].[dbo_t_CT] TO [reader]",
    ];
    for grant in grants {
        server.exec("sales", grant).await;
    }
    project.once().ok();
    let all = script(&project);
    for grant in grants {
        assert!(all.contains(&format!("\n{grant};\n")), "{grant} in {all}");
    }
    // Without the one for the change table, which a login sees from outside.
    server
        .exec("sales", "REVOKE SELECT ON [cdc].[dbo_t_CT] FROM [reader]")
        .await;
    let run = project.once();
    assert_eq!(run.code, 2, "{}", run.stderr);
    let error = run.failure("dbo_t")["error"].as_str().expect("text").to_owned();
    assert!(error.contains(&format!("run {}", grants[2])), "{error}");
    server.exec("sales", grants[2]).await;
    // Without a column, or without the role, the instance itself is not seen, and both may be the reason.
    for (revoke, words) in [
        (
            "REVOKE SELECT ON [dbo].[t] ([v]) FROM [reader]",
            "GRANT SELECT ON [dbo].[t] TO [reader]",
        ),
        (
            "ALTER ROLE [gate] DROP MEMBER [reader]",
            "ALTER ROLE [that role] ADD MEMBER [reader]",
        ),
    ] {
        server.exec("sales", revoke).await;
        let run = project.once();
        assert_eq!(run.code, 2, "{}", run.stderr);
        let error = run.failure("dbo_t")["error"].as_str().expect("text").to_owned();
        assert!(error.contains("no capture instance dbo_t"), "{error}");
        let script = script(&project);
        assert!(script.contains(words), "{words} in {script}");
        for grant in grants {
            server.exec("sales", grant).await;
        }
    }
    project.once().ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_script_is_in_the_json_too() {
    let (server, project) = set_up("NULL").await;
    let check = project.run("check", &["--json"]);
    assert_eq!(check.code, 2, "{}", check.stderr);
    let checked = &check.of_type("checked")[0];
    assert_eq!(checked["ready"], false, "{checked}");
    assert_eq!(checked["kind"], "config", "{checked}");
    let grants = &check.of_type("grants")[0];
    assert_eq!(grants["user"], "reader");
    assert_eq!(grants["tables"][0]["seen"], false, "{grants}");
    server.exec("sales", grants["script"].as_str().expect("text")).await;
    let check = project.run("check", &["--json"]).ok();
    assert_eq!(check.of_type("checked")[0]["ready"], true, "{}", check.stdout);
    assert_eq!(check.of_type("source")[0]["user"], "reader", "{}", check.stdout);
    let only = project.run("check", &["--json", "--grants"]).ok();
    assert_eq!(only.events().len(), 1, "{}", only.stdout);
    assert_eq!(only.events()[0]["tables"][0]["seen"], true, "{}", only.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_are_for_the_user_of_the_database_and_not_for_the_login() {
    let (server, project) = set_up("NULL").await;
    server
        .exec("sales", "DROP USER [reader]; CREATE USER [etl] FOR LOGIN [reader]")
        .await;
    let run = project.once();
    assert_eq!(run.code, 2, "{}", run.stderr);
    let error = run.failure("dbo_t")["error"].as_str().expect("text").to_owned();
    assert!(error.contains("GRANT SELECT ON [dbo].[t] TO [etl]"), "{error}");
    server.exec("sales", &script(&project)).await;
    project.once().ok();
    assert_eq!(ids(&project), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_comes_in_as_guest_gets_a_user_and_grants_of_its_own() {
    let (server, project) = set_up("NULL").await;
    server.exec("sales", "DROP USER [reader]; GRANT CONNECT TO guest").await;
    let run = project.once();
    assert_eq!(run.code, 2, "{}", run.stderr);
    let error = run.failure("dbo_t")["error"].as_str().expect("text").to_owned();
    assert!(error.contains("GRANT SELECT ON [dbo].[t] TO [reader]"), "{error}");
    let script = script(&project);
    assert!(!script.contains("guest"), "{script}");
    server.exec("sales", &script).await;
    project.once().ok();
    assert_eq!(ids(&project), [1]);
}
