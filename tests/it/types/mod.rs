//! Every type crosses from SQL Server to Delta exactly, with its NULL and its extremes; what cannot cross says so.

mod names;
mod omitted;
mod refused;
mod table;
mod text;

/// The order in which changes are compared.
pub const ORDER: [&str; 4] = ["_start_lsn", "_command_id", "_seqval", "_operation"];

/// Values as the tests write them.
pub fn some(texts: &[Option<&str>]) -> Vec<Option<String>> {
    texts.iter().map(|text| text.map(str::to_owned)).collect()
}
