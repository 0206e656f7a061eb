//! What has to hold after every action, seen from the files alone, with nothing of sluice's own code.

use std::collections::BTreeMap;
use std::path::Path;

use crate::harness::{Rows, commits, rows_of};

const ORDER: [&str; 4] = ["_start_lsn", "_command_id", "_seqval", "_operation"];

/// An error, in words, unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}
pub(super) use ensure;

/// A change, as the source's change table has it, in the order of changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    pub start_lsn: String,
    pub command_id: i64,
    pub seqval: String,
    pub operation: i64,
    pub id: i64,
    pub v: Option<String>,
}

/// A table under test, and how far its verdict was.
#[derive(Debug, Default)]
pub struct Watched {
    pub name: String,
    pub masked: bool,
    finalized_until: Option<String>,
    end_lsn: Option<String>,
}

/// The facts of one batch.
struct Facts {
    batch: i64,
    rows: i64,
    /// `None` where a batch was closed before the stream had got anywhere: it sorts below every LSN.
    end_lsn: Option<String>,
}

impl Watched {
    pub fn new(name: String, masked: bool) -> Watched {
        Watched {
            name,
            masked,
            ..Watched::default()
        }
    }

    fn app_id(&self) -> String {
        format!("{}-v1", self.name)
    }

    /// Bronze is a prefix of the source in order; the ids in its log rise; facts are bronze's; the verdict is behind both.
    pub fn check(&mut self, lake: &Path, source: &[Change]) -> Result<(), String> {
        let name = self.name.clone();
        self.check_all(lake, source).map_err(|error| format!("{name}: {error}"))
    }

    /// Everything arrived, and everything says so.
    pub fn check_end(&mut self, lake: &Path, source: &[Change]) -> Result<(), String> {
        self.check(lake, source)?;
        let name = self.name.clone();
        let bronze = self.bronze(lake)?.len();
        ensure!(
            bronze == source.len(),
            "{name}: bronze has {bronze} of {} changes at the end",
            source.len()
        );
        let Some(last) = source.last() else { return Ok(()) };
        ensure!(
            self.end_lsn.as_ref() >= Some(&last.start_lsn),
            "{name}: the verdict is {:?} at the end, and the last commit {}",
            self.end_lsn,
            last.start_lsn
        );
        let facts = rows_of(&lake.join("ops/ingestion_facts"), &["app_id"]).ok_or("no facts at the end")?;
        let app_ids = facts.texts("app_id");
        let events: Vec<String> = (app_ids.iter().zip(facts.texts("event")))
            .filter(|(app_id, _)| app_id.as_deref() == Some(&*self.app_id()))
            .filter_map(|(_, event)| event)
            .collect();
        ensure!(events == ["transform_set"], "{name}: its events are {events:?}");
        Ok(())
    }

    fn check_all(&mut self, lake: &Path, source: &[Change]) -> Result<(), String> {
        // The verdict first and bronze last: what runs meanwhile may only be ahead.
        let control = self.control(lake)?;
        let facts = self.facts(lake)?;
        let bronze = self.bronze(lake)?;
        self.check_order(&bronze, source)?;
        self.check_log(lake)?;
        let mut rows_of_batch: BTreeMap<i64, i64> = BTreeMap::new();
        for (_, batch) in &bronze {
            *rows_of_batch.entry(*batch).or_default() += 1;
        }
        for (facts, number) in facts.iter().zip(0..) {
            ensure!(
                facts.batch == number,
                "the facts have batch {} where {number} comes next",
                facts.batch
            );
            let in_bronze = rows_of_batch.remove(&facts.batch).unwrap_or(0);
            ensure!(
                facts.rows == in_bronze,
                "the facts say {} rows for batch {number}, and bronze has {in_bronze}",
                facts.rows
            );
        }
        let ends: Vec<Option<&String>> = facts.iter().map(|facts| facts.end_lsn.as_ref()).collect();
        ensure!(
            facts.iter().all(|facts| facts.end_lsn.is_some() || facts.rows == 0),
            "a batch with rows has no end in the facts"
        );
        ensure!(ends.is_sorted(), "the facts' ends go back: {ends:?}");
        let Some((finalized_until, end_lsn)) = control else {
            ensure!(
                self.end_lsn.is_none() && self.finalized_until.is_none(),
                "the verdict is gone"
            );
            return Ok(());
        };
        ensure!(
            finalized_until >= self.finalized_until && end_lsn >= self.end_lsn,
            "the verdict went back: {finalized_until:?} {end_lsn:?} after {:?} {:?}",
            self.finalized_until,
            self.end_lsn
        );
        let due = source
            .iter()
            .filter(|change| Some(&change.start_lsn) <= end_lsn.as_ref())
            .count();
        ensure!(
            due <= bronze.len(),
            "the verdict says {end_lsn:?}: {due} changes, and bronze has {}",
            bronze.len()
        );
        ensure!(
            end_lsn.as_ref() <= ends.last().copied().flatten(),
            "the verdict says {end_lsn:?}, and the facts end at {:?}",
            ends.last()
        );
        (self.finalized_until, self.end_lsn) = (finalized_until, end_lsn);
        Ok(())
    }

