//! Which compiler to use for WebAssembly, and how to get one.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::BuildError;

/// The compilation target of every guest: plain WebAssembly, without WASI.
pub const TARGET: &str = "wasm32-unknown-unknown";

const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_LIBRARY: &str = "/usr/lib/rustlib/src/rust/library/Cargo.toml";
const DEBIAN_PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];
/// Has `wasm-ld`.
const DEBIAN_LINKER: &str = "lld";
/// How long `rustup` may take; on a machine that cannot reach its server it may otherwise retry for minutes.
const RUSTUP_DEADLINE: Duration = Duration::from_secs(180);

/// A way to compile for WebAssembly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// The current toolchain has the target's standard library.
    Installed {
        /// The toolchain's root.
        sysroot: PathBuf,
    },
    /// Debian's `rustc-web` compiles the standard library from `rust-web-src` first (once per target folder).
    Debian {
        /// The compiler.
        rustc: PathBuf,
        /// A linker for WebAssembly: the current toolchain's `rust-lld`, or `wasm-ld`.
        linker: PathBuf,
    },
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Installed { sysroot } => write!(f, "{TARGET} of {}", sysroot.display()),
            Self::Debian { rustc, linker } => write!(
                f,
                "{} with its own standard library, linked by {}",
                rustc.display(),
                linker.display()
            ),
        }
    }
}

/// Finds a compiler without changing anything on the machine.
///
/// # Errors
/// [`BuildError::NoToolchain`] where there is none, [`BuildError::Run`] where `rustc` itself cannot be started.
pub fn find_toolchain() -> Result<Toolchain, BuildError> {
    let sysroot = sysroot()?;
    let installed = find_installed(&sysroot);
    if let Some(toolchain) = installed.or_else(|| find_debian(&sysroot)) {
        return Ok(toolchain);
    }
    Err(BuildError::NoToolchain {
        looked: format!(
            "no {TARGET} in {}, no {DEBIAN_RUSTC} with {DEBIAN_LIBRARY} and a rust-lld",
            sysroot.display()
        ),
    })
}

/// Finds a compiler, and installs one where there is none: first the target for the current toolchain through `rustup`,
/// else Debian's packages, whose names `install` gets: how packages are installed here is the caller's. Only for a command
/// that a person runs. `log` gets one line per step.
///
/// # Errors
/// As [`find_toolchain`], after both ways were tried.
pub fn ensure_toolchain(
    log: &mut dyn FnMut(&str),
    install: &mut dyn FnMut(&[&str]) -> Result<(), String>,
) -> Result<Toolchain, BuildError> {
    if let Ok(toolchain) = find_toolchain() {
        log(&format!("found {toolchain}"));
        return Ok(toolchain);
    }
    log(&format!("running rustup target add {TARGET}"));
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", TARGET]);
    match run_within(rustup, RUSTUP_DEADLINE) {
        Ok(()) => {
            if let Ok(toolchain) = find_toolchain() {
                log(&format!("installed {toolchain}"));
                return Ok(toolchain);
            }
        }
        Err(reason) => log(&format!("rustup could not install the target: {reason}")),
    }
    if let Err(reason) = install(&debian_packages(&sysroot()?)) {
        log(&format!("Debian's compiler could not be installed: {reason}"));
    }
    let toolchain = find_toolchain()?;
    log(&format!("installed {toolchain}"));
    Ok(toolchain)
}

/// The packages that [`find_debian`] needs; a linker only where the current toolchain has none.
fn debian_packages(sysroot: &Path) -> Vec<&'static str> {
    let mut packages = DEBIAN_PACKAGES.to_vec();
    if find_linker(sysroot).is_none() {
        packages.push(DEBIAN_LINKER);
    }
    packages
}

fn find_installed(sysroot: &Path) -> Option<Toolchain> {
    sysroot
        .join("lib/rustlib")
        .join(TARGET)
        .join("lib")
        .is_dir()
        .then(|| Toolchain::Installed {
            sysroot: sysroot.to_owned(),
        })
}

pub(crate) fn find_debian(sysroot: &Path) -> Option<Toolchain> {
    let rustc = PathBuf::from(DEBIAN_RUSTC);
    if !rustc.is_file() || !Path::new(DEBIAN_LIBRARY).is_file() {
        return None;
    }
    Some(Toolchain::Debian {
        rustc,
        linker: find_linker(sysroot)?,
    })
}

/// `rust-lld` stands under the folder of the host's own target, whose name need not be known: there is one.
fn find_linker(sysroot: &Path) -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(sysroot.join("lib/rustlib"))
        .ok()?
        .filter_map(Result::ok)
        .map(|entry| entry.path().join("bin/rust-lld"))
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found.into_iter().next().or_else(|| {
        let wasm_ld = PathBuf::from("/usr/bin/wasm-ld");
        wasm_ld.is_file().then_some(wasm_ld)
    })
}

/// The compiler that the surrounding cargo uses, if there is one.
pub(crate) fn rustc() -> PathBuf {
    std::env::var_os("RUSTC").map_or_else(|| PathBuf::from("rustc"), PathBuf::from)
}

pub(crate) fn sysroot() -> Result<PathBuf, BuildError> {
    let program = rustc();
    let output = Command::new(&program)
        .args(["--print", "sysroot"])
        .output()
        .map_err(|source| BuildError::Run {
            program: program.display().to_string(),
            source,
        })?;
    if !output.status.success() {
        return Err(BuildError::Failed {
            program: format!("{} --print sysroot", program.display()),
            output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        });
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// Runs a program to its end, or ends it at the deadline. It prints to the terminal itself.
fn run_within(mut command: Command, deadline: Duration) -> Result<(), String> {
    let mut child = command
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(status.to_string()),
            Ok(None) if started.elapsed() < deadline => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Ok(None) => {
                let ended = child.kill().and_then(|()| child.wait());
                return Err(match ended {
                    Ok(_) => format!("no end after {} s", deadline.as_secs()),
                    Err(error) => error.to_string(),
                });
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let mut sleep = Command::new("sleep");
        sleep.arg("30");
        let reason = run_within(sleep, Duration::from_millis(200)).unwrap_err();
        assert!(reason.starts_with("no end after"), "{reason}");
    }

    #[test]
    fn a_linker_is_installed_only_where_there_is_none() {
        let sysroot = std::env::temp_dir().join("no-such-sysroot");
        let linker = !Path::new("/usr/bin/wasm-ld").is_file();
        assert_eq!(debian_packages(&sysroot).contains(&DEBIAN_LINKER), linker);
    }

    #[test]
    fn a_missing_program_is_an_error_and_not_a_panic() {
        assert!(run_within(Command::new("no-such-program"), Duration::from_secs(1)).is_err());
    }
}
