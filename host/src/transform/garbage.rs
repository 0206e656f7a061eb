//! Random answers of a guest: none of them may panic, and what is let through must satisfy Arrow's own full validation.

use arrow::array::Array;
use arrow::datatypes::{DataType, TimeUnit};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::bindings::v0_2::exports::sluice::transform::transform as wit;
use super::{check, columns};

const CASES: u64 = 30_000;

fn types() -> [DataType; 13] {
    [
        DataType::Boolean,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(1, 0),
        DataType::Decimal128(38, 38),
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Utf8,
        DataType::Binary,
    ]
}

fn bytes(rng: &mut StdRng, len: usize) -> Vec<u8> {
    // Mostly ASCII, so that text is often valid; now and then a byte that is not.
    (0..len)
        .map(|_| {
            if rng.random_ratio(1, 40) {
                rng.random()
            } else {
                rng.random_range(0..0x7F)
            }
        })
        .collect()
}

/// A length that is right about half of the time and near it otherwise.
fn near(rng: &mut StdRng, right: usize) -> usize {
    match rng.random_range(0..8) {
        0 => right.saturating_sub(1),
        1 => right + 1,
        2 => rng.random_range(0..64),
        _ => right,
    }
}

fn column(rng: &mut StdRng, data_type: &DataType, rows: usize) -> wit::ColumnResult {
    let width = data_type.primitive_width();
    let variable = matches!(data_type, DataType::Utf8 | DataType::Binary);
    let right = match width {
        Some(width) => width * rows,
        None if variable => rng.random_range(0..40),
        None => rows.div_ceil(8),
    };
    let len = near(rng, right);
    let values = bytes(rng, len);
    let offsets = if variable == rng.random_ratio(19, 20) {
        let count = near(rng, rows + 1);
        let end = i32::try_from(values.len()).unwrap();
        let mut offsets: Vec<i32> = (0..count).map(|_| rng.random_range(0..=end)).collect();
        if rng.random_ratio(9, 10) {
            offsets.sort_unstable();
            if let Some(first) = offsets.first_mut() {
                *first = 0;
            }
            if let Some(last) = offsets.last_mut() {
                *last = end;
            }
        }
        if rng.random_ratio(1, 20) && !offsets.is_empty() {
            let at = rng.random_range(0..offsets.len());
            offsets[at] = rng.random();
        }
        offsets
    } else {
        Vec::new()
    };
    let validity = rng.random_bool(0.5).then(|| {
        let len = near(rng, rows.div_ceil(8));
        (0..len).map(|_| rng.random()).collect()
    });
    wit::ColumnResult {
        validity,
        offsets,
        values,
    }
}

#[test]
fn random_columns_are_refused_or_right() {
    let mut accepted = 0;
    for seed in 0..CASES {
        let rng = &mut StdRng::seed_from_u64(seed);
        let types = types();
        let data_type = &types[rng.random_range(0..types.len())];
        let rows = rng.random_range(0..20);
        let nullable = rng.random_bool(0.7);
        let column = column(rng, data_type, rows);
        if let Ok(array) = columns::array("c", column, data_type, nullable, rows) {
            assert_eq!(array.len(), rows, "seed {seed}");
            assert_eq!(array.data_type(), data_type, "seed {seed}");
            assert!(nullable || array.null_count() == 0, "seed {seed}");
            let valid = array.to_data().validate_full();
            assert!(valid.is_ok(), "seed {seed}: {valid:?}");
            accepted += 1;
        }
    }
    // Garbage that is never accepted would test nothing behind the first check.
    assert!(accepted > CASES / 50, "{accepted}");
}

#[test]
fn random_drops_and_rejects_are_refused_or_right() {
    for seed in 0..CASES {
        let rng = &mut StdRng::seed_from_u64(seed);
        let rows: usize = rng.random_range(0..30);
        let operations: Vec<u8> = (0..rows).map(|_| rng.random_range(0..=4)).collect();
        let len = near(rng, rows.div_ceil(8));
        let dropped = (0..len)
            .map(|_| rng.random::<u8>() & rng.random::<u8>() & rng.random::<u8>())
            .collect();
        let may_split = rng.random();
        if let Ok(Some(kept)) = check::kept_rows(Some(dropped), &operations, |row| row + 1 < rows, may_split) {
            assert_eq!(kept.rows.len(), rows, "seed {seed}");
            for (row, pair) in operations.windows(2).enumerate() {
                let split = pair == [3, 4] && kept.rows.value(row) != kept.rows.value(row + 1);
                assert!(may_split || !split, "seed {seed}");
                let turned = kept
                    .turned
                    .iter()
                    .any(|(at, _)| [row, row + 1].contains(at) && kept.rows.value(*at));
                assert!(!split || turned, "seed {seed}");
            }
        }
        let rejects: Vec<wit::Reject> = (0..rng.random_range(0..4))
            .map(|_| wit::Reject {
                row: if rng.random_bool(0.1) {
                    rng.random()
                } else {
                    rng.random_range(0..30)
                },
                column: String::from_utf8_lossy(&bytes(rng, 8)).into_owned(),
                code: String::from_utf8_lossy(&bytes(rng, 8)).into_owned(),
            })
            .collect();
        for reject in check::rejects(&rejects, rows, &["c"]).unwrap_or_default() {
            assert!(reject.row < rows, "seed {seed}");
            let column = reject.column.unwrap();
            assert!(column == "c" || column == check::UNKNOWN_COLUMN, "seed {seed}");
            assert!(
                reject
                    .code
                    .bytes()
                    .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')),
                "seed {seed}"
            );
        }
    }
}
