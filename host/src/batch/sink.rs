//! The column sink: typed values in, chunks out.

use std::sync::Arc;

use arrow::array::{NullBufferBuilder, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::SchemaRef;

use super::chunk::Chunk;
use super::column::{Column, Values};
use super::commit_times::CommitTimes;
use super::error::{BatchError, RowAt};
use super::meta::{Meta, chunk_schema};
use super::text::{self, TextEncoding};
use crate::identity::CaptureInstance;
use crate::lsn::{LSN_TEXT_LEN, Lsn};
use crate::shape::{Recorded, TableShape};

/// The columns that every read selects before the captured ones, in this order. `__$command_id` may be missing on old
/// builds, where NULL is selected in its place.
pub const LEADING_COLUMNS: [&str; 4] = ["__$start_lsn", "__$command_id", "__$seqval", "__$operation"];
/// The column that a read selects after the captured ones where [`TableShape::needs_update_mask`].
pub const UPDATE_MASK: &str = "__$update_mask";

const START_LSN: usize = 0;
const COMMAND_ID: usize = 1;
const SEQVAL: usize = 2;
const OPERATION: usize = 3;

/// The row before an update; its partner follows it.
const BEFORE_UPDATE: i32 = 3;

/// Takes the values of change rows one by one, column by column, and cuts them into chunks. Column numbers are those of
/// the statement: the four [`LEADING_COLUMNS`], the captured columns, and [`UPDATE_MASK`] where the table needs it.
///
/// Pushes cannot fail, because the driver's callbacks cannot; the first fault is kept and [`ChunkBuilder::take`] returns
/// it.
pub struct ChunkBuilder {
    schema: SchemaRef,
    capture_instance: CaptureInstance,
    columns: Vec<Column>,
    meta: Meta,
    commit_times: Arc<CommitTimes>,
    cursor: usize,
    rows: usize,
    /// Rows of the chunks that were taken.
    rows_before: u64,
    bytes: usize,
    limits: ChunkLimits,
    /// Positions of the captured columns that CDC does not record in every row.
    omittable: Vec<usize>,
    needs_mask: bool,
    /// The row's update mask, and whether it has one.
    mask: Vec<u8>,
    has_mask: bool,
    fault: Option<BatchError>,
    last_lsn: Option<Lsn>,
}

#[derive(Clone, Copy)]
struct ChunkLimits {
    rows: usize,
    bytes: usize,
}

impl ChunkBuilder {
    /// A builder for the rows of `shape`, whose commits are all in `commit_times`. A chunk is full with `max_rows` rows
    /// or `max_bytes` bytes.
    pub fn new(
        shape: &TableShape,
        commit_times: Arc<CommitTimes>,
        max_rows: usize,
        max_bytes: usize,
    ) -> Result<ChunkBuilder, BatchError> {
        let columns = shape
            .columns
            .iter()
            .map(|column| {
                Column::new(column, max_rows.min(65_536)).ok_or_else(|| BatchError::Arrow {
                    capture_instance: shape.capture_instance.clone(),
                    reason: format!("no builder for column {}", column.name),
                })
            })
            .collect::<Result<Vec<Column>, BatchError>>()?;
        Ok(ChunkBuilder {
            schema: chunk_schema(shape),
            capture_instance: shape.capture_instance.clone(),
            columns,
            meta: Meta::default(),
            commit_times,
            cursor: 0,
            rows: 0,
            rows_before: 0,
            bytes: 0,
            limits: ChunkLimits {
                rows: max_rows,
                bytes: max_bytes,
            },
            omittable: (0..shape.columns.len())
                .filter(|at| shape.columns[*at].recorded != Recorded::Always)
                .collect(),
            needs_mask: shape.needs_update_mask(),
            mask: Vec::new(),
            has_mask: false,
            fault: None,
            last_lsn: None,
        })
    }

    /// Rows since the last chunk.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether the chunk should be taken now: a limit is reached, or a fault waits. Never between the two rows of an
    /// update, so that a transform always sees both.
    pub fn is_full(&self) -> bool {
        (self.fault.is_some() || self.rows >= self.limits.rows || self.bytes >= self.limits.bytes)
            && self.meta.operations.last() != Some(&BEFORE_UPDATE)
    }

    /// Ends the chunk. `None` when there are no rows.
    pub fn take(&mut self) -> Result<Option<Chunk>, BatchError> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        if let Some(column) = self
            .columns
            .iter()
            .find(|column| matches!(&column.values, Values::Text(b) | Values::Binary(b) if b.overflowed))
        {
            return Err(BatchError::TooLarge {
                capture_instance: self.capture_instance.clone(),
                column: column.name.clone(),
            });
        }
        let (Some(first), Some(last)) = (self.meta.first, self.meta.current) else {
            return Ok(None);
        };
        let rows = std::mem::take(&mut self.rows);
        self.rows_before += rows as u64;
        let bytes = std::mem::take(&mut self.bytes) as u64;
        // The commit may go on in the next chunk, where it is the first text again.
        let mut meta = std::mem::take(&mut self.meta);
        let counts = meta.counts;
        let arrow = |error: arrow::error::ArrowError| BatchError::Arrow {
            capture_instance: self.capture_instance.clone(),
            reason: error.to_string(),
        };
        let mut arrays = meta.finish(&self.capture_instance.0, rows).map_err(arrow)?;
        for column in &mut self.columns {
            arrays.push(column.finish(rows).map_err(arrow)?);
        }
        let replaced = self
            .columns
            .iter_mut()
            .map(|column| std::mem::take(&mut column.replaced));
        let replaced = replaced.collect();
        let omitted: Vec<(usize, BooleanBuffer)> = self
            .omittable
            .iter()
            .map(|at| (*at, self.columns[*at].omitted.finish()))
            .filter(|(_, rows)| rows.count_set_bits() > 0)
            .collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(arrow)?;
        Ok(Some(Chunk {
            batch,
            first_lsn: first.0,
            last_lsn: last.0,
            first_commit_ts: first.1,
            last_commit_ts: last.1,
            deletes: counts[1],
            inserts: counts[2],
            updates: counts[4],
            replaced,
            omitted,
            bytes,
            memory: None,
        }))
    }

    /// A `bit`.
    pub fn push_bool(&mut self, column: usize, value: bool) {
        match self.values(column) {
            Some(Values::Boolean(values)) => values.append(value),
            _ => return self.mismatch(column, "bit"),
        }
        self.valid(column, 1);
    }

    /// A `tinyint` or `smallint`.
    pub fn push_i16(&mut self, column: usize, value: i16) {
        match self.values(column) {
            Some(Values::Int16(values)) => values.push(value),
            _ => return self.mismatch(column, "smallint"),
        }
        self.valid(column, 2);
    }

    /// An `int`.
    pub fn push_i32(&mut self, column: usize, value: i32) {
        match column {
            OPERATION => {
                if !(1..=4).contains(&value) {
                    return self.invalid(LEADING_COLUMNS[OPERATION]);
                }
                self.meta.operations.push(value);
                self.meta.counts[value as usize] += 1;
                return;
            }
            COMMAND_ID => {
                self.meta.command_ids.push(value);
                if let Some(nulls) = &mut self.meta.command_nulls {
                    nulls.append_non_null();
                }
                return;
            }
            _ => {}
        }
        match self.values(column) {
            Some(Values::Int32(values)) => values.push(value),
            _ => return self.mismatch(column, "int"),
        }
        self.valid(column, 4);
    }

    /// A `bigint`.
    pub fn push_i64(&mut self, column: usize, value: i64) {
        match self.values(column) {
            Some(Values::Int64(values)) => values.push(value),
            _ => return self.mismatch(column, "bigint"),
        }
        self.valid(column, 8);
    }

    /// A `real`.
    pub fn push_f32(&mut self, column: usize, value: f32) {
        match self.values(column) {
            Some(Values::Float32(values)) => values.push(value),
            _ => return self.mismatch(column, "real"),
        }
        self.valid(column, 4);
    }

    /// A `float`.
    pub fn push_f64(&mut self, column: usize, value: f64) {
        match self.values(column) {
            Some(Values::Float64(values)) => values.push(value),
            _ => return self.mismatch(column, "float"),
        }
        self.valid(column, 8);
    }

    /// A `decimal`, `money` or `smallmoney`: the value times 10^`wire_scale`. Where the column was widened on the source
    /// (`decimal(9,2)` to `decimal(12,2)`, `smallmoney` to `money`), the change table is converted in place, and a value
    /// can have more digits than the column had when it was opened. Neither Arrow nor Parquet would notice.
    pub fn push_decimal(&mut self, column: usize, value: i128, wire_scale: u8) {
        match self.values(column) {
            Some(Values::Decimal {
                values, scale, limit, ..
            }) if i16::from(*scale) == i16::from(wire_scale) => {
                if value.unsigned_abs() >= *limit {
                    return self.mismatch(column, "decimal of more digits");
                }
                values.push(value);
            }
            _ => return self.mismatch(column, "decimal of another scale"),
        }
        self.valid(column, 16);
    }

    /// A `date`: days since 1970-01-01.
    pub fn push_date(&mut self, column: usize, days: i32) {
        match self.values(column) {
            Some(Values::Date(values)) => values.push(days),
            _ => return self.mismatch(column, "date"),
        }
        self.valid(column, 4);
    }

    /// A `datetime`, `smalldatetime` or `datetime2`: microseconds since 1970-01-01, no zone.
    pub fn push_timestamp_ntz(&mut self, column: usize, micros: i64) {
        match self.values(column) {
            Some(Values::Timestamp(values, None)) => values.push(micros),
            _ => return self.mismatch(column, "datetime2"),
        }
        self.valid(column, 8);
    }

    /// A `datetimeoffset`: microseconds since 1970-01-01 in UTC.
    pub fn push_timestamp_utc(&mut self, column: usize, micros: i64) {
        match self.values(column) {
            Some(Values::Timestamp(values, Some(_))) => values.push(micros),
            _ => return self.mismatch(column, "datetimeoffset"),
        }
        self.valid(column, 8);
    }

    /// A text value in its wire encoding.
    pub fn push_text(&mut self, column: usize, bytes: &[u8], encoding: TextEncoding) {
        let replaced = match self.values(column) {
            Some(Values::Text(values)) => {
                let replaced = text::append(&mut values.bytes, bytes, encoding);
                values.end_value();
                replaced
            }
            _ => return self.mismatch(column, "text"),
        };
        self.valid(column, bytes.len());
        self.columns[column - LEADING_COLUMNS.len()].replaced += u64::from(replaced);
    }

    /// A binary value; the LSNs of the metadata columns and the update mask come this way too.
    pub fn push_bytes(&mut self, column: usize, bytes: &[u8]) {
        match column {
            START_LSN => return self.begin_row(bytes),
            SEQVAL => {
                return match Lsn::from_bytes(bytes) {
                    Some(seqval) => self.meta.seqvals.extend_from_slice(&seqval.text()),
                    None => self.invalid(LEADING_COLUMNS[SEQVAL]),
                };
            }
            _ if self.is_mask(column) => {
                self.has_mask = true;
                self.mask.clear();
                return self.mask.extend_from_slice(bytes);
            }
            _ => {}
        }
        match self.values(column) {
            Some(Values::Binary(values)) => {
                values.bytes.extend_from_slice(bytes);
                values.end_value();
            }
            _ => return self.mismatch(column, "varbinary"),
        }
        self.valid(column, bytes.len());
    }

    /// A NULL.
    pub fn push_null(&mut self, column: usize) {
        match column {
            COMMAND_ID => {
                let earlier = self.meta.command_ids.len();
                self.meta.command_ids.push(0);
                let nulls = self.meta.command_nulls.get_or_insert_with(|| {
                    let mut nulls = NullBufferBuilder::new(earlier + 1);
                    nulls.append_n_non_nulls(earlier);
                    nulls
                });
                nulls.append_null();
            }
            START_LSN => self.begin_row(&[]),
            SEQVAL | OPERATION => self.invalid(LEADING_COLUMNS[column]),
            _ if self.is_mask(column) => self.has_mask = false,
            _ => match self.columns.get_mut(column - LEADING_COLUMNS.len()) {
                Some(column) => column.push_null(),
                None => self.mismatch(column, "NULL"),
            },
        }
        self.bytes += 1;
    }

    /// A value that the column's Delta type cannot hold.
    pub fn push_out_of_range(&mut self, column: usize) {
        let (name, data_type) = self.describe(column);
        self.fault(BatchError::OutOfRange {
            at: self.here(),
            column: name,
            data_type,
        });
    }

    /// A text of a collation whose code page nobody knows.
    pub fn push_unknown_collation(&mut self, column: usize) {
        let (name, _) = self.describe(column);
        self.fault(BatchError::UnknownCollation {
            at: self.here(),
            column: name,
        });
    }

    /// The row is whole.
    pub fn end_row(&mut self) {
        let (meta, rows) = (&self.meta, self.rows + 1);
        if self.fault.is_none()
            && (meta.lsn_keys.len() != rows
                || meta.seqvals.len() != rows * LSN_TEXT_LEN
                || meta.operations.len() != rows
                || meta.command_ids.len() != rows)
        {
            self.invalid("set of metadata columns");
        }
        self.note_omitted();
        self.rows = rows;
        self.bytes += 32;
    }

    /// Marks the columns that this row lacks because CDC did not record them.
    fn note_omitted(&mut self) {
        if self.omittable.is_empty() {
            return;
        }
        let operation = self.meta.operations.last().copied().unwrap_or_default();
        let mut without_mask = false;
        for at in &self.omittable {
            let column = &mut self.columns[*at];
            // A value that is there was recorded, whatever the rule says.
            let omitted = column.is_null && column.recorded.is_omitted(operation, &self.mask);
            without_mask |= omitted && !self.has_mask && matches!(column.recorded, Recorded::Changed { .. });
            column.omitted.append(omitted);
        }
        if without_mask {
            self.invalid(UPDATE_MASK);
        }
    }

    fn is_mask(&self, column: usize) -> bool {
        self.needs_mask && column == LEADING_COLUMNS.len() + self.columns.len()
    }

    fn begin_row(&mut self, bytes: &[u8]) {
        let Some(lsn) = Lsn::from_bytes(bytes) else {
            // The row has no commit, and the last one is not its own.
            self.last_lsn = None;
            return self.invalid(LEADING_COLUMNS[START_LSN]);
        };
        let time = match self.meta.current {
            Some((current, time)) if current == lsn => time,
            _ => {
                let Some(time) = self.commit_times.find(lsn, &mut self.cursor) else {
                    return self.fault(BatchError::UnknownCommit {
                        capture_instance: self.capture_instance.clone(),
                        lsn,
                    });
                };
                self.meta.lsn_texts.extend_from_slice(&lsn.text());
                self.meta.current = Some((lsn, time));
                self.meta.first.get_or_insert((lsn, time));
                self.last_lsn = Some(lsn);
                time
            }
        };
        let key = self.meta.lsn_texts.len() / LSN_TEXT_LEN - 1;
        self.meta.lsn_keys.push(key as i32);
        self.meta.commit_ts.push(time.0);
    }

    fn values(&mut self, column: usize) -> Option<&mut Values> {
        let index = column.checked_sub(LEADING_COLUMNS.len())?;
        self.columns.get_mut(index).map(|column| &mut column.values)
    }

    fn valid(&mut self, column: usize, bytes: usize) {
        self.bytes += bytes;
        self.columns[column - LEADING_COLUMNS.len()].valid();
    }

    fn describe(&self, column: usize) -> (String, String) {
        match column
            .checked_sub(LEADING_COLUMNS.len())
            .and_then(|i| self.columns.get(i))
        {
            Some(column) => (
                column.name.clone(),
                format!("{} ({})", column.source_type, column.data_type),
            ),
            None => (format!("number {}", column + 1), "a metadata column".to_owned()),
        }
    }

    fn mismatch(&mut self, column: usize, found: &'static str) {
        let (column, expected) = self.describe(column);
        self.fault(BatchError::TypeChanged {
            at: self.here(),
            column,
            expected,
            found,
        });
    }

    fn invalid(&mut self, column: &'static str) {
        self.fault(BatchError::InvalidMetadata {
            at: self.here(),
            column,
        });
    }

    /// The row that is being pushed.
    fn here(&self) -> RowAt {
        RowAt {
            capture_instance: self.capture_instance.clone(),
            row: self.rows_before + self.rows as u64 + 1,
            lsn: self.last_lsn,
        }
    }

    fn fault(&mut self, fault: BatchError) {
        self.fault.get_or_insert(fault);
    }
}
