//! A run of sluice as a user would configure it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::server::{PASSWORD, Server};

/// What is between source and lake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Nothing, and all else as it is by default.
    Plain,
    /// Nothing, in chunks of as many rows as those of the next three.
    Unmasked,
    /// Keyed hashes in place of two text columns, and a date cut to its year.
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
benchmark = {{ file = "key", version = "v1" }}

[limits]
chunk_rows = {CHUNK_ROWS}
"#,
                cache.display()
            ),
        }
    }

    /// What stands under the table.
    fn table(self) -> String {
        match self {
            Variant::Plain | Variant::Unmasked => String::new(),
            Variant::Masked => TRANSFORM.to_owned(),
            Variant::Tokens => TRANSFORM.replace("\"hash\"", "\"token\""),
            Variant::Protected => format!("protect = [\"name\", \"code\", \"day\"]\n{TRANSFORM}"),
        }
    }
}

const TRANSFORM: &str = r#"
[[table.transform]]
plugin = "mask"
keys = ["benchmark"]

[table.transform.config]
unlisted = "pass"

[table.transform.config.columns]
name = { method = "hash", key = "benchmark", normalize = ["trim", "lower"] }
code = { method = "hash", key = "benchmark" }
day = { method = "date", truncate = "year" }
"#;

/// A run of sluice over the whole backlog, into an empty lake. Compiled components are kept beside `project`, in a folder
/// that all runs of the same parent share.
pub(crate) fn sluice(project: &Path, server: &Server, variant: Variant) -> Result<Command> {
    let config = project.join("sluice.toml");
    let cache = project.parent().context("a project has a parent")?.join("compiled");
    std::fs::write(project.join("password"), PASSWORD)?;
    std::fs::write(project.join("key"), "a secret for benchmarks alone")?;
    std::fs::write(
        &config,
        format!(
            r#"
[source]
server = "127.0.0.1,{}"
database = "bench"
user = "sa"
password = {{ file = "password" }}
server_certificate = "{}"
{}
[defaults]
target = "lake/bronze/{{ci}}"
app_id = "{{ci}}-v1"
checkpoint = "lake/checkpoints/{{ci}}"
facts_table = "lake/ops/facts"
control_table = "lake/ops/control"
max_commits_per_batch = 1000000

[[table]]
capture_instance = "dbo_wide"
{}"#,
            server.port,
            server.certificate.display(),
            variant.settings(&cache),
            variant.table(),
        ),
    )?;
    let mut command = Command::new(std::env::current_exe()?.with_file_name("sluice"));
    command.args(["run", "--once", "--json", "-c"]).arg(config);
    Ok(command)
}
