//! What the change table of an instance records, asked when a table is opened: whether it has `__$command_id`, which bits of
//! the update mask are whose, and what the source table has of its columns: which are computed, and which were dropped.

use super::ask::{self, Asker};
use super::error::SourceError;
use super::listing;
use super::quote;
use super::table::{CapturedColumn, SourceInstance};
use crate::shape::Recorded;

const DOING: &str = "asking what the change table records";

/// Asks, in one batch, and notes the answers in the instance. It takes no more grants
/// than reading does.
pub(super) async fn complete(
    asker: &mut Asker,
    (schema, table): (&str, &str),
    instance: &mut SourceInstance,
) -> Result<(), SourceError> {
    let results = asker.batch(&statement(schema, table, instance), DOING).await?;
    let mut results = results.iter();
    let unexpected = |reason: String| SourceError::Unexpected {
        doing: DOING.to_owned(),
        reason,
    };
    let first = results.next().and_then(|rows| rows.first());
    let first = first.ok_or_else(|| unexpected("no answer".to_owned()))?;
    let length: Option<i16> = first.try_get(0).map_err(|error| ask::unexpected(error, DOING))?;
    instance.has_command_id = length.is_some();
    for (at, column) in instance
        .columns
        .iter_mut()
        .filter(|column| is_masked(column))
        .enumerate()
    {
        let ordinal: Option<i32> = first.try_get(at + 1).map_err(|error| ask::unexpected(error, DOING))?;
        let ordinal = ordinal.and_then(|ordinal| u32::try_from(ordinal).ok());
        column.recorded = match ordinal.filter(|ordinal| *ordinal > 0) {
            Some(ordinal) => Recorded::Changed { ordinal },
            None => return Err(unexpected(format!("no ordinal of column {}", column.name))),
        };
    }
    listing::note_fates(instance, results.next().into_iter().flatten())
}

fn is_masked(column: &CapturedColumn) -> bool {
    matches!(column.recorded, Recorded::Changed { .. })
}

/// Two result sets: a row of the length of `__$command_id` (NULL: there is none) and the ordinals of the columns whose bits of
/// the update mask count, and the source's columns.
fn statement(schema: &str, table: &str, instance: &SourceInstance) -> String {
    let name = &instance.name.0;
    let change_table = quote::literal(&quote::change_table(name));
    let mut answers = vec![format!("COL_LENGTH({change_table}, N'__$command_id')")];
    answers.extend(
        instance
            .columns
            .iter()
            .filter(|column| is_masked(column))
            .map(|column| {
                let (instance, column) = (quote::literal(name), quote::literal(&column.name));
                format!("sys.fn_cdc_get_column_ordinal({instance}, {column})")
            }),
    );
    format!(
        "SELECT {}; {}",
        answers.join(", "),
        listing::source_columns(schema, table)
    )
}
