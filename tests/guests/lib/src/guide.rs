//! The component that the guide for authors of components leads to, as its page has it.

use std::fs;
use std::path::Path;

use sluice_component_build::{BuildRequest, Built, build_component};

use crate::page::{Step, steps_of};
use crate::{repository, target_dir};

const PAGE: &str = "docs/guides/writing-a-component.md";
/// The manifest that `sluice plugin new` writes.
const MANIFEST: &str = "plugins/templates/rust/Cargo.toml.template";
/// The SDK's place in a project.
const SDK: &str = "vendor/sluice-plugin";

/// What stands on the guide's page.
#[derive(Clone, Debug)]
pub struct Guide {
    /// The name of the plugin, after `sluice plugin new`.
    pub name: String,
    /// `src/lib.rs`.
    pub source: String,
    /// `sluice.toml`, of the project that uses the component.
    pub settings: String,
}

impl Guide {
    /// Takes it from the page.
    ///
    /// # Panics
    /// When the page does not have it.
    #[allow(clippy::panic)]
    pub fn read() -> Guide {
        let steps = steps_of(PAGE);
        let file = |wanted: &str| {
            let found = steps.iter().find_map(|step| match step {
                Step::Write { file, text } if file == wanted => Some(text.clone()),
                _ => None,
            });
            found.unwrap_or_else(|| panic!("{PAGE} does not have {wanted} written"))
        };
        let name = steps.iter().find_map(|step| match step {
            Step::Run(commands) => {
                let (_, rest) = commands.split_once("sluice plugin new ")?;
                rest.split_whitespace().next().map(str::to_owned)
            }
            _ => None,
        });
        Guide {
            name: name.unwrap_or_else(|| panic!("{PAGE} makes no project")),
            source: file("src/lib.rs"),
            settings: file("sluice.toml"),
        }
    }

    /// Builds the component, with the SDK and the locked dependencies of this repository.
    ///
    /// # Panics
    /// When it cannot be built: the page is wrong.
    #[allow(clippy::panic)]
    pub fn build(&self) -> Built {
        let root = repository();
        let folder = target_dir(&root).join("guide");
        let written = fs::read_to_string(root.join(MANIFEST)).and_then(|template| {
            let sdk = root.join("plugins/sdk");
            let manifest = template
                .replace("{{name}}", &self.name)
                .replace(SDK, &sdk.display().to_string());
            fs::create_dir_all(folder.join("src"))?;
            write_if_changed(&folder.join("Cargo.toml"), &manifest)?;
            write_if_changed(&folder.join("src/lib.rs"), &self.source)?;
            fs::write(folder.join("Cargo.lock"), fs::read_to_string(root.join("Cargo.lock"))?)
        });
        if let Err(error) = written {
            panic!("{}: {error}", folder.display());
        }
        // Cargo takes the crates of another workspace out of the lock file, and adds this one.
        let request = BuildRequest {
            locked: false,
            ..BuildRequest::new(&folder, folder.join("target"))
        };
        match build_component(&request) {
            Ok(built) => built,
            Err(error) => panic!("the crate of {PAGE} cannot be built: {error}"),
        }
    }
}

/// An equal file keeps its time, so that nothing is compiled anew.
fn write_if_changed(path: &Path, text: &str) -> std::io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text)
}
