//! What can go wrong with the source, and what the operator should do about it.

use super::quote;
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
    /// TLS failed.
    #[error(
        "cannot make a TLS connection to {server}: {reason}; if the server's certificate is self-signed, set source.server_certificate to its PEM file"
    )]
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
    /// Error 4060.
    #[error(
        "database {database} does not exist on {server}, or user {user} may not open it: check source.database, or run CREATE USER {quoted_user} FOR LOGIN {quoted_user} in it"
    )]
    Database {
        /// Host and port.
        server: String,
        /// The database.
        database: String,
        /// The user.
        user: String,
        /// The user's name as T-SQL.
        quoted_user: String,
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
        "column {column} has type {source_type}, which this version of sluice cannot read: make a capture instance without it (EXEC sys.sp_cdc_enable_table … @captured_column_list) and name that one"
    )]
    UnsupportedType {
        /// The column.
        column: String,
        /// Its type.
        source_type: String,
    },
    /// A column's name clashes with a metadata column or with another column.
    #[error(
        "column {column} {reason}: make a capture instance without it (EXEC sys.sp_cdc_enable_table … @captured_column_list) and name that one"
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
        nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default()
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
        "changes of {capture_instance} are lost: the next commit to read is from {from}, but the change table begins at {min_lsn}; they were cleaned up before they were read (CDC retention), or CDC was disabled and enabled again. Bronze is complete up to {up_to}. To go on with what is left, give the table a new target, app_id and checkpoint, and keep the old target as history"
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
        "the source's max_lsn {max_lsn} is below the position {position} of {capture_instance}: the server was restored or failed over to an older copy. Nothing of it was written; point source.server at the current primary, or decide on a new checkpoint and app_id"
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
    #[error("SQL Server error {number} while {doing}: {message}")]
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
    "database {database} shows user {user} no capture instance {capture_instance}{}. Correct capture_instance; or run EXEC sys.sp_cdc_enable_table for its table; or, if it exists, let this login see it: {grant}{}",
    nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default(),
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
            | SourceError::Tls { .. } => ErrorKind::Config,
            SourceError::ColumnOfTwoTypes { .. } => ErrorKind::SchemaChanged,
            SourceError::Connect { .. }
            | SourceError::NotCaptured { .. }
            | SourceError::NotReached { .. }
            | SourceError::Broken { .. }
            | SourceError::Timeout { .. } => ErrorKind::Retryable,
            SourceError::Purged { .. } => ErrorKind::DataLoss,
            SourceError::WentBack { .. } | SourceError::OtherHistory { .. } => ErrorKind::State,
            SourceError::Server { number, .. } => kind_of_number(*number),
            SourceError::Unexpected { .. } => ErrorKind::Internal,
            SourceError::Batch(error) => error.kind(),
        }
    }
}

/// Transient errors come from Microsoft's documentation ("Troubleshoot transient connection errors", and the list of
/// resource-governance errors of Azure SQL).
fn kind_of_number(number: u32) -> ErrorKind {
    match number {
        // Deadlock victim, lock time-out, and the transient errors of Azure SQL.
        1205 | 1222 | 40197 | 40501 | 40613 | 49918 | 49919 | 49920 | 10928 | 10929 => ErrorKind::Retryable,
        // Permission, object, CDC not enabled.
        229 | 230 | 208 | 22901 | 22981 | 18456 | 4060 | 916 => ErrorKind::Config,
        // Invalid column name: the table changed under the stream.
        207 => ErrorKind::SchemaChanged,
        _ => ErrorKind::Internal,
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
    pub(super) fn with_grant(self, instance: &CaptureInstance, user: &str) -> SourceError {
        match self {
            // 229 is about the object, 230 about a column of it; both name the object.
            SourceError::Server {
                number: 229 | 230,
                message,
                ..
            } if message.contains(&format!("{instance}_CT")) => {
                let object = quote::change_table(&instance.0);
                SourceError::Permission {
                    grant: format!("GRANT SELECT ON {object} TO {}", quote::name(user)),
                    object,
                    user: user.to_owned(),
                }
            }
            other => other,
        }
    }

    fn server(number: u32, message: &str, doing: &str) -> SourceError {
        SourceError::Server {
            number,
            message: message.to_owned(),
            doing: doing.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transient_numbers_are_retried_and_final_ones_are_not() {
        for number in [1205, 1222, 40197, 40501, 40613, 49918, 49919, 49920, 10928, 10929] {
            assert_eq!(kind_of_number(number), ErrorKind::Retryable, "{number}");
        }
        for number in [18456, 229, 208, 22901, 22981, 4060] {
            assert_eq!(kind_of_number(number), ErrorKind::Config, "{number}");
        }
        assert_eq!(kind_of_number(207), ErrorKind::SchemaChanged);
        assert_eq!(kind_of_number(8134), ErrorKind::Internal);
    }
}
