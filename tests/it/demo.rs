//! The demo's promise: what the stand-in's change tables hold is in bronze, row by row and in order, masked; a second
//! run reads only what is new.

use std::path::Path;

use chrono::{NaiveDate, NaiveDateTime};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tiberius::{ColumnData, FromSql, Row};

use crate::harness::{Rows, Run, Server, rows_of, sluice_binary};

const ORDER: [&str; 4] = ["_start_lsn", "_command_id", "_seqval", "_operation"];
const TABLES: [&str; 3] = ["customers", "orders", "order_items"];

/// Change rows a run: `SLUICE_TEST_DEMO_ROWS`, for a larger run than CI's.
fn rows() -> String {
    std::env::var("SLUICE_TEST_DEMO_ROWS").unwrap_or_else(|_| "6000".to_owned())
}

fn demo(dir: &Path, rows: &str, tables: &str) -> Run {
    let output = std::process::Command::new(sluice_binary())
        .args([
            "demo", "--rows", rows, "--tables", tables, "--seed", "7", "--json", "--dir",
        ])
        .arg(dir)
        .output()
        .expect("sluice starts");
    crate::harness::finish(output)
}

#[tokio::test(flavor = "multi_thread")]
async fn bronze_equals_the_change_tables_and_a_second_run_reads_only_what_is_new() {
    let dir = crate::harness::scratch();
    let first = demo(dir.path(), &rows(), "0").ok();
    for table in TABLES {
        let summary = first.table(&format!("dbo_{table}"));
        for field in [
            "target",
            "rows",
            "inserts",
            "updates",
            "deletes",
            "end_lsn",
            "finalized_until",
            "transform",
        ] {
            assert!(!summary[field].is_null(), "{field} of {table} in {summary}");
        }
        assert!(summary["rows"].as_u64() > Some(0), "{summary}");
    }
    let before: Vec<usize> = TABLES.iter().map(|table| bronze(dir.path(), table).len()).collect();

    let second = demo(dir.path(), &rows(), "0").ok();
    let server = Server::on(&dir.path().join("mssql"), &[]);
    for (table, before) in TABLES.iter().zip(before) {
        let held = change_rows(&server, table).await;
        let rows = bronze(dir.path(), table);
        assert_eq!(rows.len(), held.len(), "{table}: every change once");
        let summary = second.table(&format!("dbo_{table}"));
        assert_eq!(
            summary["rows"].as_u64(),
            Some((rows.len() - before) as u64),
            "{table}: only what is new"
        );
        compare(dir.path(), table, &rows, &held);
        let newest = rows.texts("_start_lsn").pop().flatten().expect("rows");
        assert!(summary["end_lsn"].as_str() >= Some(newest.as_str()), "{summary}");
    }
}

#[test]
fn small_tables_can_be_added() {
    let dir = crate::harness::scratch();
    let run = demo(dir.path(), "300", "4").ok();
    assert_eq!(run.of_type("table").len(), 7);
    assert!(run.table("dbo_small_0004")["rows"].as_u64() > Some(0));
}

fn bronze(dir: &Path, table: &str) -> Rows {
    rows_of(&dir.join("lake/bronze").join(format!("dbo_{table}")), &ORDER).expect("rows in bronze")
}

async fn change_rows(server: &Server, table: &str) -> Vec<Row> {
    server
        .query(
            "shop",
            &format!(
                "SELECT * FROM [cdc].[dbo_{table}_CT] ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
            ),
        )
        .await
}

/// Compares every column of every row, in order, with what the change table holds after the mask.
fn compare(dir: &Path, table: &str, rows: &Rows, held: &[Row]) {
    let key = std::fs::read_to_string(dir.join("keys/pii")).expect("the demo's key");
    let key = key.trim();
    for (name, source) in [
        ("_start_lsn", "__$start_lsn"),
        ("_seqval", "__$seqval"),
        ("_operation", "__$operation"),
        ("_command_id", "__$command_id"),
    ] {
        let found = rows.texts(name);
        for (row, (found, held)) in found.iter().zip(held).enumerate() {
            let expected = plain(&cell(held, source)).map(|text| {
                if name.ends_with("id") || name.ends_with("tion") {
                    text
                } else {
                    format!("0x{text}")
                }
            });
            assert_eq!(*found, expected, "{table} row {row} column {name}");
        }
    }
    let columns: Vec<String> = held[0]
        .columns()
        .iter()
        .map(|column| column.name().to_owned())
        .filter(|name| !name.starts_with("__$"))
        .collect();
    for column in &columns {
        let found = rows.texts(column);
        for (row, (found, held)) in found.iter().zip(held).enumerate() {
            let value = cell(held, column);
            let expected = if table == "customers" {
                masked(key, column, &value)
            } else {
                plain(&value)
            };
            let equal = match (&value, found, &expected) {
                (ColumnData::F64(Some(_)), Some(found), Some(expected)) => {
                    found.parse::<f64>() == expected.parse::<f64>()
                }
                _ => *found == expected,
            };
            assert!(
                equal,
                "{table} row {row} column {column}: {found:?} is not {expected:?}"
            );
        }
    }
    assert_eq!(
        rows.batch.num_columns(),
        // With `_omitted` where a column is not recorded in every row.
        6 + columns.len() + 3 + usize::from(rows.batch.column_by_name("_omitted").is_some()),
        "{table}: no other columns"
    );
}

