//! Which commits the next batch holds, through which instances they are read, and in which parts.

use std::num::NonZeroU32;
use std::sync::Arc;

use tiberius::Query;

use super::ask::{self, Asker};
use super::bounds::{self, Bounds, Wanted};
use super::error::SourceError;
use super::mapping;
use super::quote;
use super::table::{Piece, SourceTable};
use crate::batch::CommitTimes;
use crate::clock::{Clock, Repeated};
use crate::identity::CaptureInstance;
use crate::lsn::{Lsn, Offset};

const DOING: &str = "planning a batch";

/// Change rows that a part of a range holds at least: fewer are not worth a connection.
const ROWS_PER_PART: u64 = 50_000;

/// A closed range of commits that begins and ends on one.
#[derive(Debug, Clone)]
pub struct RangePlan {
    /// The first commit with a change of this table.
    pub first: Lsn,
    /// The last commit, where the stream will be.
    pub end: Offset,
    /// What is read, in order: parts that begin and end between commits, each through one instance.
    pub parts: Vec<Piece>,
    /// The commits from `first` to `end`.
    pub commit_times: Arc<CommitTimes>,
    /// Which pass of an hour that the clock repeated they belong to.
    pub repeated: Repeated,
}

/// What limits a batch.
#[derive(Debug, Clone, Copy)]
pub struct RangeLimits {
    /// Commits of the source, from the table's first change on.
    pub commits: u32,
    /// Parts that are read at the same time, at most.
    pub parts: NonZeroU32,
    /// Change rows that a commit is expected to have; `None`: nobody knows.
    pub rows_per_commit: Option<f64>,
}

/// Plans the range that begins at `wanted.from` and ends at most at `wanted.to`. `None`: this table has no change in it, and
/// lost none.
pub async fn plan_range(
    asker: &mut Asker,
    table: &SourceTable,
    wanted: Wanted,
    limits: RangeLimits,
    clock: Clock,
) -> Result<Option<RangePlan>, SourceError> {
    let pieces = table.pieces(wanted.from, wanted.to);
    let Some((instance, first)) = first_change(asker, table, &pieces, wanted).await? else {
        return Ok(None);
    };
    let commits = mapping::local_times(asker, first, wanted.to, Some(limits.commits)).await?;
    let repeated = mapping::repeated(asker, clock, &commits).await?;
    let commit_times = mapping::in_utc(commits, clock, &repeated, wanted.after);
    // A change row whose commit has no time: cleanup removed it between the two questions.
    let Some((lsn, commit_ts)) = commit_times.last() else {
        return Err(SourceError::Batch(crate::batch::BatchError::UnknownCommit {
            capture_instance: table.instances[instance].name.clone(),
            lsn: first,
        }));
    };
    let pieces = table.pieces(first, lsn);
    let parts = match is_worth_parts(limits, commit_times.commits().len()) {
        true => split(&rows_of_commits(asker, table, &pieces).await?, &pieces, limits.parts),
        false => pieces,
    };
    Ok(Some(RangePlan {
        first,
        end: Offset { lsn, commit_ts },
        parts,
        commit_times: Arc::new(commit_times),
        repeated,
    }))
}

/// The first change of this table in the range, and the instance that has it. What is left is asked about after the rows, in
/// one request: an answer of "none" before it is then no work of cleanup, and not of a copy that lags.
async fn first_change(
    asker: &mut Asker,
    table: &SourceTable,
    pieces: &[Piece],
    wanted: Wanted,
) -> Result<Option<(usize, Lsn)>, SourceError> {
    let name = |piece: &Piece| &table.instances[piece.instance].name;
    let firsts: Vec<String> = (0..pieces.len())
        .map(|at| {
            format!(
                "(SELECT MIN([__$start_lsn]) FROM {} WHERE [__$start_lsn] >= @P{} AND [__$start_lsn] <= @P{})",
                quote::change_table(&name(&pieces[at]).0),
                2 * at + 1,
                2 * at + 2
            )
        })
        .collect();
    let left: Vec<String> = pieces.iter().map(|piece| bounds::statement(name(piece))).collect();
    let mut question = Query::new(format!("SELECT {}; {}", firsts.join(", "), left.join("; ")));
    for piece in pieces {
        question.bind(piece.from.0.to_vec());
        question.bind(piece.to.0.to_vec());
    }
    let user = asker.user();
    let sets = asker.bound_sets(question, DOING).await.map_err(|error| {
        pieces
            .iter()
            .fold(error, |error, piece| error.with_grant(name(piece), &user))
    })?;
    if sets.len() != pieces.len() + 1 {
        return Err(SourceError::Unexpected {
            doing: DOING.to_owned(),
            reason: format!("{} result sets", sets.len()),
        });
    }
    let mut found = None;
    for (at, piece) in pieces.iter().enumerate() {
        let left: Bounds = bounds::of_rows(&sets[at + 1])?;
        of_piece(piece, wanted).check(name(piece), left)?;
        if let (None, Some(row)) = (found, sets[0].first()) {
            found = ask::lsn(row, at, DOING)?.map(|lsn| (piece.instance, lsn));
        }
    }
    Ok(found)
}

