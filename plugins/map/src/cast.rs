//! Casts of whole columns.

use sluice_plugin::{
    AnyView, ApplyError, Batch, BinaryBuilder, BooleanBuilder, Column, DataType, FixedBuilder, Native, Reject,
    Utf8Builder, Value,
};

use crate::convert::{self, CastError};

/// A cast of one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cast {
    /// The source column.
    pub column: String,
    pub from: DataType,
    pub to: DataType,
}

impl Cast {
    /// Casts the column that the plan reads at this position. A value that cannot be cast rejects its row, in which
    /// a zero or an empty value then stands.
    pub(crate) fn apply(&self, batch: &Batch, read: usize, rejects: &mut Vec<Reject>) -> Result<Column, ApplyError> {
        let mut source = Source {
            view: batch.any(read, self.from)?,
            rows: batch.rows,
            column: &self.column,
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
                let mut to = BooleanBuilder::with_capacity(batch.rows as usize);
                source.each(convert::boolean, |value| to.push_option(value));
                Ok(to.finish())
            }
            DataType::Utf8 => {
                let mut to = Utf8Builder::with_capacity(batch.rows as usize, 0);
                source.text(&mut to);
                to.finish()
            }
            DataType::Binary => {
                let mut to = BinaryBuilder::with_capacity(batch.rows as usize, 0);
                source.each(convert::bytes, |value| to.push_option(value));
                to.finish()
            }
        }
    }
}

struct Source<'a, 'r> {
    view: AnyView<'a>,
    rows: u32,
    column: &'r str,
    rejects: &'r mut Vec<Reject>,
}

impl<'a> Source<'a, '_> {
    fn fixed<T: Native + Default>(&mut self, convert: impl Fn(Value<'a>) -> Result<T, CastError>) -> Column {
        let mut to = FixedBuilder::with_capacity(self.rows as usize);
        self.each(convert, |value| to.push_option(value));
        to.finish()
    }

    fn text(&mut self, to: &mut Utf8Builder) {
        for row in 0..self.rows {
            let Some(value) = self.view.get(row as usize) else {
                to.push_null();
                continue;
            };
            if let Err(error) = convert::text(to, value) {
                self.reject(row, error);
            }
            to.end_row();
        }
    }

    fn each<T: Default>(
        &mut self,
        convert: impl Fn(Value<'a>) -> Result<T, CastError>,
        mut push: impl FnMut(Option<T>),
    ) {
        for row in 0..self.rows {
            let value = self.view.get(row as usize).map(|value| {
                convert(value).unwrap_or_else(|error| {
                    self.reject(row, error);
                    T::default()
                })
            });
            push(value);
        }
    }

    fn reject(&mut self, row: u32, error: CastError) {
        self.rejects.push(Reject {
            row,
            column: self.column.to_owned(),
            code: error.code().to_owned(),
        });
    }
}
