//! The files of a batch before they are in the table: written as chunks come, committed together, or removed.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use deltalake::ObjectStoreError;
use deltalake::kernel::Add;
use deltalake::logstore::object_store::{ObjectStore, ObjectStoreExt as _, WriteMultipart, path::Path};

use super::encode::{self, FileEncoder, Layout};
use super::log::blocking;
use super::{LakeError, durable};
use crate::failpoint::faults;
use crate::identity::BatchId;
use crate::shape::{META_AFTER, META_BEFORE};
use crate::storage::Place;

/// A file is closed, and the next begun, when it has reached this size.
const FILE_BYTES: usize = 128 << 20;
/// Size of the parts in which a file goes to the store, and how many may be on their way at once.
const PART_BYTES: usize = 8 << 20;
const PARTS_IN_FLIGHT: usize = 3;

/// The name of the column that lists the columns whose value CDC did not record.
pub const OMITTED: &str = "_omitted";

/// The rows of one attempt at a batch, as files that are not in the table yet. Dropping it removes the files.
pub struct StagedFiles {
    store: Arc<dyn ObjectStore>,
    location: Place,
    layout: Layout,
    batch_id: BatchId,
    attempt: u32,
    batch_number: i32,
    open: Option<OpenFile>,
    files: Vec<Add>,
    rows: u64,
    bytes: u64,
    /// Set once the files may be part of the table.
    kept: bool,
}

struct OpenFile {
    name: String,
    encoder: FileEncoder<UploadSink>,
}

impl StagedFiles {
    pub(super) fn new(
        store: Arc<dyn ObjectStore>,
        location: Place,
        layout: Layout,
        batch_id: BatchId,
        attempt: u32,
    ) -> Result<StagedFiles, LakeError> {
        let batch_number = i32::try_from(batch_id.0).map_err(|_| {
            LakeError::Internal(format!(
                "batch {batch_id} of {location} does not fit the INT column _batch_id"
            ))
        })?;
        Ok(StagedFiles {
            store,
            location,
            layout,
            batch_id,
            attempt,
            batch_number,
            open: None,
            files: Vec::new(),
            rows: 0,
            bytes: 0,
            kept: false,
        })
    }

    /// The batch that the rows belong to.
    pub fn batch_id(&self) -> BatchId {
        self.batch_id
    }

    /// The attempt at it, from 0.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Rows written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of the finished files.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a chunk: the six metadata columns, the output columns of the chain in any order, and `_omitted` where the
    /// table has it. Encodes on the calling thread and may wait for the store: call it inside `spawn_blocking` or
    /// `block_in_place` of the runtime, never directly on a runtime thread.
    pub fn write(&mut self, chunk: &RecordBatch) -> Result<(), LakeError> {
        if chunk.num_rows() == 0 {
            return Ok(());
        }
        let arrays = self.file_columns(chunk)?;
        let mut file = match self.open.take() {
            Some(file) => file,
            None => self.begin(&arrays)?,
        };
        file.encoder.write(arrays)?;
        futures::executor::block_on(file.encoder.sink_mut().send_parts())
            .map_err(|source| LakeError::delta("write a file of", self.layout.table(), source))?;
        self.rows += chunk.num_rows() as u64;
        if file.encoder.size() >= FILE_BYTES {
            futures::executor::block_on(self.close(file))
        } else {
            self.open = Some(file);
            Ok(())
        }
    }

    /// Closes the file that is being written, so that all of them can be committed. The encoding that is left happens on
    /// a blocking thread.
    pub async fn finish(&mut self) -> Result<&[Add], LakeError> {
        if let Some(file) = self.open.take() {
            self.close(file).await?;
        }
        Ok(&self.files)
    }

    /// Removes the files. Dropping does the same without waiting.
    pub async fn abort(mut self) {
        let open = self.open.take();
        drop(open);
        for path in self.files.drain(..).map(|add| Path::from(add.path)) {
            if let Err(error) = self.store.delete(&path).await {
                tracing::warn!(table = self.layout.table(), file = %path, %error, "could not remove a staged file; vacuum will");
            }
        }
    }

    pub(super) fn finished(&self) -> &[Add] {
        &self.files
    }

