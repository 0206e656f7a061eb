//! What the keyed methods share: asking the host for a whole column, and what its digests are spread over.

use sluice_plugin::{ApplyError, Batch, Column, DataType, Keyed, KeyedError};

use crate::canonical::{self, Normalize};

const DIGEST_BYTES: usize = 32;
/// Contexts of what must stay secret begin with this. A hash under the same context would show what a value was moved
/// by, so no other method takes such a context.
const RESERVED: &str = "sluice mask ";

/// One digest a row.
pub(crate) fn digests(
    keys: &impl Keyed,
    key: &str,
    context: &str,
    rows: u32,
    texts: Column,
) -> Result<Vec<u8>, ApplyError> {
    let digests = keys.hmac_sha256(key, context, rows, texts).map_err(refused)?;
    if digests.len() == rows as usize * DIGEST_BYTES {
        Ok(digests)
    } else {
        Err(malformed())
    }
}

/// One number below `count` a row.
pub(crate) fn picks(
    keys: &impl Keyed,
    key: &str,
    context: &str,
    count: u32,
    rows: u32,
    texts: Column,
) -> Result<Vec<u32>, ApplyError> {
    let picks = keys.pick(key, context, count, rows, texts).map_err(refused)?;
    if picks.len() == rows as usize {
        Ok(picks)
    } else {
        Err(malformed())
    }
}

/// The digests, row by row, `None` where the bitmap has no value.
pub(crate) fn rows<'a>(digests: &'a [u8], validity: Option<&'a [u8]>) -> impl Iterator<Item = Option<&'a [u8]>> {
    let digests = digests.chunks_exact(DIGEST_BYTES).enumerate();
    digests.map(move |(row, digest)| is_valid(validity, row).then_some(digest))
}

/// Whether the bitmap has a value for the row.
pub(crate) fn is_valid(validity: Option<&[u8]>, row: usize) -> bool {
    validity.is_none_or(|bits| bits.get(row / 8).is_some_and(|byte| byte & (1 << (row % 8)) != 0))
}

/// The first eight bytes of a digest as a number.
pub(crate) fn number(digest: &[u8]) -> u64 {
    digest.iter().take(8).fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

/// The context of a method whose digests must not be seen.
pub(crate) fn secret_context(method: &str, rest: &str) -> String {
    format!("{RESERVED}{method}:{rest}")
}

/// Whether a configuration may not use the context.
pub(crate) fn is_reserved(context: &str) -> bool {
    context.starts_with(RESERVED)
}

/// A number below `2 * most` as a step of 1 to `most`, up or down. There is no step of 0: no value stays as it is.
pub(crate) fn step(number: u128, most: u128) -> i128 {
    if number < most {
        -((most - number) as i128)
    } else {
        (number - most) as i128 + 1
    }
}

/// A column whose value decides what a row is moved by.
#[derive(Debug)]
pub(crate) struct By {
    pub column: String,
    /// Its position among the columns that the plan reads.
    pub read: usize,
    pub data_type: DataType,
    pub normalize: Vec<Normalize>,
}

impl By {
    /// Its canonical texts.
    pub(crate) fn texts(&self, batch: &Batch) -> Result<Column, ApplyError> {
        canonical::column(batch, self.read, self.data_type, &self.normalize)
            .map_err(|error| error.in_column(&self.column))
    }
}

pub(crate) fn refused(error: KeyedError) -> ApplyError {
    let code = match error {
        KeyedError::NotGranted => "key-not-granted",
        KeyedError::Malformed => "keyed-malformed",
        KeyedError::Argument => "keyed-argument",
    };
    ApplyError::new(code, error.to_string())
}

pub(crate) fn malformed() -> ApplyError {
    ApplyError::new("keyed-malformed", "the host's answer has another length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_go_up_and_down_but_never_stay() {
        let steps: Vec<i128> = (0..6).map(|number| step(number, 3)).collect();
        assert_eq!(steps, [-3, -2, -1, 1, 2, 3]);
    }
}
