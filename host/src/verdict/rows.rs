//! The rows of the control table, and its columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, Int64Type, TimestampMicrosecondType};
use serde::Serialize;

use crate::lake::{Column, LakeError, Layout, TIMESTAMP_NTZ};
use crate::lsn::{Lsn, UtcMicros};

/// A row of the control table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ControlRow {
    /// The table.
    pub table_name: String,
    /// Every period that ends at or before this is complete.
    pub finalized_until: Option<UtcMicros>,
    /// The offset's LSN when the row was written.
    pub end_lsn: Option<Lsn>,
    /// The offset's commit time when the row was written.
    pub end_commit_ts: Option<UtcMicros>,
    /// When the row was written.
    pub updated_at: Option<UtcMicros>,
    /// Up to where silver was brought.
    pub applied_lsn: Option<String>,
    /// The live generation's snapshot.
    pub snapshot_lsn: Option<String>,
    /// The snapshot that is being read.
    pub open_snapshot_lsn: Option<String>,
    /// Its wave.
    pub snapshot_wave: Option<i32>,
    /// Why the verdict does not move.
    pub status: Option<String>,
    /// Rows that are in quarantine.
    pub open_quarantined: Option<i64>,
}

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let text = |name: &str, comment: &str| Column::new(name, DataType::Utf8, comment);
    let time = |name: &str, comment: &str| Column::new(name, TIMESTAMP_NTZ, comment);
    vec![
        text("table_name", "table that the row is about"),
        time(
            "finalized_until",
            "every period that ends at or before this is complete, UTC; it only moves forward",
        ),
        text("end_lsn", "LSN of the offset when the row was written"),
        time(
            "end_commit_ts",
            "commit time of the offset when the row was written, UTC",
        ),
        time("updated_at", "when the row was written, UTC"),
        text("applied_lsn", "LSN up to which silver was brought"),
        text("snapshot_lsn", "LSN of the live generation's snapshot"),
        text("open_snapshot_lsn", "LSN of the snapshot that is being read"),
        Column::new(
            "snapshot_wave",
            DataType::Int32,
            "wave of the snapshot that is being read",
        ),
        text(
            "status",
            "why the verdict does not move: current, behind, capture_stalled, failed or snapshot_open",
        ),
        Column::new(
            "open_quarantined",
            DataType::Int64,
            "rows at or before finalized_until that are in quarantine",
        ),
    ]
}

/// The rows in the columns of [`columns`].
pub(super) fn record_batch(layout: &Layout, rows: &BTreeMap<String, ControlRow>) -> Result<RecordBatch, LakeError> {
    let text = |get: fn(&ControlRow) -> Option<&str>| -> ArrayRef {
        Arc::new(rows.values().map(get).collect::<StringArray>())
    };
    let time = |get: fn(&ControlRow) -> Option<UtcMicros>| -> ArrayRef {
        Arc::new(
            rows.values()
                .map(|row| get(row).map(|at| at.0))
                .collect::<TimestampMicrosecondArray>(),
        )
    };
    let arrays: Vec<ArrayRef> = vec![
        text(|row| Some(&row.table_name)),
        time(|row| row.finalized_until),
        Arc::new(
            rows.values()
                .map(|row| row.end_lsn.map(|lsn| lsn.to_string()))
                .collect::<StringArray>(),
        ),
        time(|row| row.end_commit_ts),
        time(|row| row.updated_at),
        text(|row| row.applied_lsn.as_deref()),
        text(|row| row.snapshot_lsn.as_deref()),
        text(|row| row.open_snapshot_lsn.as_deref()),
        Arc::new(rows.values().map(|row| row.snapshot_wave).collect::<Int32Array>()),
        text(|row| row.status.as_deref()),
        Arc::new(rows.values().map(|row| row.open_quarantined).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(layout.file_schema(&arrays), arrays)
        .map_err(|error| LakeError::Internal(format!("the columns of control do not fit: {error}")))
}

/// The rows that are in a table, by name.
pub(super) fn rows_of(table: &str, batches: &[RecordBatch]) -> Result<BTreeMap<String, ControlRow>, LakeError> {
    let misfit = |name: &str| LakeError::Chunk {
        table: table.to_owned(),
        reason: format!("its column {name} cannot be read"),
    };
    let wanted = columns();
    let mut rows = BTreeMap::new();
    for batch in batches {
        // Another writer (OPTIMIZE, a person) may have stored a column in another form, or not at all.
        let column = |name: &str| -> Result<ArrayRef, LakeError> {
            let data_type = wanted
                .iter()
                .find(|c| c.name == name)
                .map(|c| &c.data_type)
                .ok_or_else(|| misfit(name))?;
            match batch.column_by_name(name) {
                Some(array) => cast(array, data_type).map_err(|_| misfit(name)),
                None => Ok(arrow::array::new_null_array(data_type, batch.num_rows())),
            }
        };
        let text = |name: &str| -> Result<StringArray, LakeError> { Ok(column(name)?.as_string::<i32>().clone()) };
        let time = |name: &str| -> Result<TimestampMicrosecondArray, LakeError> {
            Ok(column(name)?.as_primitive::<TimestampMicrosecondType>().clone())
        };
        let (names, finalized, end_lsn) = (text("table_name")?, time("finalized_until")?, text("end_lsn")?);
        let (end_commit_ts, updated_at, status) = (time("end_commit_ts")?, time("updated_at")?, text("status")?);
        let (applied, snapshot, open) = (text("applied_lsn")?, text("snapshot_lsn")?, text("open_snapshot_lsn")?);
        let wave = column("snapshot_wave")?.as_primitive::<Int32Type>().clone();
        let quarantined = column("open_quarantined")?.as_primitive::<Int64Type>().clone();
        let text_at = |array: &StringArray, i: usize| array.is_valid(i).then(|| array.value(i).to_owned());
        let time_at =
            |array: &TimestampMicrosecondArray, i: usize| array.is_valid(i).then(|| UtcMicros(array.value(i)));
        for i in 0..batch.num_rows() {
            let table_name = text_at(&names, i).ok_or_else(|| misfit("table_name"))?;
            let end_lsn = text_at(&end_lsn, i)
                .map(|text| text.parse())
                .transpose()
                .map_err(|_| misfit("end_lsn"))?;
            let row = ControlRow {
                table_name: table_name.clone(),
                finalized_until: time_at(&finalized, i),
                end_lsn,
                end_commit_ts: time_at(&end_commit_ts, i),
                updated_at: time_at(&updated_at, i),
                applied_lsn: text_at(&applied, i),
                snapshot_lsn: text_at(&snapshot, i),
                open_snapshot_lsn: text_at(&open, i),
                snapshot_wave: wave.is_valid(i).then(|| wave.value(i)),
                status: text_at(&status, i),
                open_quarantined: quarantined.is_valid(i).then(|| quarantined.value(i)),
            };
            rows.insert(table_name, row);
        }
    }
    Ok(rows)
}
