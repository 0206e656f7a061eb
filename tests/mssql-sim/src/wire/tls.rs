//! The certificate that is made at start, and the handshakes with it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, SanType};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;

/// The server's certificate with the two configurations that use it.
#[derive(Debug, Clone)]
pub(crate) struct ServerTls {
    /// For a handshake inside prelogin packets: TLS 1.2 only, as SQL Server before TDS 8. In TLS 1.3 the server would
    /// still have to send tickets after the client has left the prelogin framing.
    pub(crate) wrapped: Arc<ServerConfig>,
    /// For TDS 8 (`Encrypt=Strict`): TLS comes before the first TDS byte, with ALPN.
    pub(crate) strict: Arc<ServerConfig>,
    /// The certificate, for a client's CA file.
    pub(crate) certificate_pem: String,
}

impl ServerTls {
    /// Makes a self-signed certificate for `localhost`, `127.0.0.1`, `::1` and `server_name`.
    pub(crate) fn generate(server_name: &str) -> io::Result<ServerTls> {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).map_err(io::Error::other)?;
        params
            .subject_alt_names
            .push(SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        params
            .subject_alt_names
            .push(SanType::IpAddress(IpAddr::V6(Ipv6Addr::LOCALHOST)));
        if let Ok(name) = server_name.to_owned().try_into() {
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params.distinguished_name.push(DnType::CommonName, "mssql-sim");
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        let chain = vec![certificate.der().clone()];
        Ok(ServerTls {
            wrapped: Arc::new(config(&[&rustls::version::TLS12], &chain, &key)?),
            strict: Arc::new({
                let mut strict = config(rustls::ALL_VERSIONS, &chain, &key)?;
                strict.alpn_protocols = vec![b"tds/8.0".to_vec()];
                strict
            }),
            certificate_pem: certificate.pem(),
        })
    }
}

fn config(
    versions: &[&'static rustls::SupportedProtocolVersion],
    chain: &[CertificateDer<'static>],
    key: &KeyPair,
) -> io::Result<ServerConfig> {
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(io::Error::other)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain.to_vec(), key)
        .map_err(io::Error::other)?;
    // A resumed TLS 1.2 handshake ends with the client's bytes, so it would be unclear where the prelogin framing ends.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}
