//! Makes columns of their types out of a column that holds JSON.
//!
//! ```json
//! { "column": "payload", "fields": {
//!     "amount":   { "path": "$.order.amount", "type": "decimal(12,2)" },
//!     "placed":   { "path": "$.order.at", "type": "timestamp" },
//!     "sku":      { "path": "$.lines[0].sku" } } }
//! ```
//!
//! A text is read once, however many fields are taken out of it. Numbers never go through a floating-point number on their
//! way to a decimal.

mod open;
mod path;
mod typed;
mod walk;

use sluice_plugin::{ApplyError, Batch, Column, OpenError, Outcome, Plan, Reject, Table, Transform, Utf8View};

use crate::open::{Field, Or};
use crate::typed::TypedBuilder;
use crate::walk::Node;

/// The transform. sluice makes a fresh one for every chunk of rows.
#[derive(Debug)]
pub struct JsonFlatten {
    /// The column with JSON.
    column: String,
    /// In the order of the output.
    fields: Vec<Field>,
    /// Their paths.
    paths: Node,
    invalid: Or,
    missing: Or,
    mismatch: Or,
}

impl Transform for JsonFlatten {
    fn open(table: &Table, config: &str) -> Result<(Self, Plan), OpenError> {
        open::open(table, config)
    }

    fn apply(&mut self, batch: &Batch) -> Result<Outcome, ApplyError> {
        let texts = batch.utf8(0)?;
        let mut rejects = Vec::new();
        let columns = self.columns(texts, &mut rejects)?;
        Ok(Outcome {
            columns,
            dropped: None,
            rejects,
        })
    }
}

sluice_plugin::export_transform!(JsonFlatten);

impl JsonFlatten {
    fn columns(&self, texts: Utf8View<'_>, rejects: &mut Vec<Reject>) -> Result<Vec<Column>, ApplyError> {
        let mut builders: Vec<TypedBuilder> = self
            .fields
            .iter()
            .map(|field| TypedBuilder::new(field.data_type, texts.len()))
            .collect();
        for (row, text) in (0_u32..).zip(texts.iter()) {
            let mut reject = |code: String| {
                rejects.push(Reject {
                    row,
                    column: self.column.clone(),
                    code,
                });
            };
            let found = match text.map(|text| self.paths.find(text, self.fields.len())) {
                Some(Ok(found)) => found,
                Some(Err(_)) => {
                    if self.invalid == Or::Reject {
                        reject("json-invalid".to_owned());
                    }
                    builders.iter_mut().for_each(TypedBuilder::push_null);
                    continue;
                }
                // There was nothing to take apart, and so nothing is missing.
                None => {
                    builders.iter_mut().for_each(TypedBuilder::push_null);
                    continue;
                }
            };
            for ((field, builder), value) in self.fields.iter().zip(&mut builders).zip(found) {
                let Some(value) = value.filter(|value| value.get() != "null") else {
                    if self.missing == Or::Reject {
                        reject(field.code("json-missing"));
                    }
                    builder.push_null();
                    continue;
                };
                if let Err(mismatch) = builder.push(value) {
                    if self.mismatch == Or::Reject {
                        reject(field.code(mismatch.code()));
                    }
                    builder.push_null();
                }
            }
        }
        builders.into_iter().map(TypedBuilder::finish).collect()
    }
}

#[cfg(test)]
mod tests;