    /// From here on the files may belong to the table and stay.
    pub(super) fn keep(&mut self) {
        self.kept = true;
    }

    fn begin(&self, arrays: &[ArrayRef]) -> Result<OpenFile, LakeError> {
        let name = format!("part-{}.zstd.parquet", uuid::Uuid::new_v4());
        let sink = UploadSink {
            store: Arc::clone(&self.store),
            path: Path::from(name.as_str()),
            waiting: Vec::new(),
            upload: None,
            bytes: 0,
        };
        let encoder = FileEncoder::new(&self.layout, arrays, sink)?;
        Ok(OpenFile { name, encoder })
    }

    async fn close(&mut self, file: OpenFile) -> Result<(), LakeError> {
        let OpenFile { name, encoder } = file;
        let table = self.layout.table();
        let (sink, _, stats) = blocking(table, move || encoder.finish()).await??;
        let size = sink.bytes;
        sink.finish()
            .await
            .map_err(|source| LakeError::delta("write a file of", table, source))?;
        if let Some(path) = self.local_path(&name) {
            blocking(table, move || {
                faults::write(faults::DATA_FILE_WRITE, || durable::sync(&path))
                    .map_err(|source| LakeError::io("sync", &path, source))
            })
            .await??;
        }
        self.files.push(add_action(name, size, stats));
        self.bytes += size;
        Ok(())
    }

    fn local_path(&self, name: &str) -> Option<PathBuf> {
        self.location.as_local().map(|folder| folder.join(name))
    }

    /// The columns of a chunk in the order of the table, with those that the lake adds.
    fn file_columns(&self, chunk: &RecordBatch) -> Result<Vec<ArrayRef>, LakeError> {
        let misfit = |reason: String| LakeError::Chunk {
            table: self.layout.table().to_owned(),
            reason,
        };
        let rows = chunk.num_rows();
        let positions = encode::positions(chunk);
        let mut used = 0;
        let arrays = self.layout.columns().iter().map(|column| {
            let name = column.name.as_str();
            if name == META_AFTER[0] {
                return Ok(encode::constant_i32(Some(self.batch_number), rows));
            }
            if name == META_AFTER[1] {
                return Ok(encode::null_text(rows));
            }
            if name == META_AFTER[2] {
                return Ok(encode::constant_i32(None, rows));
            }
            let Some(position) = positions.get(name) else {
                if name == OMITTED {
                    return Ok(arrow::array::new_null_array(&column.data_type, rows));
                }
                return Err(misfit(format!("it has no column {name}")));
            };
            used += 1;
            let array = chunk.column(*position);
            if !same_values(array.data_type(), &column.data_type) {
                let (found, wanted) = (array.data_type(), &column.data_type);
                return Err(misfit(format!("its column {name} is {found} instead of {wanted}")));
            }
            Ok(array.clone())
        });
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        if used != positions.len() {
            let known = |name: &str| self.layout.columns().iter().any(|c| c.name == name);
            let fields = chunk.schema_ref().fields().iter().map(|field| field.name().as_str());
            let mut extra = fields.filter(|name| !known(name) || META_AFTER.contains(name));
            let name = extra.next().unwrap_or("of a repeated name");
            return Err(misfit(format!(
                "it has a column {name} that the table does not take from chunks"
            )));
        }
        Ok(arrays)
    }
}

impl Drop for StagedFiles {
    fn drop(&mut self) {
        if self.kept || self.files.is_empty() {
            return;
        }
        if let Some(folder) = self.location.as_local() {
            for add in &self.files {
                // What cannot be removed is no part of the table, and vacuum takes it.
                let _ = std::fs::remove_file(folder.join(&add.path));
            }
        } else if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (store, files) = (self.store.clone(), std::mem::take(&mut self.files));
            runtime.spawn(async move {
                for add in files {
                    let _ = store.delete(&Path::from(add.path)).await;
                }
            });
        }
    }
}

/// The `add` action of a new file.
pub(super) fn add_action(name: String, size: u64, stats: String) -> Add {
    Add {
        path: name,
        size: i64::try_from(size).unwrap_or(i64::MAX),
        modification_time: chrono::Utc::now().timestamp_millis(),
        data_change: true,
        stats: Some(stats),
        ..Add::default()
    }
}

