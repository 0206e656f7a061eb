//! A client's socket, plain or under TLS, and the packets on it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::RecvFlags;
use rustls::{ServerConfig, ServerConnection};

use super::packet::{self, HEADER_LEN, Header, STATUS_END_OF_MESSAGE, STATUS_IGNORE, kind};

/// The largest request that is taken: SQL Server's limit of 65,536 packets at the default packet size.
const MAX_MESSAGE_BYTES: usize = 65_536 * 4096;
const READ_BYTES: usize = 32 * 1024;
/// The first byte of a TLS handshake record: a TDS 8 client opens with it.
const TLS_HANDSHAKE_RECORD: u8 = 0x16;

/// A complete request.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) kind: u8,
    /// The status byte of its first packet (it has the reset bits).
    pub(crate) status: u8,
    pub(crate) body: Vec<u8>,
}

/// A socket with the bytes that were read ahead of their use.
pub(crate) struct Transport {
    stream: TcpStream,
    tls: Option<Box<ServerConnection>>,
    received: Vec<u8>,
    /// Bytes of `received` already used.
    used: usize,
    /// Whether an attention was received together with the request that was read last.
    ahead: Arc<AtomicBool>,
    scratch: Vec<u8>,
}

impl Transport {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Transport> {
        stream.set_nodelay(true)?;
        Ok(Transport {
            stream,
            tls: None,
            received: Vec::new(),
            used: 0,
            ahead: Arc::default(),
            scratch: vec![0; READ_BYTES],
        })
    }

    /// Whether the client opens with TLS (TDS 8) rather than with a prelogin packet.
    pub(crate) fn opens_with_tls(&mut self) -> io::Result<bool> {
        let mut first = [0];
        let count = self.stream.peek(&mut first)?;
        Ok(count == 1 && first[0] == TLS_HANDSHAKE_RECORD)
    }

    /// TLS before anything else, as TDS 8 has it.
    pub(crate) fn accept_strict_tls(&mut self, config: Arc<ServerConfig>) -> io::Result<()> {
        let mut tls = Box::new(ServerConnection::new(config).map_err(io::Error::other)?);
        while tls.is_handshaking() {
            tls.complete_io(&mut self.stream)?;
        }
        while tls.wants_write() {
            tls.write_tls(&mut self.stream)?;
        }
        self.tls = Some(tls);
        // The client's first TDS bytes may have come with its last handshake flight.
        self.drain_tls()
    }

