//! The client of a bucket, and what is asked of single objects in it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use bytes::Bytes;
use deltalake::ObjectStoreError;
use futures::future::{BoxFuture, FutureExt as _};
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::SpawnedReqwestConnector;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path as ObjectPath;
use object_store::{
    BackoffConfig, ListResult, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, RetryConfig, UpdateVersion,
};
use tokio::runtime::Runtime;

use super::credentials::FromOutside;
use super::options::{Scheme, StoreOptions};
use super::place::{ObjectPlace, Place, Stores};
use crate::lake::LakeError;

/// For how long a request is tried again. Longer than the usual hiccup, and shorter than anybody waits for an answer.
const RETRY_FOR: Duration = Duration::from_secs(60);
/// For how long one request may take.
pub(super) const REQUEST: Duration = Duration::from_secs(30);
/// The same for the few bytes that have to be there in time: one that hangs is tried on another connection before a lease is over.
pub(super) const QUICK_REQUEST: Duration = Duration::from_secs(4);

/// Objects that are asked for at the same time.
const SIDE_BY_SIDE: usize = 16;

/// A bucket and its client, which is made when it is first needed.
pub struct Bucket {
    scheme: Scheme,
    /// Scheme and bucket, as places in it begin.
    name: String,
    stores: Stores,
    /// For how long one request may take.
    patience: Duration,
    client: OnceLock<Arc<dyn ObjectStore>>,
}

/// Which content of an object was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    e_tag: Option<String>,
    version: Option<String>,
}

/// Requests run here, also those of tables: nothing that uses up threads elsewhere keeps an answer, or a lease, from being read.
fn runtime() -> Result<&'static Runtime, ObjectStoreError> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let made = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("storage")
        .enable_all()
        .build()
        .map_err(|source| ObjectStoreError::Generic {
            store: "storage",
            source: Box::new(source),
        })?;
    Ok(RUNTIME.get_or_init(|| made))
}

/// Waits on this thread, which may be one of a runtime's, for what runs on the store's own threads.
fn wait<T: Send + 'static>(
    work: impl Future<Output = Result<T, ObjectStoreError>> + Send + 'static,
) -> Result<T, ObjectStoreError> {
    let (done, result) = mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        let _ = done.send(work.await);
    });
    result.recv().unwrap_or_else(|gone| {
        Err(ObjectStoreError::Generic {
            store: "storage",
            source: Box::new(gone),
        })
    })
}

async fn content_of(store: Arc<dyn ObjectStore>, path: ObjectPath) -> Result<Option<Bytes>, ObjectStoreError> {
    match store.get(&path).await {
        Err(ObjectStoreError::NotFound { .. }) => Ok(None),
        found => Ok(Some(found?.bytes().await?)),
    }
}

impl Bucket {
    pub(super) fn new(scheme: Scheme, name: String, stores: Stores, patience: Duration) -> Bucket {
        Bucket {
            scheme,
            name,
            stores,
            patience,
            client: OnceLock::new(),
        }
    }

    pub(super) fn scheme(&self) -> Scheme {
        self.scheme
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn stores(&self) -> &Stores {
        &self.stores
    }

    fn client(&self) -> Result<&Arc<dyn ObjectStore>, ObjectStoreError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let made = self.connect()?;
        Ok(self.client.get_or_init(|| made))
    }

