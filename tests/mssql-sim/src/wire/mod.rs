//! TDS as bytes: packets, messages and tokens. Nothing here knows SQL.
//!
//! Layouts are those of Microsoft's open specification [MS-TDS], version 7.4.

pub(crate) mod encoding;
pub(crate) mod login7;
pub(crate) mod packet;
pub(crate) mod prelogin;
pub(crate) mod reader;
pub(crate) mod rpc;
pub(crate) mod tls;
pub(crate) mod tokens;
pub(crate) mod transport;
pub(crate) mod typeinfo;
pub(crate) mod values;
pub(crate) mod writer;
