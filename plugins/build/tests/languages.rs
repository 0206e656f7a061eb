//! The templates in Python and JavaScript: their tests, those of their SDKs, and the components that are built of them.
//!
//! Where a language is not installed, or a registry is out of reach, a test says so and ends: what it would show needs them.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sluice_component_build::{BuildError, BuiltProject, Language, build_project, plugin_info};
use wasmparser::{CanonicalFunction, CanonicalOption, Parser, Payload, Validator, WasmFeatures};

const TRANSFORM: &str = "sluice:transform/transform@0.3.0";

/// A folder of this test alone, removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sluice-languages-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// A project as `sluice plugin new` makes it.
    fn project(&self, template: &str, name: &str) -> PathBuf {
        let dir = self.0.join(name);
        fill(&here().join("../templates").join(template), &dir, name);
        dir
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn fill(from: &Path, to: &Path, name: &str) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let copy = to.join(if file == "gitignore" { ".gitignore" } else { &file });
        if file == "__pycache__" || file == "node_modules" {
            continue;
        }
        if path.is_dir() {
            fill(&path, &copy, name);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text
            .replace("{{name}}", name)
            .replace("{{crate_name}}", &name.replace('-', "_"))
            .replace("{{class_name}}", &class_name(name));
        assert!(
            !text.contains("{{"),
            "{} has a placeholder that is not known",
            path.display()
        );
        std::fs::write(copy, text).unwrap();
    }
}

/// `MaskPhones` of `mask-phones`.
fn class_name(name: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('-').map(capital).collect()
}

/// Runs a language's own test runner; `None` where the language is not installed.
fn tested(program: &str, arguments: &[&str], dir: &Path, variable: (&str, PathBuf)) -> Option<Output> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .env(variable.0, variable.1)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // Node's runner answers to the outer one where it finds this.
        .env_remove("NODE_TEST_CONTEXT")
        .output();
    match output {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("not tested: {program} cannot be run: {error}");
            None
        }
    }
}

fn assert_passed(output: &Output, says: &str) {
    let text = [&output.stdout[..], &output.stderr[..]]
        .map(String::from_utf8_lossy)
        .concat();
    assert!(output.status.success(), "{text}");
    assert!(text.contains(says), "nothing was tested: {text}");
}

/// `None` where a tool is missing or cannot be fetched, which is printed.
fn built(dir: &Path, target: &Path) -> Option<Result<BuiltProject, BuildError>> {
    let mut said = Vec::new();
    let result = build_project(dir, target, &mut |line| said.push(line.to_owned()));
    if let Err(error @ (BuildError::Unreachable { .. } | BuildError::NoProgram { .. })) = &result {
        eprintln!("not tested: {error}");
        return None;
    }
    assert!(
        said.iter().any(|line| line.starts_with("making a component")),
        "{said:?}"
    );
    Some(result)
}

/// The names that the component imports and exports. That it exports nothing asynchronous, which the host refuses, is
/// asserted on the way.
fn outside(component: &[u8]) -> (Vec<String>, Vec<String>) {
    let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0_u32);
    for payload in Parser::new(0).parse_all(component) {
        match payload.unwrap() {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                imports.extend(section.into_iter().map(|import| import.unwrap().name.name.to_owned()));
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                exports.extend(section.into_iter().map(|export| export.unwrap().name.name.to_owned()));
            }
            Payload::ComponentCanonicalSection(section) => {
                for function in section {
                    if let CanonicalFunction::Lift { options, .. } = function.unwrap() {
                        assert!(!options.contains(&CanonicalOption::Async));
                    }
                }
            }
            _ => {}
        }
    }
    (imports, exports)
}

fn assert_is_a_plugin(built: &BuiltProject, language: Language, name: &str) -> Vec<String> {
    assert_eq!(built.language, language);
    let component = std::fs::read(&built.path).unwrap();
    assert_eq!(built.bytes, component.len() as u64);
    let info = plugin_info(&component).unwrap();
    assert_eq!((&*info.name, &*info.version), (name, "0.1.0"));
    Validator::new_with_features(WasmFeatures::all())
        .validate_all(&component)
        .unwrap();
    let (imports, exports) = outside(&component);
    assert!(exports.iter().any(|export| export == TRANSFORM), "{exports:?}");
    imports
}

