//! The recovery drill: damages a copy of a table in every way that the doctor knows, and sees whether it finds each one,
//! puts it right, and leaves everything as it was.
//!
//! The table itself is only read. Parquet files, which nobody writes into, are hard-linked where the disk allows it; all
//! else is copied, so that no damage can reach the original.

mod copy;
mod damages;
mod made_up;
mod of_quarantine;
mod state;

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::finding::{Code, Examination, Severity};
use super::repair::{Loss, RepairError, Repaired, repair};
use super::subject::Subject;
use super::{examine, gather};
use crate::error::{Classify, ErrorKind, chain};
use crate::identity::CaptureInstance;
use crate::storage::Place;
use copy::copy_of;
use damages::{DAMAGES, Damage, Damaged};
use of_quarantine::OF_QUARANTINE;
use state::State;

/// Copies of a table that is running that are tried, until one is of one piece.
const COPIES: u32 = 5;

/// How a damage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// `--repair` put it right.
    Repaired,
    /// The next run puts it right.
    RunMends,
    /// Nothing was written, and the finding says what a person has to decide.
    Refused,
    /// The table has nothing that could be damaged so.
    NotApplicable,
}

impl Outcome {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Repaired => "repaired",
            Outcome::RunMends => "run mends it",
            Outcome::Refused => "refused",
            Outcome::NotApplicable => "not applicable",
        }
    }
}

/// One damage and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// The table.
    pub capture_instance: CaptureInstance,
    /// What was done to the copy.
    pub damage: &'static str,
    /// The code that the doctor had to find.
    pub code: Code,
    /// The codes that it found.
    pub found: Vec<Code>,
    /// What it said is wrong.
    pub said: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it was refused, was not applicable, or did not end as it should.
    pub why: String,
    /// Whether it ended as it should.
    pub passed: bool,
}

/// Why there was no drill.
#[derive(Debug, thiserror::Error)]
pub enum DrillError {
    /// The table itself needs somebody.
    #[error(
        "{capture_instance} has findings of its own ({}), so that a drill would prove nothing: see sluice doctor first",
        codes.iter().map(|code| code.as_str()).collect::<Vec<_>>().join(", ")
    )]
    Ill {
        /// The table.
        capture_instance: CaptureInstance,
        /// What was found.
        codes: Vec<Code>,
    },
    /// The table has not started.
    #[error("{capture_instance} has no batch yet, so there is nothing to damage: run it first")]
    NotStarted {
        /// The table.
        capture_instance: CaptureInstance,
    },
    /// A file of the copy cannot be written.
    #[error("cannot copy {} for the drill: {source}", path.display())]
    Copy {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A table that cannot be copied as a folder.
    #[error(
        "{place} is in a bucket, and a drill damages copies of folders: copy the table to a folder, and drill that one"
    )]
    InABucket {
        /// What is there.
        place: Place,
    },
    /// A step of the work ended abruptly.
    #[error("a step of the drill ended abruptly")]
    Task,
}

impl Classify for DrillError {
    fn kind(&self) -> ErrorKind {
        match self {
            DrillError::Task => ErrorKind::Internal,
            DrillError::InABucket { .. } => ErrorKind::Config,
            DrillError::Copy { .. } | DrillError::Ill { .. } | DrillError::NotStarted { .. } => ErrorKind::State,
        }
    }
}

/// Damages copies of one table in `folder`, which is to be empty, each damage in a fresh one. `only` keeps those that the
/// doctor is to find under that code. `tell` hears of each as it ends.
pub async fn drill(
    subject: &Subject,
    folder: &Path,
    only: Option<Code>,
    mut tell: impl FnMut(&Trial),
) -> Result<Vec<Trial>, DrillError> {
    let (whole, before) = whole_copy(subject, folder).await?;
    let known = State::of(&whole).await;
    let of_quarantine = match gather(&whole).await.quarantine.table.exists {
        true => OF_QUARANTINE,
        false => &[],
    };
    let mut trials = Vec::new();
    for (number, damage) in DAMAGES.iter().chain(of_quarantine).enumerate() {
        if only.is_some_and(|only| only != damage.code) {
            continue;
        }
        let place = folder.join(format!("{:02}-{}", number + 1, damage.code));
        let copy = blocking(&whole, move |whole| copy_of(&whole, &place)).await?;
        let trial = attempt(damage, &copy, &before, &known).await;
        tell(&trial);
        trials.push(trial);
    }
    Ok(trials)
}

