//! What the stand-in alone does: faults on demand, and a list of who logged in.

use std::time::{Duration, Instant};

use super::server::Server;

/// How long faults may wait for their moment.
const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(20);

/// A part of the text of what the poller asks first, over tiberius.
pub const POLL: &str = "SELECT @max";
/// A part of the text of what a plan asks first, over tiberius.
pub const PLAN: &str = "SELECT MIN([__$start_lsn])";
/// A part of the text that reads change rows, over mssql-tds.
pub const READ: &str = "ORDER BY [__$start_lsn], [__$command_id]";

/// A fault for `reader`.
pub async fn fault(server: &Server, kind: &str, rest: &str) {
    server
        .exec(
            "master",
            &format!("EXEC sim.fault @kind = N'{kind}', @login = N'reader'{rest}"),
        )
        .await;
}

/// Has a batch run in `sales` when change rows are read next: with `sql_before`, before they come; with `sql_after_rows`,
/// after the first of them.
pub async fn with_the_next_read(server: &Server, kind: &str, sql: &str) {
    let sql = sql.replace('\'', "''");
    let rest = format!(", @rows = 1, @match = N'{READ}', @database = N'sales', @sql = N'{sql}'");
    fault(server, kind, &rest).await;
}

/// Forgets the faults that wait, and lets go on who waits behind one.
pub async fn clear_faults(server: &Server) {
    server.exec("master", "EXEC sim.fault @kind = N'clear'").await;
}

/// Waits until every fault has happened.
pub async fn until_no_fault_waits(server: &Server) {
    until(server, |faults| faults.waiting == 0).await;
}

/// Waits until so many requests, or more, are blocked behind faults at the same time. How many they are.
pub async fn until_blocked(server: &Server, requests: i32) -> i32 {
    until(server, |faults| faults.blocked >= requests).await.blocked
}

/// The state of faults.
#[derive(Debug)]
struct Faults {
    /// Those that wait for their moment.
    waiting: i32,
    /// Requests that wait behind one.
    blocked: i32,
}

async fn until(server: &Server, fits: impl Fn(&Faults) -> bool) -> Faults {
    let patience = Instant::now() + PATIENCE;
    loop {
        let rows = server.query("master", "EXEC sim.fault @kind = N'state'").await;
        let count = |column: &str| rows[0].get::<i32, _>(column).expect("a number");
        let faults = Faults {
            waiting: count("waiting"),
            blocked: count("blocked"),
        };
        if fits(&faults) {
            return faults;
        }
        assert!(Instant::now() < patience, "{faults:?}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// One login that the server has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub server: String,
    pub application: String,
    pub read_only: bool,
    pub token: bool,
}

/// The logins of everybody but the administrator, the oldest first.
pub async fn logins(server: &Server) -> Vec<Login> {
    let text = |row: &tiberius::Row, column: &str| row.get::<&str, _>(column).unwrap_or_default().to_owned();
    server
        .query("master", "EXEC sim.logins")
        .await
        .iter()
        .map(|row| Login {
            user: text(row, "login_name"),
            server: text(row, "server_name"),
            application: text(row, "application_name"),
            read_only: row.get::<i32, _>("read_only") == Some(1),
            token: row.get::<i32, _>("token") == Some(1),
        })
        .filter(|login| login.user != "sa")
        .collect()
}
