//! What the doctor says: a finding with its code, how bad it is, and what would mend it.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::checkpoint::CommitRecord;
use crate::facts::FactsEntry;
use crate::identity::{AppId, BatchId, CaptureInstance};
use crate::lsn::{Offset, UtcMicros};
use crate::quarantine::{AttemptAt, QuarantineRow};
use crate::storage::Place;

/// Who has to do something about a finding, if anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know. `sluice run` works.
    Note,
    /// The next `sluice run` puts it right by itself.
    RunMends,
    /// `sluice doctor --repair` puts it right.
    Repairable,
    /// A person decides: nothing here can be put right without knowing more than the files say.
    NeedsPerson,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Note => "ok to run",
            Severity::RunMends => "run mends it",
            Severity::Repairable => "repairable",
            Severity::NeedsPerson => "needs a person",
        })
    }
}

/// Declares the codes with their text, so that neither can be forgotten.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// What kind of finding it is. The texts are stable: scripts and `docs/guides/recovery.md` go by them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The stable text.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }
        }
    };
}

codes! {
    /// A process runs the stream now.
    Running = "running",
    /// A lease file of a process that is gone.
    LeaseLeftOver = "lease-left-over",
    /// A lease file that is cut or no JSON of ours.
    LeaseFileDamaged = "lease-file-damaged",
    /// A file that a crash left half-written.
    TemporaryFile = "temporary-file",
    /// A file that is none of a checkpoint's.
    UnknownFile = "unknown-file",
    /// A file or table that the system does not let us read.
    Unreadable = "unreadable",
    /// A file of a newer sluice.
    NewerFormat = "newer-format",
    /// `stream.json` is gone.
    StreamFileMissing = "stream-file-missing",
    /// `stream.json` is cut or no JSON of ours.
    StreamFileDamaged = "stream-file-damaged",
    /// `stream.json` is another stream's, the rest of the checkpoint is this one's.
    StreamFileForeign = "stream-file-foreign",
    /// The checkpoint is another stream's.
    CheckpointForeign = "checkpoint-foreign",
    /// No file names the owner, and there are processes that may be it.
    OwnerUnknown = "owner-unknown",
    /// The folder of the owner's lease is not seen from here.
    HostsUnseen = "hosts-unseen",
    /// What is to be locked is no file.
    LockDamaged = "lock-damaged",
    /// `owner.json` is cut or no JSON of ours.
    OwnerFileDamaged = "owner-file-damaged",
    /// Bronze has a higher owner's number than the checkpoint.
    OwnerBehind = "owner-behind-bronze",
    /// A component's bytes do not have the hash that they are known by.
    ComponentDamaged = "component-damaged",
    /// A component that an open batch was planned with is not there.
    ComponentMissing = "component-missing",
    /// A `commits/` file is gone.
    CommitFileMissing = "commit-file-missing",
    /// A `commits/` file is cut, or is not what its name says.
    CommitFileDamaged = "commit-file-damaged",
    /// An `offsets/` file is cut, or is not what its name says.
    PlanFileDamaged = "plan-file-damaged",
    /// A batch is planned, and the one before it is not done.
    PlanAhead = "plan-ahead",
    /// A batch was begun and is not done.
    OpenBatch = "open-batch",
    /// The checkpoint is gone, and bronze or facts have batches.
    CheckpointDeleted = "checkpoint-deleted",
    /// The checkpoint ends before bronze or facts.
    CheckpointRewound = "checkpoint-rewound",
    /// What is left does not join into one history.
    HistoryGap = "history-gap",
    /// The bronze table is gone, and had batches.
    BronzeMissing = "bronze-missing",
    /// Bronze ends before the checkpoint.
    BronzeBehind = "bronze-behind",
    /// Bronze has another number of rows than its batches.
    BronzeRowCount = "bronze-row-count",
    /// Somebody else's commit changed rows of bronze.
    ForeignCommit = "foreign-commit",
    /// Bronze has a batch that is not the one planned or recorded here.
    OtherBatch = "other-batch",
    /// Numbers in bronze's log that go down.
    NumbersWentDown = "numbers-went-down",
    /// A version is missing from the log of a table.
    LogEntryMissing = "log-entry-missing",
    /// An entry of the log of a table is empty or cut.
    LogEntryDamaged = "log-entry-damaged",
    /// A table cannot be opened though its log looks whole.
    TableUnreadable = "table-unreadable",
    /// A file that the log names is gone.
    DataFileMissing = "data-file-missing",
    /// A file has another size than the log says.
    DataFileCut = "data-file-cut",
    /// Facts lack the newest batches.
    FactsBehind = "facts-behind",
    /// The facts table has nothing of the stream.
    FactsMissing = "facts-missing",
    /// The facts table has rows of the stream, and no transaction id of it.
    FactsUnnumbered = "facts-unnumbered",
    /// Rows are missing among the facts.
    FactsRowsMissing = "facts-rows-missing",
    /// A batch has two facts rows.
    FactsDouble = "facts-double",
    /// A row of the facts table cannot be read as one.
    FactsRowsUnreadable = "facts-rows-unreadable",
    /// A facts row says something else than checkpoint or bronze.
    FactsDisagree = "facts-disagree",
    /// The control table has no row of the table.
    ControlMissing = "control-missing",
    /// The verdict can move on.
    VerdictBehind = "verdict-behind",
    /// The verdict says more than is there.
    VerdictAhead = "verdict-ahead",
    /// The quarantine table is gone, and batches put rows there.
    QuarantineMissing = "quarantine-missing",
    /// The quarantine table ends before what batches put there.
    QuarantineBehind = "quarantine-behind",
    /// The quarantine table has rows of a batch that nothing else knows.
    QuarantineAhead = "quarantine-ahead",
    /// Rows in quarantine count that are of no attempt that was recorded.
    QuarantineNotVoid = "quarantine-not-void",
    /// Quarantine has another number of rows of a batch than its facts.
    QuarantineRowCount = "quarantine-row-count",
}

