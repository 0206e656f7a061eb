//! A guest that misbehaves in the way that its configuration names, and the ways to behave well that tests compare
//! with. One component, so that it is built once. Each way is claimed by a test: see `claims`.
//!
//! `{"behave": "<name>"}`, the names being those of [`Behave`] in kebab case; `"bytes"` sets how much `huge-output`
//! returns and `leak-memory` leaks, and with `"on"` only a batch with that text in the column that is read is treated so, and
//! others well. Except where the name says otherwise the plan passes every column and adds one computed column, `made`,
//! of the type that the fault needs; the first text column of the table is read, if there is one.

mod acts;
mod buffers;
#[cfg(not(target_arch = "wasm32"))]
mod claims;
mod plans;
mod state;

use serde::Deserialize;
use sluice_plugin::{ApplyError, Batch, OpenError, Outcome, Plan, Table, Transform};

#[cfg(not(target_arch = "wasm32"))]
pub use claims::Claim;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Behave {
    /// Computes every column as it is.
    Identity,
    /// Behaves well: `made` is a text of no value.
    Well,

    // When opened.
    /// Never comes back from `open`.
    LoopInOpen,
    /// Traps in `open`.
    TrapInOpen,
    /// Answers with a configuration error that quotes the configuration.
    ConfigError,
    /// Passes a column that the table does not have.
    UnknownColumn,
    /// Reads a column that the table does not have.
    UnknownRead,
    /// Names two outputs alike, but for case.
    DuplicateOutputs,
    /// Computes a column named `_start_lsn`.
    FakeStartLsn,
    /// Passes a column under the name `_start_lsn`.
    RenamedToStartLsn,
    /// Names a column as Delta does not allow.
    ForbiddenName,
    /// Computes a decimal of 39 digits.
    DecimalTooWide,
    /// Has no output column at all.
    NoColumns,
    /// Says that a column is made of one that the table does not have.
    UnknownSource,
    /// Reads a column twice.
    ReadTwice,
    /// Has more output columns than any table.
    TooManyOutputs,
    /// Names its column after all that an instance could know of the moment.
    PlanOfTheMoment,

    // When applied.
    /// Executes `unreachable`.
    Trap,
    /// Panics with a message that quotes a value.
    Panic,
    /// Never comes back.
    Loop,
    /// Takes memory until it is refused.
    EatMemory,
    /// Recurses without end.
    Recurse,
    /// Logs without end, then comes back.
    LogFlood,
    /// Asks the host for tags of more NULLs than it could take the answer of.
    KeyedFlood,
    /// Fails the batch with a message that quotes a value.
    ErrorWithSecret,
    /// Fails the batch for a row that there is not.
    ErrorBeyond,
    /// Fails the batch for a column that it computes.
    ErrorInOutput,
    /// Takes a gibibyte at once.
    HugeAllocation,
    /// Traps in the first call that its instance gets.
    TrapOnce,
    /// Traps where the column read has the value `trap`.
    TrapAtWord,
    /// Never gives memory back, then comes back.
    LeakMemory,

    // What comes back.
    /// One value too few.
    ShortColumn,
    /// One value too many.
    LongColumn,
    /// `int` values whose bytes are no multiple of 4.
    OddValues,
    /// A bitmap of booleans that is too short.
    ShortBooleans,
    /// An offset beyond the values.
    OffsetBeyond,
    /// Offsets that fall.
    OffsetsFalling,
    /// A negative offset.
    OffsetNegative,
    /// Offsets that do not start at 0.
    OffsetsNotFromZero,
    /// Values that no offset covers.
    ValuesUncovered,
    /// No offsets for a text column.
    NoOffsets,
    /// Offsets for a column of numbers.
    OffsetsOnNumbers,
    /// Text that is not UTF-8.
    InvalidUtf8,
    /// An offset inside a character.
    SplitCharacter,
    /// A validity bitmap that is too short.
    ShortValidity,
    /// NULL in a column that was announced without.
    NullInNonNull,
    /// A decimal with more digits than announced.
    DecimalTooLarge,
    /// A decimal with more digits than announced, but under a NULL, where nothing counts.
    DecimalTooLargeUnderNull,
    /// A column more than planned.
    TooManyColumns,
    /// A column less than planned.
    TooFewColumns,
    /// More bytes than any cap should allow.
    HugeOutput,
    /// Rejects a row that there is not.
    RejectBeyond,
    /// Rejects a row with a code that quotes a value.
    RejectWithValue,
    /// Rejects a row with a code that is a value, and looks like a code.
    RejectWithPlainValue,
    /// Rejects a row for a column that there is not.
    RejectUnknownColumn,
    /// Rejects a row for a column that it computes.
    RejectInOutput,
    /// Rejects the first row, as it should be done.
    Reject,
    /// Drops the first row of every update but not the second.
    SplitUpdate,
    /// Drops both rows of every update, as it should be done.
    DropUpdates,
    /// A bitmap of dropped rows that is too short.
    ShortDropped,
    /// A bitmap of dropped rows that is too long.
    LongDropped,
    /// A validity bitmap that is too long.
    LongValidity,
    /// `bigint` values where `int` was announced.
    WideNumbers,
    /// A date after year 9999.
    DateBeyond,
    /// A timestamp before year 1.
    TimestampBeyond,
    /// Numbers that are none, each with another payload.
    NanPayloads,
    /// `made` is how often the instance was called before.
    CountCalls,
    /// `made` lists the keys that the host answers for, of many names that a key could have.
    AskForKeys,
    /// Has the host make `made`, as it should be done, and once more.
    Hashed,
    /// Has the host make `made`, and returns values as well.
    HashedAndReturned,
    /// Has the host make `made` with a row too few.
    HashedShort,
    /// Has the host make a column of texts where `int` was announced.
    HashedNumbers,
    /// Has the host make a column with NULL where it was announced without.
    HashedNull,
    /// Has the host make columns beyond those of the plan.
    HashedBeyond,
    /// Rejects the first row, and has the host make `made`, which was announced without NULL, with NULL there.
    HashedAndRejected,
    /// Has the host make one column after the other, of more bytes than may come out.
    HashedFlood,
    /// `made` has the value of the column read inside a longer text.
    Leak,
    /// `made` is the value of the column read.
    LeakWhole,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    behave: Behave,
    #[serde(default = "huge")]
    bytes: usize,
    on: Option<String>,
}

