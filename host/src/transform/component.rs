//! From the bytes of a file to compiled code that may be instantiated: everything that is refused by name is refused
//! here, before a single instruction of the component runs.

use std::sync::Arc;

use wasmparser::{CanonicalFunction, CanonicalOption, Parser, Payload};
use wasmtime::component::Component;

use super::bindings::{PACKAGE, V0_1, VERSIONS, interfaces};
use super::cache::Cache;
use super::contract::Linked;
use super::engine::Ticker;
use super::error::{listing, quoted};
use super::levels::{self, Levels, on_ample_stack};
use super::module::{self, ModuleFault};
use super::plan::one_line;
use super::slots::{Slot, Slots};
use super::wasi;
use crate::error::ErrorKind;
use crate::sha256;

/// The largest file that is taken. A component of a language runtime is about 20 MB.
pub(crate) const MAX_FILE_BYTES: u64 = 128 << 20;
/// The custom section in which a build says what the component is called.
const INFO_SECTION: &str = "sluice:plugin";
/// Characters of a name of a component's own that are kept.
const MAX_NAME_CHARS: usize = 200;
/// Characters of what is wrong with a component that are shown; names of its own may stand in it.
const MAX_REASON_CHARS: usize = 2000;

/// Why a plugin cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// No file and no built-in component has the name.
    #[error("there is no plugin `{plugin}`{}; {}", in_dir(.dir), listing("there are", .known))]
    Unknown {
        /// The name that was asked for.
        plugin: String,
        /// The directory that was looked through.
        dir: Option<String>,
        /// What there is.
        known: Vec<String>,
    },
    /// The name could not be a file's.
    #[error("`{0}` is no plugin name; use NAME or NAME@VERSION of letters, digits, `.`, `-` and `_`")]
    BadName(String),
    /// Several versions are there and none was asked for.
    #[error("plugin `{plugin}` is there in several versions: {}; ask for one as `{plugin}@VERSION`", quoted(.files))]
    Ambiguous {
        /// The name that was asked for.
        plugin: String,
        /// The files that fit.
        files: Vec<String>,
    },
    /// A file has the name of a component that is part of the binary.
    #[error("{file} has the name of the built-in component `{plugin}`; rename the file")]
    HidesBuiltin {
        /// The file.
        file: String,
        /// The built-in component.
        plugin: String,
    },
    /// The version inside the component is another than the one asked for.
    #[error("{file} is version {found}, and version {wanted} is asked for")]
    OtherVersion {
        /// The file.
        file: String,
        /// The version that it says it has.
        found: String,
        /// The version in the configuration or in the file's name.
        wanted: String,
    },
    /// The file is not the one that was pinned.
    #[error("{file} has SHA-256 {found}, and {wanted} is pinned; restore that file, or change the pin")]
    OtherDigest {
        /// The file.
        file: String,
        /// Its digest.
        found: String,
        /// The pin.
        wanted: String,
    },
    /// The file is not the one that the lock file has.
    #[error(
        "{file} has SHA-256 {found}, and {} has {}; restore that file, or look at this one and accept it with `sluice lock`",
        .locked.lock,
        .locked.sha256
    )]
    OtherThanLocked {
        /// The file.
        file: String,
        /// Its digest.
        found: String,
        /// What the lock file has.
        locked: Box<Locked>,
    },
    /// The lock file does not have the file.
    #[error("{file} (SHA-256 {found}) is not in {lock}; look at it and accept it with `sluice lock`")]
    NotLocked {
        /// The file.
        file: String,
        /// Its digest.
        found: String,
        /// The lock file.
        lock: String,
    },
    /// The file or the directory cannot be read.
    #[error("{file} cannot be read: {reason}")]
    Unreadable {
        /// The file or directory.
        file: String,
        /// The system's reason.
        reason: String,
    },
    /// The bytes are no usable component.
    #[error("{file}: {reason}")]
    Damaged {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It imports something that is not offered.
    #[error("{file}: the component imports `{import}`, which sluice does not offer; it may import {}", quoted(&offered()))]
    UnknownImport {
        /// The file.
        file: String,
        /// The import.
        import: String,
    },
    /// It does not export the contract.
    #[error("{file}: the component does not export `{}`, so it is no sluice transform", export(VERSIONS[0]))]
    NoTransform {
        /// The file.
        file: String,
    },
    /// It is written for a version of the contract that this sluice does not know.
    #[error(
        "{file}: the component is written for {PACKAGE}@{found}, and this sluice knows {}; build it for one of them, or \
         use another sluice",
        VERSIONS.join(", ")
    )]
    OtherContract {
        /// The file.
        file: String,
        /// The version that it exports.
        found: String,
    },
    /// It exports asynchronous functions.
    #[error("{file}: the component exports asynchronous functions; transforms are synchronous")]
    Async {
        /// The file.
        file: String,
    },
}

