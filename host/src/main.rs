//! The `sluice` binary: runs a command, prints what went wrong, exits with the code of its kind.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod allocator;

use std::process::ExitCode;

fn main() -> ExitCode {
    sluice::cli::main()
}
