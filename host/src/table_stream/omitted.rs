//! `_omitted`: which columns of a bronze row CDC did not record. It is worked out beside the transforms, from the chunk as it
//! was read, so that no component can lose or forge it; rows that a component dropped are gone from it too.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListBuilder, RecordBatch, StringBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;

use crate::lake::OMITTED;
use crate::shape::{Recorded, TableShape};
use crate::transform::{Applied, OutputColumn, Route};

/// The columns of bronze that are, or are made of, columns which CDC does not record in every row.
#[derive(Debug)]
pub(super) struct Omitted {
    /// Name in bronze, and positions among the captured columns, in bronze's order.
    columns: Vec<(String, Vec<usize>)>,
}

impl Omitted {
    /// `None` where every row has all its values.
    pub(super) fn new(shape: &TableShape, output: &[OutputColumn]) -> Option<Omitted> {
        let position = |name: &String| {
            let at = shape.columns.iter().position(|column| column.name == *name)?;
            (shape.columns[at].recorded != Recorded::Always).then_some(at)
        };
        let columns: Vec<(String, Vec<usize>)> = output
            .iter()
            .map(|column| {
                let sources = match &column.from {
                    Route::Passed { source } => std::slice::from_ref(source),
                    Route::Computed { sources, .. } => sources,
                };
                (column.name.clone(), sources.iter().filter_map(position).collect())
            })
            .filter(|(_, sources): &(String, Vec<usize>)| !sources.is_empty())
            .collect();
        (!columns.is_empty()).then_some(Omitted { columns })
    }

    /// Adds the column to a chunk that came out of the chain. `omitted` is what the chunk says of itself as it was read.
    pub(super) fn add_to(
        &self,
        applied: &Applied,
        omitted: &[(usize, BooleanBuffer)],
    ) -> Result<RecordBatch, ArrowError> {
        let batch = &applied.batch;
        let rows_of: Vec<(&str, Vec<&BooleanBuffer>)> = self
            .columns
            .iter()
            .map(|(name, sources)| {
                let rows = omitted.iter().filter(|(at, _)| sources.contains(at));
                (name.as_str(), rows.map(|(_, rows)| rows).collect())
            })
            .filter(|(_, rows): &(&str, Vec<&BooleanBuffer>)| !rows.is_empty())
            .collect();
        if rows_of.is_empty() {
            return Ok(batch.clone());
        }
        let mut lists = ListBuilder::new(StringBuilder::new());
        for row in 0..batch.num_rows() {
            let read = match &applied.origin {
                Some(origin) => origin.get(row).map_or(row, |row| *row as usize),
                None => row,
            };
            let mut any = false;
            for (name, rows) in &rows_of {
                if rows.iter().any(|rows| read < rows.len() && rows.value(read)) {
                    lists.values().append_value(name);
                    any = true;
                }
            }
            lists.append(any);
        }
        let lists: ArrayRef = Arc::new(lists.finish());
        let fields = batch.schema_ref().fields().iter().cloned();
        let own = Arc::new(Field::new(OMITTED, lists.data_type().clone(), true));
        let schema = Schema::new(fields.chain([own]).collect::<Vec<_>>());
        let columns = batch.columns().iter().cloned().chain([lists]).collect();
        RecordBatch::try_new(Arc::new(schema), columns)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arrow::array::{AsArray, Int32Array};
    use arrow::datatypes::DataType;

    use super::*;
    use crate::identity::CaptureInstance;
    use crate::shape::ColumnShape;

    fn shape() -> TableShape {
        let column = |name: &str, recorded| ColumnShape {
            name: name.to_owned(),
            source_type: "x".to_owned(),
            data_type: DataType::Utf8,
            key: None,
            recorded,
        };
        TableShape {
            schema: "dbo".to_owned(),
            table: "t".to_owned(),
            capture_instance: CaptureInstance("dbo_t".to_owned()),
            has_command_id: true,
            columns: vec![
                column("id", Recorded::Always),
                column("note", Recorded::After),
                column("doc", Recorded::Changed { ordinal: 3 }),
            ],
        }
    }

    fn output(name: &str, from: Route) -> OutputColumn {
        OutputColumn {
            name: name.to_owned(),
            data_type: DataType::Utf8,
            nullable: true,
            from,
        }
    }

    fn passed(name: &str, source: &str) -> OutputColumn {
        let source = source.to_owned();
        output(name, Route::Passed { source })
    }

    fn applied(rows: i32, origin: Option<Vec<u32>>) -> Applied {
        let schema = Schema::new(vec![Field::new("id", DataType::Int32, true)]);
        let ids: Int32Array = (0..rows).collect();
        Applied {
            batch: RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids)]).unwrap(),
            filtered: 0,
            quarantined: Vec::new(),
            spent: Default::default(),
            tied: Default::default(),
            elapsed: Duration::ZERO,
            origin,
        }
    }

    fn lists(batch: &RecordBatch) -> Vec<Option<Vec<String>>> {
        let lists = batch.column_by_name(OMITTED).unwrap().as_list::<i32>();
        let texts = |list: ArrayRef| {
            list.as_string::<i32>()
                .iter()
                .map(|text| text.unwrap().to_owned())
                .collect()
        };
        lists.iter().map(|list| list.map(texts)).collect()
    }

    #[test]
    fn names_are_those_of_bronze_and_of_what_is_made_of_such_a_column() {
        let made = Route::Computed {
            sources: vec!["id".to_owned(), "doc".to_owned()],
            how: "concat".to_owned(),
            keys: Default::default(),
        };
        let columns = [passed("id", "id"), passed("remark", "note"), output("both", made)];
        let omitted = Omitted::new(&shape(), &columns).unwrap();
        let rows = [
            (1, BooleanBuffer::from(vec![true, false, false])),
            (2, BooleanBuffer::from(vec![true, false, true])),
        ];
        let batch = omitted.add_to(&applied(3, None), &rows).unwrap();
        let text = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(lists(&batch), [text(&["remark", "both"]), None, text(&["both"])]);
        // The first and the last row are left of three.
        let batch = omitted.add_to(&applied(2, Some(vec![1, 2])), &rows).unwrap();
        assert_eq!(lists(&batch), [None, text(&["both"])]);
        // Nothing was omitted: the lake fills the column.
        let batch = omitted.add_to(&applied(3, None), &[]).unwrap();
        assert!(batch.column_by_name(OMITTED).is_none());
    }

    #[test]
    fn a_table_whose_long_columns_are_dropped_has_none() {
        assert!(Omitted::new(&shape(), &[passed("id", "id")]).is_none());
    }
}