fn cell(row: &Row, column: &str) -> ColumnData<'static> {
    row.cells()
        .find(|(found, _)| found.name() == column)
        .map(|(_, data)| data.clone())
        .unwrap_or_else(|| panic!("a column {column}"))
}

/// A value as bronze shows it.
fn plain(value: &ColumnData<'static>) -> Option<String> {
    match value {
        ColumnData::Bit(v) => v.map(|v| v.to_string()),
        ColumnData::U8(v) => v.map(|v| v.to_string()),
        ColumnData::I16(v) => v.map(|v| v.to_string()),
        ColumnData::I32(v) => v.map(|v| v.to_string()),
        ColumnData::I64(v) => v.map(|v| v.to_string()),
        // The driver has no exact money; the demo's amounts are small enough to come back exactly.
        ColumnData::F64(v) => v.map(|v| v.to_string()),
        ColumnData::String(v) => v.as_ref().map(|v| v.to_string()),
        ColumnData::Guid(v) => v.map(|v| v.hyphenated().to_string().to_uppercase()),
        ColumnData::Binary(v) => v.as_ref().map(|v| v.iter().map(|byte| format!("{byte:02X}")).collect()),
        ColumnData::Numeric(v) => v.map(|v| {
            let digits = format!(
                "{:0width$}",
                v.value().unsigned_abs(),
                width = usize::from(v.scale()) + 1
            );
            let (whole, fraction) = digits.split_at(digits.len() - usize::from(v.scale()));
            let sign = if v.value() < 0 { "-" } else { "" };
            if fraction.is_empty() {
                format!("{sign}{whole}")
            } else {
                format!("{sign}{whole}.{fraction}")
            }
        }),
        ColumnData::Date(_) => NaiveDate::from_sql(value).expect("a date").map(|v| v.to_string()),
        ColumnData::DateTime2(_) | ColumnData::DateTime(_) => {
            NaiveDateTime::from_sql(value).expect("a time").map(|v| {
                let micros = chrono::DateTime::from_timestamp_micros(v.and_utc().timestamp_micros())
                    .expect("in range")
                    .naive_utc();
                micros.format("%Y-%m-%dT%H:%M:%S%.f").to_string()
            })
        }
        other => panic!("the shop has no {other:?}"),
    }
}

/// What the demo's configuration makes of a customer's column, computed without the component.
fn masked(key: &str, column: &str, value: &ColumnData<'static>) -> Option<String> {
    let text = plain(value);
    match column {
        "notes" => None,
        "first_name" | "last_name" => text.map(|text| hmac_hex(key, &text)[..16].to_owned()),
        "national_id" => text.map(|text| hmac_hex(key, &text)),
        "email" => text.map(|text| email(key, &text)),
        "phone" => text.map(|text| {
            let characters: Vec<char> = text.chars().collect();
            let kept = if characters.len() > 2 { 2 } else { 0 };
            let stars = characters.len() - kept;
            "*".repeat(stars) + &characters[stars..].iter().collect::<String>()
        }),
        "birth_date" => text.map(|text| format!("{}-01-01", &text[..4])),
        _ => text,
    }
}

/// Outer blanks and case do not count; a usable address keeps its domain, any other text is hashed whole.
fn email(key: &str, text: &str) -> String {
    let address = text.trim().to_lowercase();
    match address.split_once('@') {
        Some((local, domain)) if !local.is_empty() && !domain.is_empty() && !domain.contains('@') => {
            format!("{}@{domain}", &hmac_hex(key, local)[..16])
        }
        _ => hmac_hex(key, &address)[..16].to_owned(),
    }
}

fn hmac_hex(key: &str, text: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("any length");
    mac.update(b"\0");
    mac.update(text.as_bytes());
    mac.finalize()
        .into_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
