//! Arrow arrays to and from the columns of the contract. Going in, buffers are lent where their layout allows it. Coming
//! back, nothing is believed: [`array`] checks every length, offset and value that Arrow relies on.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Decimal128Array, GenericByteArray, PrimitiveArray, StringArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, ByteArrayType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type,
    Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};

use super::bindings::v0_3::exports::sluice::transform::transform as wit;
use super::bindings::v0_3::sluice::transform::types;
use super::check::{Invalid, What};

#[cfg(target_endian = "big")]
compile_error!("the contract is little-endian, and buffers cross it as they lie in memory");

/// Days and microseconds of 0001-01-01 and 9999-12-31, the first and the last day that Delta can hold.
const DAYS: std::ops::RangeInclusive<i32> = -719_162..=2_932_896;
const MICROS: std::ops::RangeInclusive<i64> = -62_135_596_800_000_000..=253_402_300_799_999_999;

/// The name of UTC in the type of a timestamp with a zone, as Delta's writers expect it.
const UTC: &str = "UTC";

/// The type of the contract for an Arrow type; absent when there is none.
pub(crate) fn wire_type(data_type: &DataType) -> Option<wit::DataType> {
    Some(match data_type {
        DataType::Boolean => wit::DataType::Boolean,
        DataType::Int16 => wit::DataType::Int16,
        DataType::Int32 => wit::DataType::Int32,
        DataType::Int64 => wit::DataType::Int64,
        DataType::Float32 => wit::DataType::Float32,
        DataType::Float64 => wit::DataType::Float64,
        DataType::Decimal128(precision, scale) => wit::DataType::Decimal(types::DecimalType {
            precision: *precision,
            scale: u8::try_from(*scale).ok()?,
        }),
        DataType::Date32 => wit::DataType::Date,
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => wit::DataType::Timestamp,
        DataType::Timestamp(TimeUnit::Microsecond, None) => wit::DataType::TimestampNtz,
        DataType::Utf8 => wit::DataType::Utf8,
        DataType::Binary => wit::DataType::Binary,
        _ => return None,
    })
}

/// The Arrow type for a type of the contract; absent when a decimal has no valid precision and scale.
pub(crate) fn arrow_type(data_type: wit::DataType) -> Option<DataType> {
    Some(match data_type {
        wit::DataType::Boolean => DataType::Boolean,
        wit::DataType::Int16 => DataType::Int16,
        wit::DataType::Int32 => DataType::Int32,
        wit::DataType::Int64 => DataType::Int64,
        wit::DataType::Float32 => DataType::Float32,
        wit::DataType::Float64 => DataType::Float64,
        wit::DataType::Decimal(decimal) => {
            let scale = i8::try_from(decimal.scale).ok()?;
            if !(1..=38).contains(&decimal.precision) || decimal.scale > decimal.precision {
                return None;
            }
            DataType::Decimal128(decimal.precision, scale)
        }
        wit::DataType::Date => DataType::Date32,
        wit::DataType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        wit::DataType::TimestampNtz => DataType::Timestamp(TimeUnit::Microsecond, None),
        wit::DataType::Utf8 => DataType::Utf8,
        wit::DataType::Binary => DataType::Binary,
    })
}

/// The name of a type as the contract writes it: `utf8`, `decimal(9,2)`.
pub(crate) fn wire_name(data_type: &wit::DataType) -> String {
    match data_type {
        wit::DataType::Boolean => "boolean".to_owned(),
        wit::DataType::Int16 => "int16".to_owned(),
        wit::DataType::Int32 => "int32".to_owned(),
        wit::DataType::Int64 => "int64".to_owned(),
        wit::DataType::Float32 => "float32".to_owned(),
        wit::DataType::Float64 => "float64".to_owned(),
        wit::DataType::Decimal(decimal) => format!("decimal({},{})", decimal.precision, decimal.scale),
        wit::DataType::Date => "date".to_owned(),
        wit::DataType::Timestamp => "timestamp".to_owned(),
        wit::DataType::TimestampNtz => "timestamp-ntz".to_owned(),
        wit::DataType::Utf8 => "utf8".to_owned(),
        wit::DataType::Binary => "binary".to_owned(),
    }
}

