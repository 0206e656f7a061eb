//! Generated bindings, one module for each published version of `sluice:transform`. The rest of this folder speaks the
//! newest version; [`super::contract`] calls an older component and converts what it says.

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

/// `sluice:transform@0.2.0`.
pub mod v0_2 {
    #![allow(missing_docs, clippy::all, clippy::pedantic)]

    wasmtime::component::bindgen!({
        path: "../wit/0.2.0",
        world: "plugin",
        ownership: Borrowing { duplicate_if_necessary: true },
        imports: { default: trappable },
        additional_derives: [Clone, PartialEq],
    });
}

/// `sluice:transform@0.3.0`.
pub mod v0_3 {
    #![allow(missing_docs, clippy::all, clippy::pedantic)]

    wasmtime::component::bindgen!({
        path: "../wit/0.3.0",
        world: "plugin",
        ownership: Borrowing { duplicate_if_necessary: true },
        imports: { default: trappable },
        additional_derives: [Clone, PartialEq],
    });
}

/// The package of the contract, as it stands before the interface in an import or export name.
pub const PACKAGE: &str = "sluice:transform";

/// The first version of the contract.
pub const V0_1: &str = "0.1.0";
/// The second.
pub const V0_2: &str = "0.2.0";
/// The version that the rest of this folder speaks.
pub const V0_3: &str = "0.3.0";

/// The versions of the contract that a component may be written for, newest first.
pub const VERSIONS: [&str; 3] = [V0_3, V0_2, V0_1];

/// The interfaces with functions that a component of a version may import.
pub fn interfaces(version: &str) -> &'static [&'static str] {
    match version {
        V0_1 => &["log", "keyed"],
        _ => &["log", "keyed", "lookup"],
    }
}
