//! What has to hold after a run, seen from the files alone, with nothing of sluice's own code.

use std::collections::{BTreeMap, BTreeSet};

use chrono::NaiveDateTime;

use super::model::{Change, Entry, Instance, Model, Values};
use super::plan::CHANGE;
use crate::harness::{Project, Rows, rows_of};

const ORDER: [&str; 4] = ["_start_lsn", "_command_id", "_seqval", "_operation"];
const HOUR: i64 = 3600;

/// How far bronze has to be.
#[derive(Clone, Copy, Debug)]
pub enum Until<'a> {
    /// Where the facts say; and that is this LSN at least, if there is one.
    Facts(Option<&'a str>),
    /// Wherever it is: the run was stopped by a loss.
    Bronze,
}

/// What earlier checks saw.
#[derive(Debug, Default)]
pub struct Seen {
    rows: usize,
    /// In seconds since 1970.
    finalized_until: Option<i64>,
}

/// A row of bronze.
struct Row {
    lsn: String,
    /// What makes it the only one of its commit: `_command_id`, `_seqval`, `_operation`.
    place: (i64, String, i64),
    operation: i64,
    id: i64,
    /// Each column that the table ever had, with NULL left out.
    values: Values,
    instance: String,
    /// `_commit_ts`, in seconds since 1970.
    at: i64,
}

/// A row of the facts.
#[derive(Debug, Default)]
struct Facts {
    /// Rows of each batch, by its number.
    batches: BTreeMap<i64, i64>,
    /// The furthest end of a batch.
    end: Option<String>,
    /// First and last LSN of each gap.
    gaps: Vec<(String, String)>,
    /// `event`, `detail`, `min_lsn` of everything else.
    events: Vec<(String, String, Option<String>)>,
}

/// The end of the last batch that the facts have.
pub fn end(project: &Project) -> Result<Option<String>, String> {
    Ok(facts(project)?.end)
}

impl Seen {
    /// Bronze is the history up to the position, without the gaps that the facts have, and each row is what it has to be.
    pub fn check(&mut self, project: &Project, model: &Model, until: Until<'_>) -> Result<(), String> {
        let facts = facts(project)?;
        let bronze = bronze(project, model)?;
        let end = match until {
            Until::Facts(at_least) => {
                ensure!(
                    facts.end.as_deref() >= at_least,
                    "the run ended well at {:?}, and {at_least:?} was captured before it began",
                    facts.end
                );
                facts.end.clone()
            }
            Until::Bronze => bronze.last().map(|row| row.lsn.clone()),
        };
        let twice = bronze
            .windows(2)
            .find(|pair| (&pair[0].lsn, &pair[0].place) >= (&pair[1].lsn, &pair[1].place));
        if let Some(pair) = twice {
            return Err(format!("{} has the row {:?} twice", pair[0].lsn, pair[0].place));
        }
        check_commits(&bronze, model, &facts.gaps, end.as_deref())?;
        check_facts(&facts, &bronze, until)?;
        check_events(&facts, &bronze, model)?;
        // A position without rows is beyond bronze.
        self.check_verdict(project, model, &bronze, end.max(facts.end).as_deref())
    }

    /// A verdict is never ahead: nothing that is older comes after it.
    fn check_verdict(
        &mut self,
        project: &Project,
        model: &Model,
        bronze: &[Row],
        end: Option<&str>,
    ) -> Result<(), String> {
        let new = bronze.get(self.rows..).ok_or("bronze has fewer rows than before")?;
        if let (Some(until), Some(late)) = (
            self.finalized_until,
            new.iter().find(|row| Some(row.at) < self.finalized_until),
        ) {
            return Err(format!(
                "finalized_until was {until}, and {} of {} came after it",
                late.lsn, late.at
            ));
        }
        self.rows = bronze.len();
        let Some(control) = rows_of(&project.lake().join("ops/table_finalization"), &["table_name"]) else {
            return Ok(());
        };
        ensure!(control.len() == 1, "the control table has {} rows", control.len());
        let Some(until) = control.texts("finalized_until")[0]
            .as_deref()
            .map(seconds)
            .transpose()?
        else {
            return Ok(());
        };
        let latest = end.and_then(|end| model.latest_until(end));
        ensure!(
            Some(until) <= latest,
            "finalized_until is {until}, and the latest commit up to {end:?} was at {latest:?}"
        );
        ensure!(
            Some(until) >= self.finalized_until,
            "finalized_until went back from {:?} to {until}",
            self.finalized_until
        );
        self.finalized_until = Some(until);
        Ok(())
    }
}

