//! A table whose component rejects rows: each change of the source is in bronze or open in quarantine, never in both, and in
//! neither only while it is still to come. Which of the two is held against the test's own account (`fates`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::check::{Change, Facts, Key, ensure};
use super::fates::{Level, together};
use crate::harness::rows_of;

/// The code of the guest `upper`.
const REJECTED: &str = "unwanted";
/// The code of a row that goes along with one that was rejected.
const ALONG: &str = "with-another-row";

/// A batch, and the attempt at it.
type Attempt = (i64, i64);

/// A row of the quarantine table about a change.
#[derive(Debug)]
struct Row {
    batch: i64,
    attempt: i64,
    key: Key,
    /// Otherwise it was retried.
    is_open: bool,
    column: Option<String>,
    code: Option<String>,
}

/// The quarantine table.
#[derive(Debug, Default)]
pub struct Quarantined {
    /// By batch and attempt.
    rows: Vec<Row>,
    void: BTreeSet<Attempt>,
}

impl Quarantined {
    /// Reads the table, if there is one.
    pub fn read(table: &Path) -> Result<Quarantined, String> {
        let mut found = Quarantined::default();
        let Some(rows) = rows_of(table, &["batch_id", "attempt"]) else {
            return Ok(found);
        };
        let [batches, attempts] = ["batch_id", "attempt"].map(|name| rows.numbers(name));
        let [lsns, seqvals, operations] = ["_start_lsn", "_seqval", "_operation"].map(|name| rows.texts(name));
        let [states, columns, codes] = ["state", "column", "code"].map(|name| rows.texts(name));
        for row in 0..rows.len() {
            let is_open = match states[row].as_deref() {
                Some("void") => {
                    found.void.insert((batches[row], attempts[row]));
                    continue;
                }
                Some("open") => true,
                Some("retried") => false,
                other => return Err(format!("a row of quarantine has the state {other:?}")),
            };
            let operation = operations[row].as_deref().and_then(|text| text.parse().ok());
            let (Some(lsn), Some(seqval), Some(operation)) = (lsns[row].clone(), seqvals[row].clone(), operation)
            else {
                return Err("a row of quarantine names no change".to_owned());
            };
            found.rows.push(Row {
                batch: batches[row],
                attempt: attempts[row],
                key: (lsn, seqval, operation),
                is_open,
                column: columns[row].clone(),
                code: codes[row].clone(),
            });
        }
        Ok(found)
    }
}

/// Where a change is, and by which batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Bronze(i64),
    Open(i64),
}

/// Everything that was found after an action.
pub struct Found<'a> {
    pub source: &'a [Change],
    /// Each with its batch.
    pub bronze: &'a [(Change, i64)],
    pub facts: &'a [Facts],
    /// The attempts of the batches in bronze.
    pub attempts: BTreeMap<i64, i64>,
    pub quarantine: Quarantined,
}

/// Where everything was after the last action.
#[derive(Debug)]
pub struct Account {
    /// What the component rejects.
    level: Level,
    places: BTreeMap<Key, Place>,
    /// Attempts that had rows in quarantine, void or not.
    attempts: BTreeSet<Attempt>,
}

impl Account {
    pub fn new(level: Level) -> Account {
        Account {
            level,
            places: BTreeMap::new(),
            attempts: BTreeSet::new(),
        }
    }

    pub fn set_level(&mut self, level: Level) {
        self.level = level;
    }

    /// Changes that are open in quarantine.
    pub fn open(&self) -> usize {
        let places = self.places.values();
        places.filter(|place| matches!(place, Place::Open(_))).count()
    }

    /// What is left in quarantine is what the component rejects now.
    pub fn check_retried(&self, source: &[Change]) -> Result<(), String> {
        let aside = self.level.aside(source);
        let open = |place: &Place| matches!(place, Place::Open(_));
        let left = self
            .places
            .iter()
            .find(|(key, place)| open(place) && !aside.contains(*key));
        ensure!(left.is_none(), "{left:?} was not retried, though {} now", self.level);
        Ok(())
    }