/// The buffers of one column in the layout of the contract, lent from an array where that is possible.
#[derive(Debug)]
pub(crate) struct WireColumn<'a> {
    validity: Option<Cow<'a, [u8]>>,
    offsets: Cow<'a, [i32]>,
    values: Cow<'a, [u8]>,
}

impl<'a> WireColumn<'a> {
    /// `None` when the array's type has no place in the contract.
    pub(crate) fn new(array: &'a dyn Array) -> Option<WireColumn<'a>> {
        let mut offsets = Cow::Borrowed(&[][..]);
        let values = match array.data_type() {
            DataType::Boolean => bitmap(array.as_boolean().values()),
            DataType::Int16 => fixed::<Int16Type>(array)?,
            DataType::Int32 => fixed::<Int32Type>(array)?,
            DataType::Int64 => fixed::<Int64Type>(array)?,
            DataType::Float32 => fixed::<Float32Type>(array)?,
            DataType::Float64 => fixed::<Float64Type>(array)?,
            DataType::Decimal128(_, _) => fixed::<Decimal128Type>(array)?,
            DataType::Date32 => fixed::<Date32Type>(array)?,
            DataType::Timestamp(TimeUnit::Microsecond, _) => fixed::<TimestampMicrosecondType>(array)?,
            DataType::Utf8 => {
                let (rebased, values) = variable(array.as_string_opt()?);
                offsets = rebased;
                values
            }
            DataType::Binary => {
                let (rebased, values) = variable(array.as_binary_opt()?);
                offsets = rebased;
                values
            }
            _ => return None,
        };
        Some(WireColumn {
            validity: array
                .nulls()
                .filter(|nulls| nulls.null_count() > 0)
                .map(|nulls| bitmap(nulls.inner())),
            offsets,
            values,
        })
    }

    /// The column as the generated bindings lower it.
    pub(crate) fn lend(&self) -> wit::ColumnParam<'_> {
        wit::ColumnParam {
            validity: self.validity.as_deref(),
            offsets: &self.offsets,
            values: &self.values,
        }
    }
}

/// Bits from bit 0 on, with zeros after the last one, so that the guest sees the same bytes however a chunk was sliced.
fn bitmap(bits: &BooleanBuffer) -> Cow<'_, [u8]> {
    let bytes = bits.len().div_ceil(8);
    let spare = bytes * 8 - bits.len();
    if bits.offset() == 0 {
        let lent = &bits.values()[..bytes];
        let clean = lent.last().is_none_or(|last| spare == 0 || last >> (8 - spare) == 0);
        if clean {
            return Cow::Borrowed(lent);
        }
    }
    let mut copy = bits.sliced().as_slice()[..bytes].to_vec();
    if let Some(last) = copy.last_mut() {
        *last &= 0xFF >> spare;
    }
    Cow::Owned(copy)
}

fn fixed<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<Cow<'_, [u8]>> {
    let values = array.as_primitive_opt::<T>()?.values();
    Some(Cow::Borrowed(values.inner().as_slice()))
}

fn variable<T: ByteArrayType<Offset = i32>>(array: &GenericByteArray<T>) -> (Cow<'_, [i32]>, Cow<'_, [u8]>) {
    let offsets: &[i32] = array.offsets();
    let first = offsets.first().copied().unwrap_or(0);
    let last = offsets.last().copied().unwrap_or(0);
    // An Arrow array's offsets are in range by construction.
    let values = &array.values().as_slice()[first as usize..last as usize];
    let offsets = if first == 0 {
        Cow::Borrowed(offsets)
    } else {
        Cow::Owned(offsets.iter().map(|offset| offset - first).collect())
    };
    (offsets, Cow::Borrowed(values))
}