/// Everything is there, and everything was told: `ddl` are the LSNs of the server's DDL history.
pub fn check_end(project: &Project, model: &Model, ddl: &BTreeSet<String>) -> Result<(), String> {
    let facts = facts(project)?;
    let bronze = bronze(project, model)?;
    let last = model.commits().last().map(|(_, _, lsn, _)| lsn);
    ensure!(
        bronze.last().map(|row| row.lsn.as_str()) == last,
        "bronze ends at {:?}, and the last commit is {last:?}",
        bronze.last().map(|row| &row.lsn)
    );
    let told: BTreeSet<String> = facts.of("schema_change").filter_map(|(_, lsn)| lsn.clone()).collect();
    let untold: Vec<&String> = ddl.difference(&told).collect();
    ensure!(untold.is_empty(), "DDL at {untold:?} was not told");
    let switched = switches(&facts)?.pop().unwrap_or_else(|| "dbo_t".to_owned());
    let through = bronze.last().map_or("dbo_t", |row| row.instance.as_str());
    ensure!(
        switched == through,
        "the last switch told is to {switched}, and the last row came through {through}"
    );
    let count = |event: &str| facts.of(event).count();
    let (stalled, resumed) = (count("capture_stalled"), count("capture_resumed"));
    ensure!(
        stalled == resumed,
        "capture stalled {stalled} times and resumed {resumed} times"
    );
    let status = project.verdict().0;
    ensure!(
        status.as_deref() == Some("current"),
        "the status at the end is {status:?}"
    );
    Ok(())
}

fn check_commits(bronze: &[Row], model: &Model, gaps: &[(String, String)], end: Option<&str>) -> Result<(), String> {
    let lost = |lsn: &str| gaps.iter().any(|(from, to)| from.as_str() <= lsn && lsn <= to.as_str());
    let mut there = bronze.chunk_by(|one, next| one.lsn == next.lsn).peekable();
    let mut floor = i64::MIN;
    for (number, entry, lsn, changes) in model.commits() {
        if Some(lsn) > end || lost(lsn) {
            continue;
        }
        let found = there.next_if(|rows| rows[0].lsn == lsn).ok_or_else(|| {
            let missing = changes.len();
            match bronze.iter().find(|row| row.lsn.as_str() > lsn) {
                Some(next) => format!("{lsn} ({missing} rows) is not in bronze, which goes on at {}", next.lsn),
                None => format!("{lsn} ({missing} rows) is not in bronze, which is to reach {end:?}"),
            }
        })?;
        let error = |problem: String| format!("commit {number} ({lsn}): {problem}");
        check_rows(found, model, &model.through(number, lsn), changes).map_err(error)?;
        check_instant(found, model, entry, lsn, floor).map_err(error)?;
        floor = found[0].at;
    }
    match there.next() {
        None => Ok(()),
        Some(rows) => Err(format!(
            "{} is in bronze and not in the history up to {end:?} without the gaps {gaps:?}",
            rows[0].lsn
        )),
    }
}

