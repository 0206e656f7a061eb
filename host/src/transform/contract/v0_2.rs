//! `sluice:transform@0.2.0` in terms of the newest. It has no `hash-output`.

use super::super::bindings::v0_2::sluice::transform::{keyed as old_keyed, lookup as old_lookup};
use super::super::bindings::v0_3::sluice::transform::{keyed, lookup};

super::converted::conversions!(v0_2);

fn named_keys(field: &old::ComputedField) -> Vec<String> {
    field.keys.clone()
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
        Ok(tags.map_err(keyed_error))
    }

    fn ff1_encrypt(
        &mut self,
        key: String,
        tweak: Vec<u8>,
        alphabet: String,
        rows: u32,
        values: old_keyed::Column,
    ) -> wasmtime::Result<Result<old_keyed::Ff1Answer, old_keyed::KeyedError>> {
        let answer = keyed::Host::ff1_encrypt(self, key, tweak, alphabet, rows, returned_column(values))?;
        let status = |status| match status {
            keyed::Ff1Status::Done => old_keyed::Ff1Status::Done,
            keyed::Ff1Status::TooShort => old_keyed::Ff1Status::TooShort,
            keyed::Ff1Status::ForeignCharacter => old_keyed::Ff1Status::ForeignCharacter,
            keyed::Ff1Status::TooLong => old_keyed::Ff1Status::TooLong,
        };
        Ok(answer
            .map(|answer| old_keyed::Ff1Answer {
                values: answered_column(answer.values),
                status: answer.status.into_iter().map(status).collect(),
            })
            .map_err(keyed_error))
    }

    fn pick(
        &mut self,
        key: String,
        context: String,
        count: u32,
        rows: u32,
        values: old_keyed::Column,
    ) -> wasmtime::Result<Result<Vec<u32>, old_keyed::KeyedError>> {
        let picks = keyed::Host::pick(self, key, context, count, rows, returned_column(values))?;
        Ok(picks.map_err(keyed_error))
    }
}

impl old_lookup::Host for HostState {
    fn columns(&mut self, table: String) -> wasmtime::Result<Result<Vec<String>, old_lookup::LookupError>> {
        let columns = lookup::Host::columns(self, table)?;
        Ok(columns.map_err(lookup_error))
    }

    fn find(
        &mut self,
        table: String,
        column: String,
        rows: u32,
        keys: old_lookup::Column,
    ) -> wasmtime::Result<Result<old_lookup::Column, old_lookup::LookupError>> {
        let found = lookup::Host::find(self, table, column, rows, returned_column(keys))?;
        Ok(found.map(answered_column).map_err(lookup_error))
    }
}

fn keyed_error(error: keyed::KeyedError) -> old_keyed::KeyedError {
    match error {
        keyed::KeyedError::NotGranted => old_keyed::KeyedError::NotGranted,
        keyed::KeyedError::Malformed => old_keyed::KeyedError::Malformed,
        keyed::KeyedError::Argument => old_keyed::KeyedError::Argument,
    }
}

fn lookup_error(error: lookup::LookupError) -> old_lookup::LookupError {
    match error {
        lookup::LookupError::NotGranted => old_lookup::LookupError::NotGranted,
        lookup::LookupError::UnknownColumn => old_lookup::LookupError::UnknownColumn,
        lookup::LookupError::Malformed => old_lookup::LookupError::Malformed,
    }
}

fn answered_column(column: new::ColumnResult) -> old::ColumnResult {
    old::ColumnResult {
        validity: column.validity,
        offsets: column.offsets,
        values: column.values,
    }
}
