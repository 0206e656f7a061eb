//! Capture that stands still. An idle database gets an entry in `cdc.lsn_time_mapping` about every five minutes, so a
//! `max_lsn` that does not move for much longer is no sign of a quiet source: the capture job does not run.

use std::time::Duration;

use crate::clock::Clock;
use crate::facts::FactsRow;
use crate::lsn::UtcMicros;
use crate::report::Event;
use crate::source::Poll;

use super::StreamError;
use super::open::OpenTable;
use super::schema::Told;

/// By how much daylight saving time puts a clock forward, at most.
const CHANGE_OF_CLOCK: Duration = Duration::from_secs(3600);

impl OpenTable {
    /// Whether capture stands still: as this process sees it or, where it has not seen it move, by the age of the newest commit.
    /// Capture that works through a backlog moves, however old its commits are.
    pub(super) fn is_stalled(&self, poll: &Poll) -> bool {
        // It still stands where another process saw it.
        if self.stalled_at == Some(poll.max.lsn) && !poll.has_moved {
            return true;
        }
        let by_age = match poll.clock {
            _ if poll.has_moved => Duration::ZERO,
            Clock::Zone(_) => lag(poll),
            // A clock whose zone is not known may have been put forward since that commit.
            Clock::Fixed(_) => lag(poll).saturating_sub(CHANGE_OF_CLOCK),
        };
        by_age.max(poll.still_for) > self.settings.reading.capture_stalled_after
    }

    /// Records that capture stopped or goes on, when it did since this was recorded last.
    pub(super) async fn tell_stall(&mut self, poll: &Poll) -> Result<(), StreamError> {
        let stalled = self.is_stalled(poll);
        let Some(position) = self.position.filter(|_| stalled != self.seen_source.stalled) else {
            return Ok(());
        };
        let (event, detail) = match stalled {
            true => (
                "capture_stalled",
                format!(
                    "capture has not moved past {} ({}), and the server's clock says {}: is the capture job running (SQL \
                     Server Agent)? Nothing is lost while the transaction log is kept; the table is as complete as its \
                     change table",
                    poll.max.lsn, poll.max.commit_ts, poll.server_now
                ),
            ),
            false => (
                "capture_resumed",
                format!("capture is at {} ({})", poll.max.lsn, poll.max.commit_ts),
            ),
        };
        if stalled {
            self.shared.tell(Event::Warning {
                capture_instance: self.settings.capture_instance.clone(),
                message: detail.clone(),
            });
        }
        let row = FactsRow {
            app_id: self.settings.app_id.0.clone(),
            event: Some(event.to_owned()),
            end_lsn: Some(position.lsn),
            end_commit_ts: Some(position.commit_ts),
            source_max_commit_ts: Some(poll.max.commit_ts),
            capture_lag_seconds: Some(lag(poll).as_secs_f64()),
            detail: Some(detail),
            target: Some(self.settings.target.display().to_string()),
            host: Some(self.shared.host.clone()),
            ..FactsRow::default()
        };
        let mut told = Told {
            events: vec![row],
            seen: self.seen_now(),
        };
        told.seen.stalled = stalled;
        self.record_idle(self.seen(poll), told).await?;
        self.stalled_at = stalled.then_some(position.lsn);
        Ok(())
    }
}

/// How far the newest commit is behind the server's clock.
fn lag(poll: &Poll) -> Duration {
    let UtcMicros(micros) = poll.server_now;
    Duration::from_micros(u64::try_from(micros - poll.max.commit_ts.0).unwrap_or(0))
}
