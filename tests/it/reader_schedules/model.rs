//! What was committed, by the test's own account: nothing here is read from sluice. The server is asked for one thing only,
//! the LSNs that it gave.

use std::collections::BTreeMap;

use super::plan::{CHANGE, Statement};

/// The columns of a row that are not NULL, without its id: as texts.
pub type Values = BTreeMap<String, String>;

/// A change row, before it is captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub operation: i64,
    pub id: i64,
    pub values: Values,
}

/// A commit that has an entry in `cdc.lsn_time_mapping`.
#[derive(Clone, Debug)]
pub struct Entry {
    /// `0x…`, once it is captured.
    pub lsn: Option<String>,
    /// When, in seconds since 1970 by the server's clock.
    pub at: i64,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    /// Changes of `dbo.t`.
    Changes(Vec<Change>),
    /// A capture instance of `dbo.t` was made.
    Enabled,
    /// Changes of another table.
    Elsewhere,
}

/// A capture instance of `dbo.t`.
#[derive(Clone, Debug)]
pub struct Instance {
    pub name: String,
    pub columns: Vec<String>,
    /// The entry that made it; `None` of the first, which is older than all entries.
    start: Option<usize>,
    /// It was disabled.
    pub gone: bool,
    /// The server's low endpoint of it, as it was seen last; `None` until capture has reached it.
    pub low: Option<String>,
}

/// `dbo.t`, and all that became of it.
#[derive(Clone, Debug)]
pub struct Model {
    /// The columns of the table now, in order, without `id`.
    pub columns: Vec<String>,
    /// Every column that it ever had.
    pub ever: Vec<String>,
    rows: BTreeMap<i64, Values>,
    pub entries: Vec<Entry>,
    pub instances: Vec<Instance>,
    keys_in_place: bool,
    next_id: i64,
    tags: u64,
    /// Characters of `v`.
    pub width: usize,
    added: u64,
    /// The last LSN of the server's mapping that was looked at.
    pub seen: String,
    /// The first LSN of the server's mapping.
    pub oldest: String,
    /// The low endpoint of the other table's instance.
    pub other_low: Option<String>,
    /// How many statements of DDL there were.
    pub ddl: usize,
}

/// A transaction that is not committed yet.
pub struct Drawn {
    pub sql: Vec<String>,
    /// The first id that it inserts.
    pub first_id: Option<i64>,
    changes: Vec<Change>,
    rows: BTreeMap<i64, Values>,
}

impl Model {
    /// A table with `v nvarchar(20)` and `w int`, captured by `dbo_t`; `seen` is the last LSN so far. An update of a key is
    /// an update (3, 4) when keys change in place, else a delete and an insert.
    pub fn new(seen: String, keys_in_place: bool) -> Model {
        let columns = vec!["v".to_owned(), "w".to_owned()];
        Model {
            ever: columns.clone(),
            instances: vec![Instance {
                name: "dbo_t".to_owned(),
                columns: columns.clone(),
                start: None,
                gone: false,
                low: None,
            }],
            columns,
            rows: BTreeMap::new(),
            entries: Vec::new(),
            keys_in_place,
            next_id: 1,
            tags: 0,
            width: 20,
            added: 0,
            oldest: seen.clone(),
            seen,
            other_low: None,
            ddl: 0,
        }
    }

    /// What statements are in SQL, and do.
    pub fn draw(&mut self, statements: &[Statement]) -> Drawn {
        let mut drawn = Drawn {
            sql: Vec::new(),
            first_id: None,
            changes: Vec::new(),
            rows: self.rows.clone(),
        };
        for statement in statements {
            self.statement(statement, &mut drawn);
        }
        drawn
    }

    /// It was committed at this instant.
    pub fn commit(&mut self, drawn: Drawn, at: i64) {
        self.rows = drawn.rows;
        self.enter(at, What::Changes(drawn.changes));
    }

    pub fn enter(&mut self, at: i64, what: What) {
        self.entries.push(Entry { lsn: None, at, what });
    }

