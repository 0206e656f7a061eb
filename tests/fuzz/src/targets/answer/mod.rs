//! A component's answer: a plan and an outcome of arbitrary buffers through the host's checks. What they let through has
//! to be Arrow by Arrow's own full validation, and to survive what comes after: filters, casts, a Parquet file.

mod input;

use std::fmt::Debug;
use std::sync::Arc;

use arbitrary::Unstructured;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute;
use arrow::datatypes::{DataType, Decimal128Type, TimestampMicrosecondType};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use sluice::lake::{Column, FileEncoder, Layout, delta_type, refused_name};
use sluice::transform::hostile::{self, Refusal};

/// Bytes are taken for an answer.
pub fn run(data: &[u8]) {
    judge(data);
}

/// The batch that the answer in these bytes makes; `None` when the host refuses it.
pub fn judge(data: &[u8]) -> Option<RecordBatch> {
    let case = input::case(&mut Unstructured::new(data)).ok()?;
    let rows = case.input.num_rows();
    let accepted = match hostile::accept(&case.input, &case.plan, case.outcome) {
        Ok(accepted) => accepted,
        Err(refusal) => {
            // The input is in order, so whatever is wrong has to be seen before a batch is made.
            assert!(!matches!(refusal, Refusal::Chunk(_)), "{refusal:?}");
            return None;
        }
    };
    let batch = accepted.batch;
    match accepted.origin {
        Some(origin) => {
            assert_eq!(origin.len(), batch.num_rows());
            assert!(origin.is_sorted_by(|a, b| a < b), "{origin:?}");
            assert!(origin.last().is_none_or(|last| (*last as usize) < rows), "{origin:?}");
        }
        None => assert_eq!(batch.num_rows(), rows),
    }
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        assert_eq!(column.len(), batch.num_rows());
        assert!(field.is_nullable() || column.null_count() == 0);
        assert!(refused_name(field.name()).is_none(), "{:?}", field.name());
        assert!(delta_type(field.data_type()).is_some(), "{}", field.data_type());
        check(column);
        let odd: BooleanArray = (0..column.len()).map(|row| Some(row % 2 == 1)).collect();
        let filtered = sure("filter", compute::filter(column, &odd));
        assert_eq!(filtered.len(), column.len() / 2);
        check(&filtered);
        check(&as_text(column));
    }
    round_trip(&batch);
    Some(batch)
}

/// Arrow's own opinion.
fn check(array: &ArrayRef) {
    sure("validate", array.to_data().validate_full());
    if let DataType::Decimal128(precision, _) = array.data_type() {
        let decimals = array.as_primitive::<Decimal128Type>();
        sure("validate", decimals.validate_decimal_precision(*precision));
    }
}

/// The column as text, as the leak check and messages make it.
fn as_text(array: &ArrayRef) -> ArrayRef {
    let local = match array.data_type() {
        // The name of a zone needs a database of zones.
        DataType::Timestamp(_, Some(_)) => {
            let instants = array.as_primitive::<TimestampMicrosecondType>().clone();
            Arc::new(instants.with_timezone_opt(None::<Arc<str>>))
        }
        _ => Arc::clone(array),
    };
    sure("cast", compute::cast(&local, &DataType::Utf8))
}

/// Writes the batch as the lake does, twice over in one file, and reads it back.
fn round_trip(batch: &RecordBatch) {
    let columns = batch.schema_ref().fields().iter();
    let columns: Vec<Column> = columns
        .map(|field| Column::new(field.name(), field.data_type().clone(), "").with_statistics())
        .collect();
    let layout = Layout::new("dbo_t", columns.into());
    let mut file = sure("start", FileEncoder::new(&layout, batch.columns(), Vec::new()));
    for _ in 0..2 {
        sure("write", file.write(batch.columns().to_vec()));
    }
    let (file, rows, statistics) = sure("finish", file.finish());
    assert_eq!(rows, 2 * batch.num_rows() as u64);
    let statistics: serde_json::Value = sure("read statistics", serde_json::from_str(&statistics));
    assert_eq!(statistics["numRecords"].as_u64(), Some(rows));

    let reader = sure("open", ParquetRecordBatchReaderBuilder::try_new(Bytes::from(file)));
    let schema = Arc::clone(reader.schema());
    let parts: Vec<RecordBatch> = sure("build", reader.build()).map(|part| sure("read", part)).collect();
    let read = sure("join", compute::concat_batches(&schema, &parts));
    let written = sure("join", compute::concat_batches(batch.schema_ref(), [batch, batch]));
    assert_eq!(read.num_columns(), written.num_columns());
    for (field, (read, written)) in schema.fields().iter().zip(read.columns().iter().zip(written.columns())) {
        // Readers do not see that a column was a dictionary in memory.
        let written = match written.data_type() {
            DataType::Dictionary(_, values) => sure("decode", compute::cast(written, values)),
            _ => Arc::clone(written),
        };
        assert_eq!(field.data_type(), written.data_type(), "{}", field.name());
        assert!(
            read.as_ref() == written.as_ref(),
            "{}: {read:?} is not {written:?}",
            field.name()
        );
    }
}

#[expect(clippy::panic, reason = "a target says what it found by panicking")]
fn sure<T, E: Debug>(doing: &str, result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("what was accepted cannot be brought to {doing}: {error:?}"),
    }
}
