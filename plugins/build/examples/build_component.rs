//! Builds the project in a folder, in whatever language, and puts the component into another: `build_component PROJECT PLUGINS`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sluice_component_build::build_project;

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [folder, plugins] = arguments.as_slice() else {
        eprintln!("usage: build_component PROJECT PLUGINS");
        return ExitCode::FAILURE;
    };
    match component(folder, plugins) {
        Ok(to) => {
            println!("{}", to.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            let mut source = error.source();
            while let Some(reason) = source {
                eprintln!("  {reason}");
                source = reason.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn component(folder: &Path, plugins: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let built = build_project(folder, &folder.join("target/sluice"), &mut |line| eprintln!("{line}"))?;
    std::fs::create_dir_all(plugins)?;
    let to = plugins.join(format!("{}.wasm", built.info.name));
    std::fs::copy(&built.path, &to)?;
    Ok(to)
}
