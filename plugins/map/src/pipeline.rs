//! What computes one output column: a source, then steps, each over the whole column.

use std::borrow::Cow;

use sluice_plugin::{ApplyError, Batch, Column, DataType, Reject};

use crate::cast::Cast;
use crate::coalesce::{Operand, coalesce};
use crate::concat::Concat;
use crate::json::JsonPath;
use crate::rejects::{Rejects, malformed, without_nulls};
use crate::text::{self, Case, Sides};
use crate::values::Values;

#[derive(Debug)]
pub(crate) struct Pipeline {
    /// The input column that is at fault where a row is rejected; empty for a constant, which rejects none.
    pub column: String,
    pub input: Input,
    pub steps: Vec<Step>,
}

/// Where a pipeline starts. Numbers are positions in the plan's reads.
#[derive(Debug)]
pub(crate) enum Input {
    Read(usize),
    /// One row, which is repeated.
    Constant(Column, DataType),
    Concat(Concat),
    Coalesce(Vec<usize>, DataType),
}

#[derive(Debug)]
pub(crate) enum Step {
    Trim(Sides),
    Case(Case),
    Split {
        separator: String,
        part: i64,
    },
    Json(JsonPath),
    Values(Values),
    Cast(Cast),
    /// The value of one row in place of NULL.
    Default(Column, DataType),
}

impl Pipeline {
    /// The column. Rejected rows have a zero or an empty value in it.
    pub(crate) fn apply(&self, batch: &Batch, rejects: &mut Vec<Reject>) -> Result<Column, ApplyError> {
        let rows = batch.rows as usize;
        let before = rejects.len();
        let mut rejected = Rejects::new(&self.column, rejects);
        let mut column = self.input.column(batch, &mut rejected)?;
        for step in &self.steps {
            column = step.apply(column, rows, &mut rejected)?;
        }
        let mut column = column.into_owned();
        without_nulls(&mut column, rejects.get(before..).unwrap_or_default());
        Ok(column)
    }

    /// The error, of this pipeline's column where it has one.
    pub(crate) fn at_fault(&self, error: ApplyError) -> ApplyError {
        if self.column.is_empty() {
            error
        } else {
            error.in_column(&self.column)
        }
    }
}

impl Input {
    fn column<'a>(&self, batch: &'a Batch, rejects: &mut Rejects<'_>) -> Result<Cow<'a, Column>, ApplyError> {
        let rows = batch.rows as usize;
        let read = |index: usize| batch.columns.get(index).ok_or_else(malformed);
        match self {
            Self::Read(index) => read(*index).map(Cow::Borrowed),
            Self::Constant(constant, data_type) => {
                coalesce(*data_type, rows, &[Operand::constant(constant)]).map(Cow::Owned)
            }
            Self::Concat(concat) => concat.apply(batch, rejects).map(Cow::Owned),
            Self::Coalesce(indexes, data_type) => {
                let operands = indexes.iter().map(|index| read(*index).map(Operand::column));
                coalesce(*data_type, rows, &operands.collect::<Result<Vec<_>, _>>()?).map(Cow::Owned)
            }
        }
    }
}

impl Step {
    /// A value that the step cannot work on rejects its row and is NULL from then on.
    pub(crate) fn apply<'a>(
        &self,
        column: Cow<'a, Column>,
        rows: usize,
        rejects: &mut Rejects<'_>,
    ) -> Result<Cow<'a, Column>, ApplyError> {
        let changed = match self {
            Self::Trim(sides) => text::trim(&column, rows, *sides),
            Self::Case(case) => text::change_case(&column, rows, *case),
            Self::Split { separator, part } => text::split(&column, rows, separator, *part),
            Self::Json(path) => path.apply(&column, rows, rejects),
            Self::Values(values) => values.apply(&column, rows, rejects),
            Self::Cast(cast) => cast.apply(&column, rows, rejects),
            Self::Default(..) if column.validity.is_none() => return Ok(column),
            Self::Default(constant, data_type) => {
                let operands = [Operand::column(&column), Operand::constant(constant)];
                coalesce(*data_type, rows, &operands)
            }
        };
        changed.map(Cow::Owned)
    }
}
