//! What the files of a checkpoint hold.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, Repeated, Zone};
use crate::error::ErrorKind;
use crate::facts::FactsRow;
use crate::identity::{AppId, BatchId, CaptureInstance};
use crate::lsn::{Lsn, Offset, UtcMicros};

/// The format of the files that this build writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// Whose checkpoint it is (`stream.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamIdentity {
    /// Format of the file.
    pub format: u32,
    /// The id under which the stream commits to Delta.
    pub app_id: AppId,
    /// The source database.
    pub database: String,
    /// The source table's schema.
    pub schema: String,
    /// The source table.
    pub table: String,
}

impl StreamIdentity {
    /// Of a stream of `database.schema.table` that commits as `app_id`.
    pub fn new(app_id: AppId, database: &str, schema: &str, table: &str) -> StreamIdentity {
        StreamIdentity {
            format: FORMAT,
            app_id,
            database: database.to_owned(),
            schema: schema.to_owned(),
            table: table.to_owned(),
        }
    }
}

impl fmt::Display for StreamIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StreamIdentity {
            app_id,
            database,
            schema,
            table,
            ..
        } = self;
        write!(f, "app_id {app_id} on {database}.{schema}.{table}")
    }
}

/// A part of a batch's range that is read through one capture instance. Both ends belong to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceRange {
    /// The instance.
    pub capture_instance: CaptureInstance,
    /// First LSN.
    pub from: Lsn,
    /// Last LSN.
    pub to: Lsn,
}

/// An attempt at a batch, with all that its result depends on (`offsets/<n>.a<k>.json`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedBatch {
    /// Format of the file.
    pub format: u32,
    /// The batch.
    pub batch_id: BatchId,
    /// The attempt at it, from 0.
    pub attempt: u32,
    /// The offset before the batch, exclusive; `None` for the first batch of a stream.
    pub start: Option<Offset>,
    /// The first LSN that the batch may read, which says where the first batch of a stream begins.
    pub first_lsn: Lsn,
    /// The offset after the batch.
    pub end: Offset,
    /// What is read through which instance, in order.
    pub ranges: Vec<InstanceRange>,
    /// Rows of a chunk: the same split gives the same calls of the components.
    pub chunk_rows: u64,
    /// Bytes of a chunk, which ends it as well.
    pub chunk_bytes: u64,
    /// Minutes that the source's clock is ahead of UTC, where its zone is not named.
    pub clock_offset_minutes: Option<i32>,
    /// The zone of the source's clock (IANA), where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_zone: Option<String>,
    /// Where second passes begin of hours that the clock repeated, as far as commits of the batch lie in them.
    #[serde(default, skip_serializing_if = "Repeated::is_empty")]
    pub repeated_hours: Repeated,
    /// It reads rows again that are in quarantine, and no range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The facts rows of the events that come with it, but for those of the chain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<FactsRow>,
    /// What the stream knows of the source after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceSeen>,
    /// Digest of the chain of transforms: component and configuration hashes and key versions.
    pub chain: String,
    /// What else decides which rows the chain takes: `on_error` and the limits of each transform, `protect`, `leak_check`. `None`
    /// in a file of a sluice that did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<String>,
    /// SHA-256 (lower-case hex) of each component that a replay needs from `components/`.
    pub components: Vec<String>,
    /// Provenance of the transforms as it goes into the commit.
    pub provenance: serde_json::Value,
    /// Why there is another attempt; `None` for attempt 0.
    pub reason: Option<String>,
    /// When it was planned.
    pub planned_at: UtcMicros,
}

/// A batch that is done (`commits/<n>.json`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommitRecord {
    /// Format of the file.
    pub format: u32,
    /// The batch.
    pub batch_id: BatchId,
    /// The attempt that was committed.
    pub attempt: u32,
    /// The version of bronze; `None` for a batch of 0 rows.
    pub delta_version: Option<i64>,
    /// The newest batch with rows so far, this one included, so that bronze can be held against it after the commit of that
    /// batch is pruned. `None` also in a file of a sluice that did not write it.
    #[serde(default)]
    pub last_with_rows: Option<BatchId>,
    /// The offset after the batch.
    pub end: Offset,
    /// Digest of the chain of transforms that it ran with.
    pub chain: String,
    /// The newest running number of the stream's events so far, those of this batch included.
    pub last_event: Option<i64>,
    /// The facts rows of the events that came with this batch, oldest first; their numbers end with `last_event`.
    pub events: Vec<FactsRow>,
    /// What the stream knows of the source after it; `None` in a file of a sluice that did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceSeen>,
    /// The newest transaction id that the stream had in its quarantine table (batch × 1000 + attempt), that of this batch
    /// included, so that a table that is gone or older is missed. `None` also in a file of a sluice that did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_quarantine: Option<i64>,
    /// The facts row, so that it can be written again from here.
    pub facts: FactsRow,
    /// When it was committed.
    pub committed_at: UtcMicros,
}

