//! Two components that do nothing but have columns copied, in and out, as large as those of the mask.

use std::path::Path;

use anyhow::{Context, Result};
use wit_component::StringEncoding;
use wit_parser::Resolve;

/// Their names as plugins, each with its text.
const COPIES: [(&str, &str); 2] = [
    ("copy-in", include_str!("copy_in.wat")),
    ("copy-out", include_str!("copy_out.wat")),
];

/// Writes both into a plugin directory, as core modules with the contract's metadata.
pub(super) fn write(dir: &Path) -> Result<()> {
    let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/0.3.0");
    let mut resolve = Resolve::default();
    let (package, _) = resolve
        .push_dir(&contract)
        .with_context(|| format!("{} is not the contract", contract.display()))?;
    let world = resolve.select_world(&[package], Some("plugin"))?;
    for (name, text) in COPIES {
        let mut module = wat::parse_str(text).with_context(|| format!("{name} is no module"))?;
        wit_component::embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
        std::fs::write(dir.join(format!("{name}.wasm")), module)?;
    }
    Ok(())
}
