//! What CDC did not record is told apart from NULL.

use super::{ORDER, some};
use crate::harness::{Project, Server, rows_of, sales_of};

/// A row is made, changed in a short column, its long ones are cleared, and it goes.
async fn changes(server: &Server) {
    server.database("sales").await;
    server
        .table(
            "sales",
            "t",
            "id int NOT NULL PRIMARY KEY, name nvarchar(10) NULL, doc nvarchar(max) NULL, note text NULL, \
             bin varbinary(max) NULL, old image NULL",
        )
        .await;
    for statement in [
        "INSERT INTO dbo.t VALUES (1, N'a', N'doc', 'note', 0x01, 0x02)",
        "UPDATE dbo.t SET name = N'b' WHERE id = 1",
        "UPDATE dbo.t SET doc = NULL, note = NULL WHERE id = 1",
        "DELETE FROM dbo.t WHERE id = 1",
    ] {
        server.exec("sales", statement).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_value_that_was_not_recorded_is_not_a_cleared_one() {
    let server = Server::start(&[]);
    changes(&server).await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    let rows = rows_of(&project.bronze("dbo_t"), &ORDER).expect("rows");
    assert_eq!(rows.numbers("_operation"), [2, 3, 4, 3, 4, 1]);
    let doc = Some("doc");
    assert_eq!(rows.texts("doc"), some(&[doc, None, doc, doc, None, None]));
    let note = Some("note");
    assert_eq!(rows.texts("note"), some(&[note, None, note, None, None, None]));
    assert_eq!(
        rows.texts("bin"),
        some(&[Some("01"), None, Some("01"), None, Some("01"), Some("01")])
    );
    assert_eq!(
        rows.texts("old"),
        some(&[Some("02"), None, Some("02"), None, Some("02"), None])
    );
    assert_eq!(
        rows.texts("_omitted"),
        some(&[
            None,
            Some("[doc, note, bin, old]"),
            None,
            // The update changed doc: its old value was recorded. The old types never are.
            Some("[note, bin, old]"),
            // NULL here is what the source has.
            None,
            Some("[note, old]"),
        ])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_that_may_not_be_null_is_null_where_it_was_not_recorded() {
    let server = sales_of(
        "id int NOT NULL PRIMARY KEY, name nvarchar(10) NOT NULL, doc nvarchar(max) NOT NULL, note text NOT NULL",
    )
    .await;
    for statement in [
        "INSERT INTO dbo.t VALUES (1, N'a', N'doc', 'note')",
        "UPDATE dbo.t SET name = N'b' WHERE id = 1",
        "UPDATE dbo.t SET doc = N'more' WHERE id = 1",
        "DELETE FROM dbo.t WHERE id = 1",
    ] {
        server.exec("sales", statement).await;
    }
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    let rows = rows_of(&project.bronze("dbo_t"), &ORDER).expect("rows");
    assert_eq!(rows.numbers("_operation"), [2, 3, 4, 3, 4, 1]);
    let (doc, more, note) = (Some("doc"), Some("more"), Some("note"));
    assert_eq!(rows.texts("doc"), some(&[doc, None, doc, doc, more, more]));
    assert_eq!(rows.texts("note"), some(&[note, None, note, None, note, None]));
    assert_eq!(
        rows.texts("_omitted"),
        some(&[None, Some("[doc, note]"), None, Some("[note]"), None, Some("[note]")])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_computed_column_is_never_recorded() {
    let server = sales_of("id int NOT NULL PRIMARY KEY, a int NULL, twice AS a * 2, doc nvarchar(max) NULL").await;
    server
        .exec(
            "sales",
            "INSERT INTO dbo.t (id, a) VALUES (1, 4); UPDATE dbo.t SET a = 5 WHERE id = 1",
        )
        .await;
    assert_eq!(
        server.query("sales", "SELECT twice FROM dbo.t").await[0].get::<i32, _>(0),
        Some(10)
    );
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    let rows = rows_of(&project.bronze("dbo_t"), &ORDER).expect("rows");
    assert_eq!(rows.texts("twice"), some(&[None; 3]));
    assert_eq!(
        rows.texts("_omitted"),
        some(&[Some("[twice]"), Some("[twice, doc]"), Some("[twice]")])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_long_columns_has_no_such_column() {
    let server = sales_of("id int NOT NULL PRIMARY KEY, x xml NULL").await;
    server.exec("sales", "INSERT INTO dbo.t VALUES (1, NULL)").await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    let rows = rows_of(&project.bronze("dbo_t"), &ORDER).expect("rows");
    assert!(rows.batch.column_by_name("_omitted").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_those_of_bronze_and_an_older_table_gets_the_column() {
    let server = Server::start(&[]);
    changes(&server).await;
    let without = "on_transform_change = \"continue\"\n[[table.transform]]\nplugin = \"map\"\nconfig = { columns = { doc = { drop = true }, note = { drop = true }, bin = { drop = true }, old = { drop = true } } }\n";
    let mut project = Project::new(&server, "sales").table("dbo_t", without);
    project.once().ok();
    let rows = rows_of(&project.bronze("dbo_t"), &ORDER).expect("rows");
    assert!(
        rows.batch.column_by_name("_omitted").is_none(),
        "nothing of it can be lacking"
    );

    project.edit(
        "doc = { drop = true }, note = { drop = true }",
        "doc = { rename = \"document\" }, note = { drop = true }",
    );
    server
        .exec(
            "sales",
            "INSERT INTO dbo.t VALUES (2, N'a', N'doc', 'note', 0x01, 0x02)",
        )
        .await;
    server.exec("sales", "UPDATE dbo.t SET name = N'b' WHERE id = 2").await;
    project.once().ok();
    let fields = crate::harness::commits(&project.bronze("dbo_t"))
        .into_iter()
        .flatten()
        .filter_map(|action| action["metaData"]["schemaString"].as_str().map(str::to_owned))
        .next_back()
        .expect("a schema");
    let fields: serde_json::Value = serde_json::from_str(&fields).expect("JSON");
    let names: Vec<&str> = fields["fields"]
        .as_array()
        .expect("fields")
        .iter()
        .filter_map(|field| field["name"].as_str())
        .collect();
    assert_eq!(
        names[names.len() - 4..],
        ["_batch_id", "_snapshot", "_chunk", "_omitted"]
    );
    let newest = crate::harness::files_under(&project.bronze("dbo_t"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "parquet"))
        .max_by_key(|path| path.metadata().and_then(|data| data.modified()).expect("a time"))
        .expect("a file");
    let rows = parquet_rows(&newest);
    assert_eq!(rows.numbers("_operation"), [2, 3, 4]);
    assert_eq!(rows.texts("document"), some(&[Some("doc"), None, Some("doc")]));
    assert_eq!(rows.texts("_omitted"), some(&[None, Some("[document]"), None]));
}

/// The rows of one file, as they stand in it.
fn parquet_rows(path: &std::path::Path) -> crate::harness::Rows {
    let file = std::fs::File::open(path).expect("the file");
    let batches: Vec<_> = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file)
        .expect("Parquet")
        .build()
        .expect("a reader")
        .map(|batch| batch.expect("a batch"))
        .collect();
    crate::harness::Rows {
        batch: arrow::compute::concat_batches(&batches[0].schema(), &batches).expect("one schema"),
    }
}
