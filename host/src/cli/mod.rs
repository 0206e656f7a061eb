//! The command line: one file a command, each thin. `main` only runs, prints and maps to an exit code.

mod check;
mod demo;
mod doctor;
mod drill;
mod grants;
mod init;
mod lock;
mod out;
mod plugin;
mod quarantine;
mod run;
mod show;
mod status;

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::error::{Classify, ErrorKind};
use out::{complain, say};

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
    /// Write a first configuration: a template, or one for a server, with masks for what looks personal.
    Init(init::InitArgs),
    /// Keep the tables of a configuration in step.
    Run(run::RunArgs),
    /// Connect, check grants, open components and print each table's plan. Writes nothing but an object into each bucket, which it removes.
    Check(check::CheckArgs),
    /// Accept the plugin files of a configuration as they are now: write their SHA-256 into the lock file beside it.
    Lock(lock::LockArgs),
    /// Show how far each table is. Needs no connection to the source.
    Status(status::StatusArgs),
    /// Say what is wrong with the state of each table, and put right what can be. Needs no connection to the source.
    Doctor(doctor::DoctorArgs),
    /// Show the rows that could not be transformed, or read them again and transform them.
    Quarantine(quarantine::QuarantineArgs),
    /// Damage copies of each table in every way that the doctor knows, and see whether it mends them.
    Drill(drill::DrillArgs),
    /// Make, build, test and look at components (docs/reference/plugin-kit.md).
    Plugin(plugin::PluginArgs),
}

/// Which configuration.
#[derive(Debug, Args)]
struct ConfigArgs {
    /// The configuration file.
    #[arg(
        short = 'c',
        long = "config",
        value_name = "FILE",
        default_value = "sluice.toml",
        global = true
    )]
    config: PathBuf,
    /// Only these tables, by capture instance.
    #[arg(long = "table", value_name = "CAPTURE_INSTANCE", global = true)]
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
    raise_file_limit();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain!("sluice: cannot start: {error}");
            return ExitCode::from(ErrorKind::Internal.exit_code());
        }
    };
    let json = match &cli.command {
        Command::Demo(args) => args.json,
        Command::Init(_) => false,
        Command::Run(args) => args.json,
        Command::Check(args) => args.json,
        Command::Lock(args) => args.json,
        Command::Status(args) => args.json,
        Command::Doctor(args) => args.json,
        Command::Quarantine(args) => args.json(),
        Command::Drill(args) => args.json,
        Command::Plugin(args) => args.json(),
    };
    let result = runtime.block_on(async {
        // Only `run` does something at it; sent to all processes of this name, it must not end the others.
        let _again = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::user_defined1());
        match cli.command {
            Command::Demo(args) => demo::run(args).await,
            Command::Init(args) => init::run(args).await,
            Command::Run(args) => run::run(args).await,
            Command::Check(args) => check::run(args).await,
            Command::Lock(args) => lock::run(args).await,
            Command::Status(args) => status::run(args).await,
            Command::Doctor(args) => doctor::run(args).await,
            Command::Quarantine(args) => quarantine::run(args).await,
            Command::Drill(args) => drill::run(args).await,
            Command::Plugin(args) => plugin::run(args),
        }
    });
    // A read that is still waiting for its server must not hold the exit.
    runtime.shutdown_background();
    let result = result.and_then(|()| match out::failure() {
        None => Ok(()),
        Some(error) => Err(Failure::new(
            ErrorKind::Internal,
            format!("cannot write to standard output: {error}; what the command did stands"),
        )),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if json && !failure.shown {
                say!(
                    "{}",
                    serde_json::json!({"type": "error", "kind": failure.kind, "error": failure.message})
                );
            }
            complain!("sluice: {}", failure.message);
            ExitCode::from(failure.kind.exit_code())
        }
    }
}

/// As many open files as the system allows: a table that runs keeps one, and a thousand of them are more than the usual limit.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum || limit.maximum.is_none() {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the limit on open files stays as it is");
        }
    }
}

/// Logs go to standard error, and only what `SLUICE_LOG` asks for.
fn start_logging() {
    let filter = match std::env::var("SLUICE_LOG") {
        Ok(text) => log_filter(&text).unwrap_or_else(|problem| {
            complain!("warning: SLUICE_LOG is ignored: {problem}");
            EnvFilter::new("off")
        }),
        Err(_) => EnvFilter::new("off"),
    };
    let no_color = std::env::var_os("NO_COLOR");
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(is_colored(std::io::stderr().is_terminal(), no_color.as_deref()))
        .with_writer(std::io::stderr)
        .try_init();
}

/// Whether logs have colours: on a terminal, unless `NO_COLOR` has a value.
fn is_colored(terminal: bool, no_color: Option<&OsStr>) -> bool {
    terminal && no_color.is_none_or(OsStr::is_empty)
}

/// Whose words may hold values of rows: a component's, and those of the two drivers. They must be asked for by name.
const SENSITIVE: [&str; 3] = ["sluice::guest", "tiberius", "mssql_tds"];

/// Whose words at finer levels are gigabytes that say nothing about tables.
const NOISY: [&str; 4] = ["cranelift", "regalloc2", "wasmtime", "h2"];

fn log_filter(text: &str) -> Result<EnvFilter, String> {
    let mut directives = text.to_owned();
    for target in SENSITIVE {
        if !text.contains(target) {
            directives.push_str(&format!(",{target}=off"));
        }
    }
    for target in NOISY {
        if !text.contains(target) {
            directives.push_str(&format!(",{target}=info"));
        }
    }
    EnvFilter::builder()
        .parse(directives.trim_start_matches(','))
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_have_colours_on_a_terminal_alone_and_not_where_they_are_unwanted() {
        assert!(is_colored(true, None) && is_colored(true, Some(OsStr::new(""))));
        assert!(!is_colored(true, Some(OsStr::new("1"))));
        assert!(!is_colored(false, None));
    }

    #[test]
    fn what_may_hold_values_is_logged_only_when_it_is_named() {
        for text in ["", "debug", "sluice=debug", "sluice=trace,deltalake=info"] {
            let filter = log_filter(text).unwrap().to_string();
            for target in SENSITIVE {
                assert!(filter.contains(&format!("{target}=off")), "{text}: {filter}");
            }
        }
        let filter = log_filter("sluice::guest=debug").unwrap().to_string();
        assert!(
            filter.contains("sluice::guest=debug") && !filter.contains("sluice::guest=off"),
            "{filter}"
        );
        assert!(log_filter("sluice=loud").is_err());
    }
}
