//! What can go wrong with the source, and what the operator should do about it.

use super::{grants, retry_policy};
use crate::batch::BatchError;
use crate::error::{Classify, ErrorKind};
use crate::identity::CaptureInstance;
use crate::lsn::Lsn;

/// A failure on the way to, or in, the source database.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// No connection could be made.
    #[error("cannot connect to {server}: {reason}; check that the server is up, and source.server")]
    Connect {
        /// Host and port.
        server: String,
        /// What the system said.
        reason: String,
    },
    /// SQL Server Browser does not know the instance, or does not answer.
    #[error(
        "SQL Server Browser of {host} does not say which port instance {instance} has: {reason}; check the instance's name, that the Browser runs and that UDP 1434 is open, or give the port in source.server: host,port"
    )]
    Browser {
        /// The host.
        host: String,
        /// The instance.
        instance: String,
        /// What was wrong.
        reason: String,
    },
    /// TLS failed.
    #[error("cannot make a TLS connection to {server}: {reason}; {}", tls_advice(reason))]
    Tls {
        /// Host and port.
        server: String,
        /// What the TLS library said.
        reason: String,
    },
    /// Error 18456.
    #[error("{server} refused the login of user {user}: check source.user and source.password")]
    Login {
        /// Host and port.
        server: String,
        /// The user.
        user: String,
    },
    /// Error 18456 with an access token.
    #[error(
        "{server} refused {who}: check that the token is for https://database.windows.net/ and of the server's directory, and that its user is in the database (CREATE USER [name] FROM EXTERNAL PROVIDER)"
    )]
    TokenLogin {
        /// Host and port.
        server: String,
        /// Whose token it is.
        who: String,
    },
    /// There is no access token.
    #[error("no access token from {from}: {reason}")]
    Token {
        /// Where it was to come from.
        from: String,
        /// Why there is none, and what to do.
        reason: String,
        /// Whether asking again may help.
        transient: bool,
    },
    /// Error 4060, before this process ever was in the database.
    #[error(
        "database {database} does not exist on {server}, or {who} may not open it: check source.database, or run {grant} in it"
    )]
    Database {
        /// The server.
        server: String,
        /// The database.
        database: String,
        /// Who wanted to open it.
        who: String,
        /// The statement that makes the login a user of it.
        grant: String,
    },
    /// Error 4060, though this process was in the database.
    #[error(
        "database {database} on {server} cannot be opened, though this process was in it before: it fails over, is being restored, or the login may not open it any more"
    )]
    DatabaseAway {
        /// The server.
        server: String,
        /// The database.
        database: String,
    },
    /// CDC is off for the database.
    #[error(
        "CDC is not enabled on database {database}: a member of sysadmin has to run EXEC sys.sp_cdc_enable_db in it"
    )]
    CdcNotEnabled {
        /// The database.
        database: String,
    },
    /// No such capture instance, or none that the login can see.
    #[error(transparent)]
    UnknownInstance(Box<UnknownInstance>),
    /// Two capture instances differ only in case and neither matches exactly.
    #[error("capture instances {names} differ only in case: write capture_instance exactly as one of them")]
    AmbiguousInstance {
        /// The names.
        names: String,
    },
    /// A grant is missing.
    #[error("user {user} may not read {object}: run {grant}")]
    Permission {
        /// The user.
        user: String,
        /// What cannot be read.
        object: String,
        /// The statement that mends it.
        grant: String,
    },
    /// A captured column's type has no Delta type.
    #[error(
        "column {column} has type {source_type}, which this version of sluice cannot read: leave it out (columns = […]), or make a capture instance without it (EXEC sys.sp_cdc_enable_table … @captured_column_list) and name that one"
    )]
    UnsupportedType {
        /// The column.
        column: String,
        /// Its type.
        source_type: String,
    },
    /// A column's name clashes with a metadata column or with another column.
    #[error(
        "column {column} {reason}: leave it out (columns = […]), or make a capture instance without it (EXEC sys.sp_cdc_enable_table … @captured_column_list) and name that one"
    )]
    ColumnName {
        /// The column.
        column: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// A column has one type in an instance and another in the one that takes over.
    #[error(
        "column {column} is {was} in capture instance {earlier} and {is} in {later}: it was dropped and added again, and one bronze table cannot hold both. Nothing of what follows was read. Leave it out (columns = […]), or give the table a new target, app_id and checkpoint with capture_instance = \"{later}\", and keep the old target as history"
    )]
    ColumnOfTwoTypes {
        /// The column.
        column: String,
        /// The instance that is read first.
        earlier: CaptureInstance,
        /// Its type there.
        was: String,
        /// The instance that takes over.
        later: CaptureInstance,
        /// Its type there.
        is: String,
    },
    /// `columns` names a column that is not captured.
    #[error(
        "columns names {column}, which {capture_instance} does not capture{}: correct the name, or make a capture instance with it",
        nearest.as_ref().map(|n| format!(" (the nearest is {n})")).unwrap_or_default()
    )]
    UnknownColumn {
        /// The name.
        column: String,
        /// The table.
        capture_instance: CaptureInstance,
        /// The nearest captured column.
        nearest: Option<String>,
    },
    /// The configured zone is not that of the server's clock.
    #[error(
        "source.source_time_zone = {zone} is {zone_offset} from UTC now, and the server's clock is {server_offset}: set it to the zone of the server's clock (its operating system's), or leave it out for SQL Server 2022 and Azure SQL, which name their zone"
    )]
    OtherZone {
        /// The configured zone.
        zone: String,
        /// Its present distance from UTC.
        zone_offset: String,
        /// The server's.
        server_offset: String,
    },
    /// `starting_lsn` names an LSN that the table does not have.
    #[error(
        "starting_lsn = {starting} of {capture_instance} {problem}: set it to an LSN from {min_lsn} to {max_lsn}, to \"earliest\" or to \"latest\""
    )]
    StartingLsn {
        /// The table.
        capture_instance: CaptureInstance,
        /// The setting.
        starting: Lsn,
        /// What is wrong with it.
        problem: &'static str,
        /// The first LSN that is left.
        min_lsn: Lsn,
        /// The last.
        max_lsn: Lsn,
    },
    /// Capture has not written an entry yet.
    #[error(
        "capture has not processed any commit of database {database} yet: is the capture job running (SQL Server Agent)?"
    )]
    NotCaptured {
        /// The database.
        database: String,
    },
    /// `min_lsn` is zeros, though the login sees the instance.
    #[error(
        "capture has not reached {capture_instance} yet, so there is nothing to read: is the capture job running (SQL Server Agent)?"
    )]
    NotReached {
        /// The table.
        capture_instance: CaptureInstance,
    },
    /// Changes were cleaned up before they were read.
    #[error(
        "changes of {capture_instance} are lost: the next commit to read is from {from}, but the change table begins at {min_lsn}; they were cleaned up before they were read (CDC retention), or CDC was disabled and enabled again. Bronze is complete up to {up_to}. To go on with what is left, set on_data_loss = \"skip\", which records the gap in the facts, or give the table a new target, app_id and checkpoint, and keep the old target as history"
    )]
    Purged {
        /// The table.
        capture_instance: CaptureInstance,
        /// The first LSN that was to be read.
        from: Lsn,
        /// The last commit that is safely in bronze.
        up_to: String,
        /// The first LSN that is left.
        min_lsn: Lsn,
    },
    /// The server's log went back: a restored backup, or a replica that lags.
    #[error(
        "the source's max_lsn {max_lsn} is below the position {position} of {capture_instance}: a readable secondary that lags has answered, or the database was restored, created again or failed over to an older copy. Nothing of it was written. If a secondary lags, start again once it has caught up; else point source.server at the current primary, or give the table a new target, app_id and checkpoint"
    )]
    WentBack {
        /// The table.
        capture_instance: CaptureInstance,
        /// What the server says.
        max_lsn: Lsn,
        /// Where the stream is, or where the batch ends that it has planned.
        position: Lsn,
    },
    /// The server's log is another one.
    #[error(
        "the source does not know commit {end}, up to which {capture_instance} was read or planned: the database was restored or made anew, or is another one. Nothing was written; point source.server at the right server, or give the table a new target, app_id and checkpoint"
    )]
    OtherHistory {
        /// The table.
        capture_instance: CaptureInstance,
        /// The batch's last commit.
        end: Lsn,
    },
    /// Any other error of the server.
    #[error("SQL Server error {number} while {doing}: {message}{}", retry_policy::hint(*number))]
    Server {
        /// The error's number.
        number: u32,
        /// Its text.
        message: String,
        /// What sluice was doing.
        doing: String,
    },
    /// The connection broke.
    #[error("the connection broke while {doing}: {reason}")]
    Broken {
        /// What sluice was doing.
        doing: String,
        /// What the system said.
        reason: String,
    },
    /// Nothing came in time.
    #[error("no answer within {seconds} s while {doing}")]
    Timeout {
        /// What sluice was doing.
        doing: String,
        /// The time that was waited.
        seconds: u64,
    },
    /// An answer did not have the expected form.
    #[error("the server's answer while {doing} has an unexpected form: {reason}")]
    Unexpected {
        /// What sluice was doing.
        doing: String,
        /// What was wrong.
        reason: String,
    },
    /// The rows themselves.
    #[error(transparent)]
    Batch(#[from] BatchError),
}

