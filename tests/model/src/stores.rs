//! What outlives a process: the source, the checkpoint, the hosts' leases, and the logs of four kinds of table.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Commit number of the source, from 1.
pub type Lsn = u32;
/// A table that is streamed, from 0.
pub type Stream = usize;
/// A process, a new number at every start.
pub type Pid = u32;

/// What a chain does with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It goes to bronze.
    Kept,
    /// A component rejects it.
    Quarantined,
    /// The chain leaves it out.
    Filtered,
}

/// What a chain does with a row: always the same.
pub fn fate(chain: u8, lsn: Lsn, index: u8) -> Fate {
    let mark = lsn * 3 + u32::from(index) * 5;
    match chain {
        0 if mark.is_multiple_of(4) => Fate::Quarantined,
        0 => Fate::Kept,
        1 if mark.is_multiple_of(3) => Fate::Quarantined,
        1 if lsn.is_multiple_of(2) => Fate::Filtered,
        1 => Fate::Kept,
        _ if mark.is_multiple_of(5) => Fate::Kept,
        _ => Fate::Filtered,
    }
}

/// A change row as it was converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    /// Its commit.
    pub lsn: Lsn,
    /// Its place in the commit.
    pub index: u8,
    /// The chain that it went through.
    pub chain: u8,
    /// The clock offset that its time was converted with.
    pub offset: i8,
}

/// The source: commits with the number of rows that each has for each stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Source {
    /// Rows by commit and stream. Never shortened: what was purged is still what happened.
    pub commits: Vec<[u8; 2]>,
    /// The first commit that can still be read.
    pub min: Lsn,
    /// The clock's offset now.
    pub offset: i8,
}

impl Source {
    /// The newest commit.
    pub fn max(&self) -> Lsn {
        self.commits.len() as Lsn
    }

    /// Rows of a stream in a closed range of commits, and what the chain makes of each.
    pub fn rows(&self, stream: Stream, from: Lsn, to: Lsn, chain: u8, offset: i8) -> Vec<(Row, Fate)> {
        let commits = (from.max(1)..=to.min(self.max())).map(|lsn| (lsn, self.commits[lsn as usize - 1][stream]));
        let rows = commits.flat_map(|(lsn, count)| (0..count).map(move |index| (lsn, index)));
        rows.map(|(lsn, index)| {
            let row = Row {
                lsn,
                index,
                chain,
                offset,
            };
            (row, fate(chain, lsn, index))
        })
        .collect()
    }

    /// Commits from `from` to `to` that have rows of a stream.
    pub fn changes(&self, stream: Stream, from: Lsn, to: Lsn) -> Vec<Lsn> {
        let has = |lsn: &Lsn| self.commits[*lsn as usize - 1][stream] > 0;
        (from.max(1)..=to.min(self.max())).filter(has).collect()
    }
}

/// `offsets/<n>.a<k>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// n.
    pub batch: i64,
    /// k.
    pub attempt: i64,
    /// The position before it; `None` before the first batch.
    pub start: Option<Lsn>,
    /// The first commit that it may read.
    pub first: Lsn,
    /// The position after it.
    pub end: Lsn,
    /// What is read; `None` for an idle position.
    pub range: Option<(Lsn, Lsn)>,
    /// The pinned clock offset.
    pub offset: i8,
    /// The pinned chain.
    pub chain: u8,
    /// Who planned it (stands for `planned_at`: no two plans of two processes are equal).
    pub planner: Pid,
}

/// `commits/<n>`, with its facts row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Done {
    /// n.
    pub batch: i64,
    /// The attempt that was committed; `None` for a batch that was closed.
    pub attempt: Option<i64>,
    /// The position after it.
    pub end: Lsn,
    /// Rows in bronze.
    pub rows: usize,
    /// The chain in force; `None` while none was.
    pub chain: Option<u8>,
    /// Events that came with it: the chain of each, the last numbered `last_event`.
    pub events: Vec<u8>,
    /// The newest event so far.
    pub last_event: Option<i64>,
    /// The newest batch with rows so far.
    pub last_with_rows: Option<i64>,
}

