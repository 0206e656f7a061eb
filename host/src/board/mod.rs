//! How each table of this process does now, and did in the last hour: what `sluice run --http` shows. It decides nothing, and
//! holds no value of a row.

mod history;
mod now;
mod pace;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::config::TableSettings;
use crate::error::ErrorKind;
use crate::facts::FactsRow;
use crate::identity::CaptureInstance;
use crate::lsn::{Offset, UtcMicros};
use crate::report::Event;

use history::Ring;
pub use history::{POINTS, STEP};
pub use now::{Look, SourceNow, State, TableNow};
use pace::Pace;
pub use pace::Phase;
pub(crate) use pace::Progress;

/// All tables of a process. Clones share it.
#[derive(Clone)]
pub struct Board {
    inner: Arc<Mutex<Inner>>,
    started_at: UtcMicros,
}

struct Inner {
    tables: BTreeMap<CaptureInstance, Entry>,
    source: SourceNow,
    totals: Ring,
}

struct Entry {
    now: TableNow,
    pace: Pace,
    history: Ring,
    /// Rows by the second in which they were committed, for the rate.
    recent: Vec<(Instant, u64)>,
    /// When it looked last, and up to which commit nothing was missing then.
    looked: Option<Instant>,
    read_up_to: Option<UtcMicros>,
    /// It was opened once, or failed, or stands by.
    was_settled: bool,
}

/// Over what the rate of rows is taken.
const RATE_OVER: Duration = Duration::from_secs(60);

impl Board {
    /// A board on which these tables stand.
    pub fn new(tables: &[TableSettings]) -> Board {
        let tables = tables.iter().map(|table| {
            let now = TableNow {
                capture_instance: table.capture_instance.clone(),
                target: table.target.clone(),
                group: table.group.clone(),
                weight: table.weight.get(),
                state: State::Starting,
                lag_seconds: None,
                headroom_hours: None,
                rows_per_second: 0.0,
                rows: 0,
                batches: 0,
                retries: 0,
                batch_id: None,
                end_lsn: None,
                end_commit_ts: None,
                finalized_until: None,
                open_quarantined: None,
                through: Vec::new(),
                reason: None,
                error: None,
                error_at: None,
                error_kind: None,
                hint: None,
                spent: [0.0; Phase::ALL.len()],
            };
            let entry = Entry {
                now,
                pace: Pace::default(),
                history: Ring::default(),
                recent: Vec::new(),
                looked: None,
                read_up_to: None,
                was_settled: false,
            };
            (table.capture_instance.clone(), entry)
        });
        Board {
            inner: Arc::new(Mutex::new(Inner {
                tables: tables.collect(),
                source: SourceNow::default(),
                totals: Ring::default(),
            })),
            started_at: UtcMicros::now(),
        }
    }

    /// When the process began with its tables.
    pub fn started_at(&self) -> UtcMicros {
        self.started_at
    }

    /// All tables as they are now, by name.
    pub fn tables(&self) -> Vec<TableNow> {
        let mut inner = self.lock();
        let now = Instant::now();
        let max = inner.source.max;
        let of = |entry: &mut Entry| TableNow {
            rows_per_second: entry.rate(now),
            lag_seconds: entry.lag(max),
            headroom_hours: entry.headroom(now),
            ..entry.now.clone()
        };
        inner.tables.values_mut().map(of).collect()
    }

    /// Tables that were never opened yet, and did not fail either.
    pub fn unsettled(&self) -> usize {
        self.lock().tables.values().filter(|entry| !entry.was_settled).count()
    }

    /// The source, as the newest poll saw it.
    pub fn source(&self) -> SourceNow {
        self.lock().source.clone()
    }

    /// What a poll saw of the source.
    pub(crate) fn polled(&self, max: Offset, server_now: UtcMicros, rtt_ms: f64) {
        let mut inner = self.lock();
        let source = &mut inner.source;
        source.max = Some(max);
        source.capture_lag_seconds = Some(seconds(max.commit_ts, server_now));
        source.polled_at = Some(UtcMicros::now());
        source.rtt_ms = Some(rtt_ms);
        source.error = None;
        source.polls += 1;
    }

    /// The source did not answer.
    pub(crate) fn poll_failed(&self, error: String) {
        let mut inner = self.lock();
        inner.source.error = Some(error);
        inner.source.polls += 1;
        inner.source.failures += 1;
    }

