//! The column sink: typed values in, chunks out.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, NullBufferBuilder, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef, TimeUnit};

use super::column::{Column, Values};
use super::commit_times::CommitTimes;
use super::error::BatchError;
use super::text::{self, TextEncoding};
use crate::lsn::{LSN_TEXT_LEN, Lsn, UtcMicros};
use crate::shape::{META_BEFORE, TableShape};

/// The columns that every read selects before the captured ones, in this order. `__$command_id` may be missing on old
/// builds, where NULL is selected in its place.
pub const LEADING_COLUMNS: [&str; 4] = ["__$start_lsn", "__$command_id", "__$seqval", "__$operation"];

const START_LSN: usize = 0;
const COMMAND_ID: usize = 1;
const SEQVAL: usize = 2;
const OPERATION: usize = 3;

/// The row before an update; its partner follows it.
const BEFORE_UPDATE: i32 = 3;

/// A chunk of rows, ready for the transforms.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Metadata columns, then captured ones.
    pub batch: RecordBatch,
    /// Commit of the first row.
    pub first_lsn: Lsn,
    /// Commit of the last row.
    pub last_lsn: Lsn,
    /// Time of the first row's commit.
    pub first_commit_ts: UtcMicros,
    /// Time of the last row's commit.
    pub last_commit_ts: UtcMicros,
    /// Rows with operation 1.
    pub deletes: u64,
    /// Rows with operation 2.
    pub inserts: u64,
    /// Rows with operation 4: an update counts once.
    pub updates: u64,
    /// Text values in which an invalid sequence was replaced.
    pub replaced_texts: u64,
    /// Bytes of the rows, before encoding.
    pub bytes: u64,
}

/// Takes the values of change rows one by one, column by column, and cuts them into chunks. Column numbers are those of
/// the statement: the four [`LEADING_COLUMNS`], then the captured columns.
///
/// Pushes cannot fail, because the driver's callbacks cannot; the first fault is kept and [`ChunkBuilder::take`] returns
/// it.
pub struct ChunkBuilder {
    schema: SchemaRef,
    capture_instance: String,
    columns: Vec<Column>,
    meta: Meta,
    commit_times: Arc<CommitTimes>,
    cursor: usize,
    rows: usize,
    bytes: usize,
    limits: ChunkLimits,
    replaced_texts: u64,
    fault: Option<BatchError>,
    last_lsn: Option<Lsn>,
}

#[derive(Clone, Copy)]
struct ChunkLimits {
    rows: usize,
    bytes: usize,
}