/// What a piece of a range needs.
fn of_piece(piece: &Piece, wanted: Wanted) -> Wanted {
    Wanted {
        from: piece.from,
        to: piece.to,
        after: wanted.after,
    }
}

fn is_worth_parts(limits: RangeLimits, commits: usize) -> bool {
    let expected = limits.rows_per_commit.map(|rows| rows * commits as f64);
    limits.parts.get() > 1 && commits > 1 && expected.is_none_or(|rows| rows >= 2.0 * ROWS_PER_PART as f64)
}

/// How many change rows each commit has in the pieces. The server reads the range for it and sends a row a commit.
async fn rows_of_commits(
    asker: &mut Asker,
    table: &SourceTable,
    pieces: &[Piece],
) -> Result<Vec<(Lsn, u64)>, SourceError> {
    let mut counts = Vec::new();
    for piece in pieces {
        let instance = &table.instances[piece.instance].name;
        let mut question = Query::new(format!(
            "SELECT [__$start_lsn], COUNT_BIG(*) FROM {} WHERE [__$start_lsn] >= @P1 AND [__$start_lsn] <= @P2 \
             GROUP BY [__$start_lsn] ORDER BY [__$start_lsn]",
            quote::change_table(&instance.0)
        ));
        question.bind(piece.from.0.to_vec());
        question.bind(piece.to.0.to_vec());
        for row in asker.bound(question, DOING).await? {
            let rows: Option<i64> = row.try_get(1).map_err(|e| ask::unexpected(e, DOING))?;
            if let (Some(lsn), Some(rows)) = (ask::lsn(&row, 0, DOING)?, rows) {
                counts.push((lsn, u64::try_from(rows).unwrap_or(0)));
            }
        }
    }
    Ok(counts)
}

/// Cuts pieces between commits, so that at most so many parts have about as many rows each, and not too few.
fn split(commits: &[(Lsn, u64)], pieces: &[Piece], parts: NonZeroU32) -> Vec<Piece> {
    let total: u64 = commits.iter().map(|(_, rows)| rows).sum();
    let wanted = u64::from(parts.get()).min(total / ROWS_PER_PART).max(1);
    let mut cuts: Vec<Lsn> = Vec::new();
    let mut rows = 0;
    for (lsn, of_commit) in commits {
        rows += of_commit;
        // Where this commit ends, a further part is full.
        let full = rows * wanted / total.max(1);
        if full > cuts.len() as u64 && (cuts.len() as u64) < wanted - 1 {
            cuts.push(*lsn);
        }
    }
    let mut split = Vec::new();
    for piece in pieces {
        let mut from = piece.from;
        for cut in cuts.iter().filter(|cut| **cut >= piece.from && **cut < piece.to) {
            split.push(Piece {
                from,
                to: *cut,
                ..*piece
            });
            from = cut.next();
        }
        split.push(Piece { from, ..*piece });
    }
    split
}

