//! Builds the standard components from source, so that they come inside the binary and no `.wasm` is committed, and lists
//! what `sluice plugin new` writes: templates, the Rust SDK and the contract.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sluice_component_build::{BuildRequest, build_component};

/// Name in the configuration, and the folder under `plugins/`.
const BUILT_IN: [&str; 2] = ["mask", "map"];

fn main() {
    if let Err(message) = build() {
        // Cargo shows what a failed build script prints to standard error.
        eprintln!("\n{message}\n");
        std::process::exit(1);
    }
}

fn build() -> Result<(), String> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    // Asked when it runs, not when it was compiled: clones that share a target folder share this program.
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set")?);
    let plugins = manifest.join("../plugins");
    // `target/<profile>/build/<package>/out`: guests share one target folder, whatever the profile of the host.
    let target = out.ancestors().nth(4).ok_or("OUT_DIR is too short")?.join("guests");
    let mut list = String::from("&[\n");
    for name in BUILT_IN {
        let built = build_component(&BuildRequest::new(plugins.join(name), &target))
            .map_err(|error| format!("cannot build the standard component {name}: {error}"))?;
        for input in &built.inputs {
            println!("cargo::rerun-if-changed={}", input.display());
        }
        let copy = out.join(format!("{name}.wasm"));
        std::fs::copy(&built.path, &copy).map_err(|error| format!("cannot write {}: {error}", copy.display()))?;
        let _ = writeln!(
            list,
            "    BuiltinComponent {{ name: {name:?}, bytes: include_bytes!({:?}) }},",
            copy.display().to_string()
        );
    }
    list.push(']');
    println!("cargo::rerun-if-changed=build.rs");
    let file = out.join("built_in.rs");
    std::fs::write(&file, list).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    embed(&manifest, &out.join("kit_files.rs"))
}

/// Writes the list of files that a new plugin is made of: each with its path under `plugins/`, or from `wit/` on.
fn embed(manifest: &Path, file: &Path) -> Result<(), String> {
    let plugins = manifest.join("../plugins");
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    collect(&plugins.join("templates"), "templates", &mut found)?;
    collect(&plugins.join("sdk"), "sdk", &mut found)?;
    collect(&manifest.join("../wit"), "wit", &mut found)?;
    found.sort();
    let mut list = String::from("&[\n");
    for (name, path) in found {
        let path = path
            .canonicalize()
            .map_err(|error| format!("cannot find {}: {error}", path.display()))?;
        println!("cargo::rerun-if-changed={}", path.display());
        let _ = writeln!(list, "    ({name:?}, include_str!({:?})),", path.display().to_string());
    }
    list.push(']');
    std::fs::write(file, list).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// The text files of a folder and the folders in it. What tools leave behind is no part of a template.
fn collect(dir: &Path, name: &str, found: &mut Vec<(String, PathBuf)>) -> Result<(), String> {
    const LEFT_BEHIND: [&str; 4] = ["__pycache__", "node_modules", "target", "Cargo.lock"];
    println!("cargo::rerun-if-changed={}", dir.display());
    let unreadable = |error: std::io::Error| format!("cannot read {}: {error}", dir.display());
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let file = entry.file_name().to_string_lossy().into_owned();
        if file.starts_with('.') || LEFT_BEHIND.contains(&file.as_str()) {
            continue;
        }
        let name = format!("{name}/{file}");
        if entry.path().is_dir() {
            collect(&entry.path(), &name, found)?;
        } else {
            found.push((name, entry.path()));
        }
    }
    Ok(())
}
