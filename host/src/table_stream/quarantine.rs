//! Rows that go into quarantine with their batch: how many may, and that they are there once, before bronze has the batch.

use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoint::{Checkpoint, PlannedBatch, Resume};
use crate::config::{MaxQuarantined, TableSettings};
use crate::failpoint::{self, planted};
use crate::identity::{AppId, BatchId, CaptureInstance};
use crate::lsn::UtcMicros;
use crate::quarantine::{AttemptAt, QuarantineRow, QuarantineTable, RowState, Written, location_of, open_rows};
use crate::storage::Place;
use crate::transform::{Chain, TransformError};

use super::StreamError;
use super::lost_plan::LostPlan;
use super::open::{OpenTable, blocking};
use super::quarantine_kept::expect_kept;
use super::tally::Tally;

/// How many rows of a batch may go into quarantine.
#[derive(Clone)]
pub(super) struct QuarantineLimit {
    pub(super) most: MaxQuarantined,
    /// For the error.
    pub(super) table: String,
    pub(super) batch: i64,
}

impl QuarantineLimit {
    /// As many as there are.
    pub(super) fn none(table: &CaptureInstance, batch: BatchId) -> QuarantineLimit {
        QuarantineLimit {
            most: MaxQuarantined::Percent(100.0),
            table: table.to_string(),
            batch: batch.0,
        }
    }

    /// How many more may, as far as that is known before the batch is read.
    pub(super) fn left(&self, tally: &Tally) -> u64 {
        match self.most {
            MaxQuarantined::Rows(most) => most.saturating_sub(tally.quarantined.len() as u64),
            MaxQuarantined::Percent(_) => u64::MAX,
        }
    }

    /// Fails when there are too many already.
    pub(super) fn expect_so_far(&self, tally: &Tally) -> Result<(), StreamError> {
        match self.most {
            MaxQuarantined::Rows(most) if tally.quarantined.len() as u64 > most => self.refuse(tally),
            _ => Ok(()),
        }
    }

    /// Fails when there are too many of the whole batch.
    pub(super) fn expect_whole(&self, tally: &Tally) -> Result<(), StreamError> {
        match self.most {
            MaxQuarantined::Percent(most) if tally.quarantined.len() as f64 > most / 100.0 * tally.read() as f64 => {
                self.refuse(tally)
            }
            _ => self.expect_so_far(tally),
        }
    }

    fn refuse(&self, tally: &Tally) -> Result<(), StreamError> {
        let Some(first) = tally.quarantined.first() else {
            return Ok(());
        };
        Err(TransformError::TooManyQuarantined {
            table: self.table.clone(),
            batch: self.batch,
            rows: tally.quarantined.len() as u64,
            most: self.most.to_string(),
            code: first.code.clone(),
            column: first.column.clone(),
            lsn: first.start_lsn.clone(),
        }
        .into())
    }
}

/// The quarantine table of a stream, and what this process knows of it.
pub(super) struct Quarantine {
    location: Place,
    app_id: AppId,
    fencing: i64,
    /// Absent until the first row.
    table: Option<QuarantineTable>,
    /// The newest attempt that has rows.
    newest: Option<AttemptAt>,
    /// The newest attempt that had rows by what is recorded of batches.
    recorded: Option<AttemptAt>,
    /// The rows of the stream in the version `seen` of the table. They are read again only when somebody else moved it on.
    rows: Vec<QuarantineRow>,
    seen: Option<u64>,
    /// Rows of batches that are done, and open, by their codes.
    open: BTreeMap<String, u64>,
}

impl Quarantine {
    /// Looks for the table and what is in it.
    pub(super) async fn open(settings: &TableSettings) -> Result<Quarantine, StreamError> {
        let location = location_of(&settings.target);
        let mut quarantine = Quarantine {
            table: QuarantineTable::open(&location, &settings.app_id).await?,
            location,
            app_id: settings.app_id.clone(),
            fencing: 0,
            newest: None,
            recorded: None,
            rows: Vec::new(),
            seen: None,
            open: BTreeMap::new(),
        };
        quarantine.look().await?;
        Ok(quarantine)
    }

