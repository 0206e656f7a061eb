//! `pick`: a number below a count for each value, the same for equal values.

use super::hmac::Tagger;
use crate::transform::cells::Cells;
use crate::transform::hostcall::HostCall;

/// The number of each value; 0 for NULL.
pub(super) fn picks(
    secret: &[u8],
    context: &str,
    count: u32,
    cells: &Cells<'_>,
    call: &mut HostCall<'_>,
) -> wasmtime::Result<Vec<u32>> {
    call.room_for(cells.rows.saturating_mul(size_of::<u32>()))?;
    let tagger = Tagger::of_context(secret, context);
    let mut out = Vec::with_capacity(cells.rows);
    for row in 0..cells.rows {
        call.look_at_row(row)?;
        out.push(cells.get(row).map_or(0, |value| below(count, &tagger.tag(value))));
    }
    Ok(out)
}

/// The first 8 bytes of a tag as a fraction of 2^64, times `count`. No count divides the tags evenly, but the difference
/// between two numbers' shares is less than 2^-32.
fn below(count: u32, tag: &[u8; super::hmac::TAG_BYTES]) -> u32 {
    let first = tag
        .iter()
        .take(8)
        .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    // Less than `count`, so it fits.
    ((u128::from(first) * u128::from(count)) >> 64) as u32
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::transform::cells::testing::texts;
    use crate::transform::hostcall::testing::{bounded, within};
    use crate::transform::sandbox::DeadlinePassed;

    fn of(context: &str, count: u32, rows: &[Option<&str>]) -> Vec<u32> {
        let column = texts(rows);
        let cells = Cells::new(u32::try_from(rows.len()).unwrap(), &column).unwrap();
        bounded(|call| picks(b"0123456789abcdef", context, count, &cells, call)).unwrap()
    }

    /// From Python: `int.from_bytes(hmac.new(secret, context + b"\0" + value, "sha256").digest()[:8], "big") * count >> 64`.
    #[test]
    fn picks_are_those_of_another_implementation() {
        let rows = [Some("anna"), None, Some(""), Some("béla")];
        assert_eq!(of("names", 1000, &rows), [956, 0, 97, 832]);
        assert_eq!(
            of("names", u32::MAX, &rows),
            [4_110_282_014, 0, 418_788_795, 3_576_101_301]
        );
        assert_eq!(of("", 100, &rows), [17, 0, 47, 51]);
        assert_eq!(of("", 1, &rows), [0; 4]);
        assert!(of("", 7, &[]).is_empty());
    }

    #[test]
    fn the_ends_of_the_range_are_reached_and_not_passed() {
        let mut tag = [0xFF; 32];
        assert_eq!(below(10, &tag), 9);
        assert_eq!(below(u32::MAX, &tag), u32::MAX - 1);
        tag[..8].fill(0);
        assert_eq!(below(u32::MAX, &tag), 0);
    }

    #[test]
    fn every_number_is_picked_about_as_often() {
        let names: Vec<String> = (0..4000).map(|n| n.to_string()).collect();
        let rows: Vec<Option<&str>> = names.iter().map(|name| Some(name.as_str())).collect();
        let mut times = [0; 8];
        for pick in of("", 8, &rows) {
            times[pick as usize] += 1;
        }
        // 500 each; six standard deviations are 126.
        assert!(times.iter().all(|times| (374..=626).contains(times)), "{times:?}");
    }

    #[test]
    fn the_deadline_and_the_memory_limit_hold() {
        let column = texts(&[Some("a"), Some("b")]);
        let cells = Cells::new(2, &column).unwrap();
        let late = within(Duration::ZERO, 1 << 20, |call| picks(&[0; 16], "", 2, &cells, call));
        assert!(late.unwrap_err().is::<DeadlinePassed>());
        within(Duration::from_secs(60), 7, |call| {
            assert!(picks(&[0; 16], "", 2, &cells, call).is_err());
            assert!(call.limiter.memory_refused());
        });
    }
}
