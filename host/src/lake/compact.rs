//! Many small files of a table as one. Its rows stay what they are, and so do transaction ids: to a writer of the table, this
//! is a commit of somebody else's that takes no row away.
//!
//! The files that go are decided on, rewritten, and looked at again before each attempt to commit: when one of them is no
//! longer part of the table, another was quicker, and nothing is done. They stay on disk for readers of older versions, until
//! a vacuum.

use std::collections::HashSet;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::compute::cast;
use deltalake::kernel::engine::arrow_conversion::TryIntoArrow as _;
use deltalake::kernel::{Action, Add, Remove};
use deltalake::logstore::object_store::path::Path;
use deltalake::protocol::DeltaOperation;

use super::LakeError;
use super::columns::Column;
use super::commit::{Ended, Entry, Proposal, Propose, commit};
use super::encode::{FileEncoder, Layout};
use super::files::{discard, eager, read_file, store_file};
use super::log::{DeltaLog, blocking};
use crate::lsn::UtcMicros;

/// Which files are made one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// Files below this size, in bytes.
    pub smaller_than: u64,
    /// Where there are so many of them.
    pub at_least: usize,
    /// And they are older than this.
    pub older_than: Duration,
    /// Until together they have so many bytes.
    pub up_to: u64,
}

/// What a look at the small files of a table came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// They are one.
    MadeOne(Compacted),
    /// There are too few.
    TooFew {
        /// So many that are old enough.
        old: usize,
        /// And so many that will be.
        young: usize,
    },
    /// Another writer was quicker.
    Overtaken,
}

/// What was made one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Files that are no longer part of the table.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Those of the file that has their rows.
    pub into_bytes: u64,
    /// The table version that says so.
    pub version: u64,
}

/// Makes one file of the oldest small ones, where there are enough of them. The file is written like the table's others: `layout` says which columns have statistics.
pub(crate) async fn compact(log: &mut DeltaLog, layout: &Layout, which: Compaction) -> Result<Looked, LakeError> {
    log.refresh().await?;
    let small = small_files(log, which).await?;
    if small.there < which.at_least.max(2) {
        return Ok(Looked::TooFew {
            old: small.there,
            young: small.young,
        });
    }
    // Columns that the table has and this stream no longer writes are kept as they are.
    let layout = of_table(log, layout)?;
    let (bytes, rows, stats) = rewritten(log, &layout, &small.files).await?;
    if small.rows.is_some_and(|known| known != rows) {
        return Err(LakeError::Internal(format!(
            "{} files of {} have {rows} rows and not as many as the log says; they were left as they are",
            small.files.len(),
            log.name()
        )));
    }
    let into_bytes = bytes.len() as u64;
    let mut file = store_file(log, bytes, stats).await?;
    file.data_change = false;
    let mut rewrite = Rewrite {
        small: &small,
        file: &file,
        up_to: which.up_to,
    };
    match commit(log, &mut rewrite).await {
        Ok(Ended::Committed(version)) => Ok(Looked::MadeOne(Compacted {
            files: small.files.len(),
            bytes: small.bytes,
            into_bytes,
            version,
        })),
        Ok(Ended::Settled(())) => {
            discard(log, &file).await;
            Ok(Looked::Overtaken)
        }
        // It may be part of the table.
        Err(error @ LakeError::CommitUnknown { .. }) => Err(error),
        Err(error) => {
            discard(log, &file).await;
            Err(error)
        }
    }
}

/// Files that are to be one.
pub(super) struct Small {
    /// How many there are, also beyond those that are to be one.
    there: usize,
    /// How many are too young.
    young: usize,
    files: Vec<Path>,
    pub(super) removes: Vec<Remove>,
    bytes: u64,
    /// Their rows, where the log says so of each.
    rows: Option<u64>,
}

pub(super) async fn small_files(log: &DeltaLog, which: Compaction) -> Result<Small, LakeError> {
    let snapshot = eager(log).await?;
    let before_ms = UtcMicros::now().0 / 1000 - i64::try_from(which.older_than.as_millis()).unwrap_or(i64::MAX);
    let data = snapshot.log_data();
    let (mut views, young): (Vec<_>, Vec<_>) = data
        .iter()
        .filter(|view| view.deletion_vector_descriptor().is_none())
        .filter(|view| u64::try_from(view.size()).is_ok_and(|size| size < which.smaller_than))
        .partition(|view| view.modification_time() <= before_ms);
    views.sort_by_key(|view| view.modification_time());
    let mut small = Small {
        there: views.len(),
        young: young.len(),
        files: Vec::new(),
        removes: Vec::new(),
        bytes: 0,
        rows: Some(0),
    };
    for view in views {
        small.bytes += u64::try_from(view.size()).unwrap_or(0);
        let rows = view.num_records().map(|rows| rows as u64);
        small.rows = small.rows.zip(rows).map(|(sum, rows)| sum + rows);
        small.files.push(view.object_store_path());
        small.removes.push(Remove {
            data_change: false,
            ..view.remove_action(false)
        });
        if small.bytes >= which.up_to && small.files.len() > 1 {
            break;
        }
    }
    Ok(small)
}

