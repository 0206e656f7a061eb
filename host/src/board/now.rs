//! What there is to say of a table, and of the source, at one moment.

use serde::Serialize;

use super::pace::Phase;
use crate::error::ErrorKind;
use crate::identity::CaptureInstance;
use crate::lsn::{Lsn, Offset, UtcMicros};
use crate::storage::Place;

/// What a table does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits to be opened, or is being opened.
    Starting,
    /// Another process runs it, and this one takes it over when that is gone.
    Standby,
    /// All changes that capture has processed are in bronze.
    Current,
    /// There are changes that are not in bronze yet.
    Behind,
    /// There are more of them all the time.
    FallingBehind,
    /// It has all that capture has processed, and capture stands still.
    CaptureStalled,
    /// A step failed and will be tried again.
    Retrying,
    /// It stopped with an error, and waits for a person.
    Failed,
    /// It was asked to stop, or caught up and stopped.
    Ended,
}

impl State {
    /// Every state.
    pub const ALL: [State; 9] = [
        State::Starting,
        State::Standby,
        State::Current,
        State::Behind,
        State::FallingBehind,
        State::CaptureStalled,
        State::Retrying,
        State::Failed,
        State::Ended,
    ];

    /// As JSON and metrics have it.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Standby => "standby",
            State::Current => "current",
            State::Behind => "behind",
            State::FallingBehind => "falling_behind",
            State::CaptureStalled => "capture_stalled",
            State::Retrying => "retrying",
            State::Failed => "failed",
            State::Ended => "ended",
        }
    }

    /// Whether its stream runs, or will by itself.
    pub fn is_up(self) -> bool {
        !matches!(self, State::Failed | State::Ended)
    }
}

/// One table, as it is now.
#[derive(Clone, Debug, Serialize)]
pub struct TableNow {
    /// The table.
    pub capture_instance: CaptureInstance,
    /// Its bronze table.
    pub target: Place,
    /// Its group of `[weights]`.
    pub group: Option<String>,
    /// How much it gets of what all share.
    pub weight: u32,
    /// What it does.
    pub state: State,
    /// From the newest commit that bronze has to the newest that capture has processed; 0 where none of those between is of
    /// this table. `None` before the first poll.
    pub lag_seconds: Option<f64>,
    /// From the oldest change that the source still has to the newest that bronze has.
    pub headroom_hours: Option<f64>,
    /// Rows that were committed a second, over the last minute.
    pub rows_per_second: f64,
    /// Rows that this process committed.
    pub rows: u64,
    /// Batches that this process ended.
    pub batches: u64,
    /// Steps that failed and were tried again.
    pub retries: u64,
    /// The last batch that is done.
    pub batch_id: Option<i64>,
    /// The last commit that is in bronze.
    pub end_lsn: Option<Lsn>,
    /// When it was made on the source.
    pub end_commit_ts: Option<UtcMicros>,
    /// Every period that ends at or before this is complete, but for the rows in quarantine.
    pub finalized_until: Option<UtcMicros>,
    /// Rows in quarantine; `None` while there never was one.
    pub open_quarantined: Option<i64>,
    /// The plugins of its chain.
    pub through: Vec<String>,
    /// What takes the time of a table that falls behind.
    pub reason: Option<Phase>,
    /// The newest error, until the table goes on.
    pub error: Option<String>,
    /// When that was.
    pub error_at: Option<UtcMicros>,
    /// Its kind; `None` of a step that is tried again.
    pub error_kind: Option<ErrorKind>,
    /// What to do about it.
    pub hint: Option<&'static str>,
    /// Seconds that batches spent so far, by phase.
    #[serde(skip)]
    pub spent: [f64; Phase::ALL.len()],
}

/// The source, as the newest poll saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceNow {
    /// The last commit that capture has processed.
    pub max: Option<Offset>,
    /// How far that is behind the server's clock.
    pub capture_lag_seconds: Option<f64>,
    /// Capture stands still, as the settings of the table say that looked last.
    pub stalled: bool,
    /// When it answered last.
    pub polled_at: Option<UtcMicros>,
    /// The round trip then, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// Why it does not answer.
    pub error: Option<String>,
    /// Polls so far, and how many of them failed.
    pub polls: u64,
    /// Polls that failed.
    pub failures: u64,
}

/// What one table finds at a poll.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The last commit that capture has processed.
    pub max: Offset,
    /// The last commit that is in bronze.
    pub position: Option<Offset>,
    /// The last up to which nothing of the table is missing there, which can be after that.
    pub read_up_to: Option<Offset>,
    /// There is nothing of this table after it.
    pub caught_up: bool,
    /// When the oldest change was made that the source still has.
    pub oldest: Option<UtcMicros>,
    /// Capture stands still.
    pub stalled: bool,
}
