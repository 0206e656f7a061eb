//! `plugin new`: a project from the templates inside the binary, with all that it needs to be built anywhere.

use std::path::{Path, PathBuf};

use super::error::KitError;
use super::lock::{LeftOut, lock_of};

/// A file inside the binary: where it stands under `plugins/`, or under `wit/`, and its text.
type Embedded = (&'static str, &'static str);

/// Templates, the Rust SDK and the contract. The build script lists them.
static EMBEDDED: &[Embedded] = include!(concat!(env!("OUT_DIR"), "/kit_files.rs"));
/// What this repository is built with.
static LOCK: &str = include_str!("../../../Cargo.lock");

/// Where the SDK goes in a project.
const SDK: &str = "vendor/sluice-plugin";
/// Cargo would take a manifest in this repository for a crate of its own, so it has one more ending here.
const TEMPLATE_ENDING: &str = ".template";
/// The version that a new plugin has.
const FIRST_VERSION: &str = "0.1.0";
/// Direct dependencies of the Rust template.
const RUST_DEPENDENCIES: [&str; 2] = ["serde", "sluice-plugin"];
/// What stands in this repository's lock file for crates of the SDK and is of no use to it: other crates here ask more of
/// them. A test builds a new project, and looks whether cargo leaves its lock file as it is.
const NOT_OF_THE_SDK: [LeftOut; 5] = [
    ("aes", &["zeroize"]),
    (
        "chrono",
        &["iana-time-zone", "js-sys", "serde", "wasm-bindgen", "windows-link"],
    ),
    ("hashbrown", &["serde", "serde_core"]),
    ("num-traits", &["libm"]),
    ("semver", &["serde", "serde_core"]),
];
const LONGEST_NAME: usize = 64;

/// A language that plugins are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Language {
    /// Small and fast components.
    Rust,
    /// With a Python runtime inside the component.
    Python,
    /// With a JavaScript runtime inside the component.
    #[value(name = "js", alias = "javascript")]
    JavaScript,
}

impl Language {
    /// The folder of its templates.
    fn folder(self) -> &'static str {
        match self {
            Language::Rust => "rust",
            Language::Python => "python",
            Language::JavaScript => "javascript",
        }
    }

    /// Where the SDK stands in a project.
    pub(crate) fn sdk(self) -> &'static str {
        match self {
            Language::Rust => SDK,
            Language::Python | Language::JavaScript => "sluice_plugin",
        }
    }

    /// How a project's own tests are run, without a component.
    pub(crate) fn unit_tests(self) -> &'static str {
        match self {
            Language::Rust => "cargo test",
            Language::Python => "python3 -m unittest",
            Language::JavaScript => "node --test",
        }
    }

    /// The language of a project, by the file that its tools look for.
    pub(crate) fn of(dir: &Path) -> Option<Language> {
        use sluice_component_build::Language as Built;
        Some(match Built::of(dir)? {
            Built::Rust => Language::Rust,
            Built::Python => Language::Python,
            Built::JavaScript => Language::JavaScript,
        })
    }
}

/// A project to be written.
#[derive(Debug)]
pub(crate) struct NewProject {
    pub(crate) name: String,
    pub(crate) language: Language,
    /// Must not be there yet.
    pub(crate) dir: PathBuf,
}

/// Writes a project; its files, relative to it.
///
/// # Errors
/// When the name will not do, the folder is there already, or it cannot be written. Nothing is left then.
pub(crate) fn new_project(project: &NewProject) -> Result<Vec<PathBuf>, KitError> {
    check_name(&project.name, project.language).map_err(KitError::Usage)?;
    if project.dir.symlink_metadata().is_ok() {
        return Err(KitError::Usage(format!(
            "{} is there already, and nothing is overwritten; name another folder: sluice plugin new {} DIR",
            project.dir.display(),
            project.name
        )));
    }
    let files = files_of(&project.name, project.language)?;
    // Complete, or not at all.
    let parent = match project.dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(parent).map_err(KitError::system("create", parent))?;
    let partial = parent.join(format!(".{}.partial-{}", project.name, std::process::id()));
    let written = write_all(&partial, &files)
        .and_then(|()| std::fs::rename(&partial, &project.dir).map_err(KitError::system("create", &project.dir)));
    if let Err(error) = written {
        // The first error is the one to tell.
        let _ = std::fs::remove_dir_all(&partial);
        return Err(error);
    }
    Ok(files.into_iter().map(|(path, _)| path).collect())
}

