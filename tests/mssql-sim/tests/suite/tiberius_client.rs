//! tiberius 0.13.

use std::time::{Duration, Instant};

use futures::TryStreamExt;
use tiberius::numeric::Numeric;
use tiberius::{AuthMethod, ColumnData, EncryptionLevel, Query, QueryItem, Row};

use crate::every_type::{self, Column, date_text, offset_text, time_text, with_scale};
use crate::harness::{PASSWORD, Sim, USER, connect};

/// tiberius hands money over as f64, which cannot hold its ends, and knows of no collations in UTF-8.
fn adjust(column: &Column, expected: String) -> String {
    match column.ty {
        "money" | "smallmoney" => expected.parse::<f64>().unwrap().to_string(),
        "json" => every_type::in_code_page_1252(&expected),
        _ => expected,
    }
}

fn text(value: &ColumnData<'_>, ty: &str) -> Option<String> {
    match value {
        ColumnData::U8(value) => value.map(|value| value.to_string()),
        ColumnData::I16(value) => value.map(|value| value.to_string()),
        ColumnData::I32(value) => value.map(|value| value.to_string()),
        ColumnData::I64(value) => value.map(|value| value.to_string()),
        ColumnData::F32(value) => value.map(|value| value.to_string()),
        ColumnData::F64(value) if ty == "float" => value.map(|value| {
            if value.abs() > 1e300 {
                format!("{value:e}")
            } else {
                value.to_string()
            }
        }),
        ColumnData::F64(value) => value.map(|value| value.to_string()),
        ColumnData::Bit(value) => value.map(|value| u8::from(value).to_string()),
        ColumnData::String(value) => value.as_ref().map(|value| value.to_string()),
        ColumnData::Guid(value) => value.map(|value| value.to_string().to_uppercase()),
        ColumnData::Binary(value) => value
            .as_ref()
            .map(|value| value.iter().map(|byte| format!("{byte:02X}")).collect()),
        ColumnData::Numeric(value) => value.map(|value| with_scale(value.value(), value.scale())),
        ColumnData::Date(value) => value.map(|value| date_text(value.days())),
        ColumnData::Time(value) => {
            value.map(|value| time_text(value.increments() * 10_u64.pow(7 - u32::from(value.scale()))))
        }
        ColumnData::DateTime2(value) => value.map(|value| {
            let time = value.time();
            let units = time.increments() * 10_u64.pow(7 - u32::from(time.scale()));
            format!("{} {}", date_text(value.date().days()), time_text(units))
        }),
        ColumnData::DateTimeOffset(value) => value.map(|value| {
            let (date, time) = (value.datetime2().date(), value.datetime2().time());
            let units = time.increments() * 10_u64.pow(7 - u32::from(time.scale()));
            offset_text(date.days(), units, value.offset())
        }),
        ColumnData::Xml(value) => value.as_ref().map(|value| value.to_string()),
        ColumnData::DateTime(value) => value.map(|value| {
            let days = u32::try_from(value.days() + 693_595).unwrap();
            let milliseconds = (u64::from(value.seconds_fragments()) * 10 + 1) / 3;
            let time = time_text(milliseconds * 10_000);
            format!("{} {}", date_text(days), &time[..time.len() - 4])
        }),
        ColumnData::SmallDateTime(value) => value.map(|value| {
            let time = time_text(u64::from(value.seconds_fragments()) * 600_000_000);
            format!("{} {}", date_text(u32::from(value.days()) + 693_595), &time[..8])
        }),
    }
}

fn texts(row: &Row) -> Vec<Option<String>> {
    row.cells()
        .zip(every_type::COLUMNS)
        .map(|((_, value), column)| text(value, column.ty))
        .collect()
}

#[tokio::test]
async fn it_reads_every_type() {
    let sim = Sim::with_probe();
    sim.script(&format!("USE probe\nGO\n{}", every_type::create_script()));
    let mut client = sim.tiberius("probe").await;
    for (table, nullable) in [("every_type", true), ("every_type_nn", false)] {
        // As a batch, and as sp_executesql.
        let select = every_type::select(table);
        let rows = client
            .simple_query(&select)
            .await
            .unwrap()
            .into_first_result()
            .await
            .unwrap();
        every_type::check(&rows.iter().map(texts).collect::<Vec<_>>(), nullable, adjust);
        let rows = client
            .query(&select, &[])
            .await
            .unwrap()
            .into_first_result()
            .await
            .unwrap();
        every_type::check(&rows.iter().map(texts).collect::<Vec<_>>(), nullable, adjust);
    }
    let rows = client
        .simple_query(every_type::SELECT_VERSIONS)
        .await
        .unwrap()
        .into_first_result()
        .await
        .unwrap();
    every_type::check_versions(&rows.iter().map(texts).collect::<Vec<_>>());
}

