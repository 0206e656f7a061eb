//! The plans, good and bad.

use sluice_plugin::{ComputedField, DataType, OutputColumn, Plan, Table};

use crate::{Behave, state};

pub(crate) const MADE: &str = "made";

/// More columns than the host takes.
const TOO_MANY: usize = 10_001;

pub(crate) fn plan(behave: Behave, table: &Table) -> Plan {
    let names = || table.fields.iter().map(|field| &field.name);
    if behave == Behave::Identity {
        let computed = table.fields.iter().map(|field| {
            let mut computed = computed(field.data_type, field.nullable);
            computed.sources = vec![field.name.clone()];
            OutputColumn::computed(&field.name, computed)
        });
        return Plan {
            outputs: computed.collect(),
            reads: names().cloned().collect(),
        };
    }
    let is_text = |data_type| data_type == DataType::Utf8;
    let text = table.fields.iter().find(|field| is_text(field.data_type));
    let mut plan = Plan {
        outputs: names().map(|name| OutputColumn::pass(name, name)).collect(),
        reads: text.map(|field| field.name.clone()).into_iter().collect(),
    };
    let (data_type, nullable) = made(behave);
    let mut field = computed(data_type, nullable);
    field.sources.clone_from(&plan.reads);
    if behave == Behave::UnknownSource {
        field.sources = vec!["no such column".to_owned()];
    }
    let name = match behave {
        Behave::FakeStartLsn => "_start_lsn".to_owned(),
        Behave::ForbiddenName => "a;b".to_owned(),
        Behave::PlanOfTheMoment => state::of_the_moment(),
        _ => MADE.to_owned(),
    };
    plan.outputs.push(OutputColumn::computed(&name, field.clone()));
    match behave {
        Behave::UnknownColumn => plan.outputs.push(OutputColumn::pass("x", "no such column")),
        Behave::UnknownRead => plan.reads.push("no such column".to_owned()),
        Behave::DuplicateOutputs => plan.outputs.push(OutputColumn::computed("MADE", field)),
        Behave::RenamedToStartLsn => {
            if let Some(first) = table.fields.first() {
                plan.outputs[0] = OutputColumn::pass("_start_lsn", &first.name);
            }
        }
        Behave::NoColumns => plan.outputs.clear(),
        Behave::ReadTwice => plan.reads.extend(plan.reads.clone()),
        Behave::TooManyOutputs => {
            let columns = names().cycle().enumerate().take(TOO_MANY);
            plan.outputs = columns
                .map(|(n, name)| OutputColumn::pass(&format!("c{n}"), name))
                .collect();
        }
        _ => {}
    }
    plan
}

/// The type of the column `made`, and whether it can hold NULL.
fn made(behave: Behave) -> (DataType, bool) {
    match behave {
        Behave::OddValues | Behave::OffsetsOnNumbers | Behave::NullInNonNull => {
            (DataType::Int32, behave != Behave::NullInNonNull)
        }
        Behave::WideNumbers | Behave::HashedNumbers => (DataType::Int32, true),
        Behave::HashedNull | Behave::HashedAndRejected => (DataType::Utf8, false),
        Behave::NanPayloads => (DataType::Float64, true),
        Behave::DateBeyond => (DataType::Date, true),
        Behave::TimestampBeyond => (DataType::Timestamp, true),
        Behave::ShortBooleans => (DataType::Boolean, true),
        Behave::DecimalTooLarge | Behave::DecimalTooLargeUnderNull => {
            (DataType::Decimal { precision: 5, scale: 2 }, true)
        }
        Behave::DecimalTooWide => (
            DataType::Decimal {
                precision: 39,
                scale: 2,
            },
            true,
        ),
        _ => (DataType::Utf8, true),
    }
}

fn computed(data_type: DataType, nullable: bool) -> ComputedField {
    ComputedField::new(data_type, nullable, Vec::new(), "made by a test guest")
}
