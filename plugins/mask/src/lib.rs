//! The standard transform `mask`: decides for every column of a table whether its values may pass, and what stands
//! in their place if not. The README is its reference.

mod canonical;
mod config;
mod constant;
mod dates;
mod email;
mod keep;
mod keyed_hash;
mod open;

use sluice_plugin::{ApplyError, Batch, Column, DataType, Keyed, OpenError, Outcome, Plan, Reject, Table, Transform};

use crate::open::Step;

/// The transform. `K` are the keys that its hashes are made with.
#[derive(Debug)]
pub struct Mask<K> {
    keys: K,
    steps: Vec<Step>,
}

impl<K: Keyed + Default> Transform for Mask<K> {
    fn open(table: &Table, config: &str) -> Result<(Self, Plan), OpenError> {
        let keys = K::default();
        let (steps, plan) = open::open(table, config, &keys)?;
        Ok((Self { keys, steps }, plan))
    }

    fn apply(&mut self, batch: &Batch) -> Result<Outcome, ApplyError> {
        let mut outcome = Outcome::default();
        for step in &self.steps {
            let column = step
                .apply(&self.keys, batch, &mut outcome.rejects)
                .map_err(|error| error.in_column(&step.column))?;
            outcome.columns.push(column);
        }
        Ok(outcome)
    }
}

sluice_plugin::export_transform!(Mask<sluice_plugin::HostKeys>);

impl Step {
    fn apply(&self, keys: &impl Keyed, batch: &Batch, rejects: &mut Vec<Reject>) -> Result<Column, ApplyError> {
        use crate::open::Computation as C;
        match &self.computation {
            C::Constant(literal) => literal.column(self.data_type, batch.rows as usize),
            C::Keep(keep) => keep.column(batch.utf8(self.read)?),
            C::Hash(hash) => hash.column(keys, batch, self.read, self.data_type),
            C::Email(email) => email.column(keys, batch.utf8(self.read)?, batch.rows),
            C::Truncate(unit) if self.data_type == DataType::Date => {
                Ok(unit.dates(batch.fixed(self.read)?, &self.column, rejects))
            }
            C::Truncate(unit) => Ok(unit.timestamps(batch.fixed(self.read)?, &self.column, rejects)),
        }
    }
}

#[cfg(test)]
mod tests;