/// The table's columns, in its order, each written as `layout` writes it.
pub(crate) fn of_table(log: &DeltaLog, layout: &Layout) -> Result<Layout, LakeError> {
    let schema: arrow::datatypes::Schema = log
        .schema()
        .as_ref()
        .try_into_arrow()
        .map_err(|error| LakeError::Internal(format!("the schema of {} as Arrow's: {error}", log.name())))?;
    let columns: Vec<Column> = schema
        .fields()
        .iter()
        .map(
            |field| match layout.columns().iter().find(|known| known.name == *field.name()) {
                Some(known) => known.clone(),
                None => Column::new(field.name(), field.data_type().clone(), ""),
            },
        )
        .collect();
    Ok(Layout::new(log.name(), columns.into()))
}

/// The bytes of one file with the rows of all, their number, and its statistics.
async fn rewritten(log: &DeltaLog, layout: &Layout, files: &[Path]) -> Result<(Vec<u8>, u64, String), LakeError> {
    let mut encoder: Option<FileEncoder<Vec<u8>>> = None;
    for path in files {
        // One at a time is in memory.
        let batches = read_file(log, path).await?;
        let layout = layout.clone();
        encoder = blocking(log.name(), move || {
            let mut encoder = encoder;
            for batch in batches {
                let arrays = arrays_of(&layout, &batch)?;
                let mut file = match encoder.take() {
                    Some(file) => file,
                    None => FileEncoder::new(&layout, &arrays, Vec::new())?,
                };
                file.write(arrays)?;
                encoder = Some(file);
            }
            Ok::<_, LakeError>(encoder)
        })
        .await??;
    }
    let Some(encoder) = encoder else {
        return Err(LakeError::Internal(format!(
            "{} has small files without rows",
            log.name()
        )));
    };
    blocking(log.name(), move || encoder.finish()).await?
}

/// A batch's columns as `layout` has them: those that it lacks are NULL.
pub(crate) fn arrays_of(layout: &Layout, batch: &RecordBatch) -> Result<Vec<ArrayRef>, LakeError> {
    let array = |column: &Column| match batch.column_by_name(&column.name) {
        None => Ok(new_null_array(&column.data_type, batch.num_rows())),
        Some(array) if *array.data_type() == column.data_type => Ok(array.clone()),
        // Only the column: a cast error can repeat a value.
        Some(array) => cast(array, &column.data_type).map_err(|_| LakeError::Chunk {
            table: layout.table().to_owned(),
            reason: format!("its column {} has another type in an older file", column.name),
        }),
    };
    layout.columns().iter().map(array).collect()
}

/// Whether all these files are part of the table still, with all their rows. A file whose rows are deleted in part meanwhile is
/// another one, under the same path: to remove this one would bring those rows back, and double the others.
pub(crate) async fn are_whole(log: &DeltaLog, files: &[Remove]) -> Result<bool, LakeError> {
    let snapshot = eager(log).await?;
    let data = snapshot.log_data();
    let whole = data.iter().filter(|view| view.deletion_vector_descriptor().is_none());
    let active: HashSet<String> = whole.map(|view| view.path().to_string()).collect();
    Ok(files.iter().all(|remove| active.contains(&remove.path)))
}

pub(super) struct Rewrite<'a> {
    pub(super) small: &'a Small,
    pub(super) file: &'a Add,
    pub(super) up_to: u64,
}

impl Propose for Rewrite<'_> {
    type Settled = ();

    async fn propose(&mut self, log: &mut DeltaLog) -> Result<Proposal<()>, LakeError> {
        if !are_whole(log, &self.small.removes).await? {
            return Ok(Proposal::Settled(()));
        }
        let now_ms = UtcMicros::now().0 / 1000;
        let removes = self.small.removes.iter().cloned().map(|remove| {
            Action::Remove(Remove {
                deletion_timestamp: Some(now_ms),
                ..remove
            })
        });
        Ok(Proposal::Commit(Box::new(Entry {
            actions: removes.chain([Action::Add(self.file.clone())]).collect(),
            txns: Vec::new(),
            operation: DeltaOperation::Optimize {
                predicate: None,
                target_size: i64::try_from(self.up_to).unwrap_or(i64::MAX),
            },
            user_metadata: None,
        })))
    }
}

/// What a table's columns need to be compacted by their stream, and no more.
#[cfg(test)]
pub(super) fn everything() -> Compaction {
    Compaction {
        smaller_than: u64::MAX,
        at_least: 2,
        older_than: Duration::ZERO,
        up_to: u64::MAX,
    }
}
