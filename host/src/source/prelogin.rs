//! The exchange before a TDS login ([MS-TDS] 2.2.6.5), and two streams that belong to it: TLS records inside of prelogin
//! packets, and a stream that gives a driver the answer that was had already.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

const HEADER_BYTES: usize = 8;
/// A packet before the login is at most so long.
const PACKET_BYTES: usize = 4096;
const PRELOGIN: u8 = 0x12;
const TABULAR: u8 = 0x04;
const END_OF_MESSAGE: u8 = 0x01;

const OPTION_VERSION: u8 = 0;
const OPTION_ENCRYPTION: u8 = 1;
const OPTION_INSTANCE: u8 = 2;
const OPTION_THREAD: u8 = 3;
const OPTION_MARS: u8 = 4;
const OPTION_FEDERATED: u8 = 6;
const TERMINATOR: u8 = 0xFF;

const ENCRYPT_ON: u8 = 1;
const ENCRYPT_NOT_SUPPORTED: u8 = 2;
const ENCRYPT_REQUIRED: u8 = 3;

/// The server's answer, as the packet that it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    packet: Vec<u8>,
    /// Nowhere in an answer that says nothing about encryption: with TDS 8, TLS is there already.
    encryption_at: Option<usize>,
}

impl Answer {
    /// Whether the server goes on with TLS.
    pub(super) fn encrypts(&self) -> bool {
        self.encryption_at
            .is_some_and(|at| matches!(self.packet[at], ENCRYPT_ON | ENCRYPT_REQUIRED))
    }

    /// The same, for a driver that is not to start TLS: it runs inside of it. To tiberius, nothing said is no encryption.
    pub(super) fn without_encryption(mut self) -> Vec<u8> {
        if let Some(at) = self.encryption_at {
            self.packet[at] = ENCRYPT_NOT_SUPPORTED;
        }
        self.packet
    }

    fn parse(packet: Vec<u8>) -> io::Result<Answer> {
        let body = &packet[HEADER_BYTES..];
        let mut table = body;
        loop {
            match table {
                [OPTION_ENCRYPTION, high, low, _, length_low, ..] if *length_low >= 1 => {
                    let at = HEADER_BYTES + usize::from(u16::from_be_bytes([*high, *low]));
                    if at >= packet.len() {
                        return Err(malformed("an option lies outside of it"));
                    }
                    return Ok(Answer {
                        encryption_at: Some(at),
                        packet,
                    });
                }
                [TERMINATOR, ..] => {
                    return Ok(Answer {
                        encryption_at: None,
                        packet,
                    });
                }
                [_, _, _, _, _, rest @ ..] => table = rest,
                _ => return Err(malformed("it is cut")),
            }
        }
    }
}

/// Says what the client wants, TLS always, and reads the answer. `token`: an access token follows.
pub(super) async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, token: bool) -> io::Result<Answer> {
    stream.write_all(&request(token)).await?;
    stream.flush().await?;
    let mut packet = vec![0; HEADER_BYTES];
    stream.read_exact(&mut packet).await?;
    let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    // Every server's answer is a few dozen bytes: one packet.
    if packet[0] != TABULAR || packet[1] & END_OF_MESSAGE == 0 || !(HEADER_BYTES..=PACKET_BYTES).contains(&length) {
        return Err(malformed(
            "it is no packet of SQL Server; is that another service's port?",
        ));
    }
    packet.resize(length, 0);
    stream.read_exact(&mut packet[HEADER_BYTES..]).await?;
    Answer::parse(packet)
}

