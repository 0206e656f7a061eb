//! SQL Server Browser: tells which port an instance has ([MC-SQLR]).

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

const PORT: u16 = 1434;
/// `CLNT_UCAST_INST`, and the instance's name behind it.
const ASK_INSTANCE: u8 = 0x04;
/// `SVR_RESP`.
const ANSWER: u8 = 0x05;

/// Answers until it is dropped.
pub(crate) struct Browser {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    answering: Option<JoinHandle<()>>,
}

impl Browser {
    /// Answers for one instance, whose server listens at `server`.
    pub(crate) fn start(server: SocketAddr, server_name: &str, instance: &str) -> io::Result<Browser> {
        let address = SocketAddr::new(server.ip(), PORT);
        let socket = UdpSocket::bind(address).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot answer as SQL Server Browser on {address}: {error}"),
            )
        })?;
        let text = format!(
            "ServerName;{server_name};InstanceName;{instance};IsClustered;No;Version;16.0.1000.6;tcp;{};;",
            server.port()
        );
        let mut answer = vec![ANSWER];
        answer.extend((text.len() as u16).to_le_bytes());
        answer.extend(text.as_bytes());
        let instance = instance.to_owned();
        let stopping = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stopping);
        let answering = std::thread::Builder::new()
            .name("mssql-sim browser".to_owned())
            .spawn(move || {
                let mut question = [0; 1024];
                while let Ok((length, from)) = socket.recv_from(&mut question) {
                    if stopped.load(Ordering::Acquire) {
                        return;
                    }
                    if asks_for(&question[..length], &instance) {
                        // Nobody is left to be told that this failed.
                        let _ = socket.send_to(&answer, from);
                    }
                }
            })?;
        Ok(Browser {
            address,
            stopping,
            answering: Some(answering),
        })
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        let woken = UdpSocket::bind((self.address.ip(), 0)).and_then(|socket| socket.send_to(&[0], self.address));
        if let Some(answering) = self.answering.take()
            && woken.is_ok()
        {
            let _ = answering.join();
        }
    }
}

/// Another instance's name gets no answer, as there.
fn asks_for(question: &[u8], instance: &str) -> bool {
    match question {
        [ASK_INSTANCE, name @ ..] => {
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            name[..end].eq_ignore_ascii_case(instance.as_bytes())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_name_is_answered() {
        assert!(asks_for(b"\x04sales\0", "SALES"));
        assert!(asks_for(b"\x04sales", "SALES"));
        assert!(!asks_for(b"\x04other\0", "SALES"));
        assert!(!asks_for(b"\x03", "SALES"));
        assert!(!asks_for(b"", "SALES"));
    }
}
