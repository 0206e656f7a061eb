//! WebAssembly transforms: a table's chain of sandboxed components, and the checks that make it fail closed.
//!
//! The way of a chunk: [`Chain::apply`] takes it apart (`chunk`), each `step` lends the columns that its component reads
//! (`columns`), calls a fresh instance (`sandbox`, held to its `limits`), checks what came back (`check`, `columns`) and
//! drops rows; where it fails, `bisect` finds the rows that it fails on, if they may go into quarantine, and `together` those
//! that go along; at the end `leaks` looks for raw values of protected columns. Nothing that a component returned is used
//! before it was checked, and on any error nothing comes out. `spent` says what the time went into.
//!
//! The way of a component: `registry` finds its bytes, `pins` says whether they are accepted, `taken` keeps them while the
//! process runs, `component` refuses what it can by name and compiles the rest once per process (`engine`), or takes its code
//! from a private directory (`cache`), `plan` checks what it says it will do, `route` follows each column through the chain
//! for people and for `protect`.
//!
//! What a component may ask of the host: `keyed`, `lookup` and `log`, each for what its table has granted (`grants`) and
//! within its time and memory (`hostcall`). The runtimes of other languages find an empty system (`wasi`). Which version of the
//! contract it is written for, `contract` alone knows.

mod bindings;
mod bisect;
mod cache;
mod cells;
mod chain;
mod check;
mod chunk;
mod columns;
mod component;
mod contract;
mod engine;
mod error;
#[cfg(test)]
mod garbage;
mod grants;
mod hostcall;
#[doc(hidden)]
pub mod hostile;
mod keyed;
mod keys;
mod leaks;
mod levels;
mod limits;
mod log;
mod lookup;
mod made;
mod module;
mod open_fault;
mod pins;
mod plan;
mod provenance;
mod registry;
mod route;
mod sandbox;
mod slots;
mod spec;
mod spent;
mod step;
mod taken;
#[cfg(test)]
mod tests;
mod together;
mod wasi;
mod watch;

pub use cache::CacheSettings;
pub use chain::{Applied, Chain, PROTECTED_VALUE, Quarantined, WITH_ANOTHER};
pub(crate) use check::{INVALID_CODE, WITHHELD_CODE};
pub use check::{Invalid, What};
pub(crate) use component::name_of;
pub use component::{Locked, PluginError};
pub use engine::Engine;
pub use error::{ConfigFault, Fault, Place, RowAt, TableFault, TransformError};
#[doc(hidden)]
pub use keyed::{TagText, Tagger};
pub use keys::{KeyError, KeyRing, MIN_SECRET_BYTES};
pub use leaks::LeakCheck;
pub use limits::{
    DEFAULT_DEADLINE, DEFAULT_MEMORY_BYTES, DEFAULT_OUTPUT_BYTES, DEFAULT_WASI_DEADLINE, DEFAULT_WASI_MEMORY_BYTES,
    Limits,
};
pub(crate) use log::{Said, listen};
pub use lookup::{LookupFault, LookupFileError, Lookups};
pub use pins::{Lock, Pin, Pins, Plugins};
pub use plan::PlanFault;
pub use provenance::Provenance;
pub(crate) use provenance::digest_of;
pub use registry::BuiltinComponent;
pub(crate) use registry::{Registry, Sighting, read as read_component};
pub use route::{Computation, OutputColumn, Route, SourceRoute};
pub use spec::{OnError, TransformSpec};
pub use spent::Spent;
pub use together::Together;
