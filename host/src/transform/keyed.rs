//! The `keyed` capability: computations with a secret that never enters the component.

use std::time::Instant;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::bindings::v0_1::sluice::transform::keyed::{Column, Host, KeyedError};
use super::sandbox::{DeadlinePassed, HostState};

/// Bytes of one HMAC-SHA-256.
const TAG_BYTES: usize = 32;
/// Rows between two looks at the clock: the epoch acts in WebAssembly only, so the host watches its own work.
const ROWS_PER_LOOK: usize = 1024;

impl Host for HostState {
    fn hmac_sha256(
        &mut self,
        key: String,
        context: String,
        rows: u32,
        values: Column,
    ) -> wasmtime::Result<Result<Vec<u8>, KeyedError>> {
        let Some(key) = self.grants.get(&key) else {
            return Ok(Err(KeyedError::NotGranted));
        };
        let Some(cells) = Cells::new(rows, &values) else {
            return Ok(Err(KeyedError::Malformed));
        };
        // The answer has to fit into the component: nothing is made for one that cannot take it.
        if self.limiter.refuses(cells.rows.saturating_mul(TAG_BYTES)) {
            return Err(wasmtime::Error::msg("the answer is larger than the component's memory"));
        }
        tags(&key.secret, &context, &cells, self.deadline).map(Ok)
    }
}

/// The tag of each value, back to back; zeros for NULL.
fn tags(secret: &[u8], context: &str, cells: &Cells<'_>, deadline: Instant) -> wasmtime::Result<Vec<u8>> {
    let mut prefix = Hmac::<Sha256>::new_from_slice(secret)
        .map_err(|_| wasmtime::Error::msg("the key does not fit HMAC-SHA-256"))?;
    prefix.update(context.as_bytes());
    prefix.update(&[0]);
    let mut out = Vec::with_capacity(cells.rows * TAG_BYTES);
    for row in 0..cells.rows {
        if row % ROWS_PER_LOOK == 0 && Instant::now() >= deadline {
            return Err(DeadlinePassed.into());
        }
        match cells.get(row) {
            Some(value) => {
                let mut mac = prefix.clone();
                mac.update(value);
                out.extend_from_slice(&mac.finalize().into_bytes());
            }
            None => out.resize(out.len() + TAG_BYTES, 0),
        }
    }
    Ok(out)
}

/// The values of a `utf8` or `binary` column whose layout was checked.
struct Cells<'a> {
    rows: usize,
    validity: Option<&'a [u8]>,
    offsets: &'a [i32],
    values: &'a [u8],
}

impl<'a> Cells<'a> {
    /// `None` when the buffers are no column of `rows` rows.
    fn new(rows: u32, column: &'a Column) -> Option<Cells<'a>> {
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

    fn get(&self, row: usize) -> Option<&'a [u8]> {
        if let Some(bits) = self.validity
            && bits[row / 8] >> (row % 8) & 1 == 0
        {
            return None;
        }
        // From 0 and never falling, so no offset is negative.
        Some(&self.values[self.offsets[row] as usize..self.offsets[row + 1] as usize])
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn column(validity: Option<Vec<u8>>, offsets: &[i32], values: &[u8]) -> Column {
        Column {
            validity,
            offsets: offsets.to_vec(),
            values: values.to_vec(),
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// The expected values come from Python: `hmac.new(b"0123456789abcdef", b"ctx\0anna", "sha256").hexdigest()`.
    #[test]
    fn tags_are_those_of_another_implementation() {
        let column = column(Some(vec![0b101]), &[0, 4, 4, 4], b"anna");
        let cells = Cells::new(3, &column).unwrap();
        let tags = tags(b"0123456789abcdef", "ctx", &cells, soon()).unwrap();
        let hex: String = tags.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            &hex[..64],
            "2cd9246e6a268dfafd883c0ebee20695009852d4c949a1cdf95087f876cc5e03"
        );
        assert_eq!(hex[64..128], "0".repeat(64));
        assert_eq!(
            &hex[128..],
            "d511504374d9f86a3ceb702bcb8755a75ef27feb694167741e2593eb5a4cebfe"
        );
    }

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
    }

    #[test]
    fn the_deadline_holds_inside_the_host_too() {
        let column = column(None, &[0, 1], b"a");
        let cells = Cells::new(1, &column).unwrap();
        let error = tags(&[0; 16], "", &cells, Instant::now()).unwrap_err();
        assert!(error.is::<DeadlinePassed>());
    }
}
