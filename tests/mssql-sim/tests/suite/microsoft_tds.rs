//! Microsoft's mssql-tds 0.3: what sluice streams with.

use std::sync::Arc;
use std::time::Duration;

use mssql_sim::faults::{Fault, FaultKind};
use mssql_tds::connection::client_context::ClientContext;
use mssql_tds::connection::tds_client::{ExecuteOptions, ResultSet, StatementResult, TdsClient};
use mssql_tds::connection_provider::tds_connection_provider::TdsConnectionProvider;
use mssql_tds::core::{CancelHandle, EncryptionOptions, EncryptionSetting, TdsResult};
use mssql_tds::datatypes::column_values::ColumnValues;
use mssql_tds::datatypes::sql_string::SqlString;
use mssql_tds::datatypes::sqltypes::SqlType;
use mssql_tds::error::Error;
use mssql_tds::message::parameters::rpc_parameters::{RpcParameter, StatusFlags};

use crate::every_type::{self, Column, date_text, offset_text, time_text, with_scale};
use crate::harness::{PASSWORD, Sim, USER};

async fn connect(sim: &Sim, mode: EncryptionSetting, password: &str, database: &str) -> TdsResult<TdsClient> {
    let mut context = ClientContext::default();
    context.user_name = USER.into();
    context.password = password.into();
    context.database = database.into();
    context.encryption_options = EncryptionOptions {
        mode,
        server_certificate: Some(sim.certificate()),
        ..EncryptionOptions::default()
    };
    TdsConnectionProvider {}
        .create_client(context, &format!("tcp:127.0.0.1,{}", sim.port()), None)
        .await
}

async fn client(sim: &Sim, database: &str) -> TdsClient {
    connect(sim, EncryptionSetting::Required, PASSWORD, database)
        .await
        .unwrap()
}

fn number(error: &Error) -> u32 {
    match error {
        Error::SqlServerError { diagnostics } => diagnostics.errors[0].number,
        other => panic!("no error of the server: {other}"),
    }
}

fn text(value: &ColumnValues) -> Option<String> {
    Some(match value {
        ColumnValues::Null => return None,
        ColumnValues::TinyInt(value) => value.to_string(),
        ColumnValues::SmallInt(value) => value.to_string(),
        ColumnValues::Int(value) => value.to_string(),
        ColumnValues::BigInt(value) => value.to_string(),
        ColumnValues::Real(value) => value.to_string(),
        ColumnValues::Float(value) if value.abs() > 1e300 => format!("{value:e}"),
        ColumnValues::Float(value) => value.to_string(),
        ColumnValues::Bit(value) => u8::from(*value).to_string(),
        ColumnValues::Decimal(value) | ColumnValues::Numeric(value) => value.to_string(),
        ColumnValues::Money(value) => with_scale(
            i128::from((i64::from(value.msb_part) << 32) | i64::from(value.lsb_part as u32)),
            4,
        ),
        ColumnValues::SmallMoney(value) => with_scale(i128::from(value.int_val), 4),
        ColumnValues::String(value) => value.to_utf8_string(),
        ColumnValues::Bytes(value) => value.iter().map(|byte| format!("{byte:02X}")).collect(),
        ColumnValues::Uuid(value) => value.to_string().to_uppercase(),
        ColumnValues::Date(value) => date_text(value.get_days()),
        // The driver's field counts units of 100 ns, whatever its name says.
        ColumnValues::Time(value) => time_text(value.time_nanoseconds),
        ColumnValues::DateTime2(value) => {
            format!("{} {}", date_text(value.days), time_text(value.time.time_nanoseconds))
        }
        ColumnValues::DateTimeOffset(value) => {
            let utc = &value.datetime2;
            offset_text(utc.days, utc.time.time_nanoseconds, value.offset)
        }
        ColumnValues::Xml(value) => value.as_string(),
        ColumnValues::Json(value) => value.as_string(),
        ColumnValues::Vector(value) => {
            let elements: Vec<String> = value.as_f32().unwrap().iter().map(|n| format!("{n:?}")).collect();
            format!("[{}]", elements.join(","))
        }
        ColumnValues::DateTime(value) => {
            let time = time_text((u64::from(value.time) * 10 + 1) / 3 * 10_000);
            format!(
                "{} {}",
                date_text(u32::try_from(value.days + 693_595).unwrap()),
                &time[..time.len() - 4]
            )
        }
        ColumnValues::SmallDateTime(value) => {
            let time = time_text(u64::from(value.time) * 600_000_000);
            format!("{} {}", date_text(u32::from(value.days) + 693_595), &time[..8])
        }
    })
}

async fn rows(client: &mut TdsClient) -> Vec<Vec<ColumnValues>> {
    let mut rows = Vec::new();
    while let Some(row) = client.next_row().await.unwrap() {
        rows.push(row);
    }
    rows
}

fn as_is(_: &Column, expected: String) -> String {
    expected
}

