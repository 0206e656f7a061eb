//! The Delta log of one table, followed version by version.
//!
//! A whole snapshot holds every file of a table; a process with a thousand tables cannot keep one for each. What commits
//! depend on is little: the newest version, the schema, the protocol, and the transaction ids that sluice writes. So the
//! log is loaded once through the Delta kernel, and from then on only entries that are new are read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use delta_kernel::schema::StructType;
use delta_kernel::{Snapshot, SnapshotRef};
use deltalake::DeltaTableError;
use deltalake::kernel::transaction::{CommitData, TransactionError};
use deltalake::kernel::{Action, Metadata, MetadataExt, Protocol, Transaction, Version, new_metadata};
use deltalake::logstore::object_store::prefix::PrefixStore;
use deltalake::logstore::{CommitOrBytes, LogStoreRef, StorageConfig, default_logstore, logstore_for};
use deltalake::protocol::{DeltaOperation, SaveMode};
use serde::Deserialize;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::LakeError;
use super::durable::{self, Published};
use crate::failpoint::faults;
use crate::storage::Place;

/// Table property with the format of the table's kind.
pub const SCHEMA_VERSION: &str = "sluice.schema_version";
/// Table property with the oldest format that a reader or writer has to know.
pub const MIN_VERSION: &str = "sluice.min_version";
/// The newest format that this build knows, for every kind of table.
pub const KNOWN_FORMAT: u32 = 1;

/// Key in a commit's `commitInfo` that tells our own commit from others when the reply was lost.
const TOKEN: &str = "sluiceCommit";

/// What a new table is made of.
pub struct NewTable<'a> {
    /// Its schema.
    pub schema: &'a StructType,
    /// Its comment.
    pub comment: String,
}

/// A transaction id as the log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The highest version recorded under the id.
    pub version: i64,
    /// The table version that recorded it, when it was seen since the log was opened.
    pub at: Option<Version>,
}

/// The log of one table up to [`DeltaLog::version`].
pub struct DeltaLog {
    store: LogStoreRef,
    location: Place,
    name: String,
    version: Version,
    metadata: Metadata,
    protocol: Protocol,
    schema: Arc<StructType>,
    /// An entry up to `version` changed metadata or protocol, and ours are older. Set before the version moves on and
    /// cleared by [`DeltaLog::adopt`] alone, so that an error in between does not make us forget it.
    stale_config: bool,
    /// Ids that were looked up or seen. An id that is in here with `None` is known to be absent.
    txns: HashMap<String, Option<Recorded>>,
    #[cfg(test)]
    pub(crate) failpoint: Arc<std::sync::Mutex<Vec<FailPoint>>>,
}

/// Faults that a test asks the next writes of an entry for.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailPoint {
    /// The store took the entry, and the answer got lost.
    ReplyLost,
    /// The entry never reached the store.
    NotSent,
    /// The entry of this version cannot be read, once.
    Unreadable(Version),
}

/// The answer to writing an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The version is ours.
    Written,
    /// The version was there already: another writer's, or ours if an earlier reply was lost.
    Exists,
}

/// How many entries are looked through for another stream's.
const LOOK_BACK: Version = 100;

impl DeltaLog {
    /// Opens the table, after creating it when there is none. `name` is how errors call it.
    pub async fn open_or_create(location: &Place, new: NewTable<'_>) -> Result<DeltaLog, LakeError> {
        if let Some(folder) = location.as_local() {
            let log = folder.join("_delta_log");
            std::fs::create_dir_all(&log).map_err(|source| LakeError::io("create", &log, source))?;
        }
        let name = location.to_string();
        let store = open_store(location)?;
        let exists = store
            .is_delta_table_location()
            .await
            .map_err(|source| LakeError::delta("look for", &name, source))?;
        if !exists {
            create(&store, location, &name, new).await?;
        }
        DeltaLog::load(store, location, name).await
    }

    /// Opens the table when there is one.
    pub async fn open(location: &Place) -> Result<Option<DeltaLog>, LakeError> {
        let name = location.to_string();
        // The local store makes the folder of a table that it is asked for, and a reader must not.
        if location
            .as_local()
            .is_some_and(|folder| !folder.join("_delta_log").is_dir())
        {
            return Ok(None);
        }
        let store = open_store(location)?;
        let exists = store
            .is_delta_table_location()
            .await
            .map_err(|source| LakeError::delta("look for", &name, source))?;
        if !exists {
            return Ok(None);
        }
        DeltaLog::load(store, location, name).await.map(Some)
    }

