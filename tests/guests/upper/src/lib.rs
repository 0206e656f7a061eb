//! A well-behaved guest: upper-cases the ASCII letters of the text columns that its configuration lists, byte by byte, and
//! rejects the rows whose value begins with a word of its configuration.

use serde::Deserialize;
use sluice_plugin::{
    ApplyError, Batch, Column, ComputedField, DataType, OpenError, Outcome, OutputColumn, Plan, Reject, Table,
    Transform, Utf8View,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    columns: Vec<String>,
    #[serde(default)]
    reject: Vec<String>,
}

/// The transform.
pub struct Upper {
    /// The columns that it reads.
    columns: Vec<String>,
    /// What no value of them may begin with.
    reject: Vec<String>,
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
        let columns = plan.reads.clone();
        let reject = config.reject;
        Ok((Self { columns, reject }, plan))
    }

    fn apply(&mut self, batch: &Batch) -> Result<Outcome, ApplyError> {
        let mut outcome = Outcome::default();
        for (index, name) in self.columns.iter().enumerate() {
            let column: &Column = &batch.columns[index];
            // Upper-casing ASCII changes no length, so the other buffers stay as they are.
            let view: Utf8View<'_> = batch.utf8(index)?;
            outcome.columns.push(Column {
                validity: column.validity.clone(),
                offsets: column.offsets.clone(),
                values: view.text().to_ascii_uppercase().into_bytes(),
            });
            let is_unwanted = |value: &str| self.reject.iter().any(|start| value.starts_with(start.as_str()));
            for (row, value) in (0..).zip(view.iter()) {
                if value.is_some_and(is_unwanted) {
                    outcome.rejects.push(Reject {
                        row,
                        column: name.clone(),
                        code: "unwanted".to_owned(),
                    });
                }
            }
        }
        Ok(outcome)
    }
}

sluice_plugin::export_transform!(Upper);
