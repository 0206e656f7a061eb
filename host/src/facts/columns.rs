//! The columns of the facts table, and rows in them.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::DataType;

use super::FactsRow;
use crate::lake::{Column, LakeError, Layout, TIMESTAMP_NTZ};
use crate::lsn::{Lsn, UtcMicros};

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    let text = |name: &str, comment: &str| Column::new(name, DataType::Utf8, comment);
    let long = |name: &str, comment: &str| Column::new(name, DataType::Int64, comment);
    let real = |name: &str, comment: &str| Column::new(name, DataType::Float64, comment);
    let time = |name: &str, comment: &str| Column::new(name, TIMESTAMP_NTZ, comment);
    vec![
        text("app_id", "stream that the row is about"),
        long("batch_id", "batch; NULL for an event that belongs to none").with_statistics(),
        long("rows", "rows written to the target"),
        text("min_lsn", "first commit LSN among the rows"),
        text("max_lsn", "last commit LSN among the rows"),
        time("min_commit_ts", "first commit time among the rows, UTC"),
        time("max_commit_ts", "last commit time among the rows, UTC"),
        long("deletes", "deletes among the changes"),
        long("inserts", "inserts among the changes"),
        long(
            "updates",
            "updates among the changes; the two rows of an update count once",
        ),
        time("started_at", "when the batch began, UTC"),
        long("duration_ms", "how long the batch took, in milliseconds"),
        real("source_rtt_ms", "a round trip to the source, in milliseconds"),
        real("read_seconds", "time spent reading, in seconds"),
        real("read_mb", "data read, in megabytes"),
        long("network_wait_ms", "time spent waiting for the source, in milliseconds"),
        time(
            "retention_watermark_ts",
            "commit time of the oldest change that the source still had, UTC",
        ),
        real(
            "retention_headroom_hours",
            "end_commit_ts minus the watermark, in hours",
        ),
        text("event", "kind of event; NULL for a batch"),
        time("lost_from_ts", "begin of a gap, UTC"),
        time("lost_to_ts", "end of a gap, UTC"),
        time(
            "source_max_commit_ts",
            "commit time of the newest change on the source, UTC",
        ),
        real("capture_lag_seconds", "now minus source_max_commit_ts, in seconds"),
        real(
            "ingestion_lag_seconds",
            "source_max_commit_ts minus end_commit_ts, in seconds",
        ),
        text("end_lsn", "LSN of the offset after the batch"),
        time("end_commit_ts", "commit time of the offset after the batch, UTC").with_statistics(),
        text("detail", "more about an event, for people"),
        text("target", "location of the bronze table"),
        time("written_at", "when the row was written, UTC").with_statistics(),
        text("transform", "provenance of the transforms, as JSON"),
        long("transform_ms", "time spent in transforms, in milliseconds"),
        long("plan_ms", "time spent planning, in milliseconds"),
        long("commit_ms", "time spent in the Delta commit, in milliseconds"),
        long("rows_quarantined", "rows put into quarantine"),
        long("rows_filtered", "rows that a transform filtered out"),
        long("delta_version", "bronze version that the batch is; NULL for 0 rows"),
        text("host", "host that ran the batch"),
    ]
}

/// The rows in the columns of [`columns`].
pub(super) fn record_batch(
    layout: &Layout,
    rows: &[&FactsRow],
    written_at: UtcMicros,
) -> Result<RecordBatch, LakeError> {
    let text = |get: fn(&FactsRow) -> Option<&str>| -> ArrayRef {
        Arc::new(rows.iter().map(|row| get(row)).collect::<StringArray>())
    };
    let lsn = |get: fn(&FactsRow) -> Option<Lsn>| -> ArrayRef {
        Arc::new(
            rows.iter()
                .map(|row| get(row).map(|lsn| lsn.to_string()))
                .collect::<StringArray>(),
        )
    };
    let long = |get: fn(&FactsRow) -> Option<i64>| -> ArrayRef {
        Arc::new(rows.iter().map(|row| get(row)).collect::<Int64Array>())
    };
    let real = |get: fn(&FactsRow) -> Option<f64>| -> ArrayRef {
        Arc::new(rows.iter().map(|row| get(row)).collect::<Float64Array>())
    };
    let time = |get: fn(&FactsRow) -> Option<UtcMicros>| -> ArrayRef {
        Arc::new(
            rows.iter()
                .map(|row| get(row).map(|at| at.0))
                .collect::<TimestampMicrosecondArray>(),
        )
    };
    let arrays = vec![
        text(|row| Some(&row.app_id)),
        long(|row| row.batch_id),
        long(|row| row.rows),
        lsn(|row| row.min_lsn),
        lsn(|row| row.max_lsn),
        time(|row| row.min_commit_ts),
        time(|row| row.max_commit_ts),
        long(|row| row.deletes),
        long(|row| row.inserts),
        long(|row| row.updates),
        time(|row| row.started_at),
        long(|row| row.duration_ms),
        real(|row| row.source_rtt_ms),
        real(|row| row.read_seconds),
        real(|row| row.read_mb),
        long(|row| row.network_wait_ms),
        time(|row| row.retention_watermark_ts),
        real(|row| row.retention_headroom_hours),
        text(|row| row.event.as_deref()),
        time(|row| row.lost_from_ts),
        time(|row| row.lost_to_ts),
        time(|row| row.source_max_commit_ts),
        real(|row| row.capture_lag_seconds),
        real(|row| row.ingestion_lag_seconds),
        lsn(|row| row.end_lsn),
        time(|row| row.end_commit_ts),
        text(|row| row.detail.as_deref()),
        text(|row| row.target.as_deref()),
        Arc::new(TimestampMicrosecondArray::from_value(written_at.0, rows.len())),
        text(|row| row.transform.as_deref()),
        long(|row| row.transform_ms),
        long(|row| row.plan_ms),
        long(|row| row.commit_ms),
        long(|row| row.rows_quarantined),
        long(|row| row.rows_filtered),
        long(|row| row.delta_version),
        text(|row| row.host.as_deref()),
    ];
    let schema = layout.file_schema(&arrays);
    RecordBatch::try_new(schema, arrays)
        .map_err(|error| LakeError::Internal(format!("the columns of facts do not fit: {error}")))
}