/// A capture instance that the login does not see.
#[derive(Debug, thiserror::Error)]
#[error(
    "database {database} shows user {user} no capture instance {capture_instance}{}. Correct capture_instance; or run EXEC sys.sp_cdc_enable_table for its table; or, if it exists, let this login see it: {grant}, and make it a member of the gating role where there is one (sluice check --grants says how){}",
    nearest.as_ref().map(|n| format!(" (the nearest is {n})")).unwrap_or_default(),
    if known.is_empty() { String::new() } else { format!(" (it sees: {})", known.join(", ")) }
)]
pub struct UnknownInstance {
    /// The database.
    pub database: String,
    /// What was asked for.
    pub capture_instance: CaptureInstance,
    /// The nearest known name.
    pub nearest: Option<String>,
    /// The first few that the login can see.
    pub known: Vec<String>,
    /// The user.
    pub user: String,
    /// The statement that shows the instance to the login, if it exists.
    pub grant: String,
}

impl Classify for SourceError {
    fn kind(&self) -> ErrorKind {
        match self {
            SourceError::Login { .. }
            | SourceError::TokenLogin { .. }
            | SourceError::Database { .. }
            | SourceError::CdcNotEnabled { .. }
            | SourceError::UnknownInstance(_)
            | SourceError::AmbiguousInstance { .. }
            | SourceError::Permission { .. }
            | SourceError::UnsupportedType { .. }
            | SourceError::ColumnName { .. }
            | SourceError::UnknownColumn { .. }
            | SourceError::OtherZone { .. }
            | SourceError::StartingLsn { .. }
            | SourceError::Tls { .. }
            | SourceError::Token { transient: false, .. } => ErrorKind::Config,
            SourceError::ColumnOfTwoTypes { .. } => ErrorKind::SchemaChanged,
            SourceError::Connect { .. }
            | SourceError::Browser { .. }
            | SourceError::Token { transient: true, .. }
            | SourceError::DatabaseAway { .. }
            | SourceError::NotCaptured { .. }
            | SourceError::NotReached { .. }
            | SourceError::Broken { .. }
            | SourceError::Timeout { .. } => ErrorKind::Retryable,
            SourceError::Purged { .. } => ErrorKind::DataLoss,
            SourceError::WentBack { .. } | SourceError::OtherHistory { .. } => ErrorKind::State,
            SourceError::Server { number, .. } => retry_policy::kind_of(*number),
            SourceError::Unexpected { .. } => ErrorKind::Internal,
            SourceError::Batch(error) => error.kind(),
        }
    }
}

