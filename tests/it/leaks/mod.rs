//! No protected value is in any file, log line, output or process argument, of any type, in any form; and the search would
//! have found it. `demo` looks through what people see first; the others go through streams, quarantine, errors and
//! crashes with values of every type of SQL Server that nobody has by chance.

mod complete;
mod demo;
mod keys;
mod killed;
mod planted;
mod quarantined;
mod refused;
mod scan;
mod sentinels;
mod stream;
mod world;
