//! What clients see over real sockets: FreeTDS `tsql`, python-tds, tiberius, and Microsoft's mssql-tds and
//! mssql-python (ODBC).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod binary;
mod calls;
mod every_type;
mod faults;
mod harness;
mod microsoft_odbc;
mod microsoft_tds;
mod python_tds;
mod tiberius_client;
mod tsql;
mod workload;
