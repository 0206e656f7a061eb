//! WASI 0.2 for components of language runtimes, linked inert: CPython and SpiderMonkey ask for a system before they run a
//! line of a plugin, and here they find an empty one. A table allows it with `wasi = true`.
//!
//! The stubs are sluice's own, and not the crate `wasmtime-wasi` with an empty context: that crate brings a runtime for real
//! files, sockets and timers along, and its calls may wait. Nothing here waits, opens or reads anything of the machine; a
//! deadline that has passed ends every call.
//!
//! Offered, in each release 0.2.x (only what a component imports is defined, with the types that it imports):
//!
//! | interface | what a component finds |
//! |---|---|
//! | `io/poll`, `io/error`, `io/streams` | a wait ends at once, see the clock; every input is at its end |
//! | `clocks/wall-clock` | always 1970-01-01T00:00:00Z |
//! | `clocks/monotonic-clock` | counts from 0, a microsecond a reading; a wait moves it to the end of the wait |
//! | `random/random`, `random/insecure`, `random/insecure-seed` | the same numbers in every instance, see [`random`] |
//! | `cli/environment` | no variables, no arguments, no working directory |
//! | `cli/stdin`, `cli/stdout`, `cli/stderr` | an empty input; lines for the sensitive debug log, see [`stdio`] |
//! | `cli/terminal-*` | none |
//! | `cli/exit` | ends the call as a failure |
//! | `filesystem/types`, `filesystem/preopens` | no directory, so that no file has a name |
//! | `sockets/*` | every socket and every look-up is refused with `access-denied` |
//! | `http/types`, `http/outgoing-handler` | the first use ends the call as a failure |
//!
//! A fresh instance for every chunk, with the same clock and numbers each: a chunk that is read again gives the same bytes.

mod known;
mod random;
mod refused;
mod stdio;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use wasmtime::StoreContextMut;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker, LinkerInstance, ResourceType};

use super::sandbox::{DeadlinePassed, HostState};
use random::Numbers;
use stdio::Lines;

/// The interfaces, without package prefix and version.
const INTERFACES: [&str; 29] = [
    "cli/environment",
    "cli/exit",
    "cli/stderr",
    "cli/stdin",
    "cli/stdout",
    "cli/terminal-input",
    "cli/terminal-output",
    "cli/terminal-stderr",
    "cli/terminal-stdin",
    "cli/terminal-stdout",
    "clocks/monotonic-clock",
    "clocks/wall-clock",
    "filesystem/preopens",
    "filesystem/types",
    "http/outgoing-handler",
    "http/types",
    "io/error",
    "io/poll",
    "io/streams",
    "random/insecure",
    "random/insecure-seed",
    "random/random",
    "sockets/instance-network",
    "sockets/ip-name-lookup",
    "sockets/network",
    "sockets/tcp",
    "sockets/tcp-create-socket",
    "sockets/udp",
    "sockets/udp-create-socket",
];
/// Handles that an instance may hold at a time. Each takes memory of the host.
const MAX_HANDLES: u32 = 10_000;
/// By how much a reading moves the monotonic clock, in nanoseconds: code that waits for time to pass gets on.
const READING_NS: u64 = 1_000;

/// The interface that an import names, such as `io/poll` for `wasi:io/poll@0.2.9`; `None` when it is not offered.
pub(crate) fn offered(import: &str) -> Option<&'static str> {
    let (name, version) = import.strip_prefix("wasi:")?.split_once('@')?;
    let release = version.strip_prefix("0.2.")?;
    if release.is_empty() || !release.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    INTERFACES.into_iter().find(|interface| *interface == name)
}

/// Why a call ended. Names of the component's imports alone: nothing that it passed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// There is nothing behind this function.
    #[error("`{function}` of `{interface}`")]
    Function {
        /// As the component imports it.
        interface: String,
        /// With its resource, as in `[method]descriptor.stat`.
        function: String,
    },
    /// A list that may not be empty was.
    #[error("`poll` of `wasi:io/poll` with an empty list")]
    EmptyPoll,
    /// Every one of them takes memory of the host.
    #[error("more than {MAX_HANDLES} handles of WASI at a time")]
    Handles,
}

/// A handle that becomes ready at an instant of the monotonic clock. 0 is ready from the start.
pub(super) struct Pollable;
/// Never made: no operation fails with one.
pub(super) struct IoError;
/// Always at its end.
pub(super) struct InputStream;
/// Standard output or standard error, by its number.
pub(super) struct OutputStream;
/// The network that nobody is let into.
pub(super) struct Network;
/// A file, a socket, a terminal, a request: a component can name the type and never gets one.
pub(super) struct Unheld;