/// What a stream has told of its source so far, so that each thing is told once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceSeen {
    /// The instance that the newest rows were read through; `None` before the first.
    pub through: Option<CaptureInstance>,
    /// The newest DDL on the table that is told of.
    pub ddl: Option<Lsn>,
    /// Capture stands still.
    pub stalled: bool,
    /// Nothing that can still be read lies between the position and this LSN: a gap that was skipped ends there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Lsn>,
    /// Where instances of the table begin: the server moves what it says of that with every cleanup.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub begins: Vec<Begin>,
}

impl SourceSeen {
    /// As the last record of a stream has it. DDL from before the position that an older sluice recorded is not told of.
    pub fn of(last: Option<&CommitRecord>) -> SourceSeen {
        let mut seen = last.and_then(|record| record.source.clone()).unwrap_or_default();
        if seen.ddl.is_none() {
            seen.ddl = last.and_then(CommitRecord::position).map(|position| position.lsn);
        }
        seen
    }
}

/// What a retry of quarantine was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// How many rows.
    pub rows: u64,
    /// The batches that put them into quarantine.
    pub batches: Vec<BatchId>,
}

/// Where a capture instance begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// The instance.
    pub capture_instance: CaptureInstance,
    /// When it was made, in microseconds since 1970 on the source's clock.
    pub created: i64,
    /// The first LSN that it covers.
    pub lsn: Lsn,
}

impl PlannedBatch {
    /// The source's clock, as the plan pins it. `None`: this version does not know its zone.
    pub fn clock(&self) -> Option<Clock> {
        match &self.clock_zone {
            Some(name) => Zone::parse(name).ok().map(Clock::Zone),
            None => Some(Clock::Fixed(self.clock_offset_minutes.unwrap_or(0))),
        }
    }

    /// What the file of an attempt says that cannot be: somebody changed it, or it is another's.
    pub(crate) fn fault(&self, batch_id: BatchId, attempt: u32) -> Option<String> {
        if (self.batch_id, self.attempt) != (batch_id, attempt) {
            return Some(format!("it is attempt {} at batch {}", self.attempt, self.batch_id));
        }
        let start = self.start.map(|start| start.lsn);
        if start > Some(self.end.lsn) {
            return Some("it ends before it begins".to_owned());
        }
        let mut before = start;
        for range in &self.ranges {
            if Some(range.from) <= before || range.to < range.from {
                return Some("its ranges do not follow each other".to_owned());
            }
            before = Some(range.to);
        }
        let ends_there = self.ranges.last().is_none_or(|last| last.to == self.end.lsn);
        (!ends_there).then(|| "its last range does not end where it does".to_owned())
    }

    /// What is wrong with it as the next batch after one that ends there.
    pub(crate) fn fault_after(&self, end: Offset) -> Option<String> {
        let begins_before =
            self.start.map(|start| start.lsn) < Some(end.lsn) || self.ranges.iter().any(|range| range.from <= end.lsn);
        begins_before.then(|| format!("it begins before {}, where the batch before it ends", end.lsn))
    }
}

impl CommitRecord {
    /// What the file of a batch says that cannot be: somebody changed it, or it is another's.
    pub(crate) fn fault(&self, batch_id: BatchId) -> Option<String> {
        if self.batch_id != batch_id {
            return Some(format!("it is the commit of batch {}", self.batch_id));
        }
        let facts = &self.facts;
        let ends = self.position().map(|end| (end.lsn, end.commit_ts));
        let told = facts.end_lsn.zip(facts.end_commit_ts);
        if told.is_some() && told != ends {
            return Some("it has another end than its own facts".to_owned());
        }
        (self.last_with_rows > Some(batch_id)).then(|| "it tells of a later batch".to_owned())
    }

