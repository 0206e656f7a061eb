//! The metadata columns of a chunk while it grows.

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, Int32Array, NullBufferBuilder, StringArray, TimestampMicrosecondArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef, TimeUnit};

use crate::lsn::{LSN_TEXT_LEN, Lsn, UtcMicros};
use crate::shape::{META_BEFORE, TableShape};

/// The metadata of the chunk's rows.
#[derive(Default)]
pub(super) struct Meta {
    /// Each distinct commit once: text and time.
    pub(super) lsn_texts: Vec<u8>,
    pub(super) lsn_keys: Vec<i32>,
    pub(super) seqvals: Vec<u8>,
    pub(super) operations: Vec<i32>,
    pub(super) command_ids: Vec<i32>,
    pub(super) command_nulls: Option<NullBufferBuilder>,
    pub(super) commit_ts: Vec<i64>,
    pub(super) current: Option<(Lsn, UtcMicros)>,
    pub(super) first: Option<(Lsn, UtcMicros)>,
    pub(super) counts: [u64; 5],
}

impl Meta {
    /// The six columns.
    pub(super) fn finish(
        &mut self,
        capture_instance: &str,
        rows: usize,
    ) -> Result<Vec<ArrayRef>, arrow::error::ArrowError> {
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
pub(super) fn chunk_schema(shape: &TableShape) -> SchemaRef {
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