/// What one instance has of WASI.
pub(crate) struct Wasi {
    /// The monotonic clock, in nanoseconds.
    now: u64,
    /// The instants that handles wait for, and the number of the next handle.
    waits: HashMap<u32, u64>,
    next: u32,
    handles: u32,
    numbers: Numbers,
    lines: Lines,
}

impl Wasi {
    /// `label` names the table and the plugin in the debug log.
    pub(crate) fn new(label: Arc<str>) -> Wasi {
        Wasi {
            now: 0,
            waits: HashMap::new(),
            next: 1,
            handles: 0,
            numbers: Numbers::default(),
            lines: Lines::new(label),
        }
    }

    /// Counts a handle that is given out.
    fn hold(&mut self) -> wasmtime::Result<()> {
        if self.handles >= MAX_HANDLES {
            return Err(Refused::Handles.into());
        }
        self.handles += 1;
        Ok(())
    }

    fn let_go(&mut self, pollable: Option<u32>) {
        self.handles = self.handles.saturating_sub(1);
        if let Some(rep) = pollable {
            self.waits.remove(&rep);
        }
    }

    /// Reads the monotonic clock.
    fn read_clock(&mut self) -> u64 {
        self.now = self.now.saturating_add(READING_NS);
        self.now
    }

    /// A handle that is ready at `instant`.
    fn wait_for(&mut self, instant: u64) -> wasmtime::Result<u32> {
        self.hold()?;
        // Numbers come round after 2^32 handles, and then only those that are held are passed over.
        while self.next == 0 || self.waits.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let rep = self.next;
        self.next = self.next.wrapping_add(1);
        self.waits.insert(rep, instant);
        Ok(rep)
    }

    /// When a handle is ready.
    fn ready_at(&self, rep: u32) -> u64 {
        self.waits.get(&rep).copied().unwrap_or(0)
    }

    /// Waits until one of `reps` is ready, which takes no time but the clock's. Gives the positions of those that are.
    fn wait(&mut self, reps: &[u32]) -> wasmtime::Result<Vec<u32>> {
        let instants: Vec<u64> = reps.iter().map(|rep| self.ready_at(*rep)).collect();
        let first = instants.iter().min().ok_or(Refused::EmptyPoll)?;
        self.now = self.now.max(*first);
        Ok((0..)
            .zip(instants)
            .filter(|(_, at)| *at <= self.now)
            .map(|(i, _)| i)
            .collect())
    }
}

/// Ends a call whose time is over: the epoch acts in WebAssembly only.
fn in_time(deadline: Instant) -> wasmtime::Result<()> {
    if Instant::now() >= deadline {
        return Err(DeadlinePassed.into());
    }
    Ok(())
}

/// Defines what `component` imports of WASI, and nothing else.
///
/// # Errors
/// A component that gives a known function other types than WASI does is refused when it is linked, not here.
pub(crate) fn add_to_linker(linker: &mut Linker<HostState>, component: &Component) -> wasmtime::Result<()> {
    let engine = component.engine();
    // A type that an interface takes over from another one is listed again there.
    let mut defined: Vec<ResourceType> = Vec::new();
    for (import, item) in component.component_type().imports(engine) {
        let (Some(interface), ComponentItem::ComponentInstance(instance)) = (offered(import), item.ty) else {
            continue;
        };
        let mut target = linker.instance(import)?;
        for (name, item) in instance.exports(engine) {
            match item.ty {
                ComponentItem::Resource(resource) if !defined.contains(&resource) => {
                    add_resource(&mut target, interface, name)?;
                    defined.push(resource);
                }
                ComponentItem::ComponentFunc(function) if !known::add(&mut target, interface, name)? => {
                    refused::add(&mut target, import, name, &function)?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn add_resource(target: &mut LinkerInstance<'_, HostState>, interface: &str, name: &str) -> wasmtime::Result<()> {
    let pollable = (interface, name) == ("io/poll", "pollable");
    let ty = match (interface, name) {
        ("io/poll", "pollable") => ResourceType::host::<Pollable>(),
        ("io/error", "error") => ResourceType::host::<IoError>(),
        ("io/streams", "input-stream") => ResourceType::host::<InputStream>(),
        ("io/streams", "output-stream") => ResourceType::host::<OutputStream>(),
        ("sockets/network", "network") => ResourceType::host::<Network>(),
        _ => ResourceType::host::<Unheld>(),
    };
    target.resource(name, ty, move |mut store: StoreContextMut<'_, HostState>, rep| {
        store.data_mut().wasi.let_go(pollable.then_some(rep));
        Ok(())
    })
}

#[cfg(test)]
mod tests;
