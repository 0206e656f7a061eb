//! How a table does, for those who look at it from outside: the status in the control table, and in the checkpoint why it stopped.

use crate::board::{Look, Phase, Progress};
use crate::checkpoint::{Checkpoint, CheckpointReader, stopped_unopened};
use crate::config::TableSettings;
use crate::error::Classify as _;
use crate::lsn::{Lsn, Offset};
use crate::report::Event;
use crate::source::{Poll, TablePoll};
use crate::verdict::{TableStatus, VerdictUpdate};

use super::open::{OpenTable, blocking};
use super::publish::Committed;
use super::{Purpose, Shared, StreamError};

impl OpenTable {
    /// How the table does when it is at `position`. Before the source was asked, nobody can say that it is current.
    pub(super) fn status_at(&self, position: Lsn) -> TableStatus {
        let position = self.quiet_up_to.map_or(position, |quiet| quiet.lsn.max(position));
        match self.known_max {
            Some(max) if max <= position && self.stalled => TableStatus::CaptureStalled,
            Some(max) if max <= position => TableStatus::Current,
            _ => TableStatus::Behind,
        }
    }

    /// Has the board know how far the table is, and warns when it does not keep up.
    pub(super) fn tell_progress(&self, poll: &Poll) {
        let oldest = match poll.table(self.instance_in_force()) {
            Some(TablePoll::Ready { min_commit_ts, .. }) => *min_commit_ts,
            _ => None,
        };
        let look = Look {
            max: poll.max,
            position: self.position,
            read_up_to: self.read_up_to(),
            caught_up: self.has_read_what_is_in(poll),
            oldest,
            stalled: self.stalled,
        };
        let message = match self.shared.board.look(&self.settings.capture_instance, look) {
            None => return,
            Some(Progress::FallsBehind { lag_seconds, reason }) => format!(
                "falling behind: bronze is {lag_seconds:.0} s behind the source, and the gap grows; most of the time goes \
                 into {}",
                match reason {
                    Phase::Plan => "asking the server which commits there are (plan)",
                    Phase::Read => "reading rows (read): the server, the network, or the wait for a connection",
                    Phase::Transform => "the transforms (transform)",
                    Phase::Commit => "committing to Delta (commit): a longer trigger makes fewer and larger commits",
                }
            ),
            Some(Progress::KeepsUp) => "keeps up again".to_owned(),
        };
        self.shared.tell(Event::Warning {
            capture_instance: self.settings.capture_instance.clone(),
            message,
        });
    }

    /// The last commit up to which nothing of the table is missing in bronze, as far as is seen.
    fn read_up_to(&self) -> Option<Offset> {
        let further = self.position.into_iter().chain(self.quiet_up_to);
        further.max_by_key(|offset| offset.lsn)
    }

    /// Whether no change of this table is seen after its position.
    fn has_read_what_is_in(&self, poll: &Poll) -> bool {
        let position = self.position.map(|position| position.lsn);
        self.source
            .instances
            .iter()
            .all(|instance| match poll.table(&instance.name) {
                Some(TablePoll::Ready { last_lsn, .. }) => *last_lsn <= position,
                Some(TablePoll::Failed(_)) | None => true,
            })
    }

    /// There is nothing more to do: whatever stopped the table before is over. Has the control table say how the table does,
    /// where it does not.
    pub(super) async fn tell_status(&mut self) -> Result<(), StreamError> {
        if self.checkpoint.has_stop() {
            let checkpoint = self.checkpoint.clone();
            blocking(move || {
                checkpoint.went_on();
                Ok(())
            })
            .await?;
        }
        match (self.position, self.recorded) {
            (Some(position), Some(_)) => self.publish_status(self.status_at(position.lsn)).await,
            _ => Ok(()),
        }
    }

    /// Has the checkpoint say why the table stopped, and the control table that it did and waits for a person.
    pub(super) async fn tell_failed(&mut self, error: &StreamError) {
        keep_why(&self.shared, &self.checkpoint, error).await;
        // The error that stopped the table is the one to report.
        let _ = self.publish_status(TableStatus::Failed).await;
    }

    pub(super) async fn publish_status(&mut self, status: TableStatus) -> Result<(), StreamError> {
        if self.status == Some(status) {
            return Ok(());
        }
        self.status = Some(status);
        // The verdict moves after the facts.
        let end = self.recorded.filter(|_| self.facts_handed_over);
        let verdict = self.verdict(end, status);
        let entries = Vec::new();
        self.publisher.publish(Committed { entries, verdict }).await
    }
}

/// Keeps for later what a run that ends is told now. A retry of quarantine is no run of the table.
pub(super) async fn keep_why(shared: &Shared, checkpoint: &Checkpoint, error: &StreamError) {
    if shared.purpose != Purpose::Follow || matches!(error, StreamError::TakenOver { .. }) {
        return;
    }
    let (checkpoint, words, kind) = (checkpoint.clone(), error.told(), error.kind());
    // What does not get there is told all the same.
    let _ = blocking(move || {
        checkpoint.stopped(words, kind);
        Ok(())
    })
    .await;
}

/// Has the checkpoint and the control table say that a table stopped which could not be opened. Nothing where it never had a
/// checkpoint, or another process has it: how it does is for that one to say.
pub(super) async fn tell_unopened(shared: &Shared, settings: &TableSettings, error: &StreamError) {
    if shared.purpose != Purpose::Follow || matches!(error, StreamError::TakenOver { .. }) {
        return;
    }
    let place = settings.checkpoint.clone();
    let own = shared.hosts.as_ref().map(|hosts| hosts.lease.id().to_owned());
    let hosts = shared.hosts.as_ref().map(|hosts| hosts.lease.hosts().clone());
    let (words, kind) = (error.told(), error.kind());
    let told = blocking(move || {
        let reader = CheckpointReader::new(&place).with_hosts(hosts.as_ref());
        stopped_unopened(&reader, own.as_deref(), words, kind)
    });
    // The error that stopped the table is the one to report.
    if !matches!(told.await, Ok(true)) {
        return;
    }
    let update = VerdictUpdate {
        table_name: settings.target.display().to_string(),
        end: None,
        status: TableStatus::Failed,
        granularity: settings.granularity,
        open_quarantined: None,
    };
    if let Ok(verdicts) = shared.verdicts_of(settings) {
        let (_, _) = tokio::join!(verdicts.advance(update), verdicts.flush());
    }
}