#[test]
fn the_python_template_and_its_sdk_pass_their_tests() {
    let scratch = Scratch::new("python-tests");
    let dir = scratch.project("python", "mask-phones");
    let path = ("PYTHONPATH", dir.clone());
    let Some(output) = tested("python3", &["-m", "unittest"], &dir, path.clone()) else {
        return;
    };
    assert_passed(&output, "Ran 11 tests");
    let sdk = tested(
        "python3",
        &["-m", "unittest", "test_columns"],
        &here().join("tests/sdk"),
        path,
    );
    assert_passed(&sdk.unwrap(), "Ran 22 tests");
}

#[test]
fn the_javascript_template_and_its_sdk_pass_their_tests() {
    let scratch = Scratch::new("javascript-tests");
    let dir = scratch.project("javascript", "mask-ibans");
    let sdk = ("SDK", dir.join("sluice_plugin"));
    let Some(output) = tested("node", &["--test"], &dir, sdk.clone()) else {
        return;
    };
    assert_passed(&output, "pass 8");
    let output = tested("node", &["--test", "columns.test.mjs"], &here().join("tests/sdk"), sdk);
    assert_passed(&output.unwrap(), "pass 14");
}

#[test]
fn a_project_in_python_becomes_a_component_that_imports_the_host_and_wasi() {
    let scratch = Scratch::new("python");
    let (dir, target) = (scratch.project("python", "mask-phones"), scratch.0.join("target"));
    let Some(result) = built(&dir, &target) else {
        return;
    };
    let imports = assert_is_a_plugin(&result.unwrap(), Language::Python, "mask-phones");
    for import in &imports {
        assert!(
            import.starts_with("sluice:transform/") || import.starts_with("wasi:"),
            "{import}"
        );
    }
    assert!(imports.iter().any(|import| import == "sluice:transform/keyed@0.3.0"));
    assert!(
        !dir.join("__pycache__").exists(),
        "the build left something in the project"
    );

    // A transform that cannot even be imported: the build says where and why, and fetches nothing again.
    let broken = "import no_such_module\n\n\nclass MaskPhones:\n    pass\n";
    std::fs::write(dir.join("transform.py"), broken).unwrap();
    match built(&dir, &target) {
        Some(Err(BuildError::Failed { output, .. })) => {
            assert!(
                output.contains("transform.py") && output.contains("no_such_module"),
                "{output}"
            );
        }
        other => panic!("{other:?}"),
    }

    // The class has another name than the manifest says, which here only the import finds out.
    let renamed =
        "# Was MaskPhones.\nfrom sluice_plugin import Transform\n\n\nclass MaskEmails(Transform):\n    pass\n";
    std::fs::write(dir.join("transform.py"), renamed).unwrap();
    match built(&dir, &target) {
        Some(Err(error @ BuildError::Manifest { .. })) => {
            let error = error.to_string();
            assert!(
                error.contains("names `MaskPhones`, which transform.py does not have; it has `MaskEmails`"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_project_in_javascript_becomes_a_component_that_imports_the_host_alone() {
    let scratch = Scratch::new("javascript");
    let (dir, target) = (scratch.project("javascript", "mask-ibans"), scratch.0.join("target"));
    let Some(result) = built(&dir, &target) else {
        return;
    };
    let imports = assert_is_a_plugin(&result.unwrap(), Language::JavaScript, "mask-ibans");
    for import in &imports {
        assert!(import.starts_with("sluice:transform/"), "{import}");
    }
    assert!(imports.iter().any(|import| import == "sluice:transform/keyed@0.3.0"));

    // What only Node has is an error of the build and not of a table's run.
    std::fs::write(dir.join("transform.js"), "import 'node:fs';\nexport default class {}\n").unwrap();
    match built(&dir, &target) {
        Some(Err(BuildError::Failed { output, .. })) => {
            assert!(
                output.contains("transform.js") && output.contains("node:fs"),
                "{output}"
            );
        }
        other => panic!("{other:?}"),
    }
}
