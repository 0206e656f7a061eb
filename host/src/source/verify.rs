//! TLS to the server, and whether its certificate is the right one: once for both drivers.
//!
//! tiberius talks through the stream that is made here. mssql-tds makes its own, and can check two things: that an
//! authority of the system signed the certificate for the server's name, which it does as this does; or that it is one
//! certificate and no other. So for an authority of `ca_file`, a first connection is made here, whose certificate is
//! checked against the authority and the name, and mssql-tds is held to that certificate. That is as safe as checking
//! the authority each time: whoever answers has to prove that it has that certificate's key.

use std::collections::{HashMap, HashSet};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};

use native_tls::{Certificate, TlsConnector};
use tempfile::TempPath;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_native_tls::TlsStream;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::connect::{self, Target};
use super::error::SourceError;
use super::prelogin::{self, Answer, InPackets};
use crate::config::{Authentication, Encrypt, SourceSettings, Trust};

/// Of TDS 8.
const ALPN: &str = "tds/8.0";

/// What is wrong with a server that cannot encrypt, or does not want to.
pub(super) const NO_ENCRYPTION: &str = "the server offers no encryption";

/// What was checked, and the tool for it.
#[derive(Debug, Default)]
pub(super) struct Verified {
    /// Loading the system's authorities takes a while.
    connector: SyncMutex<Option<Connector>>,
    /// Certificates of servers that passed.
    certificates: Mutex<HashMap<(String, u16), Checked>>,
    /// Servers that can encrypt a login.
    encrypting: Mutex<HashSet<(String, u16)>>,
}

/// What makes TLS.
#[derive(Debug, Clone)]
struct Connector {
    tls: TlsConnector,
    /// What `ca_file` held when it was made; nothing with another kind of trust.
    authorities: Arc<[u8]>,
}

/// A certificate that was checked.
#[derive(Debug)]
struct Checked {
    /// DER.
    certificate: Vec<u8>,
    /// What it was checked against, as in [`Connector`].
    authorities: Arc<[u8]>,
}

pub(super) type Encrypted = TlsStream<InPackets<TcpStream>>;

/// Makes TLS on a connection that is new, and has the answer to a prelogin by the way.
pub(super) async fn encrypt(
    settings: &SourceSettings,
    target: &Target,
    mut tcp: TcpStream,
) -> Result<(Encrypted, Answer), SourceError> {
    let token = matches!(settings.authentication, Authentication::Token(_));
    let connector = tokio_native_tls::TlsConnector::from(connector(settings, target)?.tls);
    let name = settings.host_name_in_certificate.as_deref().unwrap_or(&target.host);
    let strict = settings.encrypt == Encrypt::Strict;
    let early = match strict {
        true => None,
        false => Some(answer(target, &mut tcp, token).await?),
    };
    if early.as_ref().is_some_and(|answer| !answer.encrypts()) {
        return Err(failed(target, NO_ENCRYPTION));
    }
    let mut stream = connector
        .connect(name, InPackets::new(tcp, !strict))
        .await
        .map_err(|error| handshake_failed(target, &error.to_string()))?;
    if let Trust::Certificate(path) = &settings.trust {
        let certificate = peer_certificate(target, &stream)?;
        expect_certificate(path, &certificate).map_err(|reason| failed(target, &reason))?;
    }
    stream.get_mut().get_mut().get_mut().end();
    let answer = match early {
        Some(answer) => answer,
        None => answer(target, &mut stream, token).await?,
    };
    Ok((stream, answer))
}

/// Asks whether a login can be encrypted, where nothing else is to be: mssql-tds would send it in clear to a server that says
/// no. Asked on a connection of its own, once a process and server.
pub(super) async fn expect_encryption(settings: &SourceSettings, target: &Target) -> Result<(), SourceError> {
    let mut encrypting = settings.learned.verified.encrypting.lock().await;
    let key = (target.host.clone(), target.port);
    if encrypting.contains(&key) {
        return Ok(());
    }
    let mut tcp = connect::dial(settings, target).await?;
    if !answer(target, &mut tcp, false).await?.encrypts() {
        return Err(failed(target, NO_ENCRYPTION));
    }
    encrypting.insert(key);
    Ok(())
}

