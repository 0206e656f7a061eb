//! Chunks made by hand, and a chunk's way through a chain with its rejects sorted out.

use std::fmt;
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, AsArray, DictionaryArray, Int32Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    UInt32Array,
};
use arrow::compute::take_record_batch;
use arrow::datatypes::{Field, Int32Type, Schema};

use super::csv::Cell;
use super::values;
use crate::shape::{META_BEFORE, TableShape};
use crate::transform::{Chain, Fault, TransformError};

/// 2024-01-01T00:00:00, the commit of the first change.
const FIRST_COMMIT_MICROS: i64 = 1_704_067_200_000_000;
/// Position of `_seqval` among the metadata columns.
const SEQVAL: usize = 2;
/// Position of `_operation` among the metadata columns.
const OPERATION: usize = 3;

/// Operations as fixtures write them, by their numbers.
pub(crate) const OPERATIONS: [&str; 5] = ["snapshot", "delete", "insert", "before", "after"];

/// A chunk of these rows. Each change has a commit of its own, the two rows of an update share it.
///
/// # Errors
/// A sentence: an update that lacks one of its rows, or columns that do not fit the table.
pub(crate) fn chunk(shape: &TableShape, operations: &[i32], columns: Vec<ArrayRef>) -> Result<RecordBatch, String> {
    let mut changes = Vec::with_capacity(operations.len());
    let mut change = 0_i64;
    for (row, operation) in operations.iter().enumerate() {
        let before = row.checked_sub(1).map(|row| operations[row]);
        if (*operation == 4) != (before == Some(3)) {
            return Err(if *operation == 4 {
                format!("row {} is `after`, and no `before` stands above it", row + 1)
            } else {
                format!("row {row} is `before`, and no `after` stands below it")
            });
        }
        change += i64::from(*operation != 4);
        changes.push(change);
    }
    if operations.last() == Some(&3) {
        return Err(format!(
            "row {} is `before`, and no `after` stands below it",
            operations.len()
        ));
    }
    let rows = operations.len();
    let lsns = || StringArray::from_iter_values(changes.iter().map(|change| format!("0x{change:020X}")));
    let instance: DictionaryArray<Int32Type> = std::iter::repeat_n(shape.capture_instance.0.as_str(), rows).collect();
    let commits = changes.iter().map(|change| FIRST_COMMIT_MICROS + change * 1_000_000);
    let meta: [ArrayRef; 6] = [
        Arc::new(instance),
        Arc::new(lsns()),
        Arc::new(lsns()),
        Arc::new(Int32Array::from(operations.to_vec())),
        Arc::new(Int32Array::from(vec![1; rows])),
        Arc::new(TimestampMicrosecondArray::from_iter_values(commits)),
    ];
    let names = META_BEFORE
        .into_iter()
        .chain(shape.columns.iter().map(|column| column.name.as_str()));
    let arrays: Vec<ArrayRef> = meta.into_iter().chain(columns).collect();
    let fields: Vec<Field> = names
        .zip(&arrays)
        .map(|(name, array)| Field::new(name, array.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|error| error.to_string())
}

/// What a chain made of a chunk.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Metadata columns, then the columns of the chain's output.
    pub(crate) batch: RecordBatch,
    /// Which row of the chunk each row is, from 0.
    pub(crate) origin: Vec<u32>,
    /// Rows that were rejected, in their order; the rows of an update go together and are named once.
    pub(crate) rejects: Vec<Rejected>,
    /// Rows that went along with a rejected one: the other row of its update.
    pub(crate) along: usize,
}

/// A row that a component rejected.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Rejected {
    /// Position in the chunk, from 0.
    pub(crate) row: u32,
    pub(crate) column: String,
    pub(crate) code: String,
}

impl Ran {
    /// The columns without metadata.
    pub(crate) fn columns(&self) -> &[ArrayRef] {
        &self.batch.columns()[META_BEFORE.len()..]
    }