/// Whether two types hold the same values: a dictionary stands for its values.
fn same_values(found: &DataType, wanted: &DataType) -> bool {
    match found {
        DataType::Dictionary(_, values) => **values == *wanted || found == wanted,
        DataType::List(item) => match wanted {
            DataType::List(wanted) => item.data_type() == wanted.data_type(),
            _ => false,
        },
        _ => found == wanted,
    }
}

/// Hands what Parquet writes to the store: a file that is smaller than a part in one request, another in parts.
struct UploadSink {
    store: Arc<dyn ObjectStore>,
    path: Path,
    /// What was written before there was enough for a part.
    waiting: Vec<u8>,
    upload: Option<WriteMultipart>,
    bytes: u64,
}

impl UploadSink {
    /// Sends what is enough for parts, and waits while too many of them are on their way.
    async fn send_parts(&mut self) -> Result<(), ObjectStoreError> {
        if self.upload.is_none() && self.waiting.len() >= PART_BYTES {
            let parts = self.store.put_multipart(&self.path).await?;
            let mut upload = WriteMultipart::new_with_chunk_size(parts, PART_BYTES);
            upload.put(std::mem::take(&mut self.waiting).into());
            self.upload = Some(upload);
        }
        match &mut self.upload {
            Some(upload) => upload.wait_for_capacity(PARTS_IN_FLIGHT).await,
            None => Ok(()),
        }
    }

    async fn finish(mut self) -> Result<(), ObjectStoreError> {
        self.send_parts().await?;
        match self.upload {
            Some(upload) => upload.finish().await.map(|_| ()),
            None => self.store.put(&self.path, self.waiting.into()).await.map(|_| ()),
        }
    }
}

impl Write for UploadSink {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        match &mut self.upload {
            Some(upload) => upload.write(buffer),
            None => self.waiting.extend_from_slice(buffer),
        }
        self.bytes += buffer.len() as u64;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The columns of bronze for these captured columns, and where those after the captured ones begin.
pub(super) fn bronze_columns(captured: &[super::Column], omitted: bool) -> (Vec<super::Column>, usize) {
    use super::Column;
    use super::columns::TIMESTAMP_NTZ;
    let [instance, start_lsn, seqval, operation, command_id, commit_ts] = META_BEFORE;
    let mut columns = vec![
        Column::new(instance, DataType::Utf8, "capture instance that the row was read from"),
        Column::new(
            start_lsn,
            DataType::Utf8,
            "commit LSN: 0x and 20 upper-case hex digits, so that string order is commit order",
        )
        .with_statistics(),
        Column::new(
            seqval,
            DataType::Utf8,
            "order within the transaction's log, in the form of _start_lsn; NULL on snapshot rows",
        ),
        Column::new(
            operation,
            DataType::Int32,
            "1 delete, 2 insert, 3 row before an update, 4 row after it, 0 snapshot",
        )
        .with_statistics(),
        Column::new(
            command_id,
            DataType::Int32,
            "order of the command within the transaction; NULL on snapshot rows",
        ),
        Column::new(commit_ts, TIMESTAMP_NTZ, "commit time in UTC").with_statistics(),
    ];
    columns.extend_from_slice(captured);
    let tail = columns.len();
    let [batch_id, snapshot, chunk] = META_AFTER;
    columns.push(
        Column::new(
            batch_id,
            DataType::Int32,
            "batch that wrote the row; NULL on snapshot rows",
        )
        .with_statistics(),
    );
    columns.push(Column::new(
        snapshot,
        DataType::Utf8,
        "LSN of the snapshot that the row belongs to, else NULL",
    ));
    columns.push(Column::new(
        chunk,
        DataType::Int32,
        "chunk of a chunked snapshot, else NULL",
    ));
    if omitted {
        let item = arrow::datatypes::Field::new("item", DataType::Utf8, true);
        columns.push(Column::new(
            OMITTED,
            DataType::List(Arc::new(item)),
            "columns whose value CDC did not record, or which are made of one; NULL when there are none",
        ));
    }
    (columns, tail)
}
