//! From a project in Python to a component, by `componentize-py`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::classes;
use crate::encode::PluginInfo;
use crate::error::BuildError;
use crate::project::check_name;
use crate::requirements::python_requirement;
use crate::run::{absolute, at, empty, fetched, once, output, output_of, write};
use crate::wit;

/// What makes the component, and the digests of its files in the registry.
const REQUIREMENTS: &str = include_str!("tools/requirements.txt");
/// The Python inside the component, for which packages are chosen.
const INSIDE: &str = "3.14";
/// The module that the component is made of.
const ENTRY: &str = "sluice_entry";
const SDK: &str = "sluice_plugin";
/// The SDK's files, for a project that has no copy of its own.
const SDK_FILES: [(&str, &str); 11] = [
    (
        "__init__.py",
        include_str!("../../templates/python/sluice_plugin/__init__.py"),
    ),
    (
        "batch.py",
        include_str!("../../templates/python/sluice_plugin/batch.py"),
    ),
    (
        "columns.py",
        include_str!("../../templates/python/sluice_plugin/columns.py"),
    ),
    (
        "component.py",
        include_str!("../../templates/python/sluice_plugin/component.py"),
    ),
    (
        "config.py",
        include_str!("../../templates/python/sluice_plugin/config.py"),
    ),
    (
        "errors.py",
        include_str!("../../templates/python/sluice_plugin/errors.py"),
    ),
    ("host.py", include_str!("../../templates/python/sluice_plugin/host.py")),
    ("plan.py", include_str!("../../templates/python/sluice_plugin/plan.py")),
    (
        "shell.py",
        include_str!("../../templates/python/sluice_plugin/shell.py"),
    ),
    (
        "testing.py",
        include_str!("../../templates/python/sluice_plugin/testing.py"),
    ),
    (
        "transform.py",
        include_str!("../../templates/python/sluice_plugin/transform.py"),
    ),
];
const PURPOSE: &str = "a plugin in Python";
/// Keeps `-m` from running a project's `pip.py` or `venv.py`, which stands in the folder that sluice was called in.
const ISOLATED: [&str; 1] = ["-I"];
const REGISTRY: &str =
    "the registry of Python packages (another one, or a proxy, is set by pip's own PIP_INDEX_URL, HTTPS_PROXY)";

/// What is needed of a `pyproject.toml`.
#[derive(Debug, PartialEq)]
struct Project {
    info: PluginInfo,
    dependencies: Vec<String>,
    module: String,
    class: String,
}

#[derive(Deserialize)]
struct Manifest {
    project: ProjectTable,
    tool: ToolTable,
}

#[derive(Deserialize)]
struct ProjectTable {
    name: String,
    version: String,
    #[serde(default)]
    dependencies: Vec<String>,
}

