//! `cargo xtask …`: sets a fresh machine up, and runs the demo, the tests and the checks. Each command says what it does,
//! installs what is missing, and can be run again.

mod fuzz;
mod hosts;
mod mssql;
mod numbers;
mod reader_schedules;
mod schedules;
mod setup;
mod shell;

use anyhow::{Result, bail};

use shell::{cargo, say};

const HELP: &str = "\
cargo xtask demo [ARGS]   set up, build, and run `sluice demo ARGS`
cargo xtask test [ARGS]   set up, and run every test (ARGS go to the test runner)
cargo xtask test-mssql [--against-stand-in] [ARGS]
                          run the portable end-to-end tests against the server of SLUICE_TEST_MSSQL, or a stand-in
cargo xtask ci            set up, and run formatting, lints, licences and every test
cargo xtask schedules [--model N] [--process N] [--seed S]
                          set up, and play N seeded schedules of the protocol's model and of the real process
cargo xtask reader-schedules [--minutes M | --count N] [--first S] [--seed S]
                          set up, and play seeded schedules of the reader for M minutes of CPU (default 10), or N of them
cargo xtask hosts [--minutes M] [--seed S] [--on folder|s3|azure|gcs]
                          set up, and kill and pause two hosts of the same tables at random for M minutes (default 10)
cargo xtask fuzz [MINUTES] [TARGET…] [--keep]
                          set up, and give each fuzz target hostile bytes for so long (default 10)
cargo xtask setup         only install what a fresh machine lacks
cargo xtask deny          check licences, sources and bans of the dependencies
cargo xtask bench [source] [ROWS] [PAIRS]
                          set up, and measure sluice against a bare tiberius loop (release build)
cargo xtask bench transforms [ROUNDS]
                          the same for `mask` in the sandbox against the same crate natively, and where the time goes
cargo xtask bench ingestion [ROWS] [ROUNDS]
                          the same for a run with a mask against one without
cargo xtask bench tables [TABLES] [SECONDS] [BACKLOG]
                          what many tables cost, and how soon a commit is in Delta beside a large backlog
cargo xtask bench all     these four, one after the other";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    match arguments.first().map(String::as_str) {
        Some("setup") => setup::run(setup::For::Tests),
        Some("demo") => {
            setup::run(setup::For::Demo)?;
            demo(rest)
        }
        Some("test") => {
            setup::run(setup::For::Tests)?;
            test(rest)
        }
        Some("test-mssql") => mssql::run(rest),
        Some("ci") => {
            setup::run(setup::For::Tests)?;
            check()?;
            setup::deny()?;
            deny()?;
            test(rest)
        }
        Some("schedules") => {
            setup::run(setup::For::Demo)?;
            schedules::run(rest)
        }
        Some("reader-schedules") => {
            setup::run(setup::For::Demo)?;
            reader_schedules::run(rest)
        }
        Some("hosts") => {
            setup::run(setup::For::Tests)?;
            hosts::run(rest)
        }
        Some("fuzz") => {
            setup::run(setup::For::Demo)?;
            fuzz::run(rest)
        }
        Some("deny") => {
            setup::deny()?;
            deny()
        }
        Some("bench") => {
            setup::run(setup::For::Demo)?;
            bench(rest)
        }
        None | Some("help" | "--help" | "-h") => {
            say(HELP);
            Ok(())
        }
        Some(other) => bail!("unknown command {other:?}\n{HELP}"),
    }
}

fn demo(arguments: &[String]) -> Result<()> {
    say("building sluice and the stand-in server (the first time takes a while) …");
    // The whole workspace, as the tests build it: with other packages, cargo would choose other features and build twice.
    cargo(&["build", "--workspace", "--bins"])?;
    let mut command = vec!["demo"];
    command.extend(arguments.iter().map(String::as_str));
    shell::run(shell::target().join("debug/sluice"), &command)
}

fn test(arguments: &[String]) -> Result<()> {
    say("running the tests …");
    // The end-to-end tests start both binaries.
    cargo(&["build", "--workspace", "--bins"])?;
    let runner: &[&str] = if shell::succeeds("cargo", &["nextest", "--version"]) {
        &["nextest", "run", "--workspace"]
    } else {
        &["test", "--workspace"]
    };
    let mut command = runner.to_vec();
    command.extend(arguments.iter().map(String::as_str));
    cargo(&command)?;
    if runner[0] == "nextest" && arguments.is_empty() {
        cargo(&["test", "--workspace", "--doc"])?;
    }
    Ok(())
}

fn check() -> Result<()> {
    say("checking format and lints …");
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

fn deny() -> Result<()> {
    say("checking licences, sources and bans of the dependencies …");
    cargo(&["deny", "--locked", "check", "bans", "licenses", "sources"])
}

fn bench(arguments: &[String]) -> Result<()> {
    say("building for the benchmark (release) …");
    cargo(&[
        "build",
        "--release",
        "--package",
        "sluice",
        "--package",
        "mssql-sim",
        "--package",
        "sluice-bench",
        "--bins",
    ])?;
    shell::run(shell::target().join("release/sluice-bench"), arguments)
}
