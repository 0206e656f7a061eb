//! `token`: a keyed hash as a short word without characters that look alike.

use serde::Deserialize;
use sluice_plugin::{ApplyError, Batch, Column, DataType, DigestText, Keyed, OpenError};

use crate::canonical::{self, Normalize};
use crate::keyed::refused;

/// 13 characters have 65 bits; fewer would make different values equal.
const LEAST: usize = 13;
/// 51 characters use up 255 of a digest's 256 bits.
const MOST: usize = 51;
const LONGEST_PREFIX: usize = 32;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Token {
    pub key: String,
    #[serde(default)]
    pub context: String,
    #[serde(default)]
    pub prefix: String,
    #[serde(default = "length")]
    pub length: usize,
    #[serde(default)]
    pub normalize: Vec<Normalize>,
}

pub(crate) fn length() -> usize {
    16
}

impl Token {
    pub(crate) fn check(&self, path: &str) -> Result<(), OpenError> {
        if !(LEAST..=MOST).contains(&self.length) {
            return Err(OpenError::config(
                format!("{path}.length"),
                format!("expected {LEAST} to {MOST} characters; fewer would make different values equal"),
            ));
        }
        if self.prefix.chars().count() > LONGEST_PREFIX || self.prefix.chars().any(char::is_control) {
            return Err(OpenError::config(
                format!("{path}.prefix"),
                format!("expected at most {LONGEST_PREFIX} characters that can be seen"),
            ));
        }
        Ok(())
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
        keys.hash_output(output, &self.key, &self.context, &self.text(), batch.rows, texts)
            .map_err(refused)
    }

    /// How a digest is written.
    pub(crate) fn text(&self) -> DigestText {
        DigestText::Base32 {
            prefix: self.prefix.clone(),
            length: self.length,
        }
    }
}
