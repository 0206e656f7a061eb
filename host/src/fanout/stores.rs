//! What is different where tables are in buckets.

use crate::config::{Settings, TableSettings};
use crate::lake::LakeError;
use crate::storage::{Place, expect_promises};

/// Tables that are opened at a time: polite to the server, and enough for its answers not to be what all wait for.
const OPENED_AT_ONCE: usize = 4;
/// The same where tables are in buckets, whose answers take longer than the server's.
const OPENED_AT_ONCE_IN_BUCKETS: usize = 16;

/// How many tables are opened at a time.
pub(super) fn opened_at_once(settings: &Settings) -> usize {
    let in_a_bucket = |place: &Place| place.as_object().is_some();
    match settings
        .tables
        .iter()
        .any(|table| table.places().into_iter().any(in_a_bucket))
    {
        true => OPENED_AT_ONCE_IN_BUCKETS,
        false => OPENED_AT_ONCE,
    }
}

/// The buckets among the places of the settings keep the promises that everything rests on. An object is written into each, and
/// removed.
///
/// # Errors
/// With kind `config` when one does not, or when it refuses access; and whatever keeps a bucket from answering.
pub(crate) async fn expect_stores(settings: &Settings) -> Result<(), LakeError> {
    let of_tables = settings.tables.iter().flat_map(TableSettings::places);
    let all = settings.ownership.hosts().into_iter().chain(of_tables);
    let in_buckets: Vec<Place> = all.filter(|place| place.as_object().is_some()).cloned().collect();
    if in_buckets.is_empty() {
        return Ok(());
    }
    tokio::task::spawn_blocking(move || expect_promises(&in_buckets))
        .await
        .map_err(|error| LakeError::Internal(format!("the look at the stores was cut off: {error}")))?
}