/// The rows of one commit. Those of each id are in order; which of several rows a statement changed first is the server's.
fn check_rows(found: &[Row], model: &Model, through: &[&Instance], changes: &[Change]) -> Result<(), String> {
    let name = &found[0].instance;
    ensure!(
        found.iter().all(|row| row.instance == *name),
        "its rows are of several instances"
    );
    let instance = through.iter().find(|instance| instance.name == *name).ok_or_else(|| {
        let names: Vec<&str> = through.iter().map(|instance| instance.name.as_str()).collect();
        format!("it came through {name}, which is not {names:?}")
    })?;
    let mut wanted: BTreeMap<i64, Vec<(i64, Values)>> = BTreeMap::new();
    for change in changes {
        let mut values = change.values.clone();
        values.retain(|column, _| instance.columns.contains(column));
        wanted.entry(change.id).or_default().push((change.operation, values));
    }
    let mut got: BTreeMap<i64, Vec<(i64, Values)>> = BTreeMap::new();
    for row in found {
        got.entry(row.id).or_default().push((row.operation, row.values.clone()));
    }
    for (id, rows) in &wanted {
        let there = got.remove(id).unwrap_or_default();
        ensure!(
            there == *rows,
            "id {id} has {there:?} (operation, values), and was {rows:?}; the columns were {:?}",
            model.ever
        );
    }
    ensure!(got.is_empty(), "it has rows that it should not have: {got:?}");
    let mut befores = 0;
    for row in found {
        match row.operation {
            3 => befores += 1,
            4 => befores -= 1,
            _ => {}
        }
        ensure!((0..=1).contains(&befores), "the two rows of an update are apart");
    }
    Ok(())
}

/// `_commit_ts` is the commit's instant, or a later one of a commit before it where the clock was set back: of one that is in
/// bronze for certain, of another one where it was read with the range.
fn check_instant(found: &[Row], model: &Model, entry: &Entry, lsn: &str, floor: i64) -> Result<(), String> {
    let at = found[0].at;
    ensure!(found.iter().all(|row| row.at == at), "its rows have several instants");
    let mut least = entry.at;
    // Nothing is left that tells the two passes of the hour apart: the first is taken.
    if (CHANGE..CHANGE + HOUR).contains(&entry.at) && model.cannot_tell_passes() {
        least -= HOUR;
    }
    let least = least.max(floor);
    let most = model.latest_until(lsn).unwrap_or(entry.at).max(floor);
    ensure!(
        (least..=most).contains(&at),
        "its instant is {at}, and should be {least} to {most}; it was committed at {}",
        entry.at
    );
    Ok(())
}

fn check_facts(facts: &Facts, bronze: &[Row], until: Until<'_>) -> Result<(), String> {
    ensure!(
        facts.batches.keys().copied().eq((0..).take(facts.batches.len())),
        "the facts have the batches {:?}",
        facts.batches.keys()
    );
    let rows: i64 = facts.batches.values().sum();
    ensure!(
        matches!(until, Until::Bronze) || usize::try_from(rows) == Ok(bronze.len()),
        "the facts sum up to {rows} rows, and bronze has {}",
        bronze.len()
    );
    Ok(())
}

fn check_events(facts: &Facts, bronze: &[Row], model: &Model) -> Result<(), String> {
    let mut told = BTreeSet::new();
    for (detail, lsn) in facts.of("schema_change") {
        ensure!(told.insert(lsn.clone()), "DDL at {lsn:?} was told twice: {detail}");
    }
    ensure!(
        told.len() <= model.ddl,
        "{} statements of DDL were told, and there were {}",
        told.len(),
        model.ddl
    );
    let switched = switches(facts)?;
    let number = |name: &str| model.instances.iter().position(|instance| instance.name == name);
    let numbers: Vec<Option<usize>> = switched.iter().map(|name| number(name.as_str())).collect();
    ensure!(
        numbers.iter().all(Option::is_some) && numbers.is_sorted(),
        "the switches told are to {switched:?}"
    );
    for rows in bronze.chunk_by(|one, next| one.instance == next.instance) {
        let name = &rows[0].instance;
        ensure!(
            name == "dbo_t" || switched.contains(name),
            "rows come through {name}, and the switches told are to {switched:?}"
        );
    }
    let (stalled, resumed) = (facts.of("capture_stalled").count(), facts.of("capture_resumed").count());
    ensure!(
        stalled == resumed || stalled == resumed + 1,
        "capture stalled {stalled} times and resumed {resumed} times"
    );
    Ok(())
}

