//! A response on its way out: tokens go in, whole packets come out.

use std::io;
use std::time::{Duration, Instant};

use super::packet::{self, HEADER_LEN, kind};
use super::transport::Transport;

/// A response is sent in steps of about this size, unless rows come slowly.
const FLUSH_BYTES: usize = 32 * 1024;
/// Full packets wait no longer than this for others.
const FLUSH_AFTER: Duration = Duration::from_millis(5);

/// Collects a response's tokens and sends them in packets of the agreed size.
pub(crate) struct ResponseWriter {
    /// Tokens that are not sent yet. Encode straight into it.
    pub(crate) tokens: Vec<u8>,
    packets: Vec<u8>,
    packet_size: usize,
    packet_id: u8,
    last_flush: Instant,
}

impl ResponseWriter {
    pub(crate) fn new() -> ResponseWriter {
        ResponseWriter {
            tokens: Vec::with_capacity(FLUSH_BYTES * 2),
            packets: Vec::with_capacity(FLUSH_BYTES * 2),
            packet_size: packet::DEFAULT_PACKET_SIZE,
            packet_id: 0,
            last_flush: Instant::now(),
        }
    }

    /// Takes a new packet size for what is sent from now on.
    pub(crate) fn set_packet_size(&mut self, packet_size: usize) {
        self.packet_size = packet_size;
    }

    /// Sends full packets when enough has come together. Returns whether it sent anything.
    pub(crate) fn flush_full_packets(&mut self, transport: &mut Transport) -> io::Result<bool> {
        let capacity = self.packet_size - HEADER_LEN;
        // The last bytes stay behind, so that the message's end has a packet to go in.
        if self.tokens.len() <= capacity || (self.tokens.len() < FLUSH_BYTES && self.last_flush.elapsed() < FLUSH_AFTER)
        {
            return Ok(false);
        }
        let full = (self.tokens.len() - 1) / capacity * capacity;
        self.send(transport, full, false)?;
        Ok(true)
    }

    /// Sends all that there is without ending the message.
    pub(crate) fn flush_partial(&mut self, transport: &mut Transport) -> io::Result<()> {
        if self.tokens.is_empty() {
            return Ok(());
        }
        self.send(transport, self.tokens.len(), false)
    }

    /// Sends the rest and ends the message.
    pub(crate) fn finish(&mut self, transport: &mut Transport) -> io::Result<()> {
        self.send(transport, self.tokens.len(), true)?;
        self.packet_id = 0;
        Ok(())
    }

    fn send(&mut self, transport: &mut Transport, count: usize, last: bool) -> io::Result<()> {
        self.packets.clear();
        packet::frame(
            &mut self.packets,
            kind::RESPONSE,
            &self.tokens[..count],
            self.packet_size,
            &mut self.packet_id,
            last,
        );
        transport.write(&self.packets)?;
        self.tokens.drain(..count);
        if self.tokens.is_empty() && self.tokens.capacity() > 64 * FLUSH_BYTES {
            // One huge value is no reason to keep its memory.
            self.tokens = Vec::with_capacity(FLUSH_BYTES * 2);
            self.packets = Vec::new();
        }
        self.last_flush = Instant::now();
        Ok(())
    }
}
