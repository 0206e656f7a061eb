//! Small tables as a whole: written as one file, read back in one go. Facts and verdicts are such tables.

use arrow::array::RecordBatch;
use deltalake::ObjectStoreError;
use deltalake::kernel::{Add, EagerSnapshot, Remove};
use deltalake::logstore::object_store::{ObjectStoreExt as _, path::Path};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::encode::{FileEncoder, Layout};
use super::log::{DeltaLog, blocking, kernel};
use super::staging::add_action;
use super::{LakeError, durable};
use crate::failpoint::faults;

/// Writes a batch as a new file that is not part of the table yet.
pub async fn write_one(log: &DeltaLog, layout: &Layout, batch: &RecordBatch) -> Result<Add, LakeError> {
    let mut encoder = FileEncoder::new(layout, batch.columns(), Vec::new())?;
    encoder.write(batch.columns().to_vec())?;
    let (bytes, _, stats) = encoder.finish()?;
    store_file(log, bytes, stats).await
}

/// Writes the bytes of a file that is not part of the table yet.
pub(super) async fn store_file(log: &DeltaLog, bytes: Vec<u8>, stats: String) -> Result<Add, LakeError> {
    let name = format!("part-{}.zstd.parquet", uuid::Uuid::new_v4());
    let size = bytes.len() as u64;
    if let Some(folder) = log.location().as_local() {
        let path = folder.join(&name);
        blocking(log.name(), move || {
            faults::write(faults::DATA_FILE_WRITE, || durable::replace(&path, &bytes))
                .map_err(|source| LakeError::io("write", &path, source))
        })
        .await??;
    } else {
        let store = log.store().object_store(None);
        store
            .put(&Path::from(name.as_str()), bytes.into())
            .await
            .map_err(|source| LakeError::delta("write a file of", log.name(), source))?;
    }
    Ok(add_action(name, size, stats))
}

/// Removes a file that [`write_one`] made and that no commit took.
pub async fn discard(log: &DeltaLog, file: &Add) {
    let store = log.store().object_store(None);
    if let Err(error) = store.delete(&Path::from(file.path.as_str())).await {
        tracing::warn!(table = log.name(), file = file.path, %error, "could not remove a file that is not in the table; vacuum will");
    }
}

/// Fails when a file that is to be committed is not there any more: a vacuum that keeps too little removes what is not in
/// the table yet.
pub async fn expect_there(log: &DeltaLog, files: &[Add]) -> Result<(), LakeError> {
    let store = log.store().object_store(None);
    for file in files {
        match store.head(&Path::from(file.path.as_str())).await {
            Ok(_) => {}
            Err(ObjectStoreError::NotFound { .. }) => {
                return Err(LakeError::StagedFileGone {
                    table: log.name().to_owned(),
                    file: file.path.clone(),
                });
            }
            Err(source) => return Err(LakeError::delta("look for a file of", log.name(), source)),
        }
    }
    Ok(())
}

/// Whether any of these files is part of the table at the version that was last read.
pub async fn any_active(log: &DeltaLog, files: &[Add]) -> Result<bool, LakeError> {
    let snapshot = eager(log).await?;
    let active = snapshot
        .log_data()
        .iter()
        .any(|view| files.iter().any(|file| view.path() == file.path));
    Ok(active)
}

/// All rows of the table at the version that was last read, with the actions that would remove its files.
pub async fn read_all(log: &DeltaLog) -> Result<(Vec<RecordBatch>, Vec<Remove>), LakeError> {
    let snapshot = eager(log).await?;
    let mut batches = Vec::new();
    let mut removes = Vec::new();
    let views: Vec<_> = snapshot.log_data().iter().collect();
    for view in views {
        if view.deletion_vector_descriptor().is_some() {
            return Err(LakeError::TableFeature {
                table: log.name().to_owned(),
                feature: "deletion vectors".to_owned(),
                advice: "run REORG TABLE ... APPLY (PURGE) on it",
            });
        }
        batches.extend(read_file(log, &view.object_store_path()).await?);
        removes.push(view.remove_action(true));
    }
    Ok((batches, removes))
}

