//! Text of every code page, and text that is not valid in its own.

use super::{ORDER, some};
use crate::harness::{Project, Server, rows_of, sales_of};

const COLLATIONS: [(&str, &str); 20] = [
    ("SQL_Latin1_General_CP1_CI_AS", "café €"),
    ("SQL_Latin1_General_CP437_CI_AS", "é√Ω│"),
    ("SQL_Latin1_General_CP850_CI_AS", "éÐÞ§"),
    ("SQL_Latin1_General_CP1250_CS_AS", "łąž"),
    ("Polish_CI_AS", "Żółć"),
    ("Hungarian_Technical_CI_AS", "őű"),
    ("Cyrillic_General_CI_AS", "Привет"),
    ("Greek_CI_AS", "Ωμέγα"),
    ("Turkish_CI_AS", "ğışİ"),
    ("Hebrew_CI_AS", "שלום"),
    ("Arabic_CI_AS", "سلام"),
    ("Lithuanian_CI_AS", "ąčęė"),
    ("Vietnamese_CI_AS", "ăâđơư"),
    ("Thai_CI_AS", "สวัสดี"),
    ("Japanese_CI_AS", "日本語ｶﾅ"),
    ("Japanese_Unicode_CI_AS", "日本"),
    ("Chinese_PRC_Stroke_CI_AS", "中文"),
    ("Korean_Wansung_CI_AS", "한국어"),
    ("Chinese_Taiwan_Bopomofo_CI_AS", "繁體"),
    ("Latin1_General_100_CI_AS_SC_UTF8", "é日😀"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_code_page_is_read_in_its_own_characters() {
    let server = Server::start(&[]);
    server.database("sales").await;
    let columns: Vec<String> = COLLATIONS
        .iter()
        .enumerate()
        .map(|(at, (collation, _))| {
            let ty = ["varchar(40)", "char(20)", "text", "varchar(max)"][at % 4];
            format!("c{at} {ty} COLLATE {collation} NULL")
        })
        .collect();
    server
        .table(
            "sales",
            "t",
            &format!("id int NOT NULL PRIMARY KEY, {}", columns.join(", ")),
        )
        .await;
    let values: Vec<String> = COLLATIONS.iter().map(|(_, text)| format!("N'{text}'")).collect();
    server
        .exec("sales", &format!("INSERT INTO dbo.t VALUES (1, {})", values.join(", ")))
        .await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    let run = project.once().ok();
    assert!(run.warnings().is_empty(), "{}", run.stdout);
    let rows = rows_of(&project.bronze("dbo_t"), &ORDER).expect("rows");
    for (at, (collation, text)) in COLLATIONS.iter().enumerate() {
        let read = rows.texts(&format!("c{at}"));
        let read = read[0].as_deref().expect("a text");
        assert_eq!(read.trim_end_matches(' '), *text, "{collation}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_valid_is_replaced_counted_and_told_by_column() {
    let server = sales_of(
        "code varchar(10) COLLATE Latin1_General_100_BIN2_UTF8 NOT NULL PRIMARY KEY, \
             wide nvarchar(10) NULL, jp varchar(10) COLLATE Japanese_CI_AS NULL, fine nvarchar(10) NULL",
    )
    .await;
    // Half a pair, a lead byte without its trail byte, and bytes that UTF-8 does not have: binary that is stored as text.
    server
        .exec(
            "sales",
            "INSERT INTO dbo.t VALUES ('a', 0x610000D8, 0x4182, N'日'); INSERT INTO dbo.t VALUES ('b', 0x00DC6200, 'x', N'b')",
        )
        .await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    let run = project.once().ok();
    let rows = rows_of(&project.bronze("dbo_t"), &ORDER).expect("rows");
    assert_eq!(rows.texts("wide"), some(&[Some("a\u{FFFD}"), Some("\u{FFFD}b")]));
    assert_eq!(rows.texts("jp"), some(&[Some("A\u{FFFD}"), Some("x")]));
    assert_eq!(rows.texts("fine"), some(&[Some("日"), Some("b")]));
    let warnings = run.warnings();
    let message = &warnings[0];
    assert!(
        message.contains("2 of column wide") && message.contains("1 of column jp") && !message.contains("fine"),
        "{message}"
    );
    assert!(!message.contains("key"), "{message}");
    assert_eq!(detail(&project), "replaced invalid text: wide 2, jp 1");

    server
        .exec(
            "sales",
            "INSERT INTO dbo.t (code) VALUES (0x63FF); INSERT INTO dbo.t (code) VALUES (0x63FE)",
        )
        .await;
    let run = project.once().ok();
    let warnings = run.warnings();
    let message = &warnings[0];
    assert!(
        message.contains(". Column code belongs to the table's key"),
        "{message}"
    );
    assert_eq!(detail(&project), "replaced invalid text: code 2");
    let rows = rows_of(&project.bronze("dbo_t"), &ORDER).expect("rows");
    assert_eq!(
        rows.texts("code"),
        some(&[Some("a"), Some("b"), Some("c\u{FFFD}"), Some("c\u{FFFD}")])
    );
}

/// What the facts say of the newest batch.
fn detail(project: &Project) -> String {
    let facts = rows_of(&project.lake().join("ops/ingestion_facts"), &["batch_id"]).expect("facts");
    let batches = facts.texts("batch_id");
    let details = facts.texts("detail");
    let newest = batches
        .iter()
        .zip(details)
        .filter(|(batch, _)| batch.is_some())
        .max_by_key(|(batch, _)| batch.as_ref().and_then(|batch| batch.parse::<i64>().ok()));
    newest.and_then(|(_, detail)| detail).unwrap_or_default()
}
