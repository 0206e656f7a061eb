//! The questions about capture instances and their columns, and how the answers are read.

use tiberius::Row;

use super::ask::{self, Asker};
use super::error::SourceError;
use super::quote;
use super::table::{CapturedColumn, Fate, SourceInstance};
use super::types::DeclaredType;
use crate::checkpoint::Begin;
use crate::clock::{Clock, Instants};
use crate::identity::CaptureInstance;
use crate::lsn::Lsn;
use crate::shape::Recorded;

pub(super) const DOING: &str = "reading the capture instances of a table";

/// Asks for the instances of a table, in the order in which they take over; empty: this login sees none. Without columns.
pub(super) async fn instances(
    asker: &mut Asker,
    schema: &str,
    table: &str,
    known: Known<'_>,
) -> Result<Vec<SourceInstance>, SourceError> {
    match asker.batch(&help(schema, table), DOING).await {
        Ok(sets) => in_order(sets.iter().flatten(), known),
        Err(SourceError::Server { number, .. }) if number == NO_ACCESS => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// "Object does not exist or access is denied."
const NO_ACCESS: u32 = 22981;

/// The question about the instances of a table.
pub(super) fn help(schema: &str, table: &str) -> String {
    format!(
        "EXEC sys.sp_cdc_help_change_data_capture @source_schema = {}, @source_name = {}",
        quote::literal(schema),
        quote::literal(table)
    )
}

/// All instances that this login sees.
pub(super) async fn list(asker: &mut Asker) -> Result<Vec<Listed>, SourceError> {
    let sets = asker.batch("EXEC sys.sp_cdc_help_change_data_capture", DOING).await?;
    sets.iter().flatten().map(Listed::of).collect()
}

/// The instances of one table, sorted.
pub(super) fn in_order<'a>(
    rows: impl Iterator<Item = &'a Row>,
    known: Known<'_>,
) -> Result<Vec<SourceInstance>, SourceError> {
    let mut instances = rows
        .map(|row| Ok(Listed::of(row)?.instance))
        .collect::<Result<Vec<SourceInstance>, SourceError>>()?;
    sort(&mut instances, known);
    Ok(instances)
}

/// What is known before instances are asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    /// The server's clock, where its zone is known.
    pub(super) clock: Option<Clock>,
    /// Where instances began that a stream has seen, in the order in which they take over.
    pub(super) begins: &'a [Begin],
}

/// By how much a server's clock may have been set back between two instances.
const SET_BACK_MICROS: i64 = 2 * 3600 * 1_000_000;

/// Those that the stream knows in the order that it knows. What it has not seen was made since, unless it is older by more than
/// clocks are set back. Of several that it has not seen, by when they were made on the server's clock: `start_lsn` is where an
/// instance began only until cleanup moves it. Of two that were made in an hour that the clock repeats, by where they begin.
pub(super) fn sort(instances: &mut [SourceInstance], known: Known<'_>) {
    instances
        .iter_mut()
        .for_each(|instance| instance.remember(known.begins));
    let seen = |instance: &SourceInstance| known.begins.iter().position(|begin| instance.is(begin));
    let newest_seen = instances
        .iter()
        .filter(|instance| seen(instance).is_some())
        .map(|instance| instance.created)
        .max();
    let rank = |instance: &SourceInstance| match (seen(instance), newest_seen) {
        (Some(at), _) => (1, at),
        (None, Some(newest)) if instance.created < newest - SET_BACK_MICROS => (0, 0),
        (None, _) => (2, 0),
    };
    instances.sort_by_cached_key(|instance| {
        (
            rank(instance),
            instance.created,
            instance.start_lsn.unwrap_or(Lsn::MAX),
            instance.name.0.clone(),
        )
    });
    let repeated_hour = |instance: &SourceInstance| match known.clock?.instants(instance.created) {
        Instants::Two { hour, .. } if seen(instance).is_none() => Some(hour),
        _ => None,
    };
    for at in 1..instances.len() {
        let (before, after) = (&instances[at - 1], &instances[at]);
        let hours = (repeated_hour(before), repeated_hour(after));
        let turned = after
            .start_lsn
            .is_some_and(|start| before.start_lsn.is_some_and(|other| start < other));
        if turned && hours.0.is_some() && hours.0 == hours.1 {
            instances.swap(at - 1, at);
        }
    }
}

/// A row of `sys.sp_cdc_help_change_data_capture`.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) schema: String,
    pub(super) table: String,
    /// The names of the columns that it captures.
    pub(super) columns: Vec<String>,
    pub(super) instance: SourceInstance,
}

