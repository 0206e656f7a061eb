//! Names beyond ASCII, with brackets, quotes and blanks, and in another case, are read; what Delta refuses is an error with a
//! way out.

use crate::harness::{Project, Server, insert, rows_of, sales};

/// The same table in a database, captured as `odd`, with one row.
async fn odd(server: &Server, database: &str, text: &str) {
    for statement in [
        "CREATE TABLE dbo.[Co Inc$Loc.a]]b] (id int NOT NULL PRIMARY KEY, [é;x] nvarchar(10) NULL)",
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Co Inc$Loc.a]b', @role_name = NULL, \
         @capture_instance = N'odd'",
        "GRANT SELECT ON dbo.[Co Inc$Loc.a]]b] TO [reader]; GRANT SELECT ON cdc.[odd_CT] TO [reader]",
        &format!("INSERT INTO dbo.[Co Inc$Loc.a]]b] VALUES (1, {text})"),
    ] {
        server.exec(database, statement).await;
    }
}

const RENAME: &str =
    "[[table.transform]]\nplugin = \"map\"\nconfig = { columns = { \"é;x\" = { rename = \"ex\" } } }\n";

#[tokio::test(flavor = "multi_thread")]
async fn names_with_brackets_quotes_and_letters_beyond_ascii_are_read() {
    let server = Server::start(&[]);
    server.database("Base$1").await;
    odd(&server, "Base$1", "N'it''s'").await;
    let project = Project::new(&server, "Base$1").table("odd", "");
    let run = project.once();
    assert_eq!(run.code, 2, "a name that Delta refuses: {}", run.stdout);
    assert!(
        run.failure("odd")["error"]
            .as_str()
            .is_some_and(|text| text.contains("é;x") && text.contains("map")),
        "{}",
        run.stdout
    );

    let project = Project::new(&server, "Base$1").table("odd", RENAME);
    project.once().ok();
    let rows = rows_of(&project.bronze("odd"), &["_start_lsn"]).expect("rows");
    assert_eq!(rows.texts("ex"), [Some("it's".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_table_of_two_databases_is_two_streams_with_positions_of_their_own() {
    let server = Server::start(&[]);
    server.database("Base$1").await;
    server.database_again("Base$2").await;
    odd(&server, "Base$1", "N'first'").await;
    odd(&server, "Base$2", "N'second'").await;
    let projects = ["Base$1", "Base$2"].map(|database| Project::new(&server, database).table("odd", RENAME));
    for project in &projects {
        project.once().ok();
    }
    // One goes on: what the other is at is not its business.
    server
        .exec("Base$2", "INSERT INTO dbo.[Co Inc$Loc.a]]b] VALUES (2, N'more')")
        .await;
    for project in &projects {
        project.once().ok();
    }
    let texts = projects.each_ref().map(|project| {
        let rows = rows_of(&project.bronze("odd"), &["_start_lsn"]).expect("rows");
        rows.texts("ex").into_iter().flatten().collect::<Vec<_>>()
    });
    assert_eq!(texts, [vec!["first"], vec!["second", "more"]]);

    // The checkpoint of one is not taken for the other's.
    let mut project = projects.into_iter().next().expect("two");
    project.edit("Base$1", "Base$2");
    let run = project.once();
    assert_eq!(run.code, 7, "{}", run.stdout);
    let failure = run.failure("odd");
    let error = failure["error"].as_str().expect("an error");
    assert!(error.contains("Base$1") && error.contains("Base$2"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_instance_of_a_table_with_an_odd_name_is_read_and_read_again_after_a_crash() {
    let server = Server::start(&[]);
    server.database("Base$1").await;
    for table in ["Co Inc$Loc.a]b", "O'Neil's [lines]"] {
        let (name, literal) = (table.replace(']', "]]"), table.replace('\'', "''"));
        for statement in [
            format!("CREATE TABLE dbo.[{name}] (id int NOT NULL PRIMARY KEY)"),
            format!(
                "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'{literal}', @role_name = NULL"
            ),
            format!("GRANT SELECT ON dbo.[{name}] TO [reader]; GRANT SELECT ON cdc.[dbo_{name}_CT] TO [reader]"),
            format!("INSERT INTO dbo.[{name}] VALUES (1)"),
        ] {
            server.exec("Base$1", &statement).await;
        }
        let instance = format!("dbo_{table}");
        let project = Project::new(&server, "Base$1").table(&instance, "");
        project.once().ok();
        server
            .exec("Base$1", &format!("INSERT INTO dbo.[{name}] VALUES (2)"))
            .await;
        assert!(project.kill_at("after-offset"), "{table}");
        let run = project.once().ok();
        assert_eq!(run.of_type("batch")[0]["replayed"], true, "{}", run.stdout);
        let rows = rows_of(&project.bronze(&instance), &["_start_lsn"]).expect("rows");
        assert_eq!(rows.numbers("id"), [1, 2], "{table}");
        assert_eq!(
            rows.texts("_capture_instance"),
            [Some(instance.clone()), Some(instance)]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_instance_is_found_whatever_its_case() {
    let server = sales(&["t"]).await;
    let project = Project::new(&server, "sales").table("DBO_T", "");
    for id in 1..=2 {
        insert(&server, id..=id).await;
        project.once().ok();
    }
    let rows = rows_of(&project.bronze("DBO_T"), &["_start_lsn"]).expect("rows");
    assert_eq!(rows.numbers("id"), [1, 2]);
    // As the server spells it.
    let instances: Vec<String> = rows.texts("_capture_instance").into_iter().flatten().collect();
    assert_eq!(instances, ["dbo_t", "dbo_t"]);
}
