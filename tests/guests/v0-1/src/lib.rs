//! A component of `sluice:transform@0.1.0`, made with `wit-bindgen` alone: the SDK follows the newest version, and what was
//! built before has to go on working.
//!
//! It passes every column but the first one of text, in whose place comes the hex of its tag under key `pii`. A word in
//! its configuration has it do something else: `config`, `unlisted`, `missing` or `unsupported` in `open`, and `reject`,
//! `fail` or `drop` (the deletes) in `apply`.
#![cfg(target_arch = "wasm32")]
#![allow(missing_docs)]

use std::cell::RefCell;
use std::fmt::Write;

wit_bindgen::generate!({
    path: "../../../wit/0.1.0",
    world: "plugin",
});

use exports::sluice::transform::transform::{
    ApplyError, Batch, Column, ColumnProblem, ComputedField, ConfigProblem, DataType, Guest, OpenError, Outcome,
    OutputColumn, OutputSource, Plan, Reject, Table,
};
use sluice::transform::keyed::{self, KeyedError};
use sluice::transform::log::{self, Level};

const DELETE: u8 = 1;

thread_local! {
    /// The configuration and the column that is read.
    static OPENED: RefCell<(String, String)> = RefCell::default();
}

struct Component;

impl Guest for Component {
    fn open(table: Table, config: String) -> Result<Plan, OpenError> {
        let says = |word: &str| config.contains(&format!("\"{word}\""));
        let text = table
            .fields
            .iter()
            .find(|field| matches!(field.data_type, DataType::Utf8));
        let Some(text) = text else {
            return Err(OpenError::Missing(vec!["text".to_owned()]));
        };
        if says("config") {
            return Err(OpenError::Config(ConfigProblem {
                path: "do".to_owned(),
                reason: "it was asked for".to_owned(),
            }));
        } else if says("unlisted") {
            return Err(OpenError::Unlisted(vec![text.name.clone()]));
        } else if says("missing") {
            return Err(OpenError::Missing(vec!["nam".to_owned()]));
        } else if says("unsupported") {
            return Err(OpenError::Unsupported(ColumnProblem {
                column: text.name.clone(),
                reason: format!("key {:?} of {}", text.key, text.source_type),
            }));
        }
        let outputs = table.fields.iter().map(|field| OutputColumn {
            name: field.name.clone(),
            source: if field.name == text.name {
                OutputSource::Computed(ComputedField {
                    data_type: DataType::Utf8,
                    nullable: field.nullable,
                    sources: vec![field.name.clone()],
                    how: "tag of old".to_owned(),
                })
            } else {
                OutputSource::Pass(field.name.clone())
            },
        });
        let plan = Plan {
            outputs: outputs.collect(),
            reads: vec![text.name.clone()],
        };
        OPENED.set((config, text.name.clone()));
        Ok(plan)
    }

    fn apply(batch: Batch) -> Result<Outcome, ApplyError> {
        let (config, read) = OPENED.take();
        let says = |word: &str| config.contains(&format!("\"{word}\""));
        log::log(Level::Info, "applied");
        let error = |code: &str| ApplyError {
            code: code.to_owned(),
            column: Some(read.clone()),
            row: Some(1),
            message: "not shown".to_owned(),
        };
        if says("fail") {
            return Err(error("asked-to-fail"));
        }
        let Some(column) = batch.columns.into_iter().next() else {
            return Err(error("no-column"));
        };
        let validity = column.validity.clone();
        let tags = keyed::hmac_sha256("pii", "", batch.rows, &column).map_err(|fault| match fault {
            KeyedError::NotGranted => error("not-granted"),
            KeyedError::Malformed => error("malformed"),
        })?;
        let dropped = says("drop").then(|| {
            let mut bits = vec![0; batch.operations.len().div_ceil(8)];
            for (row, operation) in batch.operations.iter().enumerate() {
                bits[row / 8] |= u8::from(*operation == DELETE) << (row % 8);
            }
            bits
        });
        let rejects = says("reject").then(|| Reject {
            row: 1,
            column: read.clone(),
            code: "asked-to-reject".to_owned(),
        });
        Ok(Outcome {
            columns: vec![hex(&tags, validity)],
            dropped,
            rejects: rejects.into_iter().collect(),
        })
    }
}

/// A text column with 64 digits in every row; what stands under a NULL does not count.
fn hex(tags: &[u8], validity: Option<Vec<u8>>) -> Column {
    let mut values = String::with_capacity(tags.len() * 2);
    for byte in tags {
        // Writing to a string cannot fail.
        let _ = write!(values, "{byte:02x}");
    }
    Column {
        validity,
        offsets: (0..=tags.len() / 32).map(|row| (row * 64) as i32).collect(),
        values: values.into_bytes(),
    }
}

export!(Component);