    fn statement(&mut self, statement: &Statement, drawn: &mut Drawn) {
        match statement {
            Statement::Insert { rows } => self.insert(*rows, drawn),
            _ if drawn.rows.is_empty() => self.insert(1, drawn),
            Statement::Update { permille, rows } => {
                let new = self.values();
                let ids = some(&drawn.rows, *permille, *rows);
                let set: Vec<String> = (self.columns.iter())
                    .map(|name| format!("{name} = {}", literal(name, new.get(name))))
                    .collect();
                drawn.sql.push(format!(
                    "UPDATE dbo.t SET {} WHERE id IN ({})",
                    set.join(", "),
                    listed(&ids)
                ));
                for id in ids {
                    let old = drawn.rows.insert(id, new.clone()).unwrap_or_default();
                    drawn.change(3, id, old);
                    drawn.change(4, id, new.clone());
                }
            }
            Statement::Delete { permille, rows } => {
                let ids = some(&drawn.rows, *permille, *rows);
                drawn
                    .sql
                    .push(format!("DELETE FROM dbo.t WHERE id IN ({})", listed(&ids)));
                for id in ids {
                    let old = drawn.rows.remove(&id).unwrap_or_default();
                    drawn.change(1, id, old);
                }
            }
            Statement::MoveKey { permille } => {
                let from = some(&drawn.rows, *permille, 1)[0];
                let to = self.next_id;
                self.next_id += 1;
                let old = drawn.rows.remove(&from).unwrap_or_default();
                drawn.rows.insert(to, old.clone());
                drawn.sql.push(format!("UPDATE dbo.t SET id = {to} WHERE id = {from}"));
                let (before, after) = if self.keys_in_place { (3, 4) } else { (1, 2) };
                drawn.change(before, from, old.clone());
                drawn.change(after, to, old);
            }
        }
    }

    fn insert(&mut self, rows: u64, drawn: &mut Drawn) {
        let new = self.values();
        let literals: Vec<String> = (self.columns.iter()).map(|name| literal(name, new.get(name))).collect();
        let first = self.next_id;
        let last = first + i64::try_from(rows.max(1)).expect("few rows") - 1;
        self.next_id = last + 1;
        drawn.first_id.get_or_insert(first);
        let values: Vec<String> = (first..=last)
            .map(|id| format!("({id}, {})", literals.join(", ")))
            .collect();
        drawn.sql.push(format!(
            "INSERT INTO dbo.t (id, {}) VALUES {}",
            self.columns.join(", "),
            values.join(", ")
        ));
        for id in first..=last {
            drawn.rows.insert(id, new.clone());
            drawn.change(2, id, new.clone());
        }
    }

    /// Values that no row had before. `v` is never NULL and never repeated, so that no update leaves a row as it was.
    fn values(&mut self) -> Values {
        self.tags += 1;
        let tag = self.tags;
        let short = format!("v{tag}");
        let mut values = Values::new();
        for name in &self.columns {
            let value = match name.as_str() {
                // As long as the column.
                "v" if tag.is_multiple_of(3) => format!("{short:é<width$}", width = self.width),
                "v" => short.clone(),
                "w" if tag.is_multiple_of(4) => continue,
                "w" => tag.to_string(),
                _ if tag.is_multiple_of(5) => continue,
                other => format!("{other}'{tag}"),
            };
            values.insert(name.clone(), value);
        }
        values
    }

    /// Adds a column: the statement.
    pub fn add_column(&mut self) -> String {
        self.added += 1;
        let name = format!("c{}", self.added);
        self.columns.push(name.clone());
        self.ever.push(name.clone());
        self.ddl += 1;
        format!("ALTER TABLE dbo.t ADD {name} nvarchar(20) NULL")
    }

    pub fn widen_text(&mut self) -> String {
        self.width += 10;
        self.ddl += 1;
        format!("ALTER TABLE dbo.t ALTER COLUMN v nvarchar({}) NULL", self.width)
    }

    /// Drops the oldest column but `v`, if there is one: the statement.
    pub fn drop_column(&mut self) -> Option<String> {
        let at = self.columns.iter().position(|name| name != "v")?;
        let name = self.columns.remove(at);
        for values in self.rows.values_mut() {
            values.remove(&name);
        }
        self.ddl += 1;
        Some(format!("ALTER TABLE dbo.t DROP COLUMN {name}"))
    }

    /// Makes another capture instance, if there may be one: its name.
    pub fn enable(&mut self, at: i64) -> Option<String> {
        if self.living().count() > 1 {
            return None;
        }
        let name = format!("dbo_t_v{}", self.instances.len() + 1);
        self.instances.push(Instance {
            name: name.clone(),
            columns: self.columns.clone(),
            start: Some(self.entries.len()),
            gone: false,
            low: None,
        });
        self.enter(at, What::Enabled);
        Some(name)
    }

    /// Takes the older of two instances: its name.
    pub fn disable(&mut self) -> Option<String> {
        if self.living().count() < 2 {
            return None;
        }
        let oldest = self.instances.iter_mut().find(|instance| !instance.gone)?;
        oldest.gone = true;
        Some(oldest.name.clone())
    }

