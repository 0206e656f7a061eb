//! A row of the quarantine table, and which of many are open.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::AttemptAt;
use crate::identity::{AppId, BatchId};
use crate::lsn::{Lsn, UtcMicros};

/// The code of a row that stands for all that a batch put into quarantine and that is lost: somebody accepted that.
pub const LOST: &str = "quarantine-lost";

/// What a row says of its change or attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowState {
    /// The attempt that the row names counts for nothing.
    Void,
    /// The change could not be transformed.
    Open,
    /// The change was read again, and is in bronze.
    Retried,
}

impl RowState {
    pub(super) const ALL: [RowState; 3] = [RowState::Void, RowState::Open, RowState::Retried];

    /// As the table has it.
    pub fn as_str(self) -> &'static str {
        match self {
            RowState::Void => "void",
            RowState::Open => "open",
            RowState::Retried => "retried",
        }
    }
}

/// A row of the quarantine table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuarantineRow {
    /// The stream.
    pub app_id: String,
    /// The batch.
    pub batch_id: i64,
    /// The attempt at it.
    pub attempt: i32,
    /// Commit LSN of the change, in text form; absent on a row about an attempt.
    pub start_lsn: Option<String>,
    /// Its order in the transaction.
    pub seqval: Option<String>,
    /// Its operation.
    pub operation: Option<i32>,
    /// The column at fault, where there is one.
    pub column: Option<String>,
    /// Why it could not be transformed. Never a value.
    pub code: Option<String>,
    /// The component that could not, as `name@version`.
    pub plugin: Option<String>,
    /// SHA-256 of its file.
    pub sha256: Option<String>,
    /// When the row was written.
    pub quarantined_at: Option<UtcMicros>,
    /// What it says.
    pub state: RowState,
    /// The instance that the change was read from.
    pub capture_instance: Option<String>,
}

/// What names a change: `_start_lsn`, `_seqval`, `_operation`.
pub type Change = (Option<String>, Option<String>, Option<i32>);

impl QuarantineRow {
    /// The row that voids an attempt.
    pub(super) fn void(app_id: &AppId, at: AttemptAt, now: UtcMicros) -> QuarantineRow {
        QuarantineRow {
            app_id: app_id.0.clone(),
            batch_id: at.batch.0,
            attempt: i32::try_from(at.attempt).unwrap_or(i32::MAX),
            start_lsn: None,
            seqval: None,
            operation: None,
            column: None,
            code: None,
            plugin: None,
            sha256: None,
            quarantined_at: Some(now),
            state: RowState::Void,
            capture_instance: None,
        }
    }

    /// The row that stands for the lost ones of a batch, which ended at `end`. It cannot be read again, and so it stays open.
    pub fn lost(app_id: &AppId, at: AttemptAt, end: Option<Lsn>, now: UtcMicros) -> QuarantineRow {
        QuarantineRow {
            start_lsn: end.map(|end| end.to_string()),
            code: Some(LOST.to_owned()),
            state: RowState::Open,
            ..QuarantineRow::void(app_id, at, now)
        }
    }

    /// The attempt that it is of.
    pub fn at(&self) -> AttemptAt {
        AttemptAt {
            batch: BatchId(self.batch_id),
            attempt: u32::try_from(self.attempt).unwrap_or(u32::MAX),
        }
    }

    /// Whether two rows say the same of the same change. When they were written does not matter, nor what the blamed component is
    /// called: another version of sluice may name another one of the chain, or none.
    pub fn says_the_same(&self, other: &QuarantineRow) -> bool {
        let said = |row: &QuarantineRow| (row.state, row.change(), row.column.clone(), row.code.clone());
        said(self) == said(other)
    }

    /// Whether it stands for rows that are lost.
    pub fn is_lost(&self) -> bool {
        self.code.as_deref() == Some(LOST) && self.capture_instance.is_none()
    }

    /// What names its change.
    pub fn change(&self) -> Change {
        (self.start_lsn.clone(), self.seqval.clone(), self.operation)
    }
}

/// The rows that are open among all of a stream, in the order of the changes.
pub fn open_rows(rows: &[QuarantineRow]) -> Vec<QuarantineRow> {
    let void: BTreeSet<AttemptAt> = rows
        .iter()
        .filter(|row| row.state == RowState::Void)
        .map(QuarantineRow::at)
        .collect();
    let mut counting: Vec<&QuarantineRow> = rows
        .iter()
        .filter(|row| row.state != RowState::Void && !void.contains(&row.at()))
        .collect();
    // A change can be retried, and go into quarantine once more. Attempts are counted up, so they say what came last.
    counting.sort_by_key(|row| row.at());
    let mut newest: BTreeMap<Change, &QuarantineRow> = BTreeMap::new();
    for row in counting {
        newest.insert(row.change(), row);
    }
    newest
        .into_values()
        .filter(|row| row.state == RowState::Open)
        .cloned()
        .collect()
}