    /// The changes in bronze, in order, each with its batch.
    fn bronze(&self, lake: &Path) -> Result<Vec<(Change, i64)>, String> {
        let Some(rows) = rows_of(&lake.join("bronze").join(&self.name), &ORDER) else {
            return Ok(Vec::new());
        };
        let [start_lsn, seqval, v] = ["_start_lsn", "_seqval", "v"].map(|name| rows.texts(name));
        let [command_id, operation, id, batch] =
            ["_command_id", "_operation", "id", "_batch_id"].map(|name| rows.numbers(name));
        (0..rows.len())
            .map(|row| {
                let change = Change {
                    start_lsn: start_lsn[row].clone().ok_or("a row without _start_lsn")?,
                    command_id: command_id[row],
                    seqval: seqval[row].clone().ok_or("a row without _seqval")?,
                    operation: operation[row],
                    id: id[row],
                    v: v[row].clone(),
                };
                Ok((change, batch[row]))
            })
            .collect()
    }

    fn check_order(&self, bronze: &[(Change, i64)], source: &[Change]) -> Result<(), String> {
        let mut masks: BTreeMap<&Option<String>, &Option<String>> = BTreeMap::new();
        for (position, (there, batch)) in bronze.iter().enumerate() {
            let wanted = source.get(position);
            let mut shown = there.clone();
            if let (true, Some(wanted)) = (self.masked, wanted) {
                let mask = masks.entry(&wanted.v).or_insert(&there.v);
                ensure!(
                    *mask == &there.v && (there.v != wanted.v || there.v.is_none()),
                    "row {position} of bronze is not masked as others of its value are"
                );
                shown.v.clone_from(&wanted.v);
            }
            ensure!(
                Some(&shown) == wanted,
                "row {position} of bronze (batch {batch}) is {there:?}, and the source has {wanted:?}"
            );
        }
        ensure!(
            bronze.iter().map(|(_, batch)| batch).is_sorted(),
            "the batches of bronze are not in the order of its changes"
        );
        if let (Some((last, _)), Some(next)) = (bronze.last(), source.get(bronze.len())) {
            ensure!(
                last.start_lsn < next.start_lsn,
                "bronze ends within the commit {}",
                last.start_lsn
            );
        }
        Ok(())
    }

    /// The batch number rises, and the fencing number never goes down.
    fn check_log(&self, lake: &Path) -> Result<(), String> {
        let app_id = self.app_id();
        let owner_id = format!("{app_id}#owner");
        let (mut batch, mut owner) = (None, None);
        for (commit, version) in commits(&lake.join("bronze").join(&self.name)).iter().zip(0..) {
            for action in commit {
                let Some(number) = action["txn"]["version"].as_i64() else {
                    continue;
                };
                if action["txn"]["appId"] == *app_id {
                    ensure!(
                        Some(number) > batch,
                        "version {version} of bronze has batch {number} after {batch:?}"
                    );
                    batch = Some(number);
                } else if action["txn"]["appId"] == *owner_id {
                    ensure!(
                        Some(number) >= owner,
                        "version {version} of bronze has the fencing number {number} after {owner:?}"
                    );
                    owner = Some(number);
                }
            }
        }
        Ok(())
    }

    /// The facts of the table's batches, by number.
    fn facts(&self, lake: &Path) -> Result<Vec<Facts>, String> {
        let Some(rows) = rows_of(&lake.join("ops/ingestion_facts"), &["batch_id"]) else {
            return Ok(Vec::new());
        };
        let [app_ids, batches, events, counts, ends] =
            ["app_id", "batch_id", "event", "rows", "end_lsn"].map(|name| rows.texts(name));
        let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse().ok());
        (0..rows.len())
            .filter(|row| app_ids[*row].as_deref() == Some(&*self.app_id()) && events[*row].is_none())
            .map(|row| {
                Ok(Facts {
                    batch: number(&batches[row]).ok_or("a facts row without batch_id")?,
                    rows: number(&counts[row]).ok_or("a facts row without rows")?,
                    end_lsn: ends[row].clone(),
                })
            })
            .collect()
    }

    /// The table's verdict, as (finalized_until, end_lsn).
    #[allow(clippy::type_complexity)]
    fn control(&self, lake: &Path) -> Result<Option<(Option<String>, Option<String>)>, String> {
        let Some(rows) = rows_of(&lake.join("ops/table_finalization"), &["table_name"]) else {
            return Ok(None);
        };
        let mine = self.lines(&rows);
        ensure!(mine.len() <= 1, "the control table has {} rows of it", mine.len());
        let [until, end] = ["finalized_until", "end_lsn"].map(|name| rows.texts(name));
        Ok(mine.first().map(|row| (until[*row].clone(), end[*row].clone())))
    }

    fn lines(&self, rows: &Rows) -> Vec<usize> {
        let names = rows.texts("table_name");
        let ours = |name: &Option<String>| name.as_ref().is_some_and(|name| Path::new(name).ends_with(&self.name));
        (0..rows.len()).filter(|row| ours(&names[*row])).collect()
    }
}