/// The digest that a lock file has of a plugin file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locked {
    /// The lock file.
    pub lock: String,
    /// The digest, lower-case hex.
    pub sha256: String,
}

/// What a component says about itself in its `sluice:plugin` section.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub(crate) struct PluginInfo {
    pub(crate) version: String,
}

/// A component that was checked and compiled, once per process for the same bytes.
pub(crate) struct Compiled {
    /// SHA-256 of the file, in lower-case hex.
    pub(crate) sha256: String,
    /// The file as it was read.
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) info: Option<PluginInfo>,
    /// The version of the contract that it is written for.
    pub(crate) wit: &'static str,
    /// Its first import of WASI, if it has one.
    pub(crate) wasi: Option<String>,
    pub(crate) linked: Linked,
    home: Home,
}

/// What calls of a component need as long as there are any, whoever opened it.
pub(crate) struct Home {
    pub(super) engine: wasmtime::Engine,
    /// Where instances live.
    pub(super) slots: Arc<Slots>,
    /// Without it no deadline would be noticed.
    pub(super) _ticker: Arc<Ticker>,
}

/// The file of a component.
pub(crate) struct Source<'a> {
    /// Its name, for errors.
    pub(crate) file: &'a str,
    /// Of its bytes, in lower-case hex.
    pub(crate) sha256: String,
    pub(crate) bytes: Arc<[u8]>,
}

impl PluginError {
    /// A person mends a name or a pin; a component that is not acceptable is refused.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            PluginError::Unknown { .. }
            | PluginError::BadName(_)
            | PluginError::Ambiguous { .. }
            | PluginError::HidesBuiltin { .. }
            | PluginError::OtherVersion { .. }
            | PluginError::OtherDigest { .. }
            | PluginError::OtherThanLocked { .. }
            | PluginError::NotLocked { .. }
            | PluginError::Unreadable { .. } => ErrorKind::Config,
            PluginError::Damaged { .. }
            | PluginError::UnknownImport { .. }
            | PluginError::NoTransform { .. }
            | PluginError::OtherContract { .. }
            | PluginError::Async { .. } => ErrorKind::ComponentRefused,
        }
    }
}

impl Compiled {
    /// Checks `bytes`, which were read from `file`, and compiles them unless `cache` has their code.
    pub(crate) fn new(home: Home, cache: Option<&Cache>, source: Source<'_>) -> Result<Compiled, PluginError> {
        let file = source.file;
        on_ample_stack(|| Compiled::on_this_stack(home, cache, source)).unwrap_or_else(|reason| {
            Err(PluginError::Damaged {
                file: file.to_owned(),
                reason,
            })
        })
    }

    /// Refuses what is no transform as far as that is seen without compiling it.
    pub(crate) fn inspect(file: &str, bytes: &[u8]) -> Result<(), PluginError> {
        let inspected = on_ample_stack(|| inspect(file, bytes).map(|_| ()));
        inspected.unwrap_or_else(|reason| {
            Err(PluginError::Damaged {
                file: file.to_owned(),
                reason,
            })
        })
    }

    /// Waits for a place for an instance of it.
    pub(super) fn slot(&self) -> Slot {
        self.home.slots.take()
    }

    /// Whether it may keep one of the two rows of an update and drop the other. The first version of the contract has
    /// them go together.
    pub(crate) fn splits_updates(&self) -> bool {
        self.wit != V0_1
    }