    /// Fails when the table lacks what batches put there by what is recorded of them. Before anything is written to it: an
    /// empty table in place of one that was lost would look like one without rows.
    pub(super) async fn expect_kept(&mut self, recorded: Option<AttemptAt>) -> Result<(), StreamError> {
        if recorded > self.newest {
            // The record was read after the table, and the owner before may have written both between.
            if self.table.is_none() {
                self.table = QuarantineTable::open(&self.location, &self.app_id).await?;
            }
            self.look().await?;
        }
        let there = self.table.as_ref().map(|_| self.newest);
        expect_kept(&self.location, &self.app_id, recorded, there)?;
        self.recorded = recorded;
        Ok(())
    }

    /// The newest attempt that has rows as far as this process saw them there, or knows of them.
    pub(super) fn known(&self) -> Option<AttemptAt> {
        let there = self.table.as_ref().and_then(QuarantineTable::known);
        there.max(self.recorded)
    }

    /// The newest attempt that has rows, as of the last look.
    pub(super) fn newest(&self) -> Option<AttemptAt> {
        self.newest
    }

    /// The stream is this process's, under this number. Where the process before may only sleep, it has to find the number
    /// here before anything is read from the table, and a table has to be there for that.
    pub(super) async fn take(&mut self, checkpoint: &Checkpoint, chain: &Chain) -> Result<(), StreamError> {
        self.fencing = checkpoint.fencing();
        if checkpoint.unsettled().is_empty() {
            return Ok(());
        }
        if self.table.is_none() && chain.quarantines() {
            self.table = Some(QuarantineTable::open_or_create(&self.location, &self.app_id).await?);
        }
        if let Some(table) = &mut self.table {
            table.claim(self.fencing).await?;
        }
        Ok(())
    }

    /// The highest fencing number that the table has, as of the last look.
    pub(super) fn owner(&self) -> Option<i64> {
        self.table.as_ref().and_then(QuarantineTable::owner)
    }

    /// Removes what is older than its retention and no longer open.
    pub(super) async fn forget(&mut self, settings: &TableSettings) -> Result<(), StreamError> {
        let (Some(retention), Some(table)) = (settings.quarantine_retention, &mut self.table) else {
            return Ok(());
        };
        let cutoff = UtcMicros::now().0 - i64::try_from(retention.as_micros()).unwrap_or(i64::MAX);
        let removed = table.remove_before(UtcMicros(cutoff)).await?;
        if removed > 0 {
            tracing::debug!(
                table = %self.location,
                removed,
                "rows of quarantine older than their retention"
            );
            self.seen = None;
        }
        Ok(())
    }

    /// The rows of batches before `next` that are open, as of now.
    pub(super) async fn open_rows(&mut self, next: BatchId) -> Result<Vec<QuarantineRow>, StreamError> {
        self.look().await?;
        Ok(open_rows(&self.done_before(next)))
    }

    fn done_before(&self, next: BatchId) -> Vec<QuarantineRow> {
        let rows = self.rows.iter().filter(|row| row.batch_id < next.0);
        rows.cloned().collect()
    }

    /// The batches before `next` are done: their rows count.
    pub(super) fn count(&mut self, next: BatchId) {
        if self.table.is_some() {
            self.open = by_code(&open_rows(&self.done_before(next)));
        }
    }

    /// A batch is done. Only one that has rows here changes what is open.
    pub(super) fn count_batch(&mut self, batch: BatchId) {
        if self.newest.is_some_and(|newest| newest.batch == batch) {
            self.count(BatchId(batch.0 + 1));
        }
    }

    /// Rows of batches that are done, and open; absent while there is no table.
    pub(super) fn open_count(&self) -> Option<i64> {
        self.table.as_ref()?;
        i64::try_from(self.open.values().sum::<u64>()).ok()
    }

    /// The same by their codes.
    pub(super) fn open_codes(&self) -> &BTreeMap<String, u64> {
        &self.open
    }

