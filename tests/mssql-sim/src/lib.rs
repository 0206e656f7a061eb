//! A stand-in for SQL Server, for sluice's demo, tests and benchmarks: TDS 7.4 in front of [`mssql_sim_engine`].
//!
//! It is not SQL Server, and claims no more than its tests show. README.md says how to run it, BEHAVIOURS.md where each
//! behaviour is known from.
//!
//! A request takes this way: `wire` turns packets into a message and reads it; `session` makes a batch with parameters
//! of it, and lets the engine run that; `response` turns what the engine answers into tokens, row by row, and sends
//! them as packets.

mod browser;
mod connection;
mod exec_call;
pub mod faults;
mod logins;
mod messages;
mod params;
pub mod readers;
mod response;
pub mod script;
mod server;
mod session;
mod wire;
pub mod workload;

pub use mssql_sim_engine as engine;
pub use server::{Encryption, ServerOptions, SimServer};
pub use wire::tls::CertificateOptions;
