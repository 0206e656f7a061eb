//! Bytes as a plan and an outcome: mostly what the plan promises, with a fault here and there.

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Int32Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{Field, Int32Type, Schema};
use sluice::shape::META_BEFORE;
use sluice::transform::hostile::{DecimalType, wit};

const MAX_ROWS: usize = 24;
const MAX_OUTPUTS: usize = 6;

/// The captured columns of the input.
const CAPTURED: [&str; 5] = ["id", "name", "first name", "flag", "amount"];
/// Names that a plan should not use, or not twice, and odd ones that it may.
const ODD_NAMES: [&str; 16] = [
    "",
    "C0",
    "c0",
    "ä",
    "Ä",
    "a.b",
    "a b",
    "a=b",
    "a\nb",
    "\0",
    "_start_lsn",
    "_OPERATION",
    "_omitted",
    "_batch_id",
    "İ",
    "``",
];
/// Texts of one to four bytes a character, and none.
const PIECES: [&str; 8] = ["", "a", "ä", "日", "😀", "\0", "abc def", "e\u{301}"];

/// Days and microseconds of the years 1 to 9999.
const DAYS: (i128, i128) = (-719_162, 2_932_896);
const MICROS: (i128, i128) = (-62_135_596_800_000_000, 253_402_300_799_999_999);

/// A question and its answer.
pub(super) struct Case {
    pub(super) input: RecordBatch,
    pub(super) plan: wit::Plan,
    pub(super) outcome: wit::Outcome,
}

pub(super) fn case(bytes: &mut Unstructured<'_>) -> Result<Case> {
    let rows = bytes.int_in_range(0..=MAX_ROWS)?;
    let operations = operations(bytes, rows)?;
    let plan = plan(bytes)?;
    let outcome = outcome(bytes, &plan, &operations)?;
    Ok(Case {
        // Names and lengths are fixed here, so it is a batch.
        input: input(&operations).map_err(|_| arbitrary::Error::IncorrectFormat)?,
        plan,
        outcome,
    })
}

/// Operations of rows, the two of an update mostly together.
fn operations(bytes: &mut Unstructured<'_>, rows: usize) -> Result<Vec<i32>> {
    let mut operations = Vec::with_capacity(rows + 1);
    while operations.len() < rows {
        match bytes.int_in_range(0..=5)? {
            4 => operations.extend([3, 4]),
            5 => operations.push(4),
            operation => operations.push(operation),
        }
    }
    operations.truncate(rows);
    Ok(operations)
}

