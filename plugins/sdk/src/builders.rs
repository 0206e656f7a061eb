//! Builders that make well-formed columns. Values are written straight into the buffers that leave the component.

use crate::batch::{ApplyError, Column};

/// A number with a fixed width in a buffer.
pub trait Native: Copy {
    /// Bytes a value.
    const WIDTH: usize;
    /// Reads one value from exactly `WIDTH` bytes.
    fn read(bytes: &[u8]) -> Option<Self>;
    /// Writes one value.
    fn write(self, to: &mut Vec<u8>);
}

macro_rules! native {
    ($($type:ty),*) => {$(
        impl Native for $type {
            const WIDTH: usize = size_of::<Self>();

            #[inline]
            fn read(bytes: &[u8]) -> Option<Self> {
                Some(Self::from_le_bytes(bytes.try_into().ok()?))
            }

            #[inline]
            fn write(self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

native!(i16, i32, i64, i128, f32, f64);

/// Which rows have a value; no bitmap is made as long as all have one.
#[derive(Debug, Default)]
struct Nulls {
    rows: usize,
    bits: Option<Vec<u8>>,
}

impl Nulls {
    #[inline]
    fn push(&mut self, valid: bool) {
        let row = self.rows;
        self.rows += 1;
        if valid && self.bits.is_none() {
            return;
        }
        let bits = self.bits.get_or_insert_with(|| {
            let mut bits = vec![0xff; row / 8];
            if !row.is_multiple_of(8) {
                bits.push((1 << (row % 8)) - 1);
            }
            bits
        });
        if row.is_multiple_of(8) {
            bits.push(0);
        }
        if valid && let Some(last) = bits.last_mut() {
            *last |= 1 << (row % 8);
        }
    }
}

/// Builds a binary column.
#[derive(Debug)]
pub struct BinaryBuilder {
    offsets: Vec<i32>,
    values: Vec<u8>,
    nulls: Nulls,
    overflow: bool,
}

impl BinaryBuilder {
    /// A builder with room for this many rows and bytes of values.
    pub fn with_capacity(rows: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self {
            offsets,
            values: Vec::with_capacity(bytes),
            nulls: Nulls::default(),
            overflow: false,
        }
    }

    /// Adds a row with a value.
    #[inline]
    pub fn push(&mut self, value: &[u8]) {
        self.values.extend_from_slice(value);
        self.end(true);
    }

    /// Adds a row that is NULL.
    #[inline]
    pub fn push_null(&mut self) {
        self.end(false);
    }

    /// Adds a row with a value, or NULL.
    #[inline]
    pub fn push_option(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.push(value),
            None => self.push_null(),
        }
    }

    /// The column.
    ///
    /// # Errors
    /// `output-too-large` where the values together have more than 2 GiB, which 32-bit offsets cannot say.
    pub fn finish(self) -> Result<Column, ApplyError> {
        if self.overflow {
            return Err(ApplyError::new("output-too-large", "a column has more than 2 GiB"));
        }
        Ok(Column {
            validity: self.nulls.bits,
            offsets: self.offsets,
            values: self.values,
        })
    }

    #[inline]
    fn end(&mut self, valid: bool) {
        match i32::try_from(self.values.len()) {
            Ok(offset) => self.offsets.push(offset),
            Err(_) => self.overflow = true,
        }
        self.nulls.push(valid);
    }
}

/// Builds a text column.
#[derive(Debug)]
pub struct Utf8Builder(BinaryBuilder);

impl Utf8Builder {
    /// A builder with room for this many rows and bytes of text.
    pub fn with_capacity(rows: usize, bytes: usize) -> Self {
        Self(BinaryBuilder::with_capacity(rows, bytes))
    }

    /// Adds a row with a value.
    #[inline]
    pub fn push(&mut self, value: &str) {
        self.0.push(value.as_bytes());
    }

    /// Adds a row that is NULL.
    #[inline]
    pub fn push_null(&mut self) {
        self.0.push_null();
    }

    /// Adds a row with a value, or NULL.
    #[inline]
    pub fn push_option(&mut self, value: Option<&str>) {
        self.0.push_option(value.map(str::as_bytes));
    }

    /// Adds a piece to the row that [`Utf8Builder::end_row`] will end.
    #[inline]
    pub fn append(&mut self, piece: &str) {
        self.0.values.extend_from_slice(piece.as_bytes());
    }

    /// Adds a piece with its ASCII letters in lower case to the row that [`Utf8Builder::end_row`] will end.
    #[inline]
    pub fn append_ascii_lowercase(&mut self, piece: &str) {
        // Bytes of other characters are no ASCII letters, and stay.
        let values = &mut self.0.values;
        let from = values.len();
        values.extend_from_slice(piece.as_bytes());
        values[from..].make_ascii_lowercase();
    }

    /// Adds the first `digits` lower-case hexadecimal digits of these bytes to the row that [`Utf8Builder::end_row`]
    /// will end.
    #[inline]
    pub fn append_hex(&mut self, bytes: &[u8], digits: usize) {
        let values = &mut self.0.values;
        let end = values.len().saturating_add(digits.min(bytes.len().saturating_mul(2)));
        let whole = bytes.len().min(digits.div_ceil(2));
        values.reserve(whole * 2);
        // A digest at a time, whose digits are put together in registers.
        let (digests, rest) = bytes[..whole].as_chunks::<32>();
        for digest in digests {
            let mut digits = [0; 64];
            let (fours, _) = digest.as_chunks::<4>();
            let (eights, _) = digits.as_chunks_mut::<8>();
            for (eight, four) in eights.iter_mut().zip(fours) {
                *eight = hex(*four);
            }
            values.extend_from_slice(&digits);
        }
        let (fours, rest) = rest.as_chunks::<4>();
        for four in fours {
            values.extend_from_slice(&hex(*four));
        }
        for &byte in rest {
            let [high, low, ..] = hex([byte, 0, 0, 0]);
            values.extend_from_slice(&[high, low]);
        }
        // An odd number of digits ends in the middle of a byte.
        values.truncate(end);
    }

    /// Adds a character, so many times, to the row that [`Utf8Builder::end_row`] will end.
    #[inline]
    pub fn append_repeated(&mut self, char: char, times: usize) {
        let mut encoded = [0; 4];
        let encoded = char.encode_utf8(&mut encoded).as_bytes();
        match encoded {
            [byte] => {
                let length = self.0.values.len().saturating_add(times);
                self.0.values.resize(length, *byte);
            }
            _ => (0..times).for_each(|_| self.0.values.extend_from_slice(encoded)),
        }
    }

    /// Ends a row that was written in pieces, by [`Utf8Builder::append`] or `write!`.
    #[inline]
    pub fn end_row(&mut self) {
        self.0.end(true);
    }

    /// The column.
    ///
    /// # Errors
    /// As [`BinaryBuilder::finish`].
    pub fn finish(self) -> Result<Column, ApplyError> {
        self.0.finish()
    }
}

/// The lower-case hexadecimal digits of four bytes, all eight at once: a digest has 64, and a table of masked columns has
/// two digests and more a row.
#[inline]
fn hex(bytes: [u8; 4]) -> [u8; 8] {
    // Each byte of `each` is to become one digit. Two bytes apart, then one: the first of the four stays the lowest.
    let each = u64::from(u32::from_le_bytes(bytes));
    let each = (each | each << 16) & 0x0000_ffff_0000_ffff;
    let each = (each | each << 8) & 0x00ff_00ff_00ff_00ff;
    // The high half of a byte is written first.
    let each = (each >> 4 | each << 8) & 0x0f0f_0f0f_0f0f_0f0f;
    // 1 in the bytes from 10 on, whose digits are letters: `a` is 39 after what would follow `9`.
    let letters = (each + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    (each + 0x3030_3030_3030_3030 + letters * 39).to_le_bytes()
}

impl std::fmt::Write for Utf8Builder {
    #[inline]
    fn write_str(&mut self, piece: &str) -> std::fmt::Result {
        self.append(piece);
        Ok(())
    }
}

/// Builds a boolean column.
#[derive(Debug, Default)]
pub struct BooleanBuilder {
    bits: Vec<u8>,
    nulls: Nulls,
}

impl BooleanBuilder {
    /// A builder with room for this many rows.
    pub fn with_capacity(rows: usize) -> Self {
        Self {
            bits: Vec::with_capacity(rows.div_ceil(8)),
            nulls: Nulls::default(),
        }
    }

    /// Adds a row with a value, or NULL.
    #[inline]
    pub fn push_option(&mut self, value: Option<bool>) {
        let row = self.nulls.rows;
        if row.is_multiple_of(8) {
            self.bits.push(0);
        }
        if value == Some(true)
            && let Some(last) = self.bits.last_mut()
        {
            *last |= 1 << (row % 8);
        }
        self.nulls.push(value.is_some());
    }

    /// The column.
    pub fn finish(self) -> Column {
        Column {
            validity: self.nulls.bits,
            offsets: Vec::new(),
            values: self.bits,
        }
    }
}

/// Builds a column of fixed-width values.
#[derive(Debug)]
pub struct FixedBuilder<T> {
    values: Vec<u8>,
    nulls: Nulls,
    native: std::marker::PhantomData<T>,
}

impl<T: Native + Default> FixedBuilder<T> {
    /// A builder with room for this many rows.
    pub fn with_capacity(rows: usize) -> Self {
        Self {
            values: Vec::with_capacity(rows * T::WIDTH),
            nulls: Nulls::default(),
            native: std::marker::PhantomData,
        }
    }

    /// Adds a row with a value, or NULL.
    #[inline]
    pub fn push_option(&mut self, value: Option<T>) {
        // Zeros under NULL: never a value that was meant to disappear.
        value.unwrap_or_default().write(&mut self.values);
        self.nulls.push(value.is_some());
    }

    /// The column.
    pub fn finish(self) -> Column {
        Column {
            validity: self.nulls.bits,
            offsets: Vec::new(),
            values: self.values,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use crate::views::{BooleanView, FixedView, Utf8View};

    #[test]
    fn validity_starts_at_the_first_null_wherever_it_is() {
        for first_null in 0..20 {
            let mut builder = FixedBuilder::<i32>::with_capacity(20);
            for row in 0..20 {
                builder.push_option((row != first_null).then_some(row));
            }
            let column = builder.finish();
            let view = FixedView::<i32>::new(&column, 20).unwrap();
            for row in 0..20_i32 {
                let expected = (row != first_null).then_some(row);
                assert_eq!(view.get(row as usize), expected, "{first_null}");
            }
            assert_eq!(column.validity.unwrap().len(), 3);
        }
    }

    #[test]
    fn no_null_means_no_bitmap() {
        let mut builder = BooleanBuilder::with_capacity(9);
        for row in 0..9 {
            builder.push_option(Some(row % 2 == 0));
        }
        let column = builder.finish();
        assert_eq!(column.validity, None);
        assert_eq!(column.values, [0b0101_0101, 1]);
        assert_eq!(BooleanView::new(&column, 9).unwrap().get(8), Some(true));
    }

    #[test]
    fn text_in_pieces() {
        let mut builder = Utf8Builder::with_capacity(0, 0);
        builder.append("a");
        write!(builder, "{}", 12).unwrap();
        builder.append_hex(&[0xab, 0xcd], 3);
        builder.append_hex(&[0x01], usize::MAX);
        builder.append_hex(&[0xff], 0);
        builder.append_repeated('*', 2);
        builder.append_repeated('•', 2);
        builder.append_ascii_lowercase("Zß Ä");
        builder.end_row();
        builder.push_null();
        builder.push("ß");
        let column = builder.finish().unwrap();
        let view = Utf8View::new(&column, 3).unwrap();
        assert_eq!(
            view.iter().collect::<Vec<_>>(),
            [Some("a12abc01**••zß Ä"), None, Some("ß")]
        );
    }

    /// Of `format!`, which writes digits one by one.
    #[test]
    fn hexadecimal_digits_of_every_byte_at_every_place_and_of_every_length() {
        let written = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        for byte in 0..=u8::MAX {
            for place in 0..4 {
                let mut four = [0x5a, 0xff, 0, 0x09];
                four[place] = byte;
                assert_eq!(hex(four), written(&four).as_bytes(), "{four:?}");
            }
        }
        let bytes: Vec<u8> = (0..71_u8).map(|n| n.wrapping_mul(7)).collect();
        for length in 0..bytes.len() {
            for digits in 0..2 * length + 2 {
                let mut builder = Utf8Builder::with_capacity(1, 0);
                builder.append("x");
                builder.append_hex(&bytes[..length], digits);
                builder.end_row();
                let expected = format!("x{}", &written(&bytes[..length])[..digits.min(2 * length)]);
                assert_eq!(
                    builder.finish().unwrap().values,
                    expected.as_bytes(),
                    "{length} {digits}"
                );
            }
        }
    }

    #[test]
    fn an_empty_text_column_has_one_offset() {
        let column = Utf8Builder::with_capacity(0, 0).finish().unwrap();
        assert_eq!(column.offsets, [0]);
    }
}