fn write_all(dir: &Path, files: &[(PathBuf, String)]) -> Result<(), KitError> {
    std::fs::create_dir(dir).map_err(KitError::system("create", dir))?;
    for (path, text) in files {
        let path = dir.join(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(KitError::system("create", folder))?;
        }
        std::fs::write(&path, text).map_err(KitError::system("write", &path))?;
    }
    Ok(())
}

/// The files of a new project, sorted.
fn files_of(name: &str, language: Language) -> Result<Vec<(PathBuf, String)>, KitError> {
    let folder = format!("templates/{}/", language.folder());
    let class = class_name(name);
    let fill = |text: &str| {
        text.replace("{{name}}", name)
            .replace("{{crate_name}}", &name.replace('-', "_"))
            .replace("{{class_name}}", &class)
    };
    let mut files: Vec<(PathBuf, String)> = EMBEDDED
        .iter()
        .filter_map(|(path, text)| {
            let path = fill(path.strip_prefix(&folder)?);
            let path = path.strip_suffix(TEMPLATE_ENDING).unwrap_or(&path);
            let mut path = PathBuf::from(path);
            if path.file_name().is_some_and(|file| file == "gitignore") {
                path.set_file_name(".gitignore");
            }
            Some((path, fill(text)))
        })
        .collect();
    if files.is_empty() {
        return Err(KitError::Usage(format!(
            "this sluice has no template for {}",
            language.folder()
        )));
    }
    if language == Language::Rust {
        files.extend(sdk().map_err(KitError::Usage)?);
        if let Some(lock) = lock_of(LOCK, name, FIRST_VERSION, &RUST_DEPENDENCIES, &NOT_OF_THE_SDK) {
            files.push((PathBuf::from("Cargo.lock"), lock));
        }
    }
    files.sort();
    Ok(files)
}

/// The name of the class in Python and JavaScript: `MaskEmails` of `mask-emails`.
fn class_name(name: &str) -> String {
    let mut class = String::new();
    for word in name.split(['-', '_']) {
        let mut chars = word.chars();
        class.extend(chars.next().map(|first| first.to_ascii_uppercase()));
        class.push_str(chars.as_str());
    }
    // What the template imports, its tests define, or the language has.
    if CLASSES.contains(&class.as_str()) {
        class.push_str("Transform");
    }
    class
}

/// The Rust SDK as a crate that stands alone, with the version of the contract that it is written for.
fn sdk() -> Result<Vec<(PathBuf, String)>, String> {
    let damaged = || "the SDK inside this sluice is damaged".to_owned();
    // Where the SDK says that the contract is, seen from its place in the repository.
    const CONTRACT: &str = "\"../../wit/";
    let shell = EMBEDDED
        .iter()
        .find(|(path, _)| *path == "sdk/src/shell.rs")
        .map(|(_, text)| *text)
        .ok_or_else(damaged)?;
    let version = shell
        .split_once(CONTRACT)
        .and_then(|(_, rest)| rest.split_once('"'))
        .map(|(version, _)| version)
        .ok_or_else(damaged)?;
    let contract = format!("wit/{version}/");
    let mut files = Vec::new();
    for (path, text) in EMBEDDED {
        if let Some(path) = path.strip_prefix("sdk/") {
            let text = match path {
                "Cargo.toml" => manifest(text),
                _ => text.replace(CONTRACT, "\"wit/"),
            };
            files.push((Path::new(SDK).join(path), text));
        } else if path.starts_with(&contract) {
            files.push((Path::new(SDK).join(path), (*text).to_owned()));
        }
    }
    let has_contract = files
        .iter()
        .any(|(path, _)| path.extension().is_some_and(|ending| ending == "wit"));
    if has_contract { Ok(files) } else { Err(damaged()) }
}