    /// A TLS handshake whose records travel in prelogin packets. `half`: only until the client has answered the certificate.
    pub(crate) fn accept_wrapped_tls(&mut self, config: Arc<ServerConfig>, half: bool) -> io::Result<()> {
        let mut tls = Box::new(ServerConnection::new(config).map_err(io::Error::other)?);
        loop {
            let mut flight = Vec::new();
            while tls.wants_write() {
                tls.write_tls(&mut flight)?;
            }
            if !flight.is_empty() {
                let (mut framed, mut id) = (Vec::with_capacity(flight.len() + 64), 0);
                packet::frame(
                    &mut framed,
                    kind::PRELOGIN,
                    &flight,
                    packet::DEFAULT_PACKET_SIZE,
                    &mut id,
                    true,
                );
                self.stream.write_all(&framed)?;
                if half {
                    return self.skip();
                }
            }
            if !tls.is_handshaking() {
                break;
            }
            let (header, records) = self.read_packet()?;
            if header.kind != kind::PRELOGIN {
                return Err(invalid("a TLS handshake in prelogin packets was expected"));
            }
            let mut records = records.as_slice();
            while !records.is_empty() {
                tls.read_tls(&mut records)?;
                if let Err(error) = tls.process_new_packets() {
                    let mut alert = Vec::new();
                    tls.write_tls(&mut alert)?;
                    let (mut framed, mut id) = (Vec::new(), 0);
                    packet::frame(
                        &mut framed,
                        kind::PRELOGIN,
                        &alert,
                        packet::DEFAULT_PACKET_SIZE,
                        &mut id,
                        true,
                    );
                    self.stream.write_all(&framed)?;
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
        self.tls = Some(tls);
        Ok(())
    }

    /// Goes on in clear: both sides agreed that only the login is encrypted.
    pub(crate) fn leave_tls(&mut self) {
        self.tls = None;
    }

    /// Reads one whole request, blocking. `Ok(None)` when the client closed the connection between two.
    pub(crate) fn read_message(&mut self) -> io::Result<Option<Message>> {
        loop {
            if self.used == self.received.len() && !self.fill()? {
                return Ok(None);
            }
            let (first, mut body) = self.read_packet()?;
            let mut last = first;
            while last.status & STATUS_END_OF_MESSAGE == 0 {
                let (header, more) = self.read_packet()?;
                if header.kind != first.kind {
                    return Err(invalid("a message's packets are of different types"));
                }
                if body.len() + more.len() > MAX_MESSAGE_BYTES {
                    return Err(invalid("the message is larger than 256 MiB"));
                }
                body.extend_from_slice(&more);
                last = header;
            }
            if last.status & STATUS_IGNORE == 0 {
                self.note_ahead();
                return Ok(Some(Message {
                    kind: first.kind,
                    status: first.status,
                    body,
                }));
            }
        }
    }

    /// Whether an attention has come, without waiting. Anything else that came stays for [`Transport::read_message`].
    /// A closed connection is an error of kind `UnexpectedEof`.
    pub(crate) fn poll_attention(&mut self) -> io::Result<bool> {
        match rustix::net::recv(&self.stream, self.scratch.as_mut_slice(), RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((count, _)) => self.take(count)?,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let pending = &self.received[self.used..];
        if pending.len() >= HEADER_LEN && pending[0] == kind::ATTENTION {
            self.used += HEADER_LEN;
            self.note_ahead();
            return Ok(true);
        }
        self.note_ahead();
        Ok(false)
    }

    fn note_ahead(&self) {
        let attention = self.received.get(self.used) == Some(&kind::ATTENTION);
        self.ahead.store(attention, Ordering::Relaxed);
    }

    /// A look at whether anything has come from the client, for somebody who cannot read it.
    pub(crate) fn arrivals(&self) -> io::Result<Arc<dyn Fn() -> bool + Send + Sync>> {
        let stream = self.stream.try_clone()?;
        let ahead = Arc::clone(&self.ahead);
        Ok(Arc::new(move || {
            if ahead.load(Ordering::Relaxed) {
                return true;
            }
            let mut descriptors = [PollFd::new(&stream, PollFlags::IN)];
            rustix::event::poll(&mut descriptors, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        }))
    }

    /// Sends bytes that are packets already.
    pub(crate) fn write(&mut self, packets: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            return self.stream.write_all(packets);
        };
        let mut rest = packets;
        while !rest.is_empty() {
            let count = tls.writer().write(rest)?;
            rest = &rest[count..];
            while tls.wants_write() {
                tls.write_tls(&mut self.stream)?;
            }
        }
        Ok(())
    }

    /// Waits for what comes next; false when the client closed the connection.
    pub(crate) fn is_anything_coming(&self) -> io::Result<bool> {
        Ok(self.stream.peek(&mut [0])? > 0)
    }

    /// Waits for what comes next, and forgets it.
    pub(crate) fn skip(&mut self) -> io::Result<()> {
        self.stream.read(&mut self.scratch).map(|_| ())
    }

    /// Reads and forgets until the client gives up.
    pub(crate) fn swallow_until_closed(&mut self) {
        while matches!(self.stream.read(&mut self.scratch), Ok(count) if count > 0) {}
    }

    /// Ends the connection: the client sees FIN, after what was sent.
    pub(crate) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            while tls.wants_write() {
                if tls.write_tls(&mut self.stream).is_err() {
                    break;
                }
            }
        }
        // The peer may be gone already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Ends the connection without a word: under TLS the client sees FIN with no closing record.
    pub(crate) fn cut(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Makes the close that follows a reset (RST) instead of FIN.
    pub(crate) fn reset_on_close(&mut self) -> io::Result<()> {
        Ok(rustix::net::sockopt::set_socket_linger(
            &self.stream,
            Some(std::time::Duration::ZERO),
        )?)
    }

    fn read_packet(&mut self) -> io::Result<(Header, Vec<u8>)> {
        let mut header = [0; HEADER_LEN];
        self.read_exactly(&mut header)?;
        let header = Header::parse(&header).ok_or_else(|| invalid("a packet is shorter than its header"))?;
        let mut payload = vec![0; header.length - HEADER_LEN];
        self.read_exactly(&mut payload)?;
        Ok((header, payload))
    }

    fn read_exactly(&mut self, out: &mut [u8]) -> io::Result<()> {
        while self.received.len() - self.used < out.len() {
            if !self.fill()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        out.copy_from_slice(&self.received[self.used..self.used + out.len()]);
        self.used += out.len();
        if self.used == self.received.len() {
            self.received.clear();
            self.used = 0;
        }
        Ok(())
    }

    /// Waits for more bytes; false at the end of the stream.
    fn fill(&mut self) -> io::Result<bool> {
        let before = self.received.len();
        // Under TLS a read may bring no data, only a record's first half.
        while self.received.len() == before {
            match self.stream.read(&mut self.scratch) {
                Ok(0) => return Ok(false),
                Ok(count) => self.take(count)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Takes the first `count` bytes of `scratch`, decrypting them under TLS.
    fn take(&mut self, count: usize) -> io::Result<()> {
        if self.tls.is_none() {
            self.received.extend_from_slice(&self.scratch[..count]);
            return Ok(());
        }
        let scratch = std::mem::take(&mut self.scratch);
        let mut records = &scratch[..count];
        let mut result = Ok(());
        while !records.is_empty() && result.is_ok() {
            if let Some(tls) = &mut self.tls {
                result = tls.read_tls(&mut records).map(|_| ());
            }
            result = result.and_then(|()| self.drain_tls());
        }
        self.scratch = scratch;
        result
    }

    fn drain_tls(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        let state = tls
            .process_new_packets()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let length = self.received.len();
        self.received.resize(length + state.plaintext_bytes_to_read(), 0);
        tls.reader().read_exact(&mut self.received[length..])?;
        while tls.wants_write() {
            tls.write_tls(&mut self.stream)?;
        }
        Ok(())
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
