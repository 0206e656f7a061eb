//! Running other programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Tells the person what happens.
#[allow(clippy::print_stdout)]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest).to_owned()
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs cargo in the root; its output is the person's.
pub(crate) fn cargo(arguments: &[&str]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run(cargo, arguments)
}

/// The same with more in its environment.
pub(crate) fn cargo_with(arguments: &[&str], environment: &[(&str, String)]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run_with(cargo, arguments, environment)
}

/// Runs a program in the root; an error unless it succeeds.
pub(crate) fn run(program: impl AsRef<OsStr>, arguments: &[impl AsRef<str>]) -> Result<()> {
    run_with(program, arguments, &[])
}

fn run_with(program: impl AsRef<OsStr>, arguments: &[impl AsRef<str>], environment: &[(&str, String)]) -> Result<()> {
    let program = program.as_ref();
    let arguments: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    let shown = format!("{} {}", program.to_string_lossy(), arguments.join(" "));
    let mut command = Command::new(program);
    // What cargo tells a program that it runs. Build scripts of dependencies watch it: with it, the builds of this program and those
    // of a person would each make the other's anew.
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"))
        {
            command.env_remove(name);
        }
    }
    let status = command
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir(root())
        .status()
        .with_context(|| format!("cannot run {shown}"))?;
    if !status.success() {
        bail!("{shown} ended with {status}");
    }
    Ok(())
}

/// Whether a program runs and succeeds, quietly.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
