//! The columns of variable width that functions of the host take and give.

use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};

use super::bindings::v0_3::sluice::transform::types::ColumnResult;

/// The values of a `utf8` or `binary` column whose layout was checked.
pub(crate) struct Cells<'a> {
    pub(crate) rows: usize,
    validity: Option<&'a [u8]>,
    offsets: &'a [i32],
    values: &'a [u8],
}

impl<'a> Cells<'a> {
    /// `None` when the buffers are no column of `rows` rows.
    pub(crate) fn new(rows: u32, column: &'a ColumnResult) -> Option<Cells<'a>> {
        let rows = usize::try_from(rows).ok()?;
        let validity = column.validity.as_deref();
        let well_formed = validity.is_none_or(|bits| bits.len() == rows.div_ceil(8))
            && column.offsets.len() == rows.checked_add(1)?
            && column.offsets.first() == Some(&0)
            && column.offsets.is_sorted()
            && usize::try_from(*column.offsets.last()?).ok()? == column.values.len();
        well_formed.then_some(Cells {
            rows,
            validity,
            offsets: &column.offsets,
            values: &column.values,
        })
    }

    /// Whether the row has a value.
    pub(crate) fn is_valid(&self, row: usize) -> bool {
        self.validity.is_none_or(|bits| bits[row / 8] >> (row % 8) & 1 != 0)
    }

    /// Rows that have one.
    pub(crate) fn values(&self) -> usize {
        self.rows - self.nulls().map_or(0, |nulls| nulls.null_count())
    }

    /// Which rows have one, for a column of as many rows.
    pub(crate) fn nulls(&self) -> Option<NullBuffer> {
        let bits = Buffer::from(self.validity?);
        let nulls = NullBuffer::new(BooleanBuffer::new(bits, 0, self.rows));
        (nulls.null_count() > 0).then_some(nulls)
    }

    /// The bytes of a value; `None` where it is NULL.
    pub(crate) fn get(&self, row: usize) -> Option<&'a [u8]> {
        if !self.is_valid(row) {
            return None;
        }
        // From 0 and never falling, so no offset is negative.
        Some(&self.values[self.offsets[row] as usize..self.offsets[row + 1] as usize])
    }
}

/// A `utf8` column that is being made, row by row.
pub(crate) struct TextColumn {
    validity: Vec<u8>,
    nulls: usize,
    offsets: Vec<i32>,
    /// The text of the row that is being written goes to its end.
    pub(crate) values: String,
}

impl TextColumn {
    /// Bytes of the buffers of `rows` rows, their text left out.
    pub(crate) fn fixed_bytes(rows: usize) -> usize {
        rows.saturating_add(1)
            .saturating_mul(size_of::<i32>())
            .saturating_add(rows.div_ceil(8))
    }

    pub(crate) fn with_rows(rows: usize) -> TextColumn {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        TextColumn {
            validity: vec![0; rows.div_ceil(8)],
            nulls: 0,
            offsets,
            values: String::new(),
        }
    }

    /// Ends a row: a value is what was written to `values` since the row before.
    ///
    /// # Errors
    /// Its text is longer than 32-bit offsets can say.
    pub(crate) fn end_row(&mut self, is_value: bool) -> wasmtime::Result<()> {
        let end = i32::try_from(self.values.len())
            .map_err(|_| wasmtime::Error::msg("the text of the answer is longer than 2 GiB"))?;
        let row = self.offsets.len() - 1;
        self.offsets.push(end);
        if is_value {
            self.validity[row / 8] |= 1 << (row % 8);
        } else {
            self.nulls += 1;
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> ColumnResult {
        ColumnResult {
            validity: (self.nulls > 0).then_some(self.validity),
            offsets: self.offsets,
            values: self.values.into_bytes(),
        }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::{Cells, ColumnResult};

    pub(crate) fn column(validity: Option<Vec<u8>>, offsets: &[i32], values: &[u8]) -> ColumnResult {
        ColumnResult {
            validity,
            offsets: offsets.to_vec(),
            values: values.to_vec(),
        }
    }

    /// A column of these texts, with `None` as NULL over text that nobody may look at.
    pub(crate) fn texts(rows: &[Option<&str>]) -> ColumnResult {
        let mut column = column(Some(vec![0; rows.len().div_ceil(8)]), &[0], b"");
        for (row, value) in rows.iter().enumerate() {
            if value.is_some() {
                column.validity.as_mut().unwrap()[row / 8] |= 1 << (row % 8);
            }
            column.values.extend(value.map_or(&b"\xFF"[..], str::as_bytes));
            column.offsets.push(i32::try_from(column.values.len()).unwrap());
        }
        column
    }

    /// The rows of a column that the host made.
    pub(crate) fn rows_of(column: &ColumnResult) -> Vec<Option<String>> {
        let rows = u32::try_from(column.offsets.len() - 1).unwrap();
        let cells = Cells::new(rows, column).unwrap();
        (0..cells.rows)
            .map(|row| cells.get(row).map(|value| String::from_utf8(value.to_vec()).unwrap()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{column, rows_of, texts};
    use super::*;

    #[test]
    fn ill_formed_columns_are_told_apart() {
        for (rows, bad) in [
            (1, column(None, &[0], b"")),
            (1, column(None, &[], b"")),
            (1, column(None, &[1, 1], b"a")),
            (1, column(None, &[0, -1], b"")),
            (2, column(None, &[0, 3, 1], b"a")),
            (1, column(None, &[0, 2], b"a")),
            (1, column(None, &[0, 1], b"ab")),
            (1, column(Some(vec![]), &[0, 1], b"a")),
            (u32::MAX, column(None, &[0, 1], b"a")),
        ] {
            assert!(Cells::new(rows, &bad).is_none(), "{rows} {bad:?}");
        }
        assert!(Cells::new(0, &column(None, &[0], b"")).is_some());
        let two = texts(&[Some("a"), None]);
        assert_eq!(Cells::new(2, &two).unwrap().get(0), Some(&b"a"[..]));
        assert_eq!(Cells::new(2, &two).unwrap().get(1), None);
    }

    #[test]
    fn a_column_that_is_made_has_the_layout_of_the_contract() {
        let mut made = TextColumn::with_rows(9);
        for row in 0..9 {
            if row != 3 {
                made.values.push('ä');
            }
            made.end_row(row != 3).unwrap();
        }
        let made = made.finish();
        assert_eq!(made.validity.as_deref(), Some(&[0b1111_0111, 1][..]));
        assert_eq!(made.offsets, [0, 2, 4, 6, 6, 8, 10, 12, 14, 16]);
        assert_eq!(rows_of(&made).iter().flatten().count(), 8);
        let empty = TextColumn::with_rows(0).finish();
        assert_eq!((empty.validity, empty.offsets), (None, vec![0]));
    }
}
