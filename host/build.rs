//! Builds the standard components from source, so that they come inside the binary and no `.wasm` is committed.

use std::fmt::Write as _;
use std::path::PathBuf;

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
    std::fs::write(&file, list).map_err(|error| format!("cannot write {}: {error}", file.display()))
}
