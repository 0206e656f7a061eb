//! What a login that failed means, whichever driver made it.

use super::connect::Target;
use super::error::SourceError;
use super::grants;
use super::verify;
use crate::config::{Authentication, SourceSettings};

const DOING: &str = "logging in";

/// From tiberius.
pub(super) fn of_tiberius(settings: &SourceSettings, target: &Target, error: tiberius::error::Error) -> SourceError {
    use tiberius::error::Error;
    match error {
        Error::Server(token) => of_number(settings, target, token.code(), token.message()),
        Error::Tls(reason) => verify::handshake_failed(target, &reason),
        other => SourceError::Connect {
            server: target.to_string(),
            reason: other.to_string(),
        },
    }
}

/// From mssql-tds.
pub(super) fn of_mssql_tds(settings: &SourceSettings, target: &Target, error: mssql_tds::error::Error) -> SourceError {
    use mssql_tds::error::Error;
    let tls = |reason: String| SourceError::Tls {
        server: target.to_string(),
        reason,
    };
    match error {
        Error::SqlServerError { diagnostics } => match diagnostics.errors.first() {
            Some(first) => of_number(settings, target, first.number, &first.message),
            None => SourceError::Connect {
                server: target.to_string(),
                reason: "the server refused without a reason".to_owned(),
            },
        },
        Error::CertificateMismatch => tls("the server's certificate is not the expected one".to_owned()),
        Error::CertificateExpired => tls("the server's certificate has expired".to_owned()),
        Error::TlsHandshakeError { source, .. } => verify::handshake_failed(target, &source.to_string()),
        Error::TlsError(error) => verify::handshake_failed(target, &error.to_string()),
        // Of its words for many things, those for an answer to the prelogin that offers none.
        Error::ProtocolError(words) if words.contains("encryption but client requires it") => {
            tls(verify::NO_ENCRYPTION.to_owned())
        }
        other => SourceError::Connect {
            server: target.to_string(),
            reason: other.to_string(),
        },
    }
}

/// From the server's number.
pub(super) fn of_number(settings: &SourceSettings, target: &Target, number: u32, message: &str) -> SourceError {
    let server = target.to_string();
    match number {
        18456 => match &settings.authentication {
            Authentication::Sql { user, .. } => SourceError::Login {
                server,
                user: user.clone(),
            },
            Authentication::Token(_) => SourceError::TokenLogin {
                server,
                who: settings.authentication.who(),
            },
        },
        4060 if settings.learned.was_in() => SourceError::DatabaseAway {
            server,
            database: settings.database.clone(),
        },
        4060 | 911 | 916 => SourceError::Database {
            server,
            database: settings.database.clone(),
            who: settings.authentication.who(),
            grant: grants::create_user(settings, &settings.database_user()),
        },
        _ => SourceError::server(number, message, DOING),
    }
}