/// A copy of the table that is of one piece, though the table may be running.
async fn whole_copy(subject: &Subject, folder: &Path) -> Result<(Subject, Examination), DrillError> {
    let mut tried = 0;
    loop {
        tried += 1;
        let place = folder.join(format!("00-as-it-is-{tried}"));
        let copy = blocking(subject, move |subject| copy_of(&subject, &place)).await?;
        let seen = examine(&copy).await;
        if seen.batch_id.is_none() && !seen.is_ill() {
            let capture_instance = subject.capture_instance.clone();
            return Err(DrillError::NotStarted { capture_instance });
        }
        if !seen.is_ill() {
            return Ok((copy, seen));
        }
        if tried == COPIES || !examine(subject).await.running {
            let codes = seen
                .findings
                .iter()
                .filter(|finding| finding.severity >= Severity::Repairable);
            return Err(DrillError::Ill {
                capture_instance: subject.capture_instance.clone(),
                codes: codes.map(|finding| finding.code).collect(),
            });
        }
    }
}

async fn attempt(damage: &Damage, copy: &Subject, before: &Examination, known: &State) -> Trial {
    let mut trial = Trial {
        capture_instance: copy.capture_instance.clone(),
        damage: damage.what,
        code: damage.code,
        found: Vec::new(),
        said: String::new(),
        outcome: damage.outcome,
        why: String::new(),
        passed: false,
    };
    let evidence = gather(copy).await;
    let done = (damage.apply)(copy, &evidence);
    drop(evidence);
    match done {
        Ok(Damaged::Done) => {}
        Ok(Damaged::NotApplicable(why)) => {
            trial.outcome = Outcome::NotApplicable;
            trial.why = why.to_owned();
            trial.passed = true;
            return trial;
        }
        Err(error) => {
            trial.why = format!("the copy could not be damaged: {error}");
            return trial;
        }
    }
    let seen = examine(copy).await;
    trial.found = seen.findings.iter().map(|finding| finding.code).collect();
    let Some(finding) = seen.findings.iter().find(|finding| finding.code == damage.code) else {
        trial.why = "the doctor did not find it".to_owned();
        return trial;
    };
    trial.said = finding.what.clone();
    let wanted = match damage.outcome {
        Outcome::Refused => finding.severity == Severity::NeedsPerson,
        Outcome::Repaired => finding.repair.is_some(),
        Outcome::RunMends | Outcome::NotApplicable => !seen.is_ill(),
    };
    if !wanted {
        trial.why = format!(
            "the doctor found it, and calls it \"{}\": {}",
            finding.severity, finding.what
        );
        return trial;
    }
    let verified = match damage.outcome {
        Outcome::Refused => {
            let damaged = State::of(copy).await;
            match repair(copy, Loss::Refused).await {
                Ok(repaired) if repaired.backup.is_some() => {
                    Err("a repair was made, where a person has to decide".to_owned())
                }
                _ => refused(&damaged, &State::of(copy).await),
            }
        }
        _ => mended(copy, before, known, repair(copy, Loss::Refused).await, damage.outcome).await,
    };
    match verified {
        Ok(note) => {
            trial.passed = true;
            trial.why = match damage.outcome {
                Outcome::Refused => finding.advice.clone(),
                _ => note,
            };
        }
        Err(why) => trial.why = why,
    }
    trial
}

/// What needs a person is left as it is, to the byte.
fn refused(damaged: &State, after: &State) -> Result<String, String> {
    match damaged.files == after.files {
        true => Ok(String::new()),
        false => Err("the doctor wrote although a person has to decide".to_owned()),
    }
}

/// After a repair everything is as it was before the damage.
async fn mended(
    copy: &Subject,
    before: &Examination,
    known: &State,
    repaired: Result<Repaired, RepairError>,
    outcome: Outcome,
) -> Result<String, String> {
    // A lease that ran out keeps a repair away, and is the next run's to take over.
    let repaired = match repaired {
        Ok(repaired) => repaired,
        Err(RepairError::InUse { .. } | RepairError::Refused(_)) if outcome == Outcome::RunMends => {
            return Ok(String::new());
        }
        Err(error) => return Err(format!("the repair failed: {}", chain(&error))),
    };
    if outcome == Outcome::Repaired && repaired.backup.is_none() {
        return Err("the repair did nothing".to_owned());
    }
    let after = examine(copy).await;
    if after.is_ill() {
        let codes: Vec<&str> = after.findings.iter().map(|finding| finding.code.as_str()).collect();
        return Err(format!("after the repair the doctor still finds {}", codes.join(", ")));
    }
    if (after.batch_id, after.end.map(|end| end.lsn)) != (before.batch_id, before.end.map(|end| end.lsn)) {
        return Err("after the repair the table stands at another position than before the damage".to_owned());
    }
    State::of(copy).await.equals(known, outcome)
}

/// The path of something of a copy, which is in a folder always.
fn path_of(copied: &Place) -> &Path {
    copied.as_local().unwrap_or(Path::new(""))
}

async fn blocking<T: Send + 'static>(
    subject: &Subject,
    work: impl FnOnce(Subject) -> Result<T, DrillError> + Send + 'static,
) -> Result<T, DrillError> {
    let subject = subject.clone();
    tokio::task::spawn_blocking(move || work(subject))
        .await
        .map_err(|_| DrillError::Task)?
}
