//! sluice keeps Delta Lake tables in step with SQL Server tables through Change Data Capture, and lets a sandboxed
//! WebAssembly component change every batch before anything of it is written.
//!
//! Data flows one way, and the modules stand in that order: [`config`] says what to do; [`fanout`] starts one
//! `table_stream` per table, which alone knows all of [`source`] (read), [`batch`] (rows to Arrow),
//! [`transform`] (the component), [`lake`] (the single Delta commit), [`checkpoint`], [`facts`] and [`verdict`].
//! `source`, `transform` and `lake` never import each other.

pub mod batch;
pub mod board;
mod built_in;
pub mod checkpoint;
pub mod cli;
pub mod clock;
pub mod config;
pub mod doctor;
pub mod error;
pub mod facts;
pub mod failpoint;
pub mod fanout;
pub mod identity;
mod kit;
pub mod lake;
pub mod lsn;
pub mod process;
pub mod quarantine;
pub mod report;
pub mod retry;
pub mod scheduler;
mod sha256;
pub mod shape;
pub mod source;
pub mod storage;
pub mod table_stream;
pub mod transform;
pub mod verdict;
pub mod web;

pub use built_in::BUILT_IN_COMPONENTS;
