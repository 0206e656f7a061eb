//! The messages that the wire itself sends, with SQL Server's numbers, classes and words.

use mssql_sim_engine::result::SqlError;

/// A message with no line.
fn message(number: i32, class: u8, message: impl Into<String>) -> SqlError {
    SqlError {
        number,
        state: 1,
        class,
        message: message.into(),
        line: 1,
        procedure: String::new(),
    }
}

/// An error in the request itself that SQL Server would put into words of its own.
pub(crate) fn refused(text: impl Into<String>) -> SqlError {
    message(50_000, 16, text)
}

pub(crate) fn malformed_request(detail: &str) -> SqlError {
    let text = "The incoming tabular data stream (TDS) protocol stream is incorrect.";
    message(4002, 16, format!("{text} The stream ended unexpectedly. ({detail})"))
}

pub(crate) fn syntax(text: impl Into<String>) -> SqlError {
    message(102, 15, text)
}

pub(crate) fn missing_parameter(text: impl Into<String>) -> SqlError {
    message(8178, 16, text)
}

pub(crate) fn no_such_procedure(name: &str) -> SqlError {
    let mut error = message(2812, 16, format!("Could not find stored procedure '{name}'."));
    error.state = 62;
    error
}

pub(crate) fn no_such_handle(handle: i64) -> SqlError {
    message(
        8179,
        16,
        format!("Could not find prepared statement with handle {handle}."),
    )
}

pub(crate) fn only_for_admin(procedure: &str) -> SqlError {
    let text =
        format!("The EXECUTE permission was denied on the object '{procedure}', database 'master', schema 'sim'.");
    let mut error = message(229, 14, text);
    error.state = 5;
    error
}

pub(crate) fn login_failed(user: &str) -> SqlError {
    message(18456, 14, format!("Login failed for user '{user}'."))
}

pub(crate) fn wrong_echo(user: &str) -> SqlError {
    let mut error = login_failed(user);
    error
        .message
        .push_str(" (mssql-sim: fFedAuthEcho is not what its prelogin said.)");
    error
}

pub(crate) fn untrusted_domain() -> SqlError {
    let text = "Login failed. The login is from an untrusted domain and cannot be used with Integrated authentication.";
    message(18452, 14, text)
}

pub(crate) fn old_client() -> SqlError {
    message(
        17892,
        20,
        "mssql-sim speaks TDS 7.3B and later; ask the client for TDS 7.4.",
    )
}

pub(crate) fn database_context(database: &str) -> SqlError {
    let mut info = message(5701, 0, format!("Changed database context to '{database}'."));
    info.state = 2;
    info
}

pub(crate) fn language_setting(language: &str) -> SqlError {
    message(5703, 0, format!("Changed language setting to {language}."))
}

/// An error that a fault put here. `process` is the session's number, for the messages that name it.
pub(crate) fn injected(number: i32, text: Option<&str>, process: i64, user: &str) -> SqlError {
    let (class, state, known) = match number {
        1205 => (
            13,
            51,
            format!(
                "Transaction (Process ID {process}) was deadlocked on lock resources with another process and has been \
                 chosen as the deadlock victim. Rerun the transaction."
            ),
        ),
        1222 => (16, 56, "Lock request time out period exceeded.".to_owned()),
        4060 => (
            11,
            1,
            "Cannot open database requested by the login. The login failed.".to_owned(),
        ),
        18456 => (14, 1, format!("Login failed for user '{user}'.")),
        10928 | 10929 => (
            20,
            1,
            "Resource ID: 1. The request limit for the database has been reached. See \
             'http://go.microsoft.com/fwlink/?LinkId=267637' for assistance."
                .to_owned(),
        ),
        40197 => (
            17,
            1,
            "The service has encountered an error processing your request. Please try again. Error code 4221."
                .to_owned(),
        ),
        40501 => (
            20,
            1,
            "The service is currently busy. Retry the request after 10 seconds. Code: 131075.".to_owned(),
        ),
        40613 => (
            17,
            1,
            "Database on server is not currently available. Please retry the connection later.".to_owned(),
        ),
        49918..=49920 => (
            16,
            1,
            "Cannot process request. Not enough resources to process request.".to_owned(),
        ),
        _ => (16, 1, format!("Error {number} was put here by sim.fault.")),
    };
    let mut error = message(number, class, text.map_or(known, str::to_owned));
    error.state = state;
    error
}
