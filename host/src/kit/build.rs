//! `plugin build`: from a project's folder to a component beside it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sluice_component_build::{
    BuildError, BuildRequest, Toolchain, build_component_with, build_project, find_toolchain, plugin_info,
};

use super::error::KitError;
use super::project::Language;

/// What to build.
#[derive(Debug)]
pub(crate) struct Building {
    /// The project's folder.
    pub(crate) dir: PathBuf,
    /// Where the component goes; `NAME.wasm` in the project's folder by default.
    pub(crate) output: Option<PathBuf>,
    /// Where the compiler works; `target/sluice` in the project's folder by default.
    pub(crate) target_dir: Option<PathBuf>,
}

/// A component that was built.
#[derive(Debug)]
pub(crate) struct BuiltPlugin {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) file: PathBuf,
    pub(crate) bytes: u64,
    /// In lower-case hex.
    pub(crate) sha256: String,
    pub(crate) elapsed: Duration,
}

/// Builds a project; `tell` gets a line for each thing that is done.
///
/// # Errors
/// When the folder is no project, there is no compiler, or the project does not compile.
pub(crate) fn build(building: &Building, tell: &mut dyn FnMut(&str)) -> Result<BuiltPlugin, KitError> {
    let started = Instant::now();
    let dir = &building.dir;
    let language = Language::of(dir).ok_or_else(|| {
        KitError::file(
            dir,
            "no project of a plugin: there is no Cargo.toml, pyproject.toml or package.json; make one with `sluice plugin new`",
        )
    })?;
    let target_dir = building.target_dir.clone().unwrap_or_else(|| dir.join("target/sluice"));
    let built = match language {
        Language::Rust => rust(dir, &target_dir, tell)?,
        Language::Python | Language::JavaScript => build_project(dir, &target_dir, tell)?.path,
    };
    let bytes = std::fs::read(&built).map_err(KitError::system("read", &built))?;
    let info = plugin_info(&bytes)
        .ok_or_else(|| KitError::file(&built, "the component says neither its name nor its version"))?;
    let file = match &building.output {
        Some(file) => file.clone(),
        None => dir.join(format!("{}.wasm", info.name)),
    };
    replace(&file, &bytes)?;
    Ok(BuiltPlugin {
        name: info.name,
        version: info.version,
        bytes: bytes.len() as u64,
        sha256: crate::sha256::hex(&bytes),
        file,
        elapsed: started.elapsed(),
    })
}

/// Builds a crate; the component's path.
fn rust(dir: &Path, target_dir: &Path, tell: &mut dyn FnMut(&str)) -> Result<PathBuf, KitError> {
    let toolchain = find_toolchain().map_err(|error| match error {
        BuildError::NoToolchain { looked } => KitError::NoCompiler { looked },
        BuildError::Run { program, .. } => KitError::NoCompiler {
            looked: format!("{program} cannot be started"),
        },
        other => KitError::Build(other),
    })?;
    tell(&format!("compiler: {toolchain}"));
    let first = !target_dir.exists();
    let how_long = match &toolchain {
        Toolchain::Debian { .. } if first => " (minutes the first time: it compiles the standard library too)",
        _ if first => " (the first time with all its dependencies)",
        _ => "",
    };
    tell(&format!("compiling {}{how_long} …", dir.display()));
    let request = BuildRequest {
        // A new dependency in the manifest is the author's business, not an error.
        locked: false,
        ..BuildRequest::new(dir, target_dir)
    };
    Ok(build_component_with(&toolchain, &request)?.path)
}

/// Replaces a file in one step: a stream that reloads it never sees half of it.
fn replace(file: &Path, bytes: &[u8]) -> Result<(), KitError> {
    let unfinished = file.with_extension(format!("wasm.partial-{}", std::process::id()));
    std::fs::write(&unfinished, bytes).map_err(KitError::system("write", &unfinished))?;
    std::fs::rename(&unfinished, file).map_err(KitError::system("write", file))
}