    pub fn living(&self) -> impl Iterator<Item = &Instance> {
        self.instances.iter().filter(|instance| !instance.gone)
    }

    /// The changes of the newest commit of `dbo.t`.
    pub fn newest(&mut self) -> Option<&mut Vec<Change>> {
        self.entries.iter_mut().rev().find_map(|entry| match &mut entry.what {
            What::Changes(changes) => Some(changes),
            _ => None,
        })
    }

    /// LSNs of the server's mapping after the last seen one, in order: they are those of the commits that had none.
    pub fn captured(&mut self, lsns: Vec<String>) -> Result<(), String> {
        let mut pending = self.entries.iter_mut().filter(|entry| entry.lsn.is_none());
        for lsn in lsns {
            let entry = pending
                .next()
                .ok_or_else(|| format!("the server has a commit {lsn} that the schedule did not make"))?;
            entry.lsn = Some(lsn);
        }
        Ok(())
    }

    /// The commits of `dbo.t` that are captured, in order: their numbers among the entries.
    pub fn commits(&self) -> impl Iterator<Item = (usize, &Entry, &str, &[Change])> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(number, entry)| match (&entry.what, &entry.lsn) {
                (What::Changes(changes), Some(lsn)) => Some((number, entry, lsn.as_str(), changes.as_slice())),
                _ => None,
            })
    }

    /// The instances that a commit may be read through: the newest that has it, and the one before where cleanup has taken
    /// the commit from the newest.
    pub fn through(&self, entry: usize, lsn: &str) -> Vec<&Instance> {
        let begun = |instance: &Instance| instance.start.is_none_or(|start| start <= entry);
        let newest = self.instances.iter().rposition(begun).unwrap_or(0);
        let cleaned = self.instances[newest].low.as_deref() > Some(lsn);
        let first = if cleaned { newest.saturating_sub(1) } else { newest };
        self.instances[first..=newest].iter().collect()
    }

    /// Whether something after this position (`None`: the very beginning) may be gone unread: by cleanup of an instance, or
    /// with one that was disabled.
    pub fn may_have_lost(&self, end: Option<&str>) -> bool {
        let start = |instance: &Instance| instance.start.and_then(|at| self.entries[at].lsn.as_deref());
        let first = self.first();
        let cleaned = self.instances.iter().any(|instance| {
            let began = start(instance).or(first);
            instance.low.as_deref() > began && instance.low.as_deref() > end
        });
        let disabled = (self.instances.iter().zip(self.instances.iter().skip(1)))
            .any(|(before, next)| before.gone && start(next) > end);
        cleaned || disabled
    }

    /// The first commit.
    fn first(&self) -> Option<&str> {
        self.entries.iter().find_map(|entry| entry.lsn.as_deref())
    }

    /// The latest instant among the commits up to an LSN.
    pub fn latest_until(&self, lsn: &str) -> Option<i64> {
        let until = |entry: &&Entry| entry.lsn.as_deref().is_some_and(|own| own <= lsn);
        self.entries.iter().filter(until).map(|entry| entry.at).max()
    }

    /// Whether the server can no longer tell the second pass of the repeated hour from the first: cleanup has taken the last
    /// entry before the change.
    pub fn cannot_tell_passes(&self) -> bool {
        let last = self.entries.iter().rev().find(|entry| entry.at < CHANGE);
        last.and_then(|entry| entry.lsn.as_ref())
            .is_none_or(|lsn| self.oldest > *lsn)
    }
}

impl Drawn {
    fn change(&mut self, operation: i64, id: i64, values: Values) {
        self.changes.push(Change { operation, id, values });
    }

    /// As one transaction.
    pub fn transaction(&self) -> String {
        match self.sql.as_slice() {
            [only] => only.clone(),
            all => format!("BEGIN TRANSACTION; {}; COMMIT", all.join("; ")),
        }
    }
}

/// Ids of rows that are there, from a position among them on.
fn some(rows: &BTreeMap<i64, Values>, permille: u64, count: u64) -> Vec<i64> {
    let skip = usize::try_from(permille).unwrap_or(0) * rows.len() / 1000;
    let count = usize::try_from(count.max(1)).unwrap_or(1);
    rows.keys().copied().skip(skip).take(count).collect()
}

fn listed(ids: &[i64]) -> String {
    ids.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

fn literal(column: &str, value: Option<&String>) -> String {
    match value {
        None => "NULL".to_owned(),
        Some(number) if column == "w" => number.clone(),
        Some(text) => format!("N'{}'", text.replace('\'', "''")),
    }
}