    /// Lag and rate of a table over the last hour, oldest first, a point every [`STEP`]; `None` where it was not known. The sum
    /// of rates and the largest lag where no table is named.
    pub fn history(&self, table: Option<&CaptureInstance>) -> Option<Vec<(Option<f32>, f32)>> {
        let inner = self.lock();
        let ring = match table {
            Some(name) => &inner.tables.get(name)?.history,
            None => &inner.totals,
        };
        Some(ring.points())
    }

    /// Adds a point to every table's history: to be called every [`STEP`].
    pub fn sample(&self) {
        let mut inner = self.lock();
        let now = Instant::now();
        let mut worst: Option<f32> = None;
        let mut sum = 0.0;
        let max = inner.source.max;
        for entry in inner.tables.values_mut() {
            let lag = entry.lag(max).map(|lag| lag as f32);
            let rate = entry.rate(now) as f32;
            entry.history.push((lag, rate));
            worst = worst.max_by(lag);
            sum += rate;
        }
        inner.totals.push((worst, sum));
    }

    /// Takes an event in.
    pub(crate) fn note(&self, event: &Event) {
        let mut inner = self.lock();
        let mut with = |name: &CaptureInstance, change: &mut dyn FnMut(&mut Entry)| {
            if let Some(entry) = inner.tables.get_mut(name) {
                change(entry);
            }
        };
        match event {
            Event::Opened {
                capture_instance,
                position,
                transform,
                ..
            } => with(capture_instance, &mut |entry| {
                entry.now.state = State::Behind;
                entry.was_settled = true;
                entry.now.through.clone_from(transform);
                entry.now.end_lsn = entry.now.end_lsn.or(*position);
                entry.went_on();
            }),
            Event::Batch {
                capture_instance,
                batch_id,
                rows,
                end_lsn,
                end_commit_ts,
                ..
            } => with(capture_instance, &mut |entry| {
                entry.now.rows += rows;
                entry.now.batches += 1;
                entry.now.batch_id = Some(batch_id.0);
                entry.now.end_lsn = Some(*end_lsn);
                entry.now.end_commit_ts = Some(*end_commit_ts);
                entry.recent.push((Instant::now(), *rows));
                entry.went_on();
            }),
            Event::Verdict {
                capture_instance,
                finalized_until,
                open_quarantined,
            } => with(capture_instance, &mut |entry| {
                entry.now.finalized_until = Some(*finalized_until);
                entry.now.open_quarantined = *open_quarantined;
            }),
            Event::Retrying {
                capture_instance,
                error,
                ..
            } => with(capture_instance, &mut |entry| {
                entry.now.retries += 1;
                entry.now.state = State::Retrying;
                entry.went_wrong(error, None);
            }),
            Event::Failed {
                capture_instance,
                kind,
                error,
                ..
            } => with(capture_instance, &mut |entry| {
                entry.now.state = State::Failed;
                entry.was_settled = true;
                entry.went_wrong(error, Some(*kind));
            }),
            Event::Table(summary) => with(&summary.capture_instance, &mut |entry| {
                entry.now.state = State::Ended;
                entry.now.finalized_until = summary.finalized_until.or(entry.now.finalized_until);
                entry.now.open_quarantined = summary.open_quarantined;
            }),
            Event::Retried { .. } | Event::Warning { .. } | Event::SourceWarning { .. } => {}
        }
    }

    /// A table is to be opened, again or for the first time.
    pub(crate) fn starts(&self, table: &CaptureInstance) {
        if let Some(entry) = self.lock().tables.get_mut(table) {
            entry.now.state = State::Starting;
            // How it kept up before it stopped says nothing of how it does now.
            entry.pace = Pace::default();
        }
    }

    /// Another process runs the table.
    pub(crate) fn stands_by(&self, table: &CaptureInstance) {
        if let Some(entry) = self.lock().tables.get_mut(table) {
            entry.now.state = State::Standby;
            entry.was_settled = true;
        }
    }

    /// What the table has in the lake as it is opened.
    pub(crate) fn stands(
        &self,
        table: &CaptureInstance,
        position: Option<Offset>,
        finalized: Option<UtcMicros>,
        open_quarantined: Option<i64>,
    ) {
        if let Some(entry) = self.lock().tables.get_mut(table) {
            entry.now.end_lsn = position.map(|position| position.lsn);
            entry.now.end_commit_ts = position.map(|position| position.commit_ts);
            entry.now.finalized_until = finalized;
            entry.now.open_quarantined = open_quarantined;
        }
    }

