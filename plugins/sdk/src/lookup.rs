//! Small reference tables that the host has loaded.

use crate::batch::Column;

/// Reference tables, in which everything is text. A transform that takes them as `L: Lookup` runs on [`HostLookups`] in
/// a component and on `testing::TestLookups` in its own tests.
pub trait Lookup {
    /// The names of the reference table's columns, of which the first is its key.
    ///
    /// # Errors
    /// [`LookupError::NotGranted`].
    fn columns(&self, table: &str) -> Result<Vec<String>, LookupError>;

    /// For each key the text of `column` in the row of the reference table that has it; NULL where the key is NULL, where
    /// no row has it, and where the row has no text there. `keys` is a text column of `rows` rows, and so is the answer.
    ///
    /// # Errors
    /// See [`LookupError`].
    fn find(&self, table: &str, column: &str, rows: u32, keys: Column) -> Result<Column, LookupError>;
}

/// Why a look-up was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// No reference table of this name is granted to this transform.
    #[error("no reference table of this name is granted to this transform")]
    NotGranted,
    /// The reference table has no column of this name.
    #[error("the reference table has no column of this name")]
    UnknownColumn,
    /// The column is not a well-formed text column of this many rows.
    #[error("the column is not a well-formed text column")]
    Malformed,
}

/// The reference tables that the table's configuration grants to this transform. Outside a component there is no host,
/// and so none is granted.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostLookups;

#[cfg(target_arch = "wasm32")]
mod host {
    use super::{HostLookups, Lookup, LookupError};
    use crate::batch::Column;
    use crate::shell::sluice::transform::lookup;

    impl Lookup for HostLookups {
        fn columns(&self, table: &str) -> Result<Vec<String>, LookupError> {
            Ok(lookup::columns(table)?)
        }

        fn find(&self, table: &str, column: &str, rows: u32, keys: Column) -> Result<Column, LookupError> {
            Ok(lookup::find(table, column, rows, &keys.into())?.into())
        }
    }

    impl From<lookup::LookupError> for LookupError {
        fn from(error: lookup::LookupError) -> Self {
            match error {
                lookup::LookupError::NotGranted => Self::NotGranted,
                lookup::LookupError::UnknownColumn => Self::UnknownColumn,
                lookup::LookupError::Malformed => Self::Malformed,
            }
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Lookup for HostLookups {
    fn columns(&self, _table: &str) -> Result<Vec<String>, LookupError> {
        Err(LookupError::NotGranted)
    }

    fn find(&self, _table: &str, _column: &str, _rows: u32, _keys: Column) -> Result<Column, LookupError> {
        Err(LookupError::NotGranted)
    }
}
