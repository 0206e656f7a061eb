//! The whole table of types, at both ends, with NULL, in columns that may and that may not be NULL.

use serde_json::Value;

use super::{ORDER, some};
use crate::harness::{Project, Server, commits, rows_of, sales_of};

/// A type of SQL Server, the Delta type that it gets, two literals, and what they are in bronze.
struct Type {
    sql: &'static str,
    delta: &'static str,
    literals: [&'static str; 2],
    expected: [&'static str; 2],
}

const fn ty(sql: &'static str, delta: &'static str, literals: [&'static str; 2], expected: [&'static str; 2]) -> Type {
    Type {
        sql,
        delta,
        literals,
        expected,
    }
}

const NTZ: &str = "timestamp_ntz";
const MONEY: &str = "decimal(19,4)";
const NINES: &str = "99999999999999999999999999999999999999";
const MINUS_NINES: &str = "-99999999999999999999999999999999999999";

const TYPES: &[Type] = &[
    ty("bit", "boolean", ["1", "0"], ["true", "false"]),
    ty("tinyint", "short", ["255", "0"], ["255", "0"]),
    ty("tinyint", "short", ["200", "127"], ["200", "127"]),
    ty("smallint", "short", ["32767", "-32768"], ["32767", "-32768"]),
    ty(
        "int",
        "integer",
        ["2147483647", "-2147483648"],
        ["2147483647", "-2147483648"],
    ),
    ty(
        "bigint",
        "long",
        ["9223372036854775807", "-9223372036854775808"],
        ["9223372036854775807", "-9223372036854775808"],
    ),
    ty("real", "float", ["3.4028235E38", "-0.25"], ["3.4028235e38", "-0.25"]),
    ty(
        "float",
        "double",
        ["1.7976931348623157E308", "5E-324"],
        ["1.7976931348623157e308", "5e-324"],
    ),
    ty(
        "decimal(38,10)",
        "decimal(38,10)",
        [
            "9999999999999999999999999999.9999999999",
            "-9999999999999999999999999999.9999999999",
        ],
        [
            "9999999999999999999999999999.9999999999",
            "-9999999999999999999999999999.9999999999",
        ],
    ),
    ty(
        "decimal(38,0)",
        "decimal(38,0)",
        [NINES, MINUS_NINES],
        [NINES, MINUS_NINES],
    ),
    ty(
        "decimal(38,38)",
        "decimal(38,38)",
        [
            "0.99999999999999999999999999999999999999",
            "-0.00000000000000000000000000000000000001",
        ],
        [
            "0.99999999999999999999999999999999999999",
            "-0.00000000000000000000000000000000000001",
        ],
    ),
    ty(
        "decimal(9,2)",
        "decimal(9,2)",
        ["9999999.99", "-0.01"],
        ["9999999.99", "-0.01"],
    ),
    ty(
        "numeric(19,4)",
        MONEY,
        ["999999999999999.9999", "0"],
        ["999999999999999.9999", "0.0000"],
    ),
    ty(
        "money",
        MONEY,
        ["922337203685477.5807", "-922337203685477.5808"],
        ["922337203685477.5807", "-922337203685477.5808"],
    ),
    ty("money", MONEY, ["0.0001", "0"], ["0.0001", "0.0000"]),
    ty("money", MONEY, ["-0.0001", "214748.3648"], ["-0.0001", "214748.3648"]),
    ty(
        "smallmoney",
        "decimal(10,4)",
        ["214748.3647", "-214748.3648"],
        ["214748.3647", "-214748.3648"],
    ),
    ty(
        "date",
        "date",
        ["'9999-12-31'", "'0001-01-01'"],
        ["9999-12-31", "0001-01-01"],
    ),
    ty(
        "datetime",
        NTZ,
        ["'9999-12-31T23:59:59.997'", "'1753-01-01T00:00:00.003'"],
        ["9999-12-31T23:59:59.997", "1753-01-01T00:00:00.003"],
    ),
    ty(
        "smalldatetime",
        NTZ,
        ["'2079-06-06T23:59:00'", "'1900-01-01T00:00:00'"],
        ["2079-06-06T23:59:00", "1900-01-01T00:00:00"],
    ),
    // Cut at the microsecond: never into the next day.
    ty(
        "datetime2(7)",
        NTZ,
        ["'9999-12-31T23:59:59.9999999'", "'0001-01-01T00:00:00.0000001'"],
        ["9999-12-31T23:59:59.999999", "0001-01-01T00:00:00"],
    ),
    ty(
        "datetime2(0)",
        NTZ,
        ["'9999-12-31T23:59:59'", "'0001-01-01T00:00:00'"],
        ["9999-12-31T23:59:59", "0001-01-01T00:00:00"],
    ),
    ty(
        "datetimeoffset(7)",
        "timestamp",
        [
            "'9999-12-31T23:59:59.9999999+14:00'",
            "'0001-01-01T00:00:00.0000001-14:00'",
        ],
        ["9999-12-31T09:59:59.999999Z", "0001-01-01T14:00:00Z"],
    ),
    ty(
        "datetimeoffset(3)",
        "timestamp",
        ["'0001-01-01T14:00:00+14:00'", "'9999-12-31T09:59:59.999-14:00'"],
        ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"],
    ),
    ty(
        "time(0)",
        "string",
        ["'23:59:59'", "'00:00:00'"],
        ["23:59:59", "00:00:00"],
    ),
    ty(
        "time(1)",
        "string",
        ["'23:59:59.9'", "'00:00:00.1'"],
        ["23:59:59.9", "00:00:00.1"],
    ),
    ty(
        "time(2)",
        "string",
        ["'23:59:59.99'", "'00:00:00.01'"],
        ["23:59:59.99", "00:00:00.01"],
    ),
    ty(
        "time(3)",
        "string",
        ["'23:59:59.999'", "'00:00:00.001'"],
        ["23:59:59.999", "00:00:00.001"],
    ),
    ty(
        "time(4)",
        "string",
        ["'23:59:59.9999'", "'00:00:00'"],
        ["23:59:59.9999", "00:00:00.0000"],
    ),
    ty(
        "time(5)",
        "string",
        ["'23:59:59.99999'", "'00:00:00'"],
        ["23:59:59.99999", "00:00:00.00000"],
    ),
    ty(
        "time(6)",
        "string",
        ["'23:59:59.999999'", "'00:00:00'"],
        ["23:59:59.999999", "00:00:00.000000"],
    ),
    ty(
        "time(7)",
        "string",
        ["'23:59:59.9999999'", "'00:00:00.0000001'"],
        ["23:59:59.9999999", "00:00:00.0000001"],
    ),
    ty("char(4)", "string", ["'é€'", "''"], ["é€  ", "    "]),
    ty("varchar(20)", "string", ["'café €'", "''"], ["café €", ""]),
    ty("nchar(3)", "string", ["N'a😀'", "N''"], ["a😀", "   "]),
    ty("nvarchar(20)", "string", ["N'日本😀''\"'", "N' '"], ["日本😀'\"", " "]),
    ty("varchar(max)", "string", ["'é'", "''"], ["é", ""]),
    ty("nvarchar(max)", "string", ["N'日本😀'", "N''"], ["日本😀", ""]),
    ty("text", "string", ["'é€'", "''"], ["é€", ""]),
    ty("ntext", "string", ["N'日本😀'", "N''"], ["日本😀", ""]),
    ty(
        "xml",
        "string",
        ["N'<a b=\"1\">é😀</a>'", "N''"],
        ["<a b=\"1\">é😀</a>", ""],
    ),
    ty(
        "json",
        "string",
        ["N'{\"a\":[1,\"é😀\"]}'", "N'[]'"],
        ["{\"a\":[1,\"é😀\"]}", "[]"],
    ),
    ty(
        "vector(3)",
        "string",
        ["N'[1, -0.1, 1e30]'", "N'[0, 0, 0]'"],
        ["[1.0,-0.1,1e30]", "[0.0,0.0,0.0]"],
    ),
    ty(
        "uniqueidentifier",
        "string",
        [
            "'00112233-4455-6677-8899-aabbccddeeff'",
            "'6F9619FF-8B86-D011-B42D-00C04FC964FF'",
        ],
        [
            "00112233-4455-6677-8899-AABBCCDDEEFF",
            "6F9619FF-8B86-D011-B42D-00C04FC964FF",
        ],
    ),
    ty("binary(3)", "binary", ["0x00FF01", "0x0A"], ["00FF01", "0A0000"]),
    ty("varbinary(16)", "binary", ["0x00FF", "0x"], ["00FF", ""]),
    ty("varbinary(max)", "binary", ["0x00FF", "0x"], ["00FF", ""]),
    ty("image", "binary", ["0xFFD8FFE0", "0x"], ["FFD8FFE0", ""]),
];

/// Columns `c0`, `c1`, … of all types.
fn columns(nullability: &str) -> String {
    let list: Vec<String> = TYPES
        .iter()
        .enumerate()
        .map(|(at, ty)| format!("c{at} {} {nullability}", ty.sql))
        .collect();
    format!("id int NOT NULL PRIMARY KEY, {}", list.join(", "))
}

fn insert(table: &str, id: i32, literal: impl Fn(&Type) -> &'static str) -> String {
    let values: Vec<&str> = TYPES.iter().map(literal).collect();
    format!("INSERT INTO dbo.{table} VALUES ({id}, {})", values.join(", "))
}

/// The fields of a table's schema, by name.
fn schema(project: &Project, instance: &str) -> Vec<Value> {
    let text = commits(&project.bronze(instance))
        .into_iter()
        .flatten()
        .filter_map(|action| action["metaData"]["schemaString"].as_str().map(str::to_owned))
        .next_back()
        .expect("a schema");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    schema["fields"].as_array().expect("fields").clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_arrives_exactly_at_both_ends_and_as_null() {
    let server = Server::start(&[]);
    server.database("sales").await;
    server.table("sales", "may", &columns("NULL")).await;
    server.table("sales", "must", &columns("NOT NULL")).await;
    for table in ["may", "must"] {
        for row in 0..2 {
            server
                .exec("sales", &insert(table, row + 1, |ty| ty.literals[row as usize]))
                .await;
        }
    }
    server.exec("sales", &insert("may", 3, |_| "NULL")).await;
    let project = Project::new(&server, "sales")
        .table("dbo_may", "")
        .table("dbo_must", "");
    project.once().ok();
    for (instance, nulls) in [("dbo_may", true), ("dbo_must", false)] {
        let rows = rows_of(&project.bronze(instance), &ORDER).expect("rows");
        let fields = schema(&project, instance);
        for (at, ty) in TYPES.iter().enumerate() {
            let name = format!("c{at}");
            let mut expected = vec![Some(ty.expected[0]), Some(ty.expected[1])];
            expected.extend(nulls.then_some(None));
            assert_eq!(rows.texts(&name), some(&expected), "{} of {instance}", ty.sql);
            let field = fields
                .iter()
                .find(|field| field["name"] == name.as_str())
                .expect("a field");
            assert_eq!(
                (&field["type"], &field["nullable"]),
                (&ty.delta.into(), &true.into()),
                "{}",
                ty.sql
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn long_values_arrive_whole_from_several_chunks_of_the_wire() {
    let server = sales_of(
        "id int NOT NULL PRIMARY KEY, v varchar(max) NULL, n nvarchar(max) NULL, b varbinary(max) NULL, \
             t text NULL, nt ntext NULL, i image NULL, x xml NULL, j json NULL",
    )
    .await;
    let (text, wide, hex) = ("é€x".repeat(9_000), "日😀x".repeat(9_000), "00FF41".repeat(9_000));
    server
        .exec(
            "sales",
            &format!(
                "INSERT INTO dbo.t VALUES (1, '{text}', N'{wide}', 0x{hex}, '{text}', N'{wide}', 0x{hex}, N'<a>{wide}</a>', N'\"{wide}\"')"
            ),
        )
        .await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    let rows = rows_of(&project.bronze("dbo_t"), &ORDER).expect("rows");
    let (xml, json) = (format!("<a>{wide}</a>"), format!("\"{wide}\""));
    for (column, expected) in [
        ("v", &text),
        ("n", &wide),
        ("b", &hex),
        ("t", &text),
        ("nt", &wide),
        ("i", &hex),
        ("x", &xml),
        ("j", &json),
    ] {
        assert!(rows.texts(column) == [Some(expected.clone())], "column {column}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_version_is_eight_bytes_that_change_with_every_update() {
    let server = sales_of("id int NOT NULL PRIMARY KEY, v int NULL, rv rowversion").await;
    server
        .exec(
            "sales",
            "INSERT INTO dbo.t (id, v) VALUES (1, 1); UPDATE dbo.t SET v = 2 WHERE id = 1",
        )
        .await;
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    let rows = rows_of(&project.bronze("dbo_t"), &ORDER).expect("rows");
    assert_eq!(rows.numbers("_operation"), [2, 3, 4]);
    let versions: Vec<String> = rows.texts("rv").into_iter().flatten().collect();
    assert!(versions.iter().all(|version| version.len() == 16), "{versions:?}");
    assert_eq!(versions[0], versions[1]);
    assert!(versions[2] > versions[1], "{versions:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_null_in_a_column_with_a_default_is_null() {
    let server = sales_of("id int NOT NULL PRIMARY KEY, n int NULL DEFAULT 7").await;
    for statement in [
        "INSERT INTO dbo.t VALUES (1, NULL)",
        "INSERT INTO dbo.t (id) VALUES (2)",
        "UPDATE dbo.t SET n = NULL WHERE id = 2",
        "UPDATE dbo.t SET n = DEFAULT WHERE id = 1",
    ] {
        server.exec("sales", statement).await;
    }
    let project = Project::new(&server, "sales").table("dbo_t", "");
    project.once().ok();
    let rows = rows_of(&project.bronze("dbo_t"), &ORDER).expect("rows");
    assert_eq!(rows.numbers("_operation"), [2, 2, 3, 4, 3, 4]);
    let seven = Some("7");
    assert_eq!(rows.texts("n"), some(&[None, seven, seven, None, None, seven]));
}
