//! Masks by the country of the row: a reference table says for each country what becomes of what.
//!
//! ```json
//! { "country": "country", "table": "masking", "columns": { "email": "contact", "phone": "contact", "last_name": "name" },
//!   "key": "pii" }
//! ```
//!
//! `email` gets what the column `contact` of the reference table `masking` says for the row's country: `keep`, `hash` or
//! `null`. A country that the table does not have gets what `otherwise` says, which is never `keep`.

mod open;

use sluice_plugin::{
    ApplyError, Batch, Column, Keyed, Lookup, OpenError, Outcome, Plan, Reject, Table, Transform, Utf8Builder, Utf8View,
};

use crate::open::{Masked, Otherwise};

/// Digits of a hash: 128 bits.
const DIGITS: usize = 32;
/// Bytes of an HMAC-SHA-256.
const DIGEST_BYTES: usize = 32;

/// The transform. `K` has the keys that it hashes with, `L` the reference table.
#[derive(Debug)]
pub struct CountryMask<K, L> {
    keys: K,
    lookups: L,
    /// The reference table's name.
    table: String,
    key: String,
    context: String,
    otherwise: Otherwise,
    /// The country is the first column that is read; these follow.
    masked: Vec<Masked>,
}

/// What becomes of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Keep,
    Hash,
    Null,
}

impl<K: Keyed + Default, L: Lookup + Default> Transform for CountryMask<K, L> {
    fn open(table: &Table, config: &str) -> Result<(Self, Plan), OpenError> {
        open::open(table, config, K::default(), L::default())
    }

    fn apply(&mut self, batch: &Batch) -> Result<Outcome, ApplyError> {
        let countries = countries(batch.utf8(0)?)?;
        let mut outcome = Outcome::default();
        let mut known: Vec<(&str, Vec<Option<Rule>>)> = Vec::new();
        for (index, masked) in self.masked.iter().enumerate() {
            // Columns that go by the same rules are looked up once.
            let at = match known.iter().position(|(rule, _)| *rule == masked.rule) {
                Some(at) => at,
                None => {
                    let rules = self.rules(masked, batch.rows, &countries, &mut outcome.rejects)?;
                    known.push((&masked.rule, rules));
                    known.len() - 1
                }
            };
            let rules = &known[at].1;
            let column = self.column(batch.utf8(index + 1)?, batch.rows, rules);
            outcome
                .columns
                .push(column.map_err(|error| error.in_column(&masked.column))?);
        }
        Ok(outcome)
    }
}

sluice_plugin::export_transform!(CountryMask<sluice_plugin::HostKeys, sluice_plugin::HostLookups>);

impl<K: Keyed, L: Lookup> CountryMask<K, L> {
    /// What the reference table says for each row; `None` where the row is rejected.
    fn rules(
        &self,
        masked: &Masked,
        rows: u32,
        countries: &Column,
        rejects: &mut Vec<Reject>,
    ) -> Result<Vec<Option<Rule>>, ApplyError> {
        let found = self.lookups.find(&self.table, &masked.rule, rows, countries.clone());
        let found = found.map_err(|error| ApplyError::new("lookup-failed", error.to_string()))?;
        let words = Utf8View::new(&found, rows as usize)
            .ok_or_else(|| ApplyError::new("lookup-failed", "the answer is not a text column of as many rows"))?;
        let mut rules = Vec::with_capacity(words.len());
        for (row, word) in (0_u32..).zip(words.iter()) {
            let rule = match (word.map(str::trim), self.otherwise) {
                (Some("keep"), _) => Ok(Rule::Keep),
                (Some("hash"), _) | (None, Otherwise::Hash) => Ok(Rule::Hash),
                (Some("null"), _) | (None, Otherwise::Null) => Ok(Rule::Null),
                (None, Otherwise::Reject) => Err("country-unlisted"),
                (Some(_), _) => Err("rule-unknown"),
            };
            if let Err(code) = rule {
                rejects.push(Reject {
                    row,
                    column: masked.country.clone(),
                    code: code.to_owned(),
                });
            }
            rules.push(rule.ok());
        }
        Ok(rules)
    }

    fn column(&self, values: Utf8View<'_>, rows: u32, rules: &[Option<Rule>]) -> Result<Column, ApplyError> {
        // Only what is hashed goes to the host; all else is NULL there.
        let mut hashed = Utf8Builder::with_capacity(values.len(), 0);
        for (value, rule) in values.iter().zip(rules) {
            hashed.push_option(value.filter(|_| *rule == Some(Rule::Hash)));
        }
        let digests = match rules.contains(&Some(Rule::Hash)) {
            true => self.digests(rows, hashed.finish()?)?,
            false => Vec::new(),
        };
        let mut column = Utf8Builder::with_capacity(values.len(), values.text().len());
        for (row, (value, rule)) in values.iter().zip(rules).enumerate() {
            match (value, rule) {
                (Some(value), Some(Rule::Keep)) => column.push(value),
                (Some(_), Some(Rule::Hash)) => {
                    let digest = digests.get(row * DIGEST_BYTES..(row + 1) * DIGEST_BYTES);
                    let digest = digest.ok_or_else(|| ApplyError::new("hash-failed", "there are too few digests"))?;
                    column.append_hex(digest, DIGITS);
                    column.end_row();
                }
                _ => column.push_null(),
            }
        }
        column.finish()
    }

    fn digests(&self, rows: u32, values: Column) -> Result<Vec<u8>, ApplyError> {
        self.keys
            .hmac_sha256(&self.key, &self.context, rows, values)
            .map_err(|error| ApplyError::new("hash-failed", error.to_string()))
    }
}

/// The countries without the blanks with which a `char(3)` fills up.
fn countries(values: Utf8View<'_>) -> Result<Column, ApplyError> {
    let mut trimmed = Utf8Builder::with_capacity(values.len(), values.text().len());
    for value in values.iter() {
        trimmed.push_option(value.map(|value| value.trim_end_matches(' ')));
    }
    trimmed.finish()
}

#[cfg(test)]
mod tests;