/// What to do about a failure of TLS, by what the library says about it.
fn tls_advice(reason: &str) -> &'static str {
    let lower = reason.to_lowercase();
    if lower.contains("expired") {
        "the server needs a new certificate"
    } else if lower.contains("not yet valid") {
        "compare the clocks of both machines"
    } else if lower.contains("mismatch") && !lower.contains("the expected one") {
        "the certificate is for another name than the one in source.server: if it is the right server, set source.host_name_in_certificate to the certificate's name"
    } else if lower.contains("the expected one") {
        "if the server has a new certificate, put it where source.server_certificate says"
    } else if lower.contains("no encryption") {
        "no login is sent in clear: give the server a certificate"
    } else {
        "set source.ca_file to the PEM file of the authority that signed the server's certificate, or source.server_certificate to the certificate itself when it is self-signed"
    }
}

impl SourceError {
    /// From tiberius.
    pub(super) fn ask(error: tiberius::error::Error, doing: &str) -> SourceError {
        use tiberius::error::Error;
        match error {
            Error::Server(token) => SourceError::server(token.code(), token.message(), doing),
            Error::Io { message, .. } => SourceError::Broken {
                doing: doing.to_owned(),
                reason: message,
            },
            other => SourceError::Broken {
                doing: doing.to_owned(),
                reason: other.to_string(),
            },
        }
    }

