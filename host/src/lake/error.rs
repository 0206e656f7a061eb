//! Everything that can go wrong with a Delta table, in words that say what to do.

use std::path::{Path, PathBuf};

use deltalake::{DeltaTableError, ObjectStoreError};

use crate::error::{Classify, ErrorKind};

/// Why a table of the lake could not be opened, written or read. Texts name tables and columns, never values.
#[derive(Debug, thiserror::Error)]
pub enum LakeError {
    /// A location that this build cannot write to.
    #[error("cannot use {location} as a table: {reason}")]
    Location {
        /// As given, without query and credentials.
        location: String,
        /// What is wrong and what to give instead.
        reason: String,
    },
    /// A Delta table that sluice did not make.
    #[error(
        "{table} is a Delta table that sluice did not make (it has no table property {property}): choose another \
         target, or, if its columns follow sluice's contract, adopt it with ALTER TABLE ... SET TBLPROPERTIES \
         ('{property}' = '1')"
    )]
    ForeignTable {
        /// Location of the table.
        table: String,
        /// The property that is missing.
        property: &'static str,
    },
    /// A table that a newer sluice wrote.
    #[error("{table} needs a sluice that knows table format {needed}; this one knows up to {known}: upgrade sluice")]
    NewerFormat {
        /// Location of the table.
        table: String,
        /// What `sluice.min_version` says.
        needed: String,
        /// The newest format of this build.
        known: u32,
    },
    /// A Delta feature under which sluice cannot write.
    #[error("{table} uses {feature}, which sluice cannot write: {advice}")]
    TableFeature {
        /// Location of the table.
        table: String,
        /// Name of the feature.
        feature: String,
        /// The way on.
        advice: &'static str,
    },
    /// A column name that cannot be in the table.
    #[error(
        "column {column} of {table} {reason}: rename or drop it with the `map` transform, or capture the table without it \
         (@captured_column_list of sys.sp_cdc_enable_table)"
    )]
    ColumnName {
        /// Location of the table.
        table: String,
        /// The column.
        column: String,
        /// Why it is refused.
        reason: String,
    },
    /// A column type that Delta has no counterpart for.
    #[error("column {column} of {table} has the type {found}, which Delta cannot hold: change it with a transform")]
    ColumnType {
        /// Location of the table.
        table: String,
        /// The column.
        column: String,
        /// The Arrow type.
        found: String,
    },
    /// The table's column and the stream's column do not fit.
    #[error(
        "column {column} of {table} is {found} in the table and {wanted} in the stream, and one bronze table cannot hold both. \
         Cast it back with a transform (plugin = \"map\"), leave it out (columns = […]), or give the table a new target, app_id and \
         checkpoint, and keep the old target as history"
    )]
    SchemaChanged {
        /// Location of the table.
        table: String,
        /// The column.
        column: String,
        /// Type (or name) in the table.
        found: String,
        /// Type (or name) that the stream now has.
        wanted: String,
    },
    /// Another process has taken the stream over.
    #[error(
        "{table} is owned under fencing number {recorded} of {app_id} by another process, and this one holds {held}: one \
         process runs a stream, with one checkpoint, so stop one of the two; if this one is to go on, start it again after"
    )]
    Fenced {
        /// Location of the table.
        table: String,
        /// The transaction id that was compared.
        app_id: String,
        /// What this process wanted to record.
        held: i64,
        /// What the table has.
        recorded: i64,
    },
    /// Another process committed batches of this stream.
    #[error(
        "{table} has {recorded} as the newest of {app_id}, where this process left {known}: another process runs the \
         stream with another checkpoint, or the table was restored. stop the other, and start this one again: it compares \
         its checkpoint with the table"
    )]
    Moved {
        /// Location of the table.
        table: String,
        /// The transaction id that was compared.
        app_id: String,
        /// What this process knows: `batch n` or `no batch`.
        known: String,
        /// What the table has: `batch n` or `no batch`.
        recorded: String,
    },
    /// A table of another kind.
    #[error(
        "{table} is a Delta table of another kind: it has no column {column}, which every {kind} table has; give it a location of its own"
    )]
    OtherKind {
        /// Location of the table.
        table: String,
        /// What it was opened as: `bronze`, `facts`, `control` or `quarantine`.
        kind: &'static str,
        /// The column that tells.
        column: &'static str,
    },
    /// A bronze table that another stream writes.
    #[error(
        "{table} has batches of app_id {other}, and none of {app_id}: two streams in one table would double its rows. Give this one a target of its own, or set the app_id back"
    )]
    OtherStream {
        /// Location of the table.
        table: String,
        /// Whose rows it has.
        other: String,
        /// Who wanted to write.
        app_id: String,
    },
    /// An object could not be read or written.
    #[error("cannot {action} {place}{}", hint(source))]
    Store {
        /// What was to be done.
        action: &'static str,
        /// The object, or what it is below.
        place: String,
        /// The store's answer.
        #[source]
        source: Box<ObjectStoreError>,
    },
    /// A bucket that is not there, or that this identity does not see.
    #[error("the store has no bucket for {place}: make it, or correct the URL")]
    NoBucket {
        /// An object that was to be written.
        place: String,
        /// The store's answer.
        #[source]
        source: Box<ObjectStoreError>,
    },
    /// A store that ignores conditions.
    #[error(
        "the store of {place} {promise}: it does not keep the promises on which every commit and every lease rests, so sluice \
         writes nothing there. S3, Azure Blob Storage and GCS keep them; of another server, see whether a newer version or a \
         setting makes it heed conditional writes"
    )]
    StorePromise {
        /// The object that showed it.
        place: String,
        /// What it did.
        promise: &'static str,
    },
    /// No space left.
    #[error("no space left on the device that holds {}: free some, then start again", path.display())]
    DiskFull {
        /// The file that was being written.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The store or the table's log answered with an error.
    #[error("cannot {action} {table}")]
    Delta {
        /// What was tried.
        action: &'static str,
        /// Location of the table.
        table: String,
        /// What delta-rs said.
        #[source]
        source: Box<DeltaTableError>,
    },
    /// A chunk that does not have the table's shape: a fault of sluice.
    #[error("a chunk for {table} does not fit: {reason}")]
    Chunk {
        /// Location of the table.
        table: String,
        /// What does not fit. No values.
        reason: String,
    },
    /// Arrow or Parquet refused.
    #[error("cannot {action} Parquet of {table}")]
    Parquet {
        /// What was tried.
        action: &'static str,
        /// Location of the table.
        table: String,
        /// What the library said.
        #[source]
        source: parquet::errors::ParquetError,
    },
    /// Other writers won every time.
    #[error(
        "gave up committing to {table} after {attempts} attempts, because other writers won each of them: try again"
    )]
    Contention {
        /// Location of the table.
        table: String,
        /// How many attempts were made.
        attempts: u32,
    },
    /// A commit was sent, and whether it arrived is not known. Nothing was cleaned up; a replay of the batch finds out.
    #[error(
        "sent version {version} to {table} and cannot find out whether it arrived: start again, the table's transaction \
         id decides"
    )]
    CommitUnknown {
        /// Location of the table.
        table: String,
        /// The version that was sent.
        version: u64,
        /// The last answer.
        #[source]
        source: Option<Box<LakeError>>,
    },
    /// A file was written for a commit and was removed before it.
    #[error(
        "{file} of {table} was removed before its commit: run VACUUM on this table with the usual retention (a week), so \
         that it leaves what is being written alone"
    )]
    StagedFileGone {
        /// Location of the table.
        table: String,
        /// The file.
        file: String,
    },
    /// The task that writes a shared table has ended.
    #[error("the writer of {table} has stopped: {reason}")]
    WriterStopped {
        /// `facts` or `control`, or a location.
        table: String,
        /// Why.
        reason: String,
    },
    /// The same failure, handed to each of the callers whose entries shared a commit.
    #[error(transparent)]
    Shared(std::sync::Arc<LakeError>),
    /// A fault of sluice.
    #[error("{0}")]
    Internal(String),
}

