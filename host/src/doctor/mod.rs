//! The doctor: reads what a table left, whatever state it is in, says what is wrong, and puts right what can be.
//!
//! It needs no source. [`examine`] gathers checkpoint, bronze, facts and control (`evidence`), joins the batches that they
//! tell of (`ledger`), and holds them against each other (`judge`). It knows what a run does with each state, and says so:
//! a finding that a run mends by itself is not one that a person has to wake up for.
//!
//! [`repair`] does what the findings propose, after a backup and as the owner of the stream. It never deletes, it never
//! writes to bronze, and it writes nothing where the files contradict each other. `docs/guides/recovery.md` lists the codes.
//!
//! [`drill`](fn@drill) does to copies of a table what the doctor has to find, and sees whether it does.

mod checkpoint_files;
mod delta_files;
mod drill;
mod evidence;
mod facts_rows;
mod finding;
mod judge;
mod ledger;
mod repair;
mod subject;

pub use drill::{DrillError, Outcome, Trial, drill};
pub use finding::{Code, Examination, Finding, Repair, Severity};
pub use repair::{RepairError, Repaired, repair};
pub use subject::Subject;

use evidence::Evidence;

/// Examines one table. Nothing is written, and whatever cannot be read is a finding, not an error.
pub async fn examine(subject: &Subject) -> Examination {
    examine_as(subject, Looker::Visitor).await
}

/// Who looks at a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looker {
    /// Somebody: a held lock is another process's.
    Visitor,
    /// Who holds the lock.
    Owner,
}

async fn examine_as(subject: &Subject, looker: Looker) -> Examination {
    let mut evidence = Evidence::gather(subject).await;
    if looker == Looker::Owner {
        evidence.checkpoint.running = None;
    }
    judge::judge(subject, &evidence)
}
