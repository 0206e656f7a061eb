//! The standard transform `mask`: decides for every column of a table whether its values may pass, and what stands
//! in their place if not. The README is its reference.

mod bucket;
mod canonical;
mod config;
mod constant;
mod date_shift;
mod dates;
mod email;
mod fpe;
mod keep;
mod keyed;
mod keyed_hash;
mod noise;
mod numbers;
mod open;
mod pseudonym;
mod redact;
mod rejects;
mod token;

use sluice_plugin::{ApplyError, Batch, Column, DataType, Keyed, OpenError, Outcome, Plan, Reject, Table, Transform};

use crate::open::Step;
use crate::rejects::Rejects;

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
        for (output, step) in self.steps.iter().enumerate() {
            let column = step
                .apply(&self.keys, batch, output, &mut outcome.rejects)
                .map_err(|error| match error.column {
                    Some(_) => error,
                    None => error.in_column(&step.column),
                })?;
            outcome.columns.push(column);
        }
        Ok(outcome)
    }
}

sluice_plugin::export_transform!(Mask<sluice_plugin::HostKeys>);

impl Step {
    /// The computed column `output`.
    fn apply(
        &self,
        keys: &impl Keyed,
        batch: &Batch,
        output: usize,
        rejects: &mut Vec<Reject>,
    ) -> Result<Column, ApplyError> {
        use crate::open::Computation as C;
        let (read, data_type) = (self.read, self.data_type);
        let mut rejected = Rejects {
            column: &self.column,
            to: rejects,
        };
        match &self.computation {
            C::Constant(literal) => literal.column(data_type, batch.rows as usize),
            C::Keep(keep) => keep.column(batch.utf8(read)?),
            C::Hash(hash) => hash.column(keys, batch, read, data_type, output),
            C::Email(email) => email.column(keys, batch.utf8(read)?, batch.rows),
            C::Truncate(unit) if data_type == DataType::Date => {
                Ok(unit.dates(batch.fixed(read)?, &self.column, rejects))
            }
            C::Truncate(unit) => Ok(unit.timestamps(batch.fixed(read)?, &self.column, rejects)),
            C::Token(token) => token.column(keys, batch, read, data_type, output),
            C::Fpe(fpe) => fpe.column(keys, batch, read, &mut rejected),
            C::Pseudonym(pseudonym) => pseudonym.column(keys, batch, read, data_type),
            C::DateShift(shift) => shift.column(keys, batch, read, data_type, &mut rejected),
            C::Noise(noise) => noise.column(keys, batch, read, data_type, &mut rejected),
            C::Bucket(bucket) => {
                let values = batch.any(read, data_type)?;
                bucket.column(values, data_type, batch.rows as usize, &mut rejected)
            }
            C::Redact(redact) => redact.column(keys, batch.utf8(read)?),
        }
    }
}

#[cfg(test)]
mod tests;
