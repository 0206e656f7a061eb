//! What is done to a facts table beside writing it.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::config::MaintenanceSettings;
use crate::error::chain;
use crate::facts::FactsTable;
use crate::lsn::UtcMicros;

/// How often its small files are looked at: all tables write it, and about once a second.
const COMPACTED_EVERY: Duration = Duration::from_secs(60);
/// How often its old rows are looked at.
const THINNED_EVERY: Duration = Duration::from_secs(3600);

/// Until the process is asked to stop.
pub(super) async fn keep_up(table: FactsTable, maintenance: MaintenanceSettings, stop: CancellationToken) {
    if maintenance.compact.is_none() && maintenance.facts_retention.is_none() {
        return;
    }
    let mut thinned: Option<Instant> = None;
    loop {
        if thinned.is_none_or(|thinned| thinned.elapsed() >= THINNED_EVERY)
            && maintenance.window.is_open(UtcMicros::now())
        {
            while remove_old(&table, maintenance).await && !stop.is_cancelled() {}
            thinned = Some(Instant::now());
        }
        tokio::select! {
            () = tokio::time::sleep(COMPACTED_EVERY) => {}
            () = stop.cancelled() => return,
        }
        if let Some(which) = maintenance.compact
            && maintenance.window.is_open(UtcMicros::now())
            && let Err(error) = table.compact(which).await
        {
            tracing::warn!(
                error = chain(&error),
                "small files of the facts table could not be made one"
            );
        }
    }
}

/// Removes some of the rows that are older than their retention, where the window is open. Whether there may be more.
pub(super) async fn remove_old(table: &FactsTable, maintenance: MaintenanceSettings) -> bool {
    let Some(retention) = maintenance.facts_retention else {
        return false;
    };
    if !maintenance.window.is_open(UtcMicros::now()) {
        return false;
    }
    match table.remove_older(retention).await {
        Ok(removed) => {
            if removed.rows > 0 {
                tracing::info!(
                    rows = removed.rows,
                    "rows of the facts table older than their retention are gone"
                );
            }
            removed.more && removed.rows > 0
        }
        Err(error) => {
            tracing::warn!(
                error = chain(&error),
                "old rows of the facts table could not be removed"
            );
            false
        }
    }
}