/// A file with the certificate that the server of `target` has, checked; `anew`: not one that was checked before. mssql-tds
/// takes a path. The file is gone when this is dropped: one that stayed would be swept away with other old files.
pub(super) async fn certificate_file(
    settings: &SourceSettings,
    target: &Target,
    anew: bool,
) -> Result<TempPath, SourceError> {
    let certificate = checked_certificate(settings, target, anew).await?;
    let write = || -> std::io::Result<TempPath> {
        let mut file = tempfile::Builder::new()
            .prefix("sluice-server-")
            .suffix(".der")
            .tempfile()?;
        file.write_all(&certificate)?;
        file.flush()?;
        Ok(file.into_temp_path())
    };
    write().map_err(|error| {
        let folder = std::env::temp_dir();
        let reason = format!(
            "its certificate cannot be put into a file in {}: {error}",
            folder.display()
        );
        failed(target, &reason)
    })
}

async fn checked_certificate(settings: &SourceSettings, target: &Target, anew: bool) -> Result<Vec<u8>, SourceError> {
    let mut checked = settings.learned.verified.certificates.lock().await;
    let authorities = connector(settings, target)?.authorities;
    let key = (target.host.clone(), target.port);
    if !anew
        && let Some(known) = checked.get(&key)
        && known.authorities == authorities
    {
        return Ok(known.certificate.clone());
    }
    let (stream, _) = encrypt(settings, target, connect::dial(settings, target).await?).await?;
    let certificate = peer_certificate(target, &stream)?;
    let known = Checked {
        certificate: certificate.clone(),
        authorities,
    };
    checked.insert(key, known);
    Ok(certificate)
}

/// Made anew when `ca_file` has changed. What is no use by now may be on its way to be replaced: what was there before
/// serves until then.
fn connector(settings: &SourceSettings, target: &Target) -> Result<Connector, SourceError> {
    let kept = &settings.learned.verified.connector;
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let known = kept.clone();
    let made = authorities(&settings.trust).and_then(|authorities| match &known {
        Some(known) if known.authorities == authorities => Ok(known.clone()),
        _ => build(settings, authorities),
    });
    match (made, known) {
        (Ok(connector), _) => {
            *kept = Some(connector.clone());
            Ok(connector)
        }
        (Err(reason), Some(known)) => {
            tracing::warn!(
                %reason,
                "source.ca_file cannot be read again; what it held before goes on to count"
            );
            Ok(known)
        }
        (Err(reason), None) => Err(failed(target, &reason)),
    }
}

fn authorities(trust: &Trust) -> Result<Arc<[u8]>, String> {
    match trust {
        Trust::Authority(path) => match std::fs::read(path) {
            Ok(text) => Ok(text.into()),
            Err(error) => Err(format!("cannot read {}: {error}", path.display())),
        },
        Trust::System | Trust::Certificate(_) | Trust::Any => Ok(Arc::default()),
    }
}

fn build(settings: &SourceSettings, authorities: Arc<[u8]>) -> Result<Connector, String> {
    let mut builder = TlsConnector::builder();
    if settings.encrypt == Encrypt::Strict {
        builder.request_alpns(&[ALPN]);
    }
    match &settings.trust {
        Trust::System => {}
        Trust::Authority(path) => {
            builder.disable_built_in_roots(true);
            let certificates = Certificate::stack_from_pem(&authorities)
                .map_err(|error| format!("{} is no PEM: {error}", path.display()))?;
            if certificates.is_empty() {
                return Err(format!("{} holds no PEM certificate", path.display()));
            }
            for certificate in certificates {
                builder.add_root_certificate(certificate);
            }
        }
        // The certificate itself is compared afterwards, before anything is sent.
        Trust::Certificate(_) | Trust::Any => {
            builder.danger_accept_invalid_certs(true);
            builder.danger_accept_invalid_hostnames(true);
        }
    }
    let tls = builder.build().map_err(|error| error.to_string())?;
    Ok(Connector { tls, authorities })
}

