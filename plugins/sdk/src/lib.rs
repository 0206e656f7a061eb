//! Writes a transform for `sluice` in Rust.
//!
//! A transform gets whole columns of a batch of changes, and gives whole columns back. It is a type that implements
//! [`Transform`] and one line, [`export_transform!`]. Everything is plain Rust and testable without WebAssembly; the
//! macro's shell is the only part that exists in a component alone. This one keeps the initials of names; from here to a
//! table that uses it, `docs/guides/writing-a-component.md` leads.
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
//!     columns: Vec<String>,
//! }
//!
//! /// Masks the columns that the configuration names, and passes the others.
//! pub struct Initials;
//!
//! impl Transform for Initials {
//!     fn open(table: &Table, config: &str) -> Result<(Self, Plan), OpenError> {
//!         let Config { columns } = sluice_plugin::config::parse(config)?;
//!         // `find` ignores case, as SQL Server does unless a column's collation says otherwise.
//!         let missing: Vec<String> = columns.iter().filter(|name| table.find(name).is_empty()).cloned().collect();
//!         if !missing.is_empty() {
//!             return Err(OpenError::Missing(missing));
//!         }
//!         let named: Vec<usize> = columns.iter().flat_map(|name| table.find(name)).collect();
//!         let mut plan = Plan::default();
//!         for (position, field) in table.fields.iter().enumerate() {
//!             if !named.contains(&position) {
//!                 plan.outputs.push(OutputColumn::pass(&field.name, &field.name));
//!                 continue;
//!             }
//!             if field.data_type != DataType::Utf8 {
//!                 return Err(OpenError::unsupported(&field.name, "it is not text"));
//!             }
//!             plan.reads.push(field.name.clone());
//!             let sources = vec![field.name.clone()];
//!             let masked = ComputedField::new(DataType::Utf8, field.nullable, sources, "initials");
//!             plan.outputs.push(OutputColumn::computed(&field.name, masked));
//!         }
//!         Ok((Initials, plan))
//!     }
//!
//!     fn apply(&mut self, batch: &Batch) -> Result<Outcome, ApplyError> {
//!         let mut columns = Vec::new();
//!         for index in 0..batch.columns.len() {
//!             let names = batch.utf8(index)?;
//!             let mut masked = Utf8Builder::with_capacity(names.len(), names.text().len());
//!             for name in names.iter() {
//!                 masked.push_option(name.map(initials).as_deref());
//!             }
//!             columns.push(masked.finish()?);
//!         }
//!         Ok(Outcome::of(columns))
//!     }
//! }
//!
//! /// A word of one letter becomes `*`.
//! fn initials(name: &str) -> String {
//!     let word = |word: &str| match word.chars().next() {
//!         Some(first) if word.chars().count() > 1 => format!("{first}*"),
//!         _ => "*".to_owned(),
//!     };
//!     name.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
//! }
//!
//! sluice_plugin::export_transform!(Initials);
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
pub use keyed::{DigestText, Ff1Answer, Ff1Status, HostKeys, Keyed, KeyedError};
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
/// build. A panic ends the call; where it happened and what it said goes to the [`log`].
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
