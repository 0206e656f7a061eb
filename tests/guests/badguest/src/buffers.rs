//! Outcomes with one fault each, made from a good one.

use std::hint::black_box;

use sluice_plugin::{Batch, Column, Outcome, Reject};

use crate::{Behave, acts, first_value, plans, state};

pub(crate) fn outcome(behave: Behave, batch: &Batch, bytes: usize, read: &str) -> Outcome {
    let rows = batch.rows as usize;
    let mut outcome = Outcome::of(vec![made(behave, batch, bytes)]);
    let reject = |row, column: &str, code: &str| {
        vec![Reject {
            row,
            column: column.to_owned(),
            code: code.to_owned(),
        }]
    };
    match behave {
        Behave::TooManyColumns => outcome.columns.push(text(rows)),
        Behave::TooFewColumns => outcome.columns.clear(),
        Behave::RejectBeyond => outcome.rejects = reject(batch.rows, read, "bad-row"),
        Behave::RejectWithValue => {
            outcome.rejects = reject(0, read, &format!("bad value {}", first_value(batch)));
        }
        Behave::RejectWithPlainValue => outcome.rejects = reject(0, read, &first_value(batch)),
        Behave::RejectUnknownColumn => outcome.rejects = reject(0, &first_value(batch), "bad-row"),
        Behave::RejectInOutput => outcome.rejects = reject(0, plans::MADE, "bad-row"),
        Behave::Reject | Behave::HashedAndRejected => outcome.rejects = reject(0, read, "bad-row"),
        Behave::SplitUpdate => outcome.dropped = Some(dropped(batch, &[3])),
        Behave::DropUpdates => outcome.dropped = Some(dropped(batch, &[3, 4])),
        Behave::LongDropped => outcome.dropped = Some(vec![0; rows.div_ceil(8) + 1]),
        Behave::ShortDropped => outcome.dropped = Some(vec![0; rows.div_ceil(8).saturating_sub(1)]),
        _ => {}
    }
    outcome
}

fn made(behave: Behave, batch: &Batch, bytes: usize) -> Column {
    let rows = batch.rows as usize;
    let mut column = match behave {
        Behave::OddValues | Behave::OffsetsOnNumbers | Behave::NullInNonNull => numbers(rows * 4),
        Behave::ShortBooleans => numbers(rows.div_ceil(8)),
        Behave::DecimalTooLarge | Behave::DecimalTooLargeUnderNull => numbers(rows * 16),
        Behave::ShortColumn => text(rows.saturating_sub(1)),
        Behave::LongColumn => text(rows + 1),
        Behave::WideNumbers | Behave::TimestampBeyond => numbers(rows * 8),
        Behave::DateBeyond => numbers(rows * 4),
        Behave::NanPayloads => nans(rows),
        Behave::CountCalls => same(rows, &state::calls_before().to_string()),
        Behave::AskForKeys => same(rows, &acts::keys()),
        Behave::Leak | Behave::LeakWhole => leaked(behave, batch),
        Behave::Hashed
        | Behave::HashedAndReturned
        | Behave::HashedShort
        | Behave::HashedNumbers
        | Behave::HashedNull
        | Behave::HashedBeyond
        | Behave::HashedAndRejected
        | Behave::HashedFlood => acts::hashed(behave, rows),
        _ => text(rows),
    };
    match behave {
        Behave::OddValues => column.values.push(0),
        Behave::ShortBooleans => drop(column.values.pop()),
        Behave::OffsetBeyond => {
            if let Some(last) = column.offsets.last_mut() {
                *last = i32::MAX;
            }
        }
        Behave::OffsetsFalling => {
            // With one row there is no middle that could fall, so the end does.
            let middle = column.offsets.len() / 2;
            column.offsets[middle] = if middle + 1 < column.offsets.len() {
                i32::MAX
            } else {
                -1
            };
        }
        Behave::OffsetNegative => {
            let last = column.offsets.len() - 1;
            column.offsets[last] = -1;
        }
        Behave::OffsetsNotFromZero => column.offsets[0] = 1,
        Behave::ValuesUncovered => column.values.push(b'x'),
        Behave::NoOffsets => column.offsets.clear(),
        Behave::OffsetsOnNumbers => column.offsets = vec![0; rows + 1],
        Behave::InvalidUtf8 => column.values.fill(0xff),
        Behave::SplitCharacter => {
            // Rows of three bytes whose borders fall into characters of two.
            column.values = "ä".repeat(rows * 3 / 2 + 1).into_bytes();
            column.values.truncate(rows * 3);
        }
        Behave::ShortValidity => {
            column.validity = Some(vec![0xff; rows.div_ceil(8).saturating_sub(1)]);
        }
        Behave::LongValidity => column.validity = Some(vec![0xff; rows.div_ceil(8) + 1]),
        // The day after 9999-12-31, and the microsecond before 0001-01-01.
        Behave::DateBeyond => column.values = 2_932_897_i32.to_le_bytes().repeat(rows),
        Behave::TimestampBeyond => column.values = (-62_135_596_800_000_001_i64).to_le_bytes().repeat(rows),
        Behave::NullInNonNull | Behave::DecimalTooLargeUnderNull => {
            column.validity = Some(vec![0; rows.div_ceil(8)]);
        }
        _ => {}
    }
    match behave {
        Behave::DecimalTooLarge | Behave::DecimalTooLargeUnderNull => {
            column.values = 100_000_i128.to_le_bytes().repeat(rows);
        }
        Behave::HugeOutput => {
            column.values = vec![b'x'; bytes];
            let end = i32::try_from(bytes).unwrap_or(i32::MAX);
            column.offsets = vec![end; rows + 1];
            column.offsets[0] = 0;
        }
        _ => {}
    }
    column
}

