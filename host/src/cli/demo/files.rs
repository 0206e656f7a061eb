//! What the demo leaves on disk besides the lake: secrets outside of it, and a configuration like a user's own.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::cli::Failure;
use crate::error::ErrorKind;

/// The login that the streams use: it may read what they need and nothing else.
pub(super) const READER: &str = "cdc_reader";
/// The shop's tables.
pub(super) const SHOP_TABLES: [&str; 3] = ["customers", "orders", "order_items"];

/// The demo's files.
pub(super) struct DemoFiles {
    pub(super) dir: PathBuf,
    pub(super) config: PathBuf,
    pub(super) lake: PathBuf,
    pub(super) server_data: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) password: PathBuf,
    pub(super) reader_password: PathBuf,
}

impl DemoFiles {
    /// Makes the directories and, the first time, the secrets.
    pub(super) fn prepare(dir: &Path) -> Result<DemoFiles, Failure> {
        let mssql = dir.join("mssql");
        let keys = dir.join("keys");
        for folder in [&mssql, &keys] {
            std::fs::create_dir_all(folder).map_err(|error| cannot("create", folder, &error))?;
        }
        let files = DemoFiles {
            config: dir.join("sluice.toml"),
            lake: dir.join("lake"),
            server_data: mssql.join("data"),
            certificate: mssql.join("certificate.pem"),
            password: mssql.join("sa.password"),
            reader_password: mssql.join("reader.password"),
            dir: dir.to_owned(),
        };
        for secret in [&files.password, &files.reader_password, &keys.join("pii")] {
            if !secret.exists() {
                write_secret(secret)?;
            }
        }
        Ok(files)
    }

    /// Writes the configuration for a server on this port.
    pub(super) fn write_config(&self, port: u16, small_tables: u32) -> Result<(), Failure> {
        let mut text = BASE.replace("PORT", &port.to_string());
        for i in 1..=small_tables {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n[[table]]\ncapture_instance = \"dbo_small_{i:04}\"\n");
        }
        std::fs::write(&self.config, text).map_err(|error| cannot("write", &self.config, &error))
    }
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(ErrorKind::State, format!("cannot {what} {}: {error}", path.display()))
}

/// Writes a file that its owner alone may read.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    use std::os::unix::fs::OpenOptionsExt;
    // A file that is there would keep its mode.
    let _ = std::fs::remove_file(path);
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| cannot("write", path, &error))
}

/// A new random secret.
fn write_secret(path: &Path) -> Result<(), Failure> {
    let mut text = String::with_capacity(48);
    for _ in 0..24 {
        let _ = write!(text, "{:02x}", rand::random::<u8>());
    }
    text.push('\n');
    write_private(path, &text)
}

const BASE: &str = r#"# Written by `sluice demo`, anew at each run. Try the other commands on it:
#   sluice check  -c sluice.toml     where each column goes
#   sluice run    -c sluice.toml     keep the tables in step
#   sluice status -c sluice.toml     how far each table is

[source]
server = "127.0.0.1,PORT"
database = "shop"
user = "cdc_reader"                              # may read three tables and their change tables, nothing else
password = { file = "mssql/reader.password" }
server_certificate = "mssql/certificate.pem"     # the stand-in's own, self-signed

[keys]
pii = { file = "keys/pii", version = "v1" }      # used by the host; the component never sees it

[defaults]
target        = "lake/bronze/{ci}"
app_id        = "{ci}-v1"
checkpoint    = "lake/checkpoints/{ci}"
facts_table   = "lake/ops/ingestion_facts"
control_table = "lake/ops/table_finalization"
trigger       = "1s"
granularity   = "minute"

[[table]]
capture_instance = "dbo_customers"
protect = ["first_name", "last_name", "email", "phone", "national_id", "birth_date", "notes"]

  [[table.transform]]
  plugin = "mask"
  keys = ["pii"]

    [table.transform.config]
    unlisted = "fail"                            # a column that is not named here stops the table

    [table.transform.config.columns]
    id           = "pass"
    first_name   = { method = "hash", key = "pii", length = 16 }
    last_name    = { method = "hash", key = "pii", length = 16 }
    email        = { method = "email", key = "pii" }
    phone        = { method = "keep", last = 2 }
    national_id  = { method = "hash", key = "pii" }
    birth_date   = { method = "date", truncate = "year" }
    city         = "pass"
    credit_limit = "pass"
    created_at   = "pass"
    notes        = "null"
    row_guid     = "pass"
    marketing    = "pass"

[[table]]
capture_instance = "dbo_orders"

[[table]]
capture_instance = "dbo_order_items"
"#;
