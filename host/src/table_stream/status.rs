//! How a table does, for those who look at it from outside: the status in the control table, and in the checkpoint why it stopped.

use crate::checkpoint::Checkpoint;
use crate::config::TableSettings;
use crate::lsn::Lsn;
use crate::verdict::{TableStatus, VerdictUpdate};

use super::open::{OpenTable, blocking};
use super::publish::Committed;
use super::{Purpose, Shared, StreamError};

impl OpenTable {
    /// How the table does when it is at `position`. Before the source was asked, nobody can say that it is current.
    pub(super) fn status_at(&self, position: Lsn) -> TableStatus {
        match self.known_max {
            Some(max) if max <= position && self.stalled => TableStatus::CaptureStalled,
            Some(max) if max <= position => TableStatus::Current,
            _ => TableStatus::Behind,
        }
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
    let (checkpoint, words) = (checkpoint.clone(), error.told());
    // What does not get there is told all the same.
    let _ = blocking(move || {
        checkpoint.stopped(words);
        Ok(())
    })
    .await;
}

/// Has the control table say that a table stopped which could not be opened again.
pub(super) async fn tell_failed(shared: &Shared, settings: &TableSettings) {
    let update = VerdictUpdate {
        table_name: settings.target.display().to_string(),
        end: None,
        status: TableStatus::Failed,
        granularity: settings.granularity,
        open_quarantined: None,
    };
    // The error that stopped the table is the one to report.
    if let Ok(verdicts) = shared.verdicts_of(settings) {
        let (_, _) = tokio::join!(verdicts.advance(update), verdicts.flush());
    }
}
