//! `sluice plugin new`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::Failure;
use crate::cli::out::say;
use crate::kit::{Language, NewProject, new_project};

#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// The plugin's name: lower-case letters, digits, `-` and `_`.
    name: String,
    /// Where it goes; a folder called like the plugin by default. It must not be there yet.
    dir: Option<PathBuf>,
    /// The language to write it in.
    #[arg(long, value_enum, default_value = "rust")]
    lang: Language,
    /// Print one JSON object (docs/reference/plugin-kit.md).
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(args: NewArgs) -> Result<(), Failure> {
    let dir = args.dir.unwrap_or_else(|| PathBuf::from(&args.name));
    let project = NewProject {
        name: args.name,
        language: args.lang,
        dir,
    };
    let files = new_project(&project)?;
    if args.json {
        say!(
            "{}",
            serde_json::json!({"type": "new", "name": project.name, "dir": project.dir, "files": files})
        );
        return Ok(());
    }
    say!("{} with {} files:", project.dir.display(), files.len());
    for file in files
        .iter()
        .filter(|file| !file.starts_with("vendor") && !file.starts_with("sluice_plugin"))
    {
        say!("  {}", file.display());
    }
    say!("\nNext:\n  cd {}", project.dir.display());
    if project.language == Language::Rust {
        say!("  cargo test");
    }
    say!("  sluice plugin build\n  sluice plugin test");
    Ok(())
}