    async fn load(store: LogStoreRef, location: &Place, name: String) -> Result<DeltaLog, LakeError> {
        let snapshot = snapshot(&store, None, &name).await?;
        let log = DeltaLog {
            store,
            location: location.clone(),
            version: snapshot.version(),
            metadata: snapshot.table_configuration().metadata().clone(),
            protocol: snapshot.table_configuration().protocol().clone(),
            schema: snapshot.table_configuration().logical_schema(),
            stale_config: false,
            txns: HashMap::new(),
            name,
            #[cfg(test)]
            failpoint: Arc::default(),
        };
        log.check_ours()?;
        Ok(log)
    }

    /// How errors call the table: its location.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the table is.
    pub fn location(&self) -> &Place {
        &self.location
    }

    /// The newest version that was seen.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The schema at that version.
    pub fn schema(&self) -> &Arc<StructType> {
        &self.schema
    }

    /// The store of the table's files.
    pub fn store(&self) -> &LogStoreRef {
        &self.store
    }

    /// The metadata action that brings a new schema.
    pub fn with_schema(&self, schema: &StructType) -> Result<Action, LakeError> {
        let metadata = self.metadata.clone().with_schema(schema);
        let metadata = metadata.map_err(|source| LakeError::delta("build the schema of", &self.name, source))?;
        Ok(Action::Metadata(metadata))
    }

    /// What the log has for an id that [`DeltaLog::follow`] was told about.
    pub fn recorded(&self, app_id: &str) -> Option<Recorded> {
        self.txns.get(app_id).copied().flatten()
    }

    /// Looks ids up once, so that [`DeltaLog::recorded`] knows them from here on.
    pub async fn follow(&mut self, app_ids: &[String]) -> Result<(), LakeError> {
        if app_ids.iter().all(|id| self.txns.contains_key(id)) {
            return Ok(());
        }
        // A new snapshot may be ahead of what was read so far, so both move together.
        self.refresh().await?;
        let missing: Vec<String> = app_ids
            .iter()
            .filter(|id| !self.txns.contains_key(*id))
            .cloned()
            .collect();
        let snapshot = snapshot(&self.store, Some(self.version), &self.name).await?;
        let found = lookup(&self.store, snapshot, missing, &self.name).await?;
        self.txns.extend(found);
        Ok(())
    }

    /// An id that the newest entries have and that `is_own` does not know; only as far back as the log is kept in single entries,
    /// and no further than [`LOOK_BACK`] of them.
    pub async fn other_txn(&self, is_own: impl Fn(&str) -> bool) -> Result<Option<String>, LakeError> {
        for version in (self.version.saturating_sub(LOOK_BACK)..=self.version).rev() {
            let Some(entry) = self.read_entry(version).await? else {
                break;
            };
            if let Some(other) = entry.txns.into_iter().find(|txn| !is_own(&txn.app_id)) {
                return Ok(Some(other.app_id));
            }
        }
        Ok(None)
    }

    /// Reads what was committed since. Answers the tokens of the new entries by version; versions that are missing from
    /// it (the log was cleaned up under us, so everything was loaded anew) are to be looked up one by one.
    pub async fn refresh(&mut self) -> Result<BTreeMap<Version, Option<String>>, LakeError> {
        faults::read(faults::DELTA_READ).map_err(|source| self.unread(source))?;
        let mut seen = BTreeMap::new();
        let listed = {
            let _place = kernel().await?;
            self.store.get_latest_version(self.version).await
        };
        let latest = match listed {
            Ok(latest) if latest >= self.version => latest,
            // Our own version is no longer in the log, or the listing has a hole: the kernel sorts it out.
            Ok(_) | Err(_) => {
                self.reload().await?;
                return Ok(seen);
            }
        };
        for version in self.version + 1..=latest {
            let Some(entry) = self.read_entry(version).await? else {
                self.reload().await?;
                return Ok(seen);
            };
            self.stale_config |= entry.reconfigures;
            seen.insert(version, entry.token);
            for txn in entry.txns {
                self.record(&txn, version);
            }
            self.version = version;
        }
        if self.stale_config {
            self.reconfigure().await?;
        }
        // Every time, not only when it changed: what was refused once stays refused.
        self.check_ours()?;
        Ok(seen)
    }

    /// The newest entry that recorded `txn_version` under `app_id`, with its `userMetadata`, as far back as the log goes.
    pub async fn find(&self, app_id: &str, txn_version: i64) -> Result<Option<(Version, Option<String>)>, LakeError> {
        for version in (0..=self.version).rev() {
            let Some(entry) = self.read_entry(version).await? else {
                break;
            };
            if entry
                .txns
                .iter()
                .any(|txn| txn.app_id == app_id && txn.version == txn_version)
            {
                return Ok(Some((version, entry.user_metadata)));
            }
        }
        Ok(None)
    }

