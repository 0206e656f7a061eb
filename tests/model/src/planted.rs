//! Faults that can be put into the protocol or the world, to see that the schedules find them.

/// A rule of the protocol, or an assumption of it, that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Planted {
    /// Bronze's batch id is taken as it was at the opening.
    NoFreshTxn,
    /// Facts that a crash kept from the table are not written again.
    FactsNotCaughtUp,
    /// After a conflict, the first proposal of a group of facts is sent as it is.
    GroupNotRebuilt,
    /// The fencing number is written and not compared.
    FenceNotCompared,
    /// Attempt k + 1 is planned before the claim.
    AttemptWithoutClaim,
    /// A take-over runs the open batch instead of closing it.
    TakeOverReplays,
    /// A take-over reads the checkpoint, then claims.
    ReadBeforeClaim,
    /// The verdict goes first.
    VerdictBeforeFacts,
    /// Rows in quarantine count, whatever attempt was committed.
    AnyAttemptsQuarantine,
    /// A closed batch names the attempt that it closes.
    ClosedNamesAttempt,
    /// The first batch is closed without a position, so the next begins at what is left.
    ClosedForgetsFirst,
    /// A batch that the facts table has is planned anew or closed.
    FactsNotAsked,
    /// Commits that are missing in the middle are passed over.
    GapsPassedOver,
    /// `owner.json` is replaced without a comparison.
    OwnerNotCompared,
    /// A lease that ran out says that its process is gone.
    RanOutIsGone,
    /// Who takes over from an owner that is gone forgets who else may wake up.
    TakenFromNotCarried,
    /// `owner.json` no longer says that somebody may wake up, then the open batch is closed.
    SettledBeforeClosing,
    /// A process that slept calls the checkpoint of its successor broken.
    SuccessorNotAsked,
    /// Under a lease, a batch that the facts table has is replayed where its record is lost.
    LostClosingReplayed,
    /// Two that take over at once do not see each other's lock on the checkpoint's folder.
    LockDoesNotReach,
    /// What a process that is gone wrote to a file arrives later.
    WritesOutliveTheirProcess,
    /// The fence is not compared between the reading of an open batch and its closing.
    ClosesUnfenced,
    /// A closed batch has the chain of the plan that it closes.
    ClosedNamesChain,
    /// A checkpoint to which the process before may still write is read once.
    CheckpointReadOnce,
}

impl Planted {
    /// Each of them.
    pub const ALL: [Planted; 24] = [
        Planted::NoFreshTxn,
        Planted::FactsNotCaughtUp,
        Planted::GroupNotRebuilt,
        Planted::FenceNotCompared,
        Planted::AttemptWithoutClaim,
        Planted::TakeOverReplays,
        Planted::ReadBeforeClaim,
        Planted::VerdictBeforeFacts,
        Planted::AnyAttemptsQuarantine,
        Planted::ClosedNamesAttempt,
        Planted::ClosedForgetsFirst,
        Planted::FactsNotAsked,
        Planted::GapsPassedOver,
        Planted::OwnerNotCompared,
        Planted::RanOutIsGone,
        Planted::TakenFromNotCarried,
        Planted::SettledBeforeClosing,
        Planted::SuccessorNotAsked,
        Planted::LostClosingReplayed,
        Planted::LockDoesNotReach,
        Planted::WritesOutliveTheirProcess,
        Planted::ClosesUnfenced,
        Planted::ClosedNamesChain,
        Planted::CheckpointReadOnce,
    ];

    /// Whether it takes so many steps in one order that no seed need find it: `tests/exhaustive.rs` does.
    pub fn is_for_exploration(self) -> bool {
        use Planted::{
            ClosesUnfenced, LockDoesNotReach, ReadBeforeClaim, SettledBeforeClosing, WritesOutliveTheirProcess,
        };
        matches!(
            self,
            ClosesUnfenced | LockDoesNotReach | ReadBeforeClaim | SettledBeforeClosing | WritesOutliveTheirProcess
        )
    }

    /// Whether it does harm only when files of a checkpoint are lost.
    pub fn is_about_lost_files(self) -> bool {
        matches!(
            self,
            Planted::FactsNotAsked | Planted::GapsPassedOver | Planted::LostClosingReplayed
        )
    }
}
