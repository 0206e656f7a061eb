//! The stand-in's readers of what clients send.

use mssql_sim::readers;

/// The first byte says what the others are taken for.
pub fn run(data: &[u8]) {
    let Some((which, bytes)) = data.split_first() else {
        return;
    };
    match which % 6 {
        0 => readers::packet_header(bytes),
        1 => readers::prelogin(bytes),
        2 => readers::login(bytes),
        3 => readers::batch(bytes),
        4 => readers::calls(bytes),
        _ => readers::transaction(bytes),
    };
}
