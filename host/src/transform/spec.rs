//! One transform of a table, as its configuration has it.

use std::time::Duration;

use super::limits::Limits;

/// What to run, with what, and within which limits.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformSpec {
    /// `NAME` or `NAME@VERSION`.
    pub plugin: String,
    /// SHA-256 of the component's file in hex. With it, another file is refused.
    pub sha256: Option<String>,
    /// The component's own configuration.
    pub config: serde_json::Value,
    /// Names of the keys that the component may have used on its behalf.
    pub keys: Vec<String>,
    /// Whether the component may import WASI, of which it gets an empty one.
    pub wasi: bool,
    /// Names of the reference tables that the component may look things up in.
    pub lookups: Vec<String>,
    /// Linear memory of one instance, in bytes.
    pub memory_bytes: u64,
    /// Wall time for one chunk.
    pub deadline: Duration,
    /// What the component may hand over in one call, in bytes.
    pub output_bytes: u64,
    /// What happens when it cannot transform a row.
    pub on_error: OnError,
}

/// What happens to a batch with a row that cannot be transformed: because it is rejected, or because the component fails on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// The batch fails and the table stops.
    #[default]
    Fail,
    /// The row goes to the quarantine table, and the others go on.
    Quarantine,
}

impl TransformSpec {
    /// `plugin` with an empty configuration, no keys and lookups, and the default limits.
    pub fn new(plugin: impl Into<String>) -> TransformSpec {
        let limits = Limits::default();
        TransformSpec {
            plugin: plugin.into(),
            sha256: None,
            config: serde_json::Value::Object(serde_json::Map::new()),
            keys: Vec::new(),
            wasi: false,
            lookups: Vec::new(),
            memory_bytes: limits.memory_bytes,
            deadline: limits.deadline,
            output_bytes: limits.output_bytes,
            on_error: OnError::Fail,
        }
    }

    /// Its limits.
    pub fn limits(&self) -> Limits {
        Limits {
            memory_bytes: self.memory_bytes,
            deadline: self.deadline,
            output_bytes: self.output_bytes,
        }
    }
}
