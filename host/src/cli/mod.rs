//! The command line: one file a command, each thin. `main` only runs, prints and maps to an exit code.

mod check;
mod demo;
mod run;
mod show;
mod status;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::error::{Classify, ErrorKind};

/// SQL Server changes through a WebAssembly mask into Delta Lake.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, about, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 all well, 1 internal error, 2 configuration error, 3 retryable failure, \
    4 data loss, 5 schema change, 6 a component refused, 7 state damaged, foreign or in use."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a stand-in SQL Server with a shop in it, and bring its changes into Delta with the customers masked.
    Demo(demo::DemoArgs),
    /// Keep the tables of a configuration in step.
    Run(run::RunArgs),
    /// Connect, check grants, open components and print each table's plan. Writes nothing.
    Check(ConfigArgs),
    /// Show how far each table is. Needs no connection to the source.
    Status(status::StatusArgs),
}

/// Which configuration.
#[derive(Debug, Args)]
struct ConfigArgs {
    /// The configuration file.
    #[arg(short = 'c', long = "config", value_name = "FILE", default_value = "sluice.toml")]
    config: PathBuf,
    /// Only these tables, by capture instance.
    #[arg(long = "table", value_name = "CAPTURE_INSTANCE")]
    tables: Vec<String>,
}

/// Why a command failed: the kind, and the whole account.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: ErrorKind,
    message: String,
    /// The details were shown already, table by table.
    shown: bool,
}

impl Failure {
    fn new(kind: ErrorKind, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            message: message.into(),
            shown: false,
        }
    }
}

impl<E: std::error::Error + Classify> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::new(error.kind(), crate::error::chain(&error))
    }
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    start_logging();
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("sluice: cannot start: {error}");
            return ExitCode::from(ErrorKind::Internal.exit_code());
        }
    };
    let json = match &cli.command {
        Command::Demo(args) => args.json,
        Command::Run(args) => args.json,
        Command::Check(_) => false,
        Command::Status(args) => args.json,
    };
    let result = runtime.block_on(async {
        match cli.command {
            Command::Demo(args) => demo::run(args).await,
            Command::Run(args) => run::run(args).await,
            Command::Check(args) => check::run(args).await,
            Command::Status(args) => status::run(args).await,
        }
    });
    // A read that is still waiting for its server must not hold the exit.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if json && !failure.shown {
                println!(
                    "{}",
                    serde_json::json!({"type": "error", "kind": failure.kind, "error": failure.message})
                );
            }
            eprintln!("sluice: {}", failure.message);
            ExitCode::from(failure.kind.exit_code())
        }
    }
}

/// Logs go to standard error, and only what `SLUICE_LOG` asks for: values never are in them, and neither are a guest's
/// words unless `sluice::guest=debug` is asked for by name.
fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("SLUICE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("off"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .try_init();
}
