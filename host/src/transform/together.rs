//! Rows that cannot be kept apart. A row that goes into quarantine takes with it the other rows of its change (an update has
//! two) and those of the same key in the same transaction (a delete and an insert may be one move of a row): bronze would
//! otherwise tell half a story.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array, ArrayRef, StringArray};
use arrow::row::{RowConverter, Rows, SortField};

use super::chunk::ChangeIds;

/// Changes and keys, each within its transaction, whose rows go into quarantine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Together {
    /// `_start_lsn` and `_seqval`.
    changes: HashSet<(String, String)>,
    /// `_start_lsn` and the key's values in a form that is equal where they are. Never shown or stored.
    keys: HashSet<(String, Box<[u8]>)>,
}

impl Together {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.keys.is_empty()
    }

    /// Whether all of `other` is in here.
    pub fn contains(&self, other: &Together) -> bool {
        other.changes.is_subset(&self.changes) && other.keys.is_subset(&self.keys)
    }

    /// Takes those of `other` in.
    pub fn add(&mut self, other: Together) {
        self.changes.extend(other.changes);
        self.keys.extend(other.keys);
    }

    /// Only those of transactions that `keep` names.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.changes.retain(|(lsn, _)| keep(lsn));
        self.keys.retain(|(lsn, _)| keep(lsn));
    }
}

/// The rows of a chunk as it was read, and what ties them to each other.
pub(crate) struct Ties<'a> {
    ids: &'a ChangeIds,
    keys: Option<Rows>,
}

