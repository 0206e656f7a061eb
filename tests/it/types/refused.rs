//! Types without a place in Delta stop their own table at the start, with a way out; a type that changes is no wrong value.

use super::{ORDER, some};
use crate::harness::{Project, Running, Server, rows_of, sales_of, with_the_next_read};

const UNREADABLE: [&str; 4] = ["sql_variant", "geography", "geometry", "hierarchyid"];

/// A table with a column of each of these types, and one row: `dbo.t_<type>`.
async fn unreadable(server: &Server) {
    for ty in UNREADABLE {
        server
            .table(
                "sales",
                &format!("t_{ty}"),
                &format!("id int NOT NULL PRIMARY KEY, odd {ty} NULL"),
            )
            .await;
        server
            .exec("sales", &format!("INSERT INTO dbo.t_{ty} (id) VALUES (1)"))
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_cannot_be_read_stops_its_table_and_no_other() {
    let server = Server::start(&[]);
    server.database("sales").await;
    server
        .table("sales", "healthy", "id int NOT NULL PRIMARY KEY, v int NULL")
        .await;
    unreadable(&server).await;
    let mut project = Project::new(&server, "sales").table("dbo_healthy", "");
    for ty in UNREADABLE {
        project = project.table(&format!("dbo_t_{ty}"), "");
    }
    server.exec("sales", "INSERT INTO dbo.healthy VALUES (1, 7)").await;
    let run = project.once();
    assert_eq!(run.code, 2, "{}", run.stdout);
    for ty in UNREADABLE {
        let failure = run.failure(&format!("dbo_t_{ty}"));
        let text = failure["error"].as_str().expect("an error");
        assert!(
            text.contains("column odd")
                && text.contains(ty)
                && text.contains("columns = […]")
                && text.contains("@captured_column_list"),
            "{text}"
        );
        assert!(!project.bronze(&format!("dbo_t_{ty}")).exists());
    }
    let rows = rows_of(&project.bronze("dbo_healthy"), &ORDER).expect("rows");
    assert_eq!(rows.numbers("v"), [7]);

    // The way out that the message names.
    server
        .exec(
            "sales",
            "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N't_geography', @role_name = NULL, \
             @capture_instance = N'without', @captured_column_list = N'id'; \
             GRANT SELECT ON [cdc].[without_CT] TO [reader]; INSERT INTO dbo.t_geography (id) VALUES (2)",
        )
        .await;
    let project = Project::new(&server, "sales").table("without", "");
    project.once().ok();
    assert_eq!(
        rows_of(&project.bronze("without"), &ORDER).expect("rows").numbers("id"),
        [2]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_cannot_be_read_is_left_out_by_columns() {
    let server = Server::start(&[]);
    server.database("sales").await;
    unreadable(&server).await;
    let mut project = Project::new(&server, "sales");
    for ty in UNREADABLE {
        project = project.table(&format!("dbo_t_{ty}"), "columns = [\"id\"]");
    }
    project.once().ok();
    for ty in UNREADABLE {
        let rows = rows_of(&project.bronze(&format!("dbo_t_{ty}")), &ORDER).expect("rows");
        assert_eq!(rows.numbers("id"), [1], "{ty}");
        assert!(rows.batch.column_by_name("odd").is_none(), "{ty}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_changes_while_the_stream_is_idle_stops_the_table_before_a_wrong_value() {
    let server = sales_of("id int NOT NULL PRIMARY KEY, v int NULL, d decimal(9,2) NULL").await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (1, 7, 1.5)").await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    let mut running = Running::start(&project, &[]);
    running.until_type("batch");
    server
        .exec(
            "sales",
            "ALTER TABLE dbo.t ALTER COLUMN d decimal(18,4) NULL; INSERT INTO dbo.t VALUES (2, 8, 1.2345)",
        )
        .await;
    let failed = running.until_type("failed");
    let text = failed["error"].as_str().expect("an error");
    assert!(text.contains("dbo_t") || text.contains("column d"), "{text}");
    let rows = rows_of(&project.bronze("dbo_t"), &ORDER).expect("rows");
    assert_eq!(rows.texts("d"), [Some("1.50".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_changes_between_the_look_and_the_read_writes_no_wrong_value() {
    let (stops, goes_on) = (5, 0);
    for (was, is, [first, second], code) in [
        ("decimal(9,2)", "decimal(18,4)", ["1.50", "2.25"], stops),
        ("int", "bigint", ["1", "2"], stops),
        ("nvarchar(20)", "nvarchar(50)", ["one", "two"], goes_on),
    ] {
        let server = Server::start(&[]);
        server.database("sales").await;
        let columns = format!("id int NOT NULL PRIMARY KEY, v {was} NULL");
        server.table("sales", "t", &columns).await;
        let insert = async |id: u32, value: &str| {
            let sql = format!("INSERT INTO dbo.t VALUES ({id}, N'{value}')");
            server.exec("sales", &sql).await;
        };
        let project = Project::new(&server, "sales").table("dbo_t", "");
        let values = || rows_of(&project.bronze("dbo_t"), &ORDER).expect("rows").texts("v");
        insert(1, first).await;
        project.once().ok();
        insert(2, second).await;
        // By then the stream has looked at the table, and planned the batch.
        let alter = format!("ALTER TABLE dbo.t ALTER COLUMN v {is} NULL");
        with_the_next_read(&server, "sql_before", &alter).await;
        let run = project.once();
        assert_eq!(run.code, code, "{was} to {is}: {}\n{}", run.stdout, run.stderr);
        if code == stops {
            assert_eq!(run.failure("dbo_t")["kind"], "schema_changed", "{was} to {is}");
            assert_eq!(values(), some(&[Some(first)]), "{was} to {is}");
            continue;
        }
        assert_eq!(values(), some(&[Some(first), Some(second)]), "{was} to {is}");
        let wider = "a text of more than twenty characters";
        insert(3, wider).await;
        project.once().ok();
        assert_eq!(
            values(),
            some(&[Some(first), Some(second), Some(wider)]),
            "{was} to {is}"
        );
    }
}
