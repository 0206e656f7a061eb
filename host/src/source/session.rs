//! What every connection of either driver sets when it has logged in. Neither driver resets a session between two
//! statements, so it holds for as long as the connection.

use crate::config::SourceSettings;

/// The batch. SET options of a statement that is sent with parameters end with it, so this is sent as a batch.
///
/// `LOCK_TIMEOUT`: capture and cleanup take locks on the tables that are read; a statement that waits for one longer ends
/// with 1222, which is tried again, rather than with a time-out that costs the connection.
///
/// `DEADLOCK_PRIORITY LOW`: of two that wait for one another, the reader is ended. It only reads and asks again; capture,
/// cleanup and the application would lose work.
///
/// `LANGUAGE`: messages are the documented ones, whatever the login's default is. tiberius asks for none when it logs in.
pub(super) fn settings(settings: &SourceSettings) -> String {
    let lock_timeout_ms = match settings.lock_timeout {
        // T-SQL: -1 waits for ever. More than a 32-bit int of milliseconds is not taken.
        None => -1,
        Some(time) => i64::try_from(time.as_millis())
            .unwrap_or(i64::MAX)
            .clamp(1, i64::from(i32::MAX)),
    };
    format!("SET LOCK_TIMEOUT {lock_timeout_ms}; SET DEADLOCK_PRIORITY LOW; SET LANGUAGE us_english;")
}

/// The name under which the login is a user of the database: whom grants are for.
pub(super) const WHO: &str = "SELECT USER_NAME()";

/// What stands for the name of an access token's user until it is known.
const TOKEN_USER: &str = "name of the token's user";

impl SourceSettings {
    /// The login's name as a user of the database: whom grants are for. Before the first login, and for a login that is no
    /// user there, the login's own.
    pub(crate) fn database_user(&self) -> String {
        let login = match self.user.as_str() {
            "" => TOKEN_USER,
            login => login,
        };
        self.learned.principal().unwrap_or_else(|| login.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_lock_is_waited_for_as_long_as_the_configuration_says() {
        let mut source = SourceSettings::for_test("server = \"h\"\ndatabase = \"d\"\nuser = \"u\"\npassword = \"p\"\n");
        assert_eq!(
            settings(&source),
            "SET LOCK_TIMEOUT 30000; SET DEADLOCK_PRIORITY LOW; SET LANGUAGE us_english;"
        );
        source.lock_timeout = None;
        assert!(settings(&source).starts_with("SET LOCK_TIMEOUT -1;"));
        source.lock_timeout = Some(Duration::from_micros(10));
        assert!(settings(&source).starts_with("SET LOCK_TIMEOUT 1;"));
    }
}