    /// The token of one entry: `None` when there is no such entry (any more).
    pub async fn token_at(&self, version: Version) -> Result<Option<Option<String>>, LakeError> {
        Ok(self.read_entry(version).await?.map(|entry| entry.token))
    }

    /// One attempt to write the entry after the newest known version. Nothing is retried here.
    /// `site` is what tests call it.
    pub async fn put(&self, site: Option<&'static str>, entry: &[u8]) -> Result<Put, LakeError> {
        #[cfg(test)]
        let fail = self.failpoint.lock().ok().and_then(|mut faults| {
            let of_a_write = faults
                .last()
                .is_some_and(|fault| !matches!(fault, FailPoint::Unreadable(_)));
            if of_a_write { faults.pop() } else { None }
        });
        #[cfg(test)]
        if fail == Some(FailPoint::NotSent) {
            return Err(test_fault(&self.name));
        }
        let put = put_entry(&self.store, &self.location, &self.name, self.version + 1, site, entry).await;
        #[cfg(test)]
        if fail == Some(FailPoint::ReplyLost) {
            return Err(test_fault(&self.name));
        }
        put
    }

    /// Takes over what our own commit did, without reading it back.
    pub async fn applied(&mut self, actions: &[Action]) -> Result<(), LakeError> {
        self.version += 1;
        let version = self.version;
        for action in actions {
            match action {
                Action::Txn(txn) => self.record(txn, version),
                Action::Metadata(_) | Action::Protocol(_) => self.stale_config = true,
                _ => {}
            }
        }
        if self.stale_config {
            self.reconfigure().await?;
        }
        Ok(())
    }

    /// The bytes of an entry, with the token that tells it from others.
    pub fn entry(
        &self,
        actions: &[Action],
        txns: &[Transaction],
        operation: DeltaOperation,
        token: &str,
        user_metadata: Option<String>,
    ) -> Result<Vec<u8>, LakeError> {
        entry_bytes(&self.name, actions, txns, operation, token, user_metadata)
    }

    /// After a commit: a checkpoint of the log where one is due, and the log's clean-up after it. Failures only warn,
    /// because the commit stands without them and the next one tries again.
    pub async fn maintain(&self) {
        if let Err(error) = self.try_maintain().await {
            let cause = std::error::Error::source(&error)
                .map(ToString::to_string)
                .unwrap_or_default();
            tracing::warn!(table = %self.name, version = self.version, %error, cause, "no checkpoint of the log was written");
        }
    }

    async fn try_maintain(&self) -> Result<(), LakeError> {
        use deltalake::table::config::TablePropertiesExt as _;
        let properties = self.metadata.parse_table_properties();
        if !(self.version + 1).is_multiple_of(properties.checkpoint_interval().get()) {
            return Ok(());
        }
        let failed = |source| LakeError::delta("write a checkpoint of", &self.name, source);
        let snapshot = snapshot(&self.store, Some(self.version), &self.name).await?;
        let engine = self.store.engine(None);
        let place = kernel().await?;
        blocking(&self.name, move || {
            snapshot.checkpoint(engine.as_ref(), None).map(|_| ())
        })
        .await?
        .map_err(|source| failed(source.into()))?;
        drop(place);
        if properties.enable_expired_log_cleanup() {
            let keep_ms = i64::try_from(properties.log_retention_duration().as_millis()).unwrap_or(i64::MAX);
            let cutoff_ms = chrono::Utc::now().timestamp_millis().saturating_sub(keep_ms);
            deltalake::checkpoints::cleanup_expired_logs_for(self.version, self.store.as_ref(), cutoff_ms, None)
                .await
                .map_err(failed)?;
        }
        Ok(())
    }

    fn record(&mut self, txn: &Transaction, version: Version) {
        let recorded = Recorded {
            version: txn.version,
            at: Some(version),
        };
        self.txns.insert(txn.app_id.clone(), Some(recorded));
    }

    /// The log's files could not be read.
    fn unread(&self, source: std::io::Error) -> LakeError {
        LakeError::delta("read the log of", &self.name, DeltaTableError::Io { source })
    }

    async fn reconfigure(&mut self) -> Result<(), LakeError> {
        let snapshot = snapshot(&self.store, Some(self.version), &self.name).await?;
        self.adopt(&snapshot)
    }

    async fn reload(&mut self) -> Result<(), LakeError> {
        let snapshot = snapshot(&self.store, None, &self.name).await?;
        let known: Vec<String> = self.txns.keys().cloned().collect();
        let found = lookup(&self.store, snapshot.clone(), known, &self.name).await?;
        self.txns = found;
        self.version = snapshot.version();
        self.adopt(&snapshot)
    }

