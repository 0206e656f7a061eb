//! Whether a table is still what it was when its stream opened: its instances, its columns, and what DDL there was. Asked
//! before each batch is planned, after `max_lsn`: an instance that begins at or below that LSN is then seen, because its
//! start is known as soon as capture has reached it.

use tiberius::Row;

use super::ask::{self, Asker};
use super::error::SourceError;
use super::listing;
use super::quote;
use super::redact;
use super::table::{CapturedColumn, SourceInstance, SourceTable};
use crate::clock::Clock;
use crate::error::{Classify as _, ErrorKind};
use crate::identity::CaptureInstance;
use crate::lsn::Lsn;

const DOING: &str = "looking whether a table changed";

/// What a look found.
#[derive(Debug, Clone)]
pub struct TableLook {
    /// The table now.
    pub table: SourceTable,
    /// What the DDL history has of it, oldest first.
    pub ddl: Vec<Ddl>,
}

/// A DDL statement that changed the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ddl {
    /// Where it stands in the log. No commit has this LSN.
    pub lsn: Lsn,
    /// When it ran, in microseconds since 1970 on the server's clock.
    pub local_micros: Option<i64>,
    /// Its text, with the literals left out: a default can be a value of a row.
    pub statement: String,
    /// It changed the type of a captured column, and the change table with it.
    pub changed_a_type: bool,
}

/// Looks at a table that was opened as `known`, on a server that has at least the commits up to `max_lsn`: a copy that lags does
/// not know of an instance yet. `clock` is the server's, where its zone is known.
pub async fn look(
    asker: &mut Asker,
    known: &SourceTable,
    max_lsn: Lsn,
    clock: Option<Clock>,
) -> Result<TableLook, SourceError> {
    let begins = known.begins();
    let before = listing::Known { clock, begins: &begins };
    let sets = match asker.batch(&question(known), DOING).await {
        Ok(sets) => sets,
        Err(error) if error.kind() == ErrorKind::Retryable => return Err(error),
        // An instance that was disabled meanwhile fails the question for both.
        Err(error) => {
            let instances = from_first_known(
                listing::instances(asker, &known.schema, &known.table, before).await?,
                known,
            );
            let names = |instances: &[SourceInstance]| instances.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
            return match names(&instances) == names(&known.instances) {
                true => Err(error),
                false => Ok(TableLook {
                    table: SourceTable {
                        instances,
                        ..known.clone()
                    },
                    ddl: Vec::new(),
                }),
            };
        }
    };
    // The driver loses empty result sets between others, so each row says by its columns and its instance what it is about.
    let rows: Vec<Row> = sets.into_iter().flatten().collect();
    let newest = match rows.iter().find(|row| has(row, "max_lsn")) {
        Some(row) => ask::lsn(row, 0, DOING)?,
        None => None,
    };
    if newest < Some(max_lsn) {
        return Err(SourceError::Broken {
            doing: DOING.to_owned(),
            reason: "another server answers, whose max_lsn is lower".to_owned(),
        });
    }
    let of = |column: &'static str| rows.iter().filter(move |row| has(row, column));
    let mut instances = from_first_known(listing::in_order(of("create_date"), before)?, known);
    for instance in &mut instances {
        let columns = of("column_name").filter(|row| is_about(row, &instance.name)).zip(1..);
        instance.columns = columns
            .map(|(row, position)| listing::column(row, position))
            .collect::<Result<Vec<CapturedColumn>, _>>()?;
        listing::note_fates(instance, of("source_column"))?;
    }
    let mut ddl: Vec<Ddl> = Vec::new();
    for row in of("ddl_lsn") {
        let entry = entry(row)?;
        // Both instances have the statements that came after both were made.
        if !ddl.iter().any(|other| other.lsn == entry.lsn) {
            ddl.push(entry);
        }
    }
    ddl.sort_by_key(|entry| entry.lsn);
    Ok(TableLook {
        table: SourceTable {
            instances,
            ..known.clone()
        },
        ddl,
    })
}

fn has(row: &Row, column: &str) -> bool {
    row.columns().iter().any(|known| known.name() == column)
}

fn is_about(row: &Row, instance: &CaptureInstance) -> bool {
    matches!(row.try_get::<&str, _>("capture_instance"), Ok(Some(name)) if name == instance.0)
}

fn question(known: &SourceTable) -> String {
    let mut question = "SELECT sys.fn_cdc_get_max_lsn() AS [max_lsn]; ".to_owned();
    question.push_str(&listing::help(&known.schema, &known.table));
    question.push_str("; ");
    question.push_str(&listing::source_columns(&known.schema, &known.table));
    for instance in &known.instances {
        question.push_str("; ");
        question.push_str(&listing::captured_columns(&instance.name));
        question.push_str("; ");
        question.push_str(&ddl_history(&instance.name));
    }
    question
}

fn ddl_history(instance: &CaptureInstance) -> String {
    format!(
        "EXEC sys.sp_cdc_get_ddl_history @capture_instance = {}",
        quote::literal(&instance.0)
    )
}

/// Without those that a stream which was opened with `known` has behind it.
fn from_first_known(mut instances: Vec<SourceInstance>, known: &SourceTable) -> Vec<SourceInstance> {
    let first = known.instances.first().map(|first| &first.name);
    if let Some(at) = instances.iter().position(|instance| Some(&instance.name) == first) {
        instances.drain(..at);
    }
    instances
}

fn entry(row: &Row) -> Result<Ddl, SourceError> {
    let lsn: Option<&[u8]> = row.try_get("ddl_lsn").map_err(|e| ask::unexpected(e, DOING))?;
    let statement: Option<&str> = row.try_get("ddl_command").map_err(|e| ask::unexpected(e, DOING))?;
    let changed: Option<bool> = row
        .try_get("required_column_update")
        .map_err(|e| ask::unexpected(e, DOING))?;
    let at: Option<chrono::NaiveDateTime> = row.try_get("ddl_time").map_err(|e| ask::unexpected(e, DOING))?;
    Ok(Ddl {
        lsn: lsn.and_then(Lsn::from_bytes).ok_or_else(|| SourceError::Unexpected {
            doing: DOING.to_owned(),
            reason: "DDL without an LSN".to_owned(),
        })?,
        local_micros: at.map(|at| at.and_utc().timestamp_micros()),
        statement: redact::without_literals(statement.unwrap_or_default()),
        changed_a_type: changed == Some(true),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_asks_for_everything() {
        let known = SourceTable {
            schema: "dbo".to_owned(),
            table: "o'brien".to_owned(),
            instances: Vec::new(),
            behind: Vec::new(),
        };
        let question = question(&known);
        assert!(question.contains("@source_name = N'o''brien'"), "{question}");
    }
}