    /// What batches of a table cost.
    pub(crate) fn spent(&self, table: &CaptureInstance, facts: &FactsRow) {
        if let Some(entry) = self.lock().tables.get_mut(table) {
            let parts = Phase::of(facts);
            for (sum, part) in entry.now.spent.iter_mut().zip(parts) {
                *sum += part;
            }
            entry.pace.spent(parts);
        }
    }

    /// What a table finds at a poll. What is new about how it keeps up.
    pub(crate) fn look(&self, table: &CaptureInstance, look: Look) -> Option<Progress> {
        let mut inner = self.lock();
        inner.source.stalled = look.stalled;
        let entry = inner.tables.get_mut(table)?;
        entry.read_up_to = look.read_up_to.map(|offset| offset.commit_ts);
        let lag = match entry.read_up_to {
            _ if look.caught_up => 0.0,
            Some(read_up_to) => seconds(read_up_to, look.max.commit_ts),
            None => seconds(look.oldest?, look.max.commit_ts),
        };
        entry.now.lag_seconds = Some(lag);
        entry.looked = Some(Instant::now());
        if let Some(position) = look.position {
            entry.now.end_lsn = Some(position.lsn);
            entry.now.end_commit_ts = Some(position.commit_ts);
        }
        if let (Some(oldest), Some(end)) = (look.oldest, entry.now.end_commit_ts) {
            // A table that has caught up has all there is.
            let newest = if look.caught_up { look.max.commit_ts } else { end };
            entry.now.headroom_hours = Some(seconds(oldest, newest) / 3600.0);
        }
        let progress = entry.pace.look(lag, look.caught_up, Instant::now());
        entry.now.reason = entry.pace.reason();
        entry.now.state = match entry.now.reason {
            Some(_) => State::FallingBehind,
            None if !look.caught_up => State::Behind,
            None if look.stalled => State::CaptureStalled,
            None => State::Current,
        };
        if look.caught_up {
            entry.went_on();
        }
        progress
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while plain fields were set leaves a usable board.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// How far it is behind now. While a long batch runs, the source goes on.
    fn lag(&self, max: Option<Offset>) -> Option<f64> {
        // What comes after a table stopped is not looked at: it may all be the table's.
        let stopped = !self.now.state.is_up();
        let read_up_to = self.read_up_to.max(self.now.end_commit_ts);
        match (self.now.lag_seconds, read_up_to, max) {
            (Some(lag), Some(end), Some(max)) if lag > 0.0 || stopped => Some(seconds(end, max.commit_ts)),
            (lag, _, _) => lag,
        }
    }

    /// What is left of it now: cleanup goes on while the table does not.
    fn headroom(&self, now: Instant) -> Option<f64> {
        let keeps_up = self.now.state.is_up() && self.now.lag_seconds == Some(0.0);
        let since = self.looked.map_or(Duration::ZERO, |looked| now.duration_since(looked));
        let gone = if keeps_up { 0.0 } else { since.as_secs_f64() / 3600.0 };
        self.now.headroom_hours.map(|hours| hours - gone)
    }

    fn rate(&mut self, now: Instant) -> f64 {
        self.recent.retain(|(at, _)| now.duration_since(*at) < RATE_OVER);
        let rows: u64 = self.recent.iter().map(|(_, rows)| rows).sum();
        rows as f64 / RATE_OVER.as_secs_f64()
    }

    fn went_on(&mut self) {
        (self.now.error, self.now.error_at) = (None, None);
        (self.now.error_kind, self.now.hint) = (None, None);
    }

    fn went_wrong(&mut self, error: &str, kind: Option<ErrorKind>) {
        self.now.error = Some(error.to_owned());
        self.now.error_at = Some(UtcMicros::now());
        self.now.error_kind = kind;
        self.now.hint = Some(hint(kind));
    }
}

/// What a person does about an error of this kind, besides what it says itself.
fn hint(kind: Option<ErrorKind>) -> &'static str {
    match kind {
        None => "nothing: it is tried again by itself",
        Some(ErrorKind::Config) => "put right what it names, then start the table again (SIGUSR1, or a new run)",
        Some(ErrorKind::Retryable) => {
            "see that the other side is there, then start the table again (SIGUSR1, or a new run)"
        }
        Some(ErrorKind::DataLoss) => {
            "changes are gone: decide whether to skip them (on_data_loss), then start the table again"
        }
        Some(ErrorKind::SchemaChanged) => {
            "the source's columns no longer fit the target: `sluice check` says which, and what to do"
        }
        Some(ErrorKind::ComponentRefused) => {
            "the transform did not accept a batch, and nothing of it was written: mend the component, or quarantine such rows"
        }
        Some(ErrorKind::State) => "`sluice doctor` examines what is on disk and says what to do",
        Some(ErrorKind::Internal) => {
            "a fault of sluice: please report it with this text; a new run goes on where this one stopped"
        }
    }
}

