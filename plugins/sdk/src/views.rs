//! Typed views over the raw buffers of a column. A view is checked once when it is made; reading it copies nothing.

use std::marker::PhantomData;

use crate::batch::Column;
use crate::builders::Native;
use crate::plan::DataType;

/// Which rows have a value.
#[derive(Clone, Copy, Debug)]
pub struct Validity<'a> {
    bits: Option<&'a [u8]>,
    rows: usize,
}

impl<'a> Validity<'a> {
    fn new(column: &'a Column, rows: usize) -> Option<Self> {
        let bits = column.validity.as_deref();
        let enough = bits.is_none_or(|bits| bits.len() >= rows.div_ceil(8));
        enough.then_some(Self { bits, rows })
    }

    /// Whether the row is there and has a value.
    #[inline]
    pub fn is_valid(&self, row: usize) -> bool {
        row < self.rows && self.bits.is_none_or(|bits| bit(bits, row))
    }
}

/// A text column.
#[derive(Clone, Copy, Debug)]
pub struct Utf8View<'a> {
    offsets: &'a [i32],
    text: &'a str,
    is_ascii: bool,
    validity: Validity<'a>,
}

impl<'a> Utf8View<'a> {
    /// `None` where the buffers are not those of a text column of this many rows.
    pub fn new(column: &'a Column, rows: usize) -> Option<Self> {
        let offsets = checked_offsets(column, rows)?;
        // A column of text is looked through here once, whatever is asked of it afterwards.
        let text = simdutf8::basic::from_utf8(&column.values).ok()?;
        let is_ascii = is_ascii(&column.values);
        let on_boundary = |&offset: &i32| text.is_char_boundary(offset as usize);
        if !is_ascii && !offsets.iter().all(on_boundary) {
            return None;
        }
        Some(Self {
            offsets,
            text,
            is_ascii,
            validity: Validity::new(column, rows)?,
        })
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.validity.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The texts of all rows, one after the other.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Whether all of it is ASCII.
    pub fn is_ascii(&self) -> bool {
        self.is_ascii
    }

    /// The value of a row; `None` for NULL and beyond the last row.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&'a str> {
        if !self.validity.is_valid(row) {
            return None;
        }
        let (from, to) = (*self.offsets.get(row)?, *self.offsets.get(row + 1)?);
        self.text.get(from as usize..to as usize)
    }

    /// The values of all rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&'a str>> + use<'a> {
        let view = *self;
        (0..view.len()).map(move |row| view.get(row))
    }
}

/// A binary column.
#[derive(Clone, Copy, Debug)]
pub struct BinaryView<'a> {
    offsets: &'a [i32],
    bytes: &'a [u8],
    validity: Validity<'a>,
}

impl<'a> BinaryView<'a> {
    /// `None` where the buffers are not those of a binary column of this many rows.
    pub fn new(column: &'a Column, rows: usize) -> Option<Self> {
        Some(Self {
            offsets: checked_offsets(column, rows)?,
            bytes: &column.values,
            validity: Validity::new(column, rows)?,
        })
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.validity.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a row; `None` for NULL and beyond the last row.
    #[inline]
    pub fn get(&self, row: usize) -> Option<&'a [u8]> {
        if !self.validity.is_valid(row) {
            return None;
        }
        let (from, to) = (*self.offsets.get(row)?, *self.offsets.get(row + 1)?);
        self.bytes.get(from as usize..to as usize)
    }

    /// The values of all rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<&'a [u8]>> + use<'a> {
        let view = *self;
        (0..view.len()).map(move |row| view.get(row))
    }
}

/// A boolean column.
#[derive(Clone, Copy, Debug)]
pub struct BooleanView<'a> {
    bits: &'a [u8],
    validity: Validity<'a>,
}

impl<'a> BooleanView<'a> {
    /// `None` where the buffers are not those of a boolean column of this many rows.
    pub fn new(column: &'a Column, rows: usize) -> Option<Self> {
        let enough = column.values.len() >= rows.div_ceil(8) && column.offsets.is_empty();
        let validity = Validity::new(column, rows)?;
        enough.then_some(Self {
            bits: &column.values,
            validity,
        })
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.validity.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a row; `None` for NULL and beyond the last row.
    #[inline]
    pub fn get(&self, row: usize) -> Option<bool> {
        self.validity.is_valid(row).then(|| bit(self.bits, row))
    }

    /// The values of all rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<bool>> + use<'a> {
        let view = *self;
        (0..view.len()).map(move |row| view.get(row))
    }
}

