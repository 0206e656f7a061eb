//! Old rows of batches go; events stay for ever.
//!
//! What goes is decided by file: one whose rows are all too old, or a small one whose oldest row is well beyond the retention, so
//! that a file is not written again for every row of it. Its events are kept in a file of their own. With the rows goes into the
//! commit, for each stream, the number of the oldest batch whose row can still be there: the transaction id
//! `<app_id>#facts_from`. By it the doctor tells rows that were removed from rows that are lost.

use std::collections::BTreeMap;
use std::time::Duration;

use arrow::array::{Array as _, AsArray as _, BooleanArray, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use chrono::NaiveDateTime;
use deltalake::kernel::{Action, Add, Remove, Transaction};
use deltalake::protocol::{DeltaOperation, SaveMode};

use super::FactsTable;
use super::rows::plain;
use crate::lake::{
    DeltaLog, Ended, Entry, LakeError, Layout, Proposal, Propose, ToRewrite, are_whole, arrays_of, commit, discard,
    fold_file, of_table, to_rewrite, txn, write_one,
};
use crate::lsn::UtcMicros;

/// Bytes of files that are read in one go, after which writers have their turn.
const PASS_BYTES: u64 = 64 << 20;
/// A file below this size is written again also when only some of its rows go.
const SMALL: u64 = 16 << 20;
/// By what part of the retention the oldest row of such a file has to be beyond it.
const BEYOND: u32 = 10;

/// The transaction id with the number of the oldest batch whose row can still be there.
pub(crate) fn facts_from_id(app_id: &str) -> String {
    format!("{app_id}#facts_from")
}

/// What a pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Rows that are gone.
    pub rows: usize,
    /// Whether there is more to look at.
    pub more: bool,
}

impl FactsTable {
    /// Removes rows of batches that were written longer ago than `retention`, of some of the oldest files. Writers wait meanwhile.
    pub async fn remove_older(&self, retention: Duration) -> Result<Removed, LakeError> {
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let now = UtcMicros::now().0;
        let cutoff = now.saturating_sub(micros(retention));
        let beyond = cutoff.saturating_sub(micros(retention / BEYOND));
        let mut log = self.log.lock().await;
        log.refresh().await?;
        let mut old: Vec<(i64, ToRewrite)> = to_rewrite(&log)
            .await?
            .into_iter()
            .filter_map(|file| {
                let (oldest, newest) = written(&file.stats)?;
                let goes = newest < cutoff || (oldest < beyond && file.size < SMALL);
                (goes && has_batches(&file.stats)).then_some((oldest, file))
            })
            .collect();
        old.sort_by_key(|(oldest, _)| *oldest);
        let there = old.len();
        let mut bytes = 0;
        let pass: Vec<ToRewrite> = old
            .into_iter()
            .map(|(_, file)| file)
            .take_while(|file| {
                let begun = bytes > 0;
                bytes += file.size;
                !begun || bytes <= PASS_BYTES
            })
            .collect();
        let more = pass.len() < there;
        let mut seen = Thinned {
            layout: of_table(&log, &self.layout)?,
            cutoff,
            kept: Vec::new(),
            removed: 0,
            newest: BTreeMap::new(),
        };
        for file in &pass {
            seen = fold_file(&log, &file.path, seen, Thinned::add).await?;
        }
        if seen.removed == 0 {
            return Ok(Removed { rows: 0, more });
        }
        let ids: Vec<String> = seen.newest.keys().map(|app_id| facts_from_id(app_id)).collect();
        log.follow(&ids).await?;
        let file = match seen.kept.first() {
            None => None,
            Some(first) => {
                let kept = concat_batches(&first.schema(), &seen.kept)
                    .map_err(|source| LakeError::parquet("rewrite", log.name(), source.into()))?;
                Some(write_one(&log, &seen.layout, &kept).await?)
            }
        };
        let removes: Vec<Remove> = pass.into_iter().map(|file| file.remove).collect();
        let mut rewrite = Rewrite {
            removes: &removes,
            kept: file.as_ref(),
            newest: &seen.newest,
        };
        let outcome = commit(&mut log, &mut rewrite).await;
        let may_be_there = matches!(outcome, Ok(Ended::Committed(_)) | Err(LakeError::CommitUnknown { .. }));
        if let (false, Some(file)) = (may_be_there, &file) {
            discard(&log, file).await;
        }
        Ok(match outcome? {
            Ended::Committed(_) => Removed {
                rows: seen.removed,
                more,
            },
            // Another writer was quicker; the next pass looks again.
            Ended::Settled(()) => Removed { rows: 0, more },
        })
    }
}

