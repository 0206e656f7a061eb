//! The plugin kit: what `sluice plugin` does with a component on the desk of the person who writes it.
//!
//! A [`Component`] is a file's bytes; a [`Workbench`] runs it in the very sandbox that a table uses. A [`Fixture`] is a
//! table with rows, a configuration and test keys, from a TOML file; `golden` compares what comes out with a CSV file,
//! `properties` holds generated rows against what every transform must do, and `canary` looks for values that came
//! through. `project` writes a new plugin from the templates inside the binary, `build` compiles one, `inspect` says what a
//! file is, `speed` measures it and `difference` compares two of them.
//!
//! Fixtures are test data, so messages here may show their values. Rows that were captured are not: `difference` shows
//! them only when it is told to.

mod build;
mod built;
mod canary;
mod captured;
mod component;
mod csv;
mod difference;
mod error;
mod fixture;
mod generate;
mod golden;
mod heard;
mod inspect;
mod lock;
mod project;
mod properties;
mod rows;
mod shows;
mod speed;
mod sql_type;
#[cfg(test)]
mod tests;
mod trial;
mod values;

pub(crate) use build::{Building, build};
pub(crate) use built::component_in;
pub(crate) use captured::rows_of;
pub(crate) use component::{Component, Workbench};
pub(crate) use difference::{ColumnDifference, Difference, compare};
pub(crate) use error::KitError;
pub(crate) use fixture::{Fixture, Setup, fixtures_in};
pub(crate) use inspect::{Inspection, inspect};
pub(crate) use project::{Language, NewProject, new_project};
pub(crate) use rows::counted;
pub(crate) use speed::measure;
pub(crate) use trial::{Check, Verdict, run_fixture, without_fixtures};
