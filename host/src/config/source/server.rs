//! Which server: host, and port or instance.

use std::fmt;

/// SQL Server's own port, for a default instance.
const DEFAULT_PORT: u16 = 1433;

/// Where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerName {
    /// Host name or address.
    pub host: String,
    /// How its port is found.
    pub endpoint: Endpoint,
}

/// How the server's TCP port is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// It is known.
    Port(u16),
    /// SQL Server Browser of the host is asked for the port of this instance.
    Instance(String),
}

impl ServerName {
    /// Reads `host`, `host,port` (SQL Server's form), `host:port`, `host\INSTANCE` and `host\INSTANCE,port`, each
    /// optionally behind `tcp:`. With a port, the instance's name says nothing more and is ignored, as ADO.NET does.
    pub(super) fn parse(text: &str) -> Result<ServerName, String> {
        let text = text.trim();
        let lower = text.to_ascii_lowercase();
        for (prefix, what) in [
            ("np:", "a named pipe"),
            ("\\\\", "a named pipe"),
            ("lpc:", "shared memory"),
            ("admin:", "the administrator's connection"),
            ("(localdb)", "LocalDB"),
        ] {
            if lower.starts_with(prefix) {
                return Err(format!("names {what}; sluice connects over TCP: host,port"));
            }
        }
        let text = match lower.strip_prefix("tcp:") {
            Some(rest) => text[text.len() - rest.len()..].trim_start(),
            None => text,
        };
        let (text, port) = split_port(text)?;
        let (host, instance) = match text.split_once('\\') {
            Some((host, instance)) => (host, Some(instance.trim())),
            None => (text, None),
        };
        let host = match host.trim().trim_start_matches('[').trim_end_matches(']') {
            "" => return Err("has no host".to_owned()),
            "." | "(local)" => "localhost",
            host => host,
        };
        let endpoint = match (port, instance) {
            (Some(port), _) => Endpoint::Port(port),
            // The default instance has this name, and its default port.
            (None, None) => Endpoint::Port(DEFAULT_PORT),
            (None, Some(name)) if name.eq_ignore_ascii_case("MSSQLSERVER") => Endpoint::Port(DEFAULT_PORT),
            (None, Some(name)) if name.is_empty() || name.len() > 255 || name.contains(['\\', '\0']) => {
                return Err("has an instance that is no name".to_owned());
            }
            (None, Some(name)) => Endpoint::Instance(name.to_owned()),
        };
        Ok(ServerName {
            host: host.to_owned(),
            endpoint,
        })
    }
}

/// The text before the port, and the port.
fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    // The colons of an IPv6 address in brackets are its own; one without brackets has a port behind a comma alone.
    let address = text.find(']').map_or(0, |at| at + 1);
    let (_, behind) = text.split_at(address);
    let is_bare_ipv6 = address == 0 && !text.contains(',') && text.matches(':').count() > 1;
    let Some(at) = behind.rfind([',', ':']).filter(|_| !is_bare_ipv6) else {
        return Ok((text, None));
    };
    behind[at + 1..]
        .trim()
        .parse()
        .ok()
        .filter(|port| *port != 0)
        .map(|port| (&text[..address + at], Some(port)))
        .ok_or_else(|| "has a port that is no number from 1 to 65535".to_owned())
}

impl fmt::Display for ServerName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Port(port) => write!(out, "{},{port}", self.host),
            Endpoint::Instance(name) => write!(out, "{}\\{name}", self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_takes_the_usual_forms() {
        for (text, shown) in [
            ("sqlhost", "sqlhost,1433"),
            ("sqlhost,1500", "sqlhost,1500"),
            ("tcp:sqlhost, 1500", "sqlhost,1500"),
            ("TCP:SqlHost", "SqlHost,1433"),
            ("sqlhost:1500", "sqlhost,1500"),
            ("::1", "::1,1433"),
            ("::1,1500", "::1,1500"),
            ("[::1]", "::1,1433"),
            ("[::1],1500", "::1,1500"),
            ("[::1]:1500", "::1,1500"),
            ("tcp:[fe80::1]:1500", "fe80::1,1500"),
            ("[::1]\\INST", "::1\\INST"),
            ("[::1]\\INST:1500", "::1,1500"),
            ("(local)", "localhost,1433"),
            (".\\SQLEXPRESS", "localhost\\SQLEXPRESS"),
            ("host\\INST", "host\\INST"),
            ("host\\INST,1500", "host,1500"),
            ("host\\MSSQLSERVER", "host,1433"),
        ] {
            assert_eq!(ServerName::parse(text).unwrap().to_string(), shown, "{text}");
        }
        for (text, words) in [
            ("host,0", "no number"),
            ("[::1]:port", "no number"),
            (",1433", "no host"),
            ("host\\", "no name"),
            ("np:\\\\host\\pipe", "named pipe"),
            ("\\\\host\\pipe\\sql\\query", "named pipe"),
            ("(localdb)\\v11", "LocalDB"),
        ] {
            let error = ServerName::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