#[tokio::test]
async fn it_reads_every_type_exactly() {
    let sim = Sim::with_probe();
    sim.script(&format!("USE probe\nGO\n{}", every_type::create_script()));
    let mut client = client(&sim, "probe").await;
    for (table, nullable) in [("every_type", true), ("every_type_nn", false)] {
        client.execute(every_type::select(table), ()).await.unwrap();
        let texts: Vec<Vec<Option<String>>> = rows(&mut client)
            .await
            .iter()
            .map(|row| row.iter().map(text).collect())
            .collect();
        every_type::check(&texts, nullable, as_is);
        client.close_query().await.unwrap();
    }
    client.execute(every_type::SELECT_VERSIONS.into(), ()).await.unwrap();
    let texts: Vec<Vec<Option<String>>> = rows(&mut client)
        .await
        .iter()
        .map(|row| row.iter().map(text).collect())
        .collect();
    every_type::check_versions(&texts);
}

#[tokio::test]
async fn logins_over_every_kind_of_tls() {
    let sim = Sim::start();
    for mode in [
        EncryptionSetting::PreferOff,
        EncryptionSetting::On,
        EncryptionSetting::Required,
        EncryptionSetting::Strict,
    ] {
        let mut client = connect(&sim, mode, PASSWORD, "master").await.unwrap();
        assert_eq!(client.database(), "master");
        client.execute("SELECT 42".into(), ()).await.unwrap();
        assert_eq!(rows(&mut client).await, [[ColumnValues::Int(42)]]);
        assert_eq!(
            number(&connect(&sim, mode, "wrong", "master").await.err().unwrap()),
            18456
        );
        let error = connect(&sim, mode, PASSWORD, "nowhere").await.err().unwrap();
        assert!(
            error.to_string().contains("Cannot open database \"nowhere\""),
            "{error}"
        );
    }
}

#[tokio::test]
async fn parameters_and_procedures() {
    let sim = Sim::with_probe();
    sim.script(
        "USE probe\nGO\nCREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL, stamp binary(10) NULL)\nGO\n\
         EXEC sys.sp_cdc_enable_db\nGO\n\
         EXEC sys.sp_cdc_enable_table @source_schema=N'dbo', @source_name=N't', @role_name=NULL",
    );
    let mut client = client(&sim, "probe").await;
    let param = |name: &str, value| RpcParameter::new(Some(name.into()), StatusFlags::NONE, value);
    let wide = |text: &str| SqlString::from_utf8_string(text.into());
    let insert = "INSERT INTO dbo.t VALUES (@id, @name, @stamp)".to_owned();
    let values = vec![
        param("@id", SqlType::Int(Some(7))),
        param("@name", SqlType::NVarchar(Some(wide("Žofia 😀")), 40)),
        param(
            "@stamp",
            SqlType::VarBinary(Some(vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), 10),
        ),
    ];
    let result = client.execute_sp_executesql(insert, values, ()).await.unwrap();
    assert!(
        matches!(result, StatementResult::NoRows { rows_affected: Some(1) }),
        "{result:?}"
    );
    client.close_query().await.unwrap();
    let select = "SELECT id, name FROM dbo.t WHERE stamp >= @from AND name = @name".to_owned();
    let values = vec![
        param("@from", SqlType::Binary(Some(vec![1; 10]), 10)),
        param("@name", SqlType::NVarcharMax(Some(wide("Žofia 😀")))),
    ];
    client.execute_sp_executesql(select, values, ()).await.unwrap();
    let found = rows(&mut client).await;
    assert_eq!(found.len(), 1);
    assert_eq!(text(&found[0][1]).as_deref(), Some("Žofia 😀"));
    client.close_query().await.unwrap();

    let values = vec![param("@capture_instance", SqlType::NVarchar(Some(wide("dbo_t")), 128))];
    client
        .execute_stored_procedure("sys.sp_cdc_get_captured_columns".into(), None, Some(values), ())
        .await
        .unwrap();
    let names: Vec<String> = client
        .get_metadata()
        .iter()
        .map(|column| column.column_name.clone())
        .collect();
    let at = names.iter().position(|name| name == "column_name").unwrap();
    let found: Vec<Option<String>> = rows(&mut client).await.iter().map(|row| text(&row[at])).collect();
    assert_eq!(found, [Some("id".into()), Some("name".into()), Some("stamp".into())]);
    client.close_query().await.unwrap();
    assert_eq!(client.get_return_status(), Some(0));
}