    fn on_this_stack(
        home: Home,
        cache: Option<&Cache>,
        Source { file, sha256, bytes }: Source<'_>,
    ) -> Result<Compiled, PluginError> {
        let inspected = inspect(file, &bytes)?;
        let damaged = |what: &str, error: wasmtime::Error| PluginError::Damaged {
            file: file.to_owned(),
            reason: one_line(&format!("{what}: {error:#}"), MAX_REASON_CHARS),
        };
        let compiled = match (cache, &inspected.component) {
            (None, made) => Component::from_binary(&home.engine, made.as_deref().unwrap_or(&bytes)),
            (Some(cache), None) => cache.component(&home.engine, &sha256, &bytes),
            // What a core module becomes depends on this sluice as well, so its own digest would not do.
            (Some(cache), Some(made)) => cache.component(&home.engine, &sha256::hex(made), made),
        };
        let component = compiled.map_err(|error| match is_too_large(&error) {
            true => PluginError::Damaged {
                file: file.to_owned(),
                reason: "it is over a fixed limit on tables, memories or instances".to_owned(),
            },
            false => damaged("cannot be compiled", error),
        })?;
        let linked = Linked::new(inspected.wit, &component).map_err(|e| damaged("does not fit the contract", e))?;
        Ok(Compiled {
            sha256,
            info: inspected.info,
            wit: inspected.wit,
            wasi: inspected.wasi,
            bytes,
            linked,
            home,
        })
    }
}

/// Whether an instance would not fit into its slot (`slots`). wasmtime has no public type for it; a test holds the text in place.
fn is_too_large(error: &wasmtime::Error) -> bool {
    format!("{error:#}").contains("pooling allocator")
}

/// What can be said of a component before it is compiled.
#[derive(Debug)]
struct Inspected {
    /// The component that was made of a core module; absent when the file is one already.
    component: Option<Vec<u8>>,
    info: Option<PluginInfo>,
    wit: &'static str,
    wasi: Option<String>,
}

/// What the sections of a component or module say, without their types. The nested ones are validated when it is compiled.
#[derive(Debug, Default)]
struct Outline {
    imports: Vec<String>,
    exports: Vec<String>,
    has_async: bool,
    info: Option<PluginInfo>,
}

fn inspect(file: &str, bytes: &[u8]) -> Result<Inspected, PluginError> {
    let damaged = |reason: String| PluginError::Damaged {
        file: file.to_owned(),
        reason: one_line(&reason, MAX_REASON_CHARS),
    };
    if !bytes.starts_with(b"\0asm") {
        return Err(damaged("the file is no WebAssembly".to_owned()));
    }
    let mut outline = Outline::read(bytes).map_err(&damaged)?;
    let info = outline.info.take();
    let mut component = None;
    if !Parser::is_component(bytes) {
        let encoded = module::componentize(bytes).map_err(|fault| match fault {
            ModuleFault::Import(import) => PluginError::UnknownImport {
                file: file.to_owned(),
                import: one_line(&import, MAX_NAME_CHARS),
            },
            ModuleFault::Version(found) => PluginError::OtherContract {
                file: file.to_owned(),
                found: one_line(&found, MAX_NAME_CHARS),
            },
            ModuleFault::Other(reason) => damaged(reason),
        })?;
        outline = Outline::read(&encoded).map_err(&damaged)?;
        component = Some(encoded);
    }
    outline.check_imports(file)?;
    if outline.has_async {
        return Err(PluginError::Async { file: file.to_owned() });
    }
    Ok(Inspected {
        component,
        info,
        wit: outline.contract_version(file)?,
        wasi: outline
            .imports
            .into_iter()
            .find(|import| wasi::offered(import).is_some()),
    })
}