#[derive(Deserialize)]
struct ToolTable {
    sluice: SluiceTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SluiceTable {
    transform: String,
}

/// Builds the component and returns its path, without the section that names it.
pub(crate) fn component(
    dir: &Path,
    target_dir: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(PathBuf, PluginInfo), BuildError> {
    let (dir, target_dir) = (absolute(dir)?, absolute(target_dir)?);
    let manifest = dir.join("pyproject.toml");
    let text = std::fs::read_to_string(&manifest).map_err(|error| at(&manifest, error))?;
    let project = project(&manifest, &text)?;
    if !dir.join(SDK).is_dir() {
        return Err(BuildError::Manifest {
            manifest,
            reason: format!("the folder {SDK}, with which a transform is written, is not beside it"),
        });
    }
    let refused = |reason: String| BuildError::Manifest {
        manifest: manifest.clone(),
        reason,
    };
    if let Some(reason) = classes::missing(&dir, &project.module, &project.class) {
        return Err(refused(reason));
    }
    let work = target_dir.join("python");
    let tool = tool(&work, say)?;
    let packages = packages(&work, &tool, &project.dependencies, say)?;
    let sources = work.join("sources");
    empty(&sources)?;
    copy(&dir, &sources, &target_dir)?;
    add_sdk(&sources)?;
    write(&sources.join(format!("{ENTRY}.py")), entry(&project).as_bytes())?;

    say(&format!("making a component of {} (10 to 20 s)", dir.display()));
    let path = work.join(format!("{}.wasm", project.info.name));
    let mut command = Command::new(&tool);
    command
        .arg("--quiet")
        .arg("--wit-path")
        .arg(wit::written(&target_dir)?)
        .args(["--world", "plugin", "componentize", ENTRY])
        .arg("--python-path")
        .arg(&sources)
        .arg("--output")
        .arg(&path)
        // It takes the packages from there, and would take those of this machine's Python if there were nothing.
        .env("VIRTUAL_ENV", &packages)
        .env_remove("PYTHONPATH")
        // Its trace would push what it says out of what an error shows.
        .env("RUST_BACKTRACE", "0")
        .env_remove("PYTHONHOME")
        .current_dir(&work);
    output(command, &format!("componentize-py for {}", project.info.name)).map_err(
        |error| match classes::not_imported(&error, &dir, &project.module, &project.class) {
            Some(reason) => refused(reason),
            None => error,
        },
    )?;
    Ok((path, project.info))
}

fn project(manifest: &Path, text: &str) -> Result<Project, BuildError> {
    let refused = |reason: String| BuildError::Manifest {
        manifest: manifest.to_owned(),
        reason,
    };
    let parsed: Manifest = toml::from_str(text).map_err(|error| refused(error.to_string()))?;
    let Manifest { project, tool } = parsed;
    check_name(manifest, &project.name)?;
    for dependency in &project.dependencies {
        python_requirement(dependency).map_err(&refused)?;
    }
    let transform = &tool.sluice.transform;
    let is_path = |path: &str| path.split('.').all(is_identifier);
    let (module, class) = transform
        .split_once(':')
        .filter(|(module, class)| is_path(module) && is_identifier(class))
        .ok_or_else(|| {
            refused(format!(
                "tool.sluice.transform is `{transform}`, and should be MODULE:CLASS, such as `transform:MaskPhones`"
            ))
        })?;
    Ok(Project {
        info: PluginInfo {
            name: project.name,
            version: project.version,
        },
        dependencies: project.dependencies,
        module: module.to_owned(),
        class: class.to_owned(),
    })
}

fn is_identifier(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && chars.all(|char| char.is_alphanumeric() || char == '_')
}

/// The module whose class `Transform` the bindings look for.
fn entry(Project { module, class, .. }: &Project) -> String {
    format!(
        "from {SDK}.component import export\nfrom {module} import {class} as transform\n\nTransform = export(transform)\n"
    )
}

/// `componentize-py` in an environment of its own, made the first time.
fn tool(work: &Path, say: &mut dyn FnMut(&str)) -> Result<PathBuf, BuildError> {
    let environment = work.join("tools");
    let programs = environment.join(if cfg!(windows) { "Scripts" } else { "bin" });
    once(&environment, REQUIREMENTS, || {
        say(&format!(
            "fetching componentize-py into {} (once; about 70 MB on disk)",
            environment.display()
        ));
        let python = if cfg!(windows) { "python" } else { "python3" };
        let mut command = Command::new(python);
        command
            .args(ISOLATED)
            .args(["-m", "venv"])
            .arg(&environment)
            .current_dir(&environment);
        output_of(
            command,
            "python3 -m venv",
            PURPOSE,
            "install Python 3.10 or newer (Debian and Ubuntu: apt install python3 python3-venv)",
        )
        .map_err(without_venv)?;
        let requirements = environment.join("requirements.txt");
        write(&requirements, REQUIREMENTS.as_bytes())?;
        let mut command = pip(&programs);
        command
            .args(["install", "--no-deps", "--require-hashes", "--requirement"])
            .arg(&requirements);
        fetched(command, "pip install componentize-py", REGISTRY).map(drop)
    })?;
    Ok(programs.join("componentize-py"))
}

/// Debian's Python has the module `venv`, but not what it needs, and says so at length.
fn without_venv(error: BuildError) -> BuildError {
    match error {
        BuildError::Failed { output, .. }
            if output.contains("ensurepip") || output.contains("No module named venv") =>
        {
            BuildError::NoProgram {
                program: "Python's venv".to_owned(),
                purpose: PURPOSE.to_owned(),
                hint: "install it (Debian and Ubuntu: apt install python3-venv)".to_owned(),
            }
        }
        other => other,
    }
}

/// The packages that the project imports, in the layout of an environment, whose path is returned.
fn packages(
    work: &Path,
    tool: &Path,
    dependencies: &[String],
    say: &mut dyn FnMut(&str),
) -> Result<PathBuf, BuildError> {
    let environment = work.join("packages");
    let site = environment
        .join("lib")
        .join(format!("python{INSIDE}"))
        .join("site-packages");
    once(&environment, &dependencies.join("\n"), || {
        std::fs::create_dir_all(&site).map_err(|error| at(&site, error))?;
        if dependencies.is_empty() {
            return Ok(());
        }
        say(&format!("fetching {}", dependencies.join(", ")));
        let programs = tool.parent().unwrap_or(work);
        let mut command = pip(programs);
        // Only packages without compiled parts: what is compiled for this machine does not run in a component.
        command
            .args(["install", "--only-binary=:all:", "--platform", "any"])
            .args(["--implementation", "py", "--abi", "none", "--python-version", INSIDE])
            .arg("--target")
            .arg(&site)
            .arg("--")
            .args(dependencies)
            // A file there of a dependency's name would be installed in its place; this folder is ours.
            .current_dir(&environment);
        fetched(command, "pip install (packages without compiled parts)", REGISTRY).map(drop)
    })?;
    Ok(environment)
}

fn pip(programs: &Path) -> Command {
    let mut command = Command::new(programs.join("python"));
    // Not quiet: what it says about a network that is not there are warnings.
    command.args(ISOLATED).args([
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--no-input",
        "--retries",
        "2",
    ]);
    command
}

/// Copies the project without what tools leave in it, without what is no part of the transform, and without symbolic links:
/// what they lead to would become part of a component that is handed on.
fn copy(from: &Path, to: &Path, target_dir: &Path) -> Result<(), BuildError> {
    const LEFT_OUT: [&str; 4] = ["target", "venv", "tests", "node_modules"];
    copy_but(from, to, &|path, name| {
        path == target_dir || (path.parent() == Some(from) && (LEFT_OUT.contains(&name) || name.ends_with(".wasm")))
    })
}

fn copy_but(from: &Path, to: &Path, is_left_out: &dyn Fn(&Path, &str) -> bool) -> Result<(), BuildError> {
    for entry in std::fs::read_dir(from).map_err(|error| at(from, error))? {
        let entry = entry.map_err(|error| at(from, error))?;
        let (path, file) = (entry.path(), entry.file_name());
        let name = file.to_string_lossy();
        if name.starts_with('.') || name == "__pycache__" || is_left_out(&path, &name) {
            continue;
        }
        let copied = to.join(&file);
        // Of the entry itself, and not of what a link leads to.
        let kind = entry.file_type().map_err(|error| at(&path, error))?;
        if kind.is_dir() {
            std::fs::create_dir_all(&copied).map_err(|error| at(&copied, error))?;
            copy_but(&path, &copied, is_left_out)?;
        } else if kind.is_file() {
            std::fs::copy(&path, &copied).map_err(|error| at(&path, error))?;
        }
    }
    Ok(())
}

/// Adds the SDK where the project has none: it can be a link to one that several projects share.
fn add_sdk(to: &Path) -> Result<(), BuildError> {
    let folder = to.join(SDK);
    if folder.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(&folder).map_err(|error| at(&folder, error))?;
    for (name, text) in SDK_FILES {
        let file = folder.join(name);
        std::fs::write(&file, text).map_err(|error| at(&file, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"
        [project]
        name = "mask-phones"
        version = "1.2.3"
        requires-python = ">=3.10"
        dependencies = ["phonenumbers>=8"]
        [tool.sluice]
        transform = "masks.phones:MaskPhones"
        [tool.ruff]
        line-length = 100
    "#;

    fn refused(text: &str) -> String {
        project(Path::new("p/pyproject.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn a_manifest_says_name_version_packages_and_class() {
        let project = project(Path::new("pyproject.toml"), MANIFEST).unwrap();
        assert_eq!(project.info.name, "mask-phones");
        assert_eq!(project.info.version, "1.2.3");
        assert_eq!(project.dependencies, ["phonenumbers>=8"]);
        assert_eq!(
            entry(&project),
            "from sluice_plugin.component import export\nfrom masks.phones import MaskPhones as transform\n\n\
             Transform = export(transform)\n"
        );
    }

    #[test]
    fn a_bad_manifest_is_named_with_what_is_wrong() {
        let text = refused(&MANIFEST.replace("masks.phones:MaskPhones", "MaskPhones; import os"));
        assert!(
            text.starts_with(
                "p/pyproject.toml cannot be built as a plugin: tool.sluice.transform is `MaskPhones; import os`"
            ),
            "{text}"
        );
        assert!(refused("[project]\nname = \"x\"\n").contains("version"));
        assert!(refused(&MANIFEST.replace("mask-phones", "../x")).contains("is no plugin's"));
        assert!(refused(&MANIFEST.replace("transform =", "transfrom =")).contains("transfrom"));
        let text = refused(&MANIFEST.replace("phonenumbers>=8", "--index-url=http://x.example"));
        assert!(
            text.starts_with(
                "p/pyproject.toml cannot be built as a plugin: the dependency `--index-url=http://x.example`"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_python_without_venv_is_told_apart() {
        let failed = |output: &str| BuildError::Failed {
            program: "python3 -m venv".to_owned(),
            output: output.to_owned(),
        };
        // What Debian prints.
        let error = without_venv(failed(
            "The virtual environment was not created successfully because ensurepip is not available.",
        ));
        assert!(error.to_string().contains("apt install python3-venv"), "{error}");
        assert!(matches!(without_venv(failed("disk full")), BuildError::Failed { .. }));
    }

    #[test]
    fn a_module_of_the_project_does_not_stand_in_for_pip() {
        let folder = std::env::temp_dir().join(format!("sluice-isolated-{}", std::process::id()));
        write(&folder.join("json.py"), b"raise SystemExit('the one of the project')").unwrap();
        let run = |options: &[&str]| {
            let mut command = Command::new("python3");
            command.args(options).args(["-m", "json"]).current_dir(&folder);
            output(command, "python3").unwrap_err().to_string()
        };
        assert!(run(&[]).contains("the one of the project"));
        assert!(!run(&ISOLATED).contains("the one of the project"));
        let arguments: Vec<_> = pip(Path::new("x")).get_args().map(ToOwned::to_owned).collect();
        assert_eq!(arguments[..3], ["-I", "-m", "pip"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_tools_left_and_what_links_lead_to_is_not_copied() {
        let root = std::env::temp_dir().join(format!("sluice-copy-{}", std::process::id()));
        let (from, to) = (root.join("from"), root.join("to"));
        for file in [
            "a.py",
            "pkg/b.py",
            "words.txt",
            ".venv/c.py",
            "target/d.py",
            "pkg/__pycache__/e.pyc",
            "x.wasm",
            "pkg/tests/f.py",
        ] {
            write(&from.join(file), b"1").unwrap();
        }
        empty(&to).unwrap();
        #[cfg(unix)]
        {
            write(&root.join("outside/secret.txt"), b"1").unwrap();
            for (link, what) in [
                ("secret.py", "outside/secret.txt"),
                ("outside", "outside"),
                ("gone", "gone"),
            ] {
                std::os::unix::fs::symlink(root.join(what), from.join("pkg").join(link)).unwrap();
            }
        }
        copy(&from, &to, &from.join("target")).unwrap();
        for (file, there) in [
            ("a.py", true),
            ("pkg/b.py", true),
            ("words.txt", true),
            (".venv", false),
            ("target", false),
            ("pkg/__pycache__", false),
            ("x.wasm", false),
            ("pkg/tests/f.py", true),
            ("pkg/secret.py", false),
            ("pkg/outside", false),
        ] {
            assert_eq!(to.join(file).exists(), there, "{file}");
        }
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_project_without_the_sdk_gets_the_one_of_the_template() {
        let template = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../templates/python")
            .join(SDK);
        let mut names: Vec<String> = std::fs::read_dir(&template)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".py"))
            .collect();
        names.sort();
        assert_eq!(names, SDK_FILES.map(|(name, _)| name));
        let root = std::env::temp_dir().join(format!("sluice-sdk-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        add_sdk(&root).unwrap();
        let batch = root.join(SDK).join("batch.py");
        assert_eq!(
            std::fs::read(&batch).unwrap(),
            std::fs::read(template.join("batch.py")).unwrap()
        );
        // One of the project's own is left as it is.
        std::fs::write(&batch, "own").unwrap();
        add_sdk(&root).unwrap();
        assert_eq!(std::fs::read_to_string(&batch).unwrap(), "own");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
