//! What the configuration says of object stores.

use std::collections::BTreeMap;

use crate::config::SecretSource;

/// A kind of object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// S3 and what speaks its protocol.
    S3,
    /// Azure Blob Storage and Data Lake Storage.
    Azure,
    /// Google Cloud Storage.
    Gcs,
}

impl Scheme {
    /// All there are.
    pub const ALL: [Scheme; 3] = [Scheme::S3, Scheme::Azure, Scheme::Gcs];

    /// By the scheme of a URL.
    pub fn of(scheme: &str) -> Option<Scheme> {
        match scheme {
            "s3" | "s3a" => Some(Scheme::S3),
            "az" | "abfs" | "abfss" => Some(Scheme::Azure),
            "gs" => Some(Scheme::Gcs),
            _ => None,
        }
    }

    /// Its key in `[storage]`.
    pub fn key(self) -> &'static str {
        match self {
            Scheme::S3 => "s3",
            Scheme::Azure => "azure",
            Scheme::Gcs => "gcs",
        }
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::S3 => "S3",
            Scheme::Azure => "Azure",
            Scheme::Gcs => "GCS",
        }
    }

    /// What a place in it looks like.
    pub fn shape(self) -> &'static str {
        match self {
            Scheme::S3 => "s3://bucket/folder",
            Scheme::Azure => {
                "az://container/folder (with account_name in [storage.azure]) or \
                 abfss://container@account.dfs.core.windows.net/folder"
            }
            Scheme::Gcs => "gs://bucket/folder",
        }
    }

    pub(super) fn known() -> &'static str {
        "s3://, az://, abfss:// or gs://"
    }
}

/// `[storage]`: what the clients of object stores need to know besides the names of buckets. What is not set here is taken from
/// the environment variables and the machine's identity that such clients commonly use.
#[derive(Clone, Debug, Default)]
pub struct StorageOptions {
    pub(crate) stores: BTreeMap<Scheme, StoreOptions>,
}

/// Of one kind of store.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreOptions {
    /// By the names that the `object_store` crate gives them. Read when a client is made.
    pub(crate) values: BTreeMap<String, SecretSource>,
    /// Where credentials that run out come from.
    pub(crate) credentials: Option<SecretSource>,
}

impl StorageOptions {
    pub(super) fn of(&self, scheme: Scheme) -> Option<&StoreOptions> {
        self.stores.get(&scheme)
    }
}