/// The metadata of the chunk's rows.
#[derive(Default)]
struct Meta {
    /// Each distinct commit once: text and time.
    lsn_texts: Vec<u8>,
    lsn_keys: Vec<i32>,
    seqvals: Vec<u8>,
    operations: Vec<i32>,
    command_ids: Vec<i32>,
    command_nulls: Option<NullBufferBuilder>,
    commit_ts: Vec<i64>,
    current: Option<(Lsn, UtcMicros)>,
    first: Option<(Lsn, UtcMicros)>,
    counts: [u64; 5],
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
                Column::new(
                    &column.name,
                    &column.source_type,
                    &column.data_type,
                    max_rows.min(65_536),
                )
                .ok_or_else(|| BatchError::Arrow(format!("no builder for column {}", column.name)))
            })
            .collect::<Result<Vec<Column>, BatchError>>()?;
        Ok(ChunkBuilder {
            schema: chunk_schema(shape),
            capture_instance: shape.capture_instance.0.clone(),
            columns,
            meta: Meta::default(),
            commit_times,
            cursor: 0,
            rows: 0,
            bytes: 0,
            limits: ChunkLimits {
                rows: max_rows,
                bytes: max_bytes,
            },
            replaced_texts: 0,
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
                column: column.name.clone(),
            });
        }
        let (Some(first), Some(last)) = (self.meta.first, self.meta.current) else {
            return Ok(None);
        };
        let rows = std::mem::take(&mut self.rows);
        let bytes = std::mem::take(&mut self.bytes) as u64;
        // The commit may go on in the next chunk, where it is the first text again.
        let mut meta = std::mem::take(&mut self.meta);
        let counts = meta.counts;
        let arrow = |error: arrow::error::ArrowError| BatchError::Arrow(error.to_string());
        let mut arrays = meta.finish(&self.capture_instance, rows).map_err(arrow)?;
        for column in &mut self.columns {
            arrays.push(column.finish(rows).map_err(arrow)?);
        }
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
            replaced_texts: std::mem::take(&mut self.replaced_texts),
            bytes,
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

    /// A `decimal`, `money` or `smallmoney`: the value times 10^`scale`.
    pub fn push_decimal(&mut self, column: usize, value: i128, wire_scale: u8) {
        match self.values(column) {
            Some(Values::Decimal { values, scale, .. }) if i16::from(*scale) == i16::from(wire_scale) => {
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
        self.replaced_texts += u64::from(replaced);
        self.valid(column, bytes.len());
    }

    /// A binary value; the LSNs of the metadata columns come this way too.
    pub fn push_bytes(&mut self, column: usize, bytes: &[u8]) {
        match column {
            START_LSN => return self.begin_row(bytes),
            SEQVAL => {
                return match Lsn::from_bytes(bytes) {
                    Some(seqval) => self.meta.seqvals.extend_from_slice(&seqval.text()),
                    None => self.invalid(LEADING_COLUMNS[SEQVAL]),
                };
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
            START_LSN | SEQVAL | OPERATION => self.invalid(LEADING_COLUMNS[column]),
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
            column: name,
            lsn: self.last_lsn,
            data_type,
        });
    }

    /// A value of a type that no captured column can have.
    pub fn push_unexpected(&mut self, column: usize, found: &'static str) {
        self.mismatch(column, found);
    }

    /// The row is whole.
    pub fn end_row(&mut self) {
        self.rows += 1;
        self.bytes += 32;
        let meta = &self.meta;
        if self.fault.is_none()
            && (meta.lsn_keys.len() != self.rows
                || meta.seqvals.len() != self.rows * LSN_TEXT_LEN
                || meta.operations.len() != self.rows
                || meta.command_ids.len() != self.rows)
        {
            self.fault(BatchError::InvalidMetadata {
                column: "row",
                after: self.last_lsn,
            });
        }
    }

    fn begin_row(&mut self, bytes: &[u8]) {
        let Some(lsn) = Lsn::from_bytes(bytes) else {
            return self.invalid(LEADING_COLUMNS[START_LSN]);
        };
        let time = match self.meta.current {
            Some((current, time)) if current == lsn => time,
            _ => {
                let Some(time) = self.commit_times.find(lsn, &mut self.cursor) else {
                    return self.fault(BatchError::UnknownCommit { lsn });
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
        self.columns[column - LEADING_COLUMNS.len()].nulls.append_non_null();
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
            column,
            expected,
            found,
        });
    }

    fn invalid(&mut self, column: &'static str) {
        self.fault(BatchError::InvalidMetadata {
            column,
            after: self.last_lsn,
        });
    }

    fn fault(&mut self, fault: BatchError) {
        self.fault.get_or_insert(fault);
    }
}

impl Meta {
    fn finish(&mut self, capture_instance: &str, rows: usize) -> Result<Vec<ArrayRef>, arrow::error::ArrowError> {
        let instance = DictionaryArray::<Int32Type>::try_new(
            Int32Array::from(vec![0; rows]),
            Arc::new(StringArray::from(vec![capture_instance])),
        )?;
        let start_lsn = DictionaryArray::<Int32Type>::try_new(
            Int32Array::from(std::mem::take(&mut self.lsn_keys)),
            Arc::new(lsn_texts(std::mem::take(&mut self.lsn_texts))?),
        )?;
        let command_nulls = self.command_nulls.as_mut().and_then(NullBufferBuilder::finish);
        Ok(vec![
            Arc::new(instance),
            Arc::new(start_lsn),
            Arc::new(lsn_texts(std::mem::take(&mut self.seqvals))?),
            Arc::new(Int32Array::from(std::mem::take(&mut self.operations))),
            Arc::new(Int32Array::try_new(
                std::mem::take(&mut self.command_ids).into(),
                command_nulls,
            )?),
            Arc::new(TimestampMicrosecondArray::from(std::mem::take(&mut self.commit_ts))),
        ])
    }
}

/// LSN texts, one after the other, as an array.
fn lsn_texts(bytes: Vec<u8>) -> Result<StringArray, arrow::error::ArrowError> {
    let count = bytes.len() / LSN_TEXT_LEN;
    let offsets: Vec<i32> = (0..=count).map(|i| (i * LSN_TEXT_LEN) as i32).collect();
    StringArray::try_new(
        OffsetBuffer::new(ScalarBuffer::from(offsets)),
        Buffer::from_vec(bytes),
        None,
    )
}

/// The schema of a chunk.
fn chunk_schema(shape: &TableShape) -> SchemaRef {
    let dictionary = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let types = [
        dictionary(),
        dictionary(),
        DataType::Utf8,
        DataType::Int32,
        DataType::Int32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
    ];
    let meta = META_BEFORE
        .into_iter()
        .zip(types)
        .map(|(name, data_type)| Field::new(name, data_type, true));
    let captured = shape
        .columns
        .iter()
        .map(|column| Field::new(&column.name, column.data_type.clone(), true));
    Arc::new(Schema::new(meta.chain(captured).collect::<Vec<Field>>()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{Decimal128Type, TimestampMicrosecondType};

    use super::*;
    use crate::identity::CaptureInstance;
    use crate::shape::ColumnShape;

    fn shape(columns: &[(&str, DataType)]) -> TableShape {
        TableShape {
            schema: "dbo".to_owned(),
            table: "t".to_owned(),
            capture_instance: CaptureInstance("dbo_t".to_owned()),
            columns: columns
                .iter()
                .map(|(name, data_type)| ColumnShape {
                    name: (*name).to_owned(),
                    source_type: data_type.to_string(),
                    data_type: data_type.clone(),
                    key: None,
                })
                .collect(),
        }
    }

    fn lsn(n: u8) -> Lsn {
        Lsn([0, 0, 0, 1, 0, 0, 0, 0, 0, n])
    }

    fn builder(columns: &[(&str, DataType)], max_rows: usize) -> ChunkBuilder {
        let times = CommitTimes::new((1..=9).map(|n| (lsn(n), i64::from(n) * 1000)).collect(), 0, None);
        ChunkBuilder::new(&shape(columns), Arc::new(times), max_rows, usize::MAX).unwrap()
    }

    fn row(sink: &mut ChunkBuilder, commit: u8, operation: i32, value: Option<i32>) {
        sink.push_bytes(0, &lsn(commit).0);
        sink.push_i32(1, 1);
        sink.push_bytes(2, &lsn(commit).0);
        sink.push_i32(3, operation);
        match value {
            Some(value) => sink.push_i32(4, value),
            None => sink.push_null(4),
        }
        sink.end_row();
    }

    #[test]
    fn rows_become_a_chunk_with_commit_times() {
        let mut sink = builder(&[("v", DataType::Int32)], 100);
        row(&mut sink, 1, 2, Some(7));
        row(&mut sink, 1, 1, None);
        row(&mut sink, 3, 2, Some(9));
        let chunk = sink.take().unwrap().unwrap();
        assert_eq!(chunk.batch.num_rows(), 3);
        assert_eq!((chunk.first_lsn, chunk.last_lsn), (lsn(1), lsn(3)));
        assert_eq!((chunk.inserts, chunk.deletes, chunk.updates), (2, 1, 0));
        let times = chunk.batch.column(5).as_primitive::<TimestampMicrosecondType>();
        assert_eq!(times.values().as_ref(), [1000, 1000, 3000]);
        let start = arrow::compute::cast(chunk.batch.column(1), &DataType::Utf8).unwrap();
        assert_eq!(start.as_string::<i32>().value(2), "0x00000001000000000003");
        let values = chunk.batch.column(6).as_primitive::<arrow::datatypes::Int32Type>();
        assert_eq!((values.value(0), values.is_null(1), values.value(2)), (7, true, 9));
        assert!(sink.take().unwrap().is_none());
    }

    #[test]
    fn an_update_pair_is_never_cut() {
        let mut sink = builder(&[("v", DataType::Int32)], 1);
        row(&mut sink, 1, 3, Some(1));
        assert!(!sink.is_full());
        row(&mut sink, 1, 4, Some(2));
        assert!(sink.is_full());
        let chunk = sink.take().unwrap().unwrap();
        assert_eq!((chunk.batch.num_rows(), chunk.updates), (2, 1));
    }

    #[test]
    fn a_commit_that_goes_on_in_the_next_chunk_keeps_its_name() {
        let mut sink = builder(&[("v", DataType::Int32)], 1);
        row(&mut sink, 2, 2, Some(1));
        let first = sink.take().unwrap().unwrap();
        row(&mut sink, 2, 2, Some(2));
        let second = sink.take().unwrap().unwrap();
        assert_eq!(first.batch.column(1), second.batch.column(1));
        assert_eq!(second.first_lsn, lsn(2));
    }

    #[test]
    fn a_missing_command_id_is_null() {
        let mut sink = builder(&[("v", DataType::Int32)], 100);
        row(&mut sink, 1, 2, Some(7));
        sink.push_bytes(0, &lsn(1).0);
        sink.push_null(1);
        sink.push_bytes(2, &lsn(1).0);
        sink.push_i32(3, 2);
        sink.push_i32(4, 8);
        sink.end_row();
        let chunk = sink.take().unwrap().unwrap();
        assert!(chunk.batch.column(4).is_valid(0) && chunk.batch.column(4).is_null(1));
    }

    #[test]
    fn faults_name_the_column_and_are_kept() {
        let mut sink = builder(&[("v", DataType::Int32)], 100);
        row(&mut sink, 1, 2, Some(7));
        sink.push_i64(4, 1);
        assert!(sink.is_full());
        let error = sink.take().unwrap_err();
        assert!(error.to_string().contains("column v"), "{error}");

        let mut sink = builder(&[("v", DataType::Int32)], 100);
        row(&mut sink, 77, 2, Some(7));
        assert_eq!(sink.take().unwrap_err(), BatchError::UnknownCommit { lsn: lsn(77) });
    }

    #[test]
    fn decimals_keep_38_digits_and_refuse_another_scale() {
        let most = 10i128.pow(38) - 1;
        let mut sink = builder(&[("d", DataType::Decimal128(38, 10))], 100);
        for value in [most, -most] {
            sink.push_bytes(0, &lsn(1).0);
            sink.push_i32(1, 1);
            sink.push_bytes(2, &lsn(1).0);
            sink.push_i32(3, 2);
            sink.push_decimal(4, value, 10);
            sink.end_row();
        }
        let chunk = sink.take().unwrap().unwrap();
        let values = chunk.batch.column(6).as_primitive::<Decimal128Type>();
        assert_eq!(values.values().as_ref(), [most, -most]);
        sink.push_decimal(4, 1, 9);
        assert!(matches!(sink.take(), Err(BatchError::TypeChanged { .. })));
    }
}