/// To which instance each switch went that was told, each beginning where the one before ended.
fn switches(facts: &Facts) -> Result<Vec<String>, String> {
    let mut left: BTreeMap<String, String> = BTreeMap::new();
    for (detail, _) in facts.of("capture_instance_switched") {
        let (from, to) = detail
            .strip_prefix("from ")
            .and_then(|rest| rest.split_once(','))
            .and_then(|(names, _)| names.split_once(" to "))
            .ok_or_else(|| format!("a switch is told as {detail:?}"))?;
        ensure!(
            left.insert(from.to_owned(), to.to_owned()).is_none(),
            "a switch from {from} was told twice"
        );
    }
    let mut at = "dbo_t".to_owned();
    let mut switched = Vec::new();
    while let Some(to) = left.remove(&at) {
        switched.push(to.clone());
        at = to;
    }
    ensure!(left.is_empty(), "these switches begin nowhere: {left:?}");
    Ok(switched)
}

impl Facts {
    /// `detail` and `min_lsn` of the events of a kind.
    fn of(&self, event: &str) -> impl Iterator<Item = (&String, &Option<String>)> {
        let event = event.to_owned();
        (self.events.iter())
            .filter(move |(kind, ..)| *kind == event)
            .map(|(_, detail, lsn)| (detail, lsn))
    }
}

fn facts(project: &Project) -> Result<Facts, String> {
    let mut facts = Facts::default();
    let Some(rows) = rows_of(&project.lake().join("ops/ingestion_facts"), &["written_at"]) else {
        return Ok(facts);
    };
    let [batches, counts, events, details, from, to, ends] =
        ["batch_id", "rows", "event", "detail", "min_lsn", "max_lsn", "end_lsn"].map(|name| rows.texts(name));
    for row in 0..rows.len() {
        match events[row].as_deref() {
            None => {
                let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<i64>().ok());
                let batch = number(&batches[row]).ok_or("a batch without a number in the facts")?;
                let count = number(&counts[row]).ok_or("a batch without rows in the facts")?;
                ensure!(
                    facts.batches.insert(batch, count).is_none(),
                    "the facts have batch {batch} twice"
                );
                facts.end = facts.end.take().max(ends[row].clone());
            }
            Some("data_skipped") => {
                let gap = from[row].clone().zip(to[row].clone());
                facts.gaps.push(gap.ok_or("a gap without its ends in the facts")?);
            }
            Some(event) => facts.events.push((
                event.to_owned(),
                details[row].clone().unwrap_or_default(),
                from[row].clone(),
            )),
        }
    }
    Ok(facts)
}

fn bronze(project: &Project, model: &Model) -> Result<Vec<Row>, String> {
    let Some(rows) = rows_of(&project.bronze("dbo_t"), &ORDER) else {
        return Ok(Vec::new());
    };
    let [lsns, seqvals, instances, instants] =
        ["_start_lsn", "_seqval", "_capture_instance", "_commit_ts"].map(|name| rows.texts(name));
    let [commands, operations, ids] = ["_command_id", "_operation", "id"].map(|name| rows.numbers(name));
    let columns = columns(&rows, model);
    (0..rows.len())
        .map(|row| {
            let text =
                |of: &[Option<String>], name: &str| of[row].clone().ok_or_else(|| format!("a row without {name}"));
            let values = columns
                .iter()
                .filter_map(|(name, of)| Some(((*name).clone(), of[row].clone()?)))
                .collect();
            Ok(Row {
                lsn: text(&lsns, "_start_lsn")?,
                place: (commands[row], text(&seqvals, "_seqval")?, operations[row]),
                operation: operations[row],
                id: ids[row],
                values,
                instance: text(&instances, "_capture_instance")?,
                at: seconds(&text(&instants, "_commit_ts")?)?,
            })
        })
        .collect()
}

/// The columns of the table that bronze has. One that no instance captured is in none.
fn columns<'a>(rows: &Rows, model: &'a Model) -> Vec<(&'a String, Vec<Option<String>>)> {
    (model.ever.iter())
        .filter(|name| rows.batch.column_by_name(name).is_some())
        .map(|name| (name, rows.texts(name)))
        .collect()
}

/// Seconds since 1970 of a time in UTC. The clock of a schedule shows whole seconds.
fn seconds(text: &str) -> Result<i64, String> {
    NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f")
        .map(|at| at.and_utc().timestamp())
        .map_err(|error| format!("{error} in {text:?}"))
}
