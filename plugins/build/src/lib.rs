//! Builds a guest into a WebAssembly component that `sluice` can load.
//!
//! [`build_project`] takes a folder with a project in Rust, Python or JavaScript. The rest of this page is about Rust.
//!
//! A guest crate is an ordinary library; nothing in its manifest is special. [`build_component`] compiles it for
//! `wasm32-unknown-unknown` as a `cdylib`, turns the core module into a component, and adds the custom section
//! [`PLUGIN_SECTION`] with the crate's name and version. It is called from the host's build script, from tests, and
//! from the set-up and release commands, and works without the network once the crates are in cargo's cache.
//!
//! The compiler's own settings (optimisation, LTO, panic strategy, symbol stripping) are given on the command line, so
//! that they are the same for every plugin and no profile of the surrounding workspace leaks in.

mod cargo;
mod classes;
mod encode;
mod error;
mod javascript;
mod project;
mod python;
mod requirements;
mod run;
mod toolchain;
mod wit;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

pub use encode::{PLUGIN_SECTION, PluginInfo, plugin_info};
pub use error::BuildError;
pub use project::{BuiltProject, Language, build_project};
pub use toolchain::{TARGET, Toolchain, ensure_toolchain, find_toolchain};

/// What the compiler should strive for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Optimize {
    /// The fastest code (`opt-level = 3`).
    #[default]
    Speed,
    /// The smallest code (`opt-level = "s"`).
    Size,
}

/// A guest crate to build.
#[derive(Clone, Debug)]
pub struct BuildRequest {
    /// The folder with the guest's `Cargo.toml`.
    pub manifest_dir: PathBuf,
    /// Cargo's target folder for guests. Never that of a cargo which is running at the same time, whose lock would
    /// stop both; guests may share one.
    pub target_dir: PathBuf,
    /// What to optimise for.
    pub optimize: Optimize,
    /// Refuse to change `Cargo.lock` (`--locked`).
    pub locked: bool,
}

impl BuildRequest {
    /// A request for the fastest code, with the dependencies that `Cargo.lock` pins.
    pub fn new(manifest_dir: impl Into<PathBuf>, target_dir: impl Into<PathBuf>) -> Self {
        Self {
            manifest_dir: manifest_dir.into(),
            target_dir: target_dir.into(),
            optimize: Optimize::default(),
            locked: true,
        }
    }
}

/// A component that was built.
#[derive(Clone, Debug)]
pub struct Built {
    /// The component: `<target_dir>/components/<name>.wasm`.
    pub path: PathBuf,
    /// The core module that the component was made of.
    pub module: PathBuf,
    /// The crate's name and version, as the component carries them.
    pub info: PluginInfo,
    /// SHA-256 of the file, in lower-case hex.
    pub sha256: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// The compiler that was used.
    pub toolchain: Toolchain,
    /// The files that the component is made from, for `cargo::rerun-if-changed`: sources of the crate and of its path
    /// dependencies, their manifests, the WIT files, and the lock file.
    pub inputs: Vec<PathBuf>,
    /// How long it took.
    pub elapsed: Duration,
}

/// Builds the component with the toolchain that [`find_toolchain`] finds.
///
/// # Errors
/// [`BuildError::NoToolchain`] where nothing on this machine can compile for WebAssembly; otherwise what cargo, the
/// compiler or the component encoder said.
pub fn build_component(request: &BuildRequest) -> Result<Built, BuildError> {
    build_component_with(&find_toolchain()?, request)
}

/// Builds the component with a given toolchain.
///
/// # Errors
/// As [`build_component`].
pub fn build_component_with(toolchain: &Toolchain, request: &BuildRequest) -> Result<Built, BuildError> {
    let started = Instant::now();
    let package = cargo::package(toolchain, &request.manifest_dir)?;
    let module_path = cargo::compile(toolchain, request, &package)?;
    let module = read(&module_path)?;
    let info = PluginInfo {
        name: package.name.clone(),
        version: package.version.clone(),
    };
    let component = encode::component(&module, &info)?;

    let folder = request.target_dir.join("components");
    let path = folder.join(format!("{}.wasm", package.name));
    write_if_changed(&folder, &path, &component)?;
    let inputs = cargo::inputs(&module_path, &package);
    Ok(Built {
        sha256: hex(&Sha256::digest(&component)),
        bytes: component.len() as u64,
        path,
        module: module_path,
        info,
        toolchain: toolchain.clone(),
        inputs,
        elapsed: started.elapsed(),
    })
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, BuildError> {
    std::fs::read(path).map_err(|source| BuildError::File {
        path: path.to_owned(),
        source,
    })
}

/// Replaces the file in one step, so that a reader never sees half of it, and leaves an equal one (and its time) alone.
pub(crate) fn write_if_changed(folder: &Path, path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    let at = |source| BuildError::File {
        path: path.to_owned(),
        source,
    };
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    std::fs::create_dir_all(folder).map_err(at)?;
    let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
    std::fs::write(&unfinished, bytes).map_err(at)?;
    std::fs::rename(&unfinished, path).map_err(at)?;
    Ok(())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
