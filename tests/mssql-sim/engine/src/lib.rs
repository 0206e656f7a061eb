//! The SQL and CDC engine of mssql-sim: T-SQL on SQLite, with SQL Server's types, errors and change capture.
//!
//! A batch goes `parse` → `exec` (statement by statement) → `bind` (names and types, into SQLite SQL) → SQLite → the
//! caller's [`result::ResultSink`]. Types, conversions and functions are the stand-in's own (`types`, `functions`): SQLite
//! stores and orders, it does not decide what a value is. Changes of tracked tables go through `cdc`.
//!
//! What behaves as SQL Server is documented to, was measured to, or is only assumed to, is in `BEHAVIOURS.md`.

mod bind;
mod catalog;
mod cdc;
mod clock;
mod context;
mod database;
mod engine;
mod error;
mod exec;
mod functions;
mod gate;
mod interrupt;
mod parse;
pub mod result;
mod types;
pub mod value;
mod version;

pub use cdc::Lsn;
pub use clock::{ServerClock, UnknownZone, Zone};
pub use engine::{Engine, EngineOptions, OpenError};
pub use exec::Session;
pub use interrupt::Watch;
pub use types::{CodePage, Collation, decode_utf16, encode_utf16};
pub use version::ServerVersion;