    async fn look(&mut self) -> Result<(), StreamError> {
        let Some(table) = &mut self.table else {
            return Ok(());
        };
        self.newest = table.newest().await?;
        if self.seen != Some(table.version()) {
            self.rows = table.rows().await?;
            self.seen = Some(table.version());
        }
        Ok(())
    }

    /// Takes note of rows that this process wrote.
    async fn wrote(&mut self, rows: Vec<QuarantineRow>) -> Result<(), StreamError> {
        let version = self.table.as_ref().map(QuarantineTable::version);
        if self.seen.map(|seen| seen + 1) == version {
            self.rows.extend(rows);
            self.seen = version;
        }
        self.look().await
    }

    /// Voids attempts whose batch became something else: another attempt, or closed without rows. Where the next batch has no plan
    /// and left rows here, nothing is done but to say what becomes of it.
    pub(super) async fn settle(
        &mut self,
        checkpoint: &Checkpoint,
        resume: &Resume,
    ) -> Result<Option<LostPlan>, StreamError> {
        self.look().await?;
        let Some(newest) = self.newest else {
            return Ok(None);
        };
        // Somebody else may still end it as long as that is not settled.
        let alone = checkpoint.unsettled().is_empty();
        if let Some(lost) = LostPlan::of(newest, resume, alone)? {
            return Ok(Some(lost));
        }
        if matches!(resume, Resume::Replay { planned, .. } if planned.batch_id == newest.batch) {
            return Ok(None);
        }
        let reading = checkpoint.clone();
        let before = BatchId(newest.batch.0 - 1);
        let later = blocking(move || reading.reader().commits_after(Some(before))).await?;
        // What the checkpoint no longer has was settled when the batch after it began.
        let Some(record) = later.iter().find(|record| record.batch_id == newest.batch) else {
            let ahead = later.is_empty();
            return match ahead {
                true => Err(StreamError::QuarantineAhead {
                    table: self.location.to_string(),
                    app_id: self.app_id.clone(),
                    batch: newest.batch,
                }),
                false => Ok(None),
            };
        };
        self.void(newest.batch, |attempt| attempt != record.attempt).await?;
        Ok(None)
    }

    /// The batch is done by this attempt: what others at it wrote counts for nothing. Before its record is written, so that
    /// whoever comes later finds it so.
    pub(super) async fn done_by(&mut self, batch: BatchId, attempt: u32) -> Result<(), StreamError> {
        match self.newest {
            Some(newest) if newest.batch == batch => self.void(batch, |other| other != attempt).await,
            _ => Ok(()),
        }
    }

    /// The batch is done without an attempt: what any wrote counts for nothing. A process that is still at one, on another copy
    /// of the checkpoint, is refused from here on: bronze would refuse it too, but only after its rows are here.
    pub(super) async fn abandon(&mut self, batch: BatchId) -> Result<(), StreamError> {
        let Some(table) = &mut self.table else {
            return Ok(());
        };
        table.claim(self.fencing).await?;
        self.look().await?;
        self.void(batch, |_| true).await
    }

    /// Voids attempts at a batch.
    async fn void(&mut self, batch: BatchId, is_void: impl Fn(u32) -> bool) -> Result<(), StreamError> {
        if planted::is(planted::ATTEMPTS_NOT_VOIDED) {
            return Ok(());
        }
        let of = |void: bool| -> BTreeSet<AttemptAt> {
            let rows = self.rows.iter().filter(|row| row.batch_id == batch.0);
            rows.filter(|row| (row.state == RowState::Void) == void)
                .map(QuarantineRow::at)
                .collect()
        };
        let void: BTreeSet<AttemptAt> = of(false)
            .difference(&of(true))
            .filter(|at| is_void(at.attempt))
            .copied()
            .collect();
        if let (Some(table), false) = (&mut self.table, void.is_empty()) {
            table.void(&void, self.fencing).await?;
            self.look().await?;
        }
        Ok(())
    }

