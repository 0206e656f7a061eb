//! Messages for the operator, shown by the host at debug level only, and by `sluice plugin test` under a check that failed.
//! Bounded in number and size. Every component imports `log`: the shell of `export_transform!` leaves there what a panic
//! says.

/// Says something of interest while developing.
pub fn debug(message: &str) {
    send(Level::Debug, message);
}

/// Says something of interest.
pub fn info(message: &str) {
    send(Level::Info, message);
}

/// Says that something looks wrong.
pub fn warn(message: &str) {
    send(Level::Warn, message);
}

/// Says that something is wrong.
pub fn error(message: &str) {
    send(Level::Error, message);
}

enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

#[cfg(target_arch = "wasm32")]
fn send(level: Level, message: &str) {
    use crate::shell::sluice::transform::log;
    let level = match level {
        Level::Debug => log::Level::Debug,
        Level::Info => log::Level::Info,
        Level::Warn => log::Level::Warn,
        Level::Error => log::Level::Error,
    };
    log::log(level, message);
}

#[cfg(not(target_arch = "wasm32"))]
fn send(level: Level, message: &str) {
    let level = match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Warn => "warn",
        Level::Error => "error",
    };
    eprintln!("{level}: {message}");
}
