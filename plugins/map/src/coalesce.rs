//! The first value of several columns of one type. A constant is a column of one row that is repeated.

use sluice_plugin::{
    ApplyError, BinaryBuilder, BinaryView, BooleanBuilder, BooleanView, Column, DataType, FixedBuilder, FixedView,
    Native, Utf8Builder, Utf8View,
};

use crate::rejects::malformed;

/// No more bytes than this are set aside for repeated texts before they are needed.
pub(crate) const MOST_RESERVED: usize = 16 << 20;

/// One of the columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand<'a> {
    pub column: &'a Column,
    /// It has one row, which stands for all.
    pub repeated: bool,
}

impl<'a> Operand<'a> {
    pub(crate) fn column(column: &'a Column) -> Self {
        Self {
            column,
            repeated: false,
        }
    }

    pub(crate) fn constant(column: &'a Column) -> Self {
        Self { column, repeated: true }
    }

    /// Whether no row is NULL, as far as can be seen at once.
    fn is_full(&self) -> bool {
        self.column.validity.is_none()
    }

    fn bytes(&self, rows: usize) -> usize {
        let times = if self.repeated { rows } else { 1 };
        self.column.values.len().saturating_mul(times).min(MOST_RESERVED)
    }
}

/// The first value in each row; NULL where none of the columns has one.
pub(crate) fn coalesce(data_type: DataType, rows: usize, operands: &[Operand<'_>]) -> Result<Column, ApplyError> {
    if let Some(first) = operands.first()
        && first.is_full()
        && !first.repeated
    {
        return Ok(first.column.clone());
    }
    let bytes = operands.first().map_or(0, |first| first.bytes(rows));
    match data_type {
        DataType::Boolean => {
            let views = views(operands, rows, BooleanView::new)?;
            let mut to = BooleanBuilder::with_capacity(rows);
            (0..rows).for_each(|row| to.push_option(first(&views, row, BooleanView::get)));
            Ok(to.finish())
        }
        DataType::Int16 => fixed::<i16>(operands, rows),
        DataType::Int32 | DataType::Date => fixed::<i32>(operands, rows),
        DataType::Int64 | DataType::Timestamp | DataType::TimestampNtz => fixed::<i64>(operands, rows),
        DataType::Float32 => fixed::<f32>(operands, rows),
        DataType::Float64 => fixed::<f64>(operands, rows),
        DataType::Decimal { .. } => fixed::<i128>(operands, rows),
        DataType::Utf8 => {
            let views = views(operands, rows, Utf8View::new)?;
            let mut to = Utf8Builder::with_capacity(rows, bytes);
            (0..rows).for_each(|row| to.push_option(first(&views, row, Utf8View::get)));
            to.finish()
        }
        DataType::Binary => {
            let views = views(operands, rows, BinaryView::new)?;
            let mut to = BinaryBuilder::with_capacity(rows, bytes);
            (0..rows).for_each(|row| to.push_option(first(&views, row, BinaryView::get)));
            to.finish()
        }
    }
}

fn fixed<T: Native + Default>(operands: &[Operand<'_>], rows: usize) -> Result<Column, ApplyError> {
    let views = views(operands, rows, FixedView::<T>::new)?;
    let mut to = FixedBuilder::with_capacity(rows);
    (0..rows).for_each(|row| to.push_option(first(&views, row, FixedView::get)));
    Ok(to.finish())
}

/// The views, and whether their one row is repeated.
fn views<'a, V>(
    operands: &[Operand<'a>],
    rows: usize,
    new: impl Fn(&'a Column, usize) -> Option<V>,
) -> Result<Vec<(V, bool)>, ApplyError> {
    operands
        .iter()
        .map(|operand| {
            let rows = if operand.repeated { 1 } else { rows };
            Some((new(operand.column, rows)?, operand.repeated))
        })
        .collect::<Option<_>>()
        .ok_or_else(malformed)
}

#[inline]
fn first<V, T>(views: &[(V, bool)], row: usize, get: impl Fn(&V, usize) -> Option<T>) -> Option<T> {
    views
        .iter()
        .find_map(|(view, repeated)| get(view, if *repeated { 0 } else { row }))
}
