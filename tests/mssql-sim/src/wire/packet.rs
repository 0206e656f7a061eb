//! The eight-byte header in front of every packet.

/// Bytes of a packet header.
pub(crate) const HEADER_LEN: usize = 8;
/// The packet size before login agrees on another.
pub(crate) const DEFAULT_PACKET_SIZE: usize = 4096;
/// The smallest packet size that a client may ask for.
pub(crate) const MIN_PACKET_SIZE: usize = 512;
/// The largest packet size that a client may ask for.
pub(crate) const MAX_PACKET_SIZE: usize = 32767;

/// Status bit: the last packet of a message.
pub(crate) const STATUS_END_OF_MESSAGE: u8 = 0x01;
/// Status bit: the client withdraws the message that this packet ends.
pub(crate) const STATUS_IGNORE: u8 = 0x02;
/// Status bit: reset the session before the request runs.
pub(crate) const STATUS_RESET: u8 = 0x08;
/// Status bit: the same, but an open transaction stays.
pub(crate) const STATUS_RESET_KEEP_TRANSACTION: u8 = 0x10;

/// Message types that a client sends.
pub(crate) mod kind {
    pub(crate) const SQL_BATCH: u8 = 0x01;
    pub(crate) const RPC: u8 = 0x03;
    pub(crate) const RESPONSE: u8 = 0x04;
    pub(crate) const ATTENTION: u8 = 0x06;
    pub(crate) const TRANSACTION_MANAGER: u8 = 0x0E;
    pub(crate) const LOGIN7: u8 = 0x10;
    pub(crate) const PRELOGIN: u8 = 0x12;
}

/// A packet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: u8,
    pub(crate) status: u8,
    /// Bytes of the packet, its header included.
    pub(crate) length: usize,
}

impl Header {
    /// Reads the first eight bytes of a packet; `None` when the length makes no sense.
    pub(crate) fn parse(bytes: &[u8; HEADER_LEN]) -> Option<Header> {
        let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        (length >= HEADER_LEN).then_some(Header {
            kind: bytes[0],
            status: bytes[1],
            length,
        })
    }
}

/// Appends `payload` to `out` as packets of at most `packet_size` bytes. `last` marks the final one as the end of the
/// message; without it the payload should fill its packets. `id` numbers packets modulo 256.
pub(crate) fn frame(out: &mut Vec<u8>, kind: u8, payload: &[u8], packet_size: usize, id: &mut u8, last: bool) {
    let capacity = packet_size - HEADER_LEN;
    let mut rest = payload;
    loop {
        let (chunk, tail) = rest.split_at(rest.len().min(capacity));
        let end = last && tail.is_empty();
        *id = id.wrapping_add(1);
        let length = u16::try_from(chunk.len() + HEADER_LEN).unwrap_or(u16::MAX);
        let [hi, lo] = length.to_be_bytes();
        out.extend_from_slice(&[kind, u8::from(end), hi, lo, 0, 0, *id, 0]);
        out.extend_from_slice(chunk);
        rest = tail;
        if rest.is_empty() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_split_at_the_packet_size_and_only_its_last_packet_ends_it() {
        let payload: Vec<u8> = (0..=255).cycle().take(1200).collect();
        let (mut out, mut id) = (Vec::new(), 0);
        frame(&mut out, kind::RESPONSE, &payload, 512, &mut id, true);
        let mut joined = Vec::new();
        let mut ends = Vec::new();
        let mut at = 0;
        while at < out.len() {
            let header = Header::parse(out[at..at + 8].try_into().unwrap()).unwrap();
            assert!(header.length <= 512);
            ends.push(header.status);
            joined.extend_from_slice(&out[at + 8..at + header.length]);
            at += header.length;
        }
        assert_eq!(joined, payload);
        assert_eq!(ends, [0, 0, 1]);
        assert_eq!(id, 3);
    }

    #[test]
    fn an_empty_message_is_one_packet() {
        let (mut out, mut id) = (Vec::new(), 255);
        frame(&mut out, kind::RESPONSE, &[], 512, &mut id, true);
        assert_eq!(out, [4, 1, 0, 8, 0, 0, 0, 0]);
    }

    #[test]
    fn a_length_below_the_header_is_no_packet() {
        assert_eq!(Header::parse(&[1, 1, 0, 7, 0, 0, 0, 0]), None);
    }
}
