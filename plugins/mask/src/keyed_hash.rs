//! `hash`: a keyed hash in place of a value.

use sluice_plugin::{ApplyError, Batch, Column, DataType, Keyed, Utf8Builder};

use crate::canonical::{self, Normalize};
use crate::config::HashOptions;
use crate::keyed::each_digest;

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
        let count = batch.rows as usize;
        let mut hashes = Utf8Builder::with_capacity(count, count * self.digits);
        each_digest(keys, &self.key, &self.context, &texts, |digest| match digest {
            Some(digest) => {
                hashes.append_hex(digest, self.digits);
                hashes.end_row();
            }
            None => hashes.push_null(),
        })?;
        hashes.finish()
    }
}
