//! `sluice plugin bench`.

use std::path::PathBuf;

use clap::Args;

use super::Lookup;
use crate::cli::Failure;
use crate::cli::out::say;
use crate::cli::show::grouped;
use crate::error::ErrorKind;
use crate::kit::{Component, Fixture, KitError, Setup, Workbench, measure};

#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    /// A project's folder, a component's file, or the name of a component.
    #[arg(value_name = "DIR|FILE|NAME", default_value = ".")]
    component: String,
    /// Rows to send through.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,
    /// Rows of a chunk.
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..))]
    chunk_rows: u32,
    /// A fixture whose table, configuration and keys to use.
    #[arg(long, value_name = "FILE")]
    fixture: Option<PathBuf>,
    /// The configuration as JSON, on a table with a column of each type or on the fixture's.
    #[arg(long, value_name = "JSON")]
    config: Option<String>,
    /// Seed of the made-up rows.
    #[arg(long, value_name = "S", default_value_t = 7)]
    seed: u64,
    #[command(flatten)]
    lookup: Lookup,
    /// Print one JSON object (docs/reference/plugin-kit.md).
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(args: BenchArgs) -> Result<(), Failure> {
    let component = Component::find(&args.component, &args.lookup.plugins)?;
    let config = args.config.as_deref().map(super::config).transpose()?;
    let (setup, own) = match &args.fixture {
        Some(file) => {
            let fixture = Fixture::read(file)?;
            let mut setup = fixture.setup;
            if let Some(config) = config {
                setup.config = config;
            }
            (setup, fixture.rows)
        }
        None => {
            let config = config.ok_or_else(|| {
                Failure::new(
                    ErrorKind::Config,
                    "say what to measure: --fixture tests/NAME.toml, or --config JSON",
                )
            })?;
            (Setup::of_all_types(config).map_err(KitError::Usage)?, None)
        }
    };
    let bench = Workbench::new(component)?;
    let speed = measure(
        &bench,
        &setup,
        own.as_ref(),
        args.rows as usize,
        args.chunk_rows as usize,
        args.seed,
    )?;
    if args.json {
        let mut object = serde_json::to_value(&speed).unwrap_or_default();
        if let Some(object) = object.as_object_mut() {
            object.insert("type".to_owned(), "bench".into());
        }
        say!("{object}");
        return Ok(());
    }
    if cfg!(debug_assertions) {
        say!("this sluice is a debug build: only numbers of a release build mean anything");
    }
    say!(
        "{} rows in chunks of {}, {}",
        grouped(speed.rows as u64),
        grouped(speed.chunk_rows as u64),
        if speed.fixture_rows {
            "the fixture's over and over"
        } else {
            "made up"
        }
    );
    say!(
        "  first time  {:.0} ms to check, compile and open",
        speed.compile_seconds * 1e3
    );
    say!(
        "  a call      {:.2} ms for an instance, `open` and one row (median)",
        speed.call_seconds * 1e3
    );
    say!(
        "  rows        {} a second, {:.1} MB/s of the table's columns, in {:.2} s",
        grouped(speed.rows_per_second as u64),
        speed.megabytes_per_second,
        speed.seconds
    );
    if speed.no_calls {
        say!("  The plan passes columns alone: the component is not called for what it only passes.");
    }
    Ok(())
}
