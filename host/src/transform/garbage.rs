//! Random drops and rejects of a guest: none of them may panic, and what is let through keeps the promises of `check`. Whole
//! answers, columns included, are made up by `tests/fuzz`, with a seeded run of its own.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::bindings::v0_3::exports::sluice::transform::transform as wit;
use super::check;

const CASES: u64 = 30_000;

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
