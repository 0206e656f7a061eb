//! `sluice plugin build`.

use std::path::PathBuf;

use clap::Args;

use super::size;
use crate::cli::Failure;
use crate::cli::out::say;
use crate::kit::{Building, build};

#[derive(Debug, Args)]
pub(super) struct BuildArgs {
    /// The project's folder.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Where the component goes; NAME.wasm in the project's folder by default.
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Where the compiler works; target/sluice in the project's folder by default.
    #[arg(long, value_name = "DIR")]
    target_dir: Option<PathBuf>,
    /// Print one JSON object (docs/reference/plugin-kit.md).
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(args: BuildArgs) -> Result<(), Failure> {
    let building = Building {
        dir: args.dir,
        output: args.output,
        target_dir: args.target_dir,
    };
    let built = build(&building, &mut |line| {
        if !args.json {
            say!("{line}");
        }
    })?;
    if args.json {
        say!(
            "{}",
            serde_json::json!({
                "type": "built", "name": built.name, "version": built.version, "file": built.file, "bytes": built.bytes,
                "sha256": built.sha256, "duration_ms": built.elapsed.as_millis() as u64,
            })
        );
        return Ok(());
    }
    say!(
        "{}: {} {}, {}, in {:.1} s",
        built.file.display(),
        built.name,
        built.version,
        size(built.bytes),
        built.elapsed.as_secs_f64()
    );
    say!("sha256 {}", built.sha256);
    Ok(())
}