impl Listed {
    pub(super) fn of(row: &Row) -> Result<Listed, SourceError> {
        let by_name = |column: &'static str| -> Result<Option<String>, SourceError> {
            let value: Option<&str> = row.try_get(column).map_err(|e| ask::unexpected(e, DOING))?;
            Ok(value.map(str::to_owned))
        };
        let start: Option<&[u8]> = row.try_get("start_lsn").map_err(|e| ask::unexpected(e, DOING))?;
        let created: Option<chrono::NaiveDateTime> =
            row.try_get("create_date").map_err(|e| ask::unexpected(e, DOING))?;
        Ok(Listed {
            schema: by_name("source_schema")?.unwrap_or_default(),
            table: by_name("source_table")?.unwrap_or_default(),
            columns: by_name("captured_column_list")?
                .map(|list| bracketed(&list))
                .unwrap_or_default(),
            instance: SourceInstance {
                name: CaptureInstance(by_name("capture_instance")?.unwrap_or_default()),
                start_lsn: start.and_then(Lsn::from_bytes).filter(|lsn| !lsn.is_zero()),
                columns: Vec::new(),
                has_command_id: true,
                created: created.map_or(0, |at| at.and_utc().timestamp_micros()),
                key: by_name("index_column_list")?
                    .map(|list| bracketed(&list))
                    .unwrap_or_default(),
                role: by_name("role_name")?.filter(|role| !role.is_empty()),
            },
        })
    }
}

/// The question about an instance's columns.
pub(super) fn captured_columns(instance: &CaptureInstance) -> String {
    format!(
        "EXEC sys.sp_cdc_get_captured_columns @capture_instance = {}",
        quote::literal(&instance.0)
    )
}

/// A row of `sys.sp_cdc_get_captured_columns`; `position` is the column's in it, from 1.
pub(super) fn column(row: &Row, position: u32) -> Result<CapturedColumn, SourceError> {
    let name: Option<&str> = row.try_get("column_name").map_err(|e| ask::unexpected(e, DOING))?;
    let name = name.unwrap_or_default().to_owned();
    let data_type: Option<&str> = row.try_get("data_type").map_err(|e| ask::unexpected(e, DOING))?;
    let data_type = data_type.unwrap_or_default().to_ascii_lowercase();
    let precision = number(row, "numeric_precision")?;
    let scale = number(row, "numeric_scale")?;
    let fraction = number(row, "datetime_precision")?;
    let declared = DeclaredType {
        name: &data_type,
        length: number(row, "character_maximum_length")?,
        precision: precision.and_then(|n| u8::try_from(n).ok()),
        scale: scale.or(fraction).and_then(|n| u8::try_from(n).ok()),
    };
    Ok(CapturedColumn {
        id: number(row, "column_id")?.unwrap_or_default(),
        name,
        source_type: declared.text(),
        data_type: declared.arrow(),
        recorded: declared.recorded(position),
        fate: Fate::There,
    })
}

/// The question about the columns that a table has now.
pub(super) fn source_columns(schema: &str, table: &str) -> String {
    let source = format!("{}.{}", quote::name(schema), quote::name(table));
    format!(
        "SELECT column_id, name AS source_column, is_computed FROM sys.columns WHERE object_id = OBJECT_ID({})",
        quote::literal(&source)
    )
}

/// Notes in the columns of an instance what has become of them.
pub(super) fn note_fates<'a>(
    instance: &mut SourceInstance,
    rows: impl Iterator<Item = &'a Row>,
) -> Result<(), SourceError> {
    for column in &mut instance.columns {
        column.fate = Fate::Dropped;
    }
    for row in rows {
        let name: Option<&str> = row.try_get("source_column").map_err(|e| ask::unexpected(e, DOING))?;
        let computed: Option<bool> = row.try_get("is_computed").map_err(|e| ask::unexpected(e, DOING))?;
        let id = number(row, "column_id")?;
        for column in &mut instance.columns {
            if Some(column.id) == id {
                column.fate = Fate::There;
                if computed == Some(true) {
                    column.recorded = Recorded::Never;
                }
            } else if Some(column.name.as_str()) == name && column.fate == Fate::Dropped {
                column.fate = Fate::Replaced;
            }
        }
    }
    Ok(())
}

/// The procedure's columns are `int`, `smallint` or `tinyint`, by version.
fn number(row: &Row, column: &'static str) -> Result<Option<i32>, SourceError> {
    if let Ok(value) = row.try_get::<i32, _>(column) {
        return Ok(value);
    }
    if let Ok(value) = row.try_get::<i16, _>(column) {
        return Ok(value.map(i32::from));
    }
    let value: Option<u8> = row.try_get(column).map_err(|e| ask::unexpected(e, DOING))?;
    Ok(value.map(i32::from))
}

