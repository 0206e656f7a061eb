//! Old rows go: those of changes that are out of quarantine. What is open stays, as the record of what bronze lacks.

use std::collections::BTreeSet;

use deltalake::kernel::{Action, Add, Remove};
use deltalake::protocol::{DeltaOperation, SaveMode};

use super::columns::{record_batch, rows_of};
use super::row::{Change, QuarantineRow, RowState, open_rows};
use super::{AttemptAt, QuarantineTable};
use crate::failpoint;
use crate::identity::AppId;
use crate::lake::{DeltaLog, Ended, Entry, LakeError, Layout, Proposal, Propose, commit, discard, read_all, write_one};
use crate::lsn::UtcMicros;

impl QuarantineTable {
    /// Removes the stream's rows that were written before `cutoff` and say nothing that is still of use. How many.
    pub async fn remove_before(&mut self, cutoff: UtcMicros) -> Result<usize, LakeError> {
        let mut rewrite = Rewrite {
            layout: &self.layout,
            app_id: &self.app_id,
            cutoff,
            staged: None,
            removed: 0,
        };
        let outcome = commit(&mut self.log, &mut rewrite).await;
        let (staged, removed) = (rewrite.staged.take(), rewrite.removed);
        let may_be_there = matches!(outcome, Ok(Ended::Committed(_)) | Err(LakeError::CommitUnknown { .. }));
        if let (false, Some((_, file))) = (may_be_there, staged) {
            discard(&self.log, &file).await;
        }
        Ok(match outcome? {
            Ended::Committed(_) => removed,
            Ended::Settled(()) => 0,
        })
    }
}

struct Rewrite<'a> {
    layout: &'a Layout,
    app_id: &'a AppId,
    cutoff: UtcMicros,
    /// The file with what stays, and the version that it builds on.
    staged: Option<(u64, Add)>,
    removed: usize,
}

impl Propose for Rewrite<'_> {
    type Settled = ();

    const PUT: failpoint::Put = failpoint::Put::UNNAMED;

    async fn propose(&mut self, log: &mut DeltaLog) -> Result<Proposal<()>, LakeError> {
        let (batches, files) = read_all(log).await?;
        let rows = rows_of(log.name(), &batches)?;
        let all = rows.len();
        let stay = staying(rows, self.app_id, self.cutoff);
        self.removed = all - stay.len();
        if self.removed == 0 {
            return Ok(Proposal::Settled(()));
        }
        // An entry that was sent and not answered may still arrive under this version, with the file that it names.
        let file = match self.staged.take() {
            Some((version, file)) if version == log.version() => file,
            outdated => {
                if let Some((_, file)) = outdated {
                    discard(log, &file).await;
                }
                write_one(log, self.layout, &record_batch(self.layout, &stay)?).await?
            }
        };
        self.staged = Some((log.version(), file.clone()));
        let now_ms = UtcMicros::now().0 / 1000;
        let mut actions: Vec<Action> = files
            .into_iter()
            .map(|remove| {
                Action::Remove(Remove {
                    deletion_timestamp: Some(now_ms),
                    ..remove
                })
            })
            .collect();
        actions.push(Action::Add(file));
        Ok(Proposal::Commit(Box::new(Entry {
            actions,
            txns: Vec::new(),
            operation: DeltaOperation::Write {
                mode: SaveMode::Overwrite,
                partition_by: None,
                predicate: None,
            },
            user_metadata: None,
        })))
    }
}

/// What stays of all rows of a table. Rows of one change stay or go together, and so does what voids an attempt with its rows: a
/// part alone would say something else.
pub(super) fn staying(rows: Vec<QuarantineRow>, app_id: &AppId, cutoff: UtcMicros) -> Vec<QuarantineRow> {
    let is_own = |row: &QuarantineRow| row.app_id == app_id.0;
    let own: Vec<QuarantineRow> = rows.iter().filter(|row| is_own(row)).cloned().collect();
    let changes = |rows: &[QuarantineRow]| -> BTreeSet<Change> { rows.iter().map(QuarantineRow::change).collect() };
    let young: Vec<QuarantineRow> = own
        .iter()
        .filter(|row| row.state != RowState::Void && row.quarantined_at.is_none_or(|at| at >= cutoff))
        .cloned()
        .collect();
    let mut needed = changes(&young);
    needed.extend(changes(&open_rows(&own)));
    let stays = |row: &QuarantineRow| row.state != RowState::Void && needed.contains(&row.change());
    let attempts: BTreeSet<AttemptAt> = own.iter().filter(|row| stays(row)).map(QuarantineRow::at).collect();
    rows.into_iter()
        .filter(|row| match (is_own(row), row.state) {
            (false, _) => true,
            (true, RowState::Void) => attempts.contains(&row.at()),
            (true, _) => needed.contains(&row.change()),
        })
        .collect()
}
