//! Text that was not valid in its encoding: what is said of it, to people and in the facts.

use crate::shape::TableShape;

/// Texts of a batch in which an invalid sequence was replaced, for each captured column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Replaced(Vec<u64>);

impl Replaced {
    /// Adds a chunk's.
    pub(super) fn add(&mut self, counts: &[u64]) {
        self.0.resize(self.0.len().max(counts.len()), 0);
        for (sum, count) in self.0.iter_mut().zip(counts) {
            *sum += count;
        }
    }

    /// For the facts: `replaced invalid text: note 3, name 1`. `None` where nothing was replaced.
    pub(super) fn fact(&self, shape: &TableShape) -> Option<String> {
        let counts: Vec<String> = self
            .named(shape)
            .map(|(name, count, _)| format!("{name} {count}"))
            .collect();
        (!counts.is_empty()).then(|| format!("replaced invalid text: {}", counts.join(", ")))
    }

    /// For a warning.
    pub(super) fn warning(&self, shape: &TableShape, batch: &str) -> Option<String> {
        let counts: Vec<String> = self
            .named(shape)
            .map(|(name, count, _)| format!("{count} of column {name}"))
            .collect();
        if counts.is_empty() {
            return None;
        }
        let mut text = format!(
            "{batch} has texts that are not valid in the encoding of their column, {}: what is invalid in them is U+FFFD in \
             bronze",
            counts.join(", ")
        );
        let keys: Vec<&str> = self
            .named(shape)
            .filter(|(_, _, key)| *key)
            .map(|(name, _, _)| name)
            .collect();
        if !keys.is_empty() {
            let (noun, verb) = match keys.len() {
                1 => ("column", "belongs"),
                _ => ("columns", "belong"),
            };
            text.push_str(&format!(
                ". {} {} {verb} to the table's key: rows of different keys can have the same key in bronze now",
                capitalised(noun),
                keys.join(", ")
            ));
        }
        Some(text)
    }

    /// Name, count, and whether the column belongs to the key.
    fn named<'a>(&'a self, shape: &'a TableShape) -> impl Iterator<Item = (&'a str, u64, bool)> {
        shape
            .columns
            .iter()
            .zip(&self.0)
            .filter(|(_, count)| **count > 0)
            .map(|(column, count)| (column.name.as_str(), *count, column.key.is_some()))
    }
}

fn capitalised(word: &str) -> String {
    let mut characters = word.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;
    use crate::identity::CaptureInstance;
    use crate::shape::{ColumnShape, Recorded};

    fn shape() -> TableShape {
        let column = |name: &str, key| ColumnShape {
            name: name.to_owned(),
            source_type: "x".to_owned(),
            data_type: DataType::Utf8,
            key,
            recorded: Recorded::Always,
        };
        TableShape {
            schema: "dbo".to_owned(),
            table: "t".to_owned(),
            capture_instance: CaptureInstance("dbo_t".to_owned()),
            has_command_id: true,
            columns: vec![column("code", Some(1)), column("note", None), column("name", None)],
        }
    }

    #[test]
    fn columns_are_named_and_a_key_gets_a_sentence_of_its_own() {
        let mut replaced = Replaced::default();
        assert_eq!(
            (replaced.fact(&shape()), replaced.warning(&shape(), "batch 1")),
            (None, None)
        );
        replaced.add(&[0, 2, 0]);
        replaced.add(&[0, 1, 4]);
        assert_eq!(
            replaced.fact(&shape()).as_deref(),
            Some("replaced invalid text: note 3, name 4")
        );
        let warning = replaced.warning(&shape(), "batch 1").unwrap();
        assert!(
            warning.contains("3 of column note, 4 of column name") && !warning.contains("key"),
            "{warning}"
        );
        replaced.add(&[1, 0, 0]);
        let warning = replaced.warning(&shape(), "batch 1").unwrap();
        assert!(
            warning.contains(". Column code belongs to the table's key"),
            "{warning}"
        );
    }
}
