//! What has to hold after every action, seen from the files alone, with nothing of sluice's own code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::account::{Account, Found, Quarantined};
use super::fates::Level;
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

/// What names a change: `_start_lsn`, `_seqval`, `_operation`.
pub type Key = (String, String, i64);

impl Change {
    pub fn key(&self) -> Key {
        (self.start_lsn.clone(), self.seqval.clone(), self.operation)
    }
}

/// A table under test, and how far its verdict was.
#[derive(Debug)]
pub struct Watched {
    pub name: String,
    masked: bool,
    /// Where its component rejects rows.
    account: Option<Account>,
    finalized_until: Option<String>,
    end_lsn: Option<String>,
}

/// The facts of one batch.
pub struct Facts {
    pub batch: i64,
    pub rows: i64,
    pub quarantined: i64,
    /// `None` where a batch was closed before the stream had got anywhere: it sorts below every LSN.
    pub end_lsn: Option<String>,
}

/// What the control table says.
struct Verdict {
    finalized_until: Option<String>,
    end_lsn: Option<String>,
    open_quarantined: i64,
}

impl Watched {
    pub fn new(name: String, masked: bool, level: Option<Level>) -> Watched {
        Watched {
            name,
            masked,
            account: level.map(Account::new),
            finalized_until: None,
            end_lsn: None,
        }
    }

    /// What the component rejects from here on.
    pub fn set_level(&mut self, level: Level) {
        if let Some(account) = &mut self.account {
            account.set_level(level);
        }
    }

    /// Every run that could bring a row out of quarantine was made: what is left there is what the component rejects now.
    pub fn check_retried(&self, source: &[Change]) -> Result<(), String> {
        let Some(account) = &self.account else { return Ok(()) };
        account
            .check_retried(source)
            .map_err(|error| format!("{}: {error}", self.name))
    }

    fn app_id(&self) -> String {
        format!("{}-v1", self.name)
    }

    /// Bronze is a prefix of the source in order, but for what is open in quarantine; the ids in its log rise; facts are bronze's;
    /// the verdict is behind both.
    pub fn check(&mut self, lake: &Path, source: &[Change]) -> Result<(), String> {
        let name = self.name.clone();
        self.check_all(lake, source).map_err(|error| format!("{name}: {error}"))
    }

    /// Everything arrived, and everything says so.
    pub fn check_end(&mut self, lake: &Path, source: &[Change]) -> Result<(), String> {
        self.check(lake, source)?;
        let name = self.name.clone();
        let bronze = self.bronze(lake)?.len();
        let open = self.account.as_ref().map_or(0, Account::open);
        ensure!(
            bronze + open == source.len(),
            "{name}: bronze has {bronze} of {} changes at the end, and quarantine {open}",
            source.len()
        );
        let told = self.control(lake)?.map_or(0, |verdict| verdict.open_quarantined);
        ensure!(
            usize::try_from(told) == Ok(open),
            "{name}: the verdict says that {told} changes are open in quarantine, and {open} are"
        );
        let Some(last) = source.last() else { return Ok(()) };
        ensure!(
            self.end_lsn.as_ref() >= Some(&last.start_lsn),
            "{name}: the verdict is {:?} at the end, and the last commit {}",
            self.end_lsn,
            last.start_lsn
        );
        self.check_events(lake).map_err(|error| format!("{name}: {error}"))
    }

    fn check_events(&self, lake: &Path) -> Result<(), String> {
        let facts = rows_of(&lake.join("ops/ingestion_facts"), &["app_id"]).ok_or("no facts at the end")?;
        let app_ids = facts.texts("app_id");
        let mut events: Vec<String> = (app_ids.iter().zip(facts.texts("event")))
            .filter(|(app_id, _)| app_id.as_deref() == Some(&*self.app_id()))
            .filter_map(|(_, event)| event)
            .collect();
        if self.account.is_some() {
            events.retain(|event| event != "transform_changed" && event != "quarantine_retried");
        }
        ensure!(events == ["transform_set"], "its events are {events:?}");
        Ok(())
    }

