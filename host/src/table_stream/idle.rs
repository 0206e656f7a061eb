//! Positions that move without rows: in memory with every poll, on disk now and then.

use crate::checkpoint::PlannedBatch;
use crate::clock::Clock;
use crate::lsn::Offset;
use crate::source::{Poll, ReadStats};

use super::StreamError;
use super::open::OpenTable;
use super::record::{Seen, Timing};
use super::schema::Told;
use super::tally::Tally;

impl OpenTable {
    /// No change of this table up to here.
    pub(super) fn advance_idle(&mut self, to: Offset) {
        // DDL from before the stream's beginning is not its own.
        self.seen_source.ddl.get_or_insert(to.lsn);
        let floor = self.position.map_or(to.commit_ts, |position| position.commit_ts);
        self.position = Some(Offset {
            lsn: to.lsn,
            commit_ts: to.commit_ts.max(floor),
        });
    }

    /// No change of this table is seen up to here. Whether one was cleaned up is asked when the position is to move: now, under
    /// `--once`, or when its record is due. Whether it was asked.
    pub(super) fn confirm(&mut self, up_to: Offset, now: bool) -> bool {
        self.quiet_up_to = Some(up_to);
        let is_due = now || self.idle_since.elapsed() >= self.settings.idle_interval;
        if is_due {
            let instances = self.source.instances.iter().map(|instance| &instance.name);
            self.shared.poller.confirm(instances, now);
        }
        is_due
    }

    /// Nothing is left to do for now. What was passed without rows is recorded when its time has come, whether or not
    /// `max_lsn` moves.
    pub(super) async fn settle(&mut self, poll: &Poll) -> Result<(), StreamError> {
        if self.position != self.recorded && self.idle_since.elapsed() >= self.settings.idle_interval {
            self.record_idle(self.seen(poll), self.nothing_told()).await?;
        }
        self.tell_stall(poll).await?;
        self.tell_status().await
    }

    /// A stream without a position begins here. That is recorded at once: another start would begin elsewhere.
    pub(super) async fn begin_at(&mut self, position: Offset, poll: &Poll) -> Result<(), StreamError> {
        self.advance_idle(position);
        self.record_idle(self.seen(poll), self.nothing_told()).await
    }

    /// Nothing is told of the source.
    fn nothing_told(&self) -> Told {
        Told {
            events: Vec::new(),
            seen: self.seen_now(),
        }
    }

    /// The stream is about to stop: what it passed without rows is recorded.
    pub(super) async fn rest(&mut self) -> Result<(), StreamError> {
        if self.position != self.recorded {
            self.record_idle(Seen::default(), self.nothing_told()).await?;
        }
        self.tell_status().await
    }

    /// A batch of no range: its replay reads nothing, so what is cleaned up meanwhile does not matter.
    pub(super) async fn record_idle(&mut self, seen: Seen, told: Told) -> Result<(), StreamError> {
        let Some(position) = self.position else {
            return Ok(());
        };
        let timing = Timing::start();
        let from = self.recorded.map_or(position.lsn, |recorded| recorded.lsn.next());
        let planned = PlannedBatch {
            start: self.recorded,
            ..self.pin(from, position, Vec::new(), Clock::Fixed(0), told)
        };
        self.expect_not_taken_over().await?;
        self.write_plan(&planned).await?;
        let (tally, stats) = (Tally::default(), ReadStats::default());
        let facts = self.facts_row(&planned, &tally, stats, seen, timing);
        self.finish(&planned, facts, None, false).await
    }
}
