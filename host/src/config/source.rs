//! `[source]`: which SQL Server, and how to log in.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::secret::{self, Secrets};
use super::section::Section;
use super::units::{DAY, SECOND};
use super::{ConfigError, Secret};

/// How to reach the source database. Both drivers are built from this one type.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Database.
    pub database: String,
    /// SQL login.
    pub user: String,
    /// Its password.
    pub password: Secret,
    /// Whether everything is sent over TLS. With `false`, only the login is.
    pub encrypt: bool,
    /// Takes any certificate. For tests on one machine.
    pub trust_server_certificate: bool,
    /// The server's own certificate (PEM), when it is self-signed: that certificate and no other is accepted.
    pub server_certificate: Option<PathBuf>,
    /// Time for a connection to be made and logged in.
    pub connect_timeout: Duration,
    /// Time for a question to be answered, and for a stream to bring its next rows.
    pub command_timeout: Duration,
    /// What the server shows as the program's name.
    pub application_name: String,
    /// The zone of the server's clock, where it is configured.
    pub time_zone: Option<chrono_tz::Tz>,
}

impl SourceSettings {
    pub(super) fn parse(
        mut section: Section<'_>,
        base: &Path,
        secrets: Secrets,
        warnings: &mut Vec<String>,
    ) -> Result<SourceSettings, ConfigError> {
        let server = section.required_string("server")?;
        let (host, port) = parse_server(server).map_err(|problem| section.error("server", problem))?;
        let database = section.required_string("database")?.to_owned();
        let user = section.required_string("user")?.to_owned();
        let password = match section.value("password") {
            Some(value) => secret::resolve(&section.name("password"), value, base, secrets, warnings)?,
            None => {
                return Err(section.error(
                    "password",
                    "is required: { env = \"NAME\" }, { file = \"PATH\" } or { command = [\"…\"] }",
                ));
            }
        };
        let encrypt = section.boolean("encrypt")?.unwrap_or(true);
        let trust_server_certificate = section.boolean("trust_server_certificate")?.unwrap_or(false);
        let server_certificate = section.string("server_certificate")?.map(|file| base.join(file));
        if trust_server_certificate && server_certificate.is_some() {
            return Err(section.error(
                "server_certificate",
                "has no effect with trust_server_certificate = true; remove one",
            ));
        }
        if let Some(path) = &server_certificate
            && secrets == Secrets::Resolve
        {
            check_certificate(path).map_err(|problem| {
                section.error(
                    "server_certificate",
                    format!("names {}, which {problem}", path.display()),
                )
            })?;
        }
        if trust_server_certificate {
            warnings
                .push("source.trust_server_certificate = true: anybody on the way can pose as the server".to_owned());
        }
        if !encrypt {
            warnings.push("source.encrypt = false: rows cross the network in clear".to_owned());
        }
        let connect_timeout = section
            .duration("connect_timeout", SECOND..=3600 * SECOND)?
            .unwrap_or(Duration::from_secs(15));
        let command_timeout = section
            .duration("command_timeout", SECOND..=DAY)?
            .unwrap_or(Duration::from_secs(120));
        let application_name = section.string("application_name")?.unwrap_or("sluice").to_owned();
        let time_zone = match section.string("source_time_zone")? {
            None => None,
            Some(name) => Some(
                crate::clock::Zone::parse(name)
                    .map_err(|error| section.error("source_time_zone", error.to_string()))?,
            ),
        };
        section.not_yet(&[
            "connection_string",
            "ca_file",
            "authentication",
            "access_token",
            "lock_timeout",
        ])?;
        section.finish()?;
        Ok(SourceSettings {
            host,
            port,
            database,
            user,
            password,
            encrypt,
            trust_server_certificate,
            server_certificate,
            connect_timeout,
            command_timeout,
            application_name,
            time_zone,
        })
    }
}

/// The drivers would find the same, but only while they connect.
fn check_certificate(path: &Path) -> Result<(), String> {
    if !path.is_file() {
        return Err("is no file".to_owned());
    }
    let extension = path.extension().and_then(|extension| extension.to_str());
    if !matches!(extension, Some("pem" | "crt")) {
        return Err("has no name that ends with .pem or .crt".to_owned());
    }
    let text = std::fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    if memchr::memmem::find(&text, b"-----BEGIN CERTIFICATE-----").is_none() {
        return Err("holds no PEM certificate (-----BEGIN CERTIFICATE-----)".to_owned());
    }
    Ok(())
}

/// `host`, `host,port` (SQL Server's form), `host:port`, each optionally behind `tcp:`.
fn parse_server(text: &str) -> Result<(String, u16), String> {
    let text = text.trim();
    let text = text.strip_prefix("tcp:").unwrap_or(text);
    if text.contains('\\') {
        return Err("names an instance; this version needs the port instead: host,port".to_owned());
    }
    let (host, port) = match text.rsplit_once([',', ':']) {
        // More than one colon and no comma is an IPv6 address without a port.
        Some((host, _)) if !text.contains(',') && host.contains(':') => (text, None),
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let port = match port {
        None => 1433,
        Some(port) => port
            .trim()
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(|| "has a port that is no number from 1 to 65535".to_owned())?,
    };
    let host = host.trim().trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err("has no host".to_owned());
    }
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::parse_server;

    #[test]
    fn server_takes_the_usual_forms() {
        for (text, host, port) in [
            ("sqlhost", "sqlhost", 1433),
            ("sqlhost,1500", "sqlhost", 1500),
            ("tcp:sqlhost, 1500", "sqlhost", 1500),
            ("sqlhost:1500", "sqlhost", 1500),
            ("::1", "::1", 1433),
            ("[::1],1500", "::1", 1500),
        ] {
            assert_eq!(parse_server(text), Ok((host.to_owned(), port)), "{text}");
        }
        assert!(parse_server("host\\INST").is_err_and(|e| e.contains("host,port")));
        assert!(parse_server("host,0").is_err());
        assert!(parse_server(",1433").is_err());
    }
}
