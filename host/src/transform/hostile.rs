//! The way of an answer from the boundary into a chunk, without an instance that gives it: for the fuzz target `answer`,
//! which makes answers up. The order is that of `step`, without the columns that the host makes, in which no byte is a
//! component's. No part of the library that others may use.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, FieldRef, Schema};

pub use super::bindings::v0_3::exports::sluice::transform::transform as wit;
pub use super::bindings::v0_3::sluice::transform::types::DecimalType;
use super::check::{self, Invalid, What};
use super::chunk::Chunk;
use super::columns;
use super::plan::{self, Input, Plan, PlanFault};
use crate::shape::META_BEFORE;

/// Why an answer goes no further.
#[derive(Debug)]
pub enum Refusal {
    /// The plan does not hold together.
    Plan(PlanFault),
    /// The outcome is not what the plan promised.
    Answer(Invalid),
    /// It rejects this many rows.
    Rejected(usize),
    /// Nothing was wrong with plan and outcome, and they make no batch all the same: a fault of sluice, or of the input.
    Chunk(String),
}

/// What a chain would go on with.
#[derive(Debug)]
pub struct Accepted {
    /// The metadata columns, then those of the plan.
    pub batch: RecordBatch,
    /// Which row of the input each row is; absent where none was dropped.
    pub origin: Option<Vec<u32>>,
}

impl From<PlanFault> for Refusal {
    fn from(fault: PlanFault) -> Refusal {
        Refusal::Plan(fault)
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Refusal {
        Refusal::Answer(invalid)
    }
}

/// Checks an answer to `input`, which has the six metadata columns before the captured ones, as a step does that is the
/// last of its chain.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn accept(input: &RecordBatch, plan: &wit::Plan, outcome: wit::Outcome) -> Result<Accepted, Refusal> {
    let captured = input.schema_ref().fields().iter().skip(META_BEFORE.len());
    let inputs: Vec<Input> = captured
        .map(|field| Input {
            name: field.name().clone(),
            data_type: field.data_type().clone(),
            nullable: field.is_nullable(),
            source_type: "made up".to_owned(),
            key: None,
        })
        .collect();
    let mut chunk = Chunk::new(input, &inputs).map_err(Refusal::Chunk)?;
    let operations = chunk.operations().map_err(Refusal::Chunk)?;
    // Every key that a plan names is granted here: which are is not the answer's to say.
    let named = plan.outputs.iter().filter_map(|output| match &output.source {
        wit::OutputSource::Computed(field) => Some(&field.keys),
        wit::OutputSource::Pass(_) => None,
    });
    let granted = named.flatten().map(|key| (key.clone(), String::new())).collect();
    let plan = Plan::new(plan, &inputs, &granted)?;
    plan.check_names()?;

    let names: Vec<&str> = inputs
        .iter()
        .map(|input| input.name.as_str())
        .chain(META_BEFORE)
        .collect();
    let rejects = check::rejects(&outcome.rejects, chunk.rows, &names)?;
    if !rejects.is_empty() {
        return Err(Refusal::Rejected(rejects.len()));
    }
    if outcome.columns.len() != plan.computed {
        let (expected, got) = (plan.computed, outcome.columns.len());
        return Err(Invalid::from(What::ColumnCount { expected, got }).into());
    }
    let is_computed = |output: &&plan::Output| matches!(output.from, plan::From::Computed { .. });
    let computed = plan
        .outputs
        .iter()
        .filter(is_computed)
        .zip(outcome.columns)
        .map(|(output, column)| columns::array(&output.name, column, &output.data_type, output.nullable, chunk.rows))
        .collect::<Result<Vec<ArrayRef>, Invalid>>()?;
    let kept = match outcome.dropped {
        Some(dropped) => {
            let ids = chunk.change_ids().map_err(Refusal::Chunk)?;
            check::kept_rows(Some(dropped), &operations, |row| ids.same(row), true)?
        }
        None => None,
    };
    let mut computed = computed.into_iter();
    let arranged = plan
        .outputs
        .iter()
        .filter_map(|output| match &output.from {
            plan::From::Pass(source) => Some(Arc::clone(&chunk.columns[*source])),
            plan::From::Computed { .. } => computed.next(),
        })
        .collect();
    chunk.advance(arranged, kept).map_err(Refusal::Chunk)?;

    let made = plan.next_inputs(&inputs);
    let made = made
        .iter()
        .map(|column| Arc::new(Field::new(&column.name, column.data_type.clone(), column.nullable)));
    let fields: Vec<FieldRef> = chunk.meta_fields.iter().cloned().chain(made).collect();
    let columns = chunk.meta.into_iter().chain(chunk.columns).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(chunk.rows));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|error| Refusal::Chunk(error.to_string()))?;
    Ok(Accepted {
        batch,
        origin: chunk.origin,
    })
}
