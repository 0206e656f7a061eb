//! Building a project in any of the languages.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::encode::{PluginInfo, named};
use crate::error::BuildError;
use crate::{BuildRequest, build_component, hex, javascript, python, read, write_if_changed};

/// A language that plugins are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// `Cargo.toml`.
    Rust,
    /// `pyproject.toml`.
    Python,
    /// `package.json`.
    JavaScript,
}

impl Language {
    /// The language of the project in a folder, by its manifest; `None` where there is none.
    pub fn of(dir: &Path) -> Option<Self> {
        [Self::Rust, Self::Python, Self::JavaScript]
            .into_iter()
            .find(|language| dir.join(language.manifest()).is_file())
    }

    /// The name of the manifest.
    pub fn manifest(self) -> &'static str {
        match self {
            Self::Rust => "Cargo.toml",
            Self::Python => "pyproject.toml",
            Self::JavaScript => "package.json",
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::JavaScript => "JavaScript",
        })
    }
}

/// A project that was built.
#[derive(Clone, Debug)]
pub struct BuiltProject {
    /// What it is written in.
    pub language: Language,
    /// The component: `<target_dir>/components/<name>.wasm`.
    pub path: PathBuf,
    /// The project's name and version, as the component carries them.
    pub info: PluginInfo,
    /// SHA-256 of the file, in lower-case hex.
    pub sha256: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// Builds the project in `dir`, whatever it is written in. Tools and everything that is made on the way go under
/// `target_dir`; `say` gets a line for each step that takes a while.
///
/// # Errors
/// [`BuildError::NoProject`] where no language is recognised, [`BuildError::NoProgram`] and [`BuildError::NoToolchain`] where this
/// machine lacks what the language needs, [`BuildError::Unreachable`] where tools have to be fetched and cannot be; otherwise
/// what the language's tools said.
pub fn build_project(dir: &Path, target_dir: &Path, say: &mut dyn FnMut(&str)) -> Result<BuiltProject, BuildError> {
    let started = Instant::now();
    let language = Language::of(dir).ok_or_else(|| BuildError::NoProject { dir: dir.to_owned() })?;
    let (component, info) = match language {
        Language::Rust => {
            let request = BuildRequest {
                // A new project has no lock file yet.
                locked: dir.join("Cargo.lock").is_file(),
                ..BuildRequest::new(dir, target_dir)
            };
            say(&format!("compiling {}", dir.display()));
            let built = build_component(&request)?;
            return Ok(BuiltProject {
                language,
                path: built.path,
                info: built.info,
                sha256: built.sha256,
                bytes: built.bytes,
                elapsed: started.elapsed(),
            });
        }
        Language::Python => python::component(dir, target_dir, say)?,
        Language::JavaScript => javascript::component(dir, target_dir, say)?,
    };
    let component = named(read(&component)?, &info)?;
    let folder = target_dir.join("components");
    let path = folder.join(format!("{}.wasm", info.name));
    write_if_changed(&folder, &path, &component)?;
    Ok(BuiltProject {
        language,
        path,
        info,
        sha256: hex(&Sha256::digest(&component)),
        bytes: component.len() as u64,
        elapsed: started.elapsed(),
    })
}

/// Refuses a name that could not be a component's file.
pub(crate) fn check_name(manifest: &Path, name: &str) -> Result<(), BuildError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.bytes().all(fits) && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric()) {
        return Ok(());
    }
    Err(BuildError::Manifest {
        manifest: manifest.to_owned(),
        reason: format!("its name `{name}` is no plugin's; use letters, digits, `-`, `_` and `.`"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_project_is_refused_by_name() {
        let error = build_project(Path::new("/no/such/folder"), Path::new("/tmp/none"), &mut |_| {}).unwrap_err();
        assert_eq!(
            error.to_string(),
            "/no/such/folder is no plugin's project: it has no Cargo.toml, pyproject.toml or package.json"
        );
    }

    #[test]
    fn names_that_could_leave_their_folder_are_refused() {
        for name in ["mask-phones", "a", "x_1.2"] {
            check_name(Path::new("package.json"), name).unwrap();
        }
        for name in ["", "@me/mask", "../x", ".x", "a b", "ä"] {
            assert!(check_name(Path::new("package.json"), name).is_err(), "{name}");
        }
    }
}
