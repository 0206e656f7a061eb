//! The readers of what clients send, one function each, for the fuzz targets: whatever the bytes are, they end.

use crate::wire::login7::Login7;
use crate::wire::packet::{HEADER_LEN, Header};
use crate::wire::prelogin::Prelogin;
use crate::wire::rpc;

/// Reads a packet's header. Whether it is one.
pub fn packet_header(bytes: &[u8]) -> bool {
    let header = bytes.get(..HEADER_LEN).and_then(|bytes| bytes.try_into().ok());
    header.and_then(Header::parse).is_some()
}

/// Reads a prelogin message. Whether it is one.
pub fn prelogin(body: &[u8]) -> bool {
    Prelogin::parse(body).is_ok()
}

/// Reads a login message. Whether it is one.
pub fn login(body: &[u8]) -> bool {
    Login7::parse(body).is_ok()
}

/// Reads an SQL batch. Whether it is one.
pub fn batch(body: &[u8]) -> bool {
    rpc::parse_batch(body).is_ok()
}

/// Reads remote procedure calls, with their typed arguments. Whether they are such.
pub fn calls(body: &[u8]) -> bool {
    rpc::parse_calls(body).is_ok()
}

/// Reads a transaction manager's request. Whether it is one.
pub fn transaction(body: &[u8]) -> bool {
    rpc::parse_transaction(body).is_ok()
}
