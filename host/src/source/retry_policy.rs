//! Which errors of SQL Server pass by themselves, which need a person, and what that person should do. One table, by
//! number; how often and after which pause a transient one is tried again is in [`crate::retry`].

use crate::error::{Classify, ErrorKind};
use crate::retry;

use super::error::SourceError;

/// What is known of some error numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    numbers: &'static [u32],
    kind: ErrorKind,
    /// Where they are documented.
    page: Page,
    /// What to do, or what it means when it stays. Empty: the server's words say it.
    hint: &'static str,
}

/// Pages of learn.microsoft.com, unless another place is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    /// azure-sql/database/troubleshoot-common-errors-issues: transient faults, resource governance, logins.
    Azure,
    /// github.com/dotnet/efcore, SqlServerTransientExceptionDetector.cs: what EF Core takes for transient.
    EfCore,
    /// sql/relational-databases/errors-events/database-engine-events-and-errors: every number with its text.
    Events,
    /// sql/relational-databases/errors-events/mssqlserver-NUMBER-database-engine-error: a page of its own.
    Own,
    /// dotnet/api/microsoft.data.sqlclient.sqlconfigurableretryfactory: what SqlClient itself takes for transient.
    SqlClient,
}

const fn transient(numbers: &'static [u32], page: Page, hint: &'static str) -> Rule {
    other(numbers, ErrorKind::Retryable, page, hint)
}

const fn wrong(numbers: &'static [u32], page: Page, hint: &'static str) -> Rule {
    other(numbers, ErrorKind::Config, page, hint)
}

const fn other(numbers: &'static [u32], kind: ErrorKind, page: Page, hint: &'static str) -> Rule {
    Rule {
        numbers,
        kind,
        page,
        hint,
    }
}

const BUSY: &str =
    "the server is at a limit of its service tier; if it stays, lower limits.connections or raise the tier";
const MOVING: &str = "the database is being moved or started; if it stays, look at its state";
const RECOVERY: &str = "the database is not open yet; if it stays, look at its state (sys.databases)";
const MEMORY: &str = "the server is short of memory or locks; if it stays, its administrator has to look";
const GRANTS: &str = "sluice check --grants prints the statements that give what is missing";
const CDC_OFF: &str = "CDC is not enabled there: sys.sp_cdc_enable_db, sys.sp_cdc_enable_table";
const DAMAGED: &str = "the database is damaged: its administrator has to run DBCC CHECKDB";

