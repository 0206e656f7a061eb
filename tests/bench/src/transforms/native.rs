//! The same mask without a sandbox: the crate `sluice-mask` linked into this program, which makes one Arrow chunk of another
//! as a chain does.
//!
//! What is the same: the crate's code, the batch types of its SDK, the keyed hash (the host's own, with its texts), the rows that go in and the columns that come out. What a
//! native mask spares itself: an instance, the copies across the boundary, the sandbox's checks of what comes back, checks
//! for overflow and for the end of its time. Its batch is laid out by one copy of each column that it reads, because the SDK's
//! columns own their buffers; how long that takes is told apart.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use arrow::array::{Array, ArrayRef, AsArray, Date32Array, RecordBatch, StringArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType as ArrowType, Date32Type, Field, Schema};
use serde_json::Value;
use sluice::shape::{META_BEFORE, TableShape};
use sluice::transform::{TagText, Tagger};
use sluice_mask::Mask;
use sluice_plugin::testing::TestKeys;
use sluice_plugin::{
    Batch, BinaryView, Column, DataType, DigestText, Ff1Answer, Keyed, KeyedError, OutputSource, Plan, SourceField,
    Table, Transform,
};

use crate::customers::KEY;

/// The secret of [`KEY`], as the SDK's keys make it up.
pub(super) fn secret() -> Vec<u8> {
    format!("secret of {KEY}").into_bytes()
}

/// The SDK's native keys, with [`KEY`] granted, and the host's keyed hash.
#[derive(Debug)]
struct Keys(TestKeys);

impl Default for Keys {
    fn default() -> Keys {
        Keys(TestKeys::granting(&[KEY]))
    }
}

impl Keyed for Keys {
    fn hmac_sha256(&self, key: &str, context: &str, rows: u32, values: Column) -> Result<Vec<u8>, KeyedError> {
        self.0.hmac_sha256(key, context, rows, values)
    }

    fn hash_output(
        &self,
        _output: usize,
        key: &str,
        context: &str,
        text: &DigestText,
        rows: u32,
        values: Column,
    ) -> Result<Column, KeyedError> {
        let DigestText::Hex(digits) = text else {
            return Err(KeyedError::Argument);
        };
        if key != KEY {
            return Err(KeyedError::NotGranted);
        }
        let text = TagText::hex(*digits).ok_or(KeyedError::Argument)?;
        let view = BinaryView::new(&values, rows as usize).ok_or(KeyedError::Malformed)?;
        let tagger = Tagger::of_context(&secret(), context);
        let mut texts = Vec::with_capacity(view.len() * text.bytes());
        let mut offsets = Vec::with_capacity(view.len() + 1);
        offsets.push(0);
        for value in view.iter() {
            if let Some(value) = value {
                text.append(&tagger.tag(value), &mut texts);
            }
            offsets.push(i32::try_from(texts.len()).map_err(|_| KeyedError::Malformed)?);
        }
        Ok(Column {
            validity: values.validity,
            offsets,
            values: texts,
        })
    }

    fn ff1_encrypt(
        &self,
        key: &str,
        tweak: &[u8],
        alphabet: &str,
        rows: u32,
        values: Column,
    ) -> Result<Ff1Answer, KeyedError> {
        self.0.ff1_encrypt(key, tweak, alphabet, rows, values)
    }

    fn pick(&self, key: &str, context: &str, count: u32, rows: u32, values: Column) -> Result<Vec<u32>, KeyedError> {
        self.0.pick(key, context, count, rows, values)
    }
}

/// The mask, opened for a table.
pub(super) struct Native {
    mask: Mask<Keys>,
    plan: Plan,
    /// Where each column that is read stands in a chunk.
    reads: Vec<usize>,
    /// Where each column that passes stands in a chunk; `None` for one that is computed.
    outputs: Vec<(String, Option<usize>)>,
    /// How long columns were laid out for it.
    pub(super) laid_out: Duration,
}

impl Native {
    pub(super) fn open(shape: &TableShape, config: &Value) -> Result<Native> {
        let fields = shape.columns.iter().map(|column| {
            Ok::<_, anyhow::Error>(SourceField {
                name: column.name.clone(),
                data_type: wire_type(&column.data_type)?,
                nullable: true,
                source_type: column.source_type.clone(),
                key: column.key,
            })
        });
        let table = Table {
            schema: shape.schema.clone(),
            name: shape.table.clone(),
            capture_instance: shape.capture_instance.to_string(),
            fields: fields.collect::<Result<_>>()?,
        };
        let (mask, plan) = Mask::<Keys>::open(&table, &config.to_string())
            .map_err(|error| anyhow::anyhow!("the native mask does not open: {error:?}"))?;
        let position = |name: &str| {
            let at = shape.columns.iter().position(|column| column.name == name);
            Ok::<usize, anyhow::Error>(META_BEFORE.len() + at.with_context(|| format!("no column {name}"))?)
        };
        let reads: Vec<usize> = plan.reads.iter().map(|name| position(name)).collect::<Result<_>>()?;
        let outputs = plan.outputs.iter().map(|output| {
            let from = match &output.source {
                OutputSource::Pass(source) => Some(position(source)?),
                OutputSource::Computed(_) => None,
            };
            Ok::<_, anyhow::Error>((output.name.clone(), from))
        });
        Ok(Native {
            mask,
            outputs: outputs.collect::<Result<_>>()?,
            reads,
            plan,
            laid_out: Duration::ZERO,
        })
    }

