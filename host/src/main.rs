//! The `sluice` binary: runs a command, prints what went wrong, exits with the code of its kind.

#[cfg(target_os = "linux")]
mod allocator;

use std::process::ExitCode;

fn main() -> ExitCode {
    sluice::cli::main()
}