#[tokio::test]
async fn a_statement_that_works_and_one_that_waits_are_both_cancelled() {
    let sim = Sim::with_probe();
    let mut client = client(&sim, "probe").await;
    // Ten to the sixth rows, of which a few are read.
    let ten = "(SELECT 1 AS n UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL \
               SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9 UNION ALL SELECT 10)";
    let many = format!(
        "SELECT a.n, b.n, c.n, d.n, e.n, f.n FROM {ten} AS a CROSS JOIN {ten} AS b CROSS JOIN {ten} AS c \
         CROSS JOIN {ten} AS d CROSS JOIN {ten} AS e CROSS JOIN {ten} AS f"
    );
    client.execute(many, ()).await.unwrap();
    for _ in 0..10 {
        assert!(client.next_row().await.unwrap().is_some());
    }
    client.cancel_query(20).await.unwrap();
    client.execute("SELECT 5".into(), ()).await.unwrap();
    assert_eq!(rows(&mut client).await, [[ColumnValues::Int(5)]]);
    client.close_query().await.unwrap();

    let cancel = Arc::new(CancelHandle::new());
    let trigger = Arc::clone(&cancel);
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        trigger.cancel();
    });
    let result = client
        .execute("WAITFOR DELAY '00:01:00'".into(), ExecuteOptions::new().cancel(&cancel))
        .await;
    assert!(result.is_err(), "the delay ended by itself");
}

#[tokio::test]
async fn a_time_limit_sends_an_attention_and_the_connection_lives() {
    let sim = Sim::with_probe();
    let mut client = client(&sim, "probe").await;
    let endless =
        "FROM sys.all_columns a, sys.all_columns b, dbo.n c, dbo.n d, dbo.n e, dbo.n f WHERE c.n + d.n + e.n + f.n < 0";
    client
        .execute(
            "CREATE TABLE dbo.n (n int NOT NULL); CREATE TABLE dbo.m (n int NOT NULL)".into(),
            (),
        )
        .await
        .unwrap();
    client.close_query().await.unwrap();
    sim.server.faults().arm(Fault {
        matching: Some("behind_a_lock".into()),
        ..Fault::once(FaultKind::LockWait)
    });
    let numbers: Vec<String> = (0..500).map(|n| format!("({n})")).collect();
    client
        .execute(format!("INSERT dbo.n VALUES {}", numbers.join(",")), ())
        .await
        .unwrap();
    client.close_query().await.unwrap();
    for text in [
        "WAITFOR DELAY '00:10:00'".to_owned(),
        "DECLARE @i int; WHILE 1 = 1 SET @i = 1".to_owned(),
        format!("SELECT c.n {endless}"),
        format!("SELECT COUNT(*) {endless}"),
        format!("INSERT dbo.m SELECT c.n {endless}"),
        "SELECT n FROM dbo.m AS behind_a_lock".to_owned(),
    ] {
        let options = ExecuteOptions::new().timeout_secs(1);
        let mut result = client.execute(text.clone(), options).await.map(|_| ());
        if result.is_ok() {
            // The columns came before the time was up.
            result = client.next_row().await.map(|_| ());
        }
        assert!(matches!(result, Err(Error::TimeoutError(_))), "{text}: {result:?}");
        // The driver gives a connection up when its attention is not answered.
        assert!(!client.is_connection_dead(), "{text}");
        client.execute("SELECT 5".into(), ()).await.unwrap();
        assert_eq!(rows(&mut client).await, [[ColumnValues::Int(5)]], "{text}");
    }
}

#[tokio::test]
async fn transactions_by_the_transaction_manager() {
    use mssql_tds::message::transaction_management::TransactionIsolationLevel;

    let sim = Sim::with_probe();
    let mut client = client(&sim, "probe").await;
    client
        .execute("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY)".into(), ())
        .await
        .unwrap();
    client.close_query().await.unwrap();
    for (id, commit) in [(1, true), (2, false), (3, true)] {
        client
            .begin_transaction(TransactionIsolationLevel::ReadCommitted, None)
            .await
            .unwrap();
        assert!(client.has_active_transaction());
        client
            .execute(format!("INSERT INTO dbo.t VALUES ({id})"), ())
            .await
            .unwrap();
        client.close_query().await.unwrap();
        if commit {
            client.commit_transaction(None, None).await.unwrap();
        } else {
            client.rollback_transaction(None, None).await.unwrap();
        }
        assert!(!client.has_active_transaction());
    }
    client
        .execute("SELECT id FROM dbo.t ORDER BY id".into(), ())
        .await
        .unwrap();
    assert_eq!(
        rows(&mut client).await,
        [[ColumnValues::Int(1)], [ColumnValues::Int(3)]]
    );
}

#[tokio::test]
async fn a_reset_connection_forgets_database_and_transaction() {
    let sim = Sim::with_probe();
    let mut client = client(&sim, "master").await;
    client
        .execute("USE probe; BEGIN TRAN; CREATE TABLE dbo.gone (id int)".into(), ())
        .await
        .unwrap();
    client.close_query().await.unwrap();
    assert_eq!(client.database(), "probe");
    client.prepare_reset_connection(false);
    client
        .execute("SELECT DB_NAME(), @@TRANCOUNT".into(), ())
        .await
        .unwrap();
    let found = rows(&mut client).await;
    assert_eq!(text(&found[0][0]).as_deref(), Some("master"));
    assert_eq!(found[0][1], ColumnValues::Int(0));
}
