//! A component of `sluice:transform@0.2.0`, made with `wit-bindgen` alone, that hands one text column to one function of the
//! host and gives back what it got. A refusal of the host becomes the code of the batch's failure.
#![cfg(target_arch = "wasm32")]
#![allow(missing_docs)]

use std::cell::RefCell;

use serde::Deserialize;

wit_bindgen::generate!({
    path: "../../../wit/0.2.0",
    world: "plugin",
});

use exports::sluice::transform::transform::{
    ApplyError, Batch, Column, ComputedField, ConfigProblem, DataType, Guest, OpenError, Outcome, OutputColumn,
    OutputSource, Plan, Reject, Table,
};
use sluice::transform::keyed::{self, Ff1Status, KeyedError};
use sluice::transform::lookup::{self, LookupError};

#[derive(Clone, Deserialize)]
struct Config {
    column: String,
    ask: Ask,
    /// The keys that the plan names.
    #[serde(default)]
    keys: Vec<String>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Ask {
    /// Each value encrypted. A status other than `done` is a reject.
    Ff1 {
        key: String,
        #[serde(default)]
        tweak: String,
        alphabet: String,
    },
    /// Each value's pick as a number.
    Pick { key: String, context: String, count: u32 },
    /// Each value looked up. The names of the columns have to be these, when they are given.
    Lookup {
        table: String,
        column: String,
        columns: Option<Vec<String>>,
    },
}

thread_local! {
    static OPENED: RefCell<Option<Config>> = RefCell::default();
}

struct Component;

impl Guest for Component {
    fn open(table: Table, config: String) -> Result<Plan, OpenError> {
        let problem = |path: &str, reason: String| {
            Err(OpenError::Config(ConfigProblem {
                path: path.to_owned(),
                reason,
            }))
        };
        let config: Config = match serde_json::from_str(&config) {
            Ok(config) => config,
            Err(error) => return problem("", error.to_string()),
        };
        if let Ask::Lookup {
            table,
            columns: Some(wanted),
            ..
        } = &config.ask
        {
            match lookup::columns(table) {
                Ok(columns) if columns == *wanted => {}
                Ok(columns) => return problem("ask.lookup.columns", format!("they are {columns:?}")),
                Err(error) => return problem("ask.lookup.table", lookup_code(error).to_owned()),
            }
        }
        let data_type = match config.ask {
            Ask::Pick { .. } => DataType::Int64,
            Ask::Ff1 { .. } | Ask::Lookup { .. } => DataType::Utf8,
        };
        let outputs = table.fields.iter().map(|field| OutputColumn {
            name: field.name.clone(),
            source: if field.name == config.column {
                OutputSource::Computed(ComputedField {
                    data_type,
                    nullable: true,
                    sources: vec![field.name.clone()],
                    how: "asked of the host".to_owned(),
                    keys: config.keys.clone(),
                })
            } else {
                OutputSource::Pass(field.name.clone())
            },
        });
        let plan = Plan {
            outputs: outputs.collect(),
            reads: vec![config.column.clone()],
        };
        OPENED.set(Some(config));
        Ok(plan)
    }

    fn apply(batch: Batch) -> Result<Outcome, ApplyError> {
        let (Some(config), Some(column)) = (OPENED.take(), batch.columns.into_iter().next()) else {
            return Err(failed("not-opened"));
        };
        let mut rejects = Vec::new();
        let column = match config.ask {
            Ask::Ff1 { key, tweak, alphabet } => {
                let answer = keyed::ff1_encrypt(&key, tweak.as_bytes(), &alphabet, batch.rows, &column);
                let answer = answer.map_err(|error| failed(keyed_code(error)))?;
                for (row, status) in (0..).zip(answer.status) {
                    let code = match status {
                        Ff1Status::Done => continue,
                        Ff1Status::TooShort => "too-short",
                        Ff1Status::ForeignCharacter => "foreign-character",
                        Ff1Status::TooLong => "too-long",
                    };
                    rejects.push(Reject {
                        row,
                        column: config.column.clone(),
                        code: code.to_owned(),
                    });
                }
                answer.values
            }
            Ask::Pick { key, context, count } => {
                let picks = keyed::pick(&key, &context, count, batch.rows, &column);
                let picks = picks.map_err(|error| failed(keyed_code(error)))?;
                Column {
                    validity: column.validity,
                    offsets: Vec::new(),
                    values: picks.iter().flat_map(|pick| i64::from(*pick).to_le_bytes()).collect(),
                }
            }
            Ask::Lookup {
                table, column: wanted, ..
            } => {
                let found = lookup::find(&table, &wanted, batch.rows, &column);
                found.map_err(|error| failed(lookup_code(error)))?
            }
        };
        Ok(Outcome {
            columns: vec![column],
            dropped: None,
            rejects,
        })
    }
}

fn failed(code: &str) -> ApplyError {
    ApplyError {
        code: code.to_owned(),
        column: None,
        row: None,
        message: String::new(),
    }
}

fn keyed_code(error: KeyedError) -> &'static str {
    match error {
        KeyedError::NotGranted => "not-granted",
        KeyedError::Malformed => "malformed",
        KeyedError::Argument => "argument",
    }
}

fn lookup_code(error: LookupError) -> &'static str {
    match error {
        LookupError::NotGranted => "not-granted",
        LookupError::UnknownColumn => "unknown-column",
        LookupError::Malformed => "malformed",
    }
}

export!(Component);
