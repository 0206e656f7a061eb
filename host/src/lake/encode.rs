//! Record batches to Parquet, with the statistics that readers use and no others.
//!
//! Statistics repeat values of the rows in places that outlive them (footers, the Delta log, checkpoints), so they are
//! made from the written columns alone and only for columns that ask for them, and never for strings of the user or binary.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, Int32Array, PrimitiveArray, RecordBatch, StringArray};
use arrow::compute;
use arrow::datatypes::{
    ArrowNativeType, ArrowNumericType, DataType, Date32Type, Field, Int8Type, Int16Type, Int32Type, Int64Type, Schema,
    SchemaRef, TimeUnit, TimestampMicrosecondType,
};
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use super::LakeError;
use super::columns::Column;

/// Most bytes of encoded rows that a file being written holds in memory before they go out as a row group.
pub const ROW_GROUP_BYTES: usize = 32 << 20;
const ROW_GROUP_ROWS: usize = 1 << 20;
/// A column whose distinct values need more than this is written plainly for the rest of its row group: a dictionary of
/// unique values costs a hash for every row and saves nothing.
const DICTIONARY_BYTES: usize = 64 << 10;

/// How a table's files are written: the same for all of them.
#[derive(Clone, Debug)]
pub struct Layout {
    table: String,
    columns: Arc<[Column]>,
}

impl Layout {
    /// For a table of these columns.
    pub fn new(table: &str, columns: Arc<[Column]>) -> Layout {
        Layout {
            table: table.to_owned(),
            columns,
        }
    }

    /// The table's columns in file order.
    pub fn columns(&self) -> &Arc<[Column]> {
        &self.columns
    }

    /// How errors call the table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The schema of a file whose first batch has these arrays. Dictionaries are taken as they come.
    pub fn file_schema(&self, arrays: &[ArrayRef]) -> SchemaRef {
        let fields = self.columns.iter().zip(arrays);
        Arc::new(Schema::new(
            fields
                .map(|(column, array)| Field::new(&column.name, array.data_type().clone(), true))
                .collect::<Vec<_>>(),
        ))
    }

    fn properties(&self) -> WriterProperties {
        let mut builder = WriterProperties::builder()
            .set_created_by(concat!("sluice version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
            .set_dictionary_page_size_limit(DICTIONARY_BYTES)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true);
        for column in self.columns.iter() {
            let path = ColumnPath::new(vec![column.name.clone()]);
            if has_statistics(column) {
                builder = builder.set_column_statistics_enabled(path.clone(), EnabledStatistics::Chunk);
            }
            if !worth_a_dictionary(column) {
                builder = builder.set_column_dictionary_enabled(path, false);
            }
        }
        builder.build()
    }
}

/// Whether a file records the smallest and largest value of a column: it asked, and the type has no values that could be
/// a person's text or bytes. Our own LSN columns are the only strings.
fn has_statistics(column: &Column) -> bool {
    let own_text = column.name == "_start_lsn" && is_text(&column.data_type);
    column.statistics && (own_text || is_ordered_number(&column.data_type))
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        other => *other == DataType::Utf8,
    }
}

fn is_ordered_number(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::Timestamp(TimeUnit::Microsecond, None)
    )
}

fn worth_a_dictionary(column: &Column) -> bool {
    // Nearly every row has its own.
    if column.name == "_seqval" {
        return false;
    }
    !matches!(
        column.data_type,
        DataType::Float32 | DataType::Float64 | DataType::Binary | DataType::LargeBinary | DataType::Boolean
    )
}

/// One Parquet file being written into `W`.
pub struct FileEncoder<W: std::io::Write + Send> {
    writer: ArrowWriter<W>,
    layout: Layout,
    schema: SchemaRef,
    statistics: Statistics,
}

impl<W: std::io::Write + Send> FileEncoder<W> {
    /// Starts a file whose batches look like `arrays`.
    pub fn new(layout: &Layout, arrays: &[ArrayRef], sink: W) -> Result<FileEncoder<W>, LakeError> {
        let schema = layout.file_schema(arrays);
        let options = ArrowWriterOptions::new()
            .with_properties(layout.properties())
            // Readers shall see the table's types, not that a column was a dictionary in our memory.
            .with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(sink, schema.clone(), options)
            .map_err(|source| LakeError::parquet("start", &layout.table, source))?;
        Ok(FileEncoder {
            writer,
            layout: layout.clone(),
            schema,
            statistics: Statistics::new(layout),
        })
    }

