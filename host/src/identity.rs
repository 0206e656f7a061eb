//! The names that a stream goes by.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of a capture instance, such as `dbo_orders`. SQL Server compares it without regard to case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CaptureInstance(pub String);

/// The application id under which a stream commits to Delta: one per stream, for ever.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AppId(pub String);

/// The number of a batch within its stream, from 0. It is the version of the stream's `txn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BatchId(pub i64);

impl fmt::Display for CaptureInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The host's name for people; a container sets `HOSTNAME`.
pub(crate) fn host_name() -> String {
    let from_file = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = from_file()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .or_else(|| std::env::var("COMPUTERNAME").ok());
    name.map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

/// What this process calls itself in facts.
pub(crate) fn host_id() -> String {
    format!("{}/{}", host_name(), std::process::id())
}
