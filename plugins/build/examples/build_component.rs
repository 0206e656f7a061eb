//! Builds the crate in a folder and puts the component into another: `build_component CRATE PLUGINS`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sluice_component_build::{BuildRequest, build_component};

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [folder, plugins] = arguments.as_slice() else {
        eprintln!("usage: build_component CRATE PLUGINS");
        return ExitCode::FAILURE;
    };
    match component(folder, plugins) {
        Ok(to) => {
            println!("{}", to.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn component(folder: &Path, plugins: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let request = BuildRequest {
        locked: false,
        ..BuildRequest::new(folder, folder.join("target/sluice"))
    };
    let built = build_component(&request)?;
    std::fs::create_dir_all(plugins)?;
    let to = plugins.join(format!("{}.wasm", built.info.name));
    std::fs::copy(&built.path, &to)?;
    Ok(to)
}
