//! Casts of whole columns.

use sluice_plugin::{
    AnyView, ApplyError, BinaryBuilder, BooleanBuilder, Column, DataType, FixedBuilder, Native, Utf8Builder, Value,
};

use crate::convert::{self, CastError};
use crate::rejects::{Rejects, malformed};

/// A cast of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cast {
    pub from: DataType,
    pub to: DataType,
}

impl Cast {
    /// A value that cannot be cast rejects its row and is NULL.
    pub(crate) fn apply(self, column: &Column, rows: usize, rejects: &mut Rejects<'_>) -> Result<Column, ApplyError> {
        let mut source = Source {
            view: AnyView::new(column, rows, self.from).ok_or_else(malformed)?,
            rows,
            rejects,
        };
        match self.to {
            DataType::Int16 => Ok(source.fixed(convert::narrow::<i16>)),
            DataType::Int32 => Ok(source.fixed(convert::narrow::<i32>)),
            DataType::Int64 => Ok(source.fixed(convert::int)),
            DataType::Float32 => Ok(source.fixed(convert::float32)),
            DataType::Float64 => Ok(source.fixed(convert::float64)),
            DataType::Decimal { precision, scale } => {
                Ok(source.fixed(|value| convert::decimal(value, precision, scale)))
            }
            DataType::Date => Ok(source.fixed(convert::date)),
            DataType::TimestampNtz | DataType::Timestamp => Ok(source.fixed(convert::timestamp_ntz)),
            DataType::Boolean => {
                let mut to = BooleanBuilder::with_capacity(rows);
                source.each(convert::boolean, |value| to.push_option(value));
                Ok(to.finish())
            }
            DataType::Utf8 => {
                let mut to = Utf8Builder::with_capacity(rows, column.values.len());
                source.text(&mut to);
                to.finish()
            }
            DataType::Binary => {
                let mut to = BinaryBuilder::with_capacity(rows, column.values.len());
                source.each(convert::bytes, |value| to.push_option(value));
                to.finish()
            }
        }
    }
}

struct Source<'a, 'r, 'l> {
    view: AnyView<'a>,
    rows: usize,
    rejects: &'r mut Rejects<'l>,
}

impl<'a> Source<'a, '_, '_> {
    fn fixed<T: Native + Default>(&mut self, convert: impl Fn(Value<'a>) -> Result<T, CastError>) -> Column {
        let mut to = FixedBuilder::with_capacity(self.rows);
        self.each(convert, |value| to.push_option(value));
        to.finish()
    }

    fn text(&mut self, to: &mut Utf8Builder) {
        for row in 0..self.rows {
            match self.view.get(row).map(|value| convert::text(to, value)) {
                Some(Ok(())) => to.end_row(),
                Some(Err(error)) => {
                    self.rejects.push(row, error.code());
                    to.push_null();
                }
                None => to.push_null(),
            }
        }
    }

    fn each<T>(&mut self, convert: impl Fn(Value<'a>) -> Result<T, CastError>, mut push: impl FnMut(Option<T>)) {
        for row in 0..self.rows {
            let value = self.view.get(row).map(&convert).transpose();
            push(value.unwrap_or_else(|error| {
                self.rejects.push(row, error.code());
                None
            }));
        }
    }
}
