//! The components that tests run against, built when a test first asks for one.
//!
//! ```no_run
//! let path = sluice_test_guests::component("badguest");
//! ```

mod guide;
mod page;
mod text;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use sluice_component_build::{BuildRequest, Built, build_component};

pub use guide::Guide;
pub use page::{Step, steps_of};
pub use text::{TEXT_GUESTS, text_guest, text_guests};

/// Every guest that there is, with the folder of its crate relative to the repository. A guest that no test asks for
/// has no business here.
pub const GUESTS: [(&str, &str); 8] = [
    ("mask", "plugins/mask"),
    ("map", "plugins/map"),
    ("upper", "tests/guests/upper"),
    ("badguest", "tests/guests/badguest"),
    ("unknown-import", "tests/guests/unknown-import"),
    ("not-a-plugin", "tests/guests/not-a-plugin"),
    ("v0-1", "tests/guests/v0-1"),
    ("asker", "tests/guests/asker"),
];

/// The path of a guest's component, built at most once per process. Compiled guests are kept in `target/guests` of the
/// repository, so that a second run costs a moment.
///
/// # Panics
/// When there is no such guest, or it cannot be built: a test has nothing to go on with.
#[allow(clippy::panic)]
pub fn component(name: &str) -> PathBuf {
    built(name).path
}

/// The same, with all that is known about the build.
///
/// # Panics
/// As [`component`].
#[allow(clippy::panic)]
pub fn built(name: &str) -> Built {
    static BUILT: OnceLock<Mutex<HashMap<String, Built>>> = OnceLock::new();
    let Some((_, folder)) = GUESTS.iter().find(|(guest, _)| *guest == name) else {
        panic!("there is no test guest {name}");
    };
    // Cargo would let a second build wait anyway; holding the lock also spares it.
    let mut built = BUILT
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(done) = built.get(name) {
        return done.clone();
    }
    let root = repository();
    let request = BuildRequest::new(root.join(folder), target_dir(&root));
    match build_component(&request) {
        Ok(done) => built.entry(name.to_owned()).or_insert(done).clone(),
        Err(error) => panic!("test guest {name} cannot be built: {error}"),
    }
}

fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(3).unwrap_or(here).to_owned()
}

/// `guests` in the target folder of the build that these tests are part of.
fn target_dir(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), PathBuf::from)
        .join("guests")
}
