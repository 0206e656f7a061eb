//! `pseudonym`: one of the texts of a list in place of a value, the same for equal values.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;
use sluice_plugin::{ApplyError, Batch, Column, DataType, Keyed, OpenError, Utf8Builder, Utf8View};

use crate::canonical::{self, Normalize, normalize};
use crate::keyed::{malformed, picks};

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
        match self.names().iter().position(|name| !seen.insert(name.clone())) {
            Some(index) => Err(OpenError::config(
                format!("{path}.values[{index}]"),
                "it stands there twice, as it is or after `normalize`",
            )),
            None => Ok(()),
        }
    }

    pub(crate) fn how(&self) -> String {
        format!("pseudonym from a list of {}", self.values.len())
    }

    /// The texts as values that are equal to them are compared.
    fn names(&self) -> Vec<Cow<'_, str>> {
        let names = self.values.iter();
        names.map(|value| normalize(value, &self.normalize)).collect()
    }

    pub(crate) fn column(
        &self,
        keys: &impl Keyed,
        batch: &Batch,
        read: usize,
        data_type: DataType,
    ) -> Result<Column, ApplyError> {
        let texts = canonical::column(batch, read, data_type, &self.normalize)?;
        let count = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        let picks = picks(keys, &self.key, &self.context, count, batch.rows, texts.clone())?;
        let texts = Utf8View::new(&texts, picks.len()).ok_or_else(malformed)?;
        let own = self.names();
        let mut names = Utf8Builder::with_capacity(picks.len(), picks.len() * self.values[0].len());
        for (text, &pick) in texts.iter().zip(&picks) {
            let Some(text) = text else {
                names.push_null();
                continue;
            };
            let pick = pick as usize;
            // Nobody is called by their own name. The next one is another, as no two are equal.
            let pick = match own.get(pick).ok_or_else(malformed)? == text {
                true => (pick + 1) % own.len(),
                false => pick,
            };
            names.push(self.values.get(pick).ok_or_else(malformed)?);
        }
        names.finish()
    }
}