/// When the oldest and the newest row of a file were written, in microseconds. `None` where its statistics do not say.
fn written(stats: &serde_json::Value) -> Option<(i64, i64)> {
    let instant = |values: &str| {
        let text = stats[values]["written_at"].as_str()?.trim_end_matches('Z');
        let instant = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f").ok()?;
        Some(instant.and_utc().timestamp_micros())
    };
    Some((instant("minValues")?, instant("maxValues")?))
}

/// Whether a file may have rows of batches: those that have no event.
fn has_batches(stats: &serde_json::Value) -> bool {
    stats["nullCount"]["event"].as_u64() != Some(0)
}

/// What is left of files.
struct Thinned {
    layout: Layout,
    cutoff: i64,
    kept: Vec<RecordBatch>,
    removed: usize,
    /// The newest batch of each stream whose row goes.
    newest: BTreeMap<String, i64>,
}

impl Thinned {
    fn add(&mut self, batch: RecordBatch) -> Result<(), LakeError> {
        let failed =
            |source: arrow::error::ArrowError| LakeError::parquet("rewrite", self.layout.table(), source.into());
        let column = |name: &str| batch.column_by_name(name).map(plain);
        let (Some(ids), Some(numbers), Some(events), Some(written)) = (
            column("app_id"),
            column("batch_id"),
            column("event"),
            column("written_at"),
        ) else {
            return Err(LakeError::Internal(format!(
                "a file of {} has not the columns of facts",
                self.layout.table()
            )));
        };
        let (Some(ids), Some(numbers), Some(written)) = (
            ids.as_string_opt::<i32>(),
            numbers.as_primitive_opt::<Int64Type>(),
            written.as_primitive_opt::<TimestampMicrosecondType>(),
        ) else {
            return Err(LakeError::Internal(format!(
                "a file of {} has facts of other types",
                self.layout.table()
            )));
        };
        let goes = |row: usize| {
            let is_old = written.is_valid(row) && written.value(row) < self.cutoff;
            is_old && events.is_null(row) && numbers.is_valid(row) && ids.is_valid(row)
        };
        let mut keep = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let stays = !goes(row);
            keep.push(stays);
            if !stays {
                let newest = self.newest.entry(ids.value(row).to_owned()).or_insert(i64::MIN);
                *newest = numbers.value(row).max(*newest);
                self.removed += 1;
            }
        }
        let left = filter_record_batch(&batch, &BooleanArray::from(keep)).map_err(failed)?;
        if left.num_rows() > 0 {
            let arrays = arrays_of(&self.layout, &left)?;
            let schema = self.layout.file_schema(&arrays);
            self.kept.push(RecordBatch::try_new(schema, arrays).map_err(failed)?);
        }
        Ok(())
    }
}

struct Rewrite<'a> {
    removes: &'a [Remove],
    kept: Option<&'a Add>,
    newest: &'a BTreeMap<String, i64>,
}

impl Propose for Rewrite<'_> {
    type Settled = ();

    async fn propose(&mut self, log: &mut DeltaLog) -> Result<Proposal<()>, LakeError> {
        if !are_whole(log, self.removes).await? {
            return Ok(Proposal::Settled(()));
        }
        let now_ms = UtcMicros::now().0 / 1000;
        let removes = self.removes.iter().cloned().map(|remove| {
            Action::Remove(Remove {
                deletion_timestamp: Some(now_ms),
                ..remove
            })
        });
        let from = self.newest.iter().filter_map(|(app_id, newest)| {
            let id = facts_from_id(app_id);
            let from = newest + 1;
            let is_new = log.recorded(&id).is_none_or(|recorded| recorded.version < from);
            is_new.then(|| txn(id, from))
        });
        let txns: Vec<Transaction> = from.collect();
        Ok(Proposal::Commit(Box::new(Entry {
            actions: removes.chain(self.kept.cloned().map(Action::Add)).collect(),
            txns,
            operation: DeltaOperation::Write {
                mode: SaveMode::Overwrite,
                partition_by: None,
                predicate: None,
            },
            user_metadata: None,
        })))
    }
}