    fn connect(&self) -> Result<Arc<dyn ObjectStore>, ObjectStoreError> {
        let nothing = StoreOptions::default();
        let options = self.stores.options().of(self.scheme).unwrap_or(&nothing);
        let values = options.values.iter().map(|(key, source)| {
            let value = source.read().map_err(|problem| ObjectStoreError::Unauthenticated {
                path: self.name.clone(),
                source: format!("storage.{}.{key} {problem}", self.scheme.key()).into(),
            })?;
            Ok::<_, ObjectStoreError>((key, value))
        });
        let connector = SpawnedReqwestConnector::new(runtime()?.handle().clone());
        // The time decides, and not how often.
        let retry = RetryConfig {
            max_retries: usize::MAX,
            retry_timeout: RETRY_FOR.min(self.patience * 2),
            backoff: BackoffConfig {
                max_backoff: Duration::from_secs(2),
                ..BackoffConfig::default()
            },
        };
        let timeout = format!("{} seconds", self.patience.as_secs());
        let url = format!("{}/", self.name);
        Ok(match self.scheme {
            Scheme::S3 => {
                let mut builder = AmazonS3Builder::from_env()
                    .with_config("timeout".parse()?, &timeout)
                    .with_url(url);
                for option in values {
                    let (key, value) = option?;
                    builder = builder.with_config(key.parse()?, value.reveal());
                }
                if let Some(source) = &options.credentials {
                    builder = builder.with_credentials(Arc::new(FromOutside::new(source.clone())));
                }
                Arc::new(builder.with_retry(retry).with_http_connector(connector).build()?)
            }
            Scheme::Azure => {
                let mut builder = MicrosoftAzureBuilder::from_env()
                    .with_config("timeout".parse()?, &timeout)
                    .with_url(url);
                for option in values {
                    let (key, value) = option?;
                    builder = builder.with_config(key.parse()?, value.reveal());
                }
                Arc::new(builder.with_retry(retry).with_http_connector(connector).build()?)
            }
            Scheme::Gcs => {
                let mut builder = GoogleCloudStorageBuilder::from_env()
                    .with_config("timeout".parse()?, &timeout)
                    .with_url(url);
                for option in values {
                    let (key, value) = option?;
                    builder = builder.with_config(key.parse()?, value.reveal());
                }
                Arc::new(builder.with_retry(retry).with_http_connector(connector).build()?)
            }
        })
    }
}

impl ObjectPlace {
    /// The client of its bucket.
    pub fn store(&self) -> Result<Arc<dyn ObjectStore>, ObjectStoreError> {
        self.bucket.client().map(Arc::clone)
    }

    /// What kind of store it is in.
    pub fn scheme(&self) -> Scheme {
        self.bucket.scheme()
    }

    /// Its path in the bucket.
    pub fn path(&self) -> &ObjectPath {
        &self.path
    }

    /// What it holds, and which content that is; `None` when there is none. Blocks.
    pub(crate) fn read(&self) -> Result<Option<(Bytes, Version)>, ObjectStoreError> {
        let (store, path) = (self.store()?, self.path.clone());
        wait(async move {
            let found = match store.get(&path).await {
                Err(ObjectStoreError::NotFound { .. }) => return Ok(None),
                found => found?,
            };
            let version = Version {
                e_tag: found.meta.e_tag.clone(),
                version: found.meta.version.clone(),
            };
            Ok(Some((found.bytes().await?, version)))
        })
    }

    /// What each of them holds, asked for side by side; `None` where there is none. Blocks.
    pub(crate) fn read_all(all: &[ObjectPlace]) -> Result<Vec<Option<Bytes>>, ObjectStoreError> {
        let asked = all
            .iter()
            .map(|object| Ok((object.store()?, object.path.clone())))
            .collect::<Result<Vec<_>, ObjectStoreError>>()?;
        let answers: Vec<BoxFuture<'static, _>> = asked
            .into_iter()
            .map(|(store, path)| content_of(store, path).boxed())
            .collect();
        wait(async move {
            let answers = futures::stream::iter(answers).buffered(SIDE_BY_SIDE);
            answers.try_collect().await
        })
    }

    /// Writes it where there is none. Whether it was written; `false` also where an earlier answer to the same request was lost.
    /// Blocks.
    pub(crate) fn create(&self, content: &[u8]) -> Result<bool, ObjectStoreError> {
        self.put(content, PutMode::Create)
    }

    /// Writes it, whatever is there. Blocks.
    pub(crate) fn write(&self, content: &[u8]) -> Result<(), ObjectStoreError> {
        self.put(content, PutMode::Overwrite).map(|_| ())
    }

    /// Writes it in place of the content that was read; `None`: where there was none. Whether it was; `false` also where an earlier
    /// answer to the same request was lost. Blocks.
    pub(crate) fn swap(&self, read: Option<&Version>, content: &[u8]) -> Result<bool, ObjectStoreError> {
        let mode = match read {
            None => PutMode::Create,
            Some(version) => PutMode::Update(UpdateVersion {
                e_tag: version.e_tag.clone(),
                version: version.version.clone(),
            }),
        };
        self.put(content, mode)
    }

