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
    /// Only an owner whose lease ran out leaves something to settle.
    OnlyRanOutOwes,
    /// Who begins a stream has nothing to settle: nobody has begun it at the same time.
    FreshOwesNothing,
    /// An owner that gave its lease back leaves nothing to settle.
    GivenBackOwesNothing,
    /// An owner that is known to be dead leaves nothing to settle.
    DeadOwesNothing,
    /// An owner whose lease ran out leaves nothing to settle.
    RanOutOwesNothing,
    /// Who opens a stream again, and is still named, has nothing to settle once more.
    OpenedAgainOwesNothing,
    /// A process that slept calls the checkpoint of its successor broken.
    SuccessorNotAsked,
    /// A process that slept asks `owner.json` for its successor, and not bronze.
    OnlyOwnerAsked,
    /// The fence is not compared between the reading of an open batch and its closing.
    ClosesUnfenced,
    /// A closed batch has the chain of the plan that it closes.
    ClosedNamesChain,
    /// A checkpoint to which the process before may still write is read once.
    CheckpointReadOnce,
}

impl Planted {
    /// Each of them.
    pub const ALL: [Planted; 23] = [
        Planted::NoFreshTxn,
        Planted::FactsNotCaughtUp,
        Planted::GroupNotRebuilt,
        Planted::FenceNotCompared,
        Planted::AttemptWithoutClaim,
        Planted::TakeOverReplays,
        Planted::VerdictBeforeFacts,
        Planted::AnyAttemptsQuarantine,
        Planted::ClosedNamesAttempt,
        Planted::ClosedForgetsFirst,
        Planted::FactsNotAsked,
        Planted::GapsPassedOver,
        Planted::OnlyRanOutOwes,
        Planted::FreshOwesNothing,
        Planted::GivenBackOwesNothing,
        Planted::DeadOwesNothing,
        Planted::RanOutOwesNothing,
        Planted::OpenedAgainOwesNothing,
        Planted::SuccessorNotAsked,
        Planted::OnlyOwnerAsked,
        Planted::ClosesUnfenced,
        Planted::ClosedNamesChain,
        Planted::CheckpointReadOnce,
    ];

    /// Whether it takes so many steps in one order that no seed need find it: `tests/exhaustive.rs` does.
    pub fn is_for_exploration(self) -> bool {
        use Planted::{
            ClosesUnfenced, DeadOwesNothing, FreshOwesNothing, GivenBackOwesNothing, OnlyOwnerAsked, OnlyRanOutOwes,
            OpenedAgainOwesNothing,
        };
        matches!(
            self,
            ClosesUnfenced
                | DeadOwesNothing
                | FreshOwesNothing
                | GivenBackOwesNothing
                | OnlyOwnerAsked
                | OnlyRanOutOwes
                | OpenedAgainOwesNothing
        )
    }

    /// Whether it does harm only when files of a checkpoint are lost.
    pub fn is_about_lost_files(self) -> bool {
        matches!(self, Planted::FactsNotAsked | Planted::GapsPassedOver)
    }
}
