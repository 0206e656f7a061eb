//! Rows from a file: the CSV of fixtures, or Parquet, such as a file of a bronze table whose columns are not masked.

use std::fs::File;
use std::path::Path;

use arrow::array::{Array as _, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Int32Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::error::KitError;
use super::fixture::Setup;
use super::rows;

/// The first `limit` rows of a file, as a chunk of the fixture's table. Columns are found by name; `_operation` is taken,
/// other metadata is made anew.
///
/// # Errors
/// When the file cannot be read, or lacks a column or has it in a type that does not become the table's.
pub(crate) fn rows_of(setup: &Setup, file: &Path, limit: usize) -> Result<RecordBatch, KitError> {
    if file.extension().is_none_or(|extension| extension != "parquet") {
        let rows = setup.rows_of_file(file)?;
        return Ok(rows.slice(0, rows.num_rows().min(limit)));
    }
    let wrong = |reason: String| KitError::file(file, reason);
    let opened = File::open(file).map_err(KitError::system("read", file))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(opened).map_err(|error| wrong(error.to_string()))?;
    let schema = reader.schema().clone();
    let reader = reader
        .with_limit(limit)
        .build()
        .map_err(|error| wrong(error.to_string()))?;
    let batches = reader
        .collect::<Result<Vec<RecordBatch>, _>>()
        .map_err(|error| wrong(error.to_string()))?;
    let all = concat_batches(&schema, &batches).map_err(|error| wrong(error.to_string()))?;
    chunk_of(setup, &all).map_err(wrong)
}

fn chunk_of(setup: &Setup, all: &RecordBatch) -> Result<RecordBatch, String> {
    let columns = setup.shape.columns.iter().map(|column| {
        let found = all
            .column_by_name(&column.name)
            .ok_or_else(|| format!("there is no column `{}`, which the fixture's table has", column.name))?;
        let misfit = || {
            format!(
                "column `{}` is {} and does not become {}",
                column.name,
                found.data_type(),
                column.source_type
            )
        };
        let cast = cast(found, &column.data_type).map_err(|_| misfit())?;
        // A cast that fails for a value leaves NULL behind.
        if cast.null_count() == found.null_count() {
            Ok(cast)
        } else {
            Err(misfit())
        }
    });
    let columns = columns.collect::<Result<_, String>>()?;
    let operations = match all.column_by_name("_operation") {
        None => vec![2; all.num_rows()],
        Some(operations) => {
            let operations = cast(operations, &DataType::Int32).map_err(|error| error.to_string())?;
            let operations = operations.as_primitive::<Int32Type>().clone();
            let known = operations
                .iter()
                .map(|operation| operation.filter(|n| (0..=4).contains(n)));
            known
                .collect::<Option<Vec<i32>>>()
                .ok_or("`_operation` holds a value that is none")?
        }
    };
    rows::chunk(&setup.shape, &operations, columns)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use arrow::datatypes::{Field, Schema};
    use parquet::arrow::ArrowWriter;

    use super::*;
    use crate::kit::Setup;

    fn write(columns: Vec<(&str, ArrayRef)>) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let fields: Vec<Field> = columns
            .iter()
            .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).unwrap();
        let file = File::create(dir.path().join("rows.parquet")).unwrap();
        let mut writer = ArrowWriter::try_new(file, schema, None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        dir
    }

    fn setup() -> Setup {
        let mut setup = Setup::of_all_types(serde_json::json!({})).unwrap();
        let wanted = |name: &str| matches!(name, "id" | "ntext");
        let keep: Vec<bool> = setup.shape.columns.iter().map(|column| wanted(&column.name)).collect();
        let mut kept = keep.iter();
        setup.types.retain(|_| *kept.next().unwrap());
        setup.shape.columns.retain(|column| wanted(&column.name));
        setup
    }

    #[test]
    fn columns_are_found_by_name_and_operations_taken() {
        let dir = write(vec![
            ("_start_lsn", Arc::new(StringArray::from(vec!["x", "y"]))),
            ("_operation", Arc::new(Int64Array::from(vec![2, 1]))),
            ("ntext", Arc::new(StringArray::from(vec![Some("a"), None]))),
            ("id", Arc::new(Int64Array::from(vec![1, 2]))),
        ]);
        let rows = rows_of(&setup(), &dir.path().join("rows.parquet"), 10).unwrap();
        assert_eq!(rows.num_rows(), 2);
        assert_eq!(rows.column(3).as_primitive::<Int32Type>().values().to_vec(), [2, 1]);
        let id = rows.column_by_name("id").unwrap();
        assert_eq!(id.as_primitive::<Int32Type>().values().to_vec(), [1, 2]);
        assert_eq!(
            rows_of(&setup(), &dir.path().join("rows.parquet"), 1)
                .unwrap()
                .num_rows(),
            1
        );
    }

    #[test]
    fn a_value_that_does_not_fit_and_a_missing_column_are_refused() {
        let large: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX]));
        let dir = write(vec![("id", large), ("ntext", Arc::new(StringArray::from(vec!["a"])))]);
        let error = rows_of(&setup(), &dir.path().join("rows.parquet"), 10).unwrap_err();
        assert!(error.to_string().contains("column `id` is Int64"), "{error}");
        let dir = write(vec![("id", Arc::new(Int64Array::from(vec![1])))]);
        let error = rows_of(&setup(), &dir.path().join("rows.parquet"), 10).unwrap_err();
        assert!(error.to_string().contains("no column `ntext`"), "{error}");
    }
}
