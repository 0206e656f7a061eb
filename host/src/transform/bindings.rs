//! Generated bindings, one module for each published version of `sluice:transform`. The rest of this folder speaks the
//! newest version; an older one is converted here when there is one.

/// `sluice:transform@0.1.0`.
pub mod v0_1 {
    #![allow(missing_docs, clippy::all, clippy::pedantic)]

    wasmtime::component::bindgen!({
        path: "../wit/0.1.0",
        world: "plugin",
        ownership: Borrowing { duplicate_if_necessary: true },
        imports: { default: trappable },
        additional_derives: [Clone, PartialEq],
    });
}

/// The package of the contract, as it stands before the interface in an import or export name.
pub const PACKAGE: &str = "sluice:transform";

/// The versions of the contract that a component may be written for, newest first.
pub const VERSIONS: [&str; 1] = ["0.1.0"];
