//! `hash`: a keyed hash in place of a value.

use sluice_plugin::{ApplyError, Batch, Column, DataType, DigestText, Keyed};

use crate::canonical::{self, Normalize};
use crate::config::HashOptions;
use crate::keyed::refused;

#[derive(Debug)]
pub(crate) struct Hash {
    key: String,
    context: String,
    text: DigestText,
    normalize: Vec<Normalize>,
}

impl Hash {
    pub(crate) fn new(options: &HashOptions) -> Self {
        Self {
            key: options.key.clone(),
            context: options.context.clone(),
            text: DigestText::Hex(options.length),
            normalize: options.normalize.clone(),
        }
    }

    /// `output` is the column's place among the computed ones.
    pub(crate) fn column(
        &self,
        keys: &impl Keyed,
        batch: &Batch,
        read: usize,
        data_type: DataType,
        output: usize,
    ) -> Result<Column, ApplyError> {
        let texts = canonical::column(batch, read, data_type, &self.normalize)?;
        keys.hash_output(output, &self.key, &self.context, &self.text, batch.rows, texts)
            .map_err(refused)
    }
}