/// Makes an array of `rows` rows out of a column that a guest returned. `name` is the output column's.
///
/// # Errors
/// Whatever of the contract or of Arrow's rules the column breaks. Values under a NULL are not looked at, but text must
/// be UTF-8 as a whole.
pub(crate) fn array(
    name: &str,
    column: wit::ColumnResult,
    data_type: &DataType,
    nullable: bool,
    rows: usize,
) -> Result<ArrayRef, Invalid> {
    let Column {
        name,
        validity,
        offsets,
        values,
    } = Column::new(name, column);
    let invalid = |what| Invalid::new(name, what);
    let nulls = nulls(validity, rows).map_err(invalid)?;
    if !nullable && nulls.is_some() {
        return Err(invalid(What::NullInNonNull));
    }
    let is_variable = matches!(data_type, DataType::Utf8 | DataType::Binary);
    if !is_variable && !offsets.is_empty() {
        return Err(invalid(What::OffsetsNotWanted));
    }
    let array: ArrayRef = match data_type {
        DataType::Boolean => {
            let expected = rows.div_ceil(8);
            if values.len() != expected {
                return Err(invalid(What::ValuesLength {
                    expected,
                    got: values.len(),
                }));
            }
            let bits = BooleanBuffer::new(Buffer::from_vec(values), 0, rows);
            Arc::new(BooleanArray::new(bits, nulls))
        }
        DataType::Int16 => primitive::<Int16Type, 2>(&values, nulls, rows, i16::from_le_bytes).map_err(invalid)?,
        DataType::Int32 => primitive::<Int32Type, 4>(&values, nulls, rows, i32::from_le_bytes).map_err(invalid)?,
        DataType::Int64 => primitive::<Int64Type, 8>(&values, nulls, rows, i64::from_le_bytes).map_err(invalid)?,
        DataType::Float32 => primitive::<Float32Type, 4>(&values, nulls, rows, f32::from_le_bytes).map_err(invalid)?,
        DataType::Float64 => primitive::<Float64Type, 8>(&values, nulls, rows, f64::from_le_bytes).map_err(invalid)?,
        DataType::Date32 => {
            let array = primitive::<Date32Type, 4>(&values, nulls, rows, i32::from_le_bytes).map_err(invalid)?;
            in_range::<Date32Type>(&array, |days| DAYS.contains(&days))
                .map_err(|row| invalid(What::OutOfRange { row }))?;
            array
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let array =
                primitive::<TimestampMicrosecondType, 8>(&values, nulls, rows, i64::from_le_bytes).map_err(invalid)?;
            in_range::<TimestampMicrosecondType>(&array, |micros| MICROS.contains(&micros))
                .map_err(|row| invalid(What::OutOfRange { row }))?;
            let array = array.as_primitive::<TimestampMicrosecondType>().clone();
            Arc::new(array.with_timezone_opt(zone.clone()))
        }
        DataType::Decimal128(precision, scale) => {
            let array = primitive::<Decimal128Type, 16>(&values, nulls, rows, i128::from_le_bytes).map_err(invalid)?;
            let bound = 10_i128.checked_pow(u32::from(*precision)).unwrap_or(i128::MAX);
            in_range::<Decimal128Type>(&array, |value| -bound < value && value < bound)
                .map_err(|row| invalid(What::OutOfRange { row }))?;
            let array: Decimal128Array = array.as_primitive::<Decimal128Type>().clone();
            Arc::new(
                array
                    .with_precision_and_scale(*precision, *scale)
                    .map_err(|_| invalid(What::Type))?,
            )
        }
        DataType::Utf8 => {
            let offsets = checked_offsets(offsets, values.len(), rows).map_err(invalid)?;
            // `try_new` checks UTF-8 as a whole and that no offset cuts a character.
            let array = StringArray::try_new(offsets, Buffer::from_vec(values), nulls);
            Arc::new(array.map_err(|_| invalid(What::Utf8))?)
        }
        DataType::Binary => {
            let offsets = checked_offsets(offsets, values.len(), rows).map_err(invalid)?;
            let array = BinaryArray::try_new(offsets, Buffer::from_vec(values), nulls);
            Arc::new(array.map_err(|_| invalid(What::Offsets))?)
        }
        _ => return Err(invalid(What::Type)),
    };
    Ok(array)
}