/// A column of fixed-width values.
#[derive(Clone, Copy, Debug)]
pub struct FixedView<'a, T> {
    bytes: &'a [u8],
    validity: Validity<'a>,
    native: PhantomData<T>,
}

impl<'a, T: Native> FixedView<'a, T> {
    /// `None` where the buffers are not those of a column of this many values of this width.
    pub fn new(column: &'a Column, rows: usize) -> Option<Self> {
        let fits = rows.checked_mul(T::WIDTH)? == column.values.len() && column.offsets.is_empty();
        let validity = Validity::new(column, rows)?;
        fits.then_some(Self {
            bytes: &column.values,
            validity,
            native: PhantomData,
        })
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.validity.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a row; `None` for NULL and beyond the last row.
    #[inline]
    pub fn get(&self, row: usize) -> Option<T> {
        if !self.validity.is_valid(row) {
            return None;
        }
        T::read(self.bytes.get(row * T::WIDTH..(row + 1) * T::WIDTH)?)
    }

    /// The values of all rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<T>> + use<'a, T> {
        let view = *self;
        (0..view.len()).map(move |row| view.get(row))
    }
}

/// One value of a column whose type is known only when the program runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A boolean.
    Boolean(bool),
    /// An integer of any width.
    Int(i64),
    /// A single-precision number.
    Float32(f32),
    /// A double-precision number.
    Float64(f64),
    /// A decimal: the number times 10^scale, and the scale.
    Decimal(i128, u8),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01T00:00:00, UTC.
    Timestamp(i64),
    /// Microseconds since 1970-01-01T00:00:00, no zone.
    TimestampNtz(i64),
    /// Text.
    Utf8(&'a str),
    /// Bytes.
    Binary(&'a [u8]),
}

/// A column of any type.
#[derive(Clone, Copy, Debug)]
pub enum AnyView<'a> {
    /// `boolean`.
    Boolean(BooleanView<'a>),
    /// `smallint`.
    Int16(FixedView<'a, i16>),
    /// `int`.
    Int32(FixedView<'a, i32>),
    /// `bigint`.
    Int64(FixedView<'a, i64>),
    /// `float`.
    Float32(FixedView<'a, f32>),
    /// `double`.
    Float64(FixedView<'a, f64>),
    /// `decimal`, with its scale.
    Decimal(FixedView<'a, i128>, u8),
    /// `date`.
    Date(FixedView<'a, i32>),
    /// `timestamp`.
    Timestamp(FixedView<'a, i64>),
    /// `timestamp_ntz`.
    TimestampNtz(FixedView<'a, i64>),
    /// `string`.
    Utf8(Utf8View<'a>),
    /// `binary`.
    Binary(BinaryView<'a>),
}

impl<'a> AnyView<'a> {
    /// `None` where the buffers are not those of a column of this type.
    pub fn new(column: &'a Column, rows: usize, data_type: DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => Self::Boolean(BooleanView::new(column, rows)?),
            DataType::Int16 => Self::Int16(FixedView::new(column, rows)?),
            DataType::Int32 => Self::Int32(FixedView::new(column, rows)?),
            DataType::Int64 => Self::Int64(FixedView::new(column, rows)?),
            DataType::Float32 => Self::Float32(FixedView::new(column, rows)?),
            DataType::Float64 => Self::Float64(FixedView::new(column, rows)?),
            DataType::Decimal { scale, .. } => Self::Decimal(FixedView::new(column, rows)?, scale),
            DataType::Date => Self::Date(FixedView::new(column, rows)?),
            DataType::Timestamp => Self::Timestamp(FixedView::new(column, rows)?),
            DataType::TimestampNtz => Self::TimestampNtz(FixedView::new(column, rows)?),
            DataType::Utf8 => Self::Utf8(Utf8View::new(column, rows)?),
            DataType::Binary => Self::Binary(BinaryView::new(column, rows)?),
        })
    }

    /// The value of a row; `None` for NULL and beyond the last row.
    #[inline]
    pub fn get(&self, row: usize) -> Option<Value<'a>> {
        match self {
            Self::Boolean(view) => view.get(row).map(Value::Boolean),
            Self::Int16(view) => view.get(row).map(|value| Value::Int(value.into())),
            Self::Int32(view) => view.get(row).map(|value| Value::Int(value.into())),
            Self::Int64(view) => view.get(row).map(Value::Int),
            Self::Float32(view) => view.get(row).map(Value::Float32),
            Self::Float64(view) => view.get(row).map(Value::Float64),
            Self::Decimal(view, scale) => view.get(row).map(|value| Value::Decimal(value, *scale)),
            Self::Date(view) => view.get(row).map(Value::Date),
            Self::Timestamp(view) => view.get(row).map(Value::Timestamp),
            Self::TimestampNtz(view) => view.get(row).map(Value::TimestampNtz),
            Self::Utf8(view) => view.get(row).map(Value::Utf8),
            Self::Binary(view) => view.get(row).map(Value::Binary),
        }
    }
}

/// `<[u8]>::is_ascii` looks at four bytes at a time in a component; a loop without an end in the middle, at sixteen.
fn is_ascii(bytes: &[u8]) -> bool {
    let has_other = |piece: &[u8]| piece.iter().fold(0, |all, byte| all | byte) >= 0x80;
    !bytes.chunks(1024).any(has_other)
}

#[inline]
fn bit(bits: &[u8], row: usize) -> bool {
    bits.get(row / 8).is_some_and(|byte| byte & (1 << (row % 8)) != 0)
}

fn checked_offsets(column: &Column, rows: usize) -> Option<&[i32]> {
    let offsets = column.offsets.as_slice();
    let covers = offsets.len() == rows.checked_add(1)?
        && offsets.first() == Some(&0)
        && offsets.is_sorted()
        && offsets.last().is_some_and(|&last| last as usize == column.values.len());
    covers.then_some(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(offsets: &[i32], values: &[u8]) -> Column {
        Column {
            validity: None,
            offsets: offsets.to_vec(),
            values: values.to_vec(),
        }
    }

    #[test]
    fn text_is_read_without_copying() {
        let mut column = text(&[0, 2, 2, 5], "äabc".as_bytes());
        column.validity = Some(vec![0b101]);
        let view = Utf8View::new(&column, 3).unwrap();
        assert_eq!(view.iter().collect::<Vec<_>>(), [Some("ä"), None, Some("abc")]);
        assert_eq!(view.get(3), None);
        assert!(!view.is_ascii());
        assert!(Utf8View::new(&text(&[0, 3], b"abc"), 1).unwrap().is_ascii());
        for at in [0, 1, 1023, 1024, 2047] {
            let mut long = vec![b'a'; 2048];
            assert!(is_ascii(&long));
            long[at] = 0x80;
            assert!(!is_ascii(&long), "{at}");
        }
    }

    #[test]
    fn malformed_text_has_no_view() {
        for (offsets, values, rows) in [
            (&[0, 1][..], &b"ab"[..], 1),
            (&[1, 2], b"ab", 1),
            (&[0, 2, 1], b"a", 2),
            (&[0, -1, 1], b"a", 2),
            (&[0, 1], b"a", 2),
            (&[], b"", 0),
            (&[0, 1], b"\xff", 1),
            (&[0, 1, 2], "ä".as_bytes(), 2),
        ] {
            assert!(Utf8View::new(&text(offsets, values), rows).is_none());
        }
        let mut short = text(&[0; 10], b"");
        short.validity = Some(vec![0xff]);
        assert!(Utf8View::new(&short, 9).is_none());
    }

    #[test]
    fn fixed_width_values_must_fill_the_buffer() {
        let column = text(&[], &1_i128.to_le_bytes());
        assert_eq!(FixedView::<i128>::new(&column, 1).unwrap().get(0), Some(1));
        assert!(FixedView::<i128>::new(&column, 2).is_none());
        assert!(FixedView::<i32>::new(&column, 3).is_none());
        assert!(FixedView::<i32>::new(&column, usize::MAX).is_none());
    }

    #[test]
    fn an_empty_column_of_every_type() {
        let fixed = Column::default();
        let varying = text(&[0], b"");
        for data_type in [DataType::Boolean, DataType::Int64, DataType::Date] {
            assert!(AnyView::new(&fixed, 0, data_type).unwrap().get(0).is_none());
        }
        for data_type in [DataType::Utf8, DataType::Binary] {
            assert!(AnyView::new(&varying, 0, data_type).is_some());
        }
    }
}