#[rustfmt::skip]
const RULES: &[Rule] = &[
    // The connection.
    transient(&[233], Page::SqlClient, "the server closed the connection while it was being made"),
    transient(&[596], Page::Events, "the session was ended (KILL), or its database went away"),
    transient(&[997], Page::SqlClient, ""),
    transient(&[6005], Page::Events, "the server is being shut down"),
    transient(&[10053], Page::Events, "the network broke the connection"),
    transient(&[10054], Page::Events, "the server, or something on the way, broke the connection"),
    transient(&[10060], Page::SqlClient, "the server does not answer"),

    // A login.
    transient(&[17142], Page::Own, "the server is paused"),
    transient(&[17187], Page::Events, "the server is starting"),
    transient(&[17189], Page::Events, MEMORY),
    transient(&[17197], Page::Own, "the login took too long: the server is busy, or the network slow"),
    transient(&[17830], Page::Events, "the network broke the login"),
    transient(&[18401], Page::Events, "the server is upgrading itself"),
    transient(&[40623], Page::EfCore, "the login became invalid while it was in use; logging in again says why"),
    wrong(&[18451], Page::Events, "the server takes administrators alone at this time"),
    wrong(&[18452], Page::Events, "the login is of a domain that the server does not trust; use a SQL login or a token"),
    wrong(&[18456], Page::Own, "check source.user and source.password"),
    wrong(&[18461], Page::Events, "the server is in single-user mode"),
    wrong(&[18470], Page::Events, "the login is disabled: ALTER LOGIN … ENABLE"),
    wrong(&[18486], Page::Events, "the login is locked out: ALTER LOGIN … WITH PASSWORD = … UNLOCK"),
    wrong(&[18487], Page::Events, "the password has expired: ALTER LOGIN … WITH PASSWORD = …"),
    wrong(&[18488], Page::Events, "the password has to be changed: ALTER LOGIN … WITH PASSWORD = …"),
    wrong(&[40532], Page::Azure, "the gateway does not know the server: check source.server"),
    wrong(&[40615], Page::Azure, "the server's firewall does not let this machine in: add a rule for its address"),
    wrong(&[40914], Page::Azure, "the server takes connections of its virtual networks alone: add a rule or an endpoint"),
    wrong(&[47073], Page::Azure, "the server has no public endpoint: connect through its private one"),

    // The database, and the replica that has it.
    transient(&[615, 40166, 40197, 40613], Page::Azure, MOVING),
    transient(&[40143, 40540], Page::SqlClient, MOVING),
    transient(&[952, 40671, 49802], Page::EfCore, MOVING),
    transient(&[921, 922, 927], Page::Events, RECOVERY),
    transient(&[926], Page::Azure, RECOVERY),
    transient(&[941], Page::EfCore, RECOVERY),
    transient(&[982], Page::Events, "the replica that can be read is not ready"),
    transient(&[983], Page::Own, "the availability group fails over, or this replica does not follow it"),
    transient(&[988], Page::EfCore, "the availability group lacks a quorum of nodes; if it stays, its administrator has to look"),
    transient(&[3947, 3948], Page::EfCore, "the replica that is read lags, or changes its role"),
    transient(&[4060], Page::Azure, "the database cannot be opened, though this process was in it before: it fails over, or was taken away"),
    transient(&[4221], Page::Azure, "a readable secondary waits for transactions of the primary to end"),
    wrong(&[911], Page::Events, "check source.database"),
    wrong(&[916], Page::Own, "the login is no user of the database; sluice check --grants prints what makes it one"),
    wrong(&[924], Page::Events, "the database is in single-user mode"),
    wrong(&[942], Page::Events, "the database is offline"),
    wrong(&[976], Page::Events, "this replica cannot be read: allow connections to the secondary, or name the listener as source.server"),
    wrong(&[978], Page::Events, "this replica is read by read-intent connections alone: set source.application_intent = \"ReadOnly\""),
    wrong(&[979], Page::Events, "this replica takes no read-intent connections: set source.application_intent = \"ReadWrite\", or name a secondary that can be read as source.server"),

    // A statement.
    transient(&[601], Page::Events, "rows moved while they were read"),
    transient(&[617, 669, 2816, 3966], Page::EfCore, ""),
    transient(&[701, 802, 1204, 8645, 8651], Page::Own, MEMORY),
    transient(&[8628], Page::Events, MEMORY),
    transient(&[845], Page::Own, "the server's disks are slow"),
    transient(&[1205], Page::Own, "sluice was the victim of a deadlock and asks again"),
    transient(&[1222], Page::Own, "somebody held a lock for longer than source.lock_timeout; if it stays, look for a long transaction"),
    transient(&[9001], Page::Own, "the database's log is away; if it stays, look at the server's error log"),
    wrong(&[208], Page::Own, "a table is gone, or this login may not see it; sluice check says which"),
    wrong(&[229], Page::Own, GRANTS),
    wrong(&[230, 297, 300, 22831, 22904], Page::Events, GRANTS),
    wrong(&[22901, 22981], Page::Events, CDC_OFF),
    other(&[207], ErrorKind::SchemaChanged, Page::Own, "a captured column is not what it was when the stream opened"),
    other(&[823, 824], ErrorKind::Internal, Page::Own, DAMAGED),

    // Limits of Azure SQL.
    transient(&[10928, 10929, 10936, 40501, 40550, 40551, 40552, 40553, 49918, 49919, 49920], Page::Azure, BUSY),
    transient(&[10930, 40189, 40642, 40648, 40675, 40903], Page::EfCore, BUSY),
    transient(&[40544], Page::Azure, "the database is full, and its owner has to make room"),
    transient(&[40549], Page::Azure, "a transaction ran too long"),
    transient(&[42108, 42109], Page::SqlClient, "the pool is being started"),
];

/// Errors whose text quotes a value of a row: the text is left out.
const QUOTES_VALUES: &[u32] = &[220, 241, 242, 244, 245, 246, 248, 295, 2601, 2627, 2628, 8114, 13609];

/// What is known of a number. One that is not here is a fault until somebody looks: `internal`.
fn rule(number: u32) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.numbers.contains(&number))
}