/// `abc` in every row.
pub(crate) fn text(rows: usize) -> Column {
    same(rows, "abc")
}

/// One text in every row.
fn same(rows: usize, value: &str) -> Column {
    Column {
        validity: None,
        offsets: (0..=rows).map(|row| (row * value.len()) as i32).collect(),
        values: value.repeat(rows).into_bytes(),
    }
}

/// What the processor makes of numbers that are none, each with another payload.
fn nans(rows: usize) -> Column {
    let nan = |row: usize| {
        let with_payload = f64::from_bits(black_box(0x7FF8_0000_0000_BEE0 + row as u64));
        let sign = if row.is_multiple_of(2) { 1.0 } else { -1.0 };
        with_payload * black_box(sign) + black_box(1.0)
    };
    Column {
        values: (0..rows).flat_map(|row| nan(row).to_bits().to_le_bytes()).collect(),
        ..Column::default()
    }
}

fn numbers(bytes: usize) -> Column {
    Column {
        values: vec![0; bytes],
        ..Column::default()
    }
}

fn leaked(behave: Behave, batch: &Batch) -> Column {
    let rows = batch.rows as usize;
    let mut column = Column {
        validity: None,
        offsets: vec![0],
        values: Vec::new(),
    };
    let values = batch.utf8(0).ok();
    for row in 0..rows {
        let value = values.and_then(|values| values.get(row)).unwrap_or("");
        let text = match behave {
            Behave::Leak => format!("it was {value}, really"),
            _ => value.to_owned(),
        };
        column.values.extend_from_slice(text.as_bytes());
        column.offsets.push(column.values.len() as i32);
    }
    column
}

fn dropped(batch: &Batch, operations: &[u8]) -> Vec<u8> {
    let mut bits = vec![0; batch.operations.len().div_ceil(8)];
    for (row, operation) in batch.operations.iter().enumerate() {
        if operations.contains(operation) {
            bits[row / 8] |= 1 << (row % 8);
        }
    }
    bits
}