#[tokio::test]
async fn logins_fail_as_they_should_over_every_kind_of_tls() {
    let sim = Sim::start();
    for level in [
        EncryptionLevel::Required,
        EncryptionLevel::On,
        EncryptionLevel::Off,
        EncryptionLevel::NotSupported,
    ] {
        let mut config = sim.config("master");
        config.encryption(level);
        config.authentication(AuthMethod::sql_server(USER, "wrong"));
        assert_eq!(
            connect(config.clone()).await.unwrap_err().code(),
            Some(18456),
            "{level:?}"
        );
        config.authentication(AuthMethod::sql_server("nobody", PASSWORD));
        assert_eq!(
            connect(config.clone()).await.unwrap_err().code(),
            Some(18456),
            "{level:?}"
        );
        config.authentication(AuthMethod::sql_server(USER, PASSWORD));
        config.database("nowhere");
        let error = connect(config.clone()).await.unwrap_err();
        assert!(matches!(error.code(), Some(4060 | 18456)), "{level:?}: {error}");
        config.database("master");
        let mut client = connect(config).await.unwrap();
        let row = client
            .simple_query("SELECT DB_NAME()")
            .await
            .unwrap()
            .into_row()
            .await
            .unwrap()
            .unwrap();
        assert_eq!(row.get::<&str, _>(0), Some("master"));
    }
}

#[tokio::test]
async fn strict_encryption_works_and_an_untrusted_certificate_does_not() {
    let sim = Sim::start();
    let mut config = sim.config("master");
    config.encryption(EncryptionLevel::Strict);
    let mut client = connect(config).await.unwrap();
    let row = client
        .simple_query("SELECT 1")
        .await
        .unwrap()
        .into_row()
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.get::<i32, _>(0), Some(1));

    let other = Sim::start();
    connect(other.config("master")).await.unwrap();
    let mut config = tiberius::Config::new();
    config.host("127.0.0.1");
    config.port(sim.port());
    config.authentication(AuthMethod::sql_server(USER, PASSWORD));
    config.trust_cert_ca(other.certificate().display());
    assert!(
        connect(config).await.is_err(),
        "the other server's certificate is no proof of this one"
    );
}

