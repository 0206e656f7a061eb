//! What the component of [`Chain::Quarantine`](super::plan::Chain) rejects and what goes along with it, by the test's own
//! account: from the rows of the source alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::check::{Change, Key};

/// What a value begins with that the strict level alone rejects.
pub const BAD: &str = "bad";
/// What a value begins with that the half level rejects too.
pub const WORSE: &str = "worse";

/// What the component rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Values of both kinds.
    Strict,
    /// Those that are worse.
    Half,
    /// None.
    Gentle,
}

impl Level {
    pub const ALL: [Level; 3] = [Level::Strict, Level::Half, Level::Gentle];

    /// What a value begins with that is rejected.
    pub fn rejected(self) -> &'static [&'static str] {
        match self {
            Level::Strict => &[BAD, WORSE],
            Level::Half => &[WORSE],
            Level::Gentle => &[],
        }
    }

    /// Whether the row itself is rejected.
    pub fn rejects(self, change: &Change) -> bool {
        let v = change.v.as_deref().unwrap_or_default();
        self.rejected().iter().any(|start| v.starts_with(start))
    }

    /// The changes that go into quarantine: those that are rejected, and those that go along.
    pub fn aside(self, source: &[Change]) -> BTreeSet<Key> {
        let groups = together(source).into_iter();
        groups
            .filter(|group| group.iter().any(|change| self.rejects(change)))
            .flatten()
            .map(Change::key)
            .collect()
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rejected() {
            [] => write!(f, "no value is rejected"),
            words => write!(f, "values are rejected that begin with {}", words.join(" or ")),
        }
    }
}

/// The changes that cannot be parted: within a transaction, the rows of one change, and all rows of one key.
pub fn together(source: &[Change]) -> Vec<Vec<&Change>> {
    let mut parents: Vec<usize> = (0..source.len()).collect();
    let mut by_change = BTreeMap::new();
    let mut by_key = BTreeMap::new();
    for (at, change) in source.iter().enumerate() {
        let same_change = *by_change.entry((&change.start_lsn, &change.seqval)).or_insert(at);
        let same_key = *by_key.entry((&change.start_lsn, change.id)).or_insert(at);
        for other in [same_change, same_key] {
            let (one, other) = (root(&parents, at), root(&parents, other));
            parents[one.max(other)] = one.min(other);
        }
    }
    let mut groups: BTreeMap<usize, Vec<&Change>> = BTreeMap::new();
    for (at, change) in source.iter().enumerate() {
        groups.entry(root(&parents, at)).or_default().push(change);
    }
    groups.into_values().collect()
}

fn root(parents: &[usize], mut at: usize) -> usize {
    while parents[at] != at {
        at = parents[at];
    }
    at
}

#[test]
fn rows_of_one_change_and_of_one_key_go_together_within_their_transaction() {
    let change = |lsn: &str, seqval: &str, operation: i64, id: i64, v: &str| Change {
        start_lsn: lsn.to_owned(),
        command_id: 1,
        seqval: seqval.to_owned(),
        operation,
        id,
        v: Some(v.to_owned()),
    };
    let source = [
        // Key 7 is deleted and comes back, 8 is updated, and 9 is inserted.
        change("a", "1", 1, 7, "v7"),
        change("a", "2", 3, 8, "v8"),
        change("a", "2", 4, 8, "badu8"),
        change("a", "3", 2, 7, "worse7"),
        change("a", "4", 2, 9, "v9"),
        change("b", "1", 1, 7, "v7"),
    ];
    let seqvals = |level: Level| -> Vec<(String, i64)> {
        let aside = level.aside(&source).into_iter();
        aside
            .map(|(lsn, seqval, operation)| (lsn + &seqval, operation))
            .collect()
    };
    let named = |names: &[(&str, i64)]| -> Vec<(String, i64)> {
        names
            .iter()
            .map(|(name, operation)| ((*name).to_owned(), *operation))
            .collect()
    };
    assert_eq!(
        seqvals(Level::Strict),
        named(&[("a1", 1), ("a2", 3), ("a2", 4), ("a3", 2)])
    );
    assert_eq!(seqvals(Level::Half), named(&[("a1", 1), ("a3", 2)]));
    assert_eq!(seqvals(Level::Gentle), named(&[]));
}
