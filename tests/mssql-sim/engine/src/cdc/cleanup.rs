//! Cleanup: the low endpoint moves first, then rows go in steps.

use std::sync::Arc;

use rusqlite::{Result, params};

use super::Lsn;
use crate::{
    catalog::{Catalog, load},
    database::Database,
    types::TICKS_PER_SECOND,
};

/// Moves an instance's low endpoint and deletes its older rows, `threshold` rows a step.
///
/// # Errors
/// SQLite's.
pub(super) fn clean(database: &Database, instance: i64, low: Lsn, threshold: i64) -> Result<()> {
    let moved = {
        let mut state = database.cdc.lock();
        match state.starts.get_mut(&instance) {
            Some(start) if *start < low => {
                *start = low;
                true
            }
            _ => false,
        }
    };
    if moved {
        locked(database, |conn| {
            conn.execute(
                "UPDATE cdc._sim_instance SET start_lsn = ?2 WHERE id = ?1",
                params![instance, low.0.as_slice()],
            )
        })?;
    }
    let step = threshold.max(1);
    loop {
        let gone = locked(database, |conn| {
            // The rows of a step are those of the first so many: their greatest key bounds the delete.
            let bound: Option<Vec<u8>> = conn.query_row(
                &format!("SELECT max(c1) FROM (SELECT c1 FROM cdc.t{instance} WHERE c1 < ?1 ORDER BY c1 LIMIT ?2)"),
                params![low.0.as_slice(), step],
                |r| r.get(0),
            )?;
            match bound {
                Some(bound) => conn.execute(&format!("DELETE FROM cdc.t{instance} WHERE c1 <= ?1"), [bound]),
                None => Ok(0),
            }
        })?;
        if gone == 0 {
            break;
        }
    }
    clean_mapping(database)
}

/// Entries of `cdc.lsn_time_mapping` that lie below every instance's low endpoint.
fn clean_mapping(database: &Database) -> Result<()> {
    let starts = database.cdc.lock().starts.clone();
    locked(database, |conn| {
        let catalog = load(conn, &Arc::new(Catalog::default()))?;
        let alive = starts.iter().filter(|(id, _)| catalog.instances.contains_key(&-**id));
        let Some(lowest) = alive.map(|(_, start)| *start).min() else {
            return Ok(0);
        };
        match catalog.table(Some("cdc"), "lsn_time_mapping") {
            Some(table) => conn.execute(
                &format!("DELETE FROM {} WHERE c1 < ?1", table.sql_name()),
                params![lowest.0.as_slice()],
            ),
            None => Ok(0),
        }
    })
    .map(|_| ())
}

/// The cleanup job: what is older than the retention goes, in every instance.
///
/// # Errors
/// SQLite's.
pub(super) fn run_job(database: &Database) -> Result<()> {
    let catalog = {
        let conn = database.agent.lock();
        load(&conn, &Arc::new(Catalog::default()))?
    };
    if !catalog.settings.cdc || !catalog.settings.cleanup_runs {
        return Ok(());
    }
    let before = database.now() - catalog.settings.retention_minutes * 60 * TICKS_PER_SECOND;
    // Nothing younger: all that was captured is old, and the newest entry becomes the low endpoint.
    let low = match database.lsn_at("smallest greater than or equal", before, None)? {
        Some(lsn) => lsn,
        None => match database.cdc.lock().max_lsn {
            Some(lsn) => lsn,
            None => return Ok(()),
        },
    };
    for instance in catalog.instances.values() {
        let behind = database.cdc.lock().starts.get(&instance.id).is_some_and(|s| *s < low);
        if behind {
            clean(database, instance.id, low, catalog.settings.cleanup_threshold)?;
        }
    }
    Ok(())
}

fn locked<T>(database: &Database, body: impl FnOnce(&rusqlite::Connection) -> Result<T>) -> Result<T> {
    database.cdc_gate.lock();
    let result = body(&database.agent.lock());
    database.cdc_gate.unlock();
    result
}