impl<'a> Ties<'a> {
    /// `keys` are the columns of the table's key, as they were read; none where the table has no key.
    ///
    /// # Errors
    /// A sentence for an error message: a key of a type that has no order.
    pub(crate) fn new(ids: &'a ChangeIds, keys: &[ArrayRef]) -> Result<Ties<'a>, String> {
        let keys = if keys.is_empty() {
            None
        } else {
            let fields = keys.iter().map(|key| SortField::new(key.data_type().clone())).collect();
            let converter = RowConverter::new(fields).map_err(|error| error.to_string())?;
            Some(converter.convert_columns(keys).map_err(|error| error.to_string())?)
        };
        Ok(Ties { ids, keys })
    }

    /// Marks every row that a marked one, or one of `known`, takes along. What ties the marked rows now. The work is that of
    /// the transactions with marked rows: a tie never leaves its transaction.
    pub(crate) fn close(&self, marked: &mut [bool], known: &Together) -> Together {
        let mut tied = known.clone();
        let mut pending: Vec<usize> = (0..marked.len()).filter(|row| marked[*row]).collect();
        let known_lsns = known.changes.iter().map(|(lsn, _)| lsn.as_str());
        let lsns: HashSet<&str> = known_lsns
            .chain(known.keys.iter().map(|(lsn, _)| lsn.as_str()))
            .chain(pending.iter().filter_map(|row| self.lsn(*row)))
            .collect();
        let mut by_change: HashMap<(String, String), Vec<usize>> = HashMap::new();
        let mut by_key: HashMap<(String, Box<[u8]>), Vec<usize>> = HashMap::new();
        for row in (0..marked.len()).filter(|row| self.lsn(*row).is_some_and(|lsn| lsns.contains(lsn))) {
            if let Some(change) = self.change(row) {
                by_change.entry(change).or_default().push(row);
            }
            if let Some(key) = self.key(row) {
                by_key.entry(key).or_default().push(row);
            }
        }
        let mut reached: Vec<usize> = Vec::new();
        for change in &known.changes {
            reached.extend(by_change.remove(change).unwrap_or_default());
        }
        for key in &known.keys {
            reached.extend(by_key.remove(key).unwrap_or_default());
        }
        loop {
            for row in reached.drain(..) {
                if !marked[row] {
                    marked[row] = true;
                    pending.push(row);
                }
            }
            let Some(row) = pending.pop() else { break };
            if let Some(change) = self.change(row) {
                reached.extend(by_change.remove(&change).unwrap_or_default());
                tied.changes.insert(change);
            }
            if let Some(key) = self.key(row) {
                reached.extend(by_key.remove(&key).unwrap_or_default());
                tied.keys.insert(key);
            }
        }
        tied
    }

    fn lsn(&self, row: usize) -> Option<&str> {
        let lsns = &self.ids.start_lsn;
        lsns.is_valid(row).then(|| lsns.value(row))
    }

    fn change(&self, row: usize) -> Option<(String, String)> {
        Some((text(&self.ids.start_lsn, row)?, text(&self.ids.seqval, row)?))
    }

    fn key(&self, row: usize) -> Option<(String, Box<[u8]>)> {
        let key = self.keys.as_ref()?.row(row);
        Some((text(&self.ids.start_lsn, row)?, key.as_ref().into()))
    }
}

fn text(array: &StringArray, row: usize) -> Option<String> {
    array.is_valid(row).then(|| array.value(row).to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int32Array;

    use super::*;

    /// `(transaction, change, key)`.
    fn closed(
        rows: &[(&str, Option<&str>, i32)],
        keyed: bool,
        marked: &[usize],
        known: &Together,
    ) -> (Vec<usize>, Together) {
        let ids = ChangeIds {
            start_lsn: rows.iter().map(|row| Some(row.0)).collect(),
            seqval: rows.iter().map(|row| row.1).collect(),
        };
        let key: ArrayRef = Arc::new(rows.iter().map(|row| Some(row.2)).collect::<Int32Array>());
        let keys = if keyed { vec![key] } else { Vec::new() };
        let ties = Ties::new(&ids, &keys).unwrap();
        let mut marks: Vec<bool> = (0..rows.len()).map(|row| marked.contains(&row)).collect();
        let tied = ties.close(&mut marks, known);
        ((0..rows.len()).filter(|row| marks[*row]).collect(), tied)
    }

    #[test]
    fn both_rows_of_an_update_go_together() {
        let rows = [
            ("a", Some("1"), 1),
            ("a", Some("1"), 1),
            ("a", Some("2"), 2),
            ("b", Some("1"), 3),
        ];
        assert_eq!(closed(&rows, false, &[1], &Together::default()).0, [0, 1]);
        assert_eq!(closed(&rows, false, &[], &Together::default()).0, [] as [usize; 0]);
    }

    #[test]
    fn a_delete_and_an_insert_of_one_key_go_together_within_their_transaction() {
        let rows = [
            ("a", Some("1"), 7),
            ("a", Some("2"), 8),
            ("a", Some("3"), 7),
            ("b", Some("4"), 7),
        ];
        assert_eq!(closed(&rows, true, &[2], &Together::default()).0, [0, 2]);
        assert_eq!(closed(&rows, false, &[2], &Together::default()).0, [2]);
    }

    #[test]
    fn what_is_tied_to_a_tied_row_is_tied_too() {
        // Key 1 moves to key 2 and key 2 to key 3, in one transaction.
        let rows = [
            ("a", Some("1"), 1),
            ("a", Some("1"), 2),
            ("a", Some("2"), 2),
            ("a", Some("2"), 3),
        ];
        assert_eq!(closed(&rows, true, &[0], &Together::default()).0, [0, 1, 2, 3]);
    }

    #[test]
    fn a_tie_of_another_chunk_holds_here() {
        let (_, tied) = closed(&[("a", Some("1"), 7)], true, &[0], &Together::default());
        let rows = [("a", Some("9"), 7), ("a", Some("8"), 6), ("b", Some("9"), 7)];
        assert_eq!(closed(&rows, true, &[], &tied).0, [0]);
        let mut others = tied.clone();
        others.retain(|lsn| lsn != "a");
        assert!(others.is_empty() && tied.contains(&others) && !others.contains(&tied));
    }

    #[test]
    fn rows_of_a_snapshot_have_no_change_in_common() {
        let rows = [("a", None, 1), ("a", None, 2)];
        assert_eq!(closed(&rows, true, &[0], &Together::default()).0, [0]);
        assert_eq!(closed(&rows, false, &[0], &Together::default()).0, [0]);
    }
}