fn peer_certificate(target: &Target, stream: &Encrypted) -> Result<Vec<u8>, SourceError> {
    let certificate = stream
        .get_ref()
        .peer_certificate()
        .and_then(|certificate| certificate.map(|c| c.to_der()).transpose())
        .map_err(|error| failed(target, &error.to_string()))?;
    certificate.ok_or_else(|| failed(target, "the server has no certificate"))
}

/// Whether it is the certificate of the file, and still valid. mssql-tds checks the same two.
fn expect_certificate(path: &Path, certificate: &[u8]) -> Result<(), String> {
    let shown = path.display();
    let text = std::fs::read(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let expected = Certificate::from_pem(&text)
        .and_then(|certificate| certificate.to_der())
        .map_err(|error| format!("{shown} is no PEM: {error}"))?;
    if expected != certificate {
        return Err(format!("the server's certificate is not the expected one of {shown}"));
    }
    let (_, parsed) =
        X509Certificate::from_der(certificate).map_err(|_| format!("the certificate of {shown} is malformed"))?;
    match parsed.validity().is_valid() {
        true => Ok(()),
        false => Err(format!("the certificate of {shown} has expired, or is not yet valid")),
    }
}

/// The answer to a prelogin; `token`: an access token follows.
async fn answer<S>(target: &Target, stream: &mut S, token: bool) -> Result<Answer, SourceError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    prelogin::exchange(stream, token)
        .await
        .map_err(|error| broken(target, error.to_string()))
}

/// What a handshake that failed means. A server that fails over or shuts down cuts it, and it is made again; what is wrong
/// with certificates and protocols stays wrong.
pub(super) fn handshake_failed(target: &Target, reason: &str) -> SourceError {
    match was_cut(reason) {
        true => broken(
            target,
            format!(
                "the connection broke in the TLS handshake: {reason} (if it goes on, the server may take no TLS version or \
                 cipher that this machine has)"
            ),
        ),
        false => failed(target, reason),
    }
}

/// By the text, because tiberius gives nothing else: how OpenSSL and the system say that a stream ended.
fn was_cut(reason: &str) -> bool {
    let lower = reason.to_lowercase();
    ["unexpected eof", "unexpected end of file", "write zero", "(os error "]
        .iter()
        .any(|words| lower.contains(words))
}

fn broken(target: &Target, reason: String) -> SourceError {
    SourceError::Connect {
        server: target.to_string(),
        reason,
    }
}

fn failed(target: &Target, reason: &str) -> SourceError {
    SourceError::Tls {
        server: target.to_string(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Classify as _, ErrorKind};

    #[test]
    fn a_handshake_that_was_cut_is_made_again_and_one_that_failed_is_not() {
        let target = Target {
            host: "h".to_owned(),
            port: 1433,
            routed: false,
        };
        for (reason, kind) in [
            ("unexpected EOF", ErrorKind::Retryable),
            // With the certificate not checked, its result comes along.
            ("unexpected EOF (self-signed certificate)", ErrorKind::Retryable),
            ("Connection reset by peer (os error 104)", ErrorKind::Retryable),
            (
                "Broken pipe (os error 32) (self-signed certificate)",
                ErrorKind::Retryable,
            ),
            (
                "error:0A000126:SSL routines:ssl3_read_n:unexpected eof while reading:ssl/record/rec_layer_s3.c:303:",
                ErrorKind::Retryable,
            ),
            (
                "error:0A000086:SSL routines:tls_post_process_server_certificate:certificate verify failed:\
                 ssl/statem/statem_clnt.c:1889: (self-signed certificate)",
                ErrorKind::Config,
            ),
            (
                "error:0A00010B:SSL routines:ssl3_get_record:wrong version number:ssl/record/ssl3_record.c:354:",
                ErrorKind::Config,
            ),
            ("the server's certificate is not the expected one", ErrorKind::Config),
        ] {
            let error = handshake_failed(&target, reason);
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}