    /// One chunk of another, with the metadata columns in front.
    pub(super) fn apply(&mut self, chunk: &RecordBatch) -> Result<RecordBatch> {
        let rows = chunk.num_rows();
        let began = Instant::now();
        let batch = Batch {
            rows: u32::try_from(rows)?,
            // All rows are inserts.
            operations: vec![2; rows],
            columns: self
                .reads
                .iter()
                .map(|at| laid_out(chunk.column(*at)))
                .collect::<Result<_>>()?,
        };
        self.laid_out += began.elapsed();
        let outcome = self.mask.apply(&batch)?;
        if outcome.dropped.is_some() || !outcome.rejects.is_empty() {
            bail!("the native mask drops or rejects rows");
        }
        let computed = self.plan.outputs.iter().filter_map(|output| match &output.source {
            OutputSource::Computed(field) => Some(field.data_type),
            OutputSource::Pass(_) => None,
        });
        let mut computed = computed.zip(outcome.columns);
        let mut fields: Vec<Field> = Vec::new();
        let mut columns: Vec<ArrayRef> = chunk.columns()[..META_BEFORE.len()].to_vec();
        let meta = chunk.schema();
        fields.extend(
            meta.fields()
                .iter()
                .take(META_BEFORE.len())
                .map(|field| field.as_ref().clone()),
        );
        for (name, from) in &self.outputs {
            let array = match from {
                Some(at) => Arc::clone(chunk.column(*at)),
                None => {
                    let (data_type, column) = computed.next().context("a column is missing")?;
                    array(data_type, column, rows)?
                }
            };
            fields.push(Field::new(name, array.data_type().clone(), true));
            columns.push(array);
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }
}

fn wire_type(data_type: &ArrowType) -> Result<DataType> {
    Ok(match data_type {
        ArrowType::Int32 => DataType::Int32,
        ArrowType::Int64 => DataType::Int64,
        ArrowType::Utf8 => DataType::Utf8,
        ArrowType::Date32 => DataType::Date,
        ArrowType::Timestamp(_, None) => DataType::TimestampNtz,
        ArrowType::Decimal128(precision, scale) => DataType::Decimal {
            precision: *precision,
            scale: u8::try_from(*scale)?,
        },
        other => bail!("the table has no column of type {other}"),
    })
}

/// The buffers of a column that starts at its buffers' beginnings.
fn laid_out(array: &ArrayRef) -> Result<Column> {
    let validity = array
        .nulls()
        .filter(|nulls| nulls.null_count() > 0)
        .map(|nulls| nulls.inner().sliced().as_slice()[..array.len().div_ceil(8)].to_vec());
    Ok(match array.data_type() {
        ArrowType::Utf8 => {
            let text = array.as_string::<i32>();
            Column {
                validity,
                offsets: text.value_offsets().to_vec(),
                values: text.value_data().to_vec(),
            }
        }
        ArrowType::Date32 => Column {
            validity,
            offsets: Vec::new(),
            values: array.as_primitive::<Date32Type>().values().inner().as_slice().to_vec(),
        },
        other => bail!("no column of type {other} is read"),
    })
}

fn array(data_type: DataType, column: Column, rows: usize) -> Result<ArrayRef> {
    let Column {
        validity,
        offsets,
        values,
    } = column;
    let nulls = validity.map(|bits| NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(bits), 0, rows)));
    Ok(match data_type {
        DataType::Utf8 => {
            let values = Buffer::from_vec(values);
            // SAFETY: the column is a `Utf8Builder`'s: offsets from 0 that never fall and end with the values, which are
            // made of `str`s and digits. A native mask has nobody else to believe.
            let array = unsafe {
                let offsets = OffsetBuffer::new_unchecked(ScalarBuffer::from(offsets));
                StringArray::new_unchecked(offsets, values, nulls)
            };
            Arc::new(array)
        }
        DataType::Date => {
            let (days, _) = values.as_chunks::<4>();
            let days: ScalarBuffer<i32> = days.iter().map(|day| i32::from_le_bytes(*day)).collect();
            Arc::new(Date32Array::try_new(days, nulls)?)
        }
        other => bail!("no column of type {other} is computed"),
    })
}
