//! Which file of a project's folder is its component: after some versions there may be several.

use std::path::{Path, PathBuf};

use sluice_component_build::Language;

use super::error::KitError;

/// The component of a folder: the only one, or of several the one that is named after the project.
///
/// # Errors
/// When there is none, or it cannot be told which.
pub(crate) fn component_in(dir: &Path) -> Result<PathBuf, KitError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(KitError::system("read", dir))? {
        let file = entry.map_err(KitError::system("read", dir))?.path();
        if file.extension().is_some_and(|ending| ending == "wasm") {
            found.push(file);
        }
    }
    found.sort();
    if found.len() == 1 {
        return Ok(found.remove(0));
    }
    if found.is_empty() {
        return Err(KitError::Usage(format!(
            "there is no component in {}; run `sluice plugin build` there first",
            dir.display()
        )));
    }
    let own = name_of(dir).map(|name| format!("{name}.wasm"));
    let is_own = |file: &PathBuf| {
        own.as_deref()
            .is_some_and(|own| file.file_name().is_some_and(|name| name == own))
    };
    if let Some(file) = found.iter().find(|file| is_own(file)) {
        return Ok(file.clone());
    }
    let names: Vec<String> = found.iter().map(|file| file.display().to_string()).collect();
    let none = own.map(|own| format!(", and none is the project's own `{own}`"));
    Err(KitError::Usage(format!(
        "there are several components: {}{}; name the one that you mean",
        names.join(", "),
        none.unwrap_or_default()
    )))
}

/// The name that a project's manifest gives it, and a build its component.
fn name_of(dir: &Path) -> Option<String> {
    let language = Language::of(dir)?;
    let text = std::fs::read_to_string(dir.join(language.manifest())).ok()?;
    let of_toml = |table: &str| {
        let manifest: toml::Table = text.parse().ok()?;
        Some(manifest.get(table)?.get("name")?.as_str()?.to_owned())
    };
    match language {
        Language::Rust => of_toml("package"),
        Language::Python => of_toml("project"),
        Language::JavaScript => {
            let manifest: serde_json::Value = serde_json::from_str(&text).ok()?;
            Some(manifest.get("name")?.as_str()?.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            std::fs::write(dir.path().join(file), text).unwrap();
        }
        dir
    }

    #[test]
    fn of_several_components_the_projects_own_is_taken() {
        for (manifest, text) in [
            ("Cargo.toml", "[package]\nname = \"mine\"\n"),
            ("pyproject.toml", "[project]\nname = \"mine\"\n"),
            ("package.json", "{\"name\": \"mine\"}"),
        ] {
            let dir = folder(&[
                (manifest, text),
                ("mine.wasm", ""),
                ("a-0.1.0.wasm", ""),
                ("notes.md", ""),
            ]);
            assert_eq!(
                component_in(dir.path()).unwrap(),
                dir.path().join("mine.wasm"),
                "{manifest}"
            );
        }
        let one = folder(&[("other.wasm", "")]);
        assert_eq!(component_in(one.path()).unwrap(), one.path().join("other.wasm"));
    }

    #[test]
    fn a_folder_without_a_component_or_with_two_of_others_says_what_to_do() {
        let none = component_in(folder(&[]).path()).unwrap_err().to_string();
        assert!(none.contains("run `sluice plugin build`"), "{none}");
        let nameless = folder(&[("a.wasm", ""), ("b.wasm", "")]);
        let error = component_in(nameless.path()).unwrap_err().to_string();
        assert!(
            error.contains("a.wasm, ") && error.ends_with("b.wasm; name the one that you mean"),
            "{error}"
        );
        let others = folder(&[
            ("Cargo.toml", "[package]\nname = \"mine\"\n"),
            ("a.wasm", ""),
            ("b.wasm", ""),
        ]);
        let error = component_in(others.path()).unwrap_err().to_string();
        assert!(error.contains("none is the project's own `mine.wasm`"), "{error}");
    }
}
