//! Nothing of a masked column is anywhere under the lake, in any form; and the search would have found it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Server, finish, python, sluice_binary};

/// The columns that the demo masks.
const MASKED: [&str; 7] = [
    "first_name",
    "last_name",
    "email",
    "phone",
    "national_id",
    "birth_date",
    "notes",
];

/// What is looked for.
struct Raw {
    /// Long enough not to be found by chance.
    anywhere: BTreeSet<String>,
    /// Of each masked column, for whole cells.
    cells: BTreeMap<String, BTreeSet<String>>,
}

impl Raw {
    async fn of(server: &Server) -> (Raw, usize) {
        let columns = MASKED
            .map(|column| format!("CONVERT(nvarchar(max), {column}) AS {column}"))
            .join(", ");
        let rows = server
            .query("shop", &format!("SELECT {columns} FROM cdc.dbo_customers_CT"))
            .await;
        let mut raw = Raw {
            anywhere: BTreeSet::new(),
            cells: BTreeMap::new(),
        };
        for row in &rows {
            for (at, column) in MASKED.iter().enumerate() {
                // A birth on the first of January is what its year comes out as.
                let Some(value) = row.get::<&str, _>(at).filter(|value| !value.ends_with("-01-01")) else {
                    continue;
                };
                if value.chars().count() >= 6 {
                    raw.anywhere.insert(value.to_owned());
                }
                if !value.is_empty() {
                    raw.cells
                        .entry((*column).to_owned())
                        .or_default()
                        .insert(value.to_owned());
                }
            }
        }
        (raw, rows.len())
    }
}

fn scan(lake: &Path, raw: &Raw) -> Value {
    let dir = crate::harness::scratch();
    let file = dir.path().join("values.json");
    let values = serde_json::json!({ "anywhere": raw.anywhere, "cells": raw.cells });
    std::fs::write(&file, values.to_string()).expect("written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/it/peers/scan_lake.py");
    let output = python([script.as_path(), lake, &file]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_value_of_a_masked_column_is_under_the_lake_and_without_the_mask_each_kind_is() {
    let dir = crate::harness::scratch();
    // With all that its own code and the storage libraries have to say.
    let run = finish(
        Command::new(sluice_binary())
            .args(["demo", "--rows", "6000", "--seed", "7", "--dir"])
            .arg(dir.path())
            .env(
                "SLUICE_LOG",
                "sluice=trace,deltalake=debug,delta_kernel=debug,object_store=debug",
            )
            .output()
            .expect("sluice starts"),
    )
    .ok();
    let server = Server::on(&dir.path().join("mssql"), &[]);
    let (raw, rows) = Raw::of(&server).await;
    assert!(raw.anywhere.len() > 500, "{} values to look for", raw.anywhere.len());
    for column in MASKED {
        assert!(raw.cells[column].len() > 5, "{column}: {:?}", raw.cells[column]);
    }
    assert!(
        run.stdout.contains("complete until") && run.stderr.contains("sluice"),
        "there is something to look through"
    );
    for value in &raw.anywhere {
        assert!(
            !run.stdout.contains(value) && !run.stderr.contains(value),
            "{value} was printed"
        );
    }

    let masked = scan(&dir.path().join("lake"), &raw);
    assert_eq!(masked["found"], serde_json::json!({}), "{masked}");
    assert_eq!(masked["tables"], 5, "three bronze tables, facts and control: {masked}");
    assert_eq!(masked["rows"]["dbo_customers"], rows);

    // The same streams without the transform, into another lake.
    let config = dir.path().join("sluice.toml");
    let text = std::fs::read_to_string(&config).expect("the demo's configuration");
    let start = text.find("protect = ").expect("a masked table");
    let end = text[start..].find("\n[[table]]").expect("another table") + start;
    let plain = format!("{}{}", &text[..start], &text[end..])
        .replace("\"lake/", "\"plain/")
        .replace(&port_of(&text), &format!("127.0.0.1,{}", server.port));
    std::fs::write(dir.path().join("plain.toml"), plain).expect("written");
    finish(
        Command::new(sluice_binary())
            .args(["run", "--once", "-c"])
            .arg(dir.path().join("plain.toml"))
            .output()
            .expect("sluice starts"),
    )
    .ok();
    let unmasked = scan(&dir.path().join("plain"), &raw);
    let found = unmasked["found"].as_object().expect("an object");
    assert!(
        found
            .keys()
            .any(|place| place.starts_with("plain in cells of dbo_customers")),
        "{unmasked}"
    );
    let cells = found["plain in cells of dbo_customers"].as_u64().expect("a number");
    assert_eq!(cells, raw.anywhere.len() as u64, "each value is found");
    for column in MASKED {
        assert_eq!(
            found[&format!("whole in {column}")],
            raw.cells[column].len(),
            "{column}"
        );
    }
}

fn port_of(config: &str) -> String {
    let start = config.find("127.0.0.1,").expect("a server");
    let rest = &config[start..];
    rest[..rest.find('"').expect("a quote")].to_owned()
}
