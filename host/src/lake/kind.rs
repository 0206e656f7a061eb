//! The kinds of tables that sluice writes: bronze, facts, control.

use super::LakeError;
use super::columns::{Column, delta_schema};
use super::log::{DeltaLog, NewTable};
use crate::storage::Place;

/// A kind of table.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What it is called in errors.
    pub name: &'static str,
    /// Columns that every table of the kind has had from the first format on.
    pub always: &'static [&'static str],
}

impl Kind {
    /// Opens a table with at least these columns, after creating it when there is none. Columns that it lacks are not added.
    pub async fn open_or_create(
        self,
        location: &Place,
        columns: &[Column],
        comment: String,
    ) -> Result<DeltaLog, LakeError> {
        let schema = delta_schema(&location.to_string(), columns)?;
        let new = NewTable {
            schema: &schema,
            comment,
        };
        let log = DeltaLog::open_or_create(location, new).await?;
        self.check(&log)?;
        Ok(log)
    }

    /// Refuses a table that lacks a column which every table of the kind has. Without this, a facts table that is given as
    /// control table by mistake would get the columns of both.
    pub fn check(self, log: &DeltaLog) -> Result<(), LakeError> {
        match self.always.iter().find(|name| log.schema().field(name).is_none()) {
            None => Ok(()),
            Some(column) => Err(LakeError::OtherKind {
                table: log.name().to_owned(),
                kind: self.name,
                column,
            }),
        }
    }
}