fn request(token: bool) -> Vec<u8> {
    // The version is the client library's; servers only write it down.
    let mut options: Vec<(u8, &[u8])> = vec![
        (OPTION_VERSION, &[0, 1, 0, 0, 0, 0]),
        (OPTION_ENCRYPTION, &[ENCRYPT_ON]),
        (OPTION_INSTANCE, &[0]),
        (OPTION_THREAD, &[0, 0, 0, 0]),
        (OPTION_MARS, &[0]),
    ];
    if token {
        options.push((OPTION_FEDERATED, &[1]));
    }
    let mut offset = options.len() * 5 + 1;
    let mut body = Vec::with_capacity(64);
    for (option, data) in &options {
        body.push(*option);
        body.extend((offset as u16).to_be_bytes());
        body.extend((data.len() as u16).to_be_bytes());
        offset += data.len();
    }
    body.push(TERMINATOR);
    body.extend(options.iter().flat_map(|(_, data)| data.iter()));
    framed(&body)
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut packet = vec![PRELOGIN, END_OF_MESSAGE];
    packet.extend(((body.len() + HEADER_BYTES) as u16).to_be_bytes());
    packet.extend([0, 0, 1, 0]);
    packet.extend_from_slice(body);
    packet
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the server's first answer is malformed: {what}"),
    )
}

/// Bytes of a TLS handshake in prelogin packets, until [`InPackets::end`]; afterwards the bytes as they are.
pub(super) struct InPackets<S> {
    inner: S,
    ended: bool,
    out: Vec<u8>,
    out_at: usize,
    header: [u8; HEADER_BYTES],
    header_len: usize,
    /// Bytes of the packet that are still to come.
    left: usize,
}

impl<S> InPackets<S> {
    /// `wrapped`: the handshake travels in packets. Otherwise (TDS 8) nothing is changed.
    pub(super) fn new(inner: S, wrapped: bool) -> InPackets<S> {
        InPackets {
            inner,
            ended: !wrapped,
            out: Vec::new(),
            out_at: 0,
            header: [0; HEADER_BYTES],
            header_len: 0,
            left: 0,
        }
    }

    /// The handshake is over.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }
}

impl<S: AsyncWrite + Unpin> InPackets<S> {
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.out_at < self.out.len() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.out[self.out_at..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.out_at += written;
        }
        self.out.clear();
        self.out_at = 0;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for InPackets<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_out(cx))?;
        if this.ended && this.left == 0 {
            return Pin::new(&mut this.inner).poll_read(cx, buf);
        }
        while this.left == 0 {
            let mut header = ReadBuf::new(&mut this.header[this.header_len..]);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut header))?;
            match header.filled().len() {
                0 => return Poll::Ready(Ok(())),
                count => this.header_len += count,
            }
            if this.header_len == HEADER_BYTES {
                this.header_len = 0;
                let length = usize::from(u16::from_be_bytes([this.header[2], this.header[3]]));
                if !matches!(this.header[0], PRELOGIN | TABULAR) || length < HEADER_BYTES {
                    return Poll::Ready(Err(malformed("no handshake of TLS follows")));
                }
                this.left = length - HEADER_BYTES;
            }
        }
        // Into a part of the buffer that ends with the packet.
        let wanted = this.left.min(buf.remaining());
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(wanted));
        ready!(Pin::new(&mut this.inner).poll_read(cx, &mut part))?;
        let count = part.filled().len();
        this.left -= count;
        buf.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for InPackets<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_out(cx))?;
        if this.ended {
            return Pin::new(&mut this.inner).poll_write(cx, buf);
        }
        let count = buf.len().min(PACKET_BYTES - HEADER_BYTES);
        this.out = framed(&buf[..count]);
        // What does not go out now goes with the next read, write or flush.
        let _ = this.poll_out(cx)?;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_out(cx))?;
        Pin::new(&mut this.inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_out(cx))?;
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

/// A stream whose other side is asked nothing before the login: the driver's prelogin is dropped, and it reads the answer
/// that was had already.
pub(super) struct Answered<S> {
    inner: S,
    header: Vec<u8>,
    /// Bytes of the driver's prelogin that are still to come, once its header is known.
    drop: Option<usize>,
    answer: Vec<u8>,
    answer_at: usize,
}

