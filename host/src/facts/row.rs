//! What a row of the facts table says.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lsn::{Lsn, UtcMicros};

/// One row of the facts table. `written_at` is set when it is written. No source values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FactsRow {
    /// The stream.
    pub app_id: String,
    /// The batch; NULL for an event that belongs to none.
    pub batch_id: Option<i64>,
    /// Rows written to the target.
    pub rows: Option<i64>,
    /// First LSN among the rows.
    pub min_lsn: Option<Lsn>,
    /// Last LSN among the rows.
    pub max_lsn: Option<Lsn>,
    /// First commit time among the rows.
    pub min_commit_ts: Option<UtcMicros>,
    /// Last commit time among the rows.
    pub max_commit_ts: Option<UtcMicros>,
    /// Deletes.
    pub deletes: Option<i64>,
    /// Inserts.
    pub inserts: Option<i64>,
    /// Updates; the two rows of one count once.
    pub updates: Option<i64>,
    /// When the batch began.
    pub started_at: Option<UtcMicros>,
    /// How long it took, in milliseconds.
    pub duration_ms: Option<i64>,
    /// A round trip to the source, in milliseconds.
    pub source_rtt_ms: Option<f64>,
    /// Time spent reading, in seconds.
    pub read_seconds: Option<f64>,
    /// Data read, in megabytes.
    pub read_mb: Option<f64>,
    /// Time spent waiting for the source, in milliseconds.
    pub network_wait_ms: Option<i64>,
    /// Commit time of the oldest change that the source still has.
    pub retention_watermark_ts: Option<UtcMicros>,
    /// Hours between that and the end of the batch.
    pub retention_headroom_hours: Option<f64>,
    /// What kind of event this row is; NULL for a batch.
    pub event: Option<String>,
    /// Begin of a gap.
    pub lost_from_ts: Option<UtcMicros>,
    /// End of a gap.
    pub lost_to_ts: Option<UtcMicros>,
    /// Commit time of the newest change on the source.
    pub source_max_commit_ts: Option<UtcMicros>,
    /// How far capture is behind now, in seconds.
    pub capture_lag_seconds: Option<f64>,
    /// How far the batch's end is behind capture, in seconds.
    pub ingestion_lag_seconds: Option<f64>,
    /// The offset's LSN after the batch.
    pub end_lsn: Option<Lsn>,
    /// The offset's commit time after the batch.
    pub end_commit_ts: Option<UtcMicros>,
    /// More about an event, for people.
    pub detail: Option<String>,
    /// Location of the bronze table.
    pub target: Option<String>,
    /// Provenance of the transforms, as JSON.
    pub transform: Option<String>,
    /// Time spent in transforms, in milliseconds.
    pub transform_ms: Option<i64>,
    /// Time spent planning, in milliseconds.
    pub plan_ms: Option<i64>,
    /// Time spent in the Delta commit, in milliseconds.
    pub commit_ms: Option<i64>,
    /// Rows put into quarantine.
    pub rows_quarantined: Option<i64>,
    /// Rows that a transform filtered out.
    pub rows_filtered: Option<i64>,
    /// The bronze version that the batch is; NULL for a batch of 0 rows.
    pub delta_version: Option<i64>,
    /// The host that ran the batch.
    pub host: Option<String>,
}

impl FactsRow {
    /// The row as JSON, without what is NULL and with the provenance as JSON: what a Delta commit says of its batch.
    pub fn to_metadata(&self) -> serde_json::Map<String, Value> {
        let Ok(Value::Object(mut row)) = serde_json::to_value(self) else {
            return serde_json::Map::new();
        };
        row.retain(|_, value| !value.is_null());
        if let Some(transform) = self
            .transform
            .as_deref()
            .and_then(|text| serde_json::from_str(text).ok())
        {
            row.insert("transform".to_owned(), transform);
        }
        row
    }

    /// The row that [`FactsRow::to_metadata`] made, from among whatever else the metadata holds. An error names what
    /// cannot be read. Instants have milliseconds.
    pub fn from_metadata(metadata: &Value) -> Result<FactsRow, serde_json::Error> {
        let mut row = serde_json::to_value(FactsRow::default())?;
        if let (Value::Object(row), Value::Object(metadata)) = (&mut row, metadata) {
            for (name, value) in row.iter_mut() {
                if let Some(found) = metadata.get(name) {
                    *value = found.clone();
                }
            }
            if let Some(transform) = row
                .get_mut("transform")
                .filter(|value| !value.is_null() && !value.is_string())
            {
                *transform = Value::String(transform.to_string());
            }
        }
        serde_json::from_value(row)
    }
}