impl Code {
    /// Whether the files contradict each other so that nothing may be written before a person has looked.
    pub(super) fn bars_repairs(self) -> bool {
        matches!(
            self,
            Code::Running
                | Code::LeaseFileDamaged
                | Code::OwnerUnknown
                | Code::HostsUnseen
                | Code::LockDamaged
                | Code::Unreadable
                | Code::NewerFormat
                | Code::CheckpointForeign
                | Code::FactsRowsUnreadable
                | Code::HistoryGap
                | Code::BronzeMissing
                | Code::BronzeBehind
                | Code::OtherBatch
                | Code::NumbersWentDown
                | Code::LogEntryMissing
                | Code::LogEntryDamaged
                | Code::TableUnreadable
        )
    }

    /// Whether it holds of files that a running process is not about to change.
    pub(super) fn holds_while_running(self) -> bool {
        matches!(
            self,
            Code::Running
                | Code::LeaseFileDamaged
                | Code::OwnerUnknown
                | Code::HostsUnseen
                | Code::LockDamaged
                | Code::UnknownFile
                | Code::Unreadable
                | Code::NewerFormat
                | Code::StreamFileDamaged
                | Code::StreamFileForeign
                | Code::CheckpointForeign
                | Code::OwnerFileDamaged
                | Code::CommitFileDamaged
                | Code::PlanFileDamaged
                | Code::ForeignCommit
                | Code::NumbersWentDown
                | Code::LogEntryMissing
                | Code::LogEntryDamaged
                | Code::TableUnreadable
                | Code::DataFileMissing
                | Code::DataFileCut
                | Code::FactsDouble
                | Code::FactsRowsUnreadable
        )
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Something that is not as a run leaves it.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What kind of thing.
    pub code: Code,
    /// Who has to do something.
    pub severity: Severity,
    /// The file or the table.
    pub place: Place,
    /// What is wrong.
    pub what: String,
    /// Whether data are lost, and what `run` would do.
    pub means: String,
    /// What to do.
    pub advice: String,
    /// What `--repair` would do.
    pub repair: Option<Repair>,
    /// What it would do besides if somebody accepted that what is gone is lost.
    pub on_accepted_loss: Option<Repair>,
}

/// What `--repair` does about a finding.
#[derive(Clone, Debug)]
pub struct Repair {
    /// In words.
    pub words: String,
    pub(super) steps: Vec<Step>,
}

impl Serialize for Repair {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.words)
    }
}

/// One write of a repair.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Move a file of the checkpoint into the backup.
    MoveAside(Place),
    /// Write `commits/<n>`.
    WriteCommit(Box<CommitRecord>),
    /// Append rows to the facts table, as one commit.
    WriteFacts(Vec<FactsEntry>),
    /// Say in the quarantine table that attempts count for nothing, under the owner's number.
    VoidAttempts(BTreeSet<AttemptAt>, i64),
    /// Say in the quarantine table that rows of batches are lost, and that it goes up to an attempt, under the owner's number.
    AcceptLoss(Vec<QuarantineRow>, AttemptAt, i64),
}

/// What was found about one table.
#[derive(Clone, Debug, Serialize)]
pub struct Examination {
    /// The table.
    pub capture_instance: CaptureInstance,
    /// The stream.
    pub app_id: AppId,
    /// The newest batch that is done, by all that is left.
    pub batch_id: Option<BatchId>,
    /// Where it ends.
    pub end: Option<Offset>,
    /// The verdict that consumers see.
    pub finalized_until: Option<UtcMicros>,
    /// The process that runs it, or ran it last.
    pub owner: Option<String>,
    /// Whether a process runs it now.
    pub running: bool,
    /// What is not as it should be, the worst first.
    pub findings: Vec<Finding>,
}

impl Examination {
    /// The worst severity; `None` when nothing was found.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// Whether a person or a repair is needed.
    pub fn is_ill(&self) -> bool {
        self.worst() >= Some(Severity::Repairable)
    }
}