    fn adopt(&mut self, snapshot: &SnapshotRef) -> Result<(), LakeError> {
        self.metadata = snapshot.table_configuration().metadata().clone();
        self.protocol = snapshot.table_configuration().protocol().clone();
        self.schema = snapshot.table_configuration().logical_schema();
        self.stale_config = false;
        self.check_ours()
    }

    fn check_ours(&self) -> Result<(), LakeError> {
        super::protocol::check(&self.name, &self.metadata, &self.protocol, &self.schema)
    }

    async fn read_entry(&self, version: Version) -> Result<Option<LogEntry>, LakeError> {
        #[cfg(test)]
        if let Ok(mut faults) = self.failpoint.lock()
            && let Some(at) = faults.iter().position(|fault| *fault == FailPoint::Unreadable(version))
        {
            faults.remove(at);
            return Err(test_fault(&self.name));
        }
        let bytes = self
            .store
            .read_commit_entry(version)
            .await
            .map_err(|source| LakeError::delta("read the log of", &self.name, source))?;
        bytes.map(|bytes| parse_entry(&bytes, version, &self.name)).transpose()
    }
}

/// What one entry of the log says that matters here.
struct LogEntry {
    token: Option<String>,
    user_metadata: Option<String>,
    txns: Vec<Transaction>,
    reconfigures: bool,
}

/// The rest of a line is skipped without being built, so that a commit of ten thousand files costs little.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogLine {
    txn: Option<Transaction>,
    commit_info: Option<OurCommitInfo>,
    meta_data: Option<serde::de::IgnoredAny>,
    protocol: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct OurCommitInfo {
    #[serde(rename = "sluiceCommit")]
    token: Option<String>,
    #[serde(rename = "userMetadata")]
    user_metadata: Option<String>,
}

fn parse_entry(bytes: &[u8], version: Version, table: &str) -> Result<LogEntry, LakeError> {
    let mut entry = LogEntry {
        token: None,
        user_metadata: None,
        txns: Vec::new(),
        reconfigures: false,
    };
    for line in serde_json::Deserializer::from_slice(bytes).into_iter::<LogLine>() {
        let line = line.map_err(|json_err| {
            let line = format!("line {}, column {}", json_err.line(), json_err.column());
            LakeError::delta(
                "read the log of",
                table,
                DeltaTableError::InvalidJsonLog {
                    json_err,
                    line,
                    version,
                },
            )
        })?;
        entry.txns.extend(line.txn);
        entry.reconfigures |= line.meta_data.is_some() || line.protocol.is_some();
        if let Some(info) = line.commit_info {
            entry.token = info.token.or(entry.token);
            entry.user_metadata = info.user_metadata.or(entry.user_metadata);
        }
    }
    Ok(entry)
}

fn entry_bytes(
    table: &str,
    actions: &[Action],
    txns: &[Transaction],
    operation: DeltaOperation,
    token: &str,
    user_metadata: Option<String>,
) -> Result<Vec<u8>, LakeError> {
    let mut info = HashMap::from([
        (TOKEN.to_owned(), token.into()),
        (
            "clientVersion".to_owned(),
            concat!("sluice.", env!("CARGO_PKG_VERSION")).into(),
        ),
    ]);
    if let Some(text) = user_metadata {
        info.insert("userMetadata".to_owned(), text.into());
    }
    let data = CommitData::new(actions.to_vec(), operation, info, txns.to_vec());
    let bytes = data
        .get_bytes()
        .map_err(|source| LakeError::delta("write the log of", table, source))?;
    Ok(bytes.to_vec())
}

fn open_store(location: &Place) -> Result<LogStoreRef, LakeError> {
    let failed = |source: DeltaTableError| LakeError::delta("open", &location.to_string(), source);
    let url = folder_url(location)?;
    let Some(object) = location.as_object() else {
        return logstore_for(&url, StorageConfig::default()).map_err(failed);
    };
    let bucket = object.store().map_err(|source| failed(source.into()))?;
    let table = Arc::new(PrefixStore::new(Arc::clone(&bucket), object.path().clone()));
    Ok(default_logstore(table, bucket, &url, &StorageConfig::default()))
}

fn folder_url(location: &Place) -> Result<url::Url, LakeError> {
    location.folder_url().ok_or_else(|| LakeError::Location {
        location: location.to_string(),
        reason: "it is not absolute, or cannot be written as a URL".to_owned(),
    })
}