/// `owner.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The process.
    pub pid: Pid,
    /// Its number.
    pub fencing: i64,
    /// `taken_from` is set: somebody may still write, and the process that is named has not settled that.
    pub owes: bool,
}

/// `hosts/<id>.json`. A process that ends in order removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Raised by its process.
    pub beat: u32,
    /// A process that saw it run out has ended it.
    pub ended: bool,
}

/// What a look at a lease shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseState {
    /// Given back.
    Missing,
    /// Its process is known to be dead.
    Dead,
    /// It was ended: its process may wake up.
    Ended,
    /// Its process runs, or sleeps, or was killed on another machine.
    Held(Lease),
}

/// Name of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// `offsets/<n>.a<k>` of a stream.
    Plan(Stream, i64, i64),
    /// `commits/<n>` of a stream.
    Done(Stream, i64),
    /// `owner.json` of a stream.
    Owner(Stream),
    /// `hosts/<id>.json`.
    Lease(Pid),
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// See [`Plan`].
    Plan(Plan),
    /// See [`Done`].
    Done(Done),
    /// See [`Owner`].
    Owner(Owner),
    /// See [`Lease`].
    Lease(Lease),
}

/// A table's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogId {
    /// Bronze of a stream.
    Bronze(Stream),
    /// Quarantine of a stream.
    Quarantine(Stream),
    /// Facts of all.
    Facts,
    /// Control of all.
    Control,
}

/// A transaction id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Txn {
    /// `<app_id>`.
    Batch(Stream),
    /// `<app_id>#owner`.
    Owner(Stream),
    /// `<app_id>#quarantine`.
    Quarantine(Stream),
    /// `<app_id>#facts`.
    Facts(Stream),
    /// `<app_id>#events`.
    Events(Stream),
}

/// Which of its running numbers a facts row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FactsKey {
    /// A batch.
    Batch(i64),
    /// An event.
    Event(i64),
}

/// A row of the facts table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FactsRow {
    /// The stream.
    pub stream: Stream,
    /// Its number.
    pub key: FactsKey,
    /// Rows of the batch.
    pub rows: usize,
    /// The attempt of the batch.
    pub attempt: Option<i64>,
    /// The position after it.
    pub end: Lsn,
}

/// What a version brought.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// Nothing but `#owner`, and which opening of a stream claims it.
    Claim((Pid, u32)),
    /// Rows of a batch, and its plan as the commit's metadata.
    Rows(Plan, Vec<Row>),
    /// Quarantined rows of an attempt.
    Quarantine(i64, i64, Vec<Row>),
    /// Facts rows.
    Facts(Vec<FactsRow>),
    /// All verdicts.
    Control(BTreeMap<Stream, Lsn>),
}

/// A version of a log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Tells a process its own entry.
    pub token: (Pid, u32),
    /// Transaction ids.
    pub txns: BTreeMap<Txn, i64>,
    /// The rest.
    pub body: Body,
}

/// A log as somebody read it.
pub type Snapshot = Rc<Vec<Rc<Entry>>>;

/// The newest version of a transaction id.
pub fn recorded(log: &Snapshot, id: Txn) -> Option<i64> {
    log.iter().rev().find_map(|entry| entry.txns.get(&id).copied())
}

/// A write that got no answer and may still arrive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Late {
    /// Put-if-absent.
    New(Key, Object),
    /// Compare and replace.
    Replace(Key, Option<Object>, Object),
    /// Replace, whatever is there.
    Put(Key, Object),
    /// A version of a log.
    Append(LogId, usize, Entry),
}

/// Everything that outlives a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stores {
    /// The source.
    pub source: Source,
    /// Objects by name.
    pub objects: BTreeMap<Key, Object>,
    /// Objects that cannot be read.
    pub torn: BTreeSet<Key>,
    /// Logs.
    pub logs: BTreeMap<LogId, Snapshot>,
    /// Writes on their way.
    pub late: Vec<Late>,
    /// Locks on checkpoints, and who has them.
    pub locks: BTreeMap<Stream, Pid>,
    /// Killed processes whose lock is seen to be free; others look as if they slept.
    pub dead: BTreeSet<Pid>,
    /// What was recorded last under each name, for the checks: files can be lost.
    pub ever: BTreeMap<Key, Object>,
}