/// Seconds from one instant to a later one.
fn seconds(from: UtcMicros, to: UtcMicros) -> f64 {
    (to.0 - from.0).max(0) as f64 / 1e6
}

/// The larger of two numbers that may be missing.
trait MaxBy {
    fn max_by(self, other: Self) -> Self;
}

impl MaxBy for Option<f32> {
    fn max_by(self, other: Option<f32>) -> Option<f32> {
        match (self, other) {
            (Some(one), Some(other)) => Some(one.max(other)),
            (one, other) => one.or(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::lsn::Lsn;

    fn board() -> (Board, CaptureInstance) {
        let text = "[source]\nserver = \"h\"\ndatabase = \"d\"\nuser = \"u\"\npassword = { command = [\"printf\", \"x\"] }\n\
                    [[table]]\ncapture_instance = \"a\"\ntarget = \"t\"\napp_id = \"a\"\ncheckpoint = \"c\"\nfacts_table = \"f\"\n\
                    control_table = \"v\"\n";
        let path = std::path::Path::new("/s.toml");
        let settings = Settings::parse(text, std::path::Path::new("/"), path).unwrap();
        (Board::new(&settings.tables), CaptureInstance("a".to_owned()))
    }

    fn at(seconds: i64) -> Offset {
        Offset {
            lsn: Lsn([0, 0, 0, 0, 0, 0, 0, 0, 0, seconds as u8]),
            commit_ts: UtcMicros(seconds * 1_000_000),
        }
    }

    fn look(position: i64, max: i64, caught_up: bool) -> Look {
        Look {
            max: at(max),
            position: Some(at(position)),
            read_up_to: Some(at(position)),
            caught_up,
            oldest: Some(UtcMicros(0)),
            stalled: false,
        }
    }

    #[test]
    fn a_table_is_as_far_behind_as_what_it_has_not_read() {
        let (board, a) = board();
        assert_eq!(board.tables()[0].state, State::Starting);
        board.polled(at(100), UtcMicros(102_000_000), 1.0);
        board.look(&a, look(40, 100, false));
        let now = &board.tables()[0];
        assert_eq!((now.state, now.lag_seconds), (State::Behind, Some(60.0)));
        assert_eq!(board.source().capture_lag_seconds, Some(2.0));
        // Commits of other tables are no lag of this one.
        board.look(&a, look(40, 100, true));
        let now = &board.tables()[0];
        assert_eq!((now.state, now.lag_seconds), (State::Current, Some(0.0)));
        assert!((now.headroom_hours.unwrap() - 100.0 / 3600.0).abs() < 1e-9);
    }

    #[test]
    fn an_error_stands_until_the_table_goes_on() {
        let (board, a) = board();
        board.note(&Event::Failed {
            capture_instance: a.clone(),
            kind: ErrorKind::DataLoss,
            error: "lost".to_owned(),
            on_disk: false,
        });
        let now = &board.tables()[0];
        assert_eq!((now.state, now.error.as_deref()), (State::Failed, Some("lost")));
        assert!(now.hint.unwrap().contains("on_data_loss"));
        board.starts(&a);
        assert_eq!(
            board.tables()[0].error.as_deref(),
            Some("lost"),
            "it is not known to be over"
        );
        board.look(&a, look(100, 100, true));
        let now = &board.tables()[0];
        assert_eq!((now.state, &now.error), (State::Current, &None));
    }

    #[test]
    fn the_history_ends_with_now() {
        let (board, a) = board();
        board.sample();
        board.look(&a, look(90, 100, false));
        board.sample();
        assert_eq!(board.history(Some(&a)).unwrap(), [(None, 0.0), (Some(10.0), 0.0)]);
        assert_eq!(board.history(None).unwrap().len(), 2);
        assert!(board.history(Some(&CaptureInstance("b".to_owned()))).is_none());
    }
}
