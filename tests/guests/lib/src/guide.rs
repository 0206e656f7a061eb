//! The crate that the guide for authors of components leads to, as its page has it.

use std::fs;
use std::path::Path;

use sluice_component_build::{BuildRequest, Built, build_component};

use crate::{repository, target_dir};

const PAGE: &str = "docs/guides/writing-a-component.md";
/// What the page has as the SDK's place, relative to the crate.
const SDK: &str = "../sluice/plugins/sdk";

/// The files that stand on the guide's page.
#[derive(Clone, Debug)]
pub struct Guide {
    /// `Cargo.toml`.
    pub manifest: String,
    /// `src/lib.rs`.
    pub source: String,
    /// The part of `sluice.toml` that uses the component.
    pub settings: String,
}

impl Guide {
    /// Takes the files from the page.
    ///
    /// # Panics
    /// When the page does not have them.
    #[allow(clippy::panic)]
    pub fn read() -> Guide {
        let page = repository().join(PAGE);
        let page = match fs::read_to_string(&page) {
            Ok(text) => text,
            Err(error) => panic!("{}: {error}", page.display()),
        };
        let block = |language: &str, part: &str| {
            let start = format!("```{language}\n");
            page.split(&start)
                .skip(1)
                .filter_map(|rest| rest.split_once("```").map(|(block, _)| block))
                .find(|block| block.contains(part))
                .map_or_else(|| panic!("{PAGE} has no {language} with {part}"), str::to_owned)
        };
        Guide {
            manifest: block("toml", "[package]"),
            source: block("rust", "export_transform!"),
            settings: block("toml", "[[table.transform]]"),
        }
    }

    /// Builds the crate, with the SDK and the locked dependencies of this repository.
    ///
    /// # Panics
    /// When it cannot be built: the page is wrong.
    #[allow(clippy::panic)]
    pub fn build(&self) -> Built {
        let root = repository();
        let folder = target_dir(&root).join("guide");
        let sdk = root.join("plugins/sdk");
        assert!(self.manifest.contains(SDK), "{PAGE} has the SDK at another place");
        // The table makes it a workspace of its own, which it is where the guide puts it.
        let manifest = self.manifest.replace(SDK, &sdk.display().to_string()) + "\n[workspace]\n";
        let lock = fs::read_to_string(root.join("Cargo.lock"));
        let written = fs::create_dir_all(folder.join("src"))
            .and_then(|()| write_if_changed(&folder.join("Cargo.toml"), &manifest))
            .and_then(|()| write_if_changed(&folder.join("src/lib.rs"), &self.source))
            .and_then(|()| fs::write(folder.join("Cargo.lock"), lock?));
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