/// The transform.
pub struct BadGuest {
    behave: Behave,
    bytes: usize,
    on: Option<String>,
    /// The column that is read; of a table without text, no name.
    read: String,
}

impl Transform for BadGuest {
    fn open(table: &Table, config: &str) -> Result<(Self, Plan), OpenError> {
        let Config { behave, bytes, on } = sluice_plugin::config::parse(config)?;
        match behave {
            Behave::LoopInOpen => acts::spin(),
            Behave::TrapInOpen => acts::trap(),
            Behave::ConfigError => return Err(OpenError::config("behave", config)),
            _ => {}
        }
        let plan = plans::plan(behave, table);
        let read = plan.reads.first().cloned().unwrap_or_default();
        let guest = Self {
            behave,
            bytes,
            on,
            read,
        };
        Ok((guest, plan))
    }

    fn apply(&mut self, batch: &Batch) -> Result<Outcome, ApplyError> {
        let behave = match &self.on {
            Some(on) if !has(batch, on) => Behave::Well,
            _ => self.behave,
        };
        match behave {
            Behave::Trap => acts::trap(),
            Behave::Panic => acts::panic_with(&first_value(batch)),
            Behave::Loop => acts::spin(),
            Behave::EatMemory => acts::eat_memory(),
            Behave::HugeAllocation => acts::huge_allocation(),
            Behave::TrapOnce => state::trap_once(),
            Behave::TrapAtWord => acts::trap_at_word(batch),
            Behave::LeakMemory => acts::leak_memory(self.bytes),
            Behave::Recurse => acts::recurse(),
            Behave::KeyedFlood => acts::keyed_flood(),
            Behave::LogFlood => acts::flood(&first_value(batch)),
            Behave::ErrorWithSecret => {
                let secret = first_value(batch);
                return Err(ApplyError::new(secret.clone(), secret.clone()).in_column(secret));
            }
            Behave::ErrorBeyond => {
                let mut error = ApplyError::new("bad-row", "");
                error.row = Some(batch.rows + 7);
                return Err(error);
            }
            Behave::ErrorInOutput => return Err(ApplyError::new("bad-row", "").in_column(plans::MADE)),
            Behave::Identity => return Ok(Outcome::of(batch.columns.clone())),
            _ => {}
        }
        Ok(buffers::outcome(behave, batch, self.bytes, &self.read))
    }
}

/// Whether the text column that is read has a value.
fn has(batch: &Batch, wanted: &str) -> bool {
    batch
        .utf8(0)
        .is_ok_and(|values| values.iter().flatten().any(|value| value == wanted))
}

/// The first value of the text column that is read; what a message must not show.
fn first_value(batch: &Batch) -> String {
    let values = batch.utf8(0).ok();
    let first = values.and_then(|values| values.iter().flatten().next());
    first.unwrap_or("no value").to_owned()
}

fn huge() -> usize {
    64 << 20
}

sluice_plugin::export_transform!(BadGuest);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaviours_are_named_in_kebab_case() {
        let config: Config = sluice_plugin::config::parse(r#"{"behave":"null-in-non-null"}"#).unwrap();
        assert_eq!(config.behave, Behave::NullInNonNull);
        assert_eq!(config.bytes, 64 << 20);
        let name = sluice_plugin::config::parse::<Config>(r#"{"behave":"decimal-too-wide"}"#);
        assert_eq!(name.unwrap().behave, Behave::DecimalTooWide);
    }
}
