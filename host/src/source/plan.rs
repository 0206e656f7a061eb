//! Which commits the next batch holds, and when they happened.

use std::sync::Arc;

use tiberius::Query;

use super::ask::{self, Asker};
use super::bounds::{self, Wanted};
use super::error::SourceError;
use super::quote;
use crate::batch::CommitTimes;
use crate::identity::CaptureInstance;
use crate::lsn::{Lsn, Offset, UtcMicros};

const DOING: &str = "planning a batch";

/// A closed range of commits that begins and ends on one.
#[derive(Debug, Clone)]
pub struct RangePlan {
    /// The first commit with a change of this table.
    pub first: Lsn,
    /// The last commit, where the stream will be.
    pub end: Offset,
    /// The commits from `first` to `end`.
    pub commit_times: Arc<CommitTimes>,
}

/// Plans the range that begins at `wanted.from`, ends at most at `wanted.to` and holds at most `max_commits` commits from
/// the first one of this table on. `None`: this table has no change in it, and lost none.
pub async fn plan_range(
    asker: &mut Asker,
    instance: &CaptureInstance,
    wanted: Wanted,
    max_commits: u32,
    offset_minutes: i32,
) -> Result<Option<RangePlan>, SourceError> {
    let user = asker.user();
    let first = first_change(asker, instance, wanted)
        .await
        .map_err(|error| error.with_grant(instance, &user))?;
    let Some(first) = first else {
        return Ok(None);
    };
    let mut commits = Query::new(
        "SELECT TOP (@P1) [start_lsn], [tran_end_time] FROM [cdc].[lsn_time_mapping] \
         WHERE [start_lsn] >= @P2 AND [start_lsn] <= @P3 ORDER BY [start_lsn]",
    );
    commits.bind(i64::from(max_commits));
    commits.bind(first.0.to_vec());
    commits.bind(wanted.to.0.to_vec());
    let after = wanted.after.map(|after| after.commit_ts);
    let commit_times = times(asker.bound(commits, DOING).await?, offset_minutes, after)?;
    match commit_times.last() {
        Some((lsn, commit_ts)) => Ok(Some(RangePlan {
            first,
            end: Offset { lsn, commit_ts },
            commit_times: Arc::new(commit_times),
        })),
        // A change row whose commit has no time: cleanup removed it between the two questions.
        None => Err(SourceError::Batch(crate::batch::BatchError::UnknownCommit {
            capture_instance: instance.clone(),
            lsn: first,
        })),
    }
}

/// The first change of this table in the range. What is left is asked about after the rows, in one request: an answer of
/// "none" before it is then no work of cleanup, and not of a copy that lags.
async fn first_change(
    asker: &mut Asker,
    instance: &CaptureInstance,
    wanted: Wanted,
) -> Result<Option<Lsn>, SourceError> {
    let mut question = Query::new(format!(
        "SELECT MIN([__$start_lsn]) FROM {} WHERE [__$start_lsn] >= @P1 AND [__$start_lsn] <= @P2; {}",
        quote::change_table(&instance.0),
        bounds::statement(instance)
    ));
    question.bind(wanted.from.0.to_vec());
    question.bind(wanted.to.0.to_vec());
    let sets = asker.bound_sets(question, DOING).await?;
    let [first, left] = sets.as_slice() else {
        return Err(SourceError::Unexpected {
            doing: DOING.to_owned(),
            reason: format!("{} result sets", sets.len()),
        });
    };
    wanted.check(instance, bounds::of_rows(left)?)?;
    match first.first() {
        Some(row) => ask::lsn(row, 0, DOING),
        None => Ok(None),
    }
}

/// The commit times of a range that was planned earlier: the same that the plan had. A batch's end is a commit, so a
/// mapping without it has lost it, or is another server's.
pub async fn replay_times(
    asker: &mut Asker,
    instance: &CaptureInstance,
    wanted: Wanted,
    offset_minutes: i32,
) -> Result<Arc<CommitTimes>, SourceError> {
    let mut commits = Query::new(
        "SELECT [start_lsn], [tran_end_time] FROM [cdc].[lsn_time_mapping] \
         WHERE [start_lsn] >= @P1 AND [start_lsn] <= @P2 ORDER BY [start_lsn]",
    );
    commits.bind(wanted.from.0.to_vec());
    commits.bind(wanted.to.0.to_vec());
    let after = wanted.after.map(|after| after.commit_ts);
    let times = times(asker.bound(commits, DOING).await?, offset_minutes, after)?;
    if times.last().is_some_and(|(lsn, _)| lsn == wanted.to) {
        return Ok(Arc::new(times));
    }
    wanted.check(instance, bounds::bounds(asker, instance).await?)?;
    Err(SourceError::OtherHistory {
        capture_instance: instance.clone(),
        end: wanted.to,
    })
}

/// Whether the server's history has the position: a database that was restored or made anew may have passed its LSN
/// meanwhile, with other commits. A commit at the position has its time; a commit that is missing, though older ones are
/// there, was never in this history.
pub async fn check_history(asker: &mut Asker, instance: &CaptureInstance, position: Offset) -> Result<(), SourceError> {
    let mut question = Query::new(
        "SELECT (SELECT MIN([start_lsn]) FROM [cdc].[lsn_time_mapping]), \
         (SELECT [tran_end_time] FROM [cdc].[lsn_time_mapping] WHERE [start_lsn] = @P1), \
         DATEPART(TZOFFSET, SYSDATETIMEOFFSET())",
    );
    question.bind(position.lsn.0.to_vec());
    let rows = asker.bound(question, DOING).await?;
    let Some(row) = rows.first() else {
        return Ok(());
    };
    let offset: i32 = row.try_get(2).map_err(|e| ask::unexpected(e, DOING))?.unwrap_or(0);
    let known = match (ask::lsn(row, 0, DOING)?, ask::local_micros(row, 1, DOING)?) {
        // Where the clock went back, a position has the time of an earlier commit. A commit made anew is later than both.
        (_, Some(local)) => {
            local - i64::from(offset) * 60_000_000 <= position.commit_ts.0 || same_instant(local, position.commit_ts)
        }
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

fn times(rows: Vec<tiberius::Row>, offset_minutes: i32, after: Option<UtcMicros>) -> Result<CommitTimes, SourceError> {
    let rows = rows
        .iter()
        .map(|row| {
            let lsn = ask::lsn(row, 0, DOING)?.ok_or_else(|| SourceError::Unexpected {
                doing: DOING.to_owned(),
                reason: "a commit without an LSN".to_owned(),
            })?;
            let local = ask::local_micros(row, 1, DOING)?.ok_or_else(|| SourceError::Unexpected {
                doing: DOING.to_owned(),
                reason: "a commit without a time".to_owned(),
            })?;
            Ok((lsn, local))
        })
        .collect::<Result<Vec<(Lsn, i64)>, SourceError>>()?;
    Ok(CommitTimes::new(rows, offset_minutes, after))
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