/// The commit times of a range that was planned earlier: the same that the plan had. A batch's end is a commit, so a
/// mapping without it has lost it, or is another server's.
pub async fn replay_times(
    asker: &mut Asker,
    instance: &CaptureInstance,
    wanted: Wanted,
    clock: Clock,
    repeated: &Repeated,
) -> Result<Arc<CommitTimes>, SourceError> {
    let commits = mapping::local_times(asker, wanted.from, wanted.to, None).await?;
    let times = mapping::in_utc(commits, clock, repeated, wanted.after);
    if times.last().is_some_and(|(lsn, _)| lsn == wanted.to) {
        return Ok(Arc::new(times));
    }
    wanted.check(instance, bounds::bounds(asker, instance).await?)?;
    Err(SourceError::OtherHistory {
        capture_instance: instance.clone(),
        end: wanted.to,
    })
}

/// The time of one commit, as a batch would have it that begins with it.
pub async fn commit_time(
    asker: &mut Asker,
    instance: &CaptureInstance,
    lsn: Lsn,
    clock: Clock,
) -> Result<Arc<CommitTimes>, SourceError> {
    let commits = mapping::local_times(asker, lsn, lsn, None).await?;
    let repeated = mapping::repeated(asker, clock, &commits).await?;
    let times = mapping::in_utc(commits, clock, &repeated, None);
    if times.last().is_some() {
        return Ok(Arc::new(times));
    }
    let wanted = Wanted {
        from: lsn,
        to: lsn,
        after: None,
    };
    wanted.check(instance, bounds::bounds(asker, instance).await?)?;
    Err(SourceError::OtherHistory {
        capture_instance: instance.clone(),
        end: lsn,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lsn(n: u8) -> Lsn {
        Lsn([0, 0, 0, 1, 0, 0, 0, 0, 0, n])
    }

    fn piece(instance: usize, from: u8, to: u8) -> Piece {
        Piece {
            instance,
            from: lsn(from),
            to: lsn(to),
        }
    }

    fn parts(n: u32) -> NonZeroU32 {
        NonZeroU32::new(n).unwrap()
    }

    #[test]
    fn parts_have_about_as_many_rows_each_and_are_cut_between_commits() {
        let commits: Vec<(Lsn, u64)> = (1..=8).map(|n| (lsn(n), 25_000)).collect();
        assert_eq!(
            split(&commits, &[piece(0, 1, 8)], parts(4)),
            [piece(0, 1, 2), piece(0, 3, 4), piece(0, 5, 6), piece(0, 7, 8)]
        );
        assert_eq!(
            split(&commits, &[piece(0, 1, 8)], parts(2)),
            [piece(0, 1, 4), piece(0, 5, 8)]
        );
        // Few rows stay together, however many parts there may be.
        let few: Vec<(Lsn, u64)> = (1..=8).map(|n| (lsn(n), 12_000)).collect();
        assert_eq!(split(&few, &[piece(0, 1, 8)], parts(8)), [piece(0, 1, 8)]);
        // A commit is never cut.
        let one = [(lsn(1), 10), (lsn(2), 5_000_000), (lsn(3), 10)];
        let cut = split(&one, &[piece(0, 1, 3)], parts(4));
        assert_eq!(cut, [piece(0, 1, 2), piece(0, 3, 3)]);
        assert_eq!(split(&[], &[piece(0, 1, 3)], parts(4)), [piece(0, 1, 3)]);
    }

    #[test]
    fn parts_do_not_reach_over_the_switch_of_instances() {
        let commits: Vec<(Lsn, u64)> = (1..=8).map(|n| (lsn(n), 25_000)).collect();
        let pieces = [piece(0, 1, 3), piece(1, 4, 8)];
        assert_eq!(
            split(&commits, &pieces, parts(4)),
            [
                piece(0, 1, 2),
                piece(0, 3, 3),
                piece(1, 4, 4),
                piece(1, 5, 6),
                piece(1, 7, 8)
            ]
        );
    }

    #[test]
    fn rows_are_counted_only_where_it_can_pay() {
        let limits = |n, rows_per_commit| RangeLimits {
            commits: 500,
            parts: parts(n),
            rows_per_commit,
        };
        assert!(is_worth_parts(limits(4, None), 500));
        assert!(is_worth_parts(limits(4, Some(1000.0)), 500));
        assert!(!is_worth_parts(limits(4, Some(10.0)), 500));
        assert!(!is_worth_parts(limits(1, None), 500));
        assert!(!is_worth_parts(limits(4, None), 1));
    }
}