    /// From mssql-tds. Its messages about rows can quote data, so only the kind of those is kept.
    pub(super) fn stream(error: mssql_tds::error::Error, doing: &str) -> SourceError {
        use mssql_tds::error::Error;
        let doing = doing.to_owned();
        match error {
            Error::SqlServerError { diagnostics } => match diagnostics.errors.first() {
                Some(first) => SourceError::server(first.number, &first.message, &doing),
                None => SourceError::Broken {
                    doing,
                    reason: "an error without a number".to_owned(),
                },
            },
            Error::TimeoutError(_) => SourceError::Broken {
                doing,
                reason: "timed out".to_owned(),
            },
            Error::Io(error) => SourceError::Broken {
                doing,
                reason: error.to_string(),
            },
            Error::ConnectionClosed(_) => SourceError::Broken {
                doing,
                reason: "closed by the server".to_owned(),
            },
            Error::ConnectionError(_) => SourceError::Broken {
                doing,
                reason: "connection error".to_owned(),
            },
            Error::ProtocolError(_) => SourceError::Broken {
                doing,
                reason: "the server's answer was cut or malformed".to_owned(),
            },
            _ => SourceError::Broken {
                doing,
                reason: "the driver gave up".to_owned(),
            },
        }
    }

    /// Permission errors about the change table of `instance`, with the grant that mends them; others as they are.
    pub(super) fn with_grant(self, instance: &CaptureInstance, user: impl AsRef<str>) -> SourceError {
        match self {
            // 229 is about the object, 230 about a column of it; both name the object.
            SourceError::Server {
                number: 229 | 230,
                message,
                ..
            } if message.contains(&format!("{instance}_CT")) => grants::change_table_denied(instance, user.as_ref()),
            other => other,
        }
    }

    /// Whether it is that the database has no CDC. 22901 is what its procedures say then.
    pub(crate) fn is_cdc_off(&self) -> bool {
        matches!(
            self,
            SourceError::CdcNotEnabled { .. } | SourceError::Server { number: 22901, .. }
        )
    }

    /// Whether somebody answered: the server is there, and only this question failed.
    pub(super) fn was_answered(&self) -> bool {
        !matches!(self, SourceError::Connect { .. } | SourceError::Browser { .. })
    }

    pub(super) fn server(number: u32, message: &str, doing: &str) -> SourceError {
        SourceError::Server {
            number,
            message: retry_policy::words(number, message),
            doing: doing.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tls_says_leads_to_what_helps() {
        for (reason, words) in [
            ("certificate verify failed (certificate has expired)", "new certificate"),
            (
                "certificate verify failed (IP address mismatch)",
                "host_name_in_certificate",
            ),
            (
                "certificate verify failed (self-signed certificate)",
                "source.server_certificate",
            ),
            ("unable to get local issuer certificate", "source.ca_file"),
            (
                "the server's certificate is not the expected one",
                "source.server_certificate says",
            ),
        ] {
            assert!(tls_advice(reason).contains(words), "{reason}");
        }
    }

    #[test]
    fn a_database_that_was_there_is_away_and_one_that_never_was_is_wrong() {
        let away = SourceError::DatabaseAway {
            server: "h".into(),
            database: "d".into(),
        };
        let wrong = SourceError::Database {
            server: "h".into(),
            database: "d".into(),
            who: "user u".into(),
            grant: "CREATE USER [u]".into(),
        };
        assert_eq!((away.kind(), wrong.kind()), (ErrorKind::Retryable, ErrorKind::Config));
    }
}
