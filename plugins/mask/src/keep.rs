//! `keep`: a few characters at the ends stay, the others are masked.

use sluice_plugin::{ApplyError, Column, Utf8Builder, Utf8View};

/// How many characters stay at each end. Characters are Unicode scalar values.
#[derive(Debug)]
pub(crate) struct Keep {
    pub first: usize,
    pub last: usize,
    pub mask: char,
}

impl Keep {
    pub(crate) fn how(&self) -> String {
        match (self.first, self.last) {
            (first, 0) => format!("first {first} characters kept"),
            (0, last) => format!("last {last} characters kept"),
            (first, last) => format!("first {first} and last {last} characters kept"),
        }
    }

    pub(crate) fn column(&self, values: Utf8View<'_>) -> Result<Column, ApplyError> {
        let mut kept = Utf8Builder::with_capacity(values.len(), values.text().len());
        for value in values.iter() {
            let Some(value) = value else {
                kept.push_null();
                continue;
            };
            let count = if value.is_ascii() {
                value.len()
            } else {
                value.chars().count()
            };
            let (first, last) = if count > self.first.saturating_add(self.last) {
                (self.first, self.last)
            } else {
                (0, 0)
            };
            kept.append(&value[..start_of(value, first)]);
            kept.append_repeated(self.mask, count - last - first);
            kept.append(&value[start_of(value, count - last)..]);
            kept.end_row();
        }
        kept.finish()
    }
}

/// The byte at which the character of this number starts.
fn start_of(text: &str, index: usize) -> usize {
    if text.is_ascii() {
        return index.min(text.len());
    }
    text.char_indices().nth(index).map_or(text.len(), |(start, _)| start)
}