    /// One action after the last check.
    pub fn check(&mut self, found: &Found<'_>) -> Result<(), String> {
        let counting = found.counting();
        let places = found.places(&counting)?;
        found.check_complete(&places)?;
        found.check_attempts(&counting)?;
        found.check_retried(&counting, &places)?;
        found.check_facts(&counting)?;
        check_together(found.source, &places)?;
        self.check_fates(found, &places)?;
        self.attempts.extend(found.quarantine.rows.iter().map(Row::at));
        self.places = places;
        Ok(())
    }

    /// What went to bronze or into quarantine since the last check did so as the component has it by the test's own account:
    /// one level was in force meanwhile.
    fn check_fates(&self, found: &Found<'_>, places: &BTreeMap<Key, Place>) -> Result<(), String> {
        let aside = self.level.aside(found.source);
        for (key, place) in &self.places {
            let stays = !matches!(place, Place::Bronze(_)) || places.get(key) == Some(place);
            ensure!(stays, "{key:?} was {place:?}, and is {:?}", places.get(key));
        }
        let is_new = |key: &Key| !matches!(self.places.get(key), Some(Place::Bronze(_)));
        for (key, place) in places.iter().filter(|(key, _)| is_new(key)) {
            let is_right = matches!(place, Place::Open(_)) || !aside.contains(key);
            ensure!(is_right, "{key:?} came to bronze ({place:?}), though {}", self.level);
        }
        let source: BTreeMap<Key, &Change> = found.source.iter().map(|change| (change.key(), change)).collect();
        let rows = found.quarantine.rows.iter();
        for row in rows.filter(|row| row.is_open && !self.attempts.contains(&row.at())) {
            ensure!(aside.contains(&row.key), "{row:?} was put aside, and {}", self.level);
            let itself = source.get(&row.key).is_some_and(|change| self.level.rejects(change));
            let (column, code) = if itself { (Some("v"), REJECTED) } else { (None, ALONG) };
            ensure!(
                row.column.as_deref() == column && row.code.as_deref() == Some(code),
                "{row:?} should have the column {column:?} and the code {code}, as {}",
                self.level
            );
        }
        Ok(())
    }
}

impl Row {
    fn at(&self) -> Attempt {
        (self.batch, self.attempt)
    }
}

