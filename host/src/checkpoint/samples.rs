//! Plans and commits for the tests.

use super::records::{CommitRecord, FORMAT, InstanceRange, PlannedBatch, StreamIdentity};
use crate::facts::FactsRow;
use crate::identity::{AppId, BatchId, CaptureInstance};
use crate::lsn::{Lsn, Offset, UtcMicros};

pub fn identity(app_id: &str, table: &str) -> StreamIdentity {
    StreamIdentity::new(AppId(app_id.into()), "shop", "dbo", table)
}

fn lsn(n: i64) -> Lsn {
    let mut bytes = [0; 10];
    bytes[2..].copy_from_slice(&n.to_be_bytes());
    Lsn(bytes)
}

pub fn offset(n: i64) -> Offset {
    Offset {
        lsn: lsn(n),
        commit_ts: UtcMicros(1_700_000_000_000_000 + n * 1_000_000),
    }
}

pub fn planned(n: i64, attempt: u32) -> PlannedBatch {
    PlannedBatch {
        format: FORMAT,
        batch_id: BatchId(n),
        attempt,
        start: (n > 0).then(|| offset(n * 10)),
        first_lsn: lsn(n * 10 + 1),
        end: offset(n * 10 + 10),
        ranges: vec![InstanceRange {
            capture_instance: CaptureInstance("dbo_orders".into()),
            from: lsn(n * 10 + 1),
            to: lsn(n * 10 + 10),
        }],
        chunk_rows: 65_536,
        chunk_bytes: 64 << 20,
        clock_offset_minutes: Some(-420),
        clock_zone: None,
        repeated_hours: Default::default(),
        retry: None,
        bounds: None,
        events: Vec::new(),
        source: None,
        chain: "none".into(),
        components: Vec::new(),
        provenance: serde_json::json!([]),
        reason: None,
        planned_at: UtcMicros(1_700_000_000_123_456),
    }
}

pub fn commit_record(n: i64, delta_version: Option<i64>) -> CommitRecord {
    CommitRecord {
        format: FORMAT,
        batch_id: BatchId(n),
        attempt: 0,
        delta_version,
        last_with_rows: delta_version.map(|_| BatchId(n)),
        end: offset(n * 10 + 10),
        chain: String::new(),
        last_event: None,
        events: Vec::new(),
        source: None,
        in_quarantine: None,
        facts: FactsRow {
            app_id: "orders".into(),
            batch_id: Some(n),
            rows: Some(if delta_version.is_some() { 3 } else { 0 }),
            ..FactsRow::default()
        },
        committed_at: UtcMicros(1_700_000_000_000_000),
    }
}
