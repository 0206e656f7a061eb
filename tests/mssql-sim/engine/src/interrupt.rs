//! Being told that nobody waits for the answer any more, while SQLite or a lock keeps the thread.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use rusqlite::Connection;

use crate::{error::sql_error, result::SqlError};

/// Says, without waiting, whether something has come from the client: an attention, or the end of the connection.
pub type Watch = Arc<dyn Fn() -> bool + Send + Sync>;

/// The number of the error that an interrupted statement ends with inside the engine; no client sees it.
pub(crate) const INTERRUPTED: i32 = i32::MIN;
/// Instructions of SQLite's machine between two looks.
const STEPS: i32 = 50_000;

/// Whether a session's client wants the running statement to end.
#[derive(Clone, Default)]
pub(crate) struct Interrupt {
    watch: Option<Watch>,
    /// Only what reads is interrupted: SQLite rolls the whole transaction back when it stops a statement that writes.
    reading: Arc<AtomicBool>,
}

impl Interrupt {
    pub(crate) fn new(watch: Watch) -> Interrupt {
        Interrupt {
            watch: Some(watch),
            reading: Arc::default(),
        }
    }

    /// Lets SQLite look at the client while a statement runs on the connection.
    pub(crate) fn install(&self, conn: &mut Connection) -> rusqlite::Result<()> {
        let Some(watch) = self.watch.clone() else {
            return Ok(());
        };
        let reading = Arc::clone(&self.reading);
        conn.progress_handler(STEPS, Some(move || reading.load(Ordering::Relaxed) && watch()))
    }

    /// Whether the client asked.
    pub(crate) fn asked(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch())
    }

    /// Allows the interruption of what SQLite does until the guard is dropped.
    pub(crate) fn reading(&self) -> Reading<'_> {
        self.reading.store(true, Ordering::Relaxed);
        Reading(&self.reading)
    }
}

/// See [`Interrupt::reading`].
pub(crate) struct Reading<'i>(&'i AtomicBool);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The error of an interrupted statement.
pub(crate) fn interrupted() -> SqlError {
    sql_error(INTERRUPTED, 16, "mssql-sim: the statement was interrupted.")
}
