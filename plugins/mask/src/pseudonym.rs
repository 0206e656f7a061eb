//! `pseudonym`: one of the texts of a list in place of a value, the same for equal values.

use std::collections::HashSet;

use serde::Deserialize;
use sluice_plugin::{ApplyError, Batch, Column, DataType, Keyed, OpenError, Utf8Builder};

use crate::canonical::{self, Normalize};
use crate::keyed::{is_valid, malformed, picks};

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pseudonym {
    pub key: String,
    #[serde(default)]
    pub context: String,
    pub values: Vec<String>,
    #[serde(default)]
    pub normalize: Vec<Normalize>,
}

impl Pseudonym {
    pub(crate) fn check(&self, path: &str) -> Result<(), OpenError> {
        if self.values.len() < 2 {
            return Err(OpenError::config(
                format!("{path}.values"),
                "expected two texts or more; for one use `constant`",
            ));
        }
        let mut seen = HashSet::new();
        match self.values.iter().position(|value| !seen.insert(value)) {
            Some(index) => Err(OpenError::config(
                format!("{path}.values[{index}]"),
                "it stands there twice",
            )),
            None => Ok(()),
        }
    }

    pub(crate) fn how(&self) -> String {
        format!("pseudonym from a list of {}", self.values.len())
    }

    pub(crate) fn column(
        &self,
        keys: &impl Keyed,
        batch: &Batch,
        read: usize,
        data_type: DataType,
    ) -> Result<Column, ApplyError> {
        let texts = canonical::column(batch, read, data_type, &self.normalize)?;
        let validity = texts.validity.clone();
        let count = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        let picks = picks(keys, &self.key, &self.context, count, batch.rows, texts)?;
        let mut names = Utf8Builder::with_capacity(picks.len(), picks.len() * self.values[0].len());
        for (row, &pick) in picks.iter().enumerate() {
            if is_valid(validity.as_deref(), row) {
                names.push(self.values.get(pick as usize).ok_or_else(malformed)?);
            } else {
                names.push_null();
            }
        }
        names.finish()
    }
}
