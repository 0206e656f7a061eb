//! sluice end to end: the real binary against the stand-in server, over real sockets. One module per kind of claim.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what went wrong by panicking"
)]

mod harness;

mod capture;
mod check;
mod components;
mod connections;
mod crash;
mod demo;
mod doctor;
mod errors;
mod examples;
mod fanout;
mod follow;
mod guides;
mod identical;
mod init;
mod leaks;
mod leases;
mod loss;
mod maintenance;
mod many_tables;
mod object_stores;
mod output;
mod ownership;
mod permissions;
mod plugin_kit;
mod plugins;
mod quarantine;
mod quarantine_kept;
mod quarantine_told;
mod reader_schedules;
mod reading;
mod replay;
mod retries;
mod schedules;
mod state;
mod statements;
mod tokens;
mod types;