impl<S> Answered<S> {
    pub(super) fn new(inner: S, answer: Answer) -> Answered<S> {
        Answered {
            inner,
            header: Vec::with_capacity(HEADER_BYTES),
            drop: None,
            answer: answer.without_encryption(),
            answer_at: 0,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Answered<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.answer_at < this.answer.len() {
            let count = buf.remaining().min(this.answer.len() - this.answer_at);
            buf.put_slice(&this.answer[this.answer_at..this.answer_at + count]);
            this.answer_at += count;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Answered<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        match this.drop {
            Some(0) => Pin::new(&mut this.inner).poll_write(cx, buf),
            Some(left) => {
                let count = left.min(buf.len());
                this.drop = Some(left - count);
                Poll::Ready(Ok(count))
            }
            None => {
                let count = buf.len().min(HEADER_BYTES - this.header.len());
                this.header.extend_from_slice(&buf[..count]);
                if let [_, _, high, low, ..] = this.header[..]
                    && this.header.len() == HEADER_BYTES
                {
                    let length = usize::from(u16::from_be_bytes([high, low]));
                    this.drop = Some(length.saturating_sub(HEADER_BYTES));
                }
                Poll::Ready(Ok(count))
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(encryption: u8) -> Vec<u8> {
        let mut packet = request(false);
        packet[0] = TABULAR;
        let at = Answer::parse(packet.clone()).unwrap().encryption_at.unwrap();
        packet[at] = encryption;
        packet
    }

    #[test]
    fn the_answer_says_whether_the_server_encrypts() {
        for (byte, encrypts) in [(0, false), (1, true), (2, false), (3, true)] {
            let answer = Answer::parse(answer(byte)).unwrap();
            assert_eq!(answer.encrypts(), encrypts, "{byte}");
            let without = Answer::parse(answer.without_encryption()).unwrap();
            assert_eq!(without.packet[without.encryption_at.unwrap()], ENCRYPT_NOT_SUPPORTED);
        }
        let whole = answer(1);
        for length in HEADER_BYTES..whole.len() {
            // Cut anywhere, it is an error or an answer; never a panic.
            let _ = Answer::parse(whole[..length].to_vec());
        }
        assert!(Answer::parse(whole[..HEADER_BYTES + 4].to_vec()).is_err());
    }

    #[test]
    fn an_answer_that_says_nothing_about_encryption_offers_none_and_is_handed_on_as_it_is() {
        let mut packet = framed(&[OPTION_MARS, 0, 6, 0, 1, TERMINATOR, 0]);
        packet[0] = TABULAR;
        let answer = Answer::parse(packet.clone()).unwrap();
        assert!(!answer.encrypts());
        assert_eq!(answer.without_encryption(), packet);
    }

    #[tokio::test]
    async fn bytes_travel_in_packets_until_the_handshake_ends() {
        let (near, far) = tokio::io::duplex(50);
        let (mut near, mut far) = (InPackets::new(near, true), InPackets::new(far, true));
        let sent: Vec<u8> = (0..10_000_u32).map(|n| n as u8).collect();
        let expected = sent.clone();
        let receiving = tokio::spawn(async move {
            let mut got = vec![0; 10_000];
            far.read_exact(&mut got).await.unwrap();
            far.end();
            let mut plain = [0; 5];
            far.read_exact(&mut plain).await.unwrap();
            (got, plain)
        });
        near.write_all(&sent).await.unwrap();
        near.flush().await.unwrap();
        near.end();
        near.write_all(b"plain").await.unwrap();
        let (got, plain) = receiving.await.unwrap();
        assert_eq!((got, &plain), (expected, b"plain"));
    }

    #[tokio::test]
    async fn a_driver_that_asks_again_gets_the_answer_and_the_server_only_its_login() {
        let (near, mut far) = tokio::io::duplex(1000);
        let mut stream = Answered::new(near, Answer::parse(answer(1)).unwrap());
        // The driver's own prelogin, in odd pieces.
        for piece in request(true).chunks(3) {
            stream.write_all(piece).await.unwrap();
        }
        stream.write_all(b"login").await.unwrap();
        let mut heard = vec![0; answer(1).len()];
        stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(heard, answer(ENCRYPT_NOT_SUPPORTED));
        let mut login = [0; 5];
        far.read_exact(&mut login).await.unwrap();
        assert_eq!(&login, b"login");
    }
}
