//! Components of every version of the contract behind one pair of types. Each is called through the bindings of its own
//! version, and what comes back is of the newest.

mod converted;
mod v0_1;
mod v0_2;

use wasmtime::Store;
use wasmtime::component::{Component, HasSelf, Linker};

use super::bindings::v0_3::exports::sluice::transform::transform as wit;
use super::bindings::{self, V0_1, V0_2};
use super::sandbox::HostState;
use super::wasi;

/// A compiled component with its imports resolved.
pub(crate) enum Linked {
    V0_1(bindings::v0_1::PluginPre<HostState>),
    V0_2(bindings::v0_2::PluginPre<HostState>),
    V0_3(bindings::v0_3::PluginPre<HostState>),
}

/// A live component.
pub(crate) enum Guest {
    V0_1(bindings::v0_1::Plugin),
    V0_2(bindings::v0_2::Plugin),
    V0_3(bindings::v0_3::Plugin),
}

impl Linked {
    /// Resolves the imports of a component that exports `version`. A component may import an interface of another version
    /// than it exports: all of them are there.
    ///
    /// # Errors
    /// An import or export with another type than the contract's.
    pub(crate) fn new(version: &str, component: &Component) -> wasmtime::Result<Linked> {
        let mut linker = Linker::<HostState>::new(component.engine());
        bindings::v0_1::Plugin::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
        bindings::v0_2::Plugin::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
        bindings::v0_3::Plugin::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
        wasi::add_to_linker(&mut linker, component)?;
        let pre = linker.instantiate_pre(component)?;
        Ok(match version {
            V0_1 => Linked::V0_1(bindings::v0_1::PluginPre::new(pre)?),
            V0_2 => Linked::V0_2(bindings::v0_2::PluginPre::new(pre)?),
            _ => Linked::V0_3(bindings::v0_3::PluginPre::new(pre)?),
        })
    }

    pub(crate) fn engine(&self) -> &wasmtime::Engine {
        match self {
            Linked::V0_1(pre) => pre.engine(),
            Linked::V0_2(pre) => pre.engine(),
            Linked::V0_3(pre) => pre.engine(),
        }
    }

    /// Makes an instance. The inner error is one of the exports' types, the outer one of the component.
    pub(crate) fn instantiate(&self, store: &mut Store<HostState>) -> wasmtime::Result<Result<Guest, wasmtime::Error>> {
        // In two steps, because a component that traps at its start is another fault than one with foreign exports.
        Ok(match self {
            Linked::V0_1(pre) => {
                let instance = pre.instance_pre().instantiate(&mut *store)?;
                bindings::v0_1::Plugin::new(store, &instance).map(Guest::V0_1)
            }
            Linked::V0_2(pre) => {
                let instance = pre.instance_pre().instantiate(&mut *store)?;
                bindings::v0_2::Plugin::new(store, &instance).map(Guest::V0_2)
            }
            Linked::V0_3(pre) => {
                let instance = pre.instance_pre().instantiate(&mut *store)?;
                bindings::v0_3::Plugin::new(store, &instance).map(Guest::V0_3)
            }
        })
    }
}

impl Guest {
    /// Calls `open`.
    pub(crate) fn open(
        &self,
        store: &mut Store<HostState>,
        table: wit::Table<'_>,
        config: &str,
    ) -> wasmtime::Result<Result<wit::Plan, wit::OpenError>> {
        match self {
            Guest::V0_1(plugin) => v0_1::open(plugin, store, table, config),
            Guest::V0_2(plugin) => v0_2::open(plugin, store, table, config),
            Guest::V0_3(plugin) => plugin.sluice_transform_transform().call_open(store, table, config),
        }
    }

    /// Calls `apply`.
    pub(crate) fn apply(
        &self,
        store: &mut Store<HostState>,
        batch: wit::Batch<'_>,
    ) -> wasmtime::Result<Result<wit::Outcome, wit::ApplyError>> {
        match self {
            Guest::V0_1(plugin) => v0_1::apply(plugin, store, batch),
            Guest::V0_2(plugin) => v0_2::apply(plugin, store, batch),
            Guest::V0_3(plugin) => plugin.sluice_transform_transform().call_apply(store, batch),
        }
    }
}