/// The kind of an error number.
pub(super) fn kind_of(number: u32) -> ErrorKind {
    rule(number).map_or(ErrorKind::Internal, |rule| rule.kind)
}

/// `; HINT`, or nothing.
pub(super) fn hint(number: u32) -> String {
    match rule(number) {
        Some(rule) if !rule.hint.is_empty() => format!("; {}", rule.hint),
        _ => String::new(),
    }
}

/// The server's words, unless they quote a value of a row.
pub(super) fn words(number: u32, message: &str) -> String {
    if QUOTES_VALUES.contains(&number) {
        "its text is not shown, because it quotes a value".to_owned()
    } else {
        message.trim().to_owned()
    }
}

/// Asks again, after pauses and on a new connection, while the server says that it will pass. For what a process asks at
/// its start, before any table has a loop of its own. A server that does not answer at all is not waited for: at the
/// start, its name may be wrong.
pub async fn persist<T, F>(mut ask: impl FnMut() -> F) -> Result<T, SourceError>
where
    F: Future<Output = Result<T, SourceError>>,
{
    let mut failures = 0;
    loop {
        let error = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        failures += 1;
        match retry::pause(error.kind(), failures) {
            Some(pause) if error.was_answered() => {
                tracing::warn!(failures, %error, "asking again");
                tokio::time::sleep(pause).await;
            }
            _ => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transient_numbers_are_retried_and_final_ones_are_not() {
        for number in [
            1205, 1222, 40197, 40501, 40613, 49918, 49919, 49920, 10928, 10929, 4060, 4221, 983, 18401,
        ] {
            assert_eq!(kind_of(number), ErrorKind::Retryable, "{number}");
        }
        for number in [18456, 229, 230, 208, 22901, 22981, 916, 40615, 18487, 976, 978, 979] {
            assert_eq!(kind_of(number), ErrorKind::Config, "{number}");
        }
        assert_eq!(kind_of(207), ErrorKind::SchemaChanged);
        assert_eq!(kind_of(824), ErrorKind::Internal);
        assert_eq!(kind_of(8134), ErrorKind::Internal);
    }

    #[test]
    fn what_an_availability_group_or_azure_says_in_a_fail_over_is_retried() {
        for number in [
            617, 669, 941, 952, 988, 2816, 3947, 3948, 3966, 10930, 40189, 40623, 40642, 40648, 40671, 40675, 40903,
            49802,
        ] {
            assert_eq!(kind_of(number), ErrorKind::Retryable, "{number}");
        }
    }

    #[test]
    fn each_number_has_one_rule_and_final_ones_say_what_to_do() {
        let mut known = std::collections::BTreeSet::new();
        for rule in RULES {
            for number in rule.numbers {
                assert!(known.insert(number), "{number} twice");
                assert!(rule.kind == ErrorKind::Retryable || !rule.hint.is_empty(), "{number}");
                assert!(!rule.hint.ends_with('.'), "{number}");
            }
        }
    }

    #[test]
    fn a_text_that_quotes_a_value_is_not_repeated() {
        let text = "Conversion failed when converting the nvarchar value 'hunter2' to data type int.";
        assert!(!words(245, text).contains("hunter2"));
        assert_eq!(words(208, "Invalid object name 'x'."), "Invalid object name 'x'.");
    }

    #[tokio::test]
    async fn a_deadlock_is_asked_again_and_a_refusal_is_not() {
        let server = |number| SourceError::Server {
            number,
            message: String::new(),
            doing: "asking".to_owned(),
        };
        let away = || SourceError::Connect {
            server: "h,1433".to_owned(),
            reason: "refused".to_owned(),
        };
        let asked = std::cell::Cell::new(0);
        let ask = |error: SourceError, until: u32| {
            asked.set(asked.get() + 1);
            let answer = if asked.get() < until {
                Err(error)
            } else {
                Ok(asked.get())
            };
            async move { answer }
        };
        assert_eq!(persist(|| ask(server(1205), 3)).await.unwrap(), 3);
        asked.set(0);
        assert!(persist(|| ask(server(229), 3)).await.is_err());
        assert_eq!(asked.get(), 1);
        assert!(persist(|| ask(away(), 9)).await.is_err());
        assert_eq!(asked.get(), 2);
    }
}
