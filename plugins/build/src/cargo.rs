//! The calls of cargo, shielded from the cargo that may be running us.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::error::BuildError;
use crate::run::output;
use crate::toolchain::{TARGET, Toolchain};
use crate::{BuildRequest, Optimize};

const PROFILE: &str = "sluice-guest";

/// What is needed of a guest's manifest.
#[derive(Debug)]
pub(crate) struct Package {
    pub name: String,
    pub version: String,
    manifest: PathBuf,
    library: String,
    workspace: PathBuf,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct MetadataPackage {
    name: String,
    version: String,
    manifest_path: PathBuf,
    targets: Vec<MetadataTarget>,
}

#[derive(Deserialize)]
struct MetadataTarget {
    name: String,
    kind: Vec<String>,
}

pub(crate) fn package(toolchain: &Toolchain, dir: &Path) -> Result<Package, BuildError> {
    let manifest = dir.join("Cargo.toml");
    let mut command = cargo(toolchain);
    command
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .arg("--manifest-path")
        .arg(&manifest);
    let output = output(command, "cargo metadata")?;
    let refused = |reason: String| BuildError::Manifest {
        manifest: manifest.clone(),
        reason,
    };
    let metadata: Metadata = serde_json::from_slice(&output).map_err(|error| refused(error.to_string()))?;
    let wanted = manifest.canonicalize().unwrap_or_else(|_| manifest.clone());
    let found = metadata
        .packages
        .into_iter()
        .find(|package| package.manifest_path.canonicalize().is_ok_and(|path| path == wanted))
        .ok_or_else(|| refused("it is a workspace, not a crate".to_owned()))?;
    let is_library = |kind: &String| matches!(kind.as_str(), "lib" | "rlib" | "cdylib");
    let library = found
        .targets
        .iter()
        .find(|target| target.kind.iter().any(is_library))
        .ok_or_else(|| refused("it has no library target".to_owned()))?;
    Ok(Package {
        library: library.name.replace('-', "_"),
        name: found.name,
        version: found.version,
        manifest: found.manifest_path,
        workspace: metadata.workspace_root,
    })
}

/// Compiles the guest and returns the path of its core module.
pub(crate) fn compile(toolchain: &Toolchain, request: &BuildRequest, package: &Package) -> Result<PathBuf, BuildError> {
    let mut command = cargo(toolchain);
    command
        .args(["rustc", "--lib", "--crate-type", "cdylib"])
        .args(["--target", TARGET, "--profile", PROFILE])
        .arg("--manifest-path")
        .arg(&package.manifest)
        .arg("--target-dir")
        .arg(&request.target_dir);
    if request.locked {
        command.arg("--locked");
    }
    let level = match request.optimize {
        Optimize::Speed => "3",
        Optimize::Size => "\"s\"",
    };
    for setting in [
        "inherits=\"release\"",
        &format!("opt-level={level}"),
        "lto=\"fat\"",
        "codegen-units=1",
        "panic=\"abort\"",
        "strip=\"symbols\"",
        "debug=false",
        "incremental=false",
        "debug-assertions=false",
        // A wrapped number in a transform would be silent corruption; a trap stops the table instead.
        "overflow-checks=true",
    ] {
        command.args(["--config", &format!("profile.{PROFILE}.{setting}")]);
    }
    // No path of this machine may stand in the component, or two machines would never build the same bytes.
    // sluice's engine has 128-bit vectors on every machine; loops over bytes run several times faster with them.
    let mut flags = vec![OsString::from("-Ctarget-feature=+simd128")];
    for (from, to) in [
        (cargo_home(), "/cargo"),
        (source_root(toolchain), "/rust"),
        (Some(package.workspace.clone()), "/workspace"),
    ] {
        if let Some(from) = from {
            let mut flag = OsString::from("--remap-path-prefix=");
            flag.push(from);
            flag.push("=");
            flag.push(to);
            flags.push(flag);
        }
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}".as_ref()));
    if let Toolchain::Debian { linker, .. } = toolchain {
        command.arg("-Zbuild-std=std,panic_abort");
        command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
    }
    output(command, &format!("cargo rustc for {}", package.name))?;
    Ok(request
        .target_dir
        .join(TARGET)
        .join(PROFILE)
        .join(format!("{}.wasm", package.library)))
}

/// The files that the module is made from, by the compiler's own account (the `.d` file beside the module).
pub(crate) fn inputs(module: &Path, package: &Package) -> Vec<PathBuf> {
    let mut inputs = BTreeSet::from([
        package.manifest.clone(),
        package.workspace.join("Cargo.toml"),
        package.workspace.join("Cargo.lock"),
    ]);
    let listed = std::fs::read_to_string(module.with_extension("d")).unwrap_or_default();
    let outside = [cargo_home(), Some(PathBuf::from("/usr/lib/rustlib"))];
    for path in dep_info(&listed) {
        if outside.iter().flatten().any(|root| path.starts_with(root)) {
            continue;
        }
        if path.extension().is_some_and(|extension| extension == "rs") {
            let manifest = path
                .ancestors()
                .map(|folder| folder.join("Cargo.toml"))
                .find(|manifest| manifest.is_file());
            inputs.extend(manifest);
        }
        inputs.insert(path);
    }
    inputs.into_iter().collect()
}

/// Paths to the right of the colon of a make rule, in which a blank in a name is escaped by a backslash.
fn dep_info(text: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for line in text.lines() {
        let Some((_, right)) = line.split_once(": ") else {
            continue;
        };
        let mut path = String::new();
        let mut chars = right.chars().peekable();
        while let Some(char) = chars.next() {
            match char {
                '\\' if chars.peek() == Some(&' ') => {
                    path.push(' ');
                    chars.next();
                }
                ' ' if !path.is_empty() => paths.push(PathBuf::from(std::mem::take(&mut path))),
                ' ' => {}
                _ => path.push(char),
            }
        }
        if !path.is_empty() {
            paths.push(PathBuf::from(path));
        }
    }
    paths
}

/// A cargo that inherits nothing of an outer one: neither its flags, wrappers (clippy sets one) and target folder nor
/// its job server, whose lock-step would let both wait for each other.
fn cargo(toolchain: &Toolchain) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    let outer = std::env::var_os("CARGO_MANIFEST_DIR").is_some();
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| is_of_outer_cargo(name, outer)) {
            command.env_remove(&name);
        }
    }
    match toolchain {
        Toolchain::Installed { .. } => {
            command.env("RUSTC", crate::toolchain::rustc());
        }
        Toolchain::Debian { rustc, .. } => {
            command.env("RUSTC", rustc).env("RUSTC_BOOTSTRAP", "1");
            // It would make Debian's compiler load the libraries of the outer toolchain.
            command.env_remove("LD_LIBRARY_PATH");
        }
    }
    command
}

