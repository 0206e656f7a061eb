//! A well-behaved guest: upper-cases the ASCII letters of the text columns that its configuration lists, byte by byte.

use serde::Deserialize;
use sluice_plugin::{
    ApplyError, Batch, Column, ComputedField, DataType, OpenError, Outcome, OutputColumn, Plan, Table, Transform,
    Utf8View,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    columns: Vec<String>,
}

/// The transform.
pub struct Upper {
    columns: usize,
}

impl Transform for Upper {
    fn open(table: &Table, config: &str) -> Result<(Self, Plan), OpenError> {
        let config: Config = sluice_plugin::config::parse(config)?;
        let mut plan = Plan::default();
        for field in &table.fields {
            if !config.columns.contains(&field.name) {
                plan.outputs.push(OutputColumn::pass(&field.name, &field.name));
                continue;
            }
            if field.data_type != DataType::Utf8 {
                return Err(OpenError::unsupported(&field.name, "it is not text"));
            }
            plan.reads.push(field.name.clone());
            let sources = vec![field.name.clone()];
            let computed = ComputedField::new(DataType::Utf8, field.nullable, sources, "upper case");
            plan.outputs.push(OutputColumn::computed(&field.name, computed));
        }
        let columns = plan.reads.len();
        Ok((Self { columns }, plan))
    }

    fn apply(&mut self, batch: &Batch) -> Result<Outcome, ApplyError> {
        let upper = |index| -> Result<Column, ApplyError> {
            let column: &Column = &batch.columns[index];
            // Upper-casing ASCII changes no length, so the other buffers stay as they are.
            let view: Utf8View<'_> = batch.utf8(index)?;
            Ok(Column {
                validity: column.validity.clone(),
                offsets: column.offsets.clone(),
                values: view.text().to_ascii_uppercase().into_bytes(),
            })
        };
        Ok(Outcome::of((0..self.columns).map(upper).collect::<Result<_, _>>()?))
    }
}

sluice_plugin::export_transform!(Upper);
