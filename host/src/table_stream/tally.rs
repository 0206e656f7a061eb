//! What a batch's rows are, counted as they go to bronze.

use std::collections::HashMap;
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, TimestampMicrosecondType};

use super::replaced::Replaced;
use crate::lsn::{Lsn, UtcMicros};
use crate::shape::META_BEFORE;
use crate::transform::{Applied, Quarantined, Together};

const START_LSN: usize = 1;
const OPERATION: usize = 3;
const COMMIT_TS: usize = 5;

/// The rows of a batch after its chain, so that `rows = inserts + 2 * updates + deletes`, and what they cost.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) rows: u64,
    pub(super) inserts: u64,
    pub(super) updates: u64,
    pub(super) deletes: u64,
    /// Rows that a transform left out.
    pub(super) filtered: u64,
    /// Rows that go into quarantine, chunk by chunk.
    pub(super) quarantined: Vec<Quarantined>,
    /// What ties them to each other and to rows that may be in other chunks.
    tied: Together,
    /// Transactions at the edges of chunks, and in how many chunks each is.
    at_edges: HashMap<Lsn, u32>,
    pub(super) replaced: Replaced,
    pub(super) first: Option<(Lsn, UtcMicros)>,
    pub(super) last: Option<(Lsn, UtcMicros)>,
    pub(super) transform: Duration,
}

impl Tally {
    /// Notes the first and the last commit of a chunk, as it was read.
    pub(super) fn note_edges(&mut self, first: Lsn, last: Lsn) {
        *self.at_edges.entry(first).or_default() += 1;
        if last != first {
            *self.at_edges.entry(last).or_default() += 1;
        }
    }

    /// What ties rows for quarantine to rows of other chunks and is not in `known` yet: these chunks have to be gone through
    /// once more.
    pub(super) fn spread(&self, known: &Together) -> Option<Together> {
        let mut spread = self.tied.clone();
        let parted = |lsn: &str| {
            let lsn = lsn.parse::<Lsn>().ok();
            lsn.and_then(|lsn| self.at_edges.get(&lsn))
                .is_some_and(|chunks| *chunks > 1)
        };
        spread.retain(parted);
        (!known.contains(&spread)).then_some(spread)
    }

    /// Rows that were read.
    pub(super) fn read(&self) -> u64 {
        self.rows + self.filtered + self.quarantined.len() as u64
    }

    /// Adds a chunk. An error names the metadata column that is not what it has to be: a fault of sluice.
    pub(super) fn note(&mut self, applied: Applied) -> Result<(), &'static str> {
        let batch = &applied.batch;
        self.rows += batch.num_rows() as u64;
        self.filtered += applied.filtered;
        self.quarantined.extend(applied.quarantined);
        self.tied.add(applied.tied);
        self.transform += applied.elapsed;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let misfit = META_BEFORE[OPERATION];
        let operations = batch.columns().get(OPERATION).ok_or(misfit)?;
        for operation in operations.as_primitive_opt::<Int32Type>().ok_or(misfit)?.values() {
            match operation {
                1 => self.deletes += 1,
                2 => self.inserts += 1,
                4 => self.updates += 1,
                _ => {}
            }
        }
        // Chunks of ranges that are read at the same time come in any order.
        let first = commit_at(batch, 0)?;
        self.first = Some(self.first.map_or(first, |known| known.min(first)));
        self.last = self.last.max(Some(commit_at(batch, batch.num_rows() - 1)?));
        Ok(())
    }
}

/// The commit of a row, and its time.
fn commit_at(batch: &RecordBatch, row: usize) -> Result<(Lsn, UtcMicros), &'static str> {
    let misfit = META_BEFORE[START_LSN];
    let lsn = batch.columns().get(START_LSN).ok_or(misfit)?.slice(row, 1);
    let lsn = cast(&lsn, &DataType::Utf8).map_err(|_| misfit)?;
    let lsn = lsn.as_string_opt::<i32>().filter(|lsn| lsn.is_valid(0)).ok_or(misfit)?;
    let lsn: Lsn = lsn.value(0).parse().map_err(|_| misfit)?;
    let misfit = META_BEFORE[COMMIT_TS];
    let times = batch.columns().get(COMMIT_TS).ok_or(misfit)?;
    let times = times.as_primitive_opt::<TimestampMicrosecondType>().ok_or(misfit)?;
    Ok((lsn, UtcMicros(times.value(row))))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, StringArray, TimestampMicrosecondArray};
    use arrow::datatypes::{Field, Schema};

    use super::*;

    fn applied(rows: &[(u8, i32)], filtered: u64) -> Applied {
        let lsns: StringArray = rows.iter().map(|(n, _)| Some(Lsn([*n; 10]).to_string())).collect();
        let operations: Int32Array = rows.iter().map(|(_, operation)| *operation).collect();
        let times: TimestampMicrosecondArray = rows.iter().map(|(n, _)| Some(i64::from(*n))).collect();
        let columns: [Arc<dyn Array>; 6] = [
            Arc::new(lsns.clone()),
            Arc::new(lsns.clone()),
            Arc::new(lsns),
            Arc::new(operations.clone()),
            Arc::new(operations),
            Arc::new(times),
        ];
        let fields: Vec<Field> = META_BEFORE
            .iter()
            .zip(&columns)
            .map(|(name, column)| Field::new(*name, column.data_type().clone(), true))
            .collect();
        Applied {
            batch: RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.to_vec()).unwrap(),
            filtered,
            quarantined: Vec::new(),
            spent: Default::default(),
            tied: Default::default(),
            elapsed: Duration::ZERO,
            origin: None,
        }
    }

    #[test]
    fn only_what_goes_to_bronze_counts() {
        let mut tally = Tally::default();
        // All of a chunk's rows left out: nothing has an LSN.
        tally.note(applied(&[], 7)).unwrap();
        assert_eq!((tally.rows, tally.filtered, tally.first), (0, 7, None));
        tally.note(applied(&[(2, 2), (3, 3), (3, 4)], 1)).unwrap();
        tally.note(applied(&[(5, 1)], 0)).unwrap();
        assert_eq!(tally.rows, tally.inserts + 2 * tally.updates + tally.deletes);
        assert_eq!(
            (tally.inserts, tally.updates, tally.deletes, tally.filtered),
            (1, 1, 1, 8)
        );
        assert_eq!(tally.first, Some((Lsn([2; 10]), UtcMicros(2))));
        assert_eq!(tally.last, Some((Lsn([5; 10]), UtcMicros(5))));
    }
}
