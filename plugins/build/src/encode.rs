//! From a core module with WIT metadata to a component that says what it is.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use wasm_encoder::{ComponentSection, CustomSection};
use wit_component::ComponentEncoder;

use crate::error::BuildError;

/// The custom section of a component in which its name and version stand, as the JSON of a [`PluginInfo`].
pub const PLUGIN_SECTION: &str = "sluice:plugin";

/// What a component says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginInfo {
    /// The name of the crate or project.
    pub name: String,
    /// The version of the crate or project.
    pub version: String,
}

/// What a component says about itself in [`PLUGIN_SECTION`]; `None` where the bytes are no component or carry none.
pub fn plugin_info(component: &[u8]) -> Option<PluginInfo> {
    let mut depth = 0_u32;
    for payload in wasmparser::Parser::new(0).parse_all(component) {
        match payload.ok()? {
            // Nested modules and components have custom sections of their own, which say nothing about the whole.
            wasmparser::Payload::ModuleSection { .. } | wasmparser::Payload::ComponentSection { .. } => depth += 1,
            wasmparser::Payload::End(_) => depth = depth.saturating_sub(1),
            wasmparser::Payload::CustomSection(section) if depth == 0 && section.name() == PLUGIN_SECTION => {
                return serde_json::from_slice(section.data()).ok();
            }
            _ => {}
        }
    }
    None
}

pub(crate) fn component(module: &[u8], info: &PluginInfo) -> Result<Vec<u8>, BuildError> {
    let component = encode(module).map_err(|reason| BuildError::Encode { reason })?;
    named(component, info)
}

/// The component, saying what it is.
pub(crate) fn named(mut component: Vec<u8>, info: &PluginInfo) -> Result<Vec<u8>, BuildError> {
    let json = serde_json::to_vec(info).map_err(|error| BuildError::Encode {
        reason: error.to_string(),
    })?;
    CustomSection {
        name: Cow::Borrowed(PLUGIN_SECTION),
        data: Cow::Owned(json),
    }
    .append_to_component(&mut component);
    Ok(component)
}

fn encode(module: &[u8]) -> Result<Vec<u8>, String> {
    // `{:#}` prints the chain of reasons, of which the last is the useful one.
    ComponentEncoder::default()
        .validate(true)
        .module(module)
        .map_err(|error| format!("{error:#}"))?
        .encode()
        .map_err(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_says_what_it_is_and_is_otherwise_the_same() {
        let info = PluginInfo {
            name: "x".to_owned(),
            version: "1.0.0".to_owned(),
        };
        let empty = wasm_encoder::Component::new().finish();
        let with_name = named(empty.clone(), &info).unwrap();
        assert_eq!(plugin_info(&with_name), Some(info));
        assert!(plugin_info(&empty).is_none());
        assert!(with_name.starts_with(&empty));
        wasmparser::Validator::new().validate_all(&with_name).unwrap();
    }

    #[test]
    fn garbage_is_refused_and_has_no_info() {
        let info = PluginInfo {
            name: "x".to_owned(),
            version: "1.0.0".to_owned(),
        };
        assert!(component(b"not a module", &info).is_err());
        assert!(plugin_info(b"not a module").is_none());
        assert!(plugin_info(b"").is_none());
    }
}
