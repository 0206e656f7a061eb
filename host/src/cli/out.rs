//! Standard output and standard error. A reader that went away (`sluice status | head -1`) is no failure and no panic.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::sync::{LazyLock, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// Cancelled once nobody reads standard output any more.
static GONE: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);
/// The first failure of standard output that is not a reader that left, such as a full disk.
static FAILED: Mutex<Option<std::io::Error>> = Mutex::new(None);

/// Prints a line on standard output.
macro_rules! say {
    ($($text:tt)*) => { $crate::cli::out::line(format_args!($($text)*)) };
}
/// Prints a line on standard error.
macro_rules! complain {
    ($($text:tt)*) => { $crate::cli::out::error_line(format_args!($($text)*)) };
}
pub(super) use {complain, say};

pub(super) fn line(text: fmt::Arguments<'_>) {
    // `Stdout` keeps lines together, and a line is on its way when it ends: both hold in a pipe as on a terminal.
    let mut out = std::io::stdout().lock();
    match out.write_fmt(format_args!("{text}\n")).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => GONE.cancel(),
        Err(error) => {
            FAILED
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert(error);
        }
    }
}

pub(super) fn error_line(text: fmt::Arguments<'_>) {
    // Nobody is left to be told that this failed.
    let _ = std::io::stderr().lock().write_fmt(format_args!("{text}\n"));
}

/// Waits until nobody reads standard output any more.
pub(super) async fn gone() {
    GONE.cancelled().await;
}

/// What kept a line of output from being written, if anything did.
pub(super) fn failure() -> Option<std::io::Error> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner).take()
}
