//! A run of sluice as a user would configure it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::customers;
use crate::server::{DATABASE, PASSWORD, Server, Table};

/// What is between source and lake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Nothing, and all else as it is by default.
    Plain,
    /// Nothing, in chunks of as many rows as those of the next three.
    Unmasked,
    /// The customers' mask: keyed hashes in place of two text columns, and a date cut to its year.
    Masked,
    /// The same hashes as words of 16 letters.
    Tokens,
    /// As `Masked`, with these three columns under `protect`: every row is looked through for their raw values.
    Protected,
}

/// Rows of a chunk, except where it is what it is by default.
const CHUNK_ROWS: u64 = 100_000;

impl Variant {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Variant::Plain => "plain",
            Variant::Unmasked => "unmasked",
            Variant::Masked => "masked",
            Variant::Tokens => "masked, short tokens",
            Variant::Protected => "masked and protected",
        }
    }

    /// What is set for all tables; compiled components are kept in the folder `cache`.
    fn settings(self, cache: &Path) -> String {
        match self {
            Variant::Plain => String::new(),
            _ => format!(
                r#"
[plugins]
cache = "{}"

[keys]
{} = {{ file = "key", version = "v1" }}

[limits]
chunk_rows = {CHUNK_ROWS}
"#,
                cache.display(),
                customers::KEY,
            ),
        }
    }

    /// What stands under the table.
    fn table(self) -> String {
        match self {
            Variant::Plain | Variant::Unmasked => String::new(),
            Variant::Masked => transform("hash"),
            Variant::Tokens => transform("token"),
            Variant::Protected => format!("protect = {:?}\n{}", customers::MASKED, transform("hash")),
        }
    }
}

/// The mask in `sluice.toml`, its options as JSON, which is TOML but for the colons.
fn transform(method: &str) -> String {
    format!(
        "[[table.transform]]\nplugin = \"mask\"\nkeys = [{:?}]\nconfig = {}\n",
        customers::KEY,
        customers::mask_config(method).to_string().replace("\":", "\" = ")
    )
}

/// A run of sluice over the whole backlog, into an empty lake. Compiled components are kept beside `project`, in a folder
/// that all runs of the same parent share.
pub(crate) fn sluice(project: &Path, server: &Server, table: &Table, variant: Variant) -> Result<Command> {
    let config = project.join("sluice.toml");
    let cache = project.parent().context("a project has a parent")?.join("compiled");
    std::fs::write(project.join("password"), PASSWORD)?;
    std::fs::write(project.join("key"), "a secret for benchmarks alone")?;
    std::fs::write(
        &config,
        format!(
            "{}{}max_commits_per_batch = 1000000\n\n[[table]]\ncapture_instance = \"dbo_{}\"\n{}",
            variant.settings(&cache),
            source_and_places(server, DATABASE),
            table.name,
            variant.table(),
        ),
    )?;
    let mut command = Command::new(std::env::current_exe()?.with_file_name("sluice"));
    command.args(["run", "--once", "--json", "-c"]).arg(config);
    Ok(command)
}

/// `[source]`, and where `[defaults]` has everything go; more defaults may follow. The password is in a file beside.
pub(crate) fn source_and_places(server: &Server, database: &str) -> String {
    format!(
        r#"
[source]
server = "127.0.0.1,{}"
database = "{database}"
user = "sa"
password = {{ file = "password" }}
server_certificate = "{}"

[defaults]
target = "lake/bronze/{{ci}}"
app_id = "{{ci}}-v1"
checkpoint = "lake/checkpoints/{{ci}}"
facts_table = "lake/ops/facts"
control_table = "lake/ops/control"
"#,
        server.port,
        server.certificate.display()
    )
}
