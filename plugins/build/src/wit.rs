//! The contract, for tools that read it from a folder.

use std::path::{Path, PathBuf};

use crate::error::BuildError;
use crate::run::write;

/// The version of the contract that the templates in Python and JavaScript are written for.
pub(crate) const VERSION: &str = "0.3.0";
const FILES: [(&str, &str); 3] = [
    ("types.wit", include_str!("../../../wit/0.3.0/types.wit")),
    ("host.wit", include_str!("../../../wit/0.3.0/host.wit")),
    ("transform.wit", include_str!("../../../wit/0.3.0/transform.wit")),
];

/// Writes the contract under the target folder and returns the folder that it is in.
pub(crate) fn written(target_dir: &Path) -> Result<PathBuf, BuildError> {
    let folder = target_dir.join("wit").join(VERSION);
    for (name, text) in FILES {
        write(&folder.join(name), text.as_bytes())?;
    }
    Ok(folder)
}
