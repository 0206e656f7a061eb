//! The lake: the only part of sluice that writes Delta tables.
//!
//! # Why a batch is in its table at most once
//! Delta records a transaction id (`txn`) and enforces nothing: a writer may record the same version twice (delta-rs
//! #2580). sluice holds the promise by how it commits ([`commit`]):
//!
//! 1. What a commit consists of is decided against the newest version N of the log, read afresh before every attempt,
//!    transaction ids included. A batch whose id is recorded there is not committed.
//! 2. The entry is then written as version N + 1 and as no other, put-if-absent. The store takes it only if nothing came
//!    between, so what was checked at N still holds. (delta-rs' own loop moves on to a later version after it has lost one,
//!    and its conflict check lets a blind append through; so sluice does not use it.)
//! 3. Whatever is not a plain "written" answer (the version exists, a timeout, a broken connection) is no answer. The log
//!    is read again. If N + 1 is there now, the random token in its `commitInfo` says whether it is ours. If it is not
//!    there, the next attempt has the same number, so of a request that is still on its way and the new one, the store
//!    takes one. A number is given up only when another entry is seen to hold it, and then the earlier request can never
//!    arrive.
//! 4. When the attempts are used up without an answer, the staged files stay and the error says so. The replay of the
//!    batch starts at 1 and finds the transaction id, or does not.
//!
//! A commit of a process that died follows the same rules: its late request competes for one number with its successor.
//!
//! Two processes that run one stream by mistake are told apart in the log as well ([`bronze`]): each claims a fencing
//! number there before it reads, a number that somebody else claimed refuses it, and a batch is taken only on top of the
//! batch that its process knows to be the newest.
//!
//! # Files
//! Files are written whole and brought to the disk before the log names them; on a local path the log's entry, too, is on
//! the disk before it has its name, so a power cut leaves no half entry and takes back no commit that was reported.

mod bronze;
mod columns;
mod commit;
mod compact;
pub(crate) mod durable;
mod encode;
mod error;
mod files;
mod group;
mod kind;
mod log;
mod preview;
mod protocol;
mod staging;
#[cfg(test)]
mod tests;

pub use bronze::{BronzeSpec, BronzeTable, CommitOutcome, CommittedBatch};
pub use columns::{Column, TIMESTAMP_NTZ, delta_type, refused_name};
pub use compact::{Compacted, Compaction, Looked};
// The fuzz target `answer` writes and reads files without a table.
#[doc(hidden)]
pub use encode::{FileEncoder, Layout};
pub use error::LakeError;
pub use preview::preview;
pub use staging::{OMITTED, StagedFiles};

pub(crate) use bronze::txn;
pub(crate) use columns::{Fit, fit};
pub(crate) use commit::{Ended, Entry, Proposal, Propose, commit};
pub(crate) use compact::{are_whole, arrays_of, compact, of_table};
pub(crate) use files::{ActiveFile, ToRewrite, active_files, discard, fold_file, read_all, to_rewrite, write_one};
pub(crate) use group::{Group, Sink};
pub(crate) use kind::Kind;
pub(crate) use log::DeltaLog;
