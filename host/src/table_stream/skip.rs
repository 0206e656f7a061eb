//! Going on after changes were cleaned up before they were read, where the configuration says so: the gap is recorded, with
//! a batch that reads nothing.

use crate::checkpoint::{ATTEMPTS, StateError};
use crate::config::OnDataLoss;
use crate::facts::FactsRow;
use crate::lsn::Lsn;
use crate::report::Event;
use crate::source::{Poll, ReadStats, SourceError, is_nothing_between, skip_to};

use super::StreamError;
use super::open::OpenTable;
use super::record::Timing;
use super::schema::Told;
use super::tally::Tally;

impl OpenTable {
    /// Whether what an error calls lost was never there: cleanup passed the position, and no commit lies between the two.
    pub(super) async fn is_false_alarm(&mut self, error: &StreamError) -> Result<bool, StreamError> {
        let (min_lsn, position) = match (error, self.position) {
            (StreamError::Source(source), Some(position)) => match **source {
                SourceError::Purged { min_lsn, .. } => (min_lsn, position.lsn),
                _ => return Ok(false),
            },
            _ => return Ok(false),
        };
        // What nobody captured left no entry: the instance has to be one that had begun by then.
        let next = self.source.in_force(position.next());
        if self.source.instances[next]
            .start_lsn
            .is_none_or(|start| start > position.next())
        {
            return Ok(false);
        }
        let nothing = self
            .retried(|| async {
                let mut asker = self.shared.asks.get().await?;
                Ok(is_nothing_between(&mut asker, position, min_lsn).await?)
            })
            .await?;
        if nothing && self.floor < Some(min_lsn) {
            self.floor = Some(min_lsn);
            return Ok(true);
        }
        Ok(false)
    }

    /// Skips what an error says is lost, and gives any other error back.
    pub(super) async fn skip_loss(&mut self, error: StreamError, poll: &Poll) -> Result<(), StreamError> {
        let lost = match &error {
            StreamError::Source(source) if self.settings.reading.on_data_loss == OnDataLoss::Skip => match **source {
                SourceError::Purged { from, min_lsn, .. } => Some((from, min_lsn)),
                _ => None,
            },
            _ => None,
        };
        match lost {
            Some((from, min_lsn)) => self.skip(from, min_lsn, poll).await,
            None => Err(error),
        }
    }

    /// `lost` is the first LSN that a read wanted and did not find, of an instance that begins with `min_lsn` now.
    async fn skip(&mut self, lost: Lsn, min_lsn: Lsn, poll: &Poll) -> Result<(), StreamError> {
        let timing = Timing::start();
        // A batch that was planned over the gap is given up; bronze may have it all the same.
        if let Some(open) = &self.open_batch {
            let attempt = open.attempt + 1;
            if attempt >= ATTEMPTS {
                return Err(StateError::TooManyAttempts {
                    batch: open.batch_id,
                    attempts: ATTEMPTS,
                }
                .into());
            }
            let reason = format!("its range was cleaned up; the change table begins at {min_lsn}");
            if let Some(record) = self.plan_anew(attempt, reason).await? {
                self.tell_batch(&record, true);
                return self.publish_record(&record).await;
            }
            // The change that the plan found is lost with the rest.
            self.first_change = None;
        }
        // The whole of that instance's part is lost up to `min_lsn`, whichever part of it was read first.
        let instance = self.source.in_force(lost);
        let begins = self.source.instances[instance].start_lsn.unwrap_or(Lsn::ZERO);
        let next = self.position.map(|position| position.lsn.next());
        let from = match next {
            Some(next) if instance == self.source.in_force(next) => next,
            Some(_) => begins,
            None => lost,
        };
        // What the instance before it has is still there.
        if let Some(next) = next.filter(|next| *next < from)
            && self.run_up_to(next, from.previous(), poll).await?
        {
            return Ok(());
        }
        // The instance after it has its own.
        let up_to = self.source.instances[instance + 1..]
            .iter()
            .filter_map(|later| later.start_lsn)
            .fold(min_lsn, Lsn::min);
        // The commit that the gap ends on may be the position itself.
        self.floor = Some(up_to).max(self.floor);
        let clock = poll.clock;
        let skipped = self
            .retried(|| async {
                let mut asker = self.shared.asks.get().await?;
                Ok(skip_to(&mut asker, up_to, clock, self.position).await?)
            })
            .await?;
        let lost_from = self.position.map(|position| position.commit_ts);
        let message = format!(
            "changes from {from} to {} are lost and were skipped (on_data_loss = \"skip\"): they were cleaned up before they \
             were read (CDC retention), or CDC was disabled and enabled again. Bronze has a gap there, and the table's \
             finalized_until passes it",
            up_to.previous()
        );
        let event = FactsRow {
            app_id: self.settings.app_id.0.clone(),
            event: Some("data_skipped".to_owned()),
            min_lsn: Some(from),
            max_lsn: Some(up_to.previous()),
            lost_from_ts: lost_from,
            lost_to_ts: skipped.next_ts,
            end_lsn: Some(skipped.end.lsn),
            end_commit_ts: Some(skipped.end.commit_ts),
            detail: Some(message.clone()),
            target: Some(self.settings.target.display().to_string()),
            host: Some(self.shared.host.clone()),
            ..FactsRow::default()
        };
        let told = Told {
            events: vec![event],
            seen: self.seen_now(),
        };
        let planned = self.pin(from, skipped.end, Vec::new(), clock, told);
        self.expect_not_taken_over().await?;
        self.write_plan(&planned).await?;
        let (tally, stats) = (Tally::default(), ReadStats::default());
        let facts = self.facts_row(&planned, &tally, stats, self.seen(poll), timing);
        self.finish(&planned, facts, None, false).await?;
        self.shared.tell(Event::Warning {
            capture_instance: self.settings.capture_instance.clone(),
            message,
        });
        Ok(())
    }
}
