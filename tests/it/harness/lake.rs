//! Reads what sluice wrote, by the Delta log and Parquet alone.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, new_null_array};
use arrow::compute::{SortColumn, cast, concat_batches, lexsort_to_indices, take_record_batch};
use arrow::datatypes::{DataType, FieldRef, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;

/// Rows of a Delta table.
pub struct Rows {
    pub batch: RecordBatch,
}

/// The Delta log's commits, each as its actions.
pub fn commits(table: &Path) -> Vec<Vec<Value>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(table.join("_delta_log"))
        .map(|entries| entries.filter_map(Result::ok).map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files
        .iter()
        .map(|path| {
            std::fs::read_to_string(path)
                .expect("readable")
                .lines()
                .map(|line| serde_json::from_str(line).expect("JSON"))
                .collect()
        })
        .collect()
}

/// The rows of a table's newest version, sorted by `order`. A table that is not there has none.
pub fn rows_of(table: &Path, order: &[&str]) -> Option<Rows> {
    let mut active: BTreeMap<String, ()> = BTreeMap::new();
    for commit in commits(table) {
        for action in commit {
            if let Some(path) = action["add"]["path"].as_str() {
                active.insert(path.to_owned(), ());
            }
            if let Some(path) = action["remove"]["path"].as_str() {
                active.remove(path);
            }
        }
    }
    let batches: Vec<RecordBatch> = active
        .keys()
        .flat_map(|path| {
            let file = File::open(table.join(path)).expect("the file of an add action");
            ParquetRecordBatchReaderBuilder::try_new(file)
                .expect("Parquet")
                .build()
                .expect("a reader")
                .map(|batch| batch.expect("a batch"))
                .collect::<Vec<_>>()
        })
        .collect();
    let all = concat(&batches)?;
    let columns: Vec<SortColumn> = order
        .iter()
        .map(|name| SortColumn {
            values: all.column_by_name(name).expect("an order column").clone(),
            options: None,
        })
        .collect();
    let indices = lexsort_to_indices(&columns, None).expect("sorted");
    Some(Rows {
        batch: take_record_batch(&all, &indices).expect("taken"),
    })
}

/// Batches under each other, by the names of their columns: files of before and after a column was added differ.
fn concat(batches: &[RecordBatch]) -> Option<RecordBatch> {
    let mut fields: Vec<FieldRef> = Vec::new();
    for field in batches.iter().flat_map(|batch| batch.schema().fields().to_vec()) {
        if !fields.iter().any(|known| known.name() == field.name()) {
            fields.push(field);
        }
    }
    batches.first()?;
    let schema = Arc::new(Schema::new(fields));
    let widened: Vec<RecordBatch> = batches
        .iter()
        .map(|batch| {
            let columns = schema
                .fields()
                .iter()
                .map(|field| match batch.column_by_name(field.name()) {
                    Some(column) => Arc::clone(column),
                    None => new_null_array(field.data_type(), batch.num_rows()),
                });
            RecordBatch::try_new(Arc::clone(&schema), columns.collect()).expect("one type a column")
        })
        .collect();
    Some(concat_batches(&schema, &widened).expect("one schema"))
}

impl Rows {
    pub fn len(&self) -> usize {
        self.batch.num_rows()
    }

    /// A column as texts: decimals and times in their plain form, binary in upper-case hex, NULL as `None`.
    pub fn texts(&self, column: &str) -> Vec<Option<String>> {
        let array = self
            .batch
            .column_by_name(column)
            .unwrap_or_else(|| panic!("a column {column}"));
        let array = match array.data_type() {
            DataType::Dictionary(_, value) => cast(array, value).expect("decoded"),
            _ => array.clone(),
        };
        if let Some(binary) = array.as_any().downcast_ref::<arrow::array::BinaryArray>() {
            return binary
                .iter()
                .map(|value| value.map(|bytes| bytes.iter().map(|byte| format!("{byte:02X}")).collect()))
                .collect();
        }
        let format = FormatOptions::default();
        let formatter = ArrayFormatter::try_new(&array, &format).expect("a formatter");
        (0..array.len())
            .map(|row| (!array.is_null(row)).then(|| formatter.value(row).to_string()))
            .collect()
    }

    /// A column of whole numbers.
    pub fn numbers(&self, column: &str) -> Vec<i64> {
        self.texts(column)
            .into_iter()
            .map(|text| text.expect("a value").parse().expect("a number"))
            .collect()
    }
}

/// Every file below a folder.
pub fn files_under(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("readable").filter_map(Result::ok) {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    files
}