    fn check_all(&mut self, lake: &Path, source: &[Change]) -> Result<(), String> {
        // The verdict first and bronze last: what runs meanwhile may only be ahead.
        let control = self.control(lake)?;
        let facts = self.facts(lake)?;
        let quarantine = Quarantined::read(&self.quarantine_table(lake))?;
        let bronze = self.bronze(lake)?;
        self.check_values(&bronze, source)?;
        self.check_log(&self.bronze_table(lake), &self.app_id())?;
        self.check_log(&self.quarantine_table(lake), &format!("{}#quarantine", self.app_id()))?;
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
        let attempts = self.attempts(lake);
        match &mut self.account {
            None => check_order(&bronze, source)?,
            Some(account) => account.check(&Found {
                source,
                bronze: &bronze,
                facts: &facts,
                attempts,
                quarantine,
            })?,
        }
        let Some(verdict) = control else {
            ensure!(
                self.end_lsn.is_none() && self.finalized_until.is_none(),
                "the verdict is gone"
            );
            return Ok(());
        };
        let (finalized_until, end_lsn) = (verdict.finalized_until, verdict.end_lsn);
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
        let there = bronze.len() + self.account.as_ref().map_or(0, Account::open);
        ensure!(
            due <= there,
            "the verdict says {end_lsn:?}: {due} changes, and bronze and quarantine have {there}"
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
        let Some(rows) = rows_of(&self.bronze_table(lake), &ORDER) else {
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

    /// Each change in bronze is one of the source, and its value is the source's, or is masked like others of its value.
    fn check_values(&self, bronze: &[(Change, i64)], source: &[Change]) -> Result<(), String> {
        let source: BTreeMap<Key, &Change> = source.iter().map(|change| (change.key(), change)).collect();
        let mut masks: BTreeMap<&Option<String>, &Option<String>> = BTreeMap::new();
        for (there, batch) in bronze {
            let wanted = source.get(&there.key()).copied();
            let mut shown = there.clone();
            if let (true, Some(wanted)) = (self.masked, wanted) {
                let mask = masks.entry(&wanted.v).or_insert(&there.v);
                ensure!(
                    *mask == &there.v && (there.v != wanted.v || there.v.is_none()),
                    "{there:?} of bronze is not masked as others of its value are"
                );
                shown.v.clone_from(&wanted.v);
            }
            ensure!(
                Some(&shown) == wanted,
                "bronze has {there:?} (batch {batch}), and the source has {wanted:?}"
            );
        }
        Ok(())
    }

    /// The number under `id` rises, and the fencing number never goes down.
    fn check_log(&self, table: &Path, id: &str) -> Result<(), String> {
        let owner_id = format!("{}#owner", self.app_id());
        let (mut newest, mut owner) = (None, None);
        for (commit, version) in commits(table).iter().zip(0..) {
            for action in commit {
                let Some(number) = action["txn"]["version"].as_i64() else {
                    continue;
                };
                if action["txn"]["appId"] == *id {
                    ensure!(
                        Some(number) > newest,
                        "version {version} has {number} of {id} after {newest:?}"
                    );
                    newest = Some(number);
                } else if action["txn"]["appId"] == *owner_id {
                    ensure!(
                        Some(number) >= owner,
                        "version {version} of the table of {id} has the fencing number {number} after {owner:?}"
                    );
                    owner = Some(number);
                }
            }
        }
        Ok(())
    }

    /// The attempt that each batch in bronze is of, by its commit.
    fn attempts(&self, lake: &Path) -> BTreeMap<i64, i64> {
        let app_id = self.app_id();
        let log = commits(&self.bronze_table(lake));
        log.iter()
            .filter_map(|commit| {
                let is_ours = |action: &&Value| action["txn"]["appId"] == *app_id;
                let batch = commit.iter().find(is_ours)?["txn"]["version"].as_i64()?;
                let told = commit
                    .iter()
                    .find_map(|action| action["commitInfo"]["userMetadata"].as_str())?;
                let told: Value = serde_json::from_str(told).ok()?;
                Some((batch, told["attempt"].as_i64()?))
            })
            .collect()
    }

    fn bronze_table(&self, lake: &Path) -> PathBuf {
        lake.join("bronze").join(&self.name)
    }

    fn quarantine_table(&self, lake: &Path) -> PathBuf {
        lake.join("bronze").join(format!("{}__quarantine", self.name))
    }

    /// The facts of the table's batches, by number.
    fn facts(&self, lake: &Path) -> Result<Vec<Facts>, String> {
        let Some(rows) = rows_of(&lake.join("ops/ingestion_facts"), &["batch_id"]) else {
            return Ok(Vec::new());
        };
        let [app_ids, batches, events, counts, quarantined, ends] =
            ["app_id", "batch_id", "event", "rows", "rows_quarantined", "end_lsn"].map(|name| rows.texts(name));
        let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse().ok());
        (0..rows.len())
            .filter(|row| app_ids[*row].as_deref() == Some(&*self.app_id()) && events[*row].is_none())
            .map(|row| {
                Ok(Facts {
                    batch: number(&batches[row]).ok_or("a facts row without batch_id")?,
                    rows: number(&counts[row]).ok_or("a facts row without rows")?,
                    quarantined: number(&quarantined[row]).ok_or("a facts row without rows_quarantined")?,
                    end_lsn: ends[row].clone(),
                })
            })
            .collect()
    }

    /// The table's verdict.
    fn control(&self, lake: &Path) -> Result<Option<Verdict>, String> {
        let Some(rows) = rows_of(&lake.join("ops/table_finalization"), &["table_name"]) else {
            return Ok(None);
        };
        let mine = self.lines(&rows);
        ensure!(mine.len() <= 1, "the control table has {} rows of it", mine.len());
        let [until, end, open] = ["finalized_until", "end_lsn", "open_quarantined"].map(|name| rows.texts(name));
        Ok(mine.first().map(|row| Verdict {
            finalized_until: until[*row].clone(),
            end_lsn: end[*row].clone(),
            // NULL while nothing ever was in quarantine.
            open_quarantined: open[*row].as_deref().map_or(0, |open| open.parse().unwrap_or(-1)),
        }))
    }

    fn lines(&self, rows: &Rows) -> Vec<usize> {
        let names = rows.texts("table_name");
        let ours = |name: &Option<String>| name.as_ref().is_some_and(|name| Path::new(name).ends_with(&self.name));
        (0..rows.len()).filter(|row| ours(&names[*row])).collect()
    }
}

/// Bronze is a prefix of the source, in its order, and ends between two commits.
fn check_order(bronze: &[(Change, i64)], source: &[Change]) -> Result<(), String> {
    for (position, (there, batch)) in bronze.iter().enumerate() {
        let wanted = source.get(position);
        ensure!(
            Some(there.key()) == wanted.map(Change::key),
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
