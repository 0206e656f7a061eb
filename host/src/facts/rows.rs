//! A stream's rows in the facts table.

use std::collections::{BTreeMap, HashSet};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType};
use serde_json::{Map, Value};

use super::FactsRow;
use super::columns::columns;
use crate::lake::{DeltaLog, LakeError, read_all};
use crate::lsn::UtcMicros;
use crate::storage::Place;

/// What the facts table says of one stream.
#[derive(Debug, Default)]
pub(crate) struct FactsRows {
    /// The rows of batches; more than one for a number is a fault.
    pub(crate) batches: BTreeMap<i64, Vec<FactsRow>>,
    /// The rows of events, in commit order of their ends.
    pub(crate) events: Vec<FactsRow>,
    /// Rows that are not as any sluice writes them: their batch, where they name one, and what is wrong.
    pub(crate) unreadable: Vec<(Option<i64>, String)>,
    /// Whether other streams wrote to the same target.
    pub(crate) shares_target: bool,
}

/// All rows of a facts table; none when there is no table.
pub(crate) async fn read_facts(location: &Place) -> Result<Vec<RecordBatch>, LakeError> {
    match DeltaLog::open(location).await? {
        Some(log) => Ok(read_all(&log).await?.0),
        None => Ok(Vec::new()),
    }
}

/// The streams that have rows of batches among all of a table.
pub(crate) fn streams_with_batches(batches: &[RecordBatch]) -> HashSet<String> {
    let mut streams = HashSet::new();
    for batch in batches {
        let column = |name: &str| batch.column_by_name(name).map(plain);
        let (Some(app_ids), Some(numbers)) = (column("app_id"), column("batch_id")) else {
            continue;
        };
        let events = column("event");
        for row in (0..batch.num_rows()).filter(|row| numbers.is_valid(*row)) {
            let is_event = events.as_ref().is_some_and(|events| events.is_valid(row));
            if let (false, Value::String(app_id)) = (is_event, value(&app_ids, row)) {
                streams.insert(app_id);
            }
        }
    }
    streams
}

impl FactsRows {
    /// The rows of `app_id` among all of a table.
    pub(crate) fn of(batches: &[RecordBatch], app_id: &str, target: &str) -> FactsRows {
        let mut found = FactsRows::default();
        for batch in batches {
            found.take(batch, app_id, target);
        }
        found.events.sort_by_key(|row| row.end_lsn);
        found
    }

    /// The row of a batch.
    pub(crate) fn batch(&self, batch: i64) -> Option<&FactsRow> {
        self.batches.get(&batch)?.first()
    }

    fn take(&mut self, batch: &RecordBatch, app_id: &str, target: &str) {
        // A newer sluice, or a user, may have added others.
        let known = columns();
        let columns: Vec<(String, ArrayRef)> = batch
            .schema()
            .fields()
            .iter()
            .zip(batch.columns())
            .filter(|(field, _)| known.iter().any(|column| column.name == *field.name()))
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
            let object: Map<String, Value> = columns
                .iter()
                .filter(|(name, _)| name != "written_at")
                .map(|(name, array)| (name.clone(), value(array, row)))
                .collect();
            let number = object.get("batch_id").and_then(Value::as_i64);
            match parsed(object) {
                Err(reason) => self.unreadable.push((number, reason)),
                Ok(facts) => match facts.batch_id {
                    Some(batch) if facts.event.is_none() => self.batches.entry(batch).or_default().push(facts),
                    None if facts.event.is_none() => {
                        self.unreadable
                            .push((None, "it has neither batch_id nor event".to_owned()));
                    }
                    _ => self.events.push(facts),
                },
            }
        }
    }
}

/// A row, or which of its columns cannot be read. Their values are not told.
fn parsed(object: Map<String, Value>) -> Result<FactsRow, String> {
    let whole = serde_json::from_value(Value::Object(object.clone()));
    whole.map_err(|_| {
        let alone = |name: &String, value: &Value| Map::from_iter([(name.clone(), value.clone())]);
        let wrong = object
            .iter()
            .find(|(name, value)| serde_json::from_value::<FactsRow>(alone(name, value).into()).is_err());
        match wrong {
            Some((name, _)) => format!("its {name} cannot be read"),
            None => "it cannot be read".to_owned(),
        }
    })
}

/// Another writer may have stored a column in another form: each becomes one of four.
pub(super) fn plain(array: &ArrayRef) -> ArrayRef {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{Field, Schema};

    use super::*;

    type Row = (&'static str, Option<i64>, Option<&'static str>, Option<&'static str>);

    /// `(app_id, batch_id, event, end_lsn)`.
    fn table(rows: &[Row]) -> RecordBatch {
        let text = |name: &str| Field::new(name, DataType::Utf8, true);
        // The last one is of a sluice to come.
        let schema = Schema::new(vec![
            text("app_id"),
            Field::new("batch_id", DataType::Int64, true),
            text("event"),
            text("end_lsn"),
            text("not_yet_known"),
        ]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|row| Some(row.0)).collect::<StringArray>()),
            Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>()),
            Arc::new(rows.iter().map(|row| row.2).collect::<StringArray>()),
            Arc::new(rows.iter().map(|row| row.3).collect::<StringArray>()),
            Arc::new(rows.iter().map(|row| Some(row.0)).collect::<StringArray>()),
        ];
        RecordBatch::try_new(Arc::new(schema), columns).unwrap()
    }

    const LSN: Option<&str> = Some("0x0000002A000000100001");

    #[test]
    fn rows_that_no_sluice_wrote_are_told_and_the_others_read() {
        let rows = table(&[
            ("a", Some(0), None, LSN),
            ("a", Some(1), None, Some("elsewhere")),
            ("a", None, None, LSN),
            ("a", None, Some("transform_set"), LSN),
            ("b", Some(7), None, Some("not ours")),
        ]);
        let found = FactsRows::of(&[rows], "a", "/b");
        assert_eq!(found.batches.keys().collect::<Vec<_>>(), [&0]);
        assert_eq!(found.events.len(), 1);
        let told = [
            (Some(1), "its end_lsn cannot be read".to_owned()),
            (None, "it has neither batch_id nor event".to_owned()),
        ];
        assert_eq!(found.unreadable, told, "without the value");
    }

    #[test]
    fn only_rows_of_batches_need_a_number() {
        let rows = table(&[
            ("a", Some(0), None, LSN),
            ("b", None, Some("transform_set"), LSN),
            ("c", Some(3), Some("an event of a batch"), LSN),
            ("d", Some(1), None, Some("elsewhere")),
        ]);
        let with_batches = streams_with_batches(&[rows]);
        assert_eq!(with_batches, HashSet::from(["a".to_owned(), "d".to_owned()]));
    }
}
