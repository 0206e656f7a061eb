//! Every type, with its extremes, through a table and back.

use super::*;
use crate::{
    result::Param,
    value::{Length, SqlType},
};

#[test]
fn every_type_and_its_extremes_round_trip() {
    let e = engine();
    let mut s = admin(&e);
    let guid: [u8; 16] = std::array::from_fn(|i| i as u8 * 16);
    let max = Length::Max;
    let last_tick = 3_155_378_975_999_999_999;
    let big = 10_i128.pow(38) - 1;
    let cases: Vec<(&str, SqlType, Vec<Value>)> = vec![
        ("bit", SqlType::Bit, vec![int(0), int(1)]),
        ("tinyint", SqlType::TinyInt, vec![int(0), int(255)]),
        ("smallint", SqlType::SmallInt, vec![int(-32_768), int(32_767)]),
        (
            "int",
            SqlType::Int,
            vec![int(i64::from(i32::MIN)), int(i64::from(i32::MAX))],
        ),
        ("bigint", SqlType::BigInt, vec![int(i64::MIN), int(i64::MAX)]),
        (
            "real",
            SqlType::Real,
            vec![Value::Float(f64::from(f32::MAX)), Value::Float(-0.5)],
        ),
        (
            "float",
            SqlType::Float,
            vec![Value::Float(f64::MAX), Value::Float(f64::MIN_POSITIVE)],
        ),
        (
            "decimal(38,0)",
            SqlType::Decimal {
                precision: 38,
                scale: 0,
            },
            vec![Value::Decimal(big), Value::Decimal(-big)],
        ),
        (
            "decimal(38,38)",
            SqlType::Decimal {
                precision: 38,
                scale: 38,
            },
            vec![Value::Decimal(big), Value::Decimal(-big)],
        ),
        (
            "money",
            SqlType::Money,
            vec![
                Value::Decimal(i128::from(i64::MAX)),
                Value::Decimal(i128::from(i64::MIN)),
            ],
        ),
        (
            "smallmoney",
            SqlType::SmallMoney,
            vec![
                Value::Decimal(i128::from(i32::MAX)),
                Value::Decimal(i128::from(i32::MIN)),
            ],
        ),
        ("date", SqlType::Date, vec![Value::Date(0), Value::Date(3_652_058)]),
        (
            "time(7)",
            SqlType::Time(7),
            vec![Value::Time(0), Value::Time(863_999_999_999)],
        ),
        (
            "datetime",
            SqlType::DateTime,
            vec![Value::DateTime(3_155_378_975_999_970_000)],
        ),
        (
            "smalldatetime",
            SqlType::SmallDateTime,
            vec![Value::DateTime(599_266_080_000_000_000)],
        ),
        (
            "datetime2(7)",
            SqlType::DateTime2(7),
            vec![Value::DateTime(0), Value::DateTime(last_tick)],
        ),
        (
            "datetime2(3)",
            SqlType::DateTime2(3),
            vec![Value::DateTime(last_tick - 9_999)],
        ),
        (
            "datetimeoffset(7)",
            SqlType::DateTimeOffset(7),
            vec![Value::DateTimeOffset(12, -840)],
        ),
        ("char(4)", SqlType::Char(4), vec![text("ab  ")]),
        (
            "varchar(10)",
            SqlType::VarChar(Length::Limited(10)),
            vec![text("é€"), text("")],
        ),
        ("varchar(max)", SqlType::VarChar(max), vec![text(&"x".repeat(20_000))]),
        ("nchar(3)", SqlType::NChar(3), vec![text("a😀")]),
        (
            "nvarchar(4)",
            SqlType::NVarChar(Length::Limited(4)),
            vec![text("😀😀"), text("a'b ")],
        ),
        ("nvarchar(max)", SqlType::NVarChar(max), vec![text(&"漢".repeat(9_000))]),
        ("binary(3)", SqlType::Binary(3), vec![Value::Bytes(vec![0, 255, 0])]),
        (
            "varbinary(4)",
            SqlType::VarBinary(Length::Limited(4)),
            vec![Value::Bytes(vec![]), Value::Bytes(vec![1, 0])],
        ),
        (
            "varbinary(max)",
            SqlType::VarBinary(max),
            vec![Value::Bytes(vec![7; 10_000])],
        ),
        ("uniqueidentifier", SqlType::UniqueIdentifier, vec![Value::Guid(guid)]),
    ];
    for (i, (name, ty, values)) in cases.iter().enumerate() {
        ok(
            &mut s,
            &format!("CREATE TABLE t{i} (id int PRIMARY KEY, v {name} NULL)"),
        );
        ok(&mut s, &format!("INSERT t{i} VALUES (0, NULL)"));
        for (at, value) in values.iter().enumerate() {
            let param = Param {
                name: "@v".into(),
                ty: *ty,
                value: value.clone(),
            };
            let mut answers = Answers::default();
            let sql = format!(
                "INSERT t{i} VALUES ({}, @v); SELECT COUNT(*) FROM t{i} WHERE v = @v; SELECT v FROM t{i} WHERE id = {}",
                at + 1,
                at + 1
            );
            s.execute(&sql, &[param], &mut answers).unwrap();
            assert!(answers.errors.is_empty(), "{name} {:?}", answers.errors);
            assert_eq!(answers.sets[0][0][0], int(1), "{name}");
            assert_eq!(answers.columns[1][0].ty, *ty, "{name}");
            assert_eq!(answers.sets[1][0][0], *value, "{name}");
        }
        assert_eq!(one(&mut s, &format!("SELECT v FROM t{i} WHERE id = 0")), Value::Null);
    }
}

