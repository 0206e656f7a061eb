//! The standard transform `map`: renames, drops, reorders, casts and computes columns. The README is its reference.

mod bind;
mod cast;
mod coalesce;
mod concat;
mod config;
mod convert;
mod json;
mod literal;
mod open;
mod pipeline;
mod recipe;
mod rejects;
mod step_config;
mod text;
mod types;
mod values;

use sluice_plugin::{ApplyError, Batch, OpenError, Outcome, Plan, Table, Transform};

use crate::pipeline::Pipeline;

/// The transform: what computes the columns that the plan says, in its order. Everything else the host does by the plan.
#[derive(Debug)]
pub struct MapColumns {
    pipelines: Vec<Pipeline>,
}

impl Transform for MapColumns {
    fn open(table: &Table, config: &str) -> Result<(Self, Plan), OpenError> {
        let (pipelines, plan) = open::open(table, config)?;
        Ok((Self { pipelines }, plan))
    }

    fn apply(&mut self, batch: &Batch) -> Result<Outcome, ApplyError> {
        let mut outcome = Outcome::default();
        for pipeline in &self.pipelines {
            let column = pipeline
                .apply(batch, &mut outcome.rejects)
                .map_err(|error| pipeline.at_fault(error))?;
            outcome.columns.push(column);
        }
        Ok(outcome)
    }
}

sluice_plugin::export_transform!(MapColumns);

#[cfg(test)]
mod tests;
