//! The `mssql-sim` binary: starts a stand-in for SQL Server and runs it until it is told to stop.

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::run(cli::Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mssql-sim: {error:#}");
            ExitCode::FAILURE
        }
    }
}
