//! The doctor: reads what a table left, whatever state it is in, says what is wrong, and puts right what can be.
//!
//! It needs no source. [`Doctor::examine`] gathers checkpoint, bronze, facts, control and quarantine (`evidence`), joins the batches
//! that they tell of (`ledger`), and holds them against each other (`judge`). It knows what a run does with each state, and says so:
//! a finding that a run mends by itself is not one that a person has to wake up for.
//!
//! [`repair`] does what the findings propose, after a backup and as the owner of the stream. It never deletes, it never
//! writes to bronze, and it writes nothing where the files contradict each other. `docs/guides/recovery.md` lists the codes.
//!
//! [`drill`](fn@drill) does to copies of a table what the doctor has to find, and sees whether it does.

mod checkpoint_files;
mod delta_files;
mod drill;
mod events;
mod evidence;
mod finding;
mod judge;
mod ledger;
mod repair;
mod subject;
#[cfg(test)]
mod tests;

pub use drill::{DrillError, Outcome, Trial, drill};
pub use finding::{Code, Examination, Finding, Repair, Severity};
pub use repair::{Loss, RepairError, Repaired, repair};
pub use subject::Subject;

use evidence::{Evidence, Shared};

/// Examines tables one after the other, and reads once what they share.
#[derive(Debug, Default)]
pub struct Doctor {
    shared: Shared,
}

impl Doctor {
    /// Examines one table. Nothing is written, and whatever cannot be read is a finding, not an error.
    pub async fn examine(&mut self, subject: &Subject) -> Examination {
        let evidence = Evidence::gather(subject, &mut self.shared).await;
        judge::judge(subject, &evidence)
    }
}

/// Examines one table as it is now.
pub async fn examine(subject: &Subject) -> Examination {
    Doctor::default().examine(subject).await
}

/// Examines a table whose lock this process holds.
async fn examine_as_owner(subject: &Subject) -> Examination {
    let mut evidence = gather(subject).await;
    evidence.checkpoint.running = None;
    judge::judge(subject, &evidence)
}

async fn gather(subject: &Subject) -> Evidence {
    Evidence::gather(subject, &mut Shared::default()).await
}