/// The rows of the file that was written last; none where the table has no file.
pub async fn read_newest(log: &DeltaLog) -> Result<Vec<RecordBatch>, LakeError> {
    let snapshot = eager(log).await?;
    let newest = snapshot.log_data().iter().max_by_key(|view| view.modification_time());
    match newest {
        Some(view) => read_file(log, &view.object_store_path()).await,
        None => Ok(Vec::new()),
    }
}

pub(super) async fn read_file(log: &DeltaLog, path: &Path) -> Result<Vec<RecordBatch>, LakeError> {
    let keep = |all: &mut Vec<RecordBatch>, batch| {
        all.push(batch);
        Ok(())
    };
    fold_file(log, path, Vec::new(), keep).await
}

/// Shows a file's rows to `each`, some thousands at a time, so that no more of them is in memory than it keeps in `seen`.
pub async fn fold_file<S: Send + 'static>(
    log: &DeltaLog,
    path: &Path,
    seen: S,
    each: impl Fn(&mut S, RecordBatch) -> Result<(), LakeError> + Send + 'static,
) -> Result<S, LakeError> {
    let failed = |source| LakeError::delta("read a file of", log.name(), source);
    let bytes = log
        .store()
        .object_store(None)
        .get(path)
        .await
        .map_err(failed)?
        .bytes()
        .await
        .map_err(failed)?;
    let table = log.name().to_owned();
    blocking(log.name(), move || {
        let failed = |source| LakeError::parquet("read", &table, source);
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes)
            .and_then(|builder| builder.build())
            .map_err(failed)?;
        let mut seen = seen;
        for batch in reader {
            each(&mut seen, batch.map_err(|source| failed(source.into()))?)?;
        }
        Ok(seen)
    })
    .await?
}

pub(super) async fn eager(log: &DeltaLog) -> Result<EagerSnapshot, LakeError> {
    let _place = kernel().await?;
    EagerSnapshot::try_new(log.store().as_ref(), Some(log.version()))
        .await
        .map_err(|source| LakeError::delta("read", log.name(), source))
}

/// A file that is part of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveFile {
    /// As the log names it.
    pub path: String,
    /// Bytes.
    pub size: i64,
    /// Rows, where its statistics say so.
    pub rows: Option<i64>,
}

/// The files of the table at the version that was last read.
pub async fn active_files(log: &DeltaLog) -> Result<Vec<ActiveFile>, LakeError> {
    let snapshot = eager(log).await?;
    let views = snapshot.log_data();
    let files = views.iter().map(|view| ActiveFile {
        path: view.path().to_string(),
        size: view.size(),
        rows: view.num_records().and_then(|rows| i64::try_from(rows).ok()),
    });
    Ok(files.collect())
}

/// A file that may be replaced by another one.
#[derive(Clone, Debug)]
pub struct ToRewrite {
    /// Where it is.
    pub path: Path,
    /// What takes it out of the table.
    pub remove: Remove,
    /// Bytes.
    pub size: u64,
    /// Its statistics, where it has any.
    pub stats: serde_json::Value,
}

/// The files of the table at the version that was last read, but not those whose rows are deleted in part.
pub async fn to_rewrite(log: &DeltaLog) -> Result<Vec<ToRewrite>, LakeError> {
    let snapshot = eager(log).await?;
    let views = snapshot.log_data();
    let files = views
        .iter()
        .filter(|view| view.deletion_vector_descriptor().is_none())
        .map(|view| ToRewrite {
            path: view.object_store_path(),
            remove: view.remove_action(true),
            size: u64::try_from(view.size()).unwrap_or(0),
            stats: view
                .stats()
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default(),
        });
    Ok(files.collect())
}
