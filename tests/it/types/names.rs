//! Names beyond ASCII, with brackets, quotes and blanks, are read; what Delta refuses is an error with a way out.

use crate::harness::{Project, Server, rows_of};

#[tokio::test(flavor = "multi_thread")]
async fn names_with_brackets_quotes_and_letters_beyond_ascii_are_read() {
    let server = Server::start(&[]);
    server.database("Base$1").await;
    server
        .exec(
            "Base$1",
            "CREATE TABLE dbo.[Co Inc$Loc.a]]b] (id int NOT NULL PRIMARY KEY, [é;x] nvarchar(10) NULL)",
        )
        .await;
    server
        .exec(
            "Base$1",
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Co Inc$Loc.a]b', @role_name = NULL, @capture_instance = N'odd'",
        )
        .await;
    server
        .exec(
            "Base$1",
            "GRANT SELECT ON dbo.[Co Inc$Loc.a]]b] TO [reader]; GRANT SELECT ON cdc.[odd_CT] TO [reader]",
        )
        .await;
    server
        .exec("Base$1", "INSERT INTO dbo.[Co Inc$Loc.a]]b] VALUES (1, N'it''s')")
        .await;
    let rename = "[[table.transform]]\nplugin = \"map\"\nconfig = { columns = { \"é;x\" = { rename = \"ex\" } } }\n";
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

    let project = Project::new(&server, "Base$1").table("odd", rename);
    project.once().ok();
    let rows = rows_of(&project.bronze("odd"), &["_start_lsn"]).expect("rows");
    assert_eq!(rows.texts("ex"), [Some("it's".to_owned())]);
}
