//! Which test holds the host to what about each behaviour. The match has no rest, so a behaviour that nobody claims does
//! not compile; `tests/guests/lib/tests/claims.rs` looks whether the tests are there and use it.

use serde::de::value::{Error, StrDeserializer};
use serde::de::{Deserialize, Deserializer, IntoDeserializer, Visitor};

use crate::Behave;

/// A test that uses a behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its file, from the root of the repository.
    pub file: &'static str,
    /// The name of its function.
    pub test: &'static str,
}

const CHAINS: &str = "host/src/transform/tests/chains.rs";
const COMPONENTS: &str = "host/src/transform/tests/components.rs";
const ISOLATION: &str = "host/src/transform/tests/isolation.rs";
const MISBEHAVIOUR: &str = "host/src/transform/tests/misbehaviour.rs";
const QUARANTINE: &str = "host/src/transform/tests/quarantine.rs";
const REFUSALS: &str = "host/src/transform/tests/refusals.rs";
const WRITTEN: &str = "tests/it/components.rs";

impl Behave {
    /// All names, as a configuration has them, with the test that claims each.
    pub fn claims() -> Vec<(&'static str, Claim)> {
        let named = |name: &'static str| {
            let name: StrDeserializer<'_, Error> = name.into_deserializer();
            Behave::deserialize(name).ok()
        };
        names()
            .iter()
            .filter_map(|name| Some((*name, named(name)?.claim())))
            .collect()
    }

    const fn claim(self) -> Claim {
        let (file, test) = match self {
            Behave::Identity => (CHAINS, "every_type_crosses_and_comes_back_as_it_was"),
            Behave::Well => (CHAINS, "an_empty_chain_and_an_empty_chunk_pass"),

            Behave::LoopInOpen => (REFUSALS, "a_deadline_ends_the_call_by_the_clock_and_is_not_tried_again"),
            Behave::ConfigError => (COMPONENTS, "the_configuration_is_answered_in_words"),
            Behave::UnknownColumn
            | Behave::UnknownRead
            | Behave::DuplicateOutputs
            | Behave::FakeStartLsn
            | Behave::RenamedToStartLsn
            | Behave::ForbiddenName
            | Behave::DecimalTooWide
            | Behave::NoColumns => (REFUSALS, "answers_that_are_none_are_refused"),
            Behave::UnknownSource | Behave::ReadTwice | Behave::TooManyOutputs => {
                (MISBEHAVIOUR, "plans_of_what_is_not_there_or_too_much_are_refused")
            }
            Behave::HashedAndRejected => (MISBEHAVIOUR, "a_column_that_the_host_makes_goes_with_rejected_rows"),
            Behave::Hashed
            | Behave::HashedAndReturned
            | Behave::HashedShort
            | Behave::HashedNumbers
            | Behave::HashedNull
            | Behave::HashedBeyond
            | Behave::HashedFlood => (MISBEHAVIOUR, "a_column_that_the_host_makes_is_checked_as_any_other"),
            Behave::PlanOfTheMoment => (MISBEHAVIOUR, "a_plan_cannot_depend_on_the_moment"),

            Behave::Trap
            | Behave::TrapInOpen
            | Behave::Panic
            | Behave::EatMemory
            | Behave::Recurse
            | Behave::KeyedFlood => (REFUSALS, "traps_and_limits_have_names"),
            Behave::Loop => (ISOLATION, "a_spinning_guest_holds_up_nothing_but_its_own_call"),
            Behave::LogFlood => (
                WRITTEN,
                "what_a_component_says_is_logged_only_when_it_is_asked_for_by_name",
            ),
            Behave::ErrorWithSecret => (
                REFUSALS,
                "rejects_and_refusals_name_the_row_and_show_no_word_of_the_guest",
            ),
            Behave::ErrorBeyond => (
                MISBEHAVIOUR,
                "a_code_that_is_a_value_and_a_row_that_is_none_are_withheld",
            ),
            Behave::ErrorInOutput | Behave::RejectInOutput => (
                MISBEHAVIOUR,
                "an_error_may_name_a_column_of_the_plan_and_a_reject_only_one_of_the_table",
            ),
            Behave::HugeAllocation => (MISBEHAVIOUR, "one_huge_allocation_meets_the_memory_limit"),
            Behave::TrapOnce => (ISOLATION, "a_chunk_is_tried_again_on_a_fresh_store"),
            Behave::TrapAtWord => (ISOLATION, "a_trapped_instance_is_never_used_again"),
            Behave::LeakMemory => (ISOLATION, "memory_and_stack_have_limits_and_the_hosts_stay_flat"),

            Behave::ShortColumn
            | Behave::LongColumn
            | Behave::OddValues
            | Behave::ShortBooleans
            | Behave::OffsetBeyond
            | Behave::OffsetsFalling
            | Behave::OffsetNegative
            | Behave::OffsetsNotFromZero
            | Behave::ValuesUncovered
            | Behave::NoOffsets
            | Behave::OffsetsOnNumbers
            | Behave::InvalidUtf8
            | Behave::SplitCharacter
            | Behave::ShortValidity
            | Behave::NullInNonNull
            | Behave::DecimalTooLarge
            | Behave::DecimalTooLargeUnderNull
            | Behave::TooManyColumns
            | Behave::TooFewColumns
            | Behave::RejectBeyond
            | Behave::ShortDropped => (REFUSALS, "answers_that_are_none_are_refused"),
            Behave::SplitUpdate => (
                QUARANTINE,
                "an_update_that_crosses_a_filter_becomes_a_delete_or_an_insert",
            ),
            Behave::LongDropped
            | Behave::LongValidity
            | Behave::WideNumbers
            | Behave::DateBeyond
            | Behave::TimestampBeyond => (MISBEHAVIOUR, "more_than_was_planned_is_refused"),
            Behave::HugeOutput => (REFUSALS, "traps_and_limits_have_names"),
            Behave::RejectWithValue | Behave::RejectUnknownColumn => (
                REFUSALS,
                "rejects_and_refusals_name_the_row_and_show_no_word_of_the_guest",
            ),
            Behave::RejectWithPlainValue => (
                MISBEHAVIOUR,
                "a_code_that_is_a_value_and_a_row_that_is_none_are_withheld",
            ),
            Behave::Reject => (REFUSALS, "rows_are_counted_in_the_chunk_as_it_was_read"),
            Behave::DropUpdates => (CHAINS, "filters_take_whole_rows_with_their_metadata"),
            Behave::NanPayloads => (MISBEHAVIOUR, "numbers_that_are_none_are_the_same_everywhere"),
            Behave::CountCalls => (
                ISOLATION,
                "two_tables_with_the_same_component_never_see_each_others_state",
            ),
            Behave::AskForKeys => (MISBEHAVIOUR, "keys_that_are_not_granted_do_not_exist"),
            Behave::Leak | Behave::LeakWhole => {
                (CHAINS, "a_raw_value_in_the_output_fails_the_batch_without_being_shown")
            }
        };
        Claim { file, test }
    }
}

/// The names that [`Behave`] is read from: its derived reader hands them to whoever it reads.
fn names() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    let _ = Behave::deserialize(Listening(&mut names));
    names
}

struct Listening<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Listening<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(serde::de::Error::custom("only an enum is listened to"))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = variants;
        Err(serde::de::Error::custom(name))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_claim() {
        let claims = Behave::claims();
        assert_eq!(claims.len(), names().len());
        assert_eq!(claims[0].0, "identity");
        assert!(claims.iter().any(|(name, _)| *name == "leak-whole"), "the last one");
    }
}
