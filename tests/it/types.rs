//! Every type of this version crosses from SQL Server to Delta exactly, with its NULL and its extremes.

use crate::harness::{Project, Server, rows_of};

const COLUMNS: &str = "id int NOT NULL PRIMARY KEY, b bit NULL, i int NULL, big bigint NULL, dec38 decimal(38,10) NULL, \
     dec9 decimal(9,2) NULL, m money NULL, f float NULL, d date NULL, t7 datetime2(7) NULL, t0 datetime2(0) NULL, \
     n nvarchar(50) NULL, nmax nvarchar(max) NULL, v varchar(50) NULL, bin varbinary(16) NULL, g uniqueidentifier NULL";

#[tokio::test(flavor = "multi_thread")]
async fn extremes_and_nulls_arrive_exactly() {
    let server = Server::start(&[]);
    server.database("sales").await;
    server.table("sales", "t", COLUMNS).await;
    server
        .exec(
            "sales",
            "INSERT INTO dbo.t VALUES
             (1, 1, 2147483647, 9223372036854775807, 9999999999999999999999999999.9999999999, 9999999.99,
              922337203685477.5807, 1.7976931348623157E308, '9999-12-31', '9999-12-31T23:59:59.9999999',
              '9999-12-31T23:59:59', N'日本😀''\"', N'', 'caf\u{e9} \u{20ac}', 0x00FF, '00112233-4455-6677-8899-AABBCCDDEEFF'),
             (2, 0, -2147483648, -9223372036854775808, -9999999999999999999999999999.9999999999, -9999999.99,
              -922337203685477.5808, -1.7976931348623157E308, '0001-01-01', '0001-01-01T00:00:00.0000001',
              '0001-01-01T00:00:00', N' ', N'x', '', 0x, 'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF'),
             (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
             (4, 1, 0, 0, 0.0000000001, -0.01, 0.0001, 5E-324, '2000-02-29', '2000-02-29T16:26:36.3871234',
              '2000-02-29T16:26:37', N'o''brien', N'a', 'a', 0x01, '6F9619FF-8B86-D011-B42D-00C04FC964FF')",
        )
        .await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    let rows = rows_of(&project.bronze("dbo_t"), &["_start_lsn", "_command_id", "_seqval"]).expect("rows");
    assert_eq!(rows.numbers("id"), [1, 2, 3, 4]);
    let expected: [(&str, [Option<&str>; 4]); 15] = [
        ("b", [Some("true"), Some("false"), None, Some("true")]),
        ("i", [Some("2147483647"), Some("-2147483648"), None, Some("0")]),
        (
            "big",
            [
                Some("9223372036854775807"),
                Some("-9223372036854775808"),
                None,
                Some("0"),
            ],
        ),
        (
            "dec38",
            [
                Some("9999999999999999999999999999.9999999999"),
                Some("-9999999999999999999999999999.9999999999"),
                None,
                Some("0.0000000001"),
            ],
        ),
        ("dec9", [Some("9999999.99"), Some("-9999999.99"), None, Some("-0.01")]),
        (
            "m",
            [
                Some("922337203685477.5807"),
                Some("-922337203685477.5808"),
                None,
                Some("0.0001"),
            ],
        ),
        (
            "f",
            [
                Some("1.7976931348623157e308"),
                Some("-1.7976931348623157e308"),
                None,
                Some("5e-324"),
            ],
        ),
        ("d", [Some("9999-12-31"), Some("0001-01-01"), None, Some("2000-02-29")]),
        // Truncated to the microsecond: never into the next day.
        (
            "t7",
            [
                Some("9999-12-31T23:59:59.999999"),
                Some("0001-01-01T00:00:00"),
                None,
                Some("2000-02-29T16:26:36.387123"),
            ],
        ),
        (
            "t0",
            [
                Some("9999-12-31T23:59:59"),
                Some("0001-01-01T00:00:00"),
                None,
                Some("2000-02-29T16:26:37"),
            ],
        ),
        ("n", [Some("日本😀'\""), Some(" "), None, Some("o'brien")]),
        ("nmax", [Some(""), Some("x"), None, Some("a")]),
        ("v", [Some("café €"), Some(""), None, Some("a")]),
        ("bin", [Some("00FF"), Some(""), None, Some("01")]),
        (
            "g",
            [
                Some("00112233-4455-6677-8899-AABBCCDDEEFF"),
                Some("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"),
                None,
                Some("6F9619FF-8B86-D011-B42D-00C04FC964FF"),
            ],
        ),
    ];
    for (column, values) in expected {
        let values: Vec<Option<String>> = values.into_iter().map(|value| value.map(str::to_owned)).collect();
        assert_eq!(rows.texts(column), values, "column {column}");
    }
}

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
