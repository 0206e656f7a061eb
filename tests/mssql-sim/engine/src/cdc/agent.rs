//! The agent: a thread that captures with a lag, writes idle entries and runs the cleanup job.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use rusqlite::Result;

use super::{Lsn, capture, cleanup};
use crate::{
    catalog::{Catalog, load},
    clock::system_ticks,
    database::Database,
    engine::Engine,
    types::TICKS_PER_SECOND,
};

/// How often the agent looks.
const TICK: Duration = Duration::from_millis(20);

/// Starts the agent of a server. It ends when the server is dropped.
///
/// # Errors
/// The system's, when it gives no thread.
pub fn start(engine: &Arc<Engine>) -> std::io::Result<()> {
    let engine = Arc::downgrade(engine);
    std::thread::Builder::new()
        .name("mssql-sim-agent".into())
        .spawn(move || run(&engine))
        .map(|_| ())
}

/// Captures a transaction that has just committed, when capture has no lag.
///
/// # Errors
/// SQLite's.
pub fn committed(engine: &Engine, database: &Database) -> Result<()> {
    if engine.capture_lag().is_zero() {
        capture::capture(database, i64::MAX)?;
    }
    Ok(())
}

/// Captures all that was committed now, whatever the lag: what `sp_cdc_scan` does.
///
/// # Errors
/// SQLite's.
pub fn scan(database: &Database) -> Result<()> {
    capture::capture(database, i64::MAX).map(|_| ())
}

/// Adds an idle entry now: `max_lsn` moves although nothing was changed. Whether it could be added; it cannot while
/// there are uncaptured transactions or capture is stopped.
///
/// # Errors
/// SQLite's.
pub fn idle_entry(database: &Database, holds_gate: bool) -> Result<bool> {
    // The gate keeps a commit with a lower LSN from coming after the entry.
    if !holds_gate && !database.gate.try_lock() {
        return Ok(false);
    }
    database.cdc_gate.lock();
    let result = idle_entry_alone(database);
    database.cdc_gate.unlock();
    if !holds_gate {
        database.gate.unlock();
    }
    result
}

fn idle_entry_alone(database: &Database) -> Result<bool> {
    let conn = database.agent.lock();
    let catalog = load(&conn, &Arc::new(Catalog::default()))?;
    let captured = database.cdc.lock().captured_tx;
    let pending: i64 = conn.query_row("SELECT count(*) FROM main._sim_tx WHERE tx > ?1", [captured], |r| {
        r.get(0)
    })?;
    if !catalog.settings.cdc || !catalog.settings.capture_runs || pending > 0 {
        return Ok(false);
    }
    let now = database.now();
    let lsn = database.clock.lock().commit();
    capture::mapping_entry(&conn, &catalog, lsn, (now, now), &[0], &Lsn::ZERO.0)?;
    let mut state = database.cdc.lock();
    state.max_lsn = Some(lsn);
    state.last_entry = system_ticks();
    Ok(true)
}

fn run(engine: &Weak<Engine>) {
    let mut cleaned = Instant::now();
    loop {
        std::thread::sleep(TICK);
        let Some(engine) = engine.upgrade() else {
            return;
        };
        let databases: Vec<Arc<Database>> = engine
            .databases
            .read()
            .values()
            .filter(|d| d.id > 4 || d.id == 1)
            .cloned()
            .collect();
        let clean = cleaned.elapsed() >= engine.options.cleanup_interval;
        for database in databases {
            // A fault of the storage shows to the sessions; the agent tries again at its next look.
            let _ = look(&engine, &database, clean);
        }
        if clean {
            cleaned = Instant::now();
        }
    }
}

fn look(engine: &Engine, database: &Database, clean: bool) -> Result<()> {
    let lag = engine.capture_lag();
    if !lag.is_zero() {
        let ticks = lag.as_nanos() as i64 / 100;
        capture::capture(database, system_ticks() - ticks)?;
    }
    let (enabled, last) = {
        let state = database.cdc.lock();
        (state.max_lsn.is_some(), state.last_entry)
    };
    let idle = engine.options.idle_interval.as_nanos() as i64 / 100;
    if enabled && system_ticks() - last >= idle.max(TICKS_PER_SECOND / 100) {
        idle_entry(database, false)?;
    }
    if clean && enabled {
        cleanup::run_job(database)?;
    }
    Ok(())
}
