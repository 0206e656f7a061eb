//! The standard transform `map`: renames, drops, reorders and casts columns. The README is its reference.

mod cast;
mod config;
mod convert;
mod open;

use sluice_plugin::{ApplyError, Batch, OpenError, Outcome, Plan, Table, Transform};

use crate::cast::Cast;

/// The transform: the casts that the plan asks for, in its order. Everything else the host does by the plan.
#[derive(Debug)]
pub struct MapColumns {
    casts: Vec<Cast>,
}

impl Transform for MapColumns {
    fn open(table: &Table, config: &str) -> Result<(Self, Plan), OpenError> {
        let (casts, plan) = open::open(table, config)?;
        Ok((Self { casts }, plan))
    }

    fn apply(&mut self, batch: &Batch) -> Result<Outcome, ApplyError> {
        let mut outcome = Outcome::default();
        for (read, cast) in self.casts.iter().enumerate() {
            let column = cast
                .apply(batch, read, &mut outcome.rejects)
                .map_err(|error| error.in_column(&cast.column))?;
            outcome.columns.push(column);
        }
        Ok(outcome)
    }
}

sluice_plugin::export_transform!(MapColumns);

#[cfg(test)]
mod tests;
