//! Which commits the next batch holds, and when they happened.

use std::sync::Arc;

use tiberius::Query;

use super::ask::{self, Asker};
use super::error::SourceError;
use super::quote;
use crate::batch::CommitTimes;
use crate::identity::CaptureInstance;
use crate::lsn::{Lsn, Offset, UtcMicros};

const DOING: &str = "planning a batch";

/// A closed range of commits, ending on a commit.
#[derive(Debug, Clone)]
pub struct RangePlan {
    /// The last commit, where the stream will be.
    pub end: Offset,
    /// The commits of the range that can have rows of this table.
    pub commit_times: Arc<CommitTimes>,
}

/// The first LSN that the change table still covers. `None`: the server answers zeros, which means an unknown
/// instance, a missing grant, or an instance that capture has not reached.
pub async fn min_lsn(asker: &mut Asker, instance: &CaptureInstance) -> Result<Option<Lsn>, SourceError> {
    let rows = asker
        .query(
            "SELECT sys.fn_cdc_get_min_lsn(@P1)",
            &[&instance.0.as_str()],
            "reading min_lsn",
        )
        .await?;
    match rows.first() {
        Some(row) => Ok(ask::lsn(row, 0, "reading min_lsn")?.filter(|lsn| !lsn.is_zero())),
        None => Ok(None),
    }
}

/// Plans the range that begins at `from`, ends at most at `max_lsn` and holds at most `max_commits` commits from the
/// first one of this table on. `None`: this table has no change in it.
pub async fn plan_range(
    asker: &mut Asker,
    instance: &CaptureInstance,
    from: Lsn,
    max_lsn: Lsn,
    max_commits: u32,
    offset_minutes: i32,
    after: Option<UtcMicros>,
) -> Result<Option<RangePlan>, SourceError> {
    let mut first = Query::new(format!(
        "SELECT MIN([__$start_lsn]) FROM {} WHERE [__$start_lsn] >= @P1 AND [__$start_lsn] <= @P2",
        quote::change_table(&instance.0)
    ));
    first.bind(from.0.to_vec());
    first.bind(max_lsn.0.to_vec());
    let rows = asker.bound(first, DOING).await?;
    let first = match rows.first() {
        Some(row) => ask::lsn(row, 0, DOING)?,
        None => None,
    };
    let Some(first) = first else {
        return Ok(None);
    };
    let mut commits = Query::new(
        "SELECT TOP (@P1) [start_lsn], [tran_end_time] FROM [cdc].[lsn_time_mapping] \
         WHERE [start_lsn] >= @P2 AND [start_lsn] <= @P3 ORDER BY [start_lsn]",
    );
    commits.bind(i64::from(max_commits));
    commits.bind(first.0.to_vec());
    commits.bind(max_lsn.0.to_vec());
    let commit_times = times(asker.bound(commits, DOING).await?, offset_minutes, after)?;
    match commit_times.last() {
        Some((lsn, commit_ts)) => Ok(Some(RangePlan {
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

/// The commit times of a range that was planned earlier.
pub async fn replay_times(
    asker: &mut Asker,
    from: Lsn,
    end: Lsn,
    offset_minutes: i32,
    after: Option<UtcMicros>,
) -> Result<Arc<CommitTimes>, SourceError> {
    let mut commits = Query::new(
        "SELECT [start_lsn], [tran_end_time] FROM [cdc].[lsn_time_mapping] \
         WHERE [start_lsn] >= @P1 AND [start_lsn] <= @P2 ORDER BY [start_lsn]",
    );
    commits.bind(from.0.to_vec());
    commits.bind(end.0.to_vec());
    Ok(Arc::new(times(
        asker.bound(commits, DOING).await?,
        offset_minutes,
        after,
    )?))
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
