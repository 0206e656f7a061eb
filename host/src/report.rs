//! What a running stream tells: events, and a summary at its end. The command line shows them; a library user takes
//! them from [`crate::fanout::Streams::events`]. `docs/reference/json.md` documents the JSON form.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::ErrorKind;
use crate::identity::{AppId, BatchId, CaptureInstance};
use crate::lsn::{Lsn, Offset, UtcMicros};
use crate::storage::Place;

/// Something that happened to a table.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The stream is open and will go on from here.
    Opened {
        /// The table.
        capture_instance: CaptureInstance,
        /// Its bronze table.
        target: Place,
        /// Its id in Delta's log.
        app_id: AppId,
        /// The last commit that is in bronze.
        position: Option<Lsn>,
        /// The next batch.
        next_batch: BatchId,
        /// The plugins of its chain, in order.
        transform: Vec<String>,
    },
    /// A batch is in bronze.
    Batch {
        /// The table.
        capture_instance: CaptureInstance,
        /// Its number.
        batch_id: BatchId,
        /// Rows.
        rows: u64,
        /// Rows with operation 2.
        inserts: u64,
        /// Updates: an update counts once.
        updates: u64,
        /// Rows with operation 1.
        deletes: u64,
        /// Rows that went into quarantine instead.
        quarantined: u64,
        /// The last commit.
        end_lsn: Lsn,
        /// When it was made on the source.
        end_commit_ts: UtcMicros,
        /// The version of bronze that holds it; absent for a batch without rows.
        delta_version: Option<i64>,
        /// From its plan to its commit.
        duration_ms: u64,
        /// It was planned by an earlier run.
        replayed: bool,
    },
    /// Rows that were in quarantine were read again. What came of it is in bronze, in a batch of its own.
    Retried {
        /// The table.
        capture_instance: CaptureInstance,
        /// The batch; absent where there was nothing to read again.
        batch_id: Option<BatchId>,
        /// Rows that were read again.
        rows: u64,
        /// Rows that are in bronze now.
        into_bronze: u64,
        /// Those of them that are still in quarantine.
        still_quarantined: u64,
        /// Those by the code that they have now.
        still_codes: BTreeMap<String, u64>,
    },
    /// The verdict moved.
    Verdict {
        /// The table.
        capture_instance: CaptureInstance,
        /// Every period that ends at or before this is complete, but for the rows in quarantine.
        finalized_until: UtcMicros,
        /// Rows that are in quarantine; absent while there never was one.
        open_quarantined: Option<i64>,
    },
    /// A transient failure; the step will be tried again.
    Retrying {
        /// The table.
        capture_instance: CaptureInstance,
        /// What failed.
        error: String,
        /// Failures in a row.
        failures: u32,
        /// The pause before the next attempt.
        pause_ms: u64,
    },
    /// Something that the operator should know and that does not stop the table.
    Warning {
        /// The table.
        capture_instance: CaptureInstance,
        /// What it is.
        message: String,
    },
    /// Something about the source as a whole that the operator should know.
    #[serde(rename = "warning")]
    SourceWarning {
        /// What it is.
        message: String,
    },
    /// The table stopped with an error; the others go on.
    Failed {
        /// The table.
        capture_instance: CaptureInstance,
        /// The kind, which decides the exit code.
        kind: ErrorKind,
        /// The whole chain of causes.
        error: String,
        /// It is about what is on disk, which `sluice doctor` examines.
        #[serde(skip)]
        on_disk: bool,
    },
    /// The stream ended.
    Table(TableSummary),
}

/// What a stream did from its start to its end.
#[derive(Debug, Clone, Serialize)]
pub struct TableSummary {
    /// The table.
    pub capture_instance: CaptureInstance,
    /// Its bronze table.
    pub target: Place,
    /// Rows written to bronze.
    pub rows: u64,
    /// Rows with operation 2.
    pub inserts: u64,
    /// Updates: an update counts once.
    pub updates: u64,
    /// Rows with operation 1.
    pub deletes: u64,
    /// Rows that went into quarantine instead.
    pub quarantined: u64,
    /// Rows that are in quarantine, of this run and of those before; absent while there never was one.
    pub open_quarantined: Option<i64>,
    /// Those by their codes.
    pub open_codes: BTreeMap<String, u64>,
    /// Batches with rows.
    pub batches: u64,
    /// The last commit that is in bronze.
    pub end_lsn: Option<Lsn>,
    /// When it was made on the source.
    pub end_commit_ts: Option<UtcMicros>,
    /// Every period that ends at or before this is complete, but for the rows in quarantine.
    pub finalized_until: Option<UtcMicros>,
    /// The plugins of the chain, in order, as `name@version`.
    pub transform: Vec<String>,
}

impl TableSummary {
    /// A summary of nothing yet.
    pub fn new(capture_instance: CaptureInstance, target: Place, transform: Vec<String>) -> TableSummary {
        TableSummary {
            capture_instance,
            target,
            rows: 0,
            inserts: 0,
            updates: 0,
            deletes: 0,
            quarantined: 0,
            open_quarantined: None,
            open_codes: BTreeMap::new(),
            batches: 0,
            end_lsn: None,
            end_commit_ts: None,
            finalized_until: None,
            transform,
        }
    }

    /// Adds what the stream did before it was opened again.
    pub(crate) fn add(&mut self, before: &TableSummary) {
        self.rows += before.rows;
        self.inserts += before.inserts;
        self.updates += before.updates;
        self.deletes += before.deletes;
        self.quarantined += before.quarantined;
        self.batches += before.batches;
    }

    /// Notes where the stream is.
    pub fn at(&mut self, position: Option<Offset>) {
        self.end_lsn = position.map(|offset| offset.lsn);
        self.end_commit_ts = position.map(|offset| offset.commit_ts);
    }
}