    /// Writes the rows of an attempt at a batch, once. What other attempts at it wrote counts for nothing from here on.
    pub(super) async fn put(&mut self, at: AttemptAt, rows: Vec<QuarantineRow>) -> Result<(), StreamError> {
        let touched = self.newest.is_some_and(|newest| newest.batch == at.batch);
        if rows.is_empty() && !touched {
            return Ok(());
        }
        if touched {
            self.look().await?;
            self.void(at.batch, |attempt| attempt < at.attempt).await?;
            if self.newest == Some(at) {
                return self.expect_same(at, &rows);
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
        let table = match &mut self.table {
            Some(table) => table,
            None => {
                let table = QuarantineTable::open_or_create(&self.location, &self.app_id).await?;
                self.seen = Some(table.version());
                self.table.insert(table)
            }
        };
        // Also when the answer is lost: the next try then looks what is there.
        self.newest = Some(at);
        match table.put(at, &rows, self.fencing).await? {
            Written::Now => self.wrote(rows).await,
            Written::Before => {
                self.look().await?;
                self.expect_same(at, &rows)
            }
            Written::Passed(there) => Err(StreamError::QuarantineAhead {
                table: self.location.to_string(),
                app_id: self.app_id.clone(),
                batch: there.batch,
            }),
        }
    }

    /// The same attempt rejects the same rows: else the component answers differently for the same input, and rows would be
    /// neither in bronze nor in quarantine.
    fn expect_same(&self, at: AttemptAt, rows: &[QuarantineRow]) -> Result<(), StreamError> {
        let sorted = |mut rows: Vec<QuarantineRow>| {
            rows.sort_by(|a, b| (&a.start_lsn, &a.seqval, a.operation).cmp(&(&b.start_lsn, &b.seqval, b.operation)));
            rows
        };
        // A void row of the attempt differs from any that it could have: what is void is not gone on with.
        let there = sorted(self.rows.iter().filter(|row| row.at() == at).cloned().collect());
        let rows = sorted(rows.to_vec());
        let same = there.len() == rows.len() && there.iter().zip(&rows).all(|(a, b)| a.says_the_same(b));
        match same {
            true => Ok(()),
            false => Err(StreamError::QuarantineDiffers {
                batch: at.batch,
                before: there.len(),
                now: rows.len(),
            }),
        }
    }
}

impl OpenTable {
    /// Puts the rows of the batch that could not be transformed into quarantine.
    pub(super) async fn put_into_quarantine(&self, planned: &PlannedBatch, tally: &Tally) -> Result<(), StreamError> {
        let at = AttemptAt {
            batch: planned.batch_id,
            attempt: planned.attempt,
        };
        let rows = rows_of(&self.chain, &self.settings.app_id, at, tally);
        let is_any = !rows.is_empty();
        self.quarantine.lock().await.put(at, rows).await?;
        if is_any {
            failpoint::pass(failpoint::AFTER_QUARANTINE);
        }
        Ok(())
    }
}

/// How many rows have each code.
pub(super) fn by_code<'r>(rows: impl IntoIterator<Item = &'r QuarantineRow>) -> BTreeMap<String, u64> {
    let mut codes = BTreeMap::new();
    for row in rows {
        // Without a code is only a row that somebody else wrote.
        *codes.entry(row.code.clone().unwrap_or_default()).or_default() += 1;
    }
    codes
}

/// The rows of a batch that go into quarantine.
pub(super) fn rows_of(chain: &Chain, app_id: &AppId, at: AttemptAt, tally: &Tally) -> Vec<QuarantineRow> {
    let now = UtcMicros::now();
    tally
        .quarantined
        .iter()
        .map(|row| {
            let provenance = row.step.and_then(|step| chain.provenance().get(step));
            QuarantineRow {
                app_id: app_id.0.clone(),
                batch_id: at.batch.0,
                attempt: i32::try_from(at.attempt).unwrap_or(i32::MAX),
                start_lsn: Some(row.start_lsn.clone()),
                seqval: row.seqval.clone(),
                operation: Some(row.operation),
                column: row.column.clone(),
                code: Some(row.code.clone()),
                plugin: provenance.map(super::plugin_name),
                sha256: provenance.map(|step| step.sha256.clone()),
                quarantined_at: Some(now),
                state: RowState::Open,
                capture_instance: Some(row.capture_instance.clone()),
            }
        })
        .collect()
}
