//! The certificate that is made at start, and the handshakes with it.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, date_time_ymd,
};
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
    /// The certificate of the authority that signed it, if one did.
    pub(crate) authority_pem: Option<String>,
}

/// What the certificate is like that is made at start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertificateOptions {
    /// Its names; empty for `localhost`, `127.0.0.1`, `::1` and the server's own.
    pub names: Vec<String>,
    /// An authority signs it, whose certificate is made at start too. Otherwise it signs itself.
    pub signed: bool,
    /// It ended a day ago.
    pub expired: bool,
}

impl ServerTls {
    /// Makes a certificate for the server, and an authority that signs it if that is wanted.
    pub(crate) fn generate(server_name: &str, options: &CertificateOptions) -> io::Result<ServerTls> {
        let mut params = CertificateParams::default();
        let own = [
            "localhost".to_owned(),
            "127.0.0.1".into(),
            "::1".into(),
            server_name.to_owned(),
        ];
        let names = if options.names.is_empty() {
            own.as_slice()
        } else {
            &options.names
        };
        for name in names {
            match (name.parse::<IpAddr>(), name.clone().try_into()) {
                (Ok(address), _) => params.subject_alt_names.push(SanType::IpAddress(address)),
                (Err(_), Ok(name)) => params.subject_alt_names.push(SanType::DnsName(name)),
                (Err(_), Err(_)) => {}
            }
        }
        params.distinguished_name.push(DnType::CommonName, "mssql-sim");
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        if options.expired {
            (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2020, 12, 31));
        }
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let (certificate, authority_pem) = if options.signed {
            let authority_key = KeyPair::generate().map_err(io::Error::other)?;
            let mut authority = CertificateParams::default();
            // A name of its own: a client looks authorities up by name.
            let name: String = authority_key
                .public_key_raw()
                .iter()
                .skip(1)
                .take(8)
                .map(|b| format!("{b:02x}"))
                .collect();
            authority
                .distinguished_name
                .push(DnType::CommonName, format!("mssql-sim authority {name}"));
            authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            let pem = authority.self_signed(&authority_key).map_err(io::Error::other)?.pem();
            let issuer = Issuer::new(authority, authority_key);
            (params.signed_by(&key, &issuer).map_err(io::Error::other)?, Some(pem))
        } else {
            (params.self_signed(&key).map_err(io::Error::other)?, None)
        };
        let chain = vec![certificate.der().clone()];
        Ok(ServerTls {
            wrapped: Arc::new(config(&[&rustls::version::TLS12], &chain, &key)?),
            strict: Arc::new({
                let mut strict = config(rustls::ALL_VERSIONS, &chain, &key)?;
                strict.alpn_protocols = vec![b"tds/8.0".to_vec()];
                strict
            }),
            certificate_pem: certificate.pem(),
            authority_pem,
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
