//! The columns of the quarantine table, and rows in them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, Int64Type, TimestampMicrosecondType};

use super::row::{QuarantineRow, RowState};
use crate::lake::{Column, LakeError, Layout, TIMESTAMP_NTZ};
use crate::lsn::UtcMicros;

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let text = |name: &str, comment: &str| Column::new(name, DataType::Utf8, comment);
    vec![
        text("app_id", "stream that the row is about"),
        Column::new("batch_id", DataType::Int64, "batch that read the change").with_statistics(),
        Column::new("attempt", DataType::Int32, "attempt at the batch, from 0"),
        text(
            "_start_lsn",
            "commit LSN of the change, as in bronze; NULL where state is void",
        ),
        text("_seqval", "order within the transaction's log, as in bronze"),
        Column::new(
            "_operation",
            DataType::Int32,
            "operation of the row, as the source has it",
        ),
        text("column", "column at fault; NULL where it is no single one"),
        text("code", "why the row could not be transformed; never a value"),
        text("plugin", "component that could not transform it"),
        text("sha256", "SHA-256 of the component's file"),
        Column::new("quarantined_at", TIMESTAMP_NTZ, "when this row was written, UTC").with_statistics(),
        text(
            "state",
            "open: not in bronze; retried: read again, and in bronze now; void: no row of this batch and attempt counts",
        ),
        text("capture_instance", "capture instance that the change was read from"),
    ]
}

/// The rows in the columns of [`columns`].
pub(super) fn record_batch(layout: &Layout, rows: &[QuarantineRow]) -> Result<RecordBatch, LakeError> {
    let text = |get: fn(&QuarantineRow) -> Option<&str>| -> ArrayRef {
        Arc::new(rows.iter().map(get).collect::<StringArray>())
    };
    let arrays: Vec<ArrayRef> = vec![
        text(|row| Some(&row.app_id)),
        Arc::new(rows.iter().map(|row| Some(row.batch_id)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| Some(row.attempt)).collect::<Int32Array>()),
        text(|row| row.start_lsn.as_deref()),
        text(|row| row.seqval.as_deref()),
        Arc::new(rows.iter().map(|row| row.operation).collect::<Int32Array>()),
        text(|row| row.column.as_deref()),
        text(|row| row.code.as_deref()),
        text(|row| row.plugin.as_deref()),
        text(|row| row.sha256.as_deref()),
        Arc::new(
            rows.iter()
                .map(|row| row.quarantined_at.map(|at| at.0))
                .collect::<TimestampMicrosecondArray>(),
        ),
        text(|row| Some(row.state.as_str())),
        text(|row| row.capture_instance.as_deref()),
    ];
    RecordBatch::try_new(layout.file_schema(&arrays), arrays)
        .map_err(|error| LakeError::Internal(format!("the columns of quarantine do not fit: {error}")))
}

/// The rows of a table. Another writer may have stored its columns in other forms.
///
/// # Errors
/// A table that lacks a column, or has a row without a batch or a state that sluice writes.
pub(super) fn rows_of(table: &str, batches: &[RecordBatch]) -> Result<Vec<QuarantineRow>, LakeError> {
    let mut rows = Vec::new();
    for batch in batches {
        let column = |name: &str, data_type: &DataType| -> Result<ArrayRef, LakeError> {
            let array = batch.column_by_name(name).ok_or_else(|| unreadable(table, name))?;
            cast(array, data_type).map_err(|_| unreadable(table, name))
        };
        let text = |name: &str| -> Result<StringArray, LakeError> {
            Ok(column(name, &DataType::Utf8)?.as_string::<i32>().clone())
        };
        let (app_ids, states) = (text("app_id")?, text("state")?);
        let batch_ids = column("batch_id", &DataType::Int64)?
            .as_primitive::<Int64Type>()
            .clone();
        let attempts = column("attempt", &DataType::Int32)?.as_primitive::<Int32Type>().clone();
        let operations = column("_operation", &DataType::Int32)?
            .as_primitive::<Int32Type>()
            .clone();
        let times = column("quarantined_at", &TIMESTAMP_NTZ)?
            .as_primitive::<TimestampMicrosecondType>()
            .clone();
        let names = [
            "_start_lsn",
            "_seqval",
            "column",
            "code",
            "plugin",
            "sha256",
            "capture_instance",
        ];
        let [start_lsns, seqvals, columns, codes, plugins, digests, instances] = names.map(text);
        let (start_lsns, seqvals, columns, codes) = (start_lsns?, seqvals?, columns?, codes?);
        let (plugins, digests, instances) = (plugins?, digests?, instances?);
        for row in 0..batch.num_rows() {
            let value = |array: &StringArray| array.is_valid(row).then(|| array.value(row).to_owned());
            let state = RowState::ALL
                .into_iter()
                .find(|state| states.is_valid(row) && state.as_str() == states.value(row));
            rows.push(QuarantineRow {
                app_id: value(&app_ids).ok_or_else(|| unreadable(table, "app_id"))?,
                batch_id: match batch_ids.is_valid(row) {
                    true => batch_ids.value(row),
                    false => return Err(unreadable(table, "batch_id")),
                },
                attempt: match attempts.is_valid(row) {
                    true => attempts.value(row),
                    false => return Err(unreadable(table, "attempt")),
                },
                start_lsn: value(&start_lsns),
                seqval: value(&seqvals),
                operation: operations.is_valid(row).then(|| operations.value(row)),
                column: value(&columns),
                code: value(&codes),
                plugin: value(&plugins),
                sha256: value(&digests),
                quarantined_at: times.is_valid(row).then(|| UtcMicros(times.value(row))),
                state: state.ok_or_else(|| unreadable(table, "state"))?,
                capture_instance: value(&instances),
            });
        }
    }
    Ok(rows)
}

fn unreadable(table: &str, column: &str) -> LakeError {
    LakeError::Chunk {
        table: table.to_owned(),
        reason: format!("its column {column} cannot be read"),
    }
}