fn input(operations: &[i32]) -> std::result::Result<RecordBatch, arrow::error::ArrowError> {
    let rows = operations.len();
    let mut change = 0;
    let lsns: Vec<String> = operations
        .iter()
        .map(|operation| {
            change += i32::from(*operation != 4);
            format!("0x{change:020X}")
        })
        .collect();
    let lsns: ArrayRef = Arc::new(StringArray::from(lsns));
    let instance: DictionaryArray<Int32Type> = std::iter::repeat_n("dbo_t", rows).collect();
    let some = |row: &usize| row % 3 != 1;
    let meta: [ArrayRef; 6] = [
        Arc::new(instance),
        Arc::clone(&lsns),
        lsns,
        Arc::new(Int32Array::from(operations.to_vec())),
        Arc::new(Int32Array::from(vec![1; rows])),
        Arc::new(TimestampMicrosecondArray::from(vec![0; rows])),
    ];
    let text = |row: usize| some(&row).then(|| PIECES[row % PIECES.len()]);
    let amounts: Decimal128Array = (0..rows).map(|row| some(&row).then_some(row as i128)).collect();
    let captured: [ArrayRef; 5] = [
        Arc::new((0..rows as i32).map(Some).collect::<Int32Array>()),
        Arc::new((0..rows).map(text).collect::<StringArray>()),
        Arc::new((0..rows).map(text).collect::<StringArray>()),
        Arc::new(
            (0..rows)
                .map(|row| some(&row).then_some(row % 2 == 0))
                .collect::<BooleanArray>(),
        ),
        Arc::new(amounts.with_precision_and_scale(9, 2)?),
    ];
    let columns: Vec<ArrayRef> = meta.into_iter().chain(captured).collect();
    let names = META_BEFORE.into_iter().chain(CAPTURED);
    let fields: Vec<Field> = names
        .zip(&columns)
        .map(|(name, column)| Field::new(name, column.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn plan(bytes: &mut Unstructured<'_>) -> Result<wit::Plan> {
    let outputs = (0..bytes.int_in_range(0..=MAX_OUTPUTS)?)
        .map(|index| {
            let name = match bytes.ratio(31, 32)? {
                true => format!("c{index}"),
                false => (*bytes.choose(&ODD_NAMES)?).to_owned(),
            };
            let source = match bytes.ratio(3, 4)? {
                true => wit::OutputSource::Computed(wit::ComputedField {
                    data_type: data_type(bytes)?,
                    nullable: bytes.ratio(3, 4)?,
                    sources: columns(bytes)?,
                    keys: Vec::new(),
                    how: (*bytes.choose(&PIECES)?).to_owned(),
                }),
                false => wit::OutputSource::Pass(column_name(bytes)?),
            };
            Ok(wit::OutputColumn { name, source })
        })
        .collect::<Result<_>>()?;
    Ok(wit::Plan {
        outputs,
        reads: columns(bytes)?,
    })
}

fn columns(bytes: &mut Unstructured<'_>) -> Result<Vec<String>> {
    (0..bytes.int_in_range(0..=2)?).map(|_| column_name(bytes)).collect()
}

fn column_name(bytes: &mut Unstructured<'_>) -> Result<String> {
    let name = match bytes.ratio(63, 64)? {
        true => bytes.choose(&CAPTURED)?,
        false => match bytes.arbitrary()? {
            true => bytes.choose(&META_BEFORE)?,
            false => bytes.choose(&ODD_NAMES)?,
        },
    };
    Ok((*name).to_owned())
}

fn data_type(bytes: &mut Unstructured<'_>) -> Result<wit::DataType> {
    Ok(match bytes.int_in_range(0..=12)? {
        0 => wit::DataType::Boolean,
        1 => wit::DataType::Int16,
        2 => wit::DataType::Int32,
        3 => wit::DataType::Int64,
        4 => wit::DataType::Float32,
        5 => wit::DataType::Float64,
        6 => wit::DataType::Date,
        7 => wit::DataType::Timestamp,
        8 => wit::DataType::TimestampNtz,
        9 => wit::DataType::Utf8,
        10 => wit::DataType::Binary,
        _ => {
            let precision = match bytes.ratio(31, 32)? {
                true => bytes.int_in_range(1..=38)?,
                false => bytes.arbitrary()?,
            };
            let scale = match bytes.ratio(31, 32)? {
                true => bytes.int_in_range(0..=precision)?,
                false => bytes.arbitrary()?,
            };
            wit::DataType::Decimal(DecimalType { precision, scale })
        }
    })
}

fn outcome(bytes: &mut Unstructured<'_>, plan: &wit::Plan, operations: &[i32]) -> Result<wit::Outcome> {
    let rows = operations.len();
    let mut columns = Vec::new();
    for output in &plan.outputs {
        if let wit::OutputSource::Computed(field) = &output.source {
            columns.push(column(bytes, field.data_type, field.nullable, rows)?);
        }
    }
    if !bytes.ratio(31, 32)? {
        match bytes.arbitrary()? {
            true => columns.push(column(bytes, wit::DataType::Utf8, true, rows)?),
            false => drop(columns.pop()),
        }
    }
    let dropped = match bytes.ratio(1, 2)? {
        true => None,
        false => Some(dropped(bytes, operations)?),
    };
    let rejects = match bytes.ratio(31, 32)? {
        true => Vec::new(),
        false => (0..bytes.int_in_range(1..=3)?)
            .map(|_| reject(bytes, rows))
            .collect::<Result<_>>()?,
    };
    Ok(wit::Outcome {
        columns,
        dropped,
        rejects,
    })
}

/// Rows to drop, the two of an update mostly together.
fn dropped(bytes: &mut Unstructured<'_>, operations: &[i32]) -> Result<Vec<u8>> {
    let mut bits = bitmap(bytes, operations.len())?;
    for (row, pair) in operations.windows(2).enumerate() {
        if pair == [3, 4] && bytes.ratio(31, 32)? {
            let bit = bits.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1);
            if let Some(byte) = bits.get_mut((row + 1) / 8) {
                let mask = 1 << ((row + 1) % 8);
                *byte = if bit { *byte | mask } else { *byte & !mask };
            }
        }
    }
    Ok(bits)
}

fn reject(bytes: &mut Unstructured<'_>, rows: usize) -> Result<wit::Reject> {
    let row = match bytes.ratio(7, 8)? {
        true => u32::try_from(bytes.int_in_range(0..=rows)?).unwrap_or(0),
        false => bytes.arbitrary()?,
    };
    Ok(wit::Reject {
        row,
        column: column_name(bytes)?,
        code: (*bytes.choose(&PIECES)?).to_owned(),
    })
}

/// A number that is mostly the right one.
fn near(bytes: &mut Unstructured<'_>, right: usize) -> Result<usize> {
    Ok(match bytes.ratio(63, 64)? {
        true => right,
        false => match bytes.int_in_range(0..=2)? {
            0 => right.saturating_sub(1),
            1 => right + 1,
            _ => bytes.int_in_range(0..=64)?,
        },
    })
}

/// A column that is mostly what was planned.
fn column(
    bytes: &mut Unstructured<'_>,
    data_type: wit::DataType,
    nullable: bool,
    rows: usize,
) -> Result<wit::ColumnResult> {
    let told = near(bytes, rows)?;
    let mut offsets = Vec::new();
    let mut values = Vec::new();
    match data_type {
        wit::DataType::Boolean => values = bitmap(bytes, told)?,
        wit::DataType::Utf8 | wit::DataType::Binary => {
            offsets.push(0);
            for _ in 0..told {
                match bytes.ratio(31, 32)? {
                    true => values.extend_from_slice(bytes.choose(&PIECES)?.as_bytes()),
                    false => values.extend_from_slice(&bytes.arbitrary::<[u8; 3]>()?),
                }
                offsets.push(i32::try_from(values.len()).unwrap_or(i32::MAX));
            }
        }
        _ => {
            let (range, width) = numbers(data_type);
            for _ in 0..told {
                values.extend_from_slice(&number(bytes, range)?.to_le_bytes()[..width]);
            }
        }
    }
    // Where no NULL is promised, a bitmap without one is as good as none.
    let validity = match bytes.ratio(1, 2)? {
        true => None,
        false if nullable || !bytes.ratio(7, 8)? => Some(bitmap(bytes, rows)?),
        false => Some(vec![0xFF; rows.div_ceil(8)]),
    };
    let mut column = wit::ColumnResult {
        validity,
        offsets,
        values,
    };
    if !bytes.ratio(15, 16)? {
        damage(bytes, &mut column)?;
    }
    Ok(column)
}

/// A bitmap with any bits, also after its last row, of mostly the right length.
fn bitmap(bytes: &mut Unstructured<'_>, rows: usize) -> Result<Vec<u8>> {
    (0..near(bytes, rows.div_ceil(8))?).map(|_| bytes.arbitrary()).collect()
}

/// The values of a type of fixed width, and that width in bytes. Every pattern of bits is a float.
fn numbers(data_type: wit::DataType) -> ((i128, i128), usize) {
    match data_type {
        wit::DataType::Int16 => ((i16::MIN.into(), i16::MAX.into()), 2),
        wit::DataType::Int32 | wit::DataType::Float32 => ((i32::MIN.into(), i32::MAX.into()), 4),
        wit::DataType::Date => (DAYS, 4),
        wit::DataType::Timestamp | wit::DataType::TimestampNtz => (MICROS, 8),
        wit::DataType::Decimal(decimal) => {
            let bound = 10_i128.checked_pow(decimal.precision.into()).unwrap_or(i128::MAX);
            ((1 - bound, bound - 1), 16)
        }
        _ => ((i64::MIN.into(), i64::MAX.into()), 8),
    }
}

/// A number inside the range, at its ends, or now and then beyond them.
fn number(bytes: &mut Unstructured<'_>, (low, high): (i128, i128)) -> Result<i128> {
    Ok(match bytes.int_in_range(0..=4)? {
        0 => 0,
        1 => low,
        2 => high,
        3 => bytes.int_in_range(low..=high)?,
        _ => match bytes.ratio(15, 16)? {
            true => bytes.arbitrary::<i8>()?.into(),
            false => match bytes.int_in_range(0..=2)? {
                0 => low.wrapping_sub(1),
                1 => high.wrapping_add(1),
                _ => bytes.arbitrary()?,
            },
        },
    })
}

/// One fault.
fn damage(bytes: &mut Unstructured<'_>, column: &mut wit::ColumnResult) -> Result<()> {
    let (values, offsets) = (&mut column.values, &mut column.offsets);
    match bytes.int_in_range(0..=8)? {
        0 => values.push(bytes.arbitrary()?),
        1 => drop(values.pop()),
        2 if !values.is_empty() => {
            let at = bytes.choose_index(values.len())?;
            values[at] = bytes.arbitrary()?;
        }
        3 if !offsets.is_empty() => {
            let at = bytes.choose_index(offsets.len())?;
            offsets[at] = bytes.arbitrary()?;
        }
        4 if !offsets.is_empty() => {
            let at = bytes.choose_index(offsets.len())?;
            let by = if bytes.arbitrary()? { 1 } else { -1 };
            offsets[at] = offsets[at].wrapping_add(by);
        }
        5 => offsets.push(bytes.arbitrary()?),
        6 => drop(offsets.pop()),
        7 => offsets.clear(),
        _ => column.validity = Some(bytes.arbitrary::<[u8; 2]>()?.to_vec()),
    }
    Ok(())
}