impl Outline {
    /// # Errors
    /// A sentence for an error message: what cannot be read.
    fn read(bytes: &[u8]) -> Result<Outline, String> {
        let cut = levels::damaged;
        let mut outline = Outline::default();
        let mut levels = Levels::default();
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.map_err(cut)?;
            levels.add(bytes, &payload)?;
            match payload {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(imports) if depth == 0 => {
                    for import in imports {
                        outline.imports.push(name_of(import.map_err(cut)?.name.name));
                    }
                }
                Payload::ComponentExportSection(exports) if depth == 0 => {
                    for export in exports {
                        outline.exports.push(name_of(export.map_err(cut)?.name.name));
                    }
                }
                Payload::ComponentCanonicalSection(functions) => {
                    for function in functions {
                        if let CanonicalFunction::Lift { options, .. } = function.map_err(cut)? {
                            outline.has_async |= options.contains(&CanonicalOption::Async);
                        }
                    }
                }
                Payload::CustomSection(section) if depth == 0 && section.name() == INFO_SECTION => {
                    let parsed: PluginInfo = serde_json::from_slice(section.data())
                        .map_err(|error| format!("the section `{INFO_SECTION}` cannot be read: {error}"))?;
                    outline.info = Some(PluginInfo {
                        version: name_of(&parsed.version),
                    });
                }
                _ => {}
            }
        }
        Ok(outline)
    }

    fn check_imports(&self, file: &str) -> Result<(), PluginError> {
        let (offered, types) = (offered(), types());
        match self
            .imports
            .iter()
            .find(|import| !offered.contains(import) && !types.contains(import) && wasi::offered(import).is_none())
        {
            Some(import) => Err(PluginError::UnknownImport {
                file: file.to_owned(),
                import: import.clone(),
            }),
            None => Ok(()),
        }
    }

    /// The newest version of the contract that is exported and known.
    fn contract_version(&self, file: &str) -> Result<&'static str, PluginError> {
        let known = VERSIONS
            .into_iter()
            .find(|version| self.exports.contains(&export(version)));
        if let Some(version) = known {
            return Ok(version);
        }
        let prefix = export("");
        match self.exports.iter().find_map(|name| name.strip_prefix(&prefix)) {
            Some(found) => Err(PluginError::OtherContract {
                file: file.to_owned(),
                found: found.to_owned(),
            }),
            None => Err(PluginError::NoTransform { file: file.to_owned() }),
        }
    }
}

/// A name that the component gives itself or what it uses, for people and to be compared with the names that there are:
/// those are short and have no control character, so that none of them is made here.
pub(crate) fn name_of(name: &str) -> String {
    one_line(name, MAX_NAME_CHARS)
}

fn export(version: &str) -> String {
    format!("{PACKAGE}/transform@{version}")
}

/// The interfaces with functions that a component may import.
fn offered() -> Vec<String> {
    VERSIONS
        .iter()
        .flat_map(|version| {
            let names = interfaces(version).iter();
            names.map(move |name| format!("{PACKAGE}/{name}@{version}"))
        })
        .collect()
}

/// The interfaces without functions that a component imports for their types.
fn types() -> Vec<String> {
    VERSIONS
        .iter()
        .map(|version| format!("{PACKAGE}/types@{version}"))
        .collect()
}

fn in_dir(dir: &Option<String>) -> String {
    match dir {
        Some(dir) => format!(" in {dir} or built in"),
        None => " (and no `[plugins] dir` is set)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_component_bring_no_control_character_to_the_terminal() {
        assert_eq!(name_of("a\u{1b}[31mb\nc"), "a [31mb c");
        assert_eq!(name_of(&"x".repeat(1000)).len(), 200);
        for name in offered().into_iter().chain(types()).chain([export(VERSIONS[0])]) {
            assert_eq!(name_of(&name), name);
        }
        // A module: the magic number, version 1, and the section `sluice:plugin` with a version of one escape character.
        let info = b"{\"version\":\"1\\u001b[2J\"}";
        let mut module = b"\0asm\x01\0\0\0".to_vec();
        module.push(0);
        module.push(1 + 13 + info.len() as u8);
        module.push(13);
        module.extend(b"sluice:plugin");
        module.extend(info);
        let outline = Outline::read(&module).unwrap();
        assert_eq!(outline.info.unwrap().version, "1 [2J");
    }
}