    /// Appends rows. CPU work, and bytes to the sink when a row group is full.
    pub fn write(&mut self, arrays: Vec<ArrayRef>) -> Result<(), LakeError> {
        let arrays = self.as_first_batch(arrays)?;
        self.statistics.add(&arrays);
        let batch = RecordBatch::try_new(self.schema.clone(), arrays).map_err(|error| self.misfit(&error))?;
        self.writer
            .write(&batch)
            .map_err(|source| LakeError::parquet("write", &self.layout.table, source))
    }

    /// Bytes of the file so far, the row group in memory (estimated) included.
    pub fn size(&self) -> usize {
        self.writer.bytes_written() + self.writer.in_progress_size()
    }

    /// What the rows are written to.
    pub fn sink_mut(&mut self) -> &mut W {
        self.writer.inner_mut()
    }

    /// Writes what is left and the footer. Gives the sink, the number of rows and the file's `stats` for the log.
    pub fn finish(self) -> Result<(W, u64, String), LakeError> {
        let failed = |source| LakeError::parquet("finish", &self.layout.table, source);
        let rows = self.statistics.rows;
        let stats = self.statistics.to_json();
        // This writes the last row group and the footer.
        let sink = self.writer.into_inner().map_err(failed)?;
        Ok((sink, rows, stats))
    }

    /// A file has one Arrow type per column: a later batch that brings a column as a dictionary, or no longer, is cast.
    fn as_first_batch(&self, arrays: Vec<ArrayRef>) -> Result<Vec<ArrayRef>, LakeError> {
        arrays
            .into_iter()
            .zip(self.schema.fields())
            .map(|(array, field)| match array.data_type() == field.data_type() {
                true => Ok(array),
                false => compute::cast(&array, field.data_type()).map_err(|error| self.misfit(&error)),
            })
            .collect()
    }

    fn misfit(&self, error: &arrow::error::ArrowError) -> LakeError {
        // Only the kind: a cast error can repeat a value.
        let kind = match error {
            arrow::error::ArrowError::CastError(_) => "a column has another type than before",
            _ => "columns have different lengths or types than before",
        };
        LakeError::Chunk {
            table: self.layout.table.clone(),
            reason: kind.to_owned(),
        }
    }
}

/// Numbers of a file for its `add` action.
struct Statistics {
    rows: u64,
    columns: Vec<ColumnStatistics>,
}

struct ColumnStatistics {
    name: String,
    nulls: Option<u64>,
    kept: bool,
    range: Option<(Bound, Bound)>,
}

#[derive(Clone, PartialEq, PartialOrd)]
enum Bound {
    Number(i64),
    Day(i32),
    Micros(i64),
    Text(String),
}

impl Statistics {
    fn new(layout: &Layout) -> Statistics {
        let columns = layout.columns.iter().map(|column| ColumnStatistics {
            name: column.name.clone(),
            nulls: (!column.data_type.is_nested()).then_some(0),
            kept: has_statistics(column),
            range: None,
        });
        Statistics {
            rows: 0,
            columns: columns.collect(),
        }
    }

    fn add(&mut self, arrays: &[ArrayRef]) {
        self.rows += arrays.first().map_or(0, |array| array.len() as u64);
        for (column, array) in self.columns.iter_mut().zip(arrays) {
            if let Some(nulls) = &mut column.nulls {
                *nulls += array.logical_null_count() as u64;
            }
            if !column.kept {
                continue;
            }
            if let Some((low, high)) = range_of(array) {
                column.range = Some(match column.range.take() {
                    None => (low, high),
                    Some((l, h)) => (if low < l { low } else { l }, if high > h { high } else { h }),
                });
            }
        }
    }

    fn to_json(&self) -> String {
        let mut low = serde_json::Map::new();
        let mut high = serde_json::Map::new();
        let mut nulls = serde_json::Map::new();
        for column in &self.columns {
            if let Some(count) = column.nulls {
                nulls.insert(column.name.clone(), count.into());
            }
            if let Some((l, h)) = column.range.as_ref().and_then(|(l, h)| l.json().zip(h.json())) {
                low.insert(column.name.clone(), l);
                high.insert(column.name.clone(), h);
            }
        }
        serde_json::json!({ "numRecords": self.rows, "minValues": low, "maxValues": high, "nullCount": nulls })
            .to_string()
    }
}