#[tokio::test]
async fn parameters_of_every_kind_come_back() {
    let sim = Sim::with_probe();
    let mut client = sim.tiberius("probe").await;
    let create = "CREATE TABLE dbo.p (id int NOT NULL PRIMARY KEY, a tinyint, b smallint, c bigint, d float, e real, \
                  f bit, g nvarchar(max), h varbinary(max), i decimal(38,10), j uniqueidentifier, k date, l time(7), \
                  m datetime2(7), n nvarchar(50))";
    client.execute(create, &[]).await.unwrap();
    let id = uuid::Uuid::from_u128(0x0011_2233_4455_6677_8899_AABB_CCDD_EEFF);
    let number = Numeric::new_with_scale(-(10_i128.pow(37)) + 1, 10);
    let day = chrono::NaiveDate::from_ymd_opt(2024, 2, 29).unwrap();
    let time = chrono::NaiveTime::from_hms_nano_opt(23, 59, 59, 999_999_900).unwrap();
    let long = "漢😀".repeat(10_000);
    let bytes = vec![7_u8; 50_000];
    let mut insert =
        Query::new("INSERT INTO dbo.p VALUES (@P1,@P2,@P3,@P4,@P5,@P6,@P7,@P8,@P9,@P10,@P11,@P12,@P13,@P14,@P15)");
    insert.bind(1_i32);
    insert.bind(255_u8);
    insert.bind(i16::MIN);
    insert.bind(i64::MAX);
    insert.bind(-1.5e300_f64);
    insert.bind(0.25_f32);
    insert.bind(true);
    insert.bind(long.as_str());
    insert.bind(bytes.as_slice());
    insert.bind(number);
    insert.bind(id);
    insert.bind(day);
    insert.bind(time);
    insert.bind(day.and_time(time));
    insert.bind("it's");
    assert_eq!(insert.execute(&mut client).await.unwrap().total(), 1);
    let mut nulls =
        Query::new("INSERT INTO dbo.p VALUES (@P1,@P2,@P3,@P4,@P5,@P6,@P7,@P8,@P9,@P10,@P11,@P12,@P13,@P14,@P15)");
    nulls.bind(2_i32);
    nulls.bind(None::<u8>);
    nulls.bind(None::<i16>);
    nulls.bind(None::<i64>);
    nulls.bind(None::<f64>);
    nulls.bind(None::<f32>);
    nulls.bind(None::<bool>);
    nulls.bind(None::<&str>);
    nulls.bind(None::<&[u8]>);
    nulls.bind(None::<Numeric>);
    nulls.bind(None::<uuid::Uuid>);
    nulls.bind(None::<chrono::NaiveDate>);
    nulls.bind(None::<chrono::NaiveTime>);
    nulls.bind(None::<chrono::NaiveDateTime>);
    nulls.bind(None::<&str>);
    assert_eq!(nulls.execute(&mut client).await.unwrap().total(), 1);

    let select = "SELECT * FROM dbo.p WHERE id = @P1 AND (n = @P2 OR @P2 IS NULL)";
    let row = client
        .query(select, &[&1_i32, &"it's"])
        .await
        .unwrap()
        .into_row()
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.get::<u8, _>("a"), Some(255));
    assert_eq!(row.get::<i16, _>("b"), Some(i16::MIN));
    assert_eq!(row.get::<i64, _>("c"), Some(i64::MAX));
    assert_eq!(row.get::<f64, _>("d"), Some(-1.5e300));
    assert_eq!(row.get::<f32, _>("e"), Some(0.25));
    assert_eq!(row.get::<bool, _>("f"), Some(true));
    assert_eq!(row.get::<&str, _>("g"), Some(long.as_str()));
    assert_eq!(row.get::<&[u8], _>("h"), Some(bytes.as_slice()));
    assert_eq!(
        row.get::<Numeric, _>("i").map(|value| (value.value(), value.scale())),
        Some((number.value(), 10))
    );
    assert_eq!(row.get::<uuid::Uuid, _>("j"), Some(id));
    assert_eq!(row.get::<chrono::NaiveDate, _>("k"), Some(day));
    assert_eq!(row.get::<chrono::NaiveTime, _>("l"), Some(time));
    assert_eq!(row.get::<chrono::NaiveDateTime, _>("m"), Some(day.and_time(time)));
    let row = client
        .query(select, &[&2_i32, &None::<&str>])
        .await
        .unwrap()
        .into_row()
        .await
        .unwrap()
        .unwrap();
    for (at, (column, _)) in row.cells().enumerate().skip(1) {
        assert!(
            row.try_get::<&str, _>(at).is_err() || row.get::<&str, _>(at).is_none(),
            "{}",
            column.name()
        );
    }
}

#[tokio::test]
async fn several_result_sets_counts_and_errors_come_in_order() {
    let sim = Sim::with_probe();
    let mut client = sim.tiberius("probe").await;
    client
        .execute(
            "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, name nvarchar(20) NULL)",
            &[],
        )
        .await
        .unwrap();
    let batch = "INSERT INTO dbo.t VALUES (1, N'a'), (2, NULL), (3, N'c'); SELECT id FROM dbo.t ORDER BY id; \
                 UPDATE dbo.t SET name = N'x' WHERE id < 3; SELECT name, id FROM dbo.t WHERE id = 9; \
                 SELECT COUNT(*) AS n FROM dbo.t";
    let mut stream = client.simple_query(batch).await.unwrap();
    let mut seen = Vec::new();
    while let Some(item) = stream.try_next().await.unwrap() {
        seen.push(match item {
            QueryItem::Metadata(metadata) => metadata
                .columns()
                .iter()
                .map(|column| column.name())
                .collect::<Vec<_>>()
                .join(","),
            QueryItem::Row(row) => format!("{:?}", row.get::<i32, _>(0).unwrap()),
        });
    }
    drop(stream);
    assert_eq!(seen, ["id", "1", "2", "3", "name,id", "n", "3"]);
    assert_eq!(
        client
            .execute("UPDATE dbo.t SET name = N'y' WHERE id > 1", &[])
            .await
            .unwrap()
            .rows_affected(),
        [2]
    );

    for (sql, code) in [
        ("INSERT INTO dbo.t VALUES (1, N'again')", 2627),
        ("SELECT * FROM dbo.missing", 208),
        ("SELECT missing FROM dbo.t", 207),
        ("SELEC 1", 102),
    ] {
        let result = match client.simple_query(sql).await {
            Ok(stream) => stream.into_results().await.map(|_| ()),
            Err(error) => Err(error),
        };
        let error = result.unwrap_err();
        assert!(
            error.code() == Some(code) || (code == 102 && error.code() == Some(2812)),
            "{sql}: {error}"
        );
        // The connection goes on.
        let row = client
            .simple_query("SELECT 1")
            .await
            .unwrap()
            .into_row()
            .await
            .unwrap()
            .unwrap();
        assert_eq!(row.get::<i32, _>(0), Some(1));
    }
}

