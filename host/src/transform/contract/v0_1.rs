//! `sluice:transform@0.1.0` in terms of the newest. It has no `ff1-encrypt`, `pick` and `lookup`, and its plans do not say which
//! keys a column is made with.

use super::super::bindings::v0_1::sluice::transform::keyed as old_keyed;
use super::super::bindings::v0_3::sluice::transform::keyed;

super::converted::conversions!(v0_1);

fn named_keys(_field: &old::ComputedField) -> Vec<String> {
    Vec::new()
}

impl old_keyed::Host for HostState {
    fn hmac_sha256(
        &mut self,
        key: String,
        context: String,
        rows: u32,
        values: old_keyed::Column,
    ) -> wasmtime::Result<Result<Vec<u8>, old_keyed::KeyedError>> {
        let tags = keyed::Host::hmac_sha256(self, key, context, rows, returned_column(values))?;
        Ok(tags.map_err(|error| match error {
            keyed::KeyedError::NotGranted => old_keyed::KeyedError::NotGranted,
            // No argument of this function can be wrong by itself, so the column is the only thing left.
            keyed::KeyedError::Malformed | keyed::KeyedError::Argument => old_keyed::KeyedError::Malformed,
        }))
    }
}