impl Bound {
    fn json(&self) -> Option<serde_json::Value> {
        Some(match self {
            Bound::Number(number) => (*number).into(),
            Bound::Text(text) => text.as_str().into(),
            Bound::Day(day) => {
                let date = chrono::DateTime::from_timestamp(i64::from(*day) * 86_400, 0)?;
                // Years beyond four digits have no form that every reader takes.
                in_four_digits(date)?.format("%Y-%m-%d").to_string().into()
            }
            Bound::Micros(micros) => {
                let instant = chrono::DateTime::from_timestamp_micros(*micros)?;
                in_four_digits(instant)?
                    .format("%Y-%m-%dT%H:%M:%S%.6f")
                    .to_string()
                    .into()
            }
        })
    }
}

fn in_four_digits(instant: chrono::DateTime<chrono::Utc>) -> Option<chrono::DateTime<chrono::Utc>> {
    use chrono::Datelike as _;
    (0..=9999).contains(&instant.year()).then_some(instant)
}

fn range_of(array: &ArrayRef) -> Option<(Bound, Bound)> {
    match array.data_type() {
        DataType::Int8 => numbers::<Int8Type>(array),
        DataType::Int16 => numbers::<Int16Type>(array),
        DataType::Int32 => numbers::<Int32Type>(array),
        DataType::Int64 => numbers::<Int64Type>(array),
        DataType::Date32 => {
            let array: &PrimitiveArray<Date32Type> = array.as_primitive();
            Some((Bound::Day(compute::min(array)?), Bound::Day(compute::max(array)?)))
        }
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            let array: &PrimitiveArray<TimestampMicrosecondType> = array.as_primitive();
            Some((Bound::Micros(compute::min(array)?), Bound::Micros(compute::max(array)?)))
        }
        DataType::Utf8 => text_range(array.as_string::<i32>().iter().flatten()),
        DataType::Dictionary(key, _) => match key.as_ref() {
            DataType::Int32 => dictionary_range(array.as_dictionary::<Int32Type>()),
            _ => {
                let plain = compute::cast(array, &DataType::Utf8).ok()?;
                text_range(plain.as_string::<i32>().iter().flatten())
            }
        },
        _ => None,
    }
}

fn numbers<T: ArrowNumericType>(array: &ArrayRef) -> Option<(Bound, Bound)>
where
    T::Native: Into<i64>,
{
    let array: &PrimitiveArray<T> = array.as_primitive();
    Some((
        Bound::Number(compute::min(array)?.into()),
        Bound::Number(compute::max(array)?.into()),
    ))
}

/// Only values that a row has: a dictionary may hold others.
fn dictionary_range(array: &DictionaryArray<Int32Type>) -> Option<(Bound, Bound)> {
    let values = array.values().as_string_opt::<i32>()?;
    let mut used = vec![false; values.len()];
    for key in array.keys().iter().flatten() {
        if let Some(slot) = used.get_mut(key.as_usize()) {
            *slot = true;
        }
    }
    let rows = used.iter().enumerate().filter(|(_, used)| **used);
    text_range(rows.filter(|(i, _)| values.is_valid(*i)).map(|(i, _)| values.value(i)))
}

fn text_range<'a>(values: impl Iterator<Item = &'a str>) -> Option<(Bound, Bound)> {
    let mut range: Option<(&str, &str)> = None;
    for value in values {
        range = Some(match range {
            None => (value, value),
            Some((low, high)) => (low.min(value), high.max(value)),
        });
    }
    range.map(|(low, high)| (Bound::Text(low.to_owned()), Bound::Text(high.to_owned())))
}

/// A column that has one value in every row.
pub fn constant_i32(value: Option<i32>, rows: usize) -> ArrayRef {
    match value {
        Some(value) => Arc::new(Int32Array::from_value(value, rows)),
        None => Arc::new(Int32Array::new_null(rows)),
    }
}

/// A text column that is NULL in every row.
pub fn null_text(rows: usize) -> ArrayRef {
    Arc::new(StringArray::new_null(rows))
}

/// Positions of a batch's columns by name.
pub fn positions(batch: &RecordBatch) -> HashMap<&str, usize> {
    let schema = batch.schema_ref();
    schema
        .fields()
        .iter()
        .enumerate()
        .map(|(i, field)| (field.name().as_str(), i))
        .collect()
}