#[tokio::test]
async fn an_error_has_its_number_state_class_and_the_line_of_its_batch() {
    let sim = Sim::with_probe();
    let mut client = sim.tiberius("probe").await;
    for (sql, wanted) in [
        ("SELECT 1\n\nSELECT * FROM dbo.missing", (208, 1, 16, 3)),
        ("SELECT 1;\nSELEC 2", (102, 1, 15, 2)),
        ("DECLARE @n int\nRAISERROR(N'own', 11, 7)", (50_000, 7, 11, 2)),
        ("SELECT * FROM dbo.missing", (208, 1, 16, 1)),
    ] {
        let result = match client.simple_query(sql).await {
            Ok(stream) => stream.into_results().await.map(|_| ()),
            Err(error) => Err(error),
        };
        let error = result.unwrap_err();
        let tiberius::error::Error::Server(token) = &error else {
            panic!("no error of the server: {error}")
        };
        assert_eq!(
            (token.code(), token.state(), token.class(), token.line()),
            wanted,
            "{sql}: {error}"
        );
    }
}

#[tokio::test]
async fn a_big_result_comes_over_many_packets_of_any_size() {
    let sim = Sim::with_probe();
    let insert = |from: i32| {
        let rows: Vec<String> = (from..from + 1000)
            .map(|id| format!("({id}, N'row {id} 😀', {})", if id % 7 == 0 { "NULL" } else { "1.5" }))
            .collect();
        format!("INSERT INTO dbo.big VALUES {}\nGO\n", rows.join(","))
    };
    let mut script =
        "USE probe\nGO\nCREATE TABLE dbo.big (id int NOT NULL PRIMARY KEY, t nvarchar(40), d decimal(9,2))\nGO\n"
            .to_owned();
    for from in (0..20_000).step_by(1000) {
        script.push_str(&insert(from));
    }
    sim.script(&script);
    for packet_size in [512, 4096, 32_767] {
        let mut config = sim.config("probe");
        config.packet_size(packet_size);
        let mut client = connect(config).await.unwrap();
        let mut rows = client
            .query("SELECT id, t, d FROM dbo.big ORDER BY id", &[])
            .await
            .unwrap()
            .into_row_stream();
        let mut count = 0;
        while let Some(row) = rows.try_next().await.unwrap() {
            assert_eq!(row.get::<i32, _>(0), Some(count));
            assert_eq!(row.get::<&str, _>(1), Some(format!("row {count} 😀").as_str()));
            assert_eq!(row.get::<Numeric, _>(2).is_none(), count % 7 == 0);
            count += 1;
        }
        assert_eq!(count, 20_000);
    }
}

#[tokio::test]
async fn a_transaction_is_seen_by_others_only_when_it_commits() {
    let sim = Sim::with_probe();
    let mut writer = sim.tiberius("probe").await;
    let mut reader = sim.tiberius("probe").await;
    writer
        .execute("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY)", &[])
        .await
        .unwrap();
    writer
        .simple_query("BEGIN TRAN")
        .await
        .unwrap()
        .into_results()
        .await
        .unwrap();
    writer
        .execute("INSERT INTO dbo.t VALUES (@P1)", &[&1_i32])
        .await
        .unwrap();
    writer
        .simple_query("COMMIT")
        .await
        .unwrap()
        .into_results()
        .await
        .unwrap();
    let count = async |reader: &mut tiberius::Client<_>| {
        let row = reader
            .simple_query("SELECT COUNT(*) FROM dbo.t")
            .await
            .unwrap()
            .into_row()
            .await
            .unwrap()
            .unwrap();
        row.get::<i32, _>(0).unwrap()
    };
    assert_eq!(count(&mut reader).await, 1);
    writer
        .simple_query("BEGIN TRAN; INSERT INTO dbo.t VALUES (2)")
        .await
        .unwrap()
        .into_results()
        .await
        .unwrap();
    writer
        .simple_query("ROLLBACK")
        .await
        .unwrap()
        .into_results()
        .await
        .unwrap();
    assert_eq!(count(&mut reader).await, 1);
    // A connection that goes away takes its transaction with it.
    writer
        .simple_query("BEGIN TRAN; INSERT INTO dbo.t VALUES (3)")
        .await
        .unwrap()
        .into_results()
        .await
        .unwrap();
    drop(writer);
    let mut after = sim.tiberius("probe").await;
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let inserted = after.execute("INSERT INTO dbo.t VALUES (3)", &[]).await;
        if inserted.is_ok() || Instant::now() > until {
            inserted.unwrap();
            break;
        }
    }
    assert_eq!(count(&mut reader).await, 2);
}