    fn put(&self, content: &[u8], mode: PutMode) -> Result<bool, ObjectStoreError> {
        let (store, path, content) = (self.store()?, self.path.clone(), Bytes::copy_from_slice(content));
        let (creates, replaces) = (matches!(mode, PutMode::Create), matches!(mode, PutMode::Update(_)));
        wait(async move {
            let options = PutOptions {
                mode,
                ..PutOptions::default()
            };
            match store.put_opts(&path, content.into(), options).await {
                Ok(_) => Ok(true),
                // The client calls each conflict so, also one of two requests at one moment that left nothing there.
                Err(error @ ObjectStoreError::AlreadyExists { .. }) if creates => match store.head(&path).await {
                    Ok(_) => Ok(false),
                    Err(ObjectStoreError::NotFound { .. }) => Err(error),
                    Err(unknown) => Err(unknown),
                },
                Err(ObjectStoreError::AlreadyExists { .. } | ObjectStoreError::Precondition { .. })
                    if creates || replaces =>
                {
                    Ok(false)
                }
                // It was removed after it was read. Where none is to be replaced, it is the bucket that is not there.
                Err(ObjectStoreError::NotFound { .. }) if replaces => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// Removes it, be it there or not. Blocks.
    pub(crate) fn remove(&self) -> Result<(), ObjectStoreError> {
        let (store, path) = (self.store()?, self.path.clone());
        wait(async move {
            match store.delete(&path).await {
                Err(ObjectStoreError::NotFound { .. }) => Ok(()),
                removed => removed,
            }
        })
    }

    /// The objects below it, and the prefixes. Blocks.
    fn listed(&self) -> Result<ListResult, ObjectStoreError> {
        let (store, path) = (self.store()?, self.path.clone());
        wait(async move { store.list_with_delimiter(Some(&path)).await })
    }

    fn sizes(&self) -> Result<Vec<(String, u64)>, ObjectStoreError> {
        let objects = self.listed()?.objects.into_iter();
        let sizes = objects.filter_map(|object| Some((object.location.filename()?.to_owned(), object.size)));
        Ok(sizes.collect())
    }

    fn names(&self) -> Result<Vec<String>, ObjectStoreError> {
        let listed = self.listed()?;
        let objects = listed.objects.iter().map(|object| &object.location);
        let all = objects.chain(&listed.common_prefixes);
        Ok(all.filter_map(|path| path.filename()).map(str::to_owned).collect())
    }
}

impl Place {
    /// The names of what is in a folder, or below a prefix; none when there is nothing. Blocks.
    ///
    /// # Errors
    /// What the system or the store says.
    pub(crate) fn names(&self) -> Result<Vec<String>, LakeError> {
        let folder = match self.split() {
            Ok(folder) => folder,
            Err(object) => return object.names().map_err(|error| LakeError::store("list", object, error)),
        };
        let failed = |error| LakeError::io("list", folder, error);
        let entries = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let names = entries.map(|entry| Ok(entry.map_err(failed)?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }

    /// Names and sizes of the files in a folder, or of the objects below a prefix; none when there is nothing. Blocks.
    ///
    /// # Errors
    /// What the system or the store says.
    pub(crate) fn sizes(&self) -> Result<Vec<(String, u64)>, LakeError> {
        let folder = match self.split() {
            Ok(folder) => folder,
            Err(object) => return object.sizes().map_err(|error| LakeError::store("list", object, error)),
        };
        let mut found = Vec::new();
        for name in self.names()? {
            // A file that went away between the two calls is not there.
            if let Ok(metadata) = std::fs::metadata(folder.join(&name)) {
                found.push((name, metadata.len()));
            }
        }
        Ok(found)
    }

    /// What a file or an object holds; `None` when there is none. Blocks.
    ///
    /// # Errors
    /// What the system or the store says.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>, LakeError> {
        let path = match self.split() {
            Ok(path) => path,
            Err(object) => {
                let read = object.read().map_err(|error| LakeError::store("read", object, error))?;
                return Ok(read.map(|(content, _)| content.into()));
            }
        };
        match std::fs::read(path) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LakeError::io("read", path, error)),
        }
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl PartialEq for Bucket {
    fn eq(&self, other: &Bucket) -> bool {
        self.name == other.name
    }
}

impl Eq for Bucket {}

impl PartialOrd for Bucket {
    fn partial_cmp(&self, other: &Bucket) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bucket {
    fn cmp(&self, other: &Bucket) -> std::cmp::Ordering {
        self.name.cmp(&other.name)
    }
}

impl Hash for Bucket {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}