impl LakeError {
    /// An I/O error on a local file, with a full disk told apart.
    pub(crate) fn io(action: &'static str, path: &Path, source: std::io::Error) -> LakeError {
        let path = path.to_path_buf();
        if is_disk_full(&source) {
            LakeError::DiskFull { path, source }
        } else {
            LakeError::Io { action, path, source }
        }
    }

    /// An error of delta-rs, with a full disk told apart.
    pub(crate) fn delta(action: &'static str, table: &str, source: impl Into<DeltaTableError>) -> LakeError {
        let source = source.into();
        match full_disk_in(&source) {
            Some(io) => LakeError::DiskFull {
                path: PathBuf::from(table),
                source: io,
            },
            None => LakeError::Delta {
                action,
                table: table.to_owned(),
                source: Box::new(source),
            },
        }
    }

    /// An error of a single object.
    pub(crate) fn store(action: &'static str, place: &dyn std::fmt::Display, source: ObjectStoreError) -> LakeError {
        LakeError::Store {
            action,
            place: place.to_string(),
            source: Box::new(source),
        }
    }

    /// An error of the Parquet writer; one that comes from the disk is told apart.
    pub(crate) fn parquet(action: &'static str, table: &str, source: parquet::errors::ParquetError) -> LakeError {
        match full_disk_in(&source) {
            Some(io) => LakeError::DiskFull {
                path: PathBuf::from(table),
                source: io,
            },
            None => LakeError::Parquet {
                action,
                table: table.to_owned(),
                source,
            },
        }
    }
}

