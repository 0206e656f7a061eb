//! `cdc.lsn_time_mapping`: when commits were made, in UTC, and whether the server's history is the one that was read.

use tiberius::Query;

use super::ask::{self, Asker};
use super::error::SourceError;
use crate::batch::CommitTimes;
use crate::clock::{Clock, Instants, Repeated, RepeatedHour};
use crate::identity::CaptureInstance;
use crate::lsn::{Lsn, Offset, UtcMicros};

const DOING: &str = "asking when commits were made";

/// Falls of the clock that are smaller are no second pass: commits do not end quite in the order of their LSNs, and clocks
/// are set.
const SMALLEST_FALL_SECONDS: i32 = 60;

/// A `datetime` is a multiple of a three-hundredth of a second, and may be that much later than the clock.
const ROUNDED_UP_MICROS: i64 = 10_000;

/// Commits and their times on the server's clock, in order: the closed range from `from` to `to`, at most `max`.
pub(super) async fn local_times(
    asker: &mut Asker,
    from: Lsn,
    to: Lsn,
    max: Option<u32>,
) -> Result<Vec<(Lsn, i64)>, SourceError> {
    let mut question = Query::new(
        "SELECT TOP (@P1) [start_lsn], [tran_end_time] FROM [cdc].[lsn_time_mapping] \
         WHERE [start_lsn] >= @P2 AND [start_lsn] <= @P3 ORDER BY [start_lsn]",
    );
    question.bind(max.map_or(i64::MAX, i64::from));
    question.bind(from.0.to_vec());
    question.bind(to.0.to_vec());
    let rows = asker.bound(question, DOING).await?;
    rows.iter().map(commit).collect()
}

fn commit(row: &tiberius::Row) -> Result<(Lsn, i64), SourceError> {
    let missing = |what: &str| SourceError::Unexpected {
        doing: DOING.to_owned(),
        reason: format!("a commit without {what}"),
    };
    let lsn = ask::lsn(row, 0, DOING)?.ok_or_else(|| missing("an LSN"))?;
    let local = ask::local_micros(row, 1, DOING)?.ok_or_else(|| missing("a time"))?;
    Ok((lsn, local))
}

/// Where the second passes of repeated hours begin that these commits lie in. Asks nothing on all other days of the year.
pub(super) async fn repeated(asker: &mut Asker, clock: Clock, commits: &[(Lsn, i64)]) -> Result<Repeated, SourceError> {
    let mut repeated = Repeated::default();
    for (_, local) in commits {
        if let Instants::Two { hour, .. } = clock.instants(*local)
            && !repeated.knows(hour)
        {
            let from = second_pass(asker, hour).await?;
            repeated.note(hour, from);
        }
    }
    Ok(repeated)
}

/// The first commit of an hour's second pass, by the largest fall of local time in it. `None`: it never fell, or what came
/// after the fall would not have happened yet in a second pass, so that the clock was set back in the first.
pub(super) async fn second_pass(asker: &mut Asker, hour: RepeatedHour) -> Result<Option<Lsn>, SourceError> {
    let mut question = Query::new(
        "SELECT TOP (1) f.[start_lsn] FROM (SELECT m.[start_lsn], \
         DATEDIFF(second, m.[tran_end_time], LAG(m.[tran_end_time]) OVER (ORDER BY m.[start_lsn])) AS fall \
         FROM [cdc].[lsn_time_mapping] AS m WHERE m.[tran_end_time] >= @P1 AND m.[tran_end_time] < @P2) AS f \
         WHERE f.fall > @P3 ORDER BY f.fall DESC, f.[start_lsn]",
    );
    question.bind(without_zone(hour.from_local));
    question.bind(without_zone(hour.to_local));
    question.bind(SMALLEST_FALL_SECONDS);
    let fell = match asker.bound(question, DOING).await?.first() {
        Some(row) => ask::lsn(row, 0, DOING)?,
        None => None,
    };
    let Some(from) = fell else {
        return Ok(None);
    };
    let mut question = Query::new(
        "SELECT MAX([tran_end_time]), SYSUTCDATETIME() FROM [cdc].[lsn_time_mapping] \
         WHERE [start_lsn] >= @P1 AND [tran_end_time] < @P2",
    );
    question.bind(from.0.to_vec());
    question.bind(without_zone(hour.to_local));
    let rows = asker.bound(question, DOING).await?;
    let (latest, now) = match rows.first() {
        Some(row) => (ask::local_micros(row, 0, DOING)?, ask::local_micros(row, 1, DOING)?),
        None => (None, None),
    };
    let has_happened = latest.zip(now).is_some_and(|(latest, now)| {
        let in_second_pass = hour.change.0 + (latest - hour.from_local);
        in_second_pass <= now + ROUNDED_UP_MICROS
    });
    Ok(has_happened.then_some(from))
}

fn without_zone(micros: i64) -> chrono::NaiveDateTime {
    chrono::DateTime::from_timestamp_micros(micros)
        .unwrap_or_default()
        .naive_utc()
}

/// The times of commits in UTC; `after` is the position before them.
pub(super) fn in_utc(
    commits: Vec<(Lsn, i64)>,
    clock: Clock,
    repeated: &Repeated,
    after: Option<Offset>,
) -> CommitTimes {
    CommitTimes::new(commits, clock, repeated, after.map(|after| after.commit_ts))
}