    /// The operation of each row in words.
    pub(crate) fn operations(&self) -> Vec<Cell> {
        let operations = self.batch.column(OPERATION).as_primitive::<Int32Type>();
        operations
            .iter()
            .map(|operation| {
                let operation = operation?;
                let word = usize::try_from(operation).ok().and_then(|at| OPERATIONS.get(at));
                Some(word.map_or_else(|| operation.to_string(), |word| (*word).to_owned()))
            })
            .collect()
    }

    /// `_seqval` of each row.
    pub(crate) fn changes(&self) -> Vec<Cell> {
        values::format(self.batch.column(SEQVAL))
    }
}

/// Takes a chunk through a chain. The change of a rejected row is taken out, and the rest tried again, as a quarantine
/// would.
///
/// # Errors
/// Any failure that is no reject.
pub(crate) fn run(chain: &Chain, chunk: &RecordBatch) -> Result<Ran, TransformError> {
    let mut kept: Vec<u32> = (0..u32::try_from(chunk.num_rows()).unwrap_or(u32::MAX)).collect();
    let mut rejects = Vec::new();
    let mut along = 0;
    let changes = values::format(chunk.column(SEQVAL));
    loop {
        let input = if rejects.is_empty() {
            chunk.clone()
        } else {
            take_record_batch(chunk, &UInt32Array::from(kept.clone())).map_err(|error| TransformError::Chunk {
                table: "of the kit".to_owned(),
                reason: error.to_string(),
            })?
        };
        match chain.apply(&input) {
            Ok(applied) => {
                let origin = match &applied.origin {
                    Some(origin) => origin
                        .iter()
                        .filter_map(|row| kept.get(*row as usize).copied())
                        .collect(),
                    None => kept,
                };
                rejects.sort_by_key(|rejected: &Rejected| rejected.row);
                return Ok(Ran {
                    batch: applied.batch,
                    origin,
                    rejects,
                    along,
                });
            }
            Err(TransformError::Refused {
                fault: Fault::Rejected { column, code, at, .. },
                ..
            }) if at.row < kept.len() => {
                let row = kept[at.row];
                let change = &changes[row as usize];
                let before = kept.len();
                kept.retain(|other| changes[*other as usize] != *change);
                along += before - kept.len() - 1;
                rejects.push(Rejected { row, column, code });
            }
            Err(error) => return Err(of_the_chunk(error, &kept)),
        }
    }
}

/// Of an error, the row at fault by its place in the chunk, and not among the rows that are left of it.
fn of_the_chunk(mut error: TransformError, kept: &[u32]) -> TransformError {
    if let TransformError::Refused {
        fault: Fault::Failed { at: Some(at), .. } | Fault::Rejected { at, .. },
        ..
    }
    | TransformError::Leak { at, .. } = &mut error
        && let Some(row) = kept.get(at.row)
    {
        at.row = *row as usize;
    }
    error
}

/// `1 row`, `2 rows`, `2 batches`.
pub(crate) fn counted<N: fmt::Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    let ending = match count == N::from(1) {
        true => "",
        false if what.ends_with("ch") => "es",
        false => "s",
    };
    format!("{count} {what}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::{Place, RowAt};

    #[test]
    fn a_row_at_fault_is_told_by_its_place_among_all_rows() {
        let error = TransformError::Refused {
            place: Place {
                table: "t".to_owned(),
                step: 1,
                plugin: "p".to_owned(),
            },
            fault: Fault::Failed {
                code: "a".to_owned(),
                column: None,
                at: Some(RowAt { row: 1, lsn: None }),
            },
        };
        // The first row and the third were rejected before.
        let error = of_the_chunk(error, &[1, 3]);
        assert!(error.to_string().ends_with("row 3 of the chunk"), "{error}");
    }

    #[test]
    fn one_row_is_not_rows() {
        assert_eq!(
            (counted(1, "row"), counted(0, "row")),
            ("1 row".to_owned(), "0 rows".to_owned())
        );
        assert_eq!(
            (counted(1_u64, "batch"), counted(2_u64, "batch")),
            ("1 batch".to_owned(), "2 batches".to_owned())
        );
    }
}
