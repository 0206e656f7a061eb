//! One captured column while its chunk grows.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int16Array,
    Int32Array, Int64Array, StringArray, TimestampMicrosecondArray,
};
use arrow::array::{BooleanBufferBuilder, NullBufferBuilder};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::error::ArrowError;

use crate::shape::{ColumnShape, Recorded};

/// The values so far, in the layout of the column's Arrow type.
pub(super) enum Values {
    Boolean(BooleanBufferBuilder),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Decimal {
        values: Vec<i128>,
        precision: u8,
        scale: i8,
        /// 10^precision: the first magnitude that does not fit.
        limit: u128,
    },
    Date(Vec<i32>),
    /// With the zone of the Arrow type, when it has one.
    Timestamp(Vec<i64>, Option<Arc<str>>),
    Text(Bytes),
    Binary(Bytes),
}

/// Variable-length values: where each ends, and the bytes.
pub(super) struct Bytes {
    pub(super) offsets: Vec<i32>,
    pub(super) bytes: Vec<u8>,
    /// The bytes outgrew 32-bit offsets.
    pub(super) overflowed: bool,
}

impl Bytes {
    fn new(rows: usize) -> Bytes {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Bytes {
            offsets,
            bytes: Vec::new(),
            overflowed: false,
        }
    }

    /// Ends a value: everything since the last end belongs to it.
    pub(super) fn end_value(&mut self) {
        match i32::try_from(self.bytes.len()) {
            Ok(end) => self.offsets.push(end),
            Err(_) => {
                self.overflowed = true;
                self.offsets.push(i32::MAX);
            }
        }
    }
}

/// A column of the chunk that is being built.
pub(super) struct Column {
    pub(super) name: String,
    pub(super) source_type: String,
    pub(super) data_type: DataType,
    pub(super) values: Values,
    pub(super) nulls: NullBufferBuilder,
    /// Texts in which an invalid sequence was replaced.
    pub(super) replaced: u64,
    pub(super) recorded: Recorded,
    /// The value that came last is NULL.
    pub(super) is_null: bool,
    /// Rows for which CDC did not record the column; used where there can be such.
    pub(super) omitted: BooleanBufferBuilder,
}

impl Column {
    /// A column of one of the types that the reader produces; `None` for any other.
    pub(super) fn new(shape: &ColumnShape, rows: usize) -> Option<Column> {
        let values = match &shape.data_type {
            DataType::Boolean => Values::Boolean(BooleanBufferBuilder::new(rows)),
            DataType::Int16 => Values::Int16(Vec::with_capacity(rows)),
            DataType::Int32 => Values::Int32(Vec::with_capacity(rows)),
            DataType::Int64 => Values::Int64(Vec::with_capacity(rows)),
            DataType::Float32 => Values::Float32(Vec::with_capacity(rows)),
            DataType::Float64 => Values::Float64(Vec::with_capacity(rows)),
            DataType::Decimal128(precision, scale) => Values::Decimal {
                values: Vec::with_capacity(rows),
                precision: *precision,
                scale: *scale,
                limit: 10u128.checked_pow(u32::from(*precision))?,
            },
            DataType::Date32 => Values::Date(Vec::with_capacity(rows)),
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                Values::Timestamp(Vec::with_capacity(rows), zone.clone())
            }
            DataType::Utf8 => Values::Text(Bytes::new(rows)),
            DataType::Binary => Values::Binary(Bytes::new(rows)),
            _ => return None,
        };
        Some(Column {
            name: shape.name.clone(),
            source_type: shape.source_type.clone(),
            data_type: shape.data_type.clone(),
            values,
            nulls: NullBufferBuilder::new(rows),
            replaced: 0,
            recorded: shape.recorded,
            is_null: false,
            omitted: BooleanBufferBuilder::new(0),
        })
    }

    pub(super) fn push_null(&mut self) {
        match &mut self.values {
            Values::Boolean(values) => values.append(false),
            Values::Int16(values) => values.push(0),
            Values::Int32(values) | Values::Date(values) => values.push(0),
            Values::Int64(values) | Values::Timestamp(values, _) => values.push(0),
            Values::Float32(values) => values.push(0.0),
            Values::Float64(values) => values.push(0.0),
            Values::Decimal { values, .. } => values.push(0),
            Values::Text(values) | Values::Binary(values) => values.end_value(),
        }
        self.nulls.append_null();
        self.is_null = true;
    }

    /// The value that was just added is there.
    pub(super) fn valid(&mut self) {
        self.nulls.append_non_null();
        self.is_null = false;
    }

    /// Ends the chunk: its column, and an empty one in its place.
    pub(super) fn finish(&mut self, rows: usize) -> Result<ArrayRef, ArrowError> {
        let nulls = self.nulls.finish();
        self.nulls = NullBufferBuilder::new(rows);
        Ok(match &mut self.values {
            Values::Boolean(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::Int16(values) => Arc::new(Int16Array::try_new(taken(values), nulls)?),
            Values::Int32(values) => Arc::new(Int32Array::try_new(taken(values), nulls)?),
            Values::Int64(values) => Arc::new(Int64Array::try_new(taken(values), nulls)?),
            Values::Float32(values) => Arc::new(Float32Array::try_new(taken(values), nulls)?),
            Values::Float64(values) => Arc::new(Float64Array::try_new(taken(values), nulls)?),
            Values::Decimal {
                values,
                precision,
                scale,
                ..
            } => {
                Arc::new(Decimal128Array::try_new(taken(values), nulls)?.with_precision_and_scale(*precision, *scale)?)
            }
            Values::Date(values) => Arc::new(Date32Array::try_new(taken(values), nulls)?),
            Values::Timestamp(values, zone) => {
                Arc::new(TimestampMicrosecondArray::try_new(taken(values), nulls)?.with_timezone_opt(zone.clone()))
            }
            Values::Text(values) => {
                let (offsets, bytes) = taken_bytes(values);
                Arc::new(StringArray::try_new(offsets, bytes, nulls)?)
            }
            Values::Binary(values) => {
                let (offsets, bytes) = taken_bytes(values);
                Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?)
            }
        })
    }
}

/// Moves the values out and leaves room for as many again: the next chunk is about as large.
fn taken<T: arrow::datatypes::ArrowNativeType>(values: &mut Vec<T>) -> ScalarBuffer<T> {
    let next = Vec::with_capacity(values.len());
    ScalarBuffer::from(std::mem::replace(values, next))
}

fn taken_bytes(values: &mut Bytes) -> (OffsetBuffer<i32>, Buffer) {
    let mut next = Bytes::new(values.offsets.len());
    next.bytes.reserve(values.bytes.len());
    let done = std::mem::replace(values, next);
    (
        OffsetBuffer::new(ScalarBuffer::from(done.offsets)),
        Buffer::from_vec(done.bytes),
    )
}
