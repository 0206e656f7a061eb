//! The interface `lookup`, natively.

use std::cell::RefCell;

use crate::{Column, Lookup, LookupError, Utf8Builder, Utf8View};

thread_local! {
    static OFFERED: RefCell<TestLookups> = const { RefCell::new(TestLookups { tables: Vec::new() }) };
}

/// Reference tables for a plugin's own tests.
///
/// A transform makes its lookups with `L::default()`; [`TestLookups::offer`] says what that is in a test.
#[derive(Clone, Debug)]
pub struct TestLookups {
    tables: Vec<Reference>,
}

#[derive(Clone, Debug)]
struct Reference {
    name: String,
    columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

impl TestLookups {
    /// No reference table.
    pub fn none() -> Self {
        Self { tables: Vec::new() }
    }

    /// The same, with one more reference table: its columns, of which the first is the key, and its rows. A row that is
    /// shorter than the columns has no text in the others, and neither has an empty text, as in the host's files.
    #[must_use]
    pub fn with_table(mut self, name: &str, columns: &[&str], rows: &[&[&str]]) -> Self {
        let some = |text: &&str| (!text.is_empty()).then(|| (*text).to_owned());
        self.tables.push(Reference {
            name: name.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows: rows.iter().map(|row| row.iter().map(some).collect()).collect(),
        });
        self
    }

    /// From now on `TestLookups::default()` is this, on this thread (each test has its own).
    pub fn offer(self) {
        OFFERED.set(self);
    }

    fn table(&self, name: &str) -> Result<&Reference, LookupError> {
        let mut tables = self.tables.iter();
        tables.find(|table| table.name == name).ok_or(LookupError::NotGranted)
    }
}

impl Default for TestLookups {
    /// What was last [offered](TestLookups::offer) on this thread; none at first.
    fn default() -> Self {
        OFFERED.with_borrow(Clone::clone)
    }
}

impl Lookup for TestLookups {
    fn columns(&self, table: &str) -> Result<Vec<String>, LookupError> {
        Ok(self.table(table)?.columns.clone())
    }

    fn find(&self, table: &str, column: &str, rows: u32, keys: Column) -> Result<Column, LookupError> {
        let table = self.table(table)?;
        let position = table.columns.iter().position(|name| name == column);
        let position = position.ok_or(LookupError::UnknownColumn)?;
        let keys = Utf8View::new(&keys, rows as usize).ok_or(LookupError::Malformed)?;
        let mut found = Utf8Builder::with_capacity(keys.len(), 0);
        for key in keys.iter() {
            let row = key.and_then(|key| {
                let has_key =
                    |row: &&Vec<Option<String>>| row.first().is_some_and(|first| first.as_deref() == Some(key));
                table.rows.iter().find(has_key)
            });
            found.push_option(row.and_then(|row| row.get(position)?.as_deref()));
        }
        found.finish().map_err(|_| LookupError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::column;
    use crate::{DataType, Value};

    #[test]
    fn keys_are_looked_up() {
        assert_eq!(
            TestLookups::default().columns("countries"),
            Err(LookupError::NotGranted)
        );
        TestLookups::none()
            .with_table(
                "countries",
                &["code", "name"],
                &[&["DE", "Germany"], &["XX", ""], &["YY"]],
            )
            .offer();
        let lookups = TestLookups::default();
        assert_eq!(
            lookups.columns("countries"),
            Ok(vec!["code".to_owned(), "name".to_owned()])
        );
        let keys = ["DE", "de", "XX", "YY", ""].map(|key| Some(Value::Utf8(key)));
        let keys = column(DataType::Utf8, &[&keys[..], &[None]].concat());
        let found = lookups.find("countries", "name", 6, keys.clone()).unwrap();
        let found = Utf8View::new(&found, 6).unwrap();
        assert_eq!(
            found.iter().collect::<Vec<_>>(),
            [Some("Germany"), None, None, None, None, None]
        );
        let codes = lookups.find("countries", "code", 6, keys.clone()).unwrap();
        assert_eq!(Utf8View::new(&codes, 6).unwrap().get(3), Some("YY"));
        assert_eq!(
            lookups.find("countries", "nam", 6, keys.clone()),
            Err(LookupError::UnknownColumn)
        );
        assert_eq!(
            lookups.find("countries", "name", 7, keys.clone()),
            Err(LookupError::Malformed)
        );
        assert_eq!(lookups.find("other", "name", 6, keys), Err(LookupError::NotGranted));
    }
}
