//! A chunk on its way through a chain: six metadata columns that no component changes, and the columns that they do.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, RecordBatch, StringArray, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute;
use arrow::datatypes::{DataType, FieldRef, Int32Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::chain::Quarantined;
use super::check::Kept;
use super::error::RowAt;
use super::plan::Input;
use super::spent::Spent;
use super::step::RejectedAt;
use crate::shape::META_BEFORE;

const CAPTURE_INSTANCE: usize = 0;
const START_LSN: usize = 1;
const SEQVAL: usize = 2;
const OPERATION: usize = 3;
/// From so many characters on, a value may not be a part of a code.
const MIN_SHOWN: usize = 4;

/// A chunk in the middle of a chain.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) rows: usize,
    /// The columns of `META_BEFORE`, as they came.
    pub(crate) meta: Vec<ArrayRef>,
    pub(crate) meta_fields: Vec<FieldRef>,
    /// The columns before the next step.
    pub(crate) columns: Vec<ArrayRef>,
    /// Which row of the chunk as it was read each row is; absent while none was dropped.
    pub(crate) origin: Option<Vec<u32>>,
    /// What it has cost so far.
    pub(crate) spent: Spent,
}

impl Chunk {
    /// Those of `codes` that may be shown: none of the chunk's values is one of them, or a part of one from four characters
    /// on. Goes through the values once, whatever the number of codes; a chunk of more than `most` values is not gone
    /// through, and no code of it may be shown. Codes are in lower-case ASCII.
    pub(crate) fn showable<'c>(&self, codes: &BTreeSet<&'c str>, most: usize) -> BTreeSet<&'c str> {
        let mut showable = codes.clone();
        if self.rows.saturating_mul(self.columns.len()) > most {
            return BTreeSet::new();
        }
        let longest = codes.iter().map(|code| code.len()).max().unwrap_or(0);
        let mut parts: HashSet<&str> = codes.iter().flat_map(|code| parts(code)).collect();
        let format = FormatOptions::default();
        let mut value = String::new();
        for column in &self.columns {
            let Ok(values) = ArrayFormatter::try_new(column, &format) else {
                // What cannot be shown cannot be compared either.
                return BTreeSet::new();
            };
            let texts = column.as_string_opt::<i32>();
            for row in (0..column.len()).filter(|row| column.is_valid(*row)) {
                // No letter becomes so much shorter in lower case.
                if texts.is_some_and(|texts| texts.value(row).len() > longest * 4) {
                    continue;
                }
                value.clear();
                if write!(value, "{}", values.value(row)).is_err() {
                    return BTreeSet::new();
                }
                match value.is_ascii() {
                    true => value.make_ascii_lowercase(),
                    false => value = value.to_lowercase(),
                }
                // Each part counts once, however often it is a value.
                if parts.remove(value.as_str()) {
                    showable.retain(|code| *code != value && (value.len() < MIN_SHOWN || !code.contains(&value)));
                }
            }
        }
        showable
    }

    /// Takes a chunk apart and checks that it has the promised columns. Dictionaries among the captured columns are
    /// decoded.
    ///
    /// # Errors
    /// A sentence for an error message: what does not fit.
    pub(crate) fn new(batch: &RecordBatch, inputs: &[Input]) -> Result<Chunk, String> {
        let schema = batch.schema_ref();
        let expected = META_BEFORE.len() + inputs.len();
        if batch.num_columns() != expected {
            return Err(format!("it has {} columns instead of {expected}", batch.num_columns()));
        }
        for (field, name) in schema.fields().iter().zip(META_BEFORE) {
            if field.name() != name {
                return Err(format!("column `{}` stands where `{name}` should", field.name()));
            }
        }
        let (meta, captured) = batch.columns().split_at(META_BEFORE.len());
        let names = schema.fields().iter().skip(META_BEFORE.len());
        let columns = captured
            .iter()
            .zip(names)
            .zip(inputs)
            .map(|((array, field), input)| {
                if *field.name() != input.name {
                    return Err(format!(
                        "column `{}` stands where `{}` should",
                        field.name(),
                        input.name
                    ));
                }
                decoded(array, &input.data_type).map_err(|reason| format!("column `{}` {reason}", input.name))
            })
            .collect::<Result<_, _>>()?;
        Ok(Chunk {
            rows: batch.num_rows(),
            meta: meta.to_vec(),
            meta_fields: schema.fields().iter().take(META_BEFORE.len()).cloned().collect(),
            columns,
            origin: None,
            spent: Spent::default(),
        })
    }

    /// The operation of each row.
    ///
    /// # Errors
    /// A sentence for an error message: a value that is no operation.
    pub(crate) fn operations(&self) -> Result<Vec<u8>, String> {
        let operations = self.meta[OPERATION]
            .as_primitive_opt::<Int32Type>()
            .ok_or("`_operation` is not Int32")?;
        operations
            .iter()
            .map(|operation| {
                operation
                    .and_then(|operation| u8::try_from(operation).ok())
                    .filter(|operation| *operation <= 4)
                    .ok_or_else(|| "`_operation` holds a value that is none".to_owned())
            })
            .collect()
    }

    /// A metadata column in a type that components can be given.
    pub(crate) fn meta_column(&self, position: usize) -> Result<ArrayRef, String> {
        let array = &self.meta[position];
        let data_type = match array.data_type() {
            DataType::Dictionary(_, values) => values.as_ref().clone(),
            other => other.clone(),
        };
        decoded(array, &data_type).map_err(|reason| format!("column `{}` {reason}", META_BEFORE[position]))
    }

    /// `_start_lsn` and `_seqval`, to find the two rows of an update.
    pub(crate) fn change_ids(&self) -> Result<ChangeIds, String> {
        let text = |position| -> Result<StringArray, String> {
            let array = self.meta_column(position)?;
            let text = array.as_string_opt::<i32>().cloned();
            text.ok_or_else(|| format!("`{}` is not Utf8", META_BEFORE[position]))
        };
        Ok(ChangeIds {
            start_lsn: text(START_LSN)?,
            seqval: text(SEQVAL)?,
        })
    }

    /// Rejected rows of this chunk, which is as it was read, as quarantine names them.
    pub(crate) fn named(&self, rejected: Vec<(Option<usize>, RejectedAt)>) -> Result<Vec<Quarantined>, String> {
        let ids = self.change_ids()?;
        let instances = self.meta_column(CAPTURE_INSTANCE)?;
        let instances = instances
            .as_string_opt::<i32>()
            .ok_or("`_capture_instance` is not Utf8")?;
        let operations = self.operations()?;
        let named = rejected.into_iter().map(|(step, reject)| {
            let row = reject.row as usize;
            Quarantined {
                capture_instance: instances.value(row).to_owned(),
                start_lsn: ids.start_lsn.value(row).to_owned(),
                seqval: ids.seqval.is_valid(row).then(|| ids.seqval.value(row).to_owned()),
                operation: i32::from(operations[row]),
                column: reject.column,
                code: reject.code,
                step,
            }
        });
        Ok(named.collect())
    }

    /// Where a row of this chunk was when it was read.
    pub(crate) fn row_at(&self, row: usize) -> RowAt {
        let lsn = self.change_ids().ok().and_then(|ids| {
            let lsn = &ids.start_lsn;
            (row < lsn.len() && lsn.is_valid(row)).then(|| lsn.value(row).to_owned())
        });
        RowAt {
            row: match &self.origin {
                Some(origin) => origin.get(row).map_or(row, |row| *row as usize),
                None => row,
            },
            lsn,
        }
    }

    /// Rows of this chunk as a chunk of their own, with buffers of their own: what a component is lent starts at 0.
    pub(crate) fn part(&self, rows: Range<usize>) -> Result<Chunk, String> {
        let indices: UInt64Array = rows.clone().map(|row| row as u64).collect();
        let taken = |columns: &[ArrayRef]| -> Result<Vec<ArrayRef>, String> {
            let take = |column: &ArrayRef| compute::take(column, &indices, None).map_err(|error| error.to_string());
            columns.iter().map(take).collect()
        };
        Ok(Chunk {
            rows: rows.len(),
            meta: taken(&self.meta)?,
            meta_fields: self.meta_fields.clone(),
            columns: taken(&self.columns)?,
            origin: Some(rows.map(|row| self.read_as(row)).collect()),
            spent: Spent::default(),
        })
    }

    /// Which row of the chunk as it was read a row is.
    pub(crate) fn read_as(&self, row: usize) -> u32 {
        match &self.origin {
            Some(origin) => origin[row],
            // The contract counts rows in 32 bits, and a chunk with more never gets to a step.
            None => row as u32,
        }
    }

    /// Replaces the columns by those after a step, and takes out the rows that the step dropped. An update that keeps one of
    /// its rows becomes a delete or an insert.
    pub(crate) fn advance(&mut self, columns: Vec<ArrayRef>, kept: Option<Kept>) -> Result<(), String> {
        self.columns = columns;
        let Some(Kept { rows, turned }) = kept else {
            return Ok(());
        };
        if !turned.is_empty() {
            let operations = self.meta[OPERATION]
                .as_primitive_opt::<Int32Type>()
                .ok_or("`_operation` is not Int32")?;
            let mut operations: Vec<Option<i32>> = operations.iter().collect();
            for (row, operation) in turned {
                operations[row] = Some(operation);
            }
            self.meta[OPERATION] = Arc::new(Int32Array::from(operations));
        }
        self.keep(rows)
    }

    /// Takes out the rows that are not kept.
    pub(crate) fn keep(&mut self, kept: BooleanBuffer) -> Result<(), String> {
        let origin = match &self.origin {
            Some(origin) => kept.set_indices().map(|row| origin[row]).collect(),
            // The contract counts rows in 32 bits, and a chunk with more never gets here.
            None => kept.set_indices_u32().collect(),
        };
        self.origin = Some(origin);
        self.rows = kept.count_set_bits();
        let kept = BooleanArray::new(kept, None);
        for column in self.meta.iter_mut().chain(&mut self.columns) {
            *column = compute::filter(column, &kept).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// What tells changes apart.
#[derive(Debug)]
pub(crate) struct ChangeIds {
    pub(crate) start_lsn: StringArray,
    pub(crate) seqval: StringArray,
}

impl ChangeIds {
    /// Whether rows `row` and `row + 1` belong to one change.
    pub(crate) fn same(&self, row: usize) -> bool {
        let equal = |array: &StringArray| {
            array.is_valid(row) && array.is_valid(row + 1) && array.value(row) == array.value(row + 1)
        };
        equal(&self.start_lsn) && equal(&self.seqval)
    }
}

/// The code itself, and everything of four characters and more that stands in it. Of a text that is not ASCII itself alone.
fn parts(code: &str) -> impl Iterator<Item = &str> {
    let starts = 0..code.len();
    let parts =
        starts.flat_map(move |start| (start + MIN_SHOWN..=code.len()).filter_map(move |end| code.get(start..end)));
    parts.chain(std::iter::once(code))
}

fn decoded(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, String> {
    match array.data_type() {
        same if same == data_type => Ok(array.clone()),
        DataType::Dictionary(_, values) if values.as_ref() == data_type => {
            compute::cast(array, data_type).map_err(|error| format!("cannot be decoded: {error}"))
        }
        other => Err(format!("has type {other} instead of {data_type}")),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    fn chunk(columns: Vec<ArrayRef>) -> Chunk {
        Chunk {
            rows: columns.first().map_or(0, |column| column.len()),
            meta: Vec::new(),
            meta_fields: Vec::new(),
            columns,
            origin: None,
            spent: Spent::default(),
        }
    }

    #[test]
    fn codes_that_are_or_hold_a_value_are_not_shown() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("Smith"), None, Some("abc"), Some("")]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![4711, 7, 8, 9]));
        let chunk = chunk(vec![texts, numbers]);
        let codes = BTreeSet::from([
            "mr-smith-x",
            "smith",
            "abc",
            "abc-d",
            "smit",
            "no-4711",
            "no-7",
            "7",
            "too-long",
        ]);
        let showable: Vec<&str> = chunk.showable(&codes, 8).into_iter().collect();
        assert_eq!(showable, ["abc-d", "no-7", "smit", "too-long"]);
        // What is too much to be gone through is withheld.
        assert!(chunk.showable(&codes, 7).is_empty());
    }

    #[test]
    fn letters_that_have_a_lower_case_in_ascii_are_compared_in_it() {
        // KELVIN SIGN.
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["\u{212A}\u{212A}\u{212A}\u{212A}"]));
        assert!(chunk(vec![texts]).showable(&BTreeSet::from(["kkkk"]), 100).is_empty());
    }
}
