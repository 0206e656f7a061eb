//! From a project in JavaScript to a component, by `componentize-js`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::encode::PluginInfo;
use crate::error::BuildError;
use crate::project::check_name;
use crate::requirements::npm_requirement;
use crate::run::{absolute, at, fetched, once, output, output_of, write};
use crate::wit;

const PACKAGE: &str = include_str!("tools/package.json");
/// Pins what `PACKAGE` needs, with digests.
const LOCK: &str = include_str!("tools/package-lock.json");
const SCRIPT: &str = include_str!("tools/componentize.mjs");
const SDK: &str = "sluice_plugin/component.js";
const PURPOSE: &str = "a plugin in JavaScript";
const HINT: &str = "install Node.js 18 or newer and npm (Debian and Ubuntu: apt install nodejs npm)";
const LEAST_NODE: u32 = 18;
/// Names a program that is not there, so that an error that shows it says why.
const NO_GIT: &str = "--git=sluice-takes-no-packages-from-git";
const REGISTRY: &str =
    "npm's registry (another one, or a proxy, is set by npm's own `npm config set registry`, HTTPS_PROXY)";

/// What is needed of a `package.json`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    name: String,
    version: String,
    #[serde(default = "default_main")]
    main: String,
    #[serde(default)]
    dependencies: BTreeMap<String, String>,
    // npm looks at all of these before it installs the first ones alone.
    #[serde(default)]
    dev_dependencies: BTreeMap<String, String>,
    #[serde(default)]
    optional_dependencies: BTreeMap<String, String>,
    #[serde(default)]
    peer_dependencies: BTreeMap<String, String>,
}

impl Manifest {
    fn all_dependencies(&self) -> impl Iterator<Item = (&String, &String)> {
        [
            &self.dependencies,
            &self.dev_dependencies,
            &self.optional_dependencies,
            &self.peer_dependencies,
        ]
        .into_iter()
        .flatten()
    }
}

fn default_main() -> String {
    "transform.js".to_owned()
}