fn is_of_outer_cargo(name: &str, inside_cargo: bool) -> bool {
    const KEPT: [&str; 5] = [
        "CARGO_HOME",
        "CARGO_NET_",
        "CARGO_HTTP_",
        "CARGO_REGISTR",
        "CARGO_SOURCE_",
    ];
    const BUILD_SCRIPT: [&str; 11] = [
        "TARGET",
        "HOST",
        "OUT_DIR",
        "PROFILE",
        "OPT_LEVEL",
        "DEBUG",
        "NUM_JOBS",
        "RUSTDOC",
        "MAKEFLAGS",
        "MFLAGS",
        "RUSTC_LINKER",
    ];
    if name.starts_with("CARGO_") || name == "CARGO" {
        return !KEPT.iter().any(|kept| name.starts_with(kept));
    }
    matches!(
        name,
        "RUSTFLAGS"
            | "RUSTDOCFLAGS"
            | "RUSTC"
            | "RUSTC_WRAPPER"
            | "RUSTC_WORKSPACE_WRAPPER"
            | "RUSTC_BOOTSTRAP"
            | "CLIPPY_ARGS"
            | "CLIPPY_CONF_DIR"
    ) || (inside_cargo && (BUILD_SCRIPT.contains(&name) || name.starts_with("DEP_")))
}

fn cargo_home() -> Option<PathBuf> {
    std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")))
}

fn source_root(toolchain: &Toolchain) -> Option<PathBuf> {
    match toolchain {
        Toolchain::Installed { sysroot } => Some(sysroot.clone()),
        Toolchain::Debian { .. } => Some(PathBuf::from("/usr/lib/rustlib/src/rust")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dep_info_with_blanks_in_names() {
        let paths = dep_info("/t/a.wasm: /src/lib.rs /with\\ blank/x.rs /wit/types.wit\n");
        assert_eq!(
            paths,
            ["/src/lib.rs", "/with blank/x.rs", "/wit/types.wit"].map(PathBuf::from)
        );
        assert!(dep_info("").is_empty());
    }

    #[test]
    fn what_an_outer_cargo_sets_is_not_inherited() {
        for name in [
            "RUSTC_WORKSPACE_WRAPPER",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_TARGET_DIR",
            "CARGO_MAKEFLAGS",
            "CARGO_BUILD_TARGET",
            "CARGO_PROFILE_RELEASE_LTO",
            "TARGET",
        ] {
            assert!(is_of_outer_cargo(name, true), "{name}");
        }
        for name in ["CARGO_HOME", "CARGO_NET_OFFLINE", "PATH", "RUSTUP_TOOLCHAIN"] {
            assert!(!is_of_outer_cargo(name, true), "{name}");
        }
        assert!(!is_of_outer_cargo("TARGET", false));
    }
}
