//! SQL Server Browser: which TCP port a named instance has ([MC-SQLR], UDP 1434).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::select_ok;
use tokio::net::UdpSocket;

use super::error::SourceError;

/// The Browser's port; it has no other.
const PORT: u16 = 1434;
/// `CLNT_UCAST_INST`: a question about one instance.
const ASK_INSTANCE: u8 = 0x04;
/// `SVR_RESP`: its answer.
const ANSWER: u8 = 0x05;
/// A datagram may be lost.
const ATTEMPTS: u32 = 3;
const WAIT: Duration = Duration::from_secs(1);
/// An answer about one instance is shorter ([MC-SQLR] 2.2.5).
const LONGEST_ANSWER: usize = 1024 + 3;

/// Asks for the port. All addresses of the host are asked at once, and the first that knows it counts.
pub(super) async fn port_of(host: &str, instance: &str) -> Result<u16, SourceError> {
    let failed = |reason: String| SourceError::Browser {
        host: host.to_owned(),
        instance: instance.to_owned(),
        reason,
    };
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, PORT))
        .await
        .map_err(|error| failed(error.to_string()))?
        .collect();
    if addresses.is_empty() {
        return Err(failed("the host has no address".to_owned()));
    }
    let questions = addresses.into_iter().map(|address| Box::pin(ask(address, instance)));
    match select_ok(questions).await {
        Ok((port, _)) => Ok(port),
        Err(reason) => Err(failed(reason)),
    }
}

async fn ask(address: SocketAddr, instance: &str) -> Result<u16, String> {
    let mut question = vec![ASK_INSTANCE];
    question.extend_from_slice(instance.as_bytes());
    question.push(0);
    let here: &str = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let exchange = async {
        let socket = UdpSocket::bind(here).await?;
        // Only this address's answers are taken.
        socket.connect(address).await?;
        for _ in 0..ATTEMPTS {
            socket.send(&question).await?;
            let mut answer = [0; LONGEST_ANSWER];
            if let Ok(length) = tokio::time::timeout(WAIT, socket.recv(&mut answer)).await {
                return Ok(Some(answer[..length?].to_vec()));
            }
        }
        Ok::<_, io::Error>(None)
    };
    match exchange.await {
        Ok(Some(answer)) => port_in(&answer, instance),
        Ok(None) => Err(format!("no answer within {} s", ATTEMPTS * WAIT.as_secs() as u32)),
        Err(error) => Err(error.to_string()),
    }
}

/// The port in `ServerName;A;InstanceName;B;IsClustered;No;Version;16.0.1000.6;tcp;49152;;`.
fn port_in(answer: &[u8], instance: &str) -> Result<u16, String> {
    let malformed = || "the answer is malformed".to_owned();
    let [ANSWER, low, high, text @ ..] = answer else {
        return Err(malformed());
    };
    let length = usize::from(u16::from_le_bytes([*low, *high]));
    let text = text.get(..length).ok_or_else(malformed)?;
    let text = String::from_utf8_lossy(text);
    let mut words = text.split(';');
    let (mut named, mut port) = (false, None);
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        if key.eq_ignore_ascii_case("InstanceName") {
            named = value.eq_ignore_ascii_case(instance);
        } else if key.eq_ignore_ascii_case("tcp") {
            port = value.parse().ok().filter(|port| *port != 0);
        }
    }
    match (named, port) {
        (false, _) => Err("the answer is about another instance".to_owned()),
        (true, None) => Err("the instance does not listen on TCP".to_owned()),
        (true, Some(port)) => Ok(port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Vec<u8> {
        let mut bytes = vec![ANSWER];
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes
    }

    #[test]
    fn the_port_is_read_and_nothing_else_is_taken_for_one() {
        let good = answer("ServerName;H;InstanceName;Sales;IsClustered;No;Version;16.0.1000.6;tcp;49152;np;\\\\H\\p;;");
        assert_eq!(port_in(&good, "SALES"), Ok(49_152));
        assert!(port_in(&good, "OTHER").is_err_and(|e| e.contains("another instance")));
        let piped = answer("ServerName;H;InstanceName;SALES;np;\\\\H\\p;;");
        assert!(port_in(&piped, "SALES").is_err_and(|e| e.contains("TCP")));
        for length in 0..good.len() {
            assert!(port_in(&good[..length], "SALES").is_err(), "cut at {length}");
        }
    }
}