/// The names in `[id], [line]]no]`, in order.
fn bracketed(list: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut characters = list.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '[' {
            continue;
        }
        let mut name = String::new();
        while let Some(character) = characters.next() {
            if character != ']' {
                name.push(character);
            } else if characters.peek() == Some(&']') {
                characters.next();
                name.push(']');
            } else {
                break;
            }
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_ordered_by_when_they_were_made_and_in_a_repeated_hour_by_where_they_begin() {
        let berlin = Clock::Zone(chrono_tz::Europe::Berlin);
        let made = |name: &str, at: &str, start: u8| SourceInstance {
            name: CaptureInstance(name.to_owned()),
            start_lsn: Some(Lsn([0, 0, 0, 1, 0, 0, 0, 0, 0, start])),
            columns: Vec::new(),
            has_command_id: true,
            created: at
                .parse::<chrono::NaiveDateTime>()
                .unwrap()
                .and_utc()
                .timestamp_micros(),
            key: Vec::new(),
            role: None,
        };
        let with = |mut instances: Vec<SourceInstance>, clock: Option<Clock>, begins: &[Begin]| -> Vec<String> {
            sort(&mut instances, Known { clock, begins });
            instances.into_iter().map(|instance| instance.name.0).collect()
        };
        let order = |instances: Vec<SourceInstance>, clock: Option<Clock>| with(instances, clock, &[]);
        // Cleanup has moved the beginning of the older one.
        let cleaned = || {
            vec![
                made("v2", "2026-10-24T12:00:00", 4),
                made("v1", "2026-10-24T11:50:00", 7),
            ]
        };
        assert_eq!(order(cleaned(), Some(berlin)), ["v1", "v2"]);
        // 02:50 of the first pass, and 02:10 of the second.
        let night = || {
            vec![
                made("v1", "2026-10-25T02:50:00", 4),
                made("v2", "2026-10-25T02:10:00", 7),
            ]
        };
        assert_eq!(order(night(), Some(berlin)), ["v1", "v2"]);
        assert_eq!(order(night(), None), ["v2", "v1"]);
        // Cleanup has moved both to one LSN, or one past the other: where they began is known.
        let begins: Vec<Begin> = night()
            .into_iter()
            .map(|instance| Begin {
                capture_instance: instance.name,
                created: instance.created,
                lsn: instance.start_lsn.unwrap(),
            })
            .collect();
        for starts in [[9, 9], [9, 7]] {
            let mut cleaned = night();
            for (instance, start) in cleaned.iter_mut().zip(starts) {
                instance.start_lsn = Some(Lsn([0, 0, 0, 1, 0, 0, 0, 0, 0, start]));
            }
            assert_eq!(with(cleaned, Some(berlin), &begins), ["v1", "v2"]);
        }
    }

    #[test]
    fn an_instance_that_a_stream_has_not_seen_follows_those_that_it_has_whatever_the_clock_says() {
        let begin = |name: &str, created: &str| Begin {
            capture_instance: CaptureInstance(name.to_owned()),
            created: created
                .parse::<chrono::NaiveDateTime>()
                .unwrap()
                .and_utc()
                .timestamp_micros(),
            lsn: Lsn::ZERO,
        };
        let order = |instances: &[(&str, &str)], begins: &[Begin]| -> Vec<String> {
            let mut instances: Vec<SourceInstance> = instances
                .iter()
                .map(|(name, created)| SourceInstance {
                    name: CaptureInstance((*name).to_owned()),
                    start_lsn: None,
                    columns: Vec::new(),
                    has_command_id: true,
                    created: begin(name, created).created,
                    key: Vec::new(),
                    role: None,
                })
                .collect();
            sort(&mut instances, Known { clock: None, begins });
            instances.into_iter().map(|instance| instance.name.0).collect()
        };
        let (v1, v2) = (("v1", "2026-06-01T12:00:00"), ("v2", "2026-06-01T11:59:37"));
        // The clock was set back in between.
        assert_eq!(order(&[v2, v1], &[begin(v1.0, v1.1)]), ["v1", "v2"]);
        assert_eq!(order(&[v2, v1], &[begin(v1.0, v1.1), begin(v2.0, v2.1)]), ["v1", "v2"]);
        // A stream that has never seen either has nothing but the clock.
        assert_eq!(order(&[v1, v2], &[]), ["v2", "v1"]);
        // One that is much older was there before.
        let old = ("v0", "2026-05-01T12:00:00");
        assert_eq!(order(&[v1, old], &[begin(v1.0, v1.1)]), ["v0", "v1"]);
    }

    #[test]
    fn key_columns_are_read_with_their_brackets() {
        assert_eq!(bracketed("[id], [line]]no]"), ["id", "line]no"]);
        assert!(bracketed("").is_empty());
    }
}