/// Bytes of a returned column.
pub(crate) fn bytes(column: &wit::ColumnResult) -> u64 {
    let validity = column.validity.as_ref().map_or(0, Vec::len);
    (validity + size_of_val(column.offsets.as_slice()) + column.values.len()) as u64
}

/// Checks a column that the host made, in whose place an empty one came.
///
/// # Errors
/// Values came as well; another type than the plan's, other rows than the batch's, or a NULL that the plan does not have.
pub(crate) fn made(
    name: &str,
    placeholder: &wit::ColumnResult,
    made: ArrayRef,
    data_type: &DataType,
    nullable: bool,
    rows: usize,
) -> Result<ArrayRef, Invalid> {
    let what = if placeholder.validity.is_some() || !placeholder.offsets.is_empty() || !placeholder.values.is_empty() {
        What::MadeTwice
    } else if made.data_type() != data_type {
        What::MadeType
    } else if made.len() != rows {
        What::OffsetsLength {
            expected: rows + 1,
            got: made.len() + 1,
        }
    } else if !nullable && made.null_count() > 0 {
        What::NullInNonNull
    } else {
        return Ok(made);
    };
    Err(Invalid::new(name, what))
}

/// A returned column that is being looked at.
struct Column<'a> {
    name: &'a str,
    validity: Option<Vec<u8>>,
    offsets: Vec<i32>,
    values: Vec<u8>,
}

impl<'a> Column<'a> {
    fn new(name: &'a str, column: wit::ColumnResult) -> Column<'a> {
        Column {
            name,
            validity: column.validity,
            offsets: column.offsets,
            values: column.values,
        }
    }
}

/// `None` when no row is NULL.
fn nulls(validity: Option<Vec<u8>>, rows: usize) -> Result<Option<NullBuffer>, What> {
    let Some(bits) = validity else {
        return Ok(None);
    };
    let expected = rows.div_ceil(8);
    if bits.len() != expected {
        return Err(What::ValidityLength {
            expected,
            got: bits.len(),
        });
    }
    let nulls = NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(bits), 0, rows));
    Ok((nulls.null_count() > 0).then_some(nulls))
}

fn checked_offsets(offsets: Vec<i32>, values: usize, rows: usize) -> Result<OffsetBuffer<i32>, What> {
    let expected = rows + 1;
    if offsets.len() != expected {
        return Err(What::OffsetsLength {
            expected,
            got: offsets.len(),
        });
    }
    let ends = (
        offsets.first().copied(),
        offsets.last().map(|last| usize::try_from(*last)),
    );
    if ends != (Some(0), Some(Ok(values))) || !offsets.is_sorted() {
        return Err(What::Offsets);
    }
    Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}

/// Copies, because a guest's bytes have no alignment that Arrow could rely on.
fn primitive<T: ArrowPrimitiveType, const N: usize>(
    values: &[u8],
    nulls: Option<NullBuffer>,
    rows: usize,
    native: fn([u8; N]) -> T::Native,
) -> Result<ArrayRef, What> {
    let (cells, rest) = values.as_chunks::<N>();
    if cells.len() != rows || !rest.is_empty() {
        return Err(What::ValuesLength {
            expected: rows.saturating_mul(N),
            got: values.len(),
        });
    }
    let cells: ScalarBuffer<T::Native> = cells.iter().map(|cell| native(*cell)).collect();
    let array = PrimitiveArray::<T>::try_new(cells, nulls).map_err(|_| What::Type)?;
    Ok(Arc::new(array))
}

/// The first row with a value outside, if there is one.
fn in_range<T: ArrowPrimitiveType>(array: &ArrayRef, holds: impl Fn(T::Native) -> bool) -> Result<(), usize> {
    let array = array.as_primitive::<T>();
    match (0..array.len()).find(|row| array.is_valid(*row) && !holds(array.value(*row))) {
        Some(row) => Err(row),
        None => Ok(()),
    }
}
