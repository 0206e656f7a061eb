//! Nothing of a masked column is anywhere under the lake, in any form; and the search would have found it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::{Server, finish, sluice_binary};

/// Python with the peers that `cargo xtask setup` installs.
fn python() -> PathBuf {
    let venv = std::env::var_os("SLUICE_PY_VENV").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/pyenv"),
        PathBuf::from,
    );
    let python = venv.join("bin/python");
    assert!(
        python.exists(),
        "{} is missing: run cargo xtask setup",
        python.display()
    );
    python
}

fn scan(lake: &Path, values: &BTreeSet<String>) -> Value {
    let dir = crate::harness::scratch();
    let file = dir.path().join("values.json");
    std::fs::write(&file, serde_json::to_string(values).expect("JSON")).expect("written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/it/peers/scan_lake.py");
    let output = Command::new(python())
        .arg(script)
        .arg(lake)
        .arg(&file)
        .output()
        .expect("python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_value_of_a_masked_column_is_under_the_lake_and_without_the_mask_each_kind_is() {
    let dir = crate::harness::scratch();
    finish(
        Command::new(sluice_binary())
            .args(["demo", "--rows", "6000", "--seed", "7", "--json", "--dir"])
            .arg(dir.path())
            .output()
            .expect("sluice starts"),
    )
    .ok();
    let server = Server::on(&dir.path().join("mssql"), &[]);
    let rows = server
        .query(
            "shop",
            "SELECT email, phone, national_id, first_name, last_name FROM cdc.dbo_customers_CT",
        )
        .await;
    let values: BTreeSet<String> = rows
        .iter()
        .flat_map(|row| (0..5).filter_map(|column| row.get::<&str, _>(column)))
        .map(str::to_owned)
        // Shorter ones would be found by chance.
        .filter(|value| value.chars().count() >= 6)
        .collect();
    assert!(values.len() > 500, "{} values to look for", values.len());

    let masked = scan(&dir.path().join("lake"), &values);
    assert_eq!(masked["found"], serde_json::json!({}), "{masked}");
    assert_eq!(masked["tables"], 5, "three bronze tables, facts and control: {masked}");
    assert_eq!(masked["rows"]["dbo_customers"], rows.len());

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
    let unmasked = scan(&dir.path().join("plain"), &values);
    let found = unmasked["found"].as_object().expect("an object");
    assert!(
        found
            .keys()
            .any(|place| place.starts_with("plain in cells of dbo_customers")),
        "{unmasked}"
    );
    let cells = found["plain in cells of dbo_customers"].as_u64().expect("a number");
    assert_eq!(cells, values.len() as u64, "each value is found");
}

fn port_of(config: &str) -> String {
    let start = config.find("127.0.0.1,").expect("a server");
    let rest = &config[start..];
    rest[..rest.find('"').expect("a quote")].to_owned()
}
