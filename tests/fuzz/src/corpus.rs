//! The inputs that are kept of a target, and how one is tried without libFuzzer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::targets::Target;

/// The inputs of a target's corpus, by file, in the order of their names.
pub fn inputs(target: &Target) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let entries = std::fs::read_dir(&folder).with_context(|| format!("{} is missing", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let bytes = std::fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))?;
            Ok((path, bytes))
        })
        .collect()
}

/// Runs a target on one input. The panic's message, if it panicked.
pub fn try_input(target: &Target, input: &[u8]) -> std::result::Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        text.or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "a panic without a message".to_owned())
    })
}