/// Whether the server's history has the position: a database that was restored or made anew may have passed its LSN
/// meanwhile, with other commits. A commit at the position has its time; a commit that is missing, though older ones are
/// there, was never in this history.
pub async fn check_history(
    asker: &mut Asker,
    instance: &CaptureInstance,
    position: Offset,
    clock: Option<Clock>,
) -> Result<(), SourceError> {
    let mut question = Query::new(
        "SELECT (SELECT MIN([start_lsn]) FROM [cdc].[lsn_time_mapping]), \
         (SELECT [tran_end_time] FROM [cdc].[lsn_time_mapping] WHERE [start_lsn] = @P1), \
         DATEPART(TZOFFSET, SYSDATETIMEOFFSET()), sys.fn_cdc_get_max_lsn()",
    );
    question.bind(position.lsn.0.to_vec());
    let rows = asker.bound(question, DOING).await?;
    let Some(row) = rows.first() else {
        return Ok(());
    };
    // A copy that lags does not have the commit yet, and is no other history.
    if let Some(max_lsn) = ask::lsn(row, 3, DOING)?.filter(|max_lsn| *max_lsn < position.lsn) {
        return Err(SourceError::WentBack {
            capture_instance: instance.clone(),
            max_lsn,
            position: position.lsn,
        });
    }
    let offset: i32 = row.try_get(2).map_err(|e| ask::unexpected(e, DOING))?.unwrap_or(0);
    let clock = clock.unwrap_or(Clock::Fixed(offset));
    let known = match (ask::lsn(row, 0, DOING)?, ask::local_micros(row, 1, DOING)?) {
        // Where the clock went back, a position has the time of an earlier commit. A commit made anew is later than both.
        (_, Some(local)) => clock.earliest(local) <= position.commit_ts || same_instant(local, position.commit_ts),
        (Some(oldest), None) => oldest > position.lsn,
        (None, None) => true,
    };
    if known {
        return Ok(());
    }
    Err(SourceError::OtherHistory {
        capture_instance: instance.clone(),
        end: position.lsn,
    })
}

/// Whether a local time is the instant that a commit was given earlier. The offset may have been another one then, and
/// offsets are whole quarters of an hour; a commit after the server's clock stepped back was given a later time.
fn same_instant(local_micros: i64, commit_ts: UtcMicros) -> bool {
    const QUARTER: i64 = 15 * 60 * 1_000_000;
    const STEP_BACK: i64 = 5 * 1_000_000;
    let apart = (local_micros - commit_ts.0).rem_euclid(QUARTER);
    apart == 0 || apart >= QUARTER - STEP_BACK
}

/// Whether no commit of any table lies between a position and what is left of a table. The mapping has a row for each commit
/// and loses the oldest first, so it tells as long as it has the position's own.
pub async fn is_nothing_between(asker: &mut Asker, position: Lsn, min_lsn: Lsn) -> Result<bool, SourceError> {
    let mut question = Query::new(
        "SELECT TOP (2) [start_lsn], sys.fn_cdc_get_max_lsn() FROM [cdc].[lsn_time_mapping] \
         WHERE [start_lsn] >= @P1 AND [start_lsn] < @P2 ORDER BY [start_lsn]",
    );
    question.bind(position.0.to_vec());
    question.bind(min_lsn.0.to_vec());
    let rows = asker.bound(question, DOING).await?;
    match rows.as_slice() {
        // A copy that lags has not got there.
        [only] => Ok(ask::lsn(only, 0, DOING)? == Some(position) && ask::lsn(only, 1, DOING)? >= Some(min_lsn)),
        _ => Ok(false),
    }
}

/// Where a stream is that goes on without what was cleaned up before `min_lsn`: the last commit before it that the server
/// still knows, or the LSN before it, and the time of what is left first.
pub async fn skip_to(
    asker: &mut Asker,
    min_lsn: Lsn,
    clock: Clock,
    after: Option<Offset>,
) -> Result<Skipped, SourceError> {
    let mut question = Query::new(
        "SELECT TOP (1) [start_lsn], [tran_end_time] FROM [cdc].[lsn_time_mapping] \
         WHERE [start_lsn] < @P1 ORDER BY [start_lsn] DESC",
    );
    question.bind(min_lsn.0.to_vec());
    let before = asker.bound(question, DOING).await?.first().map(commit).transpose()?;
    let next = local_times(asker, min_lsn, Lsn::MAX, Some(1)).await?;
    let (lsn, local) = match (before, next.first()) {
        (Some(before), _) => before,
        (None, Some((_, local))) => (min_lsn.previous(), *local),
        (None, None) => {
            return Err(SourceError::Unexpected {
                doing: DOING.to_owned(),
                reason: "no commit is left".to_owned(),
            });
        }
    };
    let utc = |commits: Vec<(Lsn, i64)>, repeated: &Repeated, after| in_utc(commits, clock, repeated, after).last();
    let repeated_before = repeated(asker, clock, &[(lsn, local)]).await?;
    let end = utc(vec![(lsn, local)], &repeated_before, after).map_or(UtcMicros(0), |(_, at)| at);
    let end = Offset { lsn, commit_ts: end };
    if after.is_some_and(|after| end.lsn < after.lsn) {
        return Err(SourceError::Broken {
            doing: DOING.to_owned(),
            reason: "another server answers, which does not know the position".to_owned(),
        });
    }
    let repeated_next = repeated(asker, clock, &next).await?;
    Ok(Skipped {
        end,
        next_ts: utc(next, &repeated_next, Some(end)).map(|(_, at)| at),
    })
}

/// Where a stream goes on after a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skipped {
    /// The position after the gap.
    pub end: Offset,
    /// The time of the first commit after it.
    pub next_ts: Option<UtcMicros>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_the_same_whatever_the_offset_was() {
        let at = UtcMicros(1_700_000_000_123_000);
        for (apart_ms, same) in [
            (0, true),
            (3_600_000, true),
            (-5_400_000, true),
            (-2, true),
            (-6_000, false),
            (3, false),
            (2_160, false),
        ] {
            assert_eq!(same_instant(at.0 + apart_ms * 1000, at), same, "{apart_ms}");
        }
    }
}
