//! A stream's rows in the facts table.

use std::collections::BTreeMap;
use std::path::Path;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType};
use serde_json::Value;

use super::FactsRow;
use crate::lake::{DeltaLog, LakeError, Location, read_all};
use crate::lsn::UtcMicros;

/// What the facts table says of one stream.
#[derive(Debug, Default)]
pub(crate) struct FactsRows {
    /// The rows of batches; more than one for a number is a fault.
    pub(crate) batches: BTreeMap<i64, Vec<FactsRow>>,
    /// The rows of events, in commit order of their ends.
    pub(crate) events: Vec<FactsRow>,
    /// Whether other streams wrote to the same target.
    pub(crate) shares_target: bool,
}

/// All rows of a facts table; none when there is no table.
pub(crate) async fn read_facts(location: &Path) -> Result<Vec<RecordBatch>, LakeError> {
    match DeltaLog::open(&Location::parse(&location.display().to_string())?).await? {
        Some(log) => Ok(read_all(&log).await?.0),
        None => Ok(Vec::new()),
    }
}

impl FactsRows {
    /// The rows of `app_id` among all of a table.
    pub(crate) fn of(batches: &[RecordBatch], app_id: &str, target: &str) -> Result<FactsRows, LakeError> {
        let mut found = FactsRows::default();
        for batch in batches {
            found.take(batch, app_id, target)?;
        }
        found.events.sort_by_key(|row| row.end_lsn);
        Ok(found)
    }

    /// The row of a batch.
    pub(crate) fn batch(&self, batch: i64) -> Option<&FactsRow> {
        self.batches.get(&batch)?.first()
    }

    fn take(&mut self, batch: &RecordBatch, app_id: &str, target: &str) -> Result<(), LakeError> {
        let columns: Vec<(String, ArrayRef)> = batch
            .schema()
            .fields()
            .iter()
            .zip(batch.columns())
            .map(|(field, array)| (field.name().clone(), plain(array)))
            .collect();
        let text = |name: &str, row: usize| -> Option<Value> {
            let (_, array) = columns.iter().find(|(column, _)| column == name)?;
            Some(value(array, row))
        };
        for row in 0..batch.num_rows() {
            if text("app_id", row) != Some(app_id.into()) {
                self.shares_target |= text("target", row) == Some(target.into());
                continue;
            }
            let object = columns
                .iter()
                .filter(|(name, _)| name != "written_at")
                .map(|(name, array)| (name.clone(), value(array, row)))
                .collect();
            let facts: FactsRow = serde_json::from_value(Value::Object(object)).map_err(|error| LakeError::Chunk {
                table: "facts".to_owned(),
                reason: format!("a facts row of {app_id} cannot be read ({error})"),
            })?;
            match facts.batch_id {
                Some(batch) if facts.event.is_none() => self.batches.entry(batch).or_default().push(facts),
                _ => self.events.push(facts),
            }
        }
        Ok(())
    }
}

/// Another writer may have stored a column in another form: each becomes one of four.
fn plain(array: &ArrayRef) -> ArrayRef {
    let wanted = match array.data_type() {
        DataType::Timestamp(..) => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Float32 | DataType::Float64 => DataType::Float64,
        kind if kind.is_integer() => DataType::Int64,
        _ => DataType::Utf8,
    };
    cast(array, &wanted).unwrap_or_else(|_| array.clone())
}

/// A value in the form that JSON has of it. Instants get milliseconds, as in the checkpoint.
fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        DataType::Timestamp(..) => UtcMicros(array.as_primitive::<TimestampMicrosecondType>().value(row))
            .to_string()
            .into(),
        _ => Value::Null,
    }
}
