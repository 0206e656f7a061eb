//! `sluice plugin`: what the author of a component needs. `docs/reference/plugin-kit.md` describes the commands.

mod bench;
mod build;
mod diff;
mod inspect;
mod new;
mod test;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::Failure;

#[derive(Debug, Args)]
pub(super) struct PluginArgs {
    #[command(subcommand)]
    command: PluginCommand,
}

#[derive(Debug, Subcommand)]
enum PluginCommand {
    /// Write a project that builds and tests at once.
    New(new::NewArgs),
    /// Build a project into a component.
    Build(build::BuildArgs),
    /// Run a component over its fixtures, and over made-up rows that show what every transform must hold.
    #[command(after_long_help = test::FIXTURES)]
    Test(test::TestArgs),
    /// Say what a component is, what it would be granted, and whether it is refused.
    Inspect(inspect::InspectArgs),
    /// Measure a component: rows a second, and what a call costs.
    Bench(bench::BenchArgs),
    /// Run two components over the same rows and say what would change.
    Diff(diff::DiffArgs),
}

/// Where a component is looked for by name.
#[derive(Debug, Args)]
struct Lookup {
    /// The folder in which a component is looked for by its name.
    #[arg(long, value_name = "DIR", default_value = "plugins")]
    plugins: PathBuf,
}

impl PluginArgs {
    /// Whether to print JSON.
    pub(super) fn json(&self) -> bool {
        match &self.command {
            PluginCommand::New(args) => args.json,
            PluginCommand::Build(args) => args.json,
            PluginCommand::Test(args) => args.json,
            PluginCommand::Inspect(args) => args.json,
            PluginCommand::Bench(args) => args.json,
            PluginCommand::Diff(args) => args.json,
        }
    }
}

pub(super) fn run(args: PluginArgs) -> Result<(), Failure> {
    match args.command {
        PluginCommand::New(args) => new::run(args),
        PluginCommand::Build(args) => build::run(args),
        PluginCommand::Test(args) => test::run(args),
        PluginCommand::Inspect(args) => inspect::run(args),
        PluginCommand::Bench(args) => bench::run(args),
        PluginCommand::Diff(args) => diff::run(args),
    }
}

/// A transform's configuration as JSON text.
fn config(text: &str) -> Result<serde_json::Value, Failure> {
    let parsed: serde_json::Value = serde_json::from_str(text).map_err(|error| {
        Failure::new(
            crate::error::ErrorKind::Config,
            format!("--config is no JSON: {error}; write for example --config '{{\"columns\":{{}}}}'"),
        )
    })?;
    match parsed.is_object() {
        true => Ok(parsed),
        false => Err(Failure::new(
            crate::error::ErrorKind::Config,
            "--config is to be a JSON object",
        )),
    }
}

/// `1.2 MB`.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_powers_of_ten() {
        assert_eq!(size(999), "999 bytes");
        assert_eq!(size(18_250), "18.2 kB");
        assert_eq!(size(12_000_000), "12.0 MB");
    }

    #[test]
    fn a_configuration_is_an_object() {
        assert!(config(r#"{"columns":{}}"#).is_ok());
        assert!(config("[]").is_err());
        assert!(config("{").is_err());
    }
}
