//! Whether the connection is encrypted, and which certificate the server may have.

use std::path::{Path, PathBuf};

use toml::Value;

use super::super::ConfigError;
use super::super::secret::Secrets;
use super::super::section::Section;
use super::given::Given;

/// What is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encrypt {
    /// The login alone.
    Login,
    /// Everything.
    All,
    /// Everything, TLS before the first byte of TDS (TDS 8.0).
    Strict,
}

/// Which certificate the server may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// One that an authority of the system has signed for the server's name.
    System,
    /// One that an authority of this file (PEM), and of no other, has signed for the server's name.
    Authority(PathBuf),
    /// This one (PEM), and no other.
    Certificate(PathBuf),
    /// Any.
    Any,
}

pub(super) struct Tls {
    pub(super) encrypt: Encrypt,
    pub(super) trust: Trust,
    pub(super) host_name: Option<String>,
}

pub(super) fn parse(
    section: &mut Section<'_>,
    given: &mut Given,
    base: &Path,
    secrets: Secrets,
    warnings: &mut Vec<String>,
) -> Result<Tls, ConfigError> {
    let encrypt = encrypt(section, given)?;
    let any = given.boolean(section, "trust_server_certificate")?.unwrap_or(false);
    let certificate = given.text(section, "server_certificate")?.map(|file| base.join(file));
    let authority = section.string("ca_file")?.map(|file| base.join(file));
    let host_name = given.text(section, "host_name_in_certificate")?;
    for (key, path) in [("server_certificate", &certificate), ("ca_file", &authority)] {
        let Some(path) = path else { continue };
        if encrypt == Encrypt::Login {
            return Err(section.error(
                key,
                "has no effect with encrypt = false, which checks no certificate; remove one",
            ));
        }
        if any {
            return Err(section.error(key, "has no effect with trust_server_certificate = true; remove one"));
        }
        if secrets == Secrets::Resolve {
            check_pem(path)
                .map_err(|problem| section.error(key, format!("names {}, which {problem}", path.display())))?;
        }
    }
    if certificate.is_some() && (authority.is_some() || host_name.is_some()) {
        let other = if authority.is_some() {
            "ca_file"
        } else {
            "host_name_in_certificate"
        };
        return Err(section.error(
            other,
            "has no effect with server_certificate, which is the only certificate that is taken; remove one",
        ));
    }
    if host_name.is_some() && any {
        return Err(section.error(
            "host_name_in_certificate",
            "has no effect with trust_server_certificate = true; remove one",
        ));
    }
    let trust = match (any, certificate, authority) {
        (true, _, _) if encrypt == Encrypt::Strict => {
            return Err(section.error(
                "trust_server_certificate",
                "cannot be true with encrypt = \"strict\", which always checks the certificate; use ca_file or \
                 server_certificate",
            ));
        }
        (true, _, _) => Trust::Any,
        (false, Some(path), _) => Trust::Certificate(path),
        (false, None, Some(path)) => Trust::Authority(path),
        (false, None, None) => Trust::System,
    };
    if trust == Trust::Any {
        warnings.push("source.trust_server_certificate = true: anybody on the way can pose as the server".to_owned());
    }
    if encrypt == Encrypt::Login {
        warnings
            .push("source.encrypt = false: rows cross the network in clear, and no certificate is checked".to_owned());
    }
    Ok(Tls {
        encrypt,
        trust,
        host_name,
    })
}

/// `true`, `false` or `"strict"`; in a connection string also `Mandatory` and `Optional`.
fn encrypt(section: &mut Section<'_>, given: &mut Given) -> Result<Encrypt, ConfigError> {
    let wrong = "must be true, false or \"strict\"";
    if let Some((name, value)) = given.taken(section, "encrypt")? {
        return match value.to_lowercase().as_str() {
            "true" | "yes" | "mandatory" => Ok(Encrypt::All),
            "false" | "no" | "optional" => Ok(Encrypt::Login),
            "strict" => Ok(Encrypt::Strict),
            _ => Err(section.error(
                "connection_string",
                format!("has {name} that is none of Mandatory, Optional, Strict, true and false"),
            )),
        };
    }
    match section.value("encrypt") {
        None | Some(Value::Boolean(true)) => Ok(Encrypt::All),
        Some(Value::Boolean(false)) => Ok(Encrypt::Login),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("strict") => Ok(Encrypt::Strict),
        Some(_) => Err(section.error("encrypt", wrong)),
    }
}

/// What connecting would find as well.
fn check_pem(path: &Path) -> Result<(), String> {
    if !path.is_file() {
        return Err("is no file".to_owned());
    }
    let text = std::fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    if memchr::memmem::find(&text, b"-----BEGIN CERTIFICATE-----").is_none() {
        return Err("holds no PEM certificate (-----BEGIN CERTIFICATE-----); export it as Base-64".to_owned());
    }
    Ok(())
}