    /// Up to where the stream is after this batch; `None` when it is where it began: its first batch was closed without
    /// being read. Such a record has the LSN 0 as its end, which no commit has, because the offset before a stream's first
    /// change has no LSN: the source does not know the one that is arithmetically before it, and cleaning up may pass it.
    pub fn position(&self) -> Option<Offset> {
        Some(self.end).filter(|end| !end.lsn.is_zero())
    }

    /// The transaction id that the quarantine table has of the stream, or a higher one; `None` where nothing was put there.
    pub fn quarantined(&self) -> Option<i64> {
        let own = self.batch_id.0 * i64::from(ATTEMPTS) + i64::from(self.attempt);
        self.in_quarantine
            .max(Some(own).filter(|_| self.facts.rows_quarantined > Some(0)))
    }

    /// Whether the batch was closed without being read.
    pub fn is_closed(&self) -> bool {
        self.attempt == CLOSED
    }

    /// The chain that the stream last ran with; `None` when it never ran one.
    pub fn chain_run(&self) -> Option<&str> {
        Some(self.chain.as_str()).filter(|chain| !chain.is_empty())
    }
}

/// Attempts that a batch can have: its quarantine rows are numbered `batch × 1000 + attempt`.
pub const ATTEMPTS: u32 = 1000;

/// What a batch that was closed without being read has in place of an attempt. None is ever planned under this number, so
/// quarantine rows of the attempts that there were count for nothing.
pub const CLOSED: u32 = ATTEMPTS;

/// How the `detail` of its facts row begins.
pub const CLOSED_DETAIL: &str = "closed: ";

/// How the `detail` of the facts row of a retry of quarantine begins.
pub const RETRY_DETAIL: &str = "a retry of quarantine";

/// The same of one that was interrupted: nothing was read again, and no event tells of it.
pub const RETRY_INTERRUPTED: &str = "a retry of quarantine that was interrupted";

/// The event of a retry of quarantine.
pub const RETRY_EVENT: &str = "quarantine_retried";

/// The end of a batch that was closed where the stream began.
pub const BEFORE_THE_FIRST: Offset = Offset {
    lsn: Lsn([0; 10]),
    commit_ts: UtcMicros(0),
};

/// Why a stream stopped (`stopped.json`): what its run said. For people alone, and gone when a run has done a batch or found
/// nothing more to do. Nothing is decided by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// Format of the file.
    pub format: u32,
    /// When.
    pub at: UtcMicros,
    /// The error, with all its causes. As any message, it holds no value of a row.
    pub error: String,
    /// Its kind; missing in what an older sluice wrote.
    #[serde(default)]
    pub kind: Option<ErrorKind>,
}

/// The process that runs a stream (`owner.json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Format of the file.
    pub format: u32,
    /// Its host.
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// Its fencing number: higher than that of every owner before.
    pub fencing: i64,
    /// Since when.
    pub since: UtcMicros,
    /// The lease that it runs the stream under (`hosts/<id>.json`); `None` when the lock is what it has.
    #[serde(default)]
    pub lease: Option<String>,
    /// The folder of the lease, as that process sees it.
    #[serde(default)]
    pub hosts: Option<String>,
    /// The name that this folder has in itself, because its path can be another one, or lead elsewhere, on another machine.
    #[serde(default)]
    pub hosts_id: Option<String>,
    /// Whom the stream was taken over from, as long as what they wrote may still arrive: until the owner has committed its
    /// claim and closed the batch that is open. Who takes the stream over before that has the same to do.
    #[serde(default)]
    pub unsettled: Vec<Unsettled>,
}

/// Somebody whom a stream was taken over from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsettled {
    /// The owner; `None` when `owner.json` named nobody.
    pub owner: Option<Box<Owner>>,
    /// Its lease ran out, so it may only sleep; else it is gone as far as anybody knows.
    pub may_wake: bool,
}

impl fmt::Display for Unsettled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.owner, self.may_wake) {
            (Some(owner), true) => write!(f, "{owner}, whose lease ran out"),
            (Some(owner), false) => write!(f, "{owner}, which is gone"),
            (None, true) => f.write_str("a process that owner.json no longer named, and whose lease ran out"),
            (None, false) => f.write_str("whoever was here, if anybody was"),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on host {} (since {})", self.pid, self.host, self.since)
    }
}