impl Classify for LakeError {
    fn kind(&self) -> ErrorKind {
        match self {
            LakeError::Location { .. }
            | LakeError::StorePromise { .. }
            | LakeError::NoBucket { .. }
            | LakeError::TableFeature { .. }
            | LakeError::ColumnName { .. }
            | LakeError::ColumnType { .. } => ErrorKind::Config,
            LakeError::SchemaChanged { .. } => ErrorKind::SchemaChanged,
            LakeError::ForeignTable { .. }
            | LakeError::NewerFormat { .. }
            | LakeError::Fenced { .. }
            | LakeError::Moved { .. }
            | LakeError::OtherKind { .. }
            | LakeError::OtherStream { .. } => ErrorKind::State,
            // Whether it arrived or not: it cannot while access is refused.
            LakeError::CommitUnknown { source: Some(source), .. } if source.kind() == ErrorKind::Config => {
                ErrorKind::Config
            }
            LakeError::DiskFull { .. }
            | LakeError::Contention { .. }
            | LakeError::CommitUnknown { .. }
            // The batch is read and staged again.
            | LakeError::StagedFileGone { .. } => ErrorKind::Retryable,
            LakeError::Io { source, .. } => io_kind(source),
            LakeError::Store { source, .. } if is_not_allowed(source) => ErrorKind::Config,
            LakeError::Store { source, .. } => store_kind(source),
            LakeError::Delta { source, .. } => delta_kind(source),
            LakeError::Shared(inner) => inner.kind(),
            LakeError::Chunk { .. }
            | LakeError::Parquet { .. }
            | LakeError::WriterStopped { .. }
            | LakeError::Internal(_) => ErrorKind::Internal,
        }
    }
}

fn io_kind(source: &std::io::Error) -> ErrorKind {
    use std::io::ErrorKind as Io;
    match source.kind() {
        Io::PermissionDenied | Io::ReadOnlyFilesystem | Io::NotADirectory | Io::IsADirectory | Io::InvalidFilename => {
            ErrorKind::Config
        }
        _ => ErrorKind::Retryable,
    }
}

fn delta_kind(source: &DeltaTableError) -> ErrorKind {
    match source {
        DeltaTableError::ObjectStore { source } => store_kind(source),
        DeltaTableError::Io { source } => io_kind(source),
        DeltaTableError::InvalidJsonLog { .. }
        | DeltaTableError::InvalidStatsJson { .. }
        | DeltaTableError::NotATable(_)
        | DeltaTableError::MetadataError(_)
        | DeltaTableError::NoSchema => ErrorKind::State,
        // What is left of the kernel's errors once the store's are told apart: a log that it cannot make sense of.
        DeltaTableError::KernelError(_)
            if cause_of::<ObjectStoreError>(source).is_none() && cause_of::<std::io::Error>(source).is_none() =>
        {
            ErrorKind::State
        }
        DeltaTableError::InvalidTableLocation(_) | DeltaTableError::MissingFeature { .. } => ErrorKind::Config,
        // The kernel wraps store errors in its own type, so its cause decides.
        other => match cause_of::<ObjectStoreError>(other) {
            Some(store) => store_kind(store),
            None => match cause_of::<std::io::Error>(other) {
                Some(io) => io_kind(io),
                None => ErrorKind::Internal,
            },
        },
    }
}