/// The SDK's manifest with what it takes from this workspace filled in.
fn manifest(text: &str) -> String {
    let text = text.replace("[lints]\nworkspace = true\n\n", "");
    let inherited = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("edition", "2024"),
        ("license", env!("CARGO_PKG_LICENSE")),
        ("rust-version", env!("CARGO_PKG_RUST_VERSION")),
    ];
    let lines = text.lines().map(|line| {
        let key = line.strip_suffix(".workspace = true");
        match inherited.iter().find(|(inherited, _)| key == Some(inherited)) {
            Some((key, value)) => format!("{key} = \"{value}\"\n"),
            None => format!("{line}\n"),
        }
    });
    lines.collect()
}

/// Whether a name can be a plugin's, and a crate's or module's.
fn check_name(name: &str, language: Language) -> Result<(), String> {
    let plain = name.len() <= LONGEST_NAME
        && name.starts_with(|char: char| char.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte));
    if !plain {
        return Err(format!(
            "`{name}` cannot be a plugin's name here; use lower-case letters, digits, `-` and `_`, a letter first, at most \
             {LONGEST_NAME} characters"
        ));
    }
    if crate::BUILT_IN_COMPONENTS.iter().any(|builtin| builtin.name == name) {
        return Err(format!("`{name}` is a component of sluice's own; choose another name"));
    }
    let taken = match language {
        Language::Rust => RUST_WORDS.contains(&name) || RUST_DEPENDENCIES.contains(&name),
        Language::Python => PYTHON_WORDS.contains(&name),
        Language::JavaScript => false,
    };
    if taken {
        return Err(format!(
            "`{name}` means something else in {}; choose another name",
            language.folder()
        ));
    }
    Ok(())
}

