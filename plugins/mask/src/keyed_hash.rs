//! `hash`: a keyed hash in place of a value.

use sluice_plugin::{ApplyError, Batch, BinaryView, Column, DataType, Keyed, KeyedError, Utf8Builder};

use crate::canonical::{self, Normalize};
use crate::config::HashOptions;

const DIGEST_BYTES: usize = 32;

#[derive(Debug)]
pub(crate) struct Hash {
    key: String,
    context: String,
    digits: usize,
    normalize: Vec<Normalize>,
}

impl Hash {
    pub(crate) fn new(options: &HashOptions) -> Self {
        Self {
            key: options.key.clone(),
            context: options.context.clone(),
            digits: options.length,
            normalize: options.normalize.clone(),
        }
    }

    pub(crate) fn column(
        &self,
        keys: &impl Keyed,
        batch: &Batch,
        read: usize,
        data_type: DataType,
    ) -> Result<Column, ApplyError> {
        let texts = canonical::column(batch, read, data_type, &self.normalize)?;
        let rows = batch.rows as usize;
        let validity = texts.validity.clone();
        let digests = digests(keys, &self.key, &self.context, batch.rows, texts)?;
        let mut hashes = Utf8Builder::with_capacity(rows, rows * self.digits);
        // The digests themselves have no NULLs; the texts had.
        let digests = fixed_binary(digests, rows, validity);
        let view = BinaryView::new(&digests, rows).ok_or_else(malformed)?;
        for digest in view.iter() {
            match digest {
                Some(digest) => {
                    hashes.append_hex(digest, self.digits);
                    hashes.end_row();
                }
                None => hashes.push_null(),
            }
        }
        hashes.finish()
    }
}

/// One digest a row.
pub(crate) fn digests(
    keys: &impl Keyed,
    key: &str,
    context: &str,
    rows: u32,
    texts: Column,
) -> Result<Vec<u8>, ApplyError> {
    let digests = keys
        .hmac_sha256(key, context, rows, texts)
        .map_err(|error| match error {
            KeyedError::NotGranted => ApplyError::new("key-not-granted", error.to_string()),
            KeyedError::Malformed | KeyedError::Argument => malformed(),
        })?;
    if digests.len() == rows as usize * DIGEST_BYTES {
        Ok(digests)
    } else {
        Err(malformed())
    }
}

fn fixed_binary(values: Vec<u8>, rows: usize, validity: Option<Vec<u8>>) -> Column {
    let offsets = (0..=rows).map(|row| (row * DIGEST_BYTES) as i32).collect();
    Column {
        validity,
        offsets,
        values,
    }
}

fn malformed() -> ApplyError {
    ApplyError::new("keyed-malformed", "the host's answer has another length")
}
