//! Writes a transform for `sluice` in Rust.
//!
//! A transform gets whole columns of a batch of changes, and gives whole columns back. It is a type that implements
//! [`Transform`] and one line, [`export_transform!`]. Everything is plain Rust and testable without WebAssembly; the
//! macro's shell is the only part that exists in a component alone. This one upper-cases a column; from here to a table
//! that uses it, `docs/guides/writing-a-component.md` leads.
//!
//! ```
//! use serde::Deserialize;
//! use sluice_plugin::{
//!     ApplyError, Batch, ComputedField, DataType, OpenError, Outcome, OutputColumn, Plan, Table, Transform, Utf8Builder,
//! };
//!
//! /// What stands under `config` in `sluice.toml`: always an object.
//! #[derive(Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Config {
//!     column: String,
//! }
//!
//! /// Upper-cases the column.
//! pub struct Shout;
//!
//! impl Transform for Shout {
//!     fn open(table: &Table, config: &str) -> Result<(Self, Plan), OpenError> {
//!         let Config { column } = sluice_plugin::config::parse(config)?;
//!         let mut plan = Plan::default();
//!         for field in &table.fields {
//!             if field.name != column {
//!                 plan.outputs.push(OutputColumn::pass(&field.name, &field.name));
//!                 continue;
//!             }
//!             if field.data_type != DataType::Utf8 {
//!                 return Err(OpenError::unsupported(column, "it is not text"));
//!             }
//!             plan.reads.push(field.name.clone());
//!             let sources = vec![field.name.clone()];
//!             let upper = ComputedField::new(DataType::Utf8, field.nullable, sources, "upper case");
//!             plan.outputs.push(OutputColumn::computed(&field.name, upper));
//!         }
//!         if plan.reads.is_empty() {
//!             return Err(OpenError::Missing(vec![column]));
//!         }
//!         Ok((Shout, plan))
//!     }
//!
//!     fn apply(&mut self, batch: &Batch) -> Result<Outcome, ApplyError> {
//!         let values = batch.utf8(0)?;
//!         let mut upper = Utf8Builder::with_capacity(values.len(), values.text().len());
//!         for value in values.iter() {
//!             upper.push_option(value.map(str::to_uppercase).as_deref());
//!         }
//!         Ok(Outcome::of(vec![upper.finish()?]))
//!     }
//! }
//!
//! sluice_plugin::export_transform!(Shout);
//! ```

mod batch;
mod builders;
pub mod config;
mod keyed;
pub mod log;
mod lookup;
mod plan;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod shell;
#[cfg(feature = "testing")]
pub mod testing;
pub mod text;
mod views;

pub use batch::{ApplyError, Batch, Column, Operation, Outcome, Reject};
pub use builders::{BinaryBuilder, BooleanBuilder, FixedBuilder, Native, Utf8Builder};
pub use keyed::{Ff1Answer, Ff1Status, HostKeys, Keyed, KeyedError};
pub use lookup::{HostLookups, Lookup, LookupError};
pub use plan::{ComputedField, DataType, OpenError, OutputColumn, OutputSource, Plan, SourceField, Table};
pub use views::{AnyView, BinaryView, BooleanView, FixedView, Utf8View, Validity, Value};

/// A transform. The host makes a fresh one for every chunk of rows, and applies it at most once; nothing is carried
/// from one chunk to the next.
pub trait Transform: Sized {
    /// Reads the configuration (JSON text) and says what will come out. Must give the same plan for the same input.
    ///
    /// # Errors
    /// What is wrong with the configuration, or with the table under it.
    fn open(table: &Table, config: &str) -> Result<(Self, Plan), OpenError>;

    /// Transforms one batch: the computed columns of the plan, in their order.
    ///
    /// # Errors
    /// Why the whole batch cannot be transformed. A single row that cannot is a [`Reject`] in the outcome.
    fn apply(&mut self, batch: &Batch) -> Result<Outcome, ApplyError>;
}

/// Makes the crate a transform component: exports the given [`Transform`]. Once per crate; does nothing in a native
/// build.
#[macro_export]
macro_rules! export_transform {
    ($transform:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use $crate::shell::exports::sluice::transform::transform as wit;

            ::std::thread_local! {
                static OPENED: ::std::cell::RefCell<Option<$transform>> =
                    const { ::std::cell::RefCell::new(None) };
            }

            struct Component;

            impl wit::Guest for Component {
                fn open(table: wit::Table, config: String) -> Result<wit::Plan, wit::OpenError> {
                    $crate::shell::open::<$transform>(&OPENED, table, &config)
                }

                fn apply(batch: wit::Batch) -> Result<wit::Outcome, wit::ApplyError> {
                    $crate::shell::apply::<$transform>(&OPENED, batch)
                }
            }

    $crate::shell::export_component!(Component with_types_in $crate::shell);
        };
    };
}