/// Keywords, crates of the language and names that cargo refuses, of those that could be a name.
const RUST_WORDS: &[&str] = &[
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "deps",
    "do",
    "dyn",
    "else",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "incremental",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "type",
    "use",
];
/// Names of classes that mean something else in the templates in Python and JavaScript.
const CLASSES: &[&str] = &[
    "Any",
    "Array",
    "Batch",
    "BigInt",
    "Columns",
    "ConfigError",
    "Configurations",
    "Date",
    "Error",
    "False",
    "Host",
    "Math",
    "Missing",
    "None",
    "Number",
    "Numbers",
    "Object",
    "Operation",
    "Plan",
    "Set",
    "Settings",
    "String",
    "Symbol",
    "Table",
    "Transform",
    "True",
    "Unsupported",
];
const PYTHON_WORDS: &[&str] = &[
    "sluice_plugin",
    "transform",
    "test",
    "tests",
    "wit_world",
    "componentize_py_types",
    "json",
    "re",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn text<'a>(files: &'a [(PathBuf, String)], path: &str) -> &'a str {
        &files.iter().find(|(file, _)| file == Path::new(path)).unwrap().1
    }

    #[test]
    fn the_rust_project_stands_alone() {
        let files = files_of("my-mask", Language::Rust).unwrap();
        assert!(text(&files, "Cargo.toml").contains("name = \"my-mask\""));
        let sdk = text(&files, "vendor/sluice-plugin/Cargo.toml");
        assert!(!sdk.contains("workspace"), "{sdk}");
        let parsed: toml::Table = sdk.parse().unwrap();
        assert_eq!(parsed["package"]["name"].as_str(), Some("sluice-plugin"));
        assert_eq!(parsed["package"]["version"].as_str(), Some(env!("CARGO_PKG_VERSION")));
        let rust_version = parsed["package"]["rust-version"].as_str();
        assert_eq!(rust_version, Some(env!("CARGO_PKG_RUST_VERSION")));
        for (path, text) in &files {
            assert!(!text.contains("../../wit"), "{}", path.display());
            let template = !path.starts_with(SDK);
            assert!(!(template && text.contains("{{")), "{}", path.display());
        }
        let shell = text(&files, "vendor/sluice-plugin/src/shell.rs");
        let (_, contract) = shell.split_once("path: \"").unwrap();
        let (contract, _) = contract.split_once('"').unwrap();
        let types = format!("{SDK}/{contract}/types.wit");
        assert!(text(&files, &types).contains("package sluice:transform@"));
        let lock: toml::Table = text(&files, "Cargo.lock").parse().unwrap();
        let packages = lock["package"].as_array().unwrap();
        let has = |name: &str| packages.iter().any(|package| package["name"].as_str() == Some(name));
        assert!(has("my-mask") && has("serde_json") && has("wit-bindgen") && !has("wasmtime"));
        assert!(files.iter().any(|(path, _)| path == Path::new(".gitignore")));
    }

    #[test]
    fn the_class_of_a_project_is_called_after_it_in_every_file() {
        for (name, class) in [
            ("mask-emails", "MaskEmails"),
            ("x", "X"),
            ("a_b-2c", "AB2c"),
            ("mask-", "Mask"),
            ("plan", "PlanTransform"),
            ("config-error", "ConfigErrorTransform"),
        ] {
            assert_eq!(class_name(name), class);
        }
        let python = files_of("mask-emails", Language::Python).unwrap();
        assert!(text(&python, "transform.py").contains("class MaskEmails(Transform):"));
        assert!(text(&python, "pyproject.toml").contains("transform = \"transform:MaskEmails\""));
        assert!(text(&python, "test_transform.py").contains("from transform import MaskEmails,"));
        let javascript = files_of("mask-emails", Language::JavaScript).unwrap();
        assert!(text(&javascript, "transform.js").contains("export default class MaskEmails {"));
        assert!(text(&javascript, "transform.test.js").contains("import MaskEmails, {"));
        for (path, text) in python.iter().chain(&javascript) {
            let left = ["{{", "MaskPhones", "MaskIbans"]
                .iter()
                .find(|word| text.contains(**word));
            // The SDK's own words are its own.
            assert!(
                left.is_none() || path.starts_with("sluice_plugin"),
                "{}",
                path.display()
            );
        }
    }

    #[test]
    fn a_project_is_written_once_and_never_over_another() {
        let dir = tempfile::tempdir().unwrap();
        let project = NewProject {
            name: "my-mask".to_owned(),
            language: Language::Rust,
            dir: dir.path().join("deep/my-mask"),
        };
        let files = new_project(&project).unwrap();
        for file in &files {
            assert!(project.dir.join(file).is_file(), "{}", file.display());
        }
        assert_eq!(Language::of(&project.dir), Some(Language::Rust));
        std::fs::write(project.dir.join("src/lib.rs"), "mine").unwrap();
        let error = new_project(&project).unwrap_err().to_string();
        assert!(error.contains("is there already"), "{error}");
        assert_eq!(std::fs::read_to_string(project.dir.join("src/lib.rs")).unwrap(), "mine");
        let beside: Vec<_> = std::fs::read_dir(dir.path().join("deep")).unwrap().collect();
        assert_eq!(beside.len(), 1);
    }

    #[test]
    fn names_that_will_not_do_are_refused_with_the_reason() {
        for (name, words) in [
            ("Mask", "lower-case letters"),
            ("../x", "lower-case letters"),
            ("", "lower-case letters"),
            ("1st", "lower-case letters"),
            ("mask", "sluice's own"),
            ("serde", "means something else in rust"),
            ("crate", "means something else in rust"),
        ] {
            let error = check_name(name, Language::Rust).unwrap_err();
            assert!(error.contains(words), "{name}: {error}");
        }
        assert!(check_name("mask-phones_2", Language::Rust).is_ok());
    }
}