#[test]
fn literals_take_the_columns_type() {
    let e = engine();
    let mut s = admin(&e);
    ok(
        &mut s,
        "CREATE TABLE t (m money, d decimal(9,3), b varbinary(10), f float, dt datetime2(0), g uniqueidentifier, n nvarchar(5))",
    );
    ok(
        &mut s,
        "INSERT t VALUES (-922337203685477.5808, 1.0005, 0x00FF, 1e3, '2024-02-29 12:00:00.6', '00112233-4455-6677-8899-AABBCCDDEEFF', 12345)",
    );
    let row = &rows(&mut s, "SELECT * FROM t")[0];
    assert_eq!(row[0], Value::Decimal(i128::from(i64::MIN)));
    assert_eq!(row[1], Value::Decimal(1001));
    assert_eq!(row[2], Value::Bytes(vec![0, 255]));
    assert_eq!(row[3], Value::Float(1000.0));
    assert_eq!(row[6], text("12345"));
    assert_eq!(
        one(&mut s, "SELECT CONVERT(varchar(30), dt, 121) FROM t"),
        text("2024-02-29 12:00:01")
    );
    assert_eq!(
        one(&mut s, "SELECT CONVERT(varchar(36), g) FROM t"),
        text("00112233-4455-6677-8899-AABBCCDDEEFF")
    );
    assert_eq!(one(&mut s, "SELECT CONVERT(varchar(30), b, 1) FROM t"), text("0x00FF"));
    for (sql, number) in [
        ("INSERT t (m) VALUES (922337203685477.5808)", 8115),
        ("INSERT t (d) VALUES (1000000)", 8115),
        ("INSERT t (b) VALUES ('abc')", 257),
        ("INSERT t (dt) VALUES (5)", 206),
        ("INSERT t (dt) VALUES ('nope')", 241),
        ("INSERT t (n) VALUES (N'123456')", 2628),
        ("INSERT t (g) VALUES ('x')", 8169),
        ("INSERT t (d) VALUES ('x')", 8114),
    ] {
        assert_eq!(error(&mut s, sql), number, "{sql}");
    }
}

#[test]
fn functions_answer_as_there() {
    let e = engine();
    let mut s = admin(&e);
    for (sql, value) in [
        ("LEN(N'a😀 ')", int(3)),
        ("DATALENGTH(N'ab')", int(4)),
        ("UPPER('é')", text("É")),
        ("SUBSTRING('hello', 2, 3)", text("ell")),
        ("SUBSTRING(0x010203, 2, 1)", Value::Bytes(vec![2])),
        ("LEFT('hello', 2) + RIGHT('hello', 1)", text("heo")),
        ("REPLACE('aXa', 'A', 'b')", text("bXb")),
        ("CHARINDEX('L', 'hello')", int(3)),
        ("CONCAT('a', NULL, 1, CAST(1.50 AS decimal(5,2)))", text("a11.50")),
        ("REPLICATE('ab', 3)", text("ababab")),
        ("LTRIM('  a ')", text("a ")),
        ("ISNULL(NULL, 'x')", text("x")),
        ("COALESCE(NULL, NULL, 3)", int(3)),
        ("NULLIF(1, 1)", Value::Null),
        ("IIF(1 < 2, 'y', 'n')", text("y")),
        ("ABS(-5)", int(5)),
        ("ROUND(CAST(2.345 AS decimal(5,3)), 2)", Value::Decimal(2350)),
        ("FLOOR(-1.5)", Value::Decimal(-2)),
        ("CEILING(1.2)", Value::Decimal(2)),
        ("7 / 2", int(3)),
        ("7 % 4", int(3)),
        ("YEAR('2024-05-06')", int(2024)),
        ("DATEDIFF(day, '2024-01-01', '2024-03-01')", int(60)),
        ("DATEPART(weekday, CAST('2024-02-09' AS date))", int(6)),
        (
            "CONVERT(varchar(20), DATEADD(month, 1, CAST('2024-01-31' AS date)), 112)",
            text("20240229"),
        ),
        (
            "CONVERT(varchar(30), CAST('2024-01-31 10:00' AS datetime), 126)",
            text("2024-01-31T10:00:00"),
        ),
        ("DB_NAME()", text("shop")),
        ("SUSER_SNAME()", text("sa")),
        ("USER_NAME()", text("dbo")),
        ("CAST(SERVERPROPERTY('EngineEdition') AS int)", int(3)),
        (
            "CAST(SERVERPROPERTY('ProductMajorVersion') AS nvarchar(10))",
            text("16"),
        ),
        ("HAS_DBACCESS('shop')", int(1)),
        ("TRY_CAST('x' AS int)", Value::Null),
        ("UNICODE(NCHAR(55357))", int(55_357)),
        ("DATALENGTH(NCHAR(55357))", int(2)),
        ("UNICODE(NCHAR(55357) + N'x')", int(55_357)),
        ("UNICODE(N'漢')", int(28_450)),
        ("CAST(0x0A AS int)", int(10)),
        ("CURRENT_TIMEZONE_ID()", text("UTC")),
        ("CASE 3 WHEN 1 THEN 'a' WHEN 3 THEN 'c' END", text("c")),
        ("-5", int(-5)),
        ("CAST(2147483648 AS bigint)", int(2_147_483_648)),
    ] {
        assert_eq!(one(&mut s, &format!("SELECT {sql}")), value, "{sql}");
    }
    assert_eq!(one(&mut s, "SELECT DATEDIFF(second, GETDATE(), SYSDATETIME())"), int(0));
    assert!(matches!(one(&mut s, "SELECT NEWID()"), Value::Guid(_)));
    let old = Engine::open(EngineOptions {
        version: crate::ServerVersion::V2019,
        ..options()
    })
    .unwrap();
    assert_eq!(error(&mut admin(&old), "SELECT CURRENT_TIMEZONE_ID()"), 195);
}
