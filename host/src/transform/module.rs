//! From a core module with WIT metadata to a component.
//!
//! `wit-component` trusts its input more than this host trusts a file: packages of the metadata that refer to each other in
//! a circle make it recurse until the process dies. So the names in the metadata are looked through first, and only a
//! module that speaks of nothing but one version of the contract is handed over; no circle can be drawn with those. Types
//! that are nested too deeply are refused before the names are read (`levels`).

use wasmparser::{
    ComponentExternName, ComponentType, ComponentTypeDeclaration, ComponentTypeRef, InstanceTypeDeclaration, Parser,
    Payload,
};
use wit_component::ComponentEncoder;

use super::bindings::{PACKAGE, VERSIONS};
use super::levels::{self, Levels};

/// What is in the way of making a component.
#[derive(Debug)]
pub(crate) enum ModuleFault {
    /// It imports from an interface that is not part of the contract.
    Import(String),
    /// It is written for another version of the contract.
    Version(String),
    /// Anything else, as a sentence.
    Other(String),
}

/// Where `wit-bindgen` and its kin leave their metadata.
const METADATA_SECTIONS: &str = "component-type";
/// What stands before the name of an exported interface in imports that serve its resources.
const EXPORT_PREFIX: &str = "[export]";

/// Makes a component of a core module.
pub(crate) fn componentize(module: &[u8]) -> Result<Vec<u8>, ModuleFault> {
    let mut names = Names::default();
    let mut levels = Levels::default();
    for payload in Parser::new(0).parse_all(module) {
        match payload.map_err(damaged)? {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let from = import.map_err(damaged)?.module;
                    let interface = from.strip_prefix(EXPORT_PREFIX).unwrap_or(from);
                    if version_of(interface).is_none() {
                        return Err(ModuleFault::Import(interface.to_owned()));
                    }
                    names.add(interface);
                }
            }
            Payload::CustomSection(section) if section.name().starts_with(METADATA_SECTIONS) => {
                names
                    .of_metadata(section.data(), &mut levels)
                    .map_err(ModuleFault::Other)?;
            }
            _ => {}
        }
    }
    names.check()?;
    ComponentEncoder::default()
        .validate(true)
        .module(module)
        .and_then(|mut encoder| encoder.encode())
        .map_err(|error| {
            ModuleFault::Other(format!(
                "the file is a core module and cannot be made a component: {error:#}"
            ))
        })
}

/// The version in the name of one of the contract's interfaces.
fn version_of(interface: &str) -> Option<&str> {
    let name = interface.strip_prefix(PACKAGE)?.strip_prefix('/')?;
    name.split_once('@').map(|(_, version)| version)
}

fn damaged(error: wasmparser::BinaryReaderError) -> ModuleFault {
    ModuleFault::Other(levels::damaged(error))
}

/// The interfaces that a module speaks of.
#[derive(Default)]
struct Names {
    interfaces: Vec<String>,
    has_metadata: bool,
}

impl Names {
    fn add(&mut self, name: &str) {
        // A name without a slash is one inside an interface or a world.
        if name.contains('/') {
            self.interfaces.push(name.to_owned());
        }
    }

    fn of_metadata(&mut self, section: &[u8], levels: &mut Levels) -> Result<(), String> {
        self.has_metadata = true;
        for payload in Parser::new(0).parse_all(section) {
            let payload = payload.map_err(levels::damaged)?;
            levels.add(section, &payload)?;
            if let Payload::ComponentTypeSection(types) = payload {
                for ty in types {
                    self.of_type(&ty.map_err(levels::damaged)?);
                }
            }
        }
        Ok(())
    }

    fn of_type(&mut self, ty: &ComponentType<'_>) {
        match ty {
            ComponentType::Component(declarations) => {
                for declaration in declarations {
                    match declaration {
                        ComponentTypeDeclaration::Type(ty) => self.of_type(ty),
                        ComponentTypeDeclaration::Import(import) => self.of_extern(&import.name, &import.ty),
                        ComponentTypeDeclaration::Export { name, ty } => self.of_extern(name, ty),
                        ComponentTypeDeclaration::CoreType(_) | ComponentTypeDeclaration::Alias(_) => {}
                    }
                }
            }
            ComponentType::Instance(declarations) => {
                for declaration in declarations {
                    match declaration {
                        InstanceTypeDeclaration::Type(ty) => self.of_type(ty),
                        InstanceTypeDeclaration::Export { name, ty } => self.of_extern(name, ty),
                        InstanceTypeDeclaration::CoreType(_) | InstanceTypeDeclaration::Alias(_) => {}
                    }
                }
            }
            ComponentType::Defined(_) | ComponentType::Func(_) | ComponentType::Resource { .. } => {}
        }
    }

    fn of_extern(&mut self, name: &ComponentExternName<'_>, ty: &ComponentTypeRef) {
        // A component type is a world, which nothing refers to; it may be of any package.
        if !matches!(ty, ComponentTypeRef::Component(_)) {
            self.add(name.name);
        }
    }

    fn check(&self) -> Result<(), ModuleFault> {
        if !self.has_metadata {
            return Err(ModuleFault::Other(
                "the file is a core module without WIT metadata; build it as a component".to_owned(),
            ));
        }
        for interface in &self.interfaces {
            match version_of(interface) {
                Some(version) if VERSIONS.contains(&version) => {}
                Some(version) => return Err(ModuleFault::Version(version.to_owned())),
                None => {
                    return Err(ModuleFault::Other(format!(
                        "the file is a core module that speaks of `{interface}`, which is no part of {PACKAGE}; build it as \
                         a component"
                    )));
                }
            }
        }
        let versions: Vec<_> = self.interfaces.iter().filter_map(|name| version_of(name)).collect();
        match versions.split_first() {
            Some((first, others)) if others.iter().any(|other| other != first) => Err(ModuleFault::Other(format!(
                "the file is a core module that speaks of two versions of {PACKAGE}; build it as a component"
            ))),
            _ => Ok(()),
        }
    }
}
