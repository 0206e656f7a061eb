//! What is recorded of a batch: its facts row, its events, and what the Delta commit says of itself.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::checkpoint::PlannedBatch;
use crate::facts::FactsRow;
use crate::lsn::{Offset, UtcMicros};
use crate::quarantine::{AttemptAt, IN_METADATA};
use crate::source::{Poll, ReadStats, TablePoll};

use super::millis;
use super::open::{OpenTable, hours_between};
use super::tally::Tally;

/// What is known of the source when a batch runs. A replay knows less.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) rtt_ms: Option<f64>,
    pub(super) max: Option<Offset>,
    pub(super) min_commit_ts: Option<UtcMicros>,
}

/// When each part of a batch began or how long it took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    pub(super) started_at: UtcMicros,
    pub(super) started: Instant,
    pub(super) plan: Duration,
    /// Reading the rows, in the attempt that worked; what waited for the chain and for staging is not in it.
    pub(super) read: Duration,
    pub(super) commit: Duration,
}

impl OpenTable {
    pub(super) fn seen(&self, poll: &Poll) -> Seen {
        Seen {
            rtt_ms: Some(poll.rtt_ms),
            max: Some(poll.max),
            min_commit_ts: match poll.table(self.instance_in_force()) {
                Some(TablePoll::Ready { min_commit_ts, .. }) => *min_commit_ts,
                _ => None,
            },
        }
    }

    /// The event of a chain that runs for the first time in this stream, the empty one included.
    pub(super) fn chain_event(&self, planned: &PlannedBatch, rows: u64) -> Vec<FactsRow> {
        let event = match &self.last_chain {
            Some(last) if *last == planned.chain => return Vec::new(),
            Some(_) => "transform_changed",
            None => "transform_set",
        };
        vec![FactsRow {
            app_id: self.settings.app_id.0.clone(),
            event: Some(event.to_owned()),
            min_lsn: Some(planned.first_lsn),
            end_lsn: Some(planned.end.lsn),
            end_commit_ts: Some(planned.end.commit_ts),
            detail: Some(format!(
                "from {} on, which begins a batch of {rows} rows",
                planned.first_lsn
            )),
            target: Some(self.settings.target.display().to_string()),
            transform: Some(planned.provenance.to_string()),
            host: Some(self.shared.host.clone()),
            ..FactsRow::default()
        }]
    }

    /// The facts of a batch that is read and staged, as of now: what its commit costs and its version come after.
    pub(super) fn facts_row(
        &self,
        planned: &PlannedBatch,
        tally: &Tally,
        stats: ReadStats,
        seen: Seen,
        timing: Timing,
    ) -> FactsRow {
        let count = |number: u64| Some(i64::try_from(number).unwrap_or(i64::MAX));
        let ms = |duration: Duration| count(millis(duration));
        let end = planned.end;
        FactsRow {
            app_id: self.settings.app_id.0.clone(),
            batch_id: Some(planned.batch_id.0),
            rows: count(tally.rows),
            min_lsn: tally.first.map(|(lsn, _)| lsn),
            max_lsn: tally.last.map(|(lsn, _)| lsn),
            min_commit_ts: tally.first.map(|(_, time)| time),
            max_commit_ts: tally.last.map(|(_, time)| time),
            deletes: count(tally.deletes),
            inserts: count(tally.inserts),
            updates: count(tally.updates),
            started_at: Some(timing.started_at),
            duration_ms: ms(timing.started.elapsed()),
            source_rtt_ms: seen.rtt_ms,
            read_seconds: Some(timing.read.as_secs_f64()),
            read_mb: Some(stats.bytes as f64 / 1e6),
            network_wait_ms: ms(stats.network_wait),
            retention_watermark_ts: seen.min_commit_ts,
            retention_headroom_hours: seen.min_commit_ts.map(|oldest| hours_between(oldest, end.commit_ts)),
            source_max_commit_ts: seen.max.map(|max| max.commit_ts),
            capture_lag_seconds: seen
                .max
                .map(|max| hours_between(max.commit_ts, UtcMicros::now()) * 3600.0),
            ingestion_lag_seconds: seen.max.map(|max| hours_between(end.commit_ts, max.commit_ts) * 3600.0),
            end_lsn: Some(end.lsn),
            end_commit_ts: Some(end.commit_ts),
            detail: detail([
                planned
                    .reason
                    .as_ref()
                    .map(|reason| format!("attempt {}: {reason}", planned.attempt)),
                tally.replaced.fact(&self.shape),
            ]),
            target: Some(self.settings.target.display().to_string()),
            transform: Some(planned.provenance.to_string()),
            transform_ms: ms(tally.transform),
            plan_ms: ms(timing.plan),
            commit_ms: ms(timing.commit),
            rows_quarantined: count(tally.quarantined.len() as u64),
            rows_filtered: count(tally.filtered),
            host: Some(self.shared.host.clone()),
            ..FactsRow::default()
        }
    }

    /// What the Delta commit says of itself: the batch's facts, so that they can be written again from it, its plan, and the
    /// newest attempt that has rows in quarantine.
    pub(super) fn user_metadata(
        &self,
        planned: &PlannedBatch,
        facts: &FactsRow,
        in_quarantine: Option<AttemptAt>,
    ) -> serde_json::Value {
        let mut metadata = facts.to_metadata();
        // Known after the commit only.
        metadata.remove("commit_ms");
        let plan = [
            ("batch_id", json!(planned.batch_id)),
            ("attempt", json!(planned.attempt)),
            (
                "capture_instance",
                json!(
                    planned
                        .ranges
                        .last()
                        .map_or(self.instance(), |range| &range.capture_instance)
                ),
            ),
            ("start", json!(planned.start)),
            ("end", json!(planned.end)),
            ("transform", planned.provenance.clone()),
        ];
        metadata.extend(plan.map(|(name, value)| (name.to_owned(), value)));
        metadata.extend(in_quarantine.map(|newest| (IN_METADATA.to_owned(), json!(newest.version()))));
        metadata.into()
    }
}

/// What there is to say of a batch, in one text.
fn detail(parts: [Option<String>; 2]) -> Option<String> {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

impl Timing {
    pub(super) fn start() -> Timing {
        Timing {
            started_at: UtcMicros::now(),
            started: Instant::now(),
            plan: Duration::ZERO,
            read: Duration::ZERO,
            commit: Duration::ZERO,
        }
    }
}
