//! The generated bindings and the conversions between them and the plain types. Only in a component; not for plugins
//! to use directly.

use std::cell::RefCell;
use std::thread::LocalKey;

use crate::{
    ApplyError, Batch, Column, DataType, OpenError, Outcome, OutputSource, Plan, Reject, SourceField, Table, Transform,
};

mod bindings {
    #![allow(missing_docs, clippy::all)]
    wit_bindgen::generate!({
        path: "../../wit/0.3.0",
        world: "plugin",
        pub_export_macro: true,
        export_macro_name: "export_component",
        default_bindings_module: "sluice_plugin::shell",
        generate_all,
    });
}

pub use bindings::*;
use exports::sluice::transform::transform as wit;
use sluice::transform::types;

type Opened<T> = LocalKey<RefCell<Option<T>>>;

/// The exported `open`.
pub fn open<T: Transform + 'static>(
    opened: &'static Opened<T>,
    table: wit::Table,
    config: &str,
) -> Result<wit::Plan, wit::OpenError> {
    log_panics();
    let (transform, plan) = T::open(&table.into(), config)?;
    opened.set(Some(transform));
    Ok(plan.into())
}

/// The exported `apply`.
pub fn apply<T: Transform + 'static>(
    opened: &'static Opened<T>,
    batch: wit::Batch,
) -> Result<wit::Outcome, wit::ApplyError> {
    let batch = batch.into();
    opened.with_borrow_mut(|transform| match transform {
        Some(transform) => Ok(transform.apply(&batch)?.into()),
        None => Err(ApplyError::new("not-opened", "apply was called before open").into()),
    })
}

/// Has a panic leave its place and its words in the log before it ends the call: the trap itself says neither. An instance
/// is opened once, so this is done once.
fn log_panics() {
    std::panic::set_hook(Box::new(|info| {
        // What is not formatted is a `&str`, what is, a `String`.
        let payload = info.payload();
        let words = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("without a text");
        let message = match info.location() {
            Some(place) => format!("panicked at {place}: {words}"),
            None => format!("panicked: {words}"),
        };
        crate::log::error(&message);
    }));
}

impl From<types::Table> for Table {
    fn from(table: types::Table) -> Self {
        Self {
            schema: table.schema,
            name: table.name,
            capture_instance: table.capture_instance,
            fields: table.fields.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<types::SourceField> for SourceField {
    fn from(field: types::SourceField) -> Self {
        Self {
            name: field.name,
            data_type: field.data_type.into(),
            nullable: field.nullable,
            source_type: field.source_type,
            key: field.key,
        }
    }
}

impl From<types::DataType> for DataType {
    fn from(data_type: types::DataType) -> Self {
        match data_type {
            types::DataType::Boolean => Self::Boolean,
            types::DataType::Int16 => Self::Int16,
            types::DataType::Int32 => Self::Int32,
            types::DataType::Int64 => Self::Int64,
            types::DataType::Float32 => Self::Float32,
            types::DataType::Float64 => Self::Float64,
            types::DataType::Decimal(types::DecimalType { precision, scale }) => Self::Decimal { precision, scale },
            types::DataType::Date => Self::Date,
            types::DataType::Timestamp => Self::Timestamp,
            types::DataType::TimestampNtz => Self::TimestampNtz,
            types::DataType::Utf8 => Self::Utf8,
            types::DataType::Binary => Self::Binary,
        }
    }
}

impl From<DataType> for types::DataType {
    fn from(data_type: DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Boolean,
            DataType::Int16 => Self::Int16,
            DataType::Int32 => Self::Int32,
            DataType::Int64 => Self::Int64,
            DataType::Float32 => Self::Float32,
            DataType::Float64 => Self::Float64,
            DataType::Decimal { precision, scale } => Self::Decimal(types::DecimalType { precision, scale }),
            DataType::Date => Self::Date,
            DataType::Timestamp => Self::Timestamp,
            DataType::TimestampNtz => Self::TimestampNtz,
            DataType::Utf8 => Self::Utf8,
            DataType::Binary => Self::Binary,
        }
    }
}

impl From<types::Column> for Column {
    fn from(column: types::Column) -> Self {
        Self {
            validity: column.validity,
            offsets: column.offsets,
            values: column.values,
        }
    }
}

impl From<Column> for types::Column {
    fn from(column: Column) -> Self {
        Self {
            validity: column.validity,
            offsets: column.offsets,
            values: column.values,
        }
    }
}

impl From<wit::Batch> for Batch {
    fn from(batch: wit::Batch) -> Self {
        Self {
            rows: batch.rows,
            operations: batch.operations,
            columns: batch.columns.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Plan> for wit::Plan {
    fn from(plan: Plan) -> Self {
        let outputs = plan.outputs.into_iter().map(|output| wit::OutputColumn {
            name: output.name,
            source: match output.source {
                OutputSource::Pass(source) => wit::OutputSource::Pass(source),
                OutputSource::Computed(field) => wit::OutputSource::Computed(wit::ComputedField {
                    data_type: field.data_type.into(),
                    nullable: field.nullable,
                    sources: field.sources,
                    how: field.how,
                    keys: field.keys,
                }),
            },
        });
        Self {
            outputs: outputs.collect(),
            reads: plan.reads,
        }
    }
}

impl From<OpenError> for wit::OpenError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Config { path, reason } => Self::Config(wit::ConfigProblem { path, reason }),
            OpenError::Unlisted(columns) => Self::Unlisted(columns),
            OpenError::Missing(columns) => Self::Missing(columns),
            OpenError::Unsupported { column, reason } => Self::Unsupported(wit::ColumnProblem { column, reason }),
        }
    }
}

impl From<Outcome> for wit::Outcome {
    fn from(outcome: Outcome) -> Self {
        Self {
            columns: outcome.columns.into_iter().map(Into::into).collect(),
            dropped: outcome.dropped,
            rejects: outcome.rejects.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Reject> for wit::Reject {
    fn from(reject: Reject) -> Self {
        Self {
            row: reject.row,
            column: reject.column,
            code: reject.code,
        }
    }
}

impl From<ApplyError> for wit::ApplyError {
    fn from(error: ApplyError) -> Self {
        Self {
            code: error.code,
            column: error.column,
            row: error.row,
            message: error.message,
        }
    }
}