async fn create(store: &LogStoreRef, location: &Place, table: &str, new: NewTable<'_>) -> Result<(), LakeError> {
    let failed = |source: DeltaTableError| LakeError::delta("create", table, source);
    // TIMESTAMP_NTZ is a table feature, and features need these two versions.
    let protocol: Protocol = serde_json::from_value(serde_json::json!({
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["timestampNtz"],
        "writerFeatures": ["timestampNtz"],
    }))
    .map_err(|error| LakeError::Internal(format!("the protocol of a new table: {error}")))?;
    let metadata = new_metadata(
        new.schema,
        Vec::<String>::new(),
        [(SCHEMA_VERSION, KNOWN_FORMAT.to_string())],
    )
    .and_then(|metadata| metadata.with_description(new.comment))
    .map_err(|source| failed(source.into()))?;
    let operation = DeltaOperation::Create {
        mode: SaveMode::ErrorIfExists,
        location: folder_url(location)?,
        protocol: protocol.clone(),
        metadata: metadata.clone(),
    };
    let actions = [Action::Protocol(protocol), Action::Metadata(metadata)];
    let token = uuid::Uuid::new_v4().to_string();
    let entry = entry_bytes(table, &actions, &[], operation, &token, None)?;
    // Somebody else may have made it in between: then it is opened like any other.
    put_entry(store, location, table, 0, None, &entry).await.map(|_| ())
}

async fn put_entry(
    store: &LogStoreRef,
    location: &Place,
    table: &str,
    version: Version,
    site: Option<&'static str>,
    entry: &[u8],
) -> Result<Put, LakeError> {
    if let Some(folder) = location.as_local() {
        let path = folder.join("_delta_log").join(format!("{version:020}.json"));
        let entry = entry.to_vec();
        return blocking(table, move || {
            let file = path.clone();
            match faults::put(site, move || durable::publish_new(&file, &entry)) {
                Ok(Published::Written) => Ok(Put::Written),
                Ok(Published::Exists) => Ok(Put::Exists),
                Err(source) => Err(LakeError::io("write", &path, source)),
            }
        })
        .await?;
    }
    let bytes = CommitOrBytes::LogBytes(entry.to_vec().into());
    match store.write_commit_entry(version, bytes, uuid::Uuid::new_v4()).await {
        Ok(()) => Ok(Put::Written),
        Err(TransactionError::VersionAlreadyExists(_)) => Ok(Put::Exists),
        Err(source) => Err(LakeError::delta("commit to", table, source)),
    }
}

async fn snapshot(store: &LogStoreRef, version: Option<Version>, table: &str) -> Result<SnapshotRef, LakeError> {
    let _place = kernel().await?;
    let engine = store.engine(None);
    let root = store.root_url().clone();
    blocking(table, move || {
        let builder = Snapshot::builder_for(root);
        let builder = match version {
            Some(version) => builder.at_version(version),
            None => builder,
        };
        builder.build(engine.as_ref())
    })
    .await?
    .map_err(|source| LakeError::delta("read the log of", table, source))
}

async fn lookup(
    store: &LogStoreRef,
    snapshot: SnapshotRef,
    app_ids: Vec<String>,
    table: &str,
) -> Result<HashMap<String, Option<Recorded>>, LakeError> {
    let _place = kernel().await?;
    let engine = store.engine(None);
    blocking(table, move || {
        app_ids
            .into_iter()
            .map(|id| {
                let version = snapshot.get_app_id_version(&id, engine.as_ref())?;
                Ok((id, version.map(|version| Recorded { version, at: None })))
            })
            .collect::<Result<HashMap<_, _>, delta_kernel::Error>>()
    })
    .await?
    .map_err(|source| LakeError::delta("read the transaction ids of", table, source))
}

/// How much work of the Delta kernel is under way at a time. It runs on a thread for blocking work and waits there for files,
/// which the local store reads on threads of the same kind: with all of them taken by such work, none would ever end.
static KERNEL: Semaphore = Semaphore::const_new(16);

/// Waits for a place for work of the Delta kernel.
pub async fn kernel() -> Result<SemaphorePermit<'static>, LakeError> {
    KERNEL
        .acquire()
        .await
        .map_err(|_| LakeError::Internal("the gate of the Delta kernel is closed".to_owned()))
}

/// Runs blocking work of a table off the runtime's threads.
pub async fn blocking<T: Send + 'static>(
    table: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LakeError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| LakeError::Internal(format!("work on {table} was cut off: {error}")))
}

#[cfg(test)]
fn test_fault(table: &str) -> LakeError {
    let source = std::io::Error::from(std::io::ErrorKind::TimedOut);
    LakeError::io("reach", std::path::Path::new(table), source)
}
