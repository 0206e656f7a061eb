//! The zone of the server's clock: what the configuration says, else what the server names.

use super::ask::{self, Asker};
use super::error::SourceError;
use crate::clock::{Clock, Zone};
use crate::lsn::UtcMicros;

const DOING: &str = "asking for the server's time zone";

/// SQL Server 2022, the first version with `CURRENT_TIMEZONE_ID()`.
const FIRST_WITH_ZONE: u32 = 16;
/// Editions that have it whatever version they say: Azure SQL Database, Azure SQL Managed Instance, SQL database in Fabric.
const EDITIONS_WITH_ZONE: [i32; 3] = [5, 8, 12];
/// "… is not a recognized built-in function name."
const UNKNOWN_FUNCTION: u32 = 195;

/// Asks, and holds the answer against the server's present distance from UTC.
pub(super) async fn zone(asker: &mut Asker, version: &str, warnings: &mut Vec<String>) -> Result<Zone, SourceError> {
    let rows = asker
        .query(
            "SELECT CAST(SERVERPROPERTY('EngineEdition') AS int), SYSDATETIMEOFFSET()",
            &[],
            DOING,
        )
        .await?;
    let row = rows.first().ok_or_else(|| SourceError::Unexpected {
        doing: DOING.to_owned(),
        reason: "no row".to_owned(),
    })?;
    let edition: Option<i32> = row.try_get(0).map_err(|e| ask::unexpected(e, DOING))?;
    let (now, offset_minutes) = now(row, 1, DOING)?;
    if let Some(tz) = asker.settings().time_zone {
        let zone = Zone::Configured(tz);
        return match zone.clock(now, offset_minutes) {
            Some(_) => Ok(zone),
            None => Err(SourceError::OtherZone {
                zone: tz.name().to_owned(),
                zone_offset: hours(Clock::Zone(tz).offset_minutes(now)),
                server_offset: hours(offset_minutes),
            }),
        };
    }
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    let may_name =
        major >= Some(FIRST_WITH_ZONE) || edition.is_some_and(|edition| EDITIONS_WITH_ZONE.contains(&edition));
    let named = match may_name {
        true => name(asker).await?,
        false => None,
    };
    let (zone, why) = match named {
        Some(name) => match Zone::parse(&name) {
            Ok(tz) if Zone::Named(tz).clock(now, offset_minutes).is_some() => return Ok(Zone::Named(tz)),
            Ok(tz) => (
                Zone::Unknown,
                format!(
                    "the server says that its zone is {name:?} and its distance from UTC {}, which {} does not have now",
                    hours(offset_minutes),
                    tz.name()
                ),
            ),
            Err(_) => (Zone::Unknown, format!("the server's zone {name:?} is not known here")),
        },
        None => (
            Zone::Unknown,
            format!("SQL Server {version} does not say in which time zone its clock is"),
        ),
    };
    // A server on UTC has no other distance, but nothing says that it is one.
    warnings.push(format!(
        "{why}: commit times are converted by its present distance from UTC ({}), read with every batch. Commits from \
         before a change of the clock, and those of the hour that it repeats, get times that are off by the change; set \
         source.source_time_zone to its zone",
        hours(offset_minutes)
    ));
    Ok(zone)
}

async fn name(asker: &mut Asker) -> Result<Option<String>, SourceError> {
    match asker.query("SELECT CURRENT_TIMEZONE_ID()", &[], DOING).await {
        Ok(rows) => match rows.first() {
            Some(row) => {
                let name: Option<&str> = row.try_get(0).map_err(|e| ask::unexpected(e, DOING))?;
                Ok(name.map(str::to_owned))
            }
            None => Ok(None),
        },
        Err(SourceError::Server { number, .. }) if number == UNKNOWN_FUNCTION => Ok(None),
        Err(error) => Err(error),
    }
}

/// `SYSDATETIMEOFFSET()`: now, and the distance of the clock from UTC in minutes.
pub(super) fn now(row: &tiberius::Row, column: usize, doing: &str) -> Result<(UtcMicros, i32), SourceError> {
    let now: Option<chrono::DateTime<chrono::FixedOffset>> =
        row.try_get(column).map_err(|e| ask::unexpected(e, doing))?;
    let now = now.ok_or_else(|| SourceError::Unexpected {
        doing: doing.to_owned(),
        reason: "no time".to_owned(),
    })?;
    Ok((UtcMicros(now.timestamp_micros()), now.offset().local_minus_utc() / 60))
}

/// `+05:30`.
pub(super) fn hours(offset_minutes: i32) -> String {
    let sign = if offset_minutes < 0 { '-' } else { '+' };
    let minutes = offset_minutes.abs();
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::hours;

    #[test]
    fn distances_are_written_with_their_sign() {
        assert_eq!(hours(330), "+05:30");
        assert_eq!(hours(-420), "-07:00");
        assert_eq!(hours(0), "+00:00");
        assert_eq!(hours(-30), "-00:30");
    }
}
