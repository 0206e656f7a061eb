//! `values`: a text for each listed text.

use std::collections::BTreeMap;

use sluice_plugin::{ApplyError, Column, Utf8Builder, Utf8View};

use crate::rejects::{Rejects, malformed};

/// The code of a value that is not listed.
const UNLISTED: &str = "value-unlisted";

/// What becomes of each listed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Values {
    pub listed: BTreeMap<String, String>,
    pub other: Other,
}

/// What becomes of a text that is not listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    Reject,
    Pass,
    Null,
    Text(String),
}

impl Values {
    /// Whether a value can become NULL.
    pub(crate) fn can_be_null(&self) -> bool {
        self.other == Other::Null
    }

    pub(crate) fn apply(&self, column: &Column, rows: usize, rejects: &mut Rejects<'_>) -> Result<Column, ApplyError> {
        let view = Utf8View::new(column, rows).ok_or_else(malformed)?;
        let mut to = Utf8Builder::with_capacity(rows, column.values.len());
        for (row, text) in view.iter().enumerate() {
            let Some(text) = text else {
                to.push_null();
                continue;
            };
            let listed = self.listed.get(text).map(String::as_str);
            to.push_option(listed.or_else(|| match &self.other {
                Other::Pass => Some(text),
                Other::Text(other) => Some(other),
                Other::Null => None,
                Other::Reject => {
                    rejects.push(row, UNLISTED);
                    None
                }
            }));
        }
        to.finish()
    }
}
