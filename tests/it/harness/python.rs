//! Python with the peers that `cargo xtask setup` installs: other writers and readers of the same tables.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs a script. Its arguments come after it, as for Python itself.
pub fn python(arguments: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>) -> Output {
    let python = python_environment().join("bin/python");
    Command::new(python).args(arguments).output().expect("Python starts")
}

/// The virtual environment that has the peers.
pub fn python_environment() -> PathBuf {
    let venv = std::env::var_os("SLUICE_PY_VENV").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/pyenv"),
        PathBuf::from,
    );
    let python = venv.join("bin/python");
    assert!(
        python.exists(),
        "{} is missing: run cargo xtask setup",
        python.display()
    );
    venv
}
