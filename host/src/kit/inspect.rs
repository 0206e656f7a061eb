//! `plugin inspect`: what a file says of itself, and what the sandbox says of it.

use serde::Serialize;
use sluice_component_build::plugin_info;
use wasmparser::{Parser, Payload};

use super::component::{Component, Workbench};
use super::error::KitError;
use crate::error::ErrorKind;
use crate::transform::name_of;

/// All that can be said of a component without a table.
#[derive(Debug, Serialize)]
pub(crate) struct Inspection {
    /// The file, or that it is built in.
    pub(crate) file: String,
    /// The name that a table uses.
    pub(crate) name: String,
    /// The name in the component itself, where it says one.
    pub(crate) built_as: Option<String>,
    /// The component's own version, else that of its file's name.
    pub(crate) version: Option<String>,
    /// `component` or `core module`; what else there is, is refused.
    pub(crate) kind: &'static str,
    /// The version of the contract.
    pub(crate) wit: Option<String>,
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
    /// What it asks of the host.
    pub(crate) grants: Vec<Grant>,
    /// Why sluice does not take it.
    pub(crate) refused: Option<String>,
    #[serde(skip)]
    pub(crate) refused_kind: Option<ErrorKind>,
}

/// A capability that a component imports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Grant {
    pub(crate) capability: &'static str,
    /// What it means, and who gives it.
    pub(crate) terms: &'static str,
}

const GRANTS: [Grant; 4] = [
    Grant {
        capability: "keyed",
        terms: "keyed hashes, ciphers and picks, computed by the host with the keys that the table names in `keys`; it never \
                sees a key",
    },
    Grant {
        capability: "lookup",
        terms: "the reference tables that the transform's configuration in sluice.toml names",
    },
    Grant {
        capability: "log",
        terms: "messages to the debug log, bounded, and shown only where SLUICE_LOG names sluice::guest",
    },
    Grant {
        capability: "wasi",
        terms: "an inert WASI for a language runtime (no files, no network, no environment, a fixed clock), with \
                `wasi = true` on the transform",
    },
];

/// Looks at a component. One that is refused is looked at as far as it can be read.
///
/// # Errors
/// When the sandbox itself cannot start.
pub(crate) fn inspect(component: Component) -> Result<Inspection, KitError> {
    let outline = Outline::read(&component.bytes);
    let info = plugin_info(&component.bytes);
    let bench = Workbench::new(component)?;
    let accepted = bench.accept();
    let component = &bench.component;
    let (refused, refused_kind) = match &accepted {
        Ok(_) => (None, None),
        Err((reason, kind)) => (Some(reason.clone()), Some(*kind)),
    };
    let accepted = accepted.ok();
    let version = match (&accepted, &info) {
        (Some(accepted), _) => Some(accepted.version.clone()),
        (None, Some(info)) => Some(name_of(&info.version)),
        (None, None) => None,
    };
    Ok(Inspection {
        file: component.shown.clone(),
        name: component.name.clone(),
        built_as: info.map(|info| name_of(&info.name)),
        version,
        kind: outline.kind,
        wit: accepted.map(|accepted| accepted.wit),
        grants: grants(&outline.imports),
        imports: outline.imports,
        exports: outline.exports,
        bytes: component.bytes.len() as u64,
        sha256: component.sha256.clone(),
        refused,
        refused_kind,
    })
}

/// What these imports ask for.
pub(crate) fn grants(imports: &[String]) -> Vec<Grant> {
    let asks = |capability: &str| {
        imports.iter().any(|import| match capability {
            "wasi" => import.starts_with("wasi:") || import.starts_with("wasi_snapshot_preview1"),
            other => import.split_once('/').is_some_and(|(package, interface)| {
                package == "sluice:transform" && interface.split('@').next() == Some(other)
            }),
        })
    };
    GRANTS.iter().filter(|grant| asks(grant.capability)).cloned().collect()
}

/// Whether a component has a language runtime inside that asks for WASI.
pub(crate) fn imports_wasi(bytes: &[u8]) -> bool {
    grants(&Outline::read(bytes).imports)
        .iter()
        .any(|grant| grant.capability == "wasi")
}

/// Imports and exports, as far as the file can be read.
#[derive(Debug)]
struct Outline {
    kind: &'static str,
    imports: Vec<String>,
    exports: Vec<String>,
}

impl Outline {
    fn read(bytes: &[u8]) -> Outline {
        let is_component = Parser::is_component(bytes);
        let mut outline = Outline {
            kind: match (is_component, Parser::is_core_wasm(bytes)) {
                (true, _) => "component",
                (false, true) => "core module",
                (false, false) => "no WebAssembly",
            },
            imports: Vec::new(),
            exports: Vec::new(),
        };
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            // What is damaged is the sandbox's to say.
            let Ok(payload) = payload else {
                break;
            };
            match payload {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(imports) if depth == 0 => {
                    let names = imports.into_iter().filter_map(Result::ok);
                    outline.imports.extend(names.map(|import| name_of(import.name.name)));
                }
                Payload::ComponentExportSection(exports) if depth == 0 => {
                    let names = exports.into_iter().filter_map(Result::ok);
                    outline.exports.extend(names.map(|export| name_of(export.name.name)));
                }
                Payload::ImportSection(imports) if !is_component => {
                    let names = imports.into_imports().filter_map(Result::ok);
                    outline.imports.extend(names.map(|import| name_of(import.module)));
                }
                // `interface#function`; what has no interface (`memory`) is the machinery's.
                Payload::ExportSection(exports) if !is_component => {
                    let interfaces = exports
                        .into_iter()
                        .filter_map(Result::ok)
                        .filter_map(|export| export.name.split_once('#'))
                        .map(|(interface, _)| name_of(interface.trim_start_matches("cabi_post_")));
                    outline.exports.extend(interfaces);
                }
                _ => {}
            }
        }
        outline.imports.dedup();
        outline.exports.dedup();
        outline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_told_by_what_is_imported() {
        let capabilities = |imports: &[&str]| -> Vec<&'static str> {
            let imports: Vec<String> = imports.iter().map(|import| (*import).to_owned()).collect();
            grants(&imports).iter().map(|grant| grant.capability).collect()
        };
        assert!(capabilities(&["sluice:transform/types@0.2.0"]).is_empty());
        assert_eq!(
            capabilities(&[
                "wasi:clocks/wall-clock@0.2.0",
                "sluice:transform/log@0.2.0",
                "sluice:transform/keyed@0.1.0",
                "sluice:transform/lookup@0.2.0",
            ]),
            ["keyed", "lookup", "log", "wasi"]
        );
        assert!(capabilities(&["other:transform/keyed@0.2.0"]).is_empty());
    }
}
