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
    for line in listed(&files, project.language.sdk()) {
        say!("  {line}");
    }
    say!("\nNext:\n  cd {}", project.dir.display());
    say!("  {}", project.language.unit_tests());
    say!("  sluice plugin build\n  sluice plugin test");
    Ok(())
}

/// The project's own files, and the SDK in one line.
fn listed(files: &[PathBuf], sdk: &str) -> Vec<String> {
    let (of_sdk, own): (Vec<&PathBuf>, Vec<&PathBuf>) = files.iter().partition(|file| file.starts_with(sdk));
    let mut lines: Vec<String> = own.iter().map(|file| file.display().to_string()).collect();
    lines.push(format!("{sdk}/ ({} files: the SDK)", of_sdk.len()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_a_project_is_counted_in_the_list() {
        for language in [Language::Rust, Language::Python, Language::JavaScript] {
            let dir = tempfile::tempdir().unwrap();
            let project = NewProject {
                name: "mine".to_owned(),
                language,
                dir: dir.path().join("mine"),
            };
            let files = new_project(&project).unwrap();
            let lines = listed(&files, language.sdk());
            let (sdk, own) = lines.split_last().unwrap();
            let words = format!("{}/ ({} files: the SDK)", language.sdk(), files.len() - own.len());
            assert_eq!(*sdk, words);
            assert!(files.len() > own.len() + 5, "{language:?}: {lines:?}");
            assert!(
                own.iter().all(|file| !file.contains("sluice")),
                "{language:?}: {lines:?}"
            );
        }
    }
}