/// Builds the component and returns its path, without the section that names it.
pub(crate) fn component(
    dir: &Path,
    target_dir: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(PathBuf, PluginInfo), BuildError> {
    let (dir, target_dir) = (absolute(dir)?, absolute(target_dir)?);
    let path = dir.join("package.json");
    let text = std::fs::read_to_string(&path).map_err(|error| at(&path, error))?;
    let manifest = manifest(&path, &text)?;
    let (main, sdk) = (dir.join(&manifest.main), dir.join(SDK));
    for (file, reason) in [
        (&main, "`main`, the transform"),
        (&sdk, "with which a transform is written"),
    ] {
        if !file.is_file() {
            return Err(BuildError::Manifest {
                manifest: path,
                reason: format!("there is no {} ({reason})", file.display()),
            });
        }
    }
    check_node()?;
    let work = target_dir.join("javascript");
    let tools = tools(&work, say)?;
    install_dependencies(&dir, &manifest, say)?;
    let entry = work.join("entry.mjs");
    write(&entry, self::entry(&main, &sdk)?.as_bytes())?;
    // Beside the packages that it imports.
    let script = tools.join("componentize.mjs");
    write(&script, SCRIPT.as_bytes())?;

    say(&format!("making a component of {} (about 10 s)", dir.display()));
    let built = work.join(format!("{}.wasm", manifest.name));
    let mut command = node();
    command
        .arg(&script)
        .arg(&entry)
        .arg(wit::written(&target_dir)?)
        .arg(&built)
        .current_dir(&work);
    output(command, &format!("componentize-js for {}", manifest.name))?;
    let info = PluginInfo {
        name: manifest.name,
        version: manifest.version,
    };
    Ok((built, info))
}

fn manifest(path: &Path, text: &str) -> Result<Manifest, BuildError> {
    let refused = |reason: String| BuildError::Manifest {
        manifest: path.to_owned(),
        reason,
    };
    let manifest: Manifest = serde_json::from_str(text).map_err(|error| refused(error.to_string()))?;
    check_name(path, &manifest.name)?;
    for (name, version) in manifest.all_dependencies() {
        npm_requirement(name, version).map_err(refused)?;
    }
    Ok(manifest)
}

/// The module that the component is made of.
fn entry(main: &Path, sdk: &Path) -> Result<String, BuildError> {
    let quoted = |path: &Path| {
        path.to_str()
            .and_then(|path| serde_json::to_string(path).ok())
            .ok_or_else(|| at(path, std::io::Error::other("its path is not UTF-8")))
    };
    Ok(format!(
        "import Transform from {};\nimport {{ exported }} from {};\n\nexport const transform = exported(Transform);\n",
        quoted(main)?,
        quoted(sdk)?
    ))
}

fn check_node() -> Result<(), BuildError> {
    let mut command = node();
    command.arg("--version");
    let said = output_of(command, "node --version", PURPOSE, HINT)?;
    let version = String::from_utf8_lossy(&said).trim().to_owned();
    if major(&version).is_some_and(|major| major >= LEAST_NODE) {
        return Ok(());
    }
    Err(BuildError::NoProgram {
        program: format!("Node.js {LEAST_NODE} or newer (there is {version})"),
        purpose: PURPOSE.to_owned(),
        hint: HINT.to_owned(),
    })
}

/// 20 of `v20.11.1`.
fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

/// `componentize-js` and a bundler in a folder of their own, fetched the first time.
fn tools(work: &Path, say: &mut dyn FnMut(&str)) -> Result<PathBuf, BuildError> {
    let folder = work.join("tools");
    once(&folder, LOCK, || {
        say(&format!(
            "fetching componentize-js and esbuild into {} (once; about 200 MB on disk)",
            folder.display()
        ));
        write(&folder.join("package.json"), PACKAGE.as_bytes())?;
        write(&folder.join("package-lock.json"), LOCK.as_bytes())?;
        npm(&folder, &["ci"])
    })?;
    Ok(folder)
}

/// The project's own packages, where one is missing.
fn install_dependencies(dir: &Path, manifest: &Manifest, say: &mut dyn FnMut(&str)) -> Result<(), BuildError> {
    let modules = dir.join("node_modules");
    if manifest.dependencies.keys().all(|name| modules.join(name).is_dir()) {
        return Ok(());
    }
    say(&format!("running npm install in {}", dir.display()));
    npm(dir, &["install", "--omit=dev"])
}

fn npm(folder: &Path, arguments: &[&str]) -> Result<(), BuildError> {
    let mut command = Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" });
    command
        .args(arguments)
        // No package's own script runs on this machine, nor what a project's `.npmrc` or lock file calls git.
        .args(["--ignore-scripts", "--no-audit", "--no-fund", NO_GIT])
        .current_dir(folder);
    let doing = format!("npm {} in {}", arguments.join(" "), folder.display());
    fetched(command, &doing, REGISTRY)
        .map(drop)
        .map_err(|error| match error {
            BuildError::Run { program, source } if source.kind() == std::io::ErrorKind::NotFound => {
                BuildError::NoProgram {
                    program,
                    purpose: PURPOSE.to_owned(),
                    hint: HINT.to_owned(),
                }
            }
            other => other,
        })
}

fn node() -> Command {
    Command::new("node")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str =
        r#"{"name": "mask-ibans", "version": "1.2.3", "type": "module", "dependencies": {"ibantools": "4"}}"#;

    #[test]
    fn a_manifest_says_name_version_packages_and_module() {
        let manifest = manifest(Path::new("package.json"), MANIFEST).unwrap();
        assert_eq!((&*manifest.name, &*manifest.version), ("mask-ibans", "1.2.3"));
        assert_eq!(manifest.main, "transform.js");
        assert_eq!(manifest.dependencies.keys().collect::<Vec<_>>(), ["ibantools"]);
    }

    #[test]
    fn a_bad_manifest_is_named_with_what_is_wrong() {
        let refused = |text: &str| manifest(Path::new("p/package.json"), text).unwrap_err().to_string();
        assert!(
            refused(r#"{"name": "x"}"#)
                .starts_with("p/package.json cannot be built as a plugin: missing field `version`")
        );
        assert!(refused(r#"{"name": "@me/x", "version": "1.0.0"}"#).contains("`@me/x` is no plugin's"));
        assert!(refused("{").contains("cannot be built"));
    }

    #[test]
    fn only_packages_of_a_registry_are_dependencies() {
        for (of, version) in [
            ("dependencies", "git+https://example.com/x.git"),
            ("devDependencies", "file:../x"),
            ("optionalDependencies", "me/x"),
            ("peerDependencies", "link:../x"),
        ] {
            let text = format!(r#"{{"name": "a", "version": "1.0.0", "{of}": {{"left": "{version}"}}}}"#);
            let error = manifest(Path::new("p/package.json"), &text).unwrap_err().to_string();
            let start = format!("p/package.json cannot be built as a plugin: the dependency `left` is `{version}`");
            assert!(error.starts_with(&start), "{error}");
        }
    }

    #[test]
    fn a_path_cannot_end_the_text_that_it_stands_in() {
        let text = entry(Path::new("/a/\"; evil(); \"/t.js"), Path::new("/s.js")).unwrap();
        assert!(
            text.starts_with(r#"import Transform from "/a/\"; evil(); \"/t.js";"#),
            "{text}"
        );
    }

    #[test]
    fn an_old_node_is_told_from_a_new_one() {
        assert_eq!(major("v20.11.1"), Some(20));
        assert_eq!(major("v8.0.0"), Some(8));
        assert_eq!(major("node"), None);
    }

    #[test]
    fn the_tools_are_pinned_with_digests() {
        let package: serde_json::Value = serde_json::from_str(PACKAGE).unwrap();
        let lock: serde_json::Value = serde_json::from_str(LOCK).unwrap();
        assert_eq!(lock["packages"][""]["dependencies"], package["dependencies"]);
        let packages = lock["packages"].as_object().unwrap();
        assert!(packages.len() > 10);
        for (name, of) in packages.iter().filter(|(name, _)| !name.is_empty()) {
            assert!(
                of["integrity"]
                    .as_str()
                    .is_some_and(|digest| digest.starts_with("sha512-")),
                "{name}"
            );
        }
    }
}