fn store_kind(source: &ObjectStoreError) -> ErrorKind {
    match source {
        ObjectStoreError::PermissionDenied { .. }
        | ObjectStoreError::Unauthenticated { .. }
        | ObjectStoreError::UnknownConfigurationKey { .. }
        | ObjectStoreError::InvalidPath { .. } => ErrorKind::Config,
        ObjectStoreError::NotSupported { .. } | ObjectStoreError::NotImplemented { .. } => ErrorKind::Internal,
        ObjectStoreError::NotFound { .. } => ErrorKind::State,
        _ => ErrorKind::Retryable,
    }
}

/// What to set, for the answers that say it least.
fn hint(source: &ObjectStoreError) -> &'static str {
    let text = source.to_string();
    let said = |words: &str| text.contains(words);
    match () {
        // Where the clouds give a machine its identity. It is asked when there is nothing else.
        () if said("169.254.169.254") || said("metadata.google.internal") => {
            " (no credentials are set, in [storage] or in the environment, so this machine's own identity was asked for)"
        }
        () if is_not_allowed(source) => " (its endpoint is http://: set allow_http = true beside it in [storage])",
        () => "",
    }
}

/// A client that may not speak plain HTTP says so at each request.
fn is_not_allowed(source: &ObjectStoreError) -> bool {
    source.to_string().contains("URL scheme is not allowed")
}

fn cause_of<'a, T: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a T> {
    let mut current = Some(error);
    while let Some(error) = current {
        if let Some(found) = error.downcast_ref::<T>() {
            return Some(found);
        }
        current = error.source();
    }
    None
}

fn is_disk_full(source: &std::io::Error) -> bool {
    matches!(
        source.kind(),
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
    )
}

/// A copy of the I/O error that says "full", if one is among the causes. (The original stays inside a foreign type.)
fn full_disk_in(error: &(dyn std::error::Error + 'static)) -> Option<std::io::Error> {
    let io = cause_of::<std::io::Error>(error).filter(|io| is_disk_full(io))?;
    Some(std::io::Error::from(io.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_says_so_wherever_it_hides() {
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let direct = LakeError::io("write", Path::new("/lake/t/a.parquet"), full());
        let wrapped = LakeError::delta(
            "write",
            "/lake/t",
            ObjectStoreError::Generic {
                store: "LocalFileSystem",
                source: Box::new(full()),
            },
        );
        for error in [direct, wrapped] {
            assert!(
                error
                    .to_string()
                    .starts_with("no space left on the device that holds /lake/t"),
                "{error}"
            );
            assert_eq!(error.kind(), ErrorKind::Retryable);
        }
    }

    #[test]
    fn a_store_that_says_little_is_helped_and_an_identity_that_is_away_is_waited_for() {
        let told = |text: &str| {
            let source = ObjectStoreError::Generic {
                store: "S3",
                source: text.into(),
            };
            let error = LakeError::store("write", &"s3://b/x", source);
            (error.to_string(), error.kind())
        };
        let (text, kind) = told("builder error: URL scheme is not allowed");
        assert!(
            text.starts_with("cannot write s3://b/x (") && text.contains("allow_http"),
            "{text}"
        );
        assert_eq!(kind, ErrorKind::Config);
        let (text, kind) = told("PUT http://169.254.169.254/latest/api/token: timed out");
        assert!(text.contains("no credentials are set"), "{text}");
        assert_eq!(kind, ErrorKind::Retryable);
        assert_eq!(told("503"), ("cannot write s3://b/x".to_owned(), ErrorKind::Retryable));
    }

    #[test]
    fn store_errors_are_sorted_by_what_a_person_can_do() {
        let denied = LakeError::io(
            "read",
            Path::new("/x"),
            std::io::Error::from(std::io::ErrorKind::PermissionDenied),
        );
        assert_eq!(denied.kind(), ErrorKind::Config);
        let away = LakeError::delta(
            "read",
            "t",
            ObjectStoreError::Generic {
                store: "S3",
                source: "timed out".into(),
            },
        );
        assert_eq!(away.kind(), ErrorKind::Retryable);
    }
}