impl Found<'_> {
    /// The rows of quarantine that count. What a retry wrote that bronze does not have is still to be voided.
    fn counting(&self) -> Vec<&Row> {
        let counts = |row: &&Row| !self.quarantine.void.contains(&row.at()) && (row.is_open || self.is_done(row.batch));
        self.quarantine.rows.iter().filter(counts).collect()
    }

    /// Whether bronze has the batch, or the facts tell of it.
    fn is_done(&self, batch: i64) -> bool {
        self.attempts.contains_key(&batch) || self.facts.iter().any(|facts| facts.batch == batch)
    }

    /// Where each change is: in bronze once, or open, and not in both.
    fn places(&self, counting: &[&Row]) -> Result<BTreeMap<Key, Place>, String> {
        let mut places = BTreeMap::new();
        for (change, batch) in self.bronze {
            let before = places.insert(change.key(), Place::Bronze(*batch));
            ensure!(before.is_none(), "{change:?} is in bronze twice");
        }
        let mut newest: BTreeMap<&Key, &Row> = BTreeMap::new();
        for row in counting.iter().copied() {
            newest.insert(&row.key, row);
        }
        for row in newest.into_values().filter(|row| row.is_open) {
            let before = places.insert(row.key.clone(), Place::Open(row.batch));
            ensure!(before.is_none(), "{row:?} is open, and in bronze too: {before:?}");
        }
        let source: BTreeSet<Key> = self.source.iter().map(Change::key).collect();
        let strange = places.keys().find(|key| !source.contains(*key));
        ensure!(strange.is_none(), "{strange:?} is no change of the source");
        Ok(places)
    }

    /// Nothing is missing up to where the facts end, and up to the newest change in bronze.
    fn check_complete(&self, places: &BTreeMap<Key, Place>) -> Result<(), String> {
        let told = self.facts.last().and_then(|facts| facts.end_lsn.as_ref());
        let newest = self.bronze.iter().map(|(change, _)| &change.start_lsn).max();
        let end = told.max(newest);
        let mut due = self.source.iter().filter(|change| Some(&change.start_lsn) <= end);
        let missing = due.find(|change| !places.contains_key(&change.key()));
        ensure!(
            missing.is_none(),
            "{missing:?} is neither in bronze nor open in quarantine, and the table is at {end:?}"
        );
        Ok(())
    }

    /// Rows of one attempt at a batch count, and of the one that bronze has.
    fn check_attempts(&self, counting: &[&Row]) -> Result<(), String> {
        let mut attempts = self.attempts.clone();
        for row in counting {
            let attempt = *attempts.entry(row.batch).or_insert(row.attempt);
            ensure!(
                attempt == row.attempt,
                "{row:?} counts, and so does attempt {attempt} at that batch"
            );
        }
        Ok(())
    }

    /// What was retried is in bronze, by the batch that says so.
    fn check_retried(&self, counting: &[&Row], places: &BTreeMap<Key, Place>) -> Result<(), String> {
        for row in counting.iter().filter(|row| !row.is_open) {
            let place = places.get(&row.key);
            ensure!(
                place == Some(&Place::Bronze(row.batch)),
                "{row:?} is out of quarantine, and it is {place:?}"
            );
        }
        Ok(())
    }

    /// The facts of each batch are what it brought to bronze and into quarantine, and that is what the source had in its range.
    /// A retry has no range: its rows were counted when they went into quarantine.
    fn check_facts(&self, counting: &[&Row]) -> Result<(), String> {
        let mut before: Option<&String> = None;
        for facts in self.facts {
            let (batch, end) = (facts.batch, facts.end_lsn.as_ref());
            let in_range = |lsn: &String| Some(lsn) > before && Some(lsn) <= end;
            let range = self.source.iter().filter(|change| in_range(&change.start_lsn)).count();
            let mine = || counting.iter().filter(move |row| row.batch == batch);
            let fresh = mine().filter(|row| row.is_open && Some(&row.key.0) > before).count();
            let retried = mine().filter(|row| !row.is_open).count();
            ensure!(
                facts.quarantined == fresh as i64,
                "the facts say that batch {batch} put {} rows into quarantine, and it has {fresh}",
                facts.quarantined
            );
            ensure!(
                facts.rows + facts.quarantined == (range + retried) as i64 && (range == 0 || retried == 0),
                "batch {batch} has {} rows in bronze and {fresh} in quarantine; the source has {range} in its range, and \
                 {retried} were retried",
                facts.rows
            );
            let mut rows = self.bronze.iter().filter(|(_, of)| retried == 0 && *of == batch);
            let strange = rows.find(|(change, _)| !in_range(&change.start_lsn));
            ensure!(strange.is_none(), "{strange:?} is not of the range of its batch");
            before = end;
        }
        Ok(())
    }
}

/// What goes together is in one place.
fn check_together(source: &[Change], places: &BTreeMap<Key, Place>) -> Result<(), String> {
    for group in together(source) {
        let of = |change: &&Change| places.get(&change.key());
        let parted = group.iter().find(|change| of(change) != of(&group[0]));
        ensure!(
            parted.is_none(),
            "{parted:?} is {:?}, and {:?}, which belongs to it, is {:?}",
            parted.and_then(of),
            group[0],
            of(&group[0])
        );
    }
    Ok(())
}