impl Stores {
    /// Put-if-absent: whether it was written.
    pub fn put_new(&mut self, key: Key, object: Object) -> bool {
        if self.objects.contains_key(&key) {
            return false;
        }
        if matches!(key, Key::Done(..) | Key::Plan(..)) {
            self.ever.insert(key, object.clone());
        }
        self.objects.insert(key, object);
        true
    }

    /// Compare and replace: whether it was written.
    pub fn replace(&mut self, key: Key, seen: &Option<Object>, object: Object) -> bool {
        if self.objects.get(&key) != seen.as_ref() {
            return false;
        }
        self.objects.insert(key, object);
        true
    }

    /// Replaces what is there, or is not.
    pub fn put(&mut self, key: Key, object: Object) -> bool {
        self.objects.insert(key, object);
        true
    }

    /// The next version of a log: whether it was written.
    pub fn append(&mut self, log: LogId, version: usize, entry: Entry) -> bool {
        let log = self.logs.entry(log).or_default();
        if log.len() != version {
            return false;
        }
        Rc::make_mut(log).push(Rc::new(entry));
        true
    }

    /// A log as it is now.
    pub fn log(&self, log: LogId) -> Snapshot {
        self.logs.get(&log).cloned().unwrap_or_default()
    }

    /// Has a late write arrive: whether the store took it.
    pub fn land(&mut self, index: usize) -> bool {
        match self.late.remove(index) {
            Late::New(key, object) => self.put_new(key, object),
            Late::Replace(key, seen, object) => self.replace(key, &seen, object),
            Late::Put(key, object) => self.put(key, object),
            Late::Append(log, version, entry) => self.append(log, version, entry),
        }
    }

    /// The lease of a process.
    pub fn lease(&self, pid: Pid) -> LeaseState {
        match self.objects.get(&Key::Lease(pid)) {
            Some(Object::Lease(_)) if self.dead.contains(&pid) => LeaseState::Dead,
            Some(Object::Lease(lease)) if lease.ended => LeaseState::Ended,
            Some(Object::Lease(lease)) => LeaseState::Held(*lease),
            _ => LeaseState::Missing,
        }
    }

    /// Batches that are recorded, oldest first.
    pub fn done(&self, stream: Stream) -> Vec<Done> {
        let range = Key::Done(stream, i64::MIN)..=Key::Done(stream, i64::MAX);
        let done = self.objects.range(range).filter_map(|(_, object)| match object {
            Object::Done(done) => Some(done.clone()),
            _ => None,
        });
        done.collect()
    }

    /// Plans, oldest first.
    pub fn plans(&self, stream: Stream) -> Vec<Plan> {
        let range = Key::Plan(stream, i64::MIN, i64::MIN)..=Key::Plan(stream, i64::MAX, i64::MAX);
        let plans = self.objects.range(range).filter_map(|(_, object)| match object {
            Object::Plan(plan) => Some(plan.clone()),
            _ => None,
        });
        plans.collect()
    }

    /// Whether an object of the stream's checkpoint cannot be read.
    pub fn is_torn(&self, stream: Stream) -> bool {
        self.torn.iter().any(|key| match key {
            Key::Plan(of, ..) | Key::Done(of, _) | Key::Owner(of) => *of == stream,
            Key::Lease(_) => false,
        })
    }

    /// The verdict of a stream.
    pub fn verdict(&self, stream: Stream) -> Option<Lsn> {
        match &self.log(LogId::Control).last()?.body {
            Body::Control(rows) => rows.get(&stream).copied(),
            _ => None,
        }
    }

    /// Facts rows of a stream, in the order of the log.
    pub fn facts(&self, stream: Stream) -> Vec<FactsRow> {
        let mut found = Vec::new();
        for entry in self.log(LogId::Facts).iter() {
            if let Body::Facts(rows) = &entry.body {
                found.extend(rows.iter().filter(|row| row.stream == stream).cloned());
            }
        }
        found
    }
}
